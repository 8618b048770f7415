"""Kolmogorov-Smirnov, Cramér-von Mises and maximum mean discrepancy."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import cramervonmises_2samp, ks_2samp

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.arrays import squared_distances
from pytest_semcov.metrics.drift import (
    cramer_von_mises,
    kolmogorov_smirnov,
    median_bandwidth,
    mmd_permutation_test,
    mmd_squared,
    mmd_test,
    rbf_kernel,
)

tied = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(2)), elements=st.integers(-3, 3).map(float))


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


# Per feature


@pytest.mark.parametrize(("n", "m"), [(60, 60), (60, 41), (7, 90)])
@pytest.mark.parametrize("shift", [0.0, 0.4, 2.0])
def test_kolmogorov_smirnov_as_scipy(n: int, m: int, shift: float) -> None:
    x, y = normal(n), normal(m, seed=1, shift=shift)
    found = kolmogorov_smirnov(x, y)
    for column, (a, b) in enumerate(zip(x.T, y.T, strict=True)):
        exact = ks_2samp(a, b, method="exact")
        assert found.statistic[column] == pytest.approx(exact.statistic, abs=1e-14)
        assert found.p_value[column] == pytest.approx(ks_2samp(a, b, method="asymp").pvalue, rel=1e-9)
        assert found.p_value[column] == pytest.approx(exact.pvalue, abs=0.12)
    by_feature = [ks_2samp(a, b, method="exact").statistic for a, b in zip(x.T, y.T, strict=True)]
    assert found.mean == pytest.approx(np.mean(by_feature))


@settings(deadline=None, max_examples=40)
@given(x=tied, y=tied)
def test_kolmogorov_smirnov_with_ties(x: np.ndarray, y: np.ndarray) -> None:
    for column, statistic in enumerate(kolmogorov_smirnov(x, y).statistic):
        expected = ks_2samp(x[:, column], y[:, column], method="asymp").statistic
        assert statistic == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(("n", "m"), [(60, 60), (60, 41), (7, 90)])
@pytest.mark.parametrize("shift", [0.0, 0.4, 2.0])
def test_cramer_von_mises_as_scipy(n: int, m: int, shift: float) -> None:
    x, y = normal(n), normal(m, seed=1, shift=shift)
    found = cramer_von_mises(x, y)
    for column, (a, b) in enumerate(zip(x.T, y.T, strict=True)):
        expected = cramervonmises_2samp(a, b, method="asymptotic")
        assert found.statistic[column] == pytest.approx(expected.statistic, rel=1e-9)
        assert found.p_value[column] == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(x=tied, y=tied)
def test_cramer_von_mises_with_ties(x: np.ndarray, y: np.ndarray) -> None:
    n, m = len(x), len(y)
    for column, statistic in enumerate(cramer_von_mises(x, y).statistic):
        a, b = x[:, column], y[:, column]
        # The definition, in exact arithmetic.
        total = sum(
            (Fraction(int((a <= value).sum()), n) - Fraction(int((b <= value).sum()), m)) ** 2
            for value in np.concatenate([a, b])
        )
        assert statistic == pytest.approx(float(Fraction(n * m, (n + m) ** 2) * total), abs=1e-12)


def test_many_features() -> None:
    # More than one block of features, in order.
    x, y = normal(8, 600), normal(9, 600, seed=1) + np.arange(600) / 300
    expected = [ks_2samp(a, b, method="exact").statistic for a, b in zip(x.T, y.T, strict=True)]
    np.testing.assert_allclose(kolmogorov_smirnov(x, y).statistic, expected, atol=1e-14)
    one_by_one = [cramervonmises_2samp(a, b).statistic for a, b in zip(x.T[::50], y.T[::50], strict=True)]
    np.testing.assert_allclose(cramer_von_mises(x, y).statistic[::50], one_by_one, rtol=1e-9)


def test_extremes() -> None:
    x = normal(30)
    for test in (kolmogorov_smirnov, cramer_von_mises):
        same, apart = test(x, x[::-1]), test(x, x + 100)
        assert (same.statistic == 0).all()
        assert (same.p_value == 1).all()
        assert (apart.p_value < 1e-6).all()
    assert (kolmogorov_smirnov(x, x + 100).statistic == 1).all()
    # All x below all y: the squared gaps are (i / n)² at the x and (1 - j / m)² at the y.
    gaps = sum((i / 30) ** 2 for i in range(1, 31)) + sum((1 - j / 20) ** 2 for j in range(1, 21))
    largest = cramer_von_mises(x, normal(20, seed=1, shift=100)).statistic
    np.testing.assert_allclose(largest, 30 * 20 / 50**2 * gaps)


def test_constant_feature_is_no_drift() -> None:
    x, y = np.full((40, 1), 3.25), np.full((25, 1), 3.25)
    assert cramervonmises_2samp(x[:, 0], y[:, 0]).pvalue < 1e-3  # scipy's mid-ranks call it drifted
    for test in (kolmogorov_smirnov, cramer_von_mises):
        assert test(x, y).statistic.tolist() == [0]
        assert test(x, y).p_value.tolist() == [1]


def test_each_feature_is_its_own() -> None:
    x, y = normal(50, 3), normal(50, 3, seed=1)
    y[:, 1] += 3
    statistic = kolmogorov_smirnov(x, y).statistic
    assert statistic[1] > 0.8
    assert max(statistic[0], statistic[2]) < 0.4
    assert (cramer_von_mises(x, y).statistic.argsort()[::-1])[0] == 1


def test_scaling_both_sets_keeps_the_drift_of_a_scaled_set() -> None:
    x = normal(60)
    y = 3 * x + 5
    assert kolmogorov_smirnov(x, y).mean > 0.8
    assert kolmogorov_smirnov(x / 7, y / 7).mean == kolmogorov_smirnov(x, y).mean


def test_needed_rows() -> None:
    one, many = normal(1), normal(9)
    assert kolmogorov_smirnov(one, many).statistic.shape == (4,)
    for first, second in ((one, many), (many, one)):
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            cramer_von_mises(first, second)
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            mmd_squared(first, second, bandwidth=1.0)
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            mmd_test(first, second, bandwidth=1.0)


@settings(deadline=None, max_examples=25)
@given(x=tied, y=tied)
def test_drift_is_symmetric_and_knows_no_monotone_scale(x: np.ndarray, y: np.ndarray) -> None:
    for test, factor in ((kolmogorov_smirnov, 1), (cramer_von_mises, 2)):
        there = test(x, y)
        np.testing.assert_allclose(there.statistic, test(y, x).statistic, atol=1e-12)
        np.testing.assert_allclose(there.statistic, test(np.exp(x), np.exp(y)).statistic, atol=1e-12)
        # All rows twice: the same distribution functions; the von Mises sum has twice the terms.
        doubled = test(np.concatenate([x, x]), np.concatenate([y, y])).statistic
        np.testing.assert_allclose(doubled, factor * there.statistic, atol=1e-12)


# Maximum mean discrepancy


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
def test_median_bandwidth(n: int, m: int) -> None:
    u, c = normal(n), 3 * normal(m, seed=1)
    across, within_u, within_c = squared_distances(u, c), squared_distances(u), squared_distances(c)
    expected = weighted_lower_median(
        [
            (across.ravel(), Fraction(1, 2)),
            (within_u[np.triu_indices(n, 1)], Fraction(1, 4)),
            (within_c[np.triu_indices(m, 1)], Fraction(1, 4)),
        ]
    )
    found = median_bandwidth(across, within_u, within_c)
    assert 2 * found**2 == pytest.approx(expected)
    assert median_bandwidth(across.T, within_c, within_u) == pytest.approx(found)


def test_median_bandwidth_with_copies() -> None:
    zero = np.zeros((4, 4))
    assert median_bandwidth(zero, zero, zero) == 1
    # The median is 0: the smallest positive distance takes its place.
    apart = zero.copy()
    apart[0, 1:] = apart[1:, 0] = [8.0, 50.0, 50.0]
    assert median_bandwidth(zero, zero, apart) == pytest.approx(2.0)


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
