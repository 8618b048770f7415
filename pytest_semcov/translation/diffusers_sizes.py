"""Images brought to sizes that a diffusion model takes, and back, so that boxes still match."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

PREPARATIONS = ("pad", "fit_SIDE", "resize_WIDTHxHEIGHT")
_LARGEST = 16384


@dataclass(frozen=True, slots=True)
class Preparation:
    """How images are brought to the sizes that a model takes. Made by :func:`parse_preparation`.

    Parameters
    ----------
    text
        As it was given.
    side
        ``fit_SIDE``: images are scaled to an area of ``side`` x ``side`` pixels, their shape kept.
    size
        ``resize_WIDTHxHEIGHT``: all images are resized to this width and height.
    """

    text: str
    side: int | None = None
    size: tuple[int, int] | None = None

    def prepare(self, image: Image.Image, multiple: int) -> Image.Image:
        """Return the image at a size whose sides are multiples of ``multiple``.

        It is scaled if need be, then right and bottom are padded by reflection.
        """
        from PIL import Image

        scaled = self._scaled(image.size)
        if scaled != image.size:
            image = image.resize(scaled, Image.Resampling.LANCZOS)
        padding = ((0, -image.height % multiple), (0, -image.width % multiple), (0, 0))
        return Image.fromarray(np.pad(np.asarray(image), padding, mode="reflect"))

    def restore(
        self, pixels: NDArray[np.uint8], prepared: tuple[int, int], original: tuple[int, int]
    ) -> Image.Image:
        """Undo :meth:`prepare`.

        Parameters
        ----------
        pixels
            ``(height, width, 3)``; of another size than ``prepared`` where a model chose its own.
        prepared, original
            Width and height of the prepared image and of the one before.
        """
        from PIL import Image

        image = Image.fromarray(pixels)
        if image.size != prepared:
            image = image.resize(prepared, Image.Resampling.LANCZOS)
        scaled = self._scaled(original)
        if image.size != scaled:
            image = image.crop((0, 0, *scaled))
        return image if scaled == original else image.resize(original, Image.Resampling.LANCZOS)

    def _scaled(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return width and height before padding."""
        if self.size is not None:
            return self.size
        if self.side is None:
            return size
        scale = self.side / math.sqrt(size[0] * size[1])
        return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def parse_preparation(text: str) -> Preparation:
    """Return the preparation that a text names: ``pad``, ``fit_SIDE`` or ``resize_WIDTHxHEIGHT``.

    Raises
    ------
    ArgumentError
        If it is none of them, or a side is not 1 to 16384.
    """
    if text == "pad":
        return Preparation(text)
    found = re.fullmatch(r"fit_(\d{1,5})|resize_(\d{1,5})x(\d{1,5})", text)
    sides = [] if found is None else [int(side) for side in found.groups() if side is not None]
    if found is None or not all(1 <= side <= _LARGEST for side in sides):
        raise ArgumentError(
            f"prep {text!r}: use {', '.join(map(repr, PREPARATIONS))} with sides of 1 to {_LARGEST} pixels, "
            "e.g. 'fit_512' or 'resize_512x512'"
        )
    return (
        Preparation(text, side=sides[0]) if len(sides) == 1 else Preparation(text, size=(sides[0], sides[1]))
    )
