"""How many images really belong to a category, when the labels come from an imperfect labeller."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.errors import ArgumentError

_WALK = 17


def corrected_count(
    labelled: int,
    images: int,
    *,
    recall: tuple[int, int],
    specificity: tuple[int, int],
    level: float = 0.95,
    comparisons: int = 1,
) -> tuple[float, tuple[int, int]]:
    """Correct a count of labels for the labeller's known errors.

    Parameters
    ----------
    labelled
        Images that carry the label.
    images
        All images that were labelled (with any category).
    recall
        (k, n): of n images known to be of the category, k got its label.
    specificity
        (k, n): of n images known to be of another category, k did not get its label.
    level
        Confidence level of the interval.
    comparisons
        Of how many counts one below its bar decides: the upper bound is then widened (Bonferroni), so that
        it is at fault for any of them as rarely as for a single one. The lower bound is not: where all
        counts must reach their bars, none needs it.

    Returns
    -------
    count
        Rogan-Gladen estimate, (labelled - images·(1 - specificity)) / (recall + specificity - 1),
        held within 0 and ``images``; ``labelled`` itself where the labeller is no better than chance.
    interval
        All true counts that are not rejected at (1 - level)/2 on either side (above: at that over
        ``comparisons``). Given a true count t, the
        number of labels is the sum of two beta-binomial counts, t hits and ``images`` - t false alarms,
        whose rates have Jeffreys posteriors from the counts above: so the interval carries both the
        chance in this data set and how little is known of the labeller. (0, ``images``) where the
        labeller is no better than chance.

    Raises
    ------
    ArgumentError
        If a count is negative or exceeds its total, or ``comparisons`` is below 1.

    Notes
    -----
    The estimate is due to W. J. Rogan and B. Gladen, "Estimating prevalence from the results of a
    screening test", American Journal of Epidemiology 107, 1978. It holds as far as the labeller errs on
    this data set as it did where its errors were counted.
    """
    _check_counts(labelled, images, "labelled", "images")
    _check_counts(*recall, "recall hits", "recall images")
    _check_counts(*specificity, "specificity hits", "specificity images")
    if comparisons < 1:
        raise ArgumentError(f"comparisons={comparisons}: need at least 1")
    hit_rate = _posterior_mean(*recall)
    false_alarm_rate = 1.0 - _posterior_mean(*specificity)
    if not recall[1] or not specificity[1] or hit_rate <= false_alarm_rate:
        return float(labelled), (0, images)

    observed_recall = recall[0] / recall[1]
    observed_false_alarms = 1.0 - specificity[0] / specificity[1]
    estimate = float(labelled)
    if observed_recall > observed_false_alarms:
        estimate = (labelled - images * observed_false_alarms) / (observed_recall - observed_false_alarms)
        estimate = min(max(estimate, 0.0), float(images))

    tail = (1.0 - level) / 2.0

    @cache
    def probability(true_count: int) -> tuple[float, float]:
        """Return P(at most ``labelled`` labels) and P(at least ``labelled`` labels) given the true count."""
        found = _hits_and_alarms(true_count, images, recall, specificity, up_to=labelled)
        at_most, below = (_sum_at_most(*found, bound) for bound in (labelled, labelled - 1))
        return at_most, 1.0 - below

    low = _first(lambda count: probability(count)[1] > tail, images)
    high = images - _first(lambda back: probability(images - back)[0] > tail / comparisons, images)
    return estimate, (min(low, high), max(low, high))


def labels_at_most(
    labelled: int, true_count: int, images: int, *, recall: tuple[int, int], specificity: tuple[int, int]
) -> float:
    """Return P(at most ``labelled`` of ``images`` carry the label | ``true_count`` are of the category).

    Hits and false alarms are beta-binomial counts, their rates having Jeffreys posteriors from
    ``recall`` and ``specificity`` as for :func:`corrected_count`.
    """
    found = _hits_and_alarms(true_count, images, recall, specificity, up_to=max(labelled, 0))
    return _sum_at_most(*found, labelled)


def most_errors(errors: int, trials: int, images: int, *, level: float = 0.975) -> int:
    """Return how many of ``images`` a labeller gets wrong at most, at the given one-sided level.

    Parameters
    ----------
    errors, trials
        Of so many trials so many were wrong, where the truth was known.
    images
        Images that may be got wrong.
    level
        Probability that the number is not exceeded: a beta-binomial quantile, the rate of errors having the
        Jeffreys posterior.
    """
    from scipy.stats import betabinom

    return int(betabinom.ppf(level, images, *_beta_parameters(errors, trials))) if images else 0


def _first(accepted: Callable[[int], bool], last: int) -> int:
    """Return the smallest accepted count in 0…last, by a coarse walk and then bisection.

    The walk makes the answer safe where acceptance is not quite monotone.
    """
    steps = np.unique(np.linspace(0, last, min(_WALK, last + 1)).round().astype(int))
    rejected = -1
    for step in steps.tolist():
        if accepted(step):
            found = step
            break
        rejected = step
    else:
        return last
    while found - rejected > 1:
        middle = (found + rejected) // 2
        if accepted(middle):
            found = middle
        else:
            rejected = middle
    return int(found)


def _hits_and_alarms(
    true_count: int, images: int, recall: tuple[int, int], specificity: tuple[int, int], *, up_to: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probabilities of 0…``up_to`` hits, and the cumulated ones of as many false alarms."""
    hits = _beta_binomial(true_count, *_beta_parameters(*recall), up_to=up_to)
    errors = _beta_parameters(specificity[1] - specificity[0], specificity[1])
    alarms = _beta_binomial(images - true_count, *errors, up_to=up_to)
    return hits, np.minimum(np.cumsum(alarms), 1.0)


def _beta_binomial(trials: int, a: float, b: float, *, up_to: int) -> NDArray[np.float64]:
    """Return the probabilities of 0…min(trials, up_to) successes."""
    from scipy.stats import betabinom

    successes = np.arange(min(trials, up_to) + 1)
    return np.asarray(betabinom.pmf(successes, trials, a, b), dtype=np.float64)


def _sum_at_most(first: NDArray[np.float64], second: NDArray[np.float64], bound: int) -> float:
    """Return P(X + Y ≤ bound) from the probabilities of X and the cumulated probabilities of Y."""
    if bound < 0:
        return 0.0
    values = np.arange(min(bound, len(first) - 1) + 1)
    return min(float(first[values] @ second[np.minimum(bound - values, len(second) - 1)]), 1.0)


def _beta_parameters(successes: int, trials: int) -> tuple[float, float]:
    return successes + 0.5, trials - successes + 0.5


def _posterior_mean(successes: int, trials: int) -> float:
    return (successes + 0.5) / (trials + 1.0)


def _check_counts(part: int, whole: int, part_name: str, whole_name: str) -> None:
    if not 0 <= part <= whole:
        raise ArgumentError(f"{part_name}={part}, {whole_name}={whole}: need 0 ≤ {part_name} ≤ {whole_name}")
