"""Shares of the gap between covered and uncovered images that a synthetic set closes.

Three figures on one scale: 0 = no better than the covered images, 1 = as good
as held-out real ones. Each is a ratio of two estimates (what S brings, what real
images bring) with an interval from half-sampling: random halves of all groups drawn
without replacement have the variance of the full sample around it, whatever the statistic
(J. Shao and C. Wu, Ann. Stat. 17, 1989), also for medians and neighbour distances where a bootstrap
fails; Fieller's theorem turns it into an interval of the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.arrays import Doubles, Mask
from pytest_semcov.metrics.intervals import Interval, fieller

UNCOVERED, COVERED, SYNTHETIC = 0, 1, 2
# U is split into this many parts, one of which is held out.
_PARTS = 4


@dataclass(frozen=True, slots=True)
class GapClosed:
    """A share of a gap closed.

    Parameters
    ----------
    share
        Numerator / denominator; NaN if the denominator is not positive.
    interval
        Confidence interval; infinite if the denominator cannot be told from zero.
    numerator, denominator
        What S brings and what held-out real images bring, in the units of the metric.
    margin
        Half-width, as a share, of the test of the share against ``bar``: a share above bar + margin is
        found above it with probability one half or more.
    """

    share: float
    interval: Interval
    numerator: float
    denominator: float
    margin: float


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Random halves of three sets, drawn by unit (group) and jointly where a unit has rows in several sets.

    Parameters
    ----------
    sets
        ``(n,)`` int: UNCOVERED, COVERED or SYNTHETIC.
    units
        ``(n,)`` int: rows of one unit are drawn together and never compared with each other.
    included
        ``(n, repeats)`` bool: rows in each half; halves come in complementary pairs.
    """

    sets: NDArray[np.intp]
    units: NDArray[np.intp]
    included: Mask

    def count_units(self, which: int) -> int:
        """Return the number of units with rows in a set."""
        return len(np.unique(self.units[self.sets == which]))


def draw_halves(
    sets: Sequence[int] | NDArray[np.intp],
    units: Sequence[object] | NDArray[np.intp],
    *,
    repeats: int,
    seed: int,
) -> Halves:
    """Draw random halves.

    Units are drawn within strata of units that occur in the same sets, so that
    every half holds half of each set's units (rounded at random).

    Parameters
    ----------
    sets
        One of UNCOVERED, COVERED, SYNTHETIC a row.
    units
        Group of each row; a row that stands on its own has a unit of its own.
    repeats
        Number of halves (rounded up to an even number).
    seed
        Seed of the draws.
    """
    set_codes = np.asarray(sets, dtype=np.intp)
    _, unit_codes = np.unique(np.asarray(units), return_inverse=True)
    patterns = np.zeros(unit_codes.max() + 1, dtype=np.intp)
    for which in (UNCOVERED, COVERED, SYNTHETIC):
        patterns[np.unique(unit_codes[set_codes == which])] |= 1 << which
    generator = np.random.default_rng(seed)
    pairs = (repeats + 1) // 2
    chosen = np.zeros((len(patterns), 2 * pairs), dtype=bool)
    for pattern in np.unique(patterns):
        members = np.flatnonzero(patterns == pattern)
        for pair in range(pairs):
            order = generator.permutation(members)
            size = (len(members) + int(generator.integers(2))) // 2
            chosen[order[:size], 2 * pair] = True
            chosen[order[size:], 2 * pair + 1] = True
    return Halves(set_codes, unit_codes, chosen[unit_codes])


def _ratio(
    full: tuple[float, float],
    numerators: Doubles,
    denominators: Doubles,
    *,
    units: int,
    bar: float,
    confidence: float,
) -> GapClosed:
    critical = float(stats.t.isf((1 - confidence) / 2, max(units - 1, 1)))
    top, bottom = full
    usable = np.isfinite(numerators) & np.isfinite(denominators)
    if usable.sum() < 2 or not (math.isfinite(top) and math.isfinite(bottom)):
        return GapClosed(math.nan, (-math.inf, math.inf), top, bottom, math.inf)
    tops, bottoms = numerators[usable], denominators[usable]
    # Spread around the full-sample estimates' own half-sample mean.
    interval = fieller(tops, bottoms, full, critical)
    spread = float(np.std(tops - bar * bottoms, ddof=1))
    share = top / bottom if bottom > 0 else math.nan
    margin = critical * spread / bottom if bottom > 0 else math.inf
    return GapClosed(share, interval, top, bottom, margin)


def drift_gap(kernel: Doubles, halves: Halves, *, bar: float, confidence: float = 0.95) -> GapClosed:
    """Share of the drift gap closed: (D(U,C) - D(U,S)) / (D(U,C) - D(U,U')).

    D is the unbiased MMD² over pairs of different units. Averaged over all splits of U the unbiased D(U,U')
    is exactly 0, so no split is drawn for it and the sets are used whole: the estimate does not depend on n.

    Parameters
    ----------
    kernel
        ``(n, n)`` kernel over all rows of the three sets.
    halves
        The halves behind the interval.
    bar
        Share against which ``margin`` is computed.
    confidence
        Of the interval.
    """
    columns = np.concatenate([np.ones((len(kernel), 1), dtype=bool), halves.included], axis=1)
    weights = [columns[halves.sets == which].astype(np.float64) for which in range(3)]
    rows = [np.flatnonzero(halves.sets == which) for which in range(3)]

    def mean_kernel(first: int, second: int) -> Doubles:
        block = kernel[np.ix_(rows[first], rows[second])]
        apart = halves.units[rows[first]][:, None] != halves.units[rows[second]][None, :]
        total = np.einsum("ir,ir->r", weights[first], np.where(apart, block, 0.0) @ weights[second])
        pairs = np.einsum("ir,ir->r", weights[first], apart.astype(np.float64) @ weights[second])
        with np.errstate(divide="ignore", invalid="ignore"):
            mean: Doubles = np.where(pairs > 0, total / pairs, np.nan)
        return mean

    within_u = mean_kernel(UNCOVERED, UNCOVERED)
    to_covered = within_u + mean_kernel(COVERED, COVERED) - 2 * mean_kernel(UNCOVERED, COVERED)
    to_synthetic = within_u + mean_kernel(SYNTHETIC, SYNTHETIC) - 2 * mean_kernel(UNCOVERED, SYNTHETIC)
    tops, bottoms = to_covered - to_synthetic, to_covered
    units = min(halves.count_units(which) for which in range(3))
    return _ratio((tops[0], bottoms[0]), tops[1:], bottoms[1:], units=units, bar=bar, confidence=confidence)


@dataclass(frozen=True, slots=True)
class RadiusGap:
    """Share of the radius gap closed, with the radii behind it.

    Parameters
    ----------
    closed
        The share.
    rows
        Number of images among which neighbours are looked for (the same for U', C and S).
    among_real, among_covered, among_synthetic
        Median distance from an image of U to the k-th nearest of ``rows`` images: other real uncovered,
        covered, synthetic ones.
    """

    closed: GapClosed
    rows: int
    among_real: float
    among_covered: float
    among_synthetic: float


def radius_gap(table: Doubles, halves: Halves, *, k: int, bar: float, confidence: float = 0.95) -> RadiusGap:
    """Share of the radius gap closed: (r(U,C) - r(U,S)) / (r(U,C) - r(U,U')).

    r(U, X) is the median over U of the expected distance to the k-th nearest of n images drawn at random
    from X without the image's own unit; the expectation over the draw is exact (hypergeometric weights on
    the sorted distances), so nothing depends on one split of U. n is the largest number that every half of
    every set has.

    Parameters
    ----------
    table
        ``(n, n)`` distances over all rows of the three sets.
    halves
        The halves behind the interval.
    k
        Which neighbour.
    bar, confidence
        As for :func:`drift_gap`.

    Raises
    ------
    TooFewError
        If the halves have fewer than 2k usable rows.
    """
    queries = np.flatnonzero(halves.sets == UNCOVERED)
    columns = np.concatenate([np.ones((len(table), 1), dtype=bool), halves.included], axis=1)
    rows = [np.flatnonzero(halves.sets == which) for which in range(3)]
    apart = [halves.units[queries][:, None] != halves.units[members][None, :] for members in rows]
    available = [
        (allowed.astype(np.float64) @ columns[members].astype(np.float64)).astype(np.intp)
        for allowed, members in zip(apart, rows, strict=True)
    ]
    asked = columns[queries]
    drawn = int(min(np.where(asked, count, np.iinfo(np.intp).max).min() for count in available))
    if drawn < 2 * k:
        raise TooFewError(
            f"half of the smallest set has {drawn} images apart from an image's own group, "
            f"need at least {2 * k} to compare distances to the {k}-th neighbour"
        )
    medians = np.stack(
        [
            _expected_medians(
                table[np.ix_(queries, members)], allowed, count, columns[members], asked, k, drawn
            )
            for members, allowed, count in zip(rows, apart, available, strict=True)
        ]
    )
    tops = medians[COVERED] - medians[SYNTHETIC]
    bottoms = medians[COVERED] - medians[UNCOVERED]
    units = min(halves.count_units(which) for which in range(3))
    closed = _ratio((tops[0], bottoms[0]), tops[1:], bottoms[1:], units=units, bar=bar, confidence=confidence)
    return RadiusGap(closed, drawn, *(float(medians[which, 0]) for which in range(3)))


def _expected_medians(
    block: Doubles, allowed: Mask, available: NDArray[np.intp], columns: Mask, asked: Mask, k: int, drawn: int
) -> Doubles:
    """Median over the queries of the expected k-th neighbour distance, for the full sets and each half."""
    barred = np.where(allowed, block, np.inf)
    # Neighbours beyond this rank are the k-th of a draw with negligible probability.
    reach = min(block.shape[1], math.ceil((k + 8 * math.sqrt(k)) * block.shape[1] / drawn) + k)
    order = np.argpartition(barred, reach - 1, axis=1)[:, :reach]
    order = np.take_along_axis(order, np.argsort(np.take_along_axis(barred, order, axis=1), axis=1), axis=1)
    ordered = np.take_along_axis(barred, order, axis=1)
    ordered_allowed = np.isfinite(ordered)
    ordered[~ordered_allowed] = 0.0
    tables = {int(total): _rank_weights(int(total), drawn, k, reach) for total in np.unique(available[asked])}
    result = np.empty(columns.shape[1])
    for column in range(columns.shape[1]):
        present = columns[order, column] & ordered_allowed
        rank = np.cumsum(present, axis=1) - 1
        query = np.flatnonzero(asked[:, column])
        weights = np.zeros((len(query), reach))
        totals = available[query, column]
        for total in np.unique(totals):
            chosen = totals == total
            weights[chosen] = tables[int(total)][rank[query[chosen]]]
        weights *= present[query]
        expected = (weights * ordered[query]).sum(axis=1) / weights.sum(axis=1)
        result[column] = np.median(expected)
    return result


def _rank_weights(total: int, drawn: int, k: int, reach: int) -> Doubles:
    """P(the k-th nearest of ``drawn`` out of ``total`` rows is the one of that rank), ``(reach,)``."""
    rank = np.arange(1, reach + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.exp(
            _log_choose(rank - 1, k - 1)
            + _log_choose(total - rank, drawn - k)
            - _log_choose(np.array(total), drawn)
        )
    weights[~np.isfinite(weights) | (rank > total)] = 0.0
    return np.asarray(weights)


def _log_choose(n: NDArray[np.intp], k: int) -> Doubles:
    result = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0)
    return np.asarray(np.where((n >= k) & (k >= 0), result, -np.inf))


@dataclass(frozen=True, slots=True)
class CompletenessGain:
    """Completeness gain with the cell counts behind it.

    Parameters
    ----------
    gain
        New cells by S over new cells by as many held-out real images.
    rows
        Number of images that come on top, of S and of held-out U.
    occupied
        Cells that U and C occupy.
    by_synthetic, by_real
        Cells newly occupied by that many images (expected number).
    """

    gain: GapClosed
    rows: float
    occupied: int
    by_synthetic: float
    by_real: float


def completeness_gain(
    cells: NDArray[np.int64], halves: Halves, *, bar: float, confidence: float = 0.95
) -> CompletenessGain:
    """Cells newly occupied by n images of S, over cells newly occupied by n held-out images of U.

    Both come on top of C and the rest of U, from which as many images are held out: a quarter of U, or as
    many as half of S has. The expectation over the random choice is exact: each unit is chosen with
    probability n / |set|, and a cell counts if no unit of C and no remaining unit of U touches it and some
    chosen one does.

    Parameters
    ----------
    cells
        ``(n,)`` cell of every row of the three sets.
    halves
        The halves behind the interval; images already there are not varied.
    bar, confidence
        As for :func:`drift_gap`.
    """
    columns = np.concatenate([np.ones((len(cells), 1), dtype=bool), halves.included], axis=1)
    _, codes = np.unique(cells, return_inverse=True)
    touched = []
    for which in range(3):
        mine = halves.sets == which
        pairs, first = np.unique(np.stack([codes[mine], halves.units[mine]]), axis=1, return_index=True)
        incidence = np.zeros((codes.max() + 1, columns.shape[1]))
        np.add.at(incidence, pairs[0], columns[mine][first])
        touched.append(incidence)
    by_u, by_c, by_s = touched
    sizes = np.stack([columns[halves.sets == which].sum(axis=0) for which in range(3)]).astype(np.float64)
    drawn = float(min(sizes[UNCOVERED, 0] / _PARTS, sizes[SYNTHETIC].min()))
    probability = np.minimum(drawn / np.maximum(sizes, 1.0), 1.0)
    free = by_c[:, 0] == 0
    some_s = 1 - (1 - probability[SYNTHETIC]) ** by_s
    complete = by_u == by_u[:, :1]
    held_out = np.where(complete, probability[UNCOVERED] ** by_u, 0.0)
    tops = (held_out * some_s)[free].sum(axis=0)
    bottoms = held_out[free & (by_u[:, 0] > 0)].sum(axis=0)
    occupied = int(np.sum((by_u[:, 0] > 0) | (by_c[:, 0] > 0)))
    units = min(halves.count_units(which) for which in (UNCOVERED, SYNTHETIC))
    gain = _ratio((tops[0], bottoms[0]), tops[1:], bottoms[1:], units=units, bar=bar, confidence=confidence)
    return CompletenessGain(gain, drawn, occupied, float(tops[0]), float(bottoms[0]))
