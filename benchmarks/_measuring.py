"""CPU time of interleaved calls and peak memory of single calls, each in a fresh process on one thread."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Call = Callable[[], object]

# Linear algebra libraries read these when they are loaded, before any line of ours runs.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
_STATUS = Path("/proc/self/status")
_RESULT = "measured: "


def in_fresh_process(script: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run ``script --worker REQUEST`` on one thread and return what it hands to :func:`report`.

    A process that ends without a report gives ``{"error": last line of its stderr}``.
    """
    done = subprocess.run(
        [sys.executable, str(script), "--worker", json.dumps(request)],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_RESULT):
            return dict(json.loads(line.removeprefix(_RESULT)))
    last = (done.stderr.strip() or f"ended with status {done.returncode} and no result").splitlines()[-1]
    return {"error": last}


def report(result: Mapping[str, Any]) -> None:
    """Hand a worker's result to the process that waits in :func:`in_fresh_process`."""
    sys.stdout.write(f"\n{_RESULT}{json.dumps(result)}\n")


def require_one_thread() -> None:
    """Check that torch, if it was loaded, heeds the environment.

    Raises
    ------
    RuntimeError
        If it would use more threads.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        raise RuntimeError(f"torch uses {torch.get_num_threads()} threads: times would not be of one")


def median_seconds(calls: Mapping[str, Call], repeats: int) -> dict[str, float]:
    """Return the median process CPU time of each call; the calls take turns and so see the same load."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            gc.collect()
            began = time.process_time()
            call()
            seconds[name].append(time.process_time() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory(call: Call) -> tuple[int, float]:
    """Return by how many bytes the resident memory rose at most during a call, and its CPU time.

    Where the kernel cannot be asked to forget an earlier peak, only what exceeds that is seen.
    """
    gc.collect()
    # Memory that is free but still held by the allocator would be used again and not be seen.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _highest_resident_bytes()
    began = time.process_time()
    call()
    return _highest_resident_bytes() - before, time.process_time() - began


def limit_memory(extra: int) -> None:
    """Let the process take at most this many bytes more than it holds: beyond it, a MemoryError.

    It keeps a call that needs far more than allowed from bringing down the machine.
    """
    if _STATUS.exists():
        limit = _status_bytes("VmData") + extra
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _highest_resident_bytes() -> int:
    if _STATUS.exists():
        return _status_bytes("VmHWM")
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest * 1024


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {field}")
