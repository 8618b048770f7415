"""Embedders from torchvision: ``torchvision:<name>``, ``torchvision:<name>@<weights file>``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from pytest_semcov.embedding.fingerprint import library_versions
from pytest_semcov.embedding.hub import offline
from pytest_semcov.embedding.modules import ModuleEmbedder
from pytest_semcov.embedding.running import seeded
from pytest_semcov.embedding.weights import existing_file, load_strictly, read_weights
from pytest_semcov.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    import torch

    from pytest_semcov.embedding.specs import ModelSpec


def load_torchvision(spec: ModelSpec, device: torch.device) -> ModuleEmbedder:
    """Load a torchvision classifier without its last linear layer, with its default weights' preprocessing.

    Parameters
    ----------
    spec
        ``name`` as in ``torchvision.models.list_models(module=torchvision.models)``; weights from
        ``path``, else torchvision's default ones from the torch hub cache, or none if ``untrained``.
    device
        Where it runs.

    Raises
    ------
    ArgumentError
        If torchvision has no such classifier.
    ModelError
        If the weights are not to be had or do not fit.
    """
    import torch
    from torchvision import models

    names = models.list_models(module=models)
    if spec.name not in names:
        raise ArgumentError(f"{spec}: torchvision has no classifier {spec.name!r}; it has {', '.join(names)}")
    weights = models.get_model_weights(spec.name).DEFAULT
    with seeded():
        model = models.get_model(spec.name, weights=None)
    head = _last_linear(model, spec, classes=len(weights.meta["categories"]))
    parent, _, child = head.rpartition(".")
    setattr(model.get_submodule(parent), child, torch.nn.Identity())
    if not spec.untrained:
        path = (
            default_weights(weights, spec) if spec.path is None else existing_file(spec.path, spec=str(spec))
        )
        # Auxiliary classifiers help training only.
        heads = (head, "AuxLogits", "aux1", "aux2")
        load_strictly(model, read_weights(path, spec=str(spec)), spec=str(spec), path=path, head=heads)
    return rows_of_torchvision(model, weights.transforms(), spec, device)


def rows_of_torchvision(
    model: torch.nn.Module, transform: Any, spec: ModelSpec, device: torch.device
) -> ModuleEmbedder:
    """Return a torchvision model with its preprocessing: what it gives per image is a row."""
    import torch

    return ModuleEmbedder(
        model.to(device).to(memory_format=torch.channels_last),
        preprocess=transform,
        description={
            "library": "torchvision",
            "architecture": spec.name,
            "preprocessing": repr(transform),
            "versions": library_versions("torchvision", "torch", "pillow"),
        },
        name=f"torchvision:{spec.name}",
        input_size=max(transform.resize_size),
        device=device,
        trained=not spec.untrained,
        owned=True,
    )


def _last_linear(model: torch.nn.Module, spec: ModelSpec, *, classes: int) -> str:
    import torch

    linear: list[str] = [name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    if not linear or model.get_submodule(linear[-1]).out_features != classes:
        raise ModelError(
            f"{spec}: its classifier does not end in a linear layer, so the embedding is not obvious; "
            "choose a layer with pytest_semcov.embedding.modules.embedder_from_module(model, layer=...)"
        )
    return linear[-1]


def default_weights(weights: Any, spec: ModelSpec) -> Path:
    """Return the file of torchvision's default weights, downloaded into the torch hub cache if need be.

    Raises
    ------
    ModelError
        If they are neither cached nor to be had.
    """
    import torch

    folder = Path(torch.hub.get_dir()) / "checkpoints"
    path: Path = folder / weights.url.rsplit("/", 1)[1]
    if path.is_file():
        return path
    reason = "offline mode is set"
    if not offline():
        try:
            # One short question first: the download itself has no timeout.
            with urlopen(Request(weights.url, method="HEAD"), timeout=10):  # an https address of torchvision
                pass
            folder.mkdir(parents=True, exist_ok=True)
            expected = path.stem.rsplit("-", 1)[1]
            torch.hub.download_url_to_file(weights.url, str(path), hash_prefix=expected, progress=False)
            return path
        except Exception as error:
            reason = str(error) or type(error).__name__
    raise ModelError(
        f"{spec}: weights {weights} ({path.name}) are not in {folder} and could not be fetched from "
        f"{weights.url}: {reason}; download them once with network, set TORCH_HOME to a folder that has "
        f"them, or give a local file with torchvision:{spec.name}@PATH"
    )
