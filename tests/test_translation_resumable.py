"""Translating into a folder: what an interrupted run leaves, and that the next one goes on from there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import ArgumentError, ImageFolder, ImageList, ModelError
from pytest_semcov.data.samples import Box, Dataset
from pytest_semcov.translation.protocol import Failed
from pytest_semcov.translation.resumable import Translated, translate_into
from pytest_semcov.translation.selection import plan_augmentation
from pytest_semcov.translation.translating import translate_plan

IDS = [f"street/{number}.png" for number in range(7)]


class Shifter:
    """Adds the seed to every pixel; fails and breaks where it is told to."""

    name, source, target = "shifter", "day", "night"

    def __init__(self, *, fingerprint: str = "ab12", block: int | None = None, stop_after: int = 99) -> None:
        self.fingerprint = fingerprint
        self.block = block
        self.left = stop_after
        self.seen: list[int] = []

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        if self.left < len(images):
            raise KeyboardInterrupt
        self.left -= len(images)
        self.seen += [image.getpixel((0, 0))[0] for image in images]
        return [
            Failed("blocked") if image.getpixel((0, 0))[0] == self.block else _shifted(image, seed)
            for image, seed in zip(images, seeds, strict=True)
        ]


def _shifted(image: Image.Image, seed: int) -> Image.Image:
    return Image.fromarray(np.asarray(image) + np.uint8(seed % 256))


def picture(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    pixels[0, 0] = 10 * number
    return Image.fromarray(pixels)


def source(ids: Sequence[str] = tuple(IDS), **more: Any) -> ImageList:
    given = {"labels": ["car"] * len(ids), "groups": [f"video {sample_id[-5]}" for sample_id in ids], **more}
    return ImageList([picture(int(sample_id[-5])) for sample_id in ids], ids=ids, **given)


def run(folder: Path, translator: Any, dataset: Dataset | None = None, **more: Any) -> Translated:
    data = source() if dataset is None else dataset
    seed, count = more.pop("seed", 3), more.pop("count", len(data))
    plan = plan_augmentation(
        list(data.ids), semantic="day_night", source="day", target="night", needed=0, count=count, seed=seed
    )
    return translate_into(folder, data, plan, translator, batch_size=2, **more)


def content(folder: Path) -> dict[str, object]:
    """Return what a folder holds; the order of lines does not matter."""
    return {
        path.name: sorted(path.read_text("utf-8").splitlines())
        if path.suffix == ".jsonl"
        else path.read_bytes()
        for path in folder.iterdir()
    }


def manifest(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines()]


def test_the_images_are_those_of_a_test_run_with_the_same_seed(tmp_path: Path) -> None:
    made = run(tmp_path / "out", Shifter(block=40))
    plan = plan_augmentation(
        IDS, semantic="day_night", source="day", target="night", needed=0, count=7, seed=3
    )
    expected, failed = translate_plan(source(), plan, Shifter(block=40))
    assert made.kept == 0
    assert dict(made.failed) == failed == {"street/4.png": "blocked"}
    assert made.reasons == {"blocked": 1}
    back = {sample.id: sample for sample in ImageFolder(tmp_path / "out", labels="metadata")}
    assert sorted(back) == sorted(expected.ids) == sorted(made.synthetic.ids)
    for sample in expected:
        for again in (back[sample.id], made.synthetic[made.synthetic.ids.index(sample.id)]):
            assert np.array_equal(np.asarray(again.load()), np.asarray(sample.load()))
            for part in ("label", "group", "boxes", "provenance"):
                assert getattr(again, part) == getattr(sample, part)
            assert dict(again.metadata) == dict(sample.metadata)
        assert sample.provenance.verdict is None
    lines = {line["source_id"]: line for line in manifest(tmp_path / "out")}
    assert sorted(lines) == IDS
    assert lines["street/4.png"]["status"] == "failed"
    assert lines["street/4.png"]["reason"] == "blocked"
    done = lines["street/1.png"]
    assert (done["status"], done["translator_fingerprint"], done["root_seed"]) == ("done", "ab12", 3)
    assert (
        done["seed"]
        == done["provenance"]["seed"]
        == dict(zip(plan.sample_ids, plan.seeds, strict=True))["street/1.png"]
    )


@pytest.mark.parametrize("after", [0, 1, 2, 4, 6])
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, after: int) -> None:
    whole = run(tmp_path / "whole", Shifter(block=40))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", Shifter(block=40, stop_after=after))
    done = after // 2 * 2
    assert len(manifest(tmp_path / "out")) == done
    if done:
        loaded = ImageFolder(tmp_path / "out", labels="metadata")
        assert len(loaded) == sum(line["status"] == "done" for line in manifest(tmp_path / "out"))
        assert not any(sample.real for sample in loaded)
        assert loaded.unlisted == ()
    second = Shifter(block=40)
    made = run(tmp_path / "out", second)
    assert len(second.seen) == 7 - done
    assert made.kept == done
    assert made.synthetic.ids == whole.synthetic.ids
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    third = Shifter(block=40)
    assert run(tmp_path / "out", third).kept == 7
    assert third.seen == []


def test_what_a_kill_can_leave_is_cleared_up(tmp_path: Path) -> None:
    run(tmp_path / "whole", Shifter())
    out = tmp_path / "out"
    run(out, Shifter())
    lines = (out / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    # Killed while the manifest's last line was written, after the image; another image was begun.
    (out / "manifest.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    (out / ".half.png.123.tmp").write_bytes(b"half")
    # Killed between the row and the image.
    missing = json.loads(lines[2])["file_name"]
    (out / missing).unlink()
    # Damaged afterwards.
    changed = json.loads(lines[0])["file_name"]
    (out / changed).write_bytes((out / changed).read_bytes()[:-20])
    translator = Shifter()
    assert run(out, translator).kept == 4
    assert len(translator.seen) == 3
    assert content(out) == content(tmp_path / "whole")


def test_an_image_whose_line_was_never_written_does_not_stay_behind(tmp_path: Path) -> None:
    """Killed after an image and before its line; and the next run has no use for the image."""
    run(tmp_path, Shifter())
    lines = (tmp_path / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    lost = json.loads(lines[-1])
    (tmp_path / "manifest.jsonl").write_bytes(b"".join(lines[:-1]))
    rest = source([sample_id for sample_id in IDS if sample_id != lost["source_id"]])
    assert run(tmp_path, Shifter(), rest).kept == 6
    assert not (tmp_path / lost["file_name"]).exists()
    assert ImageFolder(tmp_path).unlisted == ()


def test_changed_and_removed_sources_are_made_again_or_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, Shifter())
    ids = IDS[1:]
    images = [picture(int(sample_id[-5])) for sample_id in ids]
    images[0] = picture(9)
    changed = ImageList(images, ids=ids, labels=["van"] * 6, metadata=[{"hour": 7}] * 6)
    translator = Shifter()
    made = run(out, translator, changed)
    assert translator.seen == [90]
    assert made.kept == 5
    back = ImageFolder(out, labels="metadata")
    assert len(back) == 6
    # what is kept follows the description of its source
    assert {sample.label for sample in back} == {"van"}
    assert {sample.metadata["hour"] for sample in back} == {7}


def test_more_images_may_be_asked_for_later_and_none_is_lost(tmp_path: Path) -> None:
    run(tmp_path, Shifter(), count=3)
    translator = Shifter()
    assert run(tmp_path, translator).kept == 3
    assert len(translator.seen) == 4
    assert len(run(tmp_path, Shifter(), count=2).synthetic) == 7


@pytest.mark.parametrize(
    ("translator", "more", "named"),
    [
        (Shifter(fingerprint="cd34"), {}, "shifter ab12, seed 3, png; now asked for: .* shifter cd34"),
        (Shifter(), {"seed": 4}, "seed 3, png; now asked for: .*seed 4"),
        (Shifter(), {"image_format": "jpeg"}, "seed 3, png; now asked for: .*seed 3, jpeg"),
    ],
)
def test_another_translator_seed_or_format_is_refused(
    tmp_path: Path, translator: Shifter, more: dict[str, Any], named: str
) -> None:
    run(tmp_path, Shifter())
    before = content(tmp_path)
    with pytest.raises(ArgumentError, match=f"was made otherwise .*{named}.*choose another folder"):
        run(tmp_path, translator, **more)
    assert content(tmp_path) == before


def test_a_folder_with_anything_else_is_refused(tmp_path: Path) -> None:
    picture(1).save(tmp_path / "mine.png")
    with pytest.raises(ArgumentError, match=r"holds 'mine.png' and no manifest.jsonl"):
        run(tmp_path, Shifter())
    release = ImageFolder(tmp_path)
    with pytest.raises(ArgumentError, match="lies among the data set's images"):
        run(tmp_path / "new", Shifter(), release)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.png"]


def test_two_runs_do_not_write_one_folder(tmp_path: Path) -> None:
    class Second(Shifter):
        def translate(self, images: Any, *, seeds: Any) -> Any:
            with pytest.raises(ArgumentError, match="is being written by another process"):
                run(tmp_path, Shifter())
            return super().translate(images, seeds=seeds)

    pytest.importorskip("fcntl")
    assert len(run(tmp_path, Second()).synthetic) == 7


def test_a_manifest_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, Shifter())
    victim = tmp_path / "victim.png"
    shutil.copy(next(out.glob("*.png")), victim)
    lines = manifest(out)
    for line in lines:
        line["file_name"] = "../victim.png"
    strange = ["[1]", "x", '{"file_name": ".."}', '{"file_name": "\\u0000.png"}', "[" * 100_000]
    written = [*map(json.dumps, lines), *strange]
    (out / "manifest.jsonl").write_text("".join(f"{line}\n" for line in written))
    assert run(out, Shifter()).kept == 0
    assert victim.exists()
    assert len(ImageFolder(out)) == 7


def test_unreadable_images_and_a_translator_that_raises(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    for number in range(3):
        picture(number).save(release / f"{number}.png")
    whole = (release / "1.png").read_bytes()
    (release / "1.png").write_bytes(whole[:60])
    made = run(tmp_path / "out", Shifter(), ImageFolder(release))
    assert len(made.synthetic) == 2
    assert list(made.failed) == ["1.png"]
    (release / "1.png").write_bytes(whole)  # repaired
    assert len(run(tmp_path / "out", Shifter(), ImageFolder(release)).synthetic) == 3

    class Broken(Shifter):
        def translate(self, images: Any, *, seeds: Any) -> Any:
            if self.seen:
                raise RuntimeError("out of memory")
            return super().translate(images, seeds=seeds)

    with pytest.raises(ModelError, match="shifter raised RuntimeError"):
        run(tmp_path / "broken", Broken())
    assert run(tmp_path / "broken", Shifter()).kept == 2


def test_boxes_become_coco_and_jpeg_carries_its_provenance(tmp_path: Path) -> None:
    boxes = source(boxes=[[Box("car", 1, 2, 3, 4)]] * 7)
    made = run(tmp_path, Shifter(), boxes, image_format="jpeg")
    content = json.loads((tmp_path / "instances.json").read_text())
    assert len(content["annotations"]) == len(made.synthetic) == 7
    assert {(entry["width"], entry["height"]) for entry in content["images"]} == {(16, 12)}
    assert all(path.suffix == ".jpg" for path in tmp_path.iterdir() if "json" not in path.suffix)
    assert run(tmp_path, Shifter(), boxes, image_format="jpeg").kept == 7


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="image format 'gif'"):
        run(tmp_path / "out", Shifter(), image_format="gif")
    plan = plan_augmentation(IDS, semantic="s", source="day", target="night", needed=0)
    with pytest.raises(ArgumentError, match="batch size 0"):
        translate_into(tmp_path / "out", source(), plan, Shifter(), batch_size=0)
    assert not (tmp_path / "out").exists()
