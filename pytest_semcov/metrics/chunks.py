"""Scores of a fixed model on disjoint chunks of the images, as published for DEDUCE.

The paper calls this ten-fold cross-validation; nothing is trained. It is here so that published numbers can
be compared; intervals to decide by come from :mod:`pytest_semcov.metrics.resampling`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.arguments import require_whole
from pytest_semcov.metrics.arrays import Doubles
from pytest_semcov.metrics.classification import accuracy, count_classes, f1_binary
from pytest_semcov.metrics.resampling import Draws

CHUNKS = 10
CHUNK_SEED = 42


@dataclass(frozen=True, slots=True, eq=False)
class ChunkScores:
    """Scores of each chunk.

    Parameters
    ----------
    accuracy, precision, recall, f1
        ``(chunks,)`` in [0, 1]; precision, recall and F1 of the positive class, 0 where they have no value.
    """

    accuracy: Doubles
    precision: Doubles
    recall: Doubles
    f1: Doubles

    def summary(self) -> dict[str, tuple[float, float]]:
        """Return mean and population standard deviation over chunks, by score.

        The paper prints 1.96 times the deviation as a 95 % interval. That is the spread of a chunk's score,
        not the uncertainty of the mean.
        """
        return {
            name: (float(np.mean(values)), float(np.std(values)))
            for name in ("f1", "accuracy", "precision", "recall")
            for values in (getattr(self, name),)
        }


def chunk_draws(images: int, *, chunks: int = CHUNKS, seed: int = CHUNK_SEED) -> Draws:
    """Share images out among chunks, shuffled, as scikit-learn's ``KFold`` does.

    Returns
    -------
    draws
        ``(chunks, images)`` of 0 and 1; each image is in one chunk.

    Raises
    ------
    TooFewError
        If there are fewer images than chunks.
    """
    from sklearn.model_selection import KFold

    require_whole("chunks", chunks, least=2)
    if images < chunks:
        raise TooFewError(f"{images} images for {chunks} chunks: need one each at least")
    draws = np.zeros((chunks, images), np.int32)
    parts = KFold(chunks, shuffle=True, random_state=seed).split(np.empty(images))
    for number, (_, chosen) in enumerate(parts):
        draws[number, chosen] = 1
    return draws


def chunk_scores(
    truth: ArrayLike,
    predicted: ArrayLike,
    *,
    positive: int = 1,
    chunks: int = CHUNKS,
    seed: int = CHUNK_SEED,
) -> ChunkScores:
    """Score a classifier of two classes chunk by chunk, classes balanced within each chunk.

    Parameters
    ----------
    truth, predicted
        ``(n,)`` class numbers, 0 or 1.
    positive
        The class of precision, recall and F1; the paper's is "empty", number 1.
    chunks, seed
        As in :func:`chunk_draws`; defaults as published.

    Raises
    ------
    ArgumentError
        If the arguments do not fit together.
    TooFewError
        If there are fewer images than chunks.
    """
    known = np.asarray(truth)
    counts = count_classes(
        known,
        predicted,
        2,
        weights=chunk_draws(len(known), chunks=chunks, seed=seed),
        class_weighting="balanced",
    )
    return ChunkScores(
        accuracy(counts),
        _share(counts.hits[:, positive], counts.predicted[:, positive]),
        _share(counts.hits[:, positive], counts.true[:, positive]),
        f1_binary(counts, positive=positive),
    )


def _share(part: Doubles, whole: Doubles) -> Doubles:
    share: Doubles = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return share
