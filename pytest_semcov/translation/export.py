"""Accepted synthetic images as files: a folder with metadata that loads back as an image folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_semcov.data.exported import FOLDER_FIELDS, IMAGE_FORMATS, encoded, exported_fields
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.contact_sheet import SHEET, contact_sheet
from pytest_semcov.translation.export_coco import DESCRIPTION, INSTANCES, coco_content

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset, Provenance, Sample
    from pytest_semcov.translation.augmentation import Augmentation

METADATA = "metadata.jsonl"

TEMPORARY = ".tmp"
"""Ending of files that are being written; their names begin with a dot."""

_RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)\d")
_HASHED = re.compile(r"-[0-9a-f]{16}$")


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
    for name in ("path", "image_folder"):
        path = getattr(dataset, name, None)
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


def export_augmentation(
    augmentation: Augmentation,
    folder: Path,
    *,
    sources: Dataset | None = None,
    image_format: str = "png",
) -> Path:
    """Write the images of an accepted augmentation, with their provenance.

    They go to ``folder/<semantic>/<category>`` beside a ``metadata.jsonl``: one line an image with file name,
    label, boxes, metadata (the category under the semantic's name) and provenance. If there are boxes, or the
    sources have COCO categories, an ``instances.json`` in COCO's form lies beside it.
    ``ImageFolder(place, labels="metadata")`` and ``CocoDataset(place / "instances.json", place)`` give back
    the exported samples; :func:`~pytest_semcov.read_provenance` reads the provenance of a single file. An
    earlier export of the same category is replaced: images that it lists and this one lacks are removed,
    other files are left alone.

    Parameters
    ----------
    augmentation
        With a verdict that is PASS.
    folder
        Made if need be; see :func:`check_export_folder`.
    sources
        Holds the images that were translated: with it, ``contact_sheet.pdf`` shows up to 24 images beside
        their sources, and COCO categories have the ids of the source.
    image_format
        ``"png"``, which keeps every pixel, or ``"jpeg"``, which is smaller and does not
        (see :func:`~pytest_semcov.data.exported.encoded`).

    Returns
    -------
    Path
        The category's folder.

    Raises
    ------
    ArgumentError
        If the verdict is not PASS, a sample is a real image, or there is no such format.
    OSError
        If a file cannot be written.
    """
    if not augmentation.verdict.passed:
        raise ArgumentError(
            f"{augmentation.verdict.subject} was not accepted: {augmentation.verdict.outcome}"
        )
    if image_format not in IMAGE_FORMATS:
        raise ArgumentError(f"image format {image_format!r}: need one of {', '.join(IMAGE_FORMATS)}")
    place = folder / file_stem(augmentation.plan.semantic) / file_stem(augmentation.plan.target)
    place.mkdir(parents=True, exist_ok=True)
    earlier = listed_images(place)
    files: dict[str, tuple[Sample, tuple[int, int]]] = {}
    rows: list[dict[str, Any]] = []
    for sample in augmentation.synthetic.samples:
        rows.append(row := folder_row(sample, image_format))
        image = sample.load()
        content = encoded(image, cast("Provenance", sample.provenance), image_format)
        with replacing(place / row["file_name"]) as temporary:
            temporary.write_bytes(content)
        files[row["file_name"]] = sample, image.size
    write_lines(place / METADATA, rows)
    write_coco(place, files, sources)
    if sources is not None:
        with replacing(place / SHEET) as temporary:
            contact_sheet(augmentation.synthetic, sources).save(temporary, format="PDF")
    for name in earlier - set(files):
        (place / name).unlink(missing_ok=True)
    return place


def folder_row(sample: Sample, image_format: str) -> dict[str, Any]:
    """Return a synthetic sample's line of ``metadata.jsonl``.

    Raises
    ------
    ArgumentError
        If the sample is a real image.
    """
    columns = exported_fields(sample, FOLDER_FIELDS)
    source_id = columns["provenance"]["source_id"]
    file_name = file_stem(source_id) + IMAGE_FORMATS[image_format]
    row: dict[str, Any] = {"file_name": file_name, "label": sample.label}
    if sample.boxes:
        row["objects"] = {
            "bbox": [[box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0] for box in sample.boxes],
            "categories": [box.label for box in sample.boxes],
        }
    return row | columns


def json_line(content: Mapping[str, Any]) -> bytes:
    """Return one line of JSON; a lone surrogate (odd file name) becomes the escape that JSON has for it."""
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON lines, all or none."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(json_line(row) for row in rows)


def write_coco(
    place: Path, files: Mapping[str, tuple[Sample, tuple[int, int]]], sources: Dataset | None
) -> None:
    """Write ``instances.json`` if there are boxes or the sources are COCO; remove an outdated one if not.

    Parameters
    ----------
    place
        The folder.
    files
        File name → the synthetic sample, and its width and height in pixels.
    sources
        Where the categories come from.
    """
    if getattr(sources, "categories", ()) or any(sample.boxes for sample, _ in files.values()):
        with replacing(place / INSTANCES) as temporary:
            content = json.dumps(coco_content(files, sources), ensure_ascii=False, indent=1)
            temporary.write_bytes(content.encode("utf-8", "backslashreplace"))
    elif _is_ours(place / INSTANCES):
        (place / INSTANCES).unlink()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to, which replaces the path at the end if all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return DESCRIPTION.encode() in file.read(200)
    except OSError:
        return False


def listed_images(place: Path, table: str = METADATA) -> set[str]:
    """Return the image files that an earlier run into this folder listed; a torn line lists none."""
    try:
        lines = (place / table).read_bytes().split(b"\n")
    except OSError:
        return set()
    names = set()
    for line in lines:
        try:
            names.add(str(json.loads(line)["file_name"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    endings = tuple(IMAGE_FORMATS.values())
    return {name for name in names if Path(name).name == name and name.endswith(endings) and "\0" not in name}


def file_stem(text: str) -> str:
    """Return a file name that is safe everywhere, and another one for every other text.

    Other also where upper and lower case, or composed and decomposed letters, are the same.
    """
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", text)
    plain = safe == text == text.lower() and 0 < len(text) <= 60
    if plain and not _RESERVED.fullmatch(text) and not _HASHED.search(text):
        return text
    return f"{safe[-60:]}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
