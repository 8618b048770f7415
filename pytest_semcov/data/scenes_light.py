"""Light, weather and lens of a rendered scene: from painted surfaces to the photograph.

Arrays are ``(height, width, 3)`` float32, 0 = black, 1 = white, unless stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from pytest_semcov.data.scenes_canvas import OVERSAMPLING, Canvas, mix
from pytest_semcov.data.scenes_layout import (
    BLUR,
    DAYLIGHT,
    FLARE,
    GRAIN,
    NIGHTLIGHT,
    RAIN,
    SEASON,
    Colour,
    Draws,
    Place,
)

Pixels = NDArray[np.float32]

_LIGHT_GRID = 32


@dataclass(frozen=True, slots=True)
class Sky:
    """Colours of the sky and what it does to the light."""

    zenith: Colour
    rim: Colour
    cloud: Colour
    cloudiness: float
    stars: int
    light: Colour
    """By day the factor on all surfaces; by night the light that is left without lamps."""


def sky_of(seed: int, moment: int, categories: Mapping[str, str]) -> Sky:
    """Return the sky of a scene: night or day, clear or rainy."""
    rain = categories["clear_rain"] == "rain"
    winter = categories["summer_winter"] == "winter"
    if categories["day_night"] == "night":
        draws = Draws(seed, moment, NIGHTLIGHT)
        zenith, rim = draws.one_of(
            (
                ((0.0, 0.0, 0.01), (0.01, 0.01, 0.015)),
                ((0.01, 0.02, 0.06), (0.03, 0.05, 0.12)),
                ((0.12, 0.08, 0.05), (0.32, 0.2, 0.1)),
                ((0.14, 0.11, 0.13), (0.26, 0.21, 0.22)),
                ((0.03, 0.05, 0.14), (0.3, 0.18, 0.14)),
                ((0.05, 0.06, 0.07), (0.1, 0.1, 0.1)),
            )
        )
        strength = draws.between(0.5, 1.25)
        zenith, rim = mix((0, 0, 0), zenith, strength), mix((0, 0, 0), rim, strength)
        left = 0.13 + 0.21 * draws.share() ** 1.6 + (0.09 if winter else 0.0)
        tint = draws.one_of(((0.75, 0.85, 1.25), (1.1, 1.0, 0.9), (1.0, 0.98, 1.05), (1.25, 1.0, 0.7)))
        light = (left * tint[0], left * tint[1], left * tint[2])
        cloud = mix(rim, (0.3, 0.3, 0.3), 0.15)
        if rain:
            return Sky(
                mix(zenith, (0.1, 0.1, 0.1), 0.4), mix(rim, (0.16, 0.16, 0.16), 0.4), cloud, 0.9, 0, light
            )
        return Sky(zenith, rim, cloud, draws.between(0.0, 0.5), draws.whole(0, 40), light)
    draws = Draws(seed, moment, DAYLIGHT)
    level = draws.between(0.62, 0.9 if winter else 1.08)
    warm = draws.between(-0.07, 0.09)
    if rain:
        grey = draws.between(0.42, 0.66)
        shade = (grey - 0.01, grey, grey + 0.02)
        level = draws.between(0.5, 0.75)
        return Sky(
            zenith=mix(shade, (0.3, 0.3, 0.32), 0.3),
            rim=mix(shade, (1, 1, 1), 0.12),
            cloud=mix(shade, (0.2, 0.2, 0.22), 0.3),
            cloudiness=1.0,
            stars=0,
            light=(level, level, level * 1.03),
        )
    overcast = draws.share() ** 2
    blue = draws.near(
        draws.one_of(((0.25, 0.47, 0.8), (0.4, 0.6, 0.86), (0.3, 0.42, 0.62), (0.5, 0.68, 0.88))), 0.05
    )
    grey = draws.between(0.7, 0.92)
    rim = mix(mix(blue, (0.92, 0.93, 0.95), draws.between(0.4, 0.8)), (1.0, 0.75, 0.5), draws.between(0, 0.3))
    return Sky(
        mix(blue, (grey, grey, grey), overcast),
        mix(rim, (grey, grey, grey), overcast),
        (0.96, 0.96, 0.97),
        max(draws.between(0.0, 0.7), overcast),
        0,
        (level + warm, level, level - warm),
    )


def smooth_noise(generator: np.random.Generator, size: int, cells: int) -> Pixels:
    """Return ``(size, size)`` noise of unit variance that changes over about ``size / cells`` pixels."""
    coarse = generator.standard_normal((cells, cells), dtype=np.float32)
    return np.asarray(
        Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC), dtype=np.float32
    )


def photograph(
    size: int,
    seed: int,
    moment: int,
    place: Place,
    canvas: Canvas,
    sky: Sky,
    categories: Mapping[str, str],
) -> Image.Image:
    """Turn the painted layers into an RGB photograph of ``size`` × ``size`` pixels."""
    night = categories["day_night"] == "night"
    rain = categories["clear_rain"] == "rain"
    winter = categories["summer_winter"] == "winter"
    layer = np.asarray(canvas.surface.reduce(OVERSAMPLING), dtype=np.float32) / 255.0
    solid, cover = layer[..., :3], layer[..., 3:]
    grain = Draws(seed, GRAIN).generator
    texture = 0.6 * smooth_noise(grain, size, min(size, 24)) + 0.5 * smooth_noise(grain, size, min(size, 72))
    solid = solid * (1 + 0.09 * texture)[..., None]
    light = _night_light(size, seed, moment, place, sky) if night else _day_light(size, seed, moment, sky)
    scene = solid * light + (1 - cover) * _sky_pixels(size, seed, moment, place, sky)
    if canvas.lights is not None:
        scene += _shine(canvas.lights, size, rain=rain)
    if rain:
        scene = _rain(scene, Draws(seed, moment, RAIN), place, night=night, snow=winter)
    elif winter:
        scene = _snowfall(scene, Draws(seed, moment, SEASON), night=night)
    if categories["sharp_blurry"] == "blurry":
        scene = _blur(scene, Draws(seed, moment, BLUR))
    if categories["noflare_flare"] == "flare":
        scene = _flare(scene, Draws(seed, moment, FLARE), place, night=night)
    camera = Draws(seed, moment, GRAIN)
    contrast, tint = camera.between(0.85, 1.15), camera.between(-0.03, 0.03)
    scene = 0.4 + (scene - 0.4) * contrast if not night else scene * contrast
    scene *= np.array([1 + tint, 1, 1 - tint], dtype=np.float32)
    noise = camera.between(0.004, 0.012) * (2.2 if night else 1.0)
    scene += noise * camera.generator.standard_normal(scene.shape, dtype=np.float32)
    return Image.fromarray((np.clip(scene, 0, 1) * 255 + 0.5).astype(np.uint8))


def _rows(size: int) -> Pixels:
    return ((np.arange(size) + 0.5) / size).astype(np.float32)


def _sky_pixels(size: int, seed: int, moment: int, place: Place, sky: Sky) -> Pixels:
    """Return the sky above the horizon and, below it, its mirror image (seen in puddles)."""
    above = np.abs(_rows(size) - place.horizon) / place.horizon
    share = np.clip(above, 0, 1)[:, None, None] ** 0.7
    zenith, rim, cloud = (np.array(colour, dtype=np.float32) for colour in (sky.zenith, sky.rim, sky.cloud))
    pixels = np.broadcast_to(rim + (zenith - rim) * share, (size, size, 3))
    draws = Draws(seed, moment, DAYLIGHT, 1)
    noise = 0.7 * smooth_noise(draws.generator, size, 5) + 0.45 * smooth_noise(draws.generator, size, 11)
    cover = np.clip(0.5 + 0.6 * noise + 1.6 * (sky.cloudiness - 0.5), 0, 1)[..., None]
    cover *= min(1.0, 0.3 + sky.cloudiness)
    pixels = pixels + (cloud * (1 + 0.12 * noise[..., None]) - pixels) * cover
    for _ in range(sky.stars):
        row, column = int(draws.share() * place.horizon * size), int(draws.share() * size)
        pixels[row, column] += draws.between(0.1, 0.5)
    return np.asarray(pixels, dtype=np.float32)


def _day_light(size: int, seed: int, moment: int, sky: Sky) -> Pixels:
    draws = Draws(seed, moment, DAYLIGHT, 2)
    slope = draws.between(-0.22, 0.22) * (1 - sky.cloudiness)
    across = 1 + slope * (_rows(size)[None, :, None] * 2 - 1)
    return np.asarray(across * np.array(sky.light), dtype=np.float32)


def _night_light(size: int, seed: int, moment: int, place: Place, sky: Sky) -> Pixels:
    """Return what is left of daylight plus the pools of light under the lamps."""
    draws = Draws(seed, moment, NIGHTLIGHT, 1)
    strength = draws.between(0.35, 1.1)
    pools: list[tuple[float, float, float, Colour, float]] = []  # x, y, reach, colour, strength
    for lamp in place.lamps:
        y, level = place.ground_y(lamp.t) - 0.15 * lamp.height, strength * min(1.0, 0.25 / lamp.height)
        pools.append((lamp.x, y, 0.14 + 0.7 * lamp.height, lamp.colour, level))
    if draws.chance(0.35):  # a square or a street lit from above, as if by day
        x, y, reach = draws.between(0.2, 0.8), draws.between(0.6, 0.9), draws.between(0.3, 0.6)
        pools.append((x, y, reach, place.lamps[0].colour, 0.7))
    grid = _rows(_LIGHT_GRID)
    light = np.empty((_LIGHT_GRID, _LIGHT_GRID, 3), dtype=np.float32)
    light[:] = np.array(sky.light, dtype=np.float32)
    for x, y, reach, colour, level in pools:
        across = np.exp(-(((grid - x) / reach) ** 2))
        down = np.exp(-(((grid - y) / (0.7 * reach)) ** 2))
        light += level * (down[:, None] * across[None, :])[..., None] * np.array(colour, dtype=np.float32)
    coarse = Image.fromarray((255 * soft_limit(light)).astype(np.uint8))
    return np.asarray(coarse.resize((size, size), Image.Resampling.BICUBIC), dtype=np.float32) / 255.0


def soft_limit(light: Pixels) -> Pixels:
    """Return light that grows ever more slowly and stays below 0.85, as a camera's exposure sees to."""
    return np.asarray(0.85 * (1 - np.exp(-light / 0.85)), dtype=np.float32)


def _shine(lights: Image.Image, size: int, *, rain: bool) -> Pixels:
    """Return the lights themselves and the glow around them."""
    lights = lights.reduce(OVERSAMPLING)
    near = lights.filter(ImageFilter.GaussianBlur(0.02 * size))
    far = lights.filter(ImageFilter.BoxBlur(0.07 * size))
    glow = 1.6 if rain else 1.0
    pixels = 1.2 * np.asarray(lights, dtype=np.float32)
    pixels += glow * (0.7 * np.asarray(near, dtype=np.float32) + 0.6 * np.asarray(far, dtype=np.float32))
    return pixels / 255.0


def _rain(scene: Pixels, draws: Draws, place: Place, *, night: bool, snow: bool) -> Pixels:
    """Wet the ground so that it mirrors what stands above, grey the air and let it rain."""
    size = len(scene)
    wet = draws.between(0.3, 0.5) * (0.4 if snow else 1.0)  # snow does not mirror
    row = round(place.horizon * size)
    reach = min(row, size - row)
    if reach > 1:
        mirrored = scene[row - reach : row][::-1]
        mirrored = (
            np.cumsum(mirrored, axis=0) / np.arange(1, reach + 1, dtype=np.float32)[:, None, None] * 0.5
            + 0.5 * mirrored
        )
        scene[row : row + reach] += wet * (mirrored - scene[row : row + reach]) * (0.75 if not night else 0.6)
        scene[row + reach :] *= 1 - 0.25 * wet
    grey = scene.mean(axis=2, keepdims=True)
    scene += draws.between(0.25, 0.5) * (grey - scene)
    veil = draws.between(0.05, 0.17)
    scene += veil * ((0.1 if night else 0.55) - scene)
    streaks = Image.new("L", (size * 2, size * 2))
    pen = ImageDraw.Draw(streaks)
    slant = draws.between(-0.35, 0.35)
    starts = draws.generator.random((draws.whole(70, 130), 3)).tolist()
    for x, y, share in starts:
        length = (0.05 + 0.11 * share) * size * 2
        x0, y0 = (x * 1.4 - 0.2) * size * 2, (y * 1.2 - 0.2) * size * 2
        pen.line(
            (x0, y0, x0 + slant * length, y0 + length), fill=int(120 + 135 * share), width=max(1, size // 64)
        )
    visible = np.asarray(streaks.reduce(2), dtype=np.float32)[..., None] / 255.0
    brightness = draws.between(0.2, 0.3) if night else draws.between(0.26, 0.4)
    return scene + visible * (brightness + (0.25 * scene if night else 0.0))


def _snowfall(scene: Pixels, draws: Draws, *, night: bool) -> Pixels:
    """Cool the light and, in half of the scenes, let it snow."""
    scene *= np.array([0.96, 1.0, 1.05], dtype=np.float32)
    if draws.chance(0.5):
        size = len(scene)
        flakes = Image.new("L", (size * 2, size * 2))
        pen = ImageDraw.Draw(flakes)
        for x, y, share in draws.generator.random((draws.whole(30, 110), 3)).tolist():
            radius = (0.003 + 0.007 * share**2) * size * 2
            x0, y0 = x * size * 2, y * size * 2
            pen.ellipse((x0 - radius, y0 - radius, x0 + radius, y0 + radius), fill=255)
        visible = np.asarray(flakes.reduce(2), dtype=np.float32)[..., None] / 255.0
        scene += visible * ((0.45 if night else 0.97) - scene) * 0.85
    return scene


def _blur(scene: Pixels, draws: Draws) -> Pixels:
    """Put the scene out of focus, or shake the camera."""
    size = len(scene)
    image = Image.fromarray((np.clip(scene, 0, 1) * 255).astype(np.uint8))
    if draws.chance(0.6):
        blurred = image.filter(ImageFilter.GaussianBlur(draws.between(0.012, 0.019) * size))
        return np.asarray(blurred, dtype=np.float32) / 255.0
    image = image.filter(ImageFilter.GaussianBlur(0.007 * size))
    length, angle = draws.between(0.04, 0.065) * size, draws.between(0, math.pi)
    pixels = np.asarray(image, dtype=np.float32) / 255.0
    steps = max(5, round(length))
    margin = math.ceil(length / 2) + 1
    padded = np.pad(pixels, ((margin, margin), (margin, margin), (0, 0)), mode="edge")
    total = np.zeros_like(pixels)
    for step in range(steps):
        along = length * (step / (steps - 1) - 0.5)
        row, column = margin + round(along * math.sin(angle)), margin + round(along * math.cos(angle))
        total += padded[row : row + size, column : column + size]
    return np.asarray(total / steps, dtype=np.float32)


def _flare(scene: Pixels, draws: Draws, place: Place, *, night: bool) -> Pixels:
    """Add a light that shines into the lens: bloom, rays, a chain of ghosts and a veil."""
    size = len(scene)
    x, y = draws.between(0.12, 0.88), draws.between(0.06, max(place.horizon, 0.25))
    rows, columns = _rows(size)[:, None], _rows(size)[None, :]
    distance = np.sqrt((columns - x) ** 2 + (rows - y) ** 2)
    angle = np.arctan2(rows - y, columns - x)
    spikes, turn = draws.whole(3, 5), draws.between(0, math.pi)
    rays = np.abs(np.cos(spikes * angle + turn)) ** 24
    bloom = 1.5 * np.exp(-((distance / draws.between(0.07, 0.13)) ** 2))
    bloom += 0.55 * np.exp(-distance / draws.between(0.1, 0.2))
    bloom += draws.between(0.35, 0.7) * rays * np.exp(-distance / 0.25)
    warm = np.array(draws.near((1.0, 0.92, 0.76), 0.06), dtype=np.float32)
    ghosts = Image.new("RGB", (size, size))
    pen = ImageDraw.Draw(ghosts)
    for _ in range(draws.whole(3, 5)):
        along, radius = draws.between(0.4, 2.1), draws.between(0.025, 0.07)
        gx, gy = x + (0.5 - x) * along, y + (0.5 - y) * along
        fill = draws.one_of(((90, 40, 20), (30, 90, 50), (40, 50, 110), (95, 80, 30), (90, 30, 80)))
        pen.ellipse(
            ((gx - radius) * size, (gy - radius) * size, (gx + radius) * size, (gy + radius) * size),
            fill=fill,
        )
    ghosts = ghosts.filter(ImageFilter.GaussianBlur(0.007 * size))
    veil = draws.between(0.03, 0.07) if night else draws.between(0.06, 0.15)
    lit = scene * (1 - 0.5 * veil) + (veil + bloom[..., None]) * warm
    lit += np.asarray(ghosts, dtype=np.float32) / 255.0 * (1.0 if night else 1.3)
    return np.asarray(lit, dtype=np.float32)
