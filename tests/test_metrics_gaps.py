"""Shares of gaps closed: against brute force, closed forms and known truths."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics import gaps
from pytest_semcov.metrics.arrays import distances, squared_distances
from pytest_semcov.metrics.completeness import semantic_cells
from pytest_semcov.metrics.gaps import (
    COVERED,
    PARTS,
    SYNTHETIC,
    UNCOVERED,
    completeness_gain,
    draw_subsamples,
    drift_gap,
    radius_gap,
)
from pytest_semcov.metrics.mmd import mmd_squared, rbf_kernel

Rows = np.ndarray


def stacked(u: Rows, c: Rows, s: Rows) -> tuple[Rows, Rows]:
    sets = np.repeat([UNCOVERED, COVERED, SYNTHETIC], [len(u), len(c), len(s)])
    return np.concatenate([u, c, s]), sets


def own_units(sets: Rows) -> Rows:
    return np.arange(len(sets))


def shifted_sets(
    seed: int, n: int = 60, width: int = 12, shift: float = 1.5, part: float = 1.0
) -> tuple[Rows, Rows, Rows]:
    """U and C differ by a shift along one axis; S makes a part of it."""
    generator = np.random.default_rng(seed)
    axis = np.eye(width)[0] * shift
    u, c, s = (generator.normal(size=(n, width)) for _ in range(3))
    return u + axis, c, s + part * axis


# Subsamples


def test_every_unit_is_left_out_equally_often() -> None:
    sets = np.repeat([0, 1, 2], [20, 35, 15])

    drawn = draw_subsamples(sets, own_units(sets), repeats=50, seed=1)

    assert drawn.included.shape == (70, 51)
    assert drawn.included[:, 0].all()
    np.testing.assert_array_equal((~drawn.included[:, 1:]).sum(axis=1), 50 // PARTS)
    for which, size in enumerate([20, 35, 15]):
        counts = drawn.included[sets == which, 1:].sum(axis=0)
        np.testing.assert_array_equal(counts, size - size // PARTS)


def test_units_are_drawn_whole_and_jointly() -> None:
    """A scene with images in C and S is in or out in both; its images are never apart."""
    sets = np.repeat([0, 1, 2], [30, 30, 30])
    units = np.concatenate([np.arange(30) // 3, 100 + np.arange(30) // 2, 100 + np.arange(30) // 2])

    drawn = draw_subsamples(sets, units, repeats=40, seed=0)

    for unit in np.unique(units):
        rows = drawn.included[units == unit]
        assert (rows == rows[0]).all()
    assert drawn.count_units(UNCOVERED) == 10


def test_same_seed_same_subsamples() -> None:
    sets = np.repeat([0, 1, 2], 10)

    first, again, other = (
        draw_subsamples(sets, own_units(sets), repeats=20, seed=seed).included for seed in (3, 3, 4)
    )

    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


# Drift


def test_drift_gap_is_one_minus_a_ratio_of_unbiased_distances() -> None:
    u, c, s = shifted_sets(0, part=0.4)
    rows, sets = stacked(u, c, s[:37])
    kernel = rbf_kernel(squared_distances(rows), 2.0)

    gap = drift_gap(kernel, draw_subsamples(sets, own_units(sets), repeats=20, seed=0), bar=0.5)

    to_c, to_s = mmd_squared(u, c, bandwidth=2.0), mmd_squared(u, s[:37], bandwidth=2.0)
    assert gap.denominator == pytest.approx(to_c, rel=1e-10)
    assert gap.share == pytest.approx(1 - to_s / to_c, rel=1e-10)


def test_distance_between_halves_is_zero_on_average() -> None:
    """Why D(U, U') needs no split: over all splits of 8 rows the unbiased MMD² averages to 0."""
    rows = np.random.default_rng(5).normal(size=(8, 3))

    values = [
        mmd_squared(rows[list(half)], rows[[i for i in range(8) if i not in half]], bandwidth=1.0)
        for half in itertools.combinations(range(8), 4)
    ]

    assert max(values) > 0.01
    assert np.mean(values) == pytest.approx(0, abs=1e-12)


def test_drift_gap_leaves_out_pairs_of_one_group() -> None:
    generator = np.random.default_rng(2)
    u, c, s = shifted_sets(2, n=18, width=3, part=0.5)
    rows, sets = stacked(u, c, s)
    units = generator.integers(12, size=len(rows))
    kernel = rbf_kernel(squared_distances(rows), 1.5)

    gap = drift_gap(kernel, draw_subsamples(sets, units, repeats=20, seed=0), bar=0.5)

    def mean(first: int, second: int) -> float:
        pairs = [
            kernel[i, j]
            for i in np.flatnonzero(sets == first)
            for j in np.flatnonzero(sets == second)
            if units[i] != units[j]
        ]
        return float(np.mean(pairs))

    def apart(which: int) -> float:
        return mean(0, 0) + mean(which, which) - 2 * mean(0, which)

    assert gap.share == pytest.approx(1 - apart(2) / apart(1), rel=1e-10)


@pytest.mark.parametrize(("part", "low", "high"), [(0.0, -0.3, 0.3), (1.0, 0.7, 1.3), (-1.0, -9.0, -0.7)])
def test_drift_gap_direction(part: float, low: float, high: float) -> None:
    """Covered images close nothing, real ones all; the wrong way is below zero."""
    rows, sets = stacked(*shifted_sets(4, n=150, part=part))
    kernel = rbf_kernel(squared_distances(rows), 3.0)

    gap = drift_gap(kernel, draw_subsamples(sets, own_units(sets), repeats=100, seed=0), bar=0.5)

    assert low < gap.share < high
    assert gap.interval[0] < gap.share < gap.interval[1]


# Radius


def test_expected_distance_is_that_over_all_draws() -> None:
    """Mean over every choice of n images, each image of U without itself."""
    generator = np.random.default_rng(7)
    k = 1
    u, c, s = generator.normal(size=(9, 2)), generator.normal(size=(7, 2)) + 2, generator.normal(size=(8, 2))
    rows, sets = stacked(u, c, s)

    gap = radius_gap(
        distances(rows), draw_subsamples(sets, own_units(sets), repeats=10, seed=0), k=k, bar=0.5
    )

    def expected(members: Rows, leave_out: bool) -> list[float]:
        values = []
        for index, query in enumerate(u):
            others = np.delete(members, index, axis=0) if leave_out else members
            to = np.linalg.norm(others - query, axis=1)
            draws = itertools.combinations(range(len(to)), gap.rows)
            values.append(float(np.mean([np.sort(to[list(draw)])[k - 1] for draw in draws])))
        return values

    real, covered, synthetic = expected(u, True), expected(c, False), expected(s, False)
    assert gap.rows == 3
    assert gap.among_real == pytest.approx(np.median(real), rel=1e-10)
    assert gap.among_covered == pytest.approx(np.median(covered), rel=1e-10)
    assert gap.among_synthetic == pytest.approx(np.median(synthetic), rel=1e-10)
    closed = (np.mean(covered) - np.mean(synthetic)) / (np.mean(covered) - np.mean(real))
    assert gap.closed.share == pytest.approx(closed, rel=1e-10)


def test_neighbours_of_the_own_group_do_not_count() -> None:
    """Every image twice, as one group: the copies change nothing."""
    u, c, s = shifted_sets(3, n=40, part=0.5)
    rows, sets = stacked(u, c, s)
    once = radius_gap(
        distances(rows), draw_subsamples(sets, own_units(sets), repeats=10, seed=0), k=2, bar=0.5
    )

    doubled = np.repeat(rows, 2, axis=0)
    subsamples = draw_subsamples(np.repeat(sets, 2), np.repeat(own_units(sets), 2), repeats=10, seed=0)
    twice = radius_gap(distances(doubled), subsamples, k=2, bar=0.5)
    ungrouped = radius_gap(
        distances(doubled),
        draw_subsamples(np.repeat(sets, 2), own_units(doubled), repeats=10, seed=0),
        k=2,
        bar=0.5,
    )

    assert twice.among_real > 0.8 * once.among_real
    assert ungrouped.among_real < twice.among_real


@pytest.mark.parametrize(("part", "low", "high"), [(0.0, -0.35, 0.35), (1.0, 0.65, 1.4), (-1.0, -9.0, -0.5)])
def test_radius_gap_direction(part: float, low: float, high: float) -> None:
    rows, sets = stacked(*shifted_sets(11, n=200, width=6, part=part))

    gap = radius_gap(
        distances(rows), draw_subsamples(sets, own_units(sets), repeats=50, seed=0), k=5, bar=0.5
    )

    assert low < gap.closed.share < high


def test_radius_needs_twice_as_many_rows_as_neighbours() -> None:
    rows, sets = stacked(*shifted_sets(0, n=29))

    with pytest.raises(TooFewError, match=r"9 images .* need 10"):
        radius_gap(distances(rows), draw_subsamples(sets, own_units(sets), repeats=10, seed=0), k=5, bar=0.5)


# Cells and completeness


def test_cells_are_those_of_explicit_coordinates() -> None:
    """The same cuts from distances alone as from projections computed with the rows themselves."""
    generator = np.random.default_rng(0)
    u, c = generator.normal(size=(40, 6)) + 1, generator.normal(size=(40, 6)) * np.arange(1, 7)
    rows = np.concatenate([u, c, generator.normal(size=(30, 6))])

    cells, cuts = semantic_cells(squared_distances(rows + 100), np.arange(40), np.arange(40, 80))

    between = u.mean(axis=0) - c.mean(axis=0)
    between /= np.linalg.norm(between)
    centred = rows - rows[:80].mean(axis=0)
    rest = centred - np.outer(centred @ between, between)
    _, _, axes = np.linalg.svd(rest[:80], full_matrices=False)
    scores = np.column_stack([centred @ between, rest @ axes.T])[:, :cuts]
    above = scores >= np.median(scores[:80], axis=0)
    # Cells agree up to the sign of each direction: two rows share a cell in both or in neither.
    ours = cells[:, None] == cells[None, :]
    theirs = (above[:, None] == above[None, :]).all(axis=2)
    np.testing.assert_array_equal(ours, theirs)


def test_the_first_cut_tells_the_categories_apart() -> None:
    u, c, _ = shifted_sets(0, n=50, shift=12)
    rows = np.concatenate([u, c])

    cells, _ = semantic_cells(squared_distances(rows), np.arange(50), np.arange(50, 100))

    assert len(set(cells[:50] & 1)) == 1
    assert len(set(cells[50:] & 1)) == 1
    assert (cells[0] & 1) != (cells[-1] & 1)


@pytest.mark.parametrize("n", [12, 60, 400])
def test_at_most_a_tenth_of_the_cells_is_occupied(n: int) -> None:
    rows = np.random.default_rng(n).normal(size=(2 * n, 30))

    cells, cuts = semantic_cells(squared_distances(rows), np.arange(n), np.arange(n, 2 * n))

    occupied = len(np.unique(cells))
    assert occupied <= 0.1 * 2**cuts
    assert cells.max() < 2**cuts


def test_cells_of_equal_rows() -> None:
    cells, cuts = semantic_cells(np.zeros((6, 6)), np.arange(3), np.arange(3, 6))

    assert len(np.unique(cells)) == 1
    assert cuts == 1


def gain_of(u: Rows, c: Rows, s: Rows, units: Rows | None = None) -> gaps.CompletenessGain:
    rows, sets = stacked(u, c, s)
    subsamples = draw_subsamples(sets, own_units(sets) if units is None else units, repeats=100, seed=0)
    return completeness_gain(squared_distances(rows), subsamples, seed=0, bar=0.5)


def test_completeness_gain_directions() -> None:
    """Real images gain 1, the covered ones again exactly nothing, copies and three images little."""
    u, c, s = shifted_sets(1, n=100)

    real, identity = gain_of(u, c, s), gain_of(u, c, c)
    copies, collapse = gain_of(u, c, u), gain_of(u, c, np.repeat(s[:3], 30, axis=0))

    assert real.gain.share == pytest.approx(1, abs=0.25)
    assert real.gain.interval[0] < 1 < real.gain.interval[1]
    assert identity.gain.share == 0
    # One copy in four is of an image that is held out itself.
    assert copies.gain.share == pytest.approx(0.25, abs=0.1)
    assert collapse.gain.interval[1] < 0.3


def test_expected_cells_against_drawing() -> None:
    generator = np.random.default_rng(0)
    cells = generator.integers(25, size=60)
    units = generator.integers(30, size=60)
    sets = np.repeat([0, 1, 2], [20, 20, 20])
    subsamples = draw_subsamples(sets, units, repeats=5, seed=0)
    rows = np.arange(40, 60)
    free = cells % 2 == 0

    expected = gaps._expected_cells(cells, rows, free, subsamples, drawn=8.0)[0]

    names = np.unique(units[rows])
    touches = np.array(
        [
            [bool(((cells[rows] == cell) & (units[rows] == name)).any()) for name in names]
            for cell in np.unique(cells[rows])
            if cell % 2 == 0
        ]
    )
    taken = generator.random((20_000, len(names))) < 8 / 20
    counts = (taken[:, None, :] & touches[None]).any(axis=2).sum(axis=1)
    assert expected == pytest.approx(counts.mean(), abs=4 * counts.std() / math.sqrt(len(counts)))


def test_gains_too_small_to_measure_have_no_interval() -> None:
    """U all within C's cells: nothing that held-out images bring, nothing to divide by."""
    c = np.random.default_rng(0).normal(size=(60, 4))

    gain = gain_of(c[:40], c, c[:30]).gain

    assert gain.denominator == 0
    assert math.isnan(gain.share)
    assert gain.interval == (-math.inf, math.inf)


# Intervals


def coverage_of_intervals(draws: int, *, n: int, part: float) -> dict[str, float]:
    """Share of intervals that hold the true share."""

    def shares(seed: int, size: int, repeats: int) -> tuple[gaps.GapClosed, gaps.GapClosed]:
        rows, sets = stacked(*shifted_sets(seed, n=size, width=8, shift=2.0, part=part))
        squared = squared_distances(rows)
        subsamples = draw_subsamples(sets, own_units(sets), repeats=repeats, seed=seed)
        drift = drift_gap(rbf_kernel(squared, 3.0), subsamples, bar=0.5)
        return drift, radius_gap(np.sqrt(squared), subsamples, k=5, bar=0.5).closed

    found = [shares(seed, n, 100) for seed in range(draws)]
    covered = {}
    for place, name in enumerate(("drift", "radius")):
        gap = [each[place] for each in found]
        # The mean numerator over the mean denominator has no bias worth naming over many draws.
        truth = np.mean([each.numerator for each in gap]) / np.mean([each.denominator for each in gap])
        covered[name] = float(np.mean([each.interval[0] <= truth <= each.interval[1] for each in gap]))
    return covered


def test_intervals_hold_the_truth() -> None:
    covered = coverage_of_intervals(30, n=60, part=0.5)

    # At 95 % nominal, fewer than 26 of 30 would have probability 1.6 % (the seeds are fixed).
    assert covered["drift"] >= 26 / 30
    assert covered["radius"] >= 26 / 30


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n", [60, 150])
def test_intervals_hold_the_truth_on_many_draws(n: int, part: float) -> None:
    covered = coverage_of_intervals(300, n=n, part=part)

    assert covered["drift"] >= 0.92
    assert covered["radius"] >= 0.92
