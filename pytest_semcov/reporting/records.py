"""Records: verdicts as plain Python, on their way from a test to the reports.

A record is the dictionary of a verdict (kind, subject, outcome, summary,
criteria, counts, provenance, details) plus ``nodeid``, ``phase``,
``worker`` and ``schema``. Records cross process borders, so nothing but
str, int, float, bool, None, list and dict is inside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

Record = dict[str, Any]

SCHEMA = 1
"""Version of the record's form; changes when a reader would have to change."""

KEPT_PER_PHASE = 200
"""Verdicts kept of one phase of one test, the latest: a property test records one per example."""


def plain_copy(value: object, *, where: str = "record") -> Any:
    """Return a deep copy that consists of plain Python only.

    Lone surrogates in text (file names that are not valid UTF-8) become backslash escapes, since no
    report could be encoded with them.

    Raises
    ------
    TypeError
        For any other type, subclasses such as ``numpy.float64`` included; the message says where it is.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float):
        return value
    if isinstance(value, str) and kind is str:
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list) and kind is list:
        return [plain_copy(item, where=f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict) and kind is dict:
        for key in value:
            if type(key) is not str:
                raise TypeError(
                    f"{where}: key {key!r} is a {type(key).__name__}; records have text keys only"
                )
        return {plain_copy(key): plain_copy(item, where=f"{where}[{key!r}]") for key, item in value.items()}
    raise TypeError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}; records hold str, int, float, bool, None, "
        "list and dict only (gates.verdict.plain converts)"
    )


class RecordSink:
    """The verdicts of one running test that no report carries yet.

    Parameters
    ----------
    nodeid
        The test.
    worker
        Name of the worker process, empty in a plain run.
    """

    def __init__(self, nodeid: str, worker: str = "") -> None:
        self._stamp = {"nodeid": nodeid, "worker": worker, "schema": SCHEMA}
        self._records: deque[Record] = deque(maxlen=KEPT_PER_PHASE)
        self._added = 0

    def add(self, record: Record) -> None:
        """Take one verdict.

        Raises
        ------
        TypeError
            If something in it is not plain Python.
        """
        self._records.append(plain_copy(record))
        self._added += 1

    def drain(self, phase: str) -> list[Record]:
        """Return the verdicts since the last call, stamped with test, worker and phase.

        Where more came than are kept, the first one says how many are gone under ``"dropped"``.
        """
        if not self._records:
            return []
        stamp = {**plain_copy(self._stamp), "phase": phase}
        records = [{**record, **stamp} for record in self._records]
        if self._added > len(records):
            records[0]["dropped"] = self._added - len(records)
        self._records.clear()
        self._added = 0
        return records


def judged(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the criteria that are held against a bar."""
    return (criterion for criterion in criteria(record) if criterion.get("bar") is not None)


def criteria(record: Record) -> list[dict[str, Any]]:
    """Return the criteria of a record, an empty list if it has none."""
    found = record.get("criteria")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def count_outcomes(records: Iterable[Record]) -> dict[str, int]:
    """Return how many records have each outcome."""
    counts: dict[str, int] = {}
    for record in records:
        outcome = str(record.get("outcome", "?"))
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts
