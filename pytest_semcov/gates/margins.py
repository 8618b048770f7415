"""How precisely the sufficiency gate would judge an ideal synthetic set: measured on real images alone.

Held-out real images of a category are what an ideal translator makes. So one random half of them is judged
as if it were synthetic, against the other half: its margins are those of an ideal set at that number of
images, and fall as 1/√n with more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import TooFewError
from pytest_semcov.gates.sufficiency_hygiene import (
    COPY_LEVEL,
    MAX_DETECTABLE_COPIES,
    MAX_EMBEDDER_P,
    PERMUTATIONS,
)
from pytest_semcov.gates.sufficiency_matched import FEWEST_UNITS
from pytest_semcov.gates.sufficiency_sets import DistanceTable, PreparedSet, prepare
from pytest_semcov.metrics import gaps
from pytest_semcov.metrics.arrays import as_embeddings, group_codes
from pytest_semcov.metrics.gaps import UNCOVERED, GapClosed
from pytest_semcov.metrics.hygiene import critical_excess
from pytest_semcov.metrics.mmd import mmd_permutation_test
from pytest_semcov.metrics.power import PLANNED, needed_for_interval, wanted_margin

USUAL_REAL_IMAGES = 60
"""Real images of a category with which an ideal synthetic set of as many passes at the bars 0.5.

The general figure where the images at hand are too few to measure. Other photographs of night passed in
372 of 400 runs with 60 (docs/calibration.md), under an ImageNet model.
"""

_NEIGHBOUR = 5
_RADIUS_NEEDS = 6 * _NEIGHBOUR  # real images, a third of which hold twice as many as the neighbour's rank
_SPLITS = 5


@dataclass(frozen=True, slots=True)
class Margin:
    """The margin of one share of a gap closed.

    Parameters
    ----------
    value
        As ``GapClosed.margin``, over several splits; infinite where real images could not be told from
        covered ones.
    critical
        The margin is so many standard errors.
    """

    value: float
    critical: float


@dataclass(frozen=True, slots=True)
class IdealMargins:
    """Margins of an ideal synthetic set.

    Parameters
    ----------
    images
        Real images in a half: with so many real and as many synthetic ones the margins were measured.
    embedder_p
        Permutation p-value of the MMD between all these images and the covered ones, as the gate judges
        whether the embedder tells them apart.
    drift, radius, completeness
        Margins; that of the radius is ``None`` where a half is too small for it.
    """

    images: int
    embedder_p: float
    drift: Margin
    radius: Margin | None
    completeness: Margin

    def by_criterion(self) -> Mapping[str, Margin | None]:
        """Return criterion → margin."""
        return {"drift": self.drift, "radius": self.radius, "completeness": self.completeness}


def ideal_margins(
    uncovered: ArrayLike,
    covered: ArrayLike,
    *,
    uncovered_groups: Sequence[object] | None = None,
    covered_groups: Sequence[object] | None = None,
    min_gap_closed: float = 0.5,
    min_completeness_gain: float = 0.5,
    repeats: int = 200,
    seed: int = 0,
) -> IdealMargins:
    """Measure the margins of drift, radius and completeness with halves of the real images.

    Parameters
    ----------
    uncovered, covered
        ``(n, d)`` embeddings of real images of the category in question, and of others.
    uncovered_groups, covered_groups
        Group of each row; halves are split by group.
    min_gap_closed, min_completeness_gain, repeats, seed
        As for the gate.

    Raises
    ------
    TooFewError
        If there are fewer than 20 distinct images (or groups) of the category, or 10 others.
    """
    real, others = as_embeddings(uncovered, name="uncovered"), as_embeddings(covered, name="covered")
    u = prepare(
        real,
        group_codes(uncovered_groups, len(real), name="uncovered_groups"),
        "u",
        drop_repeats=True,
        seed=seed,
    )
    c = prepare(
        others,
        group_codes(covered_groups, len(others), name="covered_groups"),
        "c",
        drop_repeats=True,
        seed=seed,
    )
    names, unit_of_row = np.unique(u.units, return_inverse=True)
    for what, number, fewest in (
        ("of the category", len(names), 2 * FEWEST_UNITS),
        ("others", len(set(c.units)), FEWEST_UNITS),
    ):
        if number < fewest:
            raise TooFewError(f"{number} distinct real images or groups {what}: need {fewest}")
    p_value = _told_apart(u, c, seed)
    generator = np.random.default_rng(seed)
    measured: list[list[GapClosed | None]] = []
    halves = []
    for _ in range(_SPLITS):
        made = (gaps.random_parts(np.zeros(len(names), dtype=np.intp), 2, generator) == 0)[unit_of_row]
        table = DistanceTable.build(u.rows[~made], c.rows, u.rows[made])
        units = [*np.array(u.units)[~made], *c.units, *np.array(u.units)[made]]
        subsamples = gaps.draw_subsamples(table.sets, units, repeats=repeats, seed=seed)
        try:
            radius = gaps.radius_gap(
                np.sqrt(table.squared), subsamples, k=_NEIGHBOUR, bar=min_gap_closed
            ).closed
        except TooFewError:
            radius = None
        drift = gaps.drift_gap(table.kernel(), subsamples, bar=min_gap_closed)
        gain = gaps.completeness_gain(table.squared, subsamples, seed=seed, bar=min_completeness_gain).gain
        measured.append([drift, radius, gain])
        halves.append(int((~made).sum()))
    drift_margin, radius_margin, gain_margin = (_pooled(list(each)) for each in zip(*measured, strict=True))
    assert drift_margin is not None
    assert gain_margin is not None
    return IdealMargins(int(np.median(halves)), p_value, drift_margin, radius_margin, gain_margin)


def real_images_needed(
    margins: IdealMargins, share: float, *, min_gap_closed: float = 0.5, min_completeness_gain: float = 0.5
) -> tuple[int | None, str]:
    """Return how many real images let a synthetic set of as many images pass, and how the number comes about.

    Parameters
    ----------
    margins
        As measured.
    share
        True share of the gap that the set closes, above both bars.
    min_gap_closed, min_completeness_gain
        Bars.

    Returns
    -------
    needed, note
        ``None`` where the embedder does not tell the images apart.
    """
    bars = {"drift": min_gap_closed, "radius": min_gap_closed, "completeness": min_completeness_gain}
    usual = usual_real_images(
        share, min_gap_closed=min_gap_closed, min_completeness_gain=min_completeness_gain
    )
    known = {name: margin for name, margin in margins.by_criterion().items() if margin is not None}
    blind = [name for name, margin in known.items() if not math.isfinite(margin.value)]
    if blind or margins.embedder_p > MAX_EMBEDDER_P:
        few = 2 * margins.images < USUAL_REAL_IMAGES
        note = (
            f"this embedder does not tell {2 * margins.images} real images from the others "
            f"({blind[0] if blind else f'p {margins.embedder_p:.2g}'})"
        )
        return (usual, f"a general figure, from photographs; {note}") if few else (None, note)
    # All three must pass: each with so high a probability that all do with the planned one.
    probability = 1 - (1 - PLANNED) / len(bars)
    numbers = {
        name: needed_for_interval(
            margin.value,
            margins.images,
            wanted_margin(share, bars[name], critical=margin.critical, probability=probability) or 0.0,
        )
        for name, margin in known.items()
    }
    numbers["copies"] = _fewest_for_copies()
    decisive = max(numbers, key=lambda name: numbers[name])
    note = (
        f"real images, and as many synthetic ones; with probability {PLANNED:g}, margins measured with "
        f"{margins.images} real images against {margins.images}, {decisive} decides"
    )
    if margins.radius is not None:
        return max(_RADIUS_NEEDS, numbers[decisive]), note
    return (
        max(usual, numbers[decisive]),
        f"{note}; the radius cannot be measured with fewer than {2 * _RADIUS_NEEDS}, for it the general "
        f"figure {usual} stands",
    )


def usual_real_images(
    share: float, *, min_gap_closed: float = 0.5, min_completeness_gain: float = 0.5
) -> int:
    """Return the general figure for a share and bars: margins fall as 1/√n.

    Arguments as for :func:`real_images_needed`.
    """
    return needed_for_interval(0.5, USUAL_REAL_IMAGES, share - max(min_gap_closed, min_completeness_gain))


def _fewest_for_copies() -> int:
    """Return how many real and as many synthetic images let the copy test pass at all."""
    images = 1
    while critical_excess(images, images, level=COPY_LEVEL) > MAX_DETECTABLE_COPIES:
        images += 1
    return images


def _told_apart(u: PreparedSet, c: PreparedSet, seed: int) -> float:
    """Return the permutation p-value of the MMD between two sets."""
    table = DistanceTable.build(u.rows, c.rows, u.rows[:0])
    units = np.array([*u.units, *c.units])
    _, p_value = mmd_permutation_test(
        table.kernel(),
        table.sets == UNCOVERED,
        groups=units if len(set(units)) < len(units) else None,
        permutations=PERMUTATIONS,
        seed=seed,
    )
    return p_value


def _pooled(found: Sequence[GapClosed | None]) -> Margin | None:
    """Return the margin over all splits; ``None`` if it could not be measured in most of them.

    Standard error and denominator are averaged apart: a denominator near zero in one split says little.
    """
    known = [each for each in found if each is not None and math.isfinite(each.denominator)]
    if 2 * len(known) <= len(found):
        return None
    critical = float(np.median([each.critical for each in known]))
    widths = [each.margin * each.denominator for each in known if math.isfinite(each.margin)]
    gap = float(np.mean([each.denominator for each in known]))
    return Margin(float(np.median(widths)) / gap if widths and gap > 0 else math.inf, critical)
