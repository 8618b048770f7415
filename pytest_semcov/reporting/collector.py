"""Collector: takes test reports, keeps the records they carry.

It runs in one process (plain run or xdist controller), knows nothing of
terminals and files, and takes anything that looks like a test report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_semcov.reporting.records import Record

_SEVERITY = ("passed", "xpassed", "skipped", "xfailed", "failed", "error")


@dataclass(slots=True)
class JudgedTest:
    """One test with the verdicts of its last attempt.

    Parameters
    ----------
    nodeid
        The test.
    worker
        Process that ran it, empty in a plain run.
    outcome
        ``passed``, ``failed``, ``error``, ``skipped``, ``xfailed`` or ``xpassed``; of all phases the worst.
    attempts
        How often it ran (reruns).
    duration
        Seconds of all phases of the last attempt.
    records
        Verdicts in the order in which they were made.
    """

    nodeid: str
    worker: str = ""
    outcome: str = "passed"
    attempts: int = 1
    duration: float = 0.0
    records: list[Record] = field(default_factory=list)


class Collector:
    """Records of a session, by test."""

    def __init__(self) -> None:
        self._tests: dict[tuple[str, str], JudgedTest] = {}
        self.incomplete: list[str] = []

    def add(self, report: Any) -> None:
        """Take a test report; one without the attribute ``semcov`` is a test that does not concern us."""
        worker = str(getattr(report, "worker_id", ""))
        if report.when == "???":  # xdist made this report for a test during which its worker died
            self.incomplete.append(f"{report.nodeid}: its worker crashed")
        records = getattr(report, "semcov", None)
        if records is None:
            return
        known = self._tests.get((report.nodeid, worker))
        if known is None:
            known = self._tests[report.nodeid, worker] = JudgedTest(report.nodeid, worker)
        elif report.when == "setup":  # the test runs again: the last attempt counts
            again = JudgedTest(report.nodeid, worker, attempts=known.attempts + 1)
            known = self._tests[report.nodeid, worker] = again
        known.records.extend(records)
        known.duration += float(getattr(report, "duration", 0.0))
        known.outcome = max(known.outcome, _outcome(report), key=_SEVERITY.index)

    def worker_lost(self, worker: str, error: object) -> None:
        """Note a worker process that died: what it did not report is missing."""
        self.incomplete.append(f"worker {worker}: {str(error).strip().splitlines()[-1] if error else 'lost'}")

    @property
    def tests(self) -> list[JudgedTest]:
        """All tests that use this package, by node id."""
        return [self._tests[key] for key in sorted(self._tests)]

    @property
    def records(self) -> list[Record]:
        """All records, in the order of the tests."""
        return [record for test in self.tests for record in test.records]


def _outcome(report: Any) -> str:
    """Return the outcome of one phase in pytest's words."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.outcome == "skipped" else "xpassed"
    if report.outcome == "failed":
        trouble = report.when != "call" or getattr(report, "semcov_trouble", False)
        return "error" if trouble else "failed"
    return report.outcome if report.outcome in _SEVERITY else "failed"  # "rerun": an attempt that failed
