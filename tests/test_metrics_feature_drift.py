"""Kolmogorov-Smirnov and Cramér-von Mises statistics of every feature."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import cramervonmises_2samp, ks_2samp

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.feature_drift import cramer_von_mises, kolmogorov_smirnov

tied = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(2)), elements=st.integers(-3, 3).map(float))


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


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
