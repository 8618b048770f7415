"""Two-sample statistics of every feature: Kolmogorov-Smirnov and Cramér-von Mises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from pytest_semcov.metrics.arrays import (
    Doubles,
    as_doubles,
    require_rows,
    require_same_width,
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
