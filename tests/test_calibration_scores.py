"""Intervals of scores hold the true score, and equal models are not told apart."""

from __future__ import annotations

import pytest
from calibration_scores import (
    CASES,
    EQUAL,
    Case,
    calibration_coverage,
    detection_coverage,
    preferences,
    score_coverage,
)

RUNS = 400
LEAST = 0.92

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.images}".replace(" ", "-"))
def test_scores(case: Case) -> None:
    for name, held in score_coverage(case, RUNS):
        assert held >= LEAST * RUNS, name


@pytest.mark.parametrize(("images", "sharpness"), [(100, 1.0), (400, 2.0)])
def test_calibration_error(images: int, sharpness: float) -> None:
    assert calibration_coverage(images, sharpness, RUNS) >= LEAST * RUNS


def test_average_precision() -> None:
    assert detection_coverage(100, 200) >= LEAST * 200


@pytest.mark.parametrize(("images", "accuracy"), EQUAL)
def test_equal_models_are_not_told_apart(images: int, accuracy: float) -> None:
    outcomes = preferences(images, (accuracy, accuracy), RUNS)

    assert outcomes["INCONCLUSIVE"] >= LEAST * RUNS


def test_a_better_model_is_preferred() -> None:
    outcomes = preferences(200, (0.8, 0.95), 100)

    assert outcomes["PASS"] == 100
