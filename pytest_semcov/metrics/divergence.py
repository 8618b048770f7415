"""Henze-Penrose divergence by nearest neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.metrics.arrays import as_embeddings, require_same_width, squared_distances

# Squared distances that differ by less than this share are equal.
_ROUNDING = 1e-8


def divergence_fnn(a: ArrayLike, b: ArrayLike) -> float:
    """Estimate the Henze-Penrose divergence from first nearest neighbours.

    ``max(0, 1 - (n + m) / (2 n m) · e)``, e = number of rows whose nearest other
    row belongs to the other set (S. Sekeh et al., IEEE Trans. Signal Process.
    68, 2020). 0 = alike, 1 = separate. Of several equally near rows each counts in part.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``.
    """
    x, y = as_embeddings(a, name="first set"), as_embeddings(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    squared = squared_distances(np.concatenate([x, y]))
    np.fill_diagonal(squared, np.inf)
    second = np.arange(len(squared)) >= len(x)
    nearest = squared <= squared.min(axis=1, keepdims=True) * (1 + _ROUNDING)
    other = second[:, None] != second
    errors = float(np.sum((nearest & other).sum(axis=1) / nearest.sum(axis=1)))
    return max(0.0, 1 - (len(x) + len(y)) / (2 * len(x) * len(y)) * errors)
