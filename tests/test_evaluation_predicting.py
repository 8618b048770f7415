"""Models under test and their predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pytest_semcov import ImageList, SampleDataset
from pytest_semcov.data.samples import Box, Provenance
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.errors import ArgumentError, DatasetError, ModelError, NonFiniteError
from pytest_semcov.evaluation.detections import MOST_DETECTIONS
from pytest_semcov.evaluation.making import (
    classifier_from_callable,
    classifier_from_module,
    detector_from_callable,
    detector_from_module,
)
from pytest_semcov.evaluation.models import ModelUnderTest
from pytest_semcov.evaluation.predicting import independent_groups, predict, true_classes, true_objects

CLASSES = ("dark", "bright")


def pictures(count: int = 6, **columns: Any) -> ImageList:
    """Return images of rising brightness and different sizes."""
    images = [Image.new("RGB", (8 + number, 9), (40 * number + 5,) * 3) for number in range(count)]
    return ImageList(images, ids=[f"{number}.png" for number in range(count)], **columns)


def brightness(images: list[Image.Image]) -> list[float]:
    return [float(np.asarray(image).mean()) / 255 for image in images]


class Network(torch.nn.Module):
    """Logits by brightness."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([-4.0, 4.0]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(1, 2, 3))[:, None] * self.weight


class TestClassifiers:
    def test_logits_become_probabilities(self) -> None:
        model = classifier_from_callable(
            lambda images: [[-4 * value, 4 * value - 2] for value in brightness(images)], classes=CLASSES
        )

        found = predict(pictures(), model)

        values = np.array(brightness([sample.load() for sample in pictures()]))
        wanted = 1 / (1 + np.exp(-(8 * values - 2)))
        assert found.rows[:, 1] == pytest.approx(wanted, abs=1e-6)
        assert found.codes().tolist() == [0, 0, 1, 1, 1, 1]
        assert found.confidence() == pytest.approx(np.maximum(wanted, 1 - wanted), abs=1e-6)
        assert isinstance(model, ModelUnderTest)

    @pytest.mark.parametrize("numbers", [False, True])
    def test_labels(self, numbers: bool) -> None:
        def label(images: list[Image.Image]) -> list[Any]:
            codes = [int(value > 0.3) for value in brightness(images)]
            return codes if numbers else [CLASSES[code] for code in codes]

        found = predict(pictures(), classifier_from_callable(label, classes=CLASSES, output="labels"))

        assert found.codes().tolist() == [0, 0, 1, 1, 1, 1]
        assert not found.probabilistic

    def test_probabilities(self) -> None:
        def probabilities(images: list[Image.Image]) -> Any:
            return torch.tensor([[1 - value, value] for value in brightness(images)])

        found = predict(
            pictures(), classifier_from_callable(probabilities, classes=CLASSES, output="probabilities")
        )

        assert found.rows[:, 1] == pytest.approx(brightness([s.load() for s in pictures()]), abs=1e-6)

    def test_modules(self) -> None:
        network = Network()
        model = classifier_from_module(network, classes=CLASSES, input_size=8)
        before = model.fingerprint

        assert set(predict(pictures(), model).codes().tolist()) == {0, 1}
        assert classifier_from_module(network, classes=("a", "b"), input_size=8).fingerprint != before
        with torch.no_grad():
            network.weight += 1
        assert model.fingerprint != before
        assert network.training

    def test_wrong_forms_are_named(self) -> None:
        def run(rows: list[list[float]], **options: Any) -> Any:
            model = classifier_from_callable(
                lambda images: rows * len(images), classes=CLASSES, name="mine", **options
            )
            return predict(pictures(2), model, batch_size=1)

        with pytest.raises(ModelError, match=r"mine gives an array of shape \(1, 3\).* needed is \(1, 2\)"):
            run([[1.0, 2.0, 3.0]])
        with pytest.raises(ModelError, match="are probabilities already; give output='probabilities'"):
            run([[0.25, 0.75]])
        with pytest.raises(ModelError, match="give output='logits'"):
            run([[1.0, 2.0]], output="probabilities")
        with pytest.raises(NonFiniteError, match=r"mine gives NaN.*2 of 2 images"):
            run([[np.nan, 1.0]])
        with pytest.raises(ArgumentError, match="output='scores'; use logits, probabilities, labels"):
            run([[1.0, 2.0]], output="scores")
        for classes in ([], ["a", "a"], "ab"):
            with pytest.raises(ArgumentError, match="need a list of names, each once"):
                classifier_from_callable(len, classes=classes)

    @pytest.mark.parametrize("labels", [["dim"], [2], [-1], [0.5]])
    def test_labels_that_are_no_class_are_named(self, labels: list[Any]) -> None:
        model = classifier_from_callable(
            lambda images: labels * len(images), classes=CLASSES, output="labels", name="mine"
        )

        with pytest.raises(ModelError, match="mine gives class"):
            predict(pictures(2), model)


def two_boxes(images: list[Image.Image]) -> list[dict[str, Any]]:
    """Find a weak and a strong object in bright images, nothing in dark ones."""
    found = []
    for image, value in zip(images, brightness(images), strict=True):
        there = value > 0.3
        found.append(
            {
                "boxes": [[0, 0, 2, 3], [1, 1, image.width, 5]] if there else [],
                "labels": ["dark", "bright"] if there else [],
                "scores": [0.25, 0.75] if there else [],
            }
        )
    return found


class TestDetectors:
    def test_best_first_and_none_where_there_are_none(self) -> None:
        model = detector_from_callable(two_boxes, classes=CLASSES)

        found = predict(pictures(), model, batch_size=4).detections()

        assert [len(objects.boxes) for objects in found] == [0, 0, 2, 2, 2, 2]
        assert found[3].boxes.tolist() == [[1, 1, 11, 5], [0, 0, 2, 3]]
        assert found[3].codes.tolist() == [1, 0]
        assert found[3].scores is not None
        assert found[3].scores.tolist() == [0.75, 0.25]
        assert isinstance(model, ModelUnderTest)

    def test_the_weakest_of_too_many_are_dropped(self) -> None:
        scores = np.linspace(0, 1, MOST_DETECTIONS + 20)

        def many(images: list[Image.Image]) -> list[dict[str, Any]]:
            count = len(scores)
            return [
                {"boxes": np.tile([0, 0, 1, 1], (count, 1)), "labels": np.zeros(count, int), "scores": scores}
                for _ in images
            ]

        (found,) = predict(pictures(1), detector_from_callable(many, classes=CLASSES)).detections()

        assert found.scores == pytest.approx(scores[::-1][:MOST_DETECTIONS], abs=1e-6)

    def test_torchvision(self) -> None:
        from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

        torch.manual_seed(0)
        network = fasterrcnn_mobilenet_v3_large_320_fpn(
            weights=None, weights_backbone=None, num_classes=3, min_size=32, max_size=64, box_score_thresh=0.0
        )
        model = detector_from_module(network, classes=("background", "a", "b"), trained=False)
        dataset = pictures(3)

        found = predict(dataset, model).detections()

        with torch.no_grad():
            network.eval()
            wanted = network([torch.from_numpy(np.array(s.load())).permute(2, 0, 1) / 255 for s in dataset])
            network.train()
        for objects, known in zip(found, wanted, strict=True):
            assert objects.boxes == pytest.approx(known["boxes"].numpy(), abs=1e-3)
            assert sorted(objects.codes) == sorted(known["labels"].tolist())
        assert len(found[0].boxes) > 0
        assert network.training

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            ({"boxes": [[0, 0, 1, 1]], "labels": [0]}, "a result has no scores"),
            ({"boxes": [[0, 0, 1, 1]], "labels": [0], "scores": []}, r"boxes \(1, 4\), labels \(1,\)"),
            ({"boxes": [[0, 0, 1]], "labels": [0], "scores": [1]}, r"boxes \(1, 3\)"),
            ({"boxes": [[0, 0, 1, 1]], "labels": ["dim"], "scores": [1]}, "gives class 'dim'"),
            ({"boxes": [[0, 0, 1, 1]], "labels": [7], "scores": [1]}, r"gives classes \[7\]"),
        ],
    )
    def test_wrong_forms_are_named(self, result: dict[str, Any], message: str) -> None:
        model = detector_from_callable(lambda images: [result] * len(images), classes=CLASSES)

        with pytest.raises(ModelError, match=message):
            predict(pictures(1), model)


class TestCounting:
    def test_each_image_once_per_model_also_from_disk(self, tmp_path: Path) -> None:
        seen: list[int] = []

        def label(images: list[Image.Image]) -> list[int]:
            seen.append(len(images))
            return [int(value > 0.3) for value in brightness(images)]

        dataset = pictures()
        for _ in range(2):
            model = classifier_from_callable(label, classes=CLASSES, output="labels", version="1")
            predict(dataset, model, cache=EmbeddingCache(tmp_path))

        assert sum(seen) == 6


class TestTruth:
    def test_classes_by_name_and_by_mapping(self) -> None:
        dataset = pictures(3, labels=["dark", "light", "dark"])
        samples = list(dataset)

        assert true_classes(samples, CLASSES, names={"light": "bright"}).tolist() == [0, 1, 0]
        with pytest.raises(DatasetError, match=r"1\.png has label 'light' \(1 of 3 images\).*dark, bright"):
            true_classes(samples, CLASSES)
        with pytest.raises(DatasetError, match=r"0\.png has no label \(3 of 3"):
            true_classes(list(pictures(3)), CLASSES)

    def test_objects(self) -> None:
        first, second = pictures(2)
        samples = [replace(first, boxes=(Box("dark", 0, 1, 2, 3),)), second]

        found = true_objects(samples, CLASSES)

        assert (found[0].boxes.tolist(), found[0].codes.tolist()) == ([[0, 1, 2, 3]], [0])
        assert len(found[1].boxes) == 0
        with pytest.raises(DatasetError, match=r"0\.png has a box of 'dark'"):
            true_objects(samples, ("bright",))
        with pytest.raises(DatasetError, match="none of 1 images has a box"):
            true_objects([second], CLASSES)

    def test_copies_of_an_image_are_one_unit(self) -> None:
        """A hundred copies do not make a result a hundred times as sure; in groups, the group decides."""
        first, second = pictures(2)
        copies = [replace(first, id=f"copy {number}") for number in range(3)]

        groups = independent_groups([first, second, *copies])

        assert len(set(groups)) == 2
        assert groups[0] == groups[2] == groups[3] == groups[4]
        assert independent_groups([replace(each, group=each.id) for each in copies]) == [
            f"group copy {number}" for number in range(3)
        ]

    def test_a_synthetic_sample_belongs_to_its_source(self) -> None:
        first, second = pictures(2)
        made = Provenance("0.png", "stub", "1", "day_night", "day", "night", 0)
        samples = SampleDataset(
            [first, second, replace(first, id="synthetic/0.png", provenance=made)], name="mixed"
        )

        groups = independent_groups(list(samples))

        assert groups[0] == groups[2] != groups[1]
        in_a_video = replace(first, group="a")
        with_source = independent_groups([in_a_video, replace(first, id="made", provenance=made)])
        assert with_source == ["group a", "group a"]
        assert independent_groups(
            [replace(first, group="a"), replace(second, group="a", provenance=made)]
        ) == [
            "group a",
            "group a",
        ]
