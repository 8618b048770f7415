"""Distances to the k-th neighbour and the coverage radius."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.arrays import Doubles, as_embeddings, distances, require_same_width


def kth_neighbour_distances(reference: ArrayLike, queries: ArrayLike | None = None, *, k: int) -> Doubles:
    """Euclidean distance from each query to its k-th nearest reference row.

    Parameters
    ----------
    reference
        ``(n, d)``.
    queries
        ``(m, d)``; ``None`` = the reference rows themselves, each without itself (left out by its
        index, so that a duplicate counts as a neighbour at distance exactly 0).
    k
        Which neighbour, at least 1.

    Returns
    -------
    distance
        ``(m,)`` float64.

    Raises
    ------
    TooFewError
        If there are fewer than k reference rows (k + 1 when each row looks among the others).
    """
    if k < 1:
        raise ArgumentError(f"k is {k}: need at least 1")
    rows = as_embeddings(reference, name="reference")
    if queries is None:
        if len(rows) <= k:
            raise TooFewError(
                f"have {len(rows)} rows, need more than k = {k}: each row looks among the others"
            )
        table = distances(rows)
        np.fill_diagonal(table, np.inf)
    else:
        asked = as_embeddings(queries, name="queries")
        require_same_width(("reference", rows), ("queries", asked))
        if len(rows) < k:
            raise TooFewError(f"have {len(rows)} reference rows, need at least k = {k}")
        table = distances(asked, rows)
    return np.partition(table, k - 1, axis=1)[:, k - 1]


def coverage_radius(reference: ArrayLike, queries: ArrayLike | None = None, *, k: int) -> float:
    """Median over the queries of the distance to the k-th nearest reference row.

    Parameters as for :func:`kth_neighbour_distances`. The radius shrinks with
    the number of reference rows alone: compare only at equal numbers.
    """
    return float(np.median(kth_neighbour_distances(reference, queries, k=k)))
