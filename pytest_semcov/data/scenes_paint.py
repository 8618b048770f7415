"""Draws the solid things of a rendered scene: ground, buildings, plants, damage and the annotated objects.

Two layers come out, both at twice the wanted size and reduced once for smooth edges: surface colours with an alpha
channel that is zero where the sky (or a puddle that mirrors it) shows, and, at night, what shines by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from pytest_semcov.data.scenes_layout import (
    DAMAGE,
    NIGHTLIGHT,
    RAIN,
    SEASON,
    Building,
    Colour,
    Draws,
    Lamp,
    Place,
    Plant,
    Thing,
)

OVERSAMPLING = 2
SNOW: Colour = (0.9, 0.92, 0.96)
_RUBBLE: tuple[Colour, ...] = ((0.5, 0.48, 0.45), (0.33, 0.3, 0.28), (0.55, 0.36, 0.28), (0.2, 0.18, 0.17))
_PENTAGON = tuple((math.cos(angle), math.sin(angle)) for angle in (0.3, 1.6, 2.9, 4.1, 5.2))
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

    def polygon(self, points: Points, colour: Colour) -> None:
        """Fill a polygon; points are shares of the image."""
        scaled = [(x * self.pixels, y * self.pixels) for x, y in points]
        self._draw.polygon(scaled, fill=_ink(colour))
        if self._shine is not None:
            self._shine.polygon(scaled, fill=(0, 0, 0))

    def rectangle(
        self, x0: float, y0: float, x1: float, y1: float, colour: Colour, *, hides: bool = True
    ) -> None:
        """Fill a rectangle, at least one pixel in size; it hides lights behind it unless none can be there."""
        corners = self._corners(x0, y0, x1, y1)
        self._draw.rectangle(corners, fill=_ink(colour))
        if hides and self._shine is not None:
            self._shine.rectangle(corners, fill=(0, 0, 0))

    def ellipse(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        """Fill an ellipse."""
        corners = self._corners(x0, y0, x1, y1)
        self._draw.ellipse(corners, fill=_ink(colour))
        if self._shine is not None:
            self._shine.ellipse(corners, fill=(0, 0, 0))

    def mirror(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Cut an elliptic hole through which the sky's mirror image shows: a puddle."""
        self._draw.ellipse(self._corners(x0, y0, x1, y1), fill=(0, 0, 0, 0))

    def line(self, points: Points, width: float, colour: Colour) -> None:
        """Draw a line of this width (share of the image, at least one pixel)."""
        scaled = [(x * self.pixels, y * self.pixels) for x, y in points]
        self._draw.line(scaled, fill=_ink(colour), width=max(1, round(width * self.pixels)))

    def light(
        self, x0: float, y0: float, x1: float, y1: float, colour: Colour, *, shape: str = "rectangle"
    ) -> None:
        """Let a rectangle or an ellipse shine; nothing by day."""
        if self._shine is not None:
            (self._shine.rectangle if shape == "rectangle" else self._shine.ellipse)(
                self._corners(x0, y0, x1, y1), fill=_ink(colour)
            )

    def _corners(self, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
        left, top = x0 * self.pixels, y0 * self.pixels
        return left, top, max(left, x1 * self.pixels - 1), max(top, y1 * self.pixels - 1)


def paint(
    size: int,
    seed: int,
    moment: int,
    place: Place,
    things: Sequence[Thing],
    categories: Mapping[str, str],
    haze: Colour,
) -> Canvas:
    """Draw the solid part of a scene.

    Parameters
    ----------
    size
        Width and height of the final image in pixels.
    seed, moment
        The scene's seeds.
    place, things
        What stands where.
    categories
        Category per semantic.
    haze
        Colour into which distant things fade.

    Returns
    -------
    Canvas
        With layers of ``OVERSAMPLING`` times the size.
    """
    scene = _Scene(
        haze=haze,
        winter=categories["summer_winter"] == "winter",
        green=categories["noveg_veg"] == "vegetation",
        damaged=categories["nodamage_damage"] == "damage",
        lit_share=Draws(seed, NIGHTLIGHT).between(0.12, 0.55),
    )
    canvas = Canvas(size, lit=categories["day_night"] == "night")
    _ground(canvas, place, Draws(seed, SEASON), scene)
    if categories["clear_rain"] == "rain":
        _puddles(canvas, place, Draws(seed, RAIN))
    damage = Draws(seed, DAMAGE)
    if scene.damaged:
        _torn_ground(canvas, place, damage)
    dense = categories["lowdense_highdense"] == "high density"
    buildings = [item for item in place.buildings if item.few or dense]
    standing: list[Building | Plant | Lamp] = [
        *buildings,
        *(place.plants if scene.green else ()),
        *place.lamps,
    ]
    for item in sorted(standing, key=lambda item: item.t):
        if isinstance(item, Building):
            _house(canvas, item, place, scene)
        elif isinstance(item, Plant):
            _plant(canvas, item, place, scene)
        else:
            _lamp(canvas, item, place)
    if scene.damaged:
        _rubble(canvas, place, buildings, damage, winter=scene.winter)
    for thing in sorted(things, key=lambda item: item.y1):
        draw_thing(canvas, thing)
    return canvas


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the categories mean for the painter."""

    haze: Colour
    winter: bool
    green: bool
    damaged: bool
    lit_share: float


def _ground(canvas: Canvas, place: Place, draws: Draws, scene: _Scene) -> None:
    haze, winter, green = scene.haze, scene.winter, scene.green
    hill = mix(place.hill_colour, (0.25, 0.42, 0.22) if green else (0.55, 0.5, 0.46), 0.5)
    if winter:
        hill = mix(hill, SNOW, 0.65)
    steps = len(place.hills) - 1
    ridge = [(index / steps, place.horizon - 0.015 - 0.11 * level) for index, level in enumerate(place.hills)]
    canvas.polygon([*ridge, (1, place.horizon + 0.02), (0, place.horizon + 0.02)], mix(hill, haze, 0.5))
    ground = place.grass_colour if green else place.paved_colour
    if winter:
        ground = mix(ground, SNOW, draws.between(0.8, 0.97))
    bands = 5
    for band in range(bands):
        top, bottom = (band / bands) ** 1.6, ((band + 1) / bands) ** 1.6
        shade = mix(ground, haze, 0.35 * (1 - band / (bands - 1)))
        canvas.rectangle(0, place.ground_y(top), 1, place.ground_y(bottom) + 0.01, shade)
    if not green:
        _paving(canvas, place, mix(ground, (0.3, 0.3, 0.3), 0.22))
    elif not winter:
        for _ in range(14):
            x, t = draws.share(), draws.between(0.1, 1.0)
            y, wide = place.ground_y(t), 0.1 * t
            canvas.ellipse(x - wide, y - 0.1 * wide, x + wide, y + 0.1 * wide, draws.near(ground, 0.06))
    road = place.road_colour
    if winter:
        road = mix(road, SNOW, draws.between(0.15, 0.75))
    depths = [0.0, 0.04, 0.1, 0.2, 0.35, 0.55, 0.78, 1.02]
    left = [(place.road_centre(t) - place.road_half(t), place.ground_y(t)) for t in depths]
    right = [(place.road_centre(t) + place.road_half(t), place.ground_y(t)) for t in depths]
    if place.layout == "street":
        curb = mix(place.paved_colour, SNOW, 0.8 if winter else 0.15)
        canvas.polygon(
            [*[(x - 0.16 * t, y) for (x, y), t in zip(left, depths, strict=True)],
             *[(x + 0.16 * t, y) for (x, y), t in zip(reversed(right), reversed(depths), strict=True)]],
            curb,
        )  # fmt: skip
    canvas.polygon([*left, *reversed(right)], road)
    if winter:
        for side in (-0.45, 0.45):  # wheel tracks, or a beaten path
            middle = [
                (place.road_centre(t) + side * place.road_half(t), place.ground_y(t), t) for t in depths
            ]
            canvas.polygon(
                [
                    *[(x - 0.05 * t, y) for x, y, t in middle],
                    *[(x + 0.05 * t, y) for x, y, t in reversed(middle)],
                ],
                mix(place.road_colour, SNOW, 0.15),
            )
    elif place.layout != "trail":
        for start in (0.06, 0.1, 0.16, 0.25, 0.38, 0.55, 0.8):
            end = start * 1.22
            canvas.polygon(
                [
                    (place.road_centre(start) - 0.012 * start, place.ground_y(start)),
                    (place.road_centre(start) + 0.012 * start, place.ground_y(start)),
                    (place.road_centre(end) + 0.012 * end, place.ground_y(end)),
                    (place.road_centre(end) - 0.012 * end, place.ground_y(end)),
                ],
                (0.88, 0.86, 0.8),
            )


def _paving(canvas: Canvas, place: Place, joint: Colour) -> None:
    for t in (0.12, 0.2, 0.31, 0.45, 0.63, 0.86):
        y = place.ground_y(t)
        canvas.line([(0, y), (1, y)], 0.004, joint)
    for index in range(-6, 7):
        canvas.line(
            [
                (place.vanishing_x + 0.02 * index, place.ground_y(0.05)),
                (place.vanishing_x + 0.42 * index, 1.0),
            ],
            0.004,
            joint,
        )


def _puddles(canvas: Canvas, place: Place, draws: Draws) -> None:
    for _ in range(draws.whole(5, 9)):
        t = draws.between(0.15, 0.95)
        x, y = (
            place.road_centre(t) + draws.between(-1.1, 1.1) * max(place.road_half(t), 0.3 * t),
            place.ground_y(t),
        )
        wide = draws.between(0.06, 0.2) * t
        canvas.mirror(x - wide, y - 0.2 * wide, x + wide, y + 0.2 * wide)


def _torn_ground(canvas: Canvas, place: Place, draws: Draws) -> None:
    for _ in range(draws.whole(5, 8)):
        t = draws.between(0.2, 0.95)
        x, y = place.road_centre(t) + draws.between(-1, 1) * place.road_half(t), place.ground_y(t)
        points = [(x, y)]
        for _ in range(4):
            x, y = x + draws.between(-0.12, 0.12) * t, y + draws.between(-0.03, 0.05) * t
            points.append((x, y))
        canvas.line(points, 0.012 * t, (0.12, 0.11, 0.11))
    for _ in range(draws.whole(2, 4)):
        t = draws.between(0.3, 0.95)
        x, y = place.road_centre(t) + draws.between(-0.9, 0.9) * place.road_half(t), place.ground_y(t)
        wide = draws.between(0.05, 0.12) * t
        canvas.ellipse(x - wide, y - 0.35 * wide, x + wide, y + 0.35 * wide, (0.17, 0.15, 0.14))


def _house(canvas: Canvas, building: Building, place: Place, scene: _Scene) -> None:
    base = place.ground_y(building.t)
    left, right = building.x - 0.5 * building.width, building.x + 0.5 * building.width
    top = base - building.height
    fade = 0.45 * math.exp(-building.t / 0.12)
    wall = mix(building.wall, scene.haze, fade)
    roof = mix(SNOW if scene.winter else building.roof, scene.haze, fade)
    if scene.damaged:
        _ruin(canvas, building, left, right, base, mix(wall, (0.25, 0.22, 0.2), 0.4))
        return
    depth = 0.6 * building.width * (place.vanishing_x - building.x)
    edge = right if depth > 0 else left
    side = [
        (edge, top),
        (edge + depth, top + 0.12 * building.height),
        (edge + depth, base - 0.02),
        (edge, base),
    ]
    canvas.polygon(side, mix(wall, (0.1, 0.1, 0.12), 0.35))
    canvas.rectangle(left, top, right, base, wall)
    if building.gabled:
        peak = top - 0.4 * building.height
        canvas.polygon([(left - 0.01, top), (building.x, peak), (right + 0.01, top)], roof)
    else:
        canvas.rectangle(left - 0.004, top - 0.016, right + 0.004, top + 0.008, roof)
    glass = mix((0.16, 0.19, 0.24), scene.haze, fade * 0.7)
    for chance, x0, y0, x1, y1 in _windows(building, left, top):
        canvas.rectangle(x0, y0, x1, y1, glass, hides=False)
        if chance < scene.lit_share:
            warmth = chance / scene.lit_share
            canvas.light(x0, y0, x1, y1, (1.0, 0.72 + 0.25 * warmth, 0.35 + 0.5 * warmth))


def _windows(
    building: Building, left: float, top: float
) -> Iterator[tuple[float, float, float, float, float]]:
    """Yield chance and corners of each window."""
    pane = building.width / (building.columns * 1.7 + 0.7)
    storey = building.height / building.floors
    for index in range(building.floors * building.columns):
        x0 = left + pane * (0.7 + 1.7 * (index % building.columns))
        y0 = top + storey * (index // building.columns + 0.22)
        yield building.chances[index], x0, y0, x0 + pane, y0 + 0.5 * storey


def _ruin(canvas: Canvas, building: Building, left: float, right: float, base: float, wall: Colour) -> None:
    """Draw what is left of a building: torn off along a jagged line, burnt out, with holes and cracks."""
    chances = building.chances[-11:]
    teeth = [
        (left + building.width * index / 7, base - building.height * (0.45 + 0.6 * chances[index]))
        for index in range(8)
    ]
    canvas.polygon([(left, base), *teeth, (right, base)], wall)
    for chance, x0, y0, x1, y1 in _windows(building, left, base - building.height):
        tooth = teeth[min(int(7 * (x0 - left) / building.width), 6)][1]
        if y0 > tooth + 0.1 * building.height and chance > 0.2:
            canvas.rectangle(x0, y0, x1, y1, (0.04, 0.04, 0.04), hides=False)
            if chance > 0.95:
                canvas.light(x0, y0, x1, y1, (0.9, 0.6, 0.3))
    for chance in chances[8:10]:
        x, y = left + building.width * chance, base - building.height * (0.15 + 0.4 * chance)
        wide = 0.2 * building.width
        hole = [(-1, 0), (-0.3, -1), (0.6, -0.7), (1, 0.3), (0, 0.6)]
        canvas.polygon([(x + wide * u, y + wide * v) for u, v in hole], (0.08, 0.07, 0.07))
    x = left + building.width * chances[10]
    crack = [(0, 0), (0.1, -0.3), (-0.05, -0.6)]
    canvas.line(
        [(x + building.width * u, base + building.height * v) for u, v in crack], 0.006, (0.08, 0.07, 0.07)
    )


def _plant(canvas: Canvas, plant: Plant, place: Place, scene: _Scene) -> None:
    haze, winter = scene.haze, scene.winter
    chances = plant.chances
    base, tall, x = place.ground_y(plant.t), plant.height, plant.x
    fade = 0.4 * math.exp(-plant.t / 0.12)
    leaf = mix(plant.leaf, haze, fade)
    bark = mix((0.28, 0.2, 0.14), haze, fade)
    if plant.kind == "bush":
        colour = mix(leaf, SNOW, 0.5) if winter else leaf
        canvas.ellipse(x - 0.7 * tall, base - tall, x + 0.7 * tall, base + 0.05 * tall, colour)
        return
    wide = 0.035 * tall
    canvas.rectangle(x - wide, base - 0.5 * tall, x + wide, base, bark)
    if plant.kind == "conifer":
        for tier in range(4):
            top = base - tall + 0.2 * tall * tier
            reach = tall * (0.12 + 0.065 * tier)
            foot = top + 0.34 * tall
            canvas.polygon(
                [(x - reach, foot), (x, top), (x + reach, foot)], mix(leaf, (0, 0, 0), 0.06 * tier)
            )
            if winter:
                canvas.polygon([(x - 0.6 * reach, foot - 0.1 * tall), (x, top), (x + 0.6 * reach, foot - 0.1 * tall)], SNOW)  # fmt: skip
    elif winter:
        crown = base - 0.45 * tall
        for index in range(9):
            angle = math.pi * (0.12 + 0.76 * index / 8)
            reach = tall * (0.35 + 0.2 * chances[index])
            tip = (x + reach * 0.8 * math.cos(angle), crown - reach * math.sin(angle))
            canvas.line([(x, crown), tip], 0.016 * tall, bark)
            canvas.line([((x + tip[0]) / 2, (crown + tip[1]) / 2), tip], 0.02 * tall, mix(SNOW, bark, 0.2))
    else:
        for index in range(7):
            across, down, wide = chances[3 * index : 3 * index + 3]
            dx, dy = 0.48 * (across - 0.5) * tall, (0.38 * down - 0.2) * tall
            reach = (0.14 + 0.08 * wide) * tall
            shade = mix(leaf, (0.75, 0.8, 0.35) if index > 4 else (0, 0, 0), 0.18)
            middle = base - 0.66 * tall + dy
            canvas.ellipse(x + dx - reach, middle - reach, x + dx + reach, middle + reach, shade)


def _lamp(canvas: Canvas, lamp: Lamp, place: Place) -> None:
    base = place.ground_y(lamp.t)
    top = base - lamp.height
    canvas.rectangle(lamp.x - 0.03 * lamp.height, top, lamp.x + 0.01 * lamp.height, base, (0.3, 0.3, 0.31))
    size = 0.05 * lamp.height + 0.004
    canvas.rectangle(lamp.x - 2 * size, top - size, lamp.x + 2 * size, top, (0.35, 0.35, 0.36))
    canvas.light(
        lamp.x - 2 * size, top - size, lamp.x + 2 * size, top + 1.5 * size, lamp.colour, shape="ellipse"
    )


def _rubble(
    canvas: Canvas, place: Place, buildings: Sequence[Building], draws: Draws, *, winter: bool
) -> None:
    heaps = [
        (item.x + draws.between(-0.6, 0.6) * item.width, item.t * 1.05 + 0.01) for item in buildings[-6:]
    ]
    for _ in range(draws.whole(4, 6)):
        t = draws.between(0.2, 0.9)
        side = -1 if draws.chance(0.5) else 1
        heaps.append((place.road_centre(t) + side * place.road_half(t) * draws.between(0.6, 1.3), t))
    for x, t in sorted(heaps, key=lambda item: item[1]):
        y, spread = place.ground_y(t), 0.05 + 0.11 * t
        for across, rise, size, shade, *radii in draws.generator.random((10, 9)).tolist():
            offset = spread * (2 * across - 1)
            middle = y - 0.6 * rise * (spread - abs(offset))
            piece = spread * (0.12 + 0.18 * size)
            colour = mix(
                draws.one_of(_RUBBLE), (0.9, 0.9, 0.9) if shade > 0.5 else (0, 0, 0), 0.3 * abs(shade - 0.5)
            )
            corners = [
                (
                    x + offset + piece * (0.4 + 0.8 * radius) * across,
                    middle + piece * (0.4 + 0.8 * radius) * down,
                )
                for radius, (across, down) in zip(radii, _PENTAGON, strict=True)
            ]
            canvas.polygon(corners, mix(colour, SNOW, 0.12) if winter else colour)


def thing_pixels(thing: Thing, size: int) -> tuple[int, int, int, int]:
    """Return the first and last oversampled pixel column and row (inclusive) that an object covers."""
    pixels = size * OVERSAMPLING
    x0, y0 = round(thing.x0 * pixels), round(thing.y0 * pixels)
    return x0, y0, max(round(thing.x1 * pixels) - 1, x0 + 2), max(round(thing.y1 * pixels) - 1, y0 + 2)


class _Stamp:
    """Draws in the unit square of one object's box: what reaches 0 and 1 touches the box's sides exactly."""

    def __init__(self, canvas: Canvas, thing: Thing) -> None:
        self._canvas = canvas
        self._thing = thing
        self._x0, self._y0, x1, y1 = thing_pixels(thing, canvas.pixels // OVERSAMPLING)
        self._width, self._height = x1 - self._x0, y1 - self._y0

    def _at(self, u: float, v: float) -> tuple[int, int]:
        along = 1 - u if self._thing.mirrored else u
        return self._x0 + round(along * self._width), self._y0 + round(v * self._height)

    def _between(self, u0: float, v0: float, u1: float, v1: float) -> tuple[int, int, int, int]:
        (left, top), (right, bottom) = self._at(u0, v0), self._at(u1, v1)
        return min(left, right), top, max(left, right), bottom

    def rectangle(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        corners = self._between(u0, v0, u1, v1)
        self._canvas._draw.rectangle(corners, fill=_ink(colour))
        if self._canvas._shine is not None:
            self._canvas._shine.rectangle(corners, fill=(0, 0, 0))

    def ellipse(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        corners = self._between(u0, v0, u1, v1)
        self._canvas._draw.ellipse(corners, fill=_ink(colour))
        if self._canvas._shine is not None:
            self._canvas._shine.ellipse(corners, fill=(0, 0, 0))

    def polygon(self, points: Points, colour: Colour) -> None:
        scaled = [self._at(u, v) for u, v in points]
        self._canvas._draw.polygon(scaled, fill=_ink(colour))
        if self._canvas._shine is not None:
            self._canvas._shine.polygon(scaled, fill=(0, 0, 0))

    def light(self, u0: float, v0: float, u1: float, v1: float, colour: Colour) -> None:
        if self._canvas._shine is not None:
            self._canvas._shine.ellipse(self._between(u0, v0, u1, v1), fill=_ink(colour))


_TYRE: Colour = (0.08, 0.08, 0.09)
_GLASS: Colour = (0.2, 0.25, 0.32)
_WHITE_LIGHT: Colour = (1.0, 0.97, 0.85)
_RED_LIGHT: Colour = (0.95, 0.1, 0.06)


def draw_thing(canvas: Canvas, thing: Thing) -> None:
    """Draw one annotated object; it touches all four sides of its box."""
    stamp = _Stamp(canvas, thing)
    {"car": _car, "truck": _truck, "person": _person, "deer": _deer}[thing.label](stamp, thing)


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
