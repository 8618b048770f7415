"""Augmentation: planning, translating, judging, and the data set that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pytest_semcov import RenderedScenes, SampleDataset, SceneTranslator, Settings, Workbench
from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.data.samples import Sample
from pytest_semcov.errors import ArgumentError, DatasetError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict
from pytest_semcov.translation.augmentation import AugmentedDataset, augment
from pytest_semcov.translation.protocol import Failed
from pytest_semcov.translation.selection import FEWEST_TRANSLATED, plan_augmentation, split_for_fitting
from pytest_semcov.translation.translating import translate_plan


class Darken:
    """Divides by four; refuses, blanks or shrinks images by their first pixel."""

    name = "darken"
    source = "day"
    target = "night"
    semantic = "day_night"
    fingerprint = "darken-1"

    def __init__(self, fitted_on: Sequence[str] = ()) -> None:
        self.fitted_on = frozenset(fitted_on)
        self.seen: list[tuple[int, ...]] = []

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        self.seen.append(tuple(seeds))
        return [self._one(image) for image in images]

    def _one(self, image: Image.Image) -> Image.Image | Failed:
        pixels = np.asarray(image)
        kind = int(pixels[0, 0, 0])
        if kind == 1:
            return Failed("blocked by the safety checker")
        if kind == 2:
            return Image.new("RGB", image.size, (3, 3, 3))
        if kind == 3:
            return Image.fromarray(pixels[:4, :4] // 4)
        return Image.fromarray(pixels // 4)


class Thumbnail(ColourEmbedder):
    """Embeds an image as its colours, and its pixels at 4 × 4: light counts most, layout somewhat."""

    def embed(self, batch: list[np.ndarray]) -> np.ndarray:
        colours = 4 * super().embed(batch)
        small = [
            np.asarray(Image.fromarray((255 * image).astype(np.uint8)).resize((4, 4), Image.Resampling.BOX))
            for image in batch
        ]
        return np.concatenate([colours, np.stack(small).reshape(len(batch), -1) / np.float32(255)], axis=1)


class KnowsNothing(ColourEmbedder):
    """An encoder that no semantic can be asked of."""

    semantics: ClassVar[dict[str, dict[str, Sequence[str]]]] = {}
    logit_scale = 100.0
    encode_images = ColourEmbedder.embed

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        raise AssertionError(f"asked for {texts}")


def sample(sample_id: str, kind: int = 9, group: str | None = None) -> Sample:
    pixels = np.random.default_rng(len(sample_id) * 1000 + kind).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    pixels[0, 0, 0] = kind
    pixels[1, 1] = list(sample_id.encode()[-3:])
    return Sample(
        sample_id, MemorySource(pixels), label="car", metadata={"day_night": "day", "camera": 3}, group=group
    )


def verdict(outcome: Outcome = Outcome.PASS) -> Verdict:
    criterion = Criterion("drift", 0.8, 0.5, (0.7, 0.9), outcome)
    return Verdict("sufficiency", "synthetic night", outcome, (criterion,), summary="as told")


def plan_for(dataset: SampleDataset, **arguments: int) -> object:
    return plan_augmentation(
        list(dataset.ids), semantic="day_night", source="day", target="night", needed=5, **arguments
    )


names = st.lists(st.text("abcdefgh", min_size=3, max_size=6), min_size=1, max_size=20, unique=True)


class TestPlan:
    @given(names, st.randoms(use_true_random=False), st.integers(0, 2**32))
    def test_depends_on_ids_and_seed_not_on_order(
        self, ids: list[str], random: np.random.Generator, seed: int
    ) -> None:
        shuffled = list(ids)
        random.shuffle(shuffled)
        arguments = {"semantic": "day_night", "source": "day", "target": "night", "needed": 3, "seed": seed}

        assert plan_augmentation(ids, **arguments) == plan_augmentation(shuffled, **arguments)

    @given(names)
    def test_a_larger_plan_begins_with_the_smaller_one(self, ids: list[str]) -> None:
        whole = plan_augmentation(ids, semantic="s", source="a", target="b", needed=1)
        part = plan_augmentation(ids, semantic="s", source="a", target="b", needed=1, count=1)

        assert whole.sample_ids[:1] == part.sample_ids
        assert whole.seeds[:1] == part.seeds
        assert len(set(whole.seeds)) == len(ids)

    @pytest.mark.parametrize(
        ("candidates", "needed", "count", "expected"),
        [
            (1000, 5, None, FEWEST_TRANSLATED),
            (1000, 400, None, 400),
            (40, 400, None, 40),
            (1000, 400, 7, 7),
        ],
    )
    def test_how_many(self, candidates: int, needed: int, count: int | None, expected: int) -> None:
        ids = [f"{number:04d}" for number in range(candidates)]

        plan = plan_augmentation(ids, semantic="s", source="a", target="b", needed=needed, count=count)

        assert len(plan.sample_ids) == expected

    def test_nothing_to_translate_is_an_error(self) -> None:
        with pytest.raises(ArgumentError, match="day_night: no real day image to translate to night"):
            plan_augmentation([], semantic="day_night", source="day", target="night", needed=1)

    def test_fitting_and_judging_halves_share_no_group(self) -> None:
        samples = [sample(f"{number:03d}", group=f"video {number // 7}") for number in range(70)]

        fitting, judging = split_for_fitting(samples, seed=3)

        assert {each.group for each in fitting}.isdisjoint(each.group for each in judging)
        assert len(fitting) == len(judging) == 35


class TestTranslation:
    def test_failures_are_counted_by_reason_and_the_rest_is_kept(self) -> None:
        dataset = SampleDataset([sample("ok1"), sample("bad", 1), sample("bla", 2), sample("sml", 3)])

        synthetic, failed = translate_plan(dataset, plan_for(dataset), Darken())

        assert [each.provenance.source_id for each in synthetic.samples] == ["ok1"]
        assert failed == {
            "bad": "blocked by the safety checker",
            "bla": "the translation is blank: all its pixels are equal",
            "sml": "the translation has another size: (4, 4) for (8, 8)",
        }

    def test_synthetic_samples_keep_their_source_apart_from_what_was_changed(self) -> None:
        source = sample("src", group="video 1")
        dataset = SampleDataset([source])
        plan = plan_for(dataset, seed=5)

        made = augment(dataset, plan, Darken(), judge=lambda synthetic, failed: verdict()).synthetic[0]

        assert (made.label, made.group, made.boxes) == ("car", "video 1", ())
        assert made.metadata == {"day_night": "night", "camera": 3}
        assert not made.real
        assert made.provenance.source_id == "src"
        assert made.provenance.translator_fingerprint == "darken-1"
        assert (made.provenance.source_category, made.provenance.target_category) == ("day", "night")
        assert made.provenance.seed == plan.seeds[0]
        assert made.provenance.verdict["outcome"] == "PASS"
        assert np.array_equal(np.asarray(made.load()), np.asarray(source.load()) // 4)
        assert source.real
        assert source.metadata["day_night"] == "day"

    def test_seeds_do_not_depend_on_batches(self) -> None:
        dataset = SampleDataset([sample(f"{number:03d}") for number in range(20)])
        plan = plan_for(dataset)
        translator = Darken()

        translate_plan(dataset, plan, translator)

        assert len(translator.seen) > 1
        assert tuple(seed for batch in translator.seen for seed in batch) == plan.seeds

    def test_a_translator_that_loses_images_is_an_error(self) -> None:
        dataset = SampleDataset([sample("one")])
        translator = Darken()
        translator.translate = lambda images, seeds: []

        with pytest.raises(ArgumentError, match="darken returned 0 results for 1 images"):
            translate_plan(dataset, plan_for(dataset), translator)


class TestAugmentedDataset:
    @pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INCONCLUSIVE])
    def test_what_was_not_accepted_does_not_get_in(self, outcome: Outcome) -> None:
        dataset = SampleDataset([sample("one")])
        refused = augment(
            dataset, plan_for(dataset), Darken(), judge=lambda synthetic, failed: verdict(outcome)
        )

        with pytest.raises(ArgumentError, match="was not accepted"):
            AugmentedDataset(dataset, [refused])

    def test_real_and_synthetic_are_told_apart(self) -> None:
        dataset = SampleDataset([sample("one"), sample("two")])
        done = augment(dataset, plan_for(dataset), Darken(), judge=lambda synthetic, failed: verdict())

        augmented = AugmentedDataset(dataset, [done])

        assert augmented.real.ids == dataset.ids
        assert sorted(augmented.synthetic.ids) == [
            f"synthetic/day_night/night/{name}" for name in dataset.ids
        ]
        assert len(augmented) == 4

    def test_ids_may_not_collide(self) -> None:
        dataset = SampleDataset([sample("one"), sample("synthetic/day_night/night/one")])
        done = augment(
            dataset, plan_for(dataset.subset([0])), Darken(), judge=lambda synthetic, failed: verdict()
        )

        with pytest.raises(DatasetError, match="occurs twice"):
            AugmentedDataset(dataset, [done])


class TestSceneTranslator:
    def test_renders_the_same_place_under_the_other_category(self) -> None:
        scenes = RenderedScenes(3, seed=1, day_night="day")
        night = RenderedScenes(3, seed=1, day_night="night")
        translator = SceneTranslator("day_night", source="day", target="night")

        made = translator.translate([each.load() for each in scenes], seeds=[1, 2, 3])

        for image, ideal in zip(made, night, strict=True):
            assert np.array_equal(np.asarray(image), np.asarray(ideal.load()))

    def test_refuses_what_is_no_such_scene(self) -> None:
        translator = SceneTranslator("day_night", source="day", target="night")
        night = RenderedScenes(1, day_night="night")[0].load()

        results = translator.translate([Image.new("RGB", (8, 8)), night], seeds=[0, 0])

        assert [result.reason for result in results] == [
            "not a rendered scene: the image does not say how it was rendered",
            "the scene shows night, not day",
        ]

    def test_unknown_category(self) -> None:
        with pytest.raises(ArgumentError, match="has no category 'dusk'"):
            SceneTranslator("day_night", source="day", target="dusk")


@pytest.fixture(scope="module")
def release() -> RenderedScenes:
    return RenderedScenes(300, seed=7, mix={"day_night": {"day": 0.95, "night": 0.05}}, size=32)


class TestThroughTheWorkbench:
    """On scenes, embedded as thumbnails."""

    @pytest.fixture
    def bench(self) -> Workbench:
        return Workbench(
            Settings(labels={"day_night": "day_night"}, repeats=50),
            embedder=Thumbnail(name="thumbnail", fingerprint="thumbnail-1"),
            encoder=KnowsNothing(name="nothing", fingerprint="nothing"),
            translators={"day_to_night": SceneTranslator("day_night", source="day", target="night")},
        )

    def test_without_arguments_every_gap_with_a_translator_is_filled(
        self, bench: Workbench, release: RenderedScenes
    ) -> None:
        reference = RenderedScenes(120, seed=8, day_night="night", size=32)

        (done,) = bench.augment(release, reference=reference)
        augmented = AugmentedDataset(release, [done])
        covered = bench.coverage(augmented, "day_night")

        assert done.verdict.outcome is Outcome.PASS
        assert done.verdict.counts["real uncovered"] == 15 + 120
        assert bench.coverage(release, "day_night").outcome is Outcome.FAIL
        assert covered.outcome is Outcome.PASS
        assert covered.counts == {"real day": 285, "real night": 15, "synthetic night": 100}

    def test_few_real_images_to_judge_by_are_inconclusive(
        self, bench: Workbench, release: RenderedScenes
    ) -> None:
        (done,) = bench.augment(release)

        assert done.verdict.outcome is Outcome.INCONCLUSIVE

    def test_no_gap_nothing_to_do(self, bench: Workbench) -> None:
        assert bench.augment(RenderedScenes(100, seed=1, size=32)) == ()

    def test_images_that_a_translator_was_fitted_on_do_not_judge_it(
        self, bench: Workbench, release: RenderedScenes
    ) -> None:
        night = [each for each in release if each.metadata["day_night"] == "night"]
        translator = Darken(fitted_on=[each.content_key() for each in night[:10]])

        (done,) = bench.augment(release, semantic="day_night", to="night", translator=translator)

        assert done.verdict.counts["real uncovered"] == 5
        assert not done.verdict.passed

    def test_what_is_left_out_of_the_judgement_is_told(
        self, bench: Workbench, release: RenderedScenes
    ) -> None:
        night = [each for each in release if each.metadata["day_night"] == "night"]
        translator = Darken(fitted_on=[each.content_key() for each in night[:10]])

        (done,) = bench.augment(release, semantic="day_night", to="night", translator=translator)

        told = "left out of the judgement, since the translator learnt from them: 10 real night images"
        assert told in done.verdict.details

    def test_a_translator_fitted_on_all_covered_images_is_an_error_before_anything_is_made(
        self, bench: Workbench, release: RenderedScenes
    ) -> None:
        day = [each for each in release if each.metadata["day_night"] == "day"]
        translator = Darken(fitted_on=[each.content_key() for each in day])

        with pytest.raises(ArgumentError, match="all 285 day images were used to fit darken"):
            bench.augment(release, semantic="day_night", to="night", translator=translator)

        assert translator.seen == []

    def test_nothing_usable_fails_with_the_reasons(self, bench: Workbench, release: RenderedScenes) -> None:
        translator = Darken()
        translator.translate = lambda images, seeds: [Failed("out of memory") for _ in images]

        (done,) = bench.augment(release, semantic="day_night", to="night", translator=translator)

        assert done.verdict.failed == ("failed",)
        assert "none of 100 translations is usable: out of memory" in done.verdict.summary

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"to": "night"}, "need semantic="),
            ({"semantic": "day_night"}, "which category of day_night is to be made"),
            ({"semantic": "day_night", "to": "dusk"}, "has no category 'dusk'"),
            ({"semantic": "day_night", "to": "day"}, "no translator makes 'day' of day_night"),
            ({"semantic": "day_night", "to": "day", "translator": Darken()}, "makes 'night', not 'day'"),
        ],
    )
    def test_arguments_that_do_not_go_together(
        self, bench: Workbench, release: RenderedScenes, arguments: dict[str, object], message: str
    ) -> None:
        with pytest.raises(ArgumentError, match=message):
            bench.augment(release, **arguments)
