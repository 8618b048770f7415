"""Contact sheets: synthetic images beside what they were made from and the real images like them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_semcov.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image

    from pytest_semcov.data.samples import Dataset, Sample

SHEET = "contact_sheet.pdf"
"""A PDF, so that no reader of image folders takes it for one of the images."""

_COLUMNS = 8
_CELL = (240, 180)
_LINE = 16
_ROWS_PER_PAGE = 6
_LETTERS = 38


def contact_sheet(synthetic: Dataset, sources: Dataset, *, most: int = 24) -> Image.Image:
    """Return one picture with synthetic images below their sources, eight a row.

    Parameters
    ----------
    synthetic
        Synthetic samples; the first ``most`` are shown.
    sources
        Holds their sources.
    most
        Largest number of pairs.
    """
    from PIL import Image, ImageOps

    width, height = 200, 150
    shown = [synthetic[index] for index in range(min(most, len(synthetic)))]
    where = {sample_id: index for index, sample_id in enumerate(sources.ids)}
    rows = max(1, -(-len(shown) // _COLUMNS))
    sheet = Image.new("RGB", (_COLUMNS * width, rows * 2 * height), "white")
    for number, sample in enumerate(shown):
        row, column = divmod(number, _COLUMNS)
        source = where.get(sample.provenance.source_id) if sample.provenance is not None else None
        pair = (None if source is None else sources[source], sample)
        for below, each in enumerate(pair):
            if each is not None:
                image = ImageOps.pad(each.load(minimum_size=height), (width, height), color="white")
                sheet.paste(image, (column * width, (2 * row + below) * height))
    return sheet


def contact_pages(rows: Sequence[Sequence[Sample | None]], titles: Sequence[str]) -> list[Image.Image]:
    """Return pages that show one row of images after the other, each with its id below.

    Parameters
    ----------
    rows
        One sample a column; ``None``, or an image that cannot be read, leaves its place white.
    titles
        One a column, above the images of every page.
    """
    from PIL import Image, ImageDraw, ImageOps

    width, height = _CELL
    pages = []
    for start in range(0, len(rows), _ROWS_PER_PAGE):
        shown = rows[start : start + _ROWS_PER_PAGE]
        size = (len(titles) * width, 2 * _LINE + len(shown) * (height + _LINE))
        page = Image.new("RGB", size, "white")
        draw = ImageDraw.Draw(page)
        for column, title in enumerate(titles):
            draw.text((column * width + 4, 2), _legible(title), fill="black")
        for number, row in enumerate(shown):
            top = 2 * _LINE + number * (height + _LINE)
            for column, sample in enumerate(row):
                if sample is None:
                    continue
                draw.text((column * width + 4, top + height + 1), _legible(sample.id), fill="black")
                try:
                    image = sample.load(minimum_size=height)
                except ImageError:
                    continue
                page.paste(ImageOps.pad(image, _CELL, color="white"), (column * width, top))
        pages.append(page)
    return pages


def _legible(text: str) -> str:
    """Return the end of a text in letters that every font has."""
    plain = text.encode("ascii", "backslashreplace").decode()
    return plain if len(plain) <= _LETTERS else f"...{plain[3 - _LETTERS :]}"
