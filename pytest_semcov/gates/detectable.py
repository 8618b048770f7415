"""What the coverage gates could have seen with the images and labels at hand.

For each criterion the true value, nearest to its bar, at which the gate would end in FAIL with probability
0.8 by this criterion alone; ``None`` where not even the worst true value would.

A count by known labels is exact: one image below the bar is seen. Uncertain labels and a labeller that errs
leave more room: a true count must then be so low that FAIL follows though no uncertain image belongs to the
category (they could belong to it), and although errors vary.
"""

from __future__ import annotations

import math

from pytest_semcov.gates.figures import CategoryImportance, SemanticEvidence
from pytest_semcov.gates.representation import (
    CoverageBars,
    Representation,
    most_wrong,
    possible_images,
)
from pytest_semcov.metrics.label_error import most_errors
from pytest_semcov.metrics.power import POWER, detectable_concentration, detectable_count

Detectable = dict[str, float | None]


def detectable_in_categories(
    evidence: SemanticEvidence, bars: CoverageBars, judged: list[Representation]
) -> Detectable:
    """Return what ``count[…]``, ``share[…]`` and ``groups[…]`` could have seen.

    Criteria that could not fail are left out: a bar of 0, or one that accepted synthetic images reach alone.
    """
    seen: Detectable = {}
    for category in judged:
        bounds = {
            category.count.name: fewest_for_count(category),
            category.share.name: fewest_for_share(category),
        }
        for name, fewest in bounds.items():
            if fewest > category.synthetic:
                count = None if category.doubtful else _detectable_count(evidence, category, fewest)
                unit = category.images if name == category.share.name else 1
                seen[name] = None if count is None else count / unit
        if category.groups is not None and bars.min_groups > 0:
            seen[category.groups.name] = _detectable_groups(evidence, bars, category)
    return seen


def detectable_shortfall(evidence: SemanticEvidence, category: Representation) -> Detectable:
    """Return up to which true count a combination would have been found under-represented, by its name."""
    fewest = max(fewest_for_count(category), fewest_for_share(category))
    if fewest <= category.synthetic:
        return {}
    count = None if category.doubtful else _detectable_count(evidence, category, fewest)
    return {f"{evidence.semantic}[{category.name}]": count}


def detectable_lift(semantic: str, category: Representation, bars: CoverageBars) -> Detectable:
    """Return from which true lift of cluster recall a category would have been called important.

    The true lift is that of a category whose images fall into one cluster with the same probability each;
    exact for one k-means run, close for the mean of several. Left out where importance decides nothing or
    was not measured.
    """
    figures = category.importance
    if figures is None or category.doubtful or category.total == 0:
        return {}
    name = f"{semantic}[{category.name}] lift"
    if figures.recall is None or not figures.expected:
        return {name: None}
    if figures.critical_recall is None:
        return {}
    return {name: _lift(figures, bars)}


def _lift(figures: CategoryImportance, bars: CoverageBars) -> float | None:
    expected, critical = figures.expected or 0.0, figures.critical_recall or 0.0
    share = detectable_concentration(figures.count, max(critical, bars.min_lift * expected))
    return None if share is None else share / expected


def fewest_for_count(category: Representation) -> int:
    """Return the smallest count that is not below the bar of the count."""
    return math.ceil(category.count.bar or 0.0)


def fewest_for_share(category: Representation) -> int:
    """Return the smallest count whose share of all images is not below the bar of the share."""
    bar, images = category.share.bar or 0.0, category.images
    fewest = max(math.ceil(bar * images) - 1, 0)
    while images and fewest / images < bar:
        fewest += 1
    return fewest


def _detectable_count(evidence: SemanticEvidence, category: Representation, fewest: int) -> int | None:
    """Return the largest true count, synthetic images included, that would be found below ``fewest``."""
    synthetic = category.synthetic
    needed = fewest - synthetic - possible_images(evidence, category.name)
    error = evidence.label_error.get(category.name)
    if needed < 1:
        return None
    if error is None:
        return synthetic + needed - 1
    real = detectable_count(
        needed,
        sum(evidence.counts.values()),
        recall=error.recall,
        specificity=error.specificity,
        comparisons=len(evidence.counts),
    )
    return None if real is None else synthetic + real


def _detectable_groups(
    evidence: SemanticEvidence, bars: CoverageBars, category: Representation
) -> float | None:
    """Return up to how many true groups would surely enough have been found to be too few.

    A lower bound: as if every false alarm made up a group of its own.
    """
    if category.doubtful:
        return None
    room = bars.min_groups - 1 - possible_images(evidence, category.name)
    error = evidence.label_error.get(category.name)
    if error is not None and category.count.interval is not None:
        _, misses = most_wrong(evidence, category.name, error, category.count.interval)
        rejections, others = error.specificity
        certain = sum(evidence.counts.values())
        room -= misses + most_errors(others - rejections, others, certain, level=POWER)
    return float(room) if room >= 0 else None
