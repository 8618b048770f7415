"""Neighbour lists that are kept while rows are added equal those of starting again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics import neighbour_scan
from pytest_semcov.metrics.neighbours import NeighbourIndex, Neighbours, coverage_radius, nearest_neighbours

Rows = np.ndarray

tied = arrays(np.float64, st.tuples(st.integers(2, 12), st.just(2)), elements=st.integers(-2, 2).map(float))


def normal(rows: int, width: int = 16, seed: int = 0, scale: float = 1.0) -> Rows:
    return scale * np.random.default_rng(seed).normal(size=(rows, width))


def assert_same(found: Neighbours, expected: Neighbours, rows: int) -> None:
    np.testing.assert_array_equal(found.distance, expected.distance[:rows], strict=True)
    np.testing.assert_array_equal(found.index, expected.index[:rows], strict=True)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("added", [1, 7, 400])
def test_equals_starting_again(added: int, scale: float) -> None:
    x, y = normal(300), normal(added, seed=1, scale=scale)
    expected = nearest_neighbours(np.concatenate([x, y]), k=20)
    index = NeighbourIndex(x, k=20)
    assert_same(index.neighbours, nearest_neighbours(x, k=20), 300)
    assert_same(index.with_added(y).neighbours, expected, 300)
    assert_same(index.with_added(y, list_added=True).neighbours, expected, 300 + added)
    assert_same(index.neighbours, nearest_neighbours(x, k=20), 300)  # is not changed itself


@settings(deadline=None, max_examples=80)
@given(parts=st.lists(tied, min_size=2, max_size=4), k=st.integers(1, 3), block=st.sampled_from([2, 5, 1280]))
def test_part_by_part_with_ties_and_copies(parts: list[Rows], k: int, block: int) -> None:
    first, *others = parts
    if len(first) <= k:
        return
    expected = nearest_neighbours(np.concatenate(parts), k=k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_scan, "_BLOCK_ROWS", block)
        old = everything = NeighbourIndex(first, k=k)
        for part in others:
            old, everything = old.with_added(part), everything.with_added(part, list_added=True)
    assert_same(old.neighbours, expected, len(first))
    assert_same(everything.neighbours, expected, len(expected.index))
    assert len(old.reference) == len(everything.reference) == len(expected.index)


def test_rows_without_lists_stay_without() -> None:
    x, y, z = normal(40), normal(10, seed=1), normal(10, seed=2)
    expected = nearest_neighbours(np.concatenate([x, y, z]), k=3)
    listed = NeighbourIndex(x, k=3).with_added(y, list_added=True).with_added(z)
    assert_same(listed.neighbours, expected, 50)
    with pytest.raises(ArgumentError, match="10 rows were added without lists"):
        listed.with_added(normal(5), list_added=True)
    assert_same(
        listed.with_added(x[:2]).with_added(x[:3]).neighbours,
        listed.with_added(x[[0, 1, 0, 1, 2]]).neighbours,
        50,
    )


def test_copies_of_the_rows_bring_all_radii_to_zero() -> None:
    x = normal(30).astype(np.float32)
    index = NeighbourIndex(x, k=2).with_added(np.concatenate([x, x]))
    assert (index.neighbours.distance == 0).all()
    assert index.neighbours.index.tolist() == [[30 + row, 60 + row] for row in range(30)]


def test_radius_of_a_set_among_itself_and_another() -> None:
    uncovered, synthetic, covered = normal(60), normal(50, seed=1), normal(50, seed=2, scale=3.0)
    index = NeighbourIndex(uncovered, k=5)
    radii = [
        float(np.median(index.with_added(rows).neighbours.distance[:, -1])) for rows in (synthetic, covered)
    ]
    alone = coverage_radius(uncovered, k=5)
    assert radii[0] < radii[1] <= alone


def test_errors() -> None:
    with pytest.raises(TooFewError, match="have 3 rows, need more than k = 3"):
        NeighbourIndex(normal(3), k=3)
    index = NeighbourIndex(normal(4), k=3)
    with pytest.raises(ArgumentError, match="reference have 16 features and added rows 5"):
        index.with_added(normal(4, 5))
    with pytest.raises(TooFewError, match="added rows are empty"):
        index.with_added(np.empty((0, 16)))
    with pytest.raises(NonFiniteError, match="added rows: 1 of 2 rows"):
        index.with_added(np.array([[0.0] * 16, [np.nan] * 16]))
