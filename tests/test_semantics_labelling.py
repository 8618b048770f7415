"""Zero-shot labels, labels as given, margins and certainty."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from semantics_helpers import StubEncoder, embeddings_of, samples

from pytest_semcov.errors import ArgumentError, DatasetError, NonFiniteError, UnknownSemanticError
from pytest_semcov.gates.coverage import coverage_verdict
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.semantics.descriptors import BASE_SEMANTICS, Descriptor, catalogue
from pytest_semcov.semantics.evidence import gather_evidence, unlabelled_evidence
from pytest_semcov.semantics.labelling import label_zero_shot, labels_from, paraphrase_codes
from pytest_semcov.semantics.labels import Labels
from pytest_semcov.semantics.texts import check_known, text_directions

THREE = Descriptor("three", {"a": ("text a",), "b": ("text b",), "c": ("text c",)})
AXES = {"text a": (1, 0, 0, 0), "text b": (0, 1, 0, 0), "text c": (0, 0, 1, 0)}
DAY_NIGHT = catalogue()["day_night"]


def image(*cosines: float) -> list[float]:
    """An image of length one with these cosines to the axes."""
    return [*cosines, math.sqrt(1 - sum(cosine**2 for cosine in cosines))]


def test_category_vector_is_the_normalised_mean_of_normalised_variants() -> None:
    descriptor = Descriptor("s", {"x": ("v1", "v2"), "y": ("w",)})
    encoder = StubEncoder({"v1": (3, 0, 0), "v2": (0, 0.5, 0), "w": (0, 0, 7)})
    x, y = text_directions(encoder, descriptor)
    assert x == pytest.approx([1 / math.sqrt(2), 1 / math.sqrt(2), 0])
    assert y == pytest.approx([0, 0, 1])
    turned = text_directions(encoder, Descriptor("s", {"x": ("v2", "v1"), "y": ("w",)}))
    assert turned[0] == pytest.approx(x)


def test_label_and_margin_by_hand() -> None:
    labels = label_zero_shot(embeddings_of([image(0.24, 0.22, 0.21)]), StubEncoder(AXES), THREE)
    assert labels.categories[labels.top[0]] == "a"
    assert labels.margin[0] == pytest.approx(0.02, abs=1e-6)
    assert labels.margin_buckets() == ("medium",)
    assert labels.similarity[0] == pytest.approx([0.24, 0.22, 0.21], abs=1e-6)


def test_margin_buckets_at_their_bounds() -> None:
    margins = np.array([0.00999, 0.010, 0.02499, 0.025])
    labels = Labels(
        "s", ("a", "b"), np.zeros(4, dtype=np.int64), np.zeros((4, 2)), margins, "x", tuple("1234")
    )
    assert labels.margin_buckets() == ("low", "medium", "medium", "high")


@given(st.floats(1e-3, 1e4), st.integers(0, 2**32 - 1))
def test_scaling_images_changes_nothing(factor: float, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(5, 4))
    encoder = StubEncoder(AXES)
    one = label_zero_shot(embeddings_of(rows), encoder, THREE)
    scaled = label_zero_shot(embeddings_of(rows * factor), encoder, THREE)
    assert np.array_equal(one.top, scaled.top)
    assert scaled.margin == pytest.approx(one.margin, abs=1e-6)


def test_probability_is_the_softmax_at_the_encoders_own_scale() -> None:
    cosines = (0.24, 0.22, 0.21)
    for scale in (1.0, 100.0):
        labels = label_zero_shot(
            embeddings_of([image(*cosines)]), StubEncoder(AXES, logit_scale=scale), THREE, min_certainty=0.0
        )
        weights = [math.exp(scale * cosine) for cosine in cosines]
        assert labels.probability[0] == pytest.approx(weights[0] / sum(weights), rel=1e-4)
        assert labels.codes[0] == 0


def test_below_the_certainty_bar_a_label_is_uncertain_but_keeps_its_top() -> None:
    sure, unsure = image(0.3, 0.2, 0.1), image(0.2, 0.201, 0.2)
    labels = label_zero_shot(embeddings_of([sure, unsure]), StubEncoder(AXES), THREE, min_certainty=0.6)
    assert labels.codes.tolist() == [0, -1]
    assert labels.top.tolist() == [0, 1]
    assert labels.uncertain == 1
    assert labels.counts() == {"a": 1, "b": 0, "c": 0}
    assert labels.category_of("img1.jpg") is None
    assert labels.by_id() == {"img0.jpg": "a", "img1.jpg": None}
    assert "uncertain" in str(labels)


def test_published_protocol_leaves_nothing_uncertain() -> None:
    labels = label_zero_shot(
        embeddings_of([image(0.2, 0.201, 0.2)]), StubEncoder(AXES), THREE, protocol="deduce"
    )
    assert labels.codes.tolist() == [1]


def test_every_category_of_the_eight_semantics_is_counted_and_counts_sum_to_n() -> None:
    generator = np.random.default_rng(0)
    encoder = StubEncoder({}, width=16)
    embeddings = embeddings_of(generator.normal(size=(300, 16)))
    rows = 0
    for name in BASE_SEMANTICS:
        labels = label_zero_shot(embeddings, encoder, catalogue()[name])
        counts = labels.counts()
        assert tuple(counts) == tuple(catalogue()[name].categories)
        assert sum(counts.values()) + labels.uncertain == 300
        assert all(count > 0 for count in counts.values())
        rows += len(counts)
    assert rows == 16


def test_embeddings_of_another_model_are_refused() -> None:
    with pytest.raises(ArgumentError, match="not by the encoder"):
        label_zero_shot(embeddings_of([image(0.2, 0.1, 0.1)], "other"), StubEncoder(AXES), THREE)


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
def test_an_image_that_is_no_direction_is_named(bad: float) -> None:
    with pytest.raises(NonFiniteError, match=r"img1\.jpg"):
        label_zero_shot(embeddings_of([image(0.3, 0.2, 0.1), [bad] * 4]), StubEncoder(AXES), THREE)


def test_phrases_that_cancel_out_are_named() -> None:
    descriptor = Descriptor("s", {"x": ("v1", "v2"), "y": ("w",)})
    with pytest.raises(NonFiniteError, match="prompts of 'x'"):
        text_directions(StubEncoder({"v1": (1, 0), "v2": (-1, 0), "w": (0, 1)}), descriptor)


CARD = {"day_night": {"day": ["daytime", "by day"], "night": ["Nighttime"]}}


def test_a_card_that_covers_the_prompts_labels() -> None:
    encoder = StubEncoder({"daytime": (1, 0), "nighttime": (0, 1)}, semantics=CARD)
    assert label_zero_shot(embeddings_of([(0.1, 0.9)]), encoder, DAY_NIGHT).counts() == {"day": 0, "night": 1}


@pytest.mark.parametrize(
    ("descriptor", "missing"),
    [
        (catalogue()["clear_rain"], "it knows day_night only"),
        (Descriptor("day_night", {"day": ("daytime",), "dusk": ("dusk",)}), "no category 'dusk'"),
        (
            Descriptor("day_night", {"day": ("sunshine",), "night": ("nighttime",)}),
            "the phrase 'sunshine' for 'day'",
        ),
        (
            Descriptor("day_night", dict(DAY_NIGHT.categories), scene=("harbour",)),
            "the phrase 'harbour daytime'",
        ),
    ],
)
def test_outside_the_card_leads_to_inconclusive_never_to_labels(descriptor: Descriptor, missing: str) -> None:
    encoder = StubEncoder({}, semantics=CARD)
    with pytest.raises(UnknownSemanticError, match=missing) as caught:
        label_zero_shot(embeddings_of([[0.1] * 16]), encoder, descriptor)
    assert encoder.asked == []
    verdict = coverage_verdict(unlabelled_evidence(caught.value))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    text = str(verdict)
    assert descriptor.name in text
    assert "stub" in text
    assert "open vocabulary" in text
    with pytest.raises(UnknownSemanticError):
        check_known(encoder, descriptor)


def test_wordings_of_an_open_vocabulary_are_the_prompts_in_neutral_sentences() -> None:
    encoder = StubEncoder({}, width=8)
    images = embeddings_of(np.random.default_rng(1).normal(size=(20, 8)))
    codes = paraphrase_codes(images, encoder, DAY_NIGHT)
    assert codes.shape == (4, 20)
    assert {"daytime", "a photo, daytime", "a photo, nighttime"} <= set(encoder.asked)
    alone = label_zero_shot(images, encoder, DAY_NIGHT)
    assert np.array_equal(codes[0], alone.top)


def test_wordings_of_a_card_are_its_phrases() -> None:
    encoder = StubEncoder({"daytime": (1, 0), "nighttime": (0, 1), "by day": (0, 1), "Nighttime": (1, 0)})
    encoder.semantics = {"day_night": {"day": ["daytime", "by day"], "night": ["nighttime", "Nighttime"]}}
    codes = paraphrase_codes(embeddings_of([(1, 0.2)]), encoder, DAY_NIGHT)
    assert codes.tolist() == [[0], [1]]


def test_labels_from_a_column_a_mapping_and_a_callable_agree() -> None:
    dataset = samples(["day", "night", None], time=["day", "night", ""])
    mapping = {"img0.jpg": "day", "img1.jpg": "night"}
    for source in ("label", "time", mapping, lambda sample: sample.label):
        labels = labels_from(dataset, "day_night", source)
        assert labels.codes.tolist() == [0, 1, -1]
        assert labels.categories == ("day", "night")
        assert not labels.estimated
        assert labels.counts() == {"day": 1, "night": 1}


def test_a_value_that_is_no_category_is_named_with_its_sample() -> None:
    with pytest.raises(ArgumentError, match=r"'img1\.jpg' has 'dusk'; valid categories are day, night"):
        labels_from(samples(["day", "dusk"]), "day_night", "label")


def test_without_a_descriptor_the_values_are_the_categories() -> None:
    labels = labels_from(samples(["b", "a", "b"]), "mine", "label")
    assert labels.categories == ("a", "b")
    with pytest.raises(ArgumentError, match="which other categories"):
        labels_from(samples(["a", "a"]), "mine", "label")


def test_an_empty_category_of_the_descriptor_is_counted_as_zero() -> None:
    labels = labels_from(samples(["day"] * 3), "day_night", "label")
    assert labels.counts() == {"day": 3, "night": 0}


def test_numbers_and_texts_are_never_silently_the_same() -> None:
    dataset = samples([None] * 3, rain=["0", 0, "1"])
    with pytest.raises(ArgumentError, match=r"mixed types.*img0.*img1"):
        labels_from(dataset, "rain", "rain")
    whole = labels_from(samples([None] * 3, rain=[0, 1, np.int64(1)]), "rain", "rain")
    assert whole.counts() == {"0": 1, "1": 2}
    flags = labels_from(samples([None] * 3, rain=[True, False, None]), "rain", "rain")
    assert flags.counts() == {"False": 1, "True": 1}
    gaps = labels_from(samples([None] * 3, rain=["a", "b", math.nan]), "rain", "rain")
    assert gaps.codes.tolist() == [0, 1, -1]


def test_a_mapping_for_other_images_and_a_column_that_is_not_there_are_errors() -> None:
    dataset = samples(["day", "night"])
    with pytest.raises(ArgumentError, match="none of the data set's ids"):
        labels_from(dataset, "day_night", {"0.jpg": "day"})
    with pytest.raises(DatasetError, match="no column 'weather'"):
        labels_from(dataset, "weather", "weather")
    with pytest.raises(ArgumentError, match="column name, a mapping or a callable"):
        labels_from(dataset, "day_night", 3)  # type: ignore[arg-type]


def test_evidence_of_an_encoder_says_that_its_error_is_not_known() -> None:
    labels = label_zero_shot(embeddings_of([image(0.3, 0.2, 0.1)] * 40), StubEncoder(AXES), THREE)
    verdict = coverage_verdict(gather_evidence(labels))
    assert verdict.outcome is Outcome.FAIL
    assert "error on this data is not known" in str(verdict)


def test_labels_check_their_shape_and_codes() -> None:
    with pytest.raises(ArgumentError, match="2 codes for 1 ids"):
        Labels("s", ("a", "b"), np.zeros(2, dtype=np.int64), None, None, "x", ("1",))
    with pytest.raises(ArgumentError, match="codes must lie"):
        Labels("s", ("a", "b"), np.array([2]), None, None, "x", ("1",))
    given_labels = Labels("s", ("a", "b"), np.array([1, -1]), None, None, "x", ("1", "2"))
    assert given_labels.to_dict()["counts"] == {"a": 0, "b": 1}
    with pytest.raises(ArgumentError, match="no category 'z'"):
        given_labels.mask("z")
    with pytest.raises(ArgumentError, match="no margin"):
        given_labels.margin_buckets()
    with pytest.raises(ArgumentError, match="no image"):
        given_labels.category_of("7")


def test_labels_follow_the_ids_asked_for() -> None:
    labels = label_zero_shot(
        embeddings_of([image(0.3, 0.2, 0.1), image(0.1, 0.3, 0.2), image(0.1, 0.2, 0.3)]),
        StubEncoder(AXES),
        THREE,
    )
    turned = labels.for_ids(["img2.jpg", "img0.jpg"])
    assert turned.by_id() == {"img2.jpg": "c", "img0.jpg": "a"}
    assert turned.similarity[0] == pytest.approx([0.1, 0.2, 0.3], abs=1e-6)
    assert turned.estimated
    masked = labels.select(np.array([False, True, False]))
    assert masked.ids == ("img1.jpg",)
    assert masked.margin[0] == pytest.approx(0.1, abs=1e-6)
    with pytest.raises(ArgumentError, match=r"no image '7\.jpg' \(1 of 2 missing\)"):
        labels.for_ids(["img0.jpg", "7.jpg"])
