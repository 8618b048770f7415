"""Base models in diffusers' layout: a local folder or a hub repository, read whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding import hub
from pytest_semcov.embedding.fingerprint import hash_tensors
from pytest_semcov.embedding.running import seeded
from pytest_semcov.errors import ArgumentError, ModelError, missing_dependency

if TYPE_CHECKING:
    import torch

_FILES = (
    "scheduler/scheduler_config.json",
    "text_encoder/config.json",
    "text_encoder/model.safetensors",
    "tokenizer/tokenizer_config.json",
    "tokenizer/*",
    "unet/config.json",
    "unet/diffusion_pytorch_model.safetensors",
    "vae/config.json",
    "vae/diffusion_pytorch_model.safetensors",
)


@dataclass(frozen=True, slots=True, eq=False)
class DiffusionBase:
    """The parts of a Stable Diffusion pipeline, in float32 on the CPU.

    Parameters
    ----------
    name
        As it was given: folder or repository.
    folder
        Where the files are.
    unet, vae, scheduler
        diffusers' ``UNet2DConditionModel``, ``AutoencoderKL`` and ``DDPMScheduler``.
    """

    name: str
    folder: Path
    unet: Any
    vae: Any
    scheduler: Any


@dataclass(frozen=True, slots=True, eq=False)
class Caption:
    """A prompt as the UNet takes it.

    Parameters
    ----------
    text
        The prompt.
    embedding
        ``(1, tokens, width)`` float32.
    fingerprint
        Hash (hex) of tokens and text encoder: the embedding itself differs in rounding between machines.
    """

    text: str
    embedding: torch.Tensor
    fingerprint: str


def need_libraries(purpose: str) -> None:
    """Raise MissingDependencyError unless diffusers, peft and transformers can be imported."""
    for library in ("diffusers", "peft", "transformers"):
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise missing_dependency(library, extra="diffusion", purpose=purpose) from error


def load_base(base: str, *, spec: str, revision: str | None = None) -> DiffusionBase:
    """Load a base model.

    Parameters
    ----------
    base
        Folder in diffusers' layout with weights as safetensors, or ``organisation/name`` on the hub.
    spec
        What is being loaded, for messages.
    revision
        Branch, tag or commit of the hub repository; ``None`` = ``main``.

    Raises
    ------
    ModelError
        If files are missing, cannot be fetched or do not fit their configuration. For a hub repository the
        message names repository, revision and cache folder; offline, no socket is opened.
    """
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel

    folder = _folder(base, spec, revision)
    scheduler = _read(DDPMScheduler, folder / "scheduler", spec)
    return DiffusionBase(
        base,
        folder,
        _read_weights(UNet2DConditionModel, folder / "unet", spec),
        _read_weights(AutoencoderKL, folder / "vae", spec),
        scheduler,
    )


def encode_caption(base: DiffusionBase, text: str, *, spec: str) -> Caption:
    """Encode a prompt with the base's text encoder, which is not kept.

    Raises
    ------
    ArgumentError
        If the tokenizer would cut the prompt.
    ModelError
        If tokenizer or text encoder cannot be read.
    """
    import torch
    from transformers import AutoTokenizer, CLIPTextModel

    tokenizer = _read(AutoTokenizer, base.folder / "tokenizer", spec)
    length = int(tokenizer.model_max_length)
    used = len(tokenizer(text).input_ids)
    if used > length:
        raise ArgumentError(f"prompt {text!r}: {used} tokens, {base.name} takes {length}; make it shorter")
    encoder = _read_weights(CLIPTextModel, base.folder / "text_encoder", spec)
    tokens = tokenizer(text, max_length=length, padding="max_length", return_tensors="pt").input_ids
    with torch.no_grad():
        embedding = encoder.eval()(tokens)[0]
    fingerprint = hash_tensors({"tokens": tokens, **encoder.state_dict()})
    return Caption(text, embedding, fingerprint)


def _folder(base: str, spec: str, revision: str | None) -> Path:
    folder = Path(base).expanduser()
    if not folder.is_dir():
        return hub.fetch_folder(spec, base, _FILES, revision=revision)
    lacking = hub.unmatched(_FILES, hub.files_below(folder))
    if lacking:
        raise ModelError(
            f"{spec}: the base {folder} has no {', '.join(lacking)}; "
            "give a folder in diffusers' layout with weights as safetensors"
        )
    return folder


def _read(kind: Any, folder: Path, spec: str, **options: Any) -> Any:
    """Read one part of a pipeline; anything that the libraries raise becomes one line."""
    try:
        with seeded(), _quiet():
            return kind.from_pretrained(str(folder), local_files_only=True, **options)
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"{spec}: {folder} cannot be read as {kind.__name__}: {lines[0]}") from error


def _read_weights(kind: Any, folder: Path, spec: str) -> Any:
    """Read a model in float32 and evaluation mode, no weight of which may be missing."""
    import torch

    model, report = _read(
        kind, folder, spec, use_safetensors=True, output_loading_info=True, torch_dtype=torch.float32
    )
    # Unexpected weights are left to the libraries: old text encoders carry position numbers.
    gaps = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if gaps:
        raise ModelError(
            f"{spec}: {folder} lacks weights of its {kind.__name__}: {gaps[0]} ({len(gaps)} in all); "
            "fetch the base again"
        )
    return model.eval()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide transformers' progress bar of loading, which would end up in test output."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
