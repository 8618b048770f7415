"""COCO annotations: boxes, categories, missing and malformed files, boxes of turned images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from pytest_semcov.data.coco import CocoDataset
from pytest_semcov.data.samples import Box, Dataset
from pytest_semcov.errors import ArgumentError, DatasetError, SemcovWarning

CATEGORIES = [{"id": 3, "name": "car"}, {"id": 7, "name": "person"}, {"id": 9, "name": "cow"}]


def image_entry(image_id: int, name: str, width: int = 20, height: int = 10, **more: Any) -> dict[str, Any]:
    return {"id": image_id, "file_name": name, "width": width, "height": height, **more}


def box_entry(number: int, image_id: int, bbox: Any, category: int = 3, **more: Any) -> dict[str, Any]:
    return {"id": number, "image_id": image_id, "category_id": category, "bbox": bbox, **more}


def write(root: Path, content: Any, **options: Any) -> CocoDataset:
    file = root / "instances.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    (root / "images").mkdir(exist_ok=True)
    return CocoDataset(file, root / "images", **options)


def write_images(root: Path, *names: str, size: tuple[int, int] = (20, 10)) -> None:
    for name in names:
        file = root / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(file, "PNG")


def test_boxes_categories_and_fields(tmp_path: Path) -> None:
    write_images(tmp_path, "a/1.png", "b.png")
    data = write(
        tmp_path,
        {
            "images": [image_entry(2, "b.png", video_id=5), image_entry(1, "a/1.png", license=4)],
            "annotations": [
                box_entry(10, 1, [1, 2, 3, 4]),
                box_entry(11, 1, [0.5, 0, 10, 9.5], 7),
                box_entry(12, 1, [0, 0, 20, 10], 7, iscrowd=1),
            ],
            "categories": CATEGORIES,
        },
        group="video_id",
    )
    assert isinstance(data, Dataset)
    assert data.ids == ("a/1.png", "b.png")
    assert data[0].boxes == (Box("car", 1, 2, 4, 6), Box("person", 0.5, 0, 10.5, 9.5))
    assert data[1].boxes == ()
    assert data.classes == ("car", "person", "cow")
    assert data.column("label") == [None, None]
    assert dict(data[0].metadata) == {"width": 20, "height": 10, "license": 4, "coco_id": 1, "crowd_boxes": 1}
    assert data.column("group") == [None, "5"]
    assert data.name == "instances"
    assert data[0].load().size == (20, 10)
    assert data[0].path == tmp_path / "images/a/1.png"
    assert data.subset([1]).classes == ("car", "person", "cow")


def test_nothing_is_read_before_first_use(tmp_path: Path) -> None:
    data = CocoDataset(tmp_path / "no.json", tmp_path / "images")
    with pytest.raises(DatasetError, match=r"image folder .*images does not exist"):
        len(data)
    (tmp_path / "images").mkdir()
    with pytest.raises(DatasetError, match=r"no\.json: cannot be read \(No such file"):
        len(data)
    with pytest.raises(ArgumentError, match="missing='ignore'"):
        CocoDataset(tmp_path / "no.json", tmp_path, missing="ignore")


def test_missing_images(tmp_path: Path) -> None:
    write_images(tmp_path, "1.png", "2.png")
    content = {"images": [image_entry(i, f"{i}.png") for i in (1, 2, 3)], "annotations": [], "categories": []}
    with pytest.raises(
        DatasetError, match=r"1 of 3 images are not in .*images: '3\.png'; or pass missing='skip'"
    ):
        len(write(tmp_path, content))
    data = write(tmp_path, content, missing="skip")
    with pytest.warns(SemcovWarning, match=r"1 of 3 images .*'3\.png'; they are skipped"):
        assert data.ids == ("1.png", "2.png")
    assert data.missing_files == ("3.png",)
    many = {"images": [image_entry(i, f"{i:02}.png") for i in range(14)]}
    with pytest.raises(DatasetError, match=r"14 of 14 .*'09\.png' and 4 more"):
        len(write(tmp_path, many))


def test_test_images_without_annotations(tmp_path: Path) -> None:
    write_images(tmp_path, "1.png")
    assert write(tmp_path, {"images": [{"id": 1, "file_name": "1.png"}]}).ids == ("1.png",)


def test_boxes_without_area_and_over_the_edge(tmp_path: Path) -> None:
    write_images(tmp_path, "1.png")
    boxes = [[-2, 1, 5, 5], [18, 8, 9, 9], [0, 0, 0, 3], [30, 0, 5, 5], [1, 1, float("nan"), 2]]
    content = {
        "images": [image_entry(1, "1.png")],
        "annotations": [box_entry(i, 1, box) for i, box in enumerate(boxes)],
        "categories": CATEGORIES,
    }
    with pytest.warns(SemcovWarning, match=r"3 boxes without area .*'1\.png'"):
        samples = write(tmp_path, content).samples
    assert samples[0].boxes == (Box("car", 0, 1, 3, 6), Box("car", 18, 8, 20, 10))


def test_captions_are_no_boxes(tmp_path: Path) -> None:
    write_images(tmp_path, "1.png")
    content = {"images": [image_entry(1, "1.png")], "annotations": [{"id": 1, "image_id": 1, "caption": "a"}]}
    assert write(tmp_path, content)[0].boxes == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"images": [],\n "annotations": [}', r"instances\.json, line 2, column 18: not JSON"),
        ("[]", "no 'images'"),
        ({"annotations": []}, "no 'images'"),
        ({"images": {}}, "'images' must be a list of objects"),
        ({"images": [], "annotations": [3]}, "'annotations' must be a list of objects"),
        ({"images": [image_entry(1, "1.png"), image_entry(1, "2.png")]}, "id 1 occurs twice in 'images'"),
        ({"images": [image_entry(1, "1.png"), image_entry(2, "1.png")]}, r"'1\.png' occurs twice"),
        ({"images": [{"file_name": "1.png"}]}, "an entry of 'images' has id None"),
        ({"images": [{"id": 1}]}, "image 1: file name None"),
        ({"images": [image_entry(1, "../1.png")]}, r"image 1: file name '../1\.png' leads out of"),
        ({"images": [image_entry(1, "/etc/passwd")]}, "image 1: file name '/etc/passwd' leads out of"),
        ({"images": [], "categories": [{"id": 1}]}, "category 1 has name None"),
        (
            {"images": [], "categories": [*CATEGORIES, {"id": 3, "name": "x"}]},
            "id 3 occurs twice in 'categories'",
        ),
        (
            {"images": [], "categories": [*CATEGORIES, {"id": 4, "name": "car"}]},
            "two categories have the name 'car'",
        ),
        (
            {
                "images": [image_entry(1, "1.png")],
                "annotations": [box_entry(5, 8, [0, 0, 1, 1]), box_entry(6, 1, [0, 0, 1, 1], 4)],
                "categories": CATEGORIES,
            },
            "2 references lead nowhere: 'annotation 5: image_id 8', 'annotation 6: category_id 4'",
        ),
        (
            {
                "images": [image_entry(1, "1.png")],
                "annotations": [box_entry(5, 1, [0, 0, 1])],
                "categories": CATEGORIES,
            },
            r"annotation 5: box \[0, 0, 1\]; need four numbers",
        ),
        (
            {
                "images": [image_entry(1, "1.png")],
                "annotations": [{"id": 5, "image_id": ["1"]}],
            },
            r"1 references lead nowhere: .*annotation 5: image_id \['1'\]",
        ),
    ],
)
def test_malformed_files_are_named(tmp_path: Path, content: Any, message: str) -> None:
    write_images(tmp_path, "1.png", "2.png")
    with pytest.raises(DatasetError, match=message):
        len(write(tmp_path, content))


def test_links_never_leave_the_folder(tmp_path: Path) -> None:
    write_images(tmp_path, "1.png")
    (tmp_path / "out.png").write_bytes(b"x")
    (tmp_path / "images/link.png").symlink_to(tmp_path / "out.png")
    with pytest.raises(DatasetError, match=r"'link\.png' is a symbolic link that leads out"):
        len(write(tmp_path, {"images": [image_entry(1, "link.png")]}))


class TestTurnedImages:
    """A white object on black, stored turned: its box must lie on it in the upright image."""

    STORED = (40, 24)
    BOX = (6, 4, 16, 9)  # corners in the stored pixels

    def write_turned(self, root: Path, orientation: int) -> Path:
        pixels = np.zeros((self.STORED[1], self.STORED[0], 3), np.uint8)
        x0, y0, x1, y1 = self.BOX
        pixels[y0:y1, x0:x1] = 255
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        (root / "images").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(root / "images/1.png", exif=exif)
        return root / "images/1.png"

    def data(
        self, root: Path, size: tuple[int, int], corners: tuple[int, ...], **options: Any
    ) -> CocoDataset:
        x0, y0, x1, y1 = corners
        content = {
            "images": [image_entry(1, "1.png", *size)],
            "annotations": [box_entry(1, 1, [x0, y0, x1 - x0, y1 - y0])],
            "categories": CATEGORIES,
        }
        return write(root, content, **options)

    @pytest.mark.parametrize("orientation", [1, 5, 6, 7, 8])
    def test_boxes_of_the_stored_pixels_are_turned(self, tmp_path: Path, orientation: int) -> None:
        self.write_turned(tmp_path, orientation)
        sample = self.data(tmp_path, self.STORED, self.BOX)[0]
        white = np.argwhere(np.asarray(sample.load())[..., 0] == 255)
        (y0, x0), (y1, x1) = white.min(axis=0), white.max(axis=0) + 1
        assert sample.boxes == (Box("car", x0, y0, x1, y1),)

    @pytest.mark.parametrize("orientation", [3, 6, 8])
    def test_boxes_of_the_upright_image_stay(self, tmp_path: Path, orientation: int) -> None:
        file = self.write_turned(tmp_path, orientation)
        with Image.open(file) as image:
            upright = ImageOps.exif_transpose(image)
        white = np.argwhere(np.asarray(upright)[..., 0] == 255)
        (y0, x0), (y1, x1) = white.min(axis=0).tolist(), (white.max(axis=0) + 1).tolist()
        sample = self.data(tmp_path, upright.size, (x0, y0, x1, y1))[0]
        assert sample.boxes == (Box("car", x0, y0, x1, y1),)

    def test_sizes_that_fit_neither_way_warn(self, tmp_path: Path) -> None:
        self.write_turned(tmp_path, 6)
        data = self.data(tmp_path, (80, 48), self.BOX)
        with pytest.warns(SemcovWarning, match=r"1 images have another size than annotated.*'1\.png'"):
            assert data[0].boxes == (Box("car", *self.BOX),)
        assert self.data(tmp_path, (80, 48), self.BOX, check_sizes=False)[0].boxes == (Box("car", *self.BOX),)

    @pytest.mark.parametrize("file_format", ["JPEG", "WEBP", "TIFF"])
    def test_other_formats(self, tmp_path: Path, file_format: str) -> None:
        (tmp_path / "images").mkdir()
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = 6
        Image.new("RGB", (40, 24)).save(tmp_path / "images/1.png", file_format, exif=exif)
        size = (24, 40) if file_format == "TIFF" else (40, 24)  # Pillow shows TIFF upright from the start
        assert self.data(tmp_path, size, (0, 0, 5, 5))[0].load().size == (24, 40)

    def test_a_header_that_cannot_be_read_is_left_to_decoding(self, tmp_path: Path) -> None:
        (tmp_path / "images").mkdir()
        (tmp_path / "images/1.png").write_bytes(b"no image")
        assert self.data(tmp_path, (40, 24), self.BOX)[0].boxes == (Box("car", *self.BOX),)

    def test_a_large_file_whose_header_lies_late(self, tmp_path: Path) -> None:
        self.write_turned(tmp_path, 6)
        with Image.open(tmp_path / "images/1.png") as image:
            image.load()
            exif = image.getexif()
        comment = b"x" * 60000
        file = tmp_path / "images/1.png"
        Image.new("RGB", (40, 24)).save(file, "JPEG", exif=exif)
        data = file.read_bytes()
        segment = b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment
        file.write_bytes(data[:2] + segment * 6 + data[2:])
        assert self.data(tmp_path, (40, 24), self.BOX)[0].boxes[0] == Box("car", 24 - 9, 6, 24 - 4, 16)
