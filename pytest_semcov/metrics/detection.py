"""Average precision of detectors, for many resamples of the images at once.

Matching and accumulation are those of COCO, by faster-coco-eval; an image is matched once, however many
resamples are scored.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError, missing_dependency
from pytest_semcov.metrics.arrays import Doubles, Indices
from pytest_semcov.metrics.detection_resamples import sorted_detections, weighted_precision

COCO_THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
"""Intersection over union from which a detection counts as a hit: 0.5 to 0.95."""


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """The objects of one image, annotated or detected.

    Parameters
    ----------
    boxes
        ``(k, 4)``: x0, y0, x1, y1 in pixels, x0 ≤ x1, y0 ≤ y1.
    codes
        ``(k,)`` class numbers.
    scores
        ``(k,)`` confidences of detections; ``None`` for annotations.
    """

    boxes: Doubles
    codes: Indices
    scores: Doubles | None = None


@dataclass(frozen=True, slots=True)
class BoxFilter:
    """Which annotations and detections count.

    Annotations that do not count are *ignored*: a detection on one is neither hit nor error. With ``drop``
    they are taken away, and a detection on one is an error.

    Parameters
    ----------
    min_area
        Smallest area in square pixels, of annotations and of detections.
    min_area_share
        Smallest share of the image's area, of annotations.
    max_aspect
        Largest ratio of the longer to the shorter side, of annotations.
    border
        Annotations nearer to the image's border than this (pixels) do not count.
    min_score
        Smallest confidence of detections.
    most
        Most detections an image and class, by confidence.
    drop
        Whether annotations that do not count are taken away.
    """

    min_area: float = 0.0
    min_area_share: float = 0.0
    max_aspect: float = math.inf
    border: float = -math.inf
    min_score: float = 0.0
    most: int = 100
    drop: bool = False


_MANY = 20
"""From so many resamples on, all are weighed at once."""

_NO_IMAGES = "a resample has no images"

PUBLISHED_FILTER = BoxFilter(
    min_area=100, min_area_share=0.0002, max_aspect=8, border=2, min_score=0.05, drop=True
)
"""The filters of the DEDUCE paper's detection scores."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Detections of all images, matched with their annotations. Made by :func:`match_objects`.

    Parameters
    ----------
    images, classes
        Numbers of both.
    thresholds
        Intersection over union of a hit.
    counts
        ``(classes,)`` annotations that count.
    """

    images: int
    classes: int
    thresholds: tuple[float, ...]
    counts: Indices
    _parameters: Any = field(repr=False)
    _evaluations: list[Any] = field(repr=False)


def match_objects(
    truth: Sequence[Objects],
    detected: Sequence[Objects],
    classes: int,
    *,
    sizes: Sequence[tuple[int, int]] | None = None,
    keep: BoxFilter | None = None,
    thresholds: Sequence[float] = COCO_THRESHOLDS,
) -> Matches:
    """Match detections with annotations, image by image and class by class, as COCO does.

    Parameters
    ----------
    truth, detected
        One entry an image, in the same order.
    classes
        Number of classes.
    sizes
        Width and height of each image; needed by filters on share of area and border.
    keep
        Which objects count; default: all annotations, 100 detections an image and class.
    thresholds
        Intersection over union of a hit.

    Raises
    ------
    ArgumentError
        If arguments do not fit together; names the image by its position.
    NonFiniteError
        If a box or score is NaN or infinite.
    MissingDependencyError
        If faster-coco-eval is not installed.
    TooFewError
        If there are no images.
    """
    keep = keep or BoxFilter()
    if len(truth) != len(detected):
        raise ArgumentError(f"annotations of {len(truth)} and detections of {len(detected)} images")
    if not truth:
        raise TooFewError("no images to score")
    if sizes is None and (keep.min_area_share > 0 or keep.border > -math.inf):
        raise ArgumentError("filters on share of area or border need sizes=, the images' widths and heights")
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    counts = np.zeros(classes, np.intp)
    for number, (known, found) in enumerate(zip(truth, detected, strict=True)):
        _check(known, classes, f"annotations of image {number}", scores=False)
        _check(found, classes, f"detections of image {number}", scores=True)
        judged = _judged(known, None if sizes is None else sizes[number], keep)
        np.add.at(counts, known.codes[judged], 1)
        annotations += _annotations(known, judged, number, keep)
        results += _results(found, number, keep)
    parameters, evaluations = _evaluate(len(truth), classes, annotations, results, thresholds, keep.most)
    return Matches(len(truth), classes, tuple(thresholds), counts, parameters, evaluations)


def average_precision(matches: Matches, *, draws: ArrayLike | None = None) -> Doubles:
    """Return average precision (101 points of recall, as COCO), per resample, threshold and class.

    Parameters
    ----------
    matches
        See :func:`match_objects`.
    draws
        ``(resamples, images)``: how often each image was drawn; ``None`` = once each, one resample.

    Returns
    -------
    precision
        ``(resamples, thresholds, classes)`` in [0, 1]; NaN for a class without annotations in a resample.

    Raises
    ------
    ArgumentError
        If draws are not whole numbers, one per image.
    TooFewError
        If a resample is empty.
    """
    rows = np.ones((1, matches.images), np.intp) if draws is None else np.asarray(draws)
    if rows.ndim != 2 or rows.shape[1] != matches.images or rows.dtype.kind not in "iu" or rows.min() < 0:
        raise ArgumentError(
            f"draws are {rows.dtype} of shape {rows.shape}: need (resamples, {matches.images}) whole "
            "numbers, 0 or more"
        )
    if len(rows) >= _MANY:
        found = sorted_detections(
            matches._evaluations, matches.classes, matches.images, len(matches.thresholds)
        )
        once = np.ones((1, matches.images), np.intp)
        if found is not None and np.allclose(
            weighted_precision(found, once)[0],
            _accumulate(matches, np.arange(matches.images)),
            rtol=0,
            atol=1e-12,
            equal_nan=True,
        ):
            if not rows.any(axis=1).all():
                raise TooFewError(_NO_IMAGES)
            return weighted_precision(found, rows)
    return np.stack([_accumulate(matches, np.repeat(np.arange(matches.images), row)) for row in rows])


def mean_average_precision(
    precision: Doubles, thresholds: Sequence[float], threshold: float | None
) -> Doubles:
    """Return mean average precision over classes: ``(resamples,)``, NaN where no class has annotations.

    Parameters
    ----------
    precision
        From :func:`average_precision`.
    thresholds
        Those of its second axis.
    threshold
        One of them (mAP@0.5), or ``None`` for the mean over all (mAP@0.5:0.95).

    Raises
    ------
    ArgumentError
        If the threshold is none of them.
    """
    if threshold is not None:
        if threshold not in thresholds:
            raise ArgumentError(f"threshold {threshold}: there are {', '.join(map(str, thresholds))}")
        precision = precision[:, [list(thresholds).index(threshold)]]
    known = ~np.isnan(precision)
    total = np.where(known, precision, 0.0).sum(axis=(1, 2))
    number = known.sum(axis=(1, 2))
    mean: Doubles = np.divide(total, number, out=np.full(len(precision), np.nan), where=number > 0)
    return mean


def _check(objects: Objects, classes: int, where: str, *, scores: bool) -> None:
    boxes, codes = objects.boxes, objects.codes
    if boxes.ndim != 2 or boxes.shape[1] != 4 or codes.shape != (len(boxes),):
        raise ArgumentError(f"{where}: boxes {boxes.shape} and codes {codes.shape}; need (k, 4) and (k,)")
    if not np.isfinite(boxes).all():
        raise NonFiniteError(f"{where}: a box holds NaN or infinity")
    if (boxes[:, :2] > boxes[:, 2:]).any():
        raise ArgumentError(f"{where}: a box has x0 > x1 or y0 > y1; need corners x0, y0, x1, y1")
    if len(codes) and not (codes.min() >= 0 and codes.max() < classes):
        raise ArgumentError(f"{where}: class {codes.min()} to {codes.max()}, need 0 to {classes - 1}")
    if scores:
        if objects.scores is None or objects.scores.shape != (len(boxes),):
            raise ArgumentError(f"{where}: need one score per box")
        if not np.isfinite(objects.scores).all():
            raise NonFiniteError(f"{where}: a score is NaN or infinite")


def _judged(known: Objects, size: tuple[int, int] | None, keep: BoxFilter) -> NDArray[np.bool_]:
    """Return which annotations count."""
    width, height = (known.boxes[:, 2:] - known.boxes[:, :2]).T
    area = width * height
    shorter, longer = np.minimum(width, height), np.maximum(width, height)
    aspect = np.divide(longer, shorter, out=np.full(len(area), np.inf), where=shorter > 0)
    judged: NDArray[np.bool_] = (area >= keep.min_area) & (aspect <= keep.max_aspect)
    if size is not None:
        judged &= area >= keep.min_area_share * size[0] * size[1]
        judged &= (known.boxes[:, :2] >= keep.border).all(axis=1)
        judged &= (known.boxes[:, 2:] <= np.array(size) - keep.border).all(axis=1)
    return judged


def _annotations(
    known: Objects, judged: NDArray[np.bool_], image: int, keep: BoxFilter
) -> list[dict[str, Any]]:
    return [
        {
            "image_id": image + 1,
            "category_id": int(code) + 1,
            "bbox": _corner_and_size(box),
            "iscrowd": 0,
            # Outside the range of areas means ignored, with the usual intersection over union.
            "area": 1.0 if counts else -1.0,
        }
        for box, code, counts in zip(known.boxes, known.codes, judged, strict=True)
        if counts or not keep.drop
    ]


def _results(found: Objects, image: int, keep: BoxFilter) -> list[dict[str, Any]]:
    scores = found.scores if found.scores is not None else np.empty(0)
    area = np.prod(found.boxes[:, 2:] - found.boxes[:, :2], axis=1)
    kept = (scores >= keep.min_score) & (area >= keep.min_area)
    return [
        {
            "image_id": image + 1,
            "category_id": int(found.codes[row]) + 1,
            "bbox": _corner_and_size(found.boxes[row]),
            "score": float(scores[row]),
        }
        for row in np.flatnonzero(kept)
    ]


def _corner_and_size(box: Doubles) -> list[float]:
    return [float(box[0]), float(box[1]), float(box[2] - box[0]), float(box[3] - box[1])]


def _evaluate(
    images: int,
    classes: int,
    annotations: list[dict[str, Any]],
    results: list[dict[str, Any]],
    thresholds: Sequence[float],
    most: int,
) -> tuple[Any, list[Any]]:
    """Return the library's parameters and its matches, class by class and image by image."""
    try:
        from faster_coco_eval import COCO, COCOeval_faster
    except ImportError as error:
        raise missing_dependency(
            "faster-coco-eval", extra="detection", purpose="average precision"
        ) from error

    truth = COCO(
        {
            "images": [{"id": number + 1} for number in range(images)],
            "annotations": [{"id": number + 1, **each} for number, each in enumerate(annotations)],
            "categories": [{"id": number + 1, "name": str(number)} for number in range(classes)],
        }
    )
    evaluation = COCOeval_faster(
        truth, truth.loadRes(results), "bbox", print_function=_ignore, separate_eval=True
    )
    evaluation.params.iouThrs = np.asarray(thresholds, dtype=np.float64)
    evaluation.params.maxDets = [most]
    evaluation.params.areaRng, evaluation.params.areaRngLbl = [[-0.5, 1e18]], ["all"]
    evaluation.evaluate()
    return evaluation._paramsEval, evaluation._evalImgs_cpp


def _ignore(*_: object) -> None:
    """Take the place of the library's printing."""


def _accumulate(matches: Matches, drawn: Indices) -> Doubles:
    from faster_coco_eval import faster_eval_api_cpp as library

    if not len(drawn):
        raise TooFewError(_NO_IMAGES)
    parameters = copy.copy(matches._parameters)
    parameters.imgIds = list(range(len(drawn)))
    chosen = [
        matches._evaluations[code * matches.images + image]
        for code in range(matches.classes)
        for image in drawn
    ]
    precision = np.asarray(library.COCOevalAccumulate(parameters, chosen)["precision"], dtype=np.float64)
    # (thresholds, recalls, classes, areas, numbers of detections), -1 without annotations.
    curves = precision.reshape(len(matches.thresholds), -1, matches.classes)
    return np.where((curves < 0).all(axis=1), np.nan, curves.mean(axis=1))
