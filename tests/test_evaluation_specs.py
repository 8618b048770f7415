"""Models under test from spec strings, modules, functions and MAITE models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pytest_semcov import ImageList
from pytest_semcov.errors import ArgumentError, ModelError
from pytest_semcov.evaluation.models import Classifier, Detector
from pytest_semcov.evaluation.predicting import predict
from pytest_semcov.evaluation.specs import load_model

CLASSES = ["empty", "animal", "car"]


def pictures(count: int = 3) -> ImageList:
    generator = np.random.default_rng(1)
    return ImageList(
        [Image.fromarray(generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(count)]
    )


class TestTorchvision:
    def test_a_file_with_own_classes(self, tmp_path: Path) -> None:
        from torchvision import models

        torch.manual_seed(3)
        network = models.get_model("shufflenet_v2_x0_5", weights=None, num_classes=3).eval()
        torch.save(network.state_dict(), tmp_path / "ours.pt")

        model = load_model(
            f"torchvision:shufflenet_v2_x0_5@{tmp_path / 'ours.pt'}", classes=CLASSES, device="cpu"
        )

        found = predict(pictures(), model)
        transform = models.get_model_weights("shufflenet_v2_x0_5").DEFAULT.transforms()
        with torch.no_grad():
            wanted = network(torch.stack([transform(sample.load()) for sample in pictures()])).softmax(dim=1)
        assert found.rows == pytest.approx(wanted.numpy(), abs=1e-5)
        assert (model.classes, model.task, model.trained) == (tuple(CLASSES), "classification", True)

    def test_another_number_of_classes_does_not_fit(self, tmp_path: Path) -> None:
        from torchvision import models

        network = models.get_model("shufflenet_v2_x0_5", weights=None, num_classes=5)
        torch.save(network.state_dict(), tmp_path / "ours.pt")

        with pytest.raises(ModelError, match="fc"):
            load_model(f"torchvision:shufflenet_v2_x0_5@{tmp_path / 'ours.pt'}", classes=CLASSES)
        with pytest.raises(ArgumentError, match="have 1000 classes, not 3"):
            load_model("torchvision:shufflenet_v2_x0_5", classes=CLASSES)

    def test_random_weights_have_the_pretrained_classes(self) -> None:
        model = load_model("torchvision:shufflenet_v2_x0_5?untrained", device="cpu")

        assert len(model.classes) == 1000
        assert not model.trained

    def test_detectors(self) -> None:
        name = "torchvision:ssdlite320_mobilenet_v3_large?untrained"
        model = load_model(name, classes=["background", *CLASSES], device="cpu")

        assert isinstance(model, Detector)
        assert model.task == "detection"
        assert len(predict(pictures(2), model).detections()) == 2

    def test_unknown(self) -> None:
        with pytest.raises(ArgumentError, match=r"it has .*resnet18"):
            load_model("torchvision:resnet19")


def test_timm_file_with_own_classes(tmp_path: Path) -> None:
    import timm
    from safetensors.torch import save_file

    torch.manual_seed(3)
    network = timm.create_model("test_vit.r160_in1k", pretrained=False, num_classes=3).eval()
    save_file(network.state_dict(), tmp_path / "ours.safetensors")

    model = load_model(f"timm:test_vit@{tmp_path / 'ours.safetensors'}", classes=CLASSES, device="cpu")

    assert predict(pictures(), model).rows.shape == (3, 3)
    assert len(load_model("timm:test_vit?untrained", device="cpu").classes) == 1000


def test_objects_and_what_is_none() -> None:
    network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    model = load_model(network, classes=CLASSES, name="mean colour")

    assert isinstance(model, Classifier)
    assert load_model(model) is model
    assert load_model(lambda images: [[0.0, 1.0, 2.0]] * len(images), classes=CLASSES).classes == tuple(
        CLASSES
    )
    assert load_model(lambda images: [], classes=CLASSES, task="detection").task == "detection"
    with pytest.raises(ArgumentError, match="Sequential does not say its classes"):
        load_model(network)
    with pytest.raises(ArgumentError, match="a int is no model under test"):
        load_model(3)
    with pytest.raises(ArgumentError, match="task='segmentation'"):
        load_model(network, task="segmentation")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a model under test is one of"):
        load_model("builtin")


class MaiteClassifier:
    """A MAITE model that calls everything a car, the darker the surer."""

    def __init__(self) -> None:
        self.metadata: Any = {"id": "cars", "index2label": dict(enumerate(CLASSES))}

    def __call__(self, input_batch: Any) -> Any:
        assert all(array.shape[0] == 3 and array.dtype == np.uint8 for array in input_batch)
        share = [float(array.mean()) / 255 for array in input_batch]
        return [np.array([value / 2, value / 2, 1 - value]) for value in share]


class Target:
    def __init__(self) -> None:
        self.boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0]])
        self.labels = torch.tensor([2])
        self.scores = torch.tensor([[0.1, 0.2, 0.7]])


class MaiteDetector:
    def __init__(self) -> None:
        self.metadata: Any = {"id": "boxes", "index2label": dict(enumerate(CLASSES))}

    def __call__(self, input_batch: Any) -> Any:
        return [Target() for _ in input_batch]


class TestMaite:
    def test_are_maite_models(self) -> None:
        from maite.protocols import image_classification, object_detection

        assert isinstance(MaiteClassifier(), image_classification.Model)
        assert isinstance(MaiteDetector(), object_detection.Model)

    def test_classification(self) -> None:
        model = load_model(MaiteClassifier())

        found = predict(pictures(), model)

        assert (model.name, model.classes) == ("cars", tuple(CLASSES))
        shares = [np.asarray(sample.load()).mean() / 255 for sample in pictures()]
        assert found.rows[:, 2] == pytest.approx(1 - np.array(shares), abs=1e-6)

    def test_detection(self) -> None:
        found = predict(pictures(2), load_model(MaiteDetector(), task="detection")).detections()

        assert found[1].codes.tolist() == [2]
        assert found[1].scores == pytest.approx([0.7])

    def test_without_names_of_classes(self) -> None:
        model = MaiteClassifier()
        model.metadata = {"id": "cars"}

        with pytest.raises(ArgumentError, match="cars: its metadata has no index2label"):
            load_model(model)
        assert load_model(model, classes=CLASSES).classes == tuple(CLASSES)
