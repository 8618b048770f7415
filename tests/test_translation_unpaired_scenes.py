"""The small network on rendered scenes, where the right answer is known, and the benchmark that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from translators import main, measure
from translators_objects import agreement
from translators_tasks import photograph_tasks, scene_task

from pytest_semcov import RenderedScenes, load_embedder
from pytest_semcov.gates.verdict import Outcome

STEPS = {"unpaired": 1000, "transport": 1, "unpaired, other data": 300}
"""Of the control, which has learnt something else, fewer: the benchmark gives it as many."""


@pytest.mark.slow
def test_the_trained_network_is_sufficient_and_keeps_objects_better_than_colour() -> None:
    """200 + 200 scenes to learn from, unpaired, and 200 + 200 others to judge, by the built-in model."""
    task = scene_task(0)
    trained, colour, control = (measure(method, task, steps=steps) for method, steps in STEPS.items())

    assert trained.verdict.outcome is Outcome.PASS, trained.verdict
    for gap in ("drift", "radius"):
        closed, without = trained.verdict[gap].value, control.verdict[gap].value
        assert closed is not None
        assert without is not None
        assert closed >= 0.6
        assert without < closed
    assert control.verdict.outcome is Outcome.FAIL
    assert trained.objects is not None
    assert colour.objects is not None
    for size in (0, 1):
        assert trained.objects.cosine[size] > colour.objects.cosine[size] + 0.02
        assert trained.objects.difference[size] < colour.objects.difference[size]
        assert trained.objects.edges[size] > colour.objects.edges[size]


def test_agreement_of_objects_is_perfect_with_the_same_images_and_poor_with_others() -> None:
    scenes = RenderedScenes(6, seed=5, size=64, sharp_blurry="sharp", noflare_flare="no flare")
    images, boxes = [sample.load() for sample in scenes], [sample.boxes for sample in scenes]
    embedder = load_embedder("builtin", device="cpu")

    same = agreement(images, images, boxes, embedder)
    other = agreement(images[1:] + images[:1], images, boxes, embedder)

    assert same.cosine == pytest.approx((1, 1), abs=1e-5)
    assert same.difference == (0, 0)
    assert same.edges == pytest.approx((1, 1))
    for size in (0, 1):
        assert other.cosine[size] < 0.95
        assert other.difference[size] > 0.05
        assert other.edges[size] < 0.5


def test_photographs_to_fit_on_and_to_judge_share_no_webcam(tmp_path: Path) -> None:
    lines = ["path,time_of_day,source,orig_width,orig_height"]
    for number in range(24):
        name, webcam = ("day", "night")[number % 2], number // 4
        path = f"train/{name}/{number:03d}.jpg"
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        # The red of an image tells its webcam; some have two sizes, of a few pixels' difference.
        Image.new("RGB", (20, 16), (40 * webcam, 0, 0)).save(tmp_path / path, quality=95)
        lines.append(f"{path},{name},somewhere,{600 + 100 * webcam},{441 + number % 2}")
    (tmp_path / "manifest.csv").write_text("\n".join(lines), encoding="utf-8")

    tasks = photograph_tasks(tmp_path, splits=2)

    assert len(tasks) == 4
    for task in tasks:
        fit, judge = (
            {round(np.asarray(image)[..., 0].mean() / 40) for image in (*days, *nights)}
            for days, nights in ((task.fit_day, task.fit_night), (task.day, task.night))
        )
        assert not fit & judge
        assert fit | judge == set(range(6))
        assert [len(each) for each in (task.fit_day, task.fit_night, task.day, task.night)] == [6] * 4
        assert task.ideal == task.fit_night


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads_as_before")
def test_the_benchmark_prints_a_table_of_all_translators(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--scenes", "1", "--count", "24", "--steps", "1", "--markdown"])

    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in capsys.readouterr().out.strip().splitlines()
    ]
    assert rows[0][:3] == ["scenes, 1 draws", "drift gap closed", "radius gap closed"]
    assert {len(row) for row in rows} == {len(rows[0])}
    found = {row[0]: row for row in rows[2:]}
    assert list(found) == [
        "statistics",
        "fourier",
        "transport",
        "unpaired",
        "unpaired, other data",
        "identity",
        "ideal",
    ]
    assert (found["identity"][1], found["identity"][4]) == ("0.00", "1.00")
    assert found["ideal"][5:8] == ["1.000 / 1.000", "0.000 / 0.000", "1.000 / 1.000"]
    assert re.fullmatch(r"0\.\d+|1\.\d+", found["ideal"][1])
