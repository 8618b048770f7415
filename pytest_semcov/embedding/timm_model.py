"""Embedders from timm: ``timm:<name>``, ``timm:<name>@<weights file>``."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any, cast

from pytest_semcov.embedding import hub
from pytest_semcov.embedding.fingerprint import library_versions
from pytest_semcov.embedding.modules import ModuleEmbedder
from pytest_semcov.embedding.running import seeded
from pytest_semcov.embedding.weights import existing_file, load_strictly, read_weights
from pytest_semcov.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    import torch

    from pytest_semcov.embedding.specs import ModelSpec

_HUB_FILES = ("model.safetensors", "pytorch_model.bin")


def load_timm(spec: ModelSpec, device: torch.device) -> ModuleEmbedder:
    """Load a timm model without its classifier head: pooled features, the model's own preprocessing.

    Parameters
    ----------
    spec
        ``name`` as in ``timm.list_models()``; weights from ``path``, else from the hub, or none if
        ``untrained``.
    device
        Where it runs.

    Raises
    ------
    ArgumentError
        If timm has no such model.
    ModelError
        If the weights are not to be had or do not fit.
    """
    import timm

    check_name(spec)
    if spec.path is not None:
        path = existing_file(spec.path, spec=str(spec))
        with seeded():
            model = timm.create_model(spec.name, pretrained=False, num_classes=0)
        head: str | tuple[str, ...] = cast("Any", model).pretrained_cfg.get("classifier") or ()
        load_strictly(
            model,
            read_weights(path, spec=str(spec)),
            spec=str(spec),
            path=path,
            head=(head,) if isinstance(head, str) else tuple(head),
        )
    elif spec.untrained:
        with seeded():
            model = timm.create_model(spec.name, pretrained=False, num_classes=0)
    else:
        model = from_hub(spec, num_classes=0)
    return rows_of_timm(model, spec, device)


def check_name(spec: ModelSpec) -> None:
    """Raise ArgumentError unless timm has the model, and weights of the tag if one is named."""
    import timm

    if not timm.is_model(spec.name):
        close = difflib.get_close_matches(spec.name.split(".")[0], timm.list_models(), n=5)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise ArgumentError(f"{spec}: timm has no model {spec.name!r}{hint} (timm.list_models() shows all)")
    try:
        timm.get_pretrained_cfg(spec.name)
    except RuntimeError as error:
        known = timm.list_pretrained(f"{spec.name.split('.')[0]}.*")
        raise ArgumentError(f"{spec}: timm knows no such weights; it has {', '.join(known)}") from error


def from_hub(spec: ModelSpec, **options: Any) -> torch.nn.Module:
    """Return a model with timm's pretrained weights, from the hub or its cache.

    Raises
    ------
    ModelError
        If there are none, or they are not to be had.
    """
    import timm

    config = timm.get_pretrained_cfg(spec.name)
    if config is None or not config.has_weights:
        raise ModelError(
            f"{spec}: timm knows no pretrained weights for it; give a file with timm:{spec.name}@PATH, "
            f"or take random weights with timm:{spec.name}?untrained"
        )
    overlay = {}
    if config.hf_hub_id:
        names = (config.hf_hub_filename,) if config.hf_hub_filename else _HUB_FILES
        overlay = {"file": str(hub.fetch(str(spec), config.hf_hub_id, names))}
    try:
        with seeded():
            model: torch.nn.Module = timm.create_model(
                spec.name, pretrained=True, pretrained_cfg_overlay=overlay, **options
            )
    except Exception as error:
        raise ModelError(f"{spec}: the pretrained weights could not be loaded: {error}") from error
    return model


def rows_of_timm(model: torch.nn.Module, spec: ModelSpec, device: torch.device) -> ModuleEmbedder:
    """Return a timm model with its own preprocessing: what it gives per image is a row."""
    import torch

    timm_data: Any = importlib.import_module("timm.data")  # its names are not declared as exported

    config: dict[str, Any] = timm_data.resolve_data_config({}, model=model)
    transform = timm_data.create_transform(**config, is_training=False)
    # The image is resized so that the crop is the stated share of it: that is what decoding must leave.
    needed = round(max(config["input_size"][1:]) / config["crop_pct"])
    return ModuleEmbedder(
        model.to(device).to(memory_format=torch.channels_last),
        preprocess=transform,
        description={
            "library": "timm",
            "architecture": spec.name,
            "preprocessing": {key: str(value) for key, value in config.items()},
            "versions": library_versions("timm", "torch", "torchvision", "pillow"),
        },
        name=f"timm:{spec.name}",
        input_size=needed,
        device=device,
        trained=not spec.untrained,
        owned=True,
    )
