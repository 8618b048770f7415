"""Effective rank of the ranks, share of boxes that are occupied."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from metrics_references import dataeval_core
from scipy.stats import rankdata

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.completeness import bins_completeness, effective_rank

untied = st.integers(0, 10**6).map(
    lambda seed: np.random.default_rng(seed).normal(size=(2 + seed % 15, 1 + seed % 6))
)
tied = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(3)), elements=st.integers(-3, 3).map(float))


def normal(rows: int, width: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width))


# Effective rank


def test_known_value() -> None:
    # As dataeval.core.completeness (1.1.4) computes it.
    x = np.random.default_rng(42).random((50, 3))
    assert effective_rank(x) == pytest.approx(0.9963684026790749, abs=1e-12)


@pytest.mark.parametrize(("rows", "width"), [(50, 3), (200, 40), (20, 20), (20, 64), (2, 5)])
@pytest.mark.parametrize("correlated", [False, True])
def test_as_dataeval_without_ties(rows: int, width: int, correlated: bool) -> None:
    x = normal(rows, width)
    if correlated:
        x = x[:, :1] + 0.3 * x
    expected = float(dataeval_core().completeness(x)["completeness"])
    assert effective_rank(x) == pytest.approx(expected, rel=1e-9)


def by_definition(x: np.ndarray) -> float:
    """With average ranks, from the singular values of the ranks themselves."""
    n, d = x.shape
    ranks = (rankdata(x.astype(np.float64), axis=0) - 0.5) / n - 0.5
    variances = np.linalg.svd(ranks, compute_uv=False) ** 2
    shares = variances[variances > 1e-20] / variances.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()) / d)


numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1 + 2**-23, 1 + 2**-50, 1e-45, -1e-45, 5e-324, 1e300, -1e300]),
    st.floats(-4, 4),
)


@settings(deadline=None, max_examples=60)
@given(
    x=arrays(np.float64, st.tuples(st.integers(2, 9), st.integers(1, 4)), elements=numbers),
    short=st.booleans(),
)
def test_every_digit_counts(x: np.ndarray, short: bool) -> None:
    if short:
        x = np.clip(x, -3e38, 3e38).astype(np.float32)
    assume((x != x[0]).any())
    assert effective_rank(x) == pytest.approx(by_definition(x), rel=1e-7)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "width"), [(9000, 12), (300, 130), (130, 300)])
def test_blocks_of_rows_and_features(kind: type, rows: int, width: int) -> None:
    x = normal(rows, width) + normal(rows, 1, seed=1)
    x[:, ::3] = np.maximum(x[:, ::3], 0)  # half of the values are tied, as after a ReLU
    x[:, 5] = 7
    assert effective_rank(x.astype(kind)) == pytest.approx(by_definition(x.astype(kind)), rel=1e-9)


def test_as_dataeval_on_many_float32_rows() -> None:
    x = (normal(700, 96) + 2 * normal(700, 1, seed=1)).astype(np.float32)
    x = x[:, [len(np.unique(column)) == len(column) for column in x.T]]
    assert x.shape[1] > 50
    expected = float(dataeval_core().completeness(x)["completeness"])
    assert effective_rank(x) == pytest.approx(expected, abs=1e-8)


def test_memory_is_bounded_by_the_ranks() -> None:
    x = np.random.default_rng(0).random((20_000, 256), dtype=np.float32)
    tracemalloc.start()
    effective_rank(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * x.nbytes  # ranks in float64 alone are twice as large


def test_closed_forms() -> None:
    # All columns have the same ranks: one direction of d.
    column = normal(30, 1)
    assert effective_rank(np.hstack([column, 3 * column, np.exp(column), column - 9])) == pytest.approx(1 / 4)
    assert effective_rank(np.hstack([column, -column])) == pytest.approx(1 / 2)
    assert effective_rank(column) == pytest.approx(1.0)
    # Two columns whose ranks correlate by r: eigenvalues (1 ± r) / 2.
    x = np.array([[0, 0], [1, 2], [2, 1], [3, 3]], dtype=float)
    shares = np.array([0.9, 0.1])
    assert effective_rank(x) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()) / 2)
    # A full factorial design has uncorrelated columns of equal variance.
    design = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    assert effective_rank(design) == pytest.approx(1.0)


def test_constant_features_count_as_nothing() -> None:
    x = normal(40, 3)
    with_constant = np.hstack([x, np.full((40, 1), 7.0)])
    assert effective_rank(with_constant) == pytest.approx(effective_rank(x) * 3 / 4, rel=1e-12)
    assert effective_rank(np.ones((6, 3))) == 0
    assert effective_rank(np.hstack([np.arange(6.0)[:, None], np.ones((6, 3))])) == pytest.approx(1 / 4)


def test_needs_two_rows() -> None:
    with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
        effective_rank(normal(1))


def test_ties_do_not_depend_on_row_order() -> None:
    # Half of the values are zero, as after a ReLU.
    x = np.maximum(normal(60, 8), 0)
    values = {round(effective_rank(x[np.random.default_rng(seed).permutation(60)]), 12) for seed in range(5)}
    assert len(values) == 1


@settings(deadline=None, max_examples=40)
@given(x=untied)
def test_bounds_and_monotone_maps(x: np.ndarray) -> None:
    n, d = x.shape
    value = effective_rank(x)
    assert 1 / d - 1e-9 <= value <= min(n - 1, d) / d + 1e-9
    assert effective_rank(np.arctan(x)) == pytest.approx(value, rel=1e-9)
    assert effective_rank(np.exp(2 * x) + 5) == pytest.approx(value, rel=1e-9)
    assert effective_rank(-x) == pytest.approx(value, rel=1e-9)
    assert effective_rank(x[:, ::-1]) == pytest.approx(value, rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(x=tied, copies=st.integers(2, 4))
def test_copies_of_all_rows_leave_it(x: np.ndarray, copies: int) -> None:
    assert effective_rank(np.concatenate([x] * copies)) == pytest.approx(effective_rank(x), rel=1e-9)


def test_more_directions_raise_it() -> None:
    line = normal(50, 1) @ np.ones((1, 6))
    values = [effective_rank(line + noise * normal(50, 6, seed=1)) for noise in (0.01, 0.3, 1.0, 100)]
    assert values == sorted(values)
    assert values[0] < 0.2
    assert values[-1] > 0.9


# Boxes


def test_known_boxes() -> None:
    assert bins_completeness([[1, 0], [0, 1], [1, 1]], quantiles=1) == pytest.approx(0.75)
    design = np.array(list(itertools.product([0.0, 1.0, 2.0], repeat=2)))
    assert bins_completeness(design, quantiles=2) == 1
    # A diagonal occupies the boxes of the diagonal.
    diagonal = np.repeat(np.arange(30.0)[:, None], 3, axis=1)
    assert bins_completeness(diagonal, quantiles=1) == pytest.approx(2 / 8)
    assert bins_completeness(diagonal, quantiles=2) == pytest.approx(3 / 27)
    assert bins_completeness(np.ones((5, 2))) == pytest.approx(1 / 4)
    assert bins_completeness([[3.0]]) == pytest.approx(1 / 2)


@settings(deadline=None, max_examples=40)
@given(x=tied, quantiles=st.integers(1, 3))
def test_boxes_by_hand(x: np.ndarray, quantiles: int) -> None:
    cuts = [[np.quantile(column, q / (quantiles + 1)) for q in range(1, quantiles + 1)] for column in x.T]
    boxes = {tuple(sum(v >= cut for cut in own) for v, own in zip(row, cuts, strict=True)) for row in x}
    # Values within rounding of an interpolated cut may fall on either side.
    gaps = [abs(v - cut) for row in x for v, own in zip(row, cuts, strict=True) for cut in own]
    assume(all(gap == 0 or gap > 1e-9 for gap in gaps))
    assert bins_completeness(x, quantiles=quantiles) == pytest.approx(len(boxes) / (quantiles + 1) ** 3)


@settings(deadline=None, max_examples=25)
@given(x=tied)
def test_copies_leave_the_boxes(x: np.ndarray) -> None:
    assert bins_completeness(np.concatenate([x, x])) == bins_completeness(x)


@pytest.mark.parametrize(
    ("values", "quantiles", "message"),
    [(normal(30, 11), 1, "11 features"), (normal(30, 2), 0, "quantiles is 0")],
)
def test_boxes_refuse(values: Any, quantiles: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        bins_completeness(values, quantiles=quantiles)
