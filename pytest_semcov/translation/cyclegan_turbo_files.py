"""Checkpoints of CycleGAN-Turbo: the published layout is read, an own one is read and written.

The published layout is a torch file with ranks, names of adapted modules, the UNet's LoRA weights and the
whole of both autoencoders. It lacks the UNet's first convolution although training changes it, and does not
say which captions, categories and preparation of images belong to it. The own layout is one safetensors file
that has all of these, the latter as JSON in its header.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding.fingerprint import library_versions
from pytest_semcov.embedding.weights import existing_file, load_strictly
from pytest_semcov.errors import ModelError
from pytest_semcov.translation.cyclegan_turbo_network import (
    DIRECTIONS,
    UNET_ADAPTERS,
    AdapterLayout,
    CycleGanTurboNetwork,
)

if TYPE_CHECKING:
    import torch

VERSION = 1
"""Version of the own layout."""

_ENTRY = "semcov_cyclegan_turbo"

_PUBLISHED_UNET = {
    "default_encoder": ("l_target_modules_encoder", "sd_encoder"),
    "default_decoder": ("l_target_modules_decoder", "sd_decoder"),
    "default_others": ("l_modules_others", "sd_other"),
}
"""Adapter → keys of its module names and of its weights."""

_PUBLISHED_TYPES: dict[str, type] = {
    "rank_unet": int,
    "rank_vae": int,
    "vae_lora_target_modules": list,
    "sd_vae_enc": dict,
    "sd_vae_dec": dict,
    **{names: list for names, _ in _PUBLISHED_UNET.values()},
    **{weights: dict for _, weights in _PUBLISHED_UNET.values()},
}


@dataclass(frozen=True, slots=True)
class Notes:
    """What a translator must know besides weights; all of it optional.

    Parameters
    ----------
    direction
        ``"a2b"`` or ``"b2a"``.
    captions
        Direction → caption of the domain that it leads to.
    categories
        Names of domains a and b.
    prep
        How images are brought to a size that the network takes.
    base
        The base model's name when the file was written: for the reader, not used.
    fitted_on
        Content keys of the images that it was trained on: none of them may judge it.
    fitted_groups
        Direction → groups of the domain that it leads to: other images of these are too close to judge, too.
    semantic
        What is changed, e.g. ``"day_night"``.
    training
        How it was trained, in plain Python: for the reader, not used.
    """

    direction: str | None = None
    captions: Mapping[str, str] = field(default_factory=dict)
    categories: tuple[str, str] | None = None
    prep: str | None = None
    base: str | None = None
    fitted_on: frozenset[str] = frozenset()
    fitted_groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    semantic: str | None = None
    training: Mapping[str, object] | None = None


PUBLISHED = {
    "day2night.pkl": Notes("a2b", {"a2b": "driving in the night"}, ("day", "night")),
    "night2day.pkl": Notes("b2a", {"b2a": "driving in the day"}, ("day", "night")),
    "clear2rainy.pkl": Notes("a2b", {"a2b": "driving in heavy rain"}, ("clear", "rain")),
    "rainy2clear.pkl": Notes("b2a", {"b2a": "driving in the day"}, ("clear", "rain")),
}
"""The published checkpoints by file name; categories are named as in this package's semantics."""


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A checkpoint in memory.

    Parameters
    ----------
    path
        The file.
    layout
        Its adapters.
    tensors
        Names as in a network's ``modules`` → weights.
    first_convolution
        Whether the UNet's first convolution is among them.
    notes
        What else it says.
    """

    path: Path
    layout: AdapterLayout
    tensors: Mapping[str, torch.Tensor]
    first_convolution: bool
    notes: Notes


def read_checkpoint(path: str | os.PathLike[str], *, spec: str) -> Checkpoint:
    """Read a checkpoint; no code in the file is executed.

    Parameters
    ----------
    path
        A ``.safetensors`` file of the own layout, or a torch file of the published one.
    spec
        What is being loaded, for messages.

    Raises
    ------
    ModelError
        If the file is missing, cannot be read without running code, or lacks or has too much of something.
    """
    file = existing_file(os.fspath(path), spec=spec)
    checkpoint = _read_own(file, spec) if file.suffix == ".safetensors" else _read_published(file, spec)
    _check_tensors(checkpoint, spec)
    return checkpoint


def fill(network: CycleGanTurboNetwork, checkpoint: Checkpoint, *, spec: str) -> None:
    """Put a checkpoint's weights into a network of its layout.

    Raises
    ------
    ModelError
        If a weight is missing, left over or of another shape; names it.
    """
    written = saved_names(network)
    kept = [name for name in network.modules.state_dict() if name not in written]
    if not checkpoint.first_convolution:
        kept += [name for name in written if _of_first_convolution(name)]
    load_strictly(network.modules, checkpoint.tensors, spec=spec, path=checkpoint.path, kept=frozenset(kept))


def saved_names(network: CycleGanTurboNetwork) -> frozenset[str]:
    """Return the names of what the own layout holds: the autoencoders, and all that training may change."""
    return frozenset(
        name
        for name in network.modules.state_dict()
        if name.startswith("vae_") or ".lora_" in name or _of_first_convolution(name)
    )


def write_checkpoint(
    path: str | os.PathLike[str], network: CycleGanTurboNetwork, layout: AdapterLayout, notes: Notes
) -> Path:
    """Write a network in the own layout, whole or not at all; the file's folder is made if need be.

    Weights are written in the precision in which the network holds them.
    """
    from safetensors.torch import save_file

    file = Path(path).expanduser()
    wanted = saved_names(network)
    state = network.modules.state_dict()
    tensors = {name: state[name].detach().cpu().contiguous() for name in sorted(wanted)}
    header = {
        "version": VERSION,
        "layout": layout.to_dict(),
        "direction": notes.direction,
        "captions": dict(notes.captions),
        "categories": None if notes.categories is None else list(notes.categories),
        "prep": notes.prep,
        "base": notes.base,
        "fitted_on": sorted(notes.fitted_on),
        "fitted_groups": {way: sorted(groups) for way, groups in notes.fitted_groups.items()},
        "semantic": notes.semantic,
        "training": notes.training,
        "versions": library_versions("pytest-semcov", "torch", "diffusers", "peft", "transformers"),
    }
    write_whole(file, lambda place: save_file(tensors, place, metadata={_ENTRY: json.dumps(header)}))
    return file


def write_whole(file: Path, write: Callable[[str], object]) -> None:
    """Write a file under a temporary name, which replaces it at the end if all went well."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    os.close(handle)
    try:
        write(temporary)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _of_first_convolution(name: str) -> bool:
    return name.startswith("unet.conv_in.") and ".lora_" not in name


def _read_published(file: Path, spec: str) -> Checkpoint:
    import torch

    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise many kinds
        raise ModelError(
            f"{spec}: {file} is damaged, or holds more than tensors and plain values, and is not opened, "
            "because such a file could run code; fetch it again from its source"
        ) from error
    _check_published(content, file, spec)
    tensors: dict[str, torch.Tensor] = {}
    for adapter, (_, weights) in _PUBLISHED_UNET.items():
        for name, tensor in content[weights].items():
            stem, _, end = name.rpartition(".weight")
            tensors[f"unet.{stem}.{adapter}.weight" if stem and not end else f"unet.{name}"] = tensor
    if set(content["sd_vae_enc"]) != set(content["sd_vae_dec"]):
        raise _malformed(file, spec, "sd_vae_enc and sd_vae_dec hold different names")
    # Both hold all of both autoencoders; the published code reads sd_vae_dec last.
    for name, tensor in content["sd_vae_dec"].items():
        autoencoder, _, rest = name.partition(".")
        tensors[{"vae": "vae_a2b", "vae_b2a": "vae_b2a"}.get(autoencoder, autoencoder) + f".{rest}"] = tensor
    layout = AdapterLayout(
        content["rank_unet"],
        {adapter: content[names] for adapter, (names, _) in _PUBLISHED_UNET.items()},
        content["rank_vae"],
        content["vae_lora_target_modules"],
    )
    return Checkpoint(file, layout, tensors, False, PUBLISHED.get(file.name, Notes()))


def _check_published(content: object, file: Path, spec: str) -> None:
    if not isinstance(content, dict):
        raise _malformed(file, spec, f"it holds a {type(content).__name__}")
    lacking = sorted(_PUBLISHED_TYPES.keys() - content.keys())
    surplus = sorted(str(key) for key in content.keys() - _PUBLISHED_TYPES.keys())
    if lacking or surplus:
        found = f"missing: {', '.join(lacking) or 'none'}; left over: {', '.join(surplus) or 'none'}"
        raise _malformed(file, spec, found)
    for key, kind in _PUBLISHED_TYPES.items():
        value = content[key]
        if not isinstance(value, kind) or (kind is int and not _whole(value)):
            raise _malformed(file, spec, f"{key} is {_shown(value)}, need {kind.__name__}")
        if kind is list and not _texts(value):
            raise _malformed(file, spec, f"{key} is not a list of names")


def _read_own(file: Path, spec: str) -> Checkpoint:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as content:
            text = (content.metadata() or {}).get(_ENTRY)
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{spec}: {file} cannot be read: {error}; fetch or make it again") from error
    try:
        header = json.loads(text or "null")
    except (ValueError, RecursionError) as error:
        raise _malformed(file, spec, f"its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise _malformed(file, spec, f"its header has no {_ENTRY}")
    if header.get("version") != VERSION:
        raise _malformed(
            file, spec, f"version {_shown(header.get('version'))}, this package reads version {VERSION}"
        )
    return Checkpoint(file, _layout(header, file, spec), tensors, True, _notes(header, file, spec))


def _layout(header: dict[str, Any], file: Path, spec: str) -> AdapterLayout:
    given = header.get("layout")
    valid = (
        isinstance(given, dict)
        and all(_whole(given.get(name)) for name in ("unet_rank", "vae_rank", "vae_alpha"))
        and _texts(given.get("vae_targets"))
        and isinstance(given.get("unet_targets"), dict)
        and set(given["unet_targets"]) == set(UNET_ADAPTERS)
        and all(_texts(targets) for targets in given["unet_targets"].values())
    )
    if not isinstance(given, dict) or not valid:
        raise _malformed(file, spec, "the layout in its header is not one of adapters")
    return AdapterLayout(
        given["unet_rank"],
        given["unet_targets"],
        given["vae_rank"],
        given["vae_targets"],
        given["vae_alpha"],
    )


def _notes(header: dict[str, Any], file: Path, spec: str) -> Notes:
    direction, captions = header.get("direction"), header.get("captions")
    categories, prep, base = header.get("categories"), header.get("prep"), header.get("base")
    if direction not in (None, *DIRECTIONS):
        raise _malformed(file, spec, f"direction is {_shown(direction)}")
    if (
        not isinstance(captions, dict)
        or not captions.keys() <= set(DIRECTIONS)
        or not _texts([*captions.values()])
    ):
        raise _malformed(file, spec, "captions in its header are not texts by direction")
    if categories is not None and not (_texts(categories) and len(categories) == 2):
        raise _malformed(file, spec, "categories in its header are not two names")
    semantic, training = header.get("semantic"), header.get("training")
    if not all(isinstance(each, str | None) for each in (prep, base, semantic)):
        raise _malformed(file, spec, "prep, base or semantic in its header is not a text")
    keys, groups = header.get("fitted_on", []), header.get("fitted_groups", {})
    if not _texts(keys) or not isinstance(groups, dict) or not all(_texts(each) for each in groups.values()):
        raise _malformed(file, spec, "fitted_on or fitted_groups in its header are not lists of texts")
    if not isinstance(training, dict | None):
        raise _malformed(file, spec, "training in its header is not a table")
    return Notes(
        direction,
        captions,
        None if categories is None else (categories[0], categories[1]),
        prep,
        base,
        frozenset(keys),
        {way: frozenset(each) for way, each in groups.items()},
        semantic,
        training,
    )


def _check_tensors(checkpoint: Checkpoint, spec: str) -> None:
    """Check ranks before memory is taken for them, and that all weights are finite numbers."""
    import torch

    layout = checkpoint.layout
    for name, tensor in checkpoint.tensors.items():
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
            raise _malformed(checkpoint.path, spec, f"{name} is not a tensor of real numbers")
        rank = layout.unet_rank if name.startswith("unet.") else layout.vae_rank
        if ".lora_A." in name and tensor.shape[:1] != (rank,):
            raise _malformed(
                checkpoint.path, spec, f"{name} is {tuple(tensor.shape)}, its rank should be {rank}"
            )
        if not torch.isfinite(tensor).all():
            raise _malformed(checkpoint.path, spec, f"{name} holds values that are not finite numbers")
    if not any(".lora_A." in name for name in checkpoint.tensors):
        raise _malformed(checkpoint.path, spec, "it holds no adapter")


def _malformed(file: Path, spec: str, reason: str) -> ModelError:
    return ModelError(
        f"{spec}: {file} is no CycleGAN-Turbo checkpoint ({reason}); give one in the published layout, or a "
        ".safetensors file that CycleGanTurboTranslator.save wrote"
    )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _shown(value: object) -> str:
    """Return a value for a message; tensors and long texts by their type alone."""
    return (
        repr(value) if isinstance(value, int | str | None) and len(repr(value)) < 50 else type(value).__name__
    )
