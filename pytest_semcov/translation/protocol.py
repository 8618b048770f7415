"""What a translator must offer: images of one category in, images of another out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pytest_semcov.errors import ArgumentError

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, slots=True)
class Failed:
    """A translation that gave no usable image (blocked, blank, not applicable), with the reason."""

    reason: str


@runtime_checkable
class Translator(Protocol):
    """Turns images of one category into images of another. Structural.

    A translator that learns also offers ``fit``, ``save`` and ``load``, and ``fitted_on``: the content
    keys of the images that it saw, so that none of them is used to judge it.
    """

    @property
    def name(self) -> str:
        """Short name for reports and provenance."""

    @property
    def source(self) -> str:
        """Category it takes, e.g. ``day``."""

    @property
    def target(self) -> str:
        """Category it makes, e.g. ``night``."""

    @property
    def fingerprint(self) -> str:
        """Hash of parameters or weights (hex)."""

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Translate RGB images; same size out as in.

        Each result depends on its image and its seed alone: not on order or batch.
        """


def check_seeds(images: Sequence[Image.Image], seeds: Sequence[int]) -> None:
    """Raise ArgumentError unless there is one seed, 0 or more, per image."""
    if len(seeds) != len(images):
        raise ArgumentError(f"{len(images)} images and {len(seeds)} seeds: need one seed per image")
    negative = [seed for seed in seeds if seed < 0]
    if negative:
        raise ArgumentError(f"seed {negative[0]}: need 0 or more")
