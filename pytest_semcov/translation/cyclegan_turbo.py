"""CycleGAN-Turbo as a translator: published checkpoints and own ones, on a base like SD-Turbo."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.embedding.fingerprint import hash_description, hash_tensors
from pytest_semcov.embedding.running import inference, resolve_device
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.cyclegan_turbo_files import (
    Notes,
    fill,
    read_checkpoint,
    write_checkpoint,
)
from pytest_semcov.translation.cyclegan_turbo_network import (
    DIRECTIONS,
    AdapterLayout,
    CycleGanTurboNetwork,
    build_network,
    generate,
)
from pytest_semcov.translation.diffusion_base import Caption, encode_caption, load_base, need_libraries
from pytest_semcov.translation.protocol import Failed, check_seeds
from pytest_semcov.translation.translating import unusable

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from PIL import Image

VERSION = 1
"""Changes whenever the same weights and image give other pixels."""

PREPARATIONS = ("pad", "resize_WIDTHxHEIGHT")

_DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, eq=False)
class CycleGanTurboTranslator:
    """Translates with CycleGAN-Turbo (Parmar et al., 2024).

    Made by :meth:`load` or by :func:`pytest_semcov.translation.cyclegan_turbo_training.train_cyclegan_turbo`.

    The output depends on the image alone: seeds are not used, since the latent is the posterior's mean.

    Parameters
    ----------
    network, layout
        The network, and where its adapters are.
    caption
        Caption of the target domain.
    source, target
        Categories.
    notes
        What :meth:`save` writes besides the weights.
    prep
        How images are brought to a size that the network takes; see :meth:`load`.
    device
        Where it runs.
    """

    network: CycleGanTurboNetwork
    layout: AdapterLayout
    caption: Caption
    source: str
    target: str
    notes: Notes
    prep: str
    device: torch.device

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        base: str | os.PathLike[str],
        direction: str | None = None,
        prompt: str | None = None,
        source: str | None = None,
        target: str | None = None,
        prep: str | None = None,
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
    ) -> CycleGanTurboTranslator:
        """Load a checkpoint onto its base model.

        Parameters
        ----------
        path
            A torch file in the published layout, or a safetensors file that :meth:`save` wrote. No code in it
            is run.
        base
            The model that the checkpoint was trained on: a folder in diffusers' layout, or a hub repository,
            for the published ones ``stabilityai/sd-turbo`` (it has a licence of its own). The hub's cache is
            looked in first.
        direction
            ``"a2b"`` or ``"b2a"``.
        prompt
            Caption of the target domain, as in training.
        source, target
            Names of the categories that this direction leads from and to.
        prep
            ``"pad"`` (default): images keep their pixels; right and bottom are padded by reflection to a
            multiple of 8, and the padding is cut off afterwards, so that boxes still match. Memory grows with
            the image. ``"resize_512x512"`` (or another size), as published: resized by Lanczos to this width
            and height, and back afterwards.
        revision
            Branch, tag or commit of the hub repository; default ``main``.
        device
            ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
        dtype
            Precision of the UNet: ``"auto"`` (float16 on CUDA, else float32), ``"float32"``, ``"float16"`` or
            ``"bfloat16"``. The autoencoder always works in float32.

        Direction, prompt, categories and preparation may be left out if the file says them: one that
        :meth:`save` wrote does, and the published files are known by their names (``day2night.pkl``,
        ``night2day.pkl``, ``clear2rainy.pkl``, ``rainy2clear.pkl``).

        Raises
        ------
        ArgumentError
            If an argument is not allowed, or one is needed; names it.
        MissingDependencyError
            If diffusers, peft or transformers is not installed.
        ModelError
            If the checkpoint or the base cannot be had, or they do not fit; names the file and the tensor.
        """
        import torch

        need_libraries("a CycleGAN-Turbo translator")
        file = Path(path)
        spec = f"cyclegan-turbo:{os.fspath(base)}@{file}"
        place = resolve_device(device)
        precision = _precision(dtype, place)
        checkpoint = read_checkpoint(file, spec=spec)
        notes = _completed(
            checkpoint.notes,
            spec,
            direction=direction,
            prompt=prompt,
            source=source,
            target=target,
            prep=prep,
            base=os.fspath(base),
        )
        _check_size(notes.prep, 1, spec)
        model = load_base(os.fspath(base), spec=spec, revision=revision)
        network = build_network(model, checkpoint.layout, spec=spec)
        _check_size(notes.prep, network.multiple, spec)
        fill(network, checkpoint, spec=spec)
        caption = encode_caption(model, notes.captions[str(notes.direction)], spec=spec)
        # Past diffusers' own method, which advises on modules that this UNet does not have.
        torch.nn.Module.to(network.modules["unet"], getattr(torch, precision))
        network.modules.to(place)
        first, second = notes.categories or ("", "")
        source, target = (first, second) if notes.direction == "a2b" else (second, first)
        return cls(network, checkpoint.layout, caption, source, target, notes, str(notes.prep), place)

    @property
    def name(self) -> str:
        """``cyclegan-turbo``."""
        return "cyclegan-turbo"

    @property
    def direction(self) -> str:
        """``a2b`` or ``b2a``."""
        return str(self.notes.direction)

    @property
    def prompt(self) -> str:
        """Caption of the target domain."""
        return self.caption.text

    @property
    def fitted_on(self) -> frozenset[str]:
        """Content keys of the images that it was trained on, as far as the file says: none may judge it."""
        return self.notes.fitted_on

    @property
    def fitted_groups(self) -> frozenset[str]:
        """Groups of the target images that it was trained on: their other images are too close to judge."""
        return self.notes.fitted_groups.get(self.direction, frozenset())

    @property
    def semantic(self) -> str | None:
        """What is changed, e.g. ``"day_night"``, if the file says it."""
        return self.notes.semantic

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over all that an output depends on: weights, base, caption, preparation."""
        parts = ("unet", f"vae_{self.direction}")
        return hash_description(
            {
                "version": VERSION,
                "weights": {name: hash_tensors(self.network.modules[name].state_dict()) for name in parts},
                "scales": [self.layout.vae_alpha, self.layout.vae_rank],
                "schedule": [
                    self.network.alpha,
                    self.network.prediction,
                    self.network.clip,
                    self.network.timestep,
                ],
                "caption": self.caption.fingerprint,
                "categories": [self.source, self.target],
                "prep": self.prep,
            }
        )

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Translate RGB images; same sizes out as in.

        Parameters
        ----------
        images
            RGB images; any other mode is a :class:`Failed`, and so is an output that is blank or not finite.
            They are run one by one, so that an output does not depend on the others, not even in rounding.
        seeds
            One per image, 0 or more; not used.
        """
        check_seeds(images, seeds)
        with inference(self.network.modules, self.device):
            return [self._one(image) for image in images]

    def _one(self, image: Image.Image) -> Image.Image | Failed:
        import torch

        if image.mode != "RGB":
            return Failed(f"mode {image.mode}, need RGB")
        pixels = _prepared(image, self.prep, self.network.multiple)
        tensor = torch.from_numpy(pixels).to(self.device).permute(2, 0, 1)[None].float() / 127.5 - 1
        made = generate(self.network, tensor, self.caption.embedding.to(self.device), self.direction)
        if not torch.isfinite(made).all():
            return Failed("the output holds values that are not finite numbers; try dtype='float32'")
        levels = ((made[0].permute(1, 2, 0) + 1) * 127.5).round().to(torch.uint8).cpu().numpy()
        result = _restored(levels, image.size, self.prep)
        problem = unusable(result, image)
        return Failed(problem) if problem else result

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all but the base to one safetensors file, whole or not at all.

        It holds both directions' weights, the UNet's first convolution, and, as JSON in its header, adapters,
        captions, categories, preparation and library versions. Weights keep the precision in which they are
        loaded: to lose none, load with ``dtype="float32"``.

        Parameters
        ----------
        path
            The file, ending in ``.safetensors``; its folder is made if need be.

        Raises
        ------
        ArgumentError
            If the file's name ends otherwise.
        """
        if Path(path).suffix != ".safetensors":
            raise ArgumentError(f"{os.fspath(path)}: the file's name must end in .safetensors")
        return write_checkpoint(path, self.network, self.layout, self.notes)

    def __repr__(self) -> str:
        return f"<CycleGanTurboTranslator {self.source} to {self.target} ({self.direction}, {self.prompt!r})>"


def _precision(dtype: str, place: torch.device) -> str:
    if dtype == "auto":
        return "float16" if place.type == "cuda" else "float32"
    if dtype not in _DTYPES:
        raise ArgumentError(f"dtype {dtype!r}: use 'auto', {', '.join(map(repr, _DTYPES))}")
    return dtype


def _completed(
    known: Notes,
    spec: str,
    *,
    direction: str | None,
    prompt: str | None,
    source: str | None,
    target: str | None,
    prep: str | None,
    base: str,
) -> Notes:
    """Return a checkpoint's notes with what was given put in, all of them there."""
    way = direction or known.direction
    if way not in DIRECTIONS:
        given = "the file does not say the direction" if way is None else f"direction {way!r}"
        raise ArgumentError(f"{spec}: {given}; give direction='a2b' or 'b2a'")
    captions = {**known.captions, **({} if prompt is None else {way: prompt})}
    if way not in captions:
        raise ArgumentError(
            f"{spec}: the file does not say the caption of {way}; give prompt=, as in training "
            "(another one gives other images)"
        )
    first, second = known.categories or (None, None)
    ends = (first, second) if way == "a2b" else (second, first)
    source, target = source or ends[0], target or ends[1]
    if source is None or target is None:
        raise ArgumentError(
            f"{spec}: the file does not say what {way} leads from and to; give source= and target="
        )
    if source == target:
        raise ArgumentError(f"{spec}: source and target are both {source!r}")
    categories = (source, target) if way == "a2b" else (target, source)
    return replace(
        known,
        direction=way,
        captions=captions,
        categories=categories,
        prep=prep or known.prep or "pad",
        base=base,
    )


def _size(prep: str) -> tuple[int, int] | None:
    """Return width and height of a preparation by resizing; ``None`` for padding."""
    found = re.fullmatch(r"resize_([1-9]\d{0,4})x([1-9]\d{0,4})", prep)
    return None if found is None else (int(found[1]), int(found[2]))


def _check_size(prep: str | None, multiple: int, spec: str) -> None:
    size = _size(str(prep))
    if prep != "pad" and (size is None or any(side % multiple for side in size)):
        raise ArgumentError(
            f"{spec}: prep {prep!r}; use {' or '.join(map(repr, PREPARATIONS))} with multiples of {multiple}"
        )


def _prepared(image: Image.Image, prep: str, multiple: int) -> NDArray[np.uint8]:
    """Return ``(height, width, 3)`` pixels of a size that the network takes."""
    from PIL import Image

    size = _size(prep)
    if size is not None:
        return np.array(image.resize(size, Image.Resampling.LANCZOS))
    padding = ((0, -image.height % multiple), (0, -image.width % multiple), (0, 0))
    return np.pad(np.array(image), padding, mode="reflect")


def _restored(pixels: NDArray[np.uint8], size: tuple[int, int], prep: str) -> Image.Image:
    """Undo :func:`_prepared`."""
    from PIL import Image

    if _size(prep) is not None:
        return Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
    width, height = size
    return Image.fromarray(np.ascontiguousarray(pixels[:height, :width]))
