"""Exported images: names on every file system, provenance inside the files, and a sheet to look at."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import ArgumentError, ColourTranslator, ImageFolder, ImageList, SampleDataset, Verdict
from pytest_semcov.gates.verdict import Outcome, plain
from pytest_semcov.translation.augmentation import Augmentation, augment
from pytest_semcov.translation.contact_sheet import contact_sheet
from pytest_semcov.translation.export import check_export_folder, export_augmentation
from pytest_semcov.translation.selection import plan_augmentation

IDS = ["Street/A.jpg", "street/a.jpg", "street/A.JPG", "aux", "AUX", "night", "Night", "ä", "a\u0308"]


@pytest.fixture(scope="module")
def made() -> tuple[ImageList, Augmentation]:
    generator = np.random.default_rng(3)
    images = [Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)) for _ in IDS]
    dataset = ImageList(images, ids=IDS, labels=["car"] * len(IDS))
    translator = ColourTranslator.fit([], [images[0].point(lambda value: value // 4)])
    plan = plan_augmentation(IDS, semantic="day_night", source="day", target="night", needed=1)
    verdict = Verdict("sufficiency", "synthetic night", Outcome.PASS, ())
    return dataset, augment(dataset, plan, translator, judge=lambda synthetic, failed: verdict)


def test_names_differ_where_upper_and_lower_case_are_the_same(made: Any, tmp_path: Path) -> None:
    place = export_augmentation(made[1], tmp_path)

    files = [path.stem.casefold() for path in place.glob("*.png")]
    assert len(set(files)) == len(IDS)
    assert "aux" not in files
    assert all(name.isascii() for name in files)


def test_files_load_back_and_carry_their_provenance(made: Any, tmp_path: Path) -> None:
    place = export_augmentation(made[1], tmp_path, sources=made[0])

    back = ImageFolder(place)
    synthetic = {sample.provenance.source_id: sample for sample in made[1].synthetic}
    assert len(back) == len(IDS)
    assert back.ignored == ("contact_sheet.pdf",)
    assert back.unlisted == ()
    for sample in back:
        with Image.open(sample.path) as file:
            record = json.loads(file.text["semcov_provenance"])
        origin = synthetic[record["source_id"]]
        assert record == plain(asdict(sample.provenance))
        assert record["seed"] == origin.provenance.seed
        assert record["translator_fingerprint"] == origin.provenance.translator_fingerprint
        assert record["verdict"]["outcome"] == "PASS"
        assert np.array_equal(np.asarray(sample.load()), np.asarray(origin.load()))


def test_the_contact_sheet_shows_sources_above_translations(made: Any) -> None:
    dataset, augmentation = made

    sheet = contact_sheet(augmentation.synthetic, dataset, most=3)

    assert sheet.size == (1600, 300)
    tops = np.asarray(sheet).reshape(2, 150, 8, 200, 3).mean(axis=(1, 3, 4))
    assert (tops[0, :3] > tops[1, :3] + 20).all()
    assert (tops[:, 3:] == 255).all()
    assert contact_sheet(SampleDataset([]), dataset).size == (1600, 300)


def test_never_into_the_folder_of_a_view(tmp_path: Path) -> None:
    for name in ("day/1.png", "night/1.png"):
        file = tmp_path / "release" / name
        file.parent.mkdir(parents=True)
        Image.new("RGB", (8, 8), "red").save(file)
    view = ImageFolder(tmp_path / "release").subset([0])

    with pytest.raises(ArgumentError, match="lies among the data set's images"):
        check_export_folder(tmp_path / "release" / "synthetic", view)
    check_export_folder(tmp_path / "exported", view)
