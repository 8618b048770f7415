"""Precision, recall, density, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from metrics_references import direct_distances, published_prdc

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics import neighbour_scan
from pytest_semcov.metrics.arrays import distances
from pytest_semcov.metrics.prdc import Prdc, ball_radii, prdc, prdc_from_distances

tied = arrays(np.float64, st.tuples(st.integers(4, 14), st.just(2)), elements=st.integers(-3, 3).map(float))


def normal(rows: int, width: int = 4, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=(rows, width)) + shift


def assert_same(found: Prdc, expected: dict[str, float]) -> None:
    assert set(found.to_dict()) == set(expected)
    for name, value in expected.items():
        assert found.to_dict()[name] == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize(("n", "m"), [(60, 60), (30, 80)])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (0.4, 0.5), (2.0, 1.0)])
def test_as_the_authors_package(n: int, m: int, k: int, scale: float, shift: float) -> None:
    x, y = normal(n), normal(m, seed=1, scale=scale, shift=shift)
    assert_same(prdc(x, y, k=k), published_prdc(x, y, k))
    table = prdc_from_distances(distances(x), distances(y), distances(x, y), k=k)
    assert table == prdc(x, y, k=k)


def test_identical_sets() -> None:
    # In every ball of a set: its centre and k - 1 neighbours, the k-th lies on its border. k of k.
    for rows in (20, 100):
        x = normal(rows, 6)
        assert_same(prdc(x, x), dict.fromkeys(("precision", "recall", "density", "coverage"), 1.0))
        assert_same(prdc(x, x[::-1]), dict.fromkeys(("precision", "recall", "density", "coverage"), 1.0))
        assert_same(prdc(x + 1e4, x + 1e4), published_prdc(x, x, 5))


def test_direction() -> None:
    # Real: two clusters. Synthetic: one of them.
    first, second = normal(20), normal(20, seed=1, shift=100)
    both, one = np.concatenate([first, second]), normal(40, seed=2)
    forth, back = prdc(both, one), prdc(one, both)
    assert forth.precision > 0.8
    assert forth.recall <= 0.5
    assert forth.coverage <= 0.5
    assert back.precision <= 0.5
    assert back.recall > 0.8
    assert back.precision == forth.recall
    assert back.recall == forth.precision
    assert_same(back, published_prdc(one, both, 5))


def test_outliers_of_the_real_set_raise_precision_but_not_density() -> None:
    real, far = normal(40), normal(40, seed=1, shift=6)
    with_outliers = np.concatenate([real, [[12.0] * 4, [-12.0] * 4]])
    assert prdc(real, far).precision == 0
    spoilt = prdc(with_outliers, far)
    assert spoilt.precision > 0.9
    assert spoilt.density < 0.3
    assert spoilt.coverage < 0.1


def test_collapse_shows_in_coverage_and_recall() -> None:
    real = normal(60)
    collapsed = prdc(real, real[:1] + 1e-6 * normal(60, seed=1))
    assert collapsed.precision == 1
    assert collapsed.recall <= 1 / 60  # the repeated image itself
    assert collapsed.coverage < 0.3
    apart = prdc(real, normal(60, shift=100))
    assert_same(apart, dict.fromkeys(("precision", "recall", "density", "coverage"), 0.0))


def test_constant_sets_are_not_disjoint() -> None:
    x, y = np.ones((10, 3)), np.ones((8, 3))
    assert_same(prdc(x, y, k=5), {"precision": 1, "recall": 1, "density": 10 / 5, "coverage": 1})
    assert_same(prdc(x, y + 1, k=5), dict.fromkeys(("precision", "recall", "density", "coverage"), 0.0))


def test_many_copies_cost_what_distinct_rows_cost() -> None:
    x = np.repeat(normal(3), 20_000, axis=0)  # distances of all pairs would take 29 GB
    assert_same(prdc(x, x[::2], k=5), {"precision": 1, "recall": 1, "density": 20_000 / 5, "coverage": 1})


def test_rows_on_a_border_are_inside() -> None:
    # Balls of 0, 1, 2 (k = 1) reach to 1; 3 lies on the border of the last, 4.5 outside.
    real, synthetic = np.array([[0.0], [1.0], [2.0]]), np.array([[3.0], [4.5], [6.0]])
    found = prdc(real, synthetic, k=1)
    assert_same(found, {"precision": 1 / 3, "recall": 1 / 3, "density": 0, "coverage": 1 / 3})
    # From the other side: radius 1.5 around 3 reaches 1.5 .. 4.5.
    back = prdc(synthetic, real, k=1)
    assert_same(back, {"precision": 1 / 3, "recall": 1 / 3, "density": 1 / 3, "coverage": 1 / 3})


@pytest.mark.parametrize("block", [7, 64, 1280])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 30.0])
def test_blocks_and_dense_balls_as_from_tables(
    spread: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From one clump, for which float32 cannot tell inside from outside, to a set whose balls hold everything.
    monkeypatch.setattr(neighbour_scan, "_BLOCK_ROWS", block)
    centres = 10 * normal(4, 32, seed=2)
    x = centres[np.arange(160) % 4] + 0.05 * normal(160, 32)
    y = centres[np.arange(130) % 3] + spread * normal(130, 32, seed=1)
    tables = direct_distances(x, x), direct_distances(y, y), direct_distances(x, y)
    assert prdc(x, y) == prdc_from_distances(*tables, k=5)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_as_the_authors_package_on_rows_beyond_one_block(shift: float) -> None:
    x, y = normal(1500, 32).astype(np.float32), normal(1400, 32, seed=1, scale=0.9).astype(np.float32)
    found = prdc(x + np.float32(shift), y + np.float32(shift))
    # Moving float32 rows by 1e4 rounds them, and a few pairs change sides.
    for name, value in published_prdc(x, y, 5).items():
        assert found.to_dict()[name] == pytest.approx(value, abs=2e-3 if shift else 1e-12), name


@settings(deadline=None, max_examples=60)
@given(x=tied, y=tied, k=st.integers(1, 3), seed=st.integers(0, 9))
def test_ties_by_definition(x: np.ndarray, y: np.ndarray, k: int, seed: int) -> None:
    # Squared distances of whole numbers are whole: here "equal" has one meaning.
    def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.round(direct_distances(a, b) ** 2).astype(int)

    real_radius = np.sort(squared(x, x), axis=1)[:, k]
    synthetic_radius = np.sort(squared(y, y), axis=1)[:, k]
    across = squared(x, y)
    in_real = across <= real_radius[:, None]
    in_synthetic = across <= synthetic_radius[None, :]
    in_open_ball = (across < real_radius[:, None]) | (across == 0)
    expected = {
        "precision": in_real.any(axis=0).mean(),
        "recall": in_synthetic.any(axis=1).mean(),
        "density": in_open_ball.sum(axis=0).mean() / k,
        "coverage": in_real.any(axis=1).mean(),
    }
    assert_same(prdc(x, y, k=k), expected)
    # Thirds are no binary fractions; rotated rows are summed in another order.
    generator = np.random.default_rng(seed)
    moved = prdc(generator.permutation(x) / 3 + 1, generator.permutation(y) / 3 + 1, k=k)
    assert_same(moved, expected)


def test_ball_radii() -> None:
    within = distances(np.array([[0.0], [1.0], [3.0], [7.0]]))
    assert ball_radii(within, 1).tolist() == [1, 1, 2, 4]
    assert ball_radii(within, 3).tolist() == [7, 6, 4, 7]
    assert (np.diag(within) == 0).all()  # the table is left alone


def test_too_few_rows() -> None:
    prdc(normal(6), normal(6), k=5)
    for n, m, name in ((5, 9, "real"), (9, 5, "synthetic")):
        with pytest.raises(TooFewError, match=f"{name}: have 5 rows, need at least 6"):
            prdc(normal(n), normal(m), k=5)
    with pytest.raises(ArgumentError, match="k is 0"):
        prdc(normal(9), normal(9), k=0)


def test_text() -> None:
    assert str(Prdc(1, 0.5, 1.25, 0)) == "precision 1.000  recall 0.500  density 1.250  coverage 0.000"
