"""Training of CycleGAN-Turbo on unpaired images (Parmar et al., 2024).

Losses and order are those of the published training. Each step takes some images of either domain and makes
five updates: three of the generator (cycle: there and back again is the same image; adversarial: translations
pass for real; identity: an image of the target domain stays as it is) and two of the discriminators (on
translations, on real images). What is mended: a step limit ends the training, the base is the one given, all
that is said to be trained is trained and saved, each parameter once, and a training that was killed resumes
as if it had not been. The latent is the posterior's mean, as in translation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.embedding.fingerprint import hash_description, hash_tensors
from pytest_semcov.embedding.running import resolve_device
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.translation.cyclegan_turbo import CycleGanTurboTranslator
from pytest_semcov.translation.cyclegan_turbo_data import Preparation
from pytest_semcov.translation.cyclegan_turbo_features import LPIPS, load_features, load_perceptual
from pytest_semcov.translation.cyclegan_turbo_files import Notes, write_checkpoint
from pytest_semcov.translation.cyclegan_turbo_loop import Loop, Losses
from pytest_semcov.translation.cyclegan_turbo_network import DIRECTIONS, build_network, published_layout
from pytest_semcov.translation.cyclegan_turbo_state import (
    Progress,
    cut_log,
    read_state,
    write_log,
    write_state,
)
from pytest_semcov.translation.cyclegan_turbo_validation import SCORE, comparison_sheet, figures_of
from pytest_semcov.translation.diffusion_base import encode_caption, load_base, need_libraries
from pytest_semcov.translation.fitted import samples_to_learn_from

if TYPE_CHECKING:
    from PIL import Image

    from pytest_semcov.gates.verdict import Verdict

FEWEST_IMAGES = 2
"""Least number of images of each domain; some hundreds are usual."""

PUBLISHED_BACKBONE = "open_clip:ViT-B-32/openai"

TRANSLATOR = "translator.safetensors"
BEST = "best.safetensors"

_MAY_CHANGE = {"steps", "checkpoint_every", "validate_every", "validation_images"}
"""Settings that a training may be resumed with other values of."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of a training; by default the published ones.

    Parameters
    ----------
    steps
        Steps in all; a finished training is continued by giving more.
    batch
        Images of each domain a step.
    preparation
        How images are brought to one size: ``resize_286_randomcrop_256x256_hflip`` (resized whole, cropped at
        random, half of them mirrored) or ``resize_256x256``, with other sizes likewise (``512x384``: width x
        height).
    learning_rate
        Of both AdamW optimisers, constant.
    weight_decay, clip_norm
        AdamW's, and the largest norm of a gradient.
    cycle, cycle_perceptual, identity, identity_perceptual, adversarial
        Weights of the losses.
    unet_rank, vae_rank
        Ranks of the adapters.
    precision
        ``"float32"`` or ``"bfloat16"`` (mixed, about half the memory).
    gradient_checkpointing
        Whether the UNet computes its activations twice instead of keeping them: slower, less memory.
    checkpoint_every, validate_every
        Steps between checkpoints and validations; the last step has both.
    validation_images
        How many source images the pictures of a validation show.
    seed
        Root of all random numbers.
    """

    steps: int = 25_000
    batch: int = 1
    preparation: str = "resize_286_randomcrop_256x256_hflip"
    learning_rate: float = 1e-5
    weight_decay: float = 1e-2
    clip_norm: float = 10.0
    cycle: float = 1.0
    cycle_perceptual: float = 10.0
    identity: float = 1.0
    identity_perceptual: float = 1.0
    adversarial: float = 0.5
    unet_rank: int = 128
    vae_rank: int = 4
    precision: str = "float32"
    gradient_checkpointing: bool = False
    checkpoint_every: int = 500
    validate_every: int = 500
    validation_images: int = 4
    seed: int = 42

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                least = 0 if field.name in ("seed", "validation_images") else 1
                if isinstance(value, bool) or not isinstance(value, int) or value < least:
                    raise ArgumentError(f"{field.name} {value!r}: need a whole number, {least} or more")
            elif field.type == "float":
                above = field.name in ("learning_rate", "clip_norm")
                if not math.isfinite(value) or value < 0 or (above and value == 0):
                    raise ArgumentError(
                        f"{field.name} {value!r}: need a number {'above 0' if above else '>= 0'}"
                    )
        if self.precision not in ("float32", "bfloat16"):
            raise ArgumentError(f"precision {self.precision!r}: use 'float32' or 'bfloat16'")


def train_cyclegan_turbo(
    source_images: Dataset | Sequence[Sample | Image.Image],
    target_images: Dataset | Sequence[Sample | Image.Image],
    *,
    base: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    source: str = "day",
    target: str = "night",
    captions: tuple[str, str] | None = None,
    settings: TrainingSettings | None = None,
    perceptual: object = LPIPS,
    backbone: object = PUBLISHED_BACKBONE,
    validate: Callable[[CycleGanTurboTranslator, int], Verdict | Mapping[str, object]] | None = None,
    semantic: str | None = None,
    revision: str | None = None,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> CycleGanTurboTranslator:
    """Train a translator, both directions at once, or go on with a training that was interrupted.

    Parameters
    ----------
    source_images, target_images
        Images of domains a and b, at least :data:`FEWEST_IMAGES` each; they need not show the same places.
    base
        The model to start from, as in :meth:`CycleGanTurboTranslator.load`, e.g. ``"stabilityai/sd-turbo"``.
    folder
        Where it writes: ``translator.safetensors`` (the translator so far), ``training_state.safetensors``
        (what it resumes from), ``log.jsonl`` (first what is trained and how, then losses of each step, and
        validations), ``validation/step_000500.png`` (source, translated, and back) and, if validation gives a
        score, ``best.safetensors``. If there is a state, training goes on from it.
    source, target
        Names of domains a and b.
    captions
        Captions of domains a and b; the names by default.
    settings
        See :class:`TrainingSettings`; ``None`` = all defaults.
    perceptual
        Distance between images, as in ``load_perceptual`` of :mod:`~.cyclegan_turbo_features`: ``"lpips"``,
        or a spec or module for a feature loss.
    backbone
        Frozen network below the discriminators, as in ``load_features`` there.
    validate
        Called with the translator and the step; a verdict
        (``validate_by_sufficiency`` of :mod:`~.cyclegan_turbo_validation`) or figures by name, which are
        logged. The step with the highest ``"score"`` is kept as ``best.safetensors``.
    semantic
        What is changed, e.g. ``"day_night"``.
    revision
        Branch, tag or commit of the hub repository.
    device
        ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    progress
        Called as ``progress("training", steps done, steps in all)``.

    Returns
    -------
    CycleGanTurboTranslator
        From ``source`` to ``target``, after the last step. Loaded from its file with ``direction="b2a"``, it
        translates back.

    Raises
    ------
    ArgumentError
        If an argument is not allowed, or the folder holds the state of another training; names what differs.
    TooFewError
        If there are too few images of a domain.
    ImageError
        If an image cannot be decoded.
    MissingDependencyError
        If a library is not installed.
    ModelError
        If the base or a frozen network cannot be had, or a loss is no longer finite.
    """
    settings = settings or TrainingSettings()
    need_libraries("training CycleGAN-Turbo")
    place = resolve_device(device)
    sources, targets = samples_to_learn_from(source_images, target_images, source=source, target=target)
    for category, samples in ((source, sources), (target, targets)):
        if len(samples) < FEWEST_IMAGES:
            raise TooFewError(
                f"CycleGAN-Turbo: {len(samples)} images of {category!r} to train on, need at least "
                f"{FEWEST_IMAGES}, better hundreds; the colour translator learns from fewer"
            )
    # The order in which images are given changes nothing.
    sources, targets = (sorted(samples, key=Sample.content_key) for samples in (sources, targets))
    spec = f"cyclegan-turbo:{os.fspath(base)}"
    model = load_base(os.fspath(base), spec=spec, revision=revision)
    layout = published_layout(model, unet_rank=settings.unet_rank, vae_rank=settings.vae_rank)
    network = build_network(model, layout, spec=spec)
    preparation = Preparation.parse(settings.preparation, multiple=network.multiple)
    text_a, text_b = captions or (source, target)
    encoded = {
        way: encode_caption(model, text, spec=spec)
        for way, text in zip(DIRECTIONS, (text_b, text_a), strict=True)
    }
    distance = load_perceptual(perceptual, device=place)
    features = load_features(backbone, device=place, purpose="the discriminator's backbone")
    identity: dict[str, object] = {
        **{name: value for name, value in asdict(settings).items() if name not in _MAY_CHANGE},
        "base": hash_tensors(network.modules.state_dict()),
        "captions": [caption.fingerprint for caption in encoded.values()],
        "source": source,
        "target": target,
        "source images": _hash_images(sources),
        "target images": _hash_images(targets),
        "perceptual loss": f"{distance.name} {distance.fingerprint}".strip(),
        "backbone": f"{features.name} {features.fingerprint}",
    }
    described: dict[str, object] = {
        "settings": asdict(settings),
        "base": os.fspath(base),
        "images": {source: len(sources), target: len(targets)},
        "perceptual_loss": distance.name,
        "backbone": features.name,
    }
    notes = Notes(
        "a2b",
        {way: caption.text for way, caption in encoded.items()},
        (source, target),
        "pad",
        os.fspath(base),
        frozenset(sample.content_key() for sample in (*sources, *targets)),
        {"a2b": _groups(targets), "b2a": _groups(sources)},
        semantic,
        described,
    )
    network.modules.to(place)
    loop = Loop(
        network,
        {way: caption.embedding.to(place) for way, caption in encoded.items()},
        Losses(settings, distance, features),
        place,
    )

    def translator(way: str) -> CycleGanTurboTranslator:
        ends = (source, target) if way == "a2b" else (target, source)
        return CycleGanTurboTranslator(
            network, layout, encoded[way], *ends, replace(notes, direction=way), "pad", place
        )

    where = Path(folder).expanduser()
    where.mkdir(parents=True, exist_ok=True)
    done = read_state(where, identity, loop.parts)
    cut_log(where, done.step or -1)
    if not done.step:
        write_log(where, {"step": 0, **described})
    best = done.best
    for step in range(done.step + 1, settings.steps + 1):
        losses = loop.step(sources, targets, preparation, step)
        write_log(where, {"step": step, "losses": losses})
        last = step == settings.steps
        if last or step % settings.validate_every == 0:
            shown = [sample.load() for sample in sources[: settings.validation_images]]
            best = _validation(where, step, translator("a2b"), translator("b2a"), shown, validate, best)
        if last or step % settings.checkpoint_every == 0:
            write_checkpoint(where / TRANSLATOR, network, layout, notes)
            write_state(where, Progress(step, best), identity, loop.parts)
        if progress is not None:
            progress("training", step, settings.steps)
    network.modules.requires_grad_(False)
    return translator("a2b")


def _hash_images(samples: Sequence[Sample]) -> str:
    return hash_description({"keys": [sample.content_key() for sample in samples]})


def _groups(samples: Sequence[Sample]) -> frozenset[str]:
    return frozenset(sample.group for sample in samples if sample.group is not None)


def _validation(
    folder: Path,
    step: int,
    forth: CycleGanTurboTranslator,
    back: CycleGanTurboTranslator,
    shown: Sequence[Image.Image],
    validate: Callable[[CycleGanTurboTranslator, int], Verdict | Mapping[str, object]] | None,
    best: float | None,
) -> float | None:
    """Write pictures, log what validation says, and keep the translator if it is the best so far."""
    if shown:
        pictures = folder / "validation"
        pictures.mkdir(exist_ok=True)
        comparison_sheet(shown, forth, back).save(pictures / f"step_{step:06d}.png")
    if validate is None:
        return best
    figures: dict[str, Any] = figures_of(validate(forth, step))
    write_log(folder, {"step": step, "validation": figures})
    score = figures.get(SCORE)
    if isinstance(score, int | float) and math.isfinite(score) and (best is None or score > best):
        forth.save(folder / BEST)
        return float(score)
    return best
