"""A translator trained on unpaired images in minutes, on a CPU."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.embedding.running import resolve_device
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.translation.fitted import FileForm, samples_to_learn_from
from pytest_semcov.translation.protocol import Failed, check_seeds
from pytest_semcov.translation.unpaired_network import MULTIPLE, fields, new_generator
from pytest_semcov.translation.unpaired_training import CODE_SIZE, STATISTICS, Looks, train

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from PIL import Image

VERSION = 1
"""Changes whenever the same weights, image and seed give other pixels."""

FEWEST_IMAGES = 10
"""Least number of images of each category to learn from; 50 and more are better."""

SMALLEST, LARGEST = 32, 256
"""Allowed sides (pixels) of the small copies."""

_FILES = FileForm("unpaired", VERSION)
_LOOKS = ("statistics", "projection", "source_mean", "source_deviation")
_GENERATOR = "generator."


@dataclass(frozen=True, eq=False)
class UnpairedTranslator:
    """A small network that learnt the look of a category from unpaired images.

    Made by :meth:`fit` or :meth:`load`. On a small copy of the image the network finds, per pixel, a map of
    colours; the maps are enlarged and applied to the image itself, so that edges, text and small objects stay
    as sharp as they were and where they were. Which look an image gets (how dark, which colour of light) is
    drawn by its seed, from those of the target images that suit it. See
    :mod:`pytest_semcov.translation.unpaired_training` for what is learnt.

    Parameters
    ----------
    source, target
        Categories, e.g. ``"day"``, ``"night"``.
    size
        Side (pixels) of the small square copies that the network sees.
    weights
        The network's parameters and the looks: float32 arrays by name.
    fitted_on
        Content keys of all images given to :meth:`fit`: none of them may judge this translator.
    fitted_groups
        Groups of the target images: other target images of these are too close to judge, too.
    semantic
        What is changed, e.g. ``"day_night"``, if it was said.
    """

    source: str
    target: str
    size: int
    weights: Mapping[str, NDArray[np.float32]]
    fitted_on: frozenset[str] = frozenset()
    fitted_groups: frozenset[str] = frozenset()
    semantic: str | None = None

    @classmethod
    def fit(
        cls,
        source_images: Dataset | Sequence[Sample | Image.Image],
        target_images: Dataset | Sequence[Sample | Image.Image],
        *,
        source: str = "day",
        target: str = "night",
        seed: int = 0,
        steps: int = 1000,
        size: int = 64,
        device: str = "cpu",
        semantic: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> UnpairedTranslator:
        """Train on images of both categories.

        Parameters
        ----------
        source_images, target_images
            Real images of each category, at least :data:`FEWEST_IMAGES` of each.
        source, target
            Names of the categories.
        seed
            Root of all random numbers, 0 or more: on one machine the same images and seed give the same
            translator.
        steps
            Training steps, 1 or more. The time is proportional: with ``size`` 64, 0.1 to 0.2 s each on one
            CPU core.
        size
            Side of the small square copies, 32 to 256, a multiple of 16. Time grows with its square.
        device
            ``"cpu"``, ``"cuda"``, ``"mps"`` or ``"auto"``, to train on. Translation is always on the CPU.
        semantic
            Name of the semantic that source and target belong to.
        progress
            Called as ``progress(what, done, total)`` after each image that is read and each step.

        Raises
        ------
        ArgumentError
            If an argument is not allowed, or an image is in both samples.
        TooFewError
            If there are too few images of a category.
        ImageError
            If an image cannot be decoded.
        ModelError
            If training diverges.
        """
        if steps < 1:
            raise ArgumentError(f"steps {steps}: need at least 1")
        if seed < 0:
            raise ArgumentError(f"seed {seed}: need 0 or more")
        if not SMALLEST <= size <= LARGEST or size % MULTIPLE:
            raise ArgumentError(f"size {size}: need a multiple of {MULTIPLE}, {SMALLEST} to {LARGEST}")
        place = resolve_device(device)
        sources, targets = samples_to_learn_from(source_images, target_images, source=source, target=target)
        for category, samples in ((source, sources), (target, targets)):
            if len(samples) < FEWEST_IMAGES:
                raise TooFewError(
                    f"unpaired translator: {len(samples)} images of {category!r} to learn from, need at "
                    f"least {FEWEST_IMAGES}; give more, or use one that learns from fewer, e.g. colour"
                )
        read = _small_copies([*sources, *targets], size, progress).to(place)
        before, after = read[: len(sources)], read[len(sources) :]
        looks = Looks.learn(before, after)
        generator = train(before, after, looks, steps=steps, seed=seed, progress=progress)
        tensors = {f"{_GENERATOR}{name}": tensor for name, tensor in generator.items()}
        tensors.update({name: getattr(looks, name) for name in _LOOKS})
        return cls(
            source,
            target,
            size,
            {name: np.ascontiguousarray(tensor.cpu().numpy()) for name, tensor in tensors.items()},
            frozenset(sample.content_key() for sample in (*sources, *targets)),
            frozenset(sample.group for sample in targets if sample.group is not None),
            semantic,
        )

    @property
    def name(self) -> str:
        """Short name for reports and provenance."""
        return "unpaired"

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 over what was learned and the version of the method (hex)."""
        digest = hashlib.sha256(json.dumps([VERSION, self.source, self.target, self.size]).encode())
        for name in sorted(self.weights):
            digest.update(f"{name} {self.weights[name].shape} {self.weights[name].dtype.str}".encode())
            digest.update(np.ascontiguousarray(self.weights[name]).tobytes())
        return digest.hexdigest()

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Translate RGB images; same sizes out as in.

        Parameters
        ----------
        images
            RGB images; any other mode is a :class:`Failed`.
        seeds
            One per image, 0 or more: draws the look. A result depends on its image and seed alone.
        """
        check_seeds(images, seeds)
        return [self._one(image, seed) for image, seed in zip(images, seeds, strict=True)]

    def _one(self, image: Image.Image, seed: int) -> Image.Image | Failed:
        import torch

        if image.mode != "RGB":
            return Failed(f"mode {image.mode}, need RGB")
        parameters, looks = self._tensors
        draw = np.random.Generator(np.random.PCG64(seed)).random()
        with torch.inference_mode():
            small = _as_tensor(image, self.size)[None]
            number = looks.choose(small, torch.tensor([draw], dtype=torch.float32))
            maps = fields(parameters, small, looks.codes(looks.statistics[number]))[0]
        return _under_maps(image, maps.numpy())

    @functools.cached_property
    def _tensors(self) -> tuple[dict[str, torch.Tensor], Looks]:
        import torch

        tensors = {name: torch.from_numpy(array.copy()) for name, array in self.weights.items()}
        looks = Looks(*(tensors.pop(name) for name in _LOOKS))
        return {name.removeprefix(_GENERATOR): tensor for name, tensor in tensors.items()}, looks

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the translator to one safetensors file (about 1 MB), whole or not at all.

        Parameters
        ----------
        path
            The file; its folder is made if need be.
        """
        header = {
            "source": self.source,
            "target": self.target,
            "size": self.size,
            "semantic": self.semantic,
            "fitted_on": sorted(self.fitted_on),
            "fitted_groups": sorted(self.fitted_groups),
        }
        return _FILES.write(path, header, self.weights)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> UnpairedTranslator:
        """Read what :meth:`save` wrote.

        Raises
        ------
        ModelError
            If the file is missing or is not such a translator; names the file and what to do.
        """
        file = Path(path).expanduser()
        header, weights = _FILES.read(file)
        size = header.get("size")
        if type(size) is not int or not SMALLEST <= size <= LARGEST or size % MULTIPLE:
            raise _FILES.unusable(
                file,
                f"size in its header is {size!r}, need a multiple of {MULTIPLE}, {SMALLEST} to {LARGEST}",
            )
        _check_weights(file, weights)
        return cls(
            header["source"],
            header["target"],
            size,
            weights,
            frozenset(header["fitted_on"]),
            frozenset(header["fitted_groups"]),
            header["semantic"],
        )

    def __repr__(self) -> str:
        looks = len(self.weights["statistics"])
        return f"<UnpairedTranslator {self.source} to {self.target}, {looks} looks, {self.size} pixels>"


def _small_copies(
    samples: Sequence[Sample], size: int, progress: Callable[[str, int, int], None] | None
) -> torch.Tensor:
    """Return ``(n, 3, size, size)``."""
    import torch

    copies = []
    for number, sample in enumerate(samples, start=1):
        copies.append(_as_tensor(sample.load(), size))
        if progress is not None:
            progress("reading images", number, len(samples))
    return torch.stack(copies)


def _as_tensor(image: Image.Image, size: int) -> torch.Tensor:
    """Return ``(3, size, size)``, 0 to 1: the whole image, squashed to a square."""
    import torch
    from PIL import Image

    small = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.asarray(small, dtype=np.float32).transpose(2, 0, 1) / 255)


def _under_maps(image: Image.Image, maps: NDArray[np.float32]) -> Image.Image:
    """Return the image with maps of colours, ``(12, size, size)``, enlarged to its size and applied."""
    from PIL import Image

    def enlarged(number: int) -> NDArray[np.float32]:
        channel = Image.fromarray(np.ascontiguousarray(maps[number]))
        return np.asarray(channel.resize(image.size, Image.Resampling.BICUBIC), dtype=np.float32)

    pixels = np.asarray(image, dtype=np.float32) / 255
    result = pixels.copy()
    for after in range(3):
        result[..., after] += enlarged(9 + after)
        for before in range(3):
            result[..., after] += enlarged(3 * after + before) * pixels[..., before]
    return Image.fromarray(np.rint(np.clip(result, 0, 1) * 255).astype(np.uint8))


def _check_weights(file: Path, weights: Mapping[str, NDArray[Any]]) -> None:
    import torch

    wanted = {
        f"{_GENERATOR}{name}": tuple(tensor.shape)
        for name, tensor in new_generator(CODE_SIZE, torch.Generator()).items()
    }
    count = len(weights["statistics"]) if "statistics" in weights and weights["statistics"].ndim else 0
    wanted["statistics"] = (count, STATISTICS)
    wanted["projection"] = (STATISTICS, CODE_SIZE)
    wanted["source_mean"] = wanted["source_deviation"] = (STATISTICS,)
    if not count or set(weights) != set(wanted):
        wrong = ", ".join(sorted(set(weights) ^ set(wanted))) or "statistics"
        raise _FILES.unusable(file, f"it lacks arrays or holds others: {wrong}")
    for name, shape in wanted.items():
        array = weights[name]
        if array.shape != shape or array.dtype != np.float32:
            raise _FILES.unusable(
                file, f"{name} is {array.dtype} of shape {array.shape}; need float32 of shape {shape}"
            )
        if not np.isfinite(array).all():
            raise _FILES.unusable(file, f"{name} holds values that are not finite numbers")
    if not (weights["source_deviation"] > 0).all():
        raise _FILES.unusable(file, "source_deviation holds values that are not above 0")
