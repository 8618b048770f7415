"""What the sufficiency gate compares: three sets in an order of their own and one table of distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.metrics.arrays import (
    Doubles,
    Floats,
    Indices,
    Mask,
    canonical_order,
    row_keys,
    squared_distances,
)
from pytest_semcov.metrics.gaps import COVERED, SYNTHETIC, UNCOVERED
from pytest_semcov.metrics.mmd import median_bandwidth_from_distances, rbf_kernel
from pytest_semcov.metrics.prdc import ball_radii

# Larger sets are represented by this many random rows: beyond, precision gains little and tables much.
MOST_ROWS = 1500


@dataclass(frozen=True, slots=True, eq=False)
class MatchedInput:
    """What is judged; see :func:`pytest_semcov.gates.sufficiency.sufficiency_verdict`."""

    synthetic: Floats
    uncovered: Floats
    covered: Floats
    sources: Floats | None
    synthetic_groups: list[str] | None
    uncovered_groups: list[str] | None
    covered_groups: list[str] | None
    synthetic_ids: tuple[str, ...] | None
    failed: int
    arrival: tuple[tuple[int, int], tuple[int, int]] | None


@dataclass(frozen=True, slots=True)
class MatchedSettings:
    """Bars, sizes and seed; see :func:`pytest_semcov.gates.sufficiency.sufficiency_verdict`."""

    subject: str
    semantic: str | None
    min_gap_closed: float
    min_completeness_gain: float
    k: int
    repeats: int
    confidence: float
    seed: int
    figures: bool


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSet:
    """Rows of one set in canonical order.

    Parameters
    ----------
    rows
        ``(n, d)`` float64.
    original
        ``(n,)`` row numbers as given.
    units
        What is drawn together and not compared with itself: the group, or the row.
    repetitions
        Number of exact repetitions among all rows given; taken out where they are not wanted.
    left_out
        Number of rows beyond ``MOST_ROWS``.
    """

    rows: Doubles
    original: Indices
    units: list[str]
    repetitions: int
    left_out: int


def prepare(
    array: Floats, groups: Sequence[str] | None, prefix: str, *, drop_repeats: bool, seed: int
) -> PreparedSet:
    """Bring a set into its canonical order, without exact repetitions where they are not wanted.

    Parameters
    ----------
    array
        ``(n, d)``.
    groups
        Group of each row; ``None`` = every row on its own.
    prefix
        Distinguishes the units of sets without groups.
    drop_repeats
        Keep equal rows once.
    seed
        Seed of the choice of rows where there are more than ``MOST_ROWS``.
    """
    order = canonical_order(array, groups)
    rows = np.ascontiguousarray(array[order], dtype=np.float64)
    first = _first_of_equals(rows)
    repetitions = len(rows) - len(first)
    if drop_repeats:
        order, rows = order[first], rows[first]
    left_out = max(len(rows) - MOST_ROWS, 0)
    if left_out:
        keep = np.sort(np.random.default_rng(seed).choice(len(rows), size=MOST_ROWS, replace=False))
        order, rows = order[keep], rows[keep]
    if groups is None:
        units = [f"{prefix}:{place}" for place in range(len(rows))]
    else:
        units = [f"group:{groups[row]}" for row in order]
    return PreparedSet(rows, order, units, repetitions, left_out)


def _first_of_equals(rows: Doubles) -> Indices:
    """Return the first row of each kind, in order."""
    places: dict[bytes, int] = {}
    for place, key in enumerate(row_keys(rows)):
        places.setdefault(key, place)
    return np.fromiter(places.values(), dtype=np.intp, count=len(places))


@dataclass(frozen=True, slots=True, eq=False)
class DistanceTable:
    """All rows of U, C and S with their squared distances.

    Parameters
    ----------
    rows
        ``(n, d)``.
    sets
        ``(n,)`` UNCOVERED, COVERED or SYNTHETIC.
    squared
        ``(n, n)``.
    """

    rows: Doubles
    sets: NDArray[np.intp]
    squared: Doubles

    @classmethod
    def build(cls, uncovered: Doubles, covered: Doubles, synthetic: Doubles) -> DistanceTable:
        """Compute all distances."""
        rows = np.concatenate([uncovered, covered, synthetic])
        sets = np.repeat([UNCOVERED, COVERED, SYNTHETIC], [len(uncovered), len(covered), len(synthetic)])
        return cls(rows, sets.astype(np.intp), squared_distances(rows))

    def of(self, *which: int) -> Indices:
        """Return the rows of one or more sets."""
        return np.flatnonzero(np.isin(self.sets, which))

    def block(self, first: int | tuple[int, ...], second: int | tuple[int, ...]) -> Doubles:
        """Return distances between two sets (or unions of sets)."""
        wanted = [self.of(*((which,) if isinstance(which, int) else which)) for which in (first, second)]
        return np.asarray(np.sqrt(self.squared[np.ix_(wanted[0], wanted[1])]))

    def usual_nearest(self, which: int) -> float:
        """Median distance of an image of a set to the nearest other one (0 for a single image)."""
        within = self.block(which, which)
        return float(np.median(ball_radii(within, 1))) if len(within) > 1 else 0.0

    def restricted(self, kept: Mask) -> DistanceTable:
        """Return the table of some rows."""
        if kept.all():
            return self
        return DistanceTable(self.rows[kept], self.sets[kept], self.squared[np.ix_(kept, kept)])

    def kernel(self) -> Doubles:
        """RBF kernel of all rows, bandwidth by U and C alone."""
        u, c = self.of(UNCOVERED), self.of(COVERED)
        bandwidth = median_bandwidth_from_distances(
            self.squared[np.ix_(u, c)], self.squared[np.ix_(u, u)], self.squared[np.ix_(c, c)]
        )
        return rbf_kernel(self.squared, bandwidth)


def units_with_sources(data: MatchedInput, made: PreparedSet, real_c: PreparedSet) -> list[str]:
    """Units of S: where a source is one of the covered images, the unit of that image."""
    if data.synthetic_groups is not None or data.sources is None:
        return made.units
    unit_of = dict(zip(row_keys(real_c.rows), real_c.units, strict=True))
    sources = row_keys(data.sources[made.original])
    return [unit_of.get(source, unit) for source, unit in zip(sources, made.units, strict=True)]
