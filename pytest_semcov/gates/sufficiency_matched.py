"""The sufficiency gate by matched comparisons: equal numbers, intervals, hygiene.

Steps: bring the three sets into an order of their own, compute all distances once, judge hygiene, remove
repetitions, then judge drift, radius and completeness from the same table.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_semcov.errors import TooFewError
from pytest_semcov.gates.sufficiency_figures import comparison_figures
from pytest_semcov.gates.sufficiency_hygiene import (
    SAME_IMAGE,
    arrival_criterion,
    collapse_criterion,
    copies_criterion,
    detectable_copies,
    duplicates_criterion,
    embedder_criterion,
    failed_criterion,
    identity_criterion,
    not_measured,
    off_manifold_criterion,
)
from pytest_semcov.gates.sufficiency_sets import (
    DistanceTable,
    MatchedInput,
    MatchedSettings,
    prepare,
    units_with_sources,
)
from pytest_semcov.gates.sufficiency_words import advice, summary
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine, compare
from pytest_semcov.metrics import gaps, hygiene
from pytest_semcov.metrics.gaps import COVERED, SYNTHETIC, UNCOVERED
from pytest_semcov.metrics.power import surely_below

# Fewer groups (or single images) of a set do not support an interval.
FEWEST_UNITS = 10


def matched_verdict(data: MatchedInput, settings: MatchedSettings) -> Verdict:
    """Judge by matched comparisons; see :func:`pytest_semcov.gates.sufficiency.sufficiency_verdict`."""
    seed = settings.seed
    real_u = prepare(data.uncovered, data.uncovered_groups, "u", drop_repeats=True, seed=seed)
    real_c = prepare(data.covered, data.covered_groups, "c", drop_repeats=True, seed=seed)
    made = prepare(data.synthetic, data.synthetic_groups, "s", drop_repeats=False, seed=seed)
    made_units = units_with_sources(data, made, real_c)
    table = DistanceTable.build(real_u.rows, real_c.rows, made.rows)

    sees = embedder_criterion(table, [*real_u.units, *real_c.units], settings)
    repeated = hygiene.near_repetitions(
        table.block(SYNTHETIC, SYNTHETIC), SAME_IMAGE * table.usual_nearest(UNCOVERED)
    )
    criteria = [
        sees,
        failed_criterion(data.failed, len(data.synthetic)),
        duplicates_criterion(repeated, made),
        identity_criterion(data, made, table),
        copies_criterion(data, made, table),
        collapse_criterion(table, settings),
        off_manifold_criterion(table, ~repeated, settings.k),
        arrival_criterion(data.arrival, settings),
    ]
    kept = np.concatenate([np.ones(len(real_u.rows) + len(real_c.rows), dtype=bool), ~repeated])
    units = [*real_u.units, *real_c.units, *made_units]
    distinct = table.restricted(kept)
    main, detectable, measured = _gaps(
        distinct,
        [unit for unit, keep in zip(units, kept, strict=True) if keep],
        settings,
        sees,
    )
    criteria.extend(main)
    judged = tuple(criterion for criterion in criteria if criterion is not None)
    outcome = combine(judged)
    figures = comparison_figures(distinct, settings) if settings.figures else ()
    counts = {
        "synthetic": len(data.synthetic),
        "real uncovered": len(data.uncovered),
        "real covered": len(data.covered),
        "failed": data.failed,
        "synthetic judged": int((~repeated).sum()),
    }
    counts |= {
        f"exact repetitions removed from {name}": item.repetitions
        for name, item in (("real uncovered", real_u), ("real covered", real_c))
        if item.repetitions
    }
    detectable["copies"] = detectable_copies(len(real_u.rows), len(made.rows))
    return Verdict(
        kind="sufficiency",
        subject=settings.subject,
        outcome=outcome,
        criteria=judged + figures,
        counts=counts,
        smallest_detectable=detectable,
        provenance={
            "protocol": "matched",
            "seed": seed,
            "k": settings.k,
            "repeats": settings.repeats,
            "confidence": settings.confidence,
            "min_gap_closed": settings.min_gap_closed,
            "min_completeness_gain": settings.min_completeness_gain,
            "rows left out at random": {
                "synthetic": made.left_out,
                "uncovered": real_u.left_out,
                "covered": real_c.left_out,
            },
            **measured,
        },
        summary=summary(settings, outcome, judged, counts),
        details=advice(outcome, judged),
    )


def _gaps(
    table: DistanceTable, units: list[str], settings: MatchedSettings, sees: Criterion
) -> tuple[list[Criterion], dict[str, float | None], dict[str, Any]]:
    gap_bar, gain_bar = settings.min_gap_closed, settings.min_completeness_gain
    names = {"drift": gap_bar, "radius": gap_bar, "completeness": gain_bar}
    numbers = {
        name: len({unit for unit, code in zip(units, table.sets, strict=True) if code == which})
        for name, which in (("uncovered", UNCOVERED), ("covered", COVERED), ("synthetic", SYNTHETIC))
    }
    short = {name: number for name, number in numbers.items() if number < FEWEST_UNITS}
    if short or sees.outcome is not Outcome.PASS:
        reason = (
            f"not judged: {sees.note}"
            if not short
            else "too few distinct images or groups: "
            + ", ".join(f"{number} {name}" for name, number in short.items())
            + f", need {FEWEST_UNITS}"
        )
        criteria = [not_measured(name, reason, bar, at_least=True) for name, bar in names.items()]
        return criteria, dict.fromkeys(names), {}
    subsamples = gaps.draw_subsamples(table.sets, units, repeats=settings.repeats, seed=settings.seed)
    drift = gaps.drift_gap(table.kernel(), subsamples, bar=gap_bar, confidence=settings.confidence)
    criteria = [
        _gap_criterion(
            "drift",
            drift,
            gap_bar,
            "share of the drift from covered to real uncovered images that is closed (MMD²)",
        )
    ]
    detectable = {"drift": _detectable(drift, gap_bar)}
    measured: dict[str, Any] = {}
    try:
        radius = gaps.radius_gap(
            np.sqrt(table.squared), subsamples, k=settings.k, bar=gap_bar, confidence=settings.confidence
        )
    except TooFewError as error:
        criteria.append(not_measured("radius", str(error), gap_bar, at_least=True))
        detectable["radius"] = None
    else:
        note = (
            f"median distance to the {settings.k}-th of {radius.rows} images: real {radius.among_real:.3g}, "
            f"synthetic {radius.among_synthetic:.3g}, covered {radius.among_covered:.3g}"
        )
        criteria.append(_gap_criterion("radius", radius.closed, gap_bar, note))
        detectable["radius"] = _detectable(radius.closed, gap_bar)
        measured["radius rows"] = radius.rows
    gain = gaps.completeness_gain(
        table.squared, subsamples, seed=settings.seed, bar=gain_bar, confidence=settings.confidence
    )
    note = (
        f"new cells by {gain.rows:.0f} images: synthetic {gain.by_synthetic:.1f}, "
        f"held-out real {gain.by_real:.1f} (of 2^{gain.cuts} cells)"
    )
    criteria.append(_gap_criterion("completeness", gain.gain, gain_bar, note))
    detectable["completeness"] = _detectable(gain.gain, gain_bar)
    measured |= {"completeness rows": gain.rows, "completeness cuts": gain.cuts}
    return criteria, detectable, measured


def _detectable(closed: gaps.GapClosed, bar: float) -> float | None:
    """Return the true share that would surely enough have been found below the bar."""
    if not math.isfinite(closed.margin):
        return None
    return surely_below(bar, closed.margin, critical=closed.critical)


def _gap_criterion(name: str, closed: gaps.GapClosed, bar: float, note: str) -> Criterion:
    if not all(math.isfinite(bound) for bound in closed.interval):
        value = closed.share if math.isfinite(closed.share) else None
        reason = f"too few images: what real images would bring cannot be told from nothing; {note}"
        return Criterion(name, value, bar, None, Outcome.INCONCLUSIVE, reason)
    criterion = compare(name, closed.share, bar=bar, interval=closed.interval, note=note)
    if criterion.outcome is Outcome.PASS and closed.share <= bar:
        # Possible without any spread only, e.g. the covered images themselves against bar 0.
        return replace(criterion, outcome=Outcome.FAIL, note=f"{note}; a tie is not better")
    return criterion
