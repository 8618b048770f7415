"""The Fourier translator: what it exchanges, what it keeps, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save_file

from pytest_semcov import Failed, FourierTranslator, ImageList, RenderedScenes, Translator
from pytest_semcov.errors import ArgumentError, ModelError
from pytest_semcov.translation.fourier import MOST_CYCLES
from pytest_semcov.translation.specs import load_translator


def photograph(
    seed: int, width: int = 60, height: int = 40, level: float = 140, spread: float = 30
) -> Image.Image:
    """Return smooth random colours with a little noise."""
    generator = np.random.default_rng(seed)
    small = Image.fromarray(generator.normal(level, spread, (6, 8, 3)).clip(0, 255).astype(np.uint8))
    smooth = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), dtype=float)
    return Image.fromarray((smooth + generator.normal(0, 4, smooth.shape)).clip(0, 255).astype(np.uint8))


def night(seed: int, **more: Any) -> Image.Image:
    return photograph(1000 + seed, **{"level": 100, "spread": 15, **more})


def array(image: Image.Image) -> np.ndarray:
    return np.asarray(image, dtype=float)


def one(translator: FourierTranslator, image: Image.Image, seed: int = 0) -> Image.Image:
    (result,) = translator.translate([image], seeds=[seed])
    assert isinstance(result, Image.Image)
    return result


def published(source: Image.Image, target: Image.Image, cycles: int) -> np.ndarray:
    """Return what the paper's equations give for images of one size, before rounding.

    Amplitude of the target in the centred square of the shifted spectrum, else the source's; phase of the
    source.
    """
    before = np.fft.fftshift(np.fft.fft2(array(source), axes=(0, 1)), axes=(0, 1))
    other = np.fft.fftshift(np.fft.fft2(array(target), axes=(0, 1)), axes=(0, 1))
    amplitude, phase = np.abs(before), np.angle(before)
    row, column = before.shape[0] // 2, before.shape[1] // 2
    square = (
        slice(row - cycles, row + cycles + 1),
        slice(column - cycles, column + cycles + 1),
    )
    amplitude[square] = np.abs(other[square])
    spectrum = np.fft.ifftshift(amplitude * np.exp(1j * phase), axes=(0, 1))
    return np.fft.ifft2(spectrum, axes=(0, 1)).real


class TestResults:
    @pytest.mark.parametrize(
        ("beta", "width", "height", "cycles"),
        [(0.001, 60, 40, 0), (0.05, 60, 40, 2), (0.1, 41, 55, 4), (0.3, 30, 30, 9), (0.5, 24, 60, 11)],
    )
    def test_are_those_of_the_published_equations(
        self, beta: float, width: int, height: int, cycles: int
    ) -> None:
        source, target = photograph(1, width, height), night(2, width=width, height=height)

        result = one(FourierTranslator.fit([], [target], beta=beta), source)

        wanted = published(source, target, cycles).clip(0, 255)
        assert np.abs(array(result) - wanted).max() < 0.51
        assert np.abs(array(result) - array(source)).mean() > 10

    def test_without_a_share_are_the_source(self) -> None:
        assert array(one(FourierTranslator.fit([], [night(1)], beta=0), photograph(1))).tolist() == (
            array(photograph(1)).tolist()
        )

    def test_of_the_smallest_share_change_in_mean_colour_alone(self) -> None:
        source, target = photograph(1), night(1)

        result = one(FourierTranslator.fit([], [target], beta=1e-9), source)

        shift = array(target).mean(axis=(0, 1)) - array(source).mean(axis=(0, 1))
        assert np.abs(array(result) - array(source) - shift).max() < 0.51

    @pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 5), (60, 40), (41, 67), (300, 200)])
    @pytest.mark.parametrize("beta", [0.02, 0.5])
    def test_of_an_image_in_its_own_light_are_the_image(self, size: tuple[int, int], beta: float) -> None:
        pixels = np.random.default_rng(3).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        image = Image.fromarray(pixels)

        result = one(FourierTranslator.fit([], [image], beta=beta), image)

        assert np.array_equal(np.asarray(result), pixels)

    def test_have_the_mean_colour_of_a_target_image(self) -> None:
        targets = [Image.new("RGB", (8, 8), colour) for colour in [(90, 100, 110), (120, 80, 95)]]
        translator = FourierTranslator.fit([], targets)

        results = [one(translator, photograph(seed), seed) for seed in range(10)]

        means = np.array([array(result).mean(axis=(0, 1)) for result in results])
        distances = np.abs(means[:, None] - np.array([[90, 100, 110], [120, 80, 95]])).max(axis=2)
        assert (distances.min(axis=1) < 0.5).all()
        assert set(distances.argmin(axis=1)) == {0, 1}

    def test_keep_the_phase_and_all_higher_frequencies(self) -> None:
        source, target = photograph(4), night(4)

        result = one(FourierTranslator.fit([], [target], beta=0.1), source)

        before, after = (np.fft.fft2(array(image), axes=(0, 1)) / 2400 for image in (source, result))
        rows, columns = (np.abs(np.fft.fftfreq(count, 1 / count)) for count in (40, 60))
        low = (rows[:, None] <= 4) & (columns[None, :] <= 4)
        strong = low[:, :, None] & (np.minimum(np.abs(before), np.abs(after)) > 0.5)
        turned = np.angle(after[strong] / before[strong])
        assert strong.sum() > 50
        assert np.abs(turned).max() < 0.05
        assert np.abs(after - before)[~low].max() < 0.05
        assert np.abs(np.abs(after) - np.abs(before))[low].max() > 20

    def test_keep_objects_where_they_are(self) -> None:
        pixels = np.asarray(photograph(2, 120, 80)).copy()
        pixels[:, 70:] = (pixels[:, 70:] * 0.4).astype(np.uint8)
        translator = FourierTranslator.fit([], [night(seed) for seed in range(3)], beta=0.05)

        for seed in range(3):
            columns = np.abs(np.diff(array(one(translator, Image.fromarray(pixels), seed)), axis=1))
            assert int(columns.mean(axis=(0, 2)).argmax()) == 69

    def test_of_large_and_small_versions_of_an_image_get_alike(self) -> None:
        large = photograph(2, 1024, 768)
        target = night(3, width=500, height=300)

        few, many = (FourierTranslator.fit([], [target], beta=beta) for beta in (0.01, 0.04))

        assert np.abs(array(one(few, large).reduce(4)) - array(one(many, large.reduce(4)))).mean() < 0.5

    def test_depend_on_image_and_seed_alone(self) -> None:
        translator = FourierTranslator.fit([], [night(seed) for seed in range(5)])
        images, seeds = [photograph(seed, 30 + seed) for seed in range(6)], [7, 8, 9, 10, 11, 2**63]

        together = translator.translate(images, seeds=seeds)
        backwards = translator.translate(images[::-1], seeds=seeds[::-1])[::-1]
        alone = [one(translator, image, seed) for image, seed in zip(images, seeds, strict=True)]

        for first, second, third in zip(together, backwards, alone, strict=True):
            assert first.tobytes() == second.tobytes() == third.tobytes()
        assert len({one(translator, images[0], seed).tobytes() for seed in range(20)}) >= 4

    @settings(max_examples=30, deadline=None)
    @given(
        width=st.integers(1, 40),
        height=st.integers(1, 40),
        level=st.integers(0, 255),
        beta=st.floats(0.001, 0.5),
    )
    def test_of_a_blank_image_are_blank_in_the_target_s_mean_colour(
        self, width: int, height: int, level: int, beta: float
    ) -> None:
        """It shows no light and dark that could be changed; noise of the transform is not taken for some."""
        target = night(2)
        flat = Image.new("RGB", (width, height), (level, 255 - level, level // 2))

        result = one(FourierTranslator.fit([], [target], beta=beta), flat)

        assert (result.size, result.mode) == ((width, height), "RGB")
        wanted = array(target).mean(axis=(0, 1))
        assert np.abs(array(result) - wanted).max() < 0.51

    def test_keep_their_own_frequencies_where_a_small_target_image_shows_none(self) -> None:
        source = photograph(5)

        result = one(FourierTranslator.fit([], [night(1, width=7, height=5)], beta=0.4), source)

        before, after = (np.fft.fft2(array(image), axes=(0, 1)) / 2400 for image in (source, result))
        assert np.abs(after - before)[3:-2].max() < 0.05
        assert np.abs(after - before)[:3].max() > 5

    def test_leave_the_given_images_alone(self) -> None:
        image = photograph(1)
        before = image.tobytes()

        for beta in (0, 0.1):
            one(FourierTranslator.fit([], [night(1)], beta=beta), image).paste((0, 0, 0), (0, 0, 9, 9))

        assert image.tobytes() == before

    def test_other_modes_fail(self) -> None:
        translator = FourierTranslator.fit([], [night(1)])

        assert translator.translate([Image.new("L", (8, 8))], seeds=[0]) == [Failed("mode L, need RGB")]

    def test_one_seed_an_image(self) -> None:
        with pytest.raises(ArgumentError, match="2 images and 1 seeds"):
            FourierTranslator.fit([], [night(1)]).translate([photograph(1)] * 2, seeds=[0])

    def test_bring_scenes_by_day_nearer_to_scenes_by_night(self) -> None:
        days, nights = (
            RenderedScenes(24, seed=8, day_night=category, size=48) for category in ("day", "night")
        )
        others = RenderedScenes(24, seed=9, day_night="night", size=48)
        sources = [sample.load() for sample in days]
        translator = FourierTranslator.fit([], others)

        results = translator.translate(sources, seeds=range(24))

        def light(images: list[Image.Image]) -> np.ndarray:
            """Return the mean picture at 4 × 4 pixels."""
            small = [image.resize((4, 4), Image.Resampling.BOX) for image in images]
            return np.mean([array(image) for image in small], axis=0)

        wanted = light([sample.load() for sample in nights])
        left = np.abs(light(results) - wanted).mean() / np.abs(light(sources) - wanted).mean()
        assert left < 0.4


class TestFit:
    def test_the_same_images_and_seed_give_the_same_translator(self) -> None:
        nights = [night(seed) for seed in range(6)]

        first, second, other = (
            FourierTranslator.fit([], nights, seed=seed, maximum_images=3) for seed in (1, 1, 2)
        )

        assert first.fingerprint == second.fingerprint != other.fingerprint
        assert len(first.amplitudes) == 3
        assert FourierTranslator.fit([], nights, beta=0.1).fingerprint != (
            FourierTranslator.fit([], nights, beta=0.2).fingerprint
        )

    def test_it_remembers_what_it_was_given(self) -> None:
        days = ImageList([photograph(seed) for seed in range(2)], groups=["video 1", "video 2"])
        nights = ImageList([night(seed) for seed in range(3)], groups=["video 3", "video 3", None])

        translator = FourierTranslator.fit(days, nights, maximum_images=1, semantic="day_night")

        assert translator.fitted_on == {sample.content_key() for sample in (*days, *nights)}
        assert translator.fitted_groups == {"video 3"}
        assert isinstance(translator, Translator)
        assert (translator.name, translator.source, translator.target) == ("fourier", "day", "night")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"target_images": []}, "no image of 'night' to learn from"),
            ({"beta": 0.6}, r"beta 0\.6: need a share from 0 to 0\.5"),
            ({"beta": -0.1}, r"beta -0\.1"),
            ({"beta": float("nan")}, "beta nan"),
            ({"maximum_images": 0}, "maximum_images 0"),
            ({"source": "night"}, "both 'night'"),
            ({"source_images": [night(1)]}, "night image 0 is given as 'night' and"),
        ],
    )
    def test_wrong_arguments(self, arguments: dict[str, Any], message: str) -> None:
        given = {"source_images": [], "target_images": [night(1)], **arguments}

        with pytest.raises(ArgumentError, match=message):
            FourierTranslator.fit(given.pop("source_images"), given.pop("target_images"), **given)


class TestFile:
    def test_a_loaded_translator_is_the_saved_one(self, tmp_path: Path) -> None:
        nights = ImageList([night(seed) for seed in range(3)], groups=["video 3", None, None])
        translator = FourierTranslator.fit([photograph(1)], nights, beta=0.07, semantic="day_night")

        file = translator.save(tmp_path / "new folder" / "day to night.safetensors")
        loaded = load_translator(f"fourier@{file}")

        assert isinstance(loaded, FourierTranslator)
        assert loaded.fingerprint == translator.fingerprint
        for name in ("source", "target", "beta", "fitted_on", "fitted_groups", "semantic", "name"):
            assert getattr(loaded, name) == getattr(translator, name)
        for seed in range(3):
            image = photograph(seed + 5)
            assert one(loaded, image, seed).tobytes() == one(translator, image, seed).tobytes()
        assert [path.name for path in file.parent.iterdir()] == [file.name]

    def test_a_file_of_another_kind_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "bad.safetensors"
        with pytest.raises(ModelError, match=r"bad\.safetensors: not a fourier translator"):
            FourierTranslator.load(file)
        save_file({"a": np.zeros(3)}, file, {"semcov_colour_translator": "{}"})
        with pytest.raises(
            ModelError, match=r"no semcov_fourier_translator\); make it with FourierTranslator"
        ):
            FourierTranslator.load(file)

    @pytest.mark.parametrize(
        ("header", "arrays", "message"),
        [
            ({"version": 99}, {}, "version 99, this package reads version 1"),
            ({"beta": None}, {}, "beta in its header is None"),
            ({"beta": True}, {}, "beta in its header is True"),
            ({"beta": 0.7}, {}, r"beta in its header is 0\.7"),
            ({"target": 3}, {}, "lacks source, target"),
            ({}, {"more": np.zeros(2)}, "it holds amplitudes, more, reach"),
            ({}, {"reach": np.zeros(3, np.int64)}, "amplitudes has shape"),
            ({}, {"reach": np.zeros((2, 1), np.int64)}, r"reach \(2, 1\)"),
            ({}, {"reach": np.full(2, MOST_CYCLES + 1)}, "reach holds values"),
            ({}, {"reach": np.ones(2)}, "reach holds values"),
            ({}, {"amplitudes": np.full((2, 3, 65, 33), np.nan, np.float32)}, "amplitudes holds values"),
            ({}, {"amplitudes": np.full((2, 3, 65, 33), -1, np.float32)}, "amplitudes holds values"),
        ],
    )
    def test_contents_that_do_not_fit_are_refused(
        self, tmp_path: Path, header: dict[str, object], arrays: dict[str, np.ndarray], message: str
    ) -> None:
        translator = FourierTranslator.fit([], [night(1), night(2)])
        good = {"version": 1, "source": "day", "target": "night", "beta": 0.02}
        file = tmp_path / "bad.safetensors"
        save_file(
            {"amplitudes": translator.amplitudes, "reach": translator.reach, **arrays},
            file,
            {"semcov_fourier_translator": json.dumps({**good, **header})},
        )

        with pytest.raises(ModelError, match=message):
            FourierTranslator.load(file)
