"""A slice of the calibration of the coverage gates; ``benchmarks/calibration.py`` prints all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from calibration_cells import Cell, Tally, measure, run_seed, table
from calibration_coverage import GATES, Labeller, cells
from scipy.stats import binom

from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.semantics.labels import UNCERTAIN

HIGHEST_WRONG = 0.08


def coin(seed: int) -> Outcome:
    return Outcome.PASS if seed % 4 else Outcome.FAIL


@pytest.fixture(scope="session")
def scenes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calibration")


# Cells


def test_counts_do_not_depend_on_the_workers_nor_on_other_cells() -> None:
    first = Cell("gate", "a coin", Outcome.PASS, 50, coin)
    second = Cell("gate", "another", Outcome.FAIL, 50, lambda seed: Outcome.INCONCLUSIVE)
    together = measure([first, second], 90)
    assert measure([first, second], 90, workers=2) == together
    assert measure([first], 90) == together[:1]
    assert measure([first], 90, seed=1) != together[:1]
    assert together[1] == Tally("gate", "another", Outcome.FAIL, 50, 0, 0, 90)
    assert sum((together[0].passed, together[0].failed)) == 90
    assert len({run_seed(cell, run, 0) for cell in (first, second) for run in range(90)}) == 180


@pytest.mark.parametrize(("expected", "wrong"), [(Outcome.PASS, 5), (Outcome.FAIL, 0)])
def test_wrong_is_the_opposite_of_what_is_right(expected: Outcome, wrong: int) -> None:
    tally = Tally("gate", "case", expected, 50, passed=0, failed=5, inconclusive=95)
    assert tally.wrong == wrong
    # The bound is the rate at which so few are wrong in one of twenty tables.
    assert binom.cdf(wrong, 100, tally.wrong_upper) == pytest.approx(0.05, abs=1e-9)
    assert tally.inconclusive_share == 0.95
    assert tally.to_dict()["wrong"] == wrong
    assert f"{wrong} of 100" in table([tally])


def test_a_run_that_judges_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a coin, n = 50"):
        measure([Cell("gate", "a coin", Outcome.PASS, 50, lambda seed: Outcome.INFO)], 1)


# The simulated labeller


def test_the_labeller_errs_at_its_rates() -> None:
    labeller = Labeller("three", (0.9, 0.5, 1.0), uncertain=0.1)
    truth = np.repeat(np.arange(3), 20_000)
    codes = labeller.label(truth, np.random.default_rng(0))
    certain = codes != UNCERTAIN
    assert np.mean(~certain) == pytest.approx(0.1, abs=0.01)
    right = [np.mean(codes[certain & (truth == code)] == code) for code in range(3)]
    assert right == pytest.approx([0.9, 0.5, 1.0], abs=0.02)
    wrong = codes[certain & (truth == 1) & (codes != 1)]
    assert np.mean(wrong == 0) == pytest.approx(0.5, abs=0.03)


# The gates


def test_every_cell_runs(scenes_folder: Path) -> None:
    small = cells([50, 60], folder=scenes_folder, scenes=120)
    assert {cell.gate for cell in small} == set(GATES)
    assert len({(cell.gate, cell.case, cell.n) for cell in small}) == len(small)
    for tally in measure([cell for cell in small if cell.n == 50], 1):
        assert tally.runs == 1
        if "labels exact" in tally.case:
            assert tally.inconclusive == 0
            assert tally.wrong == 0


def test_embeddings_are_kept(scenes_folder: Path) -> None:
    cells([50], gates=["scan"], folder=scenes_folder, scenes=120)
    stored = {path: path.stat().st_mtime_ns for path in scenes_folder.glob("*.npz")}
    assert len(stored) == 3
    cells([50], gates=["scan"], folder=scenes_folder, scenes=120)
    assert {path: path.stat().st_mtime_ns for path in scenes_folder.glob("*.npz")} == stored


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["coverage", "combinations", "labels"])
def test_gates_that_count_are_rarely_wrong(gate: str) -> None:
    tallies = measure(cells([100], gates=[gate]), 200)
    assert not [str(each) for each in tallies if each.wrong_upper > HIGHEST_WRONG]
    # Where the labeller's error is counted on half of the images, it is not known well enough.
    known = [each for each in tallies if "counted on half" not in each.case]
    far = [each for each in known if "labels exact" in each.case or "missing" in each.case]
    assert all(each.inconclusive_share <= 0.1 for each in far)


@pytest.mark.slow
def test_the_scan_is_rarely_wrong(scenes_folder: Path, shared_data: Path) -> None:
    scan = cells(
        [50, 100], gates=["scan"], folder=scenes_folder, scenes=500, photographs=shared_data / "day_night"
    )
    tallies = measure(scan, 40)
    assert not [str(each) for each in tallies if each.wrong_upper > HIGHEST_WRONG]
    conclusive = [each for each in tallies if each.n == 100 and "photographs" in each.case]
    assert len(conclusive) == 2
    assert all(each.inconclusive_share <= 0.1 for each in conclusive)
