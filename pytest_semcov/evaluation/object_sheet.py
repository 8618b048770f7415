"""A picture of objects before and after a translation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_semcov.data.samples import Sample
from pytest_semcov.errors import ArgumentError
from pytest_semcov.evaluation.object_crops import KeptImages
from pytest_semcov.evaluation.objects import ObjectBox

if TYPE_CHECKING:
    from PIL import Image

_CELL, _LINE, _EDGE = 160, 14, 8


def object_sheet(boxes: Sequence[ObjectBox], images: KeptImages) -> Image.Image:
    """Return a picture with one row a box: its crop before, its crop after, its name below.

    Small crops are enlarged without smoothing, so that the picture shows pixels as they are.
    """
    from PIL import Image, ImageDraw

    height = _CELL + _LINE + _EDGE
    sheet = Image.new("RGB", (2 * _CELL + 3 * _EDGE, len(boxes) * height + _EDGE), "white")
    draw = ImageDraw.Draw(sheet)
    for number, box in enumerate(boxes):
        top = _EDGE + number * height
        for column, sample in enumerate((box.pair.before, box.pair.after)):
            crop = images.load(sample).crop(box.crop)
            scale = min(_CELL / crop.width, _CELL / crop.height)
            size = (max(1, int(crop.width * scale)), max(1, int(crop.height * scale)))
            how = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BOX
            sheet.paste(crop.resize(size, how), (_EDGE + column * (_CELL + _EDGE), top))
        text = box.name.encode("ascii", "backslashreplace").decode()
        # The end names class and place; the font has about six pixels a letter.
        draw.text((_EDGE, top + _CELL + 1), text[-(2 * _CELL // 6) :], fill="black")
    return sheet


def check_folder(folder: Path, samples: Sequence[Sample]) -> None:
    """Raise ArgumentError if a folder lies within a data set's own."""
    parents = [str(sample.path.resolve().parent) for sample in samples if sample.path is not None]
    if not parents:
        return
    try:
        root = Path(os.path.commonpath(parents))
    except ValueError:  # on several drives
        return
    if folder.resolve().is_relative_to(root):
        raise ArgumentError(
            f"save_crops={str(folder)!r} lies within the data set's folder {root}: give another, so that "
            "crops are never taken for its images"
        )
