"""A slice of the calibration of the sufficiency gate; ``benchmarks/calibration.py`` prints all of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from calibration import MOST_WRONG, decided_from, main, sufficiency_cells
from calibration_cells import Tally, measure
from calibration_intervals import measure_intervals
from calibration_pools import Pool, photographs, scenes, unit_rows, without_difference
from calibration_sufficiency import BAD, GOOD, cells, draw_sets, judge

from pytest_semcov.gates.verdict import Outcome

NAMED = {
    "identity": "identity",
    "other day images": "drift",
    "rain for night": "drift",
    "a quarter of the way": "drift",
    "gamma 1.5": "drift",
    "gamma 2.6": "drift",
    "copies": "copies",
    "copies x 8": "copies",
    "copies moved by .1": "copies",
    "copies moved by .3": "copies",
    "three images": "collapse",
    "three images moved by .3": "collapse",
    "black images": "collapse",
    "one vector": "collapse",
    "images of noise": "drift",
    "noise": "off_manifold",
    "noise, 10 n": "off_manifold",
    "noise with moments of real": "off_manifold",
}
"""The criterion that must reject each fake, whatever else does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where embeddings of scenes are kept."""
    return tmp_path_factory.mktemp("calibration")


def made_up(rows: int = 80, groups: int = 1) -> Pool:
    generator = np.random.default_rng(0)
    day = generator.normal(size=(rows, 16))
    night = generator.normal(size=(rows, 16)) + 3
    return Pool("made up", unit_rows(night), unit_rows(day), {"ideal": unit_rows(day + 3)}, {}, groups)


def test_sets_of_a_run_share_no_row() -> None:
    draw = draw_sets(made_up(), 20, seed=3)

    assert sorted([*draw.uncovered, *draw.other_uncovered]) == list(range(80))
    assert sorted([*draw.covered, *draw.other_covered]) == list(range(80))
    assert (len(draw.uncovered), len(draw.covered)) == (20, 40)


def test_groups_are_drawn_whole() -> None:
    draw = draw_sets(made_up(groups=4), 20, seed=3)

    assert not set(draw.uncovered // 4) & set(draw.other_uncovered // 4)


def test_cells_are_those_the_pool_has_images_for() -> None:
    found = {cell.case.removeprefix("made up: "): cell.expected for cell in cells(made_up(), [20])}

    assert found["ideal translation"] is Outcome.PASS
    assert found["identity"] is Outcome.FAIL
    assert not {"painted lamps", "rain for night", "black images"} & set(found)


def test_nothing_is_concluded_where_no_embedder_sees_a_difference() -> None:
    pool = without_difference(made_up(200))

    outcomes = [judge(pool, GOOD["other night images"], 30, seed).outcome for seed in range(5)]

    assert outcomes == [Outcome.INCONCLUSIVE] * 5


def test_size_from_which_a_case_is_decided() -> None:
    def tally(n: int, inconclusive: int) -> Tally:
        return Tally("sufficiency", "ideal", Outcome.PASS, n, 100 - inconclusive, 0, inconclusive)

    assert decided_from([tally(50, 30), tally(100, 10), tally(200, 0)]).endswith("| PASS | 100 |")
    assert decided_from([tally(50, 30), tally(100, 11)]).endswith("| PASS | above 100 |")


def test_the_command_refuses_an_unknown_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "everything"])

    assert "invalid choice: 'everything'" in capsys.readouterr().err


def check(tallies: Sequence[Tally], runs: int) -> None:
    """Check a slice: what the full table bounds at 8 % shows up as no more than a few runs here."""
    for tally in tallies:
        assert tally.wrong <= MOST_WRONG * runs, tally
        fake = tally.case.partition(": ")[2]
        if fake in NAMED:
            assert dict(tally.reasons).get(NAMED[fake], 0) >= 0.9 * runs, tally


@pytest.mark.slow
def test_photographs_good_sets_pass_and_fakes_fail_by_name(shared_data: Path) -> None:
    runs = 25
    tallies = measure(cells(photographs(shared_data / "day_night"), [60]), runs, workers=2)

    check(tallies, runs)
    for tally in tallies:
        if tally.case.partition(": ")[2] in GOOD:
            assert tally.passed >= 0.7 * runs, tally


@pytest.mark.slow
def test_scenes_good_sets_pass_and_fakes_fail_by_name(folder: Path) -> None:
    runs = 15
    tallies = measure(sufficiency_cells([60], folder, folder / "absent", 500), runs, workers=2)

    check(tallies, runs)
    assert {tally.case.partition(": ")[2] for tally in tallies} >= {*GOOD, *BAD} - {
        "gamma 1.5",
        "gamma 2.6",
        "painted lamps",
    }


@pytest.mark.slow
def test_intervals_hold_the_true_share(folder: Path) -> None:
    runs = 60
    for row in measure_intervals(scenes(500, folder), [60], runs, workers=2):
        # Nominal 95 %: fewer than 51 of 60 has a probability below one in a thousand.
        assert row.held >= 51, row
