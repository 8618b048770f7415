"""Average precision of many resamples at once: what the COCO library computes, one resample after another.

Detections are sorted once; a resample only weighs them. Used where that gives the library's very numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.metrics.arrays import Doubles, Indices

_RECALLS = np.linspace(0.0, 1.0, 101)
_BLOCK = 2_000_000
"""Numbers held at once: resamples times detections."""


@dataclass(frozen=True, slots=True, eq=False)
class SortedDetections:
    """Detections of one class in all images, by falling score.

    Parameters
    ----------
    images
        ``(k,)`` image of each detection.
    hits, errors
        ``(thresholds, k)``: whether it counts as a hit, as an error; neither if it is ignored.
    annotations
        ``(images,)`` annotations that count, per image.
    """

    images: Indices
    hits: NDArray[np.bool_]
    errors: NDArray[np.bool_]
    annotations: Indices


def sorted_detections(
    evaluations: Sequence[Any], classes: int, images: int, thresholds: int
) -> list[SortedDetections] | None:
    """Return the library's matches, class by class, or ``None`` if resamples cannot be weighed.

    Parameters
    ----------
    evaluations
        The library's, class by class and image by image.
    classes, images, thresholds
        Numbers of all three.

    Returns
    -------
    detections
        ``None`` if the library keeps its matches in another form than expected, or if detections of one image
        and class share a score but not their result: where an image is drawn twice, the order of their
        copies would count.
    """
    found = []
    for code in range(classes):
        matched, scores, ignored, owners = [], [], [], []
        annotations = np.zeros(images, np.intp)
        for image in range(images):
            parts = _parts(evaluations[code * images + image], thresholds)
            if parts is None:
                return None
            match, score, ignore, annotations[image] = parts
            if _order_counts(match, score, ignore):
                return None
            matched.append(match)
            scores.append(score)
            ignored.append(ignore)
            owners.append(np.full(len(score), image, np.intp))
        # Stable: equal scores stay in the order of images, as in the library.
        order = np.argsort(-np.concatenate(scores), kind="stable")
        hit, left_out = np.hstack(matched)[:, order], np.hstack(ignored)[:, order]
        owner = np.concatenate(owners)[order]
        found.append(SortedDetections(owner, hit & ~left_out, ~hit & ~left_out, annotations))
    return found


def weighted_precision(found: Sequence[SortedDetections], draws: Indices) -> Doubles:
    """Return average precision at 101 points of recall.

    Parameters
    ----------
    found
        One entry a class.
    draws
        ``(resamples, images)``: how often each image was drawn.

    Returns
    -------
    precision
        ``(resamples, thresholds, classes)`` in [0, 1]; NaN for a class without annotations in a resample.
    """
    thresholds = len(found[0].hits) if found else 0
    precision = np.full((len(draws), thresholds, len(found)), np.nan)
    for code, each in enumerate(found):
        step = max(1, _BLOCK // max(1, len(each.images)))
        for start in range(0, len(draws), step):
            rows = slice(start, start + step)
            times = draws[rows][:, each.images].astype(np.float64)
            known = draws[rows] @ each.annotations
            for level in range(thresholds):
                precision[rows, level, code] = _areas(times, each.hits[level], each.errors[level], known)
    return precision


def _areas(times: Doubles, hits: NDArray[np.bool_], errors: NDArray[np.bool_], known: Indices) -> Doubles:
    """Return average precision, ``(resamples,)``."""
    areas = np.where(known > 0, 0.0, np.nan)
    at = np.flatnonzero(hits)
    if not len(at):
        return areas
    # Between two hits precision only falls, and recall stays: the curve is known by its hits.
    hit_sums = np.cumsum(times[:, at], axis=1)
    error_sums = np.cumsum(np.where(errors, times, 0.0), axis=1)[:, at]
    with np.errstate(invalid="ignore", divide="ignore"):
        recall = hit_sums / known[:, None]
        precision = hit_sums / (hit_sums + error_sums + np.spacing(1))
    envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    for row in np.flatnonzero(known > 0):
        first = np.searchsorted(recall[row], _RECALLS, side="left")
        reached = first[first < len(at)]
        areas[row] = envelope[row, reached].sum() / len(_RECALLS)
    return areas


def _parts(
    evaluation: Any, thresholds: int
) -> tuple[NDArray[np.bool_], Doubles, NDArray[np.bool_], int] | None:
    """Return matches, scores and who is ignored, ``(thresholds, k)``, and the number of annotations."""
    try:
        matches, _, scores, unjudged, ignored = evaluation.__getstate__()[:5]
        score = np.asarray(scores, dtype=np.float64)
        shape = (thresholds, len(score))
        hit = np.asarray(matches, dtype=np.int64).reshape(shape) > 0
        left_out = np.asarray(ignored, dtype=bool).reshape(shape)
        return hit, score, left_out, int(np.count_nonzero(~np.asarray(unjudged, dtype=bool)))
    except (AttributeError, TypeError, ValueError):
        return None


def _order_counts(hit: NDArray[np.bool_], score: Doubles, ignored: NDArray[np.bool_]) -> bool:
    """Return whether detections share a score but not their result."""
    if len(score) < 2:
        return False
    same = np.flatnonzero(score[1:] == score[:-1])
    kinds = np.where(ignored, 2, hit)
    return bool((kinds[:, same] != kinds[:, same + 1]).any())
