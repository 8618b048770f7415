"""Shares of the gap between covered and uncovered images that a synthetic set closes.

Three figures on one scale: 0 = no better than the covered images, 1 = as good
as held-out real ones. Each is a ratio of two estimates (what S brings, what
real images bring). Its interval comes from rescaled subsampling: the spread of
the two estimates over random subsets of the groups, drawn without replacement,
times √(b / (N - b)) for b of N groups, is that of the full estimates whatever
the statistic (J. Shao and C. Wu, "A General Theory for Jackknife Variance
Estimation", Ann. Stat. 17, 1989), also for medians and neighbour distances,
where a bootstrap fails because it repeats rows. Fieller's theorem turns it into
an interval of the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.arrays import Doubles, Indices, Mask
from pytest_semcov.metrics.completeness import semantic_cells
from pytest_semcov.metrics.intervals import Interval, fieller

UNCOVERED, COVERED, SYNTHETIC = 0, 1, 2
_SETS = (UNCOVERED, COVERED, SYNTHETIC)
# Each subsample leaves out one of this many parts of the units.
PARTS = 5
# For completeness U is held out in parts, by several splits.
_HELD_OUT_PARTS = 4
_SPLITS = 4


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
        A true share of bar + margin is found above the bar with probability about one half.
    critical
        The margin is so many standard errors: the critical value of the interval.
    """

    share: float
    interval: Interval
    numerator: float
    denominator: float
    margin: float
    critical: float


@dataclass(frozen=True, slots=True, eq=False)
class Subsamples:
    """Random subsamples of three sets, drawn by unit, jointly where a unit has rows in several sets.

    Parameters
    ----------
    sets
        ``(n,)`` int: UNCOVERED, COVERED or SYNTHETIC.
    units
        ``(n,)`` int: rows of one unit are drawn together and never compared with each other.
    included
        ``(n, 1 + repeats)`` bool: all rows, then the rows of each subsample.
    """

    sets: NDArray[np.intp]
    units: NDArray[np.intp]
    included: Mask

    def rows(self, which: int) -> Indices:
        """Return the row numbers of a set."""
        return np.flatnonzero(self.sets == which)

    def count_units(self, which: int) -> int:
        """Return the number of units with rows in a set."""
        return len(np.unique(self.units[self.sets == which]))


def draw_subsamples(
    sets: Sequence[int] | NDArray[np.intp],
    units: Sequence[object] | NDArray[np.intp],
    *,
    repeats: int,
    seed: int,
) -> Subsamples:
    """Draw random subsamples that leave out a fifth of the units.

    Units are split at random into five parts, within strata of units that occur
    in the same sets, and each part is left out once; again until there are
    enough subsamples.

    Parameters
    ----------
    sets
        One of UNCOVERED, COVERED, SYNTHETIC a row.
    units
        Group of each row; a row that stands on its own has a unit of its own.
    repeats
        Number of subsamples (rounded up to a multiple of five).
    seed
        Seed of the draws.
    """
    set_codes = np.asarray(sets, dtype=np.intp)
    _, unit_codes = np.unique(np.asarray(units), return_inverse=True)
    patterns = np.zeros(unit_codes.max() + 1, dtype=np.intp)
    for which in _SETS:
        patterns[np.unique(unit_codes[set_codes == which])] |= 1 << which
    generator = np.random.default_rng(seed)
    rounds = -(-repeats // PARTS)
    included = np.ones((len(patterns), 1 + PARTS * rounds), dtype=bool)
    for turn in range(rounds):
        part = random_parts(patterns, PARTS, generator)
        columns = slice(1 + PARTS * turn, 1 + PARTS * (turn + 1))
        included[:, columns] = part[:, None] != np.arange(PARTS)[None, :]
    return Subsamples(set_codes, unit_codes, included[unit_codes])


def random_parts(strata: NDArray[np.intp], parts: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Assign each unit to one of ``parts`` parts, evenly within every stratum."""
    part = np.empty(len(strata), dtype=np.intp)
    for stratum in np.unique(strata):
        members = generator.permutation(np.flatnonzero(strata == stratum))
        part[members] = (np.arange(len(members)) + generator.integers(parts)) % parts
    return part


def _ratio(
    tops: Doubles, bottoms: Doubles, subsamples: Subsamples, *, bar: float, confidence: float
) -> GapClosed:
    """Combine full estimates (first entries) and replicates."""
    units = min(subsamples.count_units(which) for which in _SETS)
    critical = float(stats.t.isf((1 - confidence) / 2, max(units - 1, 1)))
    top, bottom = float(tops[0]), float(bottoms[0])
    usable = np.isfinite(tops[1:]) & np.isfinite(bottoms[1:])
    if usable.sum() < 2 or not (math.isfinite(top) and math.isfinite(bottom)):
        return GapClosed(math.nan, (-math.inf, math.inf), top, bottom, math.inf, critical)
    rescale = math.sqrt(PARTS - 1)
    spread_top, spread_bottom = rescale * tops[1:][usable], rescale * bottoms[1:][usable]
    interval = fieller(spread_top, spread_bottom, (top, bottom), critical)
    if not bottom > 0:
        return GapClosed(math.nan, interval, top, bottom, math.inf, critical)
    margin = critical * float(np.std(spread_top - bar * spread_bottom, ddof=1)) / bottom
    return GapClosed(top / bottom, interval, top, bottom, margin, critical)


def drift_gap(kernel: Doubles, subsamples: Subsamples, *, bar: float, confidence: float = 0.95) -> GapClosed:
    """Share of the drift gap closed: (D(U,C) - D(U,S)) / (D(U,C) - D(U,U')).

    D is the unbiased MMD² over pairs of different units. Averaged over all splits of U the unbiased D(U,U')
    is exactly 0, so no split is drawn for it and the sets are used whole: the estimate does not depend on n.

    Parameters
    ----------
    kernel
        ``(n, n)`` kernel over all rows of the three sets.
    subsamples
        The subsamples behind the interval.
    bar
        Share against which ``margin`` is computed.
    confidence
        Of the interval.
    """
    rows = [subsamples.rows(which) for which in _SETS]
    weights = [subsamples.included[members].astype(np.float64) for members in rows]

    def mean_kernel(first: int, second: int) -> Doubles:
        block = kernel[np.ix_(rows[first], rows[second])]
        apart = subsamples.units[rows[first]][:, None] != subsamples.units[rows[second]][None, :]
        total = np.einsum("ir,ir->r", weights[first], np.where(apart, block, 0.0) @ weights[second])
        pairs = np.einsum("ir,ir->r", weights[first], apart.astype(np.float64) @ weights[second])
        mean: Doubles = np.divide(total, pairs, out=np.full_like(total, np.nan), where=pairs > 0)
        return mean

    within_u = mean_kernel(UNCOVERED, UNCOVERED)
    to_covered = within_u + mean_kernel(COVERED, COVERED) - 2 * mean_kernel(UNCOVERED, COVERED)
    to_synthetic = within_u + mean_kernel(SYNTHETIC, SYNTHETIC) - 2 * mean_kernel(UNCOVERED, SYNTHETIC)
    return _ratio(to_covered - to_synthetic, to_covered, subsamples, bar=bar, confidence=confidence)


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


def radius_gap(
    table: Doubles, subsamples: Subsamples, *, k: int, bar: float, confidence: float = 0.95
) -> RadiusGap:
    """Share of the radius gap closed: (r(U,C) - r(U,S)) / (r(U,C) - r(U,U')).

    r(U, X) is the mean over U of the expected distance to the k-th nearest of n images drawn at random
    from X without the image's own unit; the expectation over the draw is exact (hypergeometric weights on
    the sorted distances), so nothing depends on one split of U. n is a third of U or what every subsample
    of every set has. The mean, not the median, because each image of U is compared with itself: the spread
    between images cancels and the intervals are half as wide.

    Parameters
    ----------
    table
        ``(n, n)`` distances over all rows of the three sets.
    subsamples
        The subsamples behind the interval.
    k
        Which neighbour.
    bar, confidence
        As for :func:`drift_gap`.

    Raises
    ------
    TooFewError
        If n is below 2k.
    """
    included = subsamples.included
    queries = subsamples.rows(UNCOVERED)
    members = [subsamples.rows(which) for which in _SETS]
    apart = [subsamples.units[queries][:, None] != subsamples.units[rows][None, :] for rows in members]
    available = [
        np.rint(allowed.astype(np.float64) @ included[rows].astype(np.float64)).astype(np.intp)
        for allowed, rows in zip(apart, members, strict=True)
    ]
    asked = included[queries]
    fewest = min(int(count[asked].min()) for count in available)
    drawn = min(fewest, len(queries) // 3)
    if drawn < 2 * k:
        raise TooFewError(
            f"{drawn} images (a third of the real uncovered ones, or a set without an image's own group) "
            f"are too few to compare distances to the {k}-th neighbour: need {2 * k}"
        )
    radii = [
        _expected_radii(table[np.ix_(queries, rows)], allowed, count, included[rows], asked, k=k, drawn=drawn)
        for rows, allowed, count in zip(members, apart, available, strict=True)
    ]
    means = [mean for mean, _ in radii]
    closed = _ratio(
        means[COVERED] - means[SYNTHETIC],
        means[COVERED] - means[UNCOVERED],
        subsamples,
        bar=bar,
        confidence=confidence,
    )
    return RadiusGap(closed, drawn, *(median for _, median in radii))


def _expected_radii(
    block: Doubles,
    allowed: Mask,
    available: NDArray[np.intp],
    included: Mask,
    asked: Mask,
    *,
    k: int,
    drawn: int,
) -> tuple[Doubles, float]:
    """Mean over the queries of the expected k-th neighbour distance, for all rows and each subsample.

    Also the median, for all rows.
    """
    barred = np.where(allowed, block, np.inf)
    # Neighbours beyond this rank are the k-th of a draw with negligible probability.
    reach = min(block.shape[1], math.ceil((k + 8 * math.sqrt(k)) * block.shape[1] / drawn) + k)
    order = np.argpartition(barred, reach - 1, axis=1)[:, :reach]
    order = np.take_along_axis(
        order, np.argsort(np.take_along_axis(barred, order, axis=1), axis=1, kind="stable"), axis=1
    )
    ordered = np.take_along_axis(barred, order, axis=1)
    usable = np.isfinite(ordered)
    ordered[~usable] = 0.0
    sizes = np.unique(available[asked])
    weights_of = np.stack([_rank_weights(int(size), drawn, k, reach) for size in sizes])
    which_size = np.searchsorted(sizes, available)
    means = np.empty(included.shape[1])
    median = math.nan
    for column in range(included.shape[1]):
        query = np.flatnonzero(asked[:, column])
        present = included[order[query], column] & usable[query]
        rank = np.cumsum(present, axis=1) - 1
        weights = np.where(present, weights_of[which_size[query, column][:, None], rank], 0.0)
        expected = np.einsum("qj,qj->q", weights, ordered[query]) / weights.sum(axis=1)
        means[column] = expected.mean()
        if column == 0:
            median = float(np.median(expected))
    return means, median


def _rank_weights(total: int, drawn: int, k: int, reach: int) -> Doubles:
    """P(the k-th nearest of ``drawn`` out of ``total`` rows is the one of that rank), ``(reach,)``."""
    rank = np.arange(1, reach + 1)
    weights = np.exp(
        _log_choose(rank - 1, k - 1)
        + _log_choose(total - rank, drawn - k)
        - _log_choose(np.array([total]), drawn)
    )
    return np.asarray(weights)


def _log_choose(n: NDArray[np.intp], k: int) -> Doubles:
    possible = np.maximum(n, k)
    logarithm = (
        special.gammaln(possible + 1.0) - special.gammaln(k + 1.0) - special.gammaln(possible - k + 1.0)
    )
    return np.asarray(np.where(n >= k, logarithm, -np.inf))


@dataclass(frozen=True, slots=True)
class CompletenessGain:
    """Completeness gain with the cell counts behind it.

    Parameters
    ----------
    gain
        New cells by S over new cells by as many held-out real images.
    rows
        Number of images that come on top, of S and of held-out U.
    cuts
        The space is cut into 2^cuts cells (the most of any fit).
    by_synthetic, by_real
        Cells newly occupied by that many images (expected number).
    """

    gain: GapClosed
    rows: float
    cuts: int
    by_synthetic: float
    by_real: float


def completeness_gain(
    squared: Doubles, subsamples: Subsamples, *, seed: int, bar: float, confidence: float = 0.95
) -> CompletenessGain:
    """Cells newly occupied by n images of S, over cells newly occupied by n held-out images of U.

    U is split into four parts by unit. For each part, cells are fitted to C and the rest of U
    (:func:`~pytest_semcov.metrics.completeness.semantic_cells`); then images of the part, or as many of S,
    come on top. Both are new to the cells, so neither gains by having shaped them. The expectation over the
    n images is exact: each unit takes part with probability n / |set|. The interval is for the cells and
    images at hand: S and the held-out images vary, what was there before does not.

    Parameters
    ----------
    squared
        ``(n, n)`` squared distances over all rows of the three sets.
    subsamples
        The subsamples behind the interval.
    seed
        Seed of the splits of U.
    bar, confidence
        As for :func:`drift_gap`.
    """
    generator = np.random.default_rng(seed)
    u, c, s = (subsamples.rows(which) for which in _SETS)
    drawn = min(
        len(u) / _HELD_OUT_PARTS * (PARTS - 1) / PARTS, float(subsamples.included[s].sum(axis=0).min())
    )
    names, unit_of_row = np.unique(subsamples.units[u], return_inverse=True)
    tops, bottoms = np.zeros(subsamples.included.shape[1]), np.zeros(subsamples.included.shape[1])
    most_cuts = 0
    for _ in range(_SPLITS):
        part = random_parts(np.zeros(len(names), dtype=np.intp), _HELD_OUT_PARTS, generator)[unit_of_row]
        for left_out in range(_HELD_OUT_PARTS):
            kept, held_out = u[part != left_out], u[part == left_out]
            cells, cuts = semantic_cells(squared, kept, c)
            free = ~np.isin(cells, cells[np.concatenate([kept, c])])
            tops += _expected_cells(cells, s, free, subsamples, drawn)
            bottoms += _expected_cells(cells, held_out, free, subsamples, drawn)
            most_cuts = max(most_cuts, cuts)
    tops /= _SPLITS * _HELD_OUT_PARTS
    bottoms /= _SPLITS * _HELD_OUT_PARTS
    gain = _ratio(tops, bottoms, subsamples, bar=bar, confidence=confidence)
    return CompletenessGain(gain, drawn, most_cuts, float(tops[0]), float(bottoms[0]))


def _expected_cells(
    cells: NDArray[np.int64], rows: Indices, free: Mask, subsamples: Subsamples, drawn: float
) -> Doubles:
    """Return how many free cells ``drawn`` random rows are expected to occupy, per column of ``included``."""
    included = subsamples.included
    counted = rows[free[rows]]
    if not len(counted):
        return np.zeros(included.shape[1])
    pairs, first = np.unique(np.stack([cells[counted], subsamples.units[counted]]), axis=1, return_index=True)
    # Pairs come sorted by cell.
    _, start = np.unique(pairs[0], return_index=True)
    units = np.add.reduceat(included[counted[first]].astype(np.float64), start, axis=0)
    probability = np.minimum(drawn / np.maximum(included[rows].sum(axis=0), 1), 1.0)
    return np.asarray((1 - (1 - probability) ** units).sum(axis=0))
