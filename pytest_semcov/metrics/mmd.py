"""Maximum mean discrepancy: how far two sets of embeddings lie apart as wholes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import (
    Doubles,
    as_doubles,
    require_rows,
    require_same_width,
    squared_distances,
)


def median_bandwidth_from_distances(squared_across: Doubles, squared_u: Doubles, squared_c: Doubles) -> float:
    """Bandwidth σ of the RBF kernel exp(-d² / 2σ²) by the median heuristic on U ∪ C.

    2σ² = median squared distance over pairs of different rows, the two sets counting alike whatever their
    sizes, so that the bandwidth does not move when one set grows.

    Parameters
    ----------
    squared_across, squared_u, squared_c
        Squared distances between and within the sets.

    Returns
    -------
    bandwidth
        Positive; 1 if all distances are 0.
    """
    blocks = [squared_across.ravel()]
    weights = [np.full(squared_across.size, 0.5 / max(squared_across.size, 1))]
    for within in (squared_u, squared_c):
        upper = within[np.triu_indices(len(within), 1)]
        blocks.append(upper)
        weights.append(np.full(upper.size, 0.25 / max(upper.size, 1)))
    values = np.concatenate(blocks)
    weight = np.concatenate(weights)
    order = np.argsort(values)
    half = np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)
    median = float(values[order[min(half, len(values) - 1)]])
    if median == 0:
        positive = values[values > 0]
        median = float(positive.min()) if len(positive) else 2.0
    return float(np.sqrt(median / 2))


def rbf_kernel(squared: Doubles, bandwidth: float) -> Doubles:
    """exp(-d² / (2 · bandwidth²))."""
    if not bandwidth > 0:
        raise ArgumentError(f"bandwidth is {bandwidth}: must be positive")
    return np.exp(squared * (-0.5 / bandwidth**2))


def mmd_squared(a: ArrayLike, b: ArrayLike, *, bandwidth: float) -> float:
    """Unbiased squared maximum mean discrepancy with an RBF kernel.

    A. Gretton et al., "A Kernel Two-Sample Test", JMLR 13, 2012, equation 3; may be slightly negative.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``, at least 2 rows each.
    bandwidth
        σ of exp(-d² / 2σ²), e.g. from :func:`median_bandwidth_from_distances`. It must be the same for all distances that
        are compared.
    """
    kernel, size = _pooled_kernel(a, b, bandwidth)
    return float(_mmd_squared(kernel, _labels(len(kernel), size)[:, None])[0])


def mmd_test(
    a: ArrayLike, b: ArrayLike, *, bandwidth: float, permutations: int = 999, seed: int = 0
) -> tuple[float, float]:
    """Return the unbiased MMD² and its permutation p-value (b + 1) / (permutations + 1)."""
    kernel, size = _pooled_kernel(a, b, bandwidth)
    return mmd_permutation_test(kernel, _labels(len(kernel), size), permutations=permutations, seed=seed)


def mmd_permutation_test(
    kernel: Doubles,
    first: np.ndarray,
    *,
    groups: np.ndarray | None = None,
    permutations: int,
    seed: int,
) -> tuple[float, float]:
    """MMD² and its permutation p-value from a kernel matrix.

    All permutations are two matrix products with the kernel, which is computed once.

    Parameters
    ----------
    kernel
        ``(n, n)``.
    first
        ``(n,)`` bool: rows of the first set.
    groups
        ``(n,)`` group of each row. Whole groups change sides; within a group that has rows on both sides
        the rows are exchanged among themselves.
    permutations
        Number of random relabellings.
    seed
        Seed of the relabellings.

    Returns
    -------
    squared, p_value
        p is (b + 1) / (permutations + 1) with b relabellings at least as extreme.
    """
    generator = np.random.default_rng(seed)
    columns = np.empty((len(first), permutations + 1), dtype=np.float64)
    columns[:, 0] = first
    for column in range(1, permutations + 1):
        columns[:, column] = _relabel(first, groups, generator)
    values = _mmd_squared(kernel, columns)
    observed, permuted = float(values[0]), values[1:]
    # Relabellings that are the observed one up to rounding count as at least as extreme; so do those
    # that leave a side with fewer than two rows and have no value.
    tolerance = 1e-12 * max(1.0, float(np.abs(kernel).max()))
    extreme = int(np.sum(~(permuted < observed - tolerance)))
    return observed, (extreme + 1) / (permutations + 1)


def _relabel(first: Any, groups: Any, generator: np.random.Generator) -> Any:
    if groups is None:
        return generator.permutation(first)
    names, codes = np.unique(groups, return_inverse=True)
    share = np.bincount(codes, weights=first) / np.bincount(codes)
    pure = np.flatnonzero((share == 0) | (share == 1))
    side = np.zeros(len(names))
    side[pure] = generator.permutation(share[pure])
    whole = np.isin(codes, pure)
    # Rows shuffled within their groups: changes nothing in groups that lie on one side.
    relabelled = np.empty(len(codes))
    relabelled[np.argsort(codes, kind="stable")] = first[np.lexsort((generator.random(len(codes)), codes))]
    relabelled[whole] = side[codes[whole]]
    return relabelled


def _labels(total: int, size: int) -> np.ndarray:
    return np.arange(total) < size


def _pooled_kernel(a: ArrayLike, b: ArrayLike, bandwidth: float) -> tuple[Doubles, int]:
    x, y = as_doubles(a, name="first set"), as_doubles(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    require_rows("first set", len(x), 2, "an unbiased MMD²")
    require_rows("second set", len(y), 2, "an unbiased MMD²")
    return rbf_kernel(squared_distances(np.concatenate([x, y])), bandwidth), len(x)


def _mmd_squared(kernel: Doubles, columns: Any) -> Doubles:
    """MMD² for each column of 0/1 labels (1 = first set); NaN where a side has fewer than 2 rows."""
    first = np.asarray(columns, dtype=np.float64)
    second = 1 - first
    n, m = first.sum(axis=0), second.sum(axis=0)
    diagonal = np.diag(kernel)
    product = kernel @ first
    within_first = np.einsum("ij,ij->j", first, product) - diagonal @ first
    across = np.einsum("ij,ij->j", second, product)
    within_second = kernel.sum() - np.einsum("ij,ij->j", first, product) - 2 * across - diagonal @ second
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Doubles = within_first / (n * (n - 1)) + within_second / (m * (m - 1)) - 2 * across / (n * m)
    result[(n < 2) | (m < 2)] = np.nan
    return result
