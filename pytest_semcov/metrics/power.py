"""What a judgement could have seen at its number of images, and how many images it would take.

A gate can see a true value if it ends in FAIL with probability 0.8 where that value is true
(:data:`POWER`). Images are planned for a PASS with probability 0.9 (:data:`PLANNED`), since who collects
them wants an answer. Everything here is closed form or exact summation; no random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from scipy import special, stats

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arguments import require_confidence
from pytest_semcov.metrics.cluster_recall import expected_largest_share, largest_cell_at_most
from pytest_semcov.metrics.label_error import labels_at_most

POWER = 0.8
"""Probability of FAIL that makes a true value one that could have been seen."""

PLANNED = 0.9
"""Probability of PASS for which images are planned."""

MOST_IMAGES = 1_000_000
"""Where a plan would need more, it says so instead of a number."""

Counted = tuple[int, int]
"""(k, n): k of n."""


# -- shares ----------------------------------------------------------------------------------------------


def detectable_share(
    trials: int, bar: float, *, confidence: float = 0.95, power: float = POWER
) -> float | None:
    """Return the largest true share that an exact interval would have found below the bar.

    Parameters
    ----------
    trials
        Independent trials.
    bar
        The share must reach it; FAIL where the upper Clopper-Pearson bound of the observed share is lower.
    confidence
        Of the two-sided interval.
    power
        Probability of FAIL at the returned share, exactly.

    Returns
    -------
    share
        ``None`` if even no success at all would not have been a FAIL.
    """
    require_confidence(confidence)
    require_confidence(power)
    # The upper bound of x successes is below the bar if P(at most x | bar) is below the tail.
    most = int(stats.binom.ppf((1 - confidence) / 2, trials, bar)) - 1
    if most < 0:
        return None
    return float(special.betaincinv(most + 1, trials - most, 1 - power))


def images_for_margin(
    share: float, margin: float, *, confidence: float = 0.95, method: str = "wilson"
) -> int:
    """Return how many images bring the half width of a share's interval down to a margin.

    Parameters
    ----------
    share
        Expected share in [0, 1]; 0.5 needs the most.
    margin
        Wanted half width, above 0 and below 0.5.
    confidence
        Of the interval.
    method
        ``"wilson"`` (closed form) or ``"clopper_pearson"``.

    Raises
    ------
    ArgumentError
        If an argument lies outside its range.
    """
    require_confidence(confidence)
    if not 0 <= share <= 1 or not 0 < margin < 0.5:
        raise ArgumentError(f"share={share}, margin={margin}: need 0 ≤ share ≤ 1 and 0 < margin < 0.5")
    if method == "wilson":
        z = float(stats.norm.isf((1 - confidence) / 2))
        # Half width = margin is quadratic in 1 / images; one root is positive.
        a = z**4 * (margin**2 - 0.25)
        b = z**2 * (2 * margin**2 - share * (1 - share))
        inverse = (-b - math.sqrt(b * b - 4 * a * margin**2)) / (2 * a)
        return math.ceil(1 / inverse - 1e-9)
    if method != "clopper_pearson":
        raise ArgumentError(f"method={method!r}: must be 'wilson' or 'clopper_pearson'")
    tail = (1 - confidence) / 2

    def narrow(images: int) -> bool:
        hits = share * images
        low = 0.0 if hits == 0 else float(special.betaincinv(hits, images - hits + 1, tail))
        high = 1.0 if hits == images else float(special.betaincinv(hits + 1, images - hits, 1 - tail))
        return (high - low) / 2 <= margin

    high = 1
    while not narrow(high):
        high *= 2
    return _smallest(narrow, 1, high)


def images_for_share(bar: float, others: int) -> int | None:
    """Return how many images of a category make up a share of all, beside ``others``.

    ``None`` if no number does (the bar is 1 and there are others).
    """
    if not 0 <= bar <= 1 or others < 0:
        raise ArgumentError(f"bar={bar}, others={others}: need 0 ≤ bar ≤ 1 and others ≥ 0")
    if bar == 1:
        return None if others else 1
    count = max(math.ceil(bar * others / (1 - bar)) - 1, 0)
    while count < bar * (count + others):
        count += 1
    return count


# -- counts of labels by a labeller that errs ------------------------------------------------------------


@lru_cache(maxsize=1024)
def detectable_count(
    fewest: int,
    images: int,
    *,
    recall: Counted,
    specificity: Counted,
    level: float = 0.95,
    comparisons: int = 1,
    power: float = POWER,
) -> int | None:
    """Return the largest true count that would have been found too small, labels being corrected.

    Parameters
    ----------
    fewest
        FAIL where the upper bound of :func:`~pytest_semcov.metrics.label_error.corrected_count` is below
        this number.
    images
        All images that carry a label.
    recall, specificity, level, comparisons
        As for the corrected count.
    power
        Probability of FAIL, averaged over what the labeller's rates may be (their Jeffreys posteriors).

    Returns
    -------
    count
        ``None`` if not even a category without any image would have been found too small.
    """
    if fewest > images:
        return fewest - 1
    if not _informative(recall, specificity) or fewest < 1:
        return None
    tail = (1 - level) / 2 / comparisons

    def found(labelled: int, true_count: int) -> float:
        return labels_at_most(labelled, true_count, images, recall=recall, specificity=specificity)

    # FAIL up to this number of labels: with one more, a true count of ``fewest`` is not rejected.
    most = _smallest(lambda labelled: found(labelled, fewest) > tail, 0, images) - 1
    missed = _smallest(lambda count: found(most, count) < power, 0, fewest)
    return None if missed == 0 else missed - 1


def passing_probability(
    true_count: int,
    fewest: int,
    images: int,
    *,
    recall: Counted,
    specificity: Counted,
    level: float = 0.95,
) -> float:
    """Return the probability that the lower bound of a corrected count reaches ``fewest``.

    Parameters
    ----------
    true_count
        Images that really are of the category.
    fewest, images, recall, specificity, level
        As for :func:`detectable_count`.
    """
    if fewest < 1:
        return 1.0
    if fewest > images or not _informative(recall, specificity):
        return 0.0

    def found(labelled: int, count: int) -> float:
        return labels_at_most(labelled, count, images, recall=recall, specificity=specificity)

    enough = 1 - (1 - level) / 2
    # PASS from this number of labels on: a true count just below ``fewest`` is rejected.
    least = 1 + _smallest(lambda labelled: found(labelled, fewest - 1) >= enough, 0, images)
    return 1.0 - found(least - 1, true_count)


def images_for_count(
    fewest: Callable[[int], int],
    others: int,
    *,
    recall: Counted,
    specificity: Counted,
    probability: float = PLANNED,
) -> int | None:
    """Return how many images of a category let a labeller that errs find enough of them.

    Parameters
    ----------
    fewest
        Total number of images → count that the lower bound must reach.
    others
        Images of other categories.
    recall, specificity
        What is known of the labeller.
    probability
        Probability that the bar is reached.

    Returns
    -------
    images
        ``None`` if not even :data:`MOST_IMAGES` do, or nothing is known of the labeller.
    """
    if not _informative(recall, specificity):
        return None

    def reached(count: int) -> bool:
        total = count + others
        if count < fewest(total):
            return False
        found = passing_probability(count, fewest(total), total, recall=recall, specificity=specificity)
        return found >= probability

    # Far beyond what is known of the labeller more images do not help: its rates stay as uncertain.
    most = 100 * max(fewest(others), others, 1)
    return _smallest_or_none(reached, 1, min(most, MOST_IMAGES))


def _informative(recall: Counted, specificity: Counted) -> bool:
    """Whether a labeller is better than chance, as far as is known."""
    (hits, own), (rejections, others) = recall, specificity
    return bool(own and others) and (hits + 0.5) / (own + 1) > (others - rejections + 0.5) / (others + 1)


# -- importance: the largest share of a category in one cluster --------------------------------------------


def detectable_concentration(count: int, needed: float, *, power: float = POWER) -> float | None:
    """Return the smallest true share in one cluster at which the recall found reaches what is needed.

    Each image lies in that cluster with this probability: a binomial count, so the answer is exact for one
    clustering and close where several are averaged.

    Parameters
    ----------
    count
        Images of the category.
    needed
        Cluster recall that must be found.
    power
        Probability that it is.

    Returns
    -------
    share
        ``None`` if no recall of so many images would reach it.
    """
    hits = max(math.ceil(needed * count - 1e-9), 1)
    if hits > count:
        return None
    return float(special.betaincinv(hits, count - hits + 1, power))


def images_for_lift(
    lift: float,
    shares: Sequence[float],
    *,
    max_p: float,
    min_lift: float,
    tests: int,
    least: int,
    probability: float = PLANNED,
    most: int = 2_000,
) -> int | None:
    """Return how many images of a category let a lift of its cluster recall be called important.

    Parameters
    ----------
    lift
        True share in one cluster, over the recall expected of as many random images.
    shares
        Share of all images in each cluster.
    max_p, min_lift
        Bars: p-value after correction, and lift found.
    tests
        Categories that are tested together (Holm's first step: ``max_p`` / ``tests``).
    least
        Fewest images for which importance is judged.
    probability
        Probability that both bars are reached.
    most
        Where more are needed, ``None``.
    """
    if lift <= min_lift:
        return None

    def seen(count: int) -> bool:
        expected = expected_largest_share(count, shares)
        by_chance = _smallest(
            lambda bound: 1 - largest_cell_at_most(bound, count, shares) <= max_p / tests, 0, count
        )
        needed = max((by_chance + 1) / count, min_lift * expected)
        share = detectable_concentration(count, needed, power=probability)
        return share is not None and share <= lift * expected

    return _smallest_or_none(seen, least, most)


# -- shares of a gap closed --------------------------------------------------------------------------------


def surely_above(bar: float, margin: float, *, critical: float, probability: float) -> float:
    """Return the true share of a gap closed that is found above the bar with a probability.

    Parameters
    ----------
    bar
        What the lower bound of the interval is held against.
    margin
        ``GapClosed.margin``: distance from the bar at which that happens in one case of two.
    critical
        Critical value of the interval, e.g. 1.96: the margin is so many standard errors.
    probability
        Above 0.5. The estimate is taken as normal.
    """
    return bar + margin * _reach(critical, probability)


def surely_below(bar: float, margin: float, *, critical: float, probability: float = POWER) -> float:
    """Return the true share of a gap closed that is found below the bar (FAIL) with a probability.

    Arguments as for :func:`surely_above`.
    """
    return bar - margin * _reach(critical, probability)


def wanted_margin(share: float, bar: float, *, critical: float, probability: float = PLANNED) -> float | None:
    """Return the margin with which a true share is found above the bar with a probability.

    ``None`` if the share is not above the bar. Arguments as for :func:`surely_above`.
    """
    return (share - bar) / _reach(critical, probability) if share > bar else None


def needed_for_interval(margin_at_n: float, n: int, margin: float) -> int:
    """Return the number of images that brings a margin down to another one: it falls as 1/√n.

    Parameters
    ----------
    margin_at_n
        The margin measured.
    n
        Images with which it was measured.
    margin
        The margin that is wanted.
    """
    if not (margin_at_n >= 0 and math.isfinite(margin_at_n)) or not margin > 0 or n < 1:
        raise ArgumentError(
            f"margin_at_n={margin_at_n}, n={n}, margin={margin}: need finite margins above 0 and n ≥ 1"
        )
    return max(math.ceil(n * (margin_at_n / margin) ** 2 - 1e-9), 1)


def _reach(critical: float, probability: float) -> float:
    """Return how many margins from the bar a true share must lie."""
    require_confidence(probability)
    if not critical > 0:
        raise ArgumentError(f"critical={critical}: must be above 0")
    return 1 + float(stats.norm.ppf(probability)) / critical


# -- searching ---------------------------------------------------------------------------------------------


def _smallest(accepted: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest accepted number in low…high by bisection, ``high`` if none is."""
    while low < high:
        middle = (low + high) // 2
        if accepted(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _smallest_or_none(accepted: Callable[[int], bool], low: int, most: int) -> int | None:
    """Return the smallest accepted number in low…most, by doubling and bisection; ``None`` if none is."""
    high = low
    while not accepted(high):
        if high >= most:
            return None
        low, high = high + 1, min(2 * high, most)
    return _smallest(accepted, low, high)
