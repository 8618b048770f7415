"""Markers: registered, checked per test, and what selects tests."""

from __future__ import annotations

import pytest
from front import run

MISUSE = """
import pytest

@pytest.mark.semcov(30)
def test_positional(): raise SystemExit("not reached")

@pytest.mark.semcov(min_counts=3)
def test_unknown(): raise SystemExit("not reached")

@pytest.mark.semcov(min_share="half")
def test_value(): raise SystemExit("not reached")

@pytest.mark.semcov_augment("day_night")
def test_augment_positional(semcov_augmented): raise SystemExit("not reached")

@pytest.mark.semcov_augment(semantics="day_night")
def test_augment_unknown(semcov_augmented): raise SystemExit("not reached")

@pytest.mark.semcov_augment(to="night")
def test_augment_half(semcov_augmented): raise SystemExit("not reached")

@pytest.mark.semcov_augment(semantic="day_night")
def test_augment_other_half(semcov_augmented): raise SystemExit("not reached")

@pytest.mark.semcov_augment(translator="colour")
def test_augment_translator(semcov_augmented): raise SystemExit("not reached")

@pytest.mark.semcov_augment(semantic="day_night", to="night", count=0)
def test_augment_value(semcov_augmented): raise SystemExit("not reached")

@pytest.mark.semcov_augment(semantic="day_night", to="night")
def test_augment_unused(): raise SystemExit("not reached")

def test_unmarked(): pass
"""

MESSAGES = {
    "test_positional": "marker semcov: takes keyword arguments only, got 30; there are encoder, embedder, *",
    "test_unknown": "marker semcov: unknown argument 'min_counts'; there are encoder, *min_count, *",
    "test_value": "marker semcov, min_share: 'half' is not allowed; allowed: a number from 0 to 1",
    "test_augment_positional": "marker semcov_augment: takes keyword arguments only, got 'day_night'; "
    "there are semantic, to, translator, reference, labels, count, seed",
    "test_augment_unknown": "marker semcov_augment: unknown argument 'semantics'; "
    "there are semantic, to, translator, reference, labels, count, seed",
    "test_augment_half": "marker semcov_augment: to='night' needs semantic=...",
    "test_augment_other_half": "marker semcov_augment: semantic='day_night' needs to=..., *",
    "test_augment_translator": "marker semcov_augment: translator='colour' needs semantic=...",
    "test_augment_value": "marker semcov_augment, count: 0 is not allowed; allowed: a whole number ≥ 1",
    "test_augment_unused": "marker semcov_augment: the test does not ask for the fixture semcov_augmented",
}


@pytest.mark.parametrize("workers", [None, 2])
def test_misuse_is_one_clear_error_of_that_test(pytester: pytest.Pytester, workers: int | None):
    pytester.makepyfile(MISUSE)
    result = run(pytester, "--strict-markers", "-Werror", workers=workers)
    result.assert_outcomes(errors=len(MESSAGES), passed=1)
    for name, message in MESSAGES.items():
        result.stdout.fnmatch_lines_random([f"*ERROR at setup of {name} *", message])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*plugin.py*")


def test_registered_with_signature(pytester: pytest.Pytester):
    result = run(pytester, "--markers")
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.semcov(?, encoder=..., *min_count=...*): settings of this test*",
            "@pytest.mark.semcov_augment(?, semantic=..., to=..., *): what the fixture semcov_augmented*",
        ]
    )


def test_tests_that_use_the_package_are_selected_by_marker(pytester: pytest.Pytester):
    pytester.makepyfile(
        test_by_fixture="def test_fixture(semcov): pass\ndef test_plain(): pass",
        test_by_marker="import pytest\n@pytest.mark.semcov\ndef test_marker(): pass\ndef test_plain(): pass",
        test_by_function="from pytest_semcov import assert_semantic_covered\ndef test_function(): pass",
        test_by_module="import pytest_semcov as sc\ndef test_module(): pass",
        test_by_name="from pytest_semcov.errors import VerdictFailed as Refused\ndef test_name(): pass",
        test_unrelated="import pytest\nsemcov = 3\ndef test_unrelated(): pass",
    )
    result = run(pytester, "--collect-only", "-q", "-m", "semcov")
    names = {line.partition("::")[2] for line in result.outlines if "::" in line}
    assert names == {"test_fixture", "test_marker", "test_function", "test_module", "test_name"}
    result = run(pytester, "-m", "not semcov", "-q")
    result.assert_outcomes(passed=3, deselected=5)


def test_a_test_of_unittest_and_a_doctest_run_as_ever(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
        import unittest
        import pytest_semcov

        def twice(number):
            '''
            >>> twice(2)
            4
            '''
            return 2 * number

        class TestOld(unittest.TestCase):
            def test_old(self):
                from pytest_semcov.active import ACTIVE
                assert ACTIVE.get().workbench().settings.min_count == 30
        """
    )
    run(pytester, "--doctest-modules", "-Werror").assert_outcomes(passed=2)
