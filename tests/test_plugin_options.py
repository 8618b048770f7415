"""Options, ini keys and markers inside pytest: precedence, paths, and what a wrong value looks like."""

from __future__ import annotations

import pytest
from front import run

SHOW = """
import pytest

def test_values(semcov):
    s = semcov.settings
    print(f"seed={s.seed} protocol={s.protocol} min_count={s.min_count} min_share={s.min_share}")

@pytest.mark.semcov(seed=0, min_count=7)
def test_marked(semcov):
    s = semcov.settings
    print(f"marked: seed={s.seed} protocol={s.protocol} min_count={s.min_count}")

@pytest.mark.semcov(min_count=9, min_share=0.0)
class TestClass:
    @pytest.mark.semcov(min_count=8)
    def test_closest(self, semcov):
        print(f"closest: min_count={semcov.settings.min_count} min_share={semcov.settings.min_share}")
"""


def test_marker_then_command_line_then_ini_then_default(pytester: pytest.Pytester):
    pytester.makepyfile(SHOW)
    pytester.makeini("[pytest]\nsemcov_seed = 5\nsemcov_min_count = 12\nsemcov_protocol = deduce\n")
    result = run(pytester, "-s", "--strict-markers", "--strict-config", "-Werror")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "*seed=5 protocol=deduce min_count=12 min_share=0.25",
            "*marked: seed=0 protocol=deduce min_count=7",
            "*closest: min_count=8 min_share=0.0",
        ]
    )
    # zero on the command line is a value, not "not given"
    result = run(pytester, "-s", "--semcov-seed=0", "--semcov-protocol=matched")
    result.stdout.fnmatch_lines(
        [
            "*seed=0 protocol=matched min_count=12 min_share=0.25",
            "*marked: seed=0 protocol=matched min_count=7",
        ]
    )
    result = run(pytester, "-s", "-o", "semcov_min_count=0")
    result.stdout.fnmatch_lines(["*seed=5 protocol=deduce min_count=0 min_share=0.25"])


def test_settings_from_pyproject(pytester: pytest.Pytester):
    pytester.makepyfile(SHOW)
    pytester.makepyprojecttoml(
        "[tool.pytest.ini_options]\n"
        "semcov_seed = 5\nsemcov_min_share = 0.5\nsemcov_labels = ['day_night = label']\n"
    )
    result = run(pytester, "-s", "-Werror")
    result.stdout.fnmatch_lines(["*seed=5 protocol=matched min_count=30 min_share=0.5"])


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest 9 reads typed TOML")
def test_settings_from_typed_toml(pytester: pytest.Pytester):
    pytester.makepyfile(SHOW)
    pytester.makepyprojecttoml(
        "[tool.pytest]\n"
        "semcov_seed = 5\nsemcov_min_share = 1\nsemcov_junit = false\nsemcov_protocol = 'deduce'\n"
    )
    result = run(pytester, "-s", "-Werror")
    result.stdout.fnmatch_lines(["*seed=5 protocol=deduce min_count=30 min_share=1.0"])


def test_relative_paths(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Those of the ini file belong to its folder, those of the command line to where pytest starts."""
    pytester.makeini(
        "[pytest]\nsemcov_cache_dir = cache folder\nsemcov_descriptors =\n    a.toml\n    b c.toml\n"
    )
    folder = pytester.mkdir("sub")
    (folder / "test_paths.py").write_text(
        "def test_paths(semcov):\n"
        "    s = semcov.settings\n"
        "    print('cache', s.cache_dir)\n"
        "    print('descriptors', *s.descriptors, sep='|')\n"
        "    print('export', s.export)\n"
    )
    monkeypatch.chdir(folder)
    result = run(pytester, "-s", "--semcov-export=made here")
    result.assert_outcomes(passed=1)
    root = pytester.path
    result.stdout.fnmatch_lines(
        [
            f"*cache {root}/cache folder",
            f"descriptors|{root}/a.toml|{root}/b c.toml",
            f"export {root}/sub/made here",
        ]
    )
    assert not (root / "cache folder").exists()
    assert not (folder / "made here").exists()


WRONG = [
    (["--semcov-seed=-1"], "", "--semcov-seed: -1 is not allowed; allowed: a whole number ≥ 0"),
    (["--semcov-seed=x"], "", "--semcov-seed: 'x' is not allowed; allowed: a whole number ≥ 0"),
    (
        ["--semcov-inconclusive=no"],
        "",
        "--semcov-inconclusive: 'no' is not allowed; allowed: fail, skip, xfail",
    ),
    (
        ["--semcov-device=tpu9"],
        "",
        "--semcov-device: 'tpu9' is not allowed; allowed: device that models run on: *",
    ),
    (["--semcov-report=."], "", "--semcov-report: '*' is a folder; allowed: a file*"),
    (
        ["--semcov-cache-dir=tox.ini/x"],
        "",
        "--semcov-cache-dir: '*tox.ini' is a file; allowed: a path in a folder",
    ),
    (
        [],
        "semcov_min_share = nan",
        "semcov_min_share (tox.ini): nan is not allowed; allowed: a number from 0 to 1",
    ),
    ([], "semcov_min_count = many", "semcov_min_count (tox.ini): *many*; allowed: a whole number ≥ 0"),
    ([], "semcov_junit = perhaps", "semcov_junit (tox.ini): *perhaps*; allowed: true, false"),
    (
        [],
        "semcov_protocol = mine",
        "semcov_protocol (tox.ini): 'mine' is not allowed; allowed: matched, deduce",
    ),
    (
        [],
        "semcov_labels = day_night",
        "semcov_labels (tox.ini): 'day_night' is not allowed; allowed: lines *",
    ),
    ([], "semcov_encoder =", "semcov_encoder (tox.ini): '' is not allowed; allowed: text"),
]


def test_wrong_values_end_the_run_with_one_line(pytester: pytest.Pytester):
    pytester.makepyfile("def test_never(): raise SystemExit('not reached')")
    for arguments, line, message in WRONG:
        pytester.makeini(f"[pytest]\n{line}\n")
        result = run(pytester, *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: {message.replace('[', '[[]')}"])
        result.stderr.no_fnmatch_line("*Traceback*")
        assert len([text for text in result.errlines if text.strip()]) == 1


def test_wrong_values_end_a_distributed_run_alike(pytester: pytest.Pytester):
    pytester.makepyfile("def test_never(): raise SystemExit('not reached')")
    result = run(pytester, "--semcov-seed=x", workers=2)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --semcov-seed: 'x' is not allowed; allowed: a whole number ≥ 0"])
    result.stderr.no_fnmatch_line("*Traceback*")
