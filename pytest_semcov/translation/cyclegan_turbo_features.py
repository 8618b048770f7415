"""Frozen networks as judges of images: features for a discriminator, distances between features.

The published training looks at images through two frozen networks: CLIP's ViT-B/32 below the discriminator,
and VGG-16 in LPIPS (Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric",
2018). Any other frozen network can take their places; its name goes into the log and the saved file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding.fingerprint import hash_description, hash_tensors
from pytest_semcov.embedding.running import seeded
from pytest_semcov.embedding.specs import load_embedder, load_encoder
from pytest_semcov.errors import ArgumentError, ModelError, missing_dependency

if TYPE_CHECKING:
    import torch

LPIPS = "lpips"
"""The perceptual distance of the library of that name."""

CLIP_BLOCKS = (4, 8)
"""Transformer blocks after which patch tokens are taken, besides the final embedding."""

_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_DEVIATION = (0.26862954, 0.26130258, 0.27577711)
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_DEVIATION = (0.229, 0.224, 0.225)

_LEVELS = 5
"""Most levels that are taken of a convolutional network."""


@dataclass(frozen=True, slots=True, eq=False)
class FrozenFeatures:
    """A frozen network that gives features of images at several levels.

    Parameters
    ----------
    name
        For logs and saved files.
    module
        The network; it is put in evaluation mode and takes no gradients of its own.
    layers
        Names of submodules whose outputs are the features: maps ``(n, channels, height, width)``, tokens
        ``(n, tokens, channels)`` (of a square grid, with or without a class token before it), or vectors
        ``(n, channels)``. Empty: what the network itself returns, a sequence of such tensors or one.
    size
        Side (pixels) that images are resized to by averaging areas; ``None`` = as they are.
    mean, deviation
        Per channel, of images in [0, 1]: what is subtracted, and by what the rest is divided.
    """

    name: str
    module: torch.nn.Module
    layers: tuple[str, ...] = ()
    size: int | None = None
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    deviation: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        self.module.requires_grad_(False).eval()

    def __call__(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Return the features of ``(n, 3, height, width)`` images in [-1, 1], maps or vectors, by level."""
        from torch.nn import functional

        pixels = (images + 1) / 2
        if self.size is not None:
            pixels = functional.interpolate(pixels, size=(self.size, self.size), mode="area")
        mean, deviation = (pixels.new_tensor(each)[:, None, None] for each in (self.mean, self.deviation))
        return [_as_map(output) for output in self._outputs((pixels - mean) / deviation)]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the weights and of what is taken from them."""
        return hash_description(
            {
                "weights": hash_tensors(self.module.state_dict()),
                "layers": self.layers,
                "input": [self.size, self.mean, self.deviation],
            }
        )

    def _outputs(self, pixels: torch.Tensor) -> Sequence[torch.Tensor]:
        if not self.layers:
            given = self.module(pixels)
            return given if isinstance(given, list | tuple) else [given]
        taken: dict[str, torch.Tensor] = {}
        with ExitStack() as hooks:
            for layer in self.layers:
                handle = self.module.get_submodule(layer).register_forward_hook(_taker(taken, layer))
                hooks.callback(handle.remove)
            self.module(pixels)
        return [taken[layer] for layer in self.layers]


def _taker(taken: dict[str, torch.Tensor], layer: str) -> Callable[[Any, Any, Any], None]:
    def take(_: object, __: object, output: torch.Tensor) -> None:
        taken[layer] = output

    return take


def _as_map(output: torch.Tensor) -> torch.Tensor:
    """Return tokens as a map; maps and vectors as they are."""
    if output.dim() != 3:
        return output
    side = math.isqrt(output.shape[1])
    grid = output[:, output.shape[1] - side * side :]
    return grid.transpose(1, 2).reshape(len(grid), -1, side, side)


def load_features(given: object, *, device: torch.device, purpose: str) -> FrozenFeatures:
    """Return a frozen network's features.

    Parameters
    ----------
    given
        :class:`FrozenFeatures`; a torch module that returns feature maps of images in [0, 1]; or a spec: of
        an open_clip ViT (patch tokens after blocks 4 and 8 and the final embedding are taken, as published
        with ``"open_clip:ViT-B-32/openai"``), or of a convolutional torchvision or timm network with weights
        in its cache or a file, e.g. ``"torchvision:vgg16@PATH"`` (the last features at each of the five
        finest resolutions are taken; of a convolutional CLIP, such as ``"builtin"``, the embedding too).
    device
        Where it runs.
    purpose
        What it is for, for messages.

    Raises
    ------
    ArgumentError
        If it is none of these.
    ModelError
        If weights cannot be had, or the network has no such features.
    """
    import torch

    if isinstance(given, FrozenFeatures):
        given.module.to(device)
        return given
    if isinstance(given, torch.nn.Module):
        return FrozenFeatures(type(given).__name__, given.to(device))
    if not isinstance(given, str):
        raise ArgumentError(
            f"{purpose}: {type(given).__name__} given; need a spec such as 'open_clip:ViT-B-32/openai' or "
            "'torchvision:vgg16@PATH', a torch module that returns feature maps, or FrozenFeatures"
        )
    if given == "builtin" or given.startswith("open_clip:"):
        return _of_clip(given, load_encoder(given, device=str(device)), device, purpose)
    embedder: Any = load_embedder(given, device=str(device))
    module = getattr(embedder, "module", None)
    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(f"{purpose}: {given!r} has no features of several levels; see load_features")
    size = int(embedder.input_size)
    return FrozenFeatures(
        given,
        module,
        _last_of_each_resolution(module, size, device, f"{purpose}: {given}"),
        None,
        _IMAGENET_MEAN,
        _IMAGENET_DEVIATION,
    )


def _of_clip(spec: str, encoder: Any, device: torch.device, purpose: str) -> FrozenFeatures:
    visual = encoder.model.visual
    size = visual.image_size
    side = int(size if isinstance(size, int) else size[0])
    blocks = getattr(getattr(visual, "transformer", None), "resblocks", ())
    levels = tuple(f"transformer.resblocks.{number - 1}" for number in CLIP_BLOCKS if number <= len(blocks))
    if not levels:
        levels = _last_of_each_resolution(visual, side, device, f"{purpose}: {spec}")
    layers = (*levels, "")
    known = getattr(visual, "preprocess_cfg", {})
    mean, deviation = known.get("mean", _CLIP_MEAN), known.get("std", _CLIP_DEVIATION)
    return FrozenFeatures(spec, visual, layers, side, tuple(mean), tuple(deviation))


def _last_of_each_resolution(
    module: torch.nn.Module, size: int, device: torch.device, what: str
) -> tuple[str, ...]:
    """Return the names of the modules whose maps are the last of their resolution, finest first."""
    import torch

    last: dict[int, str] = {}

    def noting(name: str) -> Callable[[Any, Any, Any], None]:
        def note(_: object, __: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and output.dim() == 4 and output.shape[2] > 1:
                last[output.shape[2]] = name

        return note

    with ExitStack() as hooks, torch.no_grad(), seeded():
        for name, part in module.named_modules():
            if not list(part.children()):
                hooks.callback(part.register_forward_hook(noting(name)).remove)
        module.eval()(torch.zeros(1, 3, size, size, device=device))
    if not last:
        raise ModelError(
            f"{what} gives no feature maps; take a convolutional network, e.g. torchvision:vgg16"
        )
    return tuple(last[resolution] for resolution in sorted(last, reverse=True)[:_LEVELS])


@dataclass(frozen=True, slots=True, eq=False)
class PerceptualDistance:
    """A distance between images as a frozen network sees them.

    Parameters
    ----------
    name
        ``"lpips (VGG)"``, ``"feature loss of ..."`` or the name of the user's function.
    measure
        From two tensors ``(n, 3, height, width)`` in [-1, 1] to a number.
    fingerprint
        Of the weights, as far as they are known.
    """

    name: str
    measure: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    fingerprint: str

    def __call__(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Return the mean distance of the images."""
        return self.measure(first, second).mean()


def load_perceptual(given: object, *, device: torch.device) -> PerceptualDistance:
    """Return a perceptual distance.

    Parameters
    ----------
    given
        ``"lpips"``: of the library of that name, by VGG-16, whose weights torchvision keeps in the torch
        hub's cache. Anything else is as in :func:`load_features` and gives a feature loss
        (:func:`feature_distance`). :class:`PerceptualDistance` is taken as it is.
    device
        Where it runs.

    Raises
    ------
    ArgumentError
        If it is none of these.
    MissingDependencyError
        If lpips is asked for and not installed.
    ModelError
        If weights cannot be had.
    """
    if isinstance(given, PerceptualDistance):
        return given
    if given == LPIPS:
        return _lpips(device)
    features = load_features(given, device=device, purpose="perceptual loss")
    return PerceptualDistance(
        f"feature loss of {features.name}",
        lambda first, second: feature_distance(features, first, second),
        features.fingerprint,
    )


def feature_distance(features: FrozenFeatures, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the mean absolute difference of features, scaled to length one per place, averaged over levels.

    Unlike LPIPS it has no weights learnt from people's judgements, and so is no LPIPS.
    """
    import torch
    from torch.nn import functional

    levels = [
        (functional.normalize(one, dim=1) - functional.normalize(other, dim=1)).abs().mean()
        for one, other in zip(features(first), features(second), strict=True)
    ]
    return torch.stack(levels).mean()


def _lpips(device: torch.device) -> PerceptualDistance:
    try:
        import lpips
    except ImportError as error:
        raise missing_dependency("lpips", extra="lpips", purpose="the perceptual loss 'lpips'") from error
    try:
        with seeded():
            network = lpips.LPIPS(net="vgg", verbose=False)
    except Exception as error:  # a download that fails raises many kinds
        raise ModelError(
            f"perceptual loss 'lpips': VGG-16's weights cannot be had ({error}); put vgg16-397923af.pth into "
            "the torch hub's folder checkpoints, or give perceptual='torchvision:vgg16@PATH' (a feature loss)"
        ) from error
    network.requires_grad_(False).eval().to(device)
    return PerceptualDistance("lpips (VGG)", network, hash_tensors(network.state_dict()))
