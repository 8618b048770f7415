"""References that tests of the metrics compare with."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_semcov.metrics.completeness import bins_completeness, effective_rank
from pytest_semcov.metrics.divergence import divergence_fnn
from pytest_semcov.metrics.feature_drift import cramer_von_mises, kolmogorov_smirnov
from pytest_semcov.metrics.frechet import frechet_distance
from pytest_semcov.metrics.mmd import mmd_squared
from pytest_semcov.metrics.neighbours import coverage_radius
from pytest_semcov.metrics.prdc import prdc

ONE_SET: dict[str, Callable[[Any], Any]] = {
    "radius": lambda x: coverage_radius(x, k=2),
    "effective_rank": effective_rank,
    "bins_completeness": bins_completeness,
}
TWO_SETS: dict[str, Callable[[Any, Any], Any]] = {
    "radius": lambda x, y: coverage_radius(x, y, k=2),
    "kolmogorov_smirnov": lambda x, y: kolmogorov_smirnov(x, y).statistic,
    "cramer_von_mises": lambda x, y: cramer_von_mises(x, y).statistic,
    "mmd": lambda x, y: mmd_squared(x, y, bandwidth=1.5),
    "frechet": frechet_distance,
    "prdc": lambda x, y: list(prdc(x, y, k=2).to_dict().values()),
    "divergence": divergence_fnn,
}


def direct_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Distances from the differences themselves, in float64."""
    table = np.empty((len(x), len(y)))
    for i, row in enumerate(np.asarray(x, dtype=np.float64)):
        for j, other in enumerate(np.asarray(y, dtype=np.float64)):
            table[i, j] = np.sqrt(((row - other) ** 2).sum())
    return table


def dataeval_core() -> Any:
    """Import ``dataeval.core``, which warns when it is first imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dataeval.core
    return dataeval.core


def published_prdc(real: np.ndarray, synthetic: np.ndarray, k: int) -> dict[str, float]:
    """Return what the authors' package computes."""
    from prdc import compute_prdc

    with contextlib.redirect_stdout(io.StringIO()):  # it prints
        values = compute_prdc(real, synthetic, k)
    return {name: float(value) for name, value in values.items()}
