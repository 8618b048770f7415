"""The sufficiency gate on real photographs: real ones are never refused, known fakes never pass.

U = 60 random night photographs, C = 120 day photographs, S = the other 60 or a fake; EfficientNet-Lite0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Outcome, Verdict

Rows = np.ndarray
DARKENED = ("gamma2_6_blue", "gamma1_5_blue")
SEEDS = 3
MORE_SEEDS = 20


def normalised(rows: Rows) -> Rows:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@cache
def photographs(folder: Path) -> dict[str, Rows]:
    with np.load(folder / "embeddings_efficientnet_lite0.npz") as file:
        rows, times = file["embeddings"].astype(np.float64), file["time_of_day"]
    with np.load(folder / "embeddings_darkened.npz") as file:
        darkened = {name: file[name].astype(np.float64) for name in file.files if file[name].ndim == 2}
    return {name: normalised(part) for name, part in darkened.items()} | {
        "night": normalised(rows[times == "night"]),
        "day": normalised(rows[times == "day"]),
    }


def jittered(rows: Rows, share: float, generator: np.random.Generator) -> Rows:
    """Move rows by this share of the usual distance between nearest photographs."""
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    noise = generator.normal(size=rows.shape)
    noise *= share * np.median(distances.min(axis=1)) / np.linalg.norm(noise, axis=1, keepdims=True)
    return normalised(rows + noise)


FAKES: dict[str, Callable[[Rows, Rows, np.random.Generator], Rows]] = {
    "identity": lambda u, c, g: c.copy(),
    "copies": lambda u, c, g: np.repeat(u, 2, axis=0),
    "copies, jittered": lambda u, c, g: jittered(np.repeat(u, 2, axis=0), 0.2, g),
    "collapse": lambda u, c, g: np.repeat(u[:3], 34, axis=0),
    "collapse, jittered": lambda u, c, g: jittered(np.repeat(u[:3], 34, axis=0), 0.3, g),
    "noise": lambda u, c, g: normalised(np.abs(g.normal(size=c.shape))),
    "constant": lambda u, c, g: np.repeat(normalised(np.ones((1, c.shape[1]))), 120, axis=0),
}
FITTING = {
    "identity": {"identity"},
    "copies": {"copies"},
    "copies, jittered": {"copies"},
    "collapse": {"collapse"},
    "collapse, jittered": {"collapse"},
    "noise": {"off_manifold"},
    "constant": {"collapse", "duplicates"},
}


def judge(folder: Path, seed: int, fake: str | None = None, darkened: str | None = None) -> Verdict:
    sets = photographs(folder)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(sets["night"]))
    uncovered, other = sets["night"][order[:60]], sets["night"][order[60:]]
    if fake is not None:
        synthetic = FAKES[fake](uncovered, sets["day"], generator)
    else:
        synthetic = other if darkened is None else sets[darkened]
    return sufficiency_verdict(
        synthetic, uncovered, sets["day"], subject="synthetic night", semantic="day_night", seed=seed
    )


def check_real(folder: Path, seeds: range) -> None:
    outcomes = [judge(folder, seed).outcome for seed in seeds]

    assert Outcome.FAIL not in outcomes
    assert outcomes.count(Outcome.PASS) >= len(seeds) / 2


def check_fake(folder: Path, fake: str, seeds: range) -> None:
    for seed in seeds:
        verdict = judge(folder, seed, fake)
        assert verdict.outcome is Outcome.FAIL, (seed, str(verdict))
        assert FITTING[fake] & set(verdict.failed), (seed, verdict.failed)


def check_darkened(folder: Path, darkened: str, seeds: range) -> None:
    for seed in seeds:
        assert judge(folder, seed, darkened=darkened).outcome is not Outcome.PASS


def test_other_real_night_is_never_refused(day_night_folder: Path) -> None:
    check_real(day_night_folder, range(SEEDS))


def test_a_small_good_set_is_never_refused(day_night_folder: Path) -> None:
    """40 of the other night photographs: too few to be sure, perhaps, but not insufficient."""
    sets = photographs(day_night_folder)
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(sets["night"]))
        uncovered, other = sets["night"][order[:60]], sets["night"][order[60:100]]
        verdict = sufficiency_verdict(other, uncovered, sets["day"], subject="40 night", seed=seed)
        assert verdict.outcome is not Outcome.FAIL, (seed, str(verdict))


@pytest.mark.parametrize("fake", list(FAKES))
def test_fake_fails_by_the_name_of_what_is_wrong(day_night_folder: Path, fake: str) -> None:
    check_fake(day_night_folder, fake, range(SEEDS))


@pytest.mark.parametrize("darkened", DARKENED)
def test_merely_darkened_images_do_not_pass(day_night_folder: Path, darkened: str) -> None:
    check_darkened(day_night_folder, darkened, range(SEEDS))


@pytest.mark.slow
@pytest.mark.parametrize("fake", [None, *FAKES])
def test_on_more_seeds(day_night_folder: Path, fake: str | None) -> None:
    if fake is None:
        check_real(day_night_folder, range(MORE_SEEDS))
    else:
        check_fake(day_night_folder, fake, range(MORE_SEEDS))


@pytest.mark.slow
@pytest.mark.parametrize("darkened", DARKENED)
def test_darkened_on_more_seeds(day_night_folder: Path, darkened: str) -> None:
    check_darkened(day_night_folder, darkened, range(MORE_SEEDS))
