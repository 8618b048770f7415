"""What the tests of the pytest front share: a project with verdicts of every kind, and runs of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy  # noqa: F401 - pytester drops what a run in this process imports, and numpy loads only once
import pytest

VERDICTS = '''
"""Verdicts with known content."""
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict

def verdict(subject, outcome="PASS", value=0.75, bar=0.5, kind="sufficiency", name="drift", **more):
    outcome = Outcome(outcome)
    criterion = Criterion(name, value, bar, (value - 0.1, value + 0.1), outcome, "share closed")
    return Verdict(kind, subject, outcome, (criterion,), counts={"real": 60}, **more)
'''

PROJECT = """
import pytest
from pytest_semcov.assertions import conclude
from verdicts import verdict

@pytest.fixture
def checked_in_setup():
    conclude(verdict("in setup"))
    yield
    conclude(verdict("in teardown"))

def test_passes(checked_in_setup):
    conclude(verdict("synthetic night", summary="synthetic night: sufficient"))

@pytest.mark.parametrize("semantic", ["day_night", "clear_rain"])
def test_fails(semantic):
    conclude(verdict("before"))
    conclude(verdict(semantic, "FAIL", 20, 30, kind="coverage", name="count[night]",
                     summary=f"{semantic}: night is under-represented: 20 images found, 30 required"))

def test_inconclusive():
    conclude(verdict("fog", "INCONCLUSIVE"))

@pytest.mark.semcov(inconclusive="skip")
def test_inconclusive_skips():
    conclude(verdict("dusk", "INCONCLUSIVE"))

@pytest.mark.xfail(reason="until December", strict=True)
def test_known_gap():
    conclude(verdict("snow", "FAIL", 0.25))

def test_expects_refusal():
    with pytest.raises(AssertionError, match="drift"):
        conclude(verdict("vendor", "FAIL", 0.25))

def test_uses_nothing():
    pass
"""

OUTCOMES = {
    "test_expects_refusal": "passed",
    "test_fails[clear_rain]": "failed",
    "test_fails[day_night]": "failed",
    "test_inconclusive": "failed",
    "test_inconclusive_skips": "skipped",
    "test_known_gap": "xfailed",
    "test_passes": "passed",
    "test_uses_nothing": "passed",
}
"""What pytest makes of the project's tests, in the order of the report."""


def make_project(pytester: pytest.Pytester, **files: str) -> None:
    """Write the project into pytester's folder (or other files beside the verdicts)."""
    pytester.makepyfile(verdicts=VERDICTS, **(files or {"test_project": PROJECT}))


def run(pytester: pytest.Pytester, *arguments: str, workers: int | None = None) -> pytest.RunResult:
    """Run pytest in pytester's folder: in this process, or in its own with so many xdist workers.

    Plugins of others that cost time at the end of every run are left out.
    """
    arguments = ("-p", "no:hypothesispytest", "-p", "no:anyio", *arguments)
    if workers is None:
        return pytester.runpytest_inprocess(*arguments)
    pytest.importorskip("xdist")
    return pytester.runpytest_subprocess(f"-n{workers}", *arguments)


def read_report(folder: Path, name: str = "report.json") -> dict[str, Any]:
    """Read a JSON report, refusing what JSON does not know."""

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    report: dict[str, Any] = json.loads((folder / name).read_text("utf-8"), parse_constant=refuse)
    return report


def subjects(folder: Path) -> list[str]:
    """Return what the records of a JSON report are about, in their order."""
    return [record["subject"] for record in read_report(folder)["records"]]
