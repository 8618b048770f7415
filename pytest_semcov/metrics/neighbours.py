"""Nearest neighbours, distances to the k-th of them and the coverage radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.arrays import (
    Doubles,
    Floats,
    Indices,
    as_embeddings,
    distinct_rows,
    require_same_width,
)
from pytest_semcov.metrics.neighbour_lists import Comparison
from pytest_semcov.metrics.neighbour_scan import runs
from pytest_semcov.metrics.neighbour_torch import device_of

# A row that occurs this often at most needs no care: a list of candidates has room for its copies.
_FEW_COPIES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The k nearest reference rows of each query.

    Parameters
    ----------
    distance
        ``(m, k)`` float64 Euclidean distances, nearest first.
    index
        ``(m, k)`` which reference rows; of equally near ones the lower index first.
    """

    distance: Doubles
    index: Indices

    def merged(self, other: Neighbours) -> Neighbours:
        """Return the k nearest of both lists, which list different reference rows of the same queries."""
        distance = np.concatenate([self.distance, other.distance], axis=1)
        index = np.concatenate([self.index, other.index], axis=1)
        order = np.lexsort((index, distance), axis=1)[:, : self.index.shape[1]]
        return Neighbours(
            np.take_along_axis(distance, order, axis=1), np.take_along_axis(index, order, axis=1)
        )


def nearest_neighbours(
    reference: ArrayLike, queries: ArrayLike | None = None, *, k: int, device: str | None = None
) -> Neighbours:
    """Find the k nearest reference rows of each query, exactly.

    Candidates come from products in float32 whose rounding is bounded; distances are summed in float64 from
    the differences of two rows. So equal rows are at distance exactly 0, float64 input keeps its digits, and
    a distance does not depend on the other rows, their order, the type or the device. Memory beyond the
    input: a float32 copy, the lists and at most some 100 MB; time grows with ``n m d``.

    Parameters
    ----------
    reference
        ``(n, d)``: an array or a tensor.
    queries
        ``(m, d)``; ``None`` = the reference rows themselves, each without itself (left out by its
        index, so that a duplicate counts as a neighbour at distance exactly 0).
    k
        How many, at least 1.
    device
        Device of torch for the products, such as ``"cuda"``. ``None`` = where the input lies; arrays and
        tensors in main memory need no torch.

    Raises
    ------
    ArgumentError
        If k is below 1, the widths differ or torch cannot use the device.
    TooFewError
        If there are fewer than k reference rows (k + 1 when each row looks among the others).
    """
    rows, asked = _checked(reference, queries, k)
    return _nearest(rows, asked, k, device_of(device, reference, queries))


def kth_neighbour_distances(
    reference: ArrayLike, queries: ArrayLike | None = None, *, k: int, device: str | None = None
) -> Doubles:
    """Euclidean distance from each query to its k-th nearest reference row.

    The last column of :func:`nearest_neighbours` (its parameters and errors), found with less work.

    Returns
    -------
    distance
        ``(m,)`` float64.
    """
    rows, asked = _checked(reference, queries, k)
    where = device_of(device, reference, queries)
    if np.bincount(distinct_rows(rows)[1]).max() > _FEW_COPIES:
        return _nearest(rows, asked, k, where).distance[:, -1]
    return Comparison(rows, asked, device=where).kth(k)


def coverage_radius(
    reference: ArrayLike, queries: ArrayLike | None = None, *, k: int, device: str | None = None
) -> float:
    """Median over the queries of the distance to the k-th nearest reference row.

    Parameters as for :func:`nearest_neighbours`. The radius shrinks with
    the number of reference rows alone: compare only at equal numbers.
    """
    return float(np.median(kth_neighbour_distances(reference, queries, k=k, device=device)))


class NeighbourIndex:
    """The k nearest neighbours of rows among themselves, kept while rows are added.

    Parameters
    ----------
    reference
        ``(n, d)``, more than k rows.
    k
        How many neighbours, at least 1.
    device
        As for :func:`nearest_neighbours`.

    Attributes
    ----------
    reference
        ``(n, d)`` all rows, those added last.
    neighbours
        Lists of the first rows of the reference: of those that were given first and those added with
        ``list_added``.
    """

    def __init__(self, reference: ArrayLike, *, k: int, device: str | None = None) -> None:
        self.reference, _ = _checked(reference, None, k)
        self._device = device_of(device, reference)
        self.neighbours = _nearest(self.reference, None, k, self._device)

    def with_added(self, rows: ArrayLike, *, list_added: bool = False) -> NeighbourIndex:
        """Return an index with more reference rows; this one stays as it is.

        Only distances to the added rows are computed, and merged with the lists there are.

        Parameters
        ----------
        rows
            ``(m, d)``.
        list_added
            Whether to list the neighbours of the added rows, too.

        Raises
        ------
        ArgumentError
            If the widths differ, or lists are asked for after rows were added without.
        """
        added = as_embeddings(rows, name="added rows")
        require_same_width(("reference", self.reference), ("added rows", added))
        known, k = self.neighbours.index.shape
        if list_added and known < len(self.reference):
            raise ArgumentError(
                f"{len(self.reference) - known} rows were added without lists of their own: "
                "list the neighbours of these too, or of none"
            )
        wider = object.__new__(NeighbourIndex)
        wider._device = self._device
        wider.reference = np.concatenate([self.reference, added])
        near = _nearest(
            added,
            self.reference[:known],
            min(k, len(added)),
            self._device,
            limit=self.neighbours.distance[:, -1],
        )
        wider.neighbours = self.neighbours.merged(Neighbours(near.distance, near.index + len(self.reference)))
        if list_added:
            lists = _nearest(self.reference, added, k, self._device)
            if len(added) > 1:
                among = _nearest(added, None, min(k, len(added) - 1), self._device)
                lists = lists.merged(Neighbours(among.distance, among.index + len(self.reference)))
            wider.neighbours = Neighbours(
                np.concatenate([wider.neighbours.distance, lists.distance]),
                np.concatenate([wider.neighbours.index, lists.index]),
            )
        return wider


def _checked(reference: ArrayLike, queries: ArrayLike | None, k: int) -> tuple[Floats, Floats | None]:
    if k < 1:
        raise ArgumentError(f"k is {k}: need at least 1")
    rows = as_embeddings(reference, name="reference")
    if queries is None:
        if len(rows) <= k:
            raise TooFewError(
                f"have {len(rows)} rows, need more than k = {k}: each row looks among the others"
            )
        return rows, None
    asked = as_embeddings(queries, name="queries")
    require_same_width(("reference", rows), ("queries", asked))
    if len(rows) < k:
        raise TooFewError(f"have {len(rows)} reference rows, need at least k = {k}")
    return rows, asked


def _nearest(
    reference: Floats,
    queries: Floats | None,
    k: int,
    device: str | None,
    *,
    limit: Doubles | None = None,
) -> Neighbours:
    """Return neighbours within the limit; lists are filled up with infinite distances."""
    distinct, place = distinct_rows(reference)
    if len(distinct) == len(reference):
        return Neighbours(*Comparison(reference, queries, device=device).nearest(k, limit=limit))
    # Rows that occur several times are compared once: among copies bounds cannot tell who is nearer.
    others = len(distinct) - (1 if queries is None else 0)
    distance, group = np.empty((1, 0)), np.empty((1, 0), dtype=np.intp)
    if others:
        comparison = Comparison(distinct, queries, device=device)
        distance, group = comparison.nearest(min(k, others), limit=limit)
    if queries is not None:
        return Neighbours(*_members(distance, group, place, k))
    # Each row's own copies come first; then it is taken out of its list, or the last one is.
    own = np.arange(len(distinct))[:, None]
    distance, group = np.concatenate([0.0 * own, distance], axis=1), np.concatenate([own, group], axis=1)
    distance, index = _members(distance, group, place, k + 1)
    distance, index = distance[place], index[place]
    itself = index == np.arange(len(reference))[:, None]
    order = np.argsort(itself, axis=1, kind="stable")[:, :k]
    return Neighbours(np.take_along_axis(distance, order, axis=1), np.take_along_axis(index, order, axis=1))


def _members(distance: Doubles, group: Indices, place: Indices, k: int) -> tuple[Doubles, Indices]:
    """Return the k nearest rows, given the nearest distinct rows and which distinct row each row equals."""
    by_group = np.argsort(place, kind="stable")
    sizes = np.bincount(place)
    starts = np.cumsum(sizes) - sizes
    # Groups beyond the one that completes k members cannot matter, unless they are as near as it is.
    enough = np.cumsum(sizes[group], axis=1) >= k
    last = np.where(enough.any(axis=1), enough.argmax(axis=1), group.shape[1] - 1)
    kept = np.isfinite(distance) & (distance <= np.take_along_axis(distance, last[:, None], axis=1))
    row, groups, away = np.nonzero(kept)[0], group[kept], distance[kept]
    source = np.repeat(np.arange(len(groups)), np.minimum(sizes[groups], k))
    member = by_group[starts[groups[source]] + runs(source)[2]]
    row, away = row[source], away[source]
    order = np.lexsort((member, away, row))
    row, away, member = row[order], away[order], member[order]
    place = runs(row)[2]
    first = place < k
    nearest = np.full((len(group), k), np.inf)
    index = np.zeros(nearest.shape, dtype=np.intp)
    nearest[row[first], place[first]] = away[first]
    index[row[first], place[first]] = member[first]
    return nearest, index
