"""What stands where in a rendered scene: drawn from the seeds alone, before any category is looked at.

Coordinates are shares of the image: x to the right and y down, both in [0, 1]. Depth ``t`` runs from 0 at the
horizon to 1 at the lower edge; on flat ground a thing at ``t`` is ``t`` times as large as at the lower edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

Colour = tuple[float, float, float]
"""Red, green, blue in [0, 1]."""

Item = TypeVar("Item")

LAYOUTS = ("road", "street", "trail", "overlook")
OBJECT_CLASSES = ("car", "truck", "person", "deer")

# Height in metres and width over height, seen from the side and from the front.
OBJECT_SHAPES = {
    "car": (1.5, 2.5, 1.25),
    "truck": (3.2, 1.9, 0.85),
    "person": (1.75, 0.42, 0.46),
    "deer": (1.6, 1.15, 0.62),
}

# Streams of random numbers: a category changes what is made of a stream, never another stream.
PLACE, MOMENT, DAYLIGHT, NIGHTLIGHT, RAIN, SEASON, DAMAGE, BLUR, FLARE, GRAIN = range(10)


class Draws:
    """Uniform random numbers for one stream of one scene.

    Parameters
    ----------
    seeds
        Non-negative integers: the scene's seeds and the stream.
    """

    def __init__(self, *seeds: int) -> None:
        self.generator = np.random.Generator(np.random.PCG64(seeds))
        self.share: Callable[[], float] = self._endless().__next__
        """Returns a number in [0, 1)."""

    def _endless(self) -> Iterator[float]:
        while True:
            yield from self.generator.random(128).tolist()

    def between(self, low: float, high: float) -> float:
        """Return a number in [low, high)."""
        return low + (high - low) * self.share()

    def whole(self, low: int, high: int) -> int:
        """Return a whole number from low to high, both included."""
        return low + int((high - low + 1) * self.share())

    def one_of(self, items: Sequence[Item]) -> Item:
        """Return one item, all equally likely."""
        return items[int(len(items) * self.share())]

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.share() < probability

    def near(self, colour: Colour, spread: float) -> Colour:
        """Return a colour of about this shade: brightness and each channel vary by up to ``spread``."""
        level = self.between(-spread, spread)
        red, green, blue = colour
        return (
            red + level + self.between(-spread, spread) / 2,
            green + level + self.between(-spread, spread) / 2,
            blue + level + self.between(-spread, spread) / 2,
        )


@dataclass(frozen=True, slots=True)
class Building:
    """A house or a block; it stands in dense scenes only unless it is one of the ``few``.

    ``chances`` is where its details begin in the table of :func:`chances_from`.
    """

    x: float
    t: float
    width: float
    height: float
    wall: Colour
    roof: Colour
    gabled: bool
    floors: int
    columns: int
    chances: int
    few: bool


@dataclass(frozen=True, slots=True)
class Plant:
    """A tree or a bush."""

    x: float
    t: float
    height: float
    kind: str
    leaf: Colour
    chances: int


@dataclass(frozen=True, slots=True)
class Lamp:
    """A street lamp; its colour shows at night."""

    x: float
    t: float
    height: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Place:
    """Where the camera stands and what it sees."""

    layout: str
    horizon: float
    vanishing_x: float
    camera_height: float
    road_x: float
    road_width: float
    road_bend: float
    road_colour: Colour
    paved_colour: Colour
    grass_colour: Colour
    hills: tuple[float, ...]
    hill_colour: Colour
    buildings: tuple[Building, ...]
    plants: tuple[Plant, ...]
    lamps: tuple[Lamp, ...]

    def ground_y(self, t: float) -> float:
        """Return the image row (share) of flat ground at depth ``t``."""
        return self.horizon + (1 - self.horizon) * t

    def metre(self, t: float) -> float:
        """Return the length in the image (share) of one upright metre at depth ``t``."""
        return (1 - self.horizon) * t / self.camera_height

    def road_centre(self, t: float) -> float:
        """Return the x of the road's middle at depth ``t``."""
        return self.vanishing_x + (self.road_x - self.vanishing_x) * t + self.road_bend * t * (1 - t)

    def road_half(self, t: float) -> float:
        """Return half the road's width at depth ``t``."""
        return 0.5 * self.road_width * t + 0.004


@dataclass(frozen=True, slots=True)
class Thing:
    """An object that is annotated; the box is in shares of the image."""

    label: str
    x0: float
    y0: float
    x1: float
    y1: float
    view: str
    mirrored: bool
    paint: Colour
    accent: Colour


_CHANCES = 4096
_TABLE = tuple(np.random.Generator(np.random.PCG64(0)).random(_CHANCES + 128).tolist())


def chances_from(start: int, count: int) -> tuple[float, ...]:
    """Return so many numbers in [0, 1) out of one fixed table: details cost no stream of their own."""
    return _TABLE[start : start + count]


def _hue(draws: Draws, saturation: float, value: float) -> Colour:
    hue = draws.share() * 6
    part = hue % 1
    low, up, down = 1 - saturation, 1 - saturation * (1 - part), 1 - saturation * part
    red, green, blue = (
        (1, up, low),
        (down, 1, low),
        (low, 1, up),
        (low, down, 1),
        (up, low, 1),
        (1, low, down),
    )[int(hue) % 6]
    return red * value, green * value, blue * value


def _wall(draws: Draws) -> Colour:
    shade = draws.one_of(
        (
            (0.78, 0.72, 0.62),
            (0.66, 0.36, 0.28),
            (0.62, 0.62, 0.62),
            (0.85, 0.83, 0.8),
            (0.72, 0.62, 0.45),
            None,
        )
    )
    return (
        _hue(draws, draws.between(0.05, 0.4), draws.between(0.45, 0.85))
        if shade is None
        else draws.near(shade, 0.1)
    )


def _roof(draws: Draws) -> Colour:
    return draws.near(
        draws.one_of(((0.55, 0.27, 0.2), (0.35, 0.33, 0.34), (0.45, 0.35, 0.28), (0.62, 0.38, 0.26))), 0.07
    )


def _building(draws: Draws, place: Place, *, few: bool, far_x: float | None = None) -> Building:
    """Place a building; one of the far row stands at ``far_x``."""
    overlook = place.layout == "overlook"
    if few:
        t = draws.between(0.2, 0.6) if overlook else draws.between(0.1, 0.24)
    elif far_x is not None:
        t = draws.between(0.03, 0.1)
    else:
        t = draws.between(0.1, 0.75) if overlook else draws.between(0.1, 0.3)
    tall = not few and draws.chance(0.4 if overlook else 0.75)
    metres = draws.between(16, 60 if t < 0.12 else 28) if tall else draws.between(5, 9)
    metre = place.metre(t)
    height = min(max(metres * metre, 0.11 if few else 0.09), 0.62)
    width = max(draws.between(9, 22) * metre, 0.06)
    width = min(max(width, height * (0.28 if tall else 0.7)), 0.42)
    x = draws.between(0.02, 0.98) if far_x is None else far_x
    if t > 0.07:
        clear = place.road_half(t) + 0.5 * width + 0.01
        if abs(x - place.road_centre(t)) < clear:
            left = place.road_centre(t) > 0.5 if draws.chance(0.8) else draws.chance(0.5)
            x = place.road_centre(t) + (-clear if left else clear) * draws.between(1.0, 1.25)
            x = min(max(x, 0.02), 0.98)
    storey = max(metres / 3.0, 1.0)
    return Building(
        x=x,
        t=t,
        width=width,
        height=height,
        wall=_wall(draws),
        roof=_roof(draws),
        gabled=not tall and draws.chance(0.75),
        floors=int(min(max(storey * 0.8, 1), max(height / 0.04, 1), 7)),
        columns=int(min(max(width / 0.04, 1), draws.whole(2, 5))),
        chances=draws.whole(0, _CHANCES),
        few=few,
    )


def _plant(draws: Draws, place: Place, kinds: Sequence[str], *, near: bool) -> Plant:
    t = draws.between(0.25, 0.75) if near else draws.between(0.04, 0.25)
    kind = draws.one_of(kinds)
    metres = draws.between(0.8, 2.0) if kind == "bush" else draws.between(4, 13)
    least = 0.06 if kind == "bush" else 0.24 if near else 0.12
    height = min(max(metres * place.metre(t), least), 0.85)
    x = draws.between(-0.05, 1.05)
    clear = min(place.road_half(t), 0.3) + 0.25 * height
    if abs(x - place.road_centre(t)) < clear:
        x = place.road_centre(t) + (clear if draws.chance(0.5) else -clear) * draws.between(1.0, 1.4)
        x = min(max(x, 0.03), 0.97)
    leaf = draws.near(
        draws.one_of(((0.2, 0.42, 0.14), (0.3, 0.48, 0.18), (0.14, 0.33, 0.17), (0.42, 0.5, 0.2))), 0.06
    )
    return Plant(x, t, height, kind, leaf, draws.whole(0, _CHANCES))


def _lamp(draws: Draws, place: Place, colour: Colour) -> Lamp:
    t = draws.between(0.08, 0.6)
    side = -1 if draws.chance(0.5) else 1
    x = place.road_centre(t) + side * (place.road_half(t) + 0.02) * draws.between(1.0, 1.3)
    height = min(max(draws.between(5, 9) * place.metre(t), 0.1), 0.6)
    return Lamp(x, t, height, draws.near(colour, 0.08))


@lru_cache(maxsize=512)
def place_of(seed: int) -> Place:
    """Return the place that belongs to a geometry seed."""
    draws = Draws(seed, PLACE)
    layout = draws.one_of(LAYOUTS)
    overlook = layout == "overlook"
    horizon = draws.between(0.2, 0.42) if overlook else draws.between(0.36, 0.56)
    road_width = {
        "road": draws.between(0.55, 1.0),
        "street": draws.between(0.8, 1.3),
        "trail": draws.between(0.22, 0.42),
        "overlook": draws.between(0.3, 0.9),
    }[layout]
    asphalt = draws.near((0.4, 0.4, 0.42), 0.07)
    earth = draws.near(draws.one_of(((0.55, 0.44, 0.32), (0.6, 0.53, 0.42), (0.5, 0.46, 0.42))), 0.05)
    bare = Place(
        layout=layout,
        horizon=horizon,
        vanishing_x=draws.between(0.25, 0.75),
        camera_height=draws.between(16, 40) if overlook else draws.between(2.2, 6.0),
        road_x=draws.between(0.15, 0.85) if overlook else draws.between(0.3, 0.7),
        road_width=road_width,
        road_bend=draws.between(-0.5, 0.5) if layout in ("trail", "overlook") else draws.between(-0.15, 0.15),
        road_colour=earth if layout == "trail" else asphalt,
        paved_colour=draws.near(
            draws.one_of(((0.48, 0.47, 0.45), (0.52, 0.46, 0.4), (0.42, 0.42, 0.44))), 0.06
        ),
        grass_colour=draws.near(draws.one_of(((0.36, 0.48, 0.2), (0.45, 0.5, 0.24), (0.3, 0.42, 0.2))), 0.05),
        hills=tuple(draws.between(0.0, 1.0) for _ in range(7)),
        hill_colour=draws.near((0.4, 0.45, 0.44), 0.08),
        buildings=(),
        plants=(),
        lamps=(),
    )
    buildings = [_building(draws, bare, few=True) for _ in range(draws.whole(2, 3))]
    far = draws.whole(6, 9)
    for index in range(far):  # the skyline of a dense place has no wide gap
        buildings.append(_building(draws, bare, few=False, far_x=(index + draws.share()) / far))
    further = draws.whole(9, 15) if overlook else draws.whole(5, 8)
    buildings += [_building(draws, bare, few=False) for _ in range(further)]
    evergreens = ("conifer", "conifer", "bush")  # so that winter has something green
    plants = [_plant(draws, bare, evergreens[:1], near=True), _plant(draws, bare, evergreens, near=True)]
    trees = ("conifer", "conifer", "broadleaf", "broadleaf", "bush")
    plants += [_plant(draws, bare, trees, near=True) for _ in range(draws.whole(3, 8 if overlook else 5))]
    plants += [_plant(draws, bare, trees, near=False) for _ in range(draws.whole(5, 8))]
    lamp_colour = draws.one_of(
        ((1.0, 0.68, 0.3), (1.0, 0.82, 0.55), (0.95, 0.95, 0.9), (0.75, 0.9, 1.0), (1.0, 0.75, 0.8))
    )
    lamps = [_lamp(draws, bare, lamp_colour) for _ in range(draws.whole(2, 6))]
    return Place(
        **{
            name: getattr(bare, name)
            for name in Place.__slots__
            if name not in ("buildings", "plants", "lamps")
        },
        buildings=tuple(sorted(buildings, key=lambda item: item.t)),
        plants=tuple(sorted(plants, key=lambda item: item.t)),
        lamps=tuple(sorted(lamps, key=lambda item: item.t)),
    )


def things_of(seed: int, moment: int) -> tuple[Thing, ...]:
    """Return the annotated objects of a scene, the main object first.

    Boxes lie inside the image, cover at most a third of each other, and the main object's is the largest.
    """
    place = place_of(seed)
    draws = Draws(seed, moment, MOMENT)
    things: list[Thing] = []
    further = draws.whole(0, 3)
    for index in range(1 + further):
        for _ in range(6):
            thing = _thing(draws, place, things[0] if index else None)
            if all(_overlap(thing, other) < 0.33 for other in things):
                things.append(thing)
                break
    return tuple(things)


def _thing(draws: Draws, place: Place, main: Thing | None) -> Thing:
    label = draws.one_of(OBJECT_CLASSES)
    metres, side, front = OBJECT_SHAPES[label]
    view = draws.one_of(("side", "front", "rear"))
    t = draws.between(0.35, 0.95) if main is None else draws.between(0.2, 0.8)
    smallest = 0.18 if main is None else 0.1
    # Seen from high above, true sizes would be a pixel or two: objects are kept recognisable instead.
    height = min(max(metres * place.metre(t), smallest), 0.3 if place.layout == "overlook" else 0.46)
    width = height * (side if view == "side" else front)
    shrink = min(1.0, 0.7 / width)
    if main is not None:  # the main object is plainly the largest
        shrink = min(shrink, math.sqrt(0.6 * (main.x1 - main.x0) * (main.y1 - main.y0) / (width * height)))
    width, height = shrink * width, shrink * height
    reach = place.road_half(t) * (1.6 if label in ("person", "deer") else 0.9)
    centre = place.road_centre(t) + draws.between(-1, 1) * max(reach, 0.1)
    centre = min(max(centre, 0.5 * width + 0.02), 0.98 - 0.5 * width)
    base = min(max(place.ground_y(t), height + 0.02), 0.98)
    paint = {
        "car": _hue(draws, draws.between(0.0, 0.85), draws.between(0.2, 0.95)),
        "truck": _hue(draws, draws.between(0.0, 0.6), draws.between(0.5, 0.95)),
        "person": _hue(draws, draws.between(0.1, 0.8), draws.between(0.2, 0.9)),
        "deer": draws.near((0.5, 0.34, 0.2), 0.06),
    }[label]
    accent = _hue(draws, draws.between(0.1, 0.6), draws.between(0.15, 0.6))
    return Thing(
        label,
        centre - 0.5 * width,
        base - height,
        centre + 0.5 * width,
        base,
        view,
        draws.chance(0.5),
        paint,
        accent,
    )


def _overlap(one: Thing, other: Thing) -> float:
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    down = min(one.y1, other.y1) - max(one.y0, other.y0)
    if across <= 0 or down <= 0:
        return 0.0
    smaller = min((thing.x1 - thing.x0) * (thing.y1 - thing.y0) for thing in (one, other))
    return across * down / smaller
