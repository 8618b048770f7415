"""A folder of real photographs gated from the outside: real weights, real decoding, real pytest runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

CONFTEST = """
import pytest
from pytest_semcov import ImageFolder

@pytest.fixture(scope="session")
def semcov_dataset():
    return ImageFolder("photographs")

@pytest.fixture(scope="session")
def draft(semcov_dataset):
    "120 day and the first 20 night photographs."
    labels = semcov_dataset.column("label")
    night = [index for index, label in enumerate(labels) if label == "night"]
    return semcov_dataset.subset([i for i, label in enumerate(labels) if label == "day"] + night[:20])
"""

TESTS = """
from pytest_semcov import assert_no_uncovered_semantics, assert_semantic_covered

def test_draft(draft):
    assert_semantic_covered(draft, "day_night", labels="label")

def test_draft_scan(draft):
    assert_no_uncovered_semantics(draft, ["day_night"], labels={"day_night": "label"})

def test_balanced(semcov_dataset):
    assert_semantic_covered(semcov_dataset, "day_night", labels="label")

def test_balanced_scan(semcov_dataset):
    assert_no_uncovered_semantics(semcov_dataset, ["day_night"], labels={"day_night": "label"})
"""

BY_ENCODER = """
from pytest_semcov import assert_semantic_covered

def test_draft(draft):
    assert_semantic_covered(draft, "day_night")

def test_weather(draft):
    assert_semantic_covered(draft, "clear_rain")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, day_night_folder: Path) -> Path:
    shutil.copytree(day_night_folder / "train", pytester.path / "photographs")
    pytester.makeconftest(CONFTEST)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "250")
    if "SEMCOV_CACHE_DIR" not in os.environ:
        monkeypatch.setenv("SEMCOV_CACHE_DIR", str(pytester.path / "cache"))
    return pytester.path


def test_missing_night_is_found_and_the_complete_set_passes(
    project: Path, pytester: pytest.Pytester, lite0_weights: Path
) -> None:
    pytester.makepyfile(test_release=TESTS)

    result = pytester.runpytest_subprocess(f"--semcov-embedder=timm:tf_efficientnet_lite0@{lite0_weights}")

    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*day_night: night is under-represented: 20 of 140 images found, 30 required; share 14.3%, *",
            "*night: cluster recall 0.*, lift 2.* over random subsets of 20, p 0.0*",
            "*nearest candidates not labelled night: day/*.jpg *",
            "*what to do: add at least 10 images of night*",
            "*day_night?night? is under-represented and important to the model*",
        ]
    )


def test_labels_of_the_built_in_encoder_are_taken_for_what_they_are_worth(
    project: Path, pytester: pytest.Pytester
) -> None:
    """20 of 140 are night: a verdict may say so or be open, but not claim 30 or more."""
    pytester.makepyfile(test_release=BY_ENCODER)

    result = pytester.runpytest_subprocess("--semcov-report=report.json")

    result.assert_outcomes(failed=2)
    report = json.loads((project / "report.json").read_text(encoding="utf-8"))
    by_subject = {record["subject"]: record for record in report["records"]}
    night = next(c for c in by_subject["day_night"]["criteria"] if c["name"] == "count[night]")
    assert by_subject["day_night"]["outcome"] in ("FAIL", "INCONCLUSIVE")
    assert night["interval"][0] <= 20 <= night["interval"][1]
    # The encoder was never measured on rain in photographs: it does not give labels at all.
    assert by_subject["clear_rain"]["outcome"] == "INCONCLUSIVE"
    assert by_subject["clear_rain"]["counts"] == {}
    assert "photographs" in by_subject["clear_rain"]["summary"]
