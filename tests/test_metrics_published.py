"""The published figures: own scaling of each set, stacks, trials."""

from __future__ import annotations

import numpy as np
import pytest
from metrics_references import dataeval_core, direct_distances
from scipy.stats import cramervonmises_2samp, ks_2samp

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.feature_drift import kolmogorov_smirnov
from pytest_semcov.metrics.published import PublishedFigures, published_figures, scale_by_own_range


def normal(rows: int, seed: int, shift: float = 0.0, scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng(seed).normal(size=(rows, 3)) + shift).astype(np.float32)


U, C, S = normal(26, 0), normal(40, 1, shift=2.0), normal(20, 2, shift=0.3, scale=2.0)


def own_range(x: np.ndarray) -> np.ndarray:
    return (x - x.min()) / (x.max() - x.min())


@pytest.fixture(scope="module")
def figures() -> PublishedFigures:
    dataeval_core()
    return published_figures(U, C, S)


def test_radius_is_the_median_over_the_uncovered_rows(figures: PublishedFigures) -> None:
    u, c, s = own_range(U), own_range(C), own_range(S)
    for name, stack in {"U": [u], "U+U": [u, u], "U+C": [u, c], "U+S": [u, s], "U+C+S": [u, c, s]}.items():
        rows = np.concatenate(stack)
        # Sorted, a row's own 0 comes first: place 20 is the 20th other row.
        expected = np.median(np.sort(direct_distances(rows, rows), axis=1)[: len(u), 20])
        assert figures.radius[name] == pytest.approx(expected, rel=1e-5), name
    assert max(figures.radius["U+C"], figures.radius["U+S"]) <= figures.radius["U"]


def test_completeness_is_the_rank_entropy(figures: PublishedFigures) -> None:
    stack = np.concatenate([own_range(U), own_range(C)])
    ranks = (stack.argsort(axis=0).argsort(axis=0) + 0.5) / len(stack) - 0.5
    shares = np.linalg.svd(ranks, compute_uv=False) ** 2
    shares /= shares.sum()
    expected = np.exp(-(shares * np.log(shares)).sum()) / 3
    assert figures.completeness["U+C"] == pytest.approx(expected, rel=1e-9)
    assert set(figures.completeness) == {"U", "U+U", "U+C", "U+S", "U+C+S"}


def test_divergence_by_hand(figures: PublishedFigures) -> None:
    sets = {"U": own_range(U), "C": own_range(C), "S": own_range(S)}
    for first, second in (("U", "C"), ("U", "S"), ("C", "S")):
        x, y = sets[first], sets[second]
        pooled = np.concatenate([x, y])
        table = direct_distances(pooled, pooled)
        np.fill_diagonal(table, np.inf)
        errors = sum((i < len(x)) != (int(row.argmin()) < len(x)) for i, row in enumerate(table))
        expected = max(0.0, 1 - (len(x) + len(y)) / (2 * len(x) * len(y)) * errors)
        assert figures.divergence[f"{first}-{second}"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("detector", "test"), [("KS", ks_2samp), ("CVM", cramervonmises_2samp)])
def test_a_larger_set_is_drawn_ten_times(figures: PublishedFigures, detector: str, test: object) -> None:
    u, c = own_range(U), own_range(C)
    trials = []
    for seed in range(42, 52):
        rows = np.random.default_rng(seed).choice(40, size=26, replace=False)
        by_feature = [test(c[rows, j].astype(float), u[:, j].astype(float)).statistic for j in range(3)]  # type: ignore[operator]
        trials.append(np.mean(by_feature))
    found = figures.drift[detector]["C"]
    assert found.num_trials == 10
    assert found.distance == pytest.approx(np.mean(trials), rel=1e-5)
    assert found.distance_std == pytest.approx(np.std(trials), rel=1e-4)
    assert found.drifted == (found.drift_fraction > 0.5)


def test_a_smaller_set_is_taken_whole(figures: PublishedFigures) -> None:
    found = figures.drift["KS"]["S"]
    expected = np.mean(
        [ks_2samp(a, b).statistic for a, b in zip(own_range(U).T, own_range(S).T, strict=True)]
    )
    assert (found.num_trials, found.distance_std) == (1, 0)
    assert found.distance == pytest.approx(expected, rel=1e-5)


def test_own_scaling_hides_a_scaled_set() -> None:
    x = normal(60, 3)
    y = 3 * x + 5
    assert kolmogorov_smirnov(x, y).mean > 0.8
    assert kolmogorov_smirnov(scale_by_own_range(x), scale_by_own_range(y)).mean < 0.05
    scaled = scale_by_own_range(y)
    assert (scaled.min(), scaled.max(), scaled.dtype) == (0, 1, np.float32)
    assert (scale_by_own_range(np.full((4, 2), 9.0)) == 0).all()


def test_same_figures_again_and_no_global_random_numbers(figures: PublishedFigures) -> None:
    import torch

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_before = torch.random.get_rng_state()
    assert published_figures(U, C, S) == figures
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), torch_before)
    assert figures.to_dict()["radius"] == figures.radius


def test_refuses() -> None:
    with pytest.raises(TooFewError, match="uncovered: have 20 rows, need more than k = 20"):
        published_figures(U[:20], C, S)
    with pytest.raises(ArgumentError, match="features"):
        published_figures(U, C[:, :2], S)
    spoilt = S.copy()
    spoilt[7] = np.nan
    with pytest.raises(NonFiniteError, match="rows 7"):
        published_figures(U, C, spoilt)
