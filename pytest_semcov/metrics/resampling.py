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
    noise
        ``(repeats,)`` for a score that is the length of something estimated, and so too large on few images:
        lengths of the estimate's deviation on each resample. The interval is then the score plus and minus
        their quantile, which the triangle inequality makes hold.
    plain
        ``(repeats,)`` the replicates before a prior was added: the share of them below the value tells how
        far resamples lie to one side of it. ``None`` = no correction for that.
    effective
        Number of independent groups that decides on the interval's width, see :func:`effective_groups`;
        ``None`` = ``independent``.
    excess
        How much larger the score is, on average, on a part of the images; see :func:`subsample`. The interval
        reaches twice as far further down.
    """

    value: float
    replicates: Doubles
    independent: int
    images: int
    noise: Doubles | None = None
    plain: Doubles | None = None
    effective: float | None = None
    excess: float = 0.0

    @property
    def finite(self) -> bool:
        """Whether the score could be computed on all images and on every resample."""
        return math.isfinite(self.value) and bool(np.isfinite(self.replicates).all())

    def interval(self, *, confidence: float = 0.95) -> Interval:
        """Return the score's interval, see :func:`expanded_interval` and ``noise``."""
        if self.noise is not None:
            require_confidence(confidence)
            reach = float(np.quantile(self.noise, confidence))
            return max(self.value - reach, 0.0), self.value + reach
        low, high = expanded_interval(
            self.replicates,
            self.value,
            independent=self._groups,
            confidence=confidence,
            plain=self.plain,
        )
        return low - 2 * max(self.excess, 0.0), high

    @property
    def _groups(self) -> float:
        return self.independent if self.effective is None else self.effective

    def ratio_interval(self, other: Estimate, *, confidence: float = 0.95) -> Interval:
        """Return Fieller's interval of the ratio to a score on the same drawing.

        It is all numbers where the other score cannot be told from 0.
        """
        independent = min(self._groups, other._groups)
        require_confidence(confidence)
        if not independent >= 2:
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
            effective=min(self._groups, other._groups),
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


def subsample(
    rows: int,
    *,
    groups: Sequence[object] | None = None,
    share: float = 0.25,
    repeats: int = 50,
    seed: int = 0,
) -> Draws:
    """Draw a part of the groups, each at most once.

    A score that is too large on few images (average precision takes the largest of many precisions) is larger
    still on a part of them. If its excess falls with the square root of the number of images, that on a
    quarter of them lies above that on all by as much as the latter above the truth.

    Parameters
    ----------
    rows, groups, repeats, seed
        As in :func:`resample`.
    share
        Of the groups; at least 1 is drawn.

    Returns
    -------
    draws
        ``(repeats, rows)`` of 0 and 1.

    Raises
    ------
    ArgumentError
        If there is not one group per image, or the share is not between 0 and 1.
    TooFewError
        If there are fewer than 2 images or groups.
    """
    require_whole("repeats", repeats, least=1)
    if not 0 < share < 1:
        raise ArgumentError(f"share is {share}: need a number between 0 and 1")
    codes, count = _groups(rows, groups)
    generator = np.random.default_rng(seed)
    ranks = generator.random((repeats, count)).argsort(axis=1).argsort(axis=1)
    return (ranks < max(1, round(share * count))).astype(np.int32)[:, codes]


def effective_groups(counts: ClassCounts, *, images_per_group: float = 1.0) -> float:
    """Return from how many groups a mean over classes is known.

    A mean of shares of which some come from few images is as uncertain as those are. By Welch and
    Satterthwaite (F. Satterthwaite, Biometrics Bull. 2, 1946) its degrees of freedom, plus one, from each
    class' hits.

    Parameters
    ----------
    counts
        Of all images, one row.
    images_per_group
        Mean number of images in a group.

    Returns
    -------
    groups
        At least 2, at most the number of groups.
    """
    total = float(counts.true.sum()) / images_per_group
    unit = np.where(counts.unit[0] > 0, counts.unit[0], 1.0)
    images = counts.true[0] / unit
    present = images > 0
    shares = (counts.hits[0] / unit + 0.5)[present] / (images[present] + 1)
    groups = np.maximum(images[present] / images_per_group, 2.0)
    variances = shares * (1 - shares) / groups
    freedom = variances.sum() ** 2 / (variances**2 / (groups - 1)).sum()
    return float(min(max(freedom + 1, 2.0), max(total, 2.0)))


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
    replicates: Doubles,
    estimate: float,
    *,
    independent: float,
    confidence: float = 0.95,
    plain: Doubles | None = None,
) -> Interval:
    """Return the expanded, bias-corrected percentile interval.

    Plain percentiles are too narrow where few groups are drawn; the expanded ones are as wide as intervals by
    Student's t would be (T. Hesterberg, Amer. Statist. 69, 2015). Where more than half of the resamples lie
    on one side of the estimate, percentiles further to the other side are taken (B. Efron, Canad. J. Statist.
    9, 1981). The estimate always lies inside.

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
    plain
        ``(repeats,)`` replicates whose position about the estimate corrects the percentiles; ``None`` = no
        correction.

    Raises
    ------
    NonFiniteError
        If the estimate or a replicate is NaN or infinite.
    TooFewError
        If fewer than 2 groups were drawn, or there are no replicates.
    """
    require_confidence(confidence)
    if not independent >= 2 or not len(replicates):
        raise TooFewError(
            f"an interval from {len(replicates)} resamples of {independent} groups: need 1 of 2 at least"
        )
    if not (np.isfinite(replicates).all() and math.isfinite(estimate)):
        raise NonFiniteError("the estimate or a resample is NaN or infinite")
    critical = float(stats.t.isf((1 - confidence) / 2, independent - 1))
    reach = math.sqrt(independent / (independent - 1)) * critical
    tilt = 0.0
    if plain is not None:
        below = float(((plain < estimate) + 0.5 * (plain == estimate)).mean())
        tilt = 2 * float(stats.norm.ppf(min(max(below, 1 / len(plain)), 1 - 1 / len(plain))))
    low, high = np.quantile(replicates, stats.norm.cdf([tilt - reach, tilt + reach]))
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
