"""Each image is scored once per model, however many tests, tables and workers ask."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

CONFTEST = """
import hashlib
import os

import numpy as np
import pytest

from pytest_semcov import RenderedScenes, SampleDataset, classifier_from_callable

COUNT = {count}
CLASSES = ("dark", "bright")


def model(name, level):
    def look(images):
        with open(os.environ["SCORED"], "a") as file:
            for image in images:
                file.write(name + " " + hashlib.sha256(image.tobytes()).hexdigest() + chr(10))
        return [int(np.asarray(image).mean() > level) for image in images]

    return classifier_from_callable(look, classes=CLASSES, output="labels", name=name, version="1")


@pytest.fixture(scope="session")
def models():
    return {{"one": model("one", 40), "two": model("two", 90)}}


def scenes(prefix, seed, category):
    return RenderedScenes(COUNT // 2, seed=seed, size=24, id_prefix=prefix, day_night=category)


@pytest.fixture(scope="session")
def datasets():
    day, night, more = scenes("a", 1, "day"), scenes("b", 2, "night"), scenes("c", 3, "night")
    sets = {{"original": day + night, "improved": day + more, "ideal": night + more}}
    return {{name: labelled(each) for name, each in sets.items()}}


def labelled(dataset):
    from dataclasses import replace

    made = [
        replace(sample, label=CLASSES[int(np.asarray(sample.load()).mean() > 60)]) for sample in dataset
    ]
    return SampleDataset(made)
"""

TESTS = """
import pytest

from pytest_semcov import assert_condition_gap, assert_model_preferred


def test_table(semcov, models, datasets):
    assert len(semcov.score(models, datasets, ["accuracy", "f1_macro"]).rows) == 12


@pytest.mark.parametrize("name", ["original", "improved", "ideal"])
def test_choice(models, datasets, name):
    try:
        assert_model_preferred({"one": models["one"]}, {"two": models["two"]}, datasets[name], resamples=99)
    except AssertionError:
        pass


def test_scores_of_one(semcov, models, datasets):
    semcov.score(models["one"], datasets["original"])
"""


def scored(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, count: int, *options: str
) -> Counter[str]:
    """Run the tests; return how often each model was run on each image."""
    pytester.makeconftest(CONFTEST.format(count=count))
    pytester.makepyfile(test_models=TESTS)
    log = Path("scored.txt")
    log.unlink(missing_ok=True)
    monkeypatch.setenv("SCORED", str(log.absolute()))
    result = pytester.runpytest_subprocess("-q", f"--semcov-cache-dir=cache-{len(options)}", *options)
    result.assert_outcomes(passed=5)
    return Counter(log.read_text().splitlines())


@pytest.mark.parametrize("options", [(), ("-n2",)], ids=["alone", "two workers"])
def test_each_image_is_scored_once_per_model(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    if options:
        pytest.importorskip("xdist")

    times = scored(pytester, monkeypatch, 40, *options)

    assert len(times) == 2 * 60
    assert set(times.values()) == {1}


@pytest.mark.slow
def test_three_data_sets_of_a_thousand_scenes_and_two_workers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xdist")

    times = scored(pytester, monkeypatch, 1000, "-n2")

    assert len(times) == 2 * 1500
    assert set(times.values()) == {1}
