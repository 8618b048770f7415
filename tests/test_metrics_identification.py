"""Ranks of sources among others."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.identification import FEWEST_OTHERS, own_source_rank, without_common_shift


def rows(seed: int, count: int = 40, width: int = 5) -> np.ndarray:
    return without_common_shift(np.random.default_rng(seed).normal(size=(count, width)))


def test_ranks_equal_a_double_loop():
    before, after = rows(1), rows(2)
    kinds = ["car" if number % 3 else "deer" for number in range(40)]
    groups = [f"scene {number // 2}" for number in range(40)]
    found = own_source_rank(before, after, kinds, groups)
    for i in range(40):
        others = [j for j in range(40) if kinds[j] == kinds[i] and groups[j] != groups[i]]
        own = sum(float(a) * float(b) for a, b in zip(after[i], before[i], strict=True))
        wins = sum(
            own > sum(float(a) * float(b) for a, b in zip(after[i], before[j], strict=True)) for j in others
        )
        assert found[i] == pytest.approx(wins / len(others))


def test_itself_is_always_found_and_chance_is_a_half():
    before = rows(3, 200)
    groups = [str(number) for number in range(200)]
    assert (own_source_rank(before, before, ["a"] * 200, groups) == 1).all()
    assert own_source_rank(before, rows(4, 200), ["a"] * 200, groups).mean() == pytest.approx(0.5, abs=0.06)


def test_equal_crops_tie():
    same = np.tile(rows(5)[:1], (10, 1))
    ranks = own_source_rank(same, same, ["a"] * 10, [str(number) for number in range(10)])
    assert (ranks == 0.5).all()


def test_too_few_others_are_unknown():
    before = rows(6, FEWEST_OTHERS + 1)
    groups = [str(number) for number in range(len(before))]
    assert np.isfinite(own_source_rank(before, before, ["a"] * len(before), groups)).all()
    assert np.isnan(own_source_rank(before[1:], before[1:], ["a"] * (len(before) - 1), groups[1:])).all()
    assert np.isnan(own_source_rank(before, before, ["a"] * len(before), ["one"] * len(before))).all()


def test_order_of_rows_does_not_matter():
    before, after = rows(7), rows(8)
    groups = [str(number) for number in range(40)]
    order = np.random.default_rng(9).permutation(40)
    found = own_source_rank(before, after, ["a"] * 40, groups)
    again = own_source_rank(before[order], after[order], ["a"] * 40, [groups[row] for row in order])
    np.testing.assert_allclose(again, found[order])


def test_a_shift_of_all_rows_is_gone():
    plain = np.random.default_rng(10).normal(size=(30, 6))
    shifted = without_common_shift(plain + np.array([5.0, 0, 0, -3, 0, 1]))
    np.testing.assert_allclose(shifted, without_common_shift(plain), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(shifted, axis=1), 1)
    assert not without_common_shift(np.ones((4, 3))).any()


def test_lengths_must_agree():
    with pytest.raises(ArgumentError):
        own_source_rank(rows(1), rows(2), ["a"] * 39, ["g"] * 40)
