"""Accepted synthetic images as files: a folder with metadata that loads back as an image folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import plain

if TYPE_CHECKING:
    from PIL import Image

    from pytest_semcov.data.samples import Dataset, Sample
    from pytest_semcov.translation.augmentation import Augmentation

METADATA = "metadata.jsonl"
SHEET = "contact_sheet.pdf"
"""A PDF, so that no reader of image folders takes it for one of the images."""

PROVENANCE_TEXT = "semcov_provenance"
"""Keyword of the PNG text that holds an image's provenance as JSON."""

_COLUMNS = 8
_RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)\d")


def check_export_folder(folder: Path, dataset: Dataset) -> None:
    """Refuse a folder among the data set's own images: its next reading would take synthetic for real.

    Raises
    ------
    ArgumentError
        If the folder is, or lies in, a folder that holds images of the data set.
    """
    target = folder.resolve()
    for root in sorted({path.resolve() for path in _image_folders(dataset)}):
        if target.is_relative_to(root) or any(_same(above, root) for above in (target, *target.parents)):
            raise ArgumentError(
                f"export folder {str(folder)!r} lies among the data set's images ({root}); choose one outside"
            )


def _image_folders(dataset: Dataset) -> Iterator[Path]:
    path = getattr(dataset, "path", None)
    if isinstance(path, Path):
        yield path
    for index in range(len(dataset)):
        sample = dataset[index]
        if sample.path is not None:
            yield sample.path.parent
            # Of a view of a folder only the ids tell where the folder begins.
            if sample.path.as_posix().endswith(f"/{sample.id}"):
                yield sample.path.parents[sample.id.count("/")]


def _same(path: Path, other: Path) -> bool:
    """Whether both are one folder, also where the file system does not tell upper from lower case."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def export_augmentation(augmentation: Augmentation, folder: Path, *, sources: Dataset | None = None) -> Path:
    """Write the images of an accepted augmentation as PNG, with their provenance.

    They go to ``folder/<semantic>/<category>`` beside a ``metadata.jsonl`` (one line an image: file name,
    label, boxes, the category under the semantic's name, and the provenance), so that
    ``ImageFolder(..., labels="metadata")`` reads them back. An earlier export of the same category is
    replaced: images that it lists and this one lacks are removed, other files are left alone.

    Parameters
    ----------
    augmentation
        With a verdict that is PASS.
    folder
        Made if need be; see :func:`check_export_folder`.
    sources
        Holds the images that were translated: with it, ``contact_sheet.pdf`` shows up to 24 images beside
        their sources.

    Returns
    -------
    Path
        The category's folder.

    Raises
    ------
    ArgumentError
        If the verdict is not PASS.
    OSError
        If a file cannot be written.
    """
    if not augmentation.verdict.passed:
        raise ArgumentError(
            f"{augmentation.verdict.subject} was not accepted: {augmentation.verdict.outcome}"
        )
    place = folder / _file_stem(augmentation.plan.semantic) / _file_stem(augmentation.plan.target)
    place.mkdir(parents=True, exist_ok=True)
    earlier = _listed(place)
    rows = [_write_image(sample, place) for sample in augmentation.synthetic.samples]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with _replacing(place / METADATA) as temporary:
        # A lone surrogate (odd file name) becomes the escape that JSON has for it.
        temporary.write_text(lines, encoding="utf-8", errors="backslashreplace")
    if sources is not None:
        with _replacing(place / SHEET) as temporary:
            contact_sheet(augmentation.synthetic, sources).save(temporary, format="PDF")
    for name in earlier - {row["file_name"] for row in rows}:
        (place / name).unlink(missing_ok=True)
    return place


def _write_image(sample: Sample, place: Path) -> dict[str, Any]:
    """Write one image; return its row of metadata."""
    provenance = sample.provenance
    if provenance is None:
        raise ArgumentError(f"{sample.id} is a real image; only synthetic ones are exported")
    from PIL.PngImagePlugin import PngInfo

    name = f"{_file_stem(provenance.source_id)}.png"
    record = {field: plain(getattr(provenance, field)) for field in type(provenance).__dataclass_fields__}
    text = PngInfo()
    text.add_text(PROVENANCE_TEXT, json.dumps(record))
    with _replacing(place / name) as temporary:
        sample.load().save(temporary, format="PNG", pnginfo=text)
    row: dict[str, Any] = {"file_name": name}
    if sample.label is not None:
        row["label"] = sample.label
    if sample.boxes:
        row["objects"] = {
            "bbox": [[box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0] for box in sample.boxes],
            "categories": [box.label for box in sample.boxes],
        }
    row[provenance.semantic] = provenance.target_category
    row["group"] = sample.group
    row["provenance"] = record
    return row


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


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to, which replaces the path at the end if all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _listed(place: Path) -> set[str]:
    """Return the image files that an earlier export into this folder listed."""
    try:
        rows = [json.loads(line) for line in (place / METADATA).read_text("utf-8").splitlines()]
        names = {str(row["file_name"]) for row in rows}
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    return {name for name in names if Path(name).name == name and name.endswith(".png")}


def _file_stem(text: str) -> str:
    """Return a file name that is safe everywhere, and another one for every other text.

    Other also where upper and lower case are the same.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", text)
    if safe == text == text.lower() and len(text) <= 60 and not _RESERVED.fullmatch(text):
        return text
    return f"{safe[-60:]}-{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
