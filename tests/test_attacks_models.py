"""Attempts to get a green result on models that should not be one, and inputs that make no sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import (
    ImageList,
    ModelUnderTest,
    SampleDataset,
    Settings,
    VerdictFailed,
    VerdictInconclusive,
    Workbench,
    assert_condition_gap,
    assert_model_preferred,
    assert_same_choice,
    classifier_from_callable,
    detector_from_callable,
)
from pytest_semcov.data.samples import Box
from pytest_semcov.errors import DatasetError, ModelError, NonFiniteError

CLASSES = ("dark", "bright")
BOX = (2.0, 2.0, 10.0, 10.0)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(Settings(cache_dir=tmp_path))


def pictures(count: int, *, label: str | None = None, group: str | None = None) -> ImageList:
    """Return dark and bright images in turn, each with a box of its class."""
    levels = [(40 if number % 2 == 0 else 200) + number % 40 for number in range(count)]
    labels = [label or CLASSES[number % 2] for number in range(count)]
    noise = np.random.default_rng(0)
    images = [
        Image.fromarray(noise.integers(level, level + 9, (12, 12, 3), dtype=np.uint8)) for level in levels
    ]
    found = ImageList(images, ids=[f"{number}.png" for number in range(count)], labels=labels)
    return SampleDataset(  # type: ignore[return-value]
        [replace(each, boxes=(Box(str(each.label), *BOX),), group=group) for each in found], name="pictures"
    )


def classifier(name: str, say: Callable[[float], Any], *, output: str = "labels") -> ModelUnderTest:
    """Return a model that says something of an image's mean level."""
    return classifier_from_callable(
        lambda images: [say(float(np.asarray(image).mean())) for image in images],
        classes=CLASSES,
        output=output,  # type: ignore[arg-type]
        name=name,
        version=name,
    )


RIGHT = classifier("right", lambda level: int(level > 120))
WRONG = classifier("wrong", lambda level: int(level <= 120))


def detector(name: str, *, boxes: Any = (BOX,), labels: Any = None, scores: Any = (0.9,)) -> ModelUnderTest:
    def detect(images: list[Image.Image]) -> list[dict[str, Any]]:
        return [
            {
                "boxes": np.array(boxes, float).reshape(-1, 4),
                "labels": [int(np.asarray(image).mean() > 120)] * len(scores) if labels is None else labels,
                "scores": np.array(scores, float),
            }
            for image in images
        ]

    return detector_from_callable(detect, classes=CLASSES, name=name, version=name)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("output", ["logits", "probabilities"])
def test_numbers_that_are_none(bench: Workbench, value: float, output: str) -> None:
    broken = classifier("broken", lambda level: [value, 1.0], output=output)

    with pytest.raises((NonFiniteError, ModelError), match="broken"):
        assert_model_preferred(RIGHT, broken, pictures(20), workbench=bench)


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("box", {"boxes": [(2.0, 2.0, np.nan, 10.0)]}),
        ("box", {"boxes": [(2.0, 2.0, np.inf, 10.0)]}),
        ("score", {"scores": [np.nan]}),
        ("upside down", {"boxes": [(10.0, 10.0, 2.0, 2.0)]}),
        ("unknown class", {"labels": [7]}),
    ],
)
def test_detections_that_make_no_sense(bench: Workbench, what: str, given: dict[str, Any]) -> None:
    pytest.importorskip("faster_coco_eval")
    broken = detector(f"broken {what}", **given)

    with pytest.raises((NonFiniteError, ModelError, DatasetError), match=f"broken {what}"):
        assert_model_preferred(detector("good"), broken, pictures(20), metric="map@0.5", workbench=bench)


def test_a_detector_that_finds_nothing_is_the_worse_one(bench: Workbench) -> None:
    pytest.importorskip("faster_coco_eval")
    nothing = detector("nothing", boxes=(), scores=())

    verdict = assert_model_preferred(
        detector("good"), nothing, pictures(40), metric="map@0.5", workbench=bench
    )
    assert verdict["advantage[nothing]"].value == pytest.approx(1)
    with pytest.raises(VerdictFailed):
        assert_model_preferred(nothing, detector("good"), pictures(40), metric="map@0.5", workbench=bench)
    with pytest.raises(VerdictInconclusive):
        assert_model_preferred(nothing, {"also": nothing}, pictures(40), metric="map@0.5", workbench=bench)


def test_labels_that_the_model_does_not_know(bench: Workbench) -> None:
    with pytest.raises(DatasetError, match=r"0\.png.*'dusk'.*class_names"):
        assert_model_preferred(RIGHT, WRONG, pictures(20, label="dusk"), workbench=bench)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "f1_macro", "f1[dark]", "f1[bright]"])
def test_one_model_under_two_names_is_never_preferred(bench: Workbench, metric: str) -> None:
    models = {"one": RIGHT, "two": RIGHT}
    images = pictures(200)

    with pytest.raises(VerdictInconclusive):
        assert_model_preferred({"one": RIGHT}, {"two": RIGHT}, images, metric=metric, workbench=bench)
    with pytest.raises(VerdictInconclusive):
        assert_same_choice(models, images, images, metric=metric, workbench=bench)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_handful_of_images_is_never_green(bench: Workbench, count: int) -> None:
    with pytest.raises(VerdictInconclusive, match=r"fewer than 10 independent images"):
        assert_model_preferred(RIGHT, WRONG, pictures(count), workbench=bench)


def test_one_video_is_never_green(bench: Workbench) -> None:
    with pytest.raises(VerdictInconclusive, match=r"fewer than 10 independent images"):
        assert_model_preferred(RIGHT, WRONG, pictures(200, group="a video"), workbench=bench)


def test_copies_of_three_images_are_three_images(bench: Workbench) -> None:
    """Green with 300 different images, not with 300 copies of three."""
    few = pictures(3)
    copies = SampleDataset(
        [replace(few[number % 3], id=f"{number}.png") for number in range(300)], name="copies"
    )

    assert assert_model_preferred(RIGHT, WRONG, pictures(300), workbench=bench).passed
    with pytest.raises(VerdictInconclusive, match=r"fewer than 10 independent images"):
        assert_model_preferred(RIGHT, WRONG, copies, workbench=bench)


def test_a_gap_is_not_hidden_by_copies(bench: Workbench) -> None:
    """No difference on copies of one image per category is no proof that there is none."""
    few = pictures(2)
    copies = SampleDataset(
        [
            replace(few[number % 2], id=f"{number}.png", metadata={"time": ("day", "night")[number % 2]})
            for number in range(200)
        ],
        name="copies",
    )

    with pytest.raises(VerdictInconclusive, match=r"fewer than 10 independent images"):
        assert_condition_gap(RIGHT, copies, "day_night", labels="time", max_gap=0.1, workbench=bench)


def test_one_class_only(bench: Workbench) -> None:
    """A model that always says it is right on it, and not preferred by a score of the other class."""
    images = pictures(60, label="bright")
    always = classifier("always", lambda level: 1)

    assert assert_model_preferred(always, RIGHT, images, workbench=bench).passed
    with pytest.raises(VerdictInconclusive):
        assert_model_preferred(always, RIGHT, images, metric="f1[dark]", workbench=bench)
