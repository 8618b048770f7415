"""Precision, recall, density and coverage of a synthetic set against a real one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import (
    Doubles,
    Mask,
    as_embeddings,
    distances,
    require_rows,
    require_same_width,
)

# Distances that differ by less than this share are equal: one computed twice differs in its last digits.
_ROUNDING = 1e-8


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


def prdc(real: ArrayLike, synthetic: ArrayLike, *, k: int = 5) -> Prdc:
    """Compute precision, recall, density and coverage.

    After M. Naeem et al., "Reliable Fidelity and Diversity Metrics for
    Generative Models", ICML 2020. Balls are open as published: a distance equal to the radius (up to
    rounding) counts as outside. A ball's own centre always counts as inside, so that two equal constant
    sets are not called disjoint.

    Parameters
    ----------
    real, synthetic
        ``(n, d)`` and ``(m, d)``, each with more than k rows.
    k
        Neighbour that gives a ball its radius, at least 1.

    Raises
    ------
    ArgumentError
        If k is below 1.
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
    return prdc_from_distances(distances(x), distances(y), distances(x, y), k=k)


def prdc_from_distances(within_real: Doubles, within_synthetic: Doubles, across: Doubles, *, k: int) -> Prdc:
    """Compute the four numbers from distances: ``(n, n)``, ``(m, m)`` and ``(n, m)``."""
    real_radius = ball_radii(within_real, k)
    synthetic_radius = ball_radii(within_synthetic, k)
    inside_real = _inside(across, real_radius[:, None])
    inside_synthetic = _inside(across, synthetic_radius[None, :])
    return Prdc(
        precision=float(inside_real.any(axis=0).mean()),
        recall=float(inside_synthetic.any(axis=1).mean()),
        density=float(inside_real.sum(axis=0).mean() / k),
        coverage=float(inside_real.any(axis=1).mean()),
    )


def _inside(distance: Doubles, radius: Doubles) -> Mask:
    inside: Mask = (distance < radius * (1 - _ROUNDING)) | (distance == 0)
    return inside


def ball_radii(within: Doubles, k: int) -> Doubles:
    """Return each row's distance to its k-th nearest other row, from ``(n, n)`` distances."""
    table = within.copy()
    np.fill_diagonal(table, np.inf)
    return np.partition(table, k - 1, axis=1)[:, k - 1]
