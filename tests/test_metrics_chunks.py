"""Scores on disjoint chunks: scikit-learn's, with its balanced weights computed inside each chunk."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.chunks import chunk_draws, chunk_scores


@settings(deadline=None)
@given(st.integers(2, 12), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_chunks_are_disjoint_and_hold_all_images(chunks: int, more: int, seed: int) -> None:
    draws = chunk_draws(chunks + more, chunks=chunks, seed=seed)

    assert (draws.sum(axis=0) == 1).all()
    sizes = draws.sum(axis=1)
    assert len(sizes) == chunks
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("share", [0.5, 0.02])  # with .02, some chunks hold one class only
def test_are_scikit_learns_scores_of_each_chunk(share: float, positive: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score
    from sklearn.model_selection import KFold
    from sklearn.utils.class_weight import compute_sample_weight

    generator = np.random.default_rng(7)
    truth = (generator.random(203) < share).astype(int)
    predicted = np.where(generator.random(203) < 0.8, truth, 1 - truth)

    found = chunk_scores(truth, predicted, positive=positive)

    parts = [part for _, part in KFold(10, shuffle=True, random_state=42).split(truth)]
    for number, part in enumerate(parts):
        weights = compute_sample_weight("balanced", truth[part])
        both = (truth[part], predicted[part])
        how = {"sample_weight": weights, "pos_label": positive, "zero_division": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = [
                accuracy_score(*both, sample_weight=weights),
                precision_score(*both, **how),
                recall_score(*both, **how),
                f1_score(*both, **how),
            ]
        got = [values[number] for values in (found.accuracy, found.precision, found.recall, found.f1)]
        np.testing.assert_allclose(got, wanted, atol=1e-12)
    mean, deviation = found.summary()["f1"]
    assert mean == pytest.approx(found.f1.mean(), abs=1e-15)
    assert deviation == pytest.approx(np.sqrt(((found.f1 - mean) ** 2).mean()), abs=1e-15)


def test_too_few_images_are_named() -> None:
    with pytest.raises(TooFewError, match="5 images for 10 chunks"):
        chunk_scores([0, 1, 0, 1, 0], [0, 1, 0, 1, 1])
