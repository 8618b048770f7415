"""The published sufficiency rule: three plain comparisons of the published figures."""

from __future__ import annotations

import math

from pytest_semcov.errors import TooFewError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine
from pytest_semcov.metrics.arrays import Floats
from pytest_semcov.metrics.published import PublishedFigures, published_figures


def deduce_verdict(synthetic: Floats, uncovered: Floats, covered: Floats, *, subject: str, k: int) -> Verdict:
    """Judge by the published rule.

    Sufficient if S is nearer to U than C is by every drift detector, the median radius of U is smaller in
    U ∪ S than in U ∪ C, and completeness of U ∪ C is strictly higher with S. Ties are not lower; there are
    no intervals and no hygiene.

    Parameters
    ----------
    synthetic, uncovered, covered
        ``(n, d)`` embeddings, unscaled.
    subject
        What is judged.
    k
        Neighbour that defines the radius.
    """
    sizes = {"synthetic": len(synthetic), "real uncovered": len(uncovered), "real covered": len(covered)}
    provenance: dict[str, object] = {"protocol": "deduce", "k": k, "engine": _engine()}
    try:
        figures = published_figures(uncovered, covered, synthetic, k=k)
    except TooFewError as error:
        criteria: tuple[Criterion, ...] = tuple(
            Criterion(name, None, None, None, Outcome.INCONCLUSIVE, str(error))
            for name in ("drift", "radius", "completeness")
        )
    else:
        criteria = published_criteria(figures) + published_information(figures)
        provenance["figures"] = figures.to_dict()
    outcome = combine(criteria)
    failing = [criterion for criterion in criteria if criterion.outcome is Outcome.FAIL]
    said = {
        Outcome.PASS: "sufficient by the published rule",
        Outcome.FAIL: "not sufficient by the published rule: " + ", ".join(_reason(item) for item in failing),
        Outcome.INCONCLUSIVE: criteria[0].note,
    }[outcome]
    listed = ", ".join(f"{count} {name}" for name, count in sizes.items())
    return Verdict(
        kind="sufficiency",
        subject=subject,
        outcome=outcome,
        criteria=criteria,
        counts=sizes,
        provenance=provenance,
        summary=f"{subject}: {outcome.value}, {said} ({listed} images)",
    )


def published_criteria(figures: PublishedFigures) -> tuple[Criterion, ...]:
    """Return the comparisons that the published rule makes."""
    drift = [
        _strictly(
            f"drift[{detector}]",
            trials["S"].distance,
            trials["C"].distance,
            higher=False,
            note="mean distance from real uncovered to synthetic images must be lower than to covered ones",
        )
        for detector, trials in figures.drift.items()
    ]
    return (
        *drift,
        _strictly(
            "radius",
            figures.radius["U+S"],
            figures.radius["U+C"],
            higher=False,
            note="median radius of real uncovered images must be lower with synthetic than with covered ones",
        ),
        _strictly(
            "completeness",
            figures.completeness["U+C+S"],
            figures.completeness["U+C"],
            higher=True,
            note="effective rank of all real images must be higher with the synthetic ones",
        ),
    )


def published_information(figures: PublishedFigures) -> tuple[Criterion, ...]:
    """Return the published figures that judge nothing."""
    listed = {
        **{f"divergence[{pair}]": value for pair, value in figures.divergence.items()},
        **{f"radius[{stack}]": value for stack, value in figures.radius.items()},
        **{f"completeness[{stack}]": value for stack, value in figures.completeness.items()},
    }
    rows = [Criterion(name, value, None, None, Outcome.INFO) for name, value in listed.items()]
    for detector, by_set in figures.drift.items():
        for name, trials in by_set.items():
            note = (
                f"± {trials.distance_std:.3g} over {trials.num_trials} trials, "
                f"drifted in {trials.drift_fraction:.0%}"
            )
            rows.append(
                Criterion(f"drift[{detector}, {name}]", trials.distance, None, None, Outcome.INFO, note)
            )
    return tuple(rows)


def _strictly(name: str, value: float, bar: float, *, higher: bool, note: str) -> Criterion:
    if not (math.isfinite(value) and math.isfinite(bar)):
        return Criterion(name, value, bar, None, Outcome.INCONCLUSIVE, f"{note} (not a number)", higher)
    good = value > bar if higher else value < bar
    tie = " (a tie)" if value == bar else ""
    return Criterion(name, value, bar, None, Outcome.PASS if good else Outcome.FAIL, note + tie, higher)


def _reason(criterion: Criterion) -> str:
    sign = ">" if criterion.at_least else "<"
    return f"{criterion.name} {criterion.value:.4g} (must be {sign} {criterion.bar:.4g})"


def _engine() -> str:
    from importlib.metadata import version

    return f"dataeval {version('dataeval')}"
