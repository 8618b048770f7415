"""How often every gate cries wolf, how often it misses, and from which size on it decides.

    python benchmarks/calibration.py [--runs 400] [--sizes 50 100 200] [--only sufficiency ...]
        [--cases TEXT ...] [--workers 2] [--data ../shared/data/day_night] [--folder FOLDER]
        [--json FILE] [--markdown FILE]

Each cell of the table is one situation whose right outcome is known (no gap, an ideal translator, a planted
gap, a fake), drawn anew for every run: from rendered scenes embedded by the built-in model (any n), from
embeddings of real photographs where they are present (n = 60), or from simulated labels. A wrong PASS or
FAIL is judged by its one-sided 95 % Clopper-Pearson upper bound. Embeddings of scenes are computed once and
kept in FOLDER. ``--only`` takes gates (coverage, scan, combinations, labels, sufficiency) and ``intervals``:
how often the intervals of the sufficiency gate hold the true share.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import calibration_coverage  # noqa: E402 (threads are set before numpy is loaded)
import calibration_intervals  # noqa: E402
import calibration_sufficiency  # noqa: E402
from calibration_cells import Cell, Tally, measure, table  # noqa: E402
from calibration_pools import photographs, scenes  # noqa: E402

from pytest_semcov.gates.verdict import Outcome  # noqa: E402

PARTS = (*calibration_coverage.GATES, "sufficiency", "intervals")
MOST_WRONG = 0.08
"""Target: upper bound of the share of wrong verdicts of each cell."""
MOST_INCONCLUSIVE = 0.1
_GROUP = 4
_PHOTOGRAPHS = 60


def sufficiency_cells(sizes: Sequence[int], folder: Path, data: Path, images: int) -> list[Cell]:
    """Return the cells of the sufficiency gate: scenes, scenes in groups, photographs."""
    pool = scenes(images, folder)
    found = calibration_sufficiency.cells(pool, sizes)
    found += calibration_sufficiency.cells_without_difference(pool, sizes)
    grouped = scenes(images * 2 // 5, folder, groups=_GROUP)
    found += calibration_sufficiency.grouped_cells(grouped, [n for n in sizes if n >= _GROUP * 15])
    if data.exists():
        found += calibration_sufficiency.cells(photographs(data), [_PHOTOGRAPHS])
    return found


def intervals(options: argparse.Namespace) -> list[calibration_intervals.Coverage]:
    """Measure the intervals on scenes and photographs."""
    found = calibration_intervals.measure_intervals(
        scenes(options.images, options.folder), options.sizes, options.runs, workers=options.workers
    )
    if options.data.exists():
        pool = photographs(options.data)
        found += calibration_intervals.measure_intervals(
            pool, [_PHOTOGRAPHS], options.runs, workers=options.workers
        )
    return found


def decided_from(tallies: Sequence[Tally]) -> str:
    """Return, per gate and kind of case, the smallest n from which nearly all runs are conclusive."""
    lines = ["| gate | case | right | conclusive in 90 % of runs from n |", "|---|---|---|---:|"]
    cases = dict.fromkeys((each.gate, each.case, each.expected) for each in tallies)
    for gate, case, expected in cases:
        if expected is Outcome.INCONCLUSIVE:
            continue
        mine = sorted((each for each in tallies if (each.gate, each.case) == (gate, case)), key=lambda t: t.n)
        undecided = [each.n for each in mine if each.inconclusive_share > MOST_INCONCLUSIVE]
        after = [each.n for each in mine if not undecided or each.n > max(undecided)]
        lines.append(
            f"| {gate} | {case} | {expected.value} | {after[0] if after else f'above {mine[-1].n}'} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the number of cells that miss the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--cases", nargs="+", metavar="TEXT", help="only cases whose name contains one of these"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=2_000, help="rendered day scenes, and night scenes")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/day_night"))
    parser.add_argument("--folder", type=Path, default=Path(".calibration"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args(arguments)
    gates = [gate for gate in options.only if gate in calibration_coverage.GATES]
    cells: list[Cell] = []
    if gates:
        photographs_folder = options.data if options.data.exists() else None
        cells += calibration_coverage.cells(
            options.sizes, gates=gates, folder=options.folder, photographs=photographs_folder
        )
    if "sufficiency" in options.only:
        cells += sufficiency_cells(options.sizes, options.folder, options.data, options.images)
    if options.cases:
        cells = [cell for cell in cells if any(text in cell.case for text in options.cases)]
    started = time.monotonic()

    def progress(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} runs, {time.monotonic() - started:.0f} s")
        sys.stderr.flush()

    tallies = measure(cells, options.runs, workers=options.workers, seed=options.seed, progress=progress)
    covered = intervals(options) if "intervals" in options.only else []
    sys.stderr.write("\n")
    parts = []
    if tallies:
        parts += [table(tallies), decided_from(tallies)]
    if covered:
        parts.append(calibration_intervals.table(covered))
    missed = [each for each in tallies if each.wrong_upper > MOST_WRONG]
    parts.append(
        f"{len(tallies)} cells of {options.runs} runs; "
        f"{len(missed)} with an upper bound above {MOST_WRONG:.0%}"
        + "".join(f"\n- {each.gate}, {each.case}, n = {each.n}: {each.wrong_upper:.1%}" for each in missed)
    )
    text = "\n\n".join(parts) + "\n"
    sys.stdout.write(text)
    if options.markdown is not None:
        options.markdown.write_text(text, "utf-8")
    if options.json is not None:
        rows = {
            "runs": options.runs,
            "seed": options.seed,
            "cells": [each.to_dict() for each in tallies],
            "intervals": [each.to_dict() for each in covered],
        }
        options.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return len(missed)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
