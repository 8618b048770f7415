"""Maximum mean discrepancy, its bandwidth and its permutation test."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.arrays import squared_distances
from pytest_semcov.metrics.mmd import (
    median_bandwidth_from_distances,
    mmd_permutation_test,
    mmd_squared,
    mmd_test,
    rbf_kernel,
)


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


def test_needed_rows() -> None:
    one, many = normal(1), normal(9)
    for first, second in ((one, many), (many, one)):
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            mmd_squared(first, second, bandwidth=1.0)
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            mmd_test(first, second, bandwidth=1.0)


def mmd_by_loops(x: np.ndarray, y: np.ndarray, bandwidth: float) -> float:
    """Gretton et al. 2012, equation 3, term by term."""

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-((a.astype(float) - b) ** 2).sum() / (2 * bandwidth**2)))

    n, m = len(x), len(y)
    within_x = sum(kernel(x[i], x[j]) for i in range(n) for j in range(n) if i != j)
    within_y = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j)
    across = sum(kernel(a, b) for a in x for b in y)
    return within_x / (n * (n - 1)) + within_y / (m * (m - 1)) - 2 * across / (n * m)


@pytest.mark.parametrize(("n", "m"), [(20, 20), (25, 9), (2, 2)])
@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_mmd_as_double_loop(n: int, m: int, shift: float, offset: float) -> None:
    x, y = normal(n) + offset, normal(m, seed=1, shift=shift) + offset
    for bandwidth in (0.5, 2.0):
        expected = mmd_by_loops(x, y, bandwidth)
        assert mmd_squared(x, y, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert mmd_squared(y, x, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert mmd_test(x, y, bandwidth=bandwidth, permutations=9)[0] == pytest.approx(expected, abs=1e-9)


def test_mmd_closed_forms() -> None:
    # Two constant sets at distance 3: 1 + 1 - 2 exp(-9 / 2σ²).
    x, y = np.zeros((4, 1)), np.full((3, 1), 3.0)
    assert mmd_squared(x, y, bandwidth=2.0) == pytest.approx(2 - 2 * np.exp(-9 / 8))
    assert mmd_squared(x, x, bandwidth=2.0) == pytest.approx(0, abs=1e-12)
    # A set with itself: across contains the n ones of the diagonal, within does not.
    z = normal(10)
    table = np.exp(-squared_distances(z) / 2)
    mean = (table.sum() - 10) / 90
    assert mmd_squared(z, z, bandwidth=1.0) == pytest.approx(2 * mean - 2 * table.mean())
    assert mmd_squared(z, z, bandwidth=1.0) < 0


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan")])
def test_bandwidth_must_be_positive(bandwidth: float) -> None:
    with pytest.raises(ArgumentError, match="bandwidth"):
        mmd_squared(normal(5), normal(5), bandwidth=bandwidth)


def weighted_lower_median(blocks: list[tuple[np.ndarray, Fraction]]) -> float:
    entries = sorted(
        (value, share / len(values)) for values, share in blocks for value in values.ravel().tolist()
    )
    passed = Fraction(0)
    for value, weight in entries:
        passed += weight
        if passed >= sum(share for _, share in blocks) / 2:
            return value
    raise AssertionError


@pytest.mark.parametrize(("n", "m"), [(8, 8), (5, 13)])
def test_median_bandwidth_from_distances(n: int, m: int) -> None:
    u, c = normal(n), 3 * normal(m, seed=1)
    across, within_u, within_c = squared_distances(u, c), squared_distances(u), squared_distances(c)
    expected = weighted_lower_median(
        [
            (across.ravel(), Fraction(1, 2)),
            (within_u[np.triu_indices(n, 1)], Fraction(1, 4)),
            (within_c[np.triu_indices(m, 1)], Fraction(1, 4)),
        ]
    )
    found = median_bandwidth_from_distances(across, within_u, within_c)
    assert 2 * found**2 == pytest.approx(expected)
    assert median_bandwidth_from_distances(across.T, within_c, within_u) == pytest.approx(found)


def test_median_bandwidth_from_distances_with_copies() -> None:
    zero = np.zeros((4, 4))
    assert median_bandwidth_from_distances(zero, zero, zero) == 1
    # The median is 0: the smallest positive distance takes its place.
    apart = zero.copy()
    apart[0, 1:] = apart[1:, 0] = [8.0, 50.0, 50.0]
    assert median_bandwidth_from_distances(zero, zero, apart) == pytest.approx(2.0)


def test_permutation_p_against_all_relabellings() -> None:
    x, y = normal(4, 2), normal(4, 2, seed=4, shift=1.2)
    pooled = np.concatenate([x, y])
    observed = mmd_by_loops(x, y, 1.0)
    values = [
        mmd_by_loops(pooled[list(rows)], np.delete(pooled, rows, axis=0), 1.0)
        for rows in itertools.combinations(range(8), 4)
    ]
    exact = np.mean([value >= observed - 1e-12 for value in values])
    assert 0.02 < exact < 0.5
    _, p_value = mmd_test(x, y, bandwidth=1.0, permutations=4999, seed=1)
    assert p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4999))


def test_permutation_p_moves_whole_groups() -> None:
    # Three rows per group, three groups per side. Exactly 20 ways to choose; rows within a group are alike.
    middle = np.repeat(normal(6, 2) + np.repeat([[0.0, 0.0], [0.9, 0.9]], 3, axis=0), 3, axis=0)
    pooled = middle + 0.01 * normal(18, 2, seed=9)
    groups, first = np.repeat(np.arange(6), 3), np.arange(18) < 9
    kernel = rbf_kernel(squared_distances(pooled), 1.0)
    observed = mmd_by_loops(pooled[first], pooled[~first], 1.0)
    values = []
    for chosen in itertools.combinations(range(6), 3):
        side = np.isin(groups, chosen)
        values.append(mmd_by_loops(pooled[side], pooled[~side], 1.0))
    exact = np.mean([value >= observed - 1e-12 for value in values])
    squared, by_group = mmd_permutation_test(kernel, first, groups=groups, permutations=4999, seed=0)
    assert squared == pytest.approx(observed)
    assert by_group == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4999))
    # Row by row the same data look far more certain than three groups a side can be.
    _, by_row = mmd_permutation_test(kernel, first, permutations=4999, seed=0)
    assert by_row < exact / 5


def test_permutation_p_within_mixed_groups() -> None:
    # Every group has one row on each side, always shifted by the same step: within pairs 2⁶ exchanges.
    middle = 5 * normal(6, 1)
    pooled = np.concatenate([middle, middle + 0.3])
    first, groups = np.arange(12) < 6, np.tile(np.arange(6), 2)
    kernel = rbf_kernel(squared_distances(pooled), 1.0)
    observed = mmd_by_loops(pooled[first], pooled[~first], 1.0)
    values = []
    for flips in itertools.product([False, True], repeat=6):
        side = first ^ np.tile(flips, 2)
        values.append(mmd_by_loops(pooled[side], pooled[~side], 1.0))
    exact = np.mean([value >= observed - 1e-12 for value in values])
    _, p_value = mmd_permutation_test(kernel, first, groups=groups, permutations=1999, seed=0)
    assert p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / 1999))


def test_permutation_p_is_never_zero_and_repeats() -> None:
    x, y = normal(15), normal(15, seed=1, shift=3.0)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    squared, p_value = mmd_test(x, y, bandwidth=2.0, permutations=99)
    assert p_value == pytest.approx(1 / 100)
    assert squared > 0.5
    assert mmd_test(x, y, bandwidth=2.0, permutations=99) == (squared, p_value)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert mmd_test(x, x, bandwidth=2.0, permutations=99)[1] > 0.9
    near = normal(15, seed=2, shift=0.2)
    p_values = {mmd_test(x, near, bandwidth=2.0, permutations=99, seed=seed)[1] for seed in range(4)}
    assert len(p_values) > 1
    constant = np.ones((5, 3))
    assert mmd_test(constant, constant, bandwidth=1.0, permutations=19) == (0.0, 1.0)


def test_permutation_p_keeps_its_level() -> None:
    p_values = [
        mmd_test(normal(12, seed=2 * i), normal(12, seed=2 * i + 1), bandwidth=2.0, permutations=19)[1]
        for i in range(300)
    ]
    # 5 % of 300 is 15 with a standard deviation of 3.8.
    assert 3 <= sum(p <= 0.05 for p in p_values) <= 27
    assert np.mean(p_values) == pytest.approx(0.525, abs=4 * 0.29 / np.sqrt(300))
