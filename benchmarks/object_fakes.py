"""Scenes, what an ideal translator makes of them, and what careless ones do to the objects in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from pytest_semcov import Provenance, RenderedScenes, SampleDataset, SceneTranslator
from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.data.samples import Sample
from pytest_semcov.evaluation.object_crops import Window, window_of

Pixels = NDArray[np.uint8]
Change = Callable[[Sequence[Pixels], Sequence[Sequence[Window]], Sequence[Sample]], list[Pixels]]


def scenes(count: int, *, seed: int = 0, size: int = 128, sharp: bool = True) -> RenderedScenes:
    """Return scenes by day."""
    fixed = {"sharp_blurry": "sharp", "noflare_flare": "no flare", "clear_rain": "clear"} if sharp else {}
    return RenderedScenes(count, seed=seed, size=size, day_night="day", **fixed)


def by_night(original: RenderedScenes, change: Change | None = None) -> SampleDataset:
    """Return the scenes rendered by night, their objects changed, with provenance and boxes."""
    images = [sample.load() for sample in original]
    translator = SceneTranslator("day_night", source="day", target="night")
    nights = [np.asarray(image) for image in translator.translate(images, seeds=[0] * len(images))]
    if change is not None:
        nights = change(nights, [windows(sample, original.size) for sample in original], list(original))
    return SampleDataset(
        [
            replace(
                sample,
                id=f"night/{sample.id}",
                source=MemorySource(pixels),
                provenance=Provenance(sample.id, "test", "0", "day_night", "day", "night", 0),
            )
            for sample, pixels in zip(original, nights, strict=True)
        ],
        name="night",
    )


def windows(sample: Sample, size: int) -> list[Window]:
    """Return the boxes of a sample in whole pixels."""
    found = [window_of(box, (size, size)) for box in sample.boxes]
    return [window for window in found if window is not None]


def small_blurred(radius: float = 1.5) -> Change:
    """Blur objects of less than 32² pixels; everything else stays to the last bit."""

    def change(
        images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample]
    ) -> list[Pixels]:
        out = []
        for pixels, places in zip(images, boxes, strict=True):
            smooth = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)))
            new = pixels.copy()
            for left, top, right, bottom in places:
                if (right - left) * (bottom - top) < 32**2:
                    new[top:bottom, left:right] = smooth[top:bottom, left:right]
            out.append(new)
        return out

    return change


def erased(
    images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample] = ()
) -> list[Pixels]:
    """Fill boxes from left to right with what lies on both sides, and some grain."""
    out = []
    for pixels, places in zip(images, boxes, strict=True):
        new = pixels.astype(float)
        width = new.shape[1]
        for left, top, right, bottom in places:
            share = np.linspace(0, 1, right - left)[None, :, None]
            start, end = new[top:bottom, max(left - 2, 0)], new[top:bottom, min(right + 1, width - 1)]
            grain = np.random.default_rng(left * 1000 + top).normal(0, 3, (bottom - top, right - left, 3))
            new[top:bottom, left:right] = start[:, None] * (1 - share) + end[:, None] * share + grain
        out.append(new.clip(0, 255).astype(np.uint8))
    return out


def moved_by(share: float) -> Change:
    """Move objects to the side by a share of their width."""

    def change(
        images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample]
    ) -> list[Pixels]:
        out = erased(images, boxes)
        for new, pixels, places in zip(out, images, boxes, strict=True):
            for left, top, right, bottom in places:
                step = max(1, int(share * (right - left)))
                if right + step > new.shape[1]:
                    step = -step
                start, end = max(left + step, 0), min(right + step, new.shape[1])
                new[top:bottom, start:end] = pixels[top:bottom, start - step : end - step]
        return out

    return change


moved = moved_by(0.5)


def mirrored(
    images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample]
) -> list[Pixels]:
    """Mirror each object in its place."""
    out = [pixels.copy() for pixels in images]
    for new, pixels, places in zip(out, images, boxes, strict=True):
        for left, top, right, bottom in places:
            new[top:bottom, left:right] = pixels[top:bottom, left:right][:, ::-1]
    return out


def posterised(
    images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample]
) -> list[Pixels]:
    """Leave objects four levels of each colour."""
    out = [pixels.copy() for pixels in images]
    for new, pixels, places in zip(out, images, boxes, strict=True):
        for left, top, right, bottom in places:
            new[top:bottom, left:right] = pixels[top:bottom, left:right] // 64 * 64 + 32
    return out


def some_erased(share: float, label: str | None = None) -> Change:
    """Erase a share of the objects (of one class), and leave the others."""

    def change(
        images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample]
    ) -> list[Pixels]:
        generator = np.random.default_rng(2)
        chosen = [
            [
                place
                for box, place in zip(sample.boxes, places, strict=True)
                if label in (None, box.label) and generator.random() < share
            ]
            for sample, places in zip(samples, boxes, strict=True)
        ]
        return erased(images, chosen)

    return change


def swapped(
    images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample]
) -> list[Pixels]:
    """Put an object of another image of the same class, nearest in size, in the place of each."""
    pool = [
        (number, box.label, place)
        for number, (sample, places) in enumerate(zip(samples, boxes, strict=True))
        for box, place in zip(sample.boxes, places, strict=True)
    ]

    def area(place: Window) -> float:
        return float(np.log((place[2] - place[0]) * (place[3] - place[1])))

    out = [pixels.copy() for pixels in images]
    for number, label, place in pool:
        others = [each for each in pool if each[0] != number and each[1] == label]
        source, _, other = min(others, key=lambda each: abs(area(each[2]) - area(place)))
        patch = Image.fromarray(images[source]).crop(other)
        left, top, right, bottom = place
        out[number][top:bottom, left:right] = np.asarray(patch.resize((right - left, bottom - top)))
    return out


def noisy(
    images: Sequence[Pixels], boxes: Sequence[Sequence[Window]], samples: Sequence[Sample]
) -> list[Pixels]:
    """Add noise of 60 levels to the pixels of objects."""
    out = []
    for pixels, places in zip(images, boxes, strict=True):
        new, generator = pixels.astype(float), np.random.default_rng(1)
        for left, top, right, bottom in places:
            new[top:bottom, left:right] += generator.normal(0, 60, (bottom - top, right - left, 3))
        out.append(new.clip(0, 255).astype(np.uint8))
    return out
