"""Carrying the look of one photograph over to another.

``statistics`` (Reinhard et al., "Color transfer between images", 2001) matches mean and standard deviation
of each Oklab channel. ``transport`` moves distributions, in three steps that leave objects where they are:

1. *base*: the blurred image's colours, together with the height at which they stand, are moved to those of
   the blurred target, so that a sky takes the colours of skies and not those of the brightest lamps;
2. *detail*: in each band of the image (differences of successive blurs) the values are moved to the target's:
   what stands out brightly in the source shines as much as the target's light sources do;
3. *colours*: all pixels are moved to the target's distribution of colours.

Blurs are relative to the size of the image. Large images are worked on at reduced size; the detail that this
loses is added back, scaled like the finest band.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.translation.oklab import oklab_to_rgb, rgb_to_oklab
from pytest_semcov.translation.transport import LEVELS, quantile_map, quantiles, sliced_transport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from PIL import Image

    Array = NDArray[np.float32]

WORKING_SIZE = 256
"""Shorter side (pixels) above which images are worked on at reduced size."""

BANDS = 5
"""Number of bands; the coarsest is about 16 pixels wide in an image of 256."""

POINTS = 4096
"""Pixels that stand for an image's distribution of colours."""

VERSION = 1
"""Changes whenever the same image, target and seed give other pixels."""

_HEIGHT_WEIGHT = 1.0
"""Distance in Oklab (black to white is 1) that counts as much as the full height of the image."""


def shapes(method: str) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the arrays that :func:`describe` gives."""
    if method == "statistics":
        return {"mean": (3,), "deviation": (3,)}
    return {"detail": (BANDS, 3, len(LEVELS)), "base": (POINTS, 4), "colours": (POINTS, 3)}


def describe(image: Image.Image, method: str) -> dict[str, NDArray[np.floating]]:
    """Return what a method needs to know of a target image: arrays as in :func:`shapes`."""
    oklab = _working(image)
    if method == "statistics":
        pixels = oklab.reshape(-1, 3)
        return {"mean": pixels.mean(axis=0), "deviation": pixels.std(axis=0)}
    bands, base = _bands(oklab)
    return {
        "detail": np.stack([quantiles(band.reshape(-1, 3)) for band in bands]),
        "base": _some(_with_height(base)).astype(np.float16),
        "colours": _some(oklab.reshape(-1, 3)).astype(np.float16),
    }


def transfer(
    image: Image.Image,
    target: Mapping[str, NDArray[np.floating]],
    method: str,
    generator: np.random.Generator,
) -> Image.Image:
    """Return the image with the look of a described target; same size.

    Parameters
    ----------
    image
        RGB.
    target
        From :func:`describe` with the same method.
    method
        ``"transport"`` or ``"statistics"``.
    generator
        Draws the directions of transport.
    """
    from PIL import Image

    before = _working(image)
    known = {name: np.asarray(array, dtype=np.float32) for name, array in target.items()}
    if method == "statistics":
        mean, deviation = before.mean(axis=(0, 1)), np.maximum(before.std(axis=(0, 1)), 1e-4)
        oklab = rgb_to_oklab(np.asarray(image))
        return Image.fromarray(
            oklab_to_rgb((oklab - mean) * (known["deviation"] / deviation) + known["mean"])
        )
    after = _move(before, known, generator)
    if before.shape[:2] == (image.height, image.width):
        return Image.fromarray(oklab_to_rgb(after))
    full = rgb_to_oklab(np.asarray(image))
    fine = full - _resize(before, image.size)
    scale = _finest(after).std(axis=(0, 1)) / np.maximum(_finest(before).std(axis=(0, 1)), 1e-4)
    return Image.fromarray(oklab_to_rgb(_resize(after, image.size) + fine * np.clip(scale, 0.0, 2.0)))


def _move(oklab: Array, target: Mapping[str, Array], generator: np.random.Generator) -> Array:
    bands, base = _bands(oklab)
    points = _with_height(base)
    moved = sliced_transport(points, _some(points), target["base"], generator=generator)
    result = _blur(moved[:, :3].reshape(oklab.shape), _unit(oklab) * 2)  # no seams in even surfaces
    for band, wanted in zip(bands, target["detail"], strict=True):
        known = quantiles(band.reshape(-1, 3))
        for channel in range(3):
            result[..., channel] += quantile_map(band[..., channel], known[channel], wanted[channel])
    pixels = result.reshape(-1, 3)
    return sliced_transport(pixels, _some(pixels), target["colours"], generator=generator).reshape(
        oklab.shape
    )


def _working(image: Image.Image) -> Array:
    """Return the image in Oklab at working size."""
    from PIL import Image

    scale = WORKING_SIZE / min(image.size)
    if scale < 1:
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.BOX)
    return rgb_to_oklab(np.asarray(image))


def _resize(oklab: Array, size: tuple[int, int]) -> Array:
    from PIL import Image

    channels = [
        np.asarray(Image.fromarray(oklab[..., channel]).resize(size, Image.Resampling.BICUBIC))
        for channel in range(3)
    ]
    return np.stack(channels, axis=-1)


def _unit(oklab: Array) -> float:
    """Return how many pixels correspond to one pixel of an image of working size."""
    return float(min(oklab.shape[:2])) / WORKING_SIZE


def _bands(oklab: Array) -> tuple[list[Array], Array]:
    """Return bands from fine to coarse and the base; they add up to the image."""
    blurred = [oklab, *(_blur(oklab, _unit(oklab) * 2**band) for band in range(BANDS))]
    return [finer - coarser for finer, coarser in itertools.pairwise(blurred)], blurred[-1]


def _finest(oklab: Array) -> Array:
    return oklab - _blur(oklab, _unit(oklab))


def _blur(oklab: Array, sigma: float) -> Array:
    from scipy.ndimage import gaussian_filter

    blurred: Array = gaussian_filter(oklab, (sigma, sigma, 0), mode="nearest", truncate=3.0)
    return blurred


def _with_height(base: Array) -> Array:
    """Return one row per pixel: its colour and its weighted height."""
    height = np.linspace(-0.5, 0.5, base.shape[0], dtype=np.float32)[:, None, None] * _HEIGHT_WEIGHT
    columns = [base, np.broadcast_to(height, (*base.shape[:2], 1))]
    points: Array = np.concatenate(columns, axis=2).reshape(-1, 4)
    return points


def _some(points: Array) -> Array:
    """Return POINTS rows, evenly spread; steps of the golden ratio keep clear of whole columns."""
    places = np.arange(POINTS) * 0.6180339887498949 % 1.0
    some: Array = points[(places * len(points)).astype(int)]
    return some
