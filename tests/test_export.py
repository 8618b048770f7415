"""Accepted synthetic images as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import ArgumentError, ImageFolder, ImageList, Verdict
from pytest_semcov.data.samples import Box
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.translation.augmentation import augment
from pytest_semcov.translation.export import check_export_folder, export_augmentation
from pytest_semcov.translation.selection import plan_augmentation


class Darkener:
    """Halves every pixel."""

    name, source, target, fingerprint = "darkener", "day", "night", "ab12"

    def translate(self, images, *, seeds):
        return [image.point(lambda value: value // 2) for image in images]


IDS = ["day/1.jpg", "day_1.jpg", "../odd name #%.png", "a" * 300, "caf\udce9.png"]


def made(outcome: str = "PASS", ids: list[str] = IDS) -> Any:
    generator = np.random.default_rng(3)
    images = [Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)) for _ in ids]
    dataset = ImageList(
        images, ids=ids, labels=["car"] * len(ids), boxes=[[Box("car", 1, 2, 11, 8)]] * len(ids), groups=ids
    )
    plan = plan_augmentation(ids, semantic="day_night", source="day", target="night", needed=1)
    verdict = Verdict("sufficiency", "synthetic night", Outcome(outcome), ())
    return dataset, augment(dataset, plan, Darkener(), judge=lambda synthetic, failed: verdict)


def test_exported_images_load_back_with_labels_boxes_and_provenance(tmp_path: Path):
    dataset, augmentation = made()
    place = export_augmentation(augmentation, tmp_path / "out")
    assert place == tmp_path / "out" / "day_night" / "night"
    back = ImageFolder(place, labels="metadata")
    assert len(back) == len(IDS)
    by_source = {sample.provenance.source_id: sample for sample in back}
    for index, sample_id in enumerate(IDS):
        sample = by_source[sample_id]
        pixels = np.asarray(sample.load())
        assert np.array_equal(pixels, np.asarray(dataset[index].load()) // 2)
        assert sample.label == "car"
        assert sample.boxes == (Box("car", 1, 2, 11, 8),)
        assert sample.metadata["day_night"] == "night"
        provenance = sample.provenance
        assert (provenance.translator, provenance.translator_fingerprint) == ("darkener", "ab12")
        assert provenance.verdict["outcome"] == "PASS"
        assert not sample.real
    assert not list(place.glob(".*"))


def test_a_second_export_replaces_the_first_and_nothing_else(tmp_path: Path):
    place = export_augmentation(made()[1], tmp_path)
    (place / "notes.png").write_bytes(b"mine")
    export_augmentation(made(ids=["day/1.jpg", "new"])[1], tmp_path)
    listed = {json.loads(line)["file_name"] for line in (place / "metadata.jsonl").read_text().splitlines()}
    assert len(listed) == 2
    ours = {*listed, "metadata.jsonl", "instances.json"}
    assert {path.name for path in place.iterdir()} == {*ours, "notes.png"}


def test_what_was_refused_is_not_written(tmp_path: Path):
    with pytest.raises(ArgumentError, match="synthetic night was not accepted: FAIL"):
        export_augmentation(made("FAIL")[1], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_never_into_the_source(tmp_path: Path):
    (tmp_path / "release" / "day").mkdir(parents=True)
    Image.new("RGB", (8, 8), "red").save(tmp_path / "release" / "day" / "1.png")
    dataset = ImageFolder(tmp_path / "release")
    (tmp_path / "link").symlink_to(tmp_path / "release")
    for inside in ("release", "release/synthetic", "link/new", "elsewhere/../release"):
        with pytest.raises(ArgumentError, match="lies among the data set's images"):
            check_export_folder(tmp_path / inside, dataset)
    check_export_folder(tmp_path / "synthetic", dataset)
    check_export_folder(tmp_path / "release-synthetic", dataset)
    check_export_folder(tmp_path, made()[0])  # images in memory lie nowhere
