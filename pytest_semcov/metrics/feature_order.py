"""The values of every feature in order: what rank statistics read, in blocks of features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.metrics.arrays import Floats

# Features are brought into rows this many at a time, and no more than these values at once.
_BLOCK_FEATURES = 64
_BLOCK_VALUES = 1 << 24
# Rows turned at a time, and values sorted at a time: what the processor's caches hold.
_TURNED_ROWS = 128
_SORTED_VALUES = 1 << 16


def feature_blocks(*sets: Floats) -> Iterator[Floats]:
    """Yield the features of the pooled sets as rows, a few features at a time, in their order.

    Each block is ``(features, rows of all sets)``: float32 if that loses no digit, else float64. Both zeros
    are alike.
    """
    rows = sum(len(array) for array in sets)
    turned = max(1, min(_BLOCK_FEATURES, _BLOCK_VALUES // rows))
    at_once = max(1, _SORTED_VALUES // rows)
    for start in range(0, sets[0].shape[1], turned):
        block = _features_as_rows(sets, slice(start, start + turned))
        for first in range(0, len(block), at_once):
            yield block[first : first + at_once]


def _features_as_rows(sets: tuple[Floats, ...], features: slice) -> Floats:
    kind = np.float32 if all(array.dtype == np.float32 for array in sets) else np.float64
    width = len(range(sets[0].shape[1])[features])
    block = np.empty((width, sum(len(array) for array in sets)), dtype=kind)
    place = 0
    for array in sets:
        for start in range(0, len(array), _TURNED_ROWS):
            # Copied before it is turned: reading along columns of the whole set would miss every cache.
            # Adding 0 makes both zeros alike.
            rows = np.add(array[start : start + _TURNED_ROWS, features], 0.0, dtype=kind, order="C")
            block[:, place : place + len(rows)] = rows.T
            place += len(rows)
    if kind == np.float64:
        with np.errstate(over="ignore", under="ignore"):
            short = block.astype(np.float32)
        if (short == block).all():
            return short
    return block


def ordered_integers(values: Floats) -> NDArray[np.int64]:
    """Return integers of at most 32 bits, in int64, in the order of float32 values."""
    bits = values.view(np.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)


def runs(equals_next: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return where runs of equal values lie in flattened rows of ordered values.

    Parameters
    ----------
    equals_next
        ``(rows, n)``: whether a value equals the next one; False at the end of every row.

    Returns
    -------
    places
        Of all values of runs but the last of each.
    lasts
        Of the last value of each run.
    lengths
        Number of the other values of each run.
    """
    places = np.flatnonzero(equals_next)
    if not len(places):
        return places, places, places
    ends = np.flatnonzero(np.diff(places, append=-1) != 1)
    return places, places[ends] + 1, np.diff(ends, prepend=-1)
