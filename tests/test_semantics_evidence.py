"""Counting: real and synthetic, groups, combinations, candidates."""

from __future__ import annotations

import numpy as np
import pytest
from semantics_helpers import StubEncoder, embeddings_of

from pytest_semcov.errors import ArgumentError
from pytest_semcov.semantics.candidates import nearest_candidates
from pytest_semcov.semantics.combinations import combination_evidence
from pytest_semcov.semantics.descriptors import Descriptor
from pytest_semcov.semantics.evidence import gather_evidence
from pytest_semcov.semantics.labelling import label_zero_shot
from pytest_semcov.semantics.labels import Labels


def labels_of(
    codes: list[int], semantic: str = "day_night", categories: tuple[str, ...] = ("day", "night")
) -> Labels:
    ids = tuple(f"img{row}.jpg" for row in range(len(codes)))
    return Labels(semantic, categories, np.asarray(codes, dtype=np.int64), None, None, "a test", ids)


def test_real_synthetic_uncertain_and_groups_are_counted_apart() -> None:
    labels = labels_of([0, 0, 0, 1, 1, -1, 1])
    evidence = gather_evidence(
        labels,
        synthetic=[False, False, False, False, True, False, True],
        groups=["a", "a", "b", "c", "a", "d", None],
    )
    assert evidence.counts == {"day": 3, "night": 1}
    assert evidence.synthetic == {"day": 0, "night": 2}
    assert evidence.uncertain == 1
    # Synthetic night of group a keeps its source's group; an image without group is its own.
    assert evidence.groups == {"day": 2, "night": 3}
    assert evidence.real == 5
    assert evidence.images == 7


def test_groups_that_nobody_knows_are_not_counted() -> None:
    assert gather_evidence(labels_of([0, 1]), groups=[None, None]).groups is None
    with pytest.raises(ArgumentError, match="one entry per image"):
        gather_evidence(labels_of([0, 1]), groups=["a"])


def test_candidates_of_given_labels_are_the_nearest_in_the_embedding() -> None:
    labels = labels_of([0, 0, 0, 0, 1, 1, -1])
    angle = np.radians([0, 40, 80, 20, 90, 95, 5])
    array = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    found = nearest_candidates(labels, "night", embeddings=array)
    # The unlabelled image first, then by angle to the two night images.
    assert [candidate.id for candidate in found] == [
        "img6.jpg",
        "img2.jpg",
        "img1.jpg",
        "img3.jpg",
        "img0.jpg",
    ]
    assert found[0].uncertain
    assert found[1].value == pytest.approx(1 - (np.cos(np.radians(10)) + np.cos(np.radians(15))) / 2)
    scaled = nearest_candidates(labels, "night", embeddings=7 * array, limit=2)
    assert [candidate.id for candidate in scaled] == ["img6.jpg", "img2.jpg"]


def test_candidates_of_an_encoder_are_those_that_lack_the_least_similarity() -> None:
    descriptor = Descriptor("s", {"x": ("x",), "y": ("y",)})
    encoder = StubEncoder({"x": (1, 0, 0), "y": (0, 1, 0)})
    rows = [(1, 0, 0), (0.9, 0.7, 0), (0, 1, 0), (0.9, 0.8999, 0)]
    labels = label_zero_shot(embeddings_of(rows), encoder, descriptor)
    assert labels.codes.tolist() == [0, 0, 1, -1]
    found = nearest_candidates(labels, "y")
    assert [candidate.id for candidate in found] == ["img3.jpg", "img1.jpg", "img0.jpg"]
    assert found[2].value == pytest.approx(1.0)
    assert found[0].uncertain
    assert not found[1].uncertain


def test_without_a_measure_there_are_no_candidates() -> None:
    assert nearest_candidates(labels_of([0, 0, 1]), "night") == ()
    assert nearest_candidates(labels_of([0, 0]), "night", embeddings=np.eye(2)) == ()
    with pytest.raises(ArgumentError, match="3 embeddings for 2 labels"):
        nearest_candidates(labels_of([0, 1]), "night", embeddings=np.eye(3))


DAY = labels_of([0, 0, 1, 1, 1, -1])
RAIN = labels_of([0, 1, 0, 1, -1, 1], "clear_rain", ("clear", "rain"))
SNOW = labels_of([0, 0, 0, 0, 0, 0], "no_snow", ("none", "snow"))


def test_pairs_are_counted_and_uncertain_images_may_be_what_fits_them() -> None:
    (evidence,) = combination_evidence([DAY, RAIN])
    assert evidence.semantic == "day_night × clear_rain"
    assert evidence.counts == {"day × clear": 1, "day × rain": 1, "night × clear": 1, "night × rain": 1}
    assert evidence.uncertain == 2
    # img4 is night, clear or rain; img5 is rain, day or night.
    assert evidence.possible == {"day × clear": 0, "day × rain": 1, "night × clear": 1, "night × rain": 2}
    assert evidence.real == 6


def test_strength_chooses_how_many_semantics_are_combined() -> None:
    assert [each.semantic for each in combination_evidence([DAY, RAIN, SNOW])] == [
        "day_night × clear_rain",
        "day_night × no_snow",
        "clear_rain × no_snow",
    ]
    (three,) = combination_evidence([DAY, RAIN, SNOW], strength=3)
    assert len(three.counts) == 8
    assert three.counts["night × rain × none"] == 1
    assert three.counts["night × rain × snow"] == 0


def test_impossible_combinations_are_left_out_and_images_labelled_so_are_uncertain() -> None:
    (evidence,) = combination_evidence([DAY, RAIN], impossible=[{"day_night": "night", "clear_rain": "rain"}])
    assert "night × rain" not in evidence.counts
    assert evidence.uncertain == 3
    assert evidence.possible == {"day × clear": 1, "day × rain": 2, "night × clear": 2}
    assert evidence.real == 6


def test_combinations_count_synthetic_images_and_groups() -> None:
    (evidence,) = combination_evidence(
        [DAY, RAIN], synthetic=[False, False, False, True, False, False], groups=list("aabbcc")
    )
    assert evidence.synthetic["night × rain"] == 1
    assert evidence.counts["night × rain"] == 0
    assert evidence.groups == {"day × clear": 1, "day × rain": 1, "night × clear": 1, "night × rain": 1}


def test_combinations_agree_with_a_count_by_hand_on_random_labels() -> None:
    generator = np.random.default_rng(0)
    first, second, third = (
        labels_of(generator.integers(-1, 3, 200).tolist(), name, ("a", "b", "c")) for name in "xyz"
    )
    for evidence in combination_evidence([first, second, third]):
        assert sum(evidence.counts.values()) + evidence.uncertain == 200
    (evidence,) = combination_evidence([first, second, third], strength=3)
    rows = list(zip(first.codes.tolist(), second.codes.tolist(), third.codes.tolist(), strict=True))
    assert evidence.counts["b × a × c"] == rows.count((1, 0, 2))
    fits = [
        row
        for row in rows
        if -1 in row and all(code in (-1, want) for code, want in zip(row, (1, 0, 2), strict=True))
    ]
    assert evidence.possible["b × a × c"] == len(fits)


@pytest.mark.parametrize(
    ("labels", "options", "named"),
    [
        ([DAY], {}, "two or more"),
        ([DAY, DAY], {}, "twice"),
        ([DAY, RAIN], {"strength": 3}, "between 2 and 2"),
        ([DAY, labels_of([0], "clear_rain")], {}, "not of the same images"),
        ([DAY, RAIN], {"impossible": [{"day_night": "night"}]}, "two or more semantics"),
        ([DAY, RAIN], {"impossible": [{"day_night": "night", "fog": "x"}]}, "no semantic 'fog'"),
        ([DAY, RAIN], {"impossible": [{"day_night": "dusk", "clear_rain": "rain"}]}, "no category 'dusk'"),
        ([DAY, RAIN], {"groups": ["a"]}, "one entry per image"),
    ],
)
def test_wrong_combinations_are_one_clear_error(labels: list[Labels], options: dict, named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        combination_evidence(labels, **options)
