"""Text for people: the terminal section, the section of one test, and progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict
from pytest_semcov.reporting import junit, terminal
from pytest_semcov.reporting.collector import Collector
from pytest_semcov.reporting.progress import ProgressLine, progress_text


def record(subject: str, outcome: str = "PASS", kind: str = "coverage", **more) -> dict[str, Any]:
    criterion = Criterion("count[night]", 20, 30, (18, 22.5), Outcome(outcome), "by label")
    return Verdict(kind, subject, Outcome(outcome), (criterion,), **more).to_dict()


def collected(*tests: tuple[str, str, list[dict[str, Any]]]) -> Collector:
    collector = Collector()
    for nodeid, outcome, records in tests:
        report = SimpleNamespace(nodeid=nodeid, when="call", outcome=outcome, semcov=records)
        if outcome == "xfailed":
            report.outcome, report.wasxfail = "skipped", "reason"
        collector.add(report)
    return collector


def text(collector: Collector, *, verbosity: int = 0, width: int = 200) -> list[str]:
    return [line.text for line in terminal.summary(collector, verbosity=verbosity, width=width)]


RUN = [
    ("a", "passed", [record("clear_rain", summary="clear_rain: all 2 categories are covered")]),
    (
        "b",
        "failed",
        [record("day_night", "FAIL", summary="day_night: night is under-represented: 20 images")],
    ),
    ("c", "failed", [record("fog", "INCONCLUSIVE")]),
    ("d", "xfailed", [record("snow", "FAIL", summary="snow is missing")]),
    ("e", "passed", [record("vendor", "FAIL", kind="sufficiency", summary="refused")]),
]


def test_what_failed_comes_first_and_the_end_names_what_was_found():
    assert text(collected(*RUN)) == [
        "FAIL         coverage day_night: night is under-represented: 20 images",
        "FAIL         (xfailed) coverage snow is missing",
        "FAIL         (as the test expects) sufficiency vendor: refused",
        "INCONCLUSIVE coverage fog: INCONCLUSIVE count[night] 20 [18, 22.5] (must be ≥ 30) by label",
        "PASS         coverage clear_rain: all 2 categories are covered",
        "5 verdicts: 3 FAIL, 1 INCONCLUSIVE, 1 PASS",
        "found:",
        "  day_night: night",
        "  snow: night",
        "  vendor: night",
        "  fog (inconclusive): night",
    ]


def test_verbosity():
    collector = collected(*RUN)
    assert text(collector, verbosity=-2) == []
    quiet = text(collector, verbosity=-1)
    assert not any(line.startswith("PASS") for line in quiet)
    assert len(quiet) == 4 + 1 + 5
    verbose = text(collector, verbosity=1)
    assert verbose[1:3] == ["    b", "    FAIL count[night] 20 [18, 22.5] (must be ≥ 30) by label"]
    assert text(Collector()) == []


def test_lines_respect_the_width_except_when_all_is_asked_for():
    bad = record("day_night", "FAIL", summary="day_night: " + "night is missing " * 80)
    good = record("fog", summary="fog: " + "all is well " * 80)
    collector = collected(("a", "failed", [bad, good]))
    for width in (20, 80):
        lines = text(collector, width=width)
        assert max(map(len, lines)) <= width
        assert lines[terminal.MOST_WRAPPED - 1].endswith("…")
        assert lines[terminal.MOST_WRAPPED].startswith("PASS")
        assert lines[terminal.MOST_WRAPPED].endswith("…")
        assert not lines[terminal.MOST_WRAPPED + 1].startswith(" ")
    assert max(map(len, text(collector, width=40, verbosity=1))) > 400


def test_a_failure_is_wrapped_so_that_its_numbers_stay():
    said = "day_night: night is under-represented: 20 of 140 images found, 30 required; share 14.3%"
    assert text(collected(("a", "failed", [record("day_night", "FAIL", summary=said)])), width=72)[:2] == [
        "FAIL         coverage day_night: night is under-represented: 20 of 140",
        "             images found, 30 required; share 14.3%",
    ]


def test_many_verdicts_are_bounded_and_none_that_failed_is_hidden_by_one_that_passed():
    passing = [record(f"s{number}") for number in range(300)]
    lines = text(collected(("a", "failed", [*passing, record("day_night", "FAIL")])))
    assert len(lines) == terminal.MOST_VERDICTS + 4
    assert lines[0].startswith("FAIL")
    assert f"... and {301 - terminal.MOST_VERDICTS} more, shown by -v" in lines


def test_verdicts_that_are_alike_are_one_line():
    alike = [record("day_night", summary="day_night: covered")] * 3
    collector = collected(
        ("a", "passed", alike), ("b", "passed", alike[:2]), ("c", "passed", [record("fog")])
    )
    assert text(collector)[0] == "PASS         (5 times) coverage day_night: covered"
    verbose = [line for line in text(collector, verbosity=1) if "times" in line or line.startswith("    ")]
    assert verbose[0] == "PASS         (3 times) coverage day_night: covered"
    assert verbose[1] == "    a"
    assert terminal.section(alike) == "PASS coverage day_night: covered (3 times)"


def test_many_gaps_are_bounded():
    records = [record(f"s{number}", "FAIL") for number in range(terminal.MOST_GAPS + 5)]
    lines = text(collected(("a", "failed", records)))
    assert lines[-2:] == [f"  s{terminal.MOST_GAPS - 1}: night", "  and 5 more"]


def test_marks_of_distrust():
    bad = [{"sample_id": f"{n}.jpg", "path": None, "rule": "truncated file", "remedy": ""} for n in range(12)]
    provenance = {"embedder": {"name": "torchvision:resnet18", "trained": False}, "skipped": bad}
    judged = record("day_night", provenance=provenance) | {"dropped": 3}
    collector = collected(("a", "passed", [judged]))
    collector.worker_lost("gw1", "Not properly terminated")
    lines = text(collector, width=400)
    assert lines[1:5] == [
        "3 earlier verdicts of tests that judge many times are not shown",
        "UNTRAINED WEIGHTS, figures mean nothing about images: torchvision:resnet18",
        "12 images skipped: " + ", ".join(f"{n}.jpg (truncated file)" for n in range(8)) + ", and 4 more",
        "INCOMPLETE, verdicts are missing: worker gw1: Not properly terminated",
    ]
    only_lost = collected(("a", "passed", []))
    only_lost.worker_lost("gw0", None)
    assert text(only_lost) == ["INCOMPLETE, verdicts are missing: worker gw0: lost"]
    not_ours = Collector()
    not_ours.worker_lost("gw0", None)
    assert text(not_ours) == []


def test_the_section_of_a_test_is_short():
    section = terminal.section([record("a"), record("b", "FAIL", summary="b is missing")])
    assert section.splitlines() == [
        "PASS coverage a: PASS count[night] 20 [18, 22.5] (must be ≥ 30) by label",
        "FAIL coverage b is missing",
        "  FAIL count[night] 20 [18, 22.5] (must be ≥ 30) by label",
    ]
    long = terminal.section([record(f"s{number}") for number in range(200)]).splitlines()
    assert len(long) == terminal.MOST_SECTION_LINES + 1
    assert long[-1] == "... and 160 more lines"
    assert terminal.section([]) == ""


@pytest.mark.parametrize(
    "odd",
    [{}, {"criteria": None}, {"criteria": [{}], "outcome": None}, {"criteria": ["x"], "provenance": [1]}],
)
def test_odd_records_are_shown_and_never_crash_the_summary(odd):
    assert text(collected(("a", "passed", [odd])), verbosity=1)
    assert terminal.section([odd])
    assert dict(junit.properties(odd))


class FakeTerminal:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def ensure_newline(self) -> None:
        self.lines.append("<newline>")

    def rewrite(self, line: str, **markup: bool) -> None:
        self.lines.append(line)

    def flush(self) -> None:
        pass


def test_progress_appears_only_when_work_is_long_and_is_wiped_at_the_end():
    screen, now = FakeTerminal(), [100.0]
    progress = ProgressLine(screen, clock=lambda: now[0])
    for done in range(0, 101, 10):  # half a second: nothing to see
        progress("embedding", done, 100)
        now[0] += 0.05
    assert screen.lines == []
    for done in range(1001):  # ten seconds
        progress("embedding", done, 1000)
        now[0] += 0.01
    shown = [line for line in screen.lines if line.startswith("semcov")]
    assert screen.lines[0] == "<newline>"
    assert 35 <= len(shown) <= 46  # nine seconds at five a second
    assert shown[0].startswith("semcov: embedding: 1")
    assert screen.lines[-2:] == ["", ""]


def test_progress_of_work_that_broke_off_can_be_cleared():
    screen, now = FakeTerminal(), [0.0]
    progress = ProgressLine(screen, clock=lambda: now[0])
    progress.clear()
    assert screen.lines == []
    progress("embedding", 0, 10)
    now[0] = 5.0
    progress("embedding", 1, 10)
    progress.clear()
    progress.clear()
    assert screen.lines == ["<newline>", "semcov: embedding: 1 of 10 images (10 %), 45 s left", "", ""]


def test_progress_text():
    assert progress_text("training", 10, 40, 3.0) == "semcov: training: 10 of 40 steps (25 %), 9 s left"
    assert progress_text("embedding with r18", 0, 3, 2.0) == "semcov: embedding with r18: 0 of 3 images (0 %)"
    assert progress_text("embedding with r18", 1200, 10000, 6.0) == (
        "semcov: embedding with r18: 1,200 of 10,000 images (12 %), 44 s left"
    )
