"""Kolmogorov-Smirnov and Cramér-von Mises statistics of every feature."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import cramervonmises_2samp, ks_2samp, kstwo

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.feature_drift import (
    FeatureDrift,
    cramer_von_mises,
    kolmogorov_smirnov,
    kolmogorov_smirnov_and_cramer_von_mises,
)

tied = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(2)), elements=st.integers(-3, 3).map(float))


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


@pytest.mark.parametrize(("n", "m"), [(60, 60), (60, 41), (7, 90), (130, 129), (300, 4)])
@pytest.mark.parametrize("shift", [0.0, 0.4, 2.0])
def test_kolmogorov_smirnov_as_scipy(n: int, m: int, shift: float) -> None:
    x, y = normal(n), normal(m, seed=1, shift=shift)
    exact, asymptotic = (kolmogorov_smirnov(x, y, method=method) for method in ("exact", "asymptotic"))
    by_default = kolmogorov_smirnov(x, y)
    assert (exact.statistic == asymptotic.statistic).all()
    for column, (a, b) in enumerate(zip(x.T, y.T, strict=True)):
        expected = ks_2samp(a, b, method="exact")
        assert exact.statistic[column] == pytest.approx(expected.statistic, abs=1e-14)
        assert exact.p_value[column] == pytest.approx(expected.pvalue, rel=1e-9)
        expected = ks_2samp(a, b, method="asymp")
        assert asymptotic.p_value[column] == pytest.approx(expected.pvalue, rel=1e-9)
    expected_default = exact if n * m <= 10_000 else asymptotic
    assert (by_default.p_value == expected_default.p_value).all()
    by_feature = [ks_2samp(a, b, method="exact").statistic for a, b in zip(x.T, y.T, strict=True)]
    assert exact.mean == pytest.approx(np.mean(by_feature))


def test_p_values_of_one_or_two_rows() -> None:
    one = np.array([[0.0], [5.0]])
    assert kolmogorov_smirnov(one[:1], one[1:]).p_value.tolist() == [1]
    assert kolmogorov_smirnov(one[:1], one[1:], method="asymptotic").p_value.tolist() == [0]
    # The six orders of 2 + 2 rows: two of them have all of one set first.
    assert kolmogorov_smirnov(one, one + 10).p_value == pytest.approx([1 / 3])
    # One row among four: above or below all of them in 2 of 5 orders.
    assert kolmogorov_smirnov(one[:1], one[[1, 1, 1, 1]] + np.arange(4.0)[:, None]).p_value == pytest.approx(
        [2 / 5]
    )
    assert np.isfinite(cramer_von_mises(one, one + 10).p_value).all()


@pytest.mark.parametrize(("n", "m"), [(20, 30), (280, 290), (300, 290), (2500, 2500), (40_000, 9000)])
def test_asymptotic_p_values_as_scipy(n: int, m: int) -> None:
    rows = round(n * m / (n + m))
    statistic = np.concatenate(
        [[0.0, 1e-9, 0.4999, 0.5, 0.7, 1.0], np.sqrt(np.linspace(0.05, 400, 60) / rows)]
    )
    statistic = statistic[statistic <= 1]
    found = FeatureDrift(statistic, n, m, kolmogorov_smirnov(normal(n), normal(m), method="asymptotic").tail)
    np.testing.assert_allclose(found.p_value, kstwo.sf(statistic, rows), rtol=1e-9, atol=1e-300)


def test_unknown_method() -> None:
    with pytest.raises(ArgumentError, match="method is 'asymp': use 'auto', 'exact' or 'asymptotic'"):
        kolmogorov_smirnov(normal(5), normal(5), method="asymp")


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


@settings(deadline=None, max_examples=25)
@given(x=tied, y=tied)
def test_both_from_one_sort(x: np.ndarray, y: np.ndarray) -> None:
    smirnov, mises = kolmogorov_smirnov_and_cramer_von_mises(x, y, method="asymptotic")
    assert (smirnov.statistic == kolmogorov_smirnov(x, y).statistic).all()
    assert (smirnov.p_value == kolmogorov_smirnov(x, y, method="asymptotic").p_value).all()
    assert (mises.statistic == cramer_von_mises(x, y).statistic).all()
    assert (mises.p_value == cramer_von_mises(x, y).p_value).all()


# Exact for all values and sizes


def statistics_by_definition(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both statistics from the distribution functions at every pooled value."""
    n, m = len(x), len(y)
    pooled = np.concatenate([x, y])
    gaps = np.stack(
        [
            np.searchsorted(np.sort(x[:, j]), pooled[:, j], side="right") / n
            - np.searchsorted(np.sort(y[:, j]), pooled[:, j], side="right") / m
            for j in range(x.shape[1])
        ]
    )
    return np.abs(gaps).max(axis=1), (gaps**2).sum(axis=1) * n * m / (n + m) ** 2


def assert_by_definition(x: np.ndarray, y: np.ndarray) -> None:
    largest, squared = statistics_by_definition(x.astype(np.float64), y.astype(np.float64))
    found = kolmogorov_smirnov_and_cramer_von_mises(x, y)
    np.testing.assert_allclose(found[0].statistic, largest, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[1].statistic, squared, rtol=1e-11, atol=1e-14)


numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1 + 2**-23, 1 + 2**-50, 1e-45, -1e-45, 5e-324, 3e38, 1e300, -1e300]),
    st.floats(-4, 4),
)


@settings(deadline=None, max_examples=60)
@given(
    x=arrays(np.float64, st.tuples(st.integers(2, 9), st.just(2)), elements=numbers),
    y=arrays(np.float64, st.tuples(st.integers(2, 9), st.just(2)), elements=numbers),
    single=st.tuples(st.booleans(), st.booleans()),
)
def test_every_digit_counts(x: np.ndarray, y: np.ndarray, single: tuple[bool, bool]) -> None:
    x, y = (
        np.clip(z, -3.4e38, 3.4e38).astype(np.float32) if short else z
        for z, short in zip((x, y), single, strict=True)
    )
    assert_by_definition(x, y)


def test_digits_beyond_float32() -> None:
    x = 1 + 1e-10 * np.arange(20.0)[:, None]
    assert kolmogorov_smirnov(x[:10], x[10:]).statistic.tolist() == [1]
    assert kolmogorov_smirnov(x.astype(np.float32)[:10], x.astype(np.float32)[10:]).statistic.tolist() == [0]
    # Neighbouring float32 numbers are different values.
    below = np.full((4, 1), 1.5, np.float32)
    assert kolmogorov_smirnov(below, np.nextafter(below, np.float32(2))).statistic.tolist() == [1]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "width"), [(300, 257, 70), (129, 128, 65), (40_000, 33_001, 2)])
def test_blocks_of_rows_and_features(kind: type, n: int, m: int, width: int) -> None:
    # The product of the last sizes is no 32-bit number.
    x, y = normal(n, width), normal(m, width, seed=1, shift=0.1)
    # As after a ReLU: half of the values are tied in every other feature.
    x[:, ::2], y[:, ::2] = np.maximum(x[:, ::2], 0), np.maximum(y[:, ::2], 0)
    assert_by_definition(x.astype(kind), y.astype(kind))


def test_memory_is_bounded_by_blocks() -> None:
    x, y = (np.random.default_rng(seed).random((20_000, 512), dtype=np.float32) for seed in (0, 1))
    tracemalloc.start()
    kolmogorov_smirnov(x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes  # a float64 copy of both would be four times as much
