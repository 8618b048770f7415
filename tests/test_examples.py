"""The examples, run as a reader of the README runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run_example(
    name: str, cache: Path, *arguments: str, timeout: int = 300
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"examples/{name}", *arguments],
        cwd=ROOT,
        env={**os.environ, "SEMCOV_CACHE_DIR": str(cache), "HF_HUB_OFFLINE": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_quickstart_passes_and_names_what_it_found(tmp_path: Path) -> None:
    result = run_example("quickstart", tmp_path)

    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"FAIL +\(xfailed\) coverage day_night: night is under-represented", result.stdout)
    assert re.search(r"PASS +sufficiency synthetic night", result.stdout)
    assert re.search(r"^found:\n(?:  .*\n)*  day_night: night", result.stdout, re.MULTILINE), result.stdout


def test_quickstart_is_the_same_under_two_workers(tmp_path: Path) -> None:
    pytest.importorskip("xdist")

    result = run_example("quickstart", tmp_path, "-n2")

    assert result.returncode == 0, result.stdout + result.stderr


def test_release_gate_on_photographs(tmp_path: Path, day_night_folder: Path) -> None:
    result = run_example("release_gate", tmp_path, f"--images={day_night_folder / 'train'}")

    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"night is under-represented: 20 of 140 images found, 30 required", result.stdout)


def test_release_gate_without_photographs_skips_with_the_reason(tmp_path: Path) -> None:
    result = run_example("release_gate", tmp_path, "--images=/no/such/folder")

    assert result.returncode == 0, result.stdout + result.stderr
    assert "no folder /no/such/folder: give one with --images" in result.stdout


@pytest.mark.slow
def test_model_choice_flips(tmp_path: Path) -> None:
    """Two models of two kinds are trained, and a translator: about four minutes of one core."""
    pytest.importorskip("faster_coco_eval")

    result = run_example("model_choice", tmp_path, timeout=1500)

    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"\b20 passed\b", result.stdout), result.stdout
