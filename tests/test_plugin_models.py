"""Models under test: defined once, asked for by name."""

from __future__ import annotations

import pytest

CONFTEST = """
import pytest
from pytest_semcov import RenderedScenes, classifier_from_callable

CLASSES = ["car", "truck", "person", "deer"]

def named(name, right):
    def label(images):
        from pytest_semcov.data.scenes import SceneSpec
        found = [SceneSpec.from_json(image.info["semcov_scene"]).boxes()[0].label for image in images]
        return found if right else ["car"] * len(images)
    return classifier_from_callable(label, classes=CLASSES, output="labels", name="a function", version=name)

@pytest.fixture(scope="session")
def semcov_dataset():
    return RenderedScenes(80, seed=1, size=32)

@pytest.fixture(scope="session")
def semcov_models():
    print("models defined")
    return {"knows": named("knows", True), "guesses": named("guesses", False)}
"""

TESTS = """
import pytest
from pytest_semcov import VerdictFailed, assert_condition_gap, assert_model_preferred, assert_same_choice
from pytest_semcov.errors import ArgumentError

def test_by_name(semcov_dataset):
    verdict = assert_model_preferred("knows", "guesses", semcov_dataset)
    assert "knows is preferred by accuracy (knows 1, guesses" in str(verdict)

def test_the_other_way(semcov_dataset):
    with pytest.raises(VerdictFailed, match="guesses is not preferred"):
        assert_model_preferred("guesses", ["knows"], semcov_dataset)

def test_several(semcov_dataset):
    assert_same_choice(["knows", "guesses"], semcov_dataset, semcov_dataset)
    assert_condition_gap("knows", semcov_dataset, "day_night", labels="day_night", max_gap=0.2)

def test_all_of_them(semcov, semcov_models, semcov_dataset):
    table = semcov.score(semcov_models, semcov_dataset)
    assert table.find(model="knows").value == 1
    assert table.find(model="guesses").value < 0.5

def test_unknown(semcov_dataset):
    message = r"no model under test is called 'knowns' \\(there are: knows, guesses\\)"
    with pytest.raises(ArgumentError, match=message):
        assert_model_preferred("knowns", "guesses", semcov_dataset)
"""


@pytest.mark.parametrize("workers", [None, 2], ids=["alone", "two workers"])
def test_names_of_the_fixture(pytester: pytest.Pytester, workers: int | None) -> None:
    pytester.makepyfile(conftest=CONFTEST, test_models=TESTS)

    if workers:
        pytest.importorskip("xdist")
    more = [] if workers is None else [f"-n{workers}"]
    pytester.runpytest_subprocess("-p", "no:anyio", *more).assert_outcomes(passed=5)


def test_names_of_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nsemcov_models =\n"
        "    in use = torchvision:resnet18?untrained\n"
        "    new = torchvision:nothing\n"
    )
    pytester.makepyfile(
        """
import pytest
from pytest_semcov.errors import ArgumentError

def test_in_use(semcov, semcov_models):
    assert list(semcov_models) == ["in use", "new"]
    model = semcov.model("in use")
    assert (model.task, model.trained, len(model.classes)) == ("classification", False, 1000)
    assert semcov.model("in use") is model
    assert semcov.with_settings(seed=3).model("in use") is model

def test_wrong_spec(semcov):
    with pytest.raises(ArgumentError, match="torchvision has no such classifier or detector"):
        semcov.model("new")
"""
    )

    outcomes = pytester.runpytest_subprocess("-p", "no:anyio").parseoutcomes()

    assert outcomes.pop("passed") == 2
    assert set(outcomes) <= {"warning", "warnings"}  # that the weights are random


def test_nothing_is_defined_and_nothing_is_loaded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys
import pytest
from pytest_semcov.errors import ArgumentError

def test_none(semcov, semcov_models):
    assert dict(semcov_models) == dict(semcov.models) == {}
    with pytest.raises(ArgumentError, match="there are: none.*define the fixture semcov_models"):
        semcov.model("new")
    assert not {"torch", "timm", "torchvision"} & set(sys.modules)
"""
    )

    pytester.runpytest_subprocess("-p", "no:anyio").assert_outcomes(passed=1)
