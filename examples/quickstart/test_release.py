"""Is the release fit for testing a model? One requirement, one test."""

import pytest

from pytest_semcov import (
    VerdictFailed,
    assert_combinations_covered,
    assert_semantic_covered,
    assert_synthetic_sufficient,
)


@pytest.mark.parametrize("semantic", ["clear_rain", "summer_winter", "noveg_veg"])
def test_condition_is_covered(semcov_dataset, semantic):
    assert_semantic_covered(semcov_dataset, semantic)


@pytest.mark.xfail(reason="night is missing until the December campaign", raises=VerdictFailed, strict=True)
def test_night_is_covered(semcov_dataset):
    assert_semantic_covered(semcov_dataset, "day_night")


def test_rain_in_every_season(semcov_dataset):
    assert_combinations_covered(semcov_dataset, ["clear_rain", "summer_winter"])


@pytest.mark.semcov_augment(
    semantic="day_night", to="night", translator="day_to_night", reference="earlier_night"
)
def test_release_with_synthetic_night(semcov_augmented):
    """Translate day scenes to night, judge them, and gate the data set they complete."""
    assert_semantic_covered(semcov_augmented, "day_night")


def test_vendor_night_is_refused(vendor_night, earlier_night, earlier_day):
    """Rainy days sold as night do not pass for night."""
    with pytest.raises(VerdictFailed, match="drift"):
        assert_synthetic_sufficient(vendor_night, real_uncovered=earlier_night, real_covered=earlier_day)
