"""What a translation did to annotated objects: figures of each box, by its pixels and by an embedder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.data.samples import Box, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, DatasetError
from pytest_semcov.evaluation.object_crops import (
    SMALLEST_BOX,
    CropSource,
    ImagePair,
    KeptImages,
    Window,
    background_windows,
    luminance,
    reaches_over,
    window_of,
)
from pytest_semcov.gates.objects import ObjectFigures
from pytest_semcov.metrics.identification import own_source_rank, without_common_shift
from pytest_semcov.metrics.spectrum import band_power, detail_change, edges_kept

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_semcov.embedding.protocols import Embeddings

COCO_SIZES: Mapping[str, float] = {"small": 0, "medium": 32**2, "large": 96**2}
"""Name of a size → its least area in square pixels, as COCO has them."""

_PLACES, _BACKGROUNDS = 8, 3
_MARGIN = 4

Embed = Callable[[SampleDataset], "Embeddings"]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectBox:
    """A box that is judged.

    Parameters
    ----------
    pair
        Its images.
    box
        As annotated.
    number
        Its place among the boxes of the image, from 0.
    window
        Its pixels.
    crop
        Its pixels with context.
    size
        Name of its size.
    edges, detail
        By its pixels, see :mod:`pytest_semcov.metrics.spectrum`; ``detail`` less the background's, NaN
        where the image has no background beside it.
    background
        A window without object in the same image, and its ``edges`` and ``detail``; ``None`` where there is
        no place for one.
    """

    pair: ImagePair
    box: Box
    number: int
    window: Window
    crop: Window
    size: str
    edges: float
    detail: float
    background: tuple[Window, float, float] | None

    @property
    def name(self) -> str:
        """Synthetic image, class and corners, for people."""
        corners = ", ".join(f"{corner:g}" for corner in self.window)
        return f"{self.pair.after.id}: {self.box.label} at ({corners})"


def measure_pixels(
    pairs: Sequence[ImagePair],
    *,
    images: KeptImages,
    context: float = 0.1,
    sizes: Mapping[str, float] = COCO_SIZES,
    seed: int = 0,
) -> tuple[list[ObjectBox], Counter[str]]:
    """Measure each box by its pixels.

    Parameters
    ----------
    pairs
        Images before and after.
    images
        Decodes them.
    context
        Share of a box's width and height around it that its crop for the embedder shows.
    sizes
        Name of a size → its least area in square pixels, ascending, the first 0.
    seed
        Chooses the background windows.

    Returns
    -------
    boxes
        Those that can be judged.
    counts
        ``boxes``, ``too small`` (less than 4 pixels a side), ``outside`` (of the image), ``at the border``
        (reach over it; judged by what is inside).

    Raises
    ------
    ArgumentError
        If ``context`` or ``sizes`` is out of range.
    DatasetError
        If an image and its source differ in size.
    """
    if not 0 <= context <= 10:
        raise ArgumentError(f"context is {context}: need a share of the box from 0 to 10")
    check_sizes(sizes)
    found: list[ObjectBox] = []
    counts: Counter[str] = Counter({"boxes": 0, "too small": 0, "outside": 0, "at the border": 0})
    for pair in pairs:
        if not pair.boxes:
            continue
        before, after = (images.load(sample) for sample in (pair.before, pair.after))
        if before.size != after.size:
            raise DatasetError(
                f"{pair.after.id} is {after.width} x {after.height} pixels, its source {pair.before.id} "
                f"{before.width} x {before.height}: boxes fit both only at one size"
            )
        pixels = luminance(before), luminance(after)
        windows = [window_of(box, before.size) for box in pair.boxes]
        taken = [window for window in windows if window is not None]
        for number, (box, window) in enumerate(zip(pair.boxes, windows, strict=True)):
            counts["boxes"] += 1
            if window is None:
                counts["outside"] += 1
                continue
            counts["at the border"] += reaches_over(box, before.size)
            if min(window[2] - window[0], window[3] - window[1]) < SMALLEST_BOX:
                counts["too small"] += 1
                continue
            around = background_windows(
                window, taken, before.size, count=_PLACES, key=(seed, pair.before.id, number)
            )
            around = _most_alike(pixels[0], window, around)
            edges, detail = _figures(pixels, window)
            control = [_figures(pixels, place) for place in around]
            beside = float(np.median([each[1] for each in control])) if control else math.nan
            found.append(
                ObjectBox(
                    pair,
                    box,
                    number,
                    window,
                    window_of(box, before.size, context=context) or window,
                    _size(window, sizes),
                    edges,
                    detail - beside,
                    (around[0], control[0][0], beside) if around else None,
                )
            )
    return found, counts


def _most_alike(pixels: np.ndarray, window: Window, places: Sequence[Window]) -> list[Window]:
    """Return the places most like the object before: added noise shows more where nothing else is."""

    def levels(place: Window) -> np.ndarray:
        left, top, right, bottom = place
        return np.log(band_power(pixels[top:bottom, left:right]))

    own = levels(window)
    return sorted(places, key=lambda place: float(np.abs(levels(place) - own).sum()))[:_BACKGROUNDS]


def check_sizes(sizes: Mapping[str, float]) -> None:
    """Raise ArgumentError unless least areas ascend from 0."""
    areas = list(sizes.values())
    if not areas or areas[0] != 0 or any(not low < high for low, high in pairwise(areas)):
        raise ArgumentError(
            f"sizes={dict(sizes)!r}: need names with their least area in square pixels, ascending from 0"
        )


def _size(window: Window, sizes: Mapping[str, float]) -> str:
    area = (window[2] - window[0]) * (window[3] - window[1])
    return [name for name, least in sizes.items() if area >= least][-1]


def _figures(pixels: tuple[np.ndarray, np.ndarray], window: Window) -> tuple[float, float]:
    """Return edges kept and change of detail within a window."""
    left, top, right, bottom = window
    x, y = max(0, left - _MARGIN), max(0, top - _MARGIN)
    wide = [each[y : bottom + _MARGIN, x : right + _MARGIN] for each in pixels]
    inner = slice(top - y, bottom - y), slice(left - x, right - x)
    edges = edges_kept(wide[0], wide[1], inner=inner)
    return edges, detail_change(wide[0][inner], wide[1][inner])


def measure_objects(
    boxes: Sequence[ObjectBox], embed: Embed, *, images: KeptImages, whole: bool = False, seed: int = 0
) -> tuple[ObjectFigures, tuple[Embeddings, ...]]:
    """Complete the figures of boxes by an embedder.

    Parameters
    ----------
    boxes
        See :func:`measure_pixels`.
    embed
        Embeds a data set of crops, one row a crop.
    images
        Decodes the images.
    whole
        The embedder is given whole images with a window (see :class:`CropSource`) instead of crops.
    seed
        Chooses among very many other objects.
    """
    backgrounds = [box for box in boxes if box.background is not None]
    rows: list[NDArray[np.float64]] = []
    embedded: list[Embeddings] = []
    for translated in (False, True):
        crops = [_crop(box, images, translated, whole) for box in boxes]
        crops += [_crop(box, images, translated, whole, background=True) for box in backgrounds]
        result = embed(SampleDataset(crops, name="objects after" if translated else "objects before"))
        array = result.rows([crop.id for crop in crops]).astype(np.float64)
        rows.append(array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12))
        embedded.append(result)
    count = len(boxes)
    similarity = np.einsum("nd,nd->n", rows[0], rows[1])
    before, empty_before = _centred(rows[0], count)
    after, empty_after = _centred(rows[1], count)
    groups = tuple(box.pair.group for box in boxes)
    classes = tuple(box.box.label for box in boxes)
    sizes = tuple(box.size for box in boxes)
    identity = own_source_rank(before, after, list(zip(classes, sizes, strict=True)), groups, seed=seed)
    for kinds in (classes, ("any",) * count):  # too few others of a class and size: of the class, of any
        known = own_source_rank(before, after, kinds, groups, seed=seed)
        identity = np.where(np.isnan(identity), known, identity)
    control = {}
    if backgrounds:
        places = [box.background for box in backgrounds if box.background is not None]
        ranks = own_source_rank(
            empty_before,
            empty_after,
            [box.size for box in backgrounds],
            [box.pair.group for box in backgrounds],
            seed=seed,
        )
        control = {
            "identity": _mean(ranks),
            "edges": _mean(np.array([place[1] for place in places])),
            "detail": _mean(np.array([place[2] for place in places])),
            "similarity": _mean(similarity[count:]),
        }
    figures = ObjectFigures(
        tuple(box.name for box in boxes),
        classes,
        sizes,
        groups,
        identity,
        np.array([box.edges for box in boxes], dtype=np.float64),
        np.array([box.detail for box in boxes], dtype=np.float64),
        similarity[:count],
        control,
    )
    return figures, tuple(embedded)


def _mean(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _centred(rows: NDArray[np.float64], objects: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows of objects and of backgrounds without what is common to all."""
    centred = without_common_shift(rows)
    return centred[:objects], centred[objects:]


def _crop(
    box: ObjectBox, images: KeptImages, translated: bool, whole: bool, *, background: bool = False
) -> Sample:
    sample = box.pair.after if translated else box.pair.before
    window, what = box.window if whole else box.crop, "box"
    if background and box.background is not None:
        window, what = box.background[0], "background"
    # Several images may be made of one source: the synthetic id tells its crops apart.
    return Sample(
        f"{box.pair.after.id} {'after' if translated else 'before'}, {what} {box.number}",
        CropSource(sample, window, images, whole),
        label=box.box.label,
        group=box.pair.group,
    )
