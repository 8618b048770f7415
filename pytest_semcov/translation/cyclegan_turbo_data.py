"""What CycleGAN-Turbo is trained on: pairs that step and seed draw, and the published folder layout."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.data.folder import ImageFolder
from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.errors import ArgumentError, DatasetError

if TYPE_CHECKING:
    import torch

_PREPARATION = re.compile(
    r"resize_(?P<resize>[1-9]\d{0,4}(?:x[1-9]\d{0,4})?)(?:_randomcrop_(?P<crop>[1-9]\d{0,4}x[1-9]\d{0,4}))?(?P<flip>_hflip)?"
)
_FORMS = "'resize_286_randomcrop_256x256_hflip' or 'resize_256x256' (other sizes, width x height, likewise)"


@dataclass(frozen=True, slots=True)
class TrainingFolder:
    """A folder in the published layout.

    Parameters
    ----------
    train_a, train_b
        Images to train on, of domains a and b.
    test_a, test_b
        Images to validate with; ``None`` where there is no such folder.
    caption_a, caption_b
        Captions of the domains.
    """

    train_a: Dataset
    train_b: Dataset
    test_a: Dataset | None
    test_b: Dataset | None
    caption_a: str
    caption_b: str


def read_training_folder(path: str | os.PathLike[str]) -> TrainingFolder:
    """Read a folder with ``train_A``, ``train_B``, ``fixed_prompt_a.txt``, ``fixed_prompt_b.txt``.

    ``test_A`` and ``test_B`` are read if they are there.

    Raises
    ------
    DatasetError
        If a folder or caption is missing or empty; names it.
    """
    root = Path(path).expanduser()
    folders = {name: root / name for name in ("train_A", "train_B", "test_A", "test_B")}
    captions = {name: root / f"fixed_prompt_{name}.txt" for name in ("a", "b")}
    needed = [folders["train_A"], folders["train_B"], *captions.values()]
    lacking = [each.name for each in needed if not each.exists()]
    if lacking:
        raise DatasetError(
            f"{root}: no {', '.join(lacking)}; a folder to train CycleGAN-Turbo on has train_A, train_B, "
            "fixed_prompt_a.txt and fixed_prompt_b.txt"
        )
    texts = {}
    for name, file in captions.items():
        try:
            texts[name] = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise DatasetError(f"{file}: cannot be read as text: {error}") from error
        if not texts[name]:
            raise DatasetError(f"{file} is empty; write the caption of the domain into it")
    images = {
        name: ImageFolder(folder, labels=None, name=name) if folder.is_dir() else None
        for name, folder in folders.items()
    }
    train_a, train_b = images["train_A"], images["train_B"]
    if train_a is None or train_b is None:
        raise DatasetError(f"{root}: train_A and train_B must be folders")
    return TrainingFolder(train_a, train_b, images["test_A"], images["test_B"], texts["a"], texts["b"])


@dataclass(frozen=True, slots=True)
class Preparation:
    """How images are brought to one size in training.

    Parameters
    ----------
    resize
        Width and height that a whole image is resized to, by Lanczos.
    crop
        Width and height of what is cut out of it, at a random place.
    flip
        Whether half of the images are mirrored.
    """

    resize: tuple[int, int]
    crop: tuple[int, int]
    flip: bool

    @classmethod
    def parse(cls, text: str, *, multiple: int) -> Preparation:
        """Read a name as published, e.g. ``resize_286_randomcrop_256x256_hflip``.

        Raises
        ------
        ArgumentError
            If it is none, or its sizes do not fit.
        """
        found = _PREPARATION.fullmatch(text)
        if found is None:
            raise ArgumentError(f"preparation {text!r}: use {_FORMS}")
        resize = _sides(found["resize"])
        crop = resize if found["crop"] is None else _sides(found["crop"])
        if crop[0] > resize[0] or crop[1] > resize[1]:
            raise ArgumentError(f"preparation {text!r}: the crop is larger than the image")
        if crop[0] % multiple or crop[1] % multiple:
            raise ArgumentError(f"preparation {text!r}: width and height must be multiples of {multiple}")
        return cls(resize, crop, found["flip"] is not None)

    def apply(self, sample: Sample, random: np.random.Generator) -> torch.Tensor:
        """Return ``(3, height, width)`` float32 in [-1, 1].

        Raises
        ------
        ImageError
            If the image cannot be decoded.
        """
        import torch
        from PIL import Image

        image = sample.load().resize(self.resize, Image.Resampling.LANCZOS)
        left = int(random.integers(self.resize[0] - self.crop[0] + 1))
        top = int(random.integers(self.resize[1] - self.crop[1] + 1))
        pixels = np.asarray(image)[top : top + self.crop[1], left : left + self.crop[0]]
        if self.flip and random.random() < 0.5:
            pixels = pixels[:, ::-1]
        return torch.from_numpy(pixels.astype(np.float32)).permute(2, 0, 1) / 127.5 - 1


def _sides(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    return int(width), int(height or width)


def draw_pairs(
    domain_a: Sequence[Sample],
    domain_b: Sequence[Sample],
    preparation: Preparation,
    *,
    batch: int,
    seed: int,
    step: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Generator]:
    """Return the images of one training step, and the random numbers for the rest of it.

    All of it is a function of seed and step: a training that is resumed sees what an unbroken one does.

    Parameters
    ----------
    domain_a, domain_b
        Images of the two domains, from which ``batch`` each are drawn independently.
    preparation
        How they are brought to one size.
    batch
        How many.
    seed, step
        Root of the random numbers, and which step it is.
    """
    import torch

    random = np.random.Generator(np.random.PCG64([seed, step]))
    chosen = []
    for domain in (domain_a, domain_b):
        numbers = random.integers(len(domain), size=batch)
        chosen.append(torch.stack([preparation.apply(domain[number], random) for number in numbers]))
    augmenting = torch.Generator().manual_seed(int(random.integers(2**62)))
    return chosen[0], chosen[1], augmenting
