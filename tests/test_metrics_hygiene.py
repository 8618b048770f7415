"""Signs of copies, collapse and repetition: against brute force and on sets whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.arrays import distances
from pytest_semcov.metrics.hygiene import (
    copy_excess,
    effective_number,
    near_repetitions,
    relative_diversity,
)

Rows = np.ndarray


def normal(n: int, width: int = 8, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(n, width))


# Repetitions


def test_first_of_a_clump_stays() -> None:
    points = np.array([[0.0], [0.1], [5.0], [0.05], [5.0], [9.0]])

    repeated = near_repetitions(distances(points), 0.1)

    np.testing.assert_array_equal(repeated, [False, True, False, True, True, False])


def test_a_chain_keeps_every_row_that_is_far_from_those_kept() -> None:
    """0, 1, 2, 3 with tolerance 1: 1 repeats 0; 2 repeats only 1, which is gone, and stays."""
    repeated = near_repetitions(distances(np.arange(4.0)[:, None]), 1.0)

    np.testing.assert_array_equal(repeated, [False, True, False, True])


def test_nothing_is_repeated_without_equal_rows() -> None:
    assert not near_repetitions(distances(normal(30)), 0.0).any()
    assert near_repetitions(distances(np.repeat(normal(1), 5, axis=0)), 0.0).sum() == 4


# Copies


def relative_by_hand(targets: Rows, point: Rows) -> float:
    to = np.linalg.norm(targets - point, axis=1)
    nearest = int(to.argmin())
    scale = np.linalg.norm(np.delete(targets, nearest, axis=0) - targets[nearest], axis=1).min()
    return float(to[nearest] / scale)


def test_copy_excess_is_the_smirnov_statistic_of_relative_distances() -> None:
    u, s = normal(25), np.concatenate([normal(20, seed=1), normal(25)[:6] + 0.01])

    found = copy_excess(distances(u), distances(s, u), level=1e-3)

    held_out = [relative_by_hand(np.delete(u, i, axis=0), u[i]) for i in range(len(u))]
    relative = [relative_by_hand(u, point) for point in s]
    expected = stats.ks_2samp(relative, held_out, alternative="greater").statistic
    np.testing.assert_allclose(found.relative, relative, rtol=1e-9)
    assert found.share == pytest.approx(expected, abs=1e-12)
    assert found.critical == pytest.approx(np.sqrt(np.log(1e3) / 2 * (25 + 26) / (25 * 26)), rel=1e-12)


@pytest.mark.parametrize("jitter", [0.0, 0.05, 0.2])
def test_copies_are_found(jitter: float) -> None:
    """Moved by up to a fifth of the usual distance between neighbours."""
    u = normal(60)
    usual = np.median(np.sort(distances(u), axis=1)[:, 1])
    noise = normal(60, seed=9)
    s = u + jitter * usual * noise / np.linalg.norm(noise, axis=1, keepdims=True)

    found = copy_excess(distances(u), distances(s, u), level=1e-4)

    assert found.share > 0.7 > found.critical
    np.testing.assert_array_equal(found.nearest, np.arange(60))


def test_share_of_copies_is_about_the_excess() -> None:
    u, s = normal(400), normal(400, seed=1)
    s[:120] = u[:120]

    assert copy_excess(distances(u), distances(s, u), level=1e-4).share == pytest.approx(0.3, abs=0.08)


def test_other_real_images_are_not_called_copies() -> None:
    """60 + 60 rows of one distribution, 300 times: the bar for 1 in 100 is passed at most so often."""
    alarms = 0
    for seed in range(300):
        rows = normal(120, seed=seed)
        found = copy_excess(distances(rows[:60]), distances(rows[60:], rows[:60]), level=0.01)
        alarms += found.share > found.critical

    assert alarms <= 8  # 3 expected; more than 8 has probability 0.4 %


def test_a_set_concentrated_where_real_images_are_dense_is_not_called_copied() -> None:
    """Half the spread: nearer to U than U is to itself, but no nearer to an image than its neighbours are."""
    u, s = normal(100, width=5), 0.5 * normal(100, width=5, seed=1)

    found = copy_excess(distances(u), distances(s, u), level=1e-4)

    assert np.median(distances(s, u).min(axis=1)) < np.median(np.sort(distances(u), axis=1)[:, 1])
    assert found.share < found.critical


def test_far_images_have_no_excess() -> None:
    u = normal(40)

    assert copy_excess(distances(u), distances(u + 50, u), level=0.01).share == 0


def test_copies_need_three_real_images() -> None:
    u = normal(2)

    with pytest.raises(TooFewError, match="have 2 rows, need at least 3"):
        copy_excess(distances(u), distances(u, u), level=0.01)


# Diversity


def test_effective_number_counts_clumps() -> None:
    clumps = np.repeat(np.arange(4.0) * 100, [1, 2, 5, 8])[:, None]

    assert effective_number(distances(clumps), 1.0) == pytest.approx(4)
    assert effective_number(distances(np.arange(7.0)[:, None]), 0.5) == 7
    assert effective_number(np.zeros((9, 9)), 0.0) == pytest.approx(1)


def diversity(s: Rows, u: Rows, c: Rows) -> float:
    synthetic, real, _ = relative_diversity(distances(s), distances(u), distances(c), k=5, draws=20, seed=0)
    return synthetic / real


def test_collapse_is_found_and_variety_is_not() -> None:
    u, c, s = normal(80), normal(80, seed=1), normal(80, seed=2)
    usual = np.median(np.sort(distances(u), axis=1)[:, 1])
    collapsed = np.repeat(s[:4], 20, axis=0) + 0.3 * usual * normal(80, seed=3) / np.sqrt(8)

    assert diversity(s, u, c) == pytest.approx(1, abs=0.25)
    assert diversity(collapsed, u, c) < 0.3
    assert diversity(3 * s, u, c) > 1.2


def test_less_variety_in_the_sources_is_not_collapse() -> None:
    """C holds one narrow kind of scene; images made from it cannot be as varied as U."""
    u, narrow = normal(80), 0.4 * normal(80, seed=1)
    s = 0.4 * normal(80, seed=2)

    assert diversity(s, u, narrow) > 0.7
    assert diversity(s, u, normal(80, seed=4)) < 0.6


def test_sets_are_compared_at_equal_numbers() -> None:
    _, _, rows = relative_diversity(
        distances(normal(200)), distances(normal(50)), distances(normal(70)), k=5, draws=2, seed=0
    )

    assert rows == 50


def test_diversity_needs_neighbours() -> None:
    with pytest.raises(TooFewError, match="have 5 rows, need more than k = 5"):
        relative_diversity(np.zeros((5, 5)), np.zeros((5, 5)), np.zeros((5, 5)), k=5, draws=1, seed=0)
