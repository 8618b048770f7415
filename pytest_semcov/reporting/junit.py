"""JUnit XML: figures of a verdict as flat test-case properties."""

from __future__ import annotations

import re
from collections.abc import MutableSequence

from pytest_semcov.reporting.records import Record, judged

MOST_FIGURES = 30
"""Figures of one verdict that become properties; the JSON report has all."""


def properties(record: Record) -> list[tuple[str, object]]:
    """Return names and plain scalar values: the outcome, then each criterion that is held against a bar.

    Names are ``semcov.<kind>.<subject>.outcome`` and ``semcov.<kind>.<subject>.<criterion>``.
    """
    stem = f"semcov.{_word(record.get('kind'))}.{_word(record.get('subject'))}"
    figures = [
        (f"{stem}.{_word(criterion.get('name'))}", criterion["value"])
        for criterion in judged(record)
        if isinstance(criterion.get("value"), (str, int, float))
    ]
    return [(f"{stem}.outcome", str(record.get("outcome"))), *figures[:MOST_FIGURES]]


def add_properties(target: MutableSequence[tuple[str, object]], records: list[Record]) -> None:
    """Put the properties of some records among a test's, the latest figure of each name winning."""
    latest = dict(item for record in records for item in properties(record))
    target[:] = [item for item in target if item[0] not in latest]
    target.extend(latest.items())


def _word(value: object) -> str:
    return re.sub(r"\s+", "_", str(value).strip())
