"""Which pairs of rows may be near: lower bounds of all squared distances, block by block, by matrix products.

A product in float32 is several times faster than distances in float64 and loses a known number of digits.
So it is only asked which pairs *may* be among the nearest; their distances are computed elsewhere, in
float64 from the differences. The bounds hold for any order of summation, so results do not depend on the
library or the device that multiplies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from pytest_semcov.metrics.arrays import Doubles, Floats, Indices, Mask

# Rows per side of a block of bounds: large enough for the product to run at full speed, small enough that
# the block (7 MB in float32) stays in the processor's cache while it is looked through.
_BLOCK_ROWS = 1280
_BLOCK_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CentredRows:
    """Rows around a common centre, ready for products.

    For two rows the bound ``floor_i + floor_j - rows_i · rows_j``, computed in the rows' own precision, is
    at most their squared distance, which is at most the bound plus ``2 (error_i + error_j)``.

    Parameters
    ----------
    rows
        ``(n, d)`` float32 or float64: differences from the centre times √2.
    floor
        ``(n,)`` squared lengths less ``error``, in the type of the rows.
    error
        ``(n,)`` float64: this row's part in the rounding of a bound.
    """

    rows: Floats
    floor: Floats
    error: Doubles

    @classmethod
    def around(cls, centre: Doubles, rows: Floats, dtype: type[np.floating[Any]]) -> CentredRows:
        """Subtract the centre in float64, then round to ``dtype``."""
        count, width = rows.shape
        centred = np.empty((count, width), dtype=dtype)
        lengths = np.empty(count)
        step = block_rows(width)
        for start in range(0, count, step):
            block = rows[start : start + step] - centre
            lengths[start : start + step] = np.einsum("ij,ij->i", block, block)
            block *= np.sqrt(2)
            centred[start : start + step] = block
        error = _rounding(width, dtype) * lengths + width * float(np.finfo(dtype).tiny)
        return cls(centred, (lengths - error).astype(dtype), error)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> CentredRows:
        """Return some of the rows, without copying them."""
        return CentredRows(self.rows[start:stop], self.floor[start:stop], self.error[start:stop])


def _rounding(width: int, dtype: type[np.floating[Any]]) -> float:
    """Return the largest error of a bound relative to the sum of both squared lengths.

    A sum of d products in any order is off by at most d u / (1 - d u) times the product of the lengths
    (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1); rounding the
    rows, their lengths and the two additions takes the place of a few more terms.
    """
    lost = (width + 16) * float(np.finfo(dtype).eps) / 2
    return lost / (1 - lost)


def block_rows(width: int) -> int:
    """Return the rows per block such that as many rows of this width fit into the memory for one block."""
    return min(_BLOCK_ROWS, max(1, _BLOCK_BYTES // (8 * width)))


def lower_bounds(queries: CentredRows, reference: CentredRows, out: Floats | None = None) -> Floats:
    """Return a bound for every pair, ``(m, n)``, in new memory or in that of ``out``."""
    if out is not None:
        out = out[: len(queries), : len(reference)]
    bounds: Floats = np.matmul(queries.rows, reference.rows.T, out=out)
    np.subtract(reference.floor, bounds, out=bounds)
    bounds += queries.floor[:, None]
    return bounds


def lowest_bounds(
    queries: CentredRows, reference: CentredRows | None, count: int, limit: Doubles | None
) -> tuple[Floats, Indices]:
    """Return the lowest bounds of each query and their reference rows.

    Parameters
    ----------
    queries
        ``(m, d)``.
    reference
        ``(n, d)``; ``None`` = the queries themselves, each without itself. Then every bound is computed once
        and offered to both of its rows.
    count
        How many per query.
    limit
        ``(m,)`` squared distances beyond which nothing is wanted, or ``None``.

    Returns
    -------
    bounds, index
        ``(m, count)`` in no order; infinite where fewer were found within the limit.
    """
    lists = _LowestBounds(len(queries), count, limit)
    others = queries if reference is None else reference
    step = block_rows(queries.rows.shape[1])
    memory = np.empty((min(step, len(queries)), min(step, len(others))), dtype=np.float32)
    starts = range(0, len(queries), step)
    blocks: Iterable[tuple[int, int]]
    if reference is None:
        # The blocks on the diagonal come first: once each row has a list, a block is soon looked through.
        blocks = chain(zip(starts, starts, strict=True), combinations(starts, 2))
    else:
        blocks = product(starts, range(0, len(others), step))
    for first, second in blocks:
        block = lower_bounds(
            queries.part(first, first + step), others.part(second, second + step), out=memory
        )
        if reference is None and first == second:
            np.fill_diagonal(block, np.inf)
        lists.offer(first, second, block)
        if reference is None and first != second:
            lists.offer(second, first, block.T)
    return lists.bounds, lists.index


class _LowestBounds:
    """The lowest bounds of each row among the blocks seen so far."""

    def __init__(self, rows: int, count: int, limit: Doubles | None) -> None:
        self.bounds = np.full((rows, count), np.inf, dtype=np.float32)
        self.index = np.zeros((rows, count), dtype=np.intp)
        self.worst = np.full(rows, np.inf, dtype=np.float32) if limit is None else rounded_up(limit)

    def offer(self, first_row: int, first_column: int, block: Floats) -> None:
        """Take from a block what is lower than the highest bound kept for its row."""
        count = self.bounds.shape[1]
        better = block < self.worst[first_row : first_row + len(block), None]
        found = np.count_nonzero(better)
        if not found:
            return
        if 4 * found > better.size:  # hardly anything is known of these rows yet
            rows = np.arange(len(block))
            width = min(count, block.shape[1])
            columns = np.argpartition(block, width - 1, axis=1)[:, :width]
            values = np.take_along_axis(block, columns, axis=1)
        else:
            row, column = _places(better)
            rows, line, place = runs(row)
            values = np.full((len(rows), place.max() + 1), np.inf, dtype=np.float32)
            columns = np.zeros(values.shape, dtype=np.intp)
            values[line, place] = block[row, column]
            columns[line, place] = column
        rows = rows + first_row
        values = np.concatenate([self.bounds[rows], values], axis=1)
        columns = np.concatenate([self.index[rows], columns + first_column], axis=1)
        kept = np.argpartition(values, count - 1, axis=1)[:, :count]
        self.bounds[rows] = np.take_along_axis(values, kept, axis=1)
        self.index[rows] = np.take_along_axis(columns, kept, axis=1)
        self.worst[rows] = np.minimum(self.worst[rows], self.bounds[rows].max(axis=1))


def _places(mask: Mask) -> tuple[Indices, Indices]:
    """Return the rows and columns where a mask is true, row by row."""
    if mask.flags.c_contiguous:
        row, column = np.divmod(np.flatnonzero(mask), mask.shape[1])
        return row, column
    # The transpose of a block: found column by column in memory, then ordered by row.
    column, row = np.divmod(np.flatnonzero(mask.T), mask.shape[0])
    by_row = np.argsort(row.astype(np.uint16), kind="stable")  # counting, not comparing: rows < 65,536
    return row[by_row], column[by_row]


def runs(sorted_values: Indices) -> tuple[Indices, Indices, Indices]:
    """Return the values that occur; for each element, which of them it is and its place among its equals."""
    starts = np.flatnonzero(np.diff(sorted_values, prepend=-1))
    lengths = np.diff(starts, append=len(sorted_values))
    which = np.repeat(np.arange(len(starts)), lengths)
    return sorted_values[starts], which, np.arange(len(sorted_values)) - np.repeat(starts, lengths)


def rounded_up(values: Doubles) -> Floats:
    """Return float32 values that are not lower."""
    with np.errstate(over="ignore"):
        return np.nextafter(values.astype(np.float32), np.float32(np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Pairs of one block whose bounds are within a limit.

    Parameters
    ----------
    rows, columns
        Where the block lies among the queries and among the reference rows.
    row, column
        Places of the pairs within the block.
    bounds
        Their bounds.
    """

    rows: slice
    columns: slice
    row: Indices
    column: Indices
    bounds: Floats


def bounds_within(
    queries: CentredRows, reference: CentredRows, row_limit: Doubles, column_limit: Doubles | None
) -> Iterator[Hits]:
    """Yield the pairs whose bound is within the limit of the query or of the reference row.

    Parameters
    ----------
    queries, reference
        ``(m, d)`` and ``(n, d)``, float32.
    row_limit, column_limit
        ``(m,)`` and ``(n,)`` squared distances; no limit of the columns adds no pair.
    """
    step = block_rows(queries.rows.shape[1])
    of_rows = rounded_up(row_limit)[:, None]
    of_columns = None if column_limit is None else rounded_up(column_limit)
    for first in range(0, len(queries), step):
        rows = slice(first, first + step)
        for second in range(0, len(reference), step):
            columns = slice(second, second + step)
            block = lower_bounds(queries.part(first, first + step), reference.part(second, second + step))
            within = block <= of_rows[rows]
            if of_columns is not None:
                within |= block <= of_columns[columns]
            row, column = _places(within)
            if len(row):
                yield Hits(rows, columns, row, column, block[row, column])
