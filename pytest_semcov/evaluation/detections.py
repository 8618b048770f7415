"""Detections and labels as models give them, brought to rows of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DETECTIONS = 300
"""Most detections that are kept of an image, by score."""

DETECTION_WIDTH = 6
"""Numbers a detection: x0, y0, x1, y1, class, score. Places without a detection hold -1."""


def pack_detections(result: Any, classes: Sequence[str], *, name: str) -> NDArray[np.float32]:
    """Return one image's detections as a row, the best first.

    Parameters
    ----------
    result
        Mapping or object with ``boxes``, ``labels`` and ``scores``. Scores ``(k, classes)`` count by their
        largest value.
    classes
        Names of the classes, for labels that are names.
    name
        The model, for messages.

    Raises
    ------
    ModelError
        If the result has another form, or a box is upside down.
    """
    boxes, labels, scores = (_part(result, part, name) for part in ("boxes", "labels", "scores"))
    boxes = boxes.reshape(-1, 4) if boxes.size == 0 else boxes
    if scores.ndim == 2:
        scores = scores.max(axis=1) if len(scores) else np.empty(0)
    codes = class_numbers(labels, classes, name=name)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not len(boxes) == len(codes) == len(scores):
        raise ModelError(
            f"{name}: boxes {boxes.shape}, labels {labels.shape} and scores {scores.shape} of one image; "
            "needed are (k, 4), (k,) and (k,)"
        )
    corners = boxes.astype(np.float64)
    if (corners[:, :2] > corners[:, 2:]).any():
        raise ModelError(
            f"{name}: a box has x0 > x1 or y0 > y1: {boxes[0].tolist()}; needed are corners x0, y0, x1, y1, "
            "not width and height"
        )
    table = np.column_stack([boxes, codes, scores]).astype(np.float32)
    best = np.argsort(-table[:, 5], kind="stable")[:MOST_DETECTIONS]
    row = np.full((MOST_DETECTIONS, DETECTION_WIDTH), -1, np.float32)
    row[: len(best)] = table[best]
    return row.ravel()


def class_numbers(labels: Any, classes: Sequence[str], *, name: str) -> NDArray[np.intp]:
    """Return class numbers of labels that are names or numbers.

    Raises
    ------
    ModelError
        If a label is no class.
    """
    given = np.asarray(labels)
    if not given.size:
        return np.empty(0, np.intp)
    if given.dtype.kind in "US" or given.dtype == object:
        where = {known: number for number, known in enumerate(classes)}
        unknown = [str(label) for label in given.ravel() if str(label) not in where]
        if unknown:
            raise ModelError(f"{name} gives class {unknown[0]!r}; its classes are {', '.join(classes)}")
        return np.array([where[str(label)] for label in given.ravel()], np.intp)
    numbers = given.ravel()
    if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= len(classes):
        raise ModelError(
            f"{name} gives classes {numbers[:3].tolist()} ... of {len(classes)}; needed are names or numbers "
            f"from 0 to {len(classes) - 1}"
        )
    return numbers.astype(np.intp)


def _part(result: Any, part: str, name: str) -> NDArray[Any]:
    found = result.get(part) if isinstance(result, Mapping) else getattr(result, part, None)
    if found is None:
        raise ModelError(f"{name}: a result has no {part}; needed are boxes, labels and scores")
    return as_array(found)


def as_array(values: Any) -> NDArray[Any]:
    """Return an array; torch tensors come to main memory."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
