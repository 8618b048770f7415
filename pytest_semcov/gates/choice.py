"""Verdicts on a choice between models.

All take estimates whose replicates were made on one drawing (:mod:`pytest_semcov.metrics.resampling`), so
that differences are paired.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine
from pytest_semcov.metrics.intervals import Interval
from pytest_semcov.metrics.resampling import Estimate

SMALLEST_SHARE, LARGEST_SHARE = 0.5, 1.5
"""A score on synthetic images nearer to that on real ones than to that on covered ones, on either side."""

_NOT_FINITE = "the score cannot be computed on these images or on resamples of them"
FEWEST_UNITS = 10
"""Independent images (or groups) below which nothing is decided: resamples of fewer do not show how much is
luck."""

_TOO_FEW = f"fewer than {FEWEST_UNITS} independent images, or groups of them, decide nothing"


def preference_verdict(
    new: str,
    scores: Mapping[str, Estimate],
    *,
    subject: str,
    metric: str,
    higher_is_better: bool = True,
    margin: float = 0.0,
    confidence: float = 0.95,
    counts: Mapping[str, int] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge whether a model is better than all others.

    Parameters
    ----------
    new
        The model that should be better.
    scores
        Model → score; ``new`` and at least one other.
    subject
        The data set.
    metric
        Name of the score.
    higher_is_better
        False for errors.
    margin
        It must be better by more than this, in units of the score.
    confidence
        Of all intervals together (Bonferroni over the other models).
    counts, provenance
        For the verdict.

    Returns
    -------
    Verdict
        Per other model the advantage: PASS if its interval lies above the margin, FAIL if below, else
        INCONCLUSIVE.
    """
    others = [name for name in scores if name != new]
    if new not in scores or not others:
        raise ArgumentError(f"{new!r} and at least one other model are needed, have {', '.join(scores)}")
    each = 1 - (1 - confidence) / len(others)
    criteria = [
        _advantage(f"advantage[{other}]", scores[new], scores[other], higher_is_better, margin, each)
        for other in others
    ]
    outcome = combine(criteria)
    values = ", ".join(f"{name} {score.value:.3g}" for name, score in scores.items())
    said = {
        Outcome.PASS: f"{new} is preferred",
        Outcome.FAIL: f"{new} is not preferred",
        Outcome.INCONCLUSIVE: f"the choice of {new} is not supported",
    }[outcome]
    return Verdict(
        "preference",
        subject,
        outcome,
        tuple(criteria),
        counts=dict(counts or {}),
        provenance={"metric": metric, "margin": margin, "confidence": confidence, **(provenance or {})},
        summary=f"{subject}: {said} by {metric} ({values})",
        details=_advice(criteria),
    )


def same_choice_verdict(
    sets: Mapping[str, Mapping[str, Estimate]],
    *,
    subject: str,
    metric: str,
    higher_is_better: bool = True,
    confidence: float = 0.95,
    counts: Mapping[str, int] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge whether two data sets choose the same model.

    A set chooses a model if the intervals of its advantage over every other lie above 0.

    Parameters
    ----------
    sets
        Two data sets, name → model → score.
    subject, metric, higher_is_better, confidence, counts, provenance
        As in :func:`preference_verdict`; ``confidence`` holds for each set.

    Returns
    -------
    Verdict
        PASS if both choose one model, FAIL if each chooses another, INCONCLUSIVE if one does not choose.
    """
    if len(sets) != 2 or any(len(scores) < 2 for scores in sets.values()):
        raise ArgumentError("a choice needs two data sets and at least two models")
    (first, one), (second, two) = sets.items()
    if set(one) != set(two):
        raise ArgumentError(f"{first} has scores of {', '.join(one)}, {second} of {', '.join(two)}")
    criteria: list[Criterion] = []
    choices: dict[str, str | None] = {}
    for name, scores in sets.items():
        best, advantages = _best(name, scores, higher_is_better, confidence)
        choices[name] = best
        criteria += advantages
    chosen = list(choices.values())
    if None in chosen:
        outcome, note = Outcome.INCONCLUSIVE, "not every set chooses"
    else:
        outcome = Outcome.PASS if chosen[0] == chosen[1] else Outcome.FAIL
        note = ", ".join(f"{name} chooses {model}" for name, model in choices.items())
    value = None if outcome is Outcome.INCONCLUSIVE else float(outcome is Outcome.PASS)
    criteria.insert(0, Criterion("same choice", value, 1.0, None, outcome, note))
    shown = "; ".join(
        f"{name}: {', '.join(f'{model} {score.value:.3g}' for model, score in scores.items())}"
        for name, scores in sets.items()
    )
    said = {
        Outcome.PASS: f"{first} and {second} choose {chosen[0]}",
        Outcome.FAIL: f"{first} chooses {chosen[0]} and {second} {chosen[1]}",
        Outcome.INCONCLUSIVE: " and ".join(name for name, model in choices.items() if model is None)
        + " cannot tell which model is best",
    }[outcome]
    return Verdict(
        "choice",
        subject,
        outcome,
        tuple(criteria),
        counts=dict(counts or {}),
        provenance={"metric": metric, "confidence": confidence, **(provenance or {})},
        summary=f"{subject}: {said} by {metric} ({shown})",
        details=_advice(criteria),
    )


def likeness_verdict(
    synthetic: Mapping[str, Estimate],
    real: Mapping[str, Estimate],
    covered: Mapping[str, Estimate],
    *,
    subject: str,
    metric: str,
    confidence: float = 0.95,
    counts: Mapping[str, int] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge whether models score on synthetic images as on the real ones that these stand for.

    For a model whose score differs between covered and real uncovered images, the score on synthetic ones is
    placed between them: 0 = as on covered images, 1 = as on real uncovered ones. It must be nearer to the
    latter, on either side: from 0.5 to 1.5. For a model that scores alike on both, the score on synthetic
    images may differ from that on real ones by at most half of the largest gap that any model shows.

    Parameters
    ----------
    synthetic, real, covered
        Model → score on synthetic, real uncovered and covered images.
    subject, metric, counts, provenance
        As in :func:`preference_verdict`.
    confidence
        Of all intervals together (Bonferroni over the models).

    Returns
    -------
    Verdict
        INCONCLUSIVE if no model shows a gap.
    """
    if not synthetic or not set(synthetic) == set(real) == set(covered):
        raise ArgumentError("scores of the same models on synthetic, real and covered images are needed")
    each = 1 - (1 - confidence) / len(synthetic)
    gaps = {model: covered[model].minus(real[model]) for model in synthetic}
    seen = {
        model: gap for model, gap in gaps.items() if (bounds := _bounds(gap, each)) and not _holds(bounds, 0)
    }
    largest = max((abs(gap.value) for gap in seen.values()), default=math.nan)
    criteria: list[Criterion] = []
    for model, gap in gaps.items():
        bounds = _bounds(gap, each)
        criteria.append(Criterion(f"gap[{model}]", _finite(gap.value), None, bounds, Outcome.INFO))
        if model in seen:
            criteria += _shares(model, covered[model].minus(synthetic[model]), gap, each)
        elif seen:
            criteria.append(_alike(model, synthetic[model].minus(real[model]), largest / 2, each))
    outcome = combine(criteria) if seen else Outcome.INCONCLUSIVE
    said = {
        Outcome.PASS: "models score on the synthetic images as on the real ones",
        Outcome.FAIL: "models do not score on the synthetic images as on the real ones",
        Outcome.INCONCLUSIVE: "it cannot be told whether models score on the synthetic images as on real ones"
        + ("" if seen else ": none scores otherwise on covered images than on real uncovered ones"),
    }[outcome]
    return Verdict(
        "likeness",
        subject,
        outcome,
        tuple(criteria),
        counts=dict(counts or {}),
        provenance={"metric": metric, "confidence": confidence, **(provenance or {})},
        summary=f"{subject}: {said} ({metric})",
        details=_advice(criteria),
    )


def condition_gap_verdict(
    scores: Mapping[str, Estimate],
    *,
    subject: str,
    metric: str,
    max_gap: float,
    confidence: float = 0.95,
    counts: Mapping[str, int] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge whether a model's score differs between categories by no more than allowed.

    Parameters
    ----------
    scores
        Category → score; at least two.
    max_gap
        Largest difference allowed, in units of the score.
    subject, metric, counts, provenance
        As in :func:`preference_verdict`.
    confidence
        Of all intervals together (Bonferroni over the pairs).

    Returns
    -------
    Verdict
        Per pair of categories the difference, the higher score first.
    """
    if len(scores) < 2 or not max_gap > 0:
        raise ArgumentError(
            f"two categories and max_gap above 0 are needed, have {len(scores)} and {max_gap}"
        )
    ordered = sorted(scores, key=lambda name: (-scores[name].value, name))
    pairs = list(combinations(ordered, 2))
    each = 1 - (1 - confidence) / len(pairs)
    criteria = []
    for high, low in pairs:
        gap = scores[high].minus(scores[low])
        bounds = _bounds(gap, each)
        if bounds is None:
            criteria.append(_undecided(f"gap[{high} - {low}]", gap, max_gap, at_least=False))
            continue
        # The order of the two was chosen after looking: the difference may also be the other way round.
        outcome = Outcome.INCONCLUSIVE
        if max(abs(bounds[0]), abs(bounds[1])) <= max_gap:
            outcome = Outcome.PASS
        elif bounds[0] > max_gap or bounds[1] < -max_gap:
            outcome = Outcome.FAIL
        criteria.append(
            Criterion(f"gap[{high} - {low}]", gap.value, max_gap, bounds, outcome, at_least=False)
        )
    outcome = combine(criteria)
    values = ", ".join(f"{name} {scores[name].value:.3g}" for name in ordered)
    said = {
        Outcome.PASS: f"scores differ by no more than {max_gap:g}",
        Outcome.FAIL: f"the score falls by more than {max_gap:g}",
        Outcome.INCONCLUSIVE: f"it cannot be told whether the score falls by more than {max_gap:g}",
    }[outcome]
    return Verdict(
        "condition gap",
        subject,
        outcome,
        tuple(criteria),
        counts=dict(counts or {}),
        provenance={"metric": metric, "confidence": confidence, **(provenance or {})},
        summary=f"{subject}: {said} between categories ({metric}: {values})",
        details=_advice(criteria),
    )


def _advantage(
    name: str, new: Estimate, other: Estimate, higher: bool, margin: float, confidence: float
) -> Criterion:
    difference = new.minus(other) if higher else other.minus(new)
    bounds = _bounds(difference, confidence)
    if bounds is None:
        return _undecided(name, difference, margin)
    outcome = Outcome.INCONCLUSIVE
    if bounds[0] > margin:
        outcome = Outcome.PASS
    elif bounds[1] < margin:
        outcome = Outcome.FAIL
    return Criterion(name, difference.value, margin, bounds, outcome)


def _best(
    name: str, scores: Mapping[str, Estimate], higher: bool, confidence: float
) -> tuple[str | None, list[Criterion]]:
    """Return the model that a set chooses, if it does, and the advantages of the one with the best score."""
    finite = {model: score.value for model, score in scores.items() if score.finite}
    if len(finite) < len(scores):
        return None, [
            Criterion(f"score[{name}: {model}]", None, None, None, Outcome.INFO, _NOT_FINITE)
            for model in scores
            if model not in finite
        ]
    best = sorted(finite, key=lambda model: ((-1 if higher else 1) * finite[model], model))[0]
    each = 1 - (1 - confidence) / (len(scores) - 1)
    advantages = [
        _advantage(f"advantage[{name}: {best} over {other}]", scores[best], scores[other], higher, 0.0, each)
        for other in scores
        if other != best
    ]
    chosen = all(advantage.outcome is Outcome.PASS for advantage in advantages)
    shown = [
        Criterion(each.name, each.value, None, each.interval, Outcome.INFO, each.note) for each in advantages
    ]
    return best if chosen else None, shown


def _shares(model: str, closed: Estimate, gap: Estimate, confidence: float) -> list[Criterion]:
    """Place the score on synthetic images between those on covered (0) and real uncovered images (1)."""
    names = f"share[{model}]", f"overshoot[{model}]"
    if not closed.finite:
        return [_undecided(name, closed, None) for name in names]
    value = closed.value / gap.value
    bounds = closed.ratio_interval(gap, confidence=confidence)
    low, high = bounds
    enough = _outcome(low >= SMALLEST_SHARE, high < SMALLEST_SHARE)
    not_too_far = _outcome(high <= LARGEST_SHARE, low > LARGEST_SHARE)
    return [
        Criterion(names[0], value, SMALLEST_SHARE, bounds, enough),
        Criterion(names[1], value, LARGEST_SHARE, bounds, not_too_far, at_least=False),
    ]


def _alike(model: str, difference: Estimate, most: float, confidence: float) -> Criterion:
    name = f"difference[{model}]"
    bounds = _bounds(difference, confidence)
    if bounds is None:
        return _undecided(name, difference, most, at_least=False)
    largest = max(abs(bounds[0]), abs(bounds[1]))
    outcome = _outcome(largest <= most, bounds[0] > most or bounds[1] < -most)
    note = "this model scores alike on covered and real uncovered images"
    return Criterion(name, abs(difference.value), most, bounds, outcome, note, at_least=False)


def _outcome(holds: bool, fails: bool) -> Outcome:
    if holds:
        return Outcome.PASS
    return Outcome.FAIL if fails else Outcome.INCONCLUSIVE


def _undecided(name: str, score: Estimate, bar: float | None, *, at_least: bool = True) -> Criterion:
    note = _TOO_FEW if score.finite else _NOT_FINITE
    return Criterion(name, _finite(score.value), bar, None, Outcome.INCONCLUSIVE, note, at_least=at_least)


def _bounds(score: Estimate, confidence: float) -> Interval | None:
    """Return the interval, ``None`` where there is none or too little to base one on."""
    if not score.finite or score.independent < FEWEST_UNITS:
        return None
    return score.interval(confidence=confidence)


def _holds(bounds: Interval, value: float) -> bool:
    return bounds[0] <= value <= bounds[1]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _advice(criteria: list[Criterion]) -> tuple[str, ...]:
    if not any(each.outcome is Outcome.INCONCLUSIVE for each in criteria):
        return ()
    return ("what to do: score more images (or more groups, where images come in groups)",)
