"""The verdict on objects, on figures whose truth is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.objects import FEWEST_BOXES, ObjectBars, ObjectFigures, objects_verdict
from pytest_semcov.gates.verdict import Outcome, Verdict


def figures(count: int = 120, *, seed: int = 0, per_group: int = 1, **changed: Any) -> ObjectFigures:
    """Return good figures, half small cars and half medium deer."""
    generator = np.random.default_rng(seed)
    values: dict[str, Any] = {
        "names": tuple(f"box {number}" for number in range(count)),
        "classes": tuple("car" if number % 2 else "deer" for number in range(count)),
        "sizes": tuple("small" if number % 2 else "medium" for number in range(count)),
        "groups": tuple(f"scene {number // per_group}" for number in range(count)),
        "identity": generator.beta(30, 1, count),
        "edges": generator.normal(0.8, 0.1, count),
        "detail": generator.normal(-1, 4, count),
        "similarity": generator.normal(0.85, 0.05, count),
        "background": {"detail": 0.5},
    }
    return ObjectFigures(**(values | changed))


def judge(given: ObjectFigures, **options: Any) -> Verdict:
    return objects_verdict(given, subject="night", **options)[0]


def test_good_objects_pass_and_every_size_and_class_is_shown():
    verdict = judge(figures())
    assert verdict.outcome is Outcome.PASS
    cells = ("size small", "size medium", "class car", "class deer")
    for cell in cells:
        for name in ("identity", "edges", "lost", "detail", "noise"):
            assert verdict[f"{name}[{cell}]"].outcome is Outcome.PASS
        assert verdict[f"similarity[{cell}]"].outcome is Outcome.INFO
    assert json.loads(json.dumps(verdict.to_dict()))["outcome"] == "PASS"
    assert not verdict.details


@pytest.mark.parametrize(
    ("figure", "value", "criteria"),
    [
        ("identity", 0.5, {"identity"}),
        ("edges", 0.35, {"edges"}),
        ("edges", 0.0, {"edges", "lost"}),
        ("detail", -15.0, {"detail"}),
        ("detail", 12.0, {"noise"}),
    ],
)
def test_what_is_wrong_with_small_cars_is_named_and_nothing_else(
    figure: str, value: float, criteria: set[str]
):
    good = figures()
    values = getattr(good, figure).copy()
    small = np.asarray(good.sizes) == "small"
    values[small] += value - values[small].mean()
    verdict = judge(figures(**{figure: values}))
    assert verdict.outcome is Outcome.FAIL
    assert set(verdict.failed) == {
        f"{name}[{cell}]" for name in criteria for cell in ("size small", "class car")
    }
    assert verdict["detail[size medium]"].outcome is Outcome.PASS


def test_a_third_of_the_boxes_lost_fails_though_the_mean_is_good():
    edges = np.full(200, 0.95)
    edges[::2][:45] = 0.0
    edges[1::2][:45] = 0.0
    verdict = judge(figures(200, edges=edges))
    assert set(verdict.failed) == {
        f"lost[{cell}]" for cell in ("size small", "size medium", "class car", "class deer")
    }
    assert verdict["edges[size small]"].outcome is not Outcome.FAIL


def test_the_worst_boxes_come_first_and_only_from_what_did_not_pass():
    good = figures()
    detail = good.detail.copy()
    small = np.flatnonzero(np.asarray(good.sizes) == "small")
    detail[small] -= 15
    detail[small[7]], detail[small[3]] = -60, -50
    medium = int(np.flatnonzero(np.asarray(good.sizes) == "medium")[0])
    detail[medium] = -90
    verdict, worst = objects_verdict(figures(detail=detail), subject="night")
    assert worst[:2] == (small[7], small[3])
    assert medium not in worst
    assert len(worst) == 10
    text = str(verdict)
    assert text.index(f"box {small[7]},") < text.index(f"box {small[3]},")
    assert "detail -60 dB" in text


def test_nan_never_passes():
    verdict = judge(figures(edges=np.full(120, np.nan)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict["edges[size small]"].value is None
    assert verdict["lost[size small]"].outcome is Outcome.INCONCLUSIVE
    few = np.full(120, np.nan)
    few[: 2 * FEWEST_BOXES - 2] = 0.9
    assert judge(figures(edges=few))["edges[size small]"].outcome is Outcome.INCONCLUSIVE


def test_few_boxes_leave_it_open_and_say_how_many_are_needed():
    verdict = judge(figures(2 * FEWEST_BOXES - 2))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert f"need {FEWEST_BOXES}" in verdict["boxes[size small]"].note
    assert verdict["boxes[class car]"].outcome is Outcome.INFO
    # Many boxes of few scenes are few.
    assert judge(figures(per_group=20)).outcome is Outcome.INCONCLUSIVE
    sizes = tuple("large" if number < 3 else "small" for number in range(120))
    assert judge(figures(sizes=sizes)).outcome is Outcome.INCONCLUSIVE
    assert judge(figures(sizes=sizes), bars=ObjectBars(scarce="note")).outcome is Outcome.PASS


def test_a_value_near_its_bar_says_how_many_boxes_would_decide():
    verdict = judge(figures(identity=np.random.default_rng(1).uniform(0.65, 0.98, 120)))
    criterion = verdict["identity[size small]"]
    assert criterion.outcome is Outcome.INCONCLUSIVE
    assert "boxes are needed, have 60" in criterion.note


def test_identical_images_pass_without_spread():
    ones, zeros = np.ones(120), np.zeros(120)
    verdict = judge(figures(identity=ones, edges=ones, detail=zeros, similarity=ones))
    assert verdict.outcome is Outcome.PASS
    assert verdict["lost[size small]"].interval[1] > 0.02  # none of 60 is not never


def test_order_of_boxes_does_not_matter():
    given = figures(per_group=2)
    order = np.random.default_rng(3).permutation(120)
    turned = ObjectFigures(
        *(
            tuple(getattr(given, name)[row] for row in order)
            for name in ("names", "classes", "sizes", "groups")
        ),
        *(getattr(given, name)[order] for name in ("identity", "edges", "detail", "similarity")),
        given.background,
    )
    assert judge(given).to_dict()["criteria"] == judge(turned).to_dict()["criteria"]


def test_at_the_bar_few_verdicts_fail_or_pass():
    outcomes = [
        judge(figures(80, seed=seed, detail=np.random.default_rng(seed).normal(-6, 5, 80)), resamples=200)
        for seed in range(40)
    ]
    assert sum(verdict.outcome is Outcome.FAIL for verdict in outcomes) <= 4
    passed = sum(verdict["detail[size small]"].outcome is Outcome.PASS for verdict in outcomes)
    assert passed <= 4


def test_similarity_is_judged_on_request():
    verdict = judge(figures(), bars=ObjectBars(min_similarity=0.95))
    assert set(verdict.failed) == {
        f"similarity[{cell}]" for cell in ("size small", "size medium", "class car", "class deer")
    }


@pytest.mark.parametrize(
    "bars",
    [
        {"min_identity": 1.5},
        {"max_lost": -0.1},
        {"min_edges": float("nan")},
        {"min_detail": 7},
        {"scarce": "pass"},
        {"min_identity": "high"},
    ],
)
def test_bars_out_of_range(bars: dict[str, Any]):
    with pytest.raises(ArgumentError, match=next(iter(bars))):
        ObjectBars(**bars)


def test_figures_of_other_lengths():
    with pytest.raises(ArgumentError, match="lengths"):
        figures(identity=np.ones(3))
