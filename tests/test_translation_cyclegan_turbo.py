"""CycleGAN-Turbo: the same numbers as the published code, sizes, batches, failures."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusion_pipelines import published_checkpoint, reference, save_pipeline
from PIL import Image

from pytest_semcov import CycleGanTurboTranslator, Failed, ImageList, Translator
from pytest_semcov.errors import ArgumentError, MissingDependencyError
from pytest_semcov.translation.cyclegan_turbo import _precision
from pytest_semcov.translation.cyclegan_turbo_network import (
    CycleGanTurboNetwork,
    denoised,
    generate,
    schedule_of,
)
from pytest_semcov.translation.selection import plan_augmentation
from pytest_semcov.translation.specs import load_translator
from pytest_semcov.translation.translating import translate_plan

ARGUMENTS: dict[str, Any] = {
    "direction": "a2b",
    "prompt": "night",
    "source": "day",
    "target": "night",
    "device": "cpu",
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pipeline(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def content(base: Path) -> dict[str, Any]:
    return published_checkpoint(base)


@pytest.fixture(scope="module")
def file(base: Path, content: dict[str, Any]) -> Path:
    path = base.parent / f"{base.name}.pkl"
    torch.save(content, path)
    return path


@pytest.fixture
def translator(file: Path, base: Path) -> CycleGanTurboTranslator:
    return CycleGanTurboTranslator.load(file, base=base, **ARGUMENTS)


@pytest.fixture(scope="module")
def shared(file: Path, base: Path) -> CycleGanTurboTranslator:
    """One translator for tests that leave it as it is."""
    return CycleGanTurboTranslator.load(file, base=base, **ARGUMENTS)


@pytest.fixture(scope="module")
def tiny(shared_data: Path) -> Path:
    folder = shared_data / "cyclegan_turbo_tiny"
    if not folder.is_dir():
        pytest.skip(f"the published implementation's outputs are not here: no folder {folder}")
    return folder


def photograph(seed: int, width: int = 32, height: int = 24) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def tensor(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 127.5 - 1


def run(translator: CycleGanTurboTranslator, images: torch.Tensor, direction: str = "a2b") -> torch.Tensor:
    with torch.no_grad():
        return generate(translator.network, images, translator.caption.embedding, direction)


def one(translator: CycleGanTurboTranslator, image: Image.Image, seed: int = 0) -> Image.Image:
    (result,) = translator.translate([image], seeds=[seed])
    assert isinstance(result, Image.Image), result
    return result


class TestNumbers:
    @pytest.mark.parametrize(("direction", "prompt"), [("a2b", "night"), ("b2a", "day")])
    def test_are_those_of_the_published_implementation(self, tiny: Path, direction: str, prompt: str) -> None:
        known = np.load(tiny / "reference.npz")
        translator = CycleGanTurboTranslator.load(
            tiny / "checkpoint.pkl",
            base=tiny / "base",
            **{**ARGUMENTS, "direction": direction, "prompt": prompt, "target": prompt, "source": "other"},
        )
        images = torch.from_numpy(known["input"])

        alone = torch.cat([run(translator, image[None], direction) for image in images])
        together = run(translator, images, direction)

        wanted = known[f"mean_{direction}_{prompt}"]
        assert np.abs(alone.numpy() - wanted).max() <= 1e-4
        assert np.abs(together.numpy() - wanted).max() <= 1e-4
        # The reference is not met by chance: the posterior's sample differs.
        assert np.abs(alone.numpy()[:1] - known[f"sample_{direction}_{prompt}"]).max() > 1e-2

    @pytest.mark.parametrize("direction", ["a2b", "b2a"])
    def test_are_those_of_merged_weights_and_hooks(
        self, base: Path, content: dict[str, Any], shared: CycleGanTurboTranslator, direction: str
    ) -> None:
        image = tensor(photograph(1))

        made = run(shared, image, direction)

        wanted = reference(base, content, image, shared.caption.embedding, direction)
        assert (made - wanted).abs().max() <= 1e-4
        assert made.std() > 0.01

    def test_the_directions_differ(self, shared: CycleGanTurboTranslator) -> None:
        image = tensor(photograph(1))

        assert (run(shared, image, "a2b") - run(shared, image, "b2a")).abs().max() > 0.1

    def test_adapters_of_zero_leave_one_plain_step(self, base: Path, tmp_path: Path) -> None:
        neutral = published_checkpoint(base, strength=0)
        torch.save(neutral, tmp_path / "neutral.pkl")
        translator = CycleGanTurboTranslator.load(tmp_path / "neutral.pkl", base=base, **ARGUMENTS)
        image = tensor(photograph(1))

        made = run(translator, image)

        plain = reference(base, neutral, image, translator.caption.embedding, "a2b")
        assert (made - plain).abs().max() <= 1e-5

    @pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
    @pytest.mark.parametrize("clip", [False, True])
    def test_closed_form_is_the_scheduler_s_step(
        self, base: Path, shared: CycleGanTurboTranslator, prediction: str, clip: bool
    ) -> None:
        from diffusers import DDPMScheduler

        scheduler = DDPMScheduler.from_pretrained(
            base / "scheduler",
            prediction_type=prediction,
            clip_sample=clip,
            clip_sample_range=1.5,
            timestep_spacing="trailing",
        )
        alpha, predicts, limit = schedule_of(scheduler, "test")
        network = dataclasses.replace(shared.network, alpha=alpha, prediction=predicts, clip=limit)
        generator = torch.Generator().manual_seed(0)
        latent, predicted = torch.randn(2, 3, 4, 6, 6, generator=generator)

        made = denoised(network, latent, predicted)

        scheduler.set_timesteps(1)
        wanted = scheduler.step(predicted, torch.tensor(999), latent).prev_sample
        assert (predicts, limit) == (prediction, 1.5 if clip else None)
        assert (made - wanted).abs().max() <= 1e-5 * max(1.0, float(wanted.abs().max()))

    def test_published_schedule(self, shared: CycleGanTurboTranslator) -> None:
        network: CycleGanTurboNetwork = shared.network

        assert network.alpha == pytest.approx(0.0046601, abs=1e-6)
        assert (network.timestep, network.multiple) == (999, 8)


class TestImages:
    @pytest.mark.parametrize("size", [(640, 427), (32, 24), (9, 7), (1, 1), (64, 3)])
    def test_keep_their_size(self, shared: CycleGanTurboTranslator, size: tuple[int, int]) -> None:
        result = one(shared, photograph(1, *size)) if size != (1, 1) else None
        if result is None:
            # A single pixel cannot span levels: made, but blank.
            assert shared.translate([photograph(1, 1, 1)], seeds=[0]) == [
                Failed("the translation is blank: all its pixels are equal")
            ]
            return
        assert (result.size, result.mode) == (size, "RGB")

    def test_a_whole_size_is_neither_padded_nor_resized(self, shared: CycleGanTurboTranslator) -> None:
        image = photograph(1, 32, 24)

        levels = ((run(shared, tensor(image))[0].permute(1, 2, 0) + 1) * 127.5).round().to(torch.uint8)

        assert np.array_equal(np.asarray(one(shared, image)), levels.numpy())

    def test_padding_mirrors_on_the_right_and_below(self, shared: CycleGanTurboTranslator) -> None:
        image = photograph(1, 29, 21)
        padded = np.asarray(image)[[*range(21), 19, 18, 17]][:, [*range(29), 27, 26, 25]]

        result = one(shared, image)

        assert np.array_equal(np.asarray(result), np.asarray(one(shared, Image.fromarray(padded)))[:21, :29])

    def test_published_resizing(self, file: Path, base: Path, shared: CycleGanTurboTranslator) -> None:
        resizing = CycleGanTurboTranslator.load(file, base=base, prep="resize_32x48", **ARGUMENTS)
        image = photograph(1, 43, 27)

        result = one(resizing, image)

        small = image.resize((32, 48), Image.Resampling.LANCZOS)
        wanted = one(shared, small).resize((43, 27), Image.Resampling.LANCZOS)
        assert np.array_equal(np.asarray(result), np.asarray(wanted))
        assert resizing.fingerprint != shared.fingerprint

    def test_depend_on_nothing_else(self, shared: CycleGanTurboTranslator) -> None:
        images = [photograph(1), photograph(2, 43, 27), photograph(3), photograph(4, 16, 16)]

        together = shared.translate(images, seeds=[5, 6, 7, 8])
        backwards = shared.translate(images[::-1], seeds=[0, 0, 0, 0])[::-1]

        for image, first, second in zip(images, together, backwards, strict=True):
            assert isinstance(first, Image.Image)
            assert isinstance(second, Image.Image)
            assert first.tobytes() == second.tobytes() == one(shared, image, seed=9).tobytes()

    def test_are_left_alone(self, shared: CycleGanTurboTranslator) -> None:
        image = photograph(1)
        before = image.tobytes()

        one(shared, image)

        assert image.tobytes() == before

    def test_other_modes_fail(self, shared: CycleGanTurboTranslator) -> None:
        assert shared.translate([Image.new("L", (8, 8))], seeds=[0]) == [Failed("mode L, need RGB")]

    def test_one_seed_an_image(self, shared: CycleGanTurboTranslator) -> None:
        with pytest.raises(ArgumentError, match="2 images and 1 seeds"):
            shared.translate([photograph(1)] * 2, seeds=[0])

    def test_blank_output_fails_and_the_next_image_does_not(
        self, translator: CycleGanTurboTranslator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decoder: Any = translator.network.modules["vae_a2b"]
        with torch.no_grad():
            for name, parameter in decoder.decoder.conv_out.named_parameters():
                parameter.fill_(-3.0 if name.endswith("bias") else 0.0)

        (result,) = translator.translate([photograph(1)], seeds=[0])

        assert result == Failed("the translation is blank: all its pixels are equal")

    def test_output_that_is_not_finite_fails(self, translator: CycleGanTurboTranslator) -> None:
        unet: Any = translator.network.modules["unet"]
        with torch.no_grad():
            unet.conv_out.base_layer.bias.fill_(float("nan"))

        (result,) = translator.translate([photograph(1)], seeds=[0])

        assert isinstance(result, Failed)
        assert "not finite" in result.reason


class TestTranslator:
    def test_serves_augmentation(self, shared: CycleGanTurboTranslator) -> None:
        assert isinstance(shared, Translator)
        images = ImageList([photograph(1), photograph(2, 43, 27)], ids=["a", "b"])
        plan = plan_augmentation(["a", "b"], semantic="day_night", source="day", target="night", needed=2)

        synthetic, failed = translate_plan(images, plan, shared)

        assert (len(synthetic), failed) == (2, {})
        provenance = synthetic[0].provenance
        assert provenance is not None
        assert (provenance.translator, provenance.prompt) == ("cyclegan-turbo", "night")
        assert provenance.translator_fingerprint == shared.fingerprint

    @pytest.mark.slow
    def test_fingerprint_tells_what_an_output_depends_on(
        self, file: Path, base: Path, content: dict[str, Any], shared: CycleGanTurboTranslator, tmp_path: Path
    ) -> None:
        def fingerprint(path: Path = file, **changes: Any) -> str:
            return CycleGanTurboTranslator.load(path, base=base, **{**ARGUMENTS, **changes}).fingerprint

        changed = {**content, "sd_other": {**content["sd_other"]}}
        changed["sd_other"]["conv_out.lora_A.weight"] = changed["sd_other"]["conv_out.lora_A.weight"] + 1e-3
        torch.save(changed, tmp_path / "changed.pkl")

        found = [
            shared.fingerprint,
            fingerprint(prompt="dusk"),
            fingerprint(direction="b2a", dtype="bfloat16"),
            fingerprint(tmp_path / "changed.pkl"),
        ]

        assert len(set(found)) == len(found)

    def test_saved_and_loaded_is_the_same(
        self, translator: CycleGanTurboTranslator, base: Path, tmp_path: Path
    ) -> None:
        unet: Any = translator.network.modules["unet"]
        with torch.no_grad():  # training changes it; the published layout loses it
            unet.conv_in.base_layer.weight += 0.1
            unet.conv_in.base_layer.bias += 0.1
        image = tensor(photograph(1))

        path = translator.save(tmp_path / "made" / "turbo.safetensors")
        loaded = CycleGanTurboTranslator.load(path, base=base, device="cpu")

        for direction in ("a2b", "b2a"):
            difference = run(loaded, image, direction) - run(translator, image, direction)
            assert difference.abs().max() <= 1e-6
        assert loaded.fingerprint == translator.fingerprint
        assert (loaded.source, loaded.target, loaded.prompt) == ("day", "night", "night")
        assert [entry.name for entry in path.parent.iterdir()] == ["turbo.safetensors"]

    def test_file_says_what_belongs_to_it(
        self, shared: CycleGanTurboTranslator, base: Path, tmp_path: Path
    ) -> None:
        from safetensors import safe_open

        path = shared.save(tmp_path / "turbo.safetensors")

        with safe_open(path, framework="pt") as content:
            header = json.loads(content.metadata()["semcov_cyclegan_turbo"])
            names = set(content.keys())
        assert header["captions"] == {"a2b": "night"}
        assert (header["direction"], header["categories"]) == ("a2b", ["day", "night"])
        assert (header["prep"], header["base"]) == ("pad", str(base))
        assert {"pytest-semcov", "torch", "diffusers", "peft"} <= set(header["versions"])
        assert {"unet.conv_in.base_layer.weight", "unet.conv_in.base_layer.bias"} <= names

    @pytest.mark.slow
    def test_other_direction_of_a_saved_one(
        self, shared: CycleGanTurboTranslator, base: Path, tmp_path: Path
    ) -> None:
        path = shared.save(tmp_path / "turbo.safetensors")

        with pytest.raises(ArgumentError, match="caption of b2a"):
            CycleGanTurboTranslator.load(path, base=base, direction="b2a")
        back = CycleGanTurboTranslator.load(path, base=base, direction="b2a", prompt="day", device="cpu")
        again = CycleGanTurboTranslator.load(
            back.save(tmp_path / "both.safetensors"), base=base, direction="a2b", device="cpu"
        )

        assert (back.source, back.target, back.direction) == ("night", "day", "b2a")
        assert again.fingerprint == shared.fingerprint

    def test_spec(self, shared: CycleGanTurboTranslator, base: Path, tmp_path: Path) -> None:
        path = shared.save(tmp_path / "made@home.safetensors")

        loaded = load_translator(f"cyclegan-turbo:{base}@{path}")

        assert loaded.fingerprint == shared.fingerprint
        for wrong in ("cyclegan-turbo:", f"cyclegan-turbo:{base}", "cyclegan-turbo:@x", "cyclegan-turbo:x@"):
            with pytest.raises(ArgumentError, match="cyclegan-turbo:BASE@CHECKPOINT"):
                load_translator(wrong)

    @pytest.mark.parametrize(
        ("name", "source", "target", "prompt"),
        [
            ("day2night", "day", "night", "driving in the night"),
            pytest.param("rainy2clear", "rain", "clear", "driving in the day", marks=pytest.mark.slow),
        ],
    )
    def test_published_names_are_known(
        self,
        content: dict[str, Any],
        base: Path,
        tmp_path: Path,
        name: str,
        source: str,
        target: str,
        prompt: str,
    ) -> None:
        torch.save(content, tmp_path / f"{name}.pkl")

        loaded = load_translator(f"cyclegan-turbo:{base}@{tmp_path / name}.pkl")

        assert (loaded.source, loaded.target) == (source, target)
        assert isinstance(loaded, CycleGanTurboTranslator)
        assert loaded.prompt == prompt

    @pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.slow), "bfloat16"])
    def test_half_precision_is_the_unet_s_alone(
        self, file: Path, base: Path, shared: CycleGanTurboTranslator, dtype: str
    ) -> None:
        half = CycleGanTurboTranslator.load(file, base=base, dtype=dtype, **ARGUMENTS)

        kinds = {
            name: {str(parameter.dtype) for parameter in part.parameters()}
            for name, part in half.network.modules.items()
        }
        assert kinds == {
            "unet": {f"torch.{dtype}"},
            "vae_a2b": {"torch.float32"},
            "vae_b2a": {"torch.float32"},
        }
        image = photograph(1)
        assert np.abs(np.asarray(one(half, image), float) - np.asarray(one(shared, image), float)).mean() < 12

    def test_precision_by_device(self) -> None:
        assert _precision("auto", torch.device("cpu")) == "float32"
        assert _precision("auto", torch.device("cuda")) == "float16"
        with pytest.raises(ArgumentError, match="dtype 'int8': use 'auto', 'float32'"):
            _precision("int8", torch.device("cpu"))

    def test_loading_leaves_global_random_numbers_alone(
        self, file: Path, base: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        before = torch.get_rng_state()

        CycleGanTurboTranslator.load(file, base=base, **ARGUMENTS)

        assert torch.equal(torch.get_rng_state(), before)
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"direction": None}, "does not say the direction; give direction='a2b' or 'b2a'"),
            ({"direction": "ab"}, "direction 'ab'; give"),
            ({"prompt": None}, "does not say the caption of a2b; give prompt="),
            ({"prompt": "x " * 100}, "102 tokens, .* takes 77; make it shorter"),
            ({"source": None}, "give source= and target="),
            ({"target": "day"}, "source and target are both 'day'"),
            ({"prep": "crop"}, "prep 'crop'; use 'pad' or 'resize_WIDTHxHEIGHT'"),
            ({"prep": "resize_512x510"}, "prep 'resize_512x510'.* multiples of 8"),
            ({"device": "abacus"}, "device 'abacus'"),
            ({"dtype": "int8"}, "dtype 'int8'"),
        ],
    )
    def test_wrong_arguments_are_named(
        self, file: Path, base: Path, changes: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ArgumentError, match=message) as caught:
            CycleGanTurboTranslator.load(file, base=base, **{**ARGUMENTS, **changes})
        assert "\n" not in str(caught.value)

    def test_save_refuses_other_files(self, shared: CycleGanTurboTranslator, tmp_path: Path) -> None:
        with pytest.raises(ArgumentError, match=r"must end in \.safetensors"):
            shared.save(tmp_path / "turbo.pkl")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("library", ["diffusers", "peft", "transformers"])
    def test_missing_library_names_the_extra(
        self, file: Path, base: Path, monkeypatch: pytest.MonkeyPatch, library: str
    ) -> None:
        monkeypatch.setitem(sys.modules, library, None)

        with pytest.raises(MissingDependencyError, match=rf"needs {library}.*pytest-semcov\[diffusion\]"):
            CycleGanTurboTranslator.load(file, base=base, **ARGUMENTS)
