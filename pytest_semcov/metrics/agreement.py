"""Agreement of several rankings of the same things."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.arguments import require_confidence, require_whole
from pytest_semcov.metrics.arrays import Doubles, Indices
from pytest_semcov.metrics.intervals import Interval


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """How far several rankings agree.

    Parameters
    ----------
    tau
        Mean over pairs of Kendall's tau-b, in [-1, 1]; NaN where a ranking is all ties.
    interval
        Its interval; ``None`` where it cannot be had (fewer than three blocks, or all ties without one).
    p_value
        Share of shuffled rankings whose tau is as large, (b + 1) / (m + 1).
    w
        Kendall's W in [0, 1], corrected for ties; NaN where all rankings are all ties.
    blocks, items
        How many blocks and items were ranked.
    """

    tau: float
    interval: Interval | None
    p_value: float
    w: float
    blocks: int
    items: int


def descending_ranks(figures: Sequence[float]) -> Doubles:
    """Return ranks by descending figure: ``(n,)``, 1 = largest, ties share the mean of their places."""
    ranks: Doubles = stats.rankdata(-np.asarray(figures, dtype=np.float64))
    return ranks


def pair_taus(figures: ArrayLike) -> tuple[float, ...]:
    """Return Kendall's tau-b (M. Kendall, Biometrika 33, 1945) of each pair of rows.

    Parameters
    ----------
    figures
        ``(m, n)``: row = one judge's figures of n items.

    Returns
    -------
    taus
        In the order of ``itertools.combinations``; NaN where a row is all ties.
    """
    table = np.asarray(figures, dtype=np.float64)
    first, second = np.triu_indices(table.shape[1], k=1)
    signs = np.sign(table[:, first] - table[:, second])
    lengths = np.sqrt((signs**2).sum(axis=1))
    unit = np.divide(signs, lengths[:, None], out=np.full_like(signs, math.nan), where=lengths[:, None] > 0)
    products = unit @ unit.T
    return tuple(float(products[a, b]) for a, b in combinations(range(len(table)), 2))


def mean_tau(figures: ArrayLike) -> float:
    """Return the mean of :func:`pair_taus`; NaN if a row is all ties."""
    return float(np.mean(pair_taus(figures)))


def kendall_w(figures: Doubles) -> float:
    """Return Kendall's coefficient of concordance, corrected for ties, of ``(m, n)`` figures.

    W = 12 S / (m² (n³ - n) - m ΣT), S the squared deviations of the items' rank sums, T the sum of t³ - t
    over a row's ties (M. Kendall and B. Babington Smith, Ann. Math. Stat. 10, 1939). NaN if every row is all
    ties.
    """
    judges, items = figures.shape
    ranks = stats.rankdata(figures, axis=1)
    sums = ranks.sum(axis=0)
    ties = 0.0
    for row in ranks:
        sizes = np.unique(row, return_counts=True)[1].astype(np.float64)
        ties += float((sizes**3 - sizes).sum())
    below = judges**2 * (items**3 - items) - judges * ties
    return float(12 * ((sums - sums.mean()) ** 2).sum() / below) if below > 0 else math.nan


def rank_agreement(
    figures: ArrayLike,
    blocks: Sequence[object],
    *,
    permutations: int = 1_999,
    confidence: float = 0.95,
    seed: int = 0,
) -> RankAgreement:
    """Measure how far several judges rank the same items alike.

    Parameters
    ----------
    figures
        ``(m, n)``: figures of n items by m judges; only the order within a row matters.
    blocks
        ``(n,)`` the block of each item. Items of a block depend on each other (two categories of one
        semantic): blocks are left out together, and shuffled whole, those of one size among themselves.
    permutations
        Shuffled rankings behind the p-value; every row is shuffled on its own.
    confidence
        Of the interval.
    seed
        Seed of the shuffling.

    Returns
    -------
    agreement
        The interval is the jackknife's (J. Arvesen, "Jackknifing U-statistics", Ann. Math. Stat. 40, 1969)
        with Student's t, leaving out a block at a time, with one further block ranked at random (its
        pseudo-value is 0) added: without it, few blocks that happen to agree wholly would claim certainty.

    Raises
    ------
    ArgumentError
        If there is not one block per item.
    NonFiniteError
        If a figure is NaN or infinite.
    TooFewError
        If there are fewer than two judges or two items.
    """
    table = np.asarray(figures, dtype=np.float64)
    require_whole("permutations", permutations, least=1)
    require_confidence(confidence)
    if table.ndim != 2 or len(blocks) != table.shape[-1]:
        raise ArgumentError(f"figures of shape {table.shape} and {len(blocks)} blocks: need (m, n) and n")
    if min(table.shape) < 2:
        raise TooFewError(f"{table.shape[0]} rankings of {table.shape[1]} items: need 2 of 2 at least")
    if not np.isfinite(table).all():
        raise NonFiniteError("a figure to rank by is NaN or infinite")
    names = list(dict.fromkeys(blocks))
    members = [np.flatnonzero([block == name for block in blocks]) for name in names]
    tau = mean_tau(table)
    return RankAgreement(
        tau,
        _jackknife(table, members, tau, confidence),
        _p_value(table, members, tau, permutations, seed),
        kendall_w(table),
        len(names),
        table.shape[1],
    )


def _jackknife(table: Doubles, members: Sequence[Indices], tau: float, confidence: float) -> Interval | None:
    count = len(members)
    if count < 3 or math.isnan(tau):
        return None
    without = np.array([mean_tau(np.delete(table, block, axis=1)) for block in members])
    if np.isnan(without).any():
        return None
    pseudo = np.append(count * tau - (count - 1) * without, 0.0)
    reach = float(stats.t.isf((1 - confidence) / 2, count) * pseudo.std(ddof=1) / math.sqrt(count + 1))
    centre = float(pseudo.mean())
    return max(-1.0, min(centre - reach, tau)), min(1.0, max(centre + reach, tau))


def _p_value(table: Doubles, members: Sequence[Indices], tau: float, permutations: int, seed: int) -> float:
    if math.isnan(tau):
        return 1.0
    generator = np.random.default_rng(seed)
    sizes: dict[int, list[Indices]] = {}
    for block in members:
        sizes.setdefault(len(block), []).append(block)
    reached = 0
    for _ in range(permutations):
        shuffled = np.empty_like(table)
        for judge, row in enumerate(table):
            for alike in sizes.values():
                order = generator.permutation(len(alike))
                for place, source in enumerate(order):
                    shuffled[judge, alike[place]] = row[alike[source]]
        reached += mean_tau(shuffled) >= tau - 1e-12
    return (reached + 1) / (permutations + 1)
