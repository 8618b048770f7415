"""Precision, recall, density and coverage of a synthetic set against a real one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import (
    Doubles,
    Floats,
    Indices,
    as_embeddings,
    distinct_rows,
    require_rows,
    require_same_width,
)
from pytest_semcov.metrics.neighbour_lists import ROUNDING, Comparison
from pytest_semcov.metrics.neighbour_torch import device_of
from pytest_semcov.metrics.neighbours import kth_neighbour_distances


@dataclass(frozen=True, slots=True)
class Prdc:
    """Precision, recall, density and coverage.

    Parameters
    ----------
    precision
        Share of synthetic rows inside the ball of some real row (ball: radius to its k-th other neighbour).
    recall
        Share of real rows inside the ball of some synthetic row.
    density
        Mean number of real balls around a synthetic row, divided by k; may exceed 1.
    coverage
        Share of real rows whose ball holds some synthetic row.
    """

    precision: float
    recall: float
    density: float
    coverage: float

    def to_dict(self) -> dict[str, float]:
        """Return the four numbers by name."""
        return asdict(self)

    def __str__(self) -> str:
        return "  ".join(f"{name} {value:.3f}" for name, value in asdict(self).items())


def prdc(real: ArrayLike, synthetic: ArrayLike, *, k: int = 5, device: str | None = None) -> Prdc:
    """Compute precision, recall, density and coverage.

    After M. Naeem et al., "Reliable Fidelity and Diversity Metrics for Generative Models", ICML 2020. A
    ball reaches to its centre's k-th nearest other row of the same set.

    A row on the border of a ball is inside (as in T. Kynkäänniemi et al., "Improved Precision and Recall",
    NeurIPS 2019). Density alone counts open balls, and their centres: such a ball holds k rows of its
    own set, the number that density divides by, so that a set has density 1 against itself. Distances that
    differ by rounding (a share of 1e-8) count as equal. Without equal distances and common rows all four
    are those of open balls, as first published.

    Two sets of n and m equal rows have precision, recall and coverage 1 and density n / k.

    Parameters
    ----------
    real, synthetic
        ``(n, d)`` and ``(m, d)``, each with more than k rows. Memory does not grow with ``n m``.
    k
        Neighbour that gives a ball its radius, at least 1.
    device
        Device of torch for the products; ``None`` = where the input lies.

    Raises
    ------
    ArgumentError
        If k is below 1, the widths differ or torch cannot use the device.
    TooFewError
        If a set has k rows or fewer.
    """
    if k < 1:
        raise ArgumentError(f"k is {k}: need at least 1")
    x = as_embeddings(real, name="real")
    y = as_embeddings(synthetic, name="synthetic")
    require_same_width(("real", x), ("synthetic", y))
    require_rows("real", len(x), k + 1, f"balls to the {k}-th other row")
    require_rows("synthetic", len(y), k + 1, f"balls to the {k}-th other row")
    where = device_of(device, real, synthetic)
    real_balls = _Balls.of(x, k, where)
    synthetic_balls = _Balls.of(y, k, where)
    count = _Count(real_balls.counts, synthetic_balls.counts)
    comparison = Comparison(synthetic_balls.centres, real_balls.centres, device=where)
    for i, j, distance in comparison.within(real_balls.radius, synthetic_balls.radius):
        count.add(i, j, distance, real_balls.radius[i], synthetic_balls.radius[j])
    return count.result(k)


def prdc_from_distances(within_real: Doubles, within_synthetic: Doubles, across: Doubles, *, k: int) -> Prdc:
    """Compute the four numbers from distances: ``(n, n)``, ``(m, m)`` and ``(n, m)``."""
    real_radius = ball_radii(within_real, k)
    synthetic_radius = ball_radii(within_synthetic, k)
    count = _Count(np.ones(len(real_radius), dtype=np.intp), np.ones(len(synthetic_radius), dtype=np.intp))
    i, j = np.indices(across.shape).reshape(2, -1)
    count.add(i, j, across.ravel(), real_radius[i], synthetic_radius[j])
    return count.result(k)


def ball_radii(within: Doubles, k: int) -> Doubles:
    """Return each row's distance to its k-th nearest other row, from ``(n, n)`` distances."""
    table = within.copy()
    np.fill_diagonal(table, np.inf)
    return np.partition(table, k - 1, axis=1)[:, k - 1]


@dataclass(frozen=True, slots=True, eq=False)
class _Balls:
    """Balls around the distinct rows of a set.

    Parameters
    ----------
    centres
        ``(u, d)``.
    radius
        ``(u,)``.
    counts
        ``(u,)`` how often each row occurs.
    """

    centres: Floats
    radius: Doubles
    counts: Indices

    @classmethod
    def of(cls, rows: Floats, k: int, device: str | None) -> _Balls:
        centres, place = distinct_rows(rows)
        radius = np.empty(len(centres))
        radius[place] = kth_neighbour_distances(rows, k=k, device=device)
        return cls(centres, radius, np.bincount(place))


class _Count:
    """Who lies in whose ball, counted pair by pair; rows may stand for several equal ones."""

    def __init__(self, real_counts: Indices, synthetic_counts: Indices) -> None:
        self.real_counts, self.synthetic_counts = real_counts, synthetic_counts
        self.precise = np.zeros(len(synthetic_counts), dtype=bool)
        self.covered = np.zeros(len(real_counts), dtype=bool)
        self.recalled = np.zeros(len(real_counts), dtype=bool)
        self.in_open_balls = 0

    def add(
        self, i: Indices, j: Indices, distance: Doubles, real_radius: Doubles, synthetic_radius: Doubles
    ) -> None:
        """Count pairs of a real and a synthetic row, each pair once."""
        in_real = distance <= real_radius * (1 + ROUNDING)
        self.precise[j[in_real]] = True
        self.covered[i[in_real]] = True
        self.recalled[i[distance <= synthetic_radius * (1 + ROUNDING)]] = True
        inner = (distance < real_radius * (1 - ROUNDING)) | (distance == 0)
        self.in_open_balls += int(self.real_counts[i[inner]] @ self.synthetic_counts[j[inner]])

    def result(self, k: int) -> Prdc:
        n, m = int(self.real_counts.sum()), int(self.synthetic_counts.sum())
        return Prdc(
            precision=int(self.synthetic_counts[self.precise].sum()) / m,
            recall=int(self.real_counts[self.recalled].sum()) / n,
            density=self.in_open_balls / (m * k),
            coverage=int(self.real_counts[self.covered].sum()) / n,
        )
