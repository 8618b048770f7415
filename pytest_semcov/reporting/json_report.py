"""The JSON report: one document per run, written by one process."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_semcov.reporting.collector import Collector
from pytest_semcov.reporting.records import SCHEMA, count_outcomes

LIBRARIES = (
    "pytest-semcov",
    "pytest",
    "numpy",
    "scipy",
    "scikit-learn",
    "pillow",
    "torch",
    "torchvision",
    "open_clip_torch",
    "timm",
    "dataeval",
)


def document(collector: Collector, *, settings: Mapping[str, Any], exit_status: int) -> dict[str, Any]:
    """Return the report: the run, the tests that use this package, and their records by node id.

    Apart from ``worker``, ``duration_seconds`` and ``workers`` it does not depend on how the tests were
    distributed.

    Parameters
    ----------
    collector
        What was judged.
    settings
        The run's settings as plain Python.
    exit_status
        Of pytest.
    """
    tests = collector.tests
    return {
        "schema": SCHEMA,
        "settings": dict(settings),
        "versions": versions(),
        "exit_status": int(exit_status),
        "complete": not collector.incomplete,
        "incomplete": list(collector.incomplete),
        "workers": sorted({test.worker for test in tests}),
        "verdicts": count_outcomes(collector.records),
        "tests": [
            {
                "nodeid": test.nodeid,
                "worker": test.worker,
                "outcome": test.outcome,
                "attempts": test.attempts,
                "duration_seconds": test.duration,
            }
            for test in tests
        ],
        "records": collector.records,
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that numbers depend on, without importing them."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write the report under a temporary name, then move it into place.

    JSON knows no NaN and no infinity: they are written as ``null``.

    Raises
    ------
    OSError
        If the file cannot be written; an earlier report stays as it was.
    """
    text = json.dumps(_finite(report), indent=2, ensure_ascii=False, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
