"""``protocol="deduce"`` against the figures of the authors' own functions, and its plain decision rule."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.sufficiency_deduce import published_criteria
from pytest_semcov.gates.verdict import Outcome, combine
from pytest_semcov.metrics.published import PublishedFigures, published_figures


@pytest.fixture(scope="module")
def reference(day_night_folder: Path) -> dict[str, Any]:
    return json.loads((day_night_folder / "deduce_reference.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def sets(day_night_folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first 40 night photographs, 120 day photographs, and these with painted lamps."""
    with np.load(day_night_folder / "embeddings_efficientnet_lite0.npz") as file:
        rows, times = file["embeddings"], file["time_of_day"]
    with np.load(day_night_folder / "embeddings_darkened.npz") as file:
        lamps = file["gamma3_blue_lights"]
    return rows[times == "night"][:40], rows[times == "day"], lamps


@pytest.fixture(scope="module")
def figures(sets: tuple[np.ndarray, np.ndarray, np.ndarray]) -> PublishedFigures:
    uncovered, covered, synthetic = sets
    return published_figures(uncovered, covered, synthetic, k=20)


# The reference names the sets A (uncovered), B (covered) and C (synthetic).
NAMES = {"A": "U", "B": "C", "C": "S"}


def renamed(name: str, between: str) -> str:
    return between.join(NAMES[part] for part in name.split(between))


def test_divergence(figures: PublishedFigures, reference: dict[str, Any]) -> None:
    expected = {renamed(name, "-"): value for name, value in reference["divergence_fnn"].items()}

    assert dict(figures.divergence) == pytest.approx(expected, abs=1e-12)


def test_coverage_radius(figures: PublishedFigures, reference: dict[str, Any]) -> None:
    """Radii are float32 in dataeval: 1e-6 relative is two of its last digits."""
    expected = {renamed(k, "+"): v for k, v in reference["coverage_radius_median_over_A"].items()}

    assert dict(figures.radius) == pytest.approx(expected, rel=1e-6)


def test_completeness(figures: PublishedFigures, reference: dict[str, Any]) -> None:
    """dataeval 1.1.4 keeps tiny eigenvalues that the reference's 1.0.6 dropped: 1e-6 relative."""
    expected = {renamed(k, "+"): v for k, v in reference["completeness_effective_rank"].items()}
    # Ranks tied values in the order in which numpy's sort leaves them: see the next test.
    del expected["U+C+S"]

    assert {name: figures.completeness[name] for name in expected} == pytest.approx(expected, rel=1e-6)


COMPLETENESS_OF_ALL = """
import sys
import numpy as np
from pytest_semcov.metrics.published import scale_by_own_range
from dataeval.core import completeness
sets = [scale_by_own_range(rows) for rows in np.load(sys.argv[1]).values()]
print(completeness(np.vstack(sets))["completeness"])
"""


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="names of CPU features are older")
def test_completeness_of_tied_values_depends_on_the_processor(
    sets: tuple[np.ndarray, np.ndarray, np.ndarray], reference: dict[str, Any], tmp_path: Path
) -> None:
    """The reference was made on a processor without AVX-512, whose sort orders ties in another way.

    Two fifths of these values are tied; with AVX-512 the same call gives 0.0504 instead of 0.0479.
    """
    np.savez(tmp_path / "sets.npz", *sets)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPLETENESS_OF_ALL, str(tmp_path / "sets.npz")],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
        capture_output=True,
        text=True,
        check=True,
    )

    expected = reference["completeness_effective_rank"]["A+B+C"]
    assert float(result.stdout) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("detector", ["KS", "CVM", "MMD"])
@pytest.mark.parametrize("compared", ["B", "C"])
def test_drift(figures: PublishedFigures, reference: dict[str, Any], detector: str, compared: str) -> None:
    expected = reference["drift"][detector][compared]
    by_detector = {name.upper(): trials for name, trials in figures.drift.items()}

    found = by_detector[detector][NAMES[compared]]

    # Mean float32 statistics of 1,280 features over ten trials.
    assert found.distance == pytest.approx(expected["distance"], rel=1e-5)
    assert found.distance_std == pytest.approx(expected["distance_std"], rel=1e-3)
    assert found.drift_fraction == expected["drift_fraction"]
    assert found.num_trials == expected["num_trials"]
    assert found.drifted == expected["drifted"]


def test_painted_lamps_are_not_sufficient_by_the_published_rule(figures: PublishedFigures) -> None:
    """Drift is lower and completeness higher, but the union's radius is 2.6922 against 2.6901."""
    criteria = published_criteria(figures)

    assert [criterion.name for criterion in criteria if criterion.outcome is Outcome.FAIL] == ["radius"]
    assert combine(criteria) is Outcome.FAIL


def test_the_gate_judges_by_these_figures() -> None:
    generator = np.random.default_rng(0)
    uncovered, covered, synthetic = (
        generator.random((size, 6)) + at for size, at in ((24, 0), (40, 1), (40, 0))
    )

    verdict = sufficiency_verdict(synthetic, uncovered, covered, subject="small", protocol="deduce")

    expected = published_criteria(published_figures(uncovered, covered, synthetic, k=20))
    assert verdict.criteria[: len(expected)] == expected
    assert verdict.provenance["protocol"] == "deduce"


def test_too_few_images_are_inconclusive(sets: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    uncovered, covered, synthetic = sets

    verdict = sufficiency_verdict(synthetic[:5], uncovered[:5], covered[:5], subject="few", protocol="deduce")

    assert verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("drift", "radius", "completeness"), list(itertools.product([True, False], repeat=3))
)
def test_decision_table(figures: PublishedFigures, drift: bool, radius: bool, completeness: bool) -> None:
    """Sufficient only if all three hold."""
    verdict = combine(published_criteria(altered(figures, drift, radius, completeness)))

    assert (verdict is Outcome.PASS) == (drift and radius and completeness)


@pytest.mark.parametrize("tied", ["drift", "radius", "completeness"])
def test_a_tie_is_not_better(figures: PublishedFigures, tied: str) -> None:
    good = {name: None if name == tied else True for name in ("drift", "radius", "completeness")}

    assert combine(published_criteria(altered(figures, **good))) is Outcome.FAIL


def altered(
    figures: PublishedFigures, drift: bool | None, radius: bool | None, completeness: bool | None
) -> PublishedFigures:
    """Return figures in which each comparison holds, does not, or (None) is a tie."""
    from dataclasses import replace

    step = {True: -0.1, False: 0.1, None: 0.0}
    return replace(
        figures,
        drift={
            name: {"C": trials["C"], "S": replace(trials["C"], distance=trials["C"].distance + step[drift])}
            for name, trials in figures.drift.items()
        },
        radius={**figures.radius, "U+C": 2.0, "U+S": 2.0 + step[radius]},
        completeness={**figures.completeness, "U+C": 0.2, "U+C+S": 0.2 - step[completeness]},
    )
