"""What the benchmark of model choice calls a choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model_choice import SETS, chosen, markdown
from PIL import Image

from pytest_semcov import ImageList, ModelUnderTest, Settings, Workbench, classifier_from_callable


def model(name: str, threshold: float) -> ModelUnderTest:
    return classifier_from_callable(
        lambda images: [int(np.asarray(image).mean() > threshold) for image in images],
        classes=("dark", "bright"),
        output="labels",
        name=name,
        version=name,
    )


@pytest.mark.parametrize(
    ("first", "second", "wanted"), [(30, 300, "1"), (300, 30, "2"), (30, 30.5, "-"), (300, 301, "-")]
)
def test_undecided_is_neither_model(tmp_path: Path, first: float, second: float, wanted: str) -> None:
    levels = [20 if number % 2 else 40 + number for number in range(60)]
    images = ImageList(
        [Image.new("RGB", (4, 4), (level, level, level)) for level in levels],
        labels=["bright" if level > 30 else "dark" for level in levels],
    )
    bench = Workbench(Settings(cache_dir=tmp_path))

    assert chosen(bench, {"1": model("a", first), "2": model("b", second)}, images) == wanted


def test_table_counts_what_is_wanted() -> None:
    scores = {(name, time): 0.5 for name in "12" for time in ("day", "night")}
    right = dict(zip(SETS, "12221", strict=True))
    rows = [
        {"seed": 0, "kind": "detector", "scores": scores, **right},
        {"seed": 1, "kind": "detector", "scores": scores, **right, "original": "-"},
    ]

    assert markdown(rows).splitlines()[-1] == (
        "| as wanted | detector | | | 1 of 2 | 2 of 2 | 2 of 2 | 2 of 2 | 2 of 2 |"
    )
