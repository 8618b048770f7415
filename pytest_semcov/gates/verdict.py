"""Criteria and verdicts: what a gate returns.

A verdict is PASS, FAIL or INCONCLUSIVE and always carries every criterion
with the measured value, its bar and its interval. Both types print
themselves and convert to plain Python (no numpy type leaves this module, so
that records survive process borders and JSON).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_semcov.errors import printable

_SHOWN_DETECTABLE = 9

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


class Outcome(StrEnum):
    """Outcome of a criterion or verdict. ``INFO`` marks figures that are shown but judge nothing."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    INFO = "INFO"


def plain(value: object) -> Plain:
    """Convert to plain Python: numpy scalars and arrays, tuples, enums, paths; raise on anything else.

    Raises
    ------
    TypeError
        For a value that has no plain form (it names the type).
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [plain(item) for item in items]
    if hasattr(value, "tolist"):  # numpy arrays and scalars, torch tensors
        return plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if hasattr(value, "__fspath__"):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no plain Python form: {value!r}")


@dataclass(frozen=True, slots=True)
class Criterion:
    """One measured comparison with its bar.

    Parameters
    ----------
    name
        Stable name, e.g. ``"drift"``, ``"copies"``, ``"count[night]"``.
    value
        The measured value, ``None`` if it could not be measured.
    bar
        The bar it is held against, ``None`` for figures that judge nothing.
    interval
        Lower and upper bound (95 % unless the note says otherwise), or ``None``.
    outcome
        Outcome of this comparison.
    note
        One sentence for people: what was compared, or why it is inconclusive.
    at_least
        True if the value must lie at or above the bar, False if at or below it.
    """

    name: str
    value: float | None
    bar: float | None
    interval: tuple[float, float] | None
    outcome: Outcome
    note: str = ""
    at_least: bool = True

    def to_dict(self) -> dict[str, Plain]:
        """Return the criterion as plain Python."""
        return {
            "name": self.name,
            "value": _number(self.value),
            "bar": _number(self.bar),
            "interval": None if self.interval is None else [_number(bound) for bound in self.interval],
            "outcome": self.outcome.value,
            "note": self.note,
            "at_least": self.at_least,
        }

    def __str__(self) -> str:
        parts = [f"{self.outcome.value:<12} {self.name}"]
        if self.value is not None:
            parts.append(_short(self.value))
        if self.interval is not None:
            parts.append(f"[{_short(self.interval[0])}, {_short(self.interval[1])}]")
        if self.bar is not None:
            parts.append(f"(must be {'≥' if self.at_least else '≤'} {_short(self.bar)})")
        line = " ".join(parts)
        return f"{line}  {self.note}" if self.note else line


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a gate with all that led to it.

    Parameters
    ----------
    kind
        Which gate: ``"coverage"``, ``"sufficiency"``, ``"labels"``, ...
    subject
        What was judged, e.g. ``"day_night"`` or ``"synthetic night"``.
    outcome
        PASS, FAIL or INCONCLUSIVE (never INFO).
    criteria
        All criteria, measured or not.
    counts
        Numbers of images behind the verdict, e.g. ``{"real night": 20, "synthetic night": 98}``.
    smallest_detectable
        What the gate could have seen with this much data: per criterion name the true value, nearest to its
        bar, at which the gate would end in FAIL with probability 0.8 by that criterion alone, in the units
        of the criterion; ``None`` where no true value would. Values further from the bar would be seen too.
    provenance
        Protocol, model fingerprints, seed, settings and versions: what replays the verdict.
    summary
        One complete sentence, the first line of a failure message.
    details
        Further lines for people (candidates by path, what to do).
    """

    kind: str
    subject: str
    outcome: Outcome
    criteria: tuple[Criterion, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    smallest_detectable: Mapping[str, float | None] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)
    summary: str = ""
    details: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Criterion:
        """Return the criterion of that name.

        Raises
        ------
        KeyError
            If there is none; the message lists the names.
        """
        for criterion in self.criteria:
            if criterion.name == name:
                return criterion
        raise KeyError(f"{name!r}; this verdict has {', '.join(c.name for c in self.criteria)}")

    @property
    def passed(self) -> bool:
        """Whether the outcome is PASS."""
        return self.outcome is Outcome.PASS

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the criteria that failed."""
        return tuple(c.name for c in self.criteria if c.outcome is Outcome.FAIL)

    def to_dict(self) -> dict[str, Plain]:
        """Return the verdict as plain Python."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "outcome": self.outcome.value,
            "summary": self.summary,
            "criteria": [criterion.to_dict() for criterion in self.criteria],
            "counts": plain(dict(self.counts)),
            "smallest_detectable": plain(dict(self.smallest_detectable)),
            "provenance": plain(dict(self.provenance)),
            "details": list(self.details),
        }

    def __str__(self) -> str:
        first = self.summary or f"{self.subject}: {self.outcome.value}"
        lines = [first, *(f"  {criterion}" for criterion in self.criteria)]
        if self.counts:
            lines.append("  images: " + ", ".join(f"{name} {count}" for name, count in self.counts.items()))
        if self.smallest_detectable:
            lines.append(f"  could have seen: {self._could_have_seen()}")
        lines.extend(f"  {line}" for line in self.details)
        return printable("\n".join(lines))

    def _could_have_seen(self) -> str:
        """Return the smallest detectable values for people."""
        low = {criterion.name for criterion in self.criteria if criterion.at_least}
        shown = list(self.smallest_detectable.items())[:_SHOWN_DETECTABLE]
        parts = [
            f"nothing of {name}" if value is None else f"{name} {'≤' if name in low else '≥'} {_short(value)}"
            for name, value in shown
        ]
        more = len(self.smallest_detectable) - len(shown)
        return ", ".join(parts) + (f" and {more} more" if more else "")


def combine(criteria: Iterable[Criterion]) -> Outcome:
    """Return the outcome of several criteria that must all hold.

    Any FAIL is a FAIL; else any INCONCLUSIVE is INCONCLUSIVE; INFO judges
    nothing. Nothing judged at all is INCONCLUSIVE, never PASS.
    """
    outcomes = [criterion.outcome for criterion in criteria if criterion.outcome is not Outcome.INFO]
    if Outcome.FAIL in outcomes:
        return Outcome.FAIL
    if not outcomes or Outcome.INCONCLUSIVE in outcomes:
        return Outcome.INCONCLUSIVE
    return Outcome.PASS


def compare(
    name: str,
    value: float,
    *,
    bar: float,
    interval: tuple[float, float] | None = None,
    at_least: bool = True,
    note: str = "",
) -> Criterion:
    """Hold a value, and its interval where given, against a bar.

    With an interval: PASS if it lies wholly on the right side of the bar
    (touching it counts), FAIL if wholly on the wrong side, else
    INCONCLUSIVE. Without: a plain comparison. NaN never passes: a NaN value
    or bound is INCONCLUSIVE.
    """
    value = float(value)
    bounds = (value, value) if interval is None else (float(interval[0]), float(interval[1]))
    if any(math.isnan(number) for number in (value, float(bar), *bounds)):
        outcome = Outcome.INCONCLUSIVE
        note = f"{note} (not a number)".strip()
    else:
        low, high = bounds
        good, bad = (low >= bar, high < bar) if at_least else (high <= bar, low > bar)
        outcome = Outcome.PASS if good else Outcome.FAIL if bad else Outcome.INCONCLUSIVE
    return Criterion(name, value, float(bar), None if interval is None else bounds, outcome, note, at_least)


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _short(value: float) -> str:
    number = float(value)
    if abs(number) < 1e-9:
        return "0"
    if number.is_integer() and abs(number) < 1e9:
        return f"{int(number):,}"
    return f"{number:.3g}" if abs(number) < 100 else f"{number:,.1f}"
