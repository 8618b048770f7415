"""COCO annotations: one JSON file and a folder of images."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_semcov.data.decoding import DEFAULT_RULE, DecodingRule, FileSource
from pytest_semcov.data.exported import COCO_FIELDS, SAMPLE, restored
from pytest_semcov.data.metadata import (
    GroupRule,
    contained,
    corner_boxes,
    corners_of_box,
    json_error,
    portable_name,
    read_text,
    shown,
    warn_of_boxes,
    with_groups,
)
from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, DatasetError, SemcovWarning

Corners = tuple[float, float, float, float]


class CocoDataset(SampleDataset):
    """Images with boxes from a COCO file. Nothing is read before it is first used.

    The id of a sample is its ``file_name``; the data set's classes are the category names, also those
    without boxes; images have no label. Fields of an image entry become metadata (its ``id`` as
    ``coco_id``), with ``crowd_boxes``: annotations with ``iscrowd`` outline many objects at once, they
    are counted there and are no boxes. Boxes without area inside the image (as annotated) are left out
    with a warning; others are clipped to it. Synthetic images that this package exported come back as they
    were: id, label, group, metadata and provenance are those of the exported sample.

    Boxes refer to the upright image. Where EXIF turns an image by a quarter and ``width`` and ``height``
    are those of the file as stored, the boxes are turned with it; if they fit neither way, a warning
    lists the images. This reads the header of every image with boxes.

    Parameters
    ----------
    annotation_json
        The annotation file. ``annotations`` may be absent (test images).
    image_folder
        Folder that ``file_name`` is relative to; names may contain folders but never lead out of it.
    missing
        What to do when image files do not exist: ``"fail"``, or ``"skip"`` with a warning;
        :attr:`missing_files` lists them.
    check_sizes
        False: take the boxes as they are and read no headers.
    group
        ``None``, a field of the image entries (``"video_id"``), or a function from sample to group.
    rule
        How images are decoded.
    id_prefix
        Put before the file name to form the id.
    name
        Name in reports; by default that of the annotation file.

    Raises
    ------
    DatasetError
        On first use: no such file or folder, malformed JSON (file and line), missing keys, ids that occur
        twice or lead nowhere, missing images.
    """

    def __init__(
        self,
        annotation_json: str | os.PathLike[str],
        image_folder: str | os.PathLike[str],
        *,
        missing: str = "fail",
        check_sizes: bool = True,
        group: GroupRule = None,
        rule: DecodingRule = DEFAULT_RULE,
        id_prefix: str = "",
        name: str | None = None,
    ) -> None:
        if missing not in ("fail", "skip"):
            raise ArgumentError(f"missing={missing!r}: need 'fail' or 'skip'")
        self.annotation_file = Path(annotation_json).expanduser().absolute()
        self.image_folder = Path(image_folder).expanduser().absolute()
        super().__init__((), name=name or self.annotation_file.stem)
        self._known = None
        self._missing_rule = missing
        self._check_sizes = check_sizes
        self._group_rule = group
        self._rule = rule
        self._id_prefix = id_prefix
        self._missing_files: tuple[str, ...] = ()

    @property
    def missing_files(self) -> tuple[str, ...]:
        """File names without a file, with ``missing="skip"``."""
        _ = self.samples  # read on first use
        return self._missing_files

    def _read(self) -> Sequence[Sample]:
        if not self.image_folder.is_dir():
            raise DatasetError(f"image folder {self.image_folder} does not exist")
        content = self._content()
        names = _category_names(self.annotation_file, content.get("categories", []))
        self._classes = tuple(names.values())
        self._categories = tuple(MappingProxyType(entry) for entry in content.get("categories", []))
        images = _by_id(self.annotation_file, content["images"], "images")
        objects = _objects_by_image(self.annotation_file, content.get("annotations", []), images, names)
        files = self._files(images)

        samples: list[Sample] = []
        left_out: dict[str, int] = {}
        other_size: list[str] = []
        for image_id, (file_name, file) in files.items():
            entry = images[image_id]
            sample_id = self._id_prefix + file_name
            corners, labels, crowds = objects.get(image_id, ([], [], 0))
            size = _annotated_size(entry)
            if corners and size is not None and self._check_sizes:
                upright = _upright(file, size, corners, self._rule)
                if upright is None:
                    other_size.append(sample_id)
                else:
                    size, corners = upright
            boxes, without_area = corner_boxes(corners, labels, size)
            if without_area:
                left_out[sample_id] = without_area
            metadata = {key: value for key, value in entry.items() if key not in ("id", "file_name")}
            metadata |= {"coco_id": image_id, "crowd_boxes": crowds}
            label = entry.get("label") if SAMPLE in entry else None
            sample = Sample(
                sample_id,
                FileSource(file, self._rule),
                label=label if isinstance(label, str) else None,
                boxes=boxes,
            )
            samples.append(restored(sample, metadata, COCO_FIELDS, id_prefix=self._id_prefix))
        warn_of_boxes(self.name, left_out)
        if other_size:
            warnings.warn(
                f"{self.name}: {len(other_size)} images have another size than annotated, so their boxes "
                f"may not fit: {shown(other_size)}",
                SemcovWarning,
                stacklevel=2,
            )
        return with_groups(samples, self._group_rule)

    def _content(self) -> Mapping[str, Any]:
        text = read_text(self.annotation_file)
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:  # the latter for absurdly nested files
            raise json_error(self.annotation_file, error) from error
        if not isinstance(content, dict) or "images" not in content:
            raise DatasetError(
                f"{self.annotation_file}: no 'images'; need COCO's images, annotations, categories"
            )
        for key in ("images", "annotations", "categories"):
            entries = content.get(key, [])
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise DatasetError(f"{self.annotation_file}: {key!r} must be a list of objects")
        return content

    def _files(self, images: Mapping[Any, Mapping[str, Any]]) -> dict[Any, tuple[str, Path]]:
        """Return image id → portable file name and file, sorted by name; check that the files exist."""
        folder = self.image_folder.resolve()
        files: dict[Any, tuple[str, Path]] = {}
        missing: list[str] = []
        for image_id, entry in images.items():
            where = f"{self.annotation_file}, image {image_id!r}"
            file_name = contained(folder, entry.get("file_name"), where=where)
            if (folder / file_name).is_file():
                files[image_id] = (portable_name(file_name), self.image_folder / file_name)
            else:
                missing.append(file_name)
        if missing:
            text = f"{len(missing)} of {len(images)} images are not in {self.image_folder}: {shown(missing)}"
            if self._missing_rule == "fail":
                raise DatasetError(f"{self.annotation_file}: {text}; or pass missing='skip'")
            warnings.warn(f"{self.name}: {text}; they are skipped", SemcovWarning, stacklevel=2)
            self._missing_files = tuple(missing)
        return dict(sorted(files.items(), key=lambda item: item[1][0]))


def _by_id(file: Path, entries: Sequence[dict[str, Any]], what: str) -> dict[Any, dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    for entry in entries:
        identity = entry.get("id")
        if not isinstance(identity, (int, float, str)):
            raise DatasetError(f"{file}: an entry of {what!r} has id {identity!r}; need a number or text")
        if identity in found:
            raise DatasetError(f"{file}: id {identity!r} occurs twice in {what!r}")
        found[identity] = entry
    return found


def _category_names(file: Path, categories: Sequence[dict[str, Any]]) -> dict[Any, str]:
    names: dict[Any, str] = {}
    for identity, entry in _by_id(file, categories, "categories").items():
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise DatasetError(f"{file}: category {identity!r} has name {name!r}; need text")
        if name in names.values():
            raise DatasetError(f"{file}: two categories have the name {name!r}")
        names[identity] = name
    return names


def _objects_by_image(
    file: Path, annotations: Sequence[dict[str, Any]], images: Mapping[Any, Any], names: Mapping[Any, str]
) -> dict[Any, tuple[list[Corners], list[str], int]]:
    """Return image id → corners, class names, number of crowds. Annotations without a box are no objects."""
    lost = [
        f"annotation {entry.get('id')!r}: {key} {entry.get(key)!r}"
        for entry in annotations
        for key, known in (("image_id", images), ("category_id", names))
        if (key == "image_id" or "bbox" in entry)
        and not (isinstance(entry.get(key), (int, float, str)) and entry[key] in known)
    ]
    if lost:
        raise DatasetError(f"{file}: {len(lost)} references lead nowhere: {shown(lost)}")
    objects: dict[Any, tuple[list[Corners], list[str], int]] = {}
    for entry in annotations:
        if "bbox" not in entry:  # captions
            continue
        corners, labels, crowds = objects.get(entry["image_id"], ([], [], 0))
        if entry.get("iscrowd"):
            crowds += 1
        else:
            corners.append(corners_of_box(entry["bbox"], where=f"{file}, annotation {entry.get('id')!r}"))
            labels.append(names[entry["category_id"]])
        objects[entry["image_id"]] = (corners, labels, crowds)
    return objects


def _annotated_size(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    width, height = entry.get("width"), entry.get("height")
    if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0:
        return width, height
    return None


def _upright(
    file: Path, size: tuple[int, int], corners: list[Corners], rule: DecodingRule
) -> tuple[tuple[int, int], list[Corners]] | None:
    """Return size and boxes in the upright image's frame; ``None`` if the annotated size fits neither way."""
    from pytest_semcov.data.pixels import stored_size

    header = stored_size(file, rule)
    if header is None:  # decoding tells why
        return size, corners
    width, height, orientation = header
    quarter_turn = orientation >= 5
    if size == ((height, width) if quarter_turn else (width, height)):
        return size, corners
    if size == (width, height) and quarter_turn:
        return (height, width), [_turned(box, orientation, width, height) for box in corners]
    return None


def _turned(box: Corners, orientation: int, width: int, height: int) -> Corners:
    """Turn a box as EXIF orientations 5 to 8 turn an image that is stored as ``width`` × ``height``."""
    x0, y0, x1, y1 = box
    mirrored_x, mirrored_y = (width - x1, width - x0), (height - y1, height - y0)
    new_x = (y0, y1) if orientation in (5, 8) else mirrored_y
    new_y = (x0, x1) if orientation in (5, 6) else mirrored_x
    return new_x[0], new_y[0], new_x[1], new_y[1]
