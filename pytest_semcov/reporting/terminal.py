"""Text for people: the terminal section of a run and the report section of one test."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_semcov.errors import printable
from pytest_semcov.reporting.collector import Collector, JudgedTest
from pytest_semcov.reporting.findings import gaps, skipped_images, untrained
from pytest_semcov.reporting.records import Record, count_outcomes, criteria

MOST_VERDICTS = 60
"""Lines of verdicts in the terminal; those that did not pass come first, ``-v`` shows all."""

MOST_GAPS = 20
"""Gaps named at the end."""

MOST_LISTED = 8
"""Models or images named in one line."""

MOST_SECTION_LINES = 40
"""Lines of the section that a test's report carries."""

MOST_WRAPPED = 4
"""Lines that one verdict, mark or gap may take."""

_OUTCOME_WIDTH = len("INCONCLUSIVE")
_ORDER = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
_COLOURS = {"FAIL": "red", "INCONCLUSIVE": "yellow", "PASS": "green"}


class Line(NamedTuple):
    """One line for the terminal."""

    text: str
    colour: str = ""


def summary(collector: Collector, *, verbosity: int, width: int) -> list[Line]:
    """Return the lines of the terminal section.

    There are none if no test uses this package, if nothing was judged or lost, and at ``-qq``.

    Parameters
    ----------
    collector
        What was judged.
    verbosity
        pytest's: below 0 verdicts that passed are left out, above 0 every criterion is shown.
    width
        Columns; longer lines are wrapped, or cut where they tell of nothing amiss.
    """
    records = collector.records
    if not collector.tests or not (records or collector.incomplete) or verbosity < -1:
        return []
    lines = [*_verdicts(collector.tests, verbosity), *_marks(records, collector), *_found(records)]
    lines = [Line(printable(line.text), line.colour) for line in lines]
    return lines if verbosity > 0 else [fitted for line in lines for fitted in _fit(line, width)]


def _fit(line: Line, width: int) -> list[Line]:
    """Return a line in lines of that width: one if all is well, else a few."""
    most = 1 if line.colour in ("", "green") else MOST_WRAPPED
    indent = " " * min(_OUTCOME_WIDTH + 1 if line.text.startswith(tuple(_ORDER)) else 4, width // 4)
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=indent, max_lines=most, placeholder=" …", break_on_hyphens=False
    )
    return [Line(text, line.colour) for text in wrapper.wrap(line.text)]


def _verdicts(tests: Iterable[JudgedTest], verbosity: int) -> list[Line]:
    judged = [(record, test) for test in tests for record in test.records]
    judged.sort(key=lambda pair: _ORDER.get(str(pair[0].get("outcome")), 3))
    if verbosity < 0:
        judged = [pair for pair in judged if pair[0].get("outcome") != "PASS"]
    alike: dict[tuple[str, ...], list[tuple[Record, JudgedTest]]] = {}
    for record, test in judged:
        outcome = str(record.get("outcome"))
        apart = test.nodeid if verbosity > 0 else ""
        key = (outcome, *_context(outcome, test), headline(record), apart)
        alike.setdefault(key, []).append((record, test))
    lines: list[Line] = []
    for key, pairs in list(alike.items())[: None if verbosity > 0 else MOST_VERDICTS]:
        outcome, *notes, said, _ = key
        if len(pairs) > 1:
            notes.append(f"{len(pairs)} times")
        noted = f"({', '.join(notes)}) " if notes else ""
        lines.append(Line(f"{outcome:<{_OUTCOME_WIDTH}} {noted}{said}", _COLOURS.get(outcome, "")))
        if verbosity > 0:
            record, test = pairs[-1]
            lines.append(Line(f"    {test.nodeid}"))
            lines.extend(Line(f"    {criterion_text(criterion)}") for criterion in criteria(record))
    if verbosity <= 0 and len(alike) > MOST_VERDICTS:
        lines.append(Line(f"... and {len(alike) - MOST_VERDICTS} more, shown by -v"))
    return lines


def _context(outcome: str, test: JudgedTest) -> list[str]:
    """Say where the test's outcome is not the verdict's."""
    notes = []
    if outcome != "PASS" and test.outcome in ("passed", "skipped", "xfailed"):
        notes.append("as the test expects" if test.outcome == "passed" else test.outcome)
    if test.attempts > 1:
        notes.append(f"attempt {test.attempts}")
    return notes


def _marks(records: Sequence[Record], collector: Collector) -> list[Line]:
    """Say what the figures do not show by themselves."""
    lines = []
    dropped = sum(int(record.get("dropped", 0)) for record in records)
    if dropped:
        lines.append(
            Line(f"{dropped} earlier verdicts of tests that judge many times are not shown", "yellow")
        )
    models = untrained(records)
    if models:
        lines.append(Line(f"UNTRAINED WEIGHTS, figures mean nothing about images: {listed(models)}", "red"))
    images = skipped_images(records)
    if images:
        named = [f"{name} ({rule})" if rule else name for name, rule in images.items()]
        lines.append(Line(f"{len(images)} {plural('image', len(images))} skipped: {listed(named)}", "yellow"))
    if collector.incomplete:
        lines.append(Line(f"INCOMPLETE, verdicts are missing: {listed(collector.incomplete)}", "red"))
    return lines


def _found(records: Sequence[Record]) -> list[Line]:
    counts = count_outcomes(records)
    total = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _ORDER if outcome in counts)
    lines = [Line(f"{len(records)} {plural('verdict', len(records))}: {total}")] if records else []
    missing = gaps(records)
    if missing:
        lines.append(Line("found:", "red"))
        lines.extend(Line(f"  {gap}", "red") for gap in missing[:MOST_GAPS])
        if len(missing) > MOST_GAPS:
            lines.append(Line(f"  and {len(missing) - MOST_GAPS} more", "red"))
    elif records:
        lines.append(Line("found: no gap", "green"))
    return lines


def section(records: Sequence[Record]) -> str:
    """Return the text of a test's report section: one line a verdict, criteria that are not PASS below."""
    alike: dict[tuple[str, ...], int] = {}
    for record in records:
        text = [f"{record.get('outcome')} {headline(record)}"]
        for criterion in criteria(record):
            if criterion.get("outcome") in ("FAIL", "INCONCLUSIVE"):
                text.append(f"  {criterion_text(criterion)}")
        alike[tuple(text)] = alike.get(tuple(text), 0) + 1
    lines: list[str] = []
    for said, times in alike.items():
        lines.extend([said[0] if times == 1 else f"{said[0]} ({times} times)", *said[1:]])
    if len(lines) > MOST_SECTION_LINES:
        rest = len(lines) - MOST_SECTION_LINES
        lines = [*lines[:MOST_SECTION_LINES], f"... and {rest} more lines"]
    return printable("\n".join(lines))


def headline(record: Record) -> str:
    """Return kind, subject and the verdict's own sentence, or its first figures where it has none."""
    kind, subject = str(record.get("kind")), str(record.get("subject"))
    said = str(record.get("summary") or "").strip().partition("\n")[0]
    if not said:
        said = ", ".join(criterion_text(item) for item in criteria(record)[:3])
    if said.startswith(subject):
        return f"{kind} {said}"
    return f"{kind} {subject}: {said}" if said else f"{kind} {subject}"


def criterion_text(criterion: Record) -> str:
    """Return one criterion as text: outcome, name, value, interval, bar and note."""
    parts = [str(criterion.get("outcome")), str(criterion.get("name"))]
    value, bar, interval = criterion.get("value"), criterion.get("bar"), criterion.get("interval")
    if value is not None:
        parts.append(_number(value))
    if isinstance(interval, list):
        parts.append(f"[{', '.join(_number(bound) for bound in interval)}]")
    if bar is not None:
        parts.append(f"(must be {'≥' if criterion.get('at_least', True) else '≤'} {_number(bar)})")
    if criterion.get("note"):
        parts.append(str(criterion["note"]))
    return " ".join(parts)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def listed(items: Sequence[str]) -> str:
    """Join some items, the number of the rest instead of the rest."""
    rest = len(items) - MOST_LISTED
    named = ", ".join(items[:MOST_LISTED])
    return f"{named}, and {rest} more" if rest > 0 else named


def plural(word: str, count: int) -> str:
    """Return the word for one or for many."""
    return word if count == 1 else f"{word}s"
