"""The colour translator: what it learns, what it changes and what it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save_file
from scipy.stats import spearmanr

from pytest_semcov import ColourTranslator, Failed, ImageList, RenderedScenes, SampleDataset, Translator
from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.data.samples import Sample
from pytest_semcov.errors import ArgumentError, ImageError, ModelError
from pytest_semcov.translation.oklab import rgb_to_oklab
from pytest_semcov.translation.specs import load_translator

METHODS = ["transport", "statistics"]
Translators = dict[str, ColourTranslator]


def photograph(
    seed: int, width: int = 60, height: int = 40, level: float = 140, spread: float = 30
) -> Image.Image:
    """Return smooth random colours with a little noise."""
    generator = np.random.default_rng(seed)
    small = Image.fromarray(generator.normal(level, spread, (6, 8, 3)).clip(0, 255).astype(np.uint8))
    smooth = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), dtype=float)
    return Image.fromarray((smooth + generator.normal(0, 4, smooth.shape)).clip(0, 255).astype(np.uint8))


def night(seed: int) -> Image.Image:
    return photograph(1000 + seed, level=60, spread=20)


@pytest.fixture(scope="module")
def translators() -> Translators:
    days, nights = [photograph(seed) for seed in range(3)], [night(seed) for seed in range(5)]
    return {method: ColourTranslator.fit(days, nights, method=method) for method in METHODS}


def same(first: Image.Image, second: Image.Image) -> bool:
    return np.array_equal(np.asarray(first), np.asarray(second))


def oklab(image: Image.Image) -> np.ndarray:
    return rgb_to_oklab(np.asarray(image)).reshape(-1, 3)


@pytest.mark.parametrize("method", METHODS)
class TestResults:
    def test_depend_on_image_and_seed_alone(self, translators: Translators, method: str) -> None:
        translator = translators[method]
        images, seeds = [photograph(seed) for seed in range(4)], [7, 8, 9, 10]

        together = translator.translate(images, seeds=seeds)
        backwards = translator.translate(images[::-1], seeds=seeds[::-1])[::-1]
        alone = [
            translator.translate([image], seeds=[seed])[0] for image, seed in zip(images, seeds, strict=True)
        ]

        for first, second, third in zip(together, backwards, alone, strict=True):
            assert same(first, second)
            assert same(first, third)

    def test_vary_with_the_seed(self, translators: Translators, method: str) -> None:
        results = translators[method].translate([photograph(1)] * 12, seeds=range(12))

        assert len({result.tobytes() for result in results}) >= 4

    def test_leave_the_given_images_alone(self, translators: Translators, method: str) -> None:
        image = photograph(1)
        before = image.tobytes()

        translators[method].translate([image], seeds=[0])

        assert image.tobytes() == before

    @settings(max_examples=12, deadline=None)
    @given(
        width=st.integers(1, 40),
        height=st.integers(1, 40),
        level=st.integers(0, 255),
        seed=st.integers(0, 2**63),
    )
    def test_have_the_size_of_the_source(
        self, translators: Translators, method: str, width: int, height: int, level: int, seed: int
    ) -> None:
        flat = Image.new("RGB", (width, height), (level, level, level // 2))

        (result,) = translators[method].translate([flat], seeds=[seed])

        assert (result.size, result.mode) == ((width, height), "RGB")

    def test_other_modes_fail(self, translators: Translators, method: str) -> None:
        assert translators[method].translate([Image.new("L", (8, 8))], seeds=[0]) == [
            Failed("mode L, need RGB")
        ]

    def test_one_seed_an_image(self, translators: Translators, method: str) -> None:
        with pytest.raises(ArgumentError, match="2 images and 1 seeds"):
            translators[method].translate([photograph(1)] * 2, seeds=[0])
        with pytest.raises(ArgumentError, match="seed -1"):
            translators[method].translate([photograph(1)], seeds=[-1])

    def test_take_over_the_target_image_s_colours(self, translators: Translators, method: str) -> None:
        only = night(50)
        translator = ColourTranslator.fit([], [only], method=method)

        (result,) = translator.translate([photograph(1)], seeds=[0])

        got, wanted = oklab(result), oklab(only)
        assert got.mean(axis=0) == pytest.approx(wanted.mean(axis=0), abs=0.01)
        assert got.std(axis=0) == pytest.approx(wanted.std(axis=0), rel=0.1)


class TestTransport:
    def test_moves_whole_distributions_of_colour(self) -> None:
        """Also where they are far from Gaussian: a dark picture with a few lamps."""
        pixels = np.full((40, 60, 3), 20, np.uint8)
        pixels += np.random.default_rng(0).integers(0, 12, pixels.shape, dtype=np.uint8)
        pixels[20:26, ::10] = (255, 220, 150)
        lamps = Image.fromarray(pixels)

        (result,) = ColourTranslator.fit([], [lamps]).translate([photograph(3)], seeds=[4])

        levels = [0.05, 0.25, 0.5, 0.75, 0.98, 0.995]
        assert np.quantile(oklab(result)[:, 0], levels) == pytest.approx(
            np.quantile(oklab(lamps)[:, 0], levels), abs=0.04
        )

    def test_objects_stay_where_they_are(self, translators: Translators) -> None:
        pixels = np.asarray(photograph(2, 120, 80)).copy()
        pixels[:, 70:] = (pixels[:, 70:] * 0.4).astype(np.uint8)
        image = Image.fromarray(pixels)

        results = translators["transport"].translate([image] * 3, seeds=[1, 2, 3])

        for result in results:
            columns = np.abs(np.diff(oklab(result)[:, 0].reshape(80, 120), axis=1)).mean(axis=0)
            assert int(columns.argmax()) == 69

    def test_what_is_brighter_nearby_stays_brighter(self, translators: Translators) -> None:
        scenes = RenderedScenes(3, seed=5, day_night="day", sharp_blurry="sharp")

        for number, scene in enumerate(scenes):
            image = scene.load()
            (result,) = translators["transport"].translate([image], seeds=[number])
            rows = [oklab(each)[:, 0].reshape(64, 64)[40:] for each in (image, result)]
            edges = [np.diff(each, axis=1).ravel() for each in rows]
            strong = np.abs(edges[0]) > np.quantile(np.abs(edges[0]), 0.9)
            assert spearmanr(edges[0][strong], edges[1][strong]).statistic > 0.75

    def test_large_images_keep_their_fine_detail(self, translators: Translators) -> None:
        pixels = np.asarray(photograph(2, 640, 560)).astype(int)
        stripes = np.where(np.arange(640) % 2, 12, -12)[None, :, None]
        image = Image.fromarray((pixels + stripes).clip(0, 255).astype(np.uint8))

        (result,) = translators["transport"].translate([image], seeds=[3])

        lightness = oklab(result)[:, 0].reshape(560, 640)
        assert result.size == (640, 560)
        assert (np.diff(lightness, axis=1)[:, ::2] > 0).mean() > 0.9

    def test_large_and_small_versions_of_an_image_get_alike(self, translators: Translators) -> None:
        large = photograph(2, 1024, 768)

        results = translators["transport"].translate([large, large.reduce(4)], seeds=[3, 3])

        small = results[0].reduce(4)
        assert np.abs(oklab(small) - oklab(results[1])).mean() < 0.03

    def test_photographs_by_day_get_as_dark_as_photographs_by_night(self, day_night_folder: Path) -> None:
        train = day_night_folder / "train"
        nights = [Image.open(train / "night" / f"{number:03d}.jpg") for number in range(1, 120, 15)]
        days = [Image.open(train / "day" / f"{number:03d}.jpg") for number in range(1, 120, 30)]
        translator = ColourTranslator.fit([], nights)

        results = translator.translate([day.convert("RGB") for day in days], seeds=range(len(days)))

        lightness = [float(oklab(image)[:, 0].mean()) for image in (*nights, *results)]
        assert max(lightness[len(nights) :]) <= max(lightness[: len(nights)]) + 0.02
        assert float(oklab(days[0])[:, 0].mean()) > max(lightness)


class TestFit:
    def test_the_same_images_and_seed_give_the_same_translator(self) -> None:
        nights = [night(seed) for seed in range(6)]

        first, second, other = (
            ColourTranslator.fit([], nights, seed=seed, maximum_images=3) for seed in (1, 1, 2)
        )

        assert first.fingerprint == second.fingerprint != other.fingerprint
        assert len(first.looks["base"]) == 3

    def test_it_remembers_what_it_was_given(self) -> None:
        days = ImageList([photograph(seed) for seed in range(2)], groups=["video 1", "video 2"])
        nights = ImageList([night(seed) for seed in range(3)], groups=["video 3", "video 3", None])

        translator = ColourTranslator.fit(days, nights, maximum_images=1)

        assert translator.fitted_on == {sample.content_key() for sample in (*days, *nights)}
        assert translator.fitted_groups == {"video 3"}
        assert isinstance(translator, Translator)
        assert (translator.name, translator.source, translator.target) == ("colour-transport", "day", "night")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"target_images": []}, "no image of 'night' to learn from"),
            ({"method": "magic"}, "method 'magic': need one of transport, statistics"),
            ({"maximum_images": 0}, "maximum_images 0"),
            ({"source": "night"}, "both 'night'"),
            (
                {"source_images": [night(1)]},
                r"night image 0 is given as 'night' and \(as day image 0\) as 'day'",
            ),
        ],
    )
    def test_wrong_arguments(self, arguments: dict[str, object], message: str) -> None:
        given = {"source_images": [], "target_images": [night(1)], **arguments}

        with pytest.raises(ArgumentError, match=message):
            ColourTranslator.fit(given.pop("source_images"), given.pop("target_images"), **given)

    def test_an_unreadable_image_is_named(self) -> None:
        broken = SampleDataset([Sample("night/7.jpg", MemorySource(b"no image"))])

        with pytest.raises(ImageError, match=r"night/7\.jpg"):
            ColourTranslator.fit([], broken)


class TestFile:
    @pytest.mark.parametrize("method", METHODS)
    def test_a_loaded_translator_is_the_saved_one(
        self, translators: Translators, method: str, tmp_path: Path
    ) -> None:
        translator = translators[method]
        file = translator.save(tmp_path / "new folder" / "day to night.safetensors")

        loaded = load_translator(f"colour@{file}")

        assert loaded.fingerprint == translator.fingerprint
        assert loaded.fitted_on == translator.fitted_on
        assert (loaded.source, loaded.target, loaded.name) == ("day", "night", f"colour-{method}")
        for first, second in zip(
            *(each.translate([photograph(9)] * 2, seeds=[1, 2]) for each in (loaded, translator)), strict=True
        ):
            assert same(first, second)
        assert [path.name for path in file.parent.iterdir()] == [file.name]

    def test_a_failed_save_leaves_the_old_file(
        self, translators: Translators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "translator.safetensors"
        file.write_bytes(b"old")

        def full(*_: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="disk full"):
            translators["statistics"].save(file)

        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {file.name: b"old"}

    def test_files_that_are_no_translator_are_named(self, translators: Translators, tmp_path: Path) -> None:
        file = tmp_path / "bad.safetensors"
        with pytest.raises(ModelError, match=r"bad\.safetensors: not a colour translator"):
            ColourTranslator.load(file)
        file.write_bytes(b"\0" * 40)
        with pytest.raises(ModelError, match=r"bad\.safetensors: not a colour translator"):
            ColourTranslator.load(file)
        save_file({"a": np.zeros(3)}, file)
        with pytest.raises(ModelError, match="its header has no semcov_colour_translator"):
            ColourTranslator.load(file)

    @pytest.mark.parametrize(
        ("header", "arrays", "message"),
        [
            ({"version": 99}, {}, "version 99, this package reads version 1"),
            ({"method": "magic"}, {}, "method 'magic'"),
            ({"source": 3}, {}, "lacks source, target, method"),
            ({"fitted_on": "abc"}, {}, "fitted_on in its header is not a list"),
            ({}, {"mean": np.full((5, 3), np.nan, np.float32)}, "mean holds values that are not finite"),
            ({}, {"mean": np.zeros((4, 3), np.float32)}, "has shape"),
            ({}, {"mean": np.zeros((5, 2), np.float32)}, r"mean has shape \(5, 2\)"),
            (
                {},
                {"more": np.zeros((5, 3), np.float32)},
                "it holds deviation, mean, more; need deviation, mean",
            ),
        ],
    )
    def test_contents_that_do_not_fit_are_refused(
        self,
        translators: Translators,
        tmp_path: Path,
        header: dict[str, object],
        arrays: dict[str, np.ndarray],
        message: str,
    ) -> None:
        good = {"version": 1, "source": "day", "target": "night", "method": "statistics"}
        file = tmp_path / "bad.safetensors"
        save_file(
            {**translators["statistics"].looks, **arrays},
            file,
            {"semcov_colour_translator": json.dumps({**good, **header})},
        )

        with pytest.raises(ModelError, match=message):
            ColourTranslator.load(file)
