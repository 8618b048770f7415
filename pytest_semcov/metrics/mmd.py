"""Maximum mean discrepancy: how far two sets of embeddings lie apart as wholes.

From the rows themselves for sets of any size (the kernel is summed block by block and never stored), or from
a table of kernel values where one is at hand.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arguments import require_confidence, require_number, require_whole
from pytest_semcov.metrics.arrays import (
    Doubles,
    Floats,
    Mask,
    as_embeddings,
    canonical_order,
    require_rows,
    require_same_width,
    squared_distances,
)
from pytest_semcov.metrics.intervals import Interval
from pytest_semcov.metrics.kernel_sums import FEW_ROWS, KernelSums, PooledRows, kernel_sums, pool_rows
from pytest_semcov.metrics.neighbour_torch import device_of

# Relabellings this close to the observed value (kernel values being of the order of 1) are taken as equal to
# it: rounding must not tell them apart.
_ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


@dataclass(frozen=True, slots=True)
class MmdTest:
    """Maximum mean discrepancy of two sets, with its test and its size.

    Parameters
    ----------
    squared
        Unbiased MMD²; may be slightly negative.
    p_value
        (b + 1) / (permutations + 1) with b random relabellings at least as extreme.
    bandwidth
        σ of the kernel exp(-d² / 2σ²).
    permutations
        Number of random relabellings.
    effect
        MMD² divided by the sum of the mean kernels within the sets: 0 = the same distribution, 1 = nothing in
        common; the estimate may be slightly negative. It is ∫(p - q)² / (∫p² + ∫q²) for the two densities
        smoothed by a Gaussian of standard deviation σ/√2 (N. Anderson, P. Hall and D. Titterington, J.
        Multivariate Anal. 50, 1994; A. Gretton et al., JMLR 13, 2012, section 3.3.1) and does not grow with
        the number of rows. NaN if the bandwidth is so small that the kernel of any two rows is 0.
    interval
        Confidence interval of the effect by the two-sample jackknife (J. Arvesen, Ann. Math. Stat. 40, 1969).
        (-inf, inf) if a set has only two rows. Wider than need be where the distributions hardly differ.
    confidence
        Of the interval.
    """

    squared: float
    p_value: float
    bandwidth: float
    permutations: int
    effect: float
    interval: Interval
    confidence: float


def median_bandwidth(a: ArrayLike, b: ArrayLike, *, most_rows: int = 1000, seed: int = 0) -> float:
    """Bandwidth σ of the RBF kernel exp(-d² / 2σ²) by the median heuristic.

    2σ² = median squared distance over pairs of different rows, the two sets counting alike whatever their
    sizes.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``.
    most_rows
        A larger set is represented by this many random rows; which ones does not depend on their order.
    seed
        Seed of that choice.

    Returns
    -------
    bandwidth
        Positive; 1 if all distances are 0.
    """
    require_whole("most_rows", most_rows, least=2)
    x, y = (_some_rows(rows, most_rows, seed) for rows in _pair(a, b))
    return median_bandwidth_from_distances(
        squared_distances(x, y), squared_distances(x), squared_distances(y)
    )


def _some_rows(rows: Floats, most: int, seed: int) -> Floats:
    if len(rows) <= most:
        return rows
    drawn = np.random.default_rng(seed).choice(len(rows), size=most, replace=False)
    return np.asarray(rows[canonical_order(rows)[drawn]])


def median_bandwidth_from_distances(squared_across: Doubles, squared_u: Doubles, squared_c: Doubles) -> float:
    """:func:`median_bandwidth` of two sets whose distances are known.

    Parameters
    ----------
    squared_across, squared_u, squared_c
        Squared distances between and within the sets.

    Returns
    -------
    bandwidth
        Positive; 1 if all distances are 0.
    """
    # The diagonals are the first of the zeros.
    within = [np.sort(squared, axis=None)[len(squared) :] for squared in (squared_u, squared_c)]
    weighted = [(np.sort(squared_across, axis=None), 2), *((values, 1) for values in within)]
    weighted = [(values, weight) for values, weight in weighted if len(values)]
    half = Fraction(sum(weight for _, weight in weighted), 2)

    def weight_up_to(value: float) -> Fraction:
        return sum(
            (
                Fraction(weight * int(np.searchsorted(values, value, side="right")), len(values))
                for values, weight in weighted
            ),
            Fraction(0),
        )

    # The median is the smallest of the values, over all blocks, up to which lies half of the weight.
    firsts = ((values, bisect.bisect_left(values, half, key=weight_up_to)) for values, _ in weighted)
    median = min(float(values[first]) for values, first in firsts if first < len(values))
    if median == 0:
        positive = [
            float(values[np.searchsorted(values, 0.0, side="right")])
            for values, _ in weighted
            if values[-1] > 0
        ]
        median = min(positive, default=2.0)
    return math.sqrt(median / 2)


def mmd_squared(a: ArrayLike, b: ArrayLike, *, bandwidth: float, device: str | None = None) -> float:
    """Unbiased squared maximum mean discrepancy with an RBF kernel.

    A. Gretton et al., "A Kernel Two-Sample Test", JMLR 13, 2012, equation 3; may be slightly negative.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``, at least 2 rows each.
    bandwidth
        σ of exp(-d² / 2σ²), e.g. from :func:`median_bandwidth`. It must be the same for all distances that
        are compared.
    device
        As for :func:`mmd_test`.

    Raises
    ------
    ArgumentError
        If the widths differ, or the bandwidth is not a positive number or far too small.
    TooFewError
        If a set has only one row.
    """
    pooled = _pool(a, b, bandwidth)
    sums = kernel_sums(pooled.rows, pooled.marked[:, None], device=device_of(device, a, b))
    return _observed(sums, pooled.marked)


def mmd_test(
    a: ArrayLike,
    b: ArrayLike,
    *,
    bandwidth: float,
    permutations: int = 999,
    seed: int = 0,
    confidence: float = 0.95,
    device: str | None = None,
) -> MmdTest:
    """Unbiased MMD² with permutation p-value and effect size.

    Time grows with the square of the rows, memory with the rows: sets of 20,000 rows each with 512 features
    need less than 1 GB. Up to 2,048 rows of both sets products are computed in float64; beyond in float32 on
    centred rows, unless the bandwidth or an outlying row would cost digits. All sums are in float64.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``, at least 2 rows each.
    bandwidth
        σ of exp(-d² / 2σ²), e.g. from :func:`median_bandwidth`.
    permutations
        Number of random relabellings, at least 1.
    seed
        Seed of the relabellings. The p-value is a function of seed and rows; it depends neither on their
        order nor on which set comes first.
    confidence
        Of the interval of the effect.
    device
        A device of torch that computes, e.g. ``"cuda"``; ``None`` = the accelerator on which a tensor lies,
        numpy for all else.

    Raises
    ------
    ArgumentError
        If the widths differ, the bandwidth is not a positive number or far too small, or another argument is
        out of range.
    TooFewError
        If a set has only one row.
    """
    require_confidence(confidence)
    require_whole("permutations", permutations, least=1)
    pooled = _pool(a, b, bandwidth)
    total, few = len(pooled.marked), int(pooled.marked.sum())
    generator = np.random.default_rng(seed)
    labels = np.zeros((total, permutations + 1), dtype=bool)
    labels[:, 0] = pooled.marked
    for column in range(1, permutations + 1):
        labels[generator.choice(total, size=few, replace=False, shuffle=False), column] = True
    sums = kernel_sums(pooled.rows, labels, device=device_of(device, a, b))
    values = _unbiased(
        sums.within, sums.leaving, float(sums.to_all.sum()), np.full(permutations + 1, few), total
    )
    effect, interval = _effect(sums, pooled.marked, confidence)
    return MmdTest(
        squared=_observed(sums, pooled.marked),
        p_value=_p_value(values, _ROUNDING[pooled.rows.dtype]),
        bandwidth=float(bandwidth),
        permutations=permutations,
        effect=effect,
        interval=interval,
        confidence=confidence,
    )


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    x, y = as_embeddings(a, name="first set"), as_embeddings(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    return x, y


def _require_bandwidth(bandwidth: float) -> None:
    require_number("bandwidth", bandwidth)
    if not (bandwidth > 0 and math.isfinite(bandwidth)):
        raise ArgumentError(f"bandwidth is {bandwidth}: need a positive, finite number")


def _pool(a: ArrayLike, b: ArrayLike, bandwidth: float) -> PooledRows:
    x, y = _pair(a, b)
    require_rows("first set", len(x), 2, "an unbiased MMD²")
    require_rows("second set", len(y), 2, "an unbiased MMD²")
    _require_bandwidth(bandwidth)
    return pool_rows(x, y, bandwidth)


def _observed(sums: KernelSums, marked: Mask) -> float:
    """MMD² of the sets as they are, from the sums that no float32 product went through."""
    within, leaving = sums.to_first[marked].sum(keepdims=True), sums.to_all[marked].sum(keepdims=True)
    few = marked.sum(keepdims=True)
    return float(_unbiased(within, leaving, float(sums.to_all.sum()), few, len(marked))[0])


def _unbiased(
    within: Doubles, leaving: Doubles, everything: float, sizes: NDArray[Any], rows: int
) -> Doubles:
    """MMD² of labellings; NaN where a side has fewer than 2 rows.

    Parameters
    ----------
    within, leaving
        Sums of the kernel over ordered pairs of different rows: both marked; the first marked.
    everything
        The same sum over all pairs.
    sizes
        Number of marked rows.
    rows
        Number of all rows.
    """
    n, m = sizes, rows - sizes
    across = leaving - within
    other = everything - 2 * leaving + within
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Doubles = within / (n * (n - 1)) + other / (m * (m - 1)) - 2 * across / (n * m)
    result[(n < 2) | (m < 2)] = np.nan
    return result


def _p_value(values: Doubles, rounding: float) -> float:
    """Permutation p-value of the first of these values among all of them.

    Relabellings that leave a side with fewer than two rows have no value and count as extreme.
    """
    extreme = int(np.sum(~(values[1:] < values[0] - rounding)))
    return (extreme + 1) / len(values)


def _effect(sums: KernelSums, marked: Mask, confidence: float) -> tuple[float, Interval]:
    """MMD² over the mean kernels within the sets, and its interval by leaving out one row at a time."""
    n, m = int(marked.sum()), int((~marked).sum())
    to_marked, to_other = sums.to_first, sums.to_all - sums.to_first
    within_n, within_m = to_marked[marked].sum(), to_other[~marked].sum()
    across = to_other[marked].sum()

    def effect(within_n: Any, within_m: Any, across: Any, n: int, m: int) -> Any:
        inside = 2 * sums.baseline + within_n / (n * (n - 1)) + within_m / (m * (m - 1))
        return 1 - 2 * (sums.baseline + across / (n * m)) / inside if np.all(inside > 0) else np.nan

    value = float(effect(within_n, within_m, across, n, m))
    if min(n, m) < 3:
        return value, (-math.inf, math.inf)
    without = (
        effect(within_n - 2 * to_marked[marked], within_m, across - to_other[marked], n - 1, m),
        effect(within_n, within_m - 2 * to_other[~marked], across - to_marked[~marked], n, m - 1),
    )
    variance = sum((size - 1) * np.var(values) for size, values in zip((n, m), without, strict=True))
    if not math.isfinite(variance):
        return value, (-math.inf, math.inf)
    reach = float(stats.t.isf((1 - confidence) / 2, min(n, m) - 1) * np.sqrt(variance))
    return value, (value - reach, value + reach)


# From a table


def rbf_kernel(squared: Doubles, bandwidth: float) -> Doubles:
    """exp(-d² / (2 · bandwidth²))."""
    _require_bandwidth(bandwidth)
    return np.exp(-0.5 * (squared / bandwidth / bandwidth))


def mmd_permutation_test(
    kernel: Doubles,
    first: Mask,
    *,
    groups: NDArray[Any] | None = None,
    permutations: int,
    seed: int,
) -> tuple[float, float]:
    """MMD² and its permutation p-value from a kernel matrix.

    All relabellings are one matrix product with the kernel, in float64 up to 2,048 rows, in float32 beyond.

    Parameters
    ----------
    kernel
        ``(n, n)``, symmetric.
    first
        ``(n,)`` bool: rows of the first set.
    groups
        ``(n,)`` group of each row. Whole groups change sides; within a group that has rows on both sides
        the rows are exchanged among themselves.
    permutations
        Number of random relabellings.
    seed
        Seed of the relabellings, which depend on the order of the rows: bring them into one of their own.

    Returns
    -------
    squared, p_value
        p is (b + 1) / (permutations + 1) with b relabellings at least as extreme.
    """
    require_whole("permutations", permutations, least=1)
    # Differences of mean kernels do not depend on what is taken off all of them.
    reduced = kernel - kernel.mean()
    np.fill_diagonal(reduced, 0.0)
    to_all = reduced.sum(axis=1)
    kind = np.float64 if len(kernel) <= FEW_ROWS else np.float32
    labels = np.empty((len(first), permutations + 1), dtype=kind)
    labels[:, 0] = first
    for column, relabelled in enumerate(
        _relabellings(first, groups, permutations, np.random.default_rng(seed)), start=1
    ):
        labels[:, column] = relabelled
    product = reduced.astype(kind, copy=False) @ labels
    product *= labels
    sizes = np.rint(labels.sum(axis=0, dtype=np.float64))
    everything = float(to_all.sum())
    values = _unbiased(product.sum(axis=0, dtype=np.float64), to_all @ labels, everything, sizes, len(kernel))
    within = reduced[np.ix_(first, first)].sum(keepdims=True)[0]
    observed = _unbiased(within, to_all[first].sum(keepdims=True), everything, sizes[:1], len(kernel))
    rounding = _ROUNDING[np.dtype(kind)] * max(1.0, float(np.abs(kernel).max()))
    return float(observed[0]), _p_value(values, rounding)


def _relabellings(
    first: Mask, groups: NDArray[Any] | None, number: int, generator: np.random.Generator
) -> Iterator[NDArray[Any]]:
    if groups is None:
        for _ in range(number):
            yield generator.permutation(first)
        return
    names, codes = np.unique(groups, return_inverse=True)
    share = np.bincount(codes, weights=first) / np.bincount(codes)
    pure = np.flatnonzero((share == 0) | (share == 1))
    side = np.zeros(len(names))
    whole = np.isin(codes, pure)
    by_group = np.argsort(codes, kind="stable")
    for _ in range(number):
        side[pure] = generator.permutation(share[pure])
        # Rows shuffled within their groups: changes nothing in groups that lie on one side.
        relabelled = np.empty(len(codes))
        relabelled[by_group] = first[np.lexsort((generator.random(len(codes)), codes))]
        relabelled[whole] = side[codes[whole]]
        yield relabelled
