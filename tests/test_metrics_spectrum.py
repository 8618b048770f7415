"""Detail and edges of crops, against closed forms and double loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from pytest_semcov.errors import ArgumentError, NonFiniteError
from pytest_semcov.metrics.spectrum import band_power, detail_change, edges_kept


def textured(seed: int, height: int = 24, width: int = 31) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width)).astype(np.float64)


def wave(u: int, v: int, height: int, width: int, amplitude: float = 40.0) -> np.ndarray:
    """Return one basis function of the cosine transform."""
    rows = np.cos(math.pi * (np.arange(height) + 0.5) * u / height)
    columns = np.cos(math.pi * (np.arange(width) + 0.5) * v / width)
    return 100 + amplitude * np.outer(rows, columns)


def test_powers_equal_a_double_loop_over_the_transform():
    crop = textured(1, 6, 9)
    height, width = crop.shape
    bands: dict[str, list[float]] = {"coarse": [], "fine": []}
    for u in range(height):
        for v in range(width):
            basis = wave(u, v, height, width, 1.0) - 100
            coefficient = (crop * basis).sum() / math.sqrt((basis**2).sum())
            frequency = 0.5 * math.hypot(u / height, v / width)
            if 0 < frequency <= 1 / 8:
                bands["coarse"].append(coefficient**2)
            if frequency >= 1 / 4:
                bands["fine"].append(coefficient**2)
    expected = [np.mean(bands[name]) + 1 / 12 for name in ("coarse", "fine")]
    np.testing.assert_allclose(band_power(crop), expected, rtol=1e-10)


def test_a_fine_wave_at_half_amplitude_is_six_decibels():
    coarse = wave(1, 0, 32, 32)
    fine = wave(0, 24, 32, 32) - 100
    change = detail_change(coarse + fine, coarse + fine / 2)
    assert change == pytest.approx(20 * math.log10(0.5), abs=0.05)  # less what rounding's power adds


def test_a_blur_takes_what_its_transfer_function_says():
    spread, column = 0.8, 40
    impulse = np.zeros(33)
    impulse[16] = 1
    kernel = gaussian_filter(impulse, spread)
    gain = float((kernel * np.cos(2 * math.pi * column / 128 * (np.arange(33) - 16))).sum())
    before = wave(0, column, 64, 64) + wave(1, 1, 64, 64)
    change = detail_change(before, gaussian_filter(before, spread, mode="reflect"))
    assert change == pytest.approx(20 * math.log10(gain), abs=0.1)
    middle = wave(0, 24, 64, 64) + wave(1, 1, 64, 64)  # 3/16 cycles a pixel: neither coarse nor fine
    assert detail_change(middle, gaussian_filter(middle, spread, mode="reflect")) == pytest.approx(0, abs=0.1)


@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(0.3, 3.0), offset=st.floats(-50, 50))
def test_contrast_and_brightness_are_no_change(seed: int, factor: float, offset: float):
    crop = textured(seed)
    assert detail_change(crop, crop * factor + offset) == pytest.approx(0, abs=0.01)
    assert edges_kept(crop, -crop * factor + offset) == pytest.approx(1, abs=1e-3)


@given(seed=st.integers(0, 2**32 - 1))
def test_mirroring_both_changes_nothing(seed: int):
    one, other = textured(seed), textured(seed + 1)
    assert detail_change(one[::-1], other[::-1]) == pytest.approx(detail_change(one, other), abs=1e-9)
    assert edges_kept(one[:, ::-1], other[:, ::-1]) == pytest.approx(edges_kept(one, other), abs=1e-9)


def test_a_flat_crop_has_nothing_to_lose_and_no_edge():
    flat = np.full((8, 8), 90.0)
    assert detail_change(flat, flat + 5) == pytest.approx(0, abs=1e-9)
    assert math.isnan(edges_kept(flat, textured(3, 8, 8)))
    assert edges_kept(textured(3, 8, 8), flat) == 0


def test_edges_turned_by_ninety_degrees_and_edges_without_relation():
    stripes = wave(0, 6, 40, 40)
    assert edges_kept(stripes, stripes.T) == pytest.approx(-1, abs=1e-6)
    many = [edges_kept(textured(seed), textured(seed + 500)) for seed in range(60)]
    assert abs(np.mean(many)) < 0.03


def test_edges_equal_a_loop_over_pixels():
    one, other = textured(5, 9, 7), textured(6, 9, 7)
    inner = (slice(2, 7), slice(1, 6))
    kinds = {"right": (0, 1), "down": (1, 0)}
    g = {
        (name, key): gaussian_filter(crop, 1.0, order=order, mode="nearest")
        for name, crop in (("one", one), ("other", other))
        for key, order in kinds.items()
    }
    total = weights = 0.0
    for y in range(2, 7):
        for x in range(1, 6):
            a = math.atan2(g["one", "down"][y, x], g["one", "right"][y, x])
            b = math.atan2(g["other", "down"][y, x], g["other", "right"][y, x])
            weight = math.hypot(g["one", "down"][y, x], g["one", "right"][y, x])
            seen = math.hypot(g["other", "down"][y, x], g["other", "right"][y, x]) >= 0.5
            if weight >= 0.5:
                total += weight * (math.cos(2 * (a - b)) if seen else 0)
                weights += weight
    assert edges_kept(one, other, inner=inner) == pytest.approx(total / weights, rel=1e-9)


def test_crops_that_cannot_be_compared():
    with pytest.raises(ArgumentError, match="4 a side"):
        detail_change(np.zeros((3, 9)), np.zeros((3, 9)))
    with pytest.raises(ArgumentError, match="need one"):
        edges_kept(np.zeros((5, 9)), np.zeros((9, 5)))
    with pytest.raises(NonFiniteError):
        detail_change(textured(1), np.full((24, 31), np.nan))
