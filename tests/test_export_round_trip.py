"""What was exported comes back: as an image folder, as COCO, and out of the image files alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pytest_semcov import ArgumentError, CocoDataset, ImageFolder, ImageList, Sample, Verdict, read_provenance
from pytest_semcov.data.samples import Box, Dataset
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.translation.augmentation import Augmentation, augment
from pytest_semcov.translation.contact_sheet import contact_pages
from pytest_semcov.translation.export import check_export_folder, export_augmentation, file_stem
from pytest_semcov.translation.selection import plan_augmentation


class Inverter:
    """255 minus every pixel."""

    name, source, target, fingerprint, prompt = "inverter", "day", "night", "ab12", "a photo at night"

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image]:
        return [image.point(lambda value: 255 - value) for image in images]


PASSED = Verdict("sufficiency", "synthetic night", Outcome.PASS, ())


def augmented(dataset: Dataset, *, semantic: str = "day_night", target: str = "night") -> Augmentation:
    plan = plan_augmentation(
        list(dataset.ids), semantic=semantic, source="day", target=target, needed=1, count=len(dataset)
    )
    translator = Inverter()
    translator.target = target
    return augment(dataset, plan, translator, judge=lambda synthetic, failed: PASSED)


def picture(number: int, size: tuple[int, int] = (32, 20)) -> Image.Image:
    """Smooth, so that JPEG keeps it."""
    y, x = np.mgrid[: size[1], : size[0]]
    channels = [4 * x + number, 6 * y + 2 * number, 255 - 3 * x - 2 * y]
    return Image.fromarray(np.clip(np.stack(channels, axis=-1), 0, 255).astype(np.uint8))


def same(one: Sample, other: Sample) -> bool:
    parts = ("id", "label", "boxes", "group", "provenance")
    return all(getattr(one, part) == getattr(other, part) for part in parts) and dict(one.metadata) == dict(
        other.metadata
    )


def assert_same_samples(back: Dataset, exported: Dataset) -> None:
    assert sorted(back.ids) == sorted(exported.ids)
    by_id = {sample.id: sample for sample in back}
    for sample in exported:
        assert same(by_id[sample.id], sample), (by_id[sample.id], sample)


METADATA = [
    {"camera": "17", "night": None, "hour": 3, "sun": 0.25, "tags": ["a", "b"], "nested": {"a": 1}},
    # names that the files need themselves
    {"file_name": "x.png", "label": "L", "objects": "none", "provenance": "mine", "semcov_sample": 1},
    {"id": 9, "width": 1, "height": "2", "coco_id": "c", "crowd_boxes": 4, "group": "own", "ö": "\ud800"},
]


def image_list() -> ImageList:
    return ImageList(
        [picture(number) for number in range(3)],
        ids=["street/A.png", "street/a.png", "b"],
        labels=["car", None, "7"],
        groups=["video 1", None, "2"],
        metadata=METADATA,
        boxes=[[Box("car", 1.5, 2, 11.25, 8), Box("bus", 0, 0, 32, 20)], [], [Box("car", 3, 3, 4, 4)]],
    )


def test_an_image_folder_gives_back_every_sample(tmp_path: Path) -> None:
    exported = augmented(image_list())
    place = export_augmentation(exported, tmp_path / "out")
    back = ImageFolder(place, labels="metadata")
    assert_same_samples(back, exported.synthetic)
    for sample in exported.synthetic:
        again = next(each for each in back if each.id == sample.id)
        assert np.array_equal(np.asarray(again.load()), np.asarray(sample.load()))
    # from the folder above, under the default label rule, and beside the real images
    assert_same_samples(ImageFolder(tmp_path / "out"), exported.synthetic)
    assert len(image_list() + back) == 6
    assert set(ImageFolder(place, id_prefix="made/").ids) == {f"made/{name}" for name in back.ids}
    assert back.unlisted == ()


def test_exporting_what_came_back_gives_the_same_files(tmp_path: Path) -> None:
    exported = augmented(image_list())
    first = export_augmentation(exported, tmp_path / "1", sources=image_list())
    back = ImageFolder(first).subset([0, 1, 2])
    second = export_augmentation(replace(exported, synthetic=back), tmp_path / "2", sources=image_list())
    for path in first.iterdir():
        if path.suffix == ".png":
            assert path.read_bytes() == (second / path.name).read_bytes()
    rows = [
        {
            row["file_name"]: row
            for row in map(json.loads, (place / "metadata.jsonl").read_text().splitlines())
        }
        for place in (first, second)
    ]
    assert rows[0] == rows[1]


def coco(root: Path) -> CocoDataset:
    """Three images; categories with gaps in their ids, one without boxes; a crowd; fields of one's own."""
    images = [
        {"id": 40, "file_name": "a/1.png", "width": 32, "height": 20, "video": "v1", "license": 4},
        {"id": 7, "file_name": "a/B.png", "width": 32, "height": 20, "video": "v2"},
        {"id": 8, "file_name": "a/b.png", "width": 32, "height": 20, "video": "v2", "flickr_url": "http://x"},
    ]
    boxes = [(1, 40, 90, [1.5, 2, 10, 8]), (2, 40, 3, [0, 0, 32, 20]), (3, 8, 90, [4, 4, 2.5, 2])]
    annotations: list[dict[str, Any]] = [
        {"id": number, "image_id": image, "category_id": category, "bbox": box}
        for number, image, category, box in boxes
    ]
    annotations.append({"id": 4, "image_id": 7, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1})
    categories = [
        {"id": 90, "name": "person", "supercategory": "human"},
        {"id": 3, "name": "car"},
        {"id": 5, "name": "never seen"},
    ]
    for number, entry in enumerate(images):
        file = root / "images" / entry["file_name"]
        file.parent.mkdir(parents=True, exist_ok=True)
        picture(number).save(file)
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "instances.json").write_text(json.dumps(content))
    return CocoDataset(root / "instances.json", root / "images", group="video")


def test_coco_gives_back_every_sample_and_the_source_s_ids(tmp_path: Path) -> None:
    source = coco(tmp_path)
    exported = augmented(source)
    place = export_augmentation(exported, tmp_path / "out", sources=source)

    content = json.loads((place / "instances.json").read_text())
    assert content["categories"] == [
        {"id": 90, "name": "person", "supercategory": "human"},
        {"id": 3, "name": "car"},
        {"id": 5, "name": "never seen"},
    ]
    assert {entry["id"] for entry in content["images"]} == {40, 7, 8}
    found = {(entry["image_id"], entry["category_id"], *entry["bbox"]) for entry in content["annotations"]}
    assert found == {(40, 90, 1.5, 2, 10, 8), (40, 3, 0, 0, 32, 20), (8, 90, 4, 4, 2.5, 2)}
    assert all(entry["provenance"]["translator_fingerprint"] == "ab12" for entry in content["images"])

    back = CocoDataset(place / "instances.json", place)
    assert_same_samples(back, exported.synthetic)
    assert [sample.metadata["crowd_boxes"] for sample in back if "B.png" in sample.id] == [1]
    assert back.classes == source.classes == ("person", "car", "never seen")
    assert back.categories == source.categories
    assert not any(sample.real for sample in back)
    assert_same_samples(ImageFolder(place, labels="metadata"), exported.synthetic)


def test_a_view_of_coco_keeps_the_categories(tmp_path: Path) -> None:
    view = coco(tmp_path).subset([1])  # no box at all
    place = export_augmentation(augmented(view), tmp_path / "out", sources=view)
    content = json.loads((place / "instances.json").read_text())
    assert [entry["id"] for entry in content["categories"]] == [90, 3, 5]
    assert_same_samples(CocoDataset(place / "instances.json", place), augmented(view).synthetic)


def test_boxes_that_are_not_from_coco_are_numbered(tmp_path: Path) -> None:
    exported = augmented(image_list())
    place = export_augmentation(exported, tmp_path / "out", sources=image_list())
    content = json.loads((place / "instances.json").read_text("utf-8"))
    assert content["categories"] == [{"id": 1, "name": "bus"}, {"id": 2, "name": "car"}]
    assert [entry["id"] for entry in content["images"]] == [1, 2, 3]
    assert_same_samples(CocoDataset(place / "instances.json", place), exported.synthetic)


def test_without_boxes_there_is_no_coco_file_and_an_old_one_goes(tmp_path: Path) -> None:
    export_augmentation(augmented(image_list()), tmp_path)
    plain = ImageList([picture(0)], ids=["b"])
    place = export_augmentation(augmented(plain), tmp_path)
    assert not (place / "instances.json").exists()
    (place / "instances.json").write_text('{"images": []}')  # somebody else's
    export_augmentation(augmented(plain), tmp_path)
    assert (place / "instances.json").read_text() == '{"images": []}'


@pytest.mark.parametrize("image_format", ["png", "jpeg"])
def test_the_image_files_carry_their_provenance(tmp_path: Path, image_format: str) -> None:
    exported = augmented(image_list())
    place = export_augmentation(exported, tmp_path / "out", image_format=image_format)
    assert_same_samples(ImageFolder(place), exported.synthetic)
    expected = {sample.provenance.source_id: sample for sample in exported.synthetic}
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in place.glob("*.png" if image_format == "png" else "*.jpg"):
        provenance = read_provenance(path)
        assert provenance == expected[provenance.source_id].provenance
        difference = np.abs(
            np.asarray(Image.open(path), dtype=int)
            - np.asarray(expected[provenance.source_id].load(), dtype=int)
        )
        assert difference.max() <= (0 if image_format == "png" else 12)
        assert difference.mean() <= (0 if image_format == "png" else 2)
        shutil.copy(path, alone)
    assert len(list(alone.iterdir())) == 3
    # away from their metadata they pass as real, unless one looks inside
    assert all(sample.real for sample in ImageFolder(alone))
    found = ImageFolder(alone, provenance="files")
    assert not any(sample.real for sample in found)
    assert len({sample.provenance.source_id for sample in found}) == 3


def test_what_holds_no_provenance_gives_none(tmp_path: Path) -> None:
    picture(0).save(tmp_path / "real.png")
    picture(0).save(tmp_path / "real.jpg", comment=b"semcov_provenance: {not json")
    picture(0).save(tmp_path / "real.bmp")
    Image.new("RGB", (4, 4)).save(tmp_path / "other.jpg", comment=b'semcov_provenance: {"source_id": 1}')
    (tmp_path / "torn.png").write_bytes((tmp_path / "real.png").read_bytes()[:20])
    (tmp_path / "text.jpg").write_bytes(b"no image")
    assert [read_provenance(path) for path in sorted(tmp_path.iterdir())] == [None] * 6
    assert all(sample.real for sample in ImageFolder(tmp_path, provenance="files"))
    with pytest.raises(FileNotFoundError):
        read_provenance(tmp_path / "nowhere.png")
    with pytest.raises(ArgumentError, match="provenance='inside'"):
        ImageFolder(tmp_path, provenance="inside")


def test_a_comment_too_long_for_jpeg_goes_without_its_verdict(tmp_path: Path) -> None:
    exported = augmented(ImageList([picture(0)], ids=["x"]))
    sample = exported.synthetic[0]
    lengthy = replace(sample.provenance, verdict={"outcome": "PASS", "summary": "s" * 70_000})
    for provenance, expected in (
        (lengthy, replace(lengthy, verdict=None)),
        (replace(lengthy, prompt="p" * 70_000), None),
    ):
        synthetic = type(exported.synthetic)([sample.with_provenance(provenance)])
        place = export_augmentation(replace(exported, synthetic=synthetic), tmp_path, image_format="jpeg")
        assert read_provenance(next(place.glob("*.jpg"))) == expected
        assert ImageFolder(place)[0].provenance == provenance


def test_an_unknown_format_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="image format 'gif': need one of png, jpeg"):
        export_augmentation(augmented(image_list()), tmp_path / "out", image_format="gif")
    assert not (tmp_path / "out").exists()


def test_another_format_replaces_the_files_of_the_first(tmp_path: Path) -> None:
    export_augmentation(augmented(image_list()), tmp_path)
    place = export_augmentation(augmented(image_list()), tmp_path, image_format="jpeg")
    assert {path.suffix for path in place.iterdir()} == {".jpg", ".jsonl", ".json"}


HOSTILE = [
    "../../etc/passwd",
    "/absolute/1.png",
    "C:\\windows\\1.png",
    "\\\\server\\share",
    "a\0b",
    "con",
    "CON.png",
    "lpt1",
    "nul.",
    ".",
    "..",
    "",
    ".hidden",
    "metadata.jsonl",
    "instances.json",
    "x" * 5000,
    "x" * 4999 + "y",
    "~",
    "-rf",
    "a b\n\r\tc",
    "%2e%2e%2f",
    "ä",
    "a\u0308",
    "é.png",
    "E\u0301.png",
    "图像一.png",
    "图像二.png",
    "caf\udce9.png",
    "\ud800",
    "A",
    "a",
    # the very name that another id is given
    file_stem("A"),
    file_stem("A").lower(),
    file_stem("ä"),
]


def test_hostile_ids_stay_inside_and_apart(tmp_path: Path) -> None:
    exported = augmented(ImageList([picture(number) for number in range(len(HOSTILE))], ids=HOSTILE))
    place = export_augmentation(exported, tmp_path / "out")
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(place.iterdir())
    names = [path.name for path in place.glob("*.png")]
    assert len({name.casefold() for name in names}) == len(HOSTILE)
    assert all(name.isascii() and len(name) < 100 and name[0] != "." for name in names)
    assert not {name.partition(".")[0].casefold() for name in names} & {"con", "nul", "lpt1", "aux", "prn"}
    assert_same_samples(ImageFolder(place), exported.synthetic)


def test_semantics_and_categories_that_look_alike_have_their_own_folders(tmp_path: Path) -> None:
    source = ImageList([picture(0)], ids=["1"])
    pairs = [
        ("time", "night"),
        ("Time", "night"),
        ("time", "Night"),
        ("..", "/etc"),
        ("", "night"),
        ("a", ""),
    ]
    places = [
        export_augmentation(augmented(source, semantic=semantic, target=target), tmp_path)
        for semantic, target in pairs
    ]
    assert len({str(place).casefold() for place in places}) == len(pairs)
    assert all(place.parent.parent == tmp_path for place in places)
    assert len(ImageFolder(tmp_path)) == len(pairs)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(), max_size=80), min_size=2, max_size=2, unique=True))
def test_different_texts_have_different_file_names(texts: list[str]) -> None:
    one, other = (file_stem(text) for text in texts)
    assert one.casefold() != other.casefold()
    for stem in (one, other):
        assert 0 < len(stem) <= 77
        assert set(stem) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


VALUES = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8)
JSON = st.recursive(
    VALUES | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["label", "id", "file_name", "group", "coco_id", "width"]) | st.text(max_size=6)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    metadata=st.dictionaries(NAMES, JSON, max_size=5),
    sample_id=st.text(max_size=12),
    group=st.none() | st.text(min_size=1, max_size=5),
)
def test_any_metadata_comes_back(
    tmp_path_factory: pytest.TempPathFactory, metadata: dict[str, Any], sample_id: str, group: str | None
) -> None:
    folder = tmp_path_factory.mktemp("out")
    source = ImageList(
        [picture(0)], ids=[sample_id], metadata=[metadata], groups=[group], boxes=[[Box("x", 0, 1, 2, 3)]]
    )
    exported = augmented(source)
    place = export_augmentation(exported, folder)
    assert_same_samples(ImageFolder(place), exported.synthetic)
    assert_same_samples(CocoDataset(place / "instances.json", place), exported.synthetic)


def test_what_json_cannot_hold_becomes_text_or_null(tmp_path: Path) -> None:
    metadata = {"when": 3 + 4j, "nan": float("nan"), "list": [1.0, float("inf")], "numpy": np.int64(3)}
    place = export_augmentation(augmented(ImageList([picture(0)], metadata=[metadata])), tmp_path)
    (sample,) = ImageFolder(place)
    assert {name: sample.metadata[name] for name in metadata} == {
        "when": "(3+4j)",
        "nan": None,
        "list": [1.0, None],
        "numpy": 3,
    }
    assert "NaN" not in (place / "metadata.jsonl").read_text()


def test_never_among_the_images_of_a_coco_file(tmp_path: Path) -> None:
    source = coco(tmp_path)
    for folder in ("images", "images/a", "images/new"):
        with pytest.raises(ArgumentError, match="lies among the data set's images"):
            check_export_folder(tmp_path / folder, source)
    prefixed = CocoDataset(tmp_path / "instances.json", tmp_path / "images", id_prefix="v/")
    with pytest.raises(ArgumentError, match="lies among the data set's images"):
        check_export_folder(tmp_path / "images" / "new", prefixed)
    check_export_folder(tmp_path / "out", source)


def test_pages_show_rows_of_images_with_titles(tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"no image")
    torn = ImageFolder(tmp_path)[0]
    shown = ImageList([Image.new("RGB", (24, 18), color) for color in ("red", "blue")], ids=["ä", "x" * 99])
    rows = [(shown[0], shown[1], None), *[(shown[1], torn, shown[0])] * 6]
    pages = contact_pages(rows, ["source", "translated", "nearest real"])
    assert [page.size for page in pages] == [(720, 32 + 6 * 196), (720, 32 + 196)]
    first = np.asarray(pages[0])
    assert first[40, 10].tolist() == [255, 0, 0]
    assert first[40, 250].tolist() == [0, 0, 255]
    assert (first[40:200, 480:] == 255).all()  # None
    assert (first[0:16, 0:240] < 128).any()  # the title
    assert (first[32 + 181 : 32 + 195, 0:240] < 128).any()  # the id
    assert (first[240:380, 244:470] == 255).all()  # cannot be read
    assert contact_pages([], ["source"]) == []


def test_the_plugin_exports_both_forms(pytester: pytest.Pytester) -> None:
    source = coco(pytester.path)
    pytester.makeconftest(
        """
        import pytest
        from pytest_semcov import CocoDataset, Verdict
        from pytest_semcov.gates.verdict import Outcome
        from pytest_semcov.translation.augmentation import augment
        from pytest_semcov.translation.selection import plan_augmentation

        class Inverter:
            name, source, target, fingerprint = "inverter", "day", "night", "ab12"
            def translate(self, images, *, seeds):
                return [image.point(lambda value: 255 - value) for image in images]

        class Bench:
            def augment(self, dataset, **arguments):
                plan = plan_augmentation(
                    dataset.ids, semantic="day_night", source="day", target="night", needed=3
                )
                verdict = Verdict("sufficiency", "synthetic night", Outcome.PASS, ())
                return (augment(dataset, plan, Inverter(), judge=lambda *_: verdict),)

        @pytest.fixture
        def semcov():
            return Bench()

        @pytest.fixture(scope="session")
        def semcov_dataset():
            return CocoDataset("instances.json", "images", group="video")
        """
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.semcov_augment(semantic="day_night", to="night")
        def test_completed(semcov_augmented):
            assert len(semcov_augmented) == 6
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "--semcov-export=made").assert_outcomes(passed=1)
    place = pytester.path / "made" / "day_night" / "night"
    back = CocoDataset(place / "instances.json", place)
    assert back.categories == source.categories
    assert_same_samples(ImageFolder(place), back)
    assert sum(len(sample.boxes) for sample in back) == 3
    assert sorted(sample.provenance.source_id for sample in back) == sorted(source.ids)
    assert len(source + back) == 6
