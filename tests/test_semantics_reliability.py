"""Labels against reference labels and against other wordings; the verdict on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from semantics_helpers import StubEncoder, embeddings_of
from sklearn.metrics import precision_score, recall_score

from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.labels import label_reliability_verdict
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.semantics.descriptors import Descriptor
from pytest_semcov.semantics.labelling import paraphrase_codes
from pytest_semcov.semantics.labels import Labels
from pytest_semcov.semantics.reliability import (
    fleiss_kappa,
    measure_reliability,
    unlabelled_reliability,
    wording_agreement,
)

CATEGORIES = ("clear", "rain", "snow")


def labels_of(codes: list[int] | np.ndarray, categories: tuple[str, ...] = CATEGORIES) -> Labels:
    ids = tuple(f"img{row}.jpg" for row in range(len(codes)))
    return Labels("weather", categories, np.asarray(codes, dtype=np.int64), None, None, "a test", ids)


def reference_of(codes: list[int], categories: tuple[str, ...] = CATEGORIES) -> dict[str, str | None]:
    return {f"img{row}.jpg": None if code < 0 else categories[code] for row, code in enumerate(codes)}


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=1, max_size=60))
def test_precision_and_recall_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    found, truth = map(list, zip(*pairs, strict=True))
    known = [row for row, code in enumerate(truth) if code >= 0]
    if not known:
        with pytest.raises(ArgumentError, match="none of the"):
            measure_reliability(labels_of(found), reference_of(truth))
        return
    measured = measure_reliability(labels_of(found), reference_of(truth))
    y_true, y_pred = np.array(truth)[known], np.array(found)[known]
    for score, whole in ((precision_score, "labelled"), (recall_score, "actual")):
        expected = score(y_true, y_pred, labels=[0, 1, 2], average=None, zero_division=np.nan)
        for match, value in zip(measured.matches, expected, strict=True):
            total = getattr(match, whole)
            if total == 0:
                assert np.isnan(value)
            else:
                assert match.correct / total == pytest.approx(value)
    assert measured.reference == len(known)
    certain = [row for row in known if found[row] >= 0]
    for code, match in enumerate(measured.matches):
        error = match.error()
        others = [row for row in certain if truth[row] != code]
        assert error.specificity == (sum(found[row] != code for row in others), len(others))
        assert error.recall[1] == sum(truth[row] == code for row in certain)


def test_mistakes_are_listed_and_foreign_ids_left_out() -> None:
    reference = {**reference_of([0, 1, 2]), "elsewhere.jpg": "rain"}
    measured = measure_reliability(labels_of([0, 2, -1]), reference)
    assert measured.mistakes == (("img1.jpg", "snow", "rain"),)
    assert measured.reference == 3
    assert measured.uncertain == 1
    assert set(measured.label_error()) == set(CATEGORIES)


def test_a_reference_that_is_no_category_names_the_image() -> None:
    with pytest.raises(ArgumentError, match=r"'img0\.jpg' has 'fog'; valid categories are clear, rain, snow"):
        measure_reliability(labels_of([0]), {"img0.jpg": "fog"})


def test_fleiss_kappa_of_a_worked_example() -> None:
    # Ten subjects, fourteen raters, five categories: the worked example of the Wikipedia article, 0.210.
    votes = np.array(
        [
            [0, 0, 0, 0, 14],
            [0, 2, 6, 4, 2],
            [0, 0, 3, 5, 6],
            [0, 3, 9, 2, 0],
            [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0],
            [3, 2, 6, 3, 0],
            [2, 5, 3, 2, 2],
            [6, 5, 2, 1, 0],
            [0, 2, 2, 3, 7],
        ]
    )
    assert fleiss_kappa(votes) == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa(np.array([[3, 0], [0, 3]])) == 1.0
    assert fleiss_kappa(np.array([[3, 0], [3, 0]])) is None


def test_two_phrasings_that_differ_on_two_of_ten_images_agree_on_eighty_percent() -> None:
    descriptor = Descriptor(
        "day_night", {"day": ("by day", "a day photo"), "night": ("at night", "a night photo")}
    )
    encoder = StubEncoder(
        {"by day": (1, 0), "at night": (0, 1), "a day photo": (1, 0), "a night photo": (0.3, 1)},
        semantics={"day_night": {k: list(v) for k, v in descriptor.categories.items()}},
    )
    clear_day, clear_night, between = (1.0, 0.1), (0.1, 1.0), (1.0, 0.9)
    images = embeddings_of([clear_day] * 4 + [between] * 2 + [clear_night] * 4)
    agreement = wording_agreement(paraphrase_codes(images, encoder, descriptor), images.ids)
    assert agreement.wordings == 2
    assert (agreement.unanimous, agreement.images) == (8, 10)
    assert agreement.split == ("img4.jpg", "img5.jpg")
    # Two raters: (observed - expected) / (1 - expected) with 10 of 20 votes for each category.
    assert agreement.kappa == pytest.approx((0.8 - 0.5) / 0.5)


def test_one_wording_has_no_agreement() -> None:
    assert wording_agreement([[0, 1]], ["a", "b"]) is None
    with pytest.raises(ArgumentError, match="need"):
        wording_agreement([[0, 1]], ["a"])


def test_many_correct_labels_pass_with_exact_intervals() -> None:
    truth = [0] * 40 + [1] * 40
    found = [0] * 39 + [1] * 41
    categories = ("day", "night")
    measured = measure_reliability(labels_of(found, categories), reference_of(truth, categories))
    verdict = label_reliability_verdict(measured)
    assert verdict.outcome is Outcome.PASS
    single = binomtest(39, 40).proportion_ci(method="exact")
    # Any of four figures below its bar is a failure: the upper bounds hold for the four together.
    together = binomtest(39, 40).proportion_ci(1 - 0.05 / 4, method="exact")
    assert verdict["recall[day]"].interval == pytest.approx((single.low, together.high))
    assert verdict["precision[night]"].value == pytest.approx(40 / 41)
    assert verdict["agreement"].outcome is Outcome.INFO
    assert verdict.counts["reference night"] == 40
    assert "reliable" in verdict.summary


def test_few_labels_are_inconclusive_even_if_all_are_correct() -> None:
    measured = measure_reliability(
        labels_of([0] * 5 + [1] * 5, ("day", "night")), reference_of([0] * 5 + [1] * 5, ("day", "night"))
    )
    verdict = label_reliability_verdict(measured)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict["precision[day]"].value == 1.0
    assert "reference labels for more images" in str(verdict)


def test_bad_recall_fails_by_name() -> None:
    truth = [0] * 60 + [1] * 60
    found = [0] * 60 + [1] * 20 + [0] * 40
    measured = measure_reliability(labels_of(found, ("day", "night")), reference_of(truth, ("day", "night")))
    verdict = label_reliability_verdict(measured)
    assert verdict.outcome is Outcome.FAIL
    assert "recall[night]" in verdict.failed
    assert "precision[night]" not in verdict.failed
    assert "img80.jpg (day, known as night)" in str(verdict)


def test_a_category_without_reference_is_inconclusive() -> None:
    measured = measure_reliability(labels_of([0] * 50), reference_of([0] * 50))
    verdict = label_reliability_verdict(measured)
    assert verdict["recall[snow]"].outcome is Outcome.INCONCLUSIVE
    assert verdict["recall[snow]"].value is None
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_uncertain_and_agreement_have_their_bars() -> None:
    categories = ("day", "night")
    found = [0] * 60 + [1] * 60 + [-1] * 40
    measured = measure_reliability(
        labels_of(found, categories),
        reference_of([0] * 60 + [1] * 60, categories),
        agreement=wording_agreement(np.array([[0] * 10, [0] * 7 + [1] * 3]), [str(i) for i in range(10)]),
    )
    verdict = label_reliability_verdict(measured)
    assert set(verdict.failed) == {"uncertain", "agreement"}
    assert verdict["uncertain"].value == pytest.approx(0.25)
    assert verdict["agreement"].value == pytest.approx(0.7)
    assert label_reliability_verdict(measured, max_uncertain=0.3, min_agreement=0.6).passed


def test_an_agreement_that_is_demanded_but_not_measured_is_inconclusive() -> None:
    categories = ("day", "night")
    codes = [0] * 60 + [1] * 60
    measured = measure_reliability(labels_of(codes, categories), reference_of(codes, categories))
    assert label_reliability_verdict(measured).passed
    assert label_reliability_verdict(measured, min_agreement=0.5).outcome is Outcome.INCONCLUSIVE
    with pytest.raises(ArgumentError, match="min_recall"):
        label_reliability_verdict(measured, min_recall=1.2)


def test_an_unknown_semantic_is_inconclusive_and_says_why() -> None:
    error = UnknownSemanticError("clear_fog", "builtin", "it knows day_night only")
    verdict = label_reliability_verdict(unlabelled_reliability(error))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    for part in ("clear_fog", "builtin", "day_night only", "open vocabulary"):
        assert part in str(verdict)
