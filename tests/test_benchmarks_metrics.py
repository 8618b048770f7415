"""The benchmark program of the metrics: it measures what it says, and a disagreement is no result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
PROGRAM = BENCHMARKS / "metrics.py"


@pytest.fixture(scope="module")
def program() -> Any:
    """Modules of the benchmark by name; they find each other as they do when run as a script."""
    names = ("metrics", "_metrics_rows", "_measuring")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield {name: __import__(name) for name in names}
        for name in names:
            patch.delitem(sys.modules, name)


@pytest.fixture
def table(program: dict[str, ModuleType]) -> Any:
    return program["metrics"]


@pytest.fixture
def rows(program: dict[str, ModuleType]) -> Any:
    return program["_metrics_rows"]


@pytest.fixture
def measuring(program: dict[str, ModuleType]) -> Any:
    return program["_measuring"]


def test_a_run(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    arguments = ["--quick", "--only", "frechet-200", "--repeats", "1", "--json", str(figures)]
    done = subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "one thread" in done.stdout.splitlines()[0]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| Fréchet")]
    assert "50 x 64" in line
    assert ">= 20x" in line
    (found,) = json.loads(figures.read_text())["rows"]
    assert found["ratio"] == found["peer_seconds"] / found["seconds"]
    assert found["difference"] <= found["tolerance"]
    assert {"peak", "peer_peak"} <= found.keys()
    assert "met" not in found  # no target speaks of trial sizes


def test_every_row_agrees_with_its_peer(table: Any, rows: Any) -> None:
    assert len({row.key for row in rows.ROWS}) == len(rows.ROWS)
    seen = set()
    for row in rows.ROWS:
        same_calls = (row.build, row.quick)
        if same_calls in seen or not row.peer:
            continue
        seen.add(same_calls)
        found = table.times(row, row.quick, 1)
        assert "disagree" not in found, row.key
        assert found["peer_seconds"] > 0, row.key


def test_values_that_disagree_are_not_timed(
    table: Any, rows: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(size: int, width: int) -> Any:
        return rows.Case(ours=lambda: 1.0, peers={"": lambda: 1.5}, tolerance=0.25)

    row = rows.Row("wrong", "wrong", build, (2, 2), (2, 2), "peer", rows.speed_up(2))
    found = table.times(row, row.sizes, 1)
    assert found == {"difference": 0.5, "tolerance": 0.25, "disagree": True}
    monkeypatch.setattr(table, "ROWS", (row,))
    monkeypatch.setattr(table, "in_fresh_process", lambda script, request: table.times(row, row.sizes, 1))
    monkeypatch.setattr(sys, "argv", ["metrics.py"])
    assert table.main() == 1
    out = capsys.readouterr().out
    assert "VALUES DISAGREE" in out
    assert "NO" in out


def test_nan_disagrees(table: Any, rows: Any) -> None:
    case = rows.Case(ours=lambda: np.nan, peers={"": lambda: 1.0}, tolerance=1.0)
    row = rows.Row("nan", "nan", lambda size, width: case, (2, 2), (2, 2), "peer")
    assert table.times(row, row.sizes, 1)["disagree"]


@pytest.mark.parametrize(
    ("quantity", "bound", "reached", "missed"),
    [
        ("speed-up", 4, (1.0, 4.0, 0), (1.0, 3.9, 0)),
        ("floor", 1.5, (1.5, 1.0, 0), (1.6, 1.0, 0)),
        ("seconds", 3, (3.0, None, 0), (3.1, None, 0)),
        ("bytes", 1e9, (9.0, None, 0.9e9), (9.0, None, 1e9)),
        ("speed-up", 1, (1.0, 1.0, 0), (1.0, None, 0)),
    ],
)
def test_targets(rows: Any, quantity: str, bound: float, reached: Any, missed: Any) -> None:
    target = rows.Target(quantity, bound)
    assert target.met(*reached)
    assert not target.met(*missed)


def test_calls_take_turns(measuring: Any) -> None:
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = measuring.median_seconds(calls, 3)
    assert order == list("ababab")
    assert set(seconds) == {"a", "b"}
    busy = measuring.median_seconds({"sum": lambda: sum(range(2_000_000))}, 1)["sum"]
    assert 0.005 < busy < 5


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
def test_peak_counts_what_is_freed_again(measuring: Any) -> None:
    def call() -> None:
        np.ones(10_000_000)

    def small() -> None:
        np.ones(10)

    for _ in range(2):  # an earlier peak does not count
        peak, _ = measuring.peak_memory(call)
        assert 75e6 < peak < 100e6
        assert measuring.peak_memory(small)[0] < 5e6


WORKER = """
import sys
sys.path.insert(0, {folder!r})
from _measuring import limit_memory, report
import numpy as np
if "ones" in sys.argv[2]:
    limit_memory(100_000_000)
    np.ones(5_000_000)
    np.ones(50_000_000)
import os
report({{"threads": os.environ["OMP_NUM_THREADS"], "request": sys.argv[2]}})
"""


def test_fresh_processes(measuring: Any, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(folder=str(BENCHMARKS)))
    found = measuring.in_fresh_process(script, {"task": "none"})
    assert found == {"threads": "1", "request": '{"task": "none"}'}
    if Path("/proc/self/status").exists():
        assert "Unable to allocate 381. MiB" in measuring.in_fresh_process(script, {"task": "ones"})["error"]


def test_permutations_are_extrapolated(rows: Any) -> None:
    case = rows.mmd(20, 4)
    # 1 second, and 2 more for every permutation.
    assert case.peer_seconds({"one": 3.0, "eleven": 23.0}) == 201


def test_square_root_formula_on_known_moments(rows: Any) -> None:
    x = np.random.default_rng(0).normal(size=(50, 3))
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x, rowvar=False))).T
    # Covariances I and diag(4, 9, 16), means 5 apart: 25 + (2-1)² + (3-1)² + (4-1)².
    assert rows.frechet_by_square_root(x, x * [2, 3, 4] + [3, 4, 0]) == pytest.approx(39)
