"""The whole loop from the outside: a folder of images, a conftest, tests, and what pytest makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

CONFTEST = """
import os
from pathlib import Path

import numpy as np
import pytest

from pytest_semcov import ImageFolder


class MeanColour:
    name = "mean colour"
    fingerprint = "mean-colour-1"
    trained = True
    input_size = None

    def preprocess(self, image):
        return np.asarray(image, dtype=np.float32) / 255

    def embed(self, batch):
        with open(os.environ["COMPUTED"], "a") as file:
            file.write("".join(f"{image.mean():.6f}\\n" for image in batch))
        return np.stack([np.concatenate([i.mean(axis=(0, 1)), i.std(axis=(0, 1)), [0.1]]) for i in batch])


@pytest.fixture(scope="session")
def semcov_embedder():
    return MeanColour()


class KnowsNothing(MeanColour):
    name = "knows nothing"
    semantics = {}
    logit_scale = 100.0
    encode_images = MeanColour.embed

    def encode_texts(self, texts):
        raise AssertionError("asked for labels that it does not know")


@pytest.fixture(scope="session")
def semcov_encoder():
    return KnowsNothing()


@pytest.fixture(scope="session")
def semcov_dataset():
    return ImageFolder(Path(__file__).parent / "images")
"""

TESTS = """
import pytest

from pytest_semcov import assert_combinations_covered, assert_semantic_covered, assert_synthetic_sufficient


def test_day_night(semcov_dataset):
    assert_semantic_covered(semcov_dataset, "day_night")


def test_first_half(semcov_dataset):
    assert_semantic_covered(semcov_dataset.subset(range(0, len(semcov_dataset), 2)), "day_night", min_count=5)


def test_night_for_day(semcov_dataset):
    night = [index for index, label in enumerate(semcov_dataset.column("label")) if label == "night"]
    assert_synthetic_sufficient(
        semcov_dataset.subset(night),
        real=semcov_dataset,
        semantic="day_night",
        uncovered="day",
        covered="night",
    )


def test_bars_of_a_call(semcov_dataset):
    verdict = assert_semantic_covered(semcov_dataset, "day_night", min_count=20, min_share=0.1)
    assert verdict["count[night]"].bar == 20
"""

INI = """
[pytest]
semcov_labels = day_night = label
"""


def write_images(folder: Path, counts: dict[str, int], *, seed: int = 0) -> None:
    """Write noise images whose mean brightness tells their class; no two are alike."""
    generator = np.random.default_rng(seed)
    level = {"day": 170, "night": 40}
    for label, count in counts.items():
        (folder / label).mkdir(parents=True)
        for number in range(count):
            base = level[label] + generator.normal(0, 15)
            pixels = np.clip(generator.normal(base, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number:03d}.png")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with 100 day and 22 night images; nothing in it needs torch."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_release=TESTS)
    pytester.makefile(".ini", pytest=INI)
    write_images(pytester.path / "images", {"day": 100, "night": 22})
    monkeypatch.setenv("SEMCOV_CACHE_DIR", str(pytester.path / "cache"))
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("COMPUTED", str(pytester.path / "computed.txt"))
    return pytester.path


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def records(path: Path) -> list[dict[str, Any]]:
    report = json.loads(path.read_text(encoding="utf-8"))
    return [
        {name: value for name, value in record.items() if name != "worker"} for record in report["records"]
    ]


def test_failure_text_says_what_is_missing_and_what_to_do(project: Path, pytester: pytest.Pytester) -> None:
    result = run(pytester, "-k", "test_day_night")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*day_night: night is under-represented: 22 of 122 images found, 30 required; share 18.0%*",
            "*FAIL *count?night? 22 *must be ≥ 30*",
            "*night: cluster recall 0.*, lift *over random subsets of 22, p *",
            "*nearest candidates not labelled night: day/*.png (distance *",
            "*what to do: add at least 8 images of night*",
            "*= semcov =*",
            "FAIL*day_night: night is under-represented*",
            "found:",
            "  day_night: night",
        ]
    )


@pytest.mark.parametrize("assert_mode", ["plain", "rewrite"])
def test_outcomes(project: Path, pytester: pytest.Pytester, assert_mode: str) -> None:
    result = run(pytester, f"--assert={assert_mode}", "-k", "not night_for_day")

    result.assert_outcomes(passed=2, failed=1)


def test_two_workers_embed_every_image_once_and_report_the_same(
    project: Path, pytester: pytest.Pytester
) -> None:
    pytest.importorskip("xdist")

    alone = run(pytester, "--semcov-report=plain.json", "--semcov-cache-dir=cache-plain")
    computed_alone = Path("computed.txt").read_text().splitlines()
    Path("computed.txt").unlink()
    together = run(pytester, "-n2", "--semcov-report=workers.json")
    computed_together = Path("computed.txt").read_text().splitlines()

    alone.assert_outcomes(passed=2, failed=2)
    together.assert_outcomes(passed=2, failed=2)
    assert len(computed_alone) == 122
    assert sorted(computed_together) == sorted(computed_alone)
    assert records(project / "workers.json") == records(project / "plain.json")


def test_second_run_computes_nothing(project: Path, pytester: pytest.Pytester) -> None:
    run(pytester, "-k", "day_night")
    Path("computed.txt").unlink()

    run(pytester, "-k", "day_night")

    assert not Path("computed.txt").exists()


class TestOneUnreadableImage:
    """One of 200 images is cut off in the middle."""

    @pytest.fixture
    def damaged(self, project: Path, pytester: pytest.Pytester) -> Path:
        write_images(project / "more", {"day": 78}, seed=1)
        for path in (project / "more" / "day").iterdir():
            path.rename(project / "images" / "day" / f"more-{path.name}")
        victim = project / "images" / "day" / "042.png"
        victim.write_bytes(victim.read_bytes()[:300])
        return victim

    def test_it_is_named_and_the_rest_is_not_lost(self, damaged: Path, pytester: pytest.Pytester) -> None:
        result = run(pytester, "-k", "test_day_night")

        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*BadImagesError: 1 of 200 images*", "*day/042.png*"])
        assert len(Path("computed.txt").read_text().splitlines()) == 199

    def test_the_others_are_judged_when_skipping_is_allowed(
        self, damaged: Path, pytester: pytest.Pytester
    ) -> None:
        result = run(
            pytester, "-k", "bars_of_a_call", "-o", "semcov_on_bad_image=skip", "--semcov-report=report.json"
        )

        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["1 image skipped: *day/042.png*"])
        (record,) = records(Path("report.json"))
        assert record["counts"] == {"real day": 177, "real night": 22}
        numbers = [criterion["value"] for criterion in record["criteria"]]
        assert all(value is None or np.isfinite(value) for value in numbers)

    def test_too_many_are_an_error_all_the_same(self, damaged: Path, pytester: pytest.Pytester) -> None:
        result = run(
            pytester,
            "-k",
            "bars_of_a_call",
            "-o",
            "semcov_on_bad_image=skip",
            "-o",
            "semcov_max_bad_images=0",
        )

        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*BadImagesError*", "*day/042.png*"])


def test_collecting_with_a_missing_folder_costs_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import sys
        from pytest_semcov import ImageFolder, assert_semantic_covered

        DATASET = ImageFolder("/no/such/folder")

        def test_release():
            assert_semantic_covered(DATASET, "day_night", labels="label")

        def test_loaded_nothing():
            assert not {"torch", "open_clip", "timm"} & set(sys.modules)
        """
    )

    run(pytester, "--collect-only", "-q").stdout.fnmatch_lines(["*::test_release", "*2 tests collected*"])
    result = run(pytester)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*DatasetError: *no/such/folder*"])


def test_empty_class_folder_is_a_gap_not_an_error(project: Path, pytester: pytest.Pytester) -> None:
    for path in (project / "images" / "night").iterdir():
        path.unlink()

    result = run(pytester, "-k", "test_day_night")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*day_night: night is under-represented: 0 of 100 images found, 30 required*"]
    )


MISTAKES = """
import pytest
from pytest_semcov import assert_no_uncovered_semantics, assert_semantic_covered

def test_name_of_a_semantic(semcov_dataset):
    assert_semantic_covered(semcov_dataset, "day_nigth")

def test_name_of_a_column(semcov_dataset):
    assert_semantic_covered(semcov_dataset, "day_night", labels="time_of_day")

def test_name_in_a_mapping(semcov_dataset):
    assert_no_uncovered_semantics(semcov_dataset, ["day_night"], labels={"day_nigth": "label"})

@pytest.mark.semcov(labels={"day_nigth": "label"})
def test_name_in_a_marker(semcov_dataset):
    assert_semantic_covered(semcov_dataset, "day_night")

def test_a_path_is_no_data_set():
    assert_semantic_covered("images", "day_night")
"""


def test_mistakes_are_found_before_anything_is_embedded_and_end_at_the_users_line(
    project: Path, pytester: pytest.Pytester
) -> None:
    (project / "test_release.py").write_text(MISTAKES)

    result = run(pytester)

    result.assert_outcomes(failed=5)
    assert not Path("computed.txt").exists()
    result.stdout.fnmatch_lines(
        [
            "*ArgumentError: no semantic 'day_nigth'; there are day_night, *",
            "*no column 'time_of_day'; there are *",
            "*ArgumentError: labels= names 'day_nigth', which is not among the semantics: day_night*",
            "*semcov_labels names 'day_nigth', and there is no such semantic; did you mean 'day_night'?*",
            "*ArgumentError: need a data set, not 'images': give ImageFolder('images')*",
        ]
    )
    result.stdout.no_fnmatch_line("*judging_*.py*")


SCANS = """
from pytest_semcov import assert_no_uncovered_semantics

def test_what_cannot_be_labelled_is_not_green(semcov_dataset):
    assert_no_uncovered_semantics(semcov_dataset, labels={"day_night": "label"}, min_count=5)

def test_absent_is_named(semcov_dataset):
    day = [i for i, label in enumerate(semcov_dataset.column("label")) if label == "day"]
    verdict = assert_no_uncovered_semantics(
        semcov_dataset.subset(day), ["day_night"], labels={"day_night": "label"}
    )
    assert "absent, not judged: day_night[night]" in verdict.summary

def test_absent_can_be_insisted_on(semcov_dataset):
    day = [i for i, label in enumerate(semcov_dataset.column("label")) if label == "day"]
    assert_no_uncovered_semantics(
        semcov_dataset.subset(day), ["day_night"], labels={"day_night": "label"}, absent="fail"
    )
"""


def test_a_scan_is_green_for_what_it_looked_at_only(project: Path, pytester: pytest.Pytester) -> None:
    (project / "test_release.py").write_text(SCANS)

    result = run(pytester)

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*VerdictInconclusive: uncovered semantics cannot be ruled out: *",
            "*VerdictFailed: day_night?night?*",
        ]
    )


def test_one_image_is_not_enough_for_anything(project: Path, pytester: pytest.Pytester) -> None:
    keep = project / "images" / "day" / "000.png"
    for path in project.glob("images/*/*.png"):
        if path != keep:
            path.unlink()

    result = run(pytester, "-k", "test_day_night")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*day is under-represented (also night): 1 of 1 images found, 30 required*"])
