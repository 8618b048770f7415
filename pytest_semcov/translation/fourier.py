"""A translator that exchanges low frequencies: the light of another category, the edges of the source.

Yang and Soatto, "FDA: Fourier Domain Adaptation for Semantic Segmentation" (CVPR 2020): the amplitudes of an
image's lowest frequencies are replaced by those of a target image; the phase stays, and so do objects.

Amplitudes are divided by the number of pixels and counted by cycles per image side, so that those of an image
are the same at every size. The amplitudes learned from a target image therefore serve images of any size.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.fitted import FileForm, draw_some, samples_to_learn_from
from pytest_semcov.translation.protocol import Failed, check_seeds

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

VERSION = 1
"""Changes whenever the same image, target and seed give other pixels."""

MOST_CYCLES = 32
"""Highest frequency that is learned, in cycles per image side."""

_NOTHING = 1e-6
"""Amplitude (255 is white) below which a frequency is not in an image, and has no phase."""

_FILES = FileForm("fourier", VERSION)


@dataclass(frozen=True, eq=False)
class FourierTranslator:
    """Gives images the low frequencies of another category's real images.

    Made by :meth:`fit` or :meth:`load`. Every image gets the amplitudes of one image of the target sample,
    drawn by its seed. Colours and the coarse distribution of light change; edges, and so objects, stay.

    Parameters
    ----------
    source, target
        Categories, e.g. ``"day"``, ``"night"``.
    beta
        Share of the spectrum that is exchanged, 0 to 0.5: frequencies of at most ``beta`` times the shorter
        side (pixels), rounded down, in cycles per image side along either axis; never more than
        :data:`MOST_CYCLES`. Any ``beta`` above 0 exchanges the mean colour; 0 changes nothing.
    amplitudes
        ``(images, 3, 2 * MOST_CYCLES + 1, MOST_CYCLES + 1)`` float32, 0 to 255: per target image, channel
        (red, green, blue), vertical frequency from ``-MOST_CYCLES`` and horizontal frequency from 0. The
        other half plane mirrors it.
    reach
        ``(images,)`` int64, 0 to :data:`MOST_CYCLES`: highest frequency that the target image was large
        enough to show. Beyond it, the source keeps its own.
    fitted_on
        Content keys of all images given to :meth:`fit`: none of them may judge this translator.
    fitted_groups
        Groups of the target images: other target images of these are too close to judge, too.
    semantic
        What is changed, e.g. ``"day_night"``, if it was said.
    """

    source: str
    target: str
    beta: float
    amplitudes: NDArray[np.float32]
    reach: NDArray[np.int64]
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
        beta: float = 0.02,
        seed: int = 0,
        maximum_images: int = 64,
        semantic: str | None = None,
    ) -> FourierTranslator:
        """Learn the amplitudes of the target images.

        Parameters
        ----------
        source_images
            Images of the source category, possibly none. Nothing is learned from them; they are remembered
            as not to be used for judging.
        target_images
            Real images of the target category, at least one. They need not show the same places.
        source, target
            Names of the categories.
        beta
            Share of the spectrum that is exchanged, 0 to 0.5 (see the class). The larger, the more of the
            target's light is taken over, and the more the target's coarse shapes show.
        seed
            Draws which target images are learned from if there are more than ``maximum_images``.
        maximum_images
            Most target images to learn from; each adds about 26 kB to the file.
        semantic
            Name of the semantic that source and target belong to.

        Raises
        ------
        ArgumentError
            If an argument is not allowed, there is no target image, or an image is in both samples.
        ImageError
            If an image cannot be decoded.
        """
        if not 0 <= beta <= 0.5:
            raise ArgumentError(f"beta {beta}: need a share from 0 to 0.5")
        sources, targets = samples_to_learn_from(source_images, target_images, source=source, target=target)
        chosen = [sample.load() for sample in draw_some(targets, maximum=maximum_images, seed=seed)]
        return cls(
            source,
            target,
            float(beta),
            np.stack([_low_amplitudes(image) for image in chosen]),
            np.array([_highest(image) for image in chosen], dtype=np.int64),
            frozenset(sample.content_key() for sample in (*sources, *targets)),
            frozenset(sample.group for sample in targets if sample.group is not None),
            semantic,
        )

    @property
    def name(self) -> str:
        """Short name for reports and provenance."""
        return "fourier"

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 over what was learned, ``beta`` and the version of the method (hex)."""
        digest = hashlib.sha256(json.dumps([VERSION, self.source, self.target, self.beta]).encode())
        digest.update(f"{self.amplitudes.shape}".encode())
        digest.update(np.ascontiguousarray(self.amplitudes).tobytes())
        digest.update(np.ascontiguousarray(self.reach).tobytes())
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
        if not self.beta:
            return image.copy()
        number = int(np.random.Generator(np.random.PCG64(seed)).integers(len(self.reach)))
        cycles = min(
            math.floor(self.beta * min(image.size)), _highest(image), int(self.reach[number]), MOST_CYCLES
        )
        middle = slice(MOST_CYCLES - cycles, MOST_CYCLES + cycles + 1)
        return _with_amplitudes(image, self.amplitudes[number, :, middle, : cycles + 1])

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
            "beta": self.beta,
            "semantic": self.semantic,
            "fitted_on": sorted(self.fitted_on),
            "fitted_groups": sorted(self.fitted_groups),
        }
        return _FILES.write(path, header, {"amplitudes": self.amplitudes, "reach": self.reach})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FourierTranslator:
        """Read what :meth:`save` wrote.

        Raises
        ------
        ModelError
            If the file is missing or is not such a translator; names the file and what to do.
        """
        file = Path(path).expanduser()
        header, arrays = _FILES.read(file)
        beta = header.get("beta")
        if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 <= beta <= 0.5:
            raise _FILES.unusable(file, f"beta in its header is {beta!r}, need a share from 0 to 0.5")
        _check_arrays(file, arrays)
        return cls(
            header["source"],
            header["target"],
            float(beta),
            arrays["amplitudes"],
            arrays["reach"],
            frozenset(header["fitted_on"]),
            frozenset(header["fitted_groups"]),
            header["semantic"],
        )

    def __repr__(self) -> str:
        return (
            f"<FourierTranslator {self.source} to {self.target}, beta {self.beta}, {len(self.reach)} looks>"
        )


def _highest(image: Image.Image) -> int:
    """Return the highest frequency (cycles per side) with a phase of its own along both axes."""
    return min((min(image.size) - 1) // 2, MOST_CYCLES)


def _spectrum(image: Image.Image) -> NDArray[np.complex128]:
    """Return ``(height, width // 2 + 1, 3)``: Fourier coefficients divided by the number of pixels."""
    pixels = np.asarray(image, dtype=np.float64)
    spectrum: NDArray[np.complex128] = np.fft.rfft2(pixels, axes=(0, 1), norm="forward")
    return spectrum


def _low_amplitudes(image: Image.Image) -> NDArray[np.float32]:
    """Return one entry of ``amplitudes``; zeros beyond the image's highest frequency."""
    found = np.zeros((3, 2 * MOST_CYCLES + 1, MOST_CYCLES + 1), dtype=np.float32)
    cycles = _highest(image)
    rows = np.arange(-cycles, cycles + 1)
    low = np.abs(_spectrum(image)[rows, : cycles + 1])
    found[:, rows + MOST_CYCLES, : cycles + 1] = np.moveaxis(low, 2, 0)
    return found


def _with_amplitudes(image: Image.Image, wanted: NDArray[np.float32]) -> Image.Image:
    """Return the image with these amplitudes, ``(3, 2 * cycles + 1, cycles + 1)``, and its own phases."""
    from PIL import Image

    cycles = wanted.shape[2] - 1
    rows = np.arange(-cycles, cycles + 1)
    spectrum = _spectrum(image)
    low = spectrum[rows, : cycles + 1]
    own = np.abs(low)
    new = np.moveaxis(wanted.astype(np.float64), 0, 2)
    low = np.where(own > _NOTHING, low * (new / np.maximum(own, _NOTHING)), low)
    low[cycles, 0] = new[cycles, 0]  # the mean colour, whose phase is always 0
    spectrum[rows, : cycles + 1] = low
    pixels = np.fft.irfft2(spectrum, s=(image.height, image.width), axes=(0, 1), norm="forward")
    return Image.fromarray(np.rint(np.clip(pixels, 0, 255)).astype(np.uint8))


def _check_arrays(file: Path, arrays: dict[str, NDArray[Any]]) -> None:
    if set(arrays) != {"amplitudes", "reach"}:
        raise _FILES.unusable(file, f"it holds {', '.join(sorted(arrays))}; need amplitudes, reach")
    amplitudes, reach = arrays["amplitudes"], arrays["reach"]
    shape = (len(reach), 3, 2 * MOST_CYCLES + 1, MOST_CYCLES + 1) if reach.ndim == 1 and len(reach) else None
    if amplitudes.shape != shape:
        raise _FILES.unusable(
            file,
            f"amplitudes has shape {amplitudes.shape} and reach {reach.shape}; need "
            f"(images, 3, {2 * MOST_CYCLES + 1}, {MOST_CYCLES + 1}) and (images,)",
        )
    if amplitudes.dtype != np.float32 or not ((amplitudes >= 0) & np.isfinite(amplitudes)).all():
        raise _FILES.unusable(file, "amplitudes holds values that are not finite numbers from 0, float32")
    if reach.dtype != np.int64 or not ((reach >= 0) & (reach <= MOST_CYCLES)).all():
        raise _FILES.unusable(file, f"reach holds values that are not whole numbers from 0 to {MOST_CYCLES}")
