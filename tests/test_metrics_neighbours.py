"""Neighbour distances, coverage radius, nearest-neighbour divergence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from metrics_references import dataeval_core, direct_distances
from sklearn.neighbors import NearestNeighbors

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.divergence import divergence_fnn
from pytest_semcov.metrics.neighbours import coverage_radius, kth_neighbour_distances

sets = arrays(np.float64, st.tuples(st.integers(4, 12), st.just(2)), elements=st.integers(-4, 4).map(float))


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


@pytest.mark.parametrize("width", [1, 8, 200])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_as_scikit_learn(k: int, width: int) -> None:
    x, y = normal(70, width), normal(50, width, seed=1, shift=0.5)
    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x)
    np.testing.assert_allclose(kth_neighbour_distances(x, k=k), model.kneighbors()[0][:, -1], rtol=1e-9)
    np.testing.assert_allclose(kth_neighbour_distances(x, y, k=k), model.kneighbors(y)[0][:, -1], rtol=1e-9)


def test_as_dataeval() -> None:
    x = np.random.default_rng(0).random((80, 30))
    radii = dataeval_core().coverage_adaptive(x, num_observations=20, percent=0.01)["critical_value_radii"]
    np.testing.assert_allclose(kth_neighbour_distances(x, k=20), radii, rtol=1e-6)  # radii are float32
    assert coverage_radius(x, k=20) == pytest.approx(float(np.median(radii)), rel=1e-6)


def test_evenly_spaced_points() -> None:
    x = np.arange(41)[:, None] / 40
    # The 20th other point of i: 20 steps for the ends, 10 in the middle, and what fits in between.
    steps = [sorted(abs(i - j) for j in range(41) if j != i)[19] for i in range(41)]
    np.testing.assert_allclose(kth_neighbour_distances(x, k=20), np.array(steps) / 40, rtol=1e-9)
    assert coverage_radius(x, k=20) == pytest.approx(np.median(steps) / 40)
    with pytest.raises(TooFewError, match="20"):
        coverage_radius(x[:20], k=20)


def test_directions() -> None:
    reference, queries = [[0.0], [1.0], [2.0]], [[10.0], [14.0]]
    np.testing.assert_allclose(kth_neighbour_distances(reference, queries, k=1), [8, 12])
    np.testing.assert_allclose(kth_neighbour_distances(queries, reference, k=1), [10, 9, 8])
    assert coverage_radius(reference, queries, k=2) == pytest.approx(11)
    assert coverage_radius(queries, reference, k=2) == pytest.approx(13)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_copies(offset: float) -> None:
    x = np.repeat(normal(6), 4, axis=0) + offset
    assert (kth_neighbour_distances(x, k=3) == 0).all()
    assert (kth_neighbour_distances(x, k=4) > 0.01).all()
    assert (kth_neighbour_distances(x, x, k=4) == 0).all()


def test_too_few_rows() -> None:
    x = normal(5)
    kth_neighbour_distances(x, k=4)
    with pytest.raises(TooFewError, match="have 5 rows, need more than k = 5"):
        kth_neighbour_distances(x, k=5)
    kth_neighbour_distances(x, normal(1), k=5)
    with pytest.raises(TooFewError, match="have 5 reference rows, need at least k = 6"):
        kth_neighbour_distances(x, normal(1), k=6)
    with pytest.raises(TooFewError):
        coverage_radius(normal(1), k=1)
    with pytest.raises(ArgumentError, match="k is 0"):
        coverage_radius(x, k=0)


@settings(deadline=None, max_examples=40)
@given(x=sets, extra=sets, k=st.integers(1, 3))
def test_more_rows_never_raise_the_radius(x: np.ndarray, extra: np.ndarray, k: int) -> None:
    alone = kth_neighbour_distances(x, k=k)
    stacked = kth_neighbour_distances(np.concatenate([x, extra]), k=k)[: len(x)]
    assert (stacked <= alone * (1 + 1e-9)).all()
    far = kth_neighbour_distances(np.concatenate([x, extra + 1e6]), k=k)[: len(x)]
    np.testing.assert_allclose(far, alone, rtol=1e-7)


@settings(deadline=None, max_examples=25)
@given(x=sets, k=st.integers(1, 3))
def test_copies_of_all_rows(x: np.ndarray, k: int) -> None:
    twice = np.concatenate([x, x])
    doubled = kth_neighbour_distances(twice, x, k=2 * k)
    np.testing.assert_allclose(doubled, kth_neighbour_distances(x, x, k=k), rtol=1e-9)


def test_scale() -> None:
    x = normal(30)
    np.testing.assert_allclose(
        kth_neighbour_distances(1e-3 * x, k=4), 1e-3 * kth_neighbour_distances(x, k=4), rtol=1e-9
    )


# Divergence


@pytest.mark.parametrize(("rows", "shift"), [(30, 0.0), (30, 0.7), (55, 1.5)])
def test_divergence_as_dataeval_and_by_hand(rows: int, shift: float) -> None:
    x, y = normal(40, 3), normal(rows, 3, seed=1, shift=shift)
    table = direct_distances(np.concatenate([x, y]), np.concatenate([x, y]))
    np.fill_diagonal(table, np.inf)
    errors = sum((i < 40) != (int(row.argmin()) < 40) for i, row in enumerate(table))
    by_hand = max(0.0, 1 - (40 + rows) / (2 * 40 * rows) * errors)
    assert errors
    assert divergence_fnn(x, y) == pytest.approx(by_hand, abs=1e-12)
    assert divergence_fnn(x, y) == pytest.approx(dataeval_core().divergence_fnn(x, y)["divergence"], abs=1e-6)
    assert divergence_fnn(y, x) == pytest.approx(by_hand, abs=1e-12)


def test_divergence_known_values() -> None:
    x = normal(30)
    assert divergence_fnn(x, normal(20, seed=1, shift=50)) == 1
    assert divergence_fnn(x, x) == 0
    # Pairs of one x and one y, far apart: every nearest neighbour is of the other set.
    assert divergence_fnn([[0.0], [10.0]], [[1.0], [11.0]]) == 0
    # x: 0 1, y: 3 3.5; nobody's nearest is of the other set.
    assert divergence_fnn([[0.0], [1.0]], [[3.0], [3.5]]) == 1
    # Only y = 5.3 lies nearest to an x.
    x, y = np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([[5.3], [8.0], [8.1], [9.0]])
    assert divergence_fnn(x, y) == pytest.approx(1 - 8 / 32)
    assert divergence_fnn(y, x) == pytest.approx(1 - 8 / 32)


def test_divergence_with_ties() -> None:
    # x = 0 lies midway between an x and a y (half an error), y = 1 is nearest to x = 0.
    x, y = np.array([[-1.0], [0.0], [20.0], [20.1]]), np.array([[1.0], [30.0], [30.1], [40.0]])
    assert divergence_fnn(x, y) == pytest.approx(1 - 8 / 32 * 1.5)
    assert divergence_fnn(y, x) == pytest.approx(1 - 8 / 32 * 1.5)
    for n, m in ((10, 2), (2, 10), (1, 1)):
        assert divergence_fnn(np.ones((n, 3)), np.ones((m, 3))) == 0
