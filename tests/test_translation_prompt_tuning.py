"""The search for a prompt, on planted families of translators whose best setting is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import Failed, ImageList, RenderedScenes, SceneTranslator, Translator
from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.translation.prompt_tuning import tune_prompt
from pytest_semcov.translation.selection import fitted_on, split_for_fitting, unseen
from pytest_semcov.translation.structure import structure_kept
from pytest_semcov.translation.tuned_prompt import PromptSetting, TunedPrompt, TunedTranslator

IDEAL = SceneTranslator("day_night", source="day", target="night")
PHRASES = ("fog", "nighttime", "noise")
STRENGTHS = (0.2, 0.6, 0.4, 0.8)
GUIDANCES = (1.0, 5.0, 9.0)
BEST = PromptSetting("nighttime", 0.6, 5.0)


@dataclass(frozen=True)
class Planted:
    """Makes the ideal night at one setting, and falls short of it the farther away the setting is."""

    setting: PromptSetting
    seen: list[tuple[PromptSetting, bytes]] = field(default_factory=list)

    name = "planted"
    source = "day"
    target = "night"

    @property
    def fingerprint(self) -> str:
        return str(self.setting)

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        self.seen.extend((self.setting, image.tobytes()) for image in images)
        return [self._one(image, seed) for image, seed in zip(images, seeds, strict=True)]

    def _one(self, image: Image.Image, seed: int) -> Image.Image:
        strength, guidance = self.setting.strength or 0.0, self.setting.guidance or 0.0
        share = max(0.0, 1 - 2.5 * abs(strength - 0.6) - abs(guidance - 5.0) / 8)
        if self.setting.phrase == "noise":
            shape = (image.height, image.width, 3)
            other = Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))
        elif self.setting.phrase == "fog":
            other = Image.new("RGB", image.size, (190, 190, 190))
            share *= 0.7
        else:
            other = night_of(image)
        return Image.blend(image, other, share)


CACHE = EmbeddingCache(None)

NIGHT_OF: dict[bytes, Image.Image] = {}
"""The ideal night of every day image by its pixels: rendering takes longer than all the rest."""


def night_of(image: Image.Image) -> Image.Image:
    return NIGHT_OF[image.tobytes()]


def scenes(category: str, seed: int, count: int) -> SampleDataset:
    """Return rendered scenes, kept in memory."""
    rendered = RenderedScenes(count, seed=seed, size=32, day_night=category, sharp_blurry="sharp")
    images = [sample.load() for sample in rendered.samples]
    if category == "day":
        made = IDEAL.translate(images, seeds=range(count))
        nights = [night for night in made if isinstance(night, Image.Image)]
        NIGHT_OF.update(zip([image.tobytes() for image in images], nights, strict=True))
    return ImageList(images, ids=[f"{category} {seed} {number}" for number in range(count)])


@pytest.fixture(scope="module")
def days() -> SampleDataset:
    return scenes("day", 1, 60)


@pytest.fixture(scope="module")
def nights() -> SampleDataset:
    return scenes("night", 2, 80)


def tuned(
    days: SampleDataset, nights: SampleDataset, make: Callable[[PromptSetting], Translator], **changes: Any
) -> TunedPrompt:
    arguments: dict[str, Any] = {
        "phrases": PHRASES,
        "strengths": STRENGTHS,
        "guidances": GUIDANCES,
        "budget": 320,
        "images": 20,
        "cache": CACHE,
    }
    return tune_prompt(make, days, nights, **{**arguments, **changes})


@pytest.fixture(scope="module")
def found(
    days: SampleDataset, nights: SampleDataset
) -> tuple[TunedPrompt, list[tuple[PromptSetting, bytes]]]:
    seen: list[tuple[PromptSetting, bytes]] = []
    return tuned(days, nights, lambda setting: Planted(setting, seen)), seen


def test_the_planted_setting_is_found_with_fewer_trials_than_a_grid_has(found: Any) -> None:
    result, _ = found

    assert result.setting == BEST
    assert result.settings_in_all == 36
    assert len(result.trials) == 15
    assert result.translated == 320
    assert result.fitting.objective == max(trial.score.objective for trial in result.trials)


def test_the_held_out_half_confirms_an_honest_family(found: Any) -> None:
    result, _ = found

    assert result.held_out.drift > 0.8
    assert result.held_out.radius > 0.6
    assert abs(result.optimisation_gap) < 0.2
    assert result.held_out.images == 20
    assert result.optimisation_gap == result.fitting.objective - result.held_out.objective


def test_the_objective_is_gaps_closed_minus_lost_structure_minus_failures(found: Any) -> None:
    result, _ = found
    for trial in result.trials:
        score = trial.score
        closed = (min(score.drift, 1) + min(score.radius, 1)) / 2
        assert score.objective == pytest.approx(closed - 0.25 * (1 - score.structure) - score.failed)
    structure = {trial.setting: trial.score.structure for trial in result.trials}
    assert structure[PromptSetting("noise", 0.6, 5.0)] < 0.1 < structure[BEST]


def test_nothing_is_translated_twice_with_the_same_setting(found: Any) -> None:
    result, seen = found

    assert len(set(seen)) == len(seen) == result.translated
    for setting in {setting for setting, _ in seen}:
        assert sum(setting == other for other, _ in seen) == (40 if setting == result.setting else 20)


def test_none_of_the_images_that_chose_the_setting_may_judge_it(
    found: Any, days: SampleDataset, nights: SampleDataset
) -> None:
    translator = found[0].translator
    assert isinstance(translator, TunedTranslator)
    assert isinstance(translator, Translator)
    fitting, held_out = split_for_fitting(sorted(nights.samples, key=lambda each: each.id), seed=0)

    assert {sample.content_key() for sample in fitting} < fitted_on(translator)
    assert [sample.id for sample in unseen(nights.samples, translator)] == [
        sample.id for sample in nights.samples if sample in held_out
    ]
    assert len(unseen(days.samples, translator)) == 30
    assert translator.prompt == "nighttime"
    assert (translator.name, translator.source, translator.target) == ("planted", "day", "night")


def test_the_same_search_again_in_any_order_gives_the_same_and_replays(
    days: SampleDataset, nights: SampleDataset
) -> None:
    def run(first: SampleDataset, second: SampleDataset, **changes: Any) -> dict[str, Any]:
        arguments = {
            "phrases": ("nighttime", "fog"),
            "strengths": (0.6,),
            "guidances": (5.0,),
            "budget": 60,
            "cache": None,
        }
        return tuned(first, second, Planted, **{**arguments, **changes}).to_dict()

    known = run(days, nights)
    assert json.loads(json.dumps(known)) == known
    assert run(*(each.subset(range(len(each) - 1, -1, -1)) for each in (days, nights))) == known
    assert run(days, nights, seed=1)["fitted_on"] != known["fitted_on"]


def test_a_family_that_overfits_shows_by_its_gap(days: SampleDataset, nights: SampleDataset) -> None:
    """Real images of the two halves differ: what fits the one does not fit the other."""
    tints = {"reddish": (150, 0, 0), "bluish": (0, 0, 150)}

    def tinted(image: Image.Image, tint: str) -> Image.Image:
        return Image.blend(image, Image.new("RGB", image.size, tints[tint]), 0.6)

    grouped = [
        Sample(sample.id, sample.source, group=f"place {number % 20}")
        for number, sample in enumerate(nights.samples)
    ]
    fitting, _ = split_for_fitting(sorted(grouped, key=lambda each: each.id), seed=0)
    of_fitting = {sample.id for sample in fitting}
    reference = ImageList(
        [tinted(sample.load(), "reddish" if sample.id in of_fitting else "bluish") for sample in grouped],
        ids=[sample.id for sample in grouped],
        groups=[sample.group for sample in grouped],
    )

    @dataclass(frozen=True)
    class Tinting:
        setting: PromptSetting
        name = "tinting"
        source = "day"
        target = "night"
        fingerprint = "0"

        def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Any]:
            return [tinted(night_of(image), self.setting.phrase) for image in images]

    result = tuned(days, reference, Tinting, phrases=tuple(tints), strengths=(None,), guidances=(None,))
    honest = {trial.setting.phrase: trial.score.objective for trial in result.trials}

    assert result.setting.phrase == "reddish"
    assert honest["reddish"] > honest["bluish"] + 0.3
    assert result.optimisation_gap > 0.3
    assert f"optimisation gap {result.optimisation_gap:.2f}" in str(result)


def test_failures_count_against_a_setting_and_too_many_leave_nothing(
    days: SampleDataset, nights: SampleDataset
) -> None:
    @dataclass(frozen=True)
    class Failing(Planted):
        def _one(self, image: Image.Image, seed: int) -> Any:
            most = {"often": 10, "seldom": 2, "always": 11}[self.setting.phrase]
            if seed % 11 < most:
                return Failed("blocked")
            return Planted(BEST)._one(image, seed)

    small: dict[str, Any] = {"strengths": (None,), "guidances": (None,)}
    result = tuned(days, nights, Failing, phrases=("often", "seldom"), images=30, **small)
    scores = {trial.setting.phrase: trial.score for trial in result.trials}

    assert result.setting.phrase == "seldom"
    assert scores["often"].objective == -math.inf
    assert scores["often"].to_dict()["objective"] is None
    assert 0 < scores["seldom"].failed < 0.5
    with pytest.raises(TooFewError, match="none of 1 settings gave enough usable images of 20"):
        tuned(days, nights, Failing, phrases=("always",), **small)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phrases": ()}, r"phrases=\(\): need a sequence of one or more distinct values"),
        ({"phrases": "night"}, "phrases='night': need a sequence"),
        ({"strengths": (0.5, 0.5)}, r"strengths=\(0.5, 0.5\): need"),
        ({"images": 5}, "images=5: need 20 or more"),
        ({"structure_weight": -1.0}, "structure_weight=-1.0: need 0 or more"),
        ({"budget": 59}, "budget 59: trials of 20 images and 20 of the held-out half need 60 at least"),
    ],
)
def test_what_is_refused(
    changes: dict[str, Any], message: str, days: SampleDataset, nights: SampleDataset
) -> None:
    with pytest.raises(ArgumentError, match=message):
        tuned(days, nights, Planted, **changes)


def test_too_few_images_are_refused_and_not_scored(days: SampleDataset, nights: SampleDataset) -> None:
    with pytest.raises(TooFewError, match="59 real images of the target category: need 60, half of them"):
        tuned(days, nights.subset(range(59)), Planted)
    with pytest.raises(TooFewError, match="30 images to translate: need 40"):
        tuned(days.subset(range(30)), nights, Planted)
    lumped = ImageList(
        [sample.load() for sample in nights.samples],
        ids=list(nights.ids),
        groups=["one" if number < 71 else f"place {number}" for number in range(len(nights))],
    )
    with pytest.raises(
        TooFewError, match=r"half has \d+ real images of the target category in \d+ groups: needs 30 in 10"
    ):
        tuned(days, lumped, Planted)


def test_categories_that_the_embedder_cannot_tell_apart_are_refused(days: SampleDataset) -> None:
    with pytest.raises(TooFewError, match="cannot be told from its 30 images to translate"):
        tuned(days, scenes("day", 3, 60), Planted)


def test_structure_weighs_as_much_as_it_is_told(days: SampleDataset, nights: SampleDataset) -> None:
    """A translator that shows other scenes by night closes the gap, and keeps no structure."""

    @dataclass(frozen=True)
    class Other(Planted):
        def _one(self, image: Image.Image, seed: int) -> Image.Image:
            made = Planted(PromptSetting("nighttime", 0.6, 9.0))._one(image, seed)
            if self.setting.phrase == "other scenes":
                made = strangers[seed % len(strangers)]
            return made

    strangers = list(NIGHT_OF.values())
    kept = structure_kept(days[0].load(), strangers[1])
    arguments: dict[str, Any] = {
        "phrases": ("same scenes", "other scenes"),
        "strengths": (None,),
        "guidances": (None,),
    }

    assert kept < 0.5
    assert tuned(days, nights, Other, structure_weight=0.0, **arguments).setting.phrase == "other scenes"
    assert tuned(days, nights, Other, structure_weight=1.0, **arguments).setting.phrase == "same scenes"
