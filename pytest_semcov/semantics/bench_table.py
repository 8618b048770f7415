"""The table of the bench of descriptors: layouts × encoders with scores, intervals and a recommendation."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain

from pytest_semcov.errors import printable
from pytest_semcov.gates.figures import text_table
from pytest_semcov.gates.verdict import Plain, plain

SCORES = ("precision", "recall", "balanced_accuracy", "auc")
"""Scores with an interval; precision, recall and AUC are those of the target category."""


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One layout under one encoder.

    Parameters
    ----------
    encoder, layout
        Names.
    prompts
        Category → its prompts.
    scores
        Of :data:`SCORES` → value in [0, 1]; ``None`` where undefined (no image got the target's label).
    intervals
        Score → its interval; ``None`` where there is none.
    uncertain
        Share of the images whose label would be uncertain; the scores are of the nearest category, certain or
        not.
    kappa
        Fleiss' kappa between the wordings of the prompts, each tried alone, in [-1, 1]; ``None`` where there
        is one wording only, or every label is the same.
    wordings
        How many wordings were compared.
    problem
        Why the encoder cannot label with these prompts; then the figures are empty.
    """

    encoder: str
    layout: str
    prompts: Mapping[str, tuple[str, ...]]
    scores: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float] | None]
    uncertain: float | None = None
    kappa: float | None = None
    wordings: int = 0
    problem: str = ""

    @property
    def name(self) -> str:
        """Encoder and layout."""
        return f"{self.encoder}, {self.layout}"

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {key: plain(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class DescriptorBench:
    """Layouts × encoders against known labels.

    Parameters
    ----------
    semantic, target
        What was labelled, and the category that precision, recall and AUC are of.
    rows
        In the order of encoders and layouts.
    images, groups
        Images with a known label, and independent groups among them.
    confidence
        Of each interval alone.
    recommended
        Number of the row with the highest lower bound of balanced accuracy; ``None`` if no row has one.
    as_good
        Numbers of the rows whose balanced accuracy cannot be told from the recommended one's. All pairs of
        rows are compared at once (Bonferroni), since the data chose the recommended one.
    """

    semantic: str
    target: str
    rows: tuple[BenchRow, ...]
    images: int
    groups: int
    confidence: float = 0.95
    recommended: int | None = None
    as_good: tuple[int, ...] = ()

    @property
    def best(self) -> BenchRow | None:
        """The recommended row."""
        return None if self.recommended is None else self.rows[self.recommended]

    @property
    def recommendation(self) -> str:
        """What to use, and how far that is more than chance, for people."""
        best = self.best
        if best is None:
            return f"{self.semantic}: nothing can be recommended: no row has an interval"
        low, high = best.intervals["balanced_accuracy"] or (math.nan, math.nan)
        text = (
            f"{self.semantic}: {best.name} has the highest lower bound of balanced accuracy, "
            f"{best.scores['balanced_accuracy']:.3f} [{low:.3f}, {high:.3f}]"
        )
        compared = sum(not row.problem for row in self.rows)
        if compared == 1:
            return f"{text}; there is no other row to compare it with"
        if len(self.as_good) == compared - 1:
            return f"{text}; with {self.images} labels nothing is distinguishable from it"
        if self.as_good:
            names = "; ".join(self.rows[number].name for number in self.as_good)
            return f"{text}; not distinguishable from it: {names}"
        return f"{text}; every other row is lower beyond chance ({compared} rows compared at once)"

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "semantic": self.semantic,
            "target": self.target,
            "images": self.images,
            "groups": self.groups,
            "confidence": self.confidence,
            "rows": [row.to_dict() for row in self.rows],
            "recommended": self.recommended,
            "as_good": plain(self.as_good),
            "recommendation": self.recommendation,
        }

    def to_csv(self) -> str:
        """Return the table as CSV, one line a row; names that a spreadsheet would run get a ``'``."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        bounds = chain.from_iterable((name, f"{name}_low", f"{name}_high") for name in SCORES)
        writer.writerow(["encoder", "layout", *bounds, "kappa", "wordings", "uncertain", "problem"])
        for row in self.rows:
            cells: list[object] = []
            for name in SCORES:
                low, high = row.intervals.get(name) or (None, None)
                cells += [row.scores.get(name), low, high]
            texts = [
                f"'{text}" if text[:1] in tuple("=+-@\t\r") else text for text in (row.encoder, row.layout)
            ]
            written = [*texts, *cells, row.kappa, row.wordings, row.uncertain, row.problem]
            writer.writerow(["" if cell is None else cell for cell in written])
        return out.getvalue()

    def __str__(self) -> str:
        header = ["encoder", "layout", *(name.replace("_", " ") for name in SCORES), "kappa", "uncertain"]
        lines = [header]
        for row in self.rows:
            shown = [_cell(row.scores.get(name), row.intervals.get(name)) for name in SCORES]
            share = "-" if row.uncertain is None else f"{row.uncertain:.1%}"
            lines.append([row.encoder, row.layout, *shown, _cell(row.kappa, None), share])
        title = (
            f"{self.semantic}: {self.images} images with known label; precision, recall and AUC of "
            f"{self.target}; intervals of {self.confidence:.0%} each"
        )
        problems = [f"{row.name}: {row.problem}" for row in self.rows if row.problem]
        return printable("\n".join([title, text_table(lines), self.recommendation, *problems]))


def _harmless(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _cell(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if interval is None else f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
