"""Scores of models on sets of samples, on the same resamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from sklearn import metrics as reference

from pytest_semcov import ImageList
from pytest_semcov.data.samples import Box, Provenance, Sample
from pytest_semcov.errors import ArgumentError, DatasetError, TooFewError
from pytest_semcov.evaluation.detections import DETECTION_WIDTH, MOST_DETECTIONS
from pytest_semcov.evaluation.predicting import Predictions
from pytest_semcov.evaluation.scores import METRICS, Scoring, estimate_scores, parse_metric

CLASSES = ("empty", "animal", "car")


def samples(labels: Sequence[str], prefix: str = "") -> list[Sample]:
    images = [Image.new("RGB", (4, 4), (number % 256, number // 256, 0)) for number in range(len(labels))]
    return list(ImageList(images, ids=[f"{prefix}{n}" for n in range(len(labels))], labels=list(labels)))


def predicted(known: Sequence[Sample], codes: Sequence[int], *, name: str = "model") -> Predictions:
    rows = np.full((len(codes), len(CLASSES)), 0.1, np.float32)
    rows[np.arange(len(codes)), codes] = 0.8
    return Predictions(tuple(sample.id for sample in known), CLASSES, rows, name, "")


def random_case(seed: int, count: int = 60) -> tuple[list[Sample], Predictions, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 3, count)
    codes = np.where(generator.random(count) < 0.7, truth, generator.integers(0, 3, count))
    known = samples([CLASSES[code] for code in truth])
    return known, predicted(known, codes), truth, codes


class TestNames:
    @pytest.mark.parametrize(
        ("text", "kind", "category", "threshold"),
        [
            ("accuracy", "accuracy", None, None),
            ("f1[empty]", "f1", "empty", None),
            ("f1[traffic light]", "f1", "traffic light", None),
            ("map", "map", None, None),
            ("map@0.5", "map", None, 0.5),
            ("map@.75", "map", None, 0.75),
            ("ap@0.5[car]", "ap", "car", 0.5),
            ("ap[car]", "ap", "car", None),
        ],
    )
    def test_known(self, text: str, kind: str, category: str | None, threshold: float | None) -> None:
        metric = parse_metric(text)

        assert (metric.kind, metric.category, metric.threshold) == (kind, category, threshold)

    @pytest.mark.parametrize(
        "text", ["", "recall", "f1", "map[car]", "accuracy[car]", "accuracy@0.5", "ap@0.5"]
    )
    def test_unknown(self, text: str) -> None:
        with pytest.raises(ArgumentError, match=f"there are {', '.join(METRICS)}".replace("[", r"\[")):
            parse_metric(text)

    @pytest.mark.parametrize("text", ["map@0.3", "map@1.5", "map@0.5.5"])
    def test_thresholds(self, text: str) -> None:
        with pytest.raises(ArgumentError):
            parse_metric(text)


class TestClassification:
    @pytest.mark.parametrize("seed", range(3))
    def test_values_are_scikit_learn_s(self, seed: int) -> None:
        known, predictions, truth, codes = random_case(seed)

        def value(metric: str, **options: str) -> float:
            scoring = Scoring(parse_metric(metric), resamples=20, **options)  # type: ignore[arg-type]
            return estimate_scores({"all": known}, {"m": predictions}, scoring)["m"]["all"].value

        assert value("accuracy") == pytest.approx(reference.accuracy_score(truth, codes))
        assert value("balanced_accuracy") == pytest.approx(reference.balanced_accuracy_score(truth, codes))
        assert value("f1_macro") == pytest.approx(reference.f1_score(truth, codes, average="macro"))
        assert value("f1[animal]") == pytest.approx(reference.f1_score(truth == 1, codes == 1))
        assert value("accuracy", class_weighting="balanced") == pytest.approx(
            reference.balanced_accuracy_score(truth, codes)
        )
        assert value("calibration_error") == pytest.approx(abs(np.mean(truth == codes) - 0.8), abs=1e-6)

    def test_two_models_are_paired(self) -> None:
        known, predictions, _, codes = random_case(0)
        # The same but for two images: the difference is much more certain than either score.
        better = predicted(known, codes, name="better")
        wrong = [n for n, sample in enumerate(known) if CLASSES[codes[n]] != sample.label][:2]
        for number in wrong:
            better.rows[number] = 0.1
            better.rows[number, CLASSES.index(str(known[number].label))] = 0.8
        scores = estimate_scores(
            {"all": known}, {"old": predictions, "new": better}, Scoring(parse_metric("accuracy"))
        )

        difference = scores["new"]["all"].minus(scores["old"]["all"])

        assert difference.value == pytest.approx(2 / 60)
        assert difference.replicates.std() < 0.6 * scores["old"]["all"].replicates.std()

    def test_a_synthetic_sample_is_drawn_with_its_source(self) -> None:
        known = samples(["empty", "car"] * 20)
        made = [
            replace(s, id=f"synthetic/{s.id}", provenance=Provenance(s.id, "t", "1", "s", "a", "b", 0))
            for s in known
        ]
        codes = [0, 1] * 20  # half of the images are wrong
        everything = predicted([*known, *made], codes + codes)

        scores = estimate_scores(
            {"real": known, "synthetic": made}, {"m": everything}, Scoring(parse_metric("accuracy"))
        )["m"]

        # Drawn together and scored alike, only the prior's own draws differ.
        assert np.corrcoef(scores["real"].replicates, scores["synthetic"].replicates)[0, 1] > 0.9
        union = estimate_scores(
            {"all": [*known, *made]}, {"m": everything}, Scoring(parse_metric("accuracy"))
        )["m"]["all"]
        assert union.independent == 40
        low, high = union.interval()
        assert high - low > 0.25  # 40 independent images, not 80

    def test_missing_things_are_named(self) -> None:
        known, predictions, _, _ = random_case(0)
        scoring = Scoring(parse_metric("accuracy"))

        with pytest.raises(DatasetError, match="model has no prediction for 'x0'"):
            estimate_scores({"all": samples(["car"] * 3, "x")}, {"m": predictions}, scoring)
        with pytest.raises(TooFewError, match="a set of images to score is empty"):
            estimate_scores({"all": known, "none": []}, {"m": predictions}, scoring)
        with pytest.raises(ArgumentError, match=r"model has classes empty, animal, car"):
            estimate_scores({"all": known}, {"m": predictions}, Scoring(parse_metric("f1[bus]")))
        labels_only = replace(predictions, probabilistic=False)
        with pytest.raises(ArgumentError, match="gives labels only"):
            estimate_scores({"all": known}, {"m": labels_only}, Scoring(parse_metric("calibration_error")))


class TestDetection:
    def case(self) -> tuple[list[Sample], Predictions]:
        """Return ten images with one car each, of which six are found."""
        known = [replace(sample, boxes=(Box("car", 10, 10, 30, 30),)) for sample in samples(["car"] * 10)]
        rows = np.full((10, MOST_DETECTIONS, DETECTION_WIDTH), -1, np.float32)
        rows[:6, 0] = (10, 10, 30, 30, 2, 0.9)
        return known, Predictions(tuple(s.id for s in known), CLASSES, rows.reshape(10, -1), "model", "")

    @pytest.mark.parametrize("metric", ["map", "map@0.5", "ap@0.5[car]", "ap[car]"])
    def test_by_hand(self, metric: str) -> None:
        known, predictions = self.case()

        score = estimate_scores(
            {"all": known}, {"m": predictions}, Scoring(parse_metric(metric), resamples=99)
        )["m"]["all"]

        # Precision 1 up to a recall of .6: 61 of 101 points.
        assert score.value == pytest.approx(61 / 101)
        assert 0.1 < score.interval()[0] < score.value < score.interval()[1] <= 1

    def test_a_class_without_objects_is_no_number(self) -> None:
        known, predictions = self.case()

        score = estimate_scores(
            {"all": known}, {"m": predictions}, Scoring(parse_metric("ap[animal]"), resamples=9)
        )["m"]["all"]

        assert not score.finite
