"""The sufficiency gate by matched comparisons: equal numbers, intervals, hygiene.

Steps: bring the three sets into an order of their own, remove repetitions, compute all distances
once, then hygiene, drift, radius and completeness from that one table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.errors import TooFewError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine, compare
from pytest_semcov.metrics import gaps, hygiene
from pytest_semcov.metrics.arrays import Doubles, Floats, Indices, Mask, canonical_order, squared_distances
from pytest_semcov.metrics.completeness import effective_rank
from pytest_semcov.metrics.drift import (
    cramer_von_mises,
    kolmogorov_smirnov,
    median_bandwidth,
    mmd_permutation_test,
    rbf_kernel,
)
from pytest_semcov.metrics.frechet import frechet_distance
from pytest_semcov.metrics.gaps import COVERED, SYNTHETIC, UNCOVERED
from pytest_semcov.metrics.intervals import ratio_of_shares
from pytest_semcov.metrics.prdc import ball_radii, prdc_from_distances

# Bars of the hygiene criteria.
MAX_FAILED_SHARE = 0.2
MAX_DUPLICATE_SHARE = 0.5
MAX_IDENTITY_SHARE = 0.1
MIN_DISTINCT = 0.5
MIN_PRECISION = 0.05
MIN_ARRIVAL = 0.8
# False alarm of the copy test. Strict, because images of one camera are not independent.
COPY_LEVEL = 1e-4
# An excess of copies that must be detectable for the copy test to count as passed.
MAX_DETECTABLE_COPIES = 0.5
MAX_EMBEDDER_P = 0.05
PERMUTATIONS = 999
# Nearer than this share of the usual distance between nearest real images means: the same image.
SAME_IMAGE = 0.25
# Fewer groups (or single images) of a set do not support an interval.
FEWEST_UNITS = 10
# Larger sets are represented by this many random rows: beyond, precision gains little and tables much.
MOST_ROWS = 1500
_DIVERSITY_DRAWS = 20
_FIGURE_ROWS = 400
_SHOWN_IDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class MatchedInput:
    """What is judged; see :func:`pytest_semcov.gates.sufficiency.sufficiency_verdict`."""

    synthetic: Floats
    uncovered: Floats
    covered: Floats
    sources: Floats | None
    synthetic_groups: list[str] | None
    uncovered_groups: list[str] | None
    covered_groups: list[str] | None
    synthetic_ids: tuple[str, ...] | None
    failed: int
    arrival: tuple[tuple[int, int], tuple[int, int]] | None


@dataclass(frozen=True, slots=True)
class MatchedSettings:
    """Bars, sizes and seed; see :func:`pytest_semcov.gates.sufficiency.sufficiency_verdict`."""

    subject: str
    semantic: str | None
    min_gap_closed: float
    min_completeness_gain: float
    k: int
    repeats: int
    confidence: float
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class _Set:
    """Rows of one set in canonical order."""

    rows: Doubles
    original: Indices  # row number as given
    units: list[str]
    removed: int  # exact repetitions taken out
    left_out: int  # rows beyond MOST_ROWS


def _ordered(
    array: Floats, groups: Sequence[str] | None, prefix: str, *, drop_repeats: bool, seed: int
) -> _Set:
    order = canonical_order(array, groups)
    rows = np.ascontiguousarray(array[order], dtype=np.float64)
    removed = 0
    if drop_repeats:
        _, first = np.unique(rows, axis=0, return_index=True)
        keep = np.sort(first)
        removed = len(rows) - len(keep)
        order, rows = order[keep], rows[keep]
    left_out = max(len(rows) - MOST_ROWS, 0)
    if left_out:
        keep = np.sort(np.random.default_rng(seed).choice(len(rows), size=MOST_ROWS, replace=False))
        order, rows = order[keep], rows[keep]
    if groups is None:
        units = [f"{prefix}:{place}" for place in range(len(rows))]
    else:
        units = [f"group:{groups[row]}" for row in order]
    return _Set(rows, order, units, removed, left_out)


def matched_verdict(data: MatchedInput, settings: MatchedSettings) -> Verdict:
    """Judge by matched comparisons; see :func:`pytest_semcov.gates.sufficiency.sufficiency_verdict`."""
    seed = settings.seed
    real_u = _ordered(data.uncovered, data.uncovered_groups, "u", drop_repeats=True, seed=seed)
    real_c = _ordered(data.covered, data.covered_groups, "c", drop_repeats=True, seed=seed)
    made = _ordered(data.synthetic, data.synthetic_groups, "s", drop_repeats=False, seed=seed)
    made_units = _pair_with_sources(data, made, real_c)
    table = _Table.build(real_u.rows, real_c.rows, made.rows)

    sees = _embedder(table, [*real_u.units, *real_c.units], settings)
    repeated = hygiene.near_repetitions(table.block(SYNTHETIC, SYNTHETIC), SAME_IMAGE * table.usual_nearest())
    criteria = [
        sees,
        _failed(data.failed, len(data.synthetic)),
        _duplicates(repeated, made),
        _identity(data, made, table),
        _copies(data, made, table),
        _collapse(table, settings),
        _off_manifold(table, ~repeated, settings.k),
        _arrival(data.arrival, settings),
    ]
    kept = np.concatenate([np.ones(len(real_u.rows) + len(real_c.rows), dtype=bool), ~repeated])
    units = [*real_u.units, *real_c.units, *made_units]
    distinct = table.restricted(kept)
    main, detectable, measured = _gaps(
        distinct,
        [unit for unit, keep in zip(units, kept, strict=True) if keep],
        settings,
        blind=sees.outcome is not Outcome.PASS,
    )
    criteria.extend(main)
    judged = tuple(criterion for criterion in criteria if criterion is not None)
    outcome = combine(judged)
    figures = _figures(distinct, settings)
    counts = {
        "synthetic": len(data.synthetic),
        "real uncovered": len(data.uncovered),
        "real covered": len(data.covered),
        "failed": data.failed,
        "synthetic judged": int((~repeated).sum()),
    }
    counts |= {
        f"exact repetitions removed from {name}": item.removed
        for name, item in (("real uncovered", real_u), ("real covered", real_c))
        if item.removed
    }
    copies = next(criterion for criterion in judged if criterion.name == "copies")
    if copies.bar is not None:
        detectable["copies"] = copies.bar
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
        summary=_summary(settings, outcome, judged, counts),
        details=_advice(outcome, judged),
    )


# The one table of distances


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """All rows of U, C and S with their squared distances."""

    rows: Doubles
    sets: NDArray[np.intp]
    squared: Doubles

    @classmethod
    def build(cls, uncovered: Doubles, covered: Doubles, synthetic: Doubles) -> _Table:
        rows = np.concatenate([uncovered, covered, synthetic])
        sets = np.repeat([UNCOVERED, COVERED, SYNTHETIC], [len(uncovered), len(covered), len(synthetic)])
        return cls(rows, sets.astype(np.intp), squared_distances(rows))

    def of(self, *which: int) -> Indices:
        return np.flatnonzero(np.isin(self.sets, which))

    def block(self, first: int | tuple[int, ...], second: int | tuple[int, ...]) -> Doubles:
        """Distances between two sets (or unions of sets)."""
        wanted = [self.of(*((which,) if isinstance(which, int) else which)) for which in (first, second)]
        return np.asarray(np.sqrt(self.squared[np.ix_(wanted[0], wanted[1])]))

    def usual_nearest(self) -> float:
        """Median distance of a real uncovered image to the nearest other one (0 for a single image)."""
        within = self.block(UNCOVERED, UNCOVERED)
        return float(np.median(ball_radii(within, 1))) if len(within) > 1 else 0.0

    def restricted(self, kept: Mask) -> _Table:
        if kept.all():
            return self
        return _Table(self.rows[kept], self.sets[kept], self.squared[np.ix_(kept, kept)])

    def kernel(self) -> Doubles:
        """RBF kernel of all rows, bandwidth by U and C alone."""
        u, c = self.of(UNCOVERED), self.of(COVERED)
        bandwidth = median_bandwidth(
            self.squared[np.ix_(u, c)], self.squared[np.ix_(u, u)], self.squared[np.ix_(c, c)]
        )
        return rbf_kernel(self.squared, bandwidth)


def _pair_with_sources(data: MatchedInput, made: _Set, real_c: _Set) -> list[str]:
    """Units of S: where a source is one of the covered images, the unit of that image."""
    if data.synthetic_groups is not None or data.sources is None:
        return made.units
    unit_of = {row.tobytes(): unit for row, unit in zip(real_c.rows + 0.0, real_c.units, strict=True)}
    sources = np.ascontiguousarray(data.sources[made.original], dtype=np.float64) + 0.0
    return [unit_of.get(row.tobytes(), unit) for row, unit in zip(sources, made.units, strict=True)]


# Step 0 and hygiene


def _embedder(table: _Table, units: list[str], settings: MatchedSettings) -> Criterion:
    semantic = settings.semantic or "the difference between the uncovered and the covered images"
    u, c = table.of(UNCOVERED), table.of(COVERED)
    if min(len(u), len(c)) < 2:
        return _not_measured(
            "embedder", f"too few real images ({len(u)} uncovered, {len(c)} covered)", MAX_EMBEDDER_P
        )
    real = table.of(UNCOVERED, COVERED)
    kernel = table.kernel()[np.ix_(real, real)]
    squared, p_value = mmd_permutation_test(
        kernel,
        table.sets[real] == UNCOVERED,
        groups=np.asarray(units) if len(set(units)) < len(units) else None,
        permutations=PERMUTATIONS,
        seed=settings.seed,
    )
    if p_value <= MAX_EMBEDDER_P:
        note = f"the embedder tells uncovered from covered images (MMD² {squared:.3g}, permutation p)"
        return Criterion("embedder", p_value, MAX_EMBEDDER_P, None, Outcome.PASS, note, at_least=False)
    note = f"this embedder does not see {semantic} (uncovered against covered: permutation p of the MMD)"
    return Criterion("embedder", p_value, MAX_EMBEDDER_P, None, Outcome.INCONCLUSIVE, note, at_least=False)


def _not_measured(name: str, reason: str, bar: float | None, *, at_least: bool = False) -> Criterion:
    return Criterion(name, None, bar, None, Outcome.INCONCLUSIVE, reason, at_least)


def _failed(failed: int, usable: int) -> Criterion:
    share = failed / (failed + usable)
    note = f"{failed} of {failed + usable} generations were blank or flagged and are not judged"
    return compare("failed", share, bar=MAX_FAILED_SHARE, at_least=False, note=note)


def _duplicates(repeated: Mask, made: _Set) -> Criterion:
    note = f"{int(repeated.sum())} of {len(repeated)} repeat another synthetic image and were removed"
    return compare("duplicates", float(repeated.mean()), bar=MAX_DUPLICATE_SHARE, at_least=False, note=note)


def _identity(data: MatchedInput, made: _Set, table: _Table) -> Criterion:
    within = table.block(COVERED, COVERED)
    if data.sources is None:
        relative = hygiene.relative_distances(table.block(SYNTHETIC, COVERED), within)
        what = "a covered image"
    else:
        sources = np.asarray(data.sources[made.original], dtype=np.float64)
        moved = np.sqrt(np.einsum("ij,ij->i", made.rows - sources, made.rows - sources))
        usual = float(np.median(ball_radii(within, 1))) if len(within) > 1 else 0.0
        # Against the usual distance between covered images: sources need not be among them.
        relative = np.where(moved == 0, 0.0, moved / max(usual, np.finfo(np.float64).tiny))
        what = "its source"
    same = relative <= SAME_IMAGE
    note = f"{int(same.sum())} of {len(same)} equal {what} or nearly so{_named(data, made, same)}"
    return compare("identity", float(same.mean()), bar=MAX_IDENTITY_SHARE, at_least=False, note=note)


def _copies(data: MatchedInput, made: _Set, table: _Table) -> Criterion:
    try:
        found = hygiene.copy_excess(
            table.block(UNCOVERED, UNCOVERED), table.block(SYNTHETIC, UNCOVERED), level=COPY_LEVEL
        )
    except TooFewError as error:
        return _not_measured("copies", str(error), None)
    suspects = found.relative <= SAME_IMAGE
    note = (
        "excess share of synthetic images nearer to a single uncovered image than held-out real ones are"
        + _named(data, made, suspects)
    )
    criterion = compare("copies", found.share, bar=found.critical, at_least=False, note=note)
    if criterion.outcome is Outcome.PASS and found.critical > MAX_DETECTABLE_COPIES:
        note = f"too few images: only an excess above {found.critical:.2f} could be told from chance"
        return Criterion(
            "copies", found.share, found.critical, None, Outcome.INCONCLUSIVE, note, at_least=False
        )
    return criterion


def _named(data: MatchedInput, made: _Set, rows: Mask) -> str:
    if data.synthetic_ids is None or not rows.any():
        return ""
    names = sorted(data.synthetic_ids[row] for row in made.original[rows])
    return f", e.g. {', '.join(names[:_SHOWN_IDS])}"


def _collapse(table: _Table, settings: MatchedSettings) -> Criterion:
    try:
        synthetic, real, rows = hygiene.relative_diversity(
            table.block(SYNTHETIC, SYNTHETIC),
            table.block(UNCOVERED, UNCOVERED),
            k=settings.k,
            draws=_DIVERSITY_DRAWS,
            seed=settings.seed,
        )
    except TooFewError as error:
        return _not_measured("collapse", str(error), MIN_DISTINCT, at_least=True)
    note = f"{int(rows)} synthetic images count as {synthetic:.1f} distinct ones, real ones as {real:.1f}"
    return compare("collapse", synthetic / real, bar=MIN_DISTINCT, note=note)


def _off_manifold(table: _Table, kept: Mask, k: int) -> Criterion:
    real = table.block((UNCOVERED, COVERED), (UNCOVERED, COVERED))
    if len(real) <= k:
        return _not_measured(
            "off_manifold", f"{len(real)} real images, need more than {k}", MIN_PRECISION, at_least=True
        )
    across = table.block((UNCOVERED, COVERED), SYNTHETIC)[:, kept]
    inside: Mask = np.any(across <= ball_radii(real, k)[:, None], axis=0)
    note = f"{int(inside.sum())} of {len(inside)} lie where real images lie (precision, k = {k})"
    return compare("off_manifold", float(inside.mean()), bar=MIN_PRECISION, note=note)


def _arrival(
    arrival: tuple[tuple[int, int], tuple[int, int]] | None, settings: MatchedSettings
) -> Criterion | None:
    if arrival is None:
        return None
    (hits, total), (real_hits, real_total) = arrival
    if total < 1 or real_total < 1 or real_hits < 1:
        return _not_measured(
            "arrival", "the labeller finds the target category in no real image", MIN_ARRIVAL, at_least=True
        )
    ratio = (hits / total) / (real_hits / real_total)
    interval = ratio_of_shares((hits, total), (real_hits, real_total), confidence=settings.confidence)
    note = f"labelled as the target: {hits} of {total} synthetic, {real_hits} of {real_total} real images"
    return compare("arrival", ratio, bar=MIN_ARRIVAL, interval=interval, note=note)


# Drift, radius, completeness


def _gaps(
    table: _Table, units: list[str], settings: MatchedSettings, *, blind: bool
) -> tuple[list[Criterion], dict[str, float], dict[str, Any]]:
    gap_bar, gain_bar = settings.min_gap_closed, settings.min_completeness_gain
    names = {"drift": gap_bar, "radius": gap_bar, "completeness": gain_bar}
    numbers = {
        name: len({unit for unit, code in zip(units, table.sets, strict=True) if code == which})
        for name, which in (("uncovered", UNCOVERED), ("covered", COVERED), ("synthetic", SYNTHETIC))
    }
    short = {name: number for name, number in numbers.items() if number < FEWEST_UNITS}
    if blind or short:
        reason = (
            "not judged: the embedder does not tell the categories apart"
            if blind
            else "too few distinct images or groups: "
            + ", ".join(f"{number} {name}" for name, number in short.items())
            + f", need {FEWEST_UNITS}"
        )
        return [_not_measured(name, reason, bar, at_least=True) for name, bar in names.items()], {}, {}
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
    detectable = {"drift": gap_bar + drift.margin}
    measured: dict[str, Any] = {}
    try:
        radius = gaps.radius_gap(
            np.sqrt(table.squared), subsamples, k=settings.k, bar=gap_bar, confidence=settings.confidence
        )
    except TooFewError as error:
        criteria.append(_not_measured("radius", str(error), gap_bar, at_least=True))
    else:
        note = (
            f"median distance to the {settings.k}-th of {radius.rows} images: real {radius.among_real:.3g}, "
            f"synthetic {radius.among_synthetic:.3g}, covered {radius.among_covered:.3g}"
        )
        criteria.append(_gap_criterion("radius", radius.closed, gap_bar, note))
        detectable["radius"] = gap_bar + radius.closed.margin
        measured["radius rows"] = radius.rows
    gain = gaps.completeness_gain(
        table.squared, subsamples, seed=settings.seed, bar=gain_bar, confidence=settings.confidence
    )
    note = (
        f"new cells by {gain.rows:.0f} images: synthetic {gain.by_synthetic:.1f}, "
        f"held-out real {gain.by_real:.1f} (of 2^{gain.cuts} cells)"
    )
    criteria.append(_gap_criterion("completeness", gain.gain, gain_bar, note))
    detectable["completeness"] = gain_bar + gain.gain.margin
    measured |= {"completeness rows": gain.rows, "completeness cuts": gain.cuts}
    return criteria, {name: value for name, value in detectable.items() if math.isfinite(value)}, measured


def _gap_criterion(name: str, closed: gaps.GapClosed, bar: float, note: str) -> Criterion:
    if not all(math.isfinite(bound) for bound in closed.interval):
        value = closed.share if math.isfinite(closed.share) else None
        reason = f"too few images: what real images would bring cannot be told from nothing; {note}"
        return Criterion(name, value, bar, None, Outcome.INCONCLUSIVE, reason)
    return compare(name, closed.share, bar=bar, interval=closed.interval, note=note)


# Figures that judge nothing


def _figures(table: _Table, settings: MatchedSettings) -> tuple[Criterion, ...]:
    sizes = [len(table.of(which)) for which in (UNCOVERED, COVERED, SYNTHETIC)]
    n = min(*sizes, _FIGURE_ROWS)
    if n <= settings.k:
        return ()
    generator = np.random.default_rng(settings.seed)
    u, c, s = (
        table.rows[generator.choice(table.of(which), size=n, replace=False)]
        for which in (UNCOVERED, COVERED, SYNTHETIC)
    )

    def figure(name: str, value: float, note: str) -> Criterion:
        return Criterion(name, value, None, None, Outcome.INFO, note)

    pairs = [
        ("mean_ks", kolmogorov_smirnov(u, s).mean, kolmogorov_smirnov(u, c).mean),
        ("mean_cvm", cramer_von_mises(u, s).mean, cramer_von_mises(u, c).mean),
        ("frechet", frechet_distance(u, s), frechet_distance(u, c)),
    ]
    figures = [
        figure(name, ours, f"real uncovered to synthetic; to covered {theirs:.3g} ({n} images each)")
        for name, ours, theirs in pairs
    ]
    real_and_made = table.of(UNCOVERED, SYNTHETIC)
    _, p_value = mmd_permutation_test(
        table.kernel()[np.ix_(real_and_made, real_and_made)],
        table.sets[real_and_made] == UNCOVERED,
        permutations=PERMUTATIONS,
        seed=settings.seed,
    )
    figures.append(
        figure("mmd_p", p_value, "permutation p of the MMD between real uncovered and synthetic images")
    )
    if min(sizes) > settings.k:
        four = prdc_from_distances(
            table.block(UNCOVERED, UNCOVERED),
            table.block(SYNTHETIC, SYNTHETIC),
            table.block(UNCOVERED, SYNTHETIC),
            k=settings.k,
        )
        figures.extend(
            figure(name, value, f"against real uncovered images, k = {settings.k}")
            for name, value in four.to_dict().items()
        )
    with_s, with_c = effective_rank(np.concatenate([u, s])), effective_rank(np.concatenate([u, c]))
    figures.append(
        figure(
            "effective_rank",
            with_s,
            f"of real uncovered with synthetic; with covered {with_c:.3g} ({n} images each)",
        )
    )
    return tuple(figures)


# Words


def _summary(
    settings: MatchedSettings, outcome: Outcome, criteria: tuple[Criterion, ...], counts: dict[str, int]
) -> str:
    sizes = (
        f"{counts['synthetic']} synthetic, {counts['real uncovered']} real uncovered, "
        f"{counts['real covered']} real covered images"
    )
    if outcome is Outcome.PASS:
        said = "; ".join(
            f"{criterion.name} {criterion.value:.2f}"
            for criterion in criteria
            if criterion.name in ("drift", "radius", "completeness") and criterion.value is not None
        )
        return f"{settings.subject}: PASS, sufficient: {said} (1 = as good as real images; {sizes})"
    wanted = Outcome.FAIL if outcome is Outcome.FAIL else Outcome.INCONCLUSIVE
    reasons = [criterion for criterion in criteria if criterion.outcome is wanted]
    if outcome is Outcome.INCONCLUSIVE and reasons and reasons[0].name == "embedder":
        return f"{settings.subject}: INCONCLUSIVE: {reasons[0].note} ({sizes})"
    said = ", ".join(_reason(criterion) for criterion in reasons)
    word = "not sufficient" if outcome is Outcome.FAIL else "cannot be decided"
    return f"{settings.subject}: {outcome.value}, {word}: {said} ({sizes})"


def _reason(criterion: Criterion) -> str:
    if criterion.value is None:
        return f"{criterion.name} not measured"
    interval = ""
    if criterion.interval is not None:
        interval = f" [{criterion.interval[0]:.2f}, {criterion.interval[1]:.2f}]"
    bar = (
        ""
        if criterion.bar is None
        else f" (must be {'≥' if criterion.at_least else '≤'} {criterion.bar:.2g})"
    )
    return f"{criterion.name} {criterion.value:.2f}{interval}{bar}"


_ADVICE = {
    "embedder": "use an embedder that sees the semantic: the model under test, or a larger pretrained one",
    "failed": "too many generations are blank or flagged: look at them before anything else",
    "duplicates": "the generator repeats itself: vary seeds or sources",
    "identity": "the translator returns its input: check strength, prompt and weights",
    "copies": "the synthetic images reproduce real ones: fit the translator on other images than judge it",
    "collapse": "the generator produces few distinct images: vary seeds or sources",
    "off_manifold": "the synthetic images look like no real image to this model: look at them",
    "arrival": "the labeller does not take the synthetic images for the target category",
    "drift": "to this model the synthetic images are not close enough to real uncovered ones",
    "radius": "too few synthetic images lie near real uncovered ones",
    "completeness": "the synthetic images bring too little that is new",
}


def _advice(outcome: Outcome, criteria: tuple[Criterion, ...]) -> tuple[str, ...]:
    lines = [
        f"{criterion.name}: {_ADVICE[criterion.name]}"
        for criterion in criteria
        if criterion.outcome is Outcome.FAIL
        or (criterion.outcome is Outcome.INCONCLUSIVE and criterion.name == "embedder")
    ]
    if outcome is Outcome.INCONCLUSIVE and not lines:
        lines.append("more images (real uncovered ones most of all) narrow the intervals")
    return tuple(lines)
