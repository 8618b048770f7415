"""What translators may return, which images may judge them, and what synthetic samples take over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pytest_semcov import (
    ColourTranslator,
    ImageList,
    RenderedScenes,
    SampleDataset,
    SceneTranslator,
    Settings,
    UnpairedTranslator,
    Workbench,
)
from pytest_semcov.errors import ArgumentError, ModelError
from pytest_semcov.gates.verdict import Outcome, Verdict
from pytest_semcov.translation.augmentation import Augmentation, augment
from pytest_semcov.translation.selection import plan_augmentation, split_for_fitting, unseen
from pytest_semcov.translation.specs import load_translator


class Stub:
    """Returns what a function makes of each image."""

    name, source, target, fingerprint = "stub", "day", "night", "stub-1"
    prompt = "the same at night"

    def __init__(self, change: Any) -> None:
        self.change = change

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Any]:
        return [self.change(image) for image in images]


def pictures(count: int, **columns: Any) -> ImageList:
    generator = np.random.default_rng(5)
    images = [Image.fromarray(generator.integers(0, 256, (9, 12, 3), dtype=np.uint8)) for _ in range(count)]
    return ImageList(images, ids=[f"{number}.png" for number in range(count)], **columns)


def run(dataset: SampleDataset, translator: Any, **arguments: Any) -> Augmentation:
    plan = plan_augmentation(dataset.ids, semantic="day_night", source="day", target="night", needed=1)
    verdict = Verdict("sufficiency", "synthetic night", Outcome.PASS, ())
    return augment(dataset, plan, translator, judge=lambda synthetic, failed: verdict, **arguments)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda image: image.convert("L"), "the translation is not RGB: its mode is L"),
        (lambda image: np.asarray(image), "the translation is no image but ndarray"),
        (lambda image: None, "the translation is no image but NoneType"),
        (lambda image: Image.new("RGB", image.size), "the translation is blank: all its pixels are equal"),
        (
            lambda image: image.rotate(90, expand=True),
            "the translation has another size: (9, 12) for (12, 9)",
        ),
    ],
)
def test_what_is_no_usable_image_is_counted_by_reason(change: Any, reason: str) -> None:
    done = run(pictures(3), Stub(change))

    assert set(done.failed.values()) == {reason}
    assert len(done.synthetic) == 0
    assert f"3 tried by stub, 0 made, 3 failed ({reason}), 0 accepted" in str(done)


def test_a_translator_that_raises_is_named_with_its_images() -> None:
    def raises(image: Image.Image) -> Image.Image:
        raise RuntimeError("out of memory")

    with pytest.raises(
        ModelError, match=r"stub raised RuntimeError on the batch of 3 from \d\.png: out of mem"
    ):
        run(pictures(3), Stub(raises))


def test_a_translator_of_other_categories_does_not_fit_the_plan() -> None:
    with pytest.raises(ArgumentError, match="makes 'rain' from 'clear'; planned is 'night' from 'day'"):
        run(pictures(1), SceneTranslator("clear_rain", source="clear", target="rain"))


def test_a_translator_that_draws_into_its_input_does_not_change_the_data_set() -> None:
    dataset = pictures(3)
    before = dataset.fingerprint()

    def draw(image: Image.Image) -> Image.Image:
        image.paste((255, 0, 0), (0, 0, 5, 5))
        return image

    done = run(dataset, Stub(draw))

    assert len(done.synthetic) == 3
    assert dataset.fingerprint() == before
    assert np.asarray(done.synthetic[0].load())[0, 0].tolist() == [255, 0, 0]


def test_columns_that_hold_the_category_follow_it() -> None:
    dataset = pictures(2, labels=["day", "car"], metadata=[{"time": "day", "shift": "day"}, {"shift": "day"}])

    done = run(dataset, Stub(lambda image: image), columns=["time"])

    made = {sample.provenance.source_id: sample for sample in done.synthetic}
    assert made["0.png"].label == "night"
    assert made["0.png"].metadata == {"time": "night", "shift": "day", "day_night": "night"}
    assert made["1.png"].label == "car"
    assert made["1.png"].metadata == {"shift": "day", "day_night": "night"}
    labelled = run(dataset, Stub(lambda image: image), columns=["label"])
    assert {sample.label for sample in labelled.synthetic} == {"night"}


def test_provenance_is_complete() -> None:
    done = run(pictures(1, groups=["video 4"]), Stub(lambda image: image))

    found = asdict(done.synthetic[0].provenance)
    assert found.pop("verdict")["outcome"] == "PASS"
    assert set(found.pop("versions")) >= {"pytest-semcov", "numpy", "pillow"}
    assert found == {
        "source_id": "0.png",
        "translator": "stub",
        "translator_fingerprint": "stub-1",
        "semantic": "day_night",
        "source_category": "day",
        "target_category": "night",
        "seed": done.plan.seeds[0],
        "prompt": "the same at night",
    }
    assert done.to_dict()["translator"] == "stub"


class TestUnseen:
    def test_neither_fitted_images_nor_their_groups_judge(self) -> None:
        nights = pictures(6, groups=["a", "a", "b", "b", None, None])
        translator = ColourTranslator.fit([], nights.subset([0, 4]), method="statistics")

        assert [sample.id for sample in unseen(list(nights), translator)] == ["2.png", "3.png", "5.png"]
        assert [sample.id for sample in unseen(list(nights), translator, groups=False)] == [
            "1.png",
            "2.png",
            "3.png",
            "5.png",
        ]

    def test_the_same_picture_under_another_id_does_not_judge_either(self) -> None:
        nights = pictures(2)
        translator = ColourTranslator.fit([], nights, method="statistics")
        again = ImageList([sample.load() for sample in nights], ids=["x", "y"])

        assert unseen(list(again), translator) == []

    def test_a_translator_that_does_not_learn_excludes_nothing(self) -> None:
        nights = list(pictures(3, groups=["a", None, None]))

        assert unseen(nights, Stub(None)) == nights

    @given(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=2, max_size=30), st.integers(0, 9))
    def test_halves_are_whole_groups_and_lose_nothing(self, groups: list[str | None], seed: int) -> None:
        samples = list(
            ImageList(
                [Image.new("RGB", (1, 1))] * len(groups), ids=map(str, range(len(groups))), groups=groups
            )
        )

        halves = split_for_fitting(samples, seed=seed)
        again = split_for_fitting(samples[::-1], seed=seed)

        ids = [{sample.id for sample in half} for half in halves]
        assert ids == [{sample.id for sample in half} for half in again]
        assert ids[0] | ids[1] == {sample.id for sample in samples}
        assert not ids[0] & ids[1]
        shared = {sample.group for sample in halves[0]} & {sample.group for sample in halves[1]}
        assert shared <= {None}


class TestSpecs:
    def test_scene(self) -> None:
        translator = load_translator("scene:clear_rain:clear>rain")

        assert (translator.semantic, translator.source, translator.target) == ("clear_rain", "clear", "rain")

    def test_an_object_is_returned(self) -> None:
        stub = Stub(None)

        assert load_translator(stub) is stub

    @pytest.mark.parametrize(
        "spec", ["", "colour", "colour@", "fourier", "magic", "scene:day_night", 3, object()]
    )
    def test_anything_else_is_refused_with_the_valid_forms(self, spec: object) -> None:
        with pytest.raises(
            ArgumentError, match=r"'colour@PATH', 'fourier@PATH', .*'scene:SEMANTIC:SOURCE>TARGET'"
        ):
            load_translator(spec)


class Mute(ColourEmbedder):
    """An encoder that no semantic can be asked of."""

    semantics: ClassVar[dict[str, dict[str, Sequence[str]]]] = {}
    logit_scale = 100.0
    encode_images = ColourEmbedder.embed

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        raise AssertionError(f"asked for {texts}")


@pytest.mark.parametrize("translator", ["colour", "fourier"])
def test_a_translator_fitted_on_the_spot_is_judged_by_the_images_it_did_not_see(
    tmp_path: Path, translator: str
) -> None:
    release = RenderedScenes(80, seed=7, mix={"day_night": {"day": 0.75, "night": 0.25}}, size=32)
    reference = RenderedScenes(25, seed=8, day_night="night", size=32)
    bench = Workbench(
        Settings(labels={"day_night": "day_night"}, repeats=20, cache_dir=tmp_path),
        embedder=ColourEmbedder(),
        encoder=Mute(name="mute", fingerprint="mute"),
    )
    arguments = {"semantic": "day_night", "to": "night", "translator": translator, "reference": reference}

    (first,) = bench.augment(release, **arguments, count=30)
    (second,) = bench.augment(release, **arguments, count=30)

    assert first.verdict.counts["real uncovered"] == 10 + 25
    assert first.verdict.counts["real covered"] == 60
    assert first.verdict["drift"].value > 0.5
    assert first.fingerprint == second.fingerprint
    assert [sample.content_key() for sample in first.synthetic] == [
        sample.content_key() for sample in second.synthetic
    ]


def test_the_network_trained_on_the_spot_leaves_half_of_both_categories_to_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = RenderedScenes(80, seed=7, mix={"day_night": {"day": 0.75, "night": 0.25}}, size=32)
    bench = Workbench(
        Settings(labels={"day_night": "day_night"}, repeats=20, cache_dir=tmp_path),
        embedder=ColourEmbedder(),
        encoder=Mute(name="mute", fingerprint="mute"),
    )
    quick, trained = partial(UnpairedTranslator.fit, steps=1, size=32), []
    monkeypatch.setattr(UnpairedTranslator, "fit", lambda *a, **k: trained.append(1) or quick(*a, **k))
    arguments: dict[str, Any] = {
        "semantic": "day_night",
        "to": "night",
        "translator": "unpaired",
        "reference": RenderedScenes(25, seed=8, day_night="night", size=32),
        "count": 30,
    }

    (done,) = bench.augment(release, **arguments)
    (again,) = bench.augment(release, **arguments)

    assert len(trained) == 1  # once a session, whatever asks
    assert again.fingerprint == done.fingerprint
    assert (done.translator, len(done.synthetic)) == ("unpaired", 30)
    assert done.verdict.counts["real uncovered"] == 10 + 25
    assert done.verdict.counts["real covered"] == 30


def test_a_workbench_loads_a_translator_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pytest_semcov.translation.specs as specs

    night = Image.fromarray(np.random.default_rng(0).integers(0, 60, (9, 9, 3), dtype=np.uint8))
    file = ColourTranslator.fit([], [night], target="night").save(tmp_path / "night.safetensors")
    loaded: list[object] = []
    original = specs.load_translator

    def counting(given: object, **options: Any) -> Any:
        loaded.append((given, options["device"]))
        return original(given, **options)

    monkeypatch.setattr(specs, "load_translator", counting)
    bench = Workbench(Settings(device="cpu"))

    first = bench.translator(f"colour@{file}")

    assert bench.translator(f"colour@{file}") is first
    assert loaded == [(f"colour@{file}", "cpu")]
