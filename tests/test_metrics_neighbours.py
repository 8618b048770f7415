"""Neighbour lists, distances to the k-th neighbour, coverage radius: independent values and properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from metrics_references import dataeval_core
from sklearn.neighbors import NearestNeighbors

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.neighbours import coverage_radius, kth_neighbour_distances, nearest_neighbours

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


@pytest.mark.parametrize("width", [1, 8, 200])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_lists_as_scikit_learn(k: int, width: int) -> None:
    x, y = normal(70, width), normal(50, width, seed=1, shift=0.5)
    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x)
    for queries in (None, y):
        distance, index = model.kneighbors(queries)
        found = nearest_neighbours(x, queries, k=k)
        np.testing.assert_allclose(found.distance, distance, rtol=1e-9)
        np.testing.assert_array_equal(found.index, index)
        np.testing.assert_array_equal(kth_neighbour_distances(x, queries, k=k), found.distance[:, -1])
        assert (found.distance.dtype, found.index.dtype) == (np.float64, np.intp)


def test_of_equally_near_rows_the_lower_index_comes_first() -> None:
    x = np.array([[0.0], [1.0], [-1.0], [0.0], [2.0], [1.0]])
    found = nearest_neighbours(x, k=5)
    assert found.index[0].tolist() == [3, 1, 2, 5, 4]
    assert found.index[1].tolist() == [5, 0, 3, 4, 2]
    assert found.distance[1].tolist() == [0, 1, 1, 1, 2]
    assert nearest_neighbours(x, [[0.5]], k=4).index.tolist() == [[0, 1, 3, 5]]
    assert nearest_neighbours(x, [[0.5]], k=2).index.tolist() == [[0, 1]]


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


@pytest.mark.parametrize("neighbours", [kth_neighbour_distances, nearest_neighbours, coverage_radius])
def test_too_few_rows(neighbours: Callable[..., Any]) -> None:
    x = normal(5)
    neighbours(x, k=4)
    with pytest.raises(TooFewError, match="have 5 rows, need more than k = 5"):
        neighbours(x, k=5)
    neighbours(x, normal(1), k=5)
    with pytest.raises(TooFewError, match="have 5 reference rows, need at least k = 6"):
        neighbours(x, normal(1), k=6)
    with pytest.raises(TooFewError, match="have 1 rows, need more than k = 1"):
        neighbours(normal(1), k=1)
    with pytest.raises(ArgumentError, match="k is 0"):
        neighbours(x, k=0)
    with pytest.raises(ArgumentError, match="reference have 4 features and queries 5"):
        neighbours(x, normal(5, 5), k=1)
    with pytest.raises(ArgumentError, match="reference have 5 features and queries 4"):
        neighbours(normal(5, 5), x, k=1)


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
