"""Pipelines of diffusers: tiny random ones, saved and run for real."""

from __future__ import annotations

import dataclasses
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionImg2ImgPipeline
from edit_pipelines import (
    change_index,
    save_image_to_image,
    save_instruct,
    save_kontext,
    save_lora,
    save_qwen_edit,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file

from pytest_semcov import DiffusersTranslator, Failed, ImageList, Translator
from pytest_semcov.errors import ArgumentError, MissingDependencyError, ModelError
from pytest_semcov.semantics.descriptors import catalogue
from pytest_semcov.translation import diffusers_loading
from pytest_semcov.translation.diffusers_kinds import find_pipeline
from pytest_semcov.translation.diffusers_options import check_steps, parse_spec_options, steps_taken
from pytest_semcov.translation.diffusers_pipeline import BLOCKED
from pytest_semcov.translation.selection import plan_augmentation
from pytest_semcov.translation.specs import load_translator
from pytest_semcov.translation.translating import translate_plan

PLACES: dict[str, Any] = {"source": "day", "target": "night", "device": "cpu"}
FAST: dict[str, Any] = {**PLACES, "strength": 0.5, "steps": 4}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pipelines")


@pytest.fixture(scope="module")
def image_to_image(folder: Path) -> Path:
    return save_image_to_image(folder / "image to image")


@pytest.fixture(scope="module")
def instruct(folder: Path) -> Path:
    return save_instruct(folder / "instruct")


@pytest.fixture(scope="module")
def translator(image_to_image: Path) -> DiffusersTranslator:
    return DiffusersTranslator.load(image_to_image, **FAST)


def copy_of(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def sizes(images: list[Any]) -> list[Any]:
    return [image.size for image in images]


def one(translator: Any, image: Image.Image, seed: int = 1) -> Any:
    return translator.translate([image], seeds=[seed])[0]


def same(first: Any, second: Any) -> bool:
    return np.array_equal(np.asarray(first), np.asarray(second))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_it_makes_what_the_pipeline_itself_makes(
    translator: DiffusersTranslator, image_to_image: Path
) -> None:
    image = noise(48, 32)
    pipeline = StableDiffusionImg2ImgPipeline.from_pretrained(image_to_image)
    made = pipeline(
        "night",
        image,
        strength=0.5,
        num_inference_steps=4,
        generator=torch.Generator().manual_seed(7),
        output_type="np",
    ).images[0]

    assert same(one(translator, image, 7), np.rint(made * 255).astype(np.uint8))


@pytest.mark.parametrize(
    "kind", ["image to image", "instruct", "kontext", pytest.param("qwen", marks=pytest.mark.slow)]
)
def test_alone_and_in_a_batch_the_same_and_the_size_as_before(kind: str, folder: Path, request: Any) -> None:
    if kind == "image to image":
        translator = request.getfixturevalue("translator")
    elif kind == "instruct":
        base = request.getfixturevalue("instruct")
        translator = DiffusersTranslator.load(
            base, **PLACES, steps=2, guidance_scale=3.0, image_guidance_scale=1.2
        )
    else:
        base = (save_kontext if kind == "kontext" else save_qwen_edit)(folder / kind)
        translator = DiffusersTranslator.load(
            base, **PLACES, steps=2, true_cfg_scale=2.0, negative_prompt="day"
        )
    assert isinstance(translator, Translator)
    images = [noise(37, 21, 1), noise(16, 40, 2), noise(37, 21, 3), noise(33, 17, 4)]
    together = translator.translate(images, seeds=[1, 2, 3, 4])

    assert sizes(together) == sizes(images)
    for number in (3, 0, 2, 1):
        assert same(one(translator, images[number], number + 1), together[number])
    assert not same(one(translator, images[0], 2), together[0])


def test_427_x_640_comes_back_as_427_x_640(translator: DiffusersTranslator) -> None:
    made = one(translator.with_options(strength=1.0, steps=1), noise(427, 640))
    assert made.size == (427, 640)


def test_sides_are_padded_by_reflection_and_cut_where_they_were(translator: DiffusersTranslator) -> None:
    image = noise(43, 30)
    padded = Image.fromarray(np.pad(np.asarray(image), ((0, 2), (0, 5), (0, 0)), mode="reflect"))

    assert same(one(translator, image), one(translator, padded).crop((0, 0, 43, 30)))


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 9), (7, 7), (65, 3)])
def test_tiny_images_do_not_crash(size: tuple[int, int], translator: DiffusersTranslator) -> None:
    made = one(translator, noise(*size))
    assert made.size == size if isinstance(made, Image.Image) else "blank" in made.reason


@pytest.mark.parametrize("prep", ["fit_32", "resize_48x32"])
def test_prepared_at_another_size_and_back(prep: str, translator: DiffusersTranslator) -> None:
    made = one(translator.with_options(prep=prep), noise(90, 41))
    assert made.size == (90, 41)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strength": 0.05, "steps": 15}, r"strength 0.05 x 15 steps = 0.75, less than one step.*steps=20"),
        ({"strength": 0.0}, "strength 0.0: need more than 0"),
        ({"strength": float("nan")}, "strength nan: need a finite number"),
        ({"steps": 0}, "steps 0: need a whole number from 1"),
        ({"guidance_scale": -1.0}, "guidance_scale -1.0: need 0 or more"),
        (
            {"image_guidance_scale": 1.5},
            r"the pipeline has no image_guidance_scale; it has strength, steps, ",
        ),
        ({"true_cfg_scale": 2.0}, "the pipeline has no true_cfg_scale"),
        ({"prep": "resize_0x8"}, "prep 'resize_0x8'"),
        ({"prompt": " "}, "prompt ' ': need a text"),
        ({"prompt": "night " * 80}, r"prompt 'night .* tokens, the pipeline takes 77; make it shorter"),
        ({"prompt": "night", "phrases": ["dark"]}, "either prompt= or phrases="),
        ({"target": "day"}, "source 'day', target 'day': need two categories"),
        ({"dtype": "float16"}, "dtype 'float16' on the CPU"),
        ({"dtype": "int8"}, "dtype 'int8': use"),
        ({"cpu_offload": "model"}, "cpu_offload 'model': the device is the CPU"),
        ({"cpu_offload": "disk"}, "cpu_offload 'disk': use 'model' or 'sequential'"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], message: str, image_to_image: Path) -> None:
    with pytest.raises(ArgumentError, match=message):
        DiffusersTranslator.load(image_to_image, **{**PLACES, **wrong})


def test_an_instruction_pipeline_has_no_strength(instruct: Path) -> None:
    with pytest.raises(ArgumentError, match="has no strength; it has steps, guidance_scale, image_guidance"):
        DiffusersTranslator.load(instruct, **PLACES, strength=0.5)


def test_strength_and_steps_are_refused_before_the_model_is_looked_for() -> None:
    with pytest.raises(ArgumentError, match="less than one step"):
        DiffusersTranslator.load("nowhere/nothing", **PLACES, strength=0.05, steps=15)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@settings(max_examples=60, deadline=None)
@given(
    steps=st.integers(1, 60), strength=st.one_of(st.floats(0.01, 1), st.sampled_from([1 / 49, 0.29, 1 / 3]))
)
def test_steps_are_counted_as_the_pipeline_counts_them(
    translator: DiffusersTranslator, steps: int, strength: float
) -> None:
    pipeline = translator.loaded.pipeline
    pipeline.scheduler.set_timesteps(steps)
    timesteps, _ = pipeline.get_timesteps(steps, strength, "cpu")

    assert steps_taken(steps, strength) == len(timesteps)
    if len(timesteps) == 0:
        with pytest.raises(ArgumentError, match="less than one step") as refused:
            check_steps(steps, strength, spec="a pipeline")
        advised = int(str(refused.value).partition("steps=")[2].split()[0])
        check_steps(advised, strength, spec="a pipeline")


def test_prompts_are_built_from_phrases_and_for_instructions_told(
    translator: DiffusersTranslator, instruct: Path
) -> None:
    phrases = catalogue()["day_night"].prompts("night")
    told = DiffusersTranslator.load(instruct, **PLACES, steps=2, phrases=phrases)

    assert told.prompt == "make it nighttime"
    assert translator.with_options(phrases=["nighttime", "dark", "nighttime"]).prompt == "nighttime, dark"
    assert translator.prompt == "night"
    with pytest.raises(ArgumentError, match="one or more texts"):
        translator.with_options(phrases="night")


def test_fingerprint_follows_everything_that_changes_an_output(
    translator: DiffusersTranslator, image_to_image: Path, tmp_path: Path
) -> None:
    changed = copy_of(image_to_image, tmp_path)
    again = DiffusersTranslator.load(changed, **FAST)
    configuration = changed / "vae" / "config.json"
    text = configuration.read_text()
    configuration.write_text(text.replace('"scaling_factor": 0.18215', '"scaling_factor": 0.2'))
    rescaled = DiffusersTranslator.load(changed, **FAST)
    configuration.write_text(text)
    weights = changed / "vae" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(weights)
    tensors["decoder.conv_out.bias"] = tensors["decoder.conv_out.bias"] + 1
    save_file(tensors, weights, metadata={"format": "pt"})
    others = [
        rescaled,
        translator.with_options(prompt="dusk"),
        translator.with_options(strength=0.75),
        translator.with_options(guidance_scale=2.0),
        translator.with_options(prep="fit_64"),
        DiffusersTranslator.load(changed, **FAST),
        DiffusersTranslator.load(image_to_image, **FAST, dtype="bfloat16"),
        DiffusersTranslator.load(image_to_image, **{**FAST, "target": "dusk", "prompt": "night"}),
    ]
    fingerprints = [translator.fingerprint, *(other.fingerprint for other in others)]

    assert again.fingerprint == translator.fingerprint
    assert len(set(fingerprints)) == len(fingerprints)
    assert same(one(again, noise(20, 20)), one(translator, noise(20, 20)))


def test_a_text_to_image_model_is_run_by_its_image_to_image_pipeline(
    translator: DiffusersTranslator, folder: Path
) -> None:
    base = save_image_to_image(folder / "text to image", text_to_image=True)
    made = DiffusersTranslator.load(base, **FAST)

    assert type(made.loaded.pipeline) is StableDiffusionImg2ImgPipeline
    assert same(one(made, noise(20, 20)), one(translator, noise(20, 20)))


def test_a_blocked_image_is_a_failure_of_its_own(folder: Path) -> None:
    base = save_image_to_image(folder / "checked", checker=True)
    translator = DiffusersTranslator.load(base, **FAST)
    checker = translator.loaded.pipeline.safety_checker
    assert checker is not None
    for weights, expected in ((-9.0, True), (9.0, False)):
        # Everything, or nothing, is nearer to a concept than its threshold.
        checker.concept_embeds_weights.data.fill_(weights)
        checker.special_care_embeds_weights.data.fill_(9.0)
        made = one(translator, noise(24, 24))
        assert (made == Failed(BLOCKED)) is expected


def test_three_made_and_two_blocked_are_counted(
    translator: DiffusersTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [noise(16, 16, number) for number in range(5)]
    blocked = [np.asarray(image) for image in images[1:3]]
    genuine = translator.loaded.pipeline.run_safety_checker

    def check(made: Any, device: Any, dtype: Any) -> Any:
        made, _ = genuine(made, device, dtype)
        return made, [any(np.array_equal(current[0], each) for each in blocked)]

    current: list[Any] = []
    call = type(translator.loaded.pipeline).__call__

    def called(self: Any, *, image: Any, **arguments: Any) -> Any:
        current[:] = [np.asarray(image)]
        return call(self, image=image, **arguments)

    monkeypatch.setattr(type(translator.loaded.pipeline), "__call__", called)
    monkeypatch.setattr(translator.loaded.pipeline, "run_safety_checker", check)
    dataset = ImageList(images, ids=[f"image {number}" for number in range(5)])
    plan = plan_augmentation(dataset.ids, semantic="day_night", source="day", target="night", needed=5)
    made, failed = translate_plan(dataset, plan, translator)

    assert len(made) == 3
    assert failed == {"image 1": BLOCKED, "image 2": BLOCKED}
    assert {sample.provenance.prompt for sample in made.samples if sample.provenance} == {"night"}


@pytest.mark.parametrize(("value", "reason"), [(float("nan"), "not finite"), (0.0, "blank")])
def test_broken_outputs_are_failures_with_their_reason(
    value: float, reason: str, image_to_image: Path
) -> None:
    translator = DiffusersTranslator.load(image_to_image, **FAST)
    with torch.no_grad():
        translator.loaded.pipeline.vae.decoder.conv_out.weight.fill_(value)
    made = one(translator, noise(20, 20))

    assert isinstance(made, Failed)
    assert reason in made.reason
    assert one(translator, Image.new("L", (9, 9))) == Failed("mode L, need RGB")


def test_lora_changes_the_output_by_its_weight(
    translator: DiffusersTranslator, image_to_image: Path, tmp_path: Path
) -> None:
    file = save_lora(tmp_path / "lora", image_to_image)
    image = noise(24, 24)
    by_weight = {
        weight: DiffusersTranslator.load(image_to_image, **FAST, lora=str(lora), lora_weight=weight)
        for weight, lora in ((0.0, file), (1.0, file.parent), (2.0, file))
    }
    made = [one(each, image) for each in by_weight.values()]

    assert same(made[0], one(translator, image))
    assert not same(made[0], made[1])
    assert not same(made[1], made[2])
    assert len({each.fingerprint for each in (translator, *by_weight.values())}) == 4


def test_a_lora_that_does_not_fit_is_refused(image_to_image: Path, tmp_path: Path) -> None:
    other = save_lora(tmp_path / "other", image_to_image, other_model=True)
    with pytest.raises(ModelError, match=r"LoRA .* does not fit"):
        DiffusersTranslator.load(image_to_image, **FAST, lora=str(other))
    save_file({"something.else": torch.zeros(2)}, tmp_path / "strange.safetensors")
    with pytest.raises(ModelError, match=r"LoRA .*strange.safetensors"):
        DiffusersTranslator.load(image_to_image, **FAST, lora=str(tmp_path / "strange.safetensors"))
    (tmp_path / "lora.bin").write_bytes(b"")
    with pytest.raises(ModelError, match=r"lora\.bin: need an existing \.safetensors"):
        DiffusersTranslator.load(image_to_image, **FAST, lora=str(tmp_path / "lora.bin"))


def test_code_from_model_folders_is_never_run(image_to_image: Path, tmp_path: Path) -> None:
    copy = copy_of(image_to_image, tmp_path)
    (copy / "pipeline.py").write_text("raise SystemExit('code was run')\n")
    for changes in (
        {"_class_name": ["pipeline", "StableDiffusionImg2ImgPipeline"]},
        {"_class_name": "MyPipeline"},
        {"_class_name": "StableDiffusionImg2ImgPipeline", "unet": ["pipeline", "MyUNet"]},
    ):
        change_index(copy, **changes)
        with pytest.raises(
            ModelError, match="not part of diffusers, and code from model folders is never run"
        ):
            DiffusersTranslator.load(copy, **FAST)


@pytest.mark.parametrize(
    "name", ["StableDiffusionInpaintPipeline", "DDPMPipeline", "StableVideoDiffusionPipeline"]
)
def test_pipelines_for_something_else_are_refused(name: str, image_to_image: Path, tmp_path: Path) -> None:
    copy = change_index(copy_of(image_to_image, tmp_path), _class_name=name)
    with pytest.raises(ModelError, match=f"{name} does not make an image from an image and a prompt alone"):
        DiffusersTranslator.load(copy, **FAST)


def test_only_safetensors_and_all_of_them(image_to_image: Path, tmp_path: Path) -> None:
    copy = copy_of(image_to_image, tmp_path)
    weights = copy / "unet" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(weights)
    del tensors["conv_out.bias"]
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights of its UNet2DConditionModel: conv_out.bias"):
        DiffusersTranslator.load(copy, **FAST)
    torch.save(tensors, weights.with_suffix(".bin"))
    weights.unlink()
    with pytest.raises(ModelError, match=r"has no unet/.*weights must be safetensors"):
        DiffusersTranslator.load(copy, **FAST)
    (copy / "model_index.json").unlink()
    with pytest.raises(ModelError, match=r"has no model_index\.json"):
        DiffusersTranslator.load(copy, **FAST)


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_a_missing_model_is_one_line_and_no_socket(
    variable: str, empty_hub: Path, no_network: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ModelError) as missing:
        DiffusersTranslator.load("org/painter", **PLACES, revision="v2")
    message = str(missing.value)

    assert "\n" not in message
    for part in (
        "model_index.json of org/painter (revision v2)",
        str(empty_hub / "hub"),
        "offline mode is set",
    ):
        assert part in message
    assert no_network == []


def test_with_sockets_blocked_a_missing_model_is_one_line_at_once(
    empty_hub: Path, no_network: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    with pytest.raises(ModelError) as missing:
        DiffusersTranslator.load("org/painter", **PLACES)
    message = str(missing.value)

    assert "\n" not in message
    assert "org/painter (revision main)" in message
    assert str(empty_hub / "hub") in message
    with pytest.raises(ModelError, match="it is no repository name"):
        DiffusersTranslator.load("/no/such/folder", **PLACES)


def test_a_gated_model_names_its_licence_page(empty_hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import GatedRepoError

    def refuse(*arguments: object, **keywords: object) -> None:
        error = GatedRepoError.__new__(GatedRepoError)
        Exception.__init__(error, "403")
        raise error

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    with pytest.raises(
        ModelError, match=r"gated: accept its licence at https://huggingface\.co/org/painter and"
    ) as gated:
        DiffusersTranslator.load("org/painter", **PLACES)
    assert "\n" not in str(gated.value)


def test_a_cached_repository_runs_without_a_socket(
    translator: DiffusersTranslator,
    image_to_image: Path,
    empty_hub: Path,
    no_network: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = empty_hub / "hub" / "models--org--painter"
    (repository / "refs").mkdir(parents=True)
    commit = "0" * 40
    (repository / "refs" / "main").write_text(commit)
    shutil.copytree(image_to_image, repository / "snapshots" / commit)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    cached = DiffusersTranslator.load("org/painter", **FAST)

    assert cached.name == "diffusers:org/painter"
    assert same(one(cached, noise(20, 20)), one(translator, noise(20, 20)))
    assert no_network == []
    assert socket.socket.__name__ == "Blocked"


def test_nothing_is_printed_and_the_process_random_numbers_stay(
    image_to_image: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one(DiffusersTranslator.load(image_to_image, **FAST), noise(20, 20))

    assert torch.equal(torch.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")


def test_from_a_spec(image_to_image: Path) -> None:
    spec = (
        f"diffusers:{image_to_image}?source=day&target=night&semantic=day_night&strength=.5&steps=4"
        "&negative_prompt=bright+sun&guidance_scale=3&device=cpu"
    )
    made = load_translator(spec, descriptors=catalogue())
    assert isinstance(made, DiffusersTranslator)
    options = made.options

    assert (made.source, made.target, made.semantic) == ("day", "night", "day_night")
    assert (options.strength, options.steps, options.guidance_scale) == (0.5, 4, 3.0)
    assert (options.prompt, options.negative_prompt) == ("nighttime", "bright sun")
    assert made.name == "diffusers:image to image"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("org/name", "need source and target, as in diffusers:organisation/name"),
        ("org/name?source=day", "need target"),
        ("?source=day&target=night", "need a folder or repository"),
        ("org/name?source=day&target=night&colour=red", "unknown option 'colour'; valid are source, "),
        ("org/name?source=day&source=night", "option 'source' is there twice"),
        ("org/name?source=", "option 'source' is empty"),
        ("org/name?source", "write NAME=VALUE"),
        ("org/name?steps=4.5", "option steps=4.5: need a whole number"),
        ("org/name?strength=much", "option strength=much: need a number"),
    ],
)
def test_specs_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        load_translator(f"diffusers:{text}")


def test_options_of_a_spec_are_written_as_in_a_web_address() -> None:
    assert parse_spec_options("a/b?prompt=snow+%26+ice&steps=3&lora_weight=.5") == (
        "a/b",
        {"prompt": "snow & ice", "steps": 3, "lora_weight": 0.5},
    )


def test_precision_follows_device_and_kind(image_to_image: Path) -> None:
    painter = find_pipeline(str(image_to_image), spec="painter")
    kontext = dataclasses.replace(painter, index={**painter.index, "transformer": ["diffusers", "Flux"]})
    cpu, cuda = torch.device("cpu"), torch.device("cuda")

    assert diffusers_loading._precision("auto", cpu, painter) == "float32"
    assert diffusers_loading._precision("auto", cuda, painter) == "float16"
    assert diffusers_loading._precision("auto", cuda, kontext) == "bfloat16"
    assert diffusers_loading._precision("float16", cuda, painter) == "float16"
    assert diffusers_loading._precision("bfloat16", cpu, painter) == "bfloat16"


@pytest.mark.parametrize("offload", ["model", "sequential"])
def test_offload_is_asked_of_the_pipeline_and_needs_accelerate(
    offload: str, image_to_image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def offloaded(self: object, device: object) -> None:
        asked.append(device)

    cuda = torch.device("cuda")
    monkeypatch.setattr(diffusers_loading, "resolve_device", lambda device: cuda)
    monkeypatch.setattr(StableDiffusionImg2ImgPipeline, f"enable_{offload}_cpu_offload", offloaded)
    DiffusersTranslator.load(image_to_image, **FAST, dtype="float32", cpu_offload=offload)

    assert asked == [cuda]
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(
        MissingDependencyError, match=r"cpu_offload needs accelerate.*pytest-semcov\[diffusion\]"
    ):
        DiffusersTranslator.load(image_to_image, **FAST, dtype="float32", cpu_offload=offload)


def test_missing_libraries_are_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(MissingDependencyError, match=r"diffusers translator needs diffusers.*\[diffusion\]"):
        DiffusersTranslator.load("org/painter", **PLACES)


def test_unknown_options_and_seeds_are_refused(translator: DiffusersTranslator) -> None:
    with pytest.raises(ArgumentError, match="no option 'colour'; there are prompt, "):
        translator.with_options(colour="red")
    with pytest.raises(ArgumentError, match="seed 9223372036854775808: need at most"):
        translator.translate([noise(9, 9)], seeds=[2**63])
    with pytest.raises(ArgumentError, match="1 images and 0 seeds"):
        translator.translate([noise(9, 9)], seeds=[])
