"""Annotated objects before and after a translation: pairs of images, windows of pixels, crops as samples."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.data.samples import Box, Dataset, Sample
from pytest_semcov.errors import ArgumentError, DatasetError

if TYPE_CHECKING:
    from PIL import Image

Window = tuple[int, int, int, int]
"""Left, top, right and bottom edge in whole pixels."""

WINDOW = "semcov_window"
"""Key of an image's ``info`` that holds the window to look at (see :class:`CropSource`)."""

SMALLEST_BOX = 4
"""Pixels a side; smaller boxes are counted and left out."""

_SAME_CORNER = 1.0
_KEPT_IMAGES = 8
_TRIES = 40
_SCALES = (1.0, 0.5, 0.25)


@dataclass(frozen=True, slots=True, eq=False)
class ImagePair:
    """An image and what a translator made of it, with the objects that are in both."""

    before: Sample
    after: Sample
    boxes: tuple[Box, ...]

    @property
    def group(self) -> str:
        """Images of one group are not independent; an image without one is its own."""
        if self.before.group is not None:
            return f"group {self.before.group}"
        return f"image {self.before.id}"


def pair_images(
    original: Dataset, synthetic: Dataset, *, sources: Mapping[str, str] | None = None
) -> list[ImagePair]:
    """Pair synthetic images with their sources, sorted by id.

    Parameters
    ----------
    original
        Holds the sources, with boxes.
    synthetic
        Images with the boxes of their sources, or without any: then the source's are taken.
    sources
        Synthetic id → source id; default: by provenance.

    Raises
    ------
    ArgumentError
        If a source is unknown or missing, or no source has a box.
    DatasetError
        If the boxes of an image and its source differ.
    """
    by_id = {original[index].id: original[index] for index in range(len(original))}
    made = sorted((synthetic[index] for index in range(len(synthetic))), key=lambda sample: sample.id)
    known = {sample.id: _source_id(sample, sources) for sample in made}
    unknown = [sample_id for sample_id, source in known.items() if source is None]
    if unknown:
        raise ArgumentError(
            f"{unknown[0]}: its source image is not known (so for {len(unknown)} of {len(made)} images); "
            "give samples with provenance, or sources= (a mapping from synthetic to source id)"
        )
    missing = [(made_id, source) for made_id, source in known.items() if source not in by_id]
    if missing:
        raise ArgumentError(
            f"{missing[0][0]}: its source {missing[0][1]!r} is not in the original data set "
            f"({len(missing)} of {len(made)} sources are missing); give the data set that was translated"
        )
    pairs = []
    for sample in made:
        source = by_id[str(known[sample.id])]
        _check_boxes(source, sample)
        pairs.append(ImagePair(source, sample, source.boxes))
    if not any(pair.boxes for pair in pairs):
        raise ArgumentError(
            f"none of the {len(pairs)} source images has an annotated box; objects are judged by their boxes"
        )
    return pairs


def _source_id(sample: Sample, sources: Mapping[str, str] | None) -> str | None:
    if sources is not None:
        return sources.get(sample.id)
    return None if sample.provenance is None else sample.provenance.source_id


def _check_boxes(source: Sample, sample: Sample) -> None:
    if not sample.boxes:
        return
    remedy = "objects are paired by order, so a synthetic image carries its source's boxes unchanged, or none"
    if len(sample.boxes) != len(source.boxes):
        raise DatasetError(
            f"{sample.id} has {len(sample.boxes)} boxes, its source {source.id} {len(source.boxes)}; {remedy}"
        )
    for number, (one, other) in enumerate(zip(source.boxes, sample.boxes, strict=True)):
        apart = max(abs(a - b) for a, b in zip(_corners(one), _corners(other), strict=True))
        if one.label != other.label or not apart <= _SAME_CORNER:
            raise DatasetError(
                f"{sample.id}: box {number} is {_shown(other)}, in its source {source.id} {_shown(one)}; "
                f"{remedy}"
            )


def _corners(box: Box) -> tuple[float, float, float, float]:
    return box.x0, box.y0, box.x1, box.y1


def _shown(box: Box) -> str:
    return f"{box.label} at ({', '.join(f'{corner:g}' for corner in _corners(box))})"


def window_of(box: Box, size: tuple[int, int], *, context: float = 0.0) -> Window | None:
    """Return the pixels of a box within an image.

    Parameters
    ----------
    box
        The box.
    size
        Width and height of the image.
    context
        Share of the box's width and height that is added on each side.

    Returns
    -------
    The window, cut at the border of the image; ``None`` if the box lies outside.
    """
    wide, high = context * (box.x1 - box.x0), context * (box.y1 - box.y0)
    edges = (box.x0 - wide, box.y0 - high, box.x1 + wide, box.y1 + high)
    if not all(map(math.isfinite, edges)):
        return None
    left, top = max(0, math.floor(edges[0])), max(0, math.floor(edges[1]))
    right, bottom = min(size[0], math.ceil(edges[2])), min(size[1], math.ceil(edges[3]))
    return (left, top, right, bottom) if left < right and top < bottom else None


def reaches_over(box: Box, size: tuple[int, int]) -> bool:
    """Whether a box reaches over the border of an image by half a pixel or more."""
    return box.x0 <= -0.5 or box.y0 <= -0.5 or box.x1 >= size[0] + 0.5 or box.y1 >= size[1] + 0.5


def background_windows(
    window: Window, taken: Sequence[Window], size: tuple[int, int], *, count: int, key: Sequence[object]
) -> list[Window]:
    """Return windows of the same size that hold no object; of half or a quarter of the size if none fits.

    Parameters
    ----------
    window
        The object's window.
    taken
        Windows of all objects of the image.
    size
        Width and height of the image.
    count
        How many are wanted; fewer are returned where there is no place.
    key
        Fixes the choice.
    """
    digest = hashlib.sha256(repr(tuple(key)).encode("utf-8", "surrogatepass")).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    for scale in _SCALES:
        width = max(SMALLEST_BOX, round(scale * (window[2] - window[0])))
        height = max(SMALLEST_BOX, round(scale * (window[3] - window[1])))
        found: list[Window] = []
        if width > size[0] or height > size[1]:
            continue
        for _ in range(_TRIES):
            left = int(generator.integers(0, size[0] - width + 1))
            top = int(generator.integers(0, size[1] - height + 1))
            place = (left, top, left + width, top + height)
            if not any(_overlap(place, other) for other in taken):
                found.append(place)
            if len(found) == count:
                break
        if found:
            return found
    return []


def _overlap(one: Window, other: Window) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


class KeptImages:
    """Decodes images, and keeps the last few: crops of one image are taken one after the other."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[Sample, Image.Image]] = {}
        self._keys: dict[int, tuple[Sample, str]] = {}
        self._lock = threading.Lock()

    def load(self, sample: Sample) -> Image.Image:
        """Return the image; it is shared, so leave it as it is."""
        with self._lock:
            if id(sample) not in self._images:
                if len(self._images) >= _KEPT_IMAGES:
                    del self._images[next(iter(self._images))]
                self._images[id(sample)] = (sample, sample.load())
            return self._images[id(sample)][1]

    def content_key(self, sample: Sample) -> str:
        """Return the hash of the image's content (hex), computed once."""
        with self._lock:
            if id(sample) not in self._keys:
                self._keys[id(sample)] = (sample, sample.content_key())
            return self._keys[id(sample)][1]


@dataclass(frozen=True, slots=True, eq=False)
class CropSource:
    """A window of an image as the source of a sample of its own; nothing is decoded before it is loaded.

    Parameters
    ----------
    sample
        The image.
    window
        The pixels.
    images
        Decodes the image.
    whole
        The image is not cropped; its ``info`` under :data:`WINDOW` holds the window.
    """

    sample: Sample
    window: Window
    images: KeptImages
    whole: bool = False

    @property
    def path(self) -> Path | None:
        """The file of the whole image, where there is one."""
        return self.sample.path

    def load(self, sample_id: str, *, minimum_size: int | None = None) -> Image.Image:
        """Decode and crop."""
        image = self.images.load(self.sample)
        if not self.whole:
            return image.crop(self.window)
        image = image.copy()
        image.info[WINDOW] = (*self.window, self.images.content_key(self.sample))
        return image

    def content_key(self) -> str:
        """Return a hash of the image's content and the window (hex)."""
        kind = "window" if self.whole else "crop"
        return hashlib.sha256(
            f"{kind} {self.window} {self.images.content_key(self.sample)}".encode()
        ).hexdigest()


def luminance(image: Image.Image) -> np.ndarray:
    """Return ``(height, width)`` luminance (ITU-R BT.601) in levels of 255."""
    pixels: np.ndarray = np.asarray(image.convert("RGB"), dtype=np.float64) @ np.array([0.299, 0.587, 0.114])
    return pixels
