"""Which of two models should be used? A release that lacks night gives the wrong answer."""

import pytest
from classifiers import CLASS_OF

from pytest_semcov import (
    VerdictFailed,
    assert_condition_gap,
    assert_model_preferred,
    assert_same_choice,
    assert_synthetic_behaves_like_real,
)


@pytest.fixture
def model_1(models):
    return {"model 1": models["model 1"]}


@pytest.fixture
def model_2(models):
    return {"model 2": models["model 2"]}


@pytest.fixture
def scoring(kind):
    """The metric, and how the data set's classes are called by the models."""
    return {"metric": {"classifier": "accuracy", "detector": "map@0.5"}[kind], "class_names": CLASS_OF}


def test_original_prefers_model_1(model_1, model_2, original, scoring):
    """Night is missing, so nobody sees that model 1 fails there."""
    assert_model_preferred(model_1, model_2, original, **scoring)


def test_ideal_prefers_model_2(model_1, model_2, ideal_set, scoring):
    """With as many real night scenes as day scenes, the choice is the other one."""
    assert_model_preferred(model_2, model_1, ideal_set, **scoring)


def test_improved_prefers_model_2(model_1, model_2, improved_set, scoring):
    """Synthetic night shows it, too."""
    assert_model_preferred(model_2, model_1, improved_set, **scoring)


def test_improved_chooses_as_ideal(models, improved_set, ideal_set, scoring):
    assert_same_choice(models, improved_set, ideal_set, **scoring)


def test_rain_does_not_change_the_choice(model_1, model_2, original_with_rain, scoring):
    """A condition that both models know alike."""
    assert_model_preferred(model_1, model_2, original_with_rain, **scoring)


def test_model_1_fails_on_synthetic_night_as_on_real_night(
    model_1, synthetic_night, night, original, scoring
):
    by_day = original.subset([i for i, time in enumerate(original.column("day_night")) if time == "day"])
    assert_synthetic_behaves_like_real(model_1, synthetic_night, night, by_day, **scoring)


def test_model_1_has_a_gap_at_night(model_1, ideal_set, scoring):
    with pytest.raises(VerdictFailed, match="day_night"):
        assert_condition_gap(model_1, ideal_set, "day_night", max_gap=0.1, **scoring)
