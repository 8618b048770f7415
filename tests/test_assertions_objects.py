"""Objects in translated scenes: an ideal translation passes, careless ones fail by name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_fakes import Change, by_night, erased, moved, noisy, scenes, small_blurred, swapped
from PIL import Image

from pytest_semcov import (
    ImageFolder,
    RenderedScenes,
    SampleDataset,
    Settings,
    VerdictFailed,
    VerdictInconclusive,
    Workbench,
    assert_objects_preserved,
    assert_synthetic_sufficient,
)
from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Outcome, Verdict
from pytest_semcov.judging_objects import judge_objects

COUNT = 30
TRANSLATIONS: dict[str, Change | None] = {
    "ideal": None,
    "small blurred": small_blurred(),
    "erased": erased,
    "moved": moved,
    "swapped": swapped,
    "noisy": noisy,
}


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return Workbench(cache=EmbeddingCache(None))


@pytest.fixture(scope="module")
def rendered() -> RenderedScenes:
    return scenes(COUNT)


@pytest.fixture(scope="module")
def day(rendered: RenderedScenes) -> SampleDataset:
    """The scenes, rendered once."""
    return SampleDataset([replace(sample, source=MemorySource(sample.load())) for sample in rendered])


@pytest.fixture(scope="module")
def ideal(rendered: RenderedScenes) -> SampleDataset:
    return by_night(rendered)


@pytest.fixture(scope="module")
def blurred(rendered: RenderedScenes) -> SampleDataset:
    return by_night(rendered, small_blurred())


def judged(bench: Workbench, day: SampleDataset, night: SampleDataset, **options: Any) -> Verdict:
    return judge_objects(bench, day, night, scarce="note", **options)


def test_an_ideal_translation_passes(bench: Workbench):
    day = scenes(60)
    verdict = assert_objects_preserved(day, by_night(day), scarce="note", workbench=bench)
    assert verdict.passed
    assert verdict.counts["images"] == 60
    assert verdict.counts["boxes"] == sum(len(sample.boxes) for sample in day)
    sizes = [verdict.counts[f"size {name}"] for name in ("small", "medium")]
    assert sum(sizes) == verdict.counts["judged"]
    assert verdict["identity[size small]"].value > 0.9


def test_the_images_themselves_pass(bench: Workbench, day: SampleDataset):
    same = SampleDataset([replace(sample, id=f"same/{sample.id}") for sample in day])
    verdict = judged(bench, day, same, sources={f"same/{name}": name for name in day.ids})
    assert verdict.passed
    for criterion in verdict.criteria:
        expected = {"identity": 1, "edges": 1, "similarity": 1}.get(criterion.name.split("[")[0], 0)
        if not criterion.name.startswith("boxes"):
            assert criterion.value == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "criterion"),
    [
        ("erased", "edges[size small]"),
        ("swapped", "edges[size small]"),
    ],
)
def test_careless_translations_fail_by_name(bench: Workbench, name: str, criterion: str):
    few = scenes(25, seed=3)
    verdict = judged(bench, few, by_night(few, TRANSLATIONS[name]))
    assert verdict.outcome is Outcome.FAIL
    assert criterion in verdict.failed


def test_blurred_small_objects_are_caught_where_whole_images_are_sufficient(bench: Workbench, tmp_path: Path):
    sharp = {"sharp_blurry": "sharp", "noflare_flare": "no flare", "clear_rain": "clear"}
    day = scenes(60, seed=5)
    night = by_night(day, small_blurred())
    sufficient = assert_synthetic_sufficient(
        night,
        real_uncovered=RenderedScenes(120, seed=77, size=128, day_night="night", **sharp),
        real_covered=RenderedScenes(60, seed=78, size=128, day_night="day", **sharp),
        sources=day,
        workbench=bench,
    )
    assert sufficient.passed

    with pytest.raises(VerdictFailed, match="not preserved") as caught:
        assert_objects_preserved(day, night, save_crops=tmp_path / "crops", scarce="note", workbench=bench)
    verdict = caught.value.verdict
    assert "detail[size small]" in verdict.failed
    assert not [name for name in verdict.failed if name.endswith("[size medium]")]
    assert verdict["detail[size small]"].value < -12
    lines = [line for line in verdict.details if "night/scene-5-" in line]
    assert len(lines) == 10
    assert all(", small: identity" in line and " at (" in line and " dB" in line for line in lines)
    (sheet,) = (tmp_path / "crops").iterdir()
    assert str(sheet) in str(caught.value)
    with Image.open(sheet) as picture:
        assert picture.size[1] > 10 * 160


def test_the_sheet_shows_the_worst_box_before_and_after(
    bench: Workbench, day: SampleDataset, blurred: SampleDataset, tmp_path: Path
):
    verdict = judged(bench, day, blurred, save_crops=tmp_path)
    worst = next(line.strip() for line in verdict.details if " at (" in line)
    sample_id = worst.split(":")[0]
    corners = [int(part) for part in worst.split("(")[1].split(")")[0].split(", ")]
    index = list(blurred.ids).index(sample_id)
    sheet = np.asarray(Image.open(next(tmp_path.iterdir())))
    for column, dataset in enumerate((day, blurred)):
        pixels = np.asarray(dataset[index].load())
        left, top, right, bottom = corners
        middle = pixels[(top + bottom) // 2, (left + right) // 2]
        part = sheet[8:168, 8 + column * 168 : 168 + column * 168].reshape(-1, 3)
        assert (part == middle).all(axis=1).any()
    again = judged(bench, day, blurred, save_crops=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert again.to_dict() == verdict.to_dict()


def test_crops_go_beside_the_report_and_never_among_the_images(
    day: SampleDataset, blurred: SampleDataset, tmp_path: Path
):
    settings = Settings(report=tmp_path / "out" / "report.json")
    bench = Workbench(settings, cache=EmbeddingCache(None))
    verdict = judged(bench, day, blurred)
    assert Path(str(verdict.provenance["crops"])).parent == tmp_path / "out" / "semcov-objects"

    release = tmp_path / "release"
    for folder in ("a", "b"):
        (release / folder).mkdir(parents=True)
    for number in range(4):
        day[number].load().save(release / "ab"[number % 2] / f"{number}.png")
    files = ImageFolder(release)
    real = SampleDataset([replace(files[n], boxes=day[n].boxes) for n in range(4)])
    made = SampleDataset([replace(sample, id=f"made/{sample.id}") for sample in real])
    sources = {sample.id: sample.id.removeprefix("made/") for sample in made}
    before = sorted(os.walk(release))
    for folder in (release, release / "crops", release / "a"):
        with pytest.raises(ArgumentError, match="lies within the data set's folder"):
            judged(bench, real, made, sources=sources, save_crops=folder)
    assert sorted(os.walk(release)) == before


def test_order_of_images_does_not_matter(bench: Workbench, day: SampleDataset, blurred: SampleDataset):
    order = np.random.default_rng(0).permutation(COUNT)
    one = judged(bench, day, blurred).to_dict()
    other = judged(bench, day.subset(order), blurred.subset(order[::-1])).to_dict()
    assert one["criteria"] == other["criteria"]
    assert one["details"] == other["details"]


def test_each_crop_is_embedded_once(day: SampleDataset, blurred: SampleDataset):
    seen: list[int] = []

    class Counting:
        name, fingerprint, trained, input_size = "counting", "counting-1", True, None

        def preprocess(self, image: Image.Image) -> Any:
            return np.asarray(image.resize((8, 8)), dtype=np.float32).ravel()

        def embed(self, batch: Any) -> Any:
            seen.append(len(batch))
            return np.stack(batch) + 1

    bench = Workbench(cache=EmbeddingCache(None))
    verdict = judged(bench, day, blurred, embedder=Counting())
    total = sum(seen)
    assert total <= 4 * verdict.counts["judged"]
    judged(bench, day, blurred, embedder=Counting())
    assert sum(seen) == total


def test_regions_of_a_layer(bench: Workbench):
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU())
    few = scenes(16, seed=2)
    verdict = judged(bench, few, by_night(few, erased), embedder=module, layer="1")
    assert verdict.provenance["models"][0]["name"] == "Sequential:1"
    assert "edges[size small]" in verdict.failed
    with pytest.raises(ArgumentError, match="needs a torch module"):
        judged(bench, few, by_night(few), embedder=lambda images: np.ones((len(images), 2)), layer="layer1")


def test_too_few_boxes_are_inconclusive(bench: Workbench):
    few = scenes(5)
    with pytest.raises(VerdictInconclusive, match="need 10"):
        assert_objects_preserved(few, by_night(few), workbench=bench)


def test_no_box_large_enough_is_inconclusive(bench: Workbench):
    tiny = RenderedScenes(3, size=16, day_night="day")
    small = SampleDataset([replace(s, boxes=(replace(s.boxes[0], x1=s.boxes[0].x0 + 1),)) for s in tiny])
    with pytest.raises(VerdictInconclusive, match="no box can be judged"):
        assert_objects_preserved(
            small,
            SampleDataset([replace(s, id=f"made/{s.id}") for s in small]),
            sources={f"made/{name}": name for name in small.ids},
            workbench=bench,
        )


def test_images_that_cannot_be_read_are_an_error_or_counted(
    bench: Workbench, day: SampleDataset, ideal: SampleDataset
):
    broken = [replace(ideal[0], source=MemorySource(b"not an image")), *list(ideal)[1:]]
    with pytest.raises(ValueError, match=r"night/scene-0-000000"):
        judged(bench, day, SampleDataset(broken))
    skipping = bench.with_settings(on_bad_image="skip")
    verdict = judged(skipping, day, SampleDataset(broken))
    assert verdict.counts["unreadable images"] == 1
    assert verdict.counts["images"] == COUNT - 1


def test_mistakes_are_named(bench: Workbench, day: SampleDataset):
    with pytest.raises(ArgumentError, match="no bar 'min_cosine'; there are min_identity"):
        assert_objects_preserved(day, day, min_cosine=0.5, workbench=bench)
    with pytest.raises(ArgumentError, match="original: need a data set"):
        assert_objects_preserved("folder", day, workbench=bench)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("sharp", [True, False])
def test_ideal_translations_pass_in_nineteen_of_twenty_seeds(bench: Workbench, sharp: bool):
    outcomes = []
    for seed in range(200, 220):
        original = scenes(100, seed=seed, sharp=sharp)
        outcomes.append(judged(bench, original, by_night(original)).outcome)
    assert outcomes.count(Outcome.PASS) >= 19
    assert Outcome.FAIL not in outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TRANSLATIONS if name != "ideal"])
def test_careless_translations_fail_in_every_seed(bench: Workbench, name: str):
    expected = {"small blurred": "detail[size small]", "noisy": "noise[size small]"}
    for seed in range(200, 205):
        original = scenes(100, seed=seed, sharp=False)
        verdict = judged(bench, original, by_night(original, TRANSLATIONS[name]))
        assert verdict.outcome is Outcome.FAIL
        assert expected.get(name, "edges[size small]") in verdict.failed
