"""Importance: whether the embedder tells a category's images apart from the rest.

A category whose images gather in one cluster of the embedding space looks
different to the model, so the model's behaviour on it cannot be read off the
other images. Cluster recall is biased upward for few images; therefore it is
shown as a lift over random subsets of the same size, with a p-value.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import SMALLEST_KNOWN, CategoryImportance, text_table
from pytest_semcov.gates.verdict import Plain, plain
from pytest_semcov.metrics.arrays import Floats, as_embeddings, canonical_order, group_codes, require_rows
from pytest_semcov.metrics.multiple_testing import holm
from pytest_semcov.semantics.descriptors import check_protocol

Assignments = NDArray[np.int64]
"""``(repeats, n)``: cluster of each image under each k-means seed."""

_BLOCK_VALUES = 4_000_000
_FOLDS = 5
_PROBE_IMAGES = 2_000
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


def assign_clusters(
    embeddings: ArrayLike, *, clusters: int = 6, repeats: int = 5, seed: int = 0
) -> Assignments:
    """Cluster the embeddings by k-means under several seeds, once for all semantics.

    Parameters
    ----------
    embeddings
        ``(n, d)``, n at least ``clusters``.
    clusters
        k of k-means.
    repeats
        Number of runs; run r has ``random_state = seed + r`` and keeps the best of ten starts.
    seed
        Non-negative.

    Returns
    -------
    assignments
        ``(repeats, n)`` int64 in 0…clusters-1. The order of the rows has no influence on the grouping:
        they are sorted by content first.

    Raises
    ------
    TooFewError
        If there are fewer images than clusters.
    """
    array = as_embeddings(embeddings)
    if repeats < 1:
        raise ArgumentError(f"repeats={repeats}: need at least 1")
    order = canonical_order(array)
    assignments = np.empty((repeats, len(array)), dtype=np.int64)
    for run in range(repeats):
        assignments[run, order] = _k_means(array[order], clusters, seed + run)
    return assignments


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


def cluster_recall(clusters: ArrayLike, members: ArrayLike) -> float:
    """Return the largest share of the members in one cluster, in (0, 1]; NaN without members.

    Parameters
    ----------
    clusters
        ``(n,)`` cluster per image (any integers ≥ 0).
    members
        ``(n,)`` True for the category's images.
    """
    own = np.asarray(clusters)[np.asarray(members, dtype=bool)]
    return float(np.bincount(own).max() / len(own)) if len(own) else math.nan


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
    found = _k_means(scaled, clusters, _DEDUCE_SEED)
    return {
        category: round(100 * cluster_recall(found, labels == code), 2)
        for code, category in enumerate(categories)
    }


def null_recalls(
    assignments: Assignments,
    members: NDArray[np.bool_],
    *,
    permutations: int,
    generator: np.random.Generator,
    groups: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the cluster recall (mean over the runs) of random subsets as large as the category.

    Parameters
    ----------
    assignments
        ``(repeats, n)`` clusters.
    members
        ``(n,)`` True for the category's images, at least one.
    permutations
        Number of subsets.
    generator
        Source of the random numbers.
    groups
        ``(n,)`` group number per image, 0…G-1 without gaps, or ``None`` for independent images.

    Returns
    -------
    recalls
        ``(permutations,)`` float64.
    """
    size = int(members.sum())
    clusters = int(assignments.max()) + 1
    blocks = (
        _draw_images(assignments, size, clusters, permutations, generator)
        if groups is None or groups.max() + 1 == len(groups)
        else _draw_groups(assignments, members, groups, clusters, permutations, generator)
    )
    return np.asarray(blocks.max(axis=2).mean(axis=1) / size)


def _draw_images(
    assignments: Assignments, size: int, clusters: int, permutations: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return cluster counts ``(permutations, repeats, clusters)`` of subsets of independent images.

    Images in the same cluster under every run are interchangeable: drawing how many of each such cell are
    in the subset (multivariate hypergeometric) is exact and needs no image indices.
    """
    cells, cell_sizes = np.unique(assignments.T, axis=0, return_counts=True)
    one_hot = (cells[:, :, None] == np.arange(clusters)).astype(np.int64).reshape(len(cells), -1)
    counts = np.empty((permutations, one_hot.shape[1]), dtype=np.int64)
    step = max(1, _BLOCK_VALUES // len(cells))
    for start in range(0, permutations, step):
        stop = min(start + step, permutations)
        drawn = generator.multivariate_hypergeometric(cell_sizes, size, size=stop - start, method="marginals")
        counts[start:stop] = drawn @ one_hot
    return counts.reshape(permutations, len(assignments), clusters)


def _draw_groups(
    assignments: Assignments,
    members: NDArray[np.bool_],
    groups: NDArray[np.int64],
    clusters: int,
    permutations: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Return cluster counts ``(permutations, repeats, clusters)`` of subsets drawn by groups.

    Groups come in random order; each gives a run of neighbouring images (from a random start, round the
    end) as long as one of the category's own blocks, or all it has, until the subset is full.
    """
    size = int(members.sum())
    group_sizes = np.bincount(groups)
    blocks = np.bincount(groups[members], minlength=len(group_sizes))
    blocks = blocks[blocks > 0]
    count = len(group_sizes)
    # Images by group, each group's list written twice so that a run round its end is one slice.
    order = np.argsort(groups, kind="stable")
    starts = np.cumsum(group_sizes) - group_sizes
    twice = np.concatenate([np.tile(order[s : s + n], 2) for s, n in zip(starts, group_sizes, strict=True)])
    one_hot = (assignments.T[twice][:, :, None] == np.arange(clusters)).reshape(len(twice), -1)
    running = np.zeros((len(twice) + 1, one_hot.shape[1]), dtype=np.int64)
    np.cumsum(one_hot, axis=0, out=running[1:])

    counts = np.empty((permutations, one_hot.shape[1]), dtype=np.int64)
    step = max(1, _BLOCK_VALUES // (count * one_hot.shape[1]))
    for start in range(0, permutations, step):
        rows = min(step, permutations - start)
        chosen = generator.permuted(np.tile(np.arange(count), (rows, 1)), axis=1)
        wanted = np.concatenate(
            [
                generator.permuted(np.tile(blocks, (rows, 1)), axis=1),
                generator.choice(blocks, (rows, count - len(blocks))),
            ],
            axis=1,
        )
        available = group_sizes[chosen]
        taken = _until_full(np.minimum(wanted, available), size)
        # Where the blocks do not fill the subset (large categories), groups give what they have left.
        taken += _until_full(available - taken, size - taken.sum(axis=1, keepdims=True))
        first = 2 * starts[chosen] + generator.integers(0, available)
        row, column = np.nonzero(taken)
        begin, length = first[row, column], taken[row, column]
        runs = running[begin + length] - running[begin]
        counts[start : start + rows] = np.add.reduceat(runs, np.searchsorted(row, np.arange(rows)), axis=0)
    return counts.reshape(permutations, len(assignments), clusters)


def _until_full(offers: NDArray[np.int64], size: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what is taken of each offer, from left to right, until each row holds ``size``."""
    before = np.cumsum(offers, axis=1) - offers
    return np.asarray(np.clip(size - before, 0, offers))


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


def separability(
    embeddings: ArrayLike,
    members: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> float | None:
    """Return the cross-validated AUC of a linear classifier of members against others.

    Logistic regression on standardised features, five folds (fewer where a side has fewer images), folds
    by group where groups are given; at most 1,000 images of either side, drawn by ``seed``. ``None`` where
    no fold holds both sides.

    Parameters
    ----------
    embeddings
        ``(n, d)``.
    members
        ``(n,)`` True for the category's images.
    groups
        ``(n,)`` group per image.
    seed
        Of the draw and the folds.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    array = as_embeddings(embeddings)
    truth = np.asarray(members, dtype=bool)
    generator = np.random.default_rng(seed)
    rows = np.sort(
        np.concatenate(
            [
                generator.permutation(np.flatnonzero(truth == side))[: _PROBE_IMAGES // 2]
                for side in (True, False)
            ]
        )
    )
    array, truth = array[rows], truth[rows]
    folds = min(_FOLDS, int(truth.sum()), int((~truth).sum()))
    if folds < 2:
        return None
    if groups is None:
        splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(array, truth)
    else:
        of_rows = np.asarray(groups)[rows]
        folds = min(folds, len(np.unique(of_rows)))
        if folds < 2:
            return None
        splits = StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(array, truth, of_rows)
    scores = []
    for train, test in splits:
        if len(set(truth[train])) < 2 or len(set(truth[test])) < 2:
            continue
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        with warnings.catch_warnings():
            # A probe that has not fully converged still ranks the images.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(array[train], truth[train])
        scores.append(float(roc_auc_score(truth[test], model.decision_function(array[test]))))
    return float(np.mean(scores)) if scores else None


def _k_means(array: Floats, clusters: int, random_state: int) -> NDArray[np.int64]:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if clusters < 2:
        raise ArgumentError(f"clusters={clusters}: need at least 2")
    require_rows("embeddings", len(array), clusters, f"k-means with {clusters} clusters")
    with warnings.catch_warnings():
        # Fewer distinct images than clusters: some clusters stay empty, recall is still defined.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(clusters, random_state=random_state, n_init=10).fit_predict(array)
    return np.asarray(found, dtype=np.int64)


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
