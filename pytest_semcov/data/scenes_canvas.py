"""The two layers that a scene is painted on, both at twice the wanted size and reduced once for smooth edges.

Surface colours have an alpha channel that is zero where the sky (or a puddle that mirrors it) shows. The
other layer holds what shines by itself at night.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw

from pytest_semcov.data.scenes_layout import Colour

OVERSAMPLING = 2
Points = Sequence[tuple[float, float]]


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """Return ``one`` with this share of ``other`` mixed in."""
    keep = 1 - share
    return (
        one[0] * keep + other[0] * share,
        one[1] * keep + other[1] * share,
        one[2] * keep + other[2] * share,
    )


def _ink(colour: Colour) -> tuple[int, int, int, int]:
    """Return opaque RGBA; Pillow clips what lies outside 0 to 255."""
    red, green, blue = colour
    return int(255 * red), int(255 * green), int(255 * blue), 255


class Canvas:
    """The two layers of a scene; what is painted hides the lights behind it.

    Parameters
    ----------
    size
        Width and height of the final image in pixels.
    lit
        Whether there is a layer of lights (night).
    """

    def __init__(self, size: int, *, lit: bool) -> None:
        self.pixels = size * OVERSAMPLING
        self.surface = Image.new("RGBA", (self.pixels, self.pixels))
        self._draw = ImageDraw.Draw(self.surface)
        self.lights = Image.new("RGB", (self.pixels, self.pixels)) if lit else None
        self._shine = ImageDraw.Draw(self.lights) if self.lights is not None else None

    def fill(self, shape: str, pixels: Any, colour: Colour, *, hides: bool = True) -> None:
        """Fill a shape given in oversampled pixels.

        Parameters
        ----------
        shape
            ``"polygon"``, ``"rectangle"`` or ``"ellipse"``.
        pixels
            Corners, the last ones included.
        colour
            Its surface.
        hides
            Whether it darkens lights that were drawn before; False where there can be none.
        """
        getattr(self._draw, shape)(pixels, fill=_ink(colour))
        if hides and self._shine is not None:
            getattr(self._shine, shape)(pixels, fill=(0, 0, 0))

    def shine(self, shape: str, pixels: Any, colour: Colour) -> None:
        """Let a shape given in oversampled pixels shine; nothing by day."""
        if self._shine is not None:
            getattr(self._shine, shape)(pixels, fill=_ink(colour))

    def polygon(self, points: Points, colour: Colour) -> None:
        """Fill a polygon; points are shares of the image, as in all methods that follow."""
        self.fill("polygon", [(x * self.pixels, y * self.pixels) for x, y in points], colour)

    def rectangle(
        self, x0: float, y0: float, x1: float, y1: float, colour: Colour, *, hides: bool = True
    ) -> None:
        """Fill a rectangle, at least one pixel in size."""
        self.fill("rectangle", self._corners(x0, y0, x1, y1), colour, hides=hides)

    def ellipse(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        """Fill an ellipse."""
        self.fill("ellipse", self._corners(x0, y0, x1, y1), colour)

    def light(
        self, x0: float, y0: float, x1: float, y1: float, colour: Colour, *, shape: str = "rectangle"
    ) -> None:
        """Let a rectangle or an ellipse shine; nothing by day."""
        self.shine(shape, self._corners(x0, y0, x1, y1), colour)

    def mirror(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Cut an elliptic hole through which the sky's mirror image shows: a puddle."""
        self._draw.ellipse(self._corners(x0, y0, x1, y1), fill=(0, 0, 0, 0))

    def line(self, points: Points, width: float, colour: Colour) -> None:
        """Draw a line of this width, at least one pixel."""
        scaled = [(x * self.pixels, y * self.pixels) for x, y in points]
        self._draw.line(scaled, fill=_ink(colour), width=max(1, round(width * self.pixels)))

    def _corners(self, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
        left, top = x0 * self.pixels, y0 * self.pixels
        return left, top, max(left, x1 * self.pixels - 1), max(top, y1 * self.pixels - 1)
