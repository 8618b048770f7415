"""Signs that a synthetic set is no set of new images: copies, collapse, repetition, untouched sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.arrays import Doubles, Indices, Mask
from pytest_semcov.metrics.prdc import ball_radii


def near_repetitions(within: Doubles, tolerance: float) -> Mask:
    """Mark rows that repeat an earlier row.

    Parameters
    ----------
    within
        ``(n, n)`` distances.
    tolerance
        Rows at most this far from an earlier row that is kept are repetitions.

    Returns
    -------
    repeated
        ``(n,)`` bool.
    """
    repeated = np.zeros(len(within), dtype=bool)
    close = within <= tolerance
    np.fill_diagonal(close, False)
    for row in np.flatnonzero(close.any(axis=1)):
        repeated[row] = bool((close[row, :row] & ~repeated[:row]).any())
    return repeated


@dataclass(frozen=True, slots=True, eq=False)
class CopyExcess:
    """How much nearer S lies to single images of U than held-out images of U do.

    Parameters
    ----------
    share
        Largest excess of the share of S over the share of held-out U within the same relative distance of
        an image of U: 0 = S looks like other real images, 1 = all of S are copies.
    critical
        Excess that real images would exceed with probability ``level`` at these sizes.
    relative
        ``(m,)`` distance from each row of S to the nearest of U, divided by that image's distance to its
        own nearest neighbour in U.
    nearest
        ``(m,)`` that nearest row of U.
    held_out
        ``(n,)`` the same relative distance of each row of U from the others.
    """

    share: float
    critical: float
    relative: Doubles
    nearest: Indices
    held_out: Doubles


def copy_excess(within_real: Doubles, synthetic_to_real: Doubles, *, level: float) -> CopyExcess:
    """Compare how near S and held-out images of U come to images of U.

    Distances are taken relative to how isolated the approached image is, so that a set concentrated where U
    is dense is not called copied. The excess is the one-sided two-sample Smirnov statistic between S and U
    left out one by one; its critical value is the bound exp(-2 D² nm / (n + m)).

    Parameters
    ----------
    within_real
        ``(n, n)`` distances within U, n at least 3.
    synthetic_to_real
        ``(m, n)``.
    level
        Probability of a false alarm.
    """
    count = len(within_real)
    if count < 3:
        raise TooFewError(f"uncovered: have {count} rows, need at least 3 to look for copies")
    table = within_real.copy()
    np.fill_diagonal(table, np.inf)
    two = np.partition(table, 1, axis=1)[:, :2]
    nearest = table.argmin(axis=1)
    to_nearest = table.min(axis=1)
    # Nearest neighbour of `nearest[i]` among the rest without row i itself.
    mutual = nearest[nearest] == np.arange(count)
    scale = np.where(mutual, two[nearest, 1], two[nearest, 0])
    held_out = _relative(to_nearest, scale)
    closest = synthetic_to_real.argmin(axis=1)
    relative = _relative(synthetic_to_real.min(axis=1), two[closest, 0])
    thresholds = np.sort(np.concatenate([held_out, relative]))
    of_synthetic = np.searchsorted(np.sort(relative), thresholds, side="right") / len(relative)
    of_real = np.searchsorted(np.sort(held_out), thresholds, side="right") / count
    share = max(float((of_synthetic - of_real).max()), 0.0)
    critical = critical_excess(count, len(relative), level=level)
    return CopyExcess(share, critical, relative, closest, held_out)


def critical_excess(uncovered: int, synthetic: int, *, level: float) -> float:
    """Return the excess that real images exceed with at most the probability ``level`` at these sizes.

    The inverse of the bound exp(-2 D² nm / (n + m)) of the one-sided two-sample Smirnov statistic.
    """
    return float(np.sqrt(-np.log(level) / 2 * (1 / uncovered + 1 / synthetic)))


def _relative(distance: Doubles, scale: Doubles) -> Doubles:
    """Distance / scale, with 0 / 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result = distance / scale
    result[distance == 0] = 0.0
    return np.asarray(result)


def effective_number(within: Doubles, radius: float) -> float:
    """Return the number of distinct rows: the sum of 1 / (rows within ``radius``, itself included).

    n for rows far apart, the number of clumps for rows in clumps (T. Leinster and C. Cobbold, Ecology 93,
    2012, order 0 with a similarity of 0 or 1).
    """
    return float((1 / np.maximum((within <= radius).sum(axis=1), 1)).sum())


def relative_diversity(
    within_synthetic: Doubles,
    within_uncovered: Doubles,
    within_covered: Doubles,
    *,
    k: int,
    draws: int,
    seed: int,
) -> tuple[float, float, int]:
    """Effective number of distinct rows of S and of real images at equal n.

    The real images are U or C, whichever has fewer distinct ones: a translator cannot bring more variety
    than its sources have.

    Two rows are alike if they are no further apart than a real image is from its k-th nearest (median
    over U).

    Parameters
    ----------
    within_synthetic, within_uncovered, within_covered
        Distances within S, U and C; U has more than k rows.
    k
        Neighbour that gives the radius.
    draws
        Random subsets of equal size that are averaged.
    seed
        Seed of the draws.

    Returns
    -------
    of_synthetic, of_real, rows
        Mean effective numbers, and the size of the subsets.
    """
    if len(within_uncovered) <= k:
        raise TooFewError(
            f"uncovered: have {len(within_uncovered)} rows, need more than k = {k} to measure diversity"
        )
    radius = float(np.median(ball_radii(within_uncovered, k)))
    tables = (within_synthetic, within_uncovered, within_covered)
    rows = min(len(within) for within in tables)
    generator = np.random.default_rng(seed)
    totals = np.zeros(3)
    for _ in range(draws):
        for place, within in enumerate(tables):
            chosen = generator.choice(len(within), size=rows, replace=False)
            totals[place] += effective_number(within[np.ix_(chosen, chosen)], radius)
    of_synthetic, *of_real = totals / draws
    return float(of_synthetic), float(min(of_real)), rows
