"""Fréchet distance between Gaussian fits of two sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.metrics.arrays import Doubles, as_doubles, require_rows, require_same_width


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
    x, y = x - mean_x, y - mean_y
    difference = mean_x - mean_y
    trace_x = np.einsum("ij,ij->", x, x) / (len(x) - 1)
    trace_y = np.einsum("ij,ij->", y, y) / (len(y) - 1)
    root = _trace_root_of_product(x, y) / np.sqrt((len(x) - 1) * (len(y) - 1))
    return max(float(difference @ difference + trace_x + trace_y - 2 * root), 0.0)


def _trace_root_of_product(x: Doubles, y: Doubles) -> float:
    """Return tr((xᵀx yᵀy)^½)."""
    width = x.shape[1]
    if min(len(x), len(y)) <= width:
        # The non-zero eigenvalues of xᵀx yᵀy are the squared singular values of x yᵀ: exact where a
        # covariance is singular. A set of more rows than features is first reduced to as many as features.
        x, y = (np.asarray(np.linalg.qr(part, mode="r")) if len(part) > width else part for part in (x, y))
        return float(np.linalg.svd(x @ y.T, compute_uv=False).sum())
    # They are the eigenvalues of rᵀ (yᵀy) r for any r with r rᵀ = xᵀx, a symmetric matrix.
    root = _factor(x.T @ x)
    middle = root.T @ (y.T @ y) @ root
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh((middle + middle.T) / 2), 0.0)).sum())


def _factor(matrix: Doubles) -> Doubles:
    """Return some r with r rᵀ = the matrix, which is symmetric and not negative."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:  # singular: a feature is constant, or depends on others
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
