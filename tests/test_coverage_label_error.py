"""Counts corrected for the labeller's errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.label_error import corrected_count


def test_rogan_gladen_by_hand() -> None:
    count, _ = corrected_count(30, 100, recall=(80, 100), specificity=(90, 100))
    assert count == pytest.approx((30 - 100 * 0.1) / (0.8 + 0.9 - 1))


def test_a_labeller_that_hardly_errs_leaves_the_count() -> None:
    count, interval = corrected_count(20, 140, recall=(10**7, 10**7), specificity=(10**7, 10**7))
    assert count == 20
    assert interval == (20, 20)


def test_three_cannot_be_told_from_thirteen_false_alarms() -> None:
    # 1,003 images, 3 of them night, 1 % false alarms: about 13 "night".
    count, (low, high) = corrected_count(13, 1003, recall=(95, 100), specificity=(990, 1000))
    assert low == 0
    assert 3 <= high < 20
    assert count == pytest.approx((13 - 10.03) / 0.94, abs=0.01)


def test_false_alarms_alone_explain_what_was_found() -> None:
    count, (low, high) = corrected_count(3, 300, recall=(90, 100), specificity=(950, 1000))
    assert count == 0.0
    assert low == 0
    assert high <= 6


@pytest.mark.parametrize(
    ("recall", "specificity"), [((10, 20), (10, 20)), ((0, 0), (50, 50)), ((50, 50), (0, 0))]
)
def test_a_labeller_no_better_than_chance_or_unknown_tells_nothing(
    recall: tuple[int, int], specificity: tuple[int, int]
) -> None:
    _, interval = corrected_count(30, 100, recall=recall, specificity=specificity)
    assert interval == (0, 100)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 60),
    st.data(),
    st.tuples(st.integers(8, 40), st.integers(0, 3)),
    st.tuples(st.integers(20, 80), st.integers(0, 4)),
)
def test_interval_is_the_set_of_counts_that_an_exact_test_does_not_reject(
    images: int, data: st.DataObject, hits_misses: tuple[int, int], rejections_alarms: tuple[int, int]
) -> None:
    labelled = data.draw(st.integers(0, images))
    hits, misses = hits_misses
    rejections, alarms = rejections_alarms
    count, (low, high) = corrected_count(
        labelled, images, recall=(hits, hits + misses), specificity=(rejections, rejections + alarms)
    )
    accepted_low, accepted_high = [], []
    for true in range(images + 1):
        found = np.convolve(
            betabinom.pmf(np.arange(true + 1), true, hits + 0.5, misses + 0.5),
            betabinom.pmf(np.arange(images - true + 1), images - true, alarms + 0.5, rejections + 0.5),
        )
        if found[labelled:].sum() > 0.025:
            accepted_low.append(true)
        if found[: labelled + 1].sum() > 0.025:
            accepted_high.append(true)
    # A count of labels that no true count explains leaves the end of the range.
    expected_low = min(accepted_low, default=images)
    expected_high = max(accepted_high, default=0)
    assert (low, high) == (min(expected_low, expected_high), max(expected_low, expected_high))
    assert 0 <= low <= high <= images
    assert 0 <= count <= images


def test_interval_contains_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    contained = []
    for _ in range(120):
        recall, specificity = generator.beta(18, 2), generator.beta(57, 3)
        true, images = int(generator.integers(0, 60)), 150
        labelled = generator.binomial(true, recall) + generator.binomial(images - true, 1 - specificity)
        _, (low, high) = corrected_count(
            int(labelled),
            images,
            recall=(int(generator.binomial(60, recall)), 60),
            specificity=(int(generator.binomial(90, specificity)), 90),
        )
        contained.append(low <= true <= high)
    assert np.mean(contained) >= 0.93


def test_more_reference_labels_narrow_the_interval() -> None:
    widths = []
    for scale in (1, 10, 100):
        _, (low, high) = corrected_count(
            40, 200, recall=(18 * scale, 20 * scale), specificity=(19 * scale, 20 * scale)
        )
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[2]


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ArgumentError, match="labelled=5, images=4"):
        corrected_count(5, 4, recall=(1, 1), specificity=(1, 1))
    with pytest.raises(ArgumentError, match="recall hits=2"):
        corrected_count(1, 4, recall=(2, 1), specificity=(1, 1))
