"""Agreement of rankings: figures against other libraries and by hand, the verdict by simulation."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.gates.agreement import agreement_verdict
from pytest_semcov.gates.verdict import Outcome, Verdict
from pytest_semcov.metrics.agreement import (
    descending_ranks,
    kendall_w,
    mean_tau,
    pair_taus,
    rank_agreement,
)

tables = st.integers(2, 4).flatmap(
    lambda judges: st.integers(3, 9).flatmap(
        lambda items: st.lists(
            st.lists(st.integers(0, 5), min_size=items, max_size=items), min_size=judges, max_size=judges
        )
    )
)


@given(tables)
def test_taus_are_those_of_scipy(rows: list[list[int]]) -> None:
    expected = [stats.kendalltau(a, b).statistic for a, b in combinations(rows, 2)]
    assert pair_taus(rows) == pytest.approx(expected, nan_ok=True)


@given(tables)
def test_concordance_follows_from_rank_correlations(rows: list[list[int]]) -> None:
    # Without ties W = ((m - 1) r + 1) / m, with r the mean of Spearman's rho over pairs.
    generator = np.random.default_rng(len(rows))
    table = np.asarray(rows, dtype=float) + 0.1 * generator.random((len(rows), len(rows[0])))
    rhos = [stats.spearmanr(a, b).statistic for a, b in combinations(table, 2)]
    judges = len(table)
    assert kendall_w(table) == pytest.approx(((judges - 1) * np.mean(rhos) + 1) / judges)


def test_concordance_by_hand() -> None:
    # Rank sums 4.5, 4.5, 9 deviate from 6 by -1.5, -1.5, 3: S = 13.5. Each row has one tie of two, T = 6:
    # W = 12 · 13.5 / (9 · 24 - 3 · 18) = 162 / 162.
    assert kendall_w(np.array([[1.0, 1, 2]] * 3)) == pytest.approx(1.0)
    # Rank sums 6, 6, 6 of three rankings in a circle: no concordance at all.
    assert kendall_w(np.array([[1.0, 2, 3], [2, 3, 1], [3, 1, 2]])) == pytest.approx(0.0)
    assert math.isnan(kendall_w(np.ones((2, 3))))


def test_ranks_begin_with_the_largest() -> None:
    assert descending_ranks([3.0, 1.0, 3.0, 2.0]).tolist() == [1.5, 4.0, 1.5, 3.0]


def test_equal_rankings_of_few_blocks_claim_no_certainty() -> None:
    def lowest(blocks: int) -> float:
        row = np.arange(2 * blocks, dtype=float)
        found = rank_agreement([row, row**3], np.repeat(np.arange(blocks), 2))
        assert found.tau == pytest.approx(1.0)
        assert found.w == pytest.approx(1.0)
        assert found.interval is not None
        assert found.interval[1] == 1.0
        return found.interval[0]

    lows = [lowest(blocks) for blocks in (4, 6, 8, 15)]
    assert lows == sorted(lows)
    assert lows[0] < 0.5 < lows[2]
    # All pseudo-values are 1, the further one is 0: mean B / (B + 1), standard error 1 / (B + 1).
    assert lows[2] == pytest.approx(8 / 9 - stats.t.ppf(0.975, 8) / 9)


def test_the_p_value_counts_orders_of_blocks() -> None:
    row = np.arange(8, dtype=float)
    found = rank_agreement([row, row], np.repeat(np.arange(4), 2), permutations=4_999)
    # One order of 24 keeps four blocks as they are.
    assert found.p_value == pytest.approx(1 / 24, abs=0.012)
    assert rank_agreement([row, -row], np.arange(8), permutations=99).p_value == 1.0


def test_all_ties_and_two_blocks_have_no_interval() -> None:
    tied = rank_agreement([[1.0] * 6, np.arange(6.0)], np.repeat(np.arange(3), 2))
    assert math.isnan(tied.tau)
    assert tied.interval is None
    assert tied.p_value == 1.0
    assert rank_agreement(np.arange(8.0).reshape(2, 4), [0, 0, 1, 1]).interval is None


def test_bad_figures_are_named() -> None:
    with pytest.raises(ArgumentError, match="need"):
        rank_agreement(np.ones((2, 3)), ["a"])
    with pytest.raises(TooFewError, match="1 rankings of 3 items"):
        rank_agreement(np.ones((1, 3)), list("abc"))
    with pytest.raises(NonFiniteError, match="NaN"):
        rank_agreement([[1, 2, math.nan], [1, 2, 3]], list("abc"))


def simulated(judges: int, semantics: int, tau: float, generator: np.random.Generator) -> np.ndarray:
    """Figures of two categories a semantic, with this tau between judges (normal figures, sin(π τ / 2))."""
    shape = (semantics, 2)

    def draw(*front: int) -> np.ndarray:
        block = generator.normal(size=(*front, semantics, 1))
        return np.sqrt(0.5) * (block + generator.normal(size=(*front, *shape)))

    share = math.sin(math.pi * tau / 2)
    figures = math.sqrt(share) * draw() + math.sqrt(1 - share) * draw(judges)
    return figures.reshape(judges, -1)


@pytest.mark.parametrize(("judges", "semantics"), [(2, 6), (3, 8)])
@pytest.mark.parametrize("tau", [0.0, 0.5, 0.9])
def test_intervals_hold_the_true_agreement(judges: int, semantics: int, tau: float) -> None:
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(250):
        table = simulated(judges, semantics, tau, generator)
        interval = rank_agreement(table, np.repeat(np.arange(semantics), 2), permutations=1).interval
        assert interval is not None
        held += interval[0] <= tau <= interval[1]
    assert held / 250 >= 0.90


def lifts_of(table: np.ndarray) -> dict[str, dict[tuple[str, str], float | None]]:
    keys = [(f"s{number // 2}", "ab"[number % 2]) for number in range(table.shape[1])]
    return {
        f"e{judge}": dict(zip(keys, np.exp(row).tolist(), strict=True)) for judge, row in enumerate(table)
    }


def outcomes(judges: int, semantics: int, tau: float, runs: int = 120) -> Counter[Outcome]:
    generator = np.random.default_rng(7)
    return Counter(
        agreement_verdict(
            lifts_of(simulated(judges, semantics, tau, generator)), permutations=39, seed=run
        ).outcome
        for run in range(runs)
    )


def test_unrelated_embedders_never_agree_and_mostly_fail() -> None:
    found = outcomes(3, 8, 0.0)
    assert found[Outcome.PASS] == 0
    assert found[Outcome.FAIL] >= 0.8 * 120


def test_equal_embedders_agree() -> None:
    found = outcomes(3, 8, 0.97)
    assert found[Outcome.FAIL] == 0
    assert found[Outcome.PASS] >= 0.95 * 120


def test_at_the_bar_hardly_any_verdict_is_wrong() -> None:
    found = outcomes(3, 8, 0.5)
    assert found[Outcome.PASS] <= 0.05 * 120
    assert found[Outcome.FAIL] <= 0.08 * 120


def equal(semantics: int) -> Verdict:
    row = np.linspace(0, 1, 2 * semantics)
    return agreement_verdict(lifts_of(np.stack([row, row, row])))


def test_a_verdict_shows_every_pair() -> None:
    verdict = equal(8)
    assert verdict.passed
    assert "rank importance alike: tau 1.00" in verdict.summary
    assert verdict["tau[e0, e2]"].value == pytest.approx(1.0)
    assert verdict["kendall_w"].value == pytest.approx(1.0)
    assert verdict["chance"].value == pytest.approx(1 / 2000)
    assert verdict.counts == {"categories": 16, "semantics": 8}


def test_few_semantics_are_inconclusive() -> None:
    assert equal(3).outcome is Outcome.INCONCLUSIVE
    assert "3 semantics, need 4" in str(equal(3))
    assert equal(4).outcome is Outcome.INCONCLUSIVE
    lifts = lifts_of(np.stack([np.linspace(0, 1, 10)] * 2))
    lifts["e1"] |= {("s0", "a"): None, ("s1", "a"): None, ("s1", "b"): None, ("s0", "b"): None}
    verdict = agreement_verdict(lifts)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "left out: s0: a, s0: b, s1: a, s1: b" in str(verdict)


def test_a_ranking_that_says_nothing_is_inconclusive() -> None:
    table = np.stack([np.zeros(12), np.linspace(0, 1, 12)])
    verdict = agreement_verdict(lifts_of(table))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "all ties" in verdict.summary


def test_bad_arguments_are_named() -> None:
    good = lifts_of(np.zeros((2, 8)))
    with pytest.raises(ArgumentError, match="min_agreement=2"):
        agreement_verdict(good, min_agreement=2)
    with pytest.raises(ArgumentError, match="1 embedder: need two"):
        agreement_verdict({"e0": good["e0"]})
    with pytest.raises(ArgumentError, match="not given the same categories"):
        agreement_verdict({"e0": good["e0"], "e1": {}})
    assert mean_tau(np.arange(6.0).reshape(2, 3)) == pytest.approx(1.0)
