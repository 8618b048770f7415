"""Strategies for hypothesis: what is drawn, how it shrinks, and what a failing test shows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from PIL import Image

from pytest_semcov import ImageList
from pytest_semcov.errors import ArgumentError, MissingDependencyError
from pytest_semcov.strategies import Edited, edited, images
from pytest_semcov.translation.protocol import Failed

QUICK = settings(
    deadline=None,
    max_examples=200,
    database=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
)


def bright(unrest: int, seed: int = 0) -> Image.Image:
    """Return a picture of mean 200 whose pixels differ from it by at most ``unrest``."""
    generator = np.random.default_rng(seed)
    noise = generator.integers(-unrest, unrest + 1, (12, 16, 3))
    return Image.fromarray((200 + noise).clip(0, 255).astype(np.uint8))


DAYS = ImageList(
    [bright(40, 1), bright(4, 2), bright(20, 3), bright(2, 4), bright(9, 5)],
    ids=["crowd.png", "street.png", "forest.png", "sky.png", "field.png"],
)
BY_SIMPLICITY = ["sky.png", "street.png", "field.png", "forest.png", "crowd.png"]


class Night:
    """Takes 160 levels off; an image's mean is 200 - 160 × strength."""

    name, source, target, fingerprint = "night", "day", "night", "night-1"

    def __init__(self, failing: Sequence[int] = ()) -> None:
        self.calls: list[int] = []
        self.failing = failing

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        self.calls.extend(seeds)
        return [self._one(image) for image in images]

    def _one(self, image: Image.Image) -> Image.Image | Failed:
        pixels = np.asarray(image).astype(int)
        if np.ptp(pixels) in self.failing or -1 in self.failing:
            return Failed("blocked")
        return Image.fromarray((pixels - 160).clip(0, 255).astype(np.uint8))


class Dimmer(Night):
    """Takes a strength itself."""

    def translate(  # type: ignore[override]
        self, images: Sequence[Image.Image], *, seeds: Sequence[int], strength: float
    ) -> list[Image.Image | Failed]:
        self.calls.extend(seeds)
        return [image.point(lambda value: round(value * (1 - strength))) for image in images]


def mean(image: Image.Image) -> float:
    return float(np.asarray(image).mean())


class TestShrinking:
    @pytest.mark.parametrize("threshold", [0.02, 0.1, 0.37, 0.5, 0.77, 0.95])
    def test_finds_the_weakest_edit_at_which_a_model_flips(self, threshold: float) -> None:
        """The planted model reads the image alone: it flips where darkening has reached the threshold."""

        def flips(edit: Edited) -> bool:
            return mean(edit.image) < mean(edit.sample.load()) - 160 * threshold

        found = find(edited(DAYS, Night()), flips, settings=QUICK)

        assert found.sample.id == "sky.png"
        assert found.strength == pytest.approx(threshold, rel=0.1)

    @pytest.mark.parametrize("threshold", [0.08, 0.6])
    def test_of_a_failing_property_ends_there_too(self, threshold: float) -> None:
        seen: list[Edited] = []

        @QUICK
        @given(edited(DAYS, Night()))
        def still_bright(edit: Edited) -> None:
            seen.append(edit)
            assert mean(edit.image) > mean(edit.sample.load()) - 160 * threshold

        with pytest.raises(AssertionError):
            still_bright()

        assert seen[-1].sample.id == "sky.png"
        assert seen[-1].strength == pytest.approx(threshold, rel=0.1)

    def test_finds_the_simplest_image_that_fails(self) -> None:
        """Only busy images are misread, each from a strength of its own."""
        thresholds = {"field.png": 0.4, "forest.png": 0.6, "crowd.png": 0.2}

        def flips(edit: Edited) -> bool:
            return edit.strength >= thresholds.get(edit.sample.id, 2)

        found = find(edited(DAYS, Night()), flips, settings=QUICK)

        assert found.sample.id == "field.png"
        assert found.strength == pytest.approx(0.4, rel=0.1)

    def test_stays_within_the_strengths(self) -> None:
        weakest = find(edited(DAYS, Night(), (0.25, 0.75)), lambda edit: True, settings=QUICK)
        beyond = find(edited(DAYS, Night(), (0.25, 0.75)), lambda edit: edit.strength > 0.7, settings=QUICK)

        assert weakest.strength == 0.25
        assert 0.7 < beyond.strength <= 0.75
        assert find(edited(DAYS, Night(), (0.5, 0.5)), lambda edit: True, settings=QUICK).strength == 0.5

    def test_of_images_goes_to_the_simplest(self) -> None:
        for position, sample_id in enumerate(BY_SIMPLICITY):
            harder = BY_SIMPLICITY[position:]
            found = find(images(DAYS), lambda sample, harder=harder: sample.id in harder, settings=QUICK)
            assert found.id == sample_id


class TestEdits:
    @settings(QUICK, max_examples=50)
    @given(edited(DAYS, Night()))
    def test_blend_source_and_translation(self, edit: Edited) -> None:
        source = np.asarray(edit.sample.load()).astype(float)
        wanted = source + edit.strength * ((source - 160).clip(0, 255) - source)

        assert np.abs(np.asarray(edit.image) - wanted).max() <= 0.5
        assert edit.image.size == (16, 12)
        assert edit.translator == "night"

    def test_are_given_to_a_translator_that_takes_a_strength(self) -> None:
        edit = find(edited(DAYS, Dimmer()), lambda edit: edit.strength >= 0.5, settings=QUICK)

        wanted = [round(value * (1 - edit.strength)) for value in np.asarray(edit.sample.load()).ravel()]
        assert np.asarray(edit.image).ravel().tolist() == wanted

    def test_translate_each_sample_once(self) -> None:
        translator = Night()

        @settings(QUICK, max_examples=100)
        @given(edited(DAYS, translator), st.integers())
        def property_holds(edit: Edited, number: int) -> None:
            edit.image.paste((0, 0, 0), (0, 0, 16, 12))  # what a test does to an image stays its own affair

        property_holds()
        property_holds()

        assert len(translator.calls) == len(set(translator.calls)) == len(DAYS)

    def test_depend_on_seed_and_sample_alone(self) -> None:
        calls = []
        for dataset, seed in [(DAYS, 0), (DAYS.subset([4, 3, 2, 1, 0]), 0), (DAYS, 1)]:
            translator = Night()
            for sample_id in BY_SIMPLICITY:
                find(
                    edited(dataset, translator, (1, 1), seed=seed),
                    lambda edit, sample_id=sample_id: edit.sample.id == sample_id,
                    settings=QUICK,
                )
            calls.append(set(translator.calls))

        assert calls[0] == calls[1]
        assert not calls[0] & calls[2]

    def test_of_samples_without_a_usable_translation_are_not_drawn(self) -> None:
        sky = int(np.ptp(np.asarray(bright(2, 4))))

        edit = find(edited(DAYS, Night(failing=[sky]), (0.1, 1)), lambda edit: True, settings=QUICK)

        assert edit.sample.id == "street.png"
        with pytest.raises(
            ArgumentError, match=r"night makes no usable image of any of 5 samples; .*: blocked"
        ):
            find(edited(DAYS, Night(failing=[-1]), (0.1, 1)), lambda edit: True, settings=QUICK)

    def test_print_what_they_are(self) -> None:
        sample = DAYS[0]

        assert repr(Edited(sample, "night", 0.371, sample.load())) == (
            "Edited('crowd.png', translator='night', strength=0.371)"
        )


@pytest.mark.parametrize("strengths", [(-0.1, 1), (0, 1.1), (0.6, 0.5), (float("nan"), 1)])
def test_wrong_strengths(strengths: Any) -> None:
    with pytest.raises(ArgumentError, match="need 0 <= weakest <= strongest <= 1"):
        edited(DAYS, Night(), strengths)


def test_wrong_translator() -> None:
    with pytest.raises(ArgumentError, match="has none of the valid forms"):
        edited(DAYS, "magic")


def test_an_empty_data_set_is_named() -> None:
    with pytest.raises(ArgumentError, match="has no image to draw"):
        find(images(ImageList([])), lambda sample: True)


def test_without_hypothesis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    with pytest.raises(MissingDependencyError, match=r"pip install 'pytest-semcov\[hypothesis\]'"):
        images(DAYS)


TEST = """
import numpy as np
from hypothesis import Phase, given, settings
from pytest_semcov import RenderedScenes
from pytest_semcov.strategies import edited

days = RenderedScenes(6, seed=3, size=32, day_night="day")

def sees_a_scene(image, source):
    return np.asarray(image).mean() > 0.7 * np.asarray(source).mean()

@settings(deadline=None, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink])
@given(edited(days, "scene:day_night:day>night"))
def test_scene_is_still_seen(edit):
    assert sees_a_scene(edit.image, edit.sample.load())
"""


def test_a_failing_test_shows_the_weakest_edit(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E  *: test_scene_is_still_seen(",
            "E  *edit=Edited('scene-3-0000*', translator='scene:day_night:day>night', strength=0.*),",
        ]
    )
