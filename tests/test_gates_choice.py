"""Choices between models: decided where the difference is large, left open where it is not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.choice import (
    condition_gap_verdict,
    likeness_verdict,
    preference_verdict,
    same_choice_verdict,
)
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.metrics.resampling import Estimate


def score(value: float, *, spread: float = 0.02, seed: int = 0, groups: int = 100) -> Estimate:
    noise = np.random.default_rng(seed).normal(0, spread, 999)
    return Estimate(value, value + noise, groups, groups)


class TestPreference:
    def verdict(self, **scores: Estimate) -> Any:
        return preference_verdict("new", scores, subject="release", metric="accuracy")

    def test_better_worse_and_alike(self) -> None:
        old = score(0.7)

        assert self.verdict(new=score(0.9, seed=1), old=old).outcome is Outcome.PASS
        assert self.verdict(new=score(0.5, seed=1), old=old).outcome is Outcome.FAIL
        assert self.verdict(new=score(0.73, seed=1), old=old).outcome is Outcome.INCONCLUSIVE
        assert self.verdict(new=old, old=old).outcome is Outcome.INCONCLUSIVE

    def test_says_what_was_seen(self) -> None:
        verdict = self.verdict(new=score(0.9, seed=1), old=score(0.7))

        assert verdict.summary == "release: new is preferred by accuracy (new 0.9, old 0.7)"
        assert verdict["advantage[old]"].value == pytest.approx(0.2)

    def test_all_others_must_be_beaten(self) -> None:
        others = {f"old{n}": score(0.7, seed=n + 2) for n in range(3)}

        assert self.verdict(new=score(0.9, seed=1), **others).passed
        verdict = self.verdict(new=score(0.9, seed=1), **others, best=score(0.99, seed=9))
        assert verdict.failed == ("advantage[best]",)

    def test_many_comparisons_widen_the_intervals(self) -> None:
        one = self.verdict(new=score(0.9, seed=1), old0=score(0.7, seed=2))
        many = self.verdict(new=score(0.9, seed=1), **{f"old{n}": score(0.7, seed=n + 2) for n in range(9)})

        def width(verdict: Any) -> float:
            low, high = verdict["advantage[old0]"].interval
            return float(high - low)

        assert width(many) > 1.2 * width(one)

    def test_errors_and_margins(self) -> None:
        scores = {"new": score(0.1, seed=1), "old": score(0.3)}

        assert preference_verdict(
            "new", scores, subject="x", metric="calibration_error", higher_is_better=False
        ).passed
        assert preference_verdict("new", scores, subject="x", metric="accuracy").outcome is Outcome.FAIL
        assert (
            preference_verdict(
                "new", scores, subject="x", metric="error", higher_is_better=False, margin=0.3
            ).outcome
            is Outcome.FAIL
        )

    @pytest.mark.parametrize(
        "bad", [Estimate(math.nan, np.zeros(9), 5, 5), Estimate(0.5, np.full(9, math.nan), 5, 5)]
    )
    def test_nan_decides_nothing(self, bad: Estimate) -> None:
        good = Estimate(0.9, np.full(9, 0.9), 5, 5)

        assert self.verdict(new=good, old=bad).outcome is Outcome.INCONCLUSIVE
        assert self.verdict(new=bad, old=good).outcome is Outcome.INCONCLUSIVE

    def test_one_group_decides_nothing(self) -> None:
        verdict = self.verdict(new=score(0.9, groups=1), old=score(0.1, groups=1))

        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "fewer than 10 independent images" in verdict["advantage[old]"].note

    def test_needs_two_models(self) -> None:
        with pytest.raises(ArgumentError, match="at least one other model"):
            self.verdict(new=score(0.9))
        with pytest.raises(ArgumentError, match="resamples"):
            self.verdict(new=score(0.9), old=Estimate(0.5, np.zeros(5), 100, 100))


class TestSameChoice:
    def verdict(self, improved: dict[str, float], ideal: dict[str, float]) -> Any:
        sets = {
            name: {model: score(value, seed=n) for n, (model, value) in enumerate(values.items())}
            for name, values in (("improved", improved), ("ideal", ideal))
        }
        return same_choice_verdict(sets, subject="models", metric="accuracy")

    def test_same_other_and_undecided(self) -> None:
        assert self.verdict({"a": 0.6, "b": 0.8}, {"a": 0.5, "b": 0.9}).passed
        other = self.verdict({"a": 0.9, "b": 0.6}, {"a": 0.5, "b": 0.9})
        assert other.outcome is Outcome.FAIL
        assert "improved chooses a and ideal b" in other.summary
        undecided = self.verdict({"a": 0.7, "b": 0.71}, {"a": 0.5, "b": 0.9})
        assert undecided.outcome is Outcome.INCONCLUSIVE
        assert "improved cannot tell which model is best" in undecided.summary

    def test_the_best_of_three_must_beat_both(self) -> None:
        assert (
            self.verdict({"a": 0.6, "b": 0.8, "c": 0.79}, {"a": 0.5, "b": 0.9, "c": 0.6}).outcome
            is Outcome.INCONCLUSIVE
        )

    def test_nan_chooses_nothing(self) -> None:
        bad = Estimate(math.nan, np.zeros(999), 50, 50)
        verdict = same_choice_verdict(
            {"improved": {"a": bad, "b": score(0.9)}, "ideal": {"a": score(0.1), "b": score(0.9, seed=1)}},
            subject="models",
            metric="map",
        )

        assert verdict.outcome is Outcome.INCONCLUSIVE

    def test_needs_the_same_models(self) -> None:
        with pytest.raises(ArgumentError, match="improved has scores of a, b, ideal of a, c"):
            self.verdict({"a": 0.6, "b": 0.8}, {"a": 0.5, "c": 0.9})
        with pytest.raises(ArgumentError, match="at least two models"):
            self.verdict({"a": 0.6}, {"a": 0.5})


class TestLikeness:
    def verdict(self, **models: tuple[float, float, float]) -> Any:
        """Return the verdict for scores on (covered, real, synthetic)."""
        sets: list[dict[str, Estimate]] = [{}, {}, {}]
        for number, (model, values) in enumerate(models.items()):
            for place, value in enumerate(values):
                sets[place][model] = score(value, spread=0.01, seed=10 * number + place)
        covered, real, synthetic = sets
        return likeness_verdict(synthetic, real, covered, subject="synthetic night", metric="accuracy")

    @pytest.mark.parametrize(
        ("synthetic", "outcome"),
        [
            (0.6, Outcome.PASS),
            (0.9, Outcome.FAIL),  # as on covered images
            (0.75, Outcome.INCONCLUSIVE),  # half way
            (0.2, Outcome.FAIL),  # far worse than on real ones
            (0.55, Outcome.PASS),
        ],
    )
    def test_a_model_with_a_gap(self, synthetic: float, outcome: Outcome) -> None:
        assert self.verdict(m=(0.9, 0.6, synthetic)).outcome is outcome

    def test_the_gap_may_be_the_other_way_round(self) -> None:
        assert self.verdict(m=(0.6, 0.9, 0.9)).passed
        assert self.verdict(m=(0.6, 0.9, 0.6)).failed == ("share[m]",)

    def test_a_model_without_a_gap_is_held_against_the_others(self) -> None:
        assert self.verdict(m=(0.9, 0.6, 0.6), n=(0.9, 0.9, 0.9)).passed
        assert self.verdict(m=(0.9, 0.6, 0.6), n=(0.9, 0.9, 0.5)).failed == ("difference[n]",)

    def test_without_any_gap_nothing_can_be_told(self) -> None:
        verdict = self.verdict(m=(0.9, 0.9, 0.9))

        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "none scores otherwise" in verdict.summary

    def test_needs_the_same_models(self) -> None:
        with pytest.raises(ArgumentError, match="the same models"):
            likeness_verdict(
                {"a": score(1)}, {"b": score(1)}, {"a": score(1)}, subject="x", metric="accuracy"
            )


class TestConditionGap:
    def verdict(self, max_gap: float = 0.1, **values: float) -> Any:
        scores = {name: score(value, spread=0.01, seed=n) for n, (name, value) in enumerate(values.items())}
        return condition_gap_verdict(scores, subject="model", metric="accuracy", max_gap=max_gap)

    def test_small_large_and_undecided(self) -> None:
        assert self.verdict(day=0.9, night=0.88).passed
        assert self.verdict(day=0.9, night=0.6).failed == ("gap[day - night]",)
        assert self.verdict(day=0.6, night=0.9).failed == ("gap[night - day]",)
        assert self.verdict(day=0.9, night=0.8).outcome is Outcome.INCONCLUSIVE

    def test_every_pair(self) -> None:
        verdict = self.verdict(day=0.9, dusk=0.88, night=0.6)

        assert verdict.failed == ("gap[day - night]", "gap[dusk - night]")
        assert verdict["gap[day - dusk]"].outcome is Outcome.PASS

    def test_arguments(self) -> None:
        with pytest.raises(ArgumentError, match="two categories"):
            self.verdict(day=0.9)
        with pytest.raises(ArgumentError, match="max_gap above 0"):
            self.verdict(max_gap=0.0, day=0.9, night=0.8)
