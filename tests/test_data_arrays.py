"""Lists of images at hand, and torchvision's data sets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov.data.arrays import ImageList, from_torchvision
from pytest_semcov.data.decoding import DecodingRule
from pytest_semcov.data.samples import Box, Dataset
from pytest_semcov.errors import ArgumentError, DatasetError, ImageError


def write_image(file: Path, colour: int = 0) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), (colour, 0, 0)).save(file, "PNG")
    return file


def test_importing_the_sources_loads_nothing_heavy() -> None:
    code = (
        "import sys; from pytest_semcov import ImageFolder, ImageList, CocoDataset, MaiteDataset, to_maite;"
        "ImageFolder('no-such-folder'); CocoDataset('no.json', 'no');"
        "print(sorted({'PIL', 'numpy', 'torch', 'pyarrow', 'maite'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestImageList:
    def test_paths_arrays_and_images_mixed(self, tmp_path: Path) -> None:
        file = write_image(tmp_path / "x" / "a.png", 9)
        items = [
            file,
            np.full((3, 4, 3), 9, np.uint8),
            Image.new("RGB", (4, 3), (9, 9, 9)),
            file.read_bytes(),
        ]
        images = ImageList(items)
        assert isinstance(images, Dataset)
        assert images.ids == ("a.png", "000001", "000002", "000003")
        assert [sample.load().size for sample in images] == [(4, 3)] * 4
        assert images[0].path == file
        assert images[1].path is None
        assert images[1].content_key() == images[2].content_key()
        assert images[0].content_key() == images[3].content_key()
        assert len(ImageList([])) == 0

    def test_paths_are_named_relative_to_their_common_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("a/1.png", "b/1.png"):
            write_image(tmp_path / "set" / name)
        monkeypatch.chdir(tmp_path)
        relative = ImageList(["set/a/1.png", Path("set/b/../b/1.png")])
        absolute = ImageList([tmp_path / "set/a/1.png", str(tmp_path / "set/b/1.png")])
        assert relative.ids == absolute.ids == ("a/1.png", "b/1.png")
        monkeypatch.chdir("/")
        assert relative[1].load().size == (4, 3)
        assert ImageList(["/a.png", "/b/c.png"]).ids == ("a.png", "b/c.png")

    def test_columns(self) -> None:
        images = ImageList(
            np.zeros((3, 2, 2, 3), np.uint8),
            ids=["x", "y", "z"],
            labels=np.array([1, 0, 1]),
            groups=["v", None, "w"],
            metadata=[{"camera": "1"}, {}, {"camera": "2"}],
            boxes=[[Box("car", 0, 0, 1, 1)], [], []],
            name="mine",
        )
        assert images.ids == ("x", "y", "z")
        assert images.column("label") == ["1", "0", "1"]
        assert images.column("group") == ["v", None, "w"]
        assert images.column("camera") == ["1", None, "2"]
        assert images[0].boxes == (Box("car", 0, 0, 1, 1),)
        assert images.classes == ("0", "1", "car")
        assert images.name == "mine"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"labels": ["a"]}, "1 labels for 2 images"),
            ({"groups": ["a"] * 3}, "3 groups for 2 images"),
            ({"ids": ["a"]}, "1 ids for 2 images"),
            ({"metadata": [{}]}, "1 metadata for 2 images"),
            ({"boxes": []}, "0 boxes for 2 images"),
            ({"labels": ["1", 1]}, r"labels mix text and whole numbers: 000000 has '1', 000001 has 1"),
            ({"groups": [1, "1"]}, "groups mix"),
            ({"labels": [0.5, 1.0]}, "000000: label 0.5 is of type float"),
            ({"ids": ["a", "a"]}, "'a' occurs twice"),
            ({"ids": ["a", 7]}, "id 7 of item 1: ids are text"),
            ({"boxes": [[], [(0, 0, 1, 1)]]}, r"000001: box \(0, 0, 1, 1\); need Box"),
            ({"boxes": [[], [Box("a", 1, 0, 1, 1)]]}, "000001: .*has no area"),
        ],
    )
    def test_columns_that_do_not_fit(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            ImageList([np.zeros((2, 2), np.uint8)] * 2, **options)

    def test_one_path_is_not_a_list(self) -> None:
        with pytest.raises(ArgumentError, match="for a folder use ImageFolder"):
            ImageList("folder")

    def test_the_same_path_twice(self, tmp_path: Path) -> None:
        file = write_image(tmp_path / "a.png")
        with pytest.raises(DatasetError, match=r"'a\.png' occurs twice"):
            ImageList([file, file])

    def test_a_bad_item_fails_alone_and_by_name(self, tmp_path: Path) -> None:
        images = ImageList([np.zeros((2, 2), np.uint8), tmp_path / "gone.png", np.zeros((3, 9, 9), np.uint8)])
        assert images[0].load().size == (2, 2)
        with pytest.raises(ImageError, match=r"^gone\.png \(.*gone\.png\): file cannot be read"):
            images[1].load()
        with pytest.raises(ImageError, match=r"^000002: array of shape \(3, 9, 9\)"):
            images[2].load()
        with pytest.raises(ImageError, match=r"^000002: array of shape \(3, 9, 9\)"):
            images[2].content_key()

    def test_rule(self) -> None:
        rule = DecodingRule(float_range=(0, 255))
        image = ImageList([np.full((2, 2), 128.0)], rule=rule)[0].load()
        assert image.getpixel((0, 0)) == (128, 128, 128)

    def test_torch_tensors(self) -> None:
        torch = pytest.importorskip("torch")
        image = ImageList([torch.full((2, 2, 3), 7, dtype=torch.uint8)])[0].load()
        assert image.getpixel((0, 0)) == (7, 7, 7)


class Pairs:
    """A data set of (image, class index) that counts how often images are fetched."""

    def __init__(self, items: list[tuple[Any, Any]], **attributes: Any) -> None:
        self.items = items
        self.fetched = 0
        self.__dict__.update(attributes)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        self.fetched += 1
        return self.items[index]


class TestTorchvision:
    def test_a_folder_data_set_is_read_by_our_decoding(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("torchvision.datasets")
        for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
            write_image(tmp_path / name)

        def transform(image: Image.Image) -> None:
            raise AssertionError("not applied")

        wrapped = from_torchvision(datasets.ImageFolder(str(tmp_path), transform=transform))
        assert wrapped.ids == ("cat/1.png", "cat/2.png", "dog/1.png")
        assert wrapped.column("label") == ["cat", "cat", "dog"]
        assert wrapped[2].path == tmp_path / "dog/1.png"
        assert wrapped[2].load().size == (4, 3)

    def test_fake_data(self) -> None:
        datasets = pytest.importorskip("torchvision.datasets")
        fake = datasets.FakeData(size=3, image_size=(3, 8, 6), num_classes=4)
        wrapped = from_torchvision(fake, name="fake")
        assert wrapped.ids == ("000000", "000001", "000002")
        assert wrapped[1].label == str(int(fake[1][1]))
        np.testing.assert_array_equal(np.asarray(wrapped[1].load()), np.asarray(fake[1][0]))

    def test_labels_come_without_decoding_where_targets_are_known(self) -> None:
        image = Image.new("RGB", (2, 2))
        data = Pairs([(image, 1), (image, 0)], targets=[1, 0], classes=["cat", "dog", "cow"])
        wrapped = from_torchvision(data)
        assert wrapped.column("label") == ["dog", "cat"]
        assert wrapped.classes == ("cat", "dog", "cow")
        assert data.fetched == 0
        assert wrapped.name == "Pairs"
        assert wrapped[0].load().size == (2, 2)

    def test_tensors_have_channels_first(self) -> None:
        torch = pytest.importorskip("torch")
        pixels = torch.arange(24, dtype=torch.uint8).reshape(3, 2, 4)
        wrapped = from_torchvision(Pairs([(pixels, torch.tensor(1)), (pixels / 255, 0), (pixels[None], 0)]))
        assert wrapped.column("label") == ["1", "0", "0"]
        for index in (0, 1):
            np.testing.assert_array_equal(
                np.asarray(wrapped[index].load()), pixels.numpy().transpose(1, 2, 0)
            )
        with pytest.raises(
            ImageError, match=r"^000002: .*shape \(1, 3, 2, 4\); need \(channels, height, width\)"
        ):
            wrapped[2].load()

    @pytest.mark.parametrize(
        ("target", "message"),
        [({"boxes": []}, "item 0: target of type dict"), (5, "class index 5"), (-1, "class index -1")],
    )
    def test_targets_that_are_no_class(self, target: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            from_torchvision(Pairs([(None, target)], classes=["a"]))

    def test_structural(self) -> None:
        data = SimpleNamespace(classes=["a"])
        with pytest.raises(TypeError):
            from_torchvision(data)
