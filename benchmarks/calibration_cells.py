"""Cells of the calibration table: one situation, run many times, and how the verdicts came out."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from pytest_semcov.gates.verdict import Outcome, Plain, Verdict
from pytest_semcov.metrics.intervals import clopper_pearson

Progress = Callable[[int, int], None]
"""Called with the number of runs done and the number of all runs."""

_RUNS_A_TASK = 20
_SHOWN_REASONS = 3
_PENDING: Sequence[Cell] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One situation whose right outcome is known.

    Parameters
    ----------
    gate
        Which gate, e.g. ``"coverage"``.
    case
        What is simulated, for people, e.g. ``"night missing 30 of 60"``.
    expected
        The right outcome: PASS where there is no gap, FAIL where one was planted, INCONCLUSIVE where nothing
        can be known.
    n
        The size that the case is studied over.
    run
        Takes a seed and returns the verdict of one simulated data set, or its outcome alone.
    """

    gate: str
    case: str
    expected: Outcome
    n: int
    run: Callable[[int], Outcome | Verdict]

    def __post_init__(self) -> None:
        if self.expected is Outcome.INFO:
            raise ValueError(f"{self}: expected must be PASS, FAIL or INCONCLUSIVE")

    def __str__(self) -> str:
        return f"{self.gate}, {self.case}, n = {self.n}"


@dataclass(frozen=True, slots=True)
class Tally:
    """How often the verdicts of one cell came out how.

    Parameters
    ----------
    gate, case, expected, n
        Of the cell.
    passed, failed, inconclusive
        Numbers of runs.
    reasons
        Criteria that failed and in how many runs, the most frequent first; empty where runs return
        outcomes alone.
    """

    gate: str
    case: str
    expected: Outcome
    n: int
    passed: int
    failed: int
    inconclusive: int
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def runs(self) -> int:
        """Number of all runs."""
        return self.passed + self.failed + self.inconclusive

    @property
    def wrong(self) -> int:
        """Runs that passed or failed where that is not right."""
        wrongly_passed = 0 if self.expected is Outcome.PASS else self.passed
        wrongly_failed = 0 if self.expected is Outcome.FAIL else self.failed
        return wrongly_passed + wrongly_failed

    @property
    def wrong_upper(self) -> float:
        """One-sided 95 % Clopper-Pearson upper bound of the share of wrong verdicts."""
        return clopper_pearson(self.wrong, self.runs, confidence=0.9)[1]

    @property
    def inconclusive_share(self) -> float:
        """Share of runs that left it open."""
        return self.inconclusive / self.runs

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python, the derived figures included."""
        return {
            "gate": self.gate,
            "case": self.case,
            "expected": self.expected.value,
            "n": self.n,
            "runs": self.runs,
            "passed": self.passed,
            "failed": self.failed,
            "inconclusive": self.inconclusive,
            "wrong": self.wrong,
            "wrong_upper": self.wrong_upper,
            "inconclusive_share": self.inconclusive_share,
            "reasons": dict(self.reasons),
        }


def measure(
    cells: Sequence[Cell], runs: int, *, workers: int = 1, seed: int = 0, progress: Progress | None = None
) -> list[Tally]:
    """Run every cell and count the outcomes.

    Parameters
    ----------
    cells
        What to run.
    runs
        Runs of each cell, at least 1.
    workers
        Processes; with more than one they are forked, so that cells may hold large arrays and closures.
    seed
        Root of the seeds. The seed of a run depends on it, the cell and the run's number alone: the numbers
        do not depend on ``workers``, nor on what other cells are run.
    progress
        Called as runs are done.

    Returns
    -------
    tallies
        One per cell, in their order.

    Raises
    ------
    ValueError
        If ``runs`` is below 1, or a run returns something else than PASS, FAIL or INCONCLUSIVE.
    """
    if runs < 1:
        raise ValueError(f"runs={runs}: need at least 1")
    tasks = [
        (number, start, min(start + _RUNS_A_TASK, runs), seed)
        for number in range(len(cells))
        for start in range(0, runs, _RUNS_A_TASK)
    ]
    counts: list[Counter[Outcome]] = [Counter() for _ in cells]
    reasons: list[Counter[str]] = [Counter() for _ in cells]
    done = 0
    for (number, start, stop, _), (found, why) in zip(tasks, _results(cells, tasks, workers), strict=True):
        counts[number].update(found)
        reasons[number].update(why)
        done += stop - start
        if progress is not None:
            progress(done, runs * len(cells))
    return [
        Tally(
            cell.gate,
            cell.case,
            cell.expected,
            cell.n,
            passed=count[Outcome.PASS],
            failed=count[Outcome.FAIL],
            inconclusive=count[Outcome.INCONCLUSIVE],
            reasons=tuple(why.most_common()),
        )
        for cell, count, why in zip(cells, counts, reasons, strict=True)
    ]


def table(tallies: Sequence[Tally]) -> str:
    """Return a markdown table, one cell a line."""
    lines = [
        "| gate | case | right | n | PASS | FAIL | INCONCLUSIVE | wrong, upper 95 % bound | failed |",
        "|---|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for each in tallies:
        why = ", ".join(f"{name} {count}" for name, count in each.reasons[:_SHOWN_REASONS])
        lines.append(
            f"| {each.gate} | {each.case} | {each.expected.value} | {each.n} | {each.passed} | {each.failed} "
            f"| {each.inconclusive} ({each.inconclusive_share:.0%}) "
            f"| {each.wrong} of {each.runs}, {each.wrong_upper:.1%} | {why} |"
        )
    return "\n".join(lines)


def run_seed(cell: Cell, run: int, seed: int) -> int:
    """Return the seed of one run of a cell, in 0…2**63 - 1."""
    name = f"{seed}\0{cell.gate}\0{cell.case}\0{cell.n}\0{run}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


Task = tuple[int, int, int, int]
Counts = tuple[Counter[Outcome], Counter[str]]


def _results(cells: Sequence[Cell], tasks: Sequence[Task], workers: int) -> Iterator[Counts]:
    """Yield the outcomes and reasons of each task, in their order."""
    global _PENDING
    _PENDING = cells
    try:
        if workers <= 1:
            yield from map(_run_task, tasks)
            return
        forked = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(workers, mp_context=forked) as pool:
            yield from pool.map(_run_task, tasks)
    finally:
        _PENDING = ()


def _run_task(task: Task) -> Counts:
    """Run a few runs of one cell; the cells come through the fork, not through a pickle."""
    number, start, stop, seed = task
    cell = _PENDING[number]
    found: Counter[Outcome] = Counter()
    why: Counter[str] = Counter()
    for run in range(start, stop):
        outcome = cell.run(run_seed(cell, run, seed))
        if isinstance(outcome, Verdict):
            why.update(outcome.failed)
            outcome = outcome.outcome
        if outcome is Outcome.INFO or not isinstance(outcome, Outcome):
            raise ValueError(f"{cell}: a run returned {outcome!r}")
        found[outcome] += 1
    return found, why
