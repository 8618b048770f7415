"""How well the objects in translated scenes agree with those of the ideal re-rendering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pytest_semcov.data.arrays import ImageList
from pytest_semcov.data.samples import Box
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.embedding.protocols import Embedder

CONTEXT = 0.25
"""Crops are wider by this share of the box on each side."""

SMALLEST = 4
"""Boxes with a shorter side (pixels) show nothing."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of box crops with the ideal, means over small and large boxes (split at the median area).

    Parameters
    ----------
    cosine
        Of the embeddings of both crops (higher is better).
    difference
        Mean absolute difference of pixels, 0 to 1 (lower is better).
    edges
        Correlation of the lengths of the luminance's gradients (higher is better).
    """

    cosine: tuple[float, float]
    difference: tuple[float, float]
    edges: tuple[float, float]


def agreement(
    made: Sequence[Image.Image],
    ideal: Sequence[Image.Image],
    boxes: Sequence[Sequence[Box]],
    embedder: Embedder,
) -> Agreement:
    """Compare crops of the same boxes in two lists of images of the same size."""
    pairs, areas = [], []
    for image, other, found in zip(made, ideal, boxes, strict=True):
        for box in found:
            width, height = box.x1 - box.x0, box.y1 - box.y0
            if min(width, height) < SMALLEST:
                continue
            place = (
                max(0, round(box.x0 - CONTEXT * width)),
                max(0, round(box.y0 - CONTEXT * height)),
                min(image.width, round(box.x1 + CONTEXT * width)),
                min(image.height, round(box.y1 + CONTEXT * height)),
            )
            pairs.append((image.crop(place), other.crop(place)))
            areas.append(width * height)
    first, second = (
        extract(ImageList([pair[side] for pair in pairs]), embedder, on_bad_image="fail").array
        for side in (0, 1)
    )
    small = np.array(areas) < np.median(areas)

    def means(values: NDArray[np.floating] | list[float]) -> tuple[float, float]:
        array = np.asarray(values)
        return float(array[small].mean()), float(array[~small].mean())

    return Agreement(
        means((first * second).sum(axis=1)),
        means([float(np.abs(_pixels(one) - _pixels(other)).mean()) for one, other in pairs]),
        means([_correlation(_edges(one), _edges(other)) for one, other in pairs]),
    )


def _pixels(image: Image.Image) -> NDArray[np.float64]:
    return np.asarray(image, dtype=np.float64) / 255


def _edges(image: Image.Image) -> NDArray[np.float64]:
    downwards, rightwards = np.gradient(np.asarray(image.convert("L"), dtype=np.float64))
    lengths: NDArray[np.float64] = np.hypot(rightwards, downwards).ravel()
    return lengths


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if min(first.std(), second.std()) < 1e-9:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
