"""Rendered road scenes whose every condition is known exactly.

Data without a download, and an oracle for every gate. A scene is fixed by its seeds: what stands where
(layout, buildings, objects and their boxes) is drawn from them alone, so the same scene rendered under
another category keeps its geometry and its annotated objects; only what the category means changes. Pixels
are rendered when a sample is loaded, never before.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import Box, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, DatasetError

if TYPE_CHECKING:
    from PIL import Image

SCENE_SEMANTICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "day_night": ("day", "night"),
        "clear_rain": ("clear", "rain"),
        "summer_winter": ("summer", "winter"),
        "nodamage_damage": ("no damage", "damage"),
        "sharp_blurry": ("sharp", "blurry"),
        "noveg_veg": ("no vegetation", "vegetation"),
        "noflare_flare": ("no flare", "flare"),
        "lowdense_highdense": ("low density", "high density"),
    }
)
"""Semantics that scenes know, with their categories."""

SCENE_INFO = "semcov_scene"
"""Key of a rendered image's ``info`` under which its spec travels (JSON text)."""

SMALLEST, LARGEST = 16, 4096
RENDERER_VERSION = 1
"""Changes whenever the same spec gives other pixels."""

_BLOCK = 20
_REMEMBERED, _REMEMBERED_SIZE = 4096, 64
"""Scenes kept, and their largest size in pixels: 50 MB at most. Every model asks for the pixels anew."""


@dataclass(frozen=True, slots=True)
class SceneSpec:
    """Everything that fixes a rendered image.

    Parameters
    ----------
    seed
        Fixes the place: layout, camera, buildings, plants, colours. 0 to 2⁶³ - 1.
    moment
        Fixes what passes: annotated objects, shades of the weather, noise. 0 to 2⁶³ - 1.
    size
        Width and height in pixels, 16 to 4096.
    day_night, clear_rain, summer_winter, nodamage_damage
        Category per semantic; see :data:`SCENE_SEMANTICS`.
    sharp_blurry, noveg_veg, noflare_flare, lowdense_highdense
        Likewise.

    Raises
    ------
    ArgumentError
        If a seed, the size or a category is not allowed.
    """

    seed: int
    moment: int = 0
    size: int = 64
    day_night: str = "day"
    clear_rain: str = "clear"
    summer_winter: str = "summer"
    nodamage_damage: str = "no damage"
    sharp_blurry: str = "sharp"
    noveg_veg: str = "no vegetation"
    noflare_flare: str = "no flare"
    lowdense_highdense: str = "low density"

    def __post_init__(self) -> None:
        for name in ("seed", "moment"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value < 2**63:
                raise ArgumentError(f"scene {name} {value!r}: need a whole number from 0 to 2**63 - 1")
        if type(self.size) is not int or not SMALLEST <= self.size <= LARGEST:
            raise ArgumentError(f"scene size {self.size!r}: need {SMALLEST} to {LARGEST} pixels")
        for semantic in SCENE_SEMANTICS:
            check_category(semantic, getattr(self, semantic))

    @property
    def categories(self) -> dict[str, str]:
        """Category per semantic."""
        return {semantic: getattr(self, semantic) for semantic in SCENE_SEMANTICS}

    def with_category(self, semantic: str, category: str) -> SceneSpec:
        """Return the same scene under another category of one semantic.

        Raises
        ------
        ArgumentError
            If scenes do not know the semantic or it has no such category.
        """
        check_category(semantic, category)
        changes: dict[str, Any] = {semantic: category}
        return replace(self, **changes)

    def to_json(self) -> str:
        """Return the spec as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SceneSpec:
        """Return the spec that :meth:`to_json` wrote.

        Raises
        ------
        ArgumentError
            If the text is not such a spec.
        """
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"not a scene spec: {text[:80]!r} ({error})") from error

    def content_key(self) -> str:
        """Return a hash of spec and renderer version (hex); nothing is rendered."""
        return hashlib.sha256(f"scene {RENDERER_VERSION} {self.to_json()}".encode()).hexdigest()

    def boxes(self) -> tuple[Box, ...]:
        """Return the annotated objects, the main one first; the same under every category."""
        from pytest_semcov.data.scenes_canvas import OVERSAMPLING
        from pytest_semcov.data.scenes_layout import things_of
        from pytest_semcov.data.scenes_objects import thing_pixels

        found = []
        for thing in things_of(self.seed, self.moment):
            x0, y0, x1, y1 = thing_pixels(thing, self.size)
            found.append(
                Box(
                    thing.label,
                    x0 / OVERSAMPLING,
                    y0 / OVERSAMPLING,
                    (x1 + 1) / OVERSAMPLING,
                    (y1 + 1) / OVERSAMPLING,
                )
            )
        return tuple(found)

    @property
    def layout(self) -> str:
        """Kind of place: road, street, trail or overlook."""
        from pytest_semcov.data.scenes_layout import place_of

        return place_of(self.seed).layout


def check_category(semantic: str, category: object) -> None:
    """Raise ArgumentError unless scenes know this category of this semantic."""
    if semantic not in SCENE_SEMANTICS:
        raise ArgumentError(f"scenes know no semantic {semantic!r}; there are {', '.join(SCENE_SEMANTICS)}")
    if category not in SCENE_SEMANTICS[semantic]:
        known = " and ".join(repr(name) for name in SCENE_SEMANTICS[semantic])
        raise ArgumentError(f"{semantic} has no category {category!r}; scenes have {known}")


def render(spec: SceneSpec) -> Image.Image:
    """Render a scene.

    Parameters
    ----------
    spec
        The scene.

    Returns
    -------
    PIL.Image.Image
        RGB, ``spec.size`` pixels square; ``info["semcov_scene"]`` holds the spec as JSON. The same spec gives
        the same pixels, whatever was rendered before.
    """
    from pytest_semcov.data.scenes_layout import place_of, things_of
    from pytest_semcov.data.scenes_light import photograph, sky_of
    from pytest_semcov.data.scenes_objects import draw_things
    from pytest_semcov.data.scenes_paint import paint

    categories = spec.categories
    place = place_of(spec.seed)
    sky = sky_of(spec.seed, spec.moment, categories)
    # Distant things fade into the sky; at night the light does that, and a bright haze would glow.
    haze = (0.3, 0.31, 0.34) if categories["day_night"] == "night" else sky.rim
    canvas = paint(spec.size, spec.seed, place, categories, haze)
    draw_things(canvas, things_of(spec.seed, spec.moment))
    image = photograph(spec.size, spec.seed, spec.moment, place, canvas, sky, categories)
    image.info[SCENE_INFO] = spec.to_json()
    return image


@functools.lru_cache(maxsize=_REMEMBERED)
def _remembered(spec: SceneSpec) -> Image.Image:
    return render(spec)


@dataclass(frozen=True, slots=True)
class SceneSource:
    """Where a rendered sample's pixels come from: its spec."""

    spec: SceneSpec

    @property
    def path(self) -> Path | None:
        """None: there is no file."""
        return None

    def load(self, sample_id: str, *, minimum_size: int | None = None) -> Image.Image:
        """Render the scene at its own size; small ones are remembered, and each call gives a copy."""
        return _remembered(self.spec).copy() if self.spec.size <= _REMEMBERED_SIZE else render(self.spec)

    def content_key(self) -> str:
        """Return the hash of spec and renderer version (hex)."""
        return self.spec.content_key()


class RenderedScenes(SampleDataset):
    """A data set of rendered scenes.

    Sample ``i`` depends on ``seed`` and ``i`` alone: a longer data set begins with the shorter one. Each
    sample's metadata hold its category for all eight semantics and its ``layout``; its label is the class of
    the main object (car, truck, person or deer); its boxes are exact.

    Parameters
    ----------
    count
        Number of scenes.
    seed
        Seed of the data set.
    size
        Width and height of the images in pixels.
    mix
        Shares of categories per semantic, e.g. ``{"day_night": {"day": 0.9, "night": 0.1}}``; shares sum
        to 1. Every 20 consecutive scenes keep to the shares as closely as whole numbers allow. Semantics
        that are neither mixed nor fixed take their categories equally often.
    scenes_per_group
        So many consecutive samples show the same place (the same group) at different moments.
    id_prefix
        Put before every id: for joining data sets of one seed.
    name
        Shown in reports.
    **fixed
        One category for all scenes, e.g. ``day_night="day"``.

    Raises
    ------
    ArgumentError
        If a semantic or category is unknown, a semantic is both mixed and fixed, or shares do not sum to 1.
    """

    def __init__(
        self,
        count: int,
        *,
        seed: int = 0,
        size: int = 64,
        mix: Mapping[str, Mapping[str, float]] | None = None,
        scenes_per_group: int = 1,
        id_prefix: str = "",
        name: str = "rendered scenes",
        **fixed: str,
    ) -> None:
        if count < 0 or scenes_per_group < 1:
            raise ArgumentError(
                f"count {count}, scenes_per_group {scenes_per_group}: need count ≥ 0 and groups ≥ 1"
            )
        shares = {semantic: dict.fromkeys(both, 0.5) for semantic, both in SCENE_SEMANTICS.items()}
        for semantic, wanted in (mix or {}).items():
            for category, share in wanted.items():
                check_category(semantic, category)
                if not 0 <= share <= 1:
                    raise ArgumentError(f"mix of {semantic}: share of {category!r} is {share}; need 0 to 1")
            if abs(sum(wanted.values()) - 1) > 1e-6:
                raise ArgumentError(f"mix of {semantic}: shares sum to {sum(wanted.values())}, not 1")
            shares[semantic] = dict(wanted)
        for semantic, category in fixed.items():
            check_category(semantic, category)
            if mix and semantic in mix:
                raise ArgumentError(f"{semantic} is both fixed ({category!r}) and mixed; give one of them")
            shares[semantic] = {category: 1.0}
        self.name = name
        self.seed = seed
        self.size = size
        self._count = count
        self._shares = shares
        self._scenes_per_group = scenes_per_group
        self._id_prefix = id_prefix
        self._known = None
        SceneSpec(seed=seed, size=size)

    def __len__(self) -> int:
        return self._count

    def spec(self, index: int) -> SceneSpec:
        """Return the spec of a sample."""
        if not 0 <= index < self._count:
            raise DatasetError(f"index {index} outside {self._count} scenes")
        place = _number(self.seed, 0, index // self._scenes_per_group)
        moment = _number(self.seed, 1, index)
        categories: dict[str, Any] = {}
        for number, (semantic, shares) in enumerate(self._shares.items()):
            level = _levels(self.seed, number, index // _BLOCK)[index % _BLOCK]
            chosen = ""
            for category, share in shares.items():
                chosen = category
                level -= share
                if level < 0:
                    break
            categories[semantic] = chosen
        return SceneSpec(place, moment, self.size, **categories)

    def _read(self) -> Sequence[Sample]:
        from pytest_semcov.data.scenes_layout import OBJECT_CLASSES

        self._classes = OBJECT_CLASSES
        return [self._sample(index) for index in range(self._count)]

    def _sample(self, index: int) -> Sample:
        spec = self.spec(index)
        boxes = spec.boxes()
        return Sample(
            id=f"{self._id_prefix}scene-{self.seed}-{index:06d}",
            source=SceneSource(spec),
            label=boxes[0].label,
            boxes=boxes,
            metadata=MappingProxyType({**spec.categories, "layout": spec.layout}),
            group=f"place-{self.seed}-{index // self._scenes_per_group:06d}",
        )


def _number(*key: int) -> int:
    """Return a number from 0 to 2⁶³ - 1 that looks random and depends on the key alone."""
    digest = hashlib.sha256(" ".join(str(part) for part in key).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@functools.lru_cache(maxsize=4096)
def _levels(seed: int, semantic: int, block: int) -> tuple[float, ...]:
    """Return one number in [0, 1) per scene of a block: evenly spread, in random order.

    A category takes the numbers within its share, so that shares hold in every block.
    """
    import numpy as np

    generator = np.random.Generator(np.random.PCG64((seed, 2, semantic, block)))
    start = generator.random()
    order = generator.permutation(_BLOCK)
    return tuple(((order + start) / _BLOCK).tolist())
