"""Gate a folder of photographs."""

import pytest

from pytest_semcov import VerdictFailed, assert_semantic_covered, assert_synthetic_sufficient


def test_release_covers_night(semcov_dataset):
    assert_semantic_covered(semcov_dataset, "day_night")


@pytest.mark.xfail(reason="the draft had 20 night images", raises=VerdictFailed, strict=True)
def test_draft_covers_night(draft_release):
    assert_semantic_covered(draft_release, "day_night")


def test_day_does_not_pass_for_night(semcov_dataset):
    """Day images handed in as synthetic night are refused."""
    labels = semcov_dataset.column("label")
    day = semcov_dataset.subset([index for index, label in enumerate(labels) if label == "day"])
    with pytest.raises(VerdictFailed, match="identity"):
        assert_synthetic_sufficient(day, real=semcov_dataset, semantic="day_night", uncovered="night")
