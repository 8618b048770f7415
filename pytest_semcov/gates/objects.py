"""Verdict on the annotated objects of translated images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine, compare
from pytest_semcov.metrics.arguments import require_confidence, require_number, require_whole
from pytest_semcov.metrics.arrays import Doubles, Mask
from pytest_semcov.metrics.intervals import Interval, wilson
from pytest_semcov.metrics.resampling import Estimate, resample

LOST_BELOW = 0.25
"""An object whose edges are kept by less than this counts as lost: erased, moved or something else."""

FEWEST_BOXES = 10
"""Fewer boxes, or boxes of fewer groups, are not judged."""

_MOST_WORST = 10
_UNITS = {"detail": " dB"}


@dataclass(frozen=True, slots=True)
class ObjectBars:
    """What is asked of the objects of one size or class, on average over boxes.

    Parameters
    ----------
    min_identity
        Share of other objects of its class that an object is less similar to than to its own source, to the
        embedder: 0.5 = by chance, 1 = always recognised.
    min_edges
        How well edges run as before, see :func:`~pytest_semcov.metrics.spectrum.edges_kept`.
    max_lost
        Share of objects with edges kept below :data:`LOST_BELOW`.
    min_detail, max_detail
        Change of fine detail, in decibels, less that of the background of the same image: below, objects
        were blurred or smoothed; above, noise came over them.
    min_similarity
        Mean cosine of the embeddings before and after, as they are; ``None`` = not judged: a translation
        changes it legitimately.
    scarce
        What a size with fewer than :data:`FEWEST_BOXES` boxes is: ``"inconclusive"`` or ``"note"``. A class
        with so few is a note.

    Raises
    ------
    ArgumentError
        If a bar is not a number in its range.
    """

    min_identity: float = 0.8
    min_edges: float = 0.5
    max_lost: float = 0.3
    min_detail: float = -6.0
    max_detail: float = 6.0
    min_similarity: float | None = None
    scarce: str = "inconclusive"

    def __post_init__(self) -> None:
        ranges = {"min_identity": (0, 1), "min_edges": (-1, 1), "max_lost": (0, 1), "min_similarity": (-1, 1)}
        for name in ("min_identity", "min_edges", "max_lost", "min_detail", "max_detail", "min_similarity"):
            value = getattr(self, name)
            if value is None and name == "min_similarity":
                continue
            require_number(name, value)
            low, high = ranges.get(name, (-math.inf, math.inf))
            if not low <= value <= high:
                raise ArgumentError(f"{name} is {value}: need {low} to {high}")
        if self.min_detail >= self.max_detail:
            raise ArgumentError(
                f"min_detail {self.min_detail} and max_detail {self.max_detail}: need the first below"
            )
        if self.scarce not in ("inconclusive", "note"):
            raise ArgumentError(f"scarce={self.scarce!r}: use 'inconclusive' or 'note'")


@dataclass(frozen=True, slots=True, eq=False)
class ObjectFigures:
    """What was measured of each box; all of one length, NaN where a figure could not be had.

    Parameters
    ----------
    names
        What a box is called in reports: image, class, corners.
    classes, sizes, groups
        Class, name of the size, and group (scene, or image) of each.
    identity, edges, detail, similarity
        ``(n,)`` see :class:`ObjectBars`; ``detail`` is already less the background's.
    background
        Figure → its mean over background crops of the same sizes, for people.
    """

    names: tuple[str, ...]
    classes: tuple[str, ...]
    sizes: tuple[str, ...]
    groups: tuple[str, ...]
    identity: Doubles
    edges: Doubles
    detail: Doubles
    similarity: Doubles
    background: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, name)) for name in self.__slots__ if name != "background"}
        if len(lengths) != 1:
            raise ArgumentError(f"figures of boxes have lengths {sorted(lengths)}: need one")

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class _Measure:
    """One figure held against one bar."""

    name: str
    values: Doubles
    bar: float
    at_least: bool = True
    share: bool = False
    figure: str = ""

    def shortfall(self, row: int) -> float:
        """Return how far a box is on the wrong side, relative to the bar; 0 or less: on the right one."""
        value = float(self.values[row])
        if math.isnan(value):
            return -math.inf
        gap = self.bar - value if self.at_least else value - self.bar
        return gap / max(abs(self.bar), 1e-3)


def objects_verdict(
    figures: ObjectFigures,
    *,
    subject: str,
    bars: ObjectBars | None = None,
    sizes: Sequence[str] = ("small", "medium", "large"),
    confidence: float = 0.95,
    resamples: int = 1999,
    seed: int = 0,
    counts: Mapping[str, int] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> tuple[Verdict, tuple[int, ...]]:
    """Judge the objects of translated images by size and by class.

    Parameters
    ----------
    figures
        Of each box.
    subject
        What was judged.
    bars
        What is asked of every size and every class.
    sizes
        Names of the sizes, in the order in which they are shown.
    confidence
        Of each interval, from resamples of groups. A criterion passes by its own interval, since all must
        pass; it fails by one that holds for all criteria together (Bonferroni).
    resamples, seed
        Of the resampling.
    counts, provenance
        For the verdict.

    Returns
    -------
    verdict
        Of kind ``"objects"``.
    worst
        Rows of the boxes that are worst by the criteria that do not pass, the worst first, at most ten.

    Raises
    ------
    ArgumentError
        If an argument is out of range.
    """
    bars = ObjectBars() if bars is None else bars
    require_confidence(confidence)
    require_whole("resamples", resamples, least=100)
    measures = _measures(figures, bars)
    cells = _cells(figures, sizes)
    judged = {name: rows for name, rows in cells.items() if _enough(figures, rows)}
    bootstrap = _Bootstrap(confidence, max(1, len(judged) * len(measures)), resamples, seed)
    criteria: list[Criterion] = []
    missed: list[tuple[_Measure, Mask]] = []
    for name, rows in cells.items():
        if name not in judged:
            criteria.append(_scarce(name, figures, rows, bars))
            continue
        for measure in measures:
            criterion = _criterion(f"{measure.name}[{name}]", measure, rows, figures, bootstrap)
            criteria.append(criterion)
            if criterion.outcome is not Outcome.PASS:
                missed.append((measure, rows))
        if bars.min_similarity is None:
            criteria.append(_shown(f"similarity[{name}]", figures.similarity[rows]))
    outcome = combine(criteria)
    failed = [c.name for c in criteria if c.outcome is Outcome.FAIL]
    worst = _worst(missed)
    verdict = Verdict(
        "objects",
        subject,
        outcome,
        tuple(criteria),
        counts=dict(counts or {}),
        provenance={"confidence": confidence, "resamples": resamples, **(provenance or {})},
        summary=f"{subject}: {_said(outcome, failed, criteria)}",
        details=_details(criteria, figures, worst),
    )
    return verdict, worst


def _measures(figures: ObjectFigures, bars: ObjectBars) -> list[_Measure]:
    known = np.isfinite(figures.edges)
    lost = np.where(known, (figures.edges < LOST_BELOW).astype(np.float64), np.nan)
    found = [
        _Measure("identity", figures.identity, bars.min_identity),
        _Measure("edges", figures.edges, bars.min_edges),
        _Measure("lost", lost, bars.max_lost, at_least=False, share=True),
        _Measure("detail", figures.detail, bars.min_detail),
        _Measure("noise", figures.detail, bars.max_detail, at_least=False, figure="detail"),
    ]
    if bars.min_similarity is not None:
        found.append(_Measure("similarity", figures.similarity, bars.min_similarity))
    return found


def _cells(figures: ObjectFigures, sizes: Sequence[str]) -> dict[str, Mask]:
    """Return rows by size and by class; classes only if there are several."""
    by_size = np.asarray(figures.sizes)
    by_class = np.asarray(figures.classes)
    cells = {f"size {name}": by_size == name for name in sizes if (by_size == name).any()}
    classes = sorted(set(figures.classes))
    if len(classes) > 1:
        cells |= {f"class {name}": by_class == name for name in classes}
    return cells


def _enough(figures: ObjectFigures, rows: Mask) -> bool:
    groups = {figures.groups[row] for row in np.flatnonzero(rows)}
    return len(groups) >= FEWEST_BOXES


def _scarce(name: str, figures: ObjectFigures, rows: Mask, bars: ObjectBars) -> Criterion:
    boxes = int(rows.sum())
    groups = len({figures.groups[row] for row in np.flatnonzero(rows)})
    note = f"{boxes} boxes in {groups} images or groups: need {FEWEST_BOXES} of them to judge"
    inconclusive = bars.scarce == "inconclusive" and name.startswith("size ")
    outcome = Outcome.INCONCLUSIVE if inconclusive else Outcome.INFO
    return Criterion(f"boxes[{name}]", boxes, FEWEST_BOXES, None, outcome, note)


def _shown(name: str, values: Doubles) -> Criterion:
    known = np.sort(values[np.isfinite(values)])
    value = float(known.mean()) if len(known) else None
    return Criterion(name, value, None, None, Outcome.INFO, "cosine before and after, as it is")


def _criterion(
    name: str, measure: _Measure, rows: Mask, figures: ObjectFigures, bootstrap: _Bootstrap
) -> Criterion:
    known = np.flatnonzero(rows & np.isfinite(measure.values))
    known = known[np.lexsort((measure.values[known], np.asarray(figures.groups)[known]))]
    groups = [figures.groups[row] for row in known]
    independent = len(set(groups))
    values = measure.values[known]
    value = float(values.mean()) if len(known) else None
    if value is None or independent < FEWEST_BOXES:
        note = f"known of {len(known)} boxes in {independent} images or groups: need {FEWEST_BOXES} of them"
        return Criterion(name, value, measure.bar, None, Outcome.INCONCLUSIVE, note, measure.at_least)
    own, together = bootstrap.bounds(values, groups, share=measure.share)
    note = _background_note(measure, figures)
    shown = compare(name, value, bar=measure.bar, interval=own, at_least=measure.at_least, note=note)
    if shown.outcome is Outcome.PASS:
        return shown
    if shown.outcome is Outcome.FAIL:
        strict = compare(name, value, bar=measure.bar, interval=together, at_least=measure.at_least)
        if strict.outcome is Outcome.FAIL:
            return shown
        note = _joined(note, f"not beyond chance among {bootstrap.criteria} criteria")
    note = _joined(note, _needed(value, measure.bar, own, len(known)))
    return replace(shown, outcome=Outcome.INCONCLUSIVE, note=note)


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    """Intervals of means over boxes, groups of which are resampled; one drawing per number of groups."""

    confidence: float
    criteria: int
    resamples: int
    seed: int
    drawn: dict[int, Doubles] = field(default_factory=dict)

    def bounds(self, values: Doubles, groups: Sequence[str], *, share: bool) -> tuple[Interval, Interval]:
        """Return the interval of the mean, and a wider one that holds for all criteria together.

        ``values`` are sorted by group: the order of boxes must not matter.
        """
        names, sizes = np.unique(np.asarray(groups), return_counts=True)
        sums = np.add.reduceat(values, np.r_[0, np.cumsum(sizes)[:-1]])
        independent = len(names)
        if independent not in self.drawn:
            draws = resample(independent, repeats=self.resamples, seed=self.seed)
            self.drawn[independent] = draws.astype(np.float64)
        draws_of_groups = self.drawn[independent]
        mean = float(values.mean())
        replicates = (draws_of_groups @ sums) / (draws_of_groups @ sizes)
        estimate = Estimate(mean, replicates, independent, len(values))
        found = []
        for confidence in (self.confidence, 1 - (1 - self.confidence) / self.criteria):
            low, high = estimate.interval(confidence=confidence)
            if share:
                # Resamples of none (or all) lost show no spread; the groups are few all the same.
                widest = wilson(round(mean * independent), independent, confidence=confidence)
                low, high = min(low, widest[0]), max(high, widest[1])
            found.append((low, high))
        return found[0], found[1]


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _background_note(measure: _Measure, figures: ObjectFigures) -> str:
    value = figures.background.get(measure.figure or measure.name, math.nan)
    if math.isnan(value) or measure.share:
        return ""
    change = "its own change " if (measure.figure or measure.name) == "detail" else ""
    return f"background: {change}{value:.3g}{_UNITS.get(measure.figure or measure.name, '')}"


def _needed(value: float, bar: float, bounds: Interval, boxes: int) -> str:
    """Say about how many boxes would decide, if the value stays: the interval shrinks as their root."""
    gap = abs(value - bar)
    reach = max(abs(bound - value) for bound in bounds)
    if not gap > 0.05 * reach:
        return "at the bar: more boxes hardly help"
    needed = max(boxes + 1, math.ceil(boxes * (reach / gap) ** 2))
    return f"about {needed:,} boxes are needed, have {boxes:,}"


def _worst(missed: Sequence[tuple[_Measure, Mask]]) -> tuple[int, ...]:
    worst: dict[int, float] = {}
    for measure, rows in missed:
        for row in np.flatnonzero(rows).tolist():
            worst[row] = max(worst.get(row, -math.inf), measure.shortfall(row))
    bad = [row for row, shortfall in worst.items() if shortfall > 0]
    return tuple(sorted(bad, key=lambda row: (-worst[row], row))[:_MOST_WORST])


def _details(criteria: Sequence[Criterion], figures: ObjectFigures, worst: Sequence[int]) -> tuple[str, ...]:
    lines = []
    if worst:
        lines.append("worst boxes:")
        for row in worst:
            parts = [
                f"{name} {float(getattr(figures, name)[row]):.2g}{_UNITS.get(name, '')}"
                for name in ("identity", "edges", "detail", "similarity")
            ]
            lines.append(f"  {figures.names[row]}, {figures.sizes[row]}: {', '.join(parts)}")
    if any(each.outcome is Outcome.INCONCLUSIVE for each in criteria):
        lines.append(
            "what to do: translate more images with such objects; scarce='note' lets a size with too few "
            "boxes go unjudged"
        )
    return tuple(lines)


def _said(outcome: Outcome, failed: Sequence[str], criteria: Sequence[Criterion]) -> str:
    if outcome is Outcome.PASS:
        return "the annotated objects are preserved"
    if outcome is Outcome.FAIL:
        more = f" and {len(failed) - 4} more" if len(failed) > 4 else ""
        return f"annotated objects are not preserved: {', '.join(failed[:4])}{more}"
    open_ = [each.name for each in criteria if each.outcome is Outcome.INCONCLUSIVE]
    more = f" and {len(open_) - 4} more" if len(open_) > 4 else ""
    return (
        f"it cannot be told whether objects are preserved: {', '.join(open_[:4]) or 'nothing judged'}{more}"
    )
