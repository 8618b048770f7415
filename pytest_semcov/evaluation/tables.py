"""Tables of scores: models by data sets and subsets, with intervals."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_semcov.errors import printable
from pytest_semcov.gates.verdict import Plain


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One score.

    Parameters
    ----------
    model, dataset, subset, metric
        What was scored; subset ``"all"`` is the whole data set.
    value
        The score; ``None`` if it cannot be computed on these images.
    interval
        Its interval; ``None`` if there is none.
    images, groups
        Numbers of images, and of independent groups among them.
    """

    model: str
    dataset: str
    subset: str
    metric: str
    value: float | None
    interval: tuple[float, float] | None
    images: int
    groups: int


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Scores that were computed together.

    Parameters
    ----------
    rows
        In the order of models, data sets, subsets and metrics.
    confidence
        Of each interval.
    """

    rows: tuple[ScoreRow, ...]
    confidence: float = 0.95

    def find(self, **columns: str) -> ScoreRow:
        """Return the one row with these values, e.g. ``find(model="new", dataset="ideal", subset="all")``.

        Raises
        ------
        KeyError
            If none or several have them.
        """
        found = [
            row for row in self.rows if all(getattr(row, name) == value for name, value in columns.items())
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found)} rows with {columns}")
        return found[0]

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "confidence": self.confidence,
            "rows": [
                {
                    "model": row.model,
                    "dataset": row.dataset,
                    "subset": row.subset,
                    "metric": row.metric,
                    "value": row.value,
                    "interval": None if row.interval is None else list(row.interval),
                    "images": row.images,
                    "groups": row.groups,
                }
                for row in self.rows
            ],
        }

    def to_csv(self) -> str:
        """Return the table as CSV, one line a score; names that a spreadsheet would run get a ``'``."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["model", "dataset", "subset", "metric", "value", "low", "high", "images", "groups"])
        for row in self.rows:
            low, high = row.interval or ("", "")
            texts = (row.model, row.dataset, row.subset, row.metric)
            value = "" if row.value is None else row.value
            writer.writerow([*map(_harmless, texts), value, low, high, row.images, row.groups])
        return out.getvalue()

    def __str__(self) -> str:
        """Return one line per data set, subset and metric, with a column per model."""
        models = list(dict.fromkeys(row.model for row in self.rows))
        keys = list(dict.fromkeys((row.dataset, row.subset, row.metric) for row in self.rows))
        cells = {(row.dataset, row.subset, row.metric, row.model): row for row in self.rows}
        lines = [["data set", "subset", "metric", "images", *models]]
        for key in keys:
            found = [cells.get((*key, model)) for model in models]
            images = str(max(row.images for row in found if row is not None))
            lines.append([*key, images, *map(_cell, found)])
        return printable("\n".join(_aligned(lines)))


def _cell(row: ScoreRow | None) -> str:
    if row is None or row.value is None:
        return "-"
    if row.interval is None:
        return f"{row.value:.3f}"
    return f"{row.value:.3f} [{row.interval[0]:.3f}, {row.interval[1]:.3f}]"


def _aligned(lines: list[list[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _harmless(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def finite(value: float) -> float | None:
    """Return the value, ``None`` for NaN and infinity."""
    return value if math.isfinite(value) else None
