"""What the gates for coverage and labels are handed: plain figures, no arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pytest_semcov.gates.verdict import Plain, plain

SMALLEST_KNOWN = 10
"""With fewer images the importance of a category is unknown."""

TOLD_APART = 0.75
"""From this AUC a linear classifier tells a category's images from the others: beyond what random categories
of ten images reach, and below what the categories that an embedder sees do."""


@dataclass(frozen=True, slots=True)
class CategoryImportance:
    """How far a category's images stand apart in the embedder's space.

    Parameters
    ----------
    semantic, category
        Which category.
    count
        Images of the category.
    recall
        Cluster recall in [0, 1]: largest share of the category's images in one k-means cluster, mean over
        the k-means seeds.
    recall_range
        Smallest and largest over the seeds.
    expected
        Mean cluster recall of random subsets of the same size.
    p_value
        Share of random subsets with at least this recall, (b + 1) / (m + 1).
    adjusted_p
        The p-value after Holm's correction over the family that was tested.
    separability
        Cross-validated AUC in [0, 1] of a linear classifier of this category against the others.
    embedder
        Name of the embedder.
    critical_recall
        Recall from which the adjusted p-value would be small enough, whatever the other categories show;
        above 1 where no recall would do.

    All figures are ``None`` where they are unknown (fewer than ten images).
    """

    semantic: str
    category: str
    count: int
    recall: float | None = None
    recall_range: tuple[float, float] | None = None
    expected: float | None = None
    p_value: float | None = None
    adjusted_p: float | None = None
    separability: float | None = None
    embedder: str = ""
    critical_recall: float | None = None

    @property
    def lift(self) -> float | None:
        """Recall over the recall expected of random subsets of the same size."""
        if self.recall is None or not self.expected:
            return None
        return self.recall / self.expected

    def is_important(self, *, min_lift: float, max_p: float) -> bool | None:
        """Return whether lift and adjusted p-value reach their bars; ``None`` if unknown."""
        if self.lift is None or self.adjusted_p is None:
            return None
        return self.lift >= min_lift and self.adjusted_p <= max_p

    @property
    def told_apart(self) -> bool | None:
        """Whether a linear classifier tells the category's images from the others; ``None`` if unknown."""
        return None if self.separability is None else self.separability >= TOLD_APART

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python, the lift included."""
        return {**{key: plain(value) for key, value in asdict(self).items()}, "lift": plain(self.lift)}

    def __str__(self) -> str:
        if self.recall is None:
            return f"importance unknown ({self.count} images, need {SMALLEST_KNOWN})"
        text = (
            f"cluster recall {self.recall:.2f}, lift {_number(self.lift)} over random subsets of "
            f"{self.count}, p {_p(self.p_value)}"
        )
        if self.adjusted_p is not None and self.adjusted_p != self.p_value:
            text += f" (adjusted {_p(self.adjusted_p)})"
        if self.separability is not None:
            text += f"; linear separability (AUC) {self.separability:.2f}"
        return text


@dataclass(frozen=True, slots=True)
class LabelError:
    """How often a labeller was right about one category, counted where the truth was known.

    Parameters
    ----------
    recall
        (k, n): of n images of the category that got a certain label, k got this one.
    specificity
        (k, n): of n images of other categories that got a certain label, k did not get this one.
    source
        Where it was counted, e.g. ``"240 reference labels"``; shown in verdicts.
    """

    recall: tuple[int, int]
    specificity: tuple[int, int]
    source: str = ""

    def __str__(self) -> str:
        (hits, own), (rejections, others) = self.recall, self.specificity
        where = f", counted on {self.source}" if self.source else ""
        return f"recall {hits}/{own}, specificity {rejections}/{others}{where}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An image that may belong to a category though it is not labelled so.

    Parameters
    ----------
    id
        Sample id (a path for files).
    value
        How near it is; smaller is nearer.
    measure
        What ``value`` is, e.g. ``"similarity missing"`` or ``"distance"``.
    uncertain
        Whether the image has no certain label.
    """

    id: str
    value: float
    measure: str
    uncertain: bool = False

    def __str__(self) -> str:
        return f"{self.id} ({self.measure} {self.value:.3g}{', uncertain' if self.uncertain else ''})"


@dataclass(frozen=True, slots=True)
class SemanticEvidence:
    """What is known of one semantic in one data set.

    Parameters
    ----------
    semantic
        Its name; for a combination ``"day_night × clear_rain"``.
    counts
        Real images per category by certain label; every category is a key, with 0 where there is none.
    uncertain
        Real images without a certain label.
    possible
        Category → how many of the uncertain images could belong to it; ``None`` = all of them.
    synthetic
        Accepted synthetic images per category.
    groups
        Distinct groups per category, real and synthetic; ``None`` where groups are not known.
    group_images
        Category → numbers of its images in each group that holds real ones only. A labeller's false alarms
        can make up a group of few images, hardly one of many. In a category left out any group may have one.
    label_source
        Where the labels come from, for people.
    estimated
        Whether a model made the labels.
    label_error
        Category → known errors of the labeller.
    importance
        Category → its importance.
    candidates
        Category → nearest images that are not labelled so.
    provenance
        What replays the figures (model fingerprints, seed, ...).
    problem
        Why the semantic could not be labelled at all; then everything else is empty.
    """

    semantic: str
    counts: Mapping[str, int] = field(default_factory=dict)
    uncertain: int = 0
    possible: Mapping[str, int] | None = None
    synthetic: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] | None = None
    group_images: Mapping[str, Sequence[int]] = field(default_factory=dict)
    label_source: str = "labels as given"
    estimated: bool = False
    label_error: Mapping[str, LabelError] = field(default_factory=dict)
    importance: Mapping[str, CategoryImportance] = field(default_factory=dict)
    candidates: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)
    problem: str = ""

    @property
    def real(self) -> int:
        """All real images, uncertain ones included."""
        return sum(self.counts.values()) + self.uncertain

    @property
    def images(self) -> int:
        """All images, synthetic ones included."""
        return self.real + sum(self.synthetic.values())


@dataclass(frozen=True, slots=True)
class LabelMatches:
    """How the labels of one category compare with reference labels.

    Parameters
    ----------
    category
        The category.
    correct
        Images with this label that the reference puts in the category.
    labelled
        Images with this label that have a reference.
    actual
        Images that the reference puts in the category.
    actual_certain
        Of these, how many have a certain label.
    certain
        Images with a reference and a certain label, of any category.
    """

    category: str
    correct: int
    labelled: int
    actual: int
    actual_certain: int
    certain: int

    def error(self, source: str = "") -> LabelError:
        """Return recall and specificity among certain labels, as the correction of counts takes them."""
        others = self.certain - self.actual_certain
        false_alarms = self.labelled - self.correct
        return LabelError((self.correct, self.actual_certain), (others - false_alarms, others), source)


@dataclass(frozen=True, slots=True)
class WordingAgreement:
    """How far the labels depend on the wording of the prompts.

    Parameters
    ----------
    wordings
        Wordings tried, each alone.
    images
        Images labelled.
    unanimous
        Images that get the same category under all wordings.
    kappa
        Fleiss' kappa in [-1, 1]: agreement of pairs of wordings beyond chance; ``None`` where undefined
        (every label is the same category).
    split
        Ids of images that do not get the same category, the most divided first; at most ten.
    """

    wordings: int
    images: int
    unanimous: int
    kappa: float | None
    split: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelReliability:
    """What is known of the labels of one semantic.

    Parameters
    ----------
    semantic, source
        The semantic, and where its labels come from.
    images, uncertain
        All images, and those without a certain label.
    reference
        Images with a reference label.
    matches
        One entry per category.
    mistakes
        (id, label, reference) of images labelled wrongly; at most ten.
    agreement
        Agreement over wordings; ``None`` where there is one wording, or the labels are given.
    problem
        Why there are no labels at all; then everything else is empty.
    """

    semantic: str
    source: str = ""
    images: int = 0
    uncertain: int = 0
    reference: int = 0
    matches: tuple[LabelMatches, ...] = ()
    mistakes: tuple[tuple[str, str, str], ...] = ()
    agreement: WordingAgreement | None = None
    problem: str = ""

    def label_error(self) -> dict[str, LabelError]:
        """Return category → known errors, for the correction of counts."""
        source = f"{self.reference} reference labels"
        return {match.category: match.error(source) for match in self.matches}

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {key: plain(value) for key, value in asdict(self).items()}

    def __str__(self) -> str:
        rows = [[f"{self.semantic} ({self.source})", "precision", "recall"]]
        rows += [
            [match.category, f"{match.correct}/{match.labelled}", f"{match.correct}/{match.actual}"]
            for match in self.matches
        ]
        return f"{text_table(rows)}\nuncertain {self.uncertain}/{self.images}"


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned text: first column to the left, others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"


def _p(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"
