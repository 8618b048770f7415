"""Fréchet distance against the formula with a matrix root, and closed forms."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.frechet import frechet_distance


def normal(rows: int, width: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=(rows, width)) + shift


def with_matrix_root(x: np.ndarray, y: np.ndarray) -> float:
    """Compute it as published, with ``scipy.linalg.sqrtm`` of the product of covariances."""
    a, b = np.atleast_2d(np.cov(x.T)), np.atleast_2d(np.cov(y.T))
    difference = x.mean(axis=0) - y.mean(axis=0)
    root = np.real(sqrtm(a @ b))
    return float(difference @ difference + np.trace(a) + np.trace(b) - 2 * np.trace(root))


def with_nuclear_norm(x: np.ndarray, y: np.ndarray) -> float:
    """tr((AB)^½) is the nuclear norm of the product of any factors: no root of a singular matrix."""
    difference = x.mean(axis=0) - y.mean(axis=0)
    left = (x - x.mean(axis=0)) / np.sqrt(len(x) - 1)
    right = (y - y.mean(axis=0)) / np.sqrt(len(y) - 1)
    root = np.linalg.norm(left @ right.T, "nuc")
    return float(difference @ difference + (left**2).sum() + (right**2).sum() - 2 * root)


@pytest.mark.parametrize(("n", "m", "width"), [(90, 90, 20), (200, 60, 40), (60, 200, 40), (300, 300, 1)])
def test_as_matrix_root(n: int, m: int, width: int) -> None:
    x, y = normal(n, width), normal(m, width, seed=1, scale=1.7, shift=0.2)
    y[:, 0] += x[0, 0]
    expected = with_matrix_root(x, y)
    assert frechet_distance(x, y) == pytest.approx(expected, rel=1e-9)
    assert frechet_distance(y, x) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("n", "m", "width"), [(30, 30, 60), (30, 50, 200), (50, 200, 100), (200, 50, 100), (101, 100, 100)]
)
def test_fewer_rows_than_features(n: int, m: int, width: int) -> None:
    x, y = normal(n, width), normal(m, width, seed=1, scale=2.0, shift=0.1)
    assert frechet_distance(x, y) == pytest.approx(with_nuclear_norm(x, y), rel=1e-11)
    assert frechet_distance(x, y) == pytest.approx(with_matrix_root(x, y), rel=1e-4)


def test_low_rank_with_many_rows() -> None:
    x = normal(150, 4) @ normal(4, 60, seed=1)
    y = normal(150, 4, seed=2) @ normal(4, 60, seed=3)
    expected = with_nuclear_norm(x, y)
    assert frechet_distance(x, y) == pytest.approx(expected, rel=1e-12)
    # One set of full rank, whichever.
    full = normal(200, 60, seed=4)
    assert frechet_distance(x, full) == pytest.approx(with_nuclear_norm(x, full), rel=1e-12)
    assert frechet_distance(full, x) == pytest.approx(with_nuclear_norm(x, full), rel=1e-12)
    # A feature that is constant, one that repeats another, one of tiny spread.
    full[:, 0], full[:, 1] = 3.0, full[:, 2]
    assert frechet_distance(full, x) == pytest.approx(with_nuclear_norm(x, full), rel=1e-12)
    tiny = normal(200, 60, seed=5) * np.geomspace(1, 1e-7, 60)
    assert frechet_distance(tiny, 2 * tiny[::-1]) == pytest.approx(
        tiny.var(axis=0, ddof=1).sum() + (tiny.mean(axis=0) ** 2).sum(), rel=1e-12
    )


@pytest.mark.parametrize(("n", "m", "width"), [(9000, 5000, 6), (5000, 4, 6), (4, 5000, 6)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_many_rows(n: int, m: int, width: int, kind: type) -> None:
    # More than one block of rows.
    x, y = normal(n, width).astype(kind), normal(m, width, seed=1, scale=1.3).astype(kind)
    reference = with_matrix_root if min(n, m) > width else with_nuclear_norm
    expected = reference(x.astype(np.float64), y.astype(np.float64))
    assert frechet_distance(x, y) == pytest.approx(expected, rel=1e-10)
    assert frechet_distance(y, x) == pytest.approx(expected, rel=1e-10)


def test_memory_is_bounded_by_blocks() -> None:
    x = np.random.default_rng(0).random((60_000, 32), dtype=np.float32)
    tracemalloc.start()
    frechet_distance(x, x[::-1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes  # centred float64 copies would be four times as much


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "width"), [(400, 300, 24), (40, 300, 64), (40, 40, 64)])
def test_as_torch_fidelity(n: int, m: int, width: int) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fidelity = pytest.importorskip("torch_fidelity.metric_fid")
    x, y = normal(n, width, shift=0.4), normal(m, width, seed=1, scale=1.4)
    statistics = [fidelity.fid_features_to_statistics(torch.from_numpy(rows)) for rows in (x, y)]
    found = fidelity.fid_statistics_to_metric(*statistics, verbose=False)["frechet_inception_distance"]
    # Where a covariance is singular, roots of its rounding are in that figure.
    assert frechet_distance(x, y) == pytest.approx(found, rel=1e-9 if min(n, m) > width else 1e-4)


def with_moments(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Rows whose sample mean and covariance are exactly these."""
    rows = np.random.default_rng(0).normal(size=(40, len(mean)))
    rows -= rows.mean(axis=0)
    rows = rows @ np.linalg.inv(np.linalg.cholesky(np.cov(rows.T)).T)
    return rows @ np.linalg.cholesky(covariance).T + mean


def test_closed_forms() -> None:
    # One dimension: (difference of means)² + (difference of standard deviations)².
    x, y = normal(50, 1), normal(70, 1, seed=1, scale=3.0, shift=2.0)
    one = (x.mean() - y.mean()) ** 2 + (x.std(ddof=1) - y.std(ddof=1)) ** 2
    assert frechet_distance(x, y) == pytest.approx(one, rel=1e-12)
    # Diagonal covariances: one dimension after the other.
    x = with_moments(np.array([0.0, 1.0, 2.0]), np.diag([1.0, 4.0, 9.0]))
    y = with_moments(np.array([1.0, 1.0, 0.0]), np.diag([4.0, 4.0, 1.0]))
    assert frechet_distance(x, y) == pytest.approx(1 + 0 + 4 + 1 + 0 + 4, rel=1e-9)
    # A with the identity: eigenvalues 1 and 3 of A give tr(A) + 2 - 2 (1 + √3).
    x = with_moments(np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]))
    y = with_moments(np.zeros(2), np.eye(2))
    assert frechet_distance(x, y) == pytest.approx(4 + 2 - 2 * (1 + np.sqrt(3)), rel=1e-9)
    # Scaling a set by s about its mean: (1 - s)² tr(A).
    z = normal(40, 5)
    scaled = z.mean(axis=0) + 3 * (z - z.mean(axis=0))
    assert frechet_distance(z, scaled) == pytest.approx(4 * z.var(axis=0, ddof=1).sum(), rel=1e-9)


@pytest.mark.parametrize(("rows", "width"), [(60, 8), (10, 30), (30, 30), (31, 30)])
def test_identical_sets_are_at_zero(rows: int, width: int) -> None:
    x = normal(rows, width)
    assert 0 <= frechet_distance(x, x) < 1e-9
    assert 0 <= frechet_distance(x, x[::-1]) < 1e-9
    assert frechet_distance(x, x + 2) == pytest.approx(4 * width, rel=1e-9)
    constant = np.full((rows, width), 7.0)
    assert frechet_distance(constant, constant) == 0
    assert frechet_distance(constant, constant + 1) == pytest.approx(width)


@pytest.mark.parametrize(("rows", "width"), [(60, 8), (10, 30)])
def test_far_from_the_origin(rows: int, width: int) -> None:
    x, y = normal(rows, width), normal(rows, width, seed=1, scale=1.5)
    assert frechet_distance(x + 1e4, y + 1e4) == pytest.approx(frechet_distance(x, y), rel=1e-8)
    # What float32 resolves at 10⁴ is in the input; nothing more is lost.
    far = [(z + 1e4).astype(np.float32) for z in (x, y)]
    expected = with_nuclear_norm(*(z.astype(np.float64) for z in far))
    assert frechet_distance(*far) == pytest.approx(expected, rel=1e-8)


def test_needs_two_rows() -> None:
    for first, second in ((1, 5), (5, 1)):
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            frechet_distance(normal(first, 3), normal(second, 3))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), m=st.integers(2, 12), width=st.integers(1, 8))
def test_symmetric_and_the_same_after_a_rotation(seed: int, n: int, m: int, width: int) -> None:
    x, y = normal(n, width, seed), normal(m, width, seed + 1, shift=0.5)
    value = frechet_distance(x, y)
    assert value >= 0
    assert frechet_distance(y, x) == pytest.approx(value, rel=1e-9, abs=1e-12)
    rotation, _ = np.linalg.qr(normal(width, width, seed + 2))
    assert frechet_distance(x @ rotation, y @ rotation) == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert frechet_distance(3 * x, 3 * y) == pytest.approx(9 * value, rel=1e-9, abs=1e-12)


def test_grows_with_the_shift() -> None:
    x, y = normal(80, 6), normal(80, 6, seed=1)
    values = [frechet_distance(x, y + shift) for shift in (0.0, 0.3, 1.0, 3.0)]
    assert values == sorted(values)
