"""Maximum mean discrepancy, its bandwidth and its permutation test."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.metrics.arrays import squared_distances
from pytest_semcov.metrics.kernel_sums import kernel_sums
from pytest_semcov.metrics.mmd import (
    median_bandwidth,
    median_bandwidth_from_distances,
    mmd_permutation_test,
    mmd_squared,
    mmd_test,
    rbf_kernel,
)


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


def test_needed_rows() -> None:
    one, many = normal(1), normal(9)
    for first, second in ((one, many), (many, one)):
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            mmd_squared(first, second, bandwidth=1.0)
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            mmd_test(first, second, bandwidth=1.0)


def mmd_by_loops(x: np.ndarray, y: np.ndarray, bandwidth: float) -> float:
    """Gretton et al. 2012, equation 3, term by term."""

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.exp(-((a.astype(float) - b) ** 2).sum() / (2 * bandwidth**2)))

    n, m = len(x), len(y)
    within_x = sum(kernel(x[i], x[j]) for i in range(n) for j in range(n) if i != j)
    within_y = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j)
    across = sum(kernel(a, b) for a in x for b in y)
    return within_x / (n * (n - 1)) + within_y / (m * (m - 1)) - 2 * across / (n * m)


@pytest.mark.parametrize(("n", "m"), [(20, 20), (25, 9), (2, 2)])
@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_mmd_as_double_loop(n: int, m: int, shift: float, offset: float) -> None:
    x, y = normal(n) + offset, normal(m, seed=1, shift=shift) + offset
    for bandwidth in (0.5, 2.0):
        expected = mmd_by_loops(x, y, bandwidth)
        assert mmd_squared(x, y, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert mmd_squared(y, x, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert mmd_test(x, y, bandwidth=bandwidth, permutations=9).squared == pytest.approx(
            expected, rel=1e-9, abs=1e-9
        )


def test_mmd_closed_forms() -> None:
    # Two constant sets at distance 3: 1 + 1 - 2 exp(-9 / 2σ²).
    x, y = np.zeros((4, 1)), np.full((3, 1), 3.0)
    assert mmd_squared(x, y, bandwidth=2.0) == pytest.approx(2 - 2 * np.exp(-9 / 8))
    assert mmd_squared(x, x, bandwidth=2.0) == pytest.approx(0, abs=1e-12)
    # A set with itself: across contains the n ones of the diagonal, within does not.
    z = normal(10)
    table = np.exp(-squared_distances(z) / 2)
    mean = (table.sum() - 10) / 90
    assert mmd_squared(z, z, bandwidth=1.0) == pytest.approx(2 * mean - 2 * table.mean())
    assert mmd_squared(z, z, bandwidth=1.0) < 0


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_bandwidth_must_be_positive(bandwidth: float) -> None:
    for call in (
        lambda: mmd_squared(normal(5), normal(5), bandwidth=bandwidth),
        lambda: mmd_test(normal(5), normal(5), bandwidth=bandwidth),
        lambda: rbf_kernel(squared_distances(normal(5)), bandwidth),
    ):
        with pytest.raises(ArgumentError, match=r"bandwidth is .*need a positive, finite number"):
            call()


def unbiased_difference_of_means(x: np.ndarray, y: np.ndarray) -> float:
    """Squared distance of the means, less what it is expected to be for equal ones."""
    difference = x.mean(axis=0) - y.mean(axis=0)
    noise = x.var(axis=0, ddof=1).sum() / len(x) + y.var(axis=0, ddof=1).sum() / len(y)
    return float(difference @ difference - noise)


def test_extreme_bandwidths() -> None:
    x, y = normal(6), normal(7, seed=1, shift=1.0)
    with pytest.raises(ArgumentError, match="far too small"):
        mmd_squared(x, y, bandwidth=1e-200)
    # No two rows are within reach of each other: nothing can be said.
    unreached = mmd_test(x, y, bandwidth=1e-6, permutations=9)
    assert (unreached.squared, unreached.p_value) == (0, 1)
    assert math.isnan(unreached.effect)
    assert unreached.interval == (-math.inf, math.inf)
    # To first order MMD² is that of the kernel -d²/2σ²: (difference of means)² / σ².
    wide = mmd_squared(x, y, bandwidth=1e3)
    assert wide == pytest.approx(unbiased_difference_of_means(x, y) / 1e6, rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"permutations": 0}, "permutations is 0"),
        ({"permutations": 9.5}, "permutations is 9.5"),
        ({"permutations": "many"}, "permutations is 'many'"),
        ({"bandwidth": "wide"}, "bandwidth is 'wide'"),
        ({"bandwidth": None}, "bandwidth is None"),
        ({"confidence": 95}, "confidence is 95"),
        ({"confidence": math.nan}, "confidence is nan"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        mmd_test(normal(5), normal(5), **{"bandwidth": 1.0, **arguments})


def weighted_lower_median(blocks: list[tuple[np.ndarray, Fraction]]) -> float:
    entries = sorted(
        (value, share / len(values)) for values, share in blocks for value in values.ravel().tolist()
    )
    passed = Fraction(0)
    for value, weight in entries:
        passed += weight
        if passed >= sum(share for _, share in blocks) / 2:
            return value
    raise AssertionError


@pytest.mark.parametrize(("n", "m"), [(8, 8), (5, 13)])
def test_median_bandwidth_from_distances(n: int, m: int) -> None:
    u, c = normal(n), 3 * normal(m, seed=1)
    across, within_u, within_c = squared_distances(u, c), squared_distances(u), squared_distances(c)
    expected = weighted_lower_median(
        [
            (across.ravel(), Fraction(1, 2)),
            (within_u[np.triu_indices(n, 1)], Fraction(1, 4)),
            (within_c[np.triu_indices(m, 1)], Fraction(1, 4)),
        ]
    )
    found = median_bandwidth_from_distances(across, within_u, within_c)
    assert 2 * found**2 == pytest.approx(expected)
    assert median_bandwidth_from_distances(across.T, within_c, within_u) == pytest.approx(found)
    assert median_bandwidth(u, c) == found


def test_median_bandwidth_from_distances_with_copies() -> None:
    zero = np.zeros((4, 4))
    assert median_bandwidth_from_distances(zero, zero, zero) == 1
    # The median is 0: the smallest positive distance takes its place.
    apart = zero.copy()
    apart[0, 1:] = apart[1:, 0] = [8.0, 50.0, 50.0]
    assert median_bandwidth_from_distances(zero, zero, apart) == pytest.approx(2.0)


def test_median_bandwidth_of_large_sets() -> None:
    x, y = normal(900), 3 * normal(500, seed=1)
    whole, some = median_bandwidth(x, y), median_bandwidth(x, y, most_rows=200)
    assert some != whole
    assert some == pytest.approx(whole, rel=0.1)
    # The choice is a function of seed and content.
    order = np.random.default_rng(0).permutation
    assert median_bandwidth(x[order(900)], y[order(500)], most_rows=200) == some
    assert median_bandwidth(x, y, most_rows=200, seed=1) != some
    with pytest.raises(ArgumentError, match="most_rows is 1"):
        median_bandwidth(x, y, most_rows=1)


def test_permutation_p_against_all_relabellings() -> None:
    x, y = normal(4, 2), normal(4, 2, seed=4, shift=1.2)
    pooled = np.concatenate([x, y])
    observed = mmd_by_loops(x, y, 1.0)
    values = [
        mmd_by_loops(pooled[list(rows)], np.delete(pooled, rows, axis=0), 1.0)
        for rows in itertools.combinations(range(8), 4)
    ]
    exact = np.mean([value >= observed - 1e-12 for value in values])
    assert 0.02 < exact < 0.5
    p_value = mmd_test(x, y, bandwidth=1.0, permutations=4999, seed=1).p_value
    assert p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4999))


def test_permutation_p_moves_whole_groups() -> None:
    # Three rows per group, three groups per side. Exactly 20 ways to choose; rows within a group are alike.
    middle = np.repeat(normal(6, 2) + np.repeat([[0.0, 0.0], [0.9, 0.9]], 3, axis=0), 3, axis=0)
    pooled = middle + 0.01 * normal(18, 2, seed=9)
    groups, first = np.repeat(np.arange(6), 3), np.arange(18) < 9
    kernel = rbf_kernel(squared_distances(pooled), 1.0)
    observed = mmd_by_loops(pooled[first], pooled[~first], 1.0)
    values = []
    for chosen in itertools.combinations(range(6), 3):
        side = np.isin(groups, chosen)
        values.append(mmd_by_loops(pooled[side], pooled[~side], 1.0))
    exact = np.mean([value >= observed - 1e-12 for value in values])
    squared, by_group = mmd_permutation_test(kernel, first, groups=groups, permutations=4999, seed=0)
    assert squared == pytest.approx(observed)
    assert by_group == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4999))
    # Row by row the same data look far more certain than three groups a side can be.
    _, by_row = mmd_permutation_test(kernel, first, permutations=4999, seed=0)
    assert by_row < exact / 5


def test_permutation_p_within_mixed_groups() -> None:
    # Every group has one row on each side, always shifted by the same step: within pairs 2⁶ exchanges.
    middle = 5 * normal(6, 1)
    pooled = np.concatenate([middle, middle + 0.3])
    first, groups = np.arange(12) < 6, np.tile(np.arange(6), 2)
    kernel = rbf_kernel(squared_distances(pooled), 1.0)
    observed = mmd_by_loops(pooled[first], pooled[~first], 1.0)
    values = []
    for flips in itertools.product([False, True], repeat=6):
        side = first ^ np.tile(flips, 2)
        values.append(mmd_by_loops(pooled[side], pooled[~side], 1.0))
    exact = np.mean([value >= observed - 1e-12 for value in values])
    _, p_value = mmd_permutation_test(kernel, first, groups=groups, permutations=1999, seed=0)
    assert p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / 1999))


def test_permutation_p_is_never_zero_and_repeats() -> None:
    x, y = normal(15), normal(15, seed=1, shift=3.0)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    found = mmd_test(x, y, bandwidth=2.0, permutations=99)
    assert found.p_value == pytest.approx(1 / 100)
    assert found.squared > 0.5
    assert (found.bandwidth, found.permutations, found.confidence) == (2.0, 99, 0.95)
    assert mmd_test(x, y, bandwidth=2.0, permutations=99) == found
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert mmd_test(x, x, bandwidth=2.0, permutations=99).p_value > 0.9
    near = normal(15, seed=2, shift=0.2)
    p_values = {mmd_test(x, near, bandwidth=2.0, permutations=99, seed=seed).p_value for seed in range(4)}
    assert len(p_values) > 1
    constant = np.ones((5, 3))
    same = mmd_test(constant, constant, bandwidth=1.0, permutations=19)
    assert (same.squared, same.p_value, same.effect, same.interval) == (0, 1, 0, (0, 0))


def test_permutation_p_keeps_its_level() -> None:
    p_values = [
        mmd_test(normal(12, seed=2 * i), normal(12, seed=2 * i + 1), bandwidth=2.0, permutations=19).p_value
        for i in range(300)
    ]
    # 5 % of 300 is 15 with a standard deviation of 3.8.
    assert 3 <= sum(p <= 0.05 for p in p_values) <= 27
    assert np.mean(p_values) == pytest.approx(0.525, abs=4 * 0.29 / np.sqrt(300))


tied = arrays(np.float64, st.tuples(st.integers(2, 9), st.just(2)), elements=st.integers(-2, 2).map(float))


@settings(deadline=None, max_examples=40)
@given(x=tied, y=tied, seed=st.integers(0, 99))
def test_nothing_depends_on_the_order_of_rows_or_sets(x: np.ndarray, y: np.ndarray, seed: int) -> None:
    order = np.random.default_rng(seed).permutation
    x, y = x / 3, y / 3
    found = mmd_test(x, y, bandwidth=0.7, permutations=29, seed=seed)
    moved = mmd_test(x[order(len(x))], y[order(len(y))], bandwidth=0.7, permutations=29, seed=seed)
    assert repr(moved) == repr(found)
    swapped = mmd_test(y, x, bandwidth=0.7, permutations=29, seed=seed)
    assert swapped.p_value == found.p_value
    for name in ("squared", "effect", "interval"):
        assert getattr(swapped, name) == pytest.approx(getattr(found, name), rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("rows", [30, 1500])
def test_moved_sets_are_as_far_apart(rows: int) -> None:
    # On a grid on which adding the offset is exact, in float32 too.
    x, y = (np.round(z * 64) / 64 for z in (normal(rows), normal(rows, seed=1, shift=0.1)))
    near, far = (
        mmd_test(
            (x + offset).astype(np.float32), (y + offset).astype(np.float32), bandwidth=2.0, permutations=19
        )
        for offset in (0, 1e4)
    )
    # Other values have another order, and with it other relabellings.
    assert far.p_value == pytest.approx(near.p_value, abs=0.5)
    assert (far.squared, far.effect) == pytest.approx((near.squared, near.effect), rel=1e-6, abs=1e-12)


# Effect size


def true_effect(width: int, shift: float, bandwidth: float) -> float:
    """Effect between two normal distributions of unit covariance, the means ``shift`` apart in each feature.

    The mean kernel across is that within times exp(-distance² / 2(σ² + 2)).
    """
    return 1 - math.exp(-width * shift**2 / (2 * (bandwidth**2 + 2)))


@pytest.mark.parametrize(("n", "m", "shift"), [(300, 300, 0.5), (500, 200, 1.0), (300, 300, 0.0)])
def test_effect_of_shifted_normals(n: int, m: int, shift: float) -> None:
    truth = true_effect(6, shift, 2.0)
    found = mmd_test(normal(n, 6), normal(m, 6, 1, shift), bandwidth=2.0, permutations=1)
    assert found.effect == pytest.approx(truth, abs=0.04)
    assert found.interval[0] <= truth <= found.interval[1]
    assert 2 * found.effect == pytest.approx(sum(found.interval))
    # MMD² over the mean kernels within, whose true value is (σ² / (σ² + 2))^(d/2).
    assert found.squared == pytest.approx(2 * truth * (4 / 6) ** 3, abs=0.02)


def test_effect_by_definition() -> None:
    x, y = normal(9), normal(6, seed=1, shift=0.7)

    def effect(a: np.ndarray, b: np.ndarray) -> float:
        inside = [
            (np.exp(-squared_distances(z) / 2).sum() - len(z)) / (len(z) * (len(z) - 1)) for z in (a, b)
        ]
        return mmd_by_loops(a, b, 1.0) / sum(inside)

    found = mmd_test(x, y, bandwidth=1.0, permutations=1, confidence=0.9)
    assert found.effect == pytest.approx(effect(x, y))
    # The jackknife, one row left out at a time.
    of_x = [effect(np.delete(x, row, axis=0), y) for row in range(9)]
    of_y = [effect(x, np.delete(y, row, axis=0)) for row in range(6)]
    variance = 8 / 9 * np.sum((of_x - np.mean(of_x)) ** 2) + 5 / 6 * np.sum((of_y - np.mean(of_y)) ** 2)
    reach = 2.015048 * math.sqrt(variance)  # t, 5 degrees of freedom, 5 % above
    assert found.interval == pytest.approx((found.effect - reach, found.effect + reach), rel=1e-6)
    # The smallest sets have no row to spare.
    assert mmd_test(x, y[:2], bandwidth=1.0, permutations=1).interval == (-math.inf, math.inf)


def test_effect_ends() -> None:
    x = normal(20)
    assert mmd_test(x, x + 100, bandwidth=2.0, permutations=1).effect == pytest.approx(1)
    small, large = (
        mmd_test(normal(n, seed=2), normal(n, seed=3, shift=0.5), bandwidth=2.0, permutations=1)
        for n in (100, 800)
    )
    # More rows narrow the interval and leave the effect.
    assert small.effect == pytest.approx(large.effect, abs=0.05)
    widths = [high - low for low, high in (small.interval, large.interval)]
    assert widths[1] < 0.5 * widths[0]


def coverage_of_the_interval(draws: int, n: int, m: int, shift: float) -> float:
    truth = true_effect(8, shift, 3.0)
    inside = 0
    for draw in range(draws):
        x, y = normal(n, 8, 2 * draw), normal(m, 8, 2 * draw + 1, shift)
        low, high = mmd_test(x, y, bandwidth=3.0, permutations=1).interval
        inside += low <= truth <= high
    return inside / draws


@pytest.mark.parametrize(("n", "m", "shift"), [(30, 30, 0.4), (60, 25, 1.0), (40, 40, 0.0)])
def test_interval_holds_the_truth(n: int, m: int, shift: float) -> None:
    # 95 % of 200 with a standard deviation of 1.5 %.
    assert coverage_of_the_interval(200, n, m, shift) >= 0.9


# Large sets


def mmd_in_float64(x: np.ndarray, y: np.ndarray, bandwidth: float) -> float:
    """From full kernel matrices, less 1 so that no digit is lost for wide kernels."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    n, m = len(x), len(y)
    within_x, within_y, across = (
        np.expm1(-squared_distances(a, b) / (2 * bandwidth**2)).sum()
        for a, b in ((x, None), (y, None), (x, y))
    )
    return float(within_x / (n * (n - 1)) + within_y / (m * (m - 1)) - 2 * across / (n * m))


def large_sets(kind: str) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    mixing = generator.normal(size=(8, 40))
    x, y = (
        generator.normal(size=(n, 8)) @ mixing / 3 + generator.normal(size=(n, 40)) / 2 + shift
        for n, shift in ((1500, 0.0), (1201, 0.2))
    )
    if kind == "far from the origin":
        x, y = x + 1e4, y + 1e4
    if kind == "half zeros":
        x, y = np.maximum(x, 0), np.maximum(y, 0)
    if kind == "unit length":
        x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    if kind == "an outlier":
        x[7] *= 1000
    if kind == "one large feature":
        x[:, 0] *= 1000
        y[:, 0] *= 1000
    if kind == "copies":
        x[::2], y[::3] = x[0], x[0]
    return x.astype(np.float32), y.astype(np.float32)


@pytest.mark.parametrize(
    "kind",
    [
        "plain",
        "far from the origin",
        "half zeros",
        "unit length",
        "an outlier",
        "one large feature",
        "copies",
    ],
)
def test_large_sets_as_in_float64(kind: str) -> None:
    x, y = large_sets(kind)
    bandwidth = median_bandwidth(x, y)
    expected = mmd_in_float64(x, y, bandwidth)
    assert abs(expected) > 1e-4
    assert mmd_squared(x, y, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-6)
    assert mmd_squared(y, x, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("factor", [0.02, 0.2, 5, 100])
def test_large_sets_at_other_bandwidths(factor: float) -> None:
    x, y = large_sets("plain")
    bandwidth = factor * median_bandwidth(x, y)
    expected = mmd_in_float64(x, y, bandwidth)
    assert mmd_squared(x, y, bandwidth=bandwidth) == pytest.approx(expected, rel=1e-6, abs=1e-15)


def test_large_permutation_test_as_from_a_table() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(1300, 5)), generator.normal(size=(1200, 5)) + 0.03
    found = mmd_test(x, y, bandwidth=2.0, permutations=299)
    kernel = rbf_kernel(squared_distances(np.concatenate([x, y])), 2.0)
    squared, p_value = mmd_permutation_test(kernel, np.arange(2500) < 1300, permutations=299, seed=1)
    assert squared == pytest.approx(mmd_in_float64(x, y, 2.0), rel=1e-9)
    assert found.squared == pytest.approx(squared, rel=1e-6)
    assert 0.02 < found.p_value < 0.98
    assert found.p_value == pytest.approx(p_value, abs=4 * math.sqrt(2 * 0.25 / 299))


def test_kernel_sums_by_definition() -> None:
    rows, labels = normal(700, 3), np.random.default_rng(0).random((700, 4)) < 0.3
    kernel = np.exp(-squared_distances(rows) / 2)
    np.fill_diagonal(kernel, 0)
    for kind, tolerance in ((np.float64, 1e-9), (np.float32, 1e-2)):
        for device in (None, "cpu"):
            sums = kernel_sums(rows.astype(kind), labels, device=device)
            reduced = kernel - sums.baseline * (1 - np.eye(700))
            np.testing.assert_allclose(sums.to_all, reduced.sum(axis=1), atol=tolerance)
            np.testing.assert_allclose(sums.to_first, reduced @ labels[:, 0], atol=tolerance)
            np.testing.assert_allclose(sums.leaving, reduced.sum(axis=1) @ labels, atol=tolerance)
            pairs = np.einsum("ip,ij,jp->p", labels, reduced, labels, optimize=True)
            np.testing.assert_allclose(sums.within, pairs, atol=tolerance)


@pytest.mark.parametrize("rows", [40, 1400])
def test_torch_gives_the_same(rows: int) -> None:
    import torch

    x, y = normal(rows).astype(np.float32), normal(rows, seed=1, shift=0.1).astype(np.float32)
    expected = mmd_test(x, y, bandwidth=2.0, permutations=99)
    computed_by_torch = mmd_test(x, y, bandwidth=2.0, permutations=99, device="cpu")
    tensors = mmd_test(torch.from_numpy(x), torch.from_numpy(y), bandwidth=2.0, permutations=99)
    assert tensors == expected
    assert computed_by_torch.p_value == expected.p_value
    assert computed_by_torch.squared == pytest.approx(expected.squared, rel=1e-5)
    assert computed_by_torch.interval == pytest.approx(expected.interval, rel=1e-5)


def test_memory_grows_with_the_rows_only() -> None:
    x, y = normal(3000, 16).astype(np.float32), normal(3000, 16, seed=1).astype(np.float32)
    tracemalloc.start()
    mmd_test(x, y, bandwidth=4.0, permutations=19)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # a kernel matrix in float32 would be 144 MB
