"""Embedders made of a torch module.

All torch models run through :class:`ModuleEmbedder`: evaluation mode,
inference mode, full float32 on a GPU, rows checked for NaN.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.embedding.fingerprint import hash_description, hash_tensors, library_versions
from pytest_semcov.embedding.running import inference, resolve_device, stack, to_array
from pytest_semcov.embedding.users_code import describe_preprocessing, describe_unversioned, module_code
from pytest_semcov.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from PIL import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def pool(output: object, *, name: str) -> torch.Tensor:
    """Turn a module's output into rows.

    Parameters
    ----------
    output
        ``(n, d)`` is taken as it is; ``(n, c, h, w)`` feature maps and ``(n, t, d)`` token sequences are
        averaged over space or tokens.
    name
        The model, for the message.

    Raises
    ------
    ModelError
        For any other output.
    """
    import torch

    if isinstance(output, torch.Tensor):
        if output.ndim == 2:
            return output
        if output.ndim == 4:
            return output.mean(dim=(2, 3))
        if output.ndim == 3:
            return output.mean(dim=1)
        shown = f"a tensor of shape {tuple(output.shape)}"
    else:
        shown = f"a {type(output).__name__}"
    raise ModelError(
        f"{name} returns {shown}; needed is one tensor of shape (n, d), (n, c, h, w) or (n, tokens, d): "
        "name a submodule that gives one with layer=, or wrap the module in a function"
    )


class DefaultPreprocessing:
    """The preprocessing of a bare module: what ImageNet classifiers are commonly given.

    Shorter side resized to ``input_size`` (bicubic, antialiased), centre crop to a square, scaled to [0, 1],
    ImageNet mean subtracted and divided by its standard deviation; ``(3, input_size, input_size)`` float32.
    Sizes are rounded as torchvision's transforms do, so that both give the same numbers.

    Parameters
    ----------
    input_size
        Side of the square in pixels.
    """

    def __init__(self, input_size: int = 224) -> None:
        self.input_size = input_size

    @property
    def version(self) -> str:
        """What the result depends on."""
        return f"default: bicubic {self.input_size}, mean {IMAGENET_MEAN}, std {IMAGENET_STD}"

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """Turn one image into ``(3, input_size, input_size)`` float32."""
        from PIL import Image as PillowImage

        size, shorter = self.input_size, min(image.size)
        width, height = (size * side // shorter for side in image.size)
        resized = image.convert("RGB").resize((width, height), PillowImage.Resampling.BICUBIC)
        left, top = round((width - size) / 2), round((height - size) / 2)
        pixels = np.asarray(resized.crop((left, top, left + size, top + size)), dtype=np.float32) / 255
        scaled = (pixels - np.asarray(IMAGENET_MEAN, np.float32)) / np.asarray(IMAGENET_STD, np.float32)
        return np.ascontiguousarray(scaled.transpose(2, 0, 1))


class ModuleEmbedder:
    """An embedder around a torch module.

    Build it with :func:`embedder_from_module` or a spec string.

    Parameters
    ----------
    module
        Takes ``(n, 3, h, w)``, gives rows (see :func:`pool`).
    preprocess
        One RGB image to one model input. Called from several threads at once.
    description
        Everything besides the weights that embeddings depend on, in plain Python.
    name
        Short name for reports.
    input_size
        Shorter side in pixels that preprocessing needs; ``None`` = images are decoded in full.
    device
        Where it is.
    trained
        False if the weights are random.
    layer
        Submodule whose output is taken instead of the module's own.
    owned
        Whether the module belongs to this object alone, so that its weights cannot change.
    persistent
        Whether the fingerprint covers all that embeddings depend on; else they are kept in memory only.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        preprocess: Callable[[Image.Image], Any],
        description: Mapping[str, object],
        name: str,
        input_size: int | None,
        device: torch.device,
        trained: bool = True,
        layer: str | None = None,
        owned: bool = False,
        persistent: bool = True,
    ) -> None:
        self.module = module.eval() if owned else module
        self.name = name
        self.trained = trained
        self.input_size = input_size
        self.persistent = persistent
        self._preprocess = preprocess
        self._description = dict(description)
        self._device = device
        self._layer = layer
        self._owned = owned
        self._known_fingerprint: str | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of weights, architecture, preprocessing, dtype, device type and library versions.

        Computed once for a module that nobody else holds, on every access for a user's own module, whose
        weights may change between two tests.
        """
        if self._known_fingerprint is not None:
            return self._known_fingerprint
        value = hash_description(
            {
                **self._description,
                "weights": hash_tensors(self.module.state_dict()),
                "layer": self._layer,
                "dtype": str(self._dtype),
                "device": self._device.type,
            }
        )
        if self._owned:
            self._known_fingerprint = value
        return value

    @property
    def device(self) -> torch.device:
        """Where the module is."""
        return self._device

    @property
    def _dtype(self) -> torch.dtype:
        import torch

        found = (p.dtype for p in self.module.parameters() if p.is_floating_point())
        return next(found, torch.float32)

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the module's input."""
        return self._preprocess(image)

    def embed(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Embed preprocessed images: ``(n, d)`` float32.

        A batch in which a half-precision module gives NaN or infinity is computed once more in float32.
        """
        import torch

        inputs = stack(batch).to(self._device)
        dtype = self._dtype
        rows = self._run(self.module, inputs.to(dtype))
        if dtype != torch.float32 and not np.isfinite(rows).all():
            rows = self._run(copy.deepcopy(self.module).float(), inputs.float())
        return rows

    def _run(self, module: torch.nn.Module, inputs: torch.Tensor) -> NDArray[np.float32]:
        with inference(module, self._device):
            if self._layer is None:
                return to_array(pool(module(inputs), name=self.name))
            caught: list[object] = []
            hook = module.get_submodule(self._layer).register_forward_hook(
                lambda _module, _inputs, output: caught.append(output)
            )
            try:
                module(inputs)
            finally:
                hook.remove()
            if len(caught) != 1:
                raise ModelError(
                    f"{self.name}: layer {self._layer!r} ran {len(caught)} times in one forward pass; "
                    "name a submodule that runs once"
                )
            return to_array(pool(caught[0], name=f"{self.name}, layer {self._layer!r},"))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} on {self._device}>"


def embedder_from_module(
    module: torch.nn.Module,
    *,
    preprocess: Callable[[Image.Image], Any] | None = None,
    layer: str | None = None,
    input_size: int = 224,
    name: str | None = None,
    trained: bool = True,
    device: str | None = None,
    version: str | None = None,
) -> ModuleEmbedder:
    """Make an embedder of a torch module.

    The module is used as it is: in evaluation mode while it runs (and then set back), on its own device
    and in its own dtype.

    Parameters
    ----------
    module
        Takes ``(n, 3, h, w)``; gives ``(n, d)``, ``(n, c, h, w)`` (averaged over space) or ``(n, t, d)``
        (averaged over tokens).
    preprocess
        One RGB PIL image to one input (tensor or array without batch dimension), thread-safe; ``None`` =
        :class:`DefaultPreprocessing`. Its result must depend on the image alone.
    layer
        Name of the submodule whose output is the embedding, e.g. ``"avgpool"``; ``None`` = the module's.
    input_size
        Side of the default preprocessing's square; with ``preprocess``, the shorter side in pixels that it
        needs (larger JPEGs are decoded at reduced scale).
    name
        Short name for reports; ``None`` = the module's class name.
    trained
        False if the weights are random: results are then marked.
    device
        Device to move the module to; ``None`` = it stays where it is.
    version
        Changes whenever ``preprocess`` does. Needed for the cache on disk unless ``preprocess`` is a
        torchvision transform or has a ``version`` of its own; otherwise embeddings are kept in memory only.

    Raises
    ------
    ArgumentError
        If there is no such layer (the message lists those that exist) or device.
    """
    import torch

    name = name or type(module).__name__
    layers = dict(module.named_modules())
    if layer is not None and layer not in layers:
        known = [key for key in layers if key]
        shown = ", ".join(known[:20]) + (" ..." if known[20:] else "")
        raise ArgumentError(f"{name} has no layer {layer!r}; there are {shown}")
    transform = DefaultPreprocessing(input_size) if preprocess is None else preprocess
    described = version or describe_preprocessing(transform)
    if device is None:
        first = next(module.parameters(), None)
        place = torch.device("cpu") if first is None else first.device
    else:
        place = resolve_device(device)
        module = module.to(place)
    return ModuleEmbedder(
        module,
        preprocess=transform,
        description={
            "module": name,
            "architecture": repr(module),
            "code": module_code(module),
            "preprocessing": described or describe_unversioned(transform),
            "input_size": input_size,
            "versions": library_versions("torch", "torchvision", "timm", "numpy", "pillow"),
        },
        name=name,
        input_size=input_size,
        device=place,
        trained=trained,
        layer=layer,
        persistent=described is not None,
    )
