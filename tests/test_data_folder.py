"""A folder of images: which files, ids, order, labels, groups; metadata files beside the images."""

from __future__ import annotations

import json
import os
import random
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pytest_semcov.data.decoding import DecodingRule
from pytest_semcov.data.folder import ImageFolder
from pytest_semcov.data.samples import Box, Dataset
from pytest_semcov.errors import ArgumentError, DatasetError, ImageError, SemcovWarning


def write_images(root: Path, *names: str) -> None:
    for index, name in enumerate(names):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 3), (index % 256, 0, 0)).save(file, "PNG")


class TestFiles:
    def test_ids_are_relative_posix_paths_in_order(self, tmp_path: Path) -> None:
        names = ["b/2.jpg", "b/1.PNG", "a/x/3.jpeg", "0.webp"]
        write_images(tmp_path, *names)
        folder = ImageFolder(tmp_path)
        assert isinstance(folder, Dataset)
        assert folder.ids == ("0.webp", "a/x/3.jpeg", "b/1.PNG", "b/2.jpg")
        assert folder[0].path == tmp_path / "0.webp"
        assert folder[3].load().size == (4, 3)
        assert folder.name == tmp_path.name
        assert ImageFolder(tmp_path, id_prefix="vendor/").ids[0] == "vendor/0.webp"
        assert ImageFolder(tmp_path, recursive=False).ids == ("0.webp",)

    def test_nothing_is_read_before_first_use(self, tmp_path: Path) -> None:
        folder = ImageFolder(tmp_path / "later")
        assert "not read yet" in repr(folder)
        write_images(tmp_path / "later", "a.jpg")
        assert len(folder) == 1

    def test_a_missing_folder_is_named_with_what_was_expected(self, tmp_path: Path) -> None:
        folder = ImageFolder(tmp_path / "nowhere")
        with pytest.raises(DatasetError, match=r"nowhere does not exist\. ImageFolder takes a folder of"):
            len(folder)
        (tmp_path / "file.txt").write_text("x")
        with pytest.raises(DatasetError, match=r"file\.txt is not a folder"):
            len(ImageFolder(tmp_path / "file.txt"))

    def test_a_folder_without_images_says_what_it_has(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        with pytest.raises(DatasetError, match=r"no images in .*it has 'notes.txt'"):
            len(ImageFolder(tmp_path))

    def test_other_files_are_listed_and_hidden_ones_passed_over(self, tmp_path: Path) -> None:
        write_images(tmp_path, "a/1.jpg", "a/.hidden.jpg", ".cache/2.jpg", "__MACOSX/a/._1.jpg")
        for name in ("README.md", "a/Thumbs.db", "a/notes.txt", "a/photo.heic", ".DS_Store"):
            (tmp_path / name).write_bytes(b"x")
        folder = ImageFolder(tmp_path)
        assert folder.ids == ("a/1.jpg",)
        assert folder.ignored == ("README.md", "a/Thumbs.db", "a/notes.txt", "a/photo.heic")
        assert ImageFolder(tmp_path, extensions={".heic"}).ids == ("a/photo.heic",)

    def test_an_image_file_that_is_no_image_fails_when_loaded(self, tmp_path: Path) -> None:
        write_images(tmp_path, "a.jpg")
        (tmp_path / "b.jpg").write_text("<html>")
        folder = ImageFolder(tmp_path)
        assert folder[0].load().mode == "RGB"
        with pytest.raises(ImageError, match=r"b\.jpg \(.*b\.jpg\): not an image"):
            folder[1].load()

    def test_a_broken_link_is_a_sample_that_fails_by_name(self, tmp_path: Path) -> None:
        write_images(tmp_path, "a.jpg")
        (tmp_path / "b.jpg").symlink_to(tmp_path / "gone.jpg")
        folder = ImageFolder(tmp_path)
        assert folder.ids == ("a.jpg", "b.jpg")
        with pytest.raises(ImageError, match=r"^b\.jpg .*No such file"):
            folder[1].load()
        with pytest.raises(ImageError, match=r"^b\.jpg .*No such file"):
            folder[1].content_key()

    def test_linked_folders_are_followed_and_circles_end(self, tmp_path: Path) -> None:
        write_images(tmp_path / "elsewhere", "1.jpg")
        write_images(tmp_path / "set", "day/2.jpg")
        (tmp_path / "set/night").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "set/day/up").symlink_to(tmp_path / "set")
        folder = ImageFolder(tmp_path / "set")
        assert folder.ids == ("day/2.jpg", "night/1.jpg")

    @pytest.mark.parametrize(
        "name", ["данные/café 写真/é.jpg", "a#b%20c.jpg", "line\nbreak.jpg", " spaces .jpg", "'\"&<>.jpg"]
    )
    def test_odd_names(self, tmp_path: Path, name: str) -> None:
        write_images(tmp_path, name)
        folder = ImageFolder(tmp_path)
        assert folder.ids == (name,)
        assert folder[0].load().size == (4, 3)

    def test_ids_do_not_depend_on_how_unicode_is_stored(self, tmp_path: Path) -> None:
        decomposed = unicodedata.normalize("NFD", "café.jpg")
        write_images(tmp_path, decomposed)
        folder = ImageFolder(tmp_path)
        assert folder.ids == (unicodedata.normalize("NFC", "café.jpg"),)
        assert folder[0].load().size == (4, 3)
        write_images(tmp_path, unicodedata.normalize("NFC", "café.jpg"))
        with pytest.raises(DatasetError, match="Unicode"):
            len(ImageFolder(tmp_path))

    def test_names_that_are_no_utf8_give_ids_that_are(self, tmp_path: Path) -> None:
        write_images(tmp_path, "plain.jpg")
        (tmp_path / "plain.jpg").rename(tmp_path / os.fsdecode(b"caf\xe9.jpg"))
        folder = ImageFolder(tmp_path)
        assert folder.ids == ("caf\\xe9.jpg",)
        assert folder[0].load().size == (4, 3)
        folder.fingerprint()

    @given(
        names=st.lists(
            st.tuples(st.sampled_from(["", "a/", "a/b/", "Z/"]), st.integers(0, 30)), min_size=1, max_size=12
        ),
        seed=st.integers(0, 1000),
    )
    @settings(max_examples=25, deadline=None)
    def test_ids_are_unique_and_do_not_depend_on_creation_order(
        self, names: list[tuple[str, int]], seed: int
    ) -> None:
        files = [f"{folder}{number}.jpg" for folder, number in names]
        shuffled = list(files)
        random.Random(seed).shuffle(shuffled)
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            for root, order in ((one, files), (other, shuffled)):
                for file in order:
                    Path(root, file).parent.mkdir(parents=True, exist_ok=True)
                    Path(root, file).write_bytes(b"not decoded here")
            first, second = ImageFolder(one), ImageFolder(other)
            assert first.ids == second.ids == tuple(sorted(set(files)))
            assert first.column("label") == second.column("label")
            assert first.fingerprint() == second.fingerprint()

    def test_the_rule_reaches_the_images(self, tmp_path: Path) -> None:
        Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(tmp_path / "a.png")
        image = ImageFolder(tmp_path, rule=DecodingRule(alpha_background=(1, 2, 3)))[0].load()
        assert image.getpixel((0, 0)) == (1, 2, 3)


class TestClassFolders:
    def test_the_folder_above_names_the_class(self, tmp_path: Path) -> None:
        write_images(tmp_path, "train/day/1.jpg", "train/night/1.jpg", "test/day/1.jpg")
        folder = ImageFolder(tmp_path)
        assert folder.column("label") == ["day", "day", "night"]
        assert folder.classes == ("day", "night")
        assert ImageFolder(tmp_path, labels=None).column("label") == [None] * 3

    def test_an_empty_class_folder_is_a_known_class(self, tmp_path: Path) -> None:
        write_images(tmp_path, "cat/1.jpg", "cat/2.jpg")
        (tmp_path / "dog").mkdir()
        (tmp_path / "cow").mkdir()
        for name in ("README.txt", "Thumbs.db", ".gitkeep"):
            (tmp_path / "cow" / name).write_text("images to come")
        folder = ImageFolder(tmp_path)
        assert folder.column("label") == ["cat", "cat"]
        assert folder.classes == ("cat", "cow", "dog")
        assert folder.subset([0]).classes == ("cat", "cow", "dog")
        assert (folder.subset([0]) + folder.subset([1])).classes == ("cat", "cow", "dog")

    def test_only_empty_class_folders(self, tmp_path: Path) -> None:
        for name in ("day", "night"):
            (tmp_path / name).mkdir()
        folder = ImageFolder(tmp_path)
        assert len(folder) == 0
        assert folder.classes == ("day", "night")

    def test_other_folders_are_no_classes(self, tmp_path: Path) -> None:
        write_images(tmp_path, "images/1.jpg")
        (tmp_path / "labels").mkdir()
        (tmp_path / "labels/1.txt").write_text("0 .5 .5 .1 .1")
        (tmp_path / "docs/empty").mkdir(parents=True)
        folder = ImageFolder(tmp_path)
        assert folder.classes == ()
        assert folder.column("label") == [None]

    def test_one_class_or_none_gives_no_labels(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg", "2.jpg", "3.jpg")
        assert ImageFolder(tmp_path).column("label") == [None] * 3
        write_images(tmp_path, "day/4.jpg")
        folder = ImageFolder(tmp_path)
        assert folder.column("label") == [None] * 4
        assert folder.classes == ()

    def test_images_beside_class_folders_have_no_label(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg", "day/1.jpg", "night/1.jpg")
        assert ImageFolder(tmp_path).column("label") == [None, "day", "night"]

    def test_labels_must_be_a_known_choice(self, tmp_path: Path) -> None:
        with pytest.raises(ArgumentError, match="labels='folders'"):
            ImageFolder(tmp_path, labels="folders")

    def test_real_photographs(self, day_night_folder: Path) -> None:
        folder = ImageFolder(day_night_folder)
        assert len(folder) == 240
        assert folder.classes == ("day", "night")
        assert folder.column("label").count("night") == 120
        assert folder.ids[0] == "train/day/001.jpg"
        assert "manifest.csv" in folder.ignored
        assert folder[0].load().mode == "RGB"


class TestGroups:
    def test_by_folder_column_and_function(self, tmp_path: Path) -> None:
        write_images(tmp_path, "0.jpg", "a/1.jpg", "a/v/2.jpg")
        (tmp_path / "metadata.csv").write_text("file_name,video\n0.jpg,x\na/1.jpg,y\na/v/2.jpg,\n")
        assert ImageFolder(tmp_path, group="folder").column("group") == [None, "a", "a/v"]
        assert ImageFolder(tmp_path, group="video").column("group") == ["x", "y", None]
        folder = ImageFolder(tmp_path, group=lambda sample: sample.id[:1])
        assert folder.column("group") == ["0", "a", "a"]
        with pytest.raises(DatasetError, match=r"no metadata column 'camera' to group by; there are video"):
            len(ImageFolder(tmp_path, group="camera"))


def rows_file(root: Path, kind: str, rows: list[dict[str, object]]) -> Path:
    file = root / f"metadata.{kind}"
    if kind == "jsonl":
        file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    elif kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    else:
        lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
        file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


class TestMetadata:
    @pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
    def test_labels_and_columns(self, tmp_path: Path, kind: str) -> None:
        write_images(tmp_path, "a.jpg", "sub/é.jpg")
        rows = [
            {"file_name": "sub/é.jpg", "label": "night", "camera": "17"},
            {"file_name": "./a.jpg", "label": "day", "camera": "18"},
        ]
        rows_file(tmp_path, kind, rows)
        folder = ImageFolder(tmp_path)
        assert folder.ids == ("a.jpg", "sub/é.jpg")
        assert folder.column("label") == ["day", "night"]
        assert folder.column("camera") == ["18", "17"]
        assert dict(folder[0].metadata) == {"camera": "18"}
        assert folder.classes == ("day", "night")
        assert folder.unlisted == ()
        assert folder.ignored == ()
        with pytest.raises(TypeError):
            folder[0].metadata["camera"] = "19"  # type: ignore[index]

    def test_label_choices(self, tmp_path: Path) -> None:
        write_images(tmp_path, "x/a.jpg", "y/b.jpg")
        rows_file(tmp_path, "csv", [{"file_name": "x/a.jpg", "label": "day"}])
        assert ImageFolder(tmp_path).column("label") == ["day", None]
        assert ImageFolder(tmp_path, labels="metadata").column("label") == ["day", None]
        by_folder = ImageFolder(tmp_path, labels="folder")
        assert by_folder.column("label") == ["x", "y"]
        assert by_folder[0].metadata["label"] == "day"
        assert by_folder.unlisted == ("y/b.jpg",)
        rows_file(tmp_path, "csv", [{"file_name": "x/a.jpg", "camera": "1"}])
        assert ImageFolder(tmp_path).column("label") == ["x", "y"]
        with pytest.raises(
            DatasetError, match=r"no column 'label' in the metadata; there are camera, file_name"
        ):
            len(ImageFolder(tmp_path, labels="metadata"))
        (tmp_path / "metadata.csv").unlink()
        with pytest.raises(DatasetError, match="labels='metadata'"):
            len(ImageFolder(tmp_path, labels="metadata"))

    def test_metadata_files_in_folders_below(self, tmp_path: Path) -> None:
        write_images(tmp_path, "train/1.jpg", "test/1.jpg")
        rows_file(tmp_path / "train", "csv", [{"file_name": "1.jpg", "label": "a"}])
        rows_file(tmp_path / "test", "jsonl", [{"file_name": "1.jpg", "label": "b"}])
        assert ImageFolder(tmp_path).column("label") == ["b", "a"]

    def test_two_files_in_one_folder(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg")
        for kind in ("csv", "jsonl"):
            rows_file(tmp_path, kind, [{"file_name": "1.jpg"}])
        with pytest.raises(DatasetError, match="more than one of"):
            len(ImageFolder(tmp_path))

    def test_objects_are_boxes(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg", "2.jpg", "3.jpg")
        objects = {"bbox": [[1, 0, 2, 3], [0.5, 0.5, 1, 1]], "categories": ["car", "tree"]}
        rows: list[dict[str, object]] = [
            {"file_name": "1.jpg", "objects": objects},
            {"file_name": "2.jpg", "objects": {"bbox": [[0, 0, 1, 1]], "category": [3]}},
            {"file_name": "3.jpg", "objects": None},
        ]
        rows_file(tmp_path, "jsonl", rows)
        folder = ImageFolder(tmp_path)
        assert folder[0].boxes == (Box("car", 1, 0, 3, 3), Box("tree", 0.5, 0.5, 1.5, 1.5))
        assert folder[1].boxes == (Box("3", 0, 0, 1, 1),)
        assert folder[2].boxes == ()
        assert "objects" not in folder[0].metadata
        (tmp_path / "metadata.jsonl").unlink()
        text = json.dumps(objects).replace('"', '""')
        (tmp_path / "metadata.csv").write_text(f'file_name,objects\n1.jpg,"{text}"\n2.jpg,\n')
        assert len(ImageFolder(tmp_path)[0].boxes) == 2

    def test_boxes_without_area_are_left_out_with_a_warning(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg")
        boxes = [[0, 0, 0, 5], [0, 0, 2, 2], [3, 3, -1, 2]]
        rows_file(
            tmp_path, "jsonl", [{"file_name": "1.jpg", "objects": {"bbox": boxes, "categories": list("abc")}}]
        )
        with pytest.warns(SemcovWarning, match=r"2 boxes without area.*'1\.jpg'"):
            samples = ImageFolder(tmp_path).samples
        assert samples[0].boxes == (Box("b", 0, 0, 2, 2),)

    @pytest.mark.parametrize(
        "objects",
        [
            [],
            "no json",
            {"bbox": [[1, 2, 3]], "categories": ["a"]},
            {"bbox": [[1, 2, 3, "4"]], "categories": ["a"]},
            {"bbox": [[1, 2, 3, 4]], "categories": []},
            {"bbox": [[1, 2, 3, 4]]},
            {"bbox": [[1, 2, 3, 4]], "categories": [None]},
            {"bbox": [[1, 2, 3, 4], [1, 2, 3, 4]], "categories": ["1", 1]},
        ],
    )
    def test_malformed_objects_name_file_and_line(self, tmp_path: Path, objects: object) -> None:
        write_images(tmp_path, "1.jpg", "2.jpg")
        rows_file(tmp_path, "jsonl", [{"file_name": "2.jpg"}, {"file_name": "1.jpg", "objects": objects}])
        with pytest.raises(DatasetError, match=r"metadata\.jsonl, line 2"):
            len(ImageFolder(tmp_path))

    def test_missing_files_are_listed(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg")
        rows = [{"file_name": f"{number}.jpg"} for number in range(1, 15)]
        rows_file(tmp_path, "csv", rows)
        with pytest.raises(
            DatasetError, match=r"names 13 files that do not exist, '2\.jpg', .*'11\.jpg' and 3 more"
        ):
            len(ImageFolder(tmp_path))

    def test_a_listed_file_may_have_any_extension(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg", "2.image")
        rows_file(tmp_path, "csv", [{"file_name": "2.image", "label": "a"}])
        folder = ImageFolder(tmp_path)
        assert folder.ids == ("1.jpg", "2.image")
        assert folder.ignored == ()
        assert folder.unlisted == ("1.jpg",)

    @pytest.mark.parametrize(
        "name", ["../out.jpg", "a/../../out.jpg", "/etc/out.jpg", "C:\\out.jpg", "..\\out.jpg", "\\\\host\\a"]
    )
    def test_names_never_leave_the_folder(self, tmp_path: Path, name: str) -> None:
        write_images(tmp_path, "out.jpg", "set/1.jpg")
        rows_file(tmp_path / "set", "jsonl", [{"file_name": "1.jpg"}, {"file_name": name}])
        with pytest.raises(DatasetError, match=r"metadata\.jsonl, line 2: file name .* leads out of"):
            len(ImageFolder(tmp_path / "set"))

    def test_links_in_annotations_never_leave_the_folder(self, tmp_path: Path) -> None:
        write_images(tmp_path, "out.jpg", "set/1.jpg")
        (tmp_path / "set/2.jpg").symlink_to(tmp_path / "out.jpg")
        (tmp_path / "set/3.jpg").symlink_to("1.jpg")
        rows_file(tmp_path / "set", "csv", [{"file_name": "3.jpg"}])
        assert ImageFolder(tmp_path / "set").ids == ("1.jpg", "2.jpg", "3.jpg")
        rows_file(tmp_path / "set", "csv", [{"file_name": "2.jpg"}])
        with pytest.raises(DatasetError, match=r"line 2: '2\.jpg' is a symbolic link that leads out"):
            len(ImageFolder(tmp_path / "set"))

    def test_a_data_set_behind_a_link_is_fine(self, tmp_path: Path) -> None:
        write_images(tmp_path / "real", "1.jpg")
        rows_file(tmp_path / "real", "csv", [{"file_name": "1.jpg", "label": "a"}])
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert ImageFolder(tmp_path / "link").column("label") == ["a"]

    def test_backslashes_from_windows(self, tmp_path: Path) -> None:
        write_images(tmp_path, "sub/1.jpg")
        rows_file(tmp_path, "csv", [{"file_name": "sub\\1.jpg", "label": "a"}])
        assert ImageFolder(tmp_path).column("label") == ["a"]

    def test_a_file_with_two_rows(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg")
        rows_file(tmp_path, "csv", [{"file_name": "1.jpg"}, {"file_name": "./1.jpg"}])
        with pytest.raises(DatasetError, match=r"line 3: '1\.jpg' has a row already \(.*line 2\)"):
            len(ImageFolder(tmp_path))

    def test_mixed_labels_fail(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg", "2.jpg", "3.jpg")

        def labelled(*labels: object) -> ImageFolder:
            rows = [{"file_name": f"{i}.jpg", "label": label} for i, label in enumerate(labels, start=1)]
            rows_file(tmp_path, "jsonl", rows)
            return ImageFolder(tmp_path)

        assert labelled(0, 1, 0).column("label") == ["0", "1", "0"]
        assert labelled("0", None, "").column("label") == ["0", None, None]
        assert labelled(True, False, None).column("label") == ["True", "False", None]
        for labels in (["0", 0, "cat"], [1, True, 1], ["a", "b", False]):
            with pytest.raises(DatasetError, match=r"labels mix .*line 1 has .*line [23] has .*use one type"):
                len(labelled(*labels))
        with pytest.raises(DatasetError, match=r"line 2: label 1\.5 is of type float"):
            len(labelled(None, 1.5, None))

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_encodings(self, tmp_path: Path, encoding: str) -> None:
        write_images(tmp_path, "ночь.jpg")
        (tmp_path / "metadata.csv").write_text("file_name,label\r\nночь.jpg,ночь\r\n", encoding)
        assert ImageFolder(tmp_path).column("label") == ["ночь"]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            (
                "metadata.csv",
                b"file_name,label\n1.jpg,caf\xe9\n",
                r"line 2: not UTF-8.*save the file as UTF-8",
            ),
            ("metadata.csv", b"file_name,a\n1.jpg\n", r"line 2: 1 cells for 2 columns"),
            ("metadata.csv", b"file_name,a\n\n1.jpg,x,y\n", r"line 3: 3 cells for 2 columns"),
            ("metadata.csv", b"file_name,a,a\n1.jpg,x,y\n", r"line 1: column 'a' occurs twice"),
            ("metadata.csv", b"file_name;a\n1.jpg;x\n", r"no column 'file_name'; there are 'file_name;a'"),
            ("metadata.csv", b'file_name,a\n1.jpg,"x\n', r"line 2: not CSV"),
            ("metadata.csv", b"file_name,a\n,x\n", r"line 2: file name None"),
            ("metadata.jsonl", b'{"file_name": "1.jpg"}\n{"file_name": \n', r"line 2, column 15: not JSON"),
            ("metadata.jsonl", b"[1]\n", r"line 1: need one JSON object a line"),
            ("metadata.jsonl", b'{"file_name": 3}\n', r"line 1: file name 3"),
            ("metadata.jsonl", b'{"name": "1.jpg"}\n', r"line 1: no column 'file_name'; there are 'name'"),
            ("metadata.parquet", b"not parquet", r"metadata\.parquet: not parquet"),
        ],
    )
    def test_malformed_files_name_file_and_line(
        self, tmp_path: Path, name: str, content: bytes, message: str
    ) -> None:
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        write_images(tmp_path, "1.jpg")
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DatasetError, match=message) as caught:
            len(ImageFolder(tmp_path))
        assert name in str(caught.value)

    def test_line_numbers_count_line_breaks_inside_cells(self, tmp_path: Path) -> None:
        write_images(tmp_path, "1.jpg")
        (tmp_path / "metadata.csv").write_text('file_name,a\n1.jpg,"two\nlines"\n../x.jpg,b\n')
        with pytest.raises(DatasetError, match="line 4"):
            len(ImageFolder(tmp_path))
