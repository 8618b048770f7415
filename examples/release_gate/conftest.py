"""A folder of photographs with class folders ``day`` and ``night`` under release."""

from pathlib import Path

import pytest

from pytest_semcov import ImageFolder

PHOTOGRAPHS = Path(__file__).resolve().parents[3] / "shared" / "data" / "day_night" / "train"


def pytest_addoption(parser):
    parser.addoption(
        "--images", type=Path, default=PHOTOGRAPHS, help="Folder with the class folders day/ and night/"
    )


@pytest.fixture(scope="session")
def photographs(request):
    folder = request.config.getoption("--images")
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}: give one with --images")
    return ImageFolder(folder, name=folder.parent.name)


@pytest.fixture(scope="session")
def semcov_dataset(photographs):
    """The whole release."""
    return photographs


@pytest.fixture(scope="session")
def draft_release(photographs):
    """The release as it was before the last campaign: all day images, 20 night images."""
    labels = photographs.column("label")
    day = [index for index, label in enumerate(labels) if label == "day"]
    night = [index for index, label in enumerate(labels) if label == "night"]
    return photographs.subset(day + night[:20])
