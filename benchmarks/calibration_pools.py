"""Embeddings that calibration draws its sets from: of rendered scenes and of real photographs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pytest_semcov import ImageList, RenderedScenes, SceneTranslator, Settings, Workbench
from pytest_semcov.translation.protocol import Failed

Rows = NDArray[np.float64]
_VERSION = 1
_SEED = 77_000


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Unit-length embeddings of one embedder.

    Parameters
    ----------
    name
        Of the source of the images.
    uncovered
        ``(n, d)`` night images.
    covered
        ``(m, d)`` day images.
    translated
        Per translation, ``(m, d)``: the covered images translated, row by row.
    fakes
        ``(1, d)`` or more rows that a broken generator returns (blank images, noise).
    groups
        So many consecutive rows show one place; groups are drawn whole.
    """

    name: str
    uncovered: Rows
    covered: Rows
    translated: dict[str, Rows]
    fakes: dict[str, Rows]
    groups: int = 1


def unit_rows(rows: Rows) -> Rows:
    """Scale rows to length one."""
    doubles = np.asarray(rows, dtype=np.float64)
    return np.asarray(doubles / np.linalg.norm(doubles, axis=1, keepdims=True))


def scenes(count: int, folder: Path, *, groups: int = 1) -> Pool:
    """Return embeddings of rendered scenes by the built-in embedder, computed once and kept in ``folder``.

    Parameters
    ----------
    count
        Number of day scenes, and of night scenes.
    folder
        Where the embeddings are kept.
    groups
        So many consecutive scenes show one place.
    """
    path = folder / f"scenes-{_VERSION}-{count}-{groups}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.part.npz")
        np.savez(draft, **_embed_scenes(count, groups))
        draft.replace(path)
    with np.load(path) as stored:
        parts = {name: unit_rows(stored[name]) for name in stored.files}
    return Pool(
        "scenes" if groups == 1 else f"scenes, groups of {groups}",
        uncovered=parts.pop("night"),
        covered=parts.pop("day"),
        fakes={name: parts.pop(name) for name in ("black", "noise")},
        translated=parts,
        groups=groups,
    )


def without_difference(pool: Pool) -> Pool:
    """Return a pool whose covered images are uncovered ones: no embedder tells them apart."""
    half = len(pool.uncovered) // 2
    uncovered, covered = pool.uncovered[:half], pool.uncovered[half:]
    return Pool("scenes without a difference", uncovered, covered, {}, pool.fakes, pool.groups)


def _embed_scenes(count: int, groups: int) -> dict[str, NDArray[np.float32]]:
    bench = Workbench(Settings())
    day = RenderedScenes(count, seed=_SEED, day_night="day", clear_rain="clear", scenes_per_group=groups)
    night = RenderedScenes(
        count, seed=_SEED + 1, day_night="night", clear_rain="clear", scenes_per_group=groups
    )
    rows = {"day": bench.embed(day).array, "night": bench.embed(night).array}
    sources = [sample.load() for sample in day]
    for name, semantic, source, target in (
        ("ideal", "day_night", "day", "night"),
        ("rain", "clear_rain", "clear", "rain"),
    ):
        translator = SceneTranslator(semantic, source=source, target=target)
        made = [
            image
            for image in translator.translate(sources, seeds=range(count))
            if not isinstance(image, Failed)
        ]
        assert len(made) == count
        rows[name] = bench.embed(ImageList(made)).array
        if name == "ideal":
            faint = [Image.blend(one, other, 0.25) for one, other in zip(sources, made, strict=True)]
            rows["a quarter night"] = bench.embed(ImageList(faint)).array
    generator = np.random.default_rng(_SEED)
    shape = np.asarray(sources[0]).shape
    rows["black"] = bench.embed(ImageList([np.zeros(shape, dtype=np.uint8)])).array
    noise = generator.integers(0, 256, size=(count, *shape), dtype=np.uint8)
    rows["noise"] = bench.embed(ImageList(list(noise))).array
    return rows


def photographs(folder: Path) -> Pool:
    """Return the stored embeddings of real day and night photographs and of darkened day photographs."""
    stored = np.load(folder / "embeddings_efficientnet_lite0.npz")
    rows, label = unit_rows(stored["embeddings"]), stored["time_of_day"]
    with np.load(folder / "embeddings_darkened.npz") as darkened:
        translated = {name: unit_rows(darkened[name]) for name in darkened.files}
    return Pool(
        "photographs",
        uncovered=rows[label == "night"],
        covered=rows[label == "day"],
        translated=translated,
        fakes={},
    )
