"""Draws the annotated objects of a rendered scene, each to the very sides of its box."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_semcov.data.scenes_canvas import OVERSAMPLING, Canvas, Points, mix
from pytest_semcov.data.scenes_layout import Colour, Thing


def thing_pixels(thing: Thing, size: int) -> tuple[int, int, int, int]:
    """Return the first and last oversampled pixel column and row (inclusive) that an object covers."""
    pixels = size * OVERSAMPLING
    x0, y0 = round(thing.x0 * pixels), round(thing.y0 * pixels)
    return x0, y0, max(round(thing.x1 * pixels) - 1, x0 + 2), max(round(thing.y1 * pixels) - 1, y0 + 2)


class _Stamp:
    """Draws in the unit square of one object's box: what reaches 0 and 1 touches the box's sides exactly."""

    def __init__(self, canvas: Canvas, thing: Thing) -> None:
        self._canvas = canvas
        self._mirrored = thing.mirrored
        self._x0, self._y0, x1, y1 = thing_pixels(thing, canvas.pixels // OVERSAMPLING)
        self._width, self._height = x1 - self._x0, y1 - self._y0

    def _at(self, u: float, v: float) -> tuple[int, int]:
        along = 1 - u if self._mirrored else u
        return self._x0 + round(along * self._width), self._y0 + round(v * self._height)

    def _between(self, u0: float, v0: float, u1: float, v1: float) -> tuple[int, int, int, int]:
        (left, top), (right, bottom) = self._at(u0, v0), self._at(u1, v1)
        return min(left, right), top, max(left, right), bottom

    def rectangle(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        self._canvas.fill("rectangle", self._between(u0, v0, u1, v1), colour)

    def ellipse(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        self._canvas.fill("ellipse", self._between(u0, v0, u1, v1), colour)

    def polygon(self, points: Points, colour: Colour) -> None:
        self._canvas.fill("polygon", [self._at(u, v) for u, v in points], colour)

    def light(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        self._canvas.shine("ellipse", self._between(u0, v0, u1, v1), colour)


_TYRE: Colour = (0.08, 0.08, 0.09)
_GLASS: Colour = (0.2, 0.25, 0.32)
_WHITE_LIGHT: Colour = (1.0, 0.97, 0.85)
_RED_LIGHT: Colour = (0.95, 0.1, 0.06)


def draw_things(canvas: Canvas, things: Sequence[Thing]) -> None:
    """Draw the annotated objects, the farthest first; each touches all four sides of its box."""
    draw = {"car": _car, "truck": _truck, "person": _person, "deer": _deer}
    for thing in sorted(things, key=lambda item: item.y1):
        draw[thing.label](_Stamp(canvas, thing), thing)


def _car(stamp: _Stamp, thing: Thing) -> None:
    dark = mix(thing.paint, (0, 0, 0), 0.35)
    if thing.view == "side":
        stamp.polygon([(0.16, 0.45), (0.3, 0.0), (0.7, 0.0), (0.88, 0.45)], dark)
        stamp.polygon([(0.22, 0.42), (0.33, 0.08), (0.49, 0.08), (0.49, 0.42)], _GLASS)
        stamp.polygon([(0.53, 0.42), (0.53, 0.08), (0.67, 0.08), (0.8, 0.42)], _GLASS)
        stamp.rectangle(0.0, 0.42, 1.0, 0.8, thing.paint)
        stamp.rectangle(0.0, 0.7, 1.0, 0.8, dark)
        for start in (0.1, 0.68):
            stamp.ellipse(start, 0.56, start + 0.21, 1.0, _TYRE)
            stamp.ellipse(start + 0.06, 0.69, start + 0.15, 0.87, (0.55, 0.55, 0.57))
        stamp.light(0.93, 0.46, 1.0, 0.6, _WHITE_LIGHT)
        stamp.light(0.0, 0.46, 0.06, 0.6, _RED_LIGHT)
        return
    stamp.rectangle(0.05, 0.78, 0.24, 1.0, _TYRE)
    stamp.rectangle(0.76, 0.78, 0.95, 1.0, _TYRE)
    stamp.polygon([(0.1, 0.42), (0.22, 0.0), (0.78, 0.0), (0.9, 0.42)], dark)
    stamp.polygon([(0.17, 0.4), (0.26, 0.08), (0.74, 0.08), (0.83, 0.4)], _GLASS)
    stamp.rectangle(0.0, 0.4, 1.0, 0.86, thing.paint)
    stamp.rectangle(0.26, 0.58, 0.74, 0.74, dark)
    colour = _WHITE_LIGHT if thing.view == "front" else _RED_LIGHT
    for start in (0.04, 0.78):
        stamp.ellipse(start, 0.48, start + 0.18, 0.66, mix(colour, (0.5, 0.5, 0.5), 0.3))
        stamp.light(start, 0.48, start + 0.18, 0.66, colour)


def _truck(stamp: _Stamp, thing: Thing) -> None:
    cab = thing.accent
    if thing.view == "side":
        stamp.rectangle(0.0, 0.0, 0.7, 0.76, thing.paint)
        stamp.rectangle(0.0, 0.66, 0.7, 0.76, mix(thing.paint, (0, 0, 0), 0.4))
        stamp.polygon([(0.73, 0.78), (0.73, 0.2), (0.9, 0.2), (1.0, 0.48), (1.0, 0.78)], cab)
        stamp.polygon([(0.78, 0.45), (0.78, 0.26), (0.88, 0.26), (0.95, 0.45)], _GLASS)
        for start in (0.08, 0.26, 0.77):
            stamp.ellipse(start, 0.68, start + 0.16, 1.0, _TYRE)
        stamp.light(0.94, 0.56, 1.0, 0.66, _WHITE_LIGHT)
        stamp.light(0.0, 0.66, 0.05, 0.76, _RED_LIGHT)
        return
    stamp.rectangle(0.04, 0.82, 0.24, 1.0, _TYRE)
    stamp.rectangle(0.76, 0.82, 0.96, 1.0, _TYRE)
    stamp.rectangle(0.0, 0.0, 1.0, 0.88, thing.paint)
    front = thing.view == "front"
    if front:
        stamp.rectangle(0.04, 0.34, 0.96, 0.88, cab)
        stamp.rectangle(0.1, 0.38, 0.9, 0.58, _GLASS)
    else:
        stamp.rectangle(0.48, 0.04, 0.52, 0.78, mix(thing.paint, (0, 0, 0), 0.5))
    colour = _WHITE_LIGHT if front else _RED_LIGHT
    for start in (0.04, 0.82):
        stamp.ellipse(start, 0.68, start + 0.14, 0.8, mix(colour, (0.5, 0.5, 0.5), 0.3))
        stamp.light(start, 0.68, start + 0.14, 0.8, colour)


def _person(stamp: _Stamp, thing: Thing) -> None:
    skin: Colour = (0.72, 0.53, 0.42)
    if thing.view == "side":
        stamp.polygon([(0.35, 0.5), (0.65, 0.5), (0.25, 1.0), (0.0, 1.0)], thing.accent)
        stamp.polygon([(0.35, 0.5), (0.65, 0.5), (1.0, 1.0), (0.72, 1.0)], mix(thing.accent, (0, 0, 0), 0.25))
        stamp.polygon([(0.3, 0.17), (0.72, 0.17), (0.7, 0.56), (0.3, 0.56)], thing.paint)
        stamp.polygon([(0.45, 0.22), (0.6, 0.22), (0.92, 0.5), (0.8, 0.54)], mix(thing.paint, (0, 0, 0), 0.3))
    else:
        stamp.rectangle(0.2, 0.5, 0.46, 1.0, thing.accent)
        stamp.rectangle(0.54, 0.5, 0.8, 1.0, thing.accent)
        stamp.polygon([(0.12, 0.18), (0.88, 0.18), (0.8, 0.56), (0.2, 0.56)], thing.paint)
        stamp.rectangle(0.0, 0.2, 0.17, 0.54, mix(thing.paint, (0, 0, 0), 0.25))
        stamp.rectangle(0.83, 0.2, 1.0, 0.54, mix(thing.paint, (0, 0, 0), 0.25))
    stamp.ellipse(0.27, 0.0, 0.73, 0.17, skin)
    stamp.polygon([(0.27, 0.07), (0.35, 0.0), (0.65, 0.0), (0.73, 0.07)], (0.2, 0.15, 0.12))


def _deer(stamp: _Stamp, thing: Thing) -> None:
    dark, pale = mix(thing.paint, (0, 0, 0), 0.35), mix(thing.paint, (0.9, 0.85, 0.75), 0.5)
    if thing.view == "side":
        for start in (0.16, 0.26, 0.6, 0.7):
            stamp.rectangle(start, 0.6, start + 0.06, 1.0, dark)
        stamp.ellipse(0.08, 0.38, 0.8, 0.7, thing.paint)
        stamp.polygon([(0.64, 0.52), (0.78, 0.2), (0.9, 0.26), (0.8, 0.58)], thing.paint)
        stamp.polygon([(0.76, 0.18), (0.86, 0.15), (1.0, 0.26), (0.98, 0.31), (0.8, 0.3)], thing.paint)
        for tip in (0.64, 0.94):
            stamp.polygon([(0.79, 0.18), (0.84, 0.18), (tip + 0.05, 0.0), (tip, 0.0)], dark)
        stamp.polygon([(0.0, 0.4), (0.13, 0.42), (0.13, 0.54), (0.0, 0.5)], pale)
        return
    for start in (0.24, 0.64):
        stamp.rectangle(start, 0.66, start + 0.12, 1.0, dark)
    stamp.ellipse(0.16, 0.36, 0.84, 0.78, thing.paint)
    stamp.ellipse(0.33, 0.16, 0.67, 0.46, mix(thing.paint, (0, 0, 0), 0.15))
    stamp.ellipse(0.42, 0.36, 0.58, 0.46, dark if thing.view == "front" else pale)
    stamp.polygon([(0.38, 0.2), (0.45, 0.18), (0.08, 0.0), (0.0, 0.0)], dark)
    stamp.polygon([(0.62, 0.2), (0.55, 0.18), (0.92, 0.0), (1.0, 0.0)], dark)
