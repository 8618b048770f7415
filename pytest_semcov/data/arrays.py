"""Images at hand: lists of paths, arrays and PIL images, and torchvision's data sets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_semcov.data.decoding import DEFAULT_RULE, DecodingRule, FileSource, MemorySource
from pytest_semcov.data.metadata import label_texts, portable_name
from pytest_semcov.data.samples import Box, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, DatasetError


class ImageList(SampleDataset):
    """Images given one by one; paths, arrays and PIL images may be mixed.

    Parameters
    ----------
    items
        Paths; PIL images; arrays or CPU tensors ``(height, width)`` or ``(height, width, channels)`` of
        uint8, bool, uint16 or float in [0, 1]; bytes of image files. They are not copied: leave them as
        they are while the list is in use.
    labels, groups
        One an item (text or whole numbers, not mixed), ``None`` where there is none.
    ids
        One an item. By default a path is named by its POSIX path relative to the folder that all paths
        share (so the ids depend on which paths are given together), anything else by its position:
        ``"000007"``.
    metadata
        One mapping an item.
    boxes
        One sequence of :class:`~pytest_semcov.data.samples.Box` an item, in pixels of the upright image.
    rule
        How images are decoded.
    name
        Name in reports.

    Raises
    ------
    ArgumentError
        If ``items`` is one path.
    DatasetError
        If lengths differ, an id occurs twice, or labels mix types.
    """

    def __init__(
        self,
        items: Iterable[object],
        *,
        labels: Iterable[object] | None = None,
        groups: Iterable[object] | None = None,
        ids: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, object]] | None = None,
        boxes: Iterable[Sequence[Box]] | None = None,
        rule: DecodingRule = DEFAULT_RULE,
        name: str = "image list",
    ) -> None:
        if isinstance(items, (str, bytes, os.PathLike)):
            raise ArgumentError(
                f"ImageList takes a list of images, not {items!r}; for a folder use ImageFolder"
            )
        images = list(items)
        names = _default_ids(images) if ids is None else _one_each("ids", ids, len(images))
        unnamed = [index for index, sample_id in enumerate(names) if not isinstance(sample_id, str)]
        if unnamed:
            raise DatasetError(f"id {names[unnamed[0]]!r} of item {unnamed[0]}: ids are text")
        count = len(images)
        label_column = label_texts(_one_each("labels", labels, count), names)
        group_column = label_texts(_one_each("groups", groups, count), names, what="group")
        metadata_column = _one_each("metadata", metadata, count)
        box_column = _one_each("boxes", boxes, count)
        samples = [
            Sample(
                names[index],
                _source_of(image, rule),
                label=label_column[index],
                boxes=_checked_boxes(box_column[index] or (), names[index]),
                metadata=MappingProxyType(dict(metadata_column[index] or {})),
                group=group_column[index],
            )
            for index, image in enumerate(images)
        ]
        super().__init__(samples, name=name)


def from_torchvision(
    dataset: Any, *, rule: DecodingRule = DEFAULT_RULE, name: str | None = None
) -> SampleDataset:
    """Wrap a torchvision classification data set, or any sequence of ``(image, class index)``.

    Parameters
    ----------
    dataset
        A folder data set (with ``samples`` and ``root``) is read by our own decoding, its transform is not
        applied. Any other gives its images through ``dataset[i]``: build it without a transform, or with one
        that gives PIL images or ``(channels, height, width)`` tensors of uint8 or float in [0, 1].
    rule
        How images are decoded.
    name
        Name in reports; by default the name of the data set's type.

    Raises
    ------
    DatasetError
        If targets are not class indices.
    """
    shown_name = name or type(dataset).__name__
    count = len(dataset)
    targets = next(
        (getattr(dataset, column) for column in ("targets", "labels") if hasattr(dataset, column)), None
    )
    if targets is None:  # only by decoding the images
        targets = [dataset[index][1] for index in range(count)]
    classes = [str(entry) for entry in getattr(dataset, "classes", ())]
    labels = [_class_name(targets[index], classes, index) for index in range(count)]
    if hasattr(dataset, "samples") and hasattr(dataset, "root"):
        root = Path(dataset.root).absolute()
        files = [Path(path).absolute() for path, _ in dataset.samples]
        samples = [
            Sample(portable_name(file.relative_to(root).as_posix()), FileSource(file, rule), label)
            for file, label in zip(files, labels, strict=True)
        ]
    else:
        samples = [
            Sample(_position(index), MemorySource(partial(_image_at, dataset, index), rule), label)
            for index, label in enumerate(labels)
        ]
    return SampleDataset(samples, name=shown_name, classes=classes)


def channels_last(image: Any) -> Any:
    """Turn a ``(channels, height, width)`` array or tensor into ``(height, width, channels)``.

    PIL images and ``(height, width)`` arrays stay as they are.

    Raises
    ------
    ValueError
        If there are not 1 to 4 channels in front.
    """
    import numpy as np
    from PIL import Image

    if isinstance(image, Image.Image):
        return image
    values = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    if values.ndim == 2:
        return values
    if values.ndim != 3 or values.shape[0] not in (1, 2, 3, 4):
        raise ValueError(f"image of shape {values.shape}; need (channels, height, width)")
    return values.transpose(1, 2, 0)


def _image_at(dataset: Any, index: int) -> Any:
    return channels_last(dataset[index][0])


def _class_name(target: Any, classes: Sequence[str], index: int) -> str:
    try:
        position = int(target.__index__())
    except (AttributeError, TypeError) as error:
        raise DatasetError(
            f"item {index}: target of type {type(target).__name__}, not a class index; "
            "for boxes use CocoDataset or MaiteDataset"
        ) from error
    if not classes:
        return str(position)
    if not 0 <= position < len(classes):
        raise DatasetError(f"item {index}: class index {position}, but there are {len(classes)} classes")
    return classes[position]


def _source_of(image: object, rule: DecodingRule) -> FileSource | MemorySource:
    if isinstance(image, (str, os.PathLike)):
        return FileSource(Path(image).absolute(), rule)
    return MemorySource(image, rule)


def _position(index: int) -> str:
    return f"{index:06d}"


def _default_ids(images: Sequence[object]) -> list[str]:
    paths = {
        index: Path(os.path.normpath(Path(image).absolute()))
        for index, image in enumerate(images)
        if isinstance(image, (str, os.PathLike))
    }
    try:
        common = os.path.commonpath([path.parent for path in paths.values()]) if paths else ""
    except ValueError:  # Windows: no folder above two drives
        common = ""
    names = {
        index: portable_name((path.relative_to(common) if common else path).as_posix())
        for index, path in paths.items()
    }
    return [names.get(index, _position(index)) for index in range(len(images))]


def _one_each(what: str, values: Iterable[Any] | None, count: int) -> list[Any]:
    column = [None] * count if values is None else list(values)
    if len(column) != count:
        raise DatasetError(f"{len(column)} {what} for {count} images; need one each")
    return column


def _checked_boxes(boxes: Sequence[Box], sample_id: str) -> tuple[Box, ...]:
    for box in boxes:
        if not isinstance(box, Box):
            raise DatasetError(f"{sample_id}: box {box!r}; need Box(label, x0, y0, x1, y1)")
        if not (box.x0 < box.x1 and box.y0 < box.y1):
            raise DatasetError(f"{sample_id}: {box} has no area; x0 < x1 and y0 < y1 are needed")
    return tuple(boxes)
