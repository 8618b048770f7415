"""Power and numbers of images against enumeration, closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom, norm

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics import power
from pytest_semcov.metrics.cluster_recall import (
    expected_largest_share,
    largest_cell_at_most,
    null_recalls,
)
from pytest_semcov.metrics.intervals import clopper_pearson, wilson
from pytest_semcov.metrics.label_error import corrected_count


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 80), st.floats(0.05, 1.0), st.sampled_from([0.9, 0.95, 0.9875]))
def test_detectable_share_fails_with_exactly_the_power(trials: int, bar: float, confidence: float) -> None:
    failing = [
        hits for hits in range(trials + 1) if clopper_pearson(hits, trials, confidence=confidence)[1] < bar
    ]
    share = power.detectable_share(trials, bar, confidence=confidence)
    if not failing:
        assert share is None
        return
    assert share is not None
    assert 0 < share < bar
    assert binom.pmf(failing, trials, share).sum() == pytest.approx(power.POWER, abs=1e-9)


def test_detectable_share_of_few_or_of_no_trials_is_nothing() -> None:
    assert power.detectable_share(0, 0.8) is None
    assert power.detectable_share(2, 0.8, confidence=0.99) is None
    assert power.detectable_share(50, 0.0) is None


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("margin", [0.2, 0.05, 0.013])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_images_for_a_wilson_margin_are_the_fewest(share: float, margin: float, confidence: float) -> None:
    images = power.images_for_margin(share, margin, confidence=confidence)
    z = norm.isf((1 - confidence) / 2)

    def half_width(n: int) -> float:
        return z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)

    assert half_width(images) <= margin + 1e-12
    assert images == 1 or half_width(images - 1) > margin - 1e-12


@pytest.mark.parametrize(("share", "margin"), [(0.5, 0.1), (0.9, 0.05), (0.0, 0.05), (1.0, 0.02)])
def test_images_for_an_exact_margin_are_the_fewest(share: float, margin: float) -> None:
    images = power.images_for_margin(share, margin, method="clopper_pearson")
    # Shares that are whole numbers of images: the interval of the library itself.
    whole = [n for n in range(1, 3 * images) if float(share * n).is_integer()]
    for n in whole:
        low, high = clopper_pearson(round(share * n), n)
        assert ((high - low) / 2 <= margin) == (n >= images)


def test_margins_by_the_book() -> None:
    # Wilson at 0.5: z² (1 / (4 m²) - 1) images; the textbook's 385 less z².
    assert power.images_for_margin(0.5, 0.05) == math.ceil(norm.isf(0.025) ** 2 * (1 / (4 * 0.05**2) - 1))
    assert power.images_for_margin(0.5, 0.05, method="clopper_pearson") > power.images_for_margin(0.5, 0.05)
    low, high = wilson(190, 380)
    assert (high - low) / 2 == pytest.approx(0.05, abs=2e-4)


@pytest.mark.parametrize(
    "arguments", [{"share": 1.2, "margin": 0.1}, {"share": 0.5, "margin": 0}, {"share": 0.5, "margin": 0.5}]
)
def test_margins_outside_their_range_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="margin"):
        power.images_for_margin(**arguments)
    with pytest.raises(ArgumentError, match="method"):
        power.images_for_margin(0.5, 0.1, method="wald")


@given(st.floats(0, 0.99), st.integers(0, 10_000))
def test_images_for_a_share_are_the_fewest(bar: float, others: int) -> None:
    count = power.images_for_share(bar, others)
    assert count is not None
    assert count >= bar * (count + others)
    assert count == 0 or count - 1 < bar * (count - 1 + others)


def test_images_for_a_share_known() -> None:
    assert power.images_for_share(0.125, 120) == 18  # 18 / 138 = 0.13, 17 / 137 = 0.124
    assert power.images_for_share(1, 0) == 1
    assert power.images_for_share(1, 5) is None
    with pytest.raises(ArgumentError):
        power.images_for_share(-0.1, 5)


ERRORS = [
    ((120, 120), (117, 118), 140, 30, 2),
    ((45, 50), (95, 100), 200, 30, 2),
    ((18, 20), (57, 60), 90, 25, 4),
]


def probabilities(
    images: int, true: int, recall: tuple[int, int], specificity: tuple[int, int]
) -> np.ndarray:
    """Return P(number of labels) by convolving two beta-binomials."""
    (hits, own), (rejections, others) = recall, specificity
    found: np.ndarray = np.convolve(
        betabinom.pmf(np.arange(true + 1), true, hits + 0.5, own - hits + 0.5),
        betabinom.pmf(
            np.arange(images - true + 1), images - true, others - rejections + 0.5, rejections + 0.5
        ),
    )
    return found


@pytest.mark.parametrize(("recall", "specificity", "images", "bar", "comparisons"), ERRORS)
def test_detectable_count_is_the_last_that_fails_often_enough(
    recall: tuple[int, int], specificity: tuple[int, int], images: int, bar: int, comparisons: int
) -> None:
    known = {"recall": recall, "specificity": specificity}
    fails = [
        corrected_count(labelled, images, comparisons=comparisons, **known)[1][1] < bar
        for labelled in range(bar + 20)
    ]
    count = power.detectable_count(bar, images, comparisons=comparisons, **known)
    assert count is not None
    powers = [
        probabilities(images, true, recall, specificity)[: len(fails)][fails].sum() for true in range(bar)
    ]
    assert powers[count] >= power.POWER
    assert count == bar - 1 or powers[count + 1] < power.POWER


@pytest.mark.parametrize(("recall", "specificity", "images", "bar", "comparisons"), ERRORS)
def test_passing_probability_is_that_of_the_corrected_count(
    recall: tuple[int, int], specificity: tuple[int, int], images: int, bar: int, comparisons: int
) -> None:
    known = {"recall": recall, "specificity": specificity}
    passes = [corrected_count(labelled, images, **known)[1][0] >= bar for labelled in range(images + 1)]
    for true in (bar, bar + 8, min(2 * bar, images)):
        expected = probabilities(images, true, recall, specificity)[passes].sum()
        assert power.passing_probability(true, bar, images, **known) == pytest.approx(expected, abs=1e-9)


def test_counts_that_nothing_can_be_said_of() -> None:
    unknown = {"recall": (0, 0), "specificity": (50, 50)}
    assert power.detectable_count(30, 140, **unknown) is None
    assert power.images_for_count(lambda total: 30, 120, **unknown) is None
    assert power.passing_probability(100, 30, 140, **unknown) == 0
    # Far too many false alarms: not even a category without images can be told from thirty.
    assert power.detectable_count(30, 100_000, recall=(50, 50), specificity=(95, 100)) is None
    # With fewer images than the bar asks for, any labelling fails.
    assert power.detectable_count(30, 20, **unknown) == 29


def test_images_for_a_count_are_the_fewest() -> None:
    known = {"recall": (45, 50), "specificity": (95, 100)}

    def fewest(total: int) -> int:
        return max(30, math.ceil(0.125 * total))

    count = power.images_for_count(fewest, 120, **known)
    assert count is not None
    passing = [
        power.passing_probability(each, fewest(each + 120), each + 120, **known)
        for each in range(30, count + 1)
    ]
    assert passing[-1] >= power.PLANNED
    assert max(passing[:-1]) < power.PLANNED
    perfect = power.images_for_count(fewest, 120, recall=(10**7, 10**7), specificity=(10**7, 10**7))
    assert perfect == 30


SHARES = (0.3, 0.2, 0.2, 0.1, 0.1, 0.1)


@pytest.mark.parametrize("count", [1, 5, 30, 200])
def test_largest_cell_of_a_multinomial_against_simulation(count: int) -> None:
    drawn = np.random.default_rng(0).multinomial(count, SHARES, size=40_000).max(axis=1)
    for bound in {0, 1, int(np.median(drawn)), int(np.quantile(drawn, 0.9)), count}:
        expected = (drawn <= bound).mean()
        assert largest_cell_at_most(bound, count, SHARES) == pytest.approx(expected, abs=0.01)
    spread = drawn.std() / count / 200
    assert expected_largest_share(count, SHARES) == pytest.approx(drawn.mean() / count, abs=5 * spread + 1e-9)


def test_largest_cell_by_hand() -> None:
    assert largest_cell_at_most(1, 2, (0.5, 0.5)) == pytest.approx(0.5)
    assert largest_cell_at_most(2, 3, (0.5, 0.5)) == pytest.approx(0.75)
    assert expected_largest_share(2, (0.5, 0.5)) == pytest.approx(0.75)
    assert largest_cell_at_most(0, 1, (1.0,)) == 0


def test_expected_recall_is_that_of_random_subsets_of_a_large_set() -> None:
    assignments = np.repeat(np.arange(6), (np.array(SHARES) * 60_000).astype(int))[None]
    members = np.arange(60_000) < 40
    null = null_recalls(assignments, members, permutations=20_000, generator=np.random.default_rng(1))
    assert expected_largest_share(40, SHARES) == pytest.approx(null.mean(), abs=0.002)


@given(st.integers(1, 200), st.floats(0.01, 1.0))
def test_detectable_concentration_reaches_what_is_needed_with_the_power(count: int, needed: float) -> None:
    share = power.detectable_concentration(count, needed)
    assert share is not None
    hits = math.ceil(needed * count - 1e-9)
    assert binom.sf(hits - 1, count, share) == pytest.approx(power.POWER, abs=1e-9)


def test_recall_above_one_is_never_reached() -> None:
    assert power.detectable_concentration(20, 1.01) is None


def test_images_for_a_lift_by_simulation() -> None:
    bars = {"max_p": 0.01, "min_lift": 1.5, "tests": 4, "least": 10}
    count = power.images_for_lift(2.0, SHARES, **bars)
    assert count is not None

    def power_at(images: int) -> float:
        generator = np.random.default_rng(images)
        null = generator.multinomial(images, SHARES, size=200_000).max(axis=1)
        critical = np.quantile(null, 1 - 0.01 / 4, method="higher") + 1
        wanted = max(critical, 1.5 * null.mean())
        return float((generator.binomial(images, 2.0 * null.mean() / images, size=200_000) >= wanted).mean())

    assert power_at(count) >= power.PLANNED - 0.02
    assert power_at(count - 3) < power.PLANNED + 0.02
    assert power.images_for_lift(3.2, SHARES, **bars) == 10
    assert power.images_for_lift(1.5, SHARES, **bars) is None
    assert power.images_for_lift(1.51, SHARES, **bars, most=100) is None


@pytest.mark.parametrize("probability", [0.8, 0.9, 0.97])
def test_shares_of_a_gap_end_on_their_side_with_the_probability(probability: float) -> None:
    bar, margin, critical = 0.5, 0.2, 2.09
    generator = np.random.default_rng(3)
    noise = generator.normal(scale=margin / critical, size=100_000)
    above = power.surely_above(bar, margin, critical=critical, probability=probability)
    below = power.surely_below(bar, margin, critical=critical, probability=probability)
    assert (above + noise - margin > bar).mean() == pytest.approx(probability, abs=0.005)
    assert (below + noise + margin < bar).mean() == pytest.approx(probability, abs=0.005)
    wanted = power.wanted_margin(above, bar, critical=critical, probability=probability)
    assert wanted == pytest.approx(margin)
    assert power.wanted_margin(bar, bar, critical=critical) is None


def test_margins_fall_with_the_root_of_the_number() -> None:
    assert power.needed_for_interval(0.2, 20, 0.1) == 80
    assert power.needed_for_interval(0.1, 80, 0.2) == 20
    assert power.needed_for_interval(0.0, 20, 0.2) == 1
    for wrong in ((math.inf, 20, 0.1), (math.nan, 20, 0.1), (0.2, 0, 0.1), (0.2, 20, 0.0)):
        with pytest.raises(ArgumentError, match="margin"):
            power.needed_for_interval(*wrong)
