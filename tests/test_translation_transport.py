"""Colour space and optimal transport, against published values and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import sqrtm

from pytest_semcov.translation.oklab import oklab_to_rgb, rgb_to_oklab
from pytest_semcov.translation.transport import LEVELS, quantile_map, quantiles, sliced_transport

PUBLISHED = {  # CSS Color Module Level 4, sample conversions
    (255, 255, 255): (1.0, 0.0, 0.0),
    (255, 0, 0): (0.62796, 0.22486, 0.12585),
    (0, 255, 0): (0.86644, -0.23389, 0.17950),
    (0, 0, 255): (0.45201, -0.03246, -0.31153),
    (0, 128, 0): (0.51975, -0.14030, 0.10768),
    (0, 0, 0): (0.0, 0.0, 0.0),
}


@pytest.mark.parametrize(("rgb", "expected"), PUBLISHED.items())
def test_oklab_has_the_published_values(rgb: tuple[int, ...], expected: tuple[float, ...]) -> None:
    assert rgb_to_oklab(np.array(rgb, np.uint8)) == pytest.approx(expected, abs=2e-5)


@given(arrays(np.uint8, (20, 3)))
def test_oklab_and_back_is_exact(rgb: np.ndarray) -> None:
    assert np.array_equal(oklab_to_rgb(rgb_to_oklab(rgb)), rgb)


def test_colours_outside_srgb_are_clipped() -> None:
    assert oklab_to_rgb(np.array([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])).tolist() == [[255] * 3, [0] * 3]


@given(arrays(np.float32, st.tuples(st.integers(1, 30), st.just(2)), elements=st.floats(-9, 9, width=32)))
def test_quantiles_are_those_of_numpy(values: np.ndarray) -> None:
    expected = np.quantile(values.astype(float), LEVELS, axis=0)

    np.testing.assert_allclose(quantiles(values).T, expected, atol=1e-4)


@given(arrays(np.float32, (50,), elements=st.floats(-9, 9, width=32)), st.integers(0, 99))
def test_the_map_in_one_dimension_never_turns_values_around(values: np.ndarray, seed: int) -> None:
    target = np.random.default_rng(seed).normal(size=(300, 1)).astype(np.float32)

    moved = quantile_map(values, quantiles(values[:, None])[0], quantiles(target)[0])

    order = np.argsort(values)
    assert (np.diff(moved[order]) >= 0).all()
    assert target.min() <= moved.min()
    assert moved.max() <= target.max()


def test_a_frequent_value_goes_to_the_mean_of_its_share() -> None:
    values = np.array([0.0] * 500 + [1.0] * 500, np.float32)
    target = np.linspace(0, 1, 1000, dtype=np.float32)

    moved = quantile_map(values, quantiles(values[:, None])[0], quantiles(target[:, None])[0])

    assert moved[0] == pytest.approx(0.25, abs=0.02)
    assert moved[-1] == pytest.approx(0.75, abs=0.02)


def gaussian(seed: int, mean: list[float], root: list[list[float]], count: int = 20_000) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(count, len(mean)))
    return (noise @ np.array(root).T + mean).astype(np.float32)


def test_between_gaussians_sliced_transport_is_the_monge_kantorovich_map() -> None:
    source = gaussian(1, [0.6, 0.0, 0.1], [[0.2, 0, 0], [0.05, 0.06, 0], [-0.02, 0.01, 0.04]])
    target = gaussian(2, [0.2, 0.02, 0.05], [[0.1, 0, 0], [-0.02, 0.03, 0], [0.03, 0.02, 0.05]])
    a, b = np.cov(source.T), np.cov(target.T)
    root = sqrtm(a).real
    inverse = np.linalg.inv(root)
    linear = inverse @ sqrtm(root @ b @ root).real @ inverse
    expected = (source - source.mean(0)) @ linear + target.mean(0)

    moved = sliced_transport(
        source, source[::4], target[::4], generator=np.random.default_rng(0), iterations=20
    )

    assert moved.mean(0) == pytest.approx(target.mean(0), abs=0.003)
    assert np.linalg.norm(np.cov(moved.T) - b) < 0.05 * np.linalg.norm(b)
    # Sliced transport ends at the right distribution, close to (not at) the shortest way to it.
    assert np.sqrt(((moved - expected) ** 2).mean()) < 0.25 * np.sqrt(((source - expected) ** 2).mean())


def test_points_move_alike_wherever_they_stand_in_the_list() -> None:
    source, target = (gaussian(seed, [0.0] * 3, np.eye(3).tolist(), 500) for seed in (1, 2))
    turned = np.random.default_rng(3).permutation(500)

    first, second = (
        sliced_transport(points, source, target, generator=np.random.default_rng(0))
        for points in (source, source[turned])
    )

    assert first[turned] == pytest.approx(second, abs=1e-5)
