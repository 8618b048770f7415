"""What an exported synthetic image says about itself: inside its file, and in an annotation file's entry."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import Provenance, Sample, take_provenance
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import plain

if TYPE_CHECKING:
    from PIL import Image

IMAGE_FORMATS = {"png": ".png", "jpeg": ".jpg"}
"""Formats that carry provenance, with the extension of their files."""

PROVENANCE_TEXT = "semcov_provenance"
"""Keyword of the text inside an image file that holds its provenance as JSON."""

SAMPLE = "semcov_sample"
"""Field of an exported entry with what of the sample has no field of its own."""

FOLDER_FIELDS = frozenset({"file_name", "objects", "label", "provenance", SAMPLE})
"""Columns of an exported image folder's metadata that are not the sample's own metadata."""

COCO_FIELDS = frozenset(
    {"id", "file_name", "width", "height", "coco_id", "crowd_boxes", "label", "provenance", SAMPLE}
)
"""Fields of an exported COCO image entry that are not the sample's own metadata."""

_JPEG_QUALITY = 95
_LONGEST_COMMENT = 65_533
"""Bytes: a JPEG segment counts its length in 16 bits."""


def provenance_record(provenance: Provenance) -> dict[str, Any]:
    """Return a provenance as plain Python, as :func:`take_provenance` reads it."""
    return {field.name: plain(getattr(provenance, field.name)) for field in fields(Provenance)}


def encoded(image: Image.Image, provenance: Provenance, image_format: str = "png") -> bytes:
    """Return the bytes of an image file that holds its own provenance.

    Parameters
    ----------
    image
        RGB.
    provenance
        Goes into a text chunk (PNG) or the comment (JPEG). A JPEG comment holds 65,533 bytes: provenance
        that is longer goes in without its verdict, or not at all.
    image_format
        ``"png"`` keeps every pixel. ``"jpeg"`` (quality 95, full colour resolution) is about a quarter of
        the size and loses a little: most values change by a few levels of 255.

    Raises
    ------
    ArgumentError
        If the format is not one of :data:`IMAGE_FORMATS`.
    """
    from PIL.PngImagePlugin import PngInfo

    buffer = io.BytesIO()
    record = provenance_record(provenance)
    if image_format == "png":
        text = PngInfo()
        text.add_text(PROVENANCE_TEXT, json.dumps(record))
        image.save(buffer, "PNG", pnginfo=text)
    elif image_format == "jpeg":
        image.save(buffer, "JPEG", quality=_JPEG_QUALITY, subsampling=0, comment=_comment(record))
    else:
        raise ArgumentError(f"image format {image_format!r}: need one of {', '.join(IMAGE_FORMATS)}")
    return buffer.getvalue()


def _comment(record: Mapping[str, Any]) -> bytes:
    for each in (record, {**record, "verdict": None}):
        comment = f"{PROVENANCE_TEXT}: {json.dumps(each)}".encode()
        if len(comment) <= _LONGEST_COMMENT:
            return comment
    return b""


def read_provenance(file: str | os.PathLike[str]) -> Provenance | None:
    """Read the provenance that an export wrote into a PNG or JPEG file.

    Parameters
    ----------
    file
        The image file; only its header is read.

    Returns
    -------
    Provenance or None
        ``None`` if the file holds none: it is a real image, or another program has written it anew.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be read.
    """
    from PIL import Image

    with Path(file).open("rb") as stream:
        try:
            with Image.open(stream, formats=("PNG", "JPEG")) as image:
                text = image.info.get(PROVENANCE_TEXT) or _from_comment(image.info.get("comment"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None  # what is wrong with the image is told by whoever decodes it
    if not isinstance(text, str):
        return None
    try:
        return take_provenance({"provenance": json.loads(text)})
    except (ValueError, RecursionError):
        return None


def _from_comment(comment: object) -> str | None:
    if not isinstance(comment, bytes):
        return None
    keyword, _, text = comment.decode("utf-8", "replace").partition(": ")
    return text if keyword == PROVENANCE_TEXT else None


def exported_fields(sample: Sample, own: Collection[str]) -> dict[str, Any]:
    """Return a synthetic sample's metadata and provenance as fields of an entry.

    Metadata become fields under their own names. Those whose names the entry needs itself, the id and the
    group go into the field :data:`SAMPLE`. What JSON cannot hold becomes text, NaN and infinity ``null``.

    Parameters
    ----------
    sample
        With provenance.
    own
        Names that the entry needs itself: :data:`FOLDER_FIELDS` or :data:`COCO_FIELDS`.

    Raises
    ------
    ArgumentError
        If the sample is a real image.
    """
    if sample.provenance is None:
        raise ArgumentError(f"{sample.id} is a real image; only synthetic ones are exported")
    metadata = {name: _written(value) for name, value in sample.metadata.items()}
    return {
        **{name: value for name, value in metadata.items() if name not in own},
        "provenance": provenance_record(sample.provenance),
        SAMPLE: {
            "id": sample.id,
            "group": sample.group,
            "metadata": {name: value for name, value in metadata.items() if name in own},
        },
    }


def restored(sample: Sample, columns: dict[str, object], own: Collection[str], *, id_prefix: str) -> Sample:
    """Return a sample with its columns as metadata; one that was exported gets back what it was.

    Parameters
    ----------
    sample
        As its annotation file describes it, without metadata.
    columns
        The other fields of its entry.
    own
        As of :func:`exported_fields`.
    id_prefix
        Put before the id that the sample was exported with.
    """
    provenance = take_provenance(columns)
    record: Any = columns.get(SAMPLE)
    if provenance is None or not _is_record(record):
        return replace(sample, metadata=MappingProxyType(columns), provenance=provenance)
    metadata = {name: value for name, value in columns.items() if name not in own}
    return replace(
        sample,
        id=id_prefix + record["id"],
        group=record["group"],
        metadata=MappingProxyType({**metadata, **record["metadata"]}),
        provenance=provenance,
    )


def _is_record(record: Any) -> bool:
    return (
        isinstance(record, Mapping)
        and isinstance(record.get("id"), str)
        and isinstance(record.get("group", ""), str | None)
        and isinstance(record.get("metadata"), Mapping)
    )


def _written(value: object) -> Any:
    """Return a value of metadata as JSON can hold it."""
    try:
        return _finite(plain(value))
    except TypeError:
        return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
