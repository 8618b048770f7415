"""Scores of classifiers: scikit-learn's and torchmetrics' numbers, also for resamples."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as reference
from sklearn.utils.class_weight import compute_sample_weight

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.classification import (
    accuracy,
    balanced_accuracy,
    calibration_error,
    calibration_gaps,
    count_classes,
    f1_binary,
    f1_macro,
    f1_per_class,
)
from pytest_semcov.metrics.resampling import (
    Estimate,
    effective_groups,
    expanded_interval,
    independent,
    resample,
    subsample,
    with_prior,
)


@st.composite
def predictions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    classes = draw(st.integers(1, 6))
    codes = st.lists(st.integers(0, classes - 1), min_size=1, max_size=30)
    truth = np.array(draw(codes))
    predicted = np.array(
        draw(st.lists(st.integers(0, classes - 1), min_size=len(truth), max_size=len(truth)))
    )
    return truth, predicted, classes


@settings(deadline=None)
@given(predictions(), st.integers(0, 5))
def test_scores_are_scikit_learn_s_on_any_resample(
    case: tuple[np.ndarray, np.ndarray, int], seed: int
) -> None:
    truth, predicted, classes = case
    draws = np.random.default_rng(seed).multinomial(len(truth), np.full(len(truth), 1 / len(truth)), size=3)
    plain = count_classes(truth, predicted, classes, weights=draws)
    weighted = count_classes(truth, predicted, classes, weights=draws, class_weighting="balanced")

    for row, draw in enumerate(draws):
        where = np.repeat(np.arange(len(truth)), draw)
        t, p = truth[where], predicted[where]
        balance = compute_sample_weight("balanced", t)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # classes that a resample lacks
            wanted = [
                reference.accuracy_score(t, p),
                reference.balanced_accuracy_score(t, p),
                reference.f1_score(t, p, average="macro", zero_division=0),
                reference.f1_score(t == 0, p == 0, zero_division=0),
                reference.accuracy_score(t, p, sample_weight=balance),
                reference.f1_score(t, p, average="macro", sample_weight=balance, zero_division=0),
            ]
            each = reference.f1_score(t, p, average=None, labels=range(classes), zero_division=0)
        found = [
            accuracy(plain)[row],
            balanced_accuracy(plain)[row],
            f1_macro(plain)[row],
            f1_binary(plain, 0)[row],
            accuracy(weighted)[row],
            f1_macro(weighted)[row],
        ]
        assert found == pytest.approx(wanted, abs=1e-12)
        assert f1_per_class(plain)[row] == pytest.approx(each, abs=1e-12)


def test_without_weights_every_image_counts_once() -> None:
    counts = count_classes([0, 0, 0, 1], [0, 0, 0, 0], 2)

    assert accuracy(counts).tolist() == [0.75]
    assert balanced_accuracy(counts).tolist() == [0.5]


def test_published_class_weighting() -> None:
    counts = count_classes([0, 0, 0, 1], [0, 0, 0, 0], 2, class_weighting="balanced")

    assert accuracy(counts) == pytest.approx([0.5])
    assert f1_binary(counts, 1).tolist() == [0.0]


@pytest.mark.parametrize("seed", range(5))
def test_calibration_error_is_torchmetrics_number(seed: int) -> None:
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    import torch

    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (200, 5))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = generator.integers(0, 5, 200)
    draws = resample(200, repeats=3, seed=seed)

    found = calibration_error(
        calibration_gaps(
            probabilities.max(axis=1), probabilities.argmax(axis=1) == truth, weights=draws, bins=15
        )
    )

    for value, draw in zip(found, draws, strict=True):
        where = np.repeat(np.arange(200), draw)
        wanted = torchmetrics.multiclass_calibration_error(
            torch.from_numpy(probabilities[where]), torch.from_numpy(truth[where]), num_classes=5, n_bins=15
        )
        assert value == pytest.approx(float(wanted), abs=1e-6)  # torchmetrics computes in float32


def test_calibration_error_by_hand() -> None:
    # Two bins: (.25, wrong), (.4, right) and (.9, right), (1, right).
    found = calibration_gaps([0.25, 0.4, 0.9, 1.0], [False, True, True, True], bins=2)

    assert found == pytest.approx(np.array([[1 - 0.65, 2 - 1.9]]) / 4)
    assert calibration_error(found) == pytest.approx([0.45 / 4])
    # A confidence of .5 counts in the upper bin.
    assert calibration_gaps([1.0, 0.5], [True, False], bins=2) == pytest.approx(np.array([[0, -0.25]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0], 2), "2 true and 1 predicted"),
        (([0, 2], [0, 1], 2), "truth holds class 0 to 2: need 0 to 1"),
        (([0, 1], [0.0, 1.0], 2), "predicted is float64"),
        (([[0]], [0], 2), r"truth is int64 of shape \(1, 1\)"),
        (([0], [-1], 2), "predicted holds class -1"),
        (([0], [0], 0), "classes is 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[list[int], list[int], int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        count_classes(*arguments)


def test_weights_are_checked() -> None:
    with pytest.raises(ArgumentError, match=r"weights have shape \(1, 3\): need \(resamples, 2\)"):
        count_classes([0, 1], [0, 1], 2, weights=[[1, 1, 1]])
    with pytest.raises(NonFiniteError):
        count_classes([0, 1], [0, 1], 2, weights=[[1, np.nan]])
    with pytest.raises(ArgumentError, match="weights hold -1"):
        count_classes([0, 1], [0, 1], 2, weights=[[1, -1]])
    with pytest.raises(TooFewError, match="no image any weight"):
        count_classes([0, 1], [0, 1], 2, weights=[[0, 0]])
    with pytest.raises(TooFewError, match="no images"):
        count_classes([], [], 2)
    with pytest.raises(ArgumentError, match="class_weighting 'even'"):
        count_classes([0], [0], 1, class_weighting="even")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="positive class 2: there are 2"):
        f1_binary(count_classes([0], [0], 2), 2)


def test_confidences_are_checked() -> None:
    with pytest.raises(NonFiniteError, match="1 confidences"):
        calibration_gaps([0.5, np.nan], [True, True])
    with pytest.raises(ArgumentError, match="need probabilities"):
        calibration_gaps([0.5, 3.0], [True, True])
    with pytest.raises(TooFewError, match="no images"):
        calibration_gaps([], [])


class TestResamples:
    def test_draw_whole_groups_as_many_as_there_are(self) -> None:
        groups = ["a", "a", "b", "c", "c", "c"]

        draws = resample(6, groups=groups, repeats=50, seed=1)

        assert (draws[:, 0] == draws[:, 1]).all()
        assert (draws[:, 3] == draws[:, 4]).all()
        assert (draws[:, [0, 2, 3]].sum(axis=1) == 3).all()
        assert len(np.unique(draws, axis=0)) > 5
        assert np.array_equal(draws, resample(6, groups=groups, repeats=50, seed=1))

    def test_need_two(self) -> None:
        with pytest.raises(TooFewError, match="at least 2 images, have 1"):
            resample(1)
        with pytest.raises(TooFewError, match="at least 2 groups, have 1"):
            resample(3, groups=["a", "a", "a"])
        with pytest.raises(TooFewError):
            independent(0)

    def test_prior_gives_jeffreys_interval_of_a_share(self) -> None:
        hits = 19
        truth, predicted = np.zeros(20, int), np.array([0] * hits + [1])
        draws = resample(20, repeats=40_000, seed=0)

        shares = accuracy(with_prior(count_classes(truth, predicted, 2, weights=draws), seed=1))

        # The bootstrap is discrete, the posterior is not: the bounds agree roughly.
        wanted = stats.beta(hits + 0.5, 20 - hits + 0.5).ppf([0.025, 0.975])
        assert np.quantile(shares, [0.025, 0.975]) == pytest.approx(wanted, abs=0.03)

    def test_a_model_without_errors_has_a_width(self) -> None:
        truth = np.arange(50) % 2
        counts = with_prior(count_classes(truth, truth, 2, weights=resample(50, repeats=999)))

        for score in (accuracy, balanced_accuracy, f1_macro):
            low, high = expanded_interval(score(counts), 1.0, independent=50)
            # Jeffreys' lower bound for 50 of 50 is .951 (at t, not at z, a little lower).
            assert 0.92 < low < 0.97
            assert high == 1.0

    def test_expanded_interval_is_as_wide_as_student_s(self) -> None:
        generator = np.random.default_rng(0)
        for groups in (5, 12, 100):
            # Resampled means of normal data: their spread is sqrt((n-1)/n) of the standard error.
            spread = math.sqrt((groups - 1) / groups)
            low, high = expanded_interval(
                generator.normal(0, spread, 200_000), 0.0, independent=groups, confidence=0.95
            )
            critical = stats.t.isf(0.025, groups - 1)
            assert (low, high) == pytest.approx((-critical, critical), rel=0.05)

    def test_nan_is_no_interval(self) -> None:
        with pytest.raises(NonFiniteError):
            expanded_interval(np.array([0.0, np.nan]), 0.0, independent=5)
        with pytest.raises(NonFiniteError):
            expanded_interval(np.zeros(3), math.nan, independent=5)
        with pytest.raises(TooFewError):
            expanded_interval(np.zeros(3), 0.0, independent=1)

    def test_resamples_on_one_side_move_the_interval_to_the_other(self) -> None:
        # Three quarters of the resamples lie above the score: Efron's percentiles lie lower.
        replicates = np.random.default_rng(0).normal(0.6745, 1, 200_000)

        low, high = expanded_interval(replicates, 0.0, independent=10_000, plain=replicates)

        # z0 = -.6745: the normal quantiles of 2 z0 -+ 1.96, about the resamples' own mean.
        assert (low, high) == pytest.approx((-0.6745 - 1.96, -0.6745 + 1.96), abs=0.03)

    def test_subsamples_are_parts_of_whole_groups(self) -> None:
        groups = [number // 2 for number in range(40)]

        parts = subsample(40, groups=groups, repeats=30, seed=1)

        assert set(np.unique(parts)) == {0, 1}
        assert (parts.sum(axis=1) == 10).all()
        assert (parts[:, ::2] == parts[:, 1::2]).all()
        assert len(np.unique(parts, axis=0)) > 20
        for share in (0.0, 1.0, math.nan):
            with pytest.raises(ArgumentError, match="between 0 and 1"):
                subsample(40, share=share)

    def test_an_excess_reaches_down_twice(self) -> None:
        replicates = np.random.default_rng(0).normal(0.5, 0.01, 999)
        plain = Estimate(0.5, replicates, 100, 100)

        low, high = Estimate(0.5, replicates, 100, 100, excess=0.1).interval()

        assert low == pytest.approx(plain.interval()[0] - 0.2)
        assert high == plain.interval()[1]
        assert Estimate(0.5, replicates, 100, 100, excess=-0.1).interval() == plain.interval()

    def test_effective_groups_by_hand(self) -> None:
        # Two classes of 10 and 40 with half of the images right: variances 1/40 and 1/160.
        truth = np.repeat([0, 1], [10, 40])
        predicted = np.concatenate([np.arange(10) % 2, np.arange(40) % 2])
        first, second = 0.25 / 10, 0.25 / 40
        wanted = (first + second) ** 2 / (first**2 / 9 + second**2 / 39) + 1

        assert effective_groups(count_classes(truth, predicted, 2)) == pytest.approx(wanted)
        balanced = count_classes(truth, predicted, 2, class_weighting="balanced")
        assert effective_groups(balanced) == pytest.approx(wanted)
        # Never more than there are, nor fewer than two.
        assert effective_groups(count_classes(truth, predicted, 2), images_per_group=25) == 2.0
