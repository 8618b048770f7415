"""Fréchet distance between Gaussian fits of two sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.metrics.arrays import Doubles, Floats, as_embeddings, require_rows, require_same_width

_ROWS_AT_ONCE = 4096
# Rounding of the root that is let through, as a share of the traces.
_LARGEST_ERROR = 1e-10


def frechet_distance(a: ArrayLike, b: ArrayLike) -> float:
    """Squared Fréchet (2-Wasserstein) distance between the Gaussians with the sets' moments.

    ``|mean_a - mean_b|² + tr(A) + tr(B) - 2 tr((AB)^½)`` with covariances A and B (ddof 1), as in the Fréchet
    inception distance (M. Heusel et al., NeurIPS 2017), on these embeddings. Its bias grows as sets get
    smaller: compare only at equal numbers of rows.

    Computed in float64, without the root of a matrix: exact where a covariance is singular. A set of more
    rows than features is read in blocks.

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
    ArgumentError
        If the widths differ.
    TooFewError
        If a set has fewer than 2 rows.
    """
    x, y = as_embeddings(a, name="first set"), as_embeddings(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    require_rows("first set", len(x), 2, "a covariance")
    require_rows("second set", len(y), 2, "a covariance")
    mean_x, mean_y = x.mean(axis=0, dtype=np.float64), y.mean(axis=0, dtype=np.float64)
    traces_and_root = None
    if min(len(x), len(y)) > x.shape[1]:
        traces_and_root = _by_eigenvalues(_covariance(x, mean_x), _covariance(y, mean_y))
    if traces_and_root is None:
        traces_and_root = _by_singular_values(_factor(x, mean_x), _factor(y, mean_y))
    traces, root = traces_and_root
    difference = mean_x - mean_y
    return max(float(difference @ difference + traces - 2 * root), 0.0)


def _by_eigenvalues(a: Doubles, b: Doubles) -> tuple[float, float] | None:
    """Return tr(A) + tr(B) and tr((AB)^½); ``None`` if A is singular or rounding would show.

    AB has the eigenvalues of rᵀ B r for any r with r rᵀ = A, which is symmetric. They are exact up to the
    precision of the largest; their roots are less so, the smaller they are.
    """
    traces = float(np.trace(a) + np.trace(b))
    try:
        factor = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return None
    middle = factor.T @ b @ factor
    values = np.linalg.eigvalsh((middle + middle.T) / 2)
    rounding = np.finfo(np.float64).eps * values[-1]
    if not values[0] > rounding or rounding * (0.5 / np.sqrt(values)).sum() > _LARGEST_ERROR * traces:
        return None
    return traces, float(np.sqrt(values).sum())


def _by_singular_values(x: Doubles, y: Doubles) -> tuple[float, float]:
    """Return tr(A) + tr(B) and tr((AB)^½) for A = xᵀx, B = yᵀy.

    The non-zero eigenvalues of xᵀx yᵀy are the squared singular values of x yᵀ.
    """
    traces = np.einsum("ij,ij->", x, x) + np.einsum("ij,ij->", y, y)
    return float(traces), float(np.linalg.svd(x @ y.T, compute_uv=False).sum())


def _covariance(rows: Floats, mean: Doubles) -> Doubles:
    covariance = np.zeros((len(mean), len(mean)))
    for part in _centred_parts(rows, mean):
        covariance += part.T @ part
    return covariance / (len(rows) - 1)


def _factor(rows: Floats, mean: Doubles) -> Doubles:
    """Return some x with xᵀx = the covariance, of no more rows than features or than there are."""
    factor = np.empty((0, len(mean)))
    for part in _centred_parts(rows, mean):
        factor = np.concatenate([factor, part])
        if len(factor) > len(mean):
            factor = np.asarray(np.linalg.qr(factor, mode="r"))
    return np.asarray(factor / np.sqrt(len(rows) - 1))


def _centred_parts(rows: Floats, mean: Doubles) -> Iterator[Doubles]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield np.subtract(rows[start : start + _ROWS_AT_ONCE], mean, dtype=np.float64)
