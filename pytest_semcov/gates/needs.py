"""How many images are needed, and for what: plain figures that print themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_semcov.errors import printable
from pytest_semcov.gates.figures import text_table
from pytest_semcov.gates.representation import whole
from pytest_semcov.gates.verdict import Plain, plain


@dataclass(frozen=True, slots=True)
class Need:
    """What one judgement asks for.

    Parameters
    ----------
    purpose
        What the images are needed for.
    needed
        How many in all; ``None`` where no number can be named (``note`` says why).
    have
        How many there are.
    note
        How the number comes about.
    unit
        ``"images"`` or ``"groups"``.
    estimated
        Whether the number rests on measured spreads rather than on a count or a given error.
    """

    purpose: str
    needed: int | None
    have: float
    note: str
    unit: str = "images"
    estimated: bool = False

    @property
    def missing(self) -> int | None:
        """How many to add."""
        return None if self.needed is None else max(math.ceil(self.needed - self.have), 0)

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "purpose": self.purpose,
            "needed": self.needed,
            "have": plain(self.have),
            "missing": self.missing,
            "unit": self.unit,
            "estimated": self.estimated,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """How many images of one category are needed, and for what.

    Parameters
    ----------
    semantic, category
        Which images.
    now, interval
        How many there are, labels corrected where their error is known; ``None`` = exact.
    images
        All images of the data set.
    labels
        Where the labels come from.
    needs
        One entry per judgement.
    details
        Further lines for people.
    provenance
        What replays the plan.
    """

    semantic: str
    category: str
    now: float
    interval: tuple[float, float] | None
    images: int
    labels: str
    needs: tuple[Need, ...]
    details: tuple[str, ...] = ()
    provenance: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "semantic": self.semantic,
            "category": self.category,
            "now": plain(self.now),
            "interval": plain(self.interval),
            "images": self.images,
            "labels": self.labels,
            "needs": [need.to_dict() for need in self.needs],
            "details": list(self.details),
            "provenance": plain(dict(self.provenance)),
        }

    def __str__(self) -> str:
        between = "" if self.interval is None else f" [{whole(self.interval[0])}, {whole(self.interval[1])}]"
        first = (
            f"{self.semantic}: {self.category}, now {whole(self.now)}{between} of {self.images} images "
            f"({self.labels})"
        )
        rows = [["what for", "needed", "missing"]]
        for need in self.needs:
            about = "about " if need.estimated else ""
            unit = "" if need.unit == "images" else f" {need.unit}"
            needed = "unknown" if need.needed is None else f"{about}{need.needed:,}{unit}"
            rows.append([need.purpose, needed, "" if need.missing is None else f"{need.missing:,}"])
        table = text_table(rows).splitlines()
        notes = ["", *(need.note for need in self.needs)]
        width = max(map(len, table))
        lines = [f"  {line:<{width}}  {note}".rstrip() for line, note in zip(table, notes, strict=True)]
        return printable("\n".join([first, *lines, *self.details]))
