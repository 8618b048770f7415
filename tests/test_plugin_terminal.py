"""What a run shows: header, terminal section, failure text, progress; and what it does not show."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

import pytest
from front import make_project, run

HEADER = "semcov *: encoder=*, embedder=builtin, device=*, seed=*, cache=*"


def test_a_header_only_where_something_is_set_or_all_is_asked_for(pytester: pytest.Pytester):
    pytester.makepyfile("def test_it(): pass")
    run(pytester).stdout.no_fnmatch_line("semcov *")
    run(pytester, "-v").stdout.fnmatch_lines([HEADER])
    shown = run(pytester, "--semcov-seed=7", "--semcov-encoder=open_clip:ViT-B-32/x", "--semcov-cache-dir=c")
    values = f"encoder=open_clip:ViT-B-32/x, embedder=builtin, device=auto, seed=7, cache={pytester.path}/c"
    shown.stdout.fnmatch_lines([f"semcov *: {values}"])
    pytester.makeini("[pytest]\nsemcov_device = cpu\n")
    run(pytester).stdout.fnmatch_lines(["semcov *: *device=cpu*"])
    run(pytester, "-q").stdout.no_fnmatch_line("semcov *")


def section_of(result: pytest.RunResult) -> list[str]:
    """Return the lines of the terminal section."""
    titles = [index for index, line in enumerate(result.outlines) if line.startswith("===")]
    begin = next(index for index in titles if "= semcov =" in result.outlines[index])
    end = next((index for index in titles if index > begin), len(result.outlines))
    return result.outlines[begin + 1 : end]


def test_the_section_names_what_was_found_and_respects_how_much_is_wanted(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    make_project(pytester)
    shown = run(pytester)
    shown.stdout.fnmatch_lines(
        [
            "*= semcov =*",
            "FAIL *coverage clear_rain: night is under-represented: 20 images found*",
            "FAIL *coverage day_night: night is under-represented: 20 images found*",
            "FAIL *(xfailed) sufficiency snow*",
            "INCONCLUSIVE *sufficiency fog*",
            "INCONCLUSIVE *(skipped) sufficiency dusk*",
            "PASS *sufficiency synthetic night: sufficient",
            "11 verdicts: 4 FAIL, 2 INCONCLUSIVE, 5 PASS",
            "found:",
            "  vendor: drift",
            "  clear_rain: night",
            "  day_night: night",
            "  snow: drift",
            "  fog (inconclusive): drift",
            "  dusk (inconclusive): drift",
            "*= short test summary info =*",
        ]
    )
    assert not [line for line in section_of(run(pytester, "-q")) if line.startswith("PASS")]
    run(pytester, "-qq").stdout.no_fnmatch_line("*= semcov =*")
    run(pytester, "--no-summary").stdout.no_fnmatch_line("*= semcov =*")
    verbose = section_of(run(pytester, "-v"))
    assert "    test_project.py::test_fails[clear_rain]" in verbose
    assert "    FAIL count[night] 20 [19.9, 20.1] (must be ≥ 30) share closed" in verbose
    monkeypatch.setenv("COLUMNS", "40")
    narrow = run(pytester)
    assert max(map(len, section_of(narrow))) <= 40
    coloured = run(pytester, "--color=yes")
    assert any("\x1b[31mFAIL" in line for line in coloured.outlines)
    assert not any("\x1b" in line for line in narrow.outlines)


def test_nothing_is_shown_where_nothing_was_judged(pytester: pytest.Pytester):
    pytester.makepyfile("def test_it(semcov): pass")
    result = run(pytester)
    result.stdout.no_fnmatch_line("*= semcov =*")
    result = run(pytester, "--semcov-report=r.json", "--collect-only")
    assert not (pytester.path / "r.json").exists()


FAILURE = """
from pytest_semcov.assertions import conclude
from verdicts import verdict

def test_release():
    conclude(verdict("clear_rain"))
    conclude(verdict("day_night", "FAIL", 20, 30, kind="coverage", name="count[night]",
                     summary="day_night: night is under-represented: 20 of 140 images found, 30 required",
                     details=("what to do: add images",)))
"""


def test_the_failure_text_is_the_verdict_and_the_last_frame_the_users_line(pytester: pytest.Pytester):
    make_project(pytester, test_failure=FAILURE)
    result = run(pytester)
    result.stdout.fnmatch_lines(
        [
            ">       conclude(verdict(?day_night?*",
            "E       *VerdictFailed: day_night: night is under-represented: 20 of 140 images found, 30 *",
            "E         FAIL         count?night? 20*(must be ≥ 30)  share closed",
            "E         what to do: add images",
            "test_failure.py:6: VerdictFailed",
            "*- semcov -*",
            "PASS sufficiency clear_rain: PASS drift 0.75 *",
        ]
    )
    result.stdout.no_fnmatch_line("*assertions.py*")
    # the verdict that the failure shows is not repeated in the section
    section = result.outlines[next(i for i, line in enumerate(result.outlines) if "- semcov -" in line) + 1 :]
    assert not section[1].startswith("FAIL")
    first_lines = {
        "--tb=line": "*test_failure.py:6: *VerdictFailed: day_night: night is under-represented: 20 of 140*",
        "--tb=short": "E   *VerdictFailed: day_night: night is under-represented: 20 of 140*",
        "--tb=native": "*VerdictFailed: day_night: night is under-represented: 20 of 140*",
        "--assert=plain": "E       *VerdictFailed: day_night: night is under-represented: 20 of 140*",
    }
    for option, line in first_lines.items():
        run(pytester, option).stdout.fnmatch_lines([line])


PROGRESS = """
import time
import pytest

@pytest.mark.parametrize("broken", [False, True])
def test_long(semcov, broken):
    if semcov.progress is None:
        print("nobody watches")
        return
    for done in range(31):
        semcov.progress("embedding with r18", done, 30)
        time.sleep(0.05)
        assert done < 25 or not broken
"""


def in_a_terminal(*arguments: str, folder) -> str:
    """Run pytest with a pseudo-terminal as its output and return what reaches the screen."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio", *arguments]
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    with subprocess.Popen(command, cwd=folder, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        screen, deadline = b"", time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    got = os.read(ours, 65536)
                except OSError:  # Linux: the other side is closed
                    break
                if not got:
                    break
                screen += got
            elif process.poll() is not None:
                break
    os.close(ours)
    return screen.decode("utf-8", "replace")


def test_progress_in_a_terminal(pytester: pytest.Pytester):
    pytester.makepyfile(test_progress=PROGRESS)
    screen = in_a_terminal("--color=no", folder=pytester.path)
    assert "semcov: embedding with r18: 2" in screen
    assert "of 30 images (" in screen
    assert "1 failed, 1 passed" in screen
    # wiped: what follows the last line of progress is blank until the next result
    after = screen.rpartition("s left")[2].lstrip(" ")
    assert after.startswith("\r" + " " * 90)
    quiet = in_a_terminal("--color=no", "-q", folder=pytester.path)
    assert "semcov: embedding" not in quiet


def test_no_progress_where_nobody_watches(pytester: pytest.Pytester):
    pytester.makepyfile(test_progress=PROGRESS)
    for workers in (None, 2):
        result = run(pytester, "-rA", workers=workers)
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(["nobody watches"])
        result.stdout.no_fnmatch_line("*embedding with*")
