"""Assertions on models, from images to verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import (
    Descriptor,
    ImageList,
    SampleDataset,
    Settings,
    VerdictFailed,
    VerdictInconclusive,
    Workbench,
    assert_condition_gap,
    assert_model_preferred,
    assert_same_choice,
    assert_synthetic_behaves_like_real,
    classifier_from_callable,
    detector_from_callable,
)
from pytest_semcov.data.samples import Box, Provenance
from pytest_semcov.errors import ArgumentError, TooFewError

CLASSES = ("left", "right")


def picture(seed: int, brightness: int) -> Image.Image:
    """Return an image with a bright block on one side, by the seed's parity."""
    pixels = np.random.default_rng(seed).integers(0, 8, (16, 16, 3), dtype=np.uint8)
    pixels[4:12, slice(1, 7) if seed % 2 == 0 else slice(9, 15)] += np.uint8(brightness)
    return Image.fromarray(pixels)


def pictures(count: int, brightness: int, time: str, *, start: int = 0) -> ImageList:
    seeds = range(start, start + count)
    return ImageList(
        [picture(seed, brightness) for seed in seeds],
        ids=[f"{time}/{seed}" for seed in seeds],
        labels=[CLASSES[seed % 2] for seed in seeds],
        metadata=[{"time": time}] * count,
    )


def made_of(dataset: SampleDataset, brightness: int) -> SampleDataset:
    """Return the scenes of a data set again, with another brightness."""
    seeds = [int(sample.id.split("/")[1]) for sample in dataset]
    images = ImageList([picture(seed, brightness) for seed in seeds], ids=list(dataset.ids))
    return SampleDataset(
        [
            replace(
                image,
                id=f"made/{sample.id}",
                label=sample.label,
                provenance=Provenance(sample.id, "stub", "1", "time", "day", "night", 0),
            )
            for image, sample in zip(images, dataset, strict=True)
        ],
        name="synthetic night",
    )


def looks(images: list[Image.Image], threshold: float) -> list[int]:
    """Say which side is brighter; where nothing is bright enough, always the left one."""
    codes = []
    for image in images:
        pixels = np.asarray(image, dtype=float)
        left, right = pixels[:, :8].mean(), pixels[:, 8:].mean()
        codes.append(int(right > left) if max(left, right) > threshold else 0)
    return codes


def model(name: str, threshold: float) -> Any:
    return classifier_from_callable(
        lambda images: looks(images, threshold), classes=CLASSES, output="labels", name=name, version=name
    )


DAY_ONLY, DAY_AND_NIGHT = model("day only", 30), model("day and night", 8)
WEAK_BY_DAY = classifier_from_callable(
    lambda images: [
        code if np.asarray(image).max() < 60 or np.asarray(image)[0, 0, 0] > 0 else 0
        for code, image in zip(looks(images, 8), images, strict=True)
    ],
    classes=CLASSES,
    output="labels",
    name="night, a little worse by day",
    version="1",
)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(Settings(cache_dir=tmp_path))


DAYS = pictures(120, 200, "day")
NIGHTS = pictures(60, 25, "night", start=1000)
TIME = Descriptor.from_labels("time", ["day", "night"])
MODELS = {"one": DAY_ONLY, "two": WEAK_BY_DAY}


class TestPreferred:
    def test_by_day_and_by_night(self, bench: Workbench) -> None:
        both = DAYS + NIGHTS

        verdict = assert_model_preferred(DAY_AND_NIGHT, DAY_ONLY, both, workbench=bench)

        assert verdict.kind == "preference"
        assert verdict["advantage[day only]"].value == pytest.approx(30 / 180)
        assert verdict.provenance["models"][0]["name"] == "day and night"  # type: ignore[index]
        with pytest.raises(VerdictFailed, match="day only is not preferred by accuracy"):
            assert_model_preferred(DAY_ONLY, DAY_AND_NIGHT, both, workbench=bench)
        with pytest.raises(VerdictInconclusive, match="the choice of day and night is not supported"):
            assert_model_preferred(DAY_AND_NIGHT, DAY_ONLY, DAYS, workbench=bench)

    def test_mistakes_are_named(self, bench: Workbench) -> None:
        def check(new: object, old: object, dataset: Any, message: str, **options: Any) -> None:
            with pytest.raises((ArgumentError, TooFewError), match=message):
                assert_model_preferred(new, old, dataset, workbench=bench, **options)

        check(DAY_ONLY, DAY_ONLY, DAYS, "both models are called 'day only'")
        check({"a": DAY_ONLY, "b": DAY_ONLY}, DAY_ONLY, DAYS, "new= must be one model")
        check(DAY_AND_NIGHT, [DAY_ONLY, DAY_ONLY], DAYS, "two models are called 'day only'")
        check(DAY_AND_NIGHT, DAY_ONLY, "images", r"give ImageFolder\('images'\)")
        check(DAY_AND_NIGHT, DAY_ONLY, SampleDataset([]), "has no images to score")
        check(DAY_AND_NIGHT, DAY_ONLY, DAYS, "map is a score of detection, and day and night", metric="map")
        check(DAY_AND_NIGHT, DAY_ONLY, DAYS, "metric 'recall'", metric="recall")
        with pytest.raises(ArgumentError, match="no model to score"):
            assert_model_preferred(DAY_ONLY, {}, DAYS, workbench=bench)


class TestSameChoice:
    def test_improved_chooses_as_ideal_and_the_original_does_not(self, bench: Workbench) -> None:
        few_nights = DAYS + NIGHTS.subset(range(4))
        ideal = DAYS + NIGHTS
        improved = DAYS + made_of(DAYS.subset(range(60)), 25)

        verdict = assert_same_choice(MODELS, improved, ideal, workbench=bench)

        assert "improved and ideal choose two" in verdict.summary
        assert verdict.counts == {"improved, real": 120, "improved, synthetic": 60, "ideal": 180}
        with pytest.raises((VerdictFailed, VerdictInconclusive)):
            assert_same_choice(MODELS, few_nights, ideal, workbench=bench)


class TestLikeness:
    def check(self, brightness: int, bench: Workbench) -> Any:
        return assert_synthetic_behaves_like_real(
            {"one": DAY_ONLY, "two": DAY_AND_NIGHT},
            made_of(DAYS, brightness),
            NIGHTS,
            DAYS,
            workbench=bench,
        )

    def test_alike(self, bench: Workbench) -> None:
        assert self.check(25, bench).passed

    def test_unchanged(self, bench: Workbench) -> None:
        with pytest.raises(VerdictFailed, match=r"FAIL +share\[one\]"):
            self.check(200, bench)

    def test_useless(self, bench: Workbench) -> None:
        with pytest.raises(VerdictFailed, match=r"FAIL +difference\[two\]"):
            self.check(0, bench)

    def test_sets_must_be_what_they_are_called(self, bench: Workbench) -> None:
        def check(synthetic: Any, real: Any, covered: Any, message: str) -> None:
            with pytest.raises(ArgumentError, match=message):
                assert_synthetic_behaves_like_real(DAY_ONLY, synthetic, real, covered, workbench=bench)

        check(NIGHTS, NIGHTS, DAYS, "synthetic: night/1000 is real")
        check(made_of(DAYS, 25), made_of(NIGHTS, 25), DAYS, "real uncovered: made/night/1000 is synthetic")
        check(made_of(DAYS, 25), DAYS, DAYS, "day/0 is in the real uncovered and in the covered")


class TestConditionGap:
    def test_by_category(self, bench: Workbench) -> None:
        both = DAYS + NIGHTS + made_of(DAYS, 0)  # synthetic images do not count

        assert assert_condition_gap(
            DAY_AND_NIGHT, both, TIME, labels="time", max_gap=0.1, workbench=bench
        ).passed
        with pytest.raises(VerdictFailed, match=r"gap\[day - night\] 0\.5"):
            assert_condition_gap(DAY_ONLY, both, TIME, labels="time", max_gap=0.1, workbench=bench)
        with pytest.raises(ArgumentError, match="there are only day"):
            assert_condition_gap(DAY_ONLY, DAYS, TIME, labels="time", max_gap=0.1, workbench=bench)


def test_score_table(bench: Workbench) -> None:
    table = bench.score(
        {"one": DAY_ONLY, "two": DAY_AND_NIGHT},
        {"original": DAYS, "ideal": DAYS + NIGHTS},
        ["accuracy", "f1[right]"],
        semantic=TIME,
        labels="time",
    )

    row = table.find(model="one", dataset="ideal", subset="real night", metric="accuracy")
    assert (row.value, row.images, row.groups) == (0.5, 60, 60)
    assert row.interval is not None
    assert 0.3 < row.interval[0] < 0.5 < row.interval[1] < 0.7
    assert len(table.rows) == 2 * 2 * (2 + 3)
    lines = str(table).splitlines()
    assert lines[0].split() == ["data", "set", "subset", "metric", "images", "one", "two"]
    assert len(lines) == 1 + 2 * (2 + 3)
    assert len(table.to_csv().splitlines()) == 1 + len(table.rows)
    with pytest.raises(KeyError, match="20 rows"):
        table.find()


def test_each_image_is_run_once_per_model(bench: Workbench) -> None:
    seen: list[int] = []

    def count(images: list[Image.Image]) -> list[int]:
        seen.append(len(images))
        return looks(images, 8)

    counting = classifier_from_callable(count, classes=CLASSES, output="labels", name="counting", version="1")
    models = {"one": DAY_ONLY, "two": counting}
    both = DAYS + NIGHTS

    bench.score(models, {"original": DAYS, "ideal": both}, ["accuracy", "f1_macro"])
    assert_model_preferred({"two": counting}, {"one": DAY_ONLY}, both, workbench=bench)
    assert_condition_gap(counting, both, TIME, labels="time", max_gap=0.2, workbench=bench)

    assert sum(seen) == 180


def test_detectors(bench: Workbench) -> None:
    def find(images: list[Image.Image], threshold: float) -> list[dict[str, Any]]:
        found = []
        for image, code in zip(images, looks(images, threshold), strict=True):
            pixels = np.asarray(image, dtype=float)
            there = pixels.mean() > threshold / 2
            box = [1, 4, 7, 12] if code == 0 else [9, 4, 15, 12]
            found.append(
                {
                    "boxes": [box] if there else [],
                    "labels": ["block"] if there else [],
                    "scores": [0.9] if there else [],
                }
            )
        return found

    def boxed(dataset: Any) -> SampleDataset:
        places = [(1, 7) if int(s.id.split("/")[1]) % 2 == 0 else (9, 15) for s in dataset]
        return SampleDataset(
            [
                replace(sample, boxes=(Box("block", x0, 4, x1, 12),))
                for sample, (x0, x1) in zip(dataset, places, strict=True)
            ]
        )

    day_only = detector_from_callable(lambda i: find(i, 30), classes=["block"], name="day", version="1")
    always = detector_from_callable(lambda i: find(i, 8), classes=["block"], name="always", version="1")
    dataset = boxed(DAYS.subset(range(40)) + NIGHTS.subset(range(40)))

    verdict = assert_model_preferred(
        always, day_only, dataset, metric="map@0.5", resamples=99, workbench=bench
    )

    assert verdict["advantage[day]"].value == pytest.approx(50 / 101, abs=0.01)
