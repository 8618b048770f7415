"""Training CycleGAN-Turbo: losses by hand, what is trained, resuming, refusals."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusion_pipelines import save_pipeline
from PIL import Image

from pytest_semcov import CycleGanTurboTranslator, ImageList
from pytest_semcov.embedding.callables import embedder_from_callable
from pytest_semcov.errors import ArgumentError, DatasetError, MissingDependencyError, ModelError, TooFewError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict
from pytest_semcov.translation.cyclegan_turbo_data import Preparation, draw_pairs, read_training_folder
from pytest_semcov.translation.cyclegan_turbo_discriminator import (
    adversarial_loss,
    augment,
    new_discriminator,
)
from pytest_semcov.translation.cyclegan_turbo_features import (
    FrozenFeatures,
    feature_distance,
    load_features,
    load_perceptual,
)
from pytest_semcov.translation.cyclegan_turbo_loop import Loop, Losses
from pytest_semcov.translation.cyclegan_turbo_network import (
    build_network,
    generate,
    published_layout,
    trainable,
)
from pytest_semcov.translation.cyclegan_turbo_state import read_state
from pytest_semcov.translation.cyclegan_turbo_training import TrainingSettings, train_cyclegan_turbo
from pytest_semcov.translation.cyclegan_turbo_validation import figures_of, validate_by_sufficiency
from pytest_semcov.translation.diffusion_base import load_base
from pytest_semcov.translation.selection import unseen

CPU = torch.device("cpu")
PREPARATION = Preparation((18, 18), (16, 16), True)


def settings(**changes: Any) -> TrainingSettings:
    given: dict[str, Any] = {
        "steps": 20,
        "preparation": "resize_18_randomcrop_16x16_hflip",
        "unet_rank": 2,
        "vae_rank": 2,
        "learning_rate": 1e-3,
        "checkpoint_every": 19,
        "validate_every": 10,
        "validation_images": 2,
    }
    return TrainingSettings(**{**given, **changes})


def backbone(seed: int = 0) -> FrozenFeatures:
    """A tiny random network with a map and a vector."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, stride=2, padding=1),
            torch.nn.Tanh(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
        )
    return FrozenFeatures("tiny", network, ("1", "3"), size=16)


def pictures(level: int, seed: int, count: int = 4) -> list[Image.Image]:
    random = np.random.default_rng(seed)
    return [
        Image.fromarray(np.clip(random.normal(level, 30, (20, 24, 3)), 0, 255).astype(np.uint8))
        for _ in range(count)
    ]


DAYS, NIGHTS = pictures(170, 1), pictures(60, 2)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pipeline(tmp_path_factory.mktemp("base"), shallow=True)


def train(base: Path, folder: Path, **changes: Any) -> CycleGanTurboTranslator:
    arguments: dict[str, Any] = {
        "settings": settings(),
        "perceptual": backbone(1),
        "backbone": backbone(),
        "device": "cpu",
        **changes,
    }
    days = ImageList(DAYS, groups=["street"] * 4)
    nights = ImageList(NIGHTS, groups=["road", "road", "yard", "yard"])
    return train_cyclegan_turbo(days, nights, base=base, folder=folder, **arguments)


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


@dataclasses.dataclass
class Unbroken:
    """Twenty steps at one go: the result, its folder, and the folder as it was before the last step."""

    translator: CycleGanTurboTranslator
    folder: Path
    before: Path
    validated: dict[int, str]


SCORES = {10: 0.7, 20: 0.2}


@pytest.fixture(scope="module")
def unbroken(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    root = tmp_path_factory.mktemp("unbroken")
    validated: dict[int, str] = {}

    def validate(translator: CycleGanTurboTranslator, number: int) -> dict[str, object]:
        validated[number] = translator.fingerprint
        return {"score": SCORES[number], "other": np.float32(0.5)}

    def keep(what: str, number: int, total: int) -> None:
        assert (what, total) == ("training", 20)
        if number == 19:
            shutil.copytree(root / "run", root / "before")

    made = train(base, root / "run", validate=validate, progress=keep)
    return Unbroken(made, root / "run", root / "before", validated)


@pytest.fixture
def before(unbroken: Unbroken, tmp_path: Path) -> Path:
    """The folder of a training that was killed after step 19."""
    return shutil.copytree(unbroken.before, tmp_path / "before")


def new_loop(base: Path, **changes: Any) -> Loop:
    model = load_base(str(base), spec="test")
    network = build_network(model, published_layout(model, unet_rank=2, vae_rank=2), spec="test")
    caption = torch.randn(1, 77, 16, generator=torch.Generator().manual_seed(0))
    captions = {"a2b": caption, "b2a": -caption}
    losses = Losses(settings(**changes), load_perceptual(backbone(1), device=CPU), backbone())
    return Loop(network, captions, losses, CPU)


@pytest.fixture
def loop(base: Path) -> Loop:
    return new_loop(base)


def samples(images: list[Image.Image]) -> list[Any]:
    images_as_set = ImageList(images)
    return [images_as_set[index] for index in range(len(images_as_set))]


def step(loop: Loop, number: int = 1) -> dict[str, float]:
    return loop.step(samples(DAYS), samples(NIGHTS), PREPARATION, number)


class TestLearning:
    def test_twenty_steps_lower_the_cycle_loss(self, unbroken: Unbroken) -> None:
        losses = [entry["losses"]["cycle"] for entry in log(unbroken.folder) if "losses" in entry]

        assert len(losses) == 20
        assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:4])

    def test_trains_adapters_skips_and_first_convolution_alone(self, loop: Loop) -> None:
        state = loop.network.modules.state_dict
        before = {name: tensor.clone() for name, tensor in state().items()}

        step(loop)

        changed = {name for name, tensor in state().items() if not torch.equal(tensor, before[name])}
        wanted = set(trainable(loop.network))
        # The gaussian sides of adapters move only by weight decay until the others have left zero.
        assert changed <= wanted
        assert {name for name in wanted if ".lora_B." in name or "skip_conv" in name} <= changed
        assert {"unet.conv_in.base_layer.weight", "unet.conv_in.base_layer.bias"} <= changed
        assert {f"vae_a2b.decoder.skip_conv_{number}.base_layer.weight" for number in (1, 2)} <= changed
        assert all(
            ".lora_" in name or "skip_conv" in name or name.startswith("unet.conv_in.") for name in wanted
        )

    def test_each_parameter_is_optimised_once(self, loop: Loop) -> None:
        for part in loop.parts.values():
            (group,) = part.optimizer.param_groups
            assert len({id(parameter) for parameter in group["params"]}) == len(group["params"])
        names = trainable(loop.network)
        assert len(loop.parts["generator"].optimizer.param_groups[0]["params"]) == len(names)
        assert any("skip_conv_1.lora_A" in name for name in names)

    def test_published_optimiser(self, loop: Loop) -> None:
        (group,) = loop.parts["generator"].optimizer.param_groups

        assert (group["betas"], group["weight_decay"], group["eps"]) == ((0.9, 0.999), 1e-2, 1e-8)
        published = TrainingSettings()
        assert (published.learning_rate, published.clip_norm, published.steps) == (1e-5, 10, 25_000)
        weights = (
            published.cycle,
            published.cycle_perceptual,
            published.identity,
            published.identity_perceptual,
        )
        assert (*weights, published.adversarial) == (1, 10, 1, 1, 0.5)

    def test_generator_and_discriminators_do_not_move_each_other(
        self, loop: Loop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        states = {"generator": loop.network.modules, "discriminator": loop.judges}
        update = loop._update
        order = []
        weights = {}

        def checked(part: str, terms: Any, number: int) -> dict[str, float]:
            (other,) = states.keys() - {part}
            before = {name: tensor.clone() for name, tensor in states[other].state_dict().items()}
            found = update(part, terms, number)
            assert all(torch.equal(t, before[n]) for n, t in states[other].state_dict().items())
            assert all(parameter.grad is None for parameter in states[other].parameters())
            order.append((part, *found))
            weights.update({name: weight for name, (weight, _) in terms.items()})
            return found

        monkeypatch.setattr(loop, "_update", checked)
        judges = {name: tensor.clone() for name, tensor in loop.judges.state_dict().items()}
        seen = {n: t.clone() for n, t in loop.losses.features.module.state_dict().items()}

        step(loop)

        assert order == [
            ("generator", "cycle", "cycle_perceptual"),
            ("generator", "adversarial"),
            ("generator", "identity", "identity_perceptual"),
            ("discriminator", "discriminator_made"),
            ("discriminator", "discriminator_real"),
        ]
        assert weights == {
            "cycle": 1,
            "cycle_perceptual": 10,
            "adversarial": 0.5,
            "identity": 1,
            "identity_perceptual": 1,
            "discriminator_made": 0.25,
            "discriminator_real": 0.25,
        }
        assert any(not torch.equal(t, judges[n]) for n, t in loop.judges.state_dict().items())
        backbone_now = loop.losses.features.module
        assert all(torch.equal(tensor, seen[name]) for name, tensor in backbone_now.state_dict().items())
        assert not any(parameter.requires_grad for parameter in backbone_now.parameters())

    def test_losses_by_hand(self, base: Path) -> None:
        # A rate of next to nothing: all five updates see the same weights.
        loop = new_loop(base, learning_rate=1e-12)
        image = {}
        image["a2b"], image["b2a"], random = draw_pairs(
            samples(DAYS), samples(NIGHTS), PREPARATION, batch=1, seed=42, step=1
        )
        back = {"a2b": "b2a", "b2a": "a2b"}
        judges: Any = copy.deepcopy(loop.judges)

        def by_hand(images: torch.Tensor, way: str) -> torch.Tensor:
            return generate(loop.network, images, loop.captions[way], way)

        def distance(first: torch.Tensor, second: torch.Tensor) -> float:
            return float(feature_distance(backbone(1), first, second))

        def doubt(images: torch.Tensor, way: str, real: bool) -> float:
            total = 0.0
            for head, level in zip(judges[way], backbone()(augment(images, random)), strict=True):
                share = torch.sigmoid(head(level).double())
                total -= float(torch.log(share if real else 1 - share).mean())
            return total

        with torch.no_grad():
            made = {way: by_hand(image[way], way) for way in image}
            again = {way: by_hand(made[way], back[way]) for way in image}
            same = {way: by_hand(image[back[way]], way) for way in image}
            judges.eval()
            passing = [doubt(made[way], way, True) for way in image]
            judges.train()
            doubts_made = [doubt(made[way], way, False) for way in image]
            doubts_real = [doubt(image[back[way]], way, True) for way in image]
        wanted = {
            "cycle": [float((again[way] - image[way]).abs().mean()) for way in image],
            "cycle_perceptual": [distance(again[way], image[way]) for way in image],
            "adversarial": passing,
            "identity": [float((same[way] - image[back[way]]).abs().mean()) for way in image],
            "identity_perceptual": [distance(same[way], image[back[way]]) for way in image],
            "discriminator_made": doubts_made,
            "discriminator_real": doubts_real,
        }

        found = step(loop)

        assert found == {name: pytest.approx(sum(both) / 2, rel=1e-4) for name, both in wanted.items()}

    @pytest.mark.slow
    @pytest.mark.parametrize("changes", [{"gradient_checkpointing": True}, {"precision": "bfloat16"}])
    def test_memory_savers_give_the_same_losses(self, base: Path, changes: dict[str, Any]) -> None:
        plain, saving = step(new_loop(base)), step(new_loop(base, **changes))

        tolerance = 1e-5 if "gradient_checkpointing" in changes else 0.1
        assert saving == {name: pytest.approx(value, rel=tolerance) for name, value in plain.items()}

    def test_divergence_stops_it(self, base: Path, before: Path) -> None:
        distance = dataclasses.replace(
            load_perceptual(backbone(1), device=CPU), measure=lambda first, _: first.mean() * float("nan")
        )
        state = (before / "training_state.safetensors").read_bytes()

        with pytest.raises(
            ModelError, match=r"diverged in step 20: the loss cycle_perceptual is nan\. .*learning_rate"
        ):
            train(base, before, perceptual=distance)

        assert (before / "training_state.safetensors").read_bytes() == state
        assert log(before)[-1]["step"] == 19


class TestDiscriminator:
    def test_loss_of_no_opinion(self) -> None:
        levels = [torch.zeros(2, 3, 5, 5), torch.zeros(2, 4)]
        heads = new_discriminator(levels, seed=0)
        with torch.no_grad():
            for name, parameter in heads.named_parameters():
                if "bias" in name:
                    parameter.zero_()

        assert adversarial_loss(heads, levels, real=True).item() == pytest.approx(2 * math.log(2))

    def test_heads(self) -> None:
        levels = [torch.randn(2, 3, 7, 7), torch.randn(2, 4)]
        state = torch.get_rng_state()

        heads = new_discriminator(levels, seed=3)

        assert torch.equal(torch.get_rng_state(), state)
        assert [head(level).shape for head, level in zip(heads, levels, strict=True)] == [
            (2, 1, 4, 4),
            (2, 1),
        ]
        for module in heads.modules():
            weight = getattr(module, "weight", None)
            if weight is not None and hasattr(module, "parametrizations"):
                norm = torch.linalg.matrix_norm(weight.detach().flatten(1), 2)
                assert float(norm) == pytest.approx(1, rel=0.05)
        (blur,) = [part for part in heads.modules() if getattr(part, "groups", 1) > 1]
        assert torch.equal(blur.weight[5, 0] * 16, torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]))

    def test_features_of_another_shape_are_refused(self) -> None:
        with pytest.raises(ModelError, match=r"feature maps or vectors; it gives \(2, 3, 4\)"):
            new_discriminator([torch.zeros(2, 3, 4)], seed=0)

    def test_augmentation(self) -> None:
        images = torch.rand(16, 3, 16, 24, generator=torch.Generator().manual_seed(0)) + 0.1
        given = images.clone().requires_grad_(True)

        one = augment(given, torch.Generator().manual_seed(1))
        again = augment(images, torch.Generator().manual_seed(1))
        other = augment(images, torch.Generator().manual_seed(2))

        assert torch.equal(one, again)
        assert not torch.equal(one, other)
        empty = (one == 0).all(dim=1)
        # The square is a quarter, less where it leaves the image, and up to 1/4 + 1/4 go by shifting.
        shares = empty.float().mean(dim=(1, 2))
        assert shares.max() <= 0.25 + 2 * 0.125
        assert 0.1 < shares.mean() < 0.4
        one.sum().backward()
        assert given.grad is not None
        assert torch.isfinite(given.grad).all()
        assert given.grad.abs().sum() > 0


class TestFeatures:
    def test_distance_by_hand(self) -> None:
        features = FrozenFeatures("itself", torch.nn.Identity())
        first, second = torch.zeros(1, 3, 1, 1), torch.zeros(1, 3, 1, 1)
        first[0, :, 0, 0] = torch.tensor([1.0, -1, -1])  # in [0, 1]: (1, 0, 0)
        second[0, :, 0, 0] = torch.tensor([0.2, 0.6, -1])  # (0.6, 0.8, 0)

        assert float(feature_distance(features, first, second)) == pytest.approx((0.4 + 0.8 + 0) / 3)
        assert float(feature_distance(features, first, first)) == 0

    def test_tokens_become_maps(self) -> None:
        tokens = torch.arange(2 * 5 * 3.0).reshape(2, 5, 3)  # a class token and four patches

        class Tokens(torch.nn.Module):
            def forward(self, images: torch.Tensor) -> torch.Tensor:
                return tokens

        (level,) = FrozenFeatures("tokens", Tokens())(torch.zeros(2, 3, 4, 4))

        assert level.shape == (2, 3, 2, 2)
        assert torch.equal(level[0, :, 0, 1], tokens[0, 2])

    def test_input_is_resized_and_normalised(self) -> None:
        features = FrozenFeatures("itself", torch.nn.Identity(), (), 2, (0.5, 0.5, 0.5), (0.25, 0.5, 1.0))
        images = torch.ones(1, 3, 4, 4)
        images[..., :2] = -1

        (level,) = features(images)

        assert level[0, :, 0].tolist() == [[-2, 2], [-1, 1], [-0.5, 0.5]]

    @pytest.mark.filterwarnings("ignore::pytest_semcov.errors.UntrainedWeightsWarning")
    def test_of_a_convolutional_network(self) -> None:
        features = load_features("torchvision:resnet18?untrained", device=CPU, purpose="test")

        levels = features(torch.zeros(1, 3, 64, 64))

        assert [level.shape[1:] for level in levels] == [
            (64, 32, 32),
            (64, 16, 16),
            (128, 8, 8),
            (256, 4, 4),
            (512, 2, 2),
        ]
        assert not any(parameter.requires_grad for parameter in features.module.parameters())

    def test_of_the_built_in_encoder(self) -> None:
        features = load_features("builtin", device=CPU, purpose="test")

        *grids, embedding = features(torch.zeros(1, 3, 40, 40))

        assert features.size == 96
        assert [grid.shape[2] for grid in grids] == [48, 24, 12, 6, 3]
        assert embedding.shape == (1, 64)

    def test_missing_lpips_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "lpips", None)

        with pytest.raises(MissingDependencyError, match=r"needs lpips.*pytest-semcov\[lpips\]"):
            load_perceptual("lpips", device=CPU)

    def test_lpips_is_the_library_s(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class LPIPS(torch.nn.Module):
            def __init__(self, net: str, verbose: bool) -> None:
                assert net == "vgg"
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(1))

            def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
                return (first - second).abs().mean(dim=(1, 2, 3), keepdim=True) * self.weight

        monkeypatch.setitem(sys.modules, "lpips", types.SimpleNamespace(LPIPS=LPIPS))

        distance = load_perceptual("lpips", device=CPU)

        assert distance.name == "lpips (VGG)"
        assert float(distance(torch.zeros(2, 3, 4, 4), torch.ones(2, 3, 4, 4))) == 1

    def test_other_things_are_refused(self) -> None:
        with pytest.raises(ArgumentError, match="backbone: int given; need a spec such as"):
            load_features(3, device=CPU, purpose="backbone")


class TestFolder:
    def test_translator_and_log(self, unbroken: Unbroken, base: Path) -> None:
        path = unbroken.folder / "translator.safetensors"
        loaded = CycleGanTurboTranslator.load(path, base=base, device="cpu")
        back = CycleGanTurboTranslator.load(path, base=base, device="cpu", direction="b2a")
        entries = log(unbroken.folder)

        assert loaded.fingerprint == unbroken.translator.fingerprint
        assert (loaded.source, loaded.target, loaded.prompt) == ("day", "night", "night")
        assert (back.source, back.target, back.prompt) == ("night", "day", "day")
        assert [entry["step"] for entry in entries if "losses" in entry] == list(range(1, 21))
        assert (entries[0]["perceptual_loss"], entries[0]["backbone"]) == ("feature loss of tiny", "tiny")
        assert loaded.notes.training is not None
        assert loaded.notes.training["perceptual_loss"] == "feature loss of tiny"
        assert loaded.notes.training["settings"] == dataclasses.asdict(settings())
        # None of the images may judge it, nor others of the groups of the target images.
        assert unseen(samples([*NIGHTS, *DAYS]), loaded) == []
        assert len(unseen(samples(pictures(60, 9)), loaded)) == 4
        assert (loaded.fitted_groups, back.fitted_groups) == ({"road", "yard"}, {"street"})

    def test_validation(self, unbroken: Unbroken, base: Path) -> None:
        found = [entry for entry in log(unbroken.folder) if "validation" in entry]

        assert found == [
            {"step": number, "validation": {"score": score, "other": 0.5}} for number, score in SCORES.items()
        ]
        best = CycleGanTurboTranslator.load(unbroken.folder / "best.safetensors", base=base, device="cpu")
        assert best.fingerprint == unbroken.validated[10] != unbroken.validated[20]
        sheets = sorted((unbroken.folder / "validation").iterdir())
        assert [sheet.name for sheet in sheets] == ["step_000010.png", "step_000020.png"]
        with Image.open(sheets[0]) as sheet:
            assert sheet.size == (3 * 256, 2 * 256)

    def test_verdict_as_score(self, unbroken: Unbroken) -> None:
        embedder = embedder_from_callable(
            lambda images: np.stack(
                [np.asarray(image.resize((2, 2)), dtype=float).ravel() / 255 + 0.01 for image in images]
            ),
            name="means",
        )
        validate = validate_by_sufficiency(
            samples(pictures(170, 5, 24)), samples(pictures(60, 6, 24)), embedder, semantic="day_night"
        )

        verdict = validate(unbroken.translator, 7)

        assert verdict.kind == "sufficiency"
        assert "after 7 steps" in verdict.subject
        assert {"drift", "radius"} <= {criterion.name for criterion in verdict.criteria}
        figures = figures_of(verdict)
        assert figures["outcome"] == verdict.outcome.value

    def test_score_is_the_smaller_gap_closed(self) -> None:
        criteria = tuple(
            Criterion(name, value, 0.5, None, Outcome.PASS)
            for name, value in (("drift", 0.6), ("radius", 0.4), ("completeness", 0.1))
        )

        figures = figures_of(Verdict("sufficiency", "night", Outcome.FAIL, criteria))

        assert figures == {"outcome": "FAIL", "drift": 0.6, "radius": 0.4, "completeness": 0.1, "score": 0.4}


class TestResuming:
    def test_in_two_goes_is_as_at_one(self, base: Path, before: Path, unbroken: Unbroken) -> None:
        with (before / "log.jsonl").open("a") as file:  # it was killed in the middle of a line
            file.write('{"step": 20, "losses": {}}\n{"step": 21, "los')
        done = []

        again = train(
            base,
            before,
            validate=lambda *_: {"score": SCORES[20], "other": 0.5},
            progress=lambda *what: done.append(what),
        )

        assert done == [("training", 20, 20)]
        assert again.fingerprint == unbroken.translator.fingerprint
        for name in ("translator.safetensors", "training_state.safetensors", "best.safetensors"):
            assert tensors(before / name) == tensors(unbroken.folder / name)
        assert log(before) == log(unbroken.folder)

    def test_finished_training_is_returned_or_continued(
        self, base: Path, tmp_path: Path, unbroken: Unbroken
    ) -> None:
        folder = shutil.copytree(unbroken.folder, tmp_path / "run")

        again = train(base, folder, progress=lambda *_: pytest.fail("it trains"))
        further = train(base, folder, settings=settings(steps=21, validation_images=0))

        assert again.fingerprint == unbroken.translator.fingerprint != further.fingerprint
        assert log(folder)[-1]["step"] == 21

    def test_killed_before_the_first_checkpoint(self, base: Path, tmp_path: Path) -> None:
        (tmp_path / "log.jsonl").write_text('{"step": 0, "base": "x"}\n{"step": 1, "losses": {}}\n')

        train(base, tmp_path, settings=settings(steps=1, validation_images=0))

        assert [entry["step"] for entry in log(tmp_path)] == [0, 1]
        assert log(tmp_path)[0]["base"] == str(base)

    @pytest.mark.slow
    def test_order_of_images_changes_nothing(self, base: Path, tmp_path: Path) -> None:
        made = [
            train_cyclegan_turbo(
                DAYS[::way],
                NIGHTS[::way],
                base=base,
                folder=tmp_path / str(way),
                settings=settings(steps=2),
                perceptual=backbone(1),
                backbone=backbone(),
                device="cpu",
            )
            for way in (1, -1)
        ]

        assert made[0].fingerprint == made[1].fingerprint

    @pytest.mark.slow
    @pytest.mark.parametrize("when", ["between steps", "in a step"])
    def test_killed_is_as_unbroken(self, base: Path, tmp_path: Path, when: str) -> None:
        script = (
            "import sys, os, signal; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path\n"
            "import test_translation_cyclegan_turbo_training as t\n"
            "import dataclasses, torch; torch.set_num_threads(1)\n"
            "distance, calls = t.load_perceptual(t.backbone(1), device=t.CPU), []\n"
            "def measure(first, second):\n"
            "    calls.append(1)\n"
            "    if len(calls) == int(sys.argv[4]): os.kill(os.getpid(), signal.SIGKILL)\n"
            "    return distance.measure(first, second)\n"
            "settings = t.settings(steps=3, checkpoint_every=1)\n"
            "killing = dataclasses.replace(distance, measure=measure)\n"
            "t.train(Path(sys.argv[2]), Path(sys.argv[3]), settings=settings, perceptual=killing)\n"
        )
        # Four distances a step: the killed one is the first of step 3, or the third of it.
        number = {"between steps": "9", "in a step": "11"}[when]
        killed = subprocess.run(
            [sys.executable, "-c", script, str(Path(__file__).parent), base, tmp_path / "killed", number],
            check=False,
            capture_output=True,
            timeout=300,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()

        again = train(base, tmp_path / "killed", settings=settings(steps=3, checkpoint_every=1))
        whole = train(base, tmp_path / "whole", settings=settings(steps=3, checkpoint_every=1))

        assert again.fingerprint == whole.fingerprint
        for name in ("translator.safetensors", "training_state.safetensors"):
            assert tensors(tmp_path / "killed" / name) == tensors(tmp_path / "whole" / name)
        assert log(tmp_path / "killed") == log(tmp_path / "whole")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"settings": settings(learning_rate=2e-3, clip_norm=1.0), "captions": ("sun", "moon")},
                r"captions.*, clip_norm 1\.0 \(was 10\.0\), learning_rate 0\.002 \(was 0\.001\)\. Resume",
            ),
            ({"settings": settings(unet_rank=3)}, r"base [0-9a-f]{12}\.\.\. .*unet_rank 3 \(was 2\)"),
            ({"backbone": backbone(5), "perceptual": backbone(5)}, "differs in backbone .*perceptual loss"),
        ],
    )
    def test_other_training_is_refused(
        self, base: Path, before: Path, changes: dict[str, Any], message: str
    ) -> None:
        state = (before / "training_state.safetensors").read_bytes()

        with pytest.raises(ArgumentError, match=message):
            train(base, before, **changes)

        assert (before / "training_state.safetensors").read_bytes() == state

    def test_other_images_are_refused(self, base: Path, before: Path) -> None:
        with pytest.raises(ArgumentError, match=r"differs in target images [0-9a-f]{12}\.\.\. \(was"):
            train_cyclegan_turbo(
                DAYS,
                NIGHTS[:3],
                base=base,
                folder=before,
                settings=settings(),
                perceptual=backbone(1),
                backbone=backbone(),
                device="cpu",
            )

    @pytest.mark.parametrize("content", [b"no state", None])
    def test_damaged_state(self, loop: Loop, before: Path, content: bytes | None) -> None:
        file = before / "training_state.safetensors"
        file.write_bytes(file.read_bytes()[:-100] if content is None else content)

        with pytest.raises(ModelError, match=r"training_state\.safetensors is no training state"):
            read_state(before, {}, loop.parts)


class TestArguments:
    def test_too_few_images(self, base: Path, tmp_path: Path) -> None:
        with pytest.raises(TooFewError, match="1 images of 'night' to train on, need at least 2"):
            train_cyclegan_turbo(DAYS, NIGHTS[:1], base=base, folder=tmp_path / "new")
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"steps": 0}, "steps 0: need a whole number, 1 or more"),
            ({"batch": 1.5}, "batch 1.5"),
            ({"learning_rate": 0.0}, "learning_rate 0.0: need a number above 0"),
            ({"cycle": float("nan")}, "cycle nan"),
            ({"precision": "float16"}, "precision 'float16': use 'float32' or 'bfloat16'"),
        ],
    )
    def test_settings(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ArgumentError, match=message):
            settings(**changes)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("crop", "preparation 'crop': use 'resize_286_randomcrop_256x256_hflip'"),
            ("resize_16_randomcrop_24x24", "the crop is larger"),
            ("resize_30x32", "multiples of 8"),
        ],
    )
    def test_preparation(self, text: str, message: str) -> None:
        with pytest.raises(ArgumentError, match=message):
            Preparation.parse(text, multiple=8)

    def test_published_preparations(self) -> None:
        published = Preparation.parse("resize_286_randomcrop_256x256_hflip", multiple=8)

        assert published == Preparation((286, 286), (256, 256), True)
        assert Preparation.parse("resize_512x256", multiple=8) == Preparation((512, 256), (512, 256), False)

    def test_pixels(self) -> None:
        (sample,) = samples([pictures(100, 3)[0]])
        whole = Preparation((24, 20), (24, 20), False).apply(sample, np.random.default_rng(0))

        assert torch.equal(
            whole, torch.from_numpy(np.array(sample.load())).permute(2, 0, 1).float() / 127.5 - 1
        )


class TestPublishedFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for name, images in (("train_A", DAYS), ("train_B", NIGHTS), ("test_A", DAYS[:1])):
            (tmp_path / name).mkdir()
            for number, image in enumerate(images):
                image.save(tmp_path / name / f"{number}.png")
        (tmp_path / "fixed_prompt_a.txt").write_text("driving in the day\n")
        (tmp_path / "fixed_prompt_b.txt").write_text("driving in the night")
        return tmp_path

    def test_is_read(self, folder: Path) -> None:
        found = read_training_folder(folder)

        assert (len(found.train_a), len(found.train_b)) == (4, 4)
        assert found.test_a is not None
        assert (len(found.test_a), found.test_b) == (1, None)
        assert (found.caption_a, found.caption_b) == ("driving in the day", "driving in the night")

    @pytest.mark.parametrize("name", ["train_B", "fixed_prompt_a.txt"])
    def test_what_is_missing_is_named(self, folder: Path, name: str) -> None:
        (folder / name).rename(folder / "elsewhere")

        with pytest.raises(DatasetError, match=f"no {name}"):
            read_training_folder(folder)

    def test_empty_caption(self, folder: Path) -> None:
        (folder / "fixed_prompt_b.txt").write_text(" ")

        with pytest.raises(DatasetError, match=r"fixed_prompt_b\.txt is empty"):
            read_training_folder(folder)


def tensors(path: Path) -> dict[str, bytes]:
    from safetensors.torch import load_file

    return {name: tensor.numpy().tobytes() for name, tensor in load_file(path).items()}
