"""CPU time and peak memory of the metrics, against the libraries people would use instead.

    python benchmarks/metrics.py [--only ks frechet-200 ...] [--large] [--quick] [--repeats N] [--json FILE]

One table. Times are process CPU seconds on one thread, medians over calls that take turns with the peer's in
one process. Peaks are what the resident memory rose by during a call in a fresh process, the data being there
already. A ratio is the peer's time over ours. Before anything is timed, ours and the peer's values are
compared at the full size; the exit status is 1 if any lie further apart than their tolerance, else 0.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _measuring import (
    in_fresh_process,
    limit_memory,
    median_seconds,
    peak_memory,
    report,
    require_one_thread,
)
from _metrics_rows import ROWS, Row

NOTES = """\
bare product: the float32 product of all rows with all rows alone, by the faster of numpy and torch
*   time for 100 permutations, from 1 and 11: each adds the same
**  also returns isotropy and nearest pairs
PRDC's peer is kept to one job"""
# A call may take this many times the memory it is to stay under before it is stopped.
_MEMORY_ALLOWANCE = 4


@dataclass(frozen=True)
class Column:
    """Heading and width; numbers are set to the right."""

    heading: str
    width: int
    right: bool = True

    def cell(self, text: str) -> str:
        """Return the text at the column's width."""
        return text.rjust(self.width) if self.right else text.ljust(self.width)


COLUMNS = (
    Column("metric", 21, right=False),
    Column("size", 32, right=False),
    Column("ours, s", 8),
    Column("peer", 12, right=False),
    Column("peer, s", 8),
    Column("ratio", 6),
    Column("target", 14, right=False),
    Column("met", 3, right=False),
    Column("ours, MB", 8),
    Column("peer, MB", 8),
    Column("difference", 10),
)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help=f"rows whose names start so: {' '.join(row.key for row in ROWS)}",
    )
    parser.add_argument("--large", action="store_true", help="the rows that take minutes, too")
    parser.add_argument("--quick", action="store_true", help="small sizes, which no target speaks of")
    parser.add_argument("--repeats", type=int, help="times each call is timed (by default fewer when large)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        result = work(**json.loads(options.worker))
        require_one_thread()
        report(result)
        return 0
    chosen = [row for row in ROWS if _is_chosen(row, options)]
    if not chosen:
        parser.error("--only names no row")
    _print_line(machine())
    _print_row([column.heading for column in COLUMNS])
    _print_row(
        [("-" * (column.width - 1) + ":") if column.right else "-" * column.width for column in COLUMNS]
    )
    figures = []
    for row in chosen:
        found = measure(row, quick=options.quick, repeats=options.repeats)
        figures.append(found)
        _print_row(cells(found))
    _print_line(NOTES)
    if options.json:
        record = {"machine": machine(), "rows": figures}
        options.json.write_text(json.dumps(record, indent=2, ensure_ascii=False), encoding="utf-8")
    return int(any(found.get("disagree") for found in figures))


def _is_chosen(row: Row, options: argparse.Namespace) -> bool:
    if options.only:
        return row.key.startswith(tuple(options.only))
    return options.large or options.quick or not row.large


def measure(row: Row, *, quick: bool, repeats: int | None) -> dict[str, Any]:
    """Measure one row in fresh processes; what went wrong is under ``error``."""
    found: dict[str, Any] = {
        "name": row.key,
        "metric": row.title,
        "size": row.size(quick=quick),
        "peer": row.peer,
        "target": " ".join(str(target) for target in row.targets),
    }
    tasks = ["ours"] if row.repeats == 1 else ["times", "ours", *(["peer"] if row.peer else [])]
    for task in tasks:
        request = {"key": row.key, "task": task, "quick": quick, "repeats": repeats or row.repeats}
        result = in_fresh_process(Path(__file__), request)
        found.update({key: value for key, value in result.items() if key not in found})
        if "error" in result or result.get("disagree"):
            break
    if "seconds" in found and "peer_seconds" in found:
        found["ratio"] = found["peer_seconds"] / found["seconds"]
    if not quick and row.targets:
        found["met"] = {"seconds", "peak"} <= found.keys() and all(
            target.met(found["seconds"], found.get("peer_seconds"), found["peak"]) for target in row.targets
        )
    return found


def work(key: str, task: str, *, quick: bool, repeats: int) -> dict[str, Any]:
    """Do one task of a row in this process: ``times``, or the memory of ``ours`` or of the ``peer``."""
    (row,) = (row for row in ROWS if row.key == key)
    sizes = row.quick if quick else row.sizes
    if task == "times":
        return times(row, sizes, repeats)
    # Modules that are loaded at first use are no part of what a call needs.
    for call in _calls(row, row.quick, task):
        call()
    (call,) = _calls(row, sizes, task)
    bounds = [target.bound for target in row.targets if target.quantity == "bytes"]
    if bounds:
        limit_memory(int(_MEMORY_ALLOWANCE * min(bounds)))
    peak, seconds = peak_memory(call)
    return {"peer_peak": peak} if task == "peer" else {"peak": peak, "seconds": seconds}


def _calls(row: Row, sizes: tuple[int, ...], task: str) -> list[Any]:
    case = row.build(*sizes)
    return [case.ours] if task == "ours" else list(case.peers.values())[:1]


def times(row: Row, sizes: tuple[int, ...], repeats: int) -> dict[str, Any]:
    """Compare ours with the peer's values, then time both."""
    case = row.build(*sizes)
    result: dict[str, Any] = {}
    ours = case.ours()
    theirs = [call() for call in case.peers.values()]  # all are called once before they are timed
    if theirs and case.difference is not None:
        result["difference"] = case.difference(ours, theirs[0])
        result["tolerance"] = case.tolerance
        if not result["difference"] <= case.tolerance:
            return {**result, "disagree": True}
    seconds = median_seconds({"ours": case.ours, **case.peers}, repeats)
    result["seconds"] = seconds.pop("ours")
    if seconds:
        result["peer_seconds"] = case.peer_seconds(seconds)
    return result


def cells(found: dict[str, Any]) -> list[str]:
    """Return one row's texts."""

    def number(key: str, form: str, scale: float = 1.0) -> str:
        return format(found[key] / scale, form) if key in found else ""

    difference = number("difference", ".1e")
    if found.get("disagree"):
        difference = f"{difference} > {found['tolerance']:g}: VALUES DISAGREE"
    return [
        found["metric"],
        found["size"],
        number("seconds", ".3f"),
        found["peer"],
        number("peer_seconds", ".3f"),
        number("ratio", ".2f"),
        found["target"],
        {True: "yes", False: "NO", None: ""}[found.get("met")],
        number("peak", ".0f", 1e6),
        number("peer_peak", ".0f", 1e6),
        found.get("error", difference),
    ]


def machine() -> str:
    """Return versions and processor in one line."""
    names = ("numpy", "scipy", "scikit-learn", "torch", "dataeval")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return f"{_processor()}, one thread; Python {platform.python_version()}, {versions}"


def _processor() -> str:
    description = Path("/proc/cpuinfo")
    if description.exists():
        for line in description.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _print_row(texts: list[str]) -> None:
    _print_line("| " + " | ".join(map(Column.cell, COLUMNS, texts)) + " |")


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
