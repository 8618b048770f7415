"""Average precision: pycocotools' and torchmetrics' numbers, also for resamples and awkward inputs."""

from __future__ import annotations

import contextlib
import io
import math
import sys
from typing import Any

import numpy as np
import pytest

from pytest_semcov.errors import ArgumentError, MissingDependencyError, NonFiniteError, TooFewError
from pytest_semcov.metrics.detection import (
    COCO_THRESHOLDS,
    PUBLISHED_FILTER,
    BoxFilter,
    Objects,
    average_precision,
    match_objects,
    mean_average_precision,
)
from pytest_semcov.metrics.detection_resamples import sorted_detections, weighted_precision
from pytest_semcov.metrics.resampling import resample

NOTHING = Objects(np.empty((0, 4)), np.empty(0, np.intp), np.empty(0))


def objects(*boxes: tuple[float, ...]) -> Objects:
    """Return objects from (class, x0, y0, x1, y1[, score])."""
    rows = np.array(boxes, dtype=float)
    return Objects(
        rows[:, 1:5], rows[:, 0].astype(np.intp), rows[:, 5] if rows.shape[1] > 5 else np.ones(len(rows))
    )


def scene(seed: int, images: int = 40, classes: int = 3) -> tuple[list[Objects], list[Objects]]:
    """Return annotations and detections with ties in the scores, misses, doubles and inventions."""
    generator = np.random.default_rng(seed)
    truth, detected = [], []
    for _ in range(images):
        known: list[tuple[float, ...]] = []
        found: list[tuple[float, ...]] = []
        for _ in range(generator.integers(0, 6)):
            x, y, w, h = *generator.uniform(0, 80, 2), *generator.uniform(4, 40, 2)
            code = float(generator.integers(classes))
            known.append((code, x, y, x + w, y + h))
            for _ in range(generator.choice([0, 1, 1, 1, 2])):
                a, b = generator.normal(0, 3, 2)
                found.append((code, x + a, y + b, x + a + w, y + b + h, generator.integers(0, 11) / 10))
        for _ in range(generator.integers(0, 3)):
            x, y, w, h = *generator.uniform(0, 80, 2), *generator.uniform(4, 40, 2)
            found.append((float(generator.integers(classes)), x, y, x + w, y + h, generator.random()))
        # Rounded, so that libraries in single precision see the same boxes and ties.
        truth.append(objects(*np.round(np.array(known) * 64) / 64) if known else NOTHING)
        detected.append(objects(*np.round(np.array(found) * 64) / 64) if found else NOTHING)
    return truth, detected


def by_pycocotools(
    truth: list[Objects], detected: list[Objects], classes: int, most: int = 100
) -> np.ndarray:
    """Return average precision, (thresholds, classes), NaN without annotations."""
    coco = pytest.importorskip("pycocotools.coco")
    cocoeval = pytest.importorskip("pycocotools.cocoeval")

    def boxes(sets: list[Objects], *, scores: bool) -> list[dict[str, Any]]:
        rows = []
        for number, each in enumerate(sets):
            for row, box in enumerate(each.boxes):
                x0, y0, x1, y1 = box.tolist()
                entry = {
                    "id": len(rows) + 1,
                    "image_id": number + 1,
                    "category_id": int(each.codes[row]) + 1,
                    "bbox": [x0, y0, x1 - x0, y1 - y0],
                    "area": (x1 - x0) * (y1 - y0),
                    "iscrowd": 0,
                }
                rows.append(entry | ({"score": float(each.scores[row])} if scores else {}))
        return rows

    with contextlib.redirect_stdout(io.StringIO()):
        known = coco.COCO()
        known.dataset = {
            "info": {},
            "images": [{"id": number + 1} for number in range(len(truth))],
            "annotations": boxes(truth, scores=False),
            "categories": [{"id": code + 1, "name": str(code)} for code in range(classes)],
        }
        known.createIndex()
        results = boxes(detected, scores=True)
        found = known.loadRes(results) if results else coco.COCO()
        if not results:
            found.dataset = {**known.dataset, "annotations": []}
            found.createIndex()
        evaluation = cocoeval.COCOeval(known, found, "bbox")
        evaluation.params.maxDets = [most]
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[0, 1e10]], ["all"]
        evaluation.evaluate()
        evaluation.accumulate()
    curves = evaluation.eval["precision"][:, :, :, 0, 0]
    return np.where((curves < 0).all(axis=1), np.nan, curves.mean(axis=1))


@pytest.mark.parametrize("seed", range(4))
def test_is_pycocotools_number_on_all_images_and_on_resamples(seed: int) -> None:
    truth, detected = scene(seed)
    draws = resample(len(truth), repeats=3, seed=seed)

    matches = match_objects(truth, detected, 3)

    found = average_precision(matches, draws=np.vstack([np.ones(len(truth), int), draws]))
    for value, draw in zip(found, [np.ones(len(truth), int), *draws], strict=True):
        chosen = np.repeat(np.arange(len(truth)), draw)
        wanted = by_pycocotools([truth[i] for i in chosen], [detected[i] for i in chosen], 3)
        np.testing.assert_allclose(value, wanted, atol=1e-12)
    assert 0.05 < np.nanmean(found) < 0.95


def untied(detected: list[Objects], seed: int) -> list[Objects]:
    """Return the detections with scores that tie between images, but not within one."""
    generator = np.random.default_rng(seed)
    steps = np.arange(1, 33) / 32
    return [
        Objects(each.boxes, each.codes, generator.choice(steps, len(each.codes), replace=False))
        for each in detected
    ]


@pytest.mark.parametrize("keep", [BoxFilter(), BoxFilter(min_area=200, max_aspect=3), PUBLISHED_FILTER])
@pytest.mark.parametrize("seed", range(3))
def test_many_resamples_are_the_same_numbers_as_one_by_one(seed: int, keep: BoxFilter) -> None:
    """Weighed together or counted one after another by the library, which is pycocotools' number."""
    truth, detected = scene(seed)
    sizes = [(120, 120)] * len(truth)
    matches = match_objects(truth, untied(detected, seed), 4, sizes=sizes, keep=keep)  # class 3 is empty
    draws = resample(len(truth), repeats=40, seed=seed)
    found = sorted_detections(matches._evaluations, 4, len(truth), len(COCO_THRESHOLDS))
    assert found is not None

    together = average_precision(matches, draws=draws)

    one_by_one = np.concatenate([average_precision(matches, draws=draw[None]) for draw in draws])
    np.testing.assert_allclose(together, one_by_one, atol=1e-12)
    np.testing.assert_allclose(together, weighted_precision(found, draws), atol=1e-15)
    assert np.isnan(together[..., 3]).all()
    assert 0.05 < np.nanmean(together) < 0.95


def test_ties_within_an_image_are_counted_one_by_one() -> None:
    """Copies of an image are listed one after another, so weights alone would count ties otherwise."""
    hit_and_error = objects((0, 0, 0, 10, 10, 0.5), (0, 50, 50, 60, 60, 0.5))
    truth = [objects((0, 0, 0, 10, 10))] * 2
    matches = match_objects(truth, [hit_and_error] * 2, 1)

    assert sorted_detections(matches._evaluations, 1, 2, len(COCO_THRESHOLDS)) is None
    drawn = average_precision(matches, draws=np.tile([2, 1], (30, 1)))

    wanted = by_pycocotools([truth[0]] * 3, [hit_and_error] * 3, 1)
    np.testing.assert_allclose(drawn, np.tile(wanted, (30, 1, 1)), atol=1e-12)


def test_unknown_form_of_the_library_is_counted_one_by_one() -> None:
    truth, detected = scene(1)
    matches = match_objects(truth, untied(detected, 1), 3)
    draws = resample(len(truth), repeats=25, seed=0)
    wanted = average_precision(matches, draws=draws)

    class Other:
        def __getstate__(self) -> tuple[list[int], ...]:
            return ([1], [1])

    assert sorted_detections([Other()] * 3 * len(truth), 3, len(truth), 10) is None
    one_by_one = np.concatenate([average_precision(matches, draws=draw[None]) for draw in draws])
    np.testing.assert_allclose(wanted, one_by_one, atol=1e-12)


def test_is_torchmetrics_number() -> None:
    detection = pytest.importorskip("torchmetrics.detection")
    import torch

    truth, detected = scene(9)
    # Its own thresholds are rounded to single precision.
    metric = detection.MeanAveragePrecision(
        iou_thresholds=list(COCO_THRESHOLDS),
        rec_thresholds=np.linspace(0, 1, 101).tolist(),
        class_metrics=True,
    )
    metric.update(
        [
            {
                "boxes": torch.from_numpy(each.boxes),
                "labels": torch.from_numpy(each.codes),
                "scores": torch.from_numpy(each.scores),
            }
            for each in detected
        ],
        [{"boxes": torch.from_numpy(each.boxes), "labels": torch.from_numpy(each.codes)} for each in truth],
    )
    wanted = metric.compute()

    precision = average_precision(match_objects(truth, detected, 3))

    # torchmetrics returns float32.
    assert mean_average_precision(precision, COCO_THRESHOLDS, None) == pytest.approx(
        [float(wanted["map"])], abs=1e-6
    )
    assert mean_average_precision(precision, COCO_THRESHOLDS, 0.5) == pytest.approx(
        [float(wanted["map_50"])], abs=1e-6
    )
    assert precision[0].mean(axis=0) == pytest.approx(wanted["map_per_class"].numpy(), abs=1e-6)


ONE = objects((0, 10, 10, 20, 20))
AWKWARD = {
    "no detections": ([ONE, ONE], [NOTHING, NOTHING]),
    "no annotations": ([NOTHING, NOTHING], [objects((0, 1, 1, 5, 5, 0.5)), NOTHING]),
    "nothing at all": ([NOTHING, NOTHING], [NOTHING, NOTHING]),
    "ties between a hit and an error": (
        [ONE, ONE],
        [objects((0, 0, 0, 5, 5, 0.5), (0, 10, 10, 20, 20, 0.5)), ONE],
    ),
    "the other class only": ([ONE, ONE], [objects((1, 10, 10, 20, 20, 0.9)), NOTHING]),
    "two detections of one object": (
        [ONE, ONE],
        [objects((0, 10, 10, 20, 20, 0.9), (0, 10, 10, 20, 21, 0.8)), ONE],
    ),
    "a box without area": ([objects((0, 10, 10, 10, 20)), ONE], [objects((0, 10, 10, 10, 20, 0.9)), ONE]),
    "perfect": ([ONE, ONE], [ONE, ONE]),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_inputs(name: str) -> None:
    truth, detected = AWKWARD[name]

    found = average_precision(match_objects(truth, detected, 2))[0]

    np.testing.assert_allclose(found, by_pycocotools(truth, detected, 2), atol=1e-12)


def test_no_annotations_is_no_number() -> None:
    precision = average_precision(match_objects([NOTHING], [NOTHING], 2))

    assert math.isnan(mean_average_precision(precision, COCO_THRESHOLDS, 0.5)[0])


def test_most_detections_an_image_and_class() -> None:
    truth, detected = scene(3)

    found = average_precision(match_objects(truth, detected, 3, keep=BoxFilter(most=1)))[0]

    np.testing.assert_allclose(found, by_pycocotools(truth, detected, 3, most=1), atol=1e-12)
    assert np.nanmean(found) < np.nanmean(average_precision(match_objects(truth, detected, 3)))


class TestFilters:
    SIZE: tuple[int, int] = (100, 100)
    KEPT = (0, 40, 40, 60, 60)

    @pytest.mark.parametrize(
        ("box", "keep"),
        [
            ((0, 10, 10, 19, 20), BoxFilter(min_area=100)),
            ((0, 10, 10, 19, 20), BoxFilter(min_area_share=0.01)),
            ((0, 10, 10, 11, 19), BoxFilter(max_aspect=8)),
            ((0, 10, 10, 10, 19), BoxFilter(max_aspect=8)),
            ((0, 1, 10, 20, 30), BoxFilter(border=2)),
            ((0, 70, 70, 99, 80), BoxFilter(border=2)),
        ],
    )
    def test_ignored_is_neither_hit_nor_error_dropped_is_an_error(
        self, box: tuple[float, ...], keep: BoxFilter
    ) -> None:
        truth = [objects(self.KEPT, box)]
        # The larger of two boxes with the same top: a filter on the areas of detections lets it pass.
        found = [objects((*self.KEPT, 0.5), (*box[:3], box[3] + 0.001, box[4] + 2, 0.9))]
        sizes = [self.SIZE]

        def score(keep: BoxFilter) -> float:
            matches = match_objects(truth, found, 1, sizes=sizes, keep=keep, thresholds=(0.5,))
            assert matches.counts.tolist() == [1]
            return float(average_precision(matches)[0, 0, 0])

        dropping = BoxFilter(**{**{f: getattr(keep, f) for f in BoxFilter.__slots__}, "drop": True})
        if box[3] > box[1]:  # a box without area overlaps with nothing
            assert score(keep) == pytest.approx(1.0)
        assert score(dropping) == pytest.approx(0.5, abs=0.01)

    def test_weak_and_small_detections_do_not_count(self) -> None:
        truth = [objects(self.KEPT)]
        found = [objects((*self.KEPT, 0.5), (0, 0, 0, 5, 5, 0.9), (0, 70, 70, 90, 90, 0.04))]

        precision = average_precision(
            match_objects(truth, found, 1, sizes=[self.SIZE], keep=PUBLISHED_FILTER)
        )

        assert precision == pytest.approx(np.ones((1, 10, 1)))

    def test_need_sizes(self) -> None:
        with pytest.raises(ArgumentError, match="need sizes="):
            match_objects([ONE], [ONE], 1, keep=PUBLISHED_FILTER)


@pytest.mark.parametrize(
    ("truth", "detected", "error", "message"),
    [
        ([ONE], [], ArgumentError, "annotations of 1 and detections of 0 images"),
        ([], [], TooFewError, "no images"),
        (
            [objects((3, 0, 0, 1, 1))],
            [ONE],
            ArgumentError,
            "annotations of image 0: class 3 to 3, need 0 to 1",
        ),
        ([ONE], [objects((0, 5, 0, 1, 1, 0.5))], ArgumentError, "detections of image 0: a box has x0 > x1"),
        (
            [ONE],
            [objects((0, 0, 0, 1, math.nan, 0.5))],
            NonFiniteError,
            "detections of image 0: a box holds NaN",
        ),
        ([ONE], [objects((0, 0, 0, 1, 1, math.nan))], NonFiniteError, "a score is NaN"),
        ([ONE], [Objects(ONE.boxes, ONE.codes)], ArgumentError, "need one score per box"),
    ],
)
def test_wrong_arguments_are_named(truth: Any, detected: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        match_objects(truth, detected, 2)


def test_wrong_draws_and_thresholds_are_named() -> None:
    matches = match_objects([ONE, ONE], [ONE, ONE], 1)

    with pytest.raises(ArgumentError, match=r"need \(resamples, 2\)"):
        average_precision(matches, draws=[[1, 1, 1]])
    with pytest.raises(ArgumentError, match="draws are float64"):
        average_precision(matches, draws=[[0.5, 1.0]])
    with pytest.raises(TooFewError, match="a resample has no images"):
        average_precision(matches, draws=[[0, 0]])
    with pytest.raises(ArgumentError, match=r"threshold 0\.3: there are 0\.5"):
        mean_average_precision(average_precision(matches), COCO_THRESHOLDS, 0.3)


def test_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)

    with pytest.raises(MissingDependencyError, match=r"pytest-semcov\[detection\]"):
        match_objects([ONE], [ONE], 1)
