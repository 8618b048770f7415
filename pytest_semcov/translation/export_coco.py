"""Exported images with boxes as a COCO annotation file, which loads back as a COCO data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.exported import COCO_FIELDS, exported_fields

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset, Sample

INSTANCES = "instances.json"
DESCRIPTION = "synthetic images exported by pytest-semcov"


def coco_content(files: Mapping[str, tuple[Sample, tuple[int, int]]], sources: Dataset | None) -> Any:
    """Return what goes into the annotation file.

    ``CocoDataset(place / "instances.json", place)`` then has the exported samples: ids, labels, boxes,
    groups, metadata and provenance. An image has the id of its source image where the source is COCO and
    every image has one of its own, else its number from 1. Crowds and outlines are not part of a sample and
    so not of its export.

    Parameters
    ----------
    files
        File name → the synthetic sample and its width and height in pixels.
    sources
        Gives the categories (see :func:`coco_categories`).
    """
    samples = [sample for sample, _ in files.values()]
    categories = coco_categories(samples, sources)
    category_ids = {entry["name"]: entry["id"] for entry in categories}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, (name, (sample, (width, height))) in zip(_image_ids(samples), files.items(), strict=True):
        entry: dict[str, Any] = {"id": image_id, "file_name": name, "width": width, "height": height}
        if sample.label is not None:
            entry["label"] = sample.label
        images.append(entry | exported_fields(sample, COCO_FIELDS))
        for box in sample.boxes:
            box_width, box_height = box.x1 - box.x0, box.y1 - box.y0
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": category_ids[box.label],
                    "bbox": [box.x0, box.y0, box_width, box_height],
                    "area": box_width * box_height,
                    "iscrowd": 0,
                }
            )
    return {
        "info": {"description": DESCRIPTION},
        "images": images,
        "annotations": annotations,
        "categories": categories,
    }


def coco_categories(samples: Iterable[Sample], sources: Dataset | None) -> list[dict[str, Any]]:
    """Return the categories: those of the source with their ids, then other classes of boxes, sorted.

    Parameters
    ----------
    samples
        Synthetic samples.
    sources
        A data set from COCO annotations (or a view of one) gives its categories as they are. Of any other
        the classes of all its boxes are numbered from 1, so that exports of one source agree.
    """
    entries = [dict(entry) for entry in getattr(sources, "categories", ())]
    everything = list(samples)
    if sources is not None:
        everything += [sources[index] for index in range(len(sources))]
    named = {entry["name"] for entry in entries}
    taken = {entry["id"] for entry in entries}
    number = 0
    for name in sorted({box.label for sample in everything for box in sample.boxes} - named):
        number = next(free for free in range(number + 1, number + len(taken) + 2) if free not in taken)
        entries.append({"id": number, "name": name})
    return entries


def _image_ids(samples: Sequence[Sample]) -> list[Any]:
    known = [sample.metadata.get("coco_id") for sample in samples]
    if all(isinstance(each, (int, str)) and not isinstance(each, bool) for each in known) and (
        len(set(known)) == len(known)
    ):
        return known
    return list(range(1, len(samples) + 1))
