"""How far two sets of embeddings lie apart: per feature, and as wholes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import (
    Doubles,
    as_doubles,
    require_rows,
    require_same_width,
    squared_distances,
)

_BLOCK_FEATURES = 256


@dataclass(frozen=True, slots=True, eq=False)
class FeatureDrift:
    """A two-sample statistic for every feature.

    Parameters
    ----------
    statistic
        ``(d,)`` float64.
    first_rows, second_rows
        Sizes of the two sets.
    tail
        Probability of at least these values for sets of these sizes.
    """

    statistic: Doubles
    first_rows: int
    second_rows: int
    tail: Callable[[Doubles, int, int], Doubles]

    @property
    def p_value(self) -> Doubles:
        """Asymptotic p-values, ``(d,)``, not corrected for the number of features."""
        # The statistics take few values and their tails are slow to compute: once per value.
        values, place = np.unique(self.statistic, return_inverse=True)
        return np.asarray(np.clip(self.tail(values, self.first_rows, self.second_rows), 0.0, 1.0)[place])

    @property
    def mean(self) -> float:
        """Mean of the statistic over the features."""
        return float(self.statistic.mean())


def kolmogorov_smirnov(a: ArrayLike, b: ArrayLike) -> FeatureDrift:
    """Two-sided two-sample Kolmogorov-Smirnov statistic of every feature.

    Equals ``scipy.stats.ks_2samp(..., method="asymp")`` feature by feature, ties included; a feature that
    is the same constant in both sets gives 0 and p = 1.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``.
    """
    x, y = _pair(a, b)
    statistic = np.concatenate([np.abs(gap).max(axis=0) for gap, _ in _distribution_gaps(x, y)])
    return FeatureDrift(statistic, len(x), len(y), _kolmogorov_smirnov_tail)


def _kolmogorov_smirnov_tail(statistic: Doubles, n: int, m: int) -> Doubles:
    return np.asarray(stats.kstwo.sf(statistic, np.round(n * m / (n + m))))


def cramer_von_mises(a: ArrayLike, b: ArrayLike) -> FeatureDrift:
    """Two-sample Cramér-von Mises statistic of every feature.

    ``T = n m / (n + m)² · Σ (F - G)²`` over the pooled values (T. Anderson, Ann. Math. Stat. 33, 1962).
    Equals ``scipy.stats.cramervonmises_2samp(..., method="asymptotic")`` without ties. With ties scipy uses
    mid-ranks and calls a constant feature drifted; this form gives 0 and p = 1 for it.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``, at least 2 rows each.
    """
    x, y = _pair(a, b)
    require_rows("first set", len(x), 2, "the Cramér-von Mises statistic")
    require_rows("second set", len(y), 2, "the Cramér-von Mises statistic")
    n, m = len(x), len(y)
    statistic = np.concatenate(
        [np.einsum("ij,ij,ij->j", gap, gap, weight) for gap, weight in _distribution_gaps(x, y)]
    )
    statistic *= n * m / (n + m) ** 2
    return FeatureDrift(statistic, n, m, _cramer_von_mises_tail)


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Doubles, Doubles]:
    x, y = as_doubles(a, name="first set"), as_doubles(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    return x, y


def _distribution_gaps(x: Doubles, y: Doubles) -> Any:
    """Yield, per block of features, F - G at every pooled value and how often that value occurs.

    Tied values are one value: the gap stands at the last of them with their
    number as weight, and weight and gap are 0 at the others.
    """
    n, m = len(x), len(y)
    for start in range(0, x.shape[1], _BLOCK_FEATURES):
        pooled = np.concatenate(
            [x[:, start : start + _BLOCK_FEATURES], y[:, start : start + _BLOCK_FEATURES]]
        )
        order = np.argsort(pooled, axis=0, kind="stable")
        ordered = np.take_along_axis(pooled, order, axis=0)
        first = order < n
        below_x = np.cumsum(first, axis=0)
        below_y = np.arange(1, n + m + 1)[:, None] - below_x
        last = np.ones(pooled.shape, dtype=bool)
        last[:-1] = ordered[1:] != ordered[:-1]
        gap = np.where(last, below_x / n - below_y / m, 0.0)
        position = np.where(last, np.arange(1, n + m + 1)[:, None], 0)
        previous = np.zeros_like(position)
        previous[1:] = np.maximum.accumulate(position, axis=0)[:-1]
        yield gap, np.where(last, position - previous, 0).astype(np.float64)


def _cramer_von_mises_tail(statistic: Doubles, n: int, m: int) -> Doubles:
    """Upper tail of the limit law, after matching mean and variance at these n and m.

    Series (1.2) of S. Csörgő and J. Faraway, JRSS B 58, 1996.
    """
    total = n + m
    expected = (1 + 1 / total) / 6
    spread = (total + 1) * (4 * m * n * total - 3 * (m * m + n * n) - 2 * m * n)
    variance = spread / (45 * total * total * 4 * m * n)
    x = 1 / 6 + (statistic - expected) / np.sqrt(45 * variance)
    tail: Doubles = np.ones_like(x)
    # Below .003 the distribution function is under 1e-26.
    usable = x > 0.003
    value = x[usable]
    below = np.zeros_like(value)
    for term in range(20):
        weight = np.exp(special.gammaln(term + 0.5) - special.gammaln(term + 1)) / np.pi**1.5
        step = 4 * term + 1
        argument = step * step / (16 * value)
        below += weight / np.sqrt(value) * np.sqrt(step) * np.exp(-argument) * special.kv(0.25, argument)
    tail[usable] = np.clip(1 - below, 0.0, 1.0)
    return tail


def median_bandwidth(squared_across: Doubles, squared_u: Doubles, squared_c: Doubles) -> float:
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
        σ of exp(-d² / 2σ²), e.g. from :func:`median_bandwidth`. It must be the same for all distances that
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
    x, y = _pair(a, b)
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
