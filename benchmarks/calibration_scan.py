"""Calibration of the scan, which looks for categories that are under-represented *and* important.

Images are rendered scenes under the built-in embedder, and real photographs where their embeddings are at
hand; labels are the truth. A gap is real night, with few images. No gap is a category of few images drawn at
random (single images, or whole videos): there are few, but to the embedder they are like all others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from calibration_cells import Cell
from numpy.typing import NDArray

from pytest_semcov.embedding.cache import default_cache_dir
from pytest_semcov.gates.coverage import CoverageBars
from pytest_semcov.gates.scan import scan_verdict
from pytest_semcov.gates.verdict import Outcome, Verdict
from pytest_semcov.semantics.evidence import gather_evidence
from pytest_semcov.semantics.importance import importance, permutations_for
from pytest_semcov.semantics.labels import Labels

Rows = NDArray[np.float32]

_VERSION = 2
_SEED = 5_000_000
_FRAMES_A_VIDEO = 5


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPool:
    """Embeddings to draw data sets from, with the truth.

    Parameters
    ----------
    rows
        ``(n, d)``, of length one.
    night
        ``(n,)`` True for images of night.
    """

    rows: Rows
    night: NDArray[np.bool_]


def bars_for(n: int) -> CoverageBars:
    """Return the default bars; where 30 images are more than 30 % of all, 30 % of all."""
    return CoverageBars(min_count=min(30, 3 * n // 10))


def few_of(n: int) -> int:
    """Return the number of images of the under-represented category: 20 %, at most 25, at least 10."""
    return min(25, max(10, n // 5))


def scan_cells(
    sizes: Sequence[int], *, folder: Path | None = None, scenes: int = 3_000, photographs: Path | None = None
) -> list[Cell]:
    """Return the cells of ``assert_no_uncovered_semantics``.

    Parameters
    ----------
    sizes
        Numbers of images, each at least 50.
    folder
        Where embeddings of scenes are kept; default: the package's cache directory.
    scenes
        Scenes rendered for each of three kinds of data set.
    photographs
        Folder with ``embeddings_efficientnet_lite0.npz``: 240 photographs by day and by night.
    """
    folder = folder or default_cache_dir() / "calibration"
    mixed, plain, videos = (scene_pool(kind, scenes, folder) for kind in ("mixed", "plain", "videos"))
    found = []
    for n in sizes:
        few = few_of(n)
        runs = [
            ("scenes, few random images", Outcome.PASS, _run(mixed, few, n, random=True)),
            ("scenes, few random videos", Outcome.PASS, _run_videos(videos, few, n)),
            ("scenes, few of night, places vary", Outcome.FAIL, _run(plain, few, n)),
            ("scenes, few of night, all semantics vary", Outcome.FAIL, _run(mixed, few, n)),
        ]
        if photographs is not None:
            pool = photograph_pool(photographs)
            if n - few <= int((~pool.night).sum()):
                runs += [
                    ("photographs, few random images", Outcome.PASS, _run(pool, few, n, random=True)),
                    ("photographs, few of night", Outcome.FAIL, _run(pool, few, n)),
                ]
        found += [Cell("scan", name, expected, n, run) for name, expected, run in runs]
    return found


def scene_pool(kind: str, count: int, folder: Path) -> LabelledPool:
    """Return embeddings of rendered scenes by the built-in embedder, computed once and kept in ``folder``.

    Parameters
    ----------
    kind
        ``"mixed"``: all eight semantics vary; ``"plain"``: day and night and the places vary; ``"videos"``:
        by day, consecutive images show the same place.
    count
        Number of scenes.
    folder
        Where they are kept.
    """
    path = folder / f"scan-{kind}-{_VERSION}-{count}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.part.npz")
        rows, night = _embed(kind, count)
        np.savez(draft, rows=rows, night=night)
        draft.replace(path)
    with np.load(path) as stored:
        return LabelledPool(stored["rows"], stored["night"])


def photograph_pool(folder: Path) -> LabelledPool:
    """Return embeddings of real photographs by EfficientNet-Lite0, scaled to length one."""
    with np.load(folder / "embeddings_efficientnet_lite0.npz") as stored:
        rows = stored["embeddings"] / np.linalg.norm(stored["embeddings"], axis=1, keepdims=True)
        return LabelledPool(rows.astype(np.float32), stored["time_of_day"] == "night")


def _embed(kind: str, count: int) -> tuple[Rows, NDArray[np.bool_]]:
    from pytest_semcov import RenderedScenes, Settings, Workbench
    from pytest_semcov.data.scenes import SCENE_SEMANTICS

    varying = {"mixed": set(SCENE_SEMANTICS), "plain": {"day_night"}, "videos": set()}[kind]
    fixed: dict[str, Any] = {name: both[0] for name, both in SCENE_SEMANTICS.items() if name not in varying}
    frames = _FRAMES_A_VIDEO if kind == "videos" else 1
    scenes = RenderedScenes(count, seed=_SEED, scenes_per_group=frames, **fixed)
    night = np.array([scenes.spec(index).day_night == "night" for index in range(count)])
    return Workbench(Settings()).embed(scenes).array, night


def _run(pool: LabelledPool, few: int, n: int, *, random: bool = False) -> Callable[[int], Verdict]:
    """Return runs on n images, few of which are night, or drawn at random."""
    codes = (np.arange(n) < few).astype(np.int64)

    def run(seed: int) -> Verdict:
        generator = np.random.default_rng(seed)
        if random:
            rows = generator.choice(len(pool.rows), n, replace=False)
        else:
            parts = ((pool.night, few), (~pool.night, n - few))
            drawn = [generator.choice(np.flatnonzero(part), count, replace=False) for part, count in parts]
            rows = np.concatenate(drawn)
        return _scan(pool.rows[rows], codes, seed=seed)

    return run


def _run_videos(pool: LabelledPool, few: int, n: int) -> Callable[[int], Verdict]:
    """Return runs on n images in videos; few images, in whole videos drawn at random, are the category."""
    frames = np.arange(_FRAMES_A_VIDEO)

    def run(seed: int) -> Verdict:
        generator = np.random.default_rng(seed)
        videos = generator.choice(len(pool.rows) // len(frames), n // len(frames), replace=False)
        rows = (videos[:, None] * len(frames) + frames).ravel()
        codes = (np.arange(len(rows)) < few).astype(np.int64)
        groups = [str(video) for video in np.repeat(videos, len(frames))]
        return _scan(pool.rows[rows], codes, seed=seed, groups=groups)

    return run


def _scan(rows: Rows, codes: NDArray[np.int64], *, seed: int, groups: Sequence[str] | None = None) -> Verdict:
    """Scan a data set for one semantic as ``assert_no_uncovered_semantics`` does."""
    bars = bars_for(len(rows))
    seed %= 2**31  # k-means takes no larger ones
    ids = tuple(str(row) for row in range(len(rows)))
    labels = Labels("day_night", ("day", "night"), codes, None, None, "the truth", ids)
    figures = importance(
        rows,
        codes,
        labels.categories,
        semantic=labels.semantic,
        permutations=permutations_for(2, max_p=bars.max_p),
        seed=seed,
        groups=groups,
    )
    return scan_verdict([gather_evidence(labels, groups=groups, importance=figures)], bars)
