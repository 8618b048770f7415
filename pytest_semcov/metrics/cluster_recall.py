"""Cluster recall: how far a category's images gather in one cluster, and how far random images would."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Floats, as_embeddings, canonical_order, require_rows

Assignments = NDArray[np.int64]
"""``(repeats, n)``: cluster of each image under each k-means seed."""

_BLOCK_VALUES = 4_000_000


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
        assignments[run, order] = k_means(array[order], clusters, seed + run)
    return assignments


def k_means(array: Floats, clusters: int, random_state: int) -> NDArray[np.int64]:
    """Return the cluster of each row: scikit-learn's k-means, best of ten starts.

    Raises
    ------
    ArgumentError
        If ``clusters`` is below 2.
    TooFewError
        If there are fewer rows than clusters.
    """
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
    running = np.zeros((len(twice) + 1, one_hot.shape[1]), dtype=np.int32)
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


def largest_cell_at_most(bound: int, count: int, shares: Sequence[float]) -> float:
    """Return the probability that no cluster gets more than ``bound`` of ``count`` images.

    Images fall into clusters independently with the given shares (which sum to 1): a multinomial count.
    Exact, as the coefficient of a product of truncated Poisson series (B. Levin, "A representation for
    multinomial cumulative distribution functions", Ann. Stat. 9, 1981).
    """
    if bound >= count:
        return 1.0
    if bound * len(shares) < count:
        return 0.0
    product: NDArray[np.float64] = np.ones(1)
    for share in shares:
        cell = stats.poisson.pmf(np.arange(bound + 1), count * share)
        product = np.convolve(product, cell)[: count + 1]
    return min(float(product[count] / stats.poisson.pmf(count, count)), 1.0)


def expected_largest_share(count: int, shares: Sequence[float]) -> float:
    """Return the expected cluster recall of ``count`` random images: mean largest share in one cluster."""
    total = 0.0
    for bound in range(count):
        more = 1.0 - largest_cell_at_most(bound, count, shares)
        total += more
        if more < 1e-9:
            break
    return total / count
