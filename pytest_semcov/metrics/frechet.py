"""Fréchet distance between Gaussian fits of two sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.metrics.arrays import as_doubles, require_rows, require_same_width


def frechet_distance(a: ArrayLike, b: ArrayLike) -> float:
    """Squared Fréchet (2-Wasserstein) distance between the Gaussians with the sets' moments.

    ``|mean_a - mean_b|² + tr(A) + tr(B) - 2 tr((AB)^½)`` with covariances A and
    B (ddof 1), as in the Fréchet inception distance (M. Heusel et al., NeurIPS
    2017), on these embeddings. Its bias grows as sets get smaller: compare only at equal
    numbers of rows.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``, at least 2 rows each.

    Returns
    -------
    distance
        At least 0.

    Raises
    ------
    TooFewError
        If a set has fewer than 2 rows.
    """
    x, y = as_doubles(a, name="first set"), as_doubles(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    require_rows("first set", len(x), 2, "a covariance")
    require_rows("second set", len(y), 2, "a covariance")
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    # Centred and divided by √(n-1): A = xᵀx and B = yᵀy.
    x = (x - mean_x) / np.sqrt(len(x) - 1)
    y = (y - mean_y) / np.sqrt(len(y) - 1)
    difference = mean_x - mean_y
    total = float(difference @ difference + np.sum(x * x) + np.sum(y * y) - 2 * _trace_root_of_product(x, y))
    return max(total, 0.0)


def _trace_root_of_product(x: np.ndarray, y: np.ndarray) -> float:
    """Return tr((xᵀx yᵀy)^½)."""
    width = x.shape[1]
    if min(len(x), len(y)) <= width:
        # The non-zero eigenvalues of xᵀx yᵀy are the squared singular values of x yᵀ: exact where a
        # covariance is singular. A set of more rows than features is first reduced to as many as features.
        x, y = (np.asarray(np.linalg.qr(part, mode="r")) if len(part) > width else part for part in (x, y))
        return float(np.linalg.svd(x @ y.T, compute_uv=False).sum())
    values, vectors = np.linalg.eigh(x.T @ x)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    middle = root @ (y.T @ y) @ root
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh((middle + middle.T) / 2), 0.0)).sum())
