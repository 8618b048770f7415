"""The ideal translator: renders the same scene again, under another category."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_semcov.data.scenes import (
    RENDERER_VERSION,
    SCENE_INFO,
    SceneSpec,
    check_category,
    render,
)
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.protocol import Failed, check_seeds

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, slots=True)
class SceneTranslator:
    """Re-renders images of :class:`~pytest_semcov.RenderedScenes` under another category.

    Place, objects, boxes and noise stay; only what the category means changes. The seed therefore changes
    nothing.

    Parameters
    ----------
    semantic
        One of the semantics that scenes know.
    source, target
        Its categories, e.g. ``"day"``, ``"night"``.

    Raises
    ------
    ArgumentError
        If scenes do not know the semantic or a category, or both categories are the same.
    """

    semantic: str = "day_night"
    source: str = "day"
    target: str = "night"

    def __post_init__(self) -> None:
        check_category(self.semantic, self.source)
        check_category(self.semantic, self.target)
        if self.source == self.target:
            raise ArgumentError(f"source and target are both {self.source!r}: need two categories")

    @property
    def name(self) -> str:
        """Short name for reports and provenance."""
        return "scene"

    @property
    def fingerprint(self) -> str:
        """Hash of the categories and the renderer's version (hex)."""
        parts = ("scene", str(RENDERER_VERSION), self.semantic, self.source, self.target)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Render the scene of each image again.

        An image that is not a rendered scene, or not of the source category, gives :class:`Failed`.
        """
        check_seeds(images, seeds)
        return [self._one(image) for image in images]

    def _one(self, image: Image.Image) -> Image.Image | Failed:
        text = image.info.get(SCENE_INFO)
        if not isinstance(text, str):
            return Failed("not a rendered scene: the image carries no scene description")
        try:
            spec = SceneSpec.from_json(text)
        except ArgumentError as error:
            return Failed(str(error))
        category = spec.categories[self.semantic]
        if category != self.source:
            return Failed(f"the scene shows {category!r} of {self.semantic}, not {self.source!r}")
        return render(spec.with_category(self.semantic, self.target))
