"""The ideal translator of rendered scenes: the same scene, rendered again under another category."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_semcov.data.scenes import (
    RENDERER_VERSION,
    SCENE_INFO,
    SceneSpec,
    check_category,
    render,
)
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.protocol import Failed

if TYPE_CHECKING:
    from PIL import Image


class SceneTranslator:
    """Renders a scene again under another category of one semantic: place, objects and boxes stay exactly.

    It works on images of :class:`~pytest_semcov.data.scenes.RenderedScenes` only, which carry their own
    description; an oracle for gates, not a translator for photographs. The seed of an image is not used:
    the same scene has one rendering per category.

    Parameters
    ----------
    semantic
        A semantic that scenes know, e.g. ``"day_night"``.
    source, target
        Two of its categories, e.g. ``"day"`` and ``"night"``.

    Raises
    ------
    ArgumentError
        If scenes do not know the semantic or a category, or source and target are the same.
    """

    def __init__(self, semantic: str, *, source: str, target: str) -> None:
        check_category(semantic, source)
        check_category(semantic, target)
        if source == target:
            raise ArgumentError(f"SceneTranslator: source and target are both {source!r}")
        self.semantic = semantic
        self.source = source
        self.target = target

    @property
    def name(self) -> str:
        """``scene:SEMANTIC:SOURCE>TARGET``."""
        return f"scene:{self.semantic}:{self.source}>{self.target}"

    @property
    def fingerprint(self) -> str:
        """Hash of the name and the renderer's version (hex)."""
        return hashlib.sha256(f"{self.name} renderer {RENDERER_VERSION}".encode()).hexdigest()

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Render each image's scene under the target category.

        An image that is no rendered scene, or whose scene is not of the source category, is :class:`Failed`.
        """
        return [self._translate(image) for image, _ in zip(images, seeds, strict=True)]

    def _translate(self, image: Image.Image) -> Image.Image | Failed:
        description = image.info.get(SCENE_INFO)
        if description is None:
            return Failed("not a rendered scene: the image does not say how it was rendered")
        spec = SceneSpec.from_json(description)
        found = spec.categories[self.semantic]
        if found != self.source:
            return Failed(f"the scene shows {found}, not {self.source}")
        return render(spec.with_category(self.semantic, self.target))
