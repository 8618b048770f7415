"""Exact nearest neighbours and balls: bounds find the pairs, differences of rows give the digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_semcov.metrics import neighbour_scan, neighbour_torch
from pytest_semcov.metrics.arrays import Doubles, Floats, Indices, Mask
from pytest_semcov.metrics.neighbour_scan import CentredRows

# Kept per row beyond the k wanted, so that rounding seldom leaves open which rows are among the k.
_SPARE = 8
# Lengths of rows whose squares float32 can hold with room to spare; other rows are scaled.
_SMALLEST, _LARGEST = 1e-9, 1e9
_DIFFERENCES = 2**16
_BLOCK_BYTES = 64_000_000
# A distance between a pair costs about as much as this many bounds in float64.
_DOUBLES_PER_PAIR = 50

ROUNDING = 1e-8
"""Distances that differ by at most this share count as equal: one computed from other, equally good
coordinates (moved, rotated, in another unit) differs in its last digits."""


class Comparison:
    """Distances from queries to reference rows, or among the reference rows.

    A distance depends on its two rows only: it is summed in float64 from their differences, so the same pair
    has the same distance to the last bit in any order, block, type and on any device, and equal rows are at
    distance 0.

    Parameters
    ----------
    reference
        ``(n, d)``.
    queries
        ``(m, d)``; ``None`` = the reference rows, each without itself.
    device
        Device of torch that finds the candidates; ``None`` = numpy does.
    """

    def __init__(
        self, reference: Floats, queries: Floats | None = None, *, device: str | None = None
    ) -> None:
        largest = max(_largest(array) for array in (reference, queries) if array is not None)
        # A power of two: scaling changes no digits.
        inside = largest == 0 or _SMALLEST < largest < _LARGEST
        self._scale = 1.0 if inside else 2.0 ** float(-np.frexp(largest)[1])
        self._reference = self._scaled(reference)
        self._within = queries is None
        self._queries = self._reference if queries is None else self._scaled(queries)
        self._device = device
        self._centre = self._reference.mean(axis=0, dtype=np.float64)
        self._centred = self._around(self._reference, np.float32)
        self._asked = self._centred if self._within else self._around(self._queries, np.float32)

    def _scaled(self, array: Floats) -> Floats:
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        return array if self._scale == 1 else array.astype(np.float64) * self._scale

    def _around(self, rows: Floats, dtype: type[np.float32] | type[np.float64]) -> CentredRows:
        return CentredRows.around(self._centre, rows, dtype)

    def nearest(self, k: int, *, limit: Doubles | None = None) -> tuple[Doubles, Indices]:
        """Return distances to, and indices of, the k nearest reference rows.

        Parameters
        ----------
        k
            At most the number of reference rows (of the other ones, where each looks among the others).
        limit
            ``(m,)`` distances beyond which no neighbour is wanted.

        Returns
        -------
        distance, index
            ``(m, k)``, nearest first, of equally near ones the lower index; infinite beyond the limit.
        """
        wanted = None if limit is None else (limit * self._scale) ** 2
        low, high, index, reach = self._candidates(k, wanted)
        top = np.partition(high, k - 1, axis=1)[:, k - 1]
        if wanted is not None:
            top = np.minimum(top, wanted)
        row, place = np.nonzero(low <= top[:, None])
        squared = np.full(low.shape, np.inf)
        squared[row, place] = self._squared(row, index[row, place])
        squared, index = _first(squared, index, k)
        for rows, near in self._candidates_in_double(np.flatnonzero(reach <= top), k, top):
            squared[rows], index[rows] = self._nearest_of(rows, near, k)
        return np.sqrt(squared) / self._scale, index

    def kth(self, k: int) -> Doubles:
        """Return the distance to the k-th nearest reference row.

        Cheaper than the last column of :meth:`nearest`: rows that are nearer for certain need no distance.
        """
        low, high, index, reach = self._candidates(k, None)
        top = np.partition(high, k - 1, axis=1)[:, k - 1]
        nearer = high < np.partition(low, k - 1, axis=1)[:, k - 1 : k]
        row, place = np.nonzero((low <= top[:, None]) & ~nearer)
        squared = np.where(nearer, -np.inf, np.inf)
        squared[row, place] = self._squared(row, index[row, place])
        result = np.partition(squared, k - 1, axis=1)[:, k - 1]
        for rows, near in self._candidates_in_double(np.flatnonzero(reach <= top), k, top):
            result[rows] = self._nearest_of(rows, near, k)[0][:, k - 1]
        return np.asarray(np.sqrt(result) / self._scale)

    def _candidates(self, k: int, limit: Doubles | None) -> tuple[Doubles, Doubles, Indices, Doubles]:
        """Find the rows with the lowest bounds.

        Returns lower and upper bounds of their squared distances and their indices, ``(m, count)``; and
        how far each row's list reaches: any row not listed is at least that far.
        """
        others = len(self._reference) - (1 if self._within else 0)
        count = min(k + _SPARE, others)
        reference = None if self._within else self._centred
        if self._device is None:
            bounds, index = neighbour_scan.lowest_bounds(self._asked, reference, count, limit)
        else:
            bounds, index = neighbour_torch.lowest_bounds(self._asked, reference, count, self._device)
        low = bounds.astype(np.float64)
        high = low + 2 * (self._asked.error[:, None] + self._centred.error[index])
        reach = np.full(len(low), np.inf) if count == others else low.max(axis=1)
        return low, high, index, reach

    def _candidates_in_double(self, rows: Indices, k: int, top: Doubles) -> Iterator[tuple[Indices, Mask]]:
        """Yield some of the rows and which reference rows may be among their k nearest, by float64 bounds."""
        total = len(self._reference)
        step = max(1, _BLOCK_BYTES // (16 * total))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            left = self._around(self._queries[some], np.float64)
            low = np.empty((len(some), total))
            high = np.empty((len(some), total))
            width = neighbour_scan.block_rows(self._reference.shape[1])
            for first in range(0, total, width):
                right = self._around(self._reference[first : first + width], np.float64)
                block = neighbour_scan.lower_bounds(left, right)
                low[:, first : first + width] = block
                high[:, first : first + width] = block + 2 * (left.error[:, None] + right.error)
            if self._within:
                low[np.arange(len(some)), some] = high[np.arange(len(some)), some] = np.inf
            high.partition(k - 1, axis=1)
            yield some, low <= np.minimum(high[:, k - 1], top[some])[:, None]

    def _nearest_of(self, rows: Indices, near: Mask, k: int) -> tuple[Doubles, Indices]:
        """Return squared distances to, and indices of, the k nearest of the reference rows marked."""
        row, column = np.nonzero(near)
        _, _, place = neighbour_scan.runs(row)
        squared = np.full((len(rows), max(k, place.max(initial=0) + 1)), np.inf)
        index = np.zeros(squared.shape, dtype=np.intp)
        squared[row, place] = self._squared(rows[row], column)
        index[row, place] = column
        return _first(squared, index, k)

    def _squared(self, query: Indices, reference: Indices) -> Doubles:
        """Return squared distances of pairs from their differences."""
        squared = np.empty(len(query))
        step = max(1, _DIFFERENCES // self._reference.shape[1])
        for start in range(0, len(query), step):
            some = slice(start, start + step)
            difference = self._queries[query[some]].astype(np.float64)
            difference -= self._reference[reference[some]]
            squared[some] = np.einsum("ij,ij->i", difference, difference)
        return squared

    def within(
        self, query_radius: Doubles, reference_radius: Doubles | None = None
    ) -> Iterator[tuple[Indices, Indices, Doubles]]:
        """Yield the pairs in which one row lies in the ball of the other, block by block.

        Parameters
        ----------
        query_radius
            ``(m,)``.
        reference_radius
            ``(n,)``, or ``None`` where only the balls of the queries count.

        Yields
        ------
        query, reference, distance
            ``(pairs,)``. A distance is exact if it could be ``ROUNDING`` from a radius or 0; others are not
            below the exact one and on the same side of both radii. Some pairs just outside are among them.
        """
        borders = _Borders.of(query_radius * self._scale)
        far = None if reference_radius is None else _Borders.of(reference_radius * self._scale)
        limits = borders.outer, None if far is None else far.outer
        if self._device is None:
            blocks = neighbour_scan.bounds_within(self._asked, self._centred, *limits)
        else:
            blocks = neighbour_torch.bounds_within(self._asked, self._centred, *limits, self._device)
        for hits in blocks:
            query, reference = hits.row + hits.rows.start, hits.column + hits.columns.start
            error = self._asked.error[query] + self._centred.error[reference]
            sides = [(borders, query)] if far is None else [(borders, query), (far, reference)]
            squared = hits.bounds + 2 * error
            doubtful = _doubtful(hits.bounds, squared, sides)
            left, right = self._queries[hits.rows], self._reference[hits.columns]
            if np.count_nonzero(doubtful) * _DOUBLES_PER_PAIR > len(left) * len(right):
                a, b = self._around(left, np.float64), self._around(right, np.float64)
                low = neighbour_scan.lower_bounds(a, b)[hits.row, hits.column]
                squared = low + 2 * (a.error[hits.row] + b.error[hits.column])
                doubtful = _doubtful(low, squared, sides)
            squared[doubtful] = self._squared(query[doubtful], reference[doubtful])
            yield query, reference, np.sqrt(squared) / self._scale


@dataclass(frozen=True, slots=True, eq=False)
class _Borders:
    """Squared radii of balls, once less and once more ``ROUNDING``: what lies between is on the border."""

    inner: Doubles
    outer: Doubles

    @classmethod
    def of(cls, radius: Doubles) -> _Borders:
        return cls((radius * (1 - ROUNDING)) ** 2, (radius * (1 + ROUNDING)) ** 2)


def _doubtful(low: Floats, high: Doubles, sides: Sequence[tuple[_Borders, Indices]]) -> Mask:
    """Mark the pairs whose bounds do not tell whether they lie inside, on or outside a border."""
    doubtful: Mask = np.zeros(len(low), dtype=bool)
    for borders, ball in sides:
        doubtful |= (low <= borders.outer[ball]) & (high > borders.inner[ball])
    return doubtful


def _first(squared: Doubles, index: Indices, k: int) -> tuple[Doubles, Indices]:
    """Return the k lowest of each row, of equal ones the lower index first."""
    by_index = np.argsort(index, axis=1, kind="stable")
    order = np.argsort(np.take_along_axis(squared, by_index, axis=1), axis=1, kind="stable")
    order = np.take_along_axis(by_index, order[:, :k], axis=1)
    return np.take_along_axis(squared, order, axis=1), np.take_along_axis(index, order, axis=1)


def _largest(array: Floats) -> float:
    return float(max(array.max(), -array.min()))
