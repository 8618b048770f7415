"""Embeddings of regions: a named layer of a torch module, pooled over a box by ``roi_align``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.embedding.fingerprint import hash_description
from pytest_semcov.embedding.modules import IMAGENET_MEAN, IMAGENET_STD, embedder_from_module
from pytest_semcov.embedding.running import inference, to_array
from pytest_semcov.errors import ModelError
from pytest_semcov.evaluation.object_crops import WINDOW

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from PIL import Image

_SIDE = 3


class RoiEmbedder:
    """An embedder of regions: whole images run through a module, one layer's map is pooled over a window.

    What an object's features are then depends on its surroundings as in a detector, and nothing is resized:
    images run at their own size, [0, 1], less ImageNet's mean and divided by its standard deviation. The map
    is read at 3 x 3 points of the window and averaged. Windows of one image in one batch share its run.

    Parameters
    ----------
    module
        Takes ``(1, 3, h, w)`` of any size. Of a torchvision detector, give its ``backbone``.
    layer
        Name of the submodule, which gives ``(1, c, h', w')``, e.g. ``"layer2"``.

    Raises
    ------
    ArgumentError
        If there is no such layer; the message lists those that exist.
    """

    input_size: int | None = None

    def __init__(self, module: torch.nn.Module, layer: str) -> None:
        self._base = embedder_from_module(module, layer=layer)
        self._layer = layer
        self.name = f"{self._base.name}:{layer}"
        self.trained = self._base.trained
        self.persistent = self._base.persistent

    @property
    def fingerprint(self) -> str:
        """Hash of the module's fingerprint, the layer and the way of pooling."""
        return hash_description(
            {"module": self._base.fingerprint, "pooling": f"roi_align {_SIDE} x {_SIDE}, mean"}
        )

    def preprocess(self, image: Image.Image) -> tuple[NDArray[np.float32], tuple[float, ...], str]:
        """Return ``(3, height, width)`` float32, the window, and what tells windows of equal images."""
        pixels = np.asarray(image, dtype=np.float32) / 255
        scaled = (pixels - np.asarray(IMAGENET_MEAN, np.float32)) / np.asarray(IMAGENET_STD, np.float32)
        *window, image_key = image.info[WINDOW]
        return np.ascontiguousarray(scaled.transpose(2, 0, 1)), tuple(window), image_key

    def embed(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Embed regions: ``(n, c)`` float32."""
        import torch
        from torchvision.ops import roi_align

        rows: list[torch.Tensor | None] = [None] * len(batch)
        by_image: dict[str, list[int]] = {}
        for number, (_, _, image_key) in enumerate(batch):
            by_image.setdefault(image_key, []).append(number)
        module = self._base.module
        with inference(module, self._base.device):
            for members in by_image.values():
                pixels = torch.from_numpy(batch[members[0]][0])[None]
                features = self._features(pixels.to(self._base.device))
                scale = (
                    features.shape[3] / pixels.shape[3],
                    features.shape[2] / pixels.shape[2],
                )
                windows = torch.tensor([batch[number][1] for number in members], dtype=features.dtype)
                windows = windows * torch.tensor([*scale, *scale], dtype=features.dtype)
                pooled = roi_align(features, [windows.to(features.device)], output_size=_SIDE, aligned=True)
                for number, row in zip(members, pooled.mean(dim=(2, 3)), strict=True):
                    rows[number] = row
        return to_array(torch.stack([row for row in rows if row is not None]))

    def _features(self, pixels: torch.Tensor) -> torch.Tensor:
        import torch

        module = self._base.module
        caught: list[object] = []
        hook = module.get_submodule(self._layer).register_forward_hook(
            lambda _module, _inputs, output: caught.append(output)
        )
        try:
            module(pixels.to(next((p.dtype for p in module.parameters()), pixels.dtype)))
        finally:
            hook.remove()
        output = caught[0] if len(caught) == 1 else None
        if not isinstance(output, torch.Tensor) or output.ndim != 4:
            raise ModelError(
                f"{self.name}: the layer must run once and give one tensor (n, c, h, w); "
                "name a submodule that does"
            )
        return output
