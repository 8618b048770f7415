"""Importance: whether the embedder tells a category's images apart from the rest.

A category whose images gather in one cluster of the embedding space looks
different to the model, so the model's behaviour on it cannot be read off the
other images. Cluster recall is biased upward for few images; therefore it is
shown as a lift over random subsets of the same size, with a p-value.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import SMALLEST_KNOWN, CategoryImportance, text_table
from pytest_semcov.gates.verdict import Plain, plain
from pytest_semcov.metrics.arrays import Floats, as_embeddings, group_codes
from pytest_semcov.metrics.cluster_recall import (
    Assignments,
    assign_clusters,
    cluster_recall,
    k_means,
    null_recalls,
)
from pytest_semcov.metrics.multiple_testing import holm
from pytest_semcov.metrics.separability import separability
from pytest_semcov.semantics.descriptors import check_protocol

_DEDUCE_SEED = 42


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance of each category of one semantic.

    Parameters
    ----------
    semantic
        The semantic's name.
    categories
        One entry per category, in the semantic's order.
    embedder
        Name of the embedder.
    clusters, repeats, permutations, seed
        k of k-means, its seeds, random subsets per category, root of the random numbers.
    protocol
        ``"matched"`` or ``"deduce"``.
    """

    semantic: str
    categories: tuple[CategoryImportance, ...]
    embedder: str = ""
    clusters: int = 6
    repeats: int = 0
    permutations: int = 0
    seed: int = 0
    protocol: str = "matched"

    def __getitem__(self, category: str) -> CategoryImportance:
        """Return one category's figures.

        Raises
        ------
        KeyError
            If there is no such category; the message lists them.
        """
        for entry in self.categories:
            if entry.category == category:
                return entry
        raise KeyError(f"{category!r}; there are {', '.join(entry.category for entry in self.categories)}")

    def by_category(self) -> dict[str, CategoryImportance]:
        """Return category → figures."""
        return {entry.category: entry for entry in self.categories}

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            **{key: plain(value) for key, value in asdict(self).items() if key != "categories"},
            "categories": [entry.to_dict() for entry in self.categories],
        }

    def __str__(self) -> str:
        return importance_table(self.categories)


def importance_table(entries: Sequence[CategoryImportance]) -> str:
    """Return figures of importance as a table, one category a line."""
    header = ["semantic: category", "images", "recall", "lift", "p", "adjusted p", "AUC"]
    rows = [
        [
            f"{entry.semantic}: {entry.category}",
            str(entry.count),
            *(
                "-" if value is None else f"{value:.{digits}g}"
                for value, digits in (
                    (entry.recall, 3),
                    (entry.lift, 3),
                    (entry.p_value, 2),
                    (entry.adjusted_p, 2),
                    (entry.separability, 3),
                )
            ),
        ]
        for entry in entries
    ]
    return text_table([header, *rows])


def importance(
    embeddings: ArrayLike,
    codes: ArrayLike,
    categories: Sequence[str],
    *,
    semantic: str = "",
    clusters: int = 6,
    repeats: int = 5,
    permutations: int = 1_999,
    seed: int = 0,
    groups: Sequence[object] | None = None,
    assignments: Assignments | None = None,
    embedder: str = "",
    protocol: str = "matched",
    max_p: float = 0.01,
    tests: int | None = None,
) -> Importance:
    """Measure the importance of every category of a semantic.

    Parameters
    ----------
    embeddings
        ``(n, d)`` embeddings of all images, of one embedder. For ``protocol="deduce"`` not normalised.
    codes
        ``(n,)`` category per image, -1 = uncertain.
    categories
        Names of the categories.
    semantic, embedder
        Names for reports.
    clusters, repeats
        See :func:`assign_clusters`.
    permutations
        Random subsets per category. The smallest p-value is 1 / (permutations + 1); see
        :func:`permutations_for` when many categories are tested together.
    seed
        Root of all random numbers.
    groups
        ``(n,)`` group per image. Random subsets are then drawn by groups: they have the category's number
        of images, in blocks as large as those the category has in its groups.
    assignments
        Result of :func:`assign_clusters` for these embeddings, when several semantics share it.
    protocol
        ``"deduce"``: see :func:`deduce_cluster_recall`; recall alone is filled in.
    max_p, tests
        The adjusted p-value that will be asked for, and how many categories with at least ten images will be
        tested together (default: those of this semantic): the critical recall follows from them.

    Returns
    -------
    importance
        Adjusted p-values are Holm's over this semantic's categories; :func:`adjust_together` corrects over
        several semantics.

    Raises
    ------
    ArgumentError
        If codes, groups or assignments do not have one entry per row.
    TooFewError
        If there are fewer images than clusters.
    """
    array = as_embeddings(embeddings)
    labels = _checked_codes(codes, len(array), categories)
    if check_protocol(protocol) == "deduce":
        percent = deduce_cluster_recall(array, labels, categories, clusters=clusters)
        entries = [
            CategoryImportance(
                semantic,
                category,
                int((labels == code).sum()),
                recall=None if math.isnan(percent[category]) else percent[category] / 100,
                embedder=embedder,
            )
            for code, category in enumerate(categories)
        ]
        return Importance(semantic, tuple(entries), embedder, clusters, 1, 0, _DEDUCE_SEED, protocol)
    if permutations < 1:
        raise ArgumentError(f"permutations={permutations}: need at least 1")
    names = group_codes(groups, len(array), name="importance")
    group_of = None if names is None else np.unique(names, return_inverse=True)[1]
    if assignments is None:
        assignments = assign_clusters(array, clusters=clusters, repeats=repeats, seed=seed)
    elif assignments.ndim != 2 or assignments.shape[1] != len(array):
        raise ArgumentError(f"assignments of shape {assignments.shape} for {len(array)} images")
    known = known_categories(labels, len(categories))
    if tests is None:
        tests = known
    elif tests < known:
        raise ArgumentError(f"tests={tests}: {known} categories of this semantic alone are tested")
    entries = []
    for code, category in enumerate(categories):
        members = labels == code
        entry = CategoryImportance(semantic, category, int(members.sum()), embedder=embedder)
        if entry.count >= SMALLEST_KNOWN:
            recalls = np.array([cluster_recall(run, members) for run in assignments])
            null = null_recalls(
                assignments,
                members,
                permutations=permutations,
                generator=_generator(seed, semantic, category),
                groups=group_of,
            )
            # Both are averages of the same fractions; the tolerance keeps rounding from breaking ties.
            reached = int((null >= recalls.mean() - 1e-9).sum())
            entry = replace(
                entry,
                recall=float(recalls.mean()),
                recall_range=(float(recalls.min()), float(recalls.max())),
                expected=float(null.mean()),
                p_value=(reached + 1) / (permutations + 1),
                critical_recall=_critical_recall(null, max_p / tests, entry.count * len(assignments)),
                separability=_separability_of(array, labels, code, entries, categories, group_of, seed),
            )
        entries.append(entry)
    measured = Importance(
        semantic, tuple(entries), embedder, clusters, len(assignments), permutations, seed, protocol
    )
    return adjust_together([measured])[0]


def adjust_together(importances: Sequence[Importance]) -> list[Importance]:
    """Return the same figures with p-values adjusted by Holm over all their categories together."""
    known = [entry for each in importances for entry in each.categories if entry.p_value is not None]
    adjusted = dict(
        zip(
            (id(entry) for entry in known),
            holm([entry.p_value for entry in known if entry.p_value is not None]),
            strict=True,
        )
    )
    return [
        replace(
            each,
            categories=tuple(replace(entry, adjusted_p=adjusted.get(id(entry))) for entry in each.categories),
        )
        for each in importances
    ]


def permutations_for(tests: int, *, max_p: float = 0.01, least: int = 1_999) -> int:
    """Return how many random subsets let each of ``tests`` categories reach ``max_p`` after correction.

    Holm multiplies the smallest p-value by the number of tests, so 1/(permutations + 1) must be at most
    half of ``max_p`` / tests for a category to have a chance.
    """
    if tests < 0 or not 0 < max_p < 1:
        raise ArgumentError(f"tests={tests}, max_p={max_p}: need tests ≥ 0 and 0 < max_p < 1")
    return max(least, math.ceil(2 * tests / max_p) - 1)


def known_categories(codes: NDArray[np.int64], categories: int) -> int:
    """Return how many categories have images enough for their importance to be tested."""
    return int((np.bincount(codes[codes >= 0], minlength=categories) >= SMALLEST_KNOWN).sum())


def _critical_recall(null: NDArray[np.float64], level: float, steps: int) -> float:
    """Return the smallest recall, a multiple of 1 / ``steps``, whose permutation p-value reaches a level."""
    allowed = math.floor(level * (len(null) + 1) + 1e-9) - 1  # so many random subsets may have as much
    if allowed < 0:
        return 1.0 + 1.0 / steps
    return float(-np.partition(-null, allowed)[allowed]) + 1.0 / steps if allowed < len(null) else 0.0


def _separability_of(
    array: Floats,
    labels: NDArray[np.int64],
    code: int,
    earlier: Sequence[CategoryImportance],
    categories: Sequence[str],
    groups: NDArray[np.int64] | None,
    seed: int,
) -> float | None:
    """Return the AUC of one category against the others; of two categories both have the same."""
    if len(categories) == 2 and code == 1 and earlier[0].separability is not None:
        return earlier[0].separability
    certain = labels >= 0
    return separability(
        array[certain],
        labels[certain] == code,
        groups=None if groups is None else groups[certain],
        seed=seed,
    )


def deduce_cluster_recall(
    embeddings: ArrayLike, codes: ArrayLike, categories: Sequence[str], *, clusters: int = 6
) -> dict[str, float]:
    """Return cluster recall as DEDUCE publishes it: category → percent with two decimals.

    One run of k-means (``random_state=42``, ten starts, rows in the order given) on the whole matrix scaled
    by its one minimum and maximum. NaN for a category without images.

    Parameters
    ----------
    embeddings
        ``(n, d)`` as the model gives them, not normalised.
    codes
        ``(n,)`` category per image, -1 = none.
    categories
        Names of the categories.
    clusters
        k of k-means.
    """
    array = as_embeddings(embeddings)
    labels = _checked_codes(codes, len(array), categories)
    low, high = array.min(), array.max()
    scaled = (array - low) / (high - low) if high > low else np.zeros_like(array)
    found = k_means(scaled, clusters, _DEDUCE_SEED)
    return {
        category: round(100 * cluster_recall(found, labels == code), 2)
        for code, category in enumerate(categories)
    }


def _checked_codes(codes: ArrayLike, rows: int, categories: Sequence[str]) -> NDArray[np.int64]:
    labels = np.asarray(codes, dtype=np.int64)
    if labels.shape != (rows,):
        raise ArgumentError(f"codes of shape {labels.shape} for {rows} images: need one per image")
    if len(labels) and not -1 <= labels.min() <= labels.max() < len(categories):
        raise ArgumentError(f"codes must lie in -1…{len(categories) - 1}")
    return labels


def _generator(seed: int, semantic: str, category: str) -> np.random.Generator:
    name = hashlib.sha256(f"{semantic}\0{category}".encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(name[:8], "big")])
