"""The small unpaired translator: what its networks do, what training changes, and its files."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file

from pytest_semcov import Failed, ImageList, Translator, UnpairedTranslator
from pytest_semcov.errors import ArgumentError, ImageError, ModelError, TooFewError
from pytest_semcov.translation.specs import load_translator
from pytest_semcov.translation.unpaired_network import (
    fields,
    judge,
    new_discriminator,
    new_generator,
    recolour,
)
from pytest_semcov.translation.unpaired_training import CODE_SIZE, Looks, Recipe, statistics_of, train


def photograph(seed: int, width: int = 40, height: int = 32, level: float = 150) -> Image.Image:
    """Return smooth random colours with a little noise."""
    generator = np.random.default_rng(seed)
    small = Image.fromarray(generator.normal(level, 35, (4, 5, 3)).clip(0, 255).astype(np.uint8))
    smooth = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), dtype=float)
    return Image.fromarray((smooth + generator.normal(0, 4, smooth.shape)).clip(0, 255).astype(np.uint8))


def night(seed: int, **more: Any) -> Image.Image:
    return photograph(1000 + seed, **{"level": 40 + 3 * (seed % 7), **more})


DAYS = [photograph(seed) for seed in range(12)]
NIGHTS = [night(seed) for seed in range(12)]


def quick(**more: Any) -> UnpairedTranslator:
    return UnpairedTranslator.fit(DAYS, NIGHTS, **{"steps": 3, "size": 32, **more})


@functools.cache
def trained() -> UnpairedTranslator:
    return quick(steps=40)


def one(translator: UnpairedTranslator, image: Image.Image, seed: int = 0) -> Image.Image:
    (result,) = translator.translate([image], seeds=[seed])
    assert isinstance(result, Image.Image)
    return result


def array(image: Image.Image) -> np.ndarray:
    return np.asarray(image, dtype=float)


def tensor(images: list[Image.Image], size: int = 32) -> torch.Tensor:
    pixels = [np.asarray(image.resize((size, size)), dtype=np.float32) / 255 for image in images]
    return torch.from_numpy(np.stack(pixels).transpose(0, 3, 1, 2).copy())


class TestNetworks:
    def test_a_new_generator_changes_nothing(self) -> None:
        parameters = new_generator(CODE_SIZE, torch.Generator().manual_seed(1))
        images = torch.rand(2, 3, 48, 32, generator=torch.Generator().manual_seed(2))

        maps = fields(parameters, images, torch.ones(2, CODE_SIZE))

        assert maps.shape == (2, 12, 48, 32)
        assert torch.equal(recolour(maps, images), images)

    def test_maps_of_colours_are_affine(self) -> None:
        random = torch.Generator().manual_seed(1)
        maps = torch.randn(2, 12, 4, 5, generator=random)
        images = torch.rand(2, 3, 4, 5, generator=random)

        result = recolour(maps, images)

        for place in [(0, 0, 0), (1, 3, 4)]:
            item, row, column = place
            numbers = maps[item, :, row, column].double().numpy()
            factors = np.eye(3) + numbers[:9].reshape(3, 3)
            wanted = factors @ images[item, :, row, column].double().numpy() + numbers[9:]
            np.testing.assert_allclose(result[item, :, row, column], wanted, rtol=1e-5, atol=1e-6)

    def test_the_discriminator_scores_patches_of_two_sizes_and_the_whole(self) -> None:
        parameters = new_discriminator(torch.Generator().manual_seed(1))
        images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(2))

        small, large, whole = judge(parameters, images)

        assert small.shape == (3, 1, 16, 16)
        assert large.shape == (3, 1, 8, 8)
        assert whole.shape == (3, 1, 1, 1)
        alike = judge(parameters, images[:1].expand(3, -1, -1, -1))
        assert torch.allclose(alike[0][0], small[0], atol=1e-6)
        assert not torch.allclose(alike[2][0], whole[0], atol=1e-6)


class TestLooks:
    def test_statistics_are_mean_and_deviation_per_band_and_channel(self) -> None:
        images = torch.rand(2, 3, 48, 32, generator=torch.Generator().manual_seed(1))

        found = statistics_of(images).double().numpy().reshape(2, 2, 3, 3)

        for band in range(3):
            part = images[:, :, 16 * band : 16 * band + 16].double().numpy()
            np.testing.assert_allclose(found[:, 0, :, band], part.mean(axis=(2, 3)), rtol=1e-5)
            np.testing.assert_allclose(found[:, 1, :, band], part.std(axis=(2, 3)), rtol=1e-4)

    def test_codes_of_the_looks_have_unit_variance_and_no_correlation(self) -> None:
        looks = Looks.learn(tensor(DAYS), tensor(NIGHTS))

        codes = looks.codes(looks.statistics).double().numpy()

        np.testing.assert_allclose(codes.T @ codes / len(codes), np.eye(CODE_SIZE), atol=1e-3)

    def test_an_image_gets_a_look_that_is_for_its_category_what_it_is_for_its_own(self) -> None:
        """The brightest of the day images gets one of the brightest nights, though all are darker."""
        levels = range(10, 110, 10)
        days = [Image.new("RGB", (32, 32), (level + 120,) * 3) for level in levels]
        nights = [Image.new("RGB", (32, 32), (level,) * 3) for level in levels]
        looks = Looks.learn(tensor(days), tensor(nights))

        chosen = looks.choose(tensor(days), torch.zeros(10))

        assert chosen.tolist() == list(range(10))

    def test_target_images_that_are_all_the_same_have_one_look(self) -> None:
        looks = Looks.learn(tensor(DAYS), tensor([NIGHTS[0]] * 12))

        assert looks.codes(looks.statistics).abs().max() < 0.1


class TestTraining:
    def test_makes_day_as_dark_as_night_and_keeps_objects_where_they_are(self) -> None:
        pixels = np.asarray(photograph(99, 90, 60)).copy()
        pixels[:, 50:] = (pixels[:, 50:] * 0.4).astype(np.uint8)
        source = Image.fromarray(pixels)

        result = one(trained(), source)

        assert array(result).mean() < 0.75 * array(source).mean()
        columns = np.abs(np.diff(array(result), axis=1)).mean(axis=(0, 2))
        assert int(columns.argmax()) == 49

    def test_the_same_images_and_seed_give_the_same_translator(self) -> None:
        state = torch.random.get_rng_state()
        first, second, other = quick(seed=1), quick(seed=1), quick(seed=2)

        assert first.fingerprint == second.fingerprint != other.fingerprint
        assert torch.equal(torch.random.get_rng_state(), state)
        assert torch.is_grad_enabled()
        assert not any(parameter.flags.writeable is False for parameter in first.weights.values())

    def test_tells_how_far_it_is(self) -> None:
        told: list[tuple[str, int, int]] = []

        quick(progress=lambda *what: told.append(what))

        assert told[:24] == [("reading images", number, 24) for number in range(1, 25)]
        assert told[24:] == [("training", number, 3) for number in range(1, 4)]

    def test_that_diverges_is_an_error(self) -> None:
        images = tensor(DAYS)

        with pytest.raises(ModelError, match=r"training diverged in step \d+ .* fit with another seed"):
            train(
                images,
                images,
                Looks.learn(images, images),
                steps=20,
                seed=0,
                recipe=Recipe(generator_rate=1e30, discriminator_rate=1e30),
            )

    def test_it_remembers_what_it_was_given(self) -> None:
        days = ImageList(DAYS, groups=[f"video {number}" for number in range(12)])
        nights = ImageList(NIGHTS, groups=["video 20", *[None] * 11])

        translator = UnpairedTranslator.fit(days, nights, steps=1, size=32, semantic="day_night")

        assert translator.fitted_on == {sample.content_key() for sample in (*days, *nights)}
        assert translator.fitted_groups == {"video 20"}
        assert isinstance(translator, Translator)
        assert (translator.name, translator.source, translator.target) == ("unpaired", "day", "night")
        assert translator.semantic == "day_night"

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"target_images": []}, ArgumentError, "no image of 'night' to learn from"),
            ({"source_images": DAYS[:9]}, TooFewError, "9 images of 'day' to learn from, need at least 10"),
            ({"target_images": NIGHTS[:4]}, TooFewError, "4 images of 'night'.* e.g. colour"),
            ({"steps": 0}, ArgumentError, "steps 0: need at least 1"),
            ({"seed": -1}, ArgumentError, "seed -1"),
            ({"size": 16}, ArgumentError, "size 16: need a multiple of 16, 32 to 256"),
            ({"size": 72}, ArgumentError, "size 72"),
            ({"device": "sofa"}, ArgumentError, "device 'sofa'"),
            ({"source": "night"}, ArgumentError, "both 'night'"),
            ({"source_images": [*DAYS, NIGHTS[0]]}, ArgumentError, "night image 0 is given as 'night' and"),
        ],
    )
    def test_wrong_arguments(self, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
        given = {"source_images": DAYS, "target_images": NIGHTS, "steps": 1, "size": 32, **arguments}

        with pytest.raises(error, match=message):
            UnpairedTranslator.fit(given.pop("source_images"), given.pop("target_images"), **given)

    def test_an_image_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "broken.png").write_bytes(b"no image")

        with pytest.raises(ImageError, match=r"broken\.png"):
            UnpairedTranslator.fit(DAYS, ImageList([*NIGHTS, tmp_path / "broken.png"]), steps=1, size=32)


class TestResults:
    def test_depend_on_image_and_seed_alone(self) -> None:
        images, seeds = [photograph(seed, 30 + seed) for seed in range(6)], [7, 8, 9, 10, 11, 2**63]

        together = trained().translate(images, seeds=seeds)
        backwards = trained().translate(images[::-1], seeds=seeds[::-1])[::-1]
        alone = [one(trained(), image, seed) for image, seed in zip(images, seeds, strict=True)]

        for first, second, third in zip(together, backwards, alone, strict=True):
            assert first.tobytes() == second.tobytes() == third.tobytes()
        assert len({one(trained(), images[0], seed).tobytes() for seed in range(20)}) >= 2

    @pytest.mark.parametrize("size", [(1, 1), (1, 9), (3, 2), (640, 427), (427, 640), (33, 500)])
    def test_have_the_size_of_their_source(self, size: tuple[int, int]) -> None:
        image = photograph(3, *size) if min(size) > 8 else Image.new("RGB", size, (200, 180, 150))

        result = one(trained(), image)

        assert (result.size, result.mode) == (size, "RGB")
        assert array(result).mean() < array(image).mean() - 30

    def test_carry_detail_that_the_small_copy_does_not_hold(self) -> None:
        """Stripes one pixel wide are gone from the copy of 32 pixels and still there in the result."""
        pixels = np.full((256, 256, 3), 150, np.uint8)
        pixels[:, ::2] = 170

        result = array(one(trained(), Image.fromarray(pixels)))

        steps = np.abs(np.diff(result, axis=1))
        plain = array(one(trained(), Image.new("RGB", (256, 256), (160, 160, 160))))
        assert steps.mean() > 3
        assert np.abs(result[:, ::2] / 2 + result[:, 1::2] / 2 - plain[:, ::2]).mean() < 3

    def test_leave_the_given_image_alone(self) -> None:
        image = photograph(1)
        before = image.tobytes()

        one(trained(), image).paste((0, 0, 0), (0, 0, 9, 9))

        assert image.tobytes() == before

    def test_other_modes_fail(self) -> None:
        assert trained().translate([Image.new("L", (8, 8))], seeds=[0]) == [Failed("mode L, need RGB")]

    def test_one_seed_an_image(self) -> None:
        with pytest.raises(ArgumentError, match="2 images and 1 seeds"):
            trained().translate([photograph(1)] * 2, seeds=[0])


class TestFile:
    def test_a_loaded_translator_is_the_saved_one(self, tmp_path: Path) -> None:
        translator = trained()

        file = translator.save(tmp_path / "new folder" / "day to night.safetensors")
        loaded = load_translator(f"unpaired@{file}")

        assert isinstance(loaded, UnpairedTranslator)
        assert loaded.fingerprint == translator.fingerprint
        for name in ("source", "target", "size", "fitted_on", "fitted_groups", "semantic", "name"):
            assert getattr(loaded, name) == getattr(translator, name)
        for seed in range(3):
            image = photograph(seed + 50)
            assert one(loaded, image, seed).tobytes() == one(translator, image, seed).tobytes()
        assert [path.name for path in file.parent.iterdir()] == [file.name]

    def test_a_file_of_another_kind_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "bad.safetensors"
        with pytest.raises(ModelError, match=r"bad\.safetensors: not an unpaired translator"):
            UnpairedTranslator.load(file)
        save_file({"a": np.zeros(3)}, file, {"semcov_colour_translator": "{}"})
        with pytest.raises(ModelError, match=r"make it with UnpairedTranslator\.fit"):
            UnpairedTranslator.load(file)

    @pytest.mark.parametrize(
        ("header", "arrays", "message"),
        [
            ({"version": 99}, {}, "version 99, this package reads version 1"),
            ({"size": None}, {}, "size in its header is None"),
            ({"size": True}, {}, "size in its header is True"),
            ({"size": 50}, {}, "size in its header is 50"),
            ({"target": 3}, {}, "lacks source, target"),
            ({}, {"more": np.zeros(2, np.float32)}, "it lacks arrays or holds others: more"),
            (
                {},
                {"statistics": np.zeros((0, 18), np.float32)},
                "it lacks arrays or holds others: statistics",
            ),
            ({}, {"statistics": np.zeros((3, 17), np.float32)}, r"statistics is float32 of shape \(3, 17\)"),
            ({}, {"projection": np.zeros((18, 6))}, "projection is float64"),
            (
                {},
                {"source_deviation": np.zeros(18, np.float32)},
                "source_deviation holds values that are not",
            ),
            ({}, {"source_mean": np.full(18, np.nan, np.float32)}, "source_mean holds values"),
            ({}, {"generator.out.bias": np.zeros(13, np.float32)}, r"generator\.out\.bias is float32"),
        ],
    )
    def test_contents_that_do_not_fit_are_refused(
        self, tmp_path: Path, header: dict[str, object], arrays: dict[str, np.ndarray], message: str
    ) -> None:
        good = {"version": 1, "source": "day", "target": "night", "size": 32}
        file = tmp_path / "bad.safetensors"
        save_file(
            {**trained().weights, **arrays},
            file,
            {"semcov_unpaired_translator": json.dumps({**good, **header})},
        )

        with pytest.raises(ModelError, match=message):
            UnpairedTranslator.load(file)
