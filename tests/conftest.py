"""Fixtures shared by the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[1]


def shared_data_folder() -> Path:
    """Folder of the real photographs, present or not."""
    return Path(os.environ.get("SEMCOV_SHARED_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = shared_data_folder()
    if not folder.is_dir():
        pytest.skip(f"real photographs are not here: no folder {folder} (set SEMCOV_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def day_night_folder(shared_data: Path) -> Path:
    return shared_data / "day_night"
