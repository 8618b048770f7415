"""Neighbours are exact wherever the data lie, and the same in any order, block and type."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.neighbors import NearestNeighbors

from pytest_semcov.metrics import neighbour_scan
from pytest_semcov.metrics.divergence import divergence_fnn
from pytest_semcov.metrics.neighbour_lists import Comparison
from pytest_semcov.metrics.neighbours import coverage_radius, kth_neighbour_distances, nearest_neighbours
from pytest_semcov.metrics.prdc import prdc

Rows = np.ndarray

numbers = st.one_of(st.integers(-2, 2).map(float), st.floats(-4, 4, width=16).map(float))
few = st.tuples(st.integers(2, 14), st.just(2))
sets = arrays(np.float64, few, elements=numbers)
blocks = st.sampled_from([1, 2, 3, 7, 1280])


def normal(rows: int, width: int = 256, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(rows, width))


def by_loops(reference: Rows, queries: Rows | None) -> Rows:
    """Return all distances in ascending order, from the differences in float64."""
    reference = np.asarray(reference, dtype=np.float64)
    asked = reference if queries is None else np.asarray(queries, dtype=np.float64)
    table = np.array([np.sqrt(((reference - row) ** 2).sum(axis=1)) for row in asked])
    if queries is None:
        np.fill_diagonal(table, np.inf)
    return np.sort(table, axis=1)


def trap(name: str) -> Rows:
    """Data on which the expansion |a|² + |b|² - 2ab in float32 fails, or nearly so."""
    rng = np.random.default_rng(1)
    apart = 30 * normal(10, seed=2)
    return {
        "plain": lambda: normal(600).astype(np.float32),
        "offset 1e2": lambda: (normal(600) + 1e2).astype(np.float32),
        "offset 1e4": lambda: (normal(600) + 1e4).astype(np.float32),
        "21 copies": lambda: np.repeat(normal(40), 21, axis=0).astype(np.float32),
        "nearly copies": lambda: np.repeat(normal(40), 21, axis=0) + 1e-3 * normal(840, seed=1),
        "one large feature": lambda: (normal(600) * np.r_[1e3, np.ones(255)]).astype(np.float32),
        "tight clusters": lambda: apart[rng.integers(10, size=600)] + 0.05 * normal(600, seed=3),
        "three clumps": lambda: np.repeat(normal(3), 200, axis=0) + 1e-9 * normal(600, seed=4),
        "one outlier": lambda: np.concatenate([1e-3 * normal(600), 1e6 * normal(1, seed=5)]),
        "large": lambda: 1e180 * normal(300),
        "small": lambda: 1e-180 * normal(300),
    }[name]()


TRAPS = [
    "plain",
    "offset 1e2",
    "offset 1e4",
    "21 copies",
    "nearly copies",
    "one large feature",
    "tight clusters",
    "three clumps",
    "one outlier",
    "large",
    "small",
]


@pytest.mark.parametrize("name", TRAPS)
def test_traps_against_loops_in_float64(name: str) -> None:
    x = trap(name)
    unit = {"large": 1e180, "small": 1e-180}.get(name, 1.0)  # squares of these are beyond float64
    for queries in (None, x[::7]):
        expected = unit * by_loops(x / unit, None if queries is None else queries / unit)[:, :20]
        found = nearest_neighbours(x, queries, k=20)
        np.testing.assert_allclose(found.distance, expected, rtol=1e-12, atol=0)
        np.testing.assert_array_equal(
            kth_neighbour_distances(x, queries, k=20), found.distance[:, -1], strict=True
        )


@pytest.mark.parametrize("name", ["plain", "nearly copies", "one outlier"])
def test_traps_against_scikit_learn(name: str) -> None:
    x = trap(name).astype(np.float64)
    distance, index = NearestNeighbors(n_neighbors=5, algorithm="kd_tree").fit(x).kneighbors()
    found = nearest_neighbours(x, k=5)
    np.testing.assert_allclose(found.distance, distance, rtol=1e-9)
    np.testing.assert_array_equal(found.index, index)


@pytest.fixture
def redone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the rows whose candidates float32 left open."""
    counts: list[int] = []
    original = Comparison._candidates_in_double

    def counted(self: Comparison, rows: Rows, k: int, top: Rows) -> object:
        counts.append(len(rows))
        return original(self, rows, k, top)

    monkeypatch.setattr(Comparison, "_candidates_in_double", counted)
    return counts


def test_only_what_float32_leaves_open_is_done_again(redone: list[int]) -> None:
    for name in ("plain", "offset 1e4", "21 copies", "nearly copies"):
        coverage_radius(trap(name), k=20)
    assert sum(redone) == 0
    coverage_radius(trap("tight clusters"), k=20)
    assert redone[-1] == 600


def test_wide_rows() -> None:
    # As many terms per product as an image has values; blocks shrink with the width.
    x = normal(12, 150_528).astype(np.float32)
    np.testing.assert_allclose(nearest_neighbours(x, k=11).distance, by_loops(x, None)[:, :11], rtol=1e-12)


@settings(deadline=None, max_examples=120)
@given(x=sets, y=sets, block=blocks, part=st.floats(0, 1), single=st.booleans())
def test_brute_force(x: Rows, y: Rows, block: int, part: float, single: bool) -> None:
    if single:
        x, y = x.astype(np.float32), y.astype(np.float32)
    for queries in (None, y):
        most = len(x) - 1 if queries is None else len(x)
        k = 1 + int(part * (most - 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(neighbour_scan, "_BLOCK_ROWS", block)
            found = nearest_neighbours(x, queries, k=k)
            last = kth_neighbour_distances(x, queries, k=k)
        np.testing.assert_allclose(found.distance, by_loops(x, queries)[:, :k], rtol=1e-12, atol=0)
        np.testing.assert_array_equal(last, found.distance[:, -1])
        # The lists name the rows whose distances they give, in order, none twice and never the row itself.
        asked = x if queries is None else queries
        away = np.linalg.norm(x.astype(float)[found.index] - asked.astype(float)[:, None], axis=2)
        np.testing.assert_allclose(away, found.distance, rtol=1e-12)
        order = np.lexsort((found.index, found.distance), axis=1)
        assert (order == np.arange(k)).all()
        assert all(len(set(row)) == k for row in found.index.tolist())
        if queries is None:
            assert (found.index != np.arange(len(x))[:, None]).all()
        # Nor does the size of the blocks change them.
        whole = nearest_neighbours(x, queries, k=k)
        np.testing.assert_array_equal(found.distance, whole.distance)
        np.testing.assert_array_equal(found.index, whole.index)


@settings(deadline=None, max_examples=40)
@given(x=sets, seed=st.integers(0, 99), block=blocks)
def test_order_of_rows_changes_no_bit(x: Rows, seed: int, block: int) -> None:
    x = x / 3
    order = np.random.default_rng(seed).permutation(len(x))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_scan, "_BLOCK_ROWS", block)
        shuffled = nearest_neighbours(x[order], k=1)
    np.testing.assert_array_equal(shuffled.distance, nearest_neighbours(x, k=1).distance[order])


@pytest.mark.parametrize("name", ["plain", "21 copies", "offset 1e4"])
def test_type_and_memory_layout_change_no_bit(name: str) -> None:
    x = trap(name)
    assert x.dtype == np.float32
    expected = nearest_neighbours(x, k=20)
    wide = np.zeros((2 * len(x), 300), dtype=np.float32)
    wide[::2, 40:296] = x
    for same in (
        x.astype(np.float64),
        np.asfortranarray(x),
        wide[::2, 40:296],
        x.astype(">f4"),
        x[::-1][::-1],
    ):
        found = nearest_neighbours(same, k=20)
        np.testing.assert_array_equal(found.distance, expected.distance)
        np.testing.assert_array_equal(found.index, expected.index)
    half = x.astype(np.float16)
    np.testing.assert_array_equal(
        nearest_neighbours(half, k=20).distance, nearest_neighbours(half.astype(np.float32), k=20).distance
    )


@settings(deadline=None, max_examples=40)
@given(x=sets, offset=st.sampled_from([-64.0, 1e4, 2.0**20]), k=st.integers(1, 4))
def test_place_changes_no_bit(x: Rows, offset: float, k: int) -> None:
    # On a grid on which adding the offset is exact: the moved set is the same set.
    x = np.concatenate([x, x + 0.25])
    x = np.round(x * 1024) / 1024
    if k >= len(x):
        return
    moved, here = nearest_neighbours(x + offset, k=k), nearest_neighbours(x, k=k)
    np.testing.assert_array_equal(moved.distance, here.distance)
    np.testing.assert_array_equal(moved.index, here.index)


def test_direction() -> None:
    # Few rows of the sparse set lie near the dense one, all of the dense set near some of the sparse one.
    dense, sparse = 0.1 * normal(60, 3), 5 * normal(30, 3, seed=1)
    forth, back = nearest_neighbours(dense, sparse, k=3), nearest_neighbours(sparse, dense, k=3)
    assert forth.distance.shape == (30, 3)
    assert back.distance.shape == (60, 3)
    np.testing.assert_allclose(forth.distance, by_loops(dense, sparse)[:, :3], rtol=1e-12)
    np.testing.assert_allclose(back.distance, by_loops(sparse, dense)[:, :3], rtol=1e-12)
    assert coverage_radius(dense, sparse, k=3) > 1.5 * coverage_radius(sparse, dense, k=3)


def test_bounds_are_bounds() -> None:
    for x in (trap("plain"), trap("tight clusters"), trap("one outlier"), 1e-4 * trap("one large feature")):
        x = x[-200:]
        for dtype in (np.float32, np.float64):
            rows = neighbour_scan.CentredRows.around(x.mean(axis=0, dtype=np.float64), x, dtype)
            low = neighbour_scan.lower_bounds(rows, rows).astype(np.float64)
            high = low + 2 * (rows.error[:, None] + rows.error)
            exact = np.array(
                [((x.astype(np.float64) - row) ** 2).sum(axis=1) for row in x.astype(np.float64)]
            )
            assert (low <= exact).all()
            assert (high >= exact).all()


@pytest.mark.parametrize(
    "metric",
    [
        lambda x, y: coverage_radius(x, k=20),
        lambda x, y: nearest_neighbours(x, y, k=5),
        lambda x, y: prdc(x, 10 * y),  # balls that hold all rows of the other set
        lambda x, y: divergence_fnn(x, y),
    ],
    ids=["radius", "across", "prdc", "divergence"],
)
def test_memory_does_not_grow_with_the_square(
    metric: Callable[[Rows, Rows], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbour_scan, "_BLOCK_ROWS", 256)
    x, y = normal(3000, 8).astype(np.float32), normal(3000, 8, seed=1).astype(np.float32)
    tracemalloc.start()
    metric(x, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6  # all distances in float32 are 36 MB, those of both sets together 144 MB
