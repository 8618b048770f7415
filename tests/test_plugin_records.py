"""Records: from a test to the reports, the same way in a plain and in a distributed run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from front import OUTCOMES, make_project, read_report, run, subjects

from pytest_semcov.active import ACTIVE

DISTRIBUTION = ("worker", "workers", "duration_seconds")


def comparable(value: Any) -> Any:
    """Leave out what may depend on how tests were distributed."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in DISTRIBUTION}
    return [comparable(item) for item in value] if isinstance(value, list) else value


def junit_properties(path) -> dict[str, list[tuple[str, str]]]:
    cases = ElementTree.parse(path).getroot().iter("testcase")
    return {
        case.attrib["name"]: [(item.attrib["name"], item.attrib["value"]) for item in case.iter("property")]
        for case in cases
    }


def test_a_distributed_run_reports_what_a_plain_one_does(pytester: pytest.Pytester):
    make_project(pytester)
    common = ["--strict-markers", "--strict-config", "-Werror"]
    plain = run(pytester, *common, "--semcov-report=out/report.json", "--junitxml=plain.xml")
    one = read_report(pytester.path / "out")
    plain.assert_outcomes(passed=3, failed=3, skipped=1, xfailed=1)
    spread = run(pytester, *common, "--semcov-report=out/report.json", "--junitxml=spread.xml", workers=2)
    two = read_report(pytester.path / "out")
    spread.assert_outcomes(passed=3, failed=3, skipped=1, xfailed=1)

    assert comparable(one) == comparable(two)
    assert {test["worker"] for test in one["tests"]} == {""}
    assert {test["worker"] for test in two["tests"]} == {"gw0", "gw1"}
    assert two["workers"] == ["gw0", "gw1"]
    assert junit_properties(pytester.path / "plain.xml") == junit_properties(pytester.path / "spread.xml")

    assert one["schema"] == 1
    assert (one["exit_status"], one["complete"]) == (1, True)
    assert {test["nodeid"].partition("::")[2]: test["outcome"] for test in one["tests"]} == OUTCOMES
    assert one["verdicts"] == {"FAIL": 4, "PASS": 5, "INCONCLUSIVE": 2}
    assert one["settings"]["report"].endswith("out/report.json")
    assert one["versions"]["pytest"] == pytest.__version__
    assert [record["nodeid"] for record in one["records"]] == sorted(
        record["nodeid"] for record in one["records"]
    )
    passing = [record for record in one["records"] if record["nodeid"].endswith("test_passes")]
    assert [(record["subject"], record["phase"]) for record in passing] == [
        ("in setup", "setup"),
        ("synthetic night", "call"),
        ("in teardown", "teardown"),
    ]
    assert passing[1] == {
        "kind": "sufficiency",
        "subject": "synthetic night",
        "outcome": "PASS",
        "summary": "synthetic night: sufficient",
        "criteria": [
            {
                "name": "drift",
                "value": 0.75,
                "bar": 0.5,
                "interval": [0.65, 0.85],
                "outcome": "PASS",
                "note": "share closed",
                "at_least": True,
            }
        ],
        "counts": {"real": 60},
        "smallest_detectable": {},
        "provenance": {},
        "details": [],
        "nodeid": "test_project.py::test_passes",
        "phase": "call",
        "worker": "",
        "schema": 1,
    }
    # the terminal names the same things
    for result in (plain, spread):
        result.stdout.fnmatch_lines(
            ["*= semcov =*", "report: *report.json", "FAIL *coverage clear_rain: night is*"]
        )


def test_junit_properties_are_flat_and_can_be_turned_off(pytester: pytest.Pytester):
    make_project(pytester)
    run(pytester, "--junitxml=on.xml", "-o", "junit_family=xunit2", "-Werror")
    properties = junit_properties(pytester.path / "on.xml")
    assert properties["test_fails[day_night]"] == [
        ("semcov.sufficiency.before.outcome", "PASS"),
        ("semcov.sufficiency.before.drift", "0.75"),
        ("semcov.coverage.day_night.outcome", "FAIL"),
        ("semcov.coverage.day_night.count[night]", "20.0"),
    ]
    assert ("semcov.sufficiency.synthetic_night.drift", "0.75") in properties["test_passes"]
    assert properties["test_uses_nothing"] == []
    run(pytester, "--junitxml=off.xml", "-o", "semcov_junit=false")
    assert not any(junit_properties(pytester.path / "off.xml").values())


NOT_PLAIN = """
import numpy as np
import pytest
from pathlib import Path
from pytest_semcov.active import ACTIVE
from verdicts import verdict
from pytest_semcov.assertions import conclude

@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), np.int64(3), np.bool_(True),
                                   Path("x"), (1, 2), np.zeros(3), {1: "a"}], ids=str)
def test_record(value):
    ACTIVE.get().record({"kind": "k", "subject": "s", "outcome": "PASS", "criteria": [{"value": value}]})

def test_verdict_of_numpy_values():
    conclude(verdict("numpy", value=np.float32(0.75), bar=np.float64(0.5), provenance={
        "seed": np.int64(3), "path": Path("x"), "radii": np.arange(3), "flag": np.bool_(True)}))

def test_text_that_no_report_can_encode():
    with pytest.raises(AssertionError):
        conclude(verdict("caf\\udce9.jpg", "FAIL", provenance={"\\udce9": "\\udce9"}))

@pytest.mark.xfail(strict=True)
def test_text_that_no_process_can_send():
    conclude(verdict("caf\\udce9.jpg", "FAIL"))

def test_numbers_that_json_does_not_know():
    conclude(verdict("nan", value=float("nan"), bar=float("inf")))
"""


@pytest.mark.parametrize("workers", [None, 2])
def test_values_that_are_not_plain_fail_their_test_and_nothing_else(
    pytester: pytest.Pytester, workers: int | None
):
    make_project(pytester, test_not_plain=NOT_PLAIN)
    result = run(pytester, "--semcov-report=report.json", "--junitxml=junit.xml", workers=workers)
    result.assert_outcomes(failed=8, passed=3, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["E *TypeError: record?'criteria'??0??'value'? is a numpy.float64; records hold str*"]
    )
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    records = {record["subject"]: record for record in read_report(pytester.path)["records"]}
    assert records["numpy"]["criteria"][0]["value"] == 0.75
    assert records["numpy"]["provenance"] == {"seed": 3, "path": "x", "radii": [0, 1, 2], "flag": True}
    assert records["nan"]["criteria"][0]["value"] is None
    assert records["caf\\udce9.jpg"]["outcome"] == "FAIL"
    ElementTree.parse(pytester.path / "junit.xml")


def test_a_property_test_keeps_the_latest_verdicts(pytester: pytest.Pytester):
    make_project(
        pytester,
        test_many="""
        from hypothesis import given, settings, strategies as st
        from pytest_semcov.assertions import conclude
        from verdicts import verdict

        @settings(max_examples=300, database=None, derandomize=True)
        @given(st.integers(0, 10**6))
        def test_many(number):
            conclude(verdict("any number", value=number / 10**6, bar=0.0))

        @settings(max_examples=50, database=None, derandomize=True)
        @given(st.integers(0, 1000))
        def test_falsified(number):
            conclude(verdict("small number", "FAIL" if number >= 17 else "PASS", float(number)))
        """,
    )
    result = run(pytester, "--semcov-report=report.json", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=1)
    records = read_report(pytester.path)["records"]
    many = [record for record in records if record["subject"] == "any number"]
    assert len(many) == 200
    assert many[0]["dropped"] == 100
    falsified = [record for record in records if record["subject"] == "small number"]
    assert falsified[-1]["criteria"][0]["value"] == 17.0  # the smallest example that fails
    assert len(junit_properties(pytester.path / "junit.xml")["test_many"]) == 2
    result.stdout.fnmatch_lines(["100 earlier verdicts of tests that judge many times are not shown"])


def test_verdicts_of_threads_and_tasks_belong_to_the_running_test(pytester: pytest.Pytester):
    """Among them tasks that a runner keeps for several tests, with the context of the first."""
    make_project(
        pytester,
        test_tasks="""
        import asyncio
        import contextvars
        import threading

        import pytest
        from pytest_semcov.active import ACTIVE
        from pytest_semcov.assertions import conclude
        from verdicts import verdict

        @pytest.fixture(scope="module")
        def context(loop):
            return contextvars.copy_context()

        @pytest.fixture(scope="module")
        def loop():
            loop = asyncio.new_event_loop()
            yield loop
            loop.close()

        @pytest.mark.parametrize("name", ["first", "second"])
        @pytest.mark.semcov(inconclusive="skip")
        def test_task(loop, context, name):
            async def judge():
                conclude(verdict(f"{name} task"))
                assert ACTIVE.get().inconclusive == "skip"

            loop.run_until_complete(loop.create_task(judge(), context=context))

        def test_thread():
            thread = threading.Thread(target=lambda: conclude(verdict("thread")))
            thread.start()
            thread.join()

        def test_between():
            assert ACTIVE.get().inconclusive == "fail"
        """,
    )
    run(pytester, "--semcov-report=report.json").assert_outcomes(passed=4)
    found = [
        (record["nodeid"].partition("::")[2], record["subject"])
        for record in read_report(pytester.path)["records"]
    ]
    assert found == [
        ("test_task[first]", "first task"),
        ("test_task[second]", "second task"),
        ("test_thread", "thread"),
    ]
    assert ACTIVE.get() is not None  # this test's own


def test_a_test_that_runs_again_counts_once(pytester: pytest.Pytester):
    """A plugin that reruns calls the protocol's phases again and reports the same node id twice."""
    make_project(
        pytester,
        conftest="""
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl
        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            first = runtestprotocol(item, nextitem=nextitem, log=False)
            for report in first:
                if report.when == "call" and report.failed:
                    report.outcome = "rerun"
            if any(report.outcome == "rerun" for report in first):
                for report in first:
                    item.ihook.pytest_runtest_logreport(report=report)
                item._initrequest()
                first = runtestprotocol(item, nextitem=nextitem, log=False)
            for report in first:
                item.ihook.pytest_runtest_logreport(report=report)
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            return True
        """,
        test_flaky="""
        from pytest_semcov.assertions import conclude
        from verdicts import verdict
        attempts = []

        def test_flaky():
            attempts.append(1)
            conclude(verdict(f"attempt {len(attempts)}", "FAIL" if len(attempts) == 1 else "PASS"))
        """,
    )
    result = run(pytester, "--semcov-report=report.json")
    result.stdout.fnmatch_lines(
        ["PASS *(attempt 2) sufficiency attempt 2: PASS drift 0.75*", "1 verdict: 1 PASS", "found: no gap"]
    )
    (test,) = read_report(pytester.path)["tests"]
    assert (test["attempts"], test["outcome"]) == (2, "passed")
    assert subjects(pytester.path) == ["attempt 2"]


def test_trouble_with_a_model_is_an_error_and_no_failure_of_the_data(pytester: pytest.Pytester):
    make_project(
        pytester,
        test_trouble="""
        import pytest
        from pytest_semcov import DatasetError, ModelError

        def test_model():
            raise ModelError("builtin: files are missing")

        def test_data():
            raise DatasetError("no folder")

        @pytest.mark.xfail(raises=ModelError, strict=True)
        def test_expected():
            raise ModelError("builtin: files are missing")
        """,
    )
    for workers in (None, 2):
        result = run(pytester, "-ra", "--semcov-report=report.json", workers=workers)
        result.assert_outcomes(errors=1, failed=1, xfailed=1)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["ERROR test_trouble.py::test_model - *ModelError: *"])
        outcomes = [test["outcome"] for test in read_report(pytester.path)["tests"]]
        assert outcomes == ["failed", "xfailed", "error"]


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest 9 has subtests")
def test_subtests_keep_their_verdicts_apart(pytester: pytest.Pytester):
    make_project(
        pytester,
        test_sub="""
        from pytest_semcov.assertions import conclude
        from verdicts import verdict

        def test_sub(subtests):
            for semantic in ("day_night", "clear_rain"):
                with subtests.test(semantic=semantic):
                    conclude(verdict(semantic, "FAIL"))
        """,
    )
    result = run(pytester, "--semcov-report=report.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (test,) = read_report(pytester.path)["tests"]
    assert subjects(pytester.path) == ["day_night", "clear_rain"]
    assert test["outcome"] == "failed"


def test_a_crashed_worker_makes_the_report_incomplete(pytester: pytest.Pytester):
    make_project(
        pytester,
        test_crash="""
        import os
        from pytest_semcov.assertions import conclude
        from verdicts import verdict

        def test_crash():
            conclude(verdict("lost"))
            os._exit(3)

        def test_stays():
            conclude(verdict("kept"))
        """,
    )
    result = run(pytester, "--semcov-report=report.json", workers=1)
    report = read_report(pytester.path)
    assert report["complete"] is False
    assert any("test_crash" in line for line in report["incomplete"])
    assert subjects(pytester.path) == ["kept"]
    result.stdout.fnmatch_lines(["*INCOMPLETE, verdicts are missing: *gw0*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_a_run_that_ends_early_says_so(pytester: pytest.Pytester):
    make_project(pytester)
    for workers in (None, 1):
        result = run(pytester, "-x", "--semcov-report=report.json", workers=workers)
        result.stdout.fnmatch_lines(["INCOMPLETE, verdicts are missing: the run ended early (*"])
        assert read_report(pytester.path)["complete"] is False
    pytester.makepyfile(test_project="def test_fails(): assert False\ndef test_never(): pass")
    run(pytester, "-x").stdout.no_fnmatch_line("*INCOMPLETE*")


def test_a_report_that_cannot_be_written_is_a_note_and_leaves_the_old_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    make_project(pytester, test_one="def test_one(semcov): pass")
    run(pytester, "--semcov-report=report.json")
    before = (pytester.path / "report.json").read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    result = run(pytester, "--semcov-report=report.json", "-Werror")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*report NOT written: *No space left on device*"])
    assert (pytester.path / "report.json").read_text() == before
    assert [path.name for path in pytester.path.glob(".report*")] == []
