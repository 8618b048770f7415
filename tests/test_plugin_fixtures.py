"""Fixtures: each can be replaced alone, nothing loads before it is needed, and refusals are failures."""

from __future__ import annotations

import pytest
from front import make_project, read_report, run, subjects

AUGMENTED = """
from types import SimpleNamespace
import pytest
from pytest_semcov import ImageList
from verdicts import verdict

OUTCOMES = {"good": "PASS", "bad": "FAIL", "unclear": "INCONCLUSIVE"}

class FakeWorkbench:
    def augment(self, dataset, **arguments):
        print("asked for", dataset.name, sorted(arguments.items()))
        outcome = OUTCOMES[arguments["translator"]]
        judged = verdict("synthetic night", outcome, summary=f"synthetic night: {outcome}")
        second = verdict("synthetic rain", "FAIL" if outcome == "FAIL" else "PASS")
        made = ImageList([], name="made")
        judged = judged, second
        plans = [SimpleNamespace(semantic="day_night", target=each.subject) for each in judged]
        return [
            SimpleNamespace(verdict=each, accepted=each.passed, synthetic=made, plan=plan)
            for each, plan in zip(judged, plans)
        ]

@pytest.fixture
def semcov():
    return FakeWorkbench()

@pytest.fixture(scope="session")
def semcov_dataset():
    return ImageList([], name="the release")

@pytest.fixture(scope="session")
def earlier_night():
    return "night of 2025"
"""

USES = """
import pytest
from pytest_semcov.errors import VerdictFailed

augment = pytest.mark.semcov_augment
torn_down = []

@pytest.fixture
def depends(semcov_augmented):
    yield len(semcov_augmented.real)
    torn_down.append(1)

@augment(semantic="day_night", to="night", translator="good", reference="earlier_night", count=3)
def test_good(semcov_augmented):
    assert [verdict.passed for verdict in semcov_augmented.verdicts] == [True, True]

@augment(semantic="day_night", to="night", translator="bad")
def test_bad(depends, semcov_augmented):
    raise SystemExit("the body never runs")

@pytest.mark.xfail(raises=VerdictFailed, strict=True, reason="translator is being trained")
@augment(semantic="day_night", to="night", translator="bad")
def test_bad_expected(semcov_augmented):
    raise SystemExit("the body never runs")

@augment(semantic="day_night", to="night", translator="unclear")
def test_unclear(semcov_augmented):
    raise SystemExit("the body never runs")

@pytest.mark.semcov(inconclusive="skip")
@augment(semantic="day_night", to="night", translator="unclear")
def test_unclear_skips(semcov_augmented):
    raise SystemExit("the body never runs")

@augment(semantic="day_night", to="night", translator="good", reference="nowhere")
def test_no_reference(semcov_augmented):
    raise SystemExit("the body never runs")

def test_torn_down():
    assert torn_down == [1]
"""


def test_insufficient_synthetic_images_fail_the_test_and_are_no_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "200")
    make_project(pytester, conftest=AUGMENTED, test_uses=USES)
    result = run(pytester, "-rA", "-Werror", "--strict-markers", "--semcov-report=report.json")
    result.assert_outcomes(passed=2, failed=2, xfailed=1, skipped=1, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "asked for the release *'count', 3*'reference', 'night of 2025'*'to', 'night'*",
            "FAILED test_uses.py::test_bad - *VerdictFailed: synthetic night: FAIL",
            "FAILED test_uses.py::test_unclear - *VerdictInconclusive: synthetic night: INCONCLUSIVE",
            "SKIPPED * synthetic night: INCONCLUSIVE*",
            "E *fixture 'nowhere' not found",
            "* FAIL * drift 0.75 *",
        ]
    )
    result.stdout.no_fnmatch_line("*plugin.py:*")
    report = read_report(pytester.path)
    assert {test["nodeid"].partition("::")[2]: test["outcome"] for test in report["tests"]} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_bad_expected": "xfailed",
        "test_unclear": "failed",
        "test_unclear_skips": "skipped",
        "test_no_reference": "error",
        "test_torn_down": "passed",
    }
    assert {record["phase"] for record in report["records"]} == {"setup"}
    for name in ("test_bad", "test_unclear_skips"):  # both verdicts are known, the first refusal is shown
        found = [record["subject"] for record in report["records"] if record["nodeid"].endswith(name)]
        assert found == ["synthetic night", "synthetic rain"]


def test_what_was_accepted_is_written_when_asked(pytester: pytest.Pytester):
    make_project(pytester, conftest=AUGMENTED, test_uses=USES)
    run(pytester)
    assert not list(pytester.path.glob("**/metadata.jsonl"))
    run(pytester, "--semcov-export=made")
    written = sorted(path.parent.name for path in pytester.path.glob("made/day_night/*/metadata.jsonl"))
    # synthetic rain was accepted in two tests, in one of which synthetic night was inconclusive
    assert [name.rpartition("-")[0] for name in written] == ["synthetic_night", "synthetic_rain"]


OVERRIDES = """
import pytest
from pytest_semcov.active import ACTIVE
from pytest_semcov import Descriptor

loaded = []

class Model:
    name = "mine"

@pytest.fixture(scope="session")
def semcov_embedder():
    loaded.append("embedder")
    return Model()

@pytest.fixture(scope="session")
def semcov_encoder(semcov_encoder):
    loaded.append("encoder")
    return f"{semcov_encoder}, wrapped"

@pytest.fixture(scope="session")
def semcov_descriptors():
    return {"fog": {"fog": ("in fog",), "clear": ("in clear air",)}}

@pytest.fixture(scope="session")
def semcov_translators(semcov_translators):
    return {**semcov_translators, "mine": Model()}
"""

SEES = """
import importlib
import pytest
from conftest import Model, loaded
from pytest_semcov.active import ACTIVE
import pytest_semcov

@pytest.fixture(autouse=True)
def models(monkeypatch):
    specs = importlib.import_module("pytest_semcov.embedding.specs")
    monkeypatch.setattr(specs, "load_embedder", lambda given, device: given)
    monkeypatch.setattr(specs, "load_encoder", lambda given, device: given)

def test_nothing_is_loaded_yet(semcov):
    assert loaded == []

def test_by_fixture(semcov):
    assert isinstance(semcov.embedder, Model)
    assert semcov.encoder == "builtin, wrapped"
    assert "fog" in semcov.descriptors and "day_night" in semcov.descriptors
    assert list(semcov.translators) == ["from_ini", "mine"]

def test_by_function_without_the_fixture():
    assert isinstance(ACTIVE.get().workbench().embedder, Model)

def test_the_same_workbench(semcov):
    assert ACTIVE.get().workbench() is semcov

@pytest.mark.semcov(embedder="torchvision:resnet18")
def test_a_marker_names_the_model(semcov):
    assert semcov.embedder == "torchvision:resnet18"

def test_loaded_once():
    assert sorted(loaded) == ["embedder", "encoder"]

@pytest.fixture(scope="session")
def early():
    return ACTIVE.get().workbench().embedder

def test_in_a_session_fixture(early):
    assert isinstance(early, Model)

def test_labels_by_semantic(semcov_labels, monkeypatch):
    monkeypatch.setattr(pytest_semcov.Workbench, "label", lambda bench, data, name: f"{name} of {data}")
    assert semcov_labels["fog"] == "fog of the release"
    with pytest.raises(KeyError, match="'frog'; there are .*day_night.*fog"):
        semcov_labels["frog"]
    assert len(semcov_labels) == len(list(semcov_labels)) == 16

@pytest.fixture(scope="session")
def semcov_dataset():
    return "the release"
"""


def test_every_fixture_can_be_replaced_alone_and_is_asked_for_late(pytester: pytest.Pytester):
    make_project(pytester, conftest=OVERRIDES, test_sees=SEES)
    pytester.makeini("[pytest]\nsemcov_translators = from_ini = colour@night.npz\n")
    run(pytester, "-Werror").assert_outcomes(passed=8)


def test_a_helper_module_does_not_hide_the_fixtures_of_a_test(pytester: pytest.Pytester):
    make_project(
        pytester,
        conftest="""
        import pytest

        @pytest.fixture(scope="session")
        def semcov_embedder():
            return "the project's own"
        """,
        helper="""
        from pytest_semcov import assert_semantic_covered
        from pytest_semcov.active import ACTIVE
        from pytest_semcov.assertions import conclude
        from verdicts import verdict

        def check():
            assert ACTIVE.get().workbench()._embedder() == "the project's own"
            conclude(verdict("by a helper"))
        """,
        test_helped="import helper\n\ndef test_helped():\n    helper.check()\n",
    )
    result = run(pytester, "--semcov-report=report.json")
    result.assert_outcomes(passed=1)
    assert subjects(pytester.path) == ["by a helper"]


def test_a_data_set_that_is_not_defined_says_how(pytester: pytest.Pytester):
    pytester.makepyfile("def test_it(semcov_dataset): pass")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "semcov_dataset is not defined. Define it in conftest.py, e.g.",
            "@pytest.fixture(scope=?session?)",
            "def semcov_dataset():",
            "    return pytest_semcov.ImageFolder(*)",
        ]
    )
    result.stdout.no_fnmatch_line("*fixtures.py*")


def test_fixtures_of_others_with_like_names_stay_theirs(pytester: pytest.Pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def embeddings(): return "theirs"

        @pytest.fixture
        def labels(): return "theirs"
        """
    )
    pytester.makepyfile("def test_it(embeddings, labels, semcov): assert embeddings == labels == 'theirs'")
    run(pytester).assert_outcomes(passed=1)
