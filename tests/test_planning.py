"""Numbers of images needed, on data sets and embeddings with known content."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binomtest

from pytest_semcov import Embeddings, ImageList, Settings, Workbench
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.gates.margins import (
    USUAL_REAL_IMAGES,
    IdealMargins,
    Margin,
    ideal_margins,
    real_images_needed,
)
from pytest_semcov.gates.needs import Need, Plan
from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.metrics.power import PLANNED
from pytest_semcov.planning import plan_images

WIDTH = 16
SEED_WITHOUT_GAP = 0


def rows(generator: np.random.Generator, images: int, *, shift: float = 2.0) -> np.ndarray:
    """Draw images of a category whose centre lies at a distance from that of the covered one."""
    drawn: np.ndarray = generator.normal(size=(images, WIDTH)) + shift / math.sqrt(WIDTH)
    return drawn


@cache
def plan(
    night: int,
    day: int = 120,
    *,
    videos: int = 0,
    shift: float = 2.0,
    seed: int = 0,
    bars: tuple[tuple[str, float], ...] = (),
    **arguments: float,
) -> Plan:
    """Plan for night images, labels and embeddings being given."""
    generator = np.random.default_rng(seed)
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    ids = [
        f"{name}/{number}.png" for name, count in (("day", day), ("night", night)) for number in range(count)
    ]
    dataset = ImageList(
        [pixels] * len(ids),
        ids=ids,
        labels=[name.partition("/")[0] for name in ids],
        groups=[f"video {hash_of(name) % videos}" for name in ids] if videos else None,
    )
    array = np.concatenate([rows(generator, day, shift=0), rows(generator, night, shift=shift)])
    settings = Settings(repeats=20, **dict(bars))
    return plan_images(
        Workbench(settings),
        dataset,
        "day_night",
        "night",
        labels="label",
        embeddings=Embeddings(array.astype(np.float32), tuple(ids), "stub", "stub"),
        **arguments,
    )


def hash_of(name: str) -> int:
    """Return the number in an id."""
    return int(name.rpartition("/")[2].removesuffix(".png"))


def needs(planned: Plan) -> dict[str, Need]:
    return {need.purpose: need for need in planned.needs}


def test_bars_are_counted_exactly() -> None:
    planned = plan(24)
    found = needs(planned)
    assert (planned.now, planned.interval, planned.images) == (24, None, 144)
    assert (found["count"].needed, found["count"].missing) == (30, 6)
    assert (found["share"].needed, found["share"].missing) == (18, 0)  # 18 / 138 ≥ 12.5 %, 17 / 137 is not
    assert (found["importance known"].needed, found["importance known"].missing) == (10, 0)
    assert "groups" not in found
    assert "both, as labelled" not in found
    text = str(planned)
    assert text.startswith("day_night: night, now 24 of 144 images (")
    assert "min_count 30" in text


def test_other_bars_and_groups() -> None:
    planned = plan(24, videos=8, bars=(("min_count", 50), ("min_share", 1.0), ("min_groups", 12)))
    found = needs(planned)
    assert found["count"].missing == 26
    assert found["share"].needed == 120  # half of all, beside 120 others
    groups = found["groups"]
    assert (groups.needed, groups.have, groups.missing, groups.unit) == (12, 8, 4, "groups")
    assert "12 groups" in str(planned)


def test_the_lift_asked_for_decides_how_many_images_show_it() -> None:
    numbers = [
        needs(plan(19, lift=lift))[f"lift of {lift:g} called important"].needed for lift in (1.4, 1.8, 2.5)
    ]
    assert numbers[0] is None
    assert numbers[1] is not None
    assert numbers[2] is not None
    assert numbers[1] > numbers[2] >= 10
    assert "min_lift 1.5" in needs(plan(19, lift=1.4))["lift of 1.4 called important"].note


def test_too_few_real_images_give_the_general_figure_and_say_so() -> None:
    need = needs(plan(19))["synthetic set judged sufficient"]
    assert need.needed == USUAL_REAL_IMAGES
    assert "19 distinct real images or groups of the category: need 20" in need.note
    assert "general figure" in need.note
    # margins fall as 1/√n: half the distance to the bar takes four times as many
    lesser = needs(plan(19, share=0.75))["synthetic set that closes 0.75 judged"]
    assert lesser.needed == 4 * USUAL_REAL_IMAGES
    hopeless_plan = plan(19, share=0.5)
    hopeless = needs(hopeless_plan)["synthetic set that closes 0.5 judged"]
    assert hopeless.needed is None
    assert "not above the bar" in hopeless.note
    assert "unknown" in str(hopeless_plan)


def test_measured_margins_decide_where_there_are_enough_images() -> None:
    need = needs(plan(130))["synthetic set judged sufficient"]
    assert need.needed is not None
    assert 30 <= need.needed < 600
    assert "margins measured with 65 real images against 65" in need.note
    easier = needs(plan(130, shift=6.0))["synthetic set judged sufficient"]
    assert easier.needed is not None
    assert easier.needed < need.needed
    few = needs(plan(40, shift=6.0))["synthetic set judged sufficient"]
    assert few.needed is not None
    assert few.needed >= USUAL_REAL_IMAGES
    assert "radius cannot be measured with fewer than 60" in few.note


def test_an_embedder_that_cannot_tell_is_said_to_be_one() -> None:
    need = needs(plan(80, shift=0.0, seed=SEED_WITHOUT_GAP))["synthetic set judged sufficient"]
    assert need.needed is None
    assert "this embedder does not tell 80 real images from the others (" in need.note
    few = needs(plan(24, shift=0.0, seed=SEED_WITHOUT_GAP))["synthetic set judged sufficient"]
    assert few.needed == USUAL_REAL_IMAGES
    assert "general figure" in few.note


def test_plans_are_plain_and_do_not_depend_on_the_order_of_calls() -> None:
    first, second = plan(19), plan(19, day=120)
    assert json.loads(json.dumps(first.to_dict(), allow_nan=False)) == second.to_dict()
    assert first.to_dict()["needs"][0] == {
        "purpose": "count",
        "needed": 30,
        "have": 19.0,
        "missing": 11,
        "unit": "images",
        "estimated": False,
        "note": "min_count 30",
    }


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": math.nan}, {"lift": 0.5}, {"lift": math.inf}])
def test_numbers_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="share"):
        plan(24, **wrong)


def test_the_copy_test_sets_a_floor() -> None:
    sharp = Margin(0.01, 2.0)
    needed, note = real_images_needed(IdealMargins(60, 0.001, sharp, sharp, sharp), 1.0)
    assert needed == 37
    assert "copies decides" in note
    outcomes = []
    for images in (36, 37):
        made, real = (rows(np.random.default_rng(seed), images) for seed in (1, 2))
        verdict = sufficiency_verdict(
            made, real, rows(np.random.default_rng(3), 40, shift=0), subject="night", repeats=20
        )
        outcomes.append(verdict["copies"].outcome)
    assert outcomes == [Outcome.INCONCLUSIVE, Outcome.PASS]


def test_margins_of_halves_fall_with_the_root_of_the_number() -> None:
    generator = np.random.default_rng(1)
    covered = rows(generator, 150, shift=0)
    few, many = (
        [ideal_margins(rows(generator, n, shift=4), covered, repeats=20, seed=seed) for seed in range(1)]
        for n in (60, 180)
    )
    assert few[0].images == 30
    ratio = np.mean([each.drift.value for each in few]) / np.mean([each.drift.value for each in many])
    assert 1.2 < ratio < 2.6  # √3, and the covered images stay as many as they are
    assert few[0].by_criterion()["completeness"] is few[0].completeness


def test_margins_are_measured_by_group_and_without_repetitions() -> None:
    generator = np.random.default_rng(2)
    night, day = rows(generator, 40), rows(generator, 40, shift=0)
    with pytest.raises(TooFewError, match="10 distinct real images or groups of the category: need 20"):
        ideal_margins(night, day, uncovered_groups=[row // 4 for row in range(40)])
    with pytest.raises(TooFewError, match="8 distinct real images or groups others: need 10"):
        ideal_margins(night, day, covered_groups=[row // 5 for row in range(40)])
    with pytest.raises(TooFewError, match="19 distinct"):
        ideal_margins(np.concatenate([night[:19]] * 3), day)


@pytest.mark.slow
def test_the_number_planned_lets_ideal_sets_pass_as_often_as_planned() -> None:
    """Plans from many pilots of 120 images, and the gate at their median."""
    generator = np.random.default_rng(4)
    pilots = [
        ideal_margins(rows(generator, 120), rows(generator, 150, shift=0), repeats=100) for _ in range(12)
    ]
    planned = [real_images_needed(pilot, 1.0)[0] or math.inf for pilot in pilots]
    number, runs = int(np.median(planned)), 40
    passed = sum(
        sufficiency_verdict(
            rows(generator, number),
            rows(generator, number),
            rows(generator, 150, shift=0),
            subject="night",
            seed=run,
        ).outcome
        is Outcome.PASS
        for run in range(runs)
    )
    # The scaling is an approximation: 0.9 within five hundredths, beyond chance.
    assert binomtest(passed, runs, PLANNED - 0.05, alternative="less").pvalue > 0.01, (
        number,
        passed,
        planned,
    )
