"""A translator that learns the look of a category from unpaired images, in seconds, on a CPU."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.fitted import FileForm, draw_some, samples_to_learn_from
from pytest_semcov.translation.protocol import Failed, check_seeds
from pytest_semcov.translation.transfer import VERSION, describe, shapes, transfer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

METHODS = ("transport", "statistics")
_FILES = FileForm("colour", VERSION, texts=("method",))


@dataclass(frozen=True, eq=False)
class ColourTranslator:
    """Gives images the colours and contrasts of another category's real images.

    Made by :meth:`fit` or :meth:`load`. Every image gets the look of one image of the target sample, drawn by
    its seed, so that outputs vary as the target sample does. Objects stay where they are: only colours and
    contrasts change (see :mod:`pytest_semcov.translation.transfer`).

    Parameters
    ----------
    source, target
        Categories, e.g. ``"day"``, ``"night"``.
    method
        ``"transport"`` or ``"statistics"``.
    looks
        What was learned: arrays with one entry per target image.
    fitted_on
        Content keys of all images given to :meth:`fit`: none of them may judge this translator.
    fitted_groups
        Groups of the target images: other target images of these are too close to judge, too.
    semantic
        What is changed, e.g. ``"day_night"``, if it was said.
    """

    source: str
    target: str
    method: str
    looks: Mapping[str, NDArray[np.floating]]
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
        method: str = "transport",
        seed: int = 0,
        maximum_images: int = 64,
        semantic: str | None = None,
    ) -> ColourTranslator:
        """Learn the look of the target images.

        Parameters
        ----------
        source_images
            Images of the source category, possibly none. An image is its own source distribution, so nothing
            is learned from them; they are remembered as not to be used for judging.
        target_images
            Real images of the target category, at least one. They need not show the same places.
        source, target
            Names of the categories.
        method
            ``"transport"``: optimal transport of colours and contrasts, about 0.2 s an image on one core.
            ``"statistics"``: mean and standard deviation of Oklab channels, fast and weak.
        seed
            Draws which target images are learned from if there are more than ``maximum_images``.
        maximum_images
            Most target images to learn from; each adds about 70 kB to the file.
        semantic
            Name of the semantic that source and target belong to.

        Raises
        ------
        ArgumentError
            If an argument is not allowed, there is no target image, or an image is in both samples.
        ImageError
            If an image cannot be decoded.
        """
        if method not in METHODS:
            raise ArgumentError(f"method {method!r}: need one of {', '.join(METHODS)}")
        sources, targets = samples_to_learn_from(source_images, target_images, source=source, target=target)
        chosen = draw_some(targets, maximum=maximum_images, seed=seed)
        looks = [describe(sample.load(), method) for sample in chosen]
        return cls(
            source,
            target,
            method,
            {name: np.stack([look[name] for look in looks]) for name in looks[0]},
            frozenset(sample.content_key() for sample in (*sources, *targets)),
            frozenset(sample.group for sample in targets if sample.group is not None),
            semantic,
        )

    @property
    def name(self) -> str:
        """Short name for reports and provenance."""
        return f"colour-{self.method}"

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 over what was learned and the version of the method (hex)."""
        digest = hashlib.sha256(json.dumps([VERSION, self.source, self.target, self.method]).encode())
        for name in sorted(self.looks):
            digest.update(f"{name} {self.looks[name].shape} {self.looks[name].dtype.str}".encode())
            digest.update(np.ascontiguousarray(self.looks[name]).tobytes())
        return digest.hexdigest()

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Translate RGB images; same sizes out as in.

        Parameters
        ----------
        images
            RGB images; any other mode is a :class:`Failed`.
        seeds
            One per image, 0 or more: draws the target image. A result depends on its image and seed alone.
        """
        check_seeds(images, seeds)
        return [self._one(image, seed) for image, seed in zip(images, seeds, strict=True)]

    def _one(self, image: Image.Image, seed: int) -> Image.Image | Failed:
        if image.mode != "RGB":
            return Failed(f"mode {image.mode}, need RGB")
        generator = np.random.Generator(np.random.PCG64(seed))
        number = int(generator.integers(len(next(iter(self.looks.values())))))
        look = {name: array[number] for name, array in self.looks.items()}
        return transfer(image, look, self.method, generator)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the translator to one safetensors file, whole or not at all.

        Parameters
        ----------
        path
            The file; its folder is made if need be.
        """
        header = {
            "source": self.source,
            "target": self.target,
            "method": self.method,
            "semantic": self.semantic,
            "fitted_on": sorted(self.fitted_on),
            "fitted_groups": sorted(self.fitted_groups),
        }
        return _FILES.write(path, header, self.looks)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ColourTranslator:
        """Read what :meth:`save` wrote.

        Raises
        ------
        ModelError
            If the file is missing or is not such a translator; names the file and what to do.
        """
        file = Path(path).expanduser()
        header, looks = _FILES.read(file)
        _check_looks(file, looks, header["method"])
        return cls(
            header["source"],
            header["target"],
            header["method"],
            looks,
            frozenset(header["fitted_on"]),
            frozenset(header["fitted_groups"]),
            header["semantic"],
        )

    def __repr__(self) -> str:
        count = len(next(iter(self.looks.values())))
        return f"<ColourTranslator {self.source} to {self.target} by {self.method}, {count} looks>"


def _check_looks(file: Path, looks: Mapping[str, NDArray[Any]], method: str) -> None:
    if method not in METHODS:
        raise _FILES.unusable(file, f"method {method!r}, this package knows {', '.join(METHODS)}")
    wanted = shapes(method)
    if set(looks) != set(wanted):
        raise _FILES.unusable(file, f"it holds {', '.join(sorted(looks))}; need {', '.join(sorted(wanted))}")
    counts = {array.shape[:1] for array in looks.values()}
    for name, shape in wanted.items():
        array = looks[name]
        if array.shape[1:] != shape or len(counts) != 1 or not len(array):
            raise _FILES.unusable(
                file, f"{name} has shape {array.shape}; need (images, {', '.join(map(str, shape))})"
            )
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise _FILES.unusable(file, f"{name} holds values that are not finite numbers")
