"""Draws the solid things of a rendered scene: ground, buildings, plants, damage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_semcov.data.scenes_canvas import Canvas, mix
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
    chances_from,
)

SNOW: Colour = (0.9, 0.92, 0.96)
_RUBBLE: tuple[Colour, ...] = ((0.5, 0.48, 0.45), (0.33, 0.3, 0.28), (0.55, 0.36, 0.28), (0.2, 0.18, 0.17))
_PENTAGON = tuple((math.cos(angle), math.sin(angle)) for angle in (0.3, 1.6, 2.9, 4.1, 5.2))


def paint(
    size: int,
    seed: int,
    place: Place,
    categories: Mapping[str, str],
    haze: Colour,
) -> Canvas:
    """Draw the solid part of a scene.

    Parameters
    ----------
    size
        Width and height of the final image in pixels.
    seed
        The place's seed.
    place
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
    cover, cover_of_road = draws.share(), draws.share()
    hill = mix(place.hill_colour, (0.25, 0.42, 0.22) if green else (0.55, 0.5, 0.46), 0.5)
    if winter:
        hill = mix(hill, SNOW, 0.65)
    steps = len(place.hills) - 1
    ridge = [(index / steps, place.horizon - 0.015 - 0.11 * level) for index, level in enumerate(place.hills)]
    canvas.polygon([*ridge, (1, place.horizon + 0.02), (0, place.horizon + 0.02)], mix(hill, haze, 0.5))
    ground = place.grass_colour if green else place.paved_colour
    if winter:
        ground = mix(ground, SNOW, 0.72 + 0.16 * cover if green else 0.85 + 0.12 * cover)
    bands = 5
    for band in range(bands):
        top, bottom = (band / bands) ** 1.6, ((band + 1) / bands) ** 1.6
        shade = mix(ground, haze, 0.35 * (1 - band / (bands - 1)))
        canvas.rectangle(0, place.ground_y(top), 1, place.ground_y(bottom) + 0.01, shade)
    if green:
        _tufts(canvas, place, mix(place.grass_colour, (0.42, 0.36, 0.2), 0.6) if winter else ground, draws)
    else:
        _paving(canvas, place, mix(ground, (0.3, 0.3, 0.3), 0.22))
    _road(canvas, place, winter=winter, cover=0.15 + 0.6 * cover_of_road)


def _tufts(canvas: Canvas, place: Place, colour: Colour, draws: Draws) -> None:
    for _ in range(16):
        x, t = draws.share(), draws.between(0.1, 1.0)
        y, wide = place.ground_y(t), 0.1 * t * draws.between(0.4, 1.0)
        canvas.ellipse(x - wide, y - 0.12 * wide, x + wide, y + 0.12 * wide, draws.near(colour, 0.06))


def _road(canvas: Canvas, place: Place, *, winter: bool, cover: float) -> None:
    """Draw road or trail: under snow to the share ``cover`` and with tracks, or with markings."""

    def strip(middle: float, halves: float, margin: float) -> list[tuple[float, float]]:
        """Return a strip along the road: its middle and half its width in half road widths, and a margin."""
        left, right = [], []
        for t in (0.0, 0.04, 0.1, 0.2, 0.35, 0.55, 0.78, 1.02):
            half, y = place.road_half(t), place.ground_y(t)
            x, reach = place.road_centre(t) + middle * half, halves * half + margin * t
            left.append((x - reach, y))
            right.append((x + reach, y))
        return [*left, *reversed(right)]

    if place.layout == "street":
        canvas.polygon(strip(0, 1, 0.16), mix(place.paved_colour, SNOW, 0.8 if winter else 0.15))
    canvas.polygon(strip(0, 1, 0), mix(place.road_colour, SNOW, cover) if winter else place.road_colour)
    if winter:
        for side in (-0.45, 0.45):
            canvas.polygon(strip(side, 0, 0.05), mix(place.road_colour, SNOW, 0.15))
    elif place.layout != "trail":
        for start in (0.06, 0.1, 0.16, 0.25, 0.38, 0.55, 0.8):
            near = 1.22 * start
            (x0, y0), (x1, y1) = ((place.road_centre(t), place.ground_y(t)) for t in (start, near))
            dash = [(x0 - 0.012 * start, y0), (x0 + 0.012 * start, y0)]
            canvas.polygon([*dash, (x1 + 0.012 * near, y1), (x1 - 0.012 * near, y1)], (0.88, 0.86, 0.8))


def _paving(canvas: Canvas, place: Place, joint: Colour) -> None:
    for t in (0.12, 0.2, 0.31, 0.45, 0.63, 0.86):
        y = place.ground_y(t)
        canvas.line([(0, y), (1, y)], 0.004, joint)
    for index in range(-6, 7):
        far = (place.vanishing_x + 0.02 * index, place.ground_y(0.05))
        canvas.line([far, (place.vanishing_x + 0.42 * index, 1.0)], 0.004, joint)


def _puddles(canvas: Canvas, place: Place, draws: Draws) -> None:
    for _ in range(draws.whole(5, 9)):
        t = draws.between(0.15, 0.95)
        x = place.road_centre(t) + draws.between(-1.1, 1.1) * max(place.road_half(t), 0.3 * t)
        y, wide = place.ground_y(t), draws.between(0.06, 0.2) * t
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
    count = building.floors * building.columns
    chances = chances_from(building.chances, count)
    for index in range(count):
        x0 = left + pane * (0.7 + 1.7 * (index % building.columns))
        y0 = top + storey * (index // building.columns + 0.22)
        yield chances[index], x0, y0, x0 + pane, y0 + 0.5 * storey


def _ruin(canvas: Canvas, building: Building, left: float, right: float, base: float, wall: Colour) -> None:
    """Draw what is left of a building: torn off along a jagged line, burnt out, with holes and cracks."""
    chances = chances_from(building.chances + 64, 11)
    teeth = [
        (left + building.width * index / 7, base - building.height * (0.45 + 0.6 * chances[index]))
        for index in range(8)
    ]
    canvas.polygon([(left, base), *teeth, (right, base)], wall)
    for chance, x0, y0, x1, y1 in _windows(building, left, base - building.height):
        tooth = teeth[min(int(7 * (x0 - left) / building.width), 6)][1]
        if y0 > tooth + 0.1 * building.height and chance > 0.2:
            canvas.rectangle(x0, y0, x1, y1, (0.04, 0.04, 0.04), hides=False)
            if chance > 0.88:
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
    chances = chances_from(plant.chances, 21)
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
                rim = foot - 0.1 * tall
                canvas.polygon([(x - 0.6 * reach, rim), (x, top), (x + 0.6 * reach, rim)], SNOW)
    elif winter:
        crown = base - 0.45 * tall
        for index in range(9):
            angle = math.pi * (0.12 + 0.76 * index / 8)
            reach = tall * (0.35 + 0.2 * chances[index])
            tip = (x + reach * 0.8 * math.cos(angle), crown - reach * math.sin(angle))
            fork = ((x + tip[0]) / 2, (crown + tip[1]) / 2)
            canvas.line([(x, crown), tip], 0.035 * tall, bark)
            canvas.line([fork, tip], 0.022 * tall, mix(SNOW, bark, 0.15))
            canvas.line([fork, (fork[0] + 0.12 * tall * (chances[index] - 0.5), tip[1])], 0.02 * tall, bark)
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
    """Heap up rubble along the road and, drawn last so that the rest stays put, before buildings."""
    heaps = []
    for _ in range(draws.whole(5, 6)):
        t = draws.between(0.2, 0.9)
        side = -1 if draws.chance(0.5) else 1
        x = place.road_centre(t) + side * place.road_half(t) * draws.between(0.6, 1.3)
        heaps.append((t, x, draws.share(), draws.generator.random((8, 10)).tolist()))
    for item in buildings[-5:]:
        x = item.x + draws.between(-0.6, 0.6) * item.width
        heaps.append((1.05 * item.t + 0.01, x, draws.share(), draws.generator.random((8, 10)).tolist()))
    for t, x, ember, pieces in sorted(heaps):
        y, spread = place.ground_y(t), 0.08 + 0.15 * t
        for place_across, rise, size, shade, kind, *radii in pieces:
            offset = spread * (2 * place_across - 1)
            middle = y - 0.6 * rise * (spread - abs(offset))
            piece = spread * (0.12 + 0.18 * size)
            bright = (0.9, 0.9, 0.9) if shade > 0.5 else (0.0, 0.0, 0.0)
            colour = mix(_RUBBLE[int(len(_RUBBLE) * kind)], bright, 0.3 * abs(shade - 0.5))
            corners = [
                (
                    x + offset + piece * (0.4 + 0.8 * radius) * across,
                    middle + piece * (0.4 + 0.8 * radius) * down,
                )
                for radius, (across, down) in zip(radii, _PENTAGON, strict=True)
            ]
            canvas.polygon(corners, mix(colour, SNOW, 0.12) if winter else colour)
        glow = 0.25 * spread * ember  # what still burns shows at night
        canvas.light(x - glow, y - 1.5 * glow, x + glow, y, (1.0, 0.42, 0.12), shape="ellipse")
