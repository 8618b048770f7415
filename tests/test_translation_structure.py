"""How much structure a translation kept, on pairs whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import gaussian_filter

from pytest_semcov import RenderedScenes, SceneTranslator
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.structure import structure_kept


def picture(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(np.rint(pixels.clip(0, 255)).astype(np.uint8))


def stripes(width: int = 64, height: int = 64) -> np.ndarray:
    """Return smooth vertical stripes."""
    return np.tile(128 + 100 * np.sin(np.arange(width) / 3.0), (height, 1))


def blotches(seed: int) -> np.ndarray:
    """Return smooth noise whose edges run equally in all directions."""
    noise = gaussian_filter(np.random.default_rng(seed).standard_normal((64, 64)), 3, mode="wrap")
    return 128 + 45 * noise / noise.std()


def test_an_image_keeps_its_own_structure() -> None:
    assert structure_kept(picture(blotches(1)), picture(blotches(1))) == pytest.approx(1)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), factor=st.sampled_from([0.25, 0.6, 1.0]), inverted=st.booleans())
def test_darkening_and_exchange_of_light_and_dark_keep_it(seed: int, factor: float, inverted: bool) -> None:
    pixels = blotches(seed)
    darker = factor * (255 - pixels if inverted else pixels)

    assert structure_kept(picture(pixels), picture(darker)) > 0.9


def test_edges_turned_by_a_right_angle_count_minus_one_and_by_half_of_it_nothing() -> None:
    upright = picture(stripes())
    diagonal = 128 + 100 * np.sin(np.add.outer(np.arange(64), np.arange(64)) / 3.0 / math.sqrt(2))

    assert structure_kept(upright, picture(stripes().T)) == pytest.approx(-1, abs=0.03)
    assert structure_kept(upright, picture(diagonal)) == pytest.approx(0, abs=0.05)


def test_other_images_and_black_ones_keep_nothing() -> None:
    others = [structure_kept(picture(blotches(seed)), picture(blotches(seed + 1))) for seed in range(40)]

    assert abs(np.mean(others)) < 0.1
    assert structure_kept(picture(blotches(1)), Image.new("RGB", (64, 64))) == 0


def test_a_half_that_is_lost_counts_by_its_edges() -> None:
    pixels = stripes()
    half = pixels.copy()
    half[:, 32:] = 0

    assert structure_kept(picture(pixels), picture(half)) == pytest.approx(0.5, abs=0.06)


def test_an_image_without_edges_has_no_structure_to_keep() -> None:
    assert math.isnan(structure_kept(Image.new("RGB", (9, 9), (40, 50, 60)), picture(stripes(9, 9))))


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (640, 427)])
def test_any_size(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    kept = structure_kept(Image.fromarray(pixels), Image.fromarray(pixels))

    assert math.isnan(kept) or kept == pytest.approx(1)


def test_sizes_that_differ_are_refused() -> None:
    with pytest.raises(ArgumentError, match="source is 8 x 8, translation 8 x 9"):
        structure_kept(Image.new("RGB", (8, 8)), Image.new("RGB", (8, 9)))


def test_the_same_scene_at_night_keeps_more_than_another_scene() -> None:
    days = [sample.load() for sample in RenderedScenes(12, seed=4, day_night="day", sharp_blurry="sharp")]
    nights = SceneTranslator("day_night", source="day", target="night").translate(days, seeds=range(12))
    images = [night for night in nights if isinstance(night, Image.Image)]

    same = [structure_kept(day, night) for day, night in zip(days, images, strict=True)]
    other = [structure_kept(day, night) for day, night in zip(days, images[1:] + images[:1], strict=True)]

    assert np.mean(same) > np.mean(other) + 0.2
