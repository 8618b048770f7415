"""Whether each category of a semantic has enough images: the judgement that all coverage gates share.

Counts are exact given the labels. What is uncertain is the labels: images
without a certain label may belong anywhere, and a labeller with known errors
gives a corrected count with an interval. A bar inside the interval is
INCONCLUSIVE.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import CategoryImportance, LabelError, SemanticEvidence
from pytest_semcov.gates.verdict import Criterion, Outcome, combine, compare
from pytest_semcov.metrics.label_error import corrected_count, most_errors


@dataclass(frozen=True, slots=True)
class CoverageBars:
    """What the coverage gates hold their figures against.

    Parameters
    ----------
    min_count
        A category is under-represented below this number of images.
    min_share
        Or below this share of an equal share: ``min_share`` / number of categories.
    min_groups
        Or, where groups are known, below this number of groups.
    max_uncertain
        With a larger share of images without a certain label nothing is concluded.
    min_lift, max_p
        A category is important from this lift of cluster recall and up to this adjusted p-value.

    Raises
    ------
    ArgumentError
        If a bar lies outside its range.
    """

    min_count: int = 30
    min_share: float = 0.25
    min_groups: int = 5
    max_uncertain: float = 0.2
    min_lift: float = 1.5
    max_p: float = 0.01

    def __post_init__(self) -> None:
        for name in ("min_count", "min_groups", "min_lift"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name}={getattr(self, name)!r}: must be 0 or more")
        for name in ("min_share", "max_uncertain", "max_p"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(f"{name}={getattr(self, name)!r}: must lie in [0, 1]")


@dataclass(frozen=True, slots=True)
class Representation:
    """How one category stands against the bars.

    Parameters
    ----------
    name
        The category.
    real, synthetic
        Its images by label.
    images
        All images of the data set.
    count, share
        The two criteria that are always judged.
    groups
        The third, where groups are known.
    importance
        Its importance, where measured.
    doubtful
        Whether so many labels are uncertain that nothing is concluded.
    """

    name: str
    real: int
    synthetic: int
    images: int
    count: Criterion
    share: Criterion
    groups: Criterion | None
    importance: CategoryImportance | None
    doubtful: bool

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """All that is judged."""
        return (self.count, self.share, *(() if self.groups is None else (self.groups,)))

    @property
    def outcome(self) -> Outcome:
        """FAIL = under-represented."""
        return combine(self.criteria)

    @property
    def total(self) -> int:
        """Real and synthetic images by label."""
        return self.real + self.synthetic

    @property
    def required(self) -> int:
        """Images that count and share require among so many images."""
        return max(math.ceil(_bar(self.count)), math.ceil(_bar(self.share) * self.images - 1e-9))

    @property
    def missing(self) -> int:
        """Images of this category to add until count and share reach their bars (the total grows too)."""
        count, share = _bar(self.count), _bar(self.share)
        by_share = (share * self.images - self.total) / (1 - share) if share < 1 else 0.0
        return max(0, math.ceil(count - self.total), math.ceil(by_share - 1e-9))

    @property
    def note(self) -> str:
        """Share, groups and what the count is made of."""
        parts = [f"share {percent(self.share.value)}, {percent(self.share.bar)} required"]
        if self.groups is not None:
            parts.append(f"{whole(self.groups.value)} groups, {whole(self.groups.bar)} required")
        if self.count.note:
            parts.append(self.count.note)
        return "; ".join(parts)

    def as_criterion(self, semantic: str, outcome: Outcome, note: str) -> Criterion:
        """Return the whole category as one comparison of its count with the count required."""
        return Criterion(
            f"{semantic}[{self.name}]", self.count.value, self.required, self.count.interval, outcome, note
        )


def judge(evidence: SemanticEvidence, bars: CoverageBars) -> list[Representation]:
    """Hold every category of a semantic against the bars."""
    images = evidence.images
    reason = too_uncertain(evidence, bars)
    judged = []
    for name, real in evidence.counts.items():
        value, interval, note = _count(evidence, name)
        count = compare(f"count[{name}]", value, bar=max(bars.min_count, 1), interval=interval, note=note)
        share = compare(
            f"share[{name}]",
            value / images if images else 0.0,
            bar=bars.min_share / len(evidence.counts),
            interval=(interval[0] / images, interval[1] / images) if interval and images else None,
            note=f"of {images} images; {bars.min_share:g} of an equal share among {len(evidence.counts)}",
        )
        groups = _groups(evidence, bars, name, interval)
        if reason:
            count, share = _left_open(count, reason), _left_open(share, reason)
            groups = None if groups is None else _left_open(groups, reason)
        judged.append(
            Representation(
                name=name,
                real=real,
                synthetic=evidence.synthetic.get(name, 0),
                images=images,
                count=count,
                share=share,
                groups=groups,
                importance=evidence.importance.get(name),
                doubtful=bool(reason),
            )
        )
    return judged


def too_uncertain(evidence: SemanticEvidence, bars: CoverageBars) -> str:
    """Return why nothing can be concluded from the labels, or an empty text."""
    share = evidence.uncertain / evidence.real if evidence.real else 0.0
    if share <= bars.max_uncertain:
        return ""
    return f"{share:.0%} of the labels are uncertain, more than {bars.max_uncertain:.0%}"


def uncertain_criterion(
    evidence: SemanticEvidence, bars: CoverageBars, *, name: str = "uncertain"
) -> Criterion:
    """Hold the share of images without a certain label against its bar; above it is INCONCLUSIVE."""
    return Criterion(
        name,
        evidence.uncertain / evidence.real if evidence.real else 0.0,
        bars.max_uncertain,
        None,
        Outcome.INCONCLUSIVE if too_uncertain(evidence, bars) else Outcome.PASS,
        f"{evidence.uncertain} of {evidence.real} real images have no certain label",
        at_least=False,
    )


def possible_images(evidence: SemanticEvidence, name: str) -> int:
    """Return how many images without a certain label could belong to a category."""
    return evidence.uncertain if evidence.possible is None else evidence.possible.get(name, 0)


def whole(value: float | None) -> str:
    """Return a number of images for people; corrected counts need not be whole."""
    if value is None:
        return "unknown"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def percent(value: float | None) -> str:
    """Return a share for people."""
    return "unknown" if value is None else f"{value:.1%}"


def _count(evidence: SemanticEvidence, name: str) -> tuple[float, tuple[float, float] | None, str]:
    """Return a category's number of images, its interval (``None`` = exact) and what it is made of."""
    real, synthetic = evidence.counts[name], evidence.synthetic.get(name, 0)
    possible = possible_images(evidence, name)
    parts = [f"{real} real, {synthetic} synthetic"] if synthetic else []
    value, low, high = float(real), real, real
    error = evidence.label_error.get(name)
    if error is not None:
        certain = sum(evidence.counts.values())
        value, (low, high) = corrected_count(
            real,
            certain,
            recall=error.recall,
            specificity=error.specificity,
            comparisons=len(evidence.counts),
        )
        parts.append(f"{real} labelled, corrected for {error}")
    elif evidence.estimated:
        parts.append(f"labels by {evidence.label_source}, whose error on this data is not known")
    if possible:
        high += possible
        parts.append(f"{possible} uncertain could be {name}")
    interval = None
    if error is not None or possible:
        interval = (float(low + synthetic), float(high + synthetic))
    return value + synthetic, interval, "; ".join(parts)


def _groups(
    evidence: SemanticEvidence, bars: CoverageBars, name: str, interval: tuple[float, float] | None
) -> Criterion | None:
    """Hold the number of groups against its bar."""
    if evidence.groups is None:
        return None
    groups = evidence.groups.get(name, 0)
    bounds = None
    if interval is not None:
        false_alarms, misses = 0, 0
        error = evidence.label_error.get(name)
        if error is not None:
            false_alarms, misses = most_wrong(evidence, name, error, interval)
        possible = possible_images(evidence, name)
        # Any image that was missed, or whose label is uncertain, may be a group of its own.
        bounds = (groups - _groups_of(false_alarms, evidence, name), groups + misses + possible)
    return compare(f"groups[{name}]", groups, bar=bars.min_groups, interval=bounds)


def most_wrong(
    evidence: SemanticEvidence, name: str, error: LabelError, interval: tuple[float, float]
) -> tuple[int, int]:
    """Return how many images at most carry a category's label wrongly, and lack it wrongly."""
    certain, real = sum(evidence.counts.values()), evidence.counts[name]
    possible = possible_images(evidence, name)
    synthetic = evidence.synthetic.get(name, 0)
    fewest, most = int(interval[0]) - synthetic, int(interval[1]) - synthetic - possible
    (hits, own), (rejections, others) = error.recall, error.specificity
    false_alarms = most_errors(others - rejections, others, certain - fewest)
    misses = most_errors(own - hits, own, most, level=1 - 0.025 / len(evidence.counts))
    return min(false_alarms, real), misses


def _groups_of(images: int, evidence: SemanticEvidence, name: str) -> int:
    """Return how many of a category's groups so many of its images can make up, the smallest first."""
    sizes = evidence.group_images.get(name)
    if sizes is None:
        return min(images, (evidence.groups or {}).get(name, 0))
    return sum(filled <= images for filled in itertools.accumulate(sorted(sizes)))


def _left_open(criterion: Criterion, reason: str) -> Criterion:
    note = "; ".join(part for part in (reason, criterion.note) if part)
    return replace(criterion, outcome=Outcome.INCONCLUSIVE, note=note)


def _bar(criterion: Criterion) -> float:
    return criterion.bar or 0.0
