"""Henze-Penrose divergence by nearest neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.metrics.arrays import (
    Floats,
    Indices,
    as_embeddings,
    distinct_rows,
    require_same_width,
)
from pytest_semcov.metrics.neighbour_lists import ROUNDING, Comparison
from pytest_semcov.metrics.neighbour_torch import device_of


def divergence_fnn(a: ArrayLike, b: ArrayLike, *, device: str | None = None) -> float:
    """Estimate the Henze-Penrose divergence from first nearest neighbours.

    ``max(0, 1 - (n + m) / (2 n m) · e)``, e = number of rows whose nearest other
    row belongs to the other set (S. Sekeh et al., IEEE Trans. Signal Process.
    68, 2020). 0 = alike, 1 = separate. Of several equally near rows each counts in part;
    distances that differ by rounding only (a share of 1e-8) count as equal.

    Parameters
    ----------
    a, b
        ``(n, d)`` and ``(m, d)``.
    device
        Device of torch for the products; ``None`` = where the input lies.

    Raises
    ------
    ArgumentError
        If the widths differ or torch cannot use the device.
    """
    x, y = as_embeddings(a, name="first set"), as_embeddings(b, name="second set")
    require_same_width(("first set", x), ("second set", y))
    where = device_of(device, a, b)
    rows, place = distinct_rows(np.concatenate([x, y]))
    # How many rows of each set a distinct row stands for. Copies are each other's nearest rows.
    counts = np.stack(
        [np.bincount(part, minlength=len(rows)) for part in (place[: len(x)], place[len(x) :])], 1
    )
    nearest, others = counts.copy(), counts.sum(axis=1) - 1
    alone = np.flatnonzero(others == 0)
    if len(alone):
        nearest[alone] = _nearest_counts(rows, alone, counts, where)
        others[alone] = nearest[alone].sum(axis=1)
    errors = float((counts * nearest[:, ::-1] / others[:, None]).sum())
    return max(0.0, 1 - (len(x) + len(y)) / (2 * len(x) * len(y)) * errors)


def _nearest_counts(rows: Floats, alone: Indices, counts: Indices, device: str | None) -> Indices:
    """Return how many rows of each set are nearest to each of the distinct rows that have no copy."""
    distance, index = Comparison(rows, device=device).nearest(min(2, len(rows) - 1))
    distance = distance[alone]
    nearest: Indices = counts[index[alone, 0]]
    tied = np.flatnonzero(distance[:, -1] <= distance[:, 0] * (1 + ROUNDING))
    if index.shape[1] == 1 or not len(tied):
        return nearest
    nearest[tied] = 0
    radius = distance[tied, 0]
    pairs = Comparison(rows, rows[alone[tied]], device=device).within(radius)
    for query, reference, away in pairs:
        near = (away <= radius[query] * (1 + ROUNDING)) & (reference != alone[tied[query]])
        np.add.at(nearest, tied[query[near]], counts[reference[near]])
    return nearest
