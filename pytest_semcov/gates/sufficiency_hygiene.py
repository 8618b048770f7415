"""Step 0 (can this embedder tell?) and the hygiene criteria of the sufficiency gate.

Shares of the set at hand are facts, not estimates, and are held against their bars plainly; where chance
plays a part (copies, arrival) the criterion allows for it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from pytest_semcov.errors import TooFewError
from pytest_semcov.gates.sufficiency_sets import DistanceTable, MatchedInput, MatchedSettings, PreparedSet
from pytest_semcov.gates.verdict import Criterion, Outcome, compare
from pytest_semcov.metrics import hygiene
from pytest_semcov.metrics.arrays import Mask, nearest_distances
from pytest_semcov.metrics.gaps import COVERED, SYNTHETIC, UNCOVERED
from pytest_semcov.metrics.intervals import ratio_of_shares
from pytest_semcov.metrics.mmd import mmd_permutation_test
from pytest_semcov.metrics.power import POWER
from pytest_semcov.metrics.prdc import ball_radii

# Bars of the hygiene criteria.
MAX_FAILED_SHARE = 0.2
MAX_DUPLICATE_SHARE = 0.5
MAX_IDENTITY_SHARE = 0.1
MIN_DISTINCT = 0.5
MIN_PRECISION = 0.05
MIN_ARRIVAL = 0.8
# A labeller that finds the target in fewer of the real images cannot say what arrives.
MIN_REAL_ARRIVAL = 0.25
# False alarm of the copy test. Strict, because images of one camera are not independent.
COPY_LEVEL = 1e-4
# An excess of copies that must be detectable for the copy test to count as passed.
MAX_DETECTABLE_COPIES = 0.5
MAX_EMBEDDER_P = 0.05
PERMUTATIONS = 999
# With fewer images a real set now and then looks copied or collapsed: then these criteria do not refuse.
FEWEST_TO_REFUSE = 40
# So little variety no real set shows, however small.
SURELY_COLLAPSED = 0.25
# Nearer than this share of the usual distance between nearest real images means: the same image.
SAME_IMAGE = 0.25
_DIVERSITY_DRAWS = 20
_SHOWN_IDS = 5


def embedder_criterion(table: DistanceTable, units: list[str], settings: MatchedSettings) -> Criterion:
    """Judge whether this embedder tells U from C."""
    semantic = settings.semantic or "the difference between uncovered and covered images"
    u, c = table.of(UNCOVERED), table.of(COVERED)
    if min(len(u), len(c)) < 2:
        return not_measured(
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
    note = f"this embedder does not see {semantic} (MMD of uncovered against covered, permutation p)"
    return Criterion("embedder", p_value, MAX_EMBEDDER_P, None, Outcome.INCONCLUSIVE, note, at_least=False)


def not_measured(name: str, reason: str, bar: float | None, *, at_least: bool = False) -> Criterion:
    """Return an INCONCLUSIVE criterion without a value."""
    return Criterion(name, None, bar, None, Outcome.INCONCLUSIVE, reason, at_least)


def failed_criterion(failed: int, usable: int) -> Criterion:
    """Judge the share of generations that failed."""
    share = failed / (failed + usable)
    note = f"{failed} of {failed + usable} generations were blank or flagged and are not judged"
    return compare("failed", share, bar=MAX_FAILED_SHARE, at_least=False, note=note)


def duplicates_criterion(repeated: Mask, made: PreparedSet) -> Criterion:
    """Judge the share of S that repeats other images of S; exact repetitions among all of them."""
    count, images = int(repeated.sum()), len(repeated)
    if made.repetitions / (images + made.left_out) > count / images:
        count, images = made.repetitions, images + made.left_out
    note = f"{count} of {images} repeat another synthetic image and were removed"
    return compare("duplicates", count / images, bar=MAX_DUPLICATE_SHARE, at_least=False, note=note)


def identity_criterion(data: MatchedInput, made: PreparedSet, table: DistanceTable) -> Criterion:
    """Judge the share of S that equals its source."""
    if data.sources is None:
        moved, what = nearest_distances(made.rows, data.covered), "a covered image"
    else:
        moved = np.linalg.norm(made.rows - data.sources[made.original], axis=1)
        what = "its source"
    same = moved <= SAME_IMAGE * table.usual_nearest(COVERED)
    note = f"{int(same.sum())} of {len(same)} equal {what} or nearly so{_named(data, made, same)}"
    return compare("identity", float(same.mean()), bar=MAX_IDENTITY_SHARE, at_least=False, note=note)


def copies_criterion(data: MatchedInput, made: PreparedSet, table: DistanceTable) -> Criterion:
    """Judge the excess of S that copies images of U."""
    try:
        found = hygiene.copy_excess(
            table.block(UNCOVERED, UNCOVERED), table.block(SYNTHETIC, UNCOVERED), level=COPY_LEVEL
        )
    except TooFewError as error:
        return not_measured("copies", str(error), None)
    suspects = found.relative <= SAME_IMAGE
    same = float(suspects.mean() - (found.held_out <= SAME_IMAGE).mean())
    if same > MAX_IDENTITY_SHARE:
        note = (
            f"{int(suspects.sum())} of {len(suspects)} equal an uncovered image or nearly so (excess over "
            f"held-out real ones){_named(data, made, suspects)}"
        )
        criterion = compare("copies", same, bar=MAX_IDENTITY_SHARE, at_least=False, note=note)
    else:
        note = (
            "excess share of synthetic images nearer to a single uncovered image than held-out real ones are"
            + _named(data, made, suspects)
        )
        criterion = compare("copies", found.share, bar=found.critical, at_least=False, note=note)
    if criterion.outcome is Outcome.FAIL:
        return _left_open(criterion, min(len(suspects), len(found.held_out)))
    if criterion.outcome is Outcome.PASS and found.critical > MAX_DETECTABLE_COPIES:
        note = f"too few images: only an excess above {found.critical:.2f} could be told from chance"
        return Criterion(
            "copies", found.share, found.critical, None, Outcome.INCONCLUSIVE, note, at_least=False
        )
    return criterion


def detectable_copies(uncovered: int, synthetic: int) -> float | None:
    """Return the true share of copies that would be refused with probability 0.8; ``None`` if none would.

    Beside the copies, S is taken to look like held-out images of U. Approximate: the normal spread, at its
    widest, of the difference of two shares added to the critical value.
    """
    if min(uncovered, synthetic) < FEWEST_TO_REFUSE:
        return None
    critical = hygiene.critical_excess(uncovered, synthetic, level=COPY_LEVEL)
    spread = 0.5 * math.sqrt(1 / uncovered + 1 / synthetic)
    share = critical + NormalDist().inv_cdf(POWER) * spread
    return share if share <= 1 else None


def _left_open(criterion: Criterion, images: int) -> Criterion:
    """Return a criterion that failed as INCONCLUSIVE if it rests on few images."""
    if images >= FEWEST_TO_REFUSE:
        return criterion
    note = f"{criterion.note}; {images} images, fewer than {FEWEST_TO_REFUSE} do not show this for sure"
    return replace(criterion, outcome=Outcome.INCONCLUSIVE, note=note)


def _named(data: MatchedInput, made: PreparedSet, rows: Mask) -> str:
    if data.synthetic_ids is None or not rows.any():
        return ""
    names = sorted(data.synthetic_ids[row] for row in made.original[rows])
    return f", e.g. {', '.join(names[:_SHOWN_IDS])}"


def collapse_criterion(table: DistanceTable, settings: MatchedSettings) -> Criterion:
    """Judge the number of distinct images in S, relative to real ones."""
    try:
        synthetic, real, rows = hygiene.relative_diversity(
            table.block(SYNTHETIC, SYNTHETIC),
            table.block(UNCOVERED, UNCOVERED),
            table.block(COVERED, COVERED),
            k=settings.k,
            draws=_DIVERSITY_DRAWS,
            seed=settings.seed,
        )
    except TooFewError as error:
        return not_measured("collapse", str(error), MIN_DISTINCT, at_least=True)
    note = f"{rows} synthetic images count as {synthetic:.1f} distinct ones, real ones as {real:.1f}"
    criterion = compare("collapse", synthetic / real, bar=MIN_DISTINCT, note=note)
    if criterion.outcome is Outcome.FAIL and synthetic / real >= SURELY_COLLAPSED:
        return _left_open(criterion, rows)
    return criterion


def off_manifold_criterion(table: DistanceTable, kept: Mask, k: int) -> Criterion:
    """Judge the share of S where real images lie (improved precision in U ∪ C)."""
    real = table.block((UNCOVERED, COVERED), (UNCOVERED, COVERED))
    if len(real) <= k:
        return not_measured(
            "off_manifold", f"{len(real)} real images, need more than {k}", MIN_PRECISION, at_least=True
        )
    across = table.block((UNCOVERED, COVERED), SYNTHETIC)[:, kept]
    inside: Mask = np.any(across <= ball_radii(real, k)[:, None], axis=0)
    note = f"{int(inside.sum())} of {len(inside)} lie where real images lie (precision, k = {k})"
    return compare("off_manifold", float(inside.mean()), bar=MIN_PRECISION, note=note)


def arrival_criterion(
    arrival: tuple[tuple[int, int], tuple[int, int]] | None, settings: MatchedSettings
) -> Criterion | None:
    """Judge the share of S labelled as the target category, relative to U."""
    if arrival is None:
        return None
    (hits, total), (real_hits, real_total) = arrival
    if total < 1 or real_hits < max(1, MIN_REAL_ARRIVAL * real_total):
        reason = f"the labeller finds the target in {real_hits} of {real_total} real images"
        return not_measured("arrival", reason, MIN_ARRIVAL, at_least=True)
    ratio = (hits / total) / (real_hits / real_total)
    interval = ratio_of_shares((hits, total), (real_hits, real_total), confidence=settings.confidence)
    note = f"labelled as the target: {hits} of {total} synthetic, {real_hits} of {real_total} real images"
    return compare("arrival", ratio, bar=MIN_ARRIVAL, interval=interval, note=note)
