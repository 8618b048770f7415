"""Area under the ROC curve, for many weightings of the images at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.arrays import Doubles


def area_under_roc(
    scores: ArrayLike,
    positive: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    prior: tuple[Doubles, Doubles] | None = None,
) -> Doubles:
    """Return the chance that a positive image scores above a negative one, ties counting half.

    Parameters
    ----------
    scores
        ``(n,)``, higher = more likely positive.
    positive
        ``(n,)`` True for positive images.
    weights
        ``(resamples, n)`` non-negative; ``None`` = one resample in which each image counts once.
    prior
        ``(resamples,)`` pairs that are added as won and as lost, beside as many pairs as the smaller side
        has weight: what keeps resamples of a faultless score from showing no spread.

    Returns
    -------
    areas
        ``(resamples,)`` in [0, 1]; NaN where a resample has weight on one side only.

    Raises
    ------
    ArgumentError
        If the arguments do not have one entry per image.
    NonFiniteError
        If a score is NaN or infinite.
    TooFewError
        If there are no positive or no negative images.
    """
    values = np.asarray(scores, dtype=np.float64)
    members = np.asarray(positive, dtype=bool)
    table = np.ones((1, len(values))) if weights is None else np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or members.shape != values.shape or table.ndim != 2 or table.shape[1] != len(values):
        raise ArgumentError(
            f"scores {values.shape}, positive {members.shape}, weights {table.shape}: need one per image"
        )
    if not np.isfinite(values).all():
        raise NonFiniteError("a score is NaN or infinite")
    if members.all() or not members.any():
        raise TooFewError(f"{int(members.sum())} of {len(members)} images are positive: need both sides")
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=-np.inf) > 0)
    table = table[:, order]
    wins = np.add.reduceat(table * members[order], starts, axis=1)
    losses = np.add.reduceat(table * ~members[order], starts, axis=1)
    below = np.cumsum(losses, axis=1) - losses / 2
    of, against = wins.sum(axis=1), losses.sum(axis=1)
    won, pairs = (wins * below).sum(axis=1), of * against
    area: Doubles = np.divide(won, pairs, out=np.full(len(table), np.nan), where=pairs > 0)
    if prior is not None:
        smaller = np.minimum(of, against)
        area = (area * smaller + prior[0]) / (smaller + prior[0] + prior[1])
    return area
