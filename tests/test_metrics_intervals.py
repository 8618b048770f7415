"""Confidence intervals against scipy, published examples, formulas and exact distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.intervals import (
    bootstrap,
    clopper_pearson,
    fieller,
    newcombe,
    ratio_of_shares,
    wilson,
)

counts = st.integers(1, 200).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


@settings(deadline=None)
@given(count=counts, confidence=levels)
def test_shares_as_scipy(count: tuple[int, int], confidence: float) -> None:
    test = stats.binomtest(*count)
    expected = test.proportion_ci(confidence, method="wilson")
    assert wilson(*count, confidence=confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)
    expected = test.proportion_ci(confidence, method="exact")
    found = clopper_pearson(*count, confidence=confidence)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_shares_closed_forms() -> None:
    # No success in n: (1 - high)ⁿ = 2.5 %.
    assert clopper_pearson(0, 10) == pytest.approx((0, 1 - 0.025**0.1))
    assert clopper_pearson(10, 10) == pytest.approx((0.025**0.1, 1))
    z = 1.959963984540054
    assert wilson(0, 10) == pytest.approx((0, z**2 / (10 + z**2)))
    assert wilson(10, 10) == pytest.approx((10 / (10 + z**2), 1))
    # The share's score is ±z at both ends.
    for bound in wilson(3, 20):
        assert abs(3 / 20 - bound) / math.sqrt(bound * (1 - bound) / 20) == pytest.approx(z)


def test_clopper_pearson_covers() -> None:
    trials = 15
    for share in (0.02, 0.3, 0.5, 0.9):
        covered = sum(
            stats.binom.pmf(successes, trials, share)
            for successes in range(trials + 1)
            if clopper_pearson(successes, trials)[0] <= share <= clopper_pearson(successes, trials)[1]
        )
        assert covered >= 0.95


# R. Newcombe, Stat. Med. 17, 1998, table II, method 10.
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
        ((10, 10), (0, 20), (0.6791, 1.0)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_newcombe_published(first: Any, second: Any, expected: tuple[float, float]) -> None:
    assert newcombe(first, second) == pytest.approx(expected, abs=6e-5)


@settings(deadline=None)
@given(first=counts, second=counts, confidence=levels)
def test_difference_and_ratio_by_formula(
    first: tuple[int, int], second: tuple[int, int], confidence: float
) -> None:
    one = stats.binomtest(*first).proportion_ci(confidence, method="wilson")
    two = stats.binomtest(*second).proportion_ci(confidence, method="wilson")
    p, q = first[0] / first[1], second[0] / second[1]
    low = p - q - math.sqrt((p - one.low) ** 2 + (two.high - q) ** 2)
    high = p - q + math.sqrt((one.high - p) ** 2 + (q - two.low) ** 2)
    found = newcombe(first, second, confidence=confidence)
    assert found == pytest.approx((low, high), abs=1e-9)
    assert -1 - 1e-9 <= found[0] <= p - q <= found[1] <= 1 + 1e-9
    swapped = newcombe(second, first, confidence=confidence)
    assert swapped == pytest.approx((-high, -low), abs=1e-9)

    # A. Donner and G. Zou, Stat. Methods Med. Res. 21, 2012, equation 9; defined for q > 0.
    if second[0] == 0:
        return
    ratio_low, ratio_high = ratio_of_shares(first, second, confidence=confidence)
    below = one.low * two.high * (2 * p - one.low) * (2 * q - two.high)
    divisor = two.high * (2 * q - two.high)
    if first[0] and abs(divisor) > 1e-3:
        formula = (p * q - math.sqrt(max((p * q) ** 2 - below, 0))) / divisor
        assert ratio_low == pytest.approx(formula, rel=1e-5, abs=1e-9)
    above = one.high * two.low * (2 * p - one.high) * (2 * q - two.low)
    formula = (p * q + math.sqrt(max((p * q) ** 2 - above, 0))) / (two.low * (2 * q - two.low))
    assert ratio_high == pytest.approx(formula, rel=1e-6)
    assert 0 <= ratio_low <= p / q * (1 + 1e-9)
    assert p / q <= ratio_high * (1 + 1e-9)


def test_ratio_known_cases() -> None:
    assert ratio_of_shares((5, 10), (0, 10))[1] == math.inf
    assert ratio_of_shares((0, 10), (5, 10))[0] == 0
    low, high = ratio_of_shares((800, 1000), (400, 1000))
    assert low < 2 < high
    # With many trials as the delta method: log ratio ± 1.96 √(1/a - 1/n + 1/b - 1/m).
    spread = 1.96 * math.sqrt(1 / 800 - 1 / 1000 + 1 / 400 - 1 / 1000)
    assert (low, high) == pytest.approx((2 * math.exp(-spread), 2 * math.exp(spread)), rel=0.005)


def test_ratio_covers() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.binomial(60, 0.5, 2000), generator.binomial(60, 0.25, 2000)
    found = [
        ratio_of_shares((int(a), 60), (int(b), 60), confidence=0.9)
        for a, b in zip(first, second, strict=True)
    ]
    assert np.mean([low <= 2 <= high for low, high in found]) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_shares_refuse(interval: Any) -> None:
    with pytest.raises(TooFewError, match="at least 1 trial"):
        interval(0, 0)
    for successes in (-1, 6, float("nan")):
        with pytest.raises(ArgumentError, match="of 5 trials"):
            interval(successes, 5)
    for confidence in (0, 1, 95, float("nan")):
        with pytest.raises(ArgumentError, match="confidence"):
            interval(1, 5, confidence=confidence)
    for pair in (((0, 0), (1, 2)), ((1, 2), (0, 0))):
        for two in (newcombe, ratio_of_shares):
            with pytest.raises(TooFewError, match="at least 1 trial"):
                two(*pair)


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
@pytest.mark.parametrize("counts", [("3", 5), (2.5, 5), (None, 5), (1, 5.0), (1, "5"), ([1], 5)])
def test_counts_are_whole_numbers(interval: Any, counts: tuple[Any, Any]) -> None:
    with pytest.raises(ArgumentError, match="trials: need whole numbers"):
        interval(*counts)
    for two in (newcombe, ratio_of_shares):
        for pair in ((counts, (1, 2)), ((1, 2), counts)):
            with pytest.raises(ArgumentError, match="trials: need whole numbers"):
                two(*pair)


def test_counts_may_be_numpy_integers() -> None:
    assert wilson(np.int64(3), np.int32(20)) == wilson(3, 20)
    assert newcombe((np.int64(3), 20), (np.uint8(5), 20)) == newcombe((3, 20), (5, 20))


@pytest.mark.parametrize("wrong", [5, (1, 2, 3), (1,), None, "12 of 20"])
def test_shares_come_as_pairs(wrong: Any) -> None:
    for two in (newcombe, ratio_of_shares):
        with pytest.raises(ArgumentError, match=r"first is .*need \(successes, trials\)"):
            two(wrong, (1, 2))
        with pytest.raises(ArgumentError, match=r"second is .*need \(successes, trials\)"):
            two((1, 2), wrong)


@pytest.mark.parametrize("confidence", ["0.95", None, (0.9,), 0.9j])
def test_confidence_is_a_number(confidence: Any) -> None:
    for call in (
        lambda: wilson(1, 5, confidence=confidence),
        lambda: newcombe((1, 5), (2, 5), confidence=confidence),
        lambda: bootstrap(lambda rows: 0.0, 5, confidence=confidence),
    ):
        with pytest.raises(ArgumentError, match="confidence is"):
            call()


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.9, 0.6), (0.2, 0.1)])
def test_newcombe_covers(p: float, q: float) -> None:
    n, m = 30, 25
    probability = np.outer(stats.binom.pmf(np.arange(n + 1), n, p), stats.binom.pmf(np.arange(m + 1), m, q))
    inside = [
        [low <= p - q <= high for low, high in (newcombe((i, n), (j, m)) for j in range(m + 1))]
        for i in range(n + 1)
    ]
    assert 0.93 <= (probability * inside).sum() <= 0.98


@pytest.mark.parametrize("trials", [1, 2, 10**9, 10**15])
def test_shares_of_few_and_many(trials: int) -> None:
    for successes in {0, 1, trials // 2, trials - 1, trials}:
        for interval in (wilson, clopper_pearson):
            low, high = interval(successes, trials)
            assert 0 <= low <= successes / trials <= high <= 1
            assert high > low


# Bootstrap


def test_bootstrap_of_two_groups_is_exact() -> None:
    # Two groups: both samples of one group, each with probability 1/4, are the ends.
    values, groups = np.array([1.0, 2.0, 3.0, 20.0, 30.0]), ["a", "a", "a", "b", "b"]
    interval = bootstrap(lambda rows: float(values[rows].mean()), 5, groups=groups)
    assert interval == (2.0, 25.0)
    # Whole groups are drawn: the number of rows is 4 (b, b), 5 or 6 (a, a).
    sizes: set[int] = set()
    bootstrap(lambda rows: float(sizes.add(len(rows)) or 0.0), 5, groups=groups, repeats=200)
    assert sizes == {4, 5, 6}


def test_bootstrap_of_a_mean() -> None:
    values = np.random.default_rng(3).normal(size=200)
    low, high = bootstrap(lambda rows: float(values[rows].mean()), 200, repeats=4000, confidence=0.9)
    spread = 1.645 * values.std() / math.sqrt(200)
    assert (low, high) == pytest.approx((values.mean() - spread, values.mean() + spread), abs=0.06 * spread)
    reference = stats.bootstrap(
        (values,), np.mean, n_resamples=4000, confidence_level=0.9, method="percentile", rng=0
    ).confidence_interval
    assert (low, high) == pytest.approx((reference.low, reference.high), abs=0.08 * spread)


def test_bootstrap_groups_widen() -> None:
    # Ten rows per group that are alike: as certain as one row per group.
    middle = np.random.default_rng(3).normal(size=30)
    values, groups = np.repeat(middle, 10), np.repeat(np.arange(30), 10)

    def mean(rows: np.ndarray) -> float:
        return float(values[rows].mean())

    low, high = bootstrap(mean, 300, groups=list(groups), repeats=2000)
    spread = 1.96 * middle.std() / math.sqrt(30)
    assert high - low == pytest.approx(2 * spread, rel=0.08)
    narrow_low, narrow_high = bootstrap(mean, 300, repeats=2000)
    assert narrow_high - narrow_low == pytest.approx(2 * spread / math.sqrt(10), rel=0.08)
    # Groups are sets of rows, wherever they stand.
    order = np.random.default_rng(0).permutation(300)
    moved = bootstrap(
        lambda rows: float(values[order][rows].mean()), 300, groups=list(groups[order]), repeats=2000
    )
    assert moved == pytest.approx((low, high), rel=1e-9)


def test_bootstrap_repeats_and_refuses() -> None:
    values = np.random.default_rng(3).normal(size=20)

    def mean(rows: np.ndarray) -> float:
        return float(values[rows].mean())

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert bootstrap(mean, 20, seed=4) == bootstrap(mean, 20, seed=4)
    assert bootstrap(mean, 20, seed=4) != bootstrap(mean, 20, seed=5)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (ArgumentError, {"confidence": 95}),
        (ArgumentError, {"repeats": 0}),
        (ArgumentError, {"groups": ["a"]}),
        (ArgumentError, {"groups": [None] * 20}),
        (ArgumentError, {"repeats": "many"}),
        (TooFewError, {"groups": ["a"] * 20}),
    ]
    for error, arguments in wrong:
        with pytest.raises(error):
            bootstrap(mean, 20, **arguments)
    for rows in (0, 1):
        with pytest.raises(TooFewError, match=f"at least 2 rows, have {rows}"):
            bootstrap(mean, rows)
    for value in ("a", None, values):
        with pytest.raises(ArgumentError, match="what the statistic returns is"):
            bootstrap(lambda rows, value=value: value, 20)
    with pytest.raises(NonFiniteError, match="50 of 50"):
        bootstrap(lambda rows: float("nan"), 20, repeats=50)


# Fieller


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    top=st.floats(-3, 3),
    bottom=st.floats(0.5, 3),
    critical=st.floats(0.5, 3),
    correlation=st.floats(-0.9, 0.9),
)
def test_fieller_bounds_are_where_the_test_turns(
    seed: int, top: float, bottom: float, critical: float, correlation: float
) -> None:
    generator = np.random.default_rng(seed)
    denominators = 0.2 * generator.normal(size=50)
    numerators = correlation * denominators + 0.2 * generator.normal(size=50)
    low, high = fieller(numerators, denominators, (top, bottom), critical)
    if bottom <= critical * denominators.std(ddof=1):
        assert (low, high) == (-math.inf, math.inf)
        return

    def score(ratio: float) -> float:
        return (top - ratio * bottom) / np.std(numerators - ratio * denominators, ddof=1)

    if high < 1e4 and low > -1e4:
        assert score(low) == pytest.approx(critical, rel=1e-4)
        assert score(high) == pytest.approx(-critical, rel=1e-4)
        assert abs(score((low + high) / 2)) < critical


@pytest.mark.parametrize("bottom", [0.0, -2.0, float("nan"), 0.05])
def test_fieller_without_a_denominator(bottom: float) -> None:
    generator = np.random.default_rng(0)
    numerators, denominators = generator.normal(size=(2, 40))
    assert fieller(numerators, denominators, (1.0, bottom), 1.96) == (-math.inf, math.inf)
