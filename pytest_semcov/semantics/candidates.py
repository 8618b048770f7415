"""Candidates: images that may belong to a category though they are not labelled so."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import Candidate
from pytest_semcov.metrics.arrays import as_doubles
from pytest_semcov.metrics.neighbours import nearest_neighbours
from pytest_semcov.semantics.labels import UNCERTAIN, Labels

_NEIGHBOURS = 5
_MOST_REFERENCES = 1_000


def nearest_candidates(
    labels: Labels, category: str, *, embeddings: ArrayLike | None = None, limit: int = 5
) -> tuple[Candidate, ...]:
    """Return the images nearest to a category that are not labelled so, uncertain ones first.

    Parameters
    ----------
    labels
        Labels of all images. Where an encoder made them, nearness is by cosine: how much the category's
        similarity lacks to the image's highest one.
    category
        The category.
    embeddings
        ``(n, d)``, one row per label. Used for labels as given: the mean cosine distance to the five
        nearest images of the category (of a category with more than 1,000 images, every second, third, …).
    limit
        How many at most.

    Returns
    -------
    candidates
        Empty where nothing tells how near images are (labels as given, and no image of the category or no
        embeddings).

    Raises
    ------
    ArgumentError
        If the category does not exist or there is not one embedding per label.
    """
    code = labels.code(category)
    others = np.flatnonzero(labels.codes != code)
    if labels.similarity is not None:
        values = labels.similarity.max(axis=1)[others] - labels.similarity[others, code]
        measure = "similarity lacking"
    elif embeddings is not None and labels.mask(category).any():
        array = as_doubles(embeddings)
        if len(array) != len(labels):
            raise ArgumentError(f"{len(array)} embeddings for {len(labels)} labels of {labels.semantic!r}")
        members = np.flatnonzero(labels.mask(category))
        members = members[:: -(-len(members) // _MOST_REFERENCES)]
        values = _neighbour_distances(array[others], array[members])
        measure = "distance"
    else:
        return ()
    certain = labels.codes[others] != UNCERTAIN
    chosen = np.lexsort((values, certain))[:limit]
    return tuple(
        Candidate(labels.ids[others[row]], float(values[row]), measure, uncertain=not bool(certain[row]))
        for row in chosen.tolist()
    )


def _neighbour_distances(
    queries: NDArray[np.float64], references: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return each query's mean cosine distance to its nearest references."""
    if not len(queries):
        return np.empty(0)
    k = min(_NEIGHBOURS, len(references))
    near = nearest_neighbours(_directions(references), _directions(queries), k=k)
    # |u - v|² = 2 (1 - u · v) for unit vectors. A row of zeros has no direction and is near to nothing.
    cosine_distance = (near.distance**2).mean(axis=1) / 2
    return np.asarray(np.where(queries.any(axis=1), cosine_distance, 1.0))


def _directions(array: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return np.asarray(array / np.where(lengths > 0, lengths, 1.0))
