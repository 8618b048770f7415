"""Resamples of images in whole groups, and intervals of scores from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.arguments import require_confidence, require_whole
from pytest_semcov.metrics.arrays import Doubles, group_codes
from pytest_semcov.metrics.classification import ClassCounts
from pytest_semcov.metrics.intervals import Interval, fieller

Draws = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A score with its values on resamples of the images.

    Parameters
    ----------
    value
        The score of all images.
    replicates
        ``(repeats,)`` scores of resamples. Replicates of two scores on one drawing are paired.
    independent
        Number of groups that were drawn.
    images
        Number of images scored.
    """

    value: float
    replicates: Doubles
    independent: int
    images: int

    @property
    def finite(self) -> bool:
        """Whether the score could be computed on all images and on every resample."""
        return math.isfinite(self.value) and bool(np.isfinite(self.replicates).all())

    def interval(self, *, confidence: float = 0.95) -> Interval:
        """Return the score's interval, see :func:`expanded_interval`."""
        return expanded_interval(
            self.replicates, self.value, independent=self.independent, confidence=confidence
        )

    def ratio_interval(self, other: Estimate, *, confidence: float = 0.95) -> Interval:
        """Return Fieller's interval of the ratio to a score on the same drawing.

        It is all numbers where the other score cannot be told from 0.
        """
        independent = min(self.independent, other.independent)
        require_confidence(confidence)
        if independent < 2:
            raise TooFewError("an interval from resamples of 1 group: need 2 at least")
        sign = math.copysign(1.0, other.value)
        return fieller(
            sign * self.replicates,
            sign * other.replicates,
            (sign * self.value, sign * other.value),
            float(stats.t.isf((1 - confidence) / 2, independent - 1)),
        )

    def minus(self, other: Estimate) -> Estimate:
        """Return the difference to a score on the same drawing.

        Raises
        ------
        ArgumentError
            If the numbers of resamples differ.
        """
        if len(self.replicates) != len(other.replicates):
            raise ArgumentError(
                f"{len(self.replicates)} and {len(other.replicates)} resamples: need scores on one drawing"
            )
        return Estimate(
            self.value - other.value,
            self.replicates - other.replicates,
            min(self.independent, other.independent),
            min(self.images, other.images),
        )


def resample(
    rows: int, *, groups: Sequence[object] | None = None, repeats: int = 999, seed: int = 0
) -> Draws:
    """Draw groups with replacement, as many as there are.

    Scores of several models on one draw are paired; that is what their difference needs.

    Parameters
    ----------
    rows
        Number of images.
    groups
        One group per image: images of one are drawn together; ``None`` = every image on its own.
    repeats
        Number of draws.
    seed
        Seed of the draws.

    Returns
    -------
    draws
        ``(repeats, rows)``: how often each image was drawn.

    Raises
    ------
    ArgumentError
        If there is not one group per image.
    TooFewError
        If there are fewer than 2 images or groups: one alone has no spread.
    """
    require_whole("rows", rows, least=0)
    require_whole("repeats", repeats, least=1)
    codes, count = _groups(rows, groups)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=repeats)
    return drawn.astype(np.int32)[:, codes]


def independent(rows: int, groups: Sequence[object] | None = None) -> int:
    """Return the number of groups, of images without groups.

    Raises
    ------
    ArgumentError
        If there is not one group per image.
    TooFewError
        If there are fewer than 2.
    """
    return _groups(rows, groups)[1]


def with_prior(
    counts: ClassCounts, *, images_per_group: float = 1.0, seed: int | Sequence[int] = 0
) -> ClassCounts:
    """Add to each resample of counts what Jeffreys' prior adds to a share: half a hit and half a miss.

    Without it, resamples of a model that made no error show no spread, and an interval of width 0 would claim
    that it never errs. The two halves are gamma variables, spread over the classes that a resample has, in
    units of one group. For one share this gives Jeffreys' interval (L. Brown, T. Cai and A. DasGupta,
    Statist. Sci. 16, 2001).

    Parameters
    ----------
    counts
        Of resamples of one set of images.
    images_per_group
        Mean number of images in a group.
    seed
        Seed of the gamma variables; another one for each model and set of images.
    """
    present = counts.true > 0
    among = present.sum(axis=1, keepdims=True)
    drawn = np.random.default_rng(seed).gamma(0.5 / among, size=(2, *counts.true.shape))
    hits, misses = drawn * images_per_group * counts.unit * present
    elsewhere = (misses.sum(axis=1, keepdims=True) - misses) / np.maximum(among - 1, 1) * present
    return ClassCounts(
        counts.hits + hits,
        counts.true + hits + misses,
        counts.predicted + hits + elsewhere,
        counts.unit,
    )


def expanded_interval(
    replicates: Doubles, estimate: float, *, independent: int, confidence: float = 0.95
) -> Interval:
    """Return the expanded percentile interval (T. Hesterberg, Amer. Statist. 69, 2015).

    Plain percentiles are too narrow where few groups are drawn; the expanded ones are as wide as intervals by
    Student's t would be. The estimate always lies inside.

    Parameters
    ----------
    replicates
        ``(repeats,)`` values of resamples.
    estimate
        The value of all images.
    independent
        Number of groups that were drawn.
    confidence
        E.g. 0.95.

    Raises
    ------
    NonFiniteError
        If the estimate or a replicate is NaN or infinite.
    TooFewError
        If fewer than 2 groups were drawn, or there are no replicates.
    """
    require_confidence(confidence)
    require_whole("independent", independent, least=0)
    if independent < 2 or not len(replicates):
        raise TooFewError(
            f"an interval from {len(replicates)} resamples of {independent} groups: need 1 of 2 at least"
        )
    if not (np.isfinite(replicates).all() and math.isfinite(estimate)):
        raise NonFiniteError("the estimate or a resample is NaN or infinite")
    critical = float(stats.t.isf((1 - confidence) / 2, independent - 1))
    tail = float(stats.norm.sf(math.sqrt(independent / (independent - 1)) * critical))
    low, high = np.quantile(replicates, [tail, 1 - tail])
    return min(float(low), estimate), max(float(high), estimate)


def _groups(rows: int, groups: Sequence[object] | None) -> tuple[NDArray[np.intp], int]:
    """Return each image's group as a number from 0, and how many there are."""
    names = group_codes(groups, rows, name="resample") if rows else None
    _, codes = np.unique(names if names is not None else np.arange(rows), return_inverse=True)
    count = int(codes.max()) + 1 if rows else 0
    if count < 2:
        what = "images" if names is None else "groups"
        raise TooFewError(f"resampling needs at least 2 {what}, have {count}")
    return codes, count
