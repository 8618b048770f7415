"""Confidence intervals of shares, of differences and ratios of shares, and of any statistic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import numpy as np
from scipy import special, stats

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.arguments import require_confidence, require_number, require_whole
from pytest_semcov.metrics.arrays import Doubles, Indices, group_codes

Interval = tuple[float, float]


def _check(successes: int, trials: int, confidence: float) -> None:
    require_confidence(confidence)
    try:
        successes, trials = operator.index(successes), operator.index(trials)
    except TypeError:
        raise ArgumentError(f"{successes!r} successes of {trials!r} trials: need whole numbers") from None
    if trials < 1:
        raise TooFewError(f"an interval of a share needs at least 1 trial, have {trials}")
    if not 0 <= successes <= trials:
        raise ArgumentError(f"{successes} successes of {trials} trials: need 0 to {trials}")


def _check_pair(pair: tuple[int, int], name: str, confidence: float) -> None:
    try:
        successes, trials = pair
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is {pair!r}: need (successes, trials)") from None
    _check(successes, trials, confidence)


def wilson(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a share (E. B. Wilson, JASA 22, 1927)."""
    _check(successes, trials, confidence)
    z = float(stats.norm.isf((1 - confidence) / 2))
    share = successes / trials
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    centre = share + z * z / (2 * trials)
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == trials else (centre + spread) / scale
    return low, high


def clopper_pearson(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Exact interval of a share (C. Clopper and E. Pearson, Biometrika 26, 1934); never too narrow."""
    _check(successes, trials, confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, trials - successes + 1, tail))
    high = 1.0
    if successes < trials:
        high = float(special.betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high


def newcombe(first: tuple[int, int], second: tuple[int, int], *, confidence: float = 0.95) -> Interval:
    """Interval of a difference of two independent shares (R. Newcombe, Stat. Med. 17, 1998, method 10).

    Parameters
    ----------
    first, second
        ``(successes, trials)``; the interval is of share(first) - share(second).

    Raises
    ------
    ArgumentError
        If the counts are no whole numbers or do not fit together.
    TooFewError
        If there are no trials.
    """
    _check_pair(first, "first", confidence)
    _check_pair(second, "second", confidence)
    p, q = first[0] / first[1], second[0] / second[1]
    low_p, high_p = wilson(*first, confidence=confidence)
    low_q, high_q = wilson(*second, confidence=confidence)
    return (
        p - q - math.hypot(p - low_p, high_q - q),
        p - q + math.hypot(high_p - p, q - low_q),
    )


def ratio_of_shares(first: tuple[int, int], second: tuple[int, int], *, confidence: float = 0.95) -> Interval:
    """Interval of share(first) / share(second), independent shares.

    Wilson limits combined by MOVER-R (A. Donner and G. Zou, Stat. Methods Med. Res. 21, 2012). The upper
    bound is infinite when the second share may be 0.

    Parameters
    ----------
    first, second
        ``(successes, trials)``.

    Raises
    ------
    ArgumentError
        If the counts are no whole numbers or do not fit together.
    TooFewError
        If there are no trials.
    """
    _check_pair(first, "first", confidence)
    _check_pair(second, "second", confidence)
    p, q = first[0] / first[1], second[0] / second[1]
    low_p, high_p = wilson(*first, confidence=confidence)
    low_q, high_q = wilson(*second, confidence=confidence)
    product = p * q
    # Each bound is a root of a quadratic in the ratio; rounding may push a discriminant just below zero.
    a, b = low_p * (2 * p - low_p), high_q * (2 * q - high_q)
    low = a / (product + math.sqrt(max(product**2 - a * b, 0.0))) if a > 0 else 0.0
    a, b = high_p * (2 * p - high_p), low_q * (2 * q - low_q)
    high = (product + math.sqrt(max(product**2 - a * b, 0.0))) / b if b > 0 else math.inf
    return low, high


def bootstrap(
    statistic: Callable[[Indices], float],
    rows: int,
    *,
    groups: Sequence[object] | None = None,
    confidence: float = 0.95,
    repeats: int = 999,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of a statistic, resampling groups.

    Parameters
    ----------
    statistic
        Takes row numbers (with repetitions) and returns a number. Not for statistics of neighbour
        distances: a row drawn twice is its own neighbour.
    rows
        Number of rows.
    groups
        One group per row: whole groups are drawn; ``None`` = every row on its own. At least 2.
    repeats
        Number of bootstrap samples.
    seed
        Seed of the draws.

    Raises
    ------
    ArgumentError
        If the statistic returns no number, or there is not one group per row.
    NonFiniteError
        If the statistic of a sample is NaN or infinite.
    TooFewError
        If there are fewer than 2 rows or groups: one alone has no spread.
    """
    require_confidence(confidence)
    require_whole("rows", rows, least=0)
    require_whole("repeats", repeats, least=1)
    if rows < 1:
        raise TooFewError(f"a bootstrap needs at least 2 rows, have {rows}")
    names = group_codes(groups, rows, name="bootstrap")
    _, codes = np.unique(names if names is not None else np.arange(rows), return_inverse=True)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    if len(members) < 2:
        raise TooFewError(f"a bootstrap needs at least 2 {'rows' if names is None else 'groups'}, have 1")
    generator = np.random.default_rng(seed)
    values = np.empty(repeats)
    for repeat in range(repeats):
        drawn = generator.integers(len(members), size=len(members))
        value = statistic(np.concatenate([members[index] for index in drawn]))
        require_number("what the statistic returns", value)
        values[repeat] = value
    wrong = int(np.sum(~np.isfinite(values)))
    if wrong:
        raise NonFiniteError(f"the statistic is NaN or infinite on {wrong} of {repeats} bootstrap samples")
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def fieller(
    numerators: Doubles, denominators: Doubles, estimate: tuple[float, float], critical: float
) -> Interval:
    """Interval of a ratio whose numerator and denominator are both estimated (E. Fieller, JRSS B 16, 1954).

    Parameters
    ----------
    numerators, denominators
        ``(r,)`` replicates whose covariance is that of the estimates.
    estimate
        Numerator and denominator estimated from all data.
    critical
        Critical value of the standardised numerator - ratio × denominator.

    Returns
    -------
    interval
        ``(-inf, inf)`` if the denominator cannot be told from zero (or is not positive).
    """
    top, bottom = estimate
    if not bottom > 0:
        return -math.inf, math.inf
    covariance = np.cov(numerators, denominators)
    squared = critical * critical
    a = bottom * bottom - squared * float(covariance[1, 1])
    b = top * bottom - squared * float(covariance[0, 1])
    c = top * top - squared * float(covariance[0, 0])
    if not a > 0:
        return -math.inf, math.inf
    root = math.sqrt(max(b * b - a * c, 0.0))
    return (b - root) / a, (b + root) / a
