"""Two-sample statistics of every feature: Kolmogorov-Smirnov and Cramér-von Mises.

Both follow from the gap between the two empirical distribution functions at the pooled values. One sort a
feature gives it: where the values are float32 numbers, each becomes an integer of the same order with the set
it comes from in the lowest bit, so that sorting the integers carries the set along. The gap is counted in
whole steps, exact for any number of rows and any ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Doubles, Floats, as_embeddings, require_rows, require_same_width
from pytest_semcov.metrics.feature_order import feature_blocks, ordered_integers, runs

# The exact distribution takes n + m steps over at most n places for every value of the statistic.
_EXACT_PRODUCT = 10_000

# Where scipy's tail is twice Smirnov's, and how many of his terms are summed.
_FEWEST_SUMMED, _SMALLEST_SUMMED = 141, 2.2
_SUMMED_TERMS = 256

PValueMethod = Literal["auto", "exact", "asymptotic"]
Counts = NDArray[np.signedinteger[Any]]


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
        """P-values, ``(d,)``, not corrected for the number of features."""
        # The statistics take few values and their tails are slow to compute: once per value.
        values, place = np.unique(self.statistic, return_inverse=True)
        return np.asarray(np.clip(self.tail(values, self.first_rows, self.second_rows), 0.0, 1.0)[place])

    @property
    def mean(self) -> float:
        """Mean of the statistic over the features."""
        return float(self.statistic.mean())


def kolmogorov_smirnov(a: ArrayLike, b: ArrayLike, *, method: PValueMethod = "auto") -> FeatureDrift:
    """Two-sided two-sample Kolmogorov-Smirnov statistic of every feature.

    The statistic equals that of ``scipy.stats.ks_2samp`` feature by feature, ties included; a feature that
    is the same constant in both sets gives 0 and p = 1.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``; float64 values are compared with all their digits.
    method
        Of the p-values. ``"asymptotic"`` equals ``ks_2samp(..., method="asymp")`` and is off by some
        hundredths for fewer than a hundred rows; ``"exact"`` counts the orders of the pooled rows (exact
        without ties, too large with ties) at a cost of n m for every value that the statistic takes;
        ``"auto"`` is exact up to n m = 10,000.

    Raises
    ------
    ArgumentError
        If the widths differ or the method is unknown.
    """
    x, y = _pair(a, b)
    tail = _kolmogorov_smirnov_tail_by(method, len(x), len(y))
    return FeatureDrift(_statistics(x, y, _largest_gap), len(x), len(y), tail)


def cramer_von_mises(a: ArrayLike, b: ArrayLike) -> FeatureDrift:
    """Two-sample Cramér-von Mises statistic of every feature.

    ``T = n m / (n + m)² · Σ (F - G)²`` over the pooled values (T. Anderson, Ann. Math. Stat. 33, 1962).
    Equals ``scipy.stats.cramervonmises_2samp(..., method="asymptotic")`` without ties. With ties scipy uses
    mid-ranks and calls a constant feature drifted; this form gives 0 and p = 1 for it.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``, at least 2 rows each; float64 values are compared with all their digits.

    Raises
    ------
    ArgumentError
        If the widths differ.
    TooFewError
        If a set has only one row.
    """
    x, y = _pair(a, b)
    _require_rows_for_von_mises(x, y)
    return FeatureDrift(_statistics(x, y, _squared_gaps), len(x), len(y), _cramer_von_mises_tail)


def kolmogorov_smirnov_and_cramer_von_mises(
    a: ArrayLike, b: ArrayLike, *, method: PValueMethod = "auto"
) -> tuple[FeatureDrift, FeatureDrift]:
    """Return :func:`kolmogorov_smirnov` and :func:`cramer_von_mises` from one sort of every feature.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``, at least 2 rows each.
    method
        Of the Kolmogorov-Smirnov p-values.
    """
    x, y = _pair(a, b)
    _require_rows_for_von_mises(x, y)
    tail = _kolmogorov_smirnov_tail_by(method, len(x), len(y))
    largest, squared = _statistics(x, y, _largest_gap, _squared_gaps)
    return (
        FeatureDrift(largest, len(x), len(y), tail),
        FeatureDrift(squared, len(x), len(y), _cramer_von_mises_tail),
    )


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    x, y = as_embeddings(a, name="first set"), as_embeddings(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    return x, y


def _require_rows_for_von_mises(x: Floats, y: Floats) -> None:
    require_rows("first set", len(x), 2, "the Cramér-von Mises statistic")
    require_rows("second set", len(y), 2, "the Cramér-von Mises statistic")


# From gaps to statistics


def _statistics(x: Floats, y: Floats, *statistics: Callable[[Counts, int, int], Doubles]) -> Any:
    """Return each statistic of every feature, ``(d,)``; a tuple if there are several."""
    gaps = (_gap(pooled, len(x)) for pooled in feature_blocks(x, y))
    parts = [[statistic(gap, len(x), len(y)) for statistic in statistics] for gap in gaps]
    whole = tuple(np.concatenate(blocks) for blocks in zip(*parts, strict=True))
    return whole if len(whole) > 1 else whole[0]


def _largest_gap(gap: Counts, n: int, m: int) -> Doubles:
    return np.asarray(np.maximum(gap.max(axis=1), -gap.min(axis=1)) / math.lcm(n, m))


def _squared_gaps(gap: Counts, n: int, m: int) -> Doubles:
    steps = gap.astype(np.float64)
    return np.asarray(np.einsum("ij,ij->i", steps, steps) * (n * m / (n + m) ** 2 / math.lcm(n, m) ** 2))


def _gap(pooled: Floats, first_rows: int) -> Counts:
    """Return F - G at every pooled value in order, in steps of 1 / lcm(n, m), ``(features, n + m)``.

    Tied values all have the gap at the last of them.
    """
    n, m = first_rows, pooled.shape[1] - first_rows
    second, equals_next = _sorted_sets(pooled, n)
    divisor = math.gcd(n, m)
    up, down = m // divisor, n // divisor
    steps: Counts = second.astype(np.int32 if math.lcm(n, m) < 2**31 else np.int64)
    steps *= -(up + down)
    steps += up
    # The steps of a feature sum to 0, so that one running sum serves all.
    gap = np.cumsum(steps.reshape(-1), dtype=steps.dtype)
    tied, lasts, lengths = runs(equals_next)
    gap[tied] = np.repeat(gap[lasts], lengths)
    return np.asarray(gap.reshape(pooled.shape))


def _sorted_sets(pooled: Floats, first_rows: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Sort each feature; say which values are of the second set, and which equal the next value."""
    equals_next = np.zeros(pooled.shape, dtype=bool)
    if pooled.dtype == np.float32:
        keys = ordered_integers(pooled)
        keys <<= 1
        keys[:, first_rows:] |= 1
        keys.sort(axis=1)
        second = keys.astype(np.int32)
        second &= 1
        keys >>= 1
        np.equal(keys[:, 1:], keys[:, :-1], out=equals_next[:, :-1])
        return second, equals_next
    order = np.argsort(pooled, axis=1)
    ordered = np.take_along_axis(pooled, order, axis=1)
    np.equal(ordered[:, 1:], ordered[:, :-1], out=equals_next[:, :-1])
    return order >= first_rows, equals_next


# From statistics to p-values


def _kolmogorov_smirnov_tail_by(
    method: PValueMethod | str, n: int, m: int
) -> Callable[[Doubles, int, int], Doubles]:
    if method not in ("auto", "exact", "asymptotic"):
        raise ArgumentError(f"method is {method!r}: use 'auto', 'exact' or 'asymptotic'")
    if method == "exact" or (method == "auto" and n * m <= _EXACT_PRODUCT):
        return _kolmogorov_smirnov_exact_tail
    return _kolmogorov_smirnov_tail


def _kolmogorov_smirnov_tail(statistic: Doubles, n: int, m: int) -> Doubles:
    """Tail of the one-sample statistic of as many rows as the two sets are worth."""
    rows = max(round(n * m / (n + m)), 1)
    squared = rows * statistic**2
    far = (rows >= _FEWEST_SUMMED) & (squared >= _SMALLEST_SUMMED) & (squared < 370) & (statistic < 0.5)
    tail = np.empty_like(statistic)
    tail[far] = 2 * _one_sided_tail(statistic[far], rows)
    tail[~far] = stats.kstwo.sf(statistic[~far], rows)
    return tail


def _one_sided_tail(statistic: Doubles, rows: int) -> Doubles:
    """Smirnov's tail of the largest gap to one side, ``scipy.special.smirnov``, in much less time.

    The terms of the sum (Z. Birnbaum and F. Tingey, Ann. Math. Stat. 22, 1951) are a smooth function of their
    number that vanishes at both ends: a few of them, evenly spaced, give the sum to all digits.
    """
    x = statistic[:, None]
    end = rows * (1 - x)
    step = np.maximum(np.ceil(end / _SUMMED_TERMS), 1)
    term = np.arange(_SUMMED_TERMS + 1) * step
    inside = term < end
    term = np.where(inside, term, 0)
    logarithms = special.gammaln(rows + 1) - special.gammaln(term + 1) - special.gammaln(rows - term + 1)
    logarithms += (term - 1) * np.log(x + term / rows) + (rows - term) * np.log1p(-x - term / rows)
    return np.asarray(statistic * (np.where(inside, np.exp(logarithms), 0.0) * step).sum(axis=1))


def _kolmogorov_smirnov_exact_tail(statistic: Doubles, n: int, m: int) -> Doubles:
    """Share of the orders of n + m distinct values in which the gap reaches these values.

    An order is a path from (0, 0) to (n, m). The share of the paths to (i, j) that have reached the gap
    follows from those to (i - 1, j) and (i, j - 1), of which i and j in i + j come.
    """
    if n > m:
        n, m = m, n
    divisor = math.gcd(n, m)
    bound = np.rint(statistic * math.lcm(n, m))[:, None]
    reached = np.repeat(bound <= 0, n + 1, axis=1).astype(np.float64)
    for total in range(1, n + m + 1):
        i = np.arange(max(0, total - m), min(n, total) + 1)
        j = total - i
        before = reached[:, i]
        before *= j / total
        before[:, i > 0] += reached[:, i[i > 0] - 1] * (i[i > 0] / total)
        before[np.abs(i * (m // divisor) - j * (n // divisor)) >= bound] = 1.0
        reached[:, i] = before
    return np.asarray(reached[:, n])


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
