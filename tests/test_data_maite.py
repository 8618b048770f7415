"""MAITE data sets in and out."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from pytest_semcov.data.arrays import ImageList
from pytest_semcov.data.decoding import DecodingRule
from pytest_semcov.data.folder import ImageFolder
from pytest_semcov.data.maite import MaiteDataset, to_maite
from pytest_semcov.data.samples import Box, Dataset, Provenance, SampleDataset
from pytest_semcov.errors import ArgumentError, DatasetError, ImageError, SemcovWarning


@dataclass
class Target:
    boxes: Any
    labels: Any
    scores: Any


class Wrapped:
    """A minimal MAITE data set that knows nothing of us."""

    def __init__(self, items: list[tuple[Any, Any, Any]], index2label: dict[Any, str] | None = None) -> None:
        self.items = items
        self.metadata: dict[str, Any] = {"id": "set"}
        if index2label is not None:
            self.metadata["index2label"] = index2label

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int, /) -> tuple[Any, Any, Any]:
        item = self.items[index]
        if isinstance(item, Exception):
            raise item
        return item


PIXELS = np.random.default_rng(0).integers(0, 256, (3, 5, 7), dtype=np.uint8)
NAMES = {0: "cat", 1: "dog", 2: "cow"}


def one_hot(index: int) -> np.ndarray:
    return np.eye(3)[index]


class TestIn:
    def test_classification(self) -> None:
        items = [
            (PIXELS, one_hot(1), {"id": 7, "hour": 3}),
            (PIXELS / 255, [0.7, 0.2, 0.1], {"id": "b"}),
            (PIXELS[:1], np.zeros(3), {"id": "c"}),
        ]
        data = MaiteDataset(Wrapped(items, NAMES))
        assert isinstance(data, Dataset)
        assert data.ids == ("7", "b", "c")
        assert data.column("label") == ["dog", "cat", None]
        assert data.column("hour") == [3, None, None]
        assert data.classes == ("cat", "dog", "cow")
        assert data.name == "set"
        for index in (0, 1):
            np.testing.assert_array_equal(np.asarray(data[index].load()), PIXELS.transpose(1, 2, 0))
        assert (np.asarray(data[2].load())[..., 1] == PIXELS[0]).all()

    def test_detection(self) -> None:
        full = Target(np.array([[0, 1, 2.5, 4], [1, 1, 6, 5]]), np.array([2, 0]), np.ones(2))
        empty = Target(np.empty(0), np.empty(0), np.empty(0))
        items = [(PIXELS, full, {"id": "a", "label": "street"}), (PIXELS, empty, {"id": "b", "label": 4})]
        data = MaiteDataset(Wrapped(items, NAMES), group="label")
        assert data[0].boxes == (Box("cow", 0, 1, 2.5, 4), Box("cat", 1, 1, 6, 5))
        assert data[1].boxes == ()
        assert data[0].label == "street"
        assert data[1].label is None
        assert MaiteDataset(Wrapped(items)).samples[0].boxes[0].label == "2"

    def test_torch_tensors(self) -> None:
        torch = pytest.importorskip("torch")
        target = Target(torch.tensor([[0.0, 0, 1, 1]]), torch.tensor([1]), torch.ones(1, 3))
        data = MaiteDataset(
            Wrapped([(torch.from_numpy(PIXELS), target, {"id": "a"})], {"0": "cat", "1": "dog"})
        )
        assert data[0].boxes == (Box("dog", 0, 0, 1, 1),)
        np.testing.assert_array_equal(np.asarray(data[0].load()), PIXELS.transpose(1, 2, 0))

    def test_field_wise_data_sets_fetch_no_image_for_annotations(self) -> None:
        class FieldWise(Wrapped):
            def __getitem__(self, index: int, /) -> Any:
                raise AssertionError("fetches everything")

            def get_input(self, index: int, /) -> Any:
                return self.items[index][0]

            def get_target(self, index: int, /) -> Any:
                return self.items[index][1]

            def get_metadata(self, index: int, /) -> Any:
                return self.items[index][2]

        data = MaiteDataset(FieldWise([(PIXELS, one_hot(0), {"id": 1})], NAMES))
        assert data.column("label") == ["cat"]
        assert data[0].load().size == (7, 5)

    def test_a_datum_that_cannot_be_read_fails_alone(self) -> None:
        items: list[Any] = [
            (PIXELS, one_hot(0), {"id": "a"}),
            OSError("disk"),
            (PIXELS, one_hot(1), {"id": "c"}),
        ]
        data = MaiteDataset(Wrapped(items, NAMES))
        assert data.ids == ("a", "000001", "c")
        assert data.column("label") == ["cat", None, "dog"]
        assert data[2].load().size == (7, 5)
        with pytest.raises(ImageError, match=r"^000001: the wrapped data set raised .*OSError: disk"):
            data[1].load()

    @pytest.mark.parametrize(
        ("item", "message"),
        [
            ((PIXELS, one_hot(0), {}), "item 0: MAITE metadata needs an 'id'"),
            ((PIXELS, one_hot(0), 3), "item 0: MAITE metadata needs an 'id'"),
            ((PIXELS, np.eye(3), {"id": "a"}), r"a: target of shape \(3, 3\)"),
            ((PIXELS, 1, {"id": "a"}), r"a: target of shape \(\)"),
            ((PIXELS, ["x"], {"id": "a"}), "a: target of shape"),
            ((PIXELS, [np.nan, 1], {"id": "a"}), "a: target with NaN"),
            ((PIXELS, np.eye(4)[3], {"id": "a"}), "a: class index 3 has no name in index2label"),
            ((PIXELS, Target([[0, 0, 1]], [1], [1]), {"id": "a"}), r"a: boxes of shape \(1, 3\)"),
            ((PIXELS, Target([[0, 0, 1, 1]], [1, 2], [1]), {"id": "a"}), r"labels of shape \(2,\)"),
            ((PIXELS, Target([[0, 0, 1, 1]], [9], [1]), {"id": "a"}), "class index 9 has no name"),
        ],
    )
    def test_other_forms_are_named(self, item: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            len(MaiteDataset(Wrapped([item], NAMES)))

    def test_kind_and_names(self) -> None:
        with pytest.raises(ArgumentError, match="kind='detection'"):
            MaiteDataset(Wrapped([]), kind="detection")
        with pytest.raises(DatasetError, match="index2label gives 'a' to several"):
            len(MaiteDataset(Wrapped([], {0: "a", 1: "a"})))
        target = Target([[0, 0, 1, 1]], [1], [1])
        with pytest.raises(DatasetError, match=r"target of shape \(\) and type object"):
            len(MaiteDataset(Wrapped([(PIXELS, target, {"id": 1})]), kind="image_classification"))

    def test_ids_one_as_number_and_as_text(self) -> None:
        with pytest.raises(DatasetError, match="'1' occurs twice"):
            len(MaiteDataset(Wrapped([(PIXELS, [1.0], {"id": 1}), (PIXELS, [1.0], {"id": "1"})])))

    def test_images_of_another_form(self) -> None:
        for pixels, message in (
            (PIXELS.transpose(1, 2, 0), "need .channels, height, width."),
            (PIXELS * 2.0, "float_range"),
        ):
            data = MaiteDataset(Wrapped([(pixels, [1.0], {"id": "a"})]))
            with pytest.raises(ImageError, match=f"^a: .*{message}"):
                data[0].load()
        data = MaiteDataset(
            Wrapped([(PIXELS * 1.0, [1.0], {"id": "a"})]), rule=DecodingRule(float_range=(0, 255))
        )
        np.testing.assert_array_equal(np.asarray(data[0].load()), PIXELS.transpose(1, 2, 0))

    def test_boxes_without_area(self) -> None:
        target = Target([[0, 0, 1, 1], [2, 2, 2, 3]], [0, 0], [1, 1])
        with pytest.warns(SemcovWarning, match="1 boxes without area .*'a'"):
            assert len(MaiteDataset(Wrapped([(PIXELS, target, {"id": "a"})], NAMES))[0].boxes) == 1


def ours(labelled: bool = True) -> SampleDataset:
    images = ImageList(
        [PIXELS.transpose(1, 2, 0), Image.new("L", (4, 4), 9)],
        ids=["a/1", "b"],
        labels=["dog", "cat"] if labelled else None,
        groups=["v", None],
        metadata=[{"hour": 3}, {}],
        boxes=[[Box("car", 0.1, 0.2, 3.3, 4.4), Box("ant", 0, 0, 1, 1)], []],
    )
    provenance = Provenance("b", "stub", "f" * 8, "day_night", "day", "night", 5, versions={"numpy": "2"})
    return SampleDataset(
        [images[0], images[1].with_provenance(provenance)], name="ours", classes=["dog", "emu"]
    )


class TestOut:
    @pytest.mark.parametrize("task", ["image_classification", "object_detection"])
    def test_satisfies_maites_protocols(self, task: str) -> None:
        generic = pytest.importorskip("maite.protocols.generic")
        exported = to_maite(ours(), task)
        assert isinstance(exported, generic.Dataset)
        specific = importlib.import_module(f"maite.protocols.{task}")
        assert isinstance(exported, specific.Dataset)
        assert isinstance(exported, specific.FieldwiseDataset)
        image, target, datum = exported[0]
        assert image.shape == (3, 5, 7)
        if task == "object_detection":
            protocol = specific.ObjectDetectionTarget
            assert isinstance(target, get_args(protocol)[0] if get_args(protocol) else protocol)
        else:
            assert target.shape == (3,)
        assert datum["id"] == "a/1"

    @pytest.mark.parametrize("task", ["image_classification", "object_detection"])
    def test_maites_own_runtime_checks_accept_it(self, task: str) -> None:
        if importlib.util.find_spec("beartype") is None:
            pytest.skip("maite.spotcheck needs beartype")
        spotcheck = pytest.importorskip("maite.spotcheck")
        specific = importlib.import_module(f"maite.protocols.{task}")
        checked = spotcheck.spotcheck_component(specific.Dataset)(to_maite(ours(), task))
        for index in range(len(checked)):
            assert len(checked[index]) == 3

    def test_classification(self) -> None:
        exported = to_maite(ours())
        assert exported.metadata == {"id": "ours", "index2label": {0: "dog", 1: "emu", 2: "cat"}}
        image, target, datum = exported[0]
        assert image.dtype == np.uint8
        np.testing.assert_array_equal(image, PIXELS)
        assert target.tolist() == [1, 0, 0]
        assert datum == {"id": "a/1", "hour": 3, "group": "v"}
        assert exported[1][2]["provenance"]["source_id"] == "b"
        assert [target.tolist() for _, target, _ in exported] == [[1, 0, 0], [0, 0, 1]]

    def test_detection(self) -> None:
        exported = to_maite(ours(), "object_detection")
        assert exported.metadata["index2label"] == {0: "emu", 1: "ant", 2: "car"}
        _, target, datum = exported[0]
        assert target.boxes.tolist() == [[0.1, 0.2, 3.3, 4.4], [0, 0, 1, 1]]
        assert target.labels.tolist() == [2, 1]
        assert target.scores.tolist() == [1, 1]
        assert datum["label"] == "dog"
        assert exported[1][1].boxes.shape == (0, 4)

    def test_round_trips_keep_everything(self) -> None:
        original = ours()
        for task in ("image_classification", "object_detection"):
            back = MaiteDataset(to_maite(original, task), group="group")
            assert back.ids == original.ids
            assert back.column("label") == original.column("label")
            assert back.column("group") == original.column("group")
            assert back.column("hour") == original.column("hour")
            assert [sample.provenance for sample in back] == [sample.provenance for sample in original]
            assert [sample.content_key() for sample in back] == [sample.content_key() for sample in original]
            if task == "object_detection":
                assert [sample.boxes for sample in back] == [sample.boxes for sample in original]

    def test_unlabelled_samples_and_unknown_tasks(self) -> None:
        with pytest.raises(DatasetError, match=r"2 of 2 samples have no label: 'a/1', 'b'"):
            to_maite(ours(labelled=False))
        assert len(to_maite(ours(labelled=False), "object_detection")) == 2
        with pytest.raises(ArgumentError, match="task='detection'"):
            to_maite(ours(), "detection")

    def test_indices_outside(self) -> None:
        with pytest.raises(IndexError):
            to_maite(ours())[2]

    def test_an_empty_class_folder_keeps_its_index(self, tmp_path: Path) -> None:
        for name in ("day", "night"):
            (tmp_path / name).mkdir()
        Image.new("RGB", (2, 2)).save(tmp_path / "day/1.png")
        exported = to_maite(ImageFolder(tmp_path))
        assert exported.metadata["index2label"] == {0: "day", 1: "night"}
        assert MaiteDataset(exported).classes == ("day", "night")
