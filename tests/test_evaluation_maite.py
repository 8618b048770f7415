"""MAITE models and data sets, held to MAITE's protocols by its own checker, and scored by its own tasks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pytest_semcov.data.arrays import ImageList
from pytest_semcov.data.maite import MaiteDataset, to_maite
from pytest_semcov.data.samples import SampleDataset
from pytest_semcov.data.scenes import RenderedScenes
from pytest_semcov.evaluation.models import ModelUnderTest
from pytest_semcov.evaluation.predicting import predict
from pytest_semcov.evaluation.scores import Scoring, estimate_scores, parse_metric
from pytest_semcov.evaluation.specs import load_model

pytest.importorskip("beartype", reason="maite's spotcheck needs beartype")
spotcheck = pytest.importorskip("maite.spotcheck", reason="maite before 0.10 has no spotcheck")

import torch  # noqa: E402
from maite.protocols import image_classification as ic  # noqa: E402
from maite.protocols import object_detection as od  # noqa: E402
from maite.tasks import evaluate as maite_evaluate  # noqa: E402
from maite.tasks import predict as maite_predict  # noqa: E402

CLASSES = ("car", "truck", "person", "deer")


class Classifier:
    """A MAITE classifier: a fixed linear map of the mean colours of nine tiles."""

    def __init__(self) -> None:
        self.metadata: ic.ModelMetadata = {"id": "tiles", "index2label": dict(enumerate(CLASSES))}
        self.weights = np.random.default_rng(0).normal(size=(27, len(CLASSES)))

    def __call__(self, input_batch: Any) -> list[np.ndarray]:
        return [self.one(np.asarray(array)) for array in input_batch]

    def one(self, array: np.ndarray) -> np.ndarray:
        rows = np.array_split(array.astype(float) / 255, 3, axis=1)
        tiles = [tile.mean(axis=(1, 2)) for row in rows for tile in np.array_split(row, 3, axis=2)]
        colours = np.concatenate(tiles)
        logits = 10 * (colours - colours.mean()) @ self.weights
        share = np.exp(logits - logits.max())
        return np.asarray(share / share.sum())


class Found:
    """What a MAITE detector gives for an image."""

    def __init__(self, boxes: torch.Tensor, labels: torch.Tensor, scores: torch.Tensor) -> None:
        self.boxes, self.labels, self.scores = boxes, labels, scores


class Detector:
    """A MAITE detector: torchvision's, built here with random weights."""

    def __init__(self) -> None:
        detection = pytest.importorskip("torchvision.models.detection")
        self.metadata: od.ModelMetadata = {"id": "ssd", "index2label": dict(enumerate(CLASSES))}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.network = detection.ssdlite320_mobilenet_v3_large(
                weights=None, weights_backbone=None, num_classes=1 + len(CLASSES), score_thresh=0.1
            ).eval()

    def __call__(self, input_batch: Any) -> list[Found]:
        images = [torch.as_tensor(np.asarray(array)).float() / 255 for array in input_batch]
        with torch.inference_mode():
            found = self.network(images)
        # Rounded: of equal images in batches of other sizes, the last digits differ.
        return [
            Found(each["boxes"].round(decimals=2), each["labels"] - 1, each["scores"].round(decimals=3))
            for each in found
        ]


@pytest.fixture(scope="module")
def scenes() -> RenderedScenes:
    return RenderedScenes(24, seed=5, size=64)


def checked(model: Any, protocol: Any) -> Any:
    """Return the model in maite's proxy, which looks at all that goes in and comes out."""
    return spotcheck.spotcheck_component(protocol)(model)


class TestClassification:
    def test_our_data_sets_are_maite_data_sets(self, scenes: RenderedScenes) -> None:
        dataset = spotcheck.spotcheck_component(ic.Dataset)(to_maite(scenes))

        items = [dataset[index] for index in range(len(dataset))]

        assert [CLASSES[int(np.argmax(target))] for _, target, _ in items] == list(scenes.column("label"))

    def test_predictions_are_those_of_maite(self, scenes: RenderedScenes) -> None:
        model = Classifier()

        ours = predict(scenes, load_model(checked(model, ic.Model)))

        batches, _ = maite_predict(model=model, dataset=to_maite(scenes), batch_size=5)
        wanted = np.stack([row for batch in batches for row in batch])
        np.testing.assert_allclose(ours.rows, wanted, atol=1e-6)
        assert len(set(ours.codes().tolist())) > 1

    def test_score_is_that_of_maite(self, scenes: RenderedScenes) -> None:
        torchmetrics = pytest.importorskip("torchmetrics.classification")

        class Accuracy:
            metadata: ic.MetricMetadata = {"id": "accuracy"}  # noqa: RUF012

            def __init__(self) -> None:
                self.metric = torchmetrics.MulticlassAccuracy(len(CLASSES), average="micro")

            def reset(self) -> None:
                self.metric.reset()

            def update(self, predictions: Any, targets: Any, metadata: Any) -> None:
                codes = [
                    torch.as_tensor(np.stack(list(map(np.asarray, each)))) for each in (predictions, targets)
                ]
                self.metric.update(codes[0].argmax(1), codes[1].argmax(1))

            def compute(self) -> dict[str, Any]:
                return {"accuracy": float(self.metric.compute())}

        model = Classifier()
        result, _, _ = maite_evaluate(model=model, dataset=to_maite(scenes), metric=Accuracy(), batch_size=7)

        assert score(scenes, load_model(model), "accuracy") == pytest.approx(result["accuracy"], abs=1e-6)

    def test_maite_data_set_goes_through(self, scenes: RenderedScenes) -> None:
        """Out to MAITE and back in: the same images, labels and score."""
        back = MaiteDataset(spotcheck.spotcheck_component(ic.Dataset)(to_maite(scenes)))
        model = load_model(Classifier())

        assert score(back, model, "accuracy") == score(scenes, model, "accuracy")


class TestDetection:
    def test_our_data_sets_are_maite_data_sets(self, scenes: RenderedScenes) -> None:
        dataset = spotcheck.spotcheck_component(od.Dataset)(to_maite(scenes, "object_detection"))

        found = [dataset[index][1] for index in range(len(dataset))]

        assert [len(target.boxes) for target in found] == [len(sample.boxes) for sample in scenes]

    def test_predictions_are_those_of_maite(self, scenes: RenderedScenes) -> None:
        model, few = Detector(), scenes.subset(range(6))

        ours = predict(few, load_model(checked(model, od.Model), task="detection")).detections()

        batches, _ = maite_predict(model=model, dataset=to_maite(few, "object_detection"), batch_size=3)
        wanted = list(itertools.chain.from_iterable(batches))
        assert sum(len(each.codes) for each in ours) > 0
        for got, want in zip(ours, wanted, strict=True):
            np.testing.assert_allclose(got.boxes, want.boxes.numpy(), atol=0.02)
            np.testing.assert_array_equal(got.codes, want.labels.numpy())
            np.testing.assert_allclose(got.scores, want.scores.numpy(), atol=0.002)


def test_the_checker_sees_what_is_wrong() -> None:
    """It is no formality: a model that breaks the protocol is refused."""

    class Wrong(Classifier):
        def __call__(self, input_batch: Any) -> Any:
            return 3

    class Nameless:
        def __call__(self, input_batch: Any) -> Any:
            return []

    images = SampleDataset(list(ImageList([np.zeros((8, 8, 3), np.uint8)])))
    with pytest.raises(spotcheck.SpotcheckError):
        checked(Wrong(), ic.Model)([np.asarray(images[0].load()).transpose(2, 0, 1)])
    with pytest.raises(AttributeError, match="missing protocol attribute 'metadata'"):
        checked(Nameless(), ic.Model)


def score(dataset: Any, model: ModelUnderTest, metric: str) -> float:
    samples = [dataset[index] for index in range(len(dataset))]
    found = estimate_scores(
        {"all": samples}, {"model": predict(dataset, model)}, Scoring(parse_metric(metric), resamples=20)
    )
    return found["model"]["all"].value
