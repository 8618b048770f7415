"""Henze-Penrose divergence by nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from metrics_references import dataeval_core, direct_distances

from pytest_semcov.metrics import neighbour_scan
from pytest_semcov.metrics.divergence import divergence_fnn

tied = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.integers(-2, 2).map(float))


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


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


def by_definition(x: np.ndarray, y: np.ndarray) -> float:
    """Of whole numbers: each row's nearest others by exact squared distances, each in part."""
    rows = np.concatenate([x, y]).astype(int)
    second = np.arange(len(rows)) >= len(x)
    errors = 0.0
    for i, row in enumerate(rows):
        squared = ((rows - row) ** 2).sum(axis=1)
        squared[i] = squared.max() + 1
        nearest = squared == squared.min()
        errors += (second[nearest] != second[i]).mean()
    return max(0.0, 1 - (len(x) + len(y)) / (2 * len(x) * len(y)) * errors)


@settings(deadline=None, max_examples=80)
@given(x=tied, y=tied, seed=st.integers(0, 9), block=st.sampled_from([2, 5, 1280]))
def test_divergence_with_many_ties_by_definition(x: np.ndarray, y: np.ndarray, seed: int, block: int) -> None:
    expected = by_definition(x, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_scan, "_BLOCK_ROWS", block)
        assert divergence_fnn(x, y) == pytest.approx(expected, abs=1e-12)
        assert divergence_fnn(y, x) == pytest.approx(expected, abs=1e-12)
        # Thirds are no binary fractions, turned rows are summed in another order: ties up to rounding.
        generator = np.random.default_rng(seed)
        turn = np.linalg.qr(generator.normal(size=(2, 2)))[0]
        moved = [generator.permutation(rows) @ turn / 3 + 1 for rows in (x, y)]
        assert divergence_fnn(*moved) == pytest.approx(expected, abs=1e-12)


def test_divergence_is_estimated_from_rows_beyond_one_block() -> None:
    x, y = normal(1500, 3), normal(1400, 3, seed=1, shift=0.4)
    expected = dataeval_core().divergence_fnn(x, y)["divergence"]
    assert 0.02 < expected < 0.5
    assert divergence_fnn(x, y) == pytest.approx(expected, abs=1e-6)
