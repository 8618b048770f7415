"""The plugin gets along with the absence of others, and others with its absence."""

from __future__ import annotations

import sys

import pytest
from front import OUTCOMES, make_project, read_report, run, subjects

WITHOUT = [
    ["-p", "no:terminal"],
    ["-p", "no:cacheprovider"],
    ["-p", "no:xdist"],
    ["-p", "no:junitxml"],
    ["-p", "no:skipping"],
    ["-p", "no:warnings"],
    ["-p", "no:logging"],
    ["-p", "no:capture"],
    ["--assert=plain"],
    ["-s"],
    ["-x"],
    ["--lf"],
    ["--setup-show"],
    ["--import-mode=importlib"],
]


def test_runs_without_any_one_of_its_neighbours(pytester: pytest.Pytester):
    make_project(
        pytester,
        test_one="""
        from pytest_semcov.active import ACTIVE

        def test_one(semcov):
            ACTIVE.get().record({"kind": "coverage", "subject": "day_night", "outcome": "PASS"})
        """,
    )
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config -Werror\n")
    for arguments in WITHOUT:
        if arguments == ["-p", "no:warnings"]:
            arguments = [*arguments, "-o", "addopts="]
        result = run(pytester, "--semcov-report=report.json", *arguments)
        assert result.ret == pytest.ExitCode.OK, arguments
        report = read_report(pytester.path)
        assert [test["outcome"] for test in report["tests"]] == ["passed"], arguments
        assert [record["subject"] for record in report["records"]] == ["day_night"], arguments
        assert result.errlines == [], arguments
        (pytester.path / "report.json").unlink()


@pytest.mark.parametrize("distribution", ["loadfile", "loadgroup", "each"])
def test_other_distributions(pytester: pytest.Pytester, distribution: str):
    make_project(pytester)
    run(pytester, "--semcov-report=report.json", f"--dist={distribution}", workers=2)
    report = read_report(pytester.path)
    each = 2 if distribution == "each" else 1
    assert [test["attempts"] for test in report["tests"]] == [1] * each * len(OUTCOMES)
    assert len(report["records"]) == each * 11


def test_with_assert_statements_switched_off(pytester: pytest.Pytester):
    make_project(pytester)
    result = pytester.run(sys.executable, "-O", "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio")
    result.assert_outcomes(passed=3, failed=3, skipped=1, xfailed=1, warnings=1)


def test_without_autoload_it_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    make_project(pytester)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("pytest_semcov.plugin", "semcov"):
        result = pytester.runpytest_subprocess("-p", name, "--strict-markers", "-Werror", "--semcov-seed=1")
        result.assert_outcomes(passed=3, failed=3, skipped=1, xfailed=1)
        result.stdout.fnmatch_lines(["found:"])


def test_switched_off_it_leaves_no_trace(pytester: pytest.Pytester):
    pytester.makepyfile("def test_it(): pass")
    result = run(pytester, "-p", "no:semcov", "--fixtures", "-v")
    result.stdout.no_fnmatch_line("*semcov*fixtures.py*")
    result = run(pytester, "-p", "no:semcov", "--markers")
    result.stdout.no_fnmatch_line("*semcov*")
    result = run(pytester, "-p", "no:semcov", "--semcov-seed=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    run(pytester, "-p", "no:semcov").assert_outcomes(passed=1)


def test_a_conftest_that_imports_the_package_first_brings_no_warning(pytester: pytest.Pytester):
    make_project(
        pytester,
        conftest="import pytest_semcov\nfrom pytest_semcov import assert_semantic_covered, VerdictFailed",
        test_one="def test_one(semcov): pass",
    )
    result = pytester.runpytest_subprocess("-Werror", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1, warnings=0)


def test_nested_runs_do_not_share_state(pytester: pytest.Pytester):
    """A run inside a test sees neither the settings nor the verdicts of the run around it."""
    make_project(
        pytester,
        conftest="pytest_plugins = ['pytester']",
        test_outer="""
        from pytest_semcov.active import ACTIVE
        from pytest_semcov.assertions import conclude
        from verdicts import verdict

        def test_outer(pytester, semcov):
            before = ACTIVE.get()
            pytester.makepyfile(test_inside='''
                from pytest_semcov.active import ACTIVE
                def test_inner(semcov):
                    assert semcov.settings.seed == 0
                    ACTIVE.get().record({"kind": "k", "subject": "inner", "outcome": "PASS"})
            ''')
            pytester.runpytest_inprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)
            assert ACTIVE.get() is before
            assert semcov.settings.seed == 9
            conclude(verdict("outer"))
        """,
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:hypothesispytest", "--semcov-seed=9", "--semcov-report=report.json"
    )
    result.assert_outcomes(passed=1)
    assert subjects(pytester.path) == ["outer"]
