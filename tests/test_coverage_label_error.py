"""Counts corrected for the labeller's errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.coverage import CoverageBars, coverage_verdict
from pytest_semcov.gates.figures import LabelError, SemanticEvidence
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.metrics.label_error import corrected_count, most_errors
from pytest_semcov.semantics.evidence import gather_evidence
from pytest_semcov.semantics.labels import Labels


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


def test_the_upper_bound_is_at_fault_for_any_of_many_counts_as_rarely_as_for_one() -> None:
    single = corrected_count(40, 200, recall=(90, 100), specificity=(190, 200), level=0.95)[1]
    six = corrected_count(40, 200, recall=(90, 100), specificity=(190, 200), comparisons=6)[1]
    wide = corrected_count(40, 200, recall=(90, 100), specificity=(190, 200), level=1 - 0.05 / 6)[1]
    assert six == (single[0], wide[1])
    assert six[1] > single[1]
    with pytest.raises(ArgumentError, match="comparisons=0"):
        corrected_count(1, 4, recall=(1, 1), specificity=(1, 1), comparisons=0)


@pytest.mark.parametrize(("errors", "trials", "images"), [(0, 50, 30), (5, 100, 200), (10, 20, 7)])
def test_most_errors_is_the_quantile_of_errors_at_an_uncertain_rate(
    errors: int, trials: int, images: int
) -> None:
    most = most_errors(errors, trials, images)
    at_most = np.cumsum(betabinom.pmf(np.arange(images + 1), images, errors + 0.5, trials - errors + 0.5))
    assert at_most[most] >= 0.975 - 1e-9
    assert most == 0 or at_most[most - 1] < 0.975
    assert most_errors(errors, trials, 0) == 0


def grouped(**fields: object) -> SemanticEvidence:
    """60 of 160 images are labelled night, in seven groups."""
    error = LabelError(recall=(85, 100), specificity=(95, 100))
    return SemanticEvidence(
        "day_night",
        counts={"day": 100, "night": 60},
        groups={"day": 20, "night": 7},
        label_error={"night": error},
        **fields,  # type: ignore[arg-type]
    )


def test_false_alarms_may_be_groups_of_their_own_though_they_and_misses_cancel_in_the_count() -> None:
    # About five false alarms; the corrected count, 57 to 81, says nothing of them.
    verdict = coverage_verdict(grouped())
    criterion = verdict["groups[night]"]
    assert verdict["count[night]"].outcome is Outcome.PASS
    assert criterion.outcome is Outcome.INCONCLUSIVE
    assert criterion.interval is not None
    low, high = criterion.interval
    assert low == 0.0
    assert high >= 7 + 5


def test_false_alarms_hardly_make_up_a_group_of_many_images() -> None:
    sizes = {"night": (1, 1, 2, 14, 14, 14, 14)}
    criterion = coverage_verdict(grouped(group_images=sizes), CoverageBars(min_groups=4))["groups[night]"]
    assert criterion.interval is not None
    assert criterion.interval[0] == 4.0
    assert criterion.outcome is Outcome.PASS


def test_images_per_group_are_counted_for_groups_of_real_images_only() -> None:
    labels = Labels(
        "day_night",
        ("day", "night"),
        np.array([1, 1, 1, 0, 0, 1]),
        None,
        None,
        "test",
        tuple("abcdef"),
    )
    evidence = gather_evidence(
        labels,
        groups=["v", "v", "w", "w", "w", "x"],
        synthetic=[False, False, False, False, False, True],
    )
    assert evidence.groups == {"day": 1, "night": 3}
    assert {name: sorted(sizes) for name, sizes in evidence.group_images.items()} == {
        "day": [2],
        "night": [1, 2],
    }
