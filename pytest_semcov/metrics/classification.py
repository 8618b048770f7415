"""Scores of a classifier, for many weightings of the images at once.

Each score takes ``weights``: one row of non-negative numbers per resample of the images (how often an image
was drawn), so that a bootstrap of any score is one call. Without weights every image counts once, and the
scores are those of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.arguments import require_whole
from pytest_semcov.metrics.arrays import Doubles, Indices

ClassWeighting = Literal["none", "balanced"]

CALIBRATION_BINS = 15
"""Number of bins of the calibration error, as in Guo et al. (2017)."""

_BLOCK_VALUES = 8_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ClassCounts:
    """Weighted counts per class, one row a resample.

    Parameters
    ----------
    hits
        ``(resamples, classes)``: images of the class that were predicted as it.
    true
        ``(resamples, classes)``: images of the class.
    predicted
        ``(resamples, classes)``: images predicted as the class.
    unit
        ``(resamples, classes)``: what one image of the class weighs if it was drawn once.
    """

    hits: Doubles
    true: Doubles
    predicted: Doubles
    unit: Doubles


def count_classes(
    truth: ArrayLike,
    predicted: ArrayLike,
    classes: int,
    *,
    weights: ArrayLike | None = None,
    class_weighting: ClassWeighting = "none",
) -> ClassCounts:
    """Count hits, true and predicted images per class.

    Parameters
    ----------
    truth, predicted
        ``(n,)`` class numbers from 0 to ``classes`` - 1.
    classes
        Number of classes.
    weights
        ``(resamples, n)`` non-negative; ``None`` = one resample in which each image counts once.
    class_weighting
        ``"balanced"``: within each resample an image also weighs n / (classes present × images of its class),
        as scikit-learn's ``class_weight="balanced"``.

    Raises
    ------
    ArgumentError
        If the arguments do not fit together.
    NonFiniteError
        If a weight is NaN or infinite.
    TooFewError
        If there are no images, or a resample gives none any weight.
    """
    require_whole("classes", classes, least=1)
    known, guessed = _codes("truth", truth, classes), _codes("predicted", predicted, classes)
    if len(known) != len(guessed):
        raise ArgumentError(
            f"{len(known)} true and {len(guessed)} predicted classes: need one each per image"
        )
    if not len(known):
        raise TooFewError("no images to score")
    if class_weighting not in ("none", "balanced"):
        raise ArgumentError(f"class_weighting {class_weighting!r}: use 'none' or 'balanced'")
    parts = [
        _count(known, guessed, classes, block, balanced=class_weighting == "balanced")
        for block in _blocks(weights, len(known))
    ]
    return ClassCounts(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("hits", "true", "predicted", "unit")
        )
    )


def accuracy(counts: ClassCounts) -> Doubles:
    """Return the weighted share of images whose class was predicted: ``(resamples,)`` in [0, 1]."""
    share: Doubles = counts.hits.sum(axis=1) / counts.true.sum(axis=1)
    return share


def balanced_accuracy(counts: ClassCounts) -> Doubles:
    """Return the mean recall of the classes that have images: ``(resamples,)`` in [0, 1]."""
    present = counts.true > 0
    recall = np.divide(counts.hits, counts.true, out=np.zeros_like(counts.hits), where=present)
    mean: Doubles = recall.sum(axis=1) / present.sum(axis=1)
    return mean


def f1_per_class(counts: ClassCounts) -> Doubles:
    """Return F1 of each class: ``(resamples, classes)`` in [0, 1], 0 where neither true nor predicted."""
    total = counts.true + counts.predicted
    return np.divide(2 * counts.hits, total, out=np.zeros_like(total), where=total > 0)


def f1_macro(counts: ClassCounts) -> Doubles:
    """Return the mean F1 of the classes that are true or predicted anywhere: ``(resamples,)`` in [0, 1]."""
    seen = (counts.true + counts.predicted) > 0
    mean: Doubles = f1_per_class(counts).sum(axis=1) / seen.sum(axis=1)
    return mean


def f1_binary(counts: ClassCounts, positive: int) -> Doubles:
    """Return F1 of one class: ``(resamples,)`` in [0, 1]; 0 where it is neither true nor predicted.

    Raises
    ------
    ArgumentError
        If there is no such class.
    """
    require_whole("positive", positive, least=0)
    if positive >= counts.true.shape[1]:
        raise ArgumentError(f"positive class {positive}: there are {counts.true.shape[1]} classes")
    return f1_per_class(counts)[:, positive]


def calibration_error(gaps: Doubles) -> Doubles:
    """Return the expected calibration error (C. Guo et al., ICML 2017): ``(resamples,)`` in [0, 1].

    The sum of :func:`calibration_gaps` without their signs. On few images it is too large even for a model
    that is calibrated.
    """
    error: Doubles = np.abs(gaps).sum(axis=1)
    return error


def calibration_gaps(
    confidence: ArrayLike,
    correct: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    bins: int = CALIBRATION_BINS,
) -> Doubles:
    """Return how far the share of correct images lies above the confidence, bin by bin.

    Bins of confidence have equal width; a confidence on the border of two counts in the upper one. Each bin's
    difference is weighted by the bin's share of the images.

    Parameters
    ----------
    confidence
        ``(n,)`` probability of the predicted class, in [0, 1].
    correct
        ``(n,)`` whether the prediction was right.
    weights
        As in :func:`count_classes`.
    bins
        Number of bins.

    Returns
    -------
    gaps
        ``(resamples, bins)`` in [-1, 1].

    Raises
    ------
    ArgumentError
        If arguments do not fit together, or a confidence lies outside [0, 1].
    NonFiniteError
        If a confidence or weight is NaN or infinite.
    TooFewError
        If there are no images, or a resample gives none any weight.
    """
    require_whole("bins", bins, least=1)
    known = np.asarray(confidence, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    if known.ndim != 1 or known.shape != right.shape:
        raise ArgumentError(f"confidence has shape {known.shape} and correct {right.shape}: need (n,) each")
    if not len(known):
        raise TooFewError("no images to score")
    if not np.isfinite(known).all():
        raise NonFiniteError(f"{int((~np.isfinite(known)).sum())} confidences are NaN or infinite")
    if known.min() < 0 or known.max() > 1:
        raise ArgumentError(f"confidences from {known.min():g} to {known.max():g}: need probabilities")
    place = np.minimum(np.searchsorted(np.linspace(0, 1, bins + 1), known, side="right") - 1, bins - 1)
    members = _one_hot(place.astype(np.intp), bins)
    # (correct - confidence) summed within a bin is the bin's weight times its gap.
    return np.concatenate(
        [
            (block * (right - known)) @ members / block.sum(axis=1, keepdims=True)
            for block in _blocks(weights, len(known))
        ]
    )


SCORES: dict[str, Callable[[ClassCounts], Doubles]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "f1_macro": f1_macro,
}
"""Scores that need nothing but the counts, by name."""


def _codes(name: str, values: ArrayLike, classes: int) -> Indices:
    codes = np.asarray(values)
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise ArgumentError(f"{name} is {codes.dtype} of shape {codes.shape}: need (n,) class numbers")
    if codes.size and (codes.min() < 0 or codes.max() >= classes):
        raise ArgumentError(f"{name} holds class {codes.min()} to {codes.max()}: need 0 to {classes - 1}")
    return codes.astype(np.intp)


def _blocks(weights: ArrayLike | None, images: int) -> Iterator[Doubles]:
    """Yield checked weights in float64, a block of resamples at a time."""
    if weights is None:
        yield np.ones((1, images))
        return
    rows = np.asarray(weights)
    if rows.ndim != 2 or rows.shape[1] != images or not len(rows):
        raise ArgumentError(f"weights have shape {rows.shape}: need (resamples, {images})")
    step = max(1, _BLOCK_VALUES // images)
    for start in range(0, len(rows), step):
        block = rows[start : start + step].astype(np.float64)
        if not np.isfinite(block).all():
            raise NonFiniteError("weights hold NaN or infinity")
        if block.min() < 0:
            raise ArgumentError(f"weights hold {block.min():g}: need 0 or more")
        if not (block.sum(axis=1) > 0).all():
            raise TooFewError("a resample gives no image any weight")
        yield block


def _one_hot(codes: Indices, classes: int) -> Doubles:
    table = np.zeros((len(codes), classes))
    table[np.arange(len(codes)), codes] = 1
    return table


def _count(
    known: Indices, guessed: Indices, classes: int, weights: Doubles, *, balanced: bool
) -> ClassCounts:
    rows = np.arange(len(known))

    def table(codes: Indices, values: Doubles) -> csr_array:
        return csr_array((values, (rows, codes)), shape=(len(codes), classes))

    ones = np.ones(len(known))
    true = np.asarray(weights @ table(known, ones))
    unit = np.ones_like(true)
    if balanced:
        present = (true > 0).sum(axis=1, keepdims=True)
        unit = np.divide(
            true.sum(axis=1, keepdims=True), present * true, out=np.zeros_like(true), where=true > 0
        )
        weights = weights * unit[:, known]
        true = true * unit
    hits = np.asarray(weights @ table(known, (known == guessed).astype(np.float64)))
    return ClassCounts(hits, true, np.asarray(weights @ table(guessed, ones)), unit)
