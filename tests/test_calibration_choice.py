"""Verdicts on models are seldom wrong, and decide where there is enough to decide by."""

from __future__ import annotations

import pytest
from calibration_choice import GATES, Case, outcomes

RUNS = 100
MOST_WRONG = 10
"""At a rate of 5 %, more than 10 of 100 come with probability .01."""

pytestmark = pytest.mark.slow


def cases() -> list[tuple[str, Case]]:
    return [(gate, case) for gate, (_, found) in GATES.items() for case in found if case.images <= 200]


@pytest.mark.parametrize(
    ("gate", "case"),
    cases(),
    ids=[f"{gate} {case.truth} {case.images} {case.models}".replace(" ", "-") for gate, case in cases()],
)
def test_is_seldom_wrong(gate: str, case: Case) -> None:
    found = outcomes(gate, case, RUNS)

    assert sum(found[outcome] for outcome in case.wrong) <= MOST_WRONG
    assert found.total() == RUNS


@pytest.mark.parametrize(
    ("gate", "accuracies", "images", "wanted"),
    [
        ("likeness", {"synthetic": (0.9,), "real": (0.6,), "covered": (0.9,)}, 150, "FAIL"),
        ("likeness", {"synthetic": (0.6,), "real": (0.6,), "covered": (0.9,)}, 600, "PASS"),
        ("gap", {"day": (0.9,), "night": (0.9,)}, 400, "PASS"),
        ("gap", {"day": (0.9,), "night": (0.6,)}, 150, "FAIL"),
        ("choice", {"improved": (0.9, 0.7), "ideal": (0.9, 0.7)}, 150, "PASS"),
        ("choice", {"improved": (0.9, 0.7), "ideal": (0.7, 0.9)}, 150, "FAIL"),
        ("preference", {"all": (0.95, 0.8, 0.8, 0.8)}, 200, "PASS"),
    ],
)
def test_decides(gate: str, accuracies: dict[str, tuple[float, ...]], images: int, wanted: str) -> None:
    found = outcomes(gate, Case("", accuracies, images, ()), RUNS)

    assert found[wanted] >= 90
