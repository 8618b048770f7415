"""What all metrics do with their arrays: validation, types, order, place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from metrics_references import ONE_SET, TWO_SETS, direct_distances

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.arrays import (
    as_doubles,
    as_embeddings,
    canonical_order,
    distances,
    distinct_rows,
    group_codes,
    nearest_distances,
    require_rows,
    squared_distances,
)
from pytest_semcov.metrics.neighbours import coverage_radius

one_set = pytest.mark.parametrize("metric", ONE_SET.values(), ids=ONE_SET)
two_sets = pytest.mark.parametrize("metric", TWO_SETS.values(), ids=TWO_SETS)
# Small whole numbers make ties and equal rows likely.
tied = arrays(np.float64, st.tuples(st.integers(4, 12), st.just(3)), elements=st.integers(-3, 3).map(float))
fine = arrays(
    np.float64, st.tuples(st.integers(4, 12), st.just(3)), elements=st.floats(-4, 4, width=16).map(float)
)


def normal(rows: int = 20, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


# Types and shapes


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.int8, np.float64),
        (np.uint8, np.float64),
        (np.bool_, np.float64),
    ],
)
def test_types(given_type: Any, kept: Any) -> None:
    array = as_embeddings(np.ones((2, 3), dtype=given_type))
    assert array.dtype == kept
    assert (array == 1).all()
    assert as_doubles(array).dtype == np.float64


def test_float64_keeps_its_digits() -> None:
    # In float32 all rows would be the same number.
    x = 1 + 1e-10 * np.arange(8.0)[:, None]
    assert coverage_radius(x, k=1) == pytest.approx(1e-10, rel=1e-5)
    assert coverage_radius(x.astype(np.float32), k=1) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones(3),
        np.ones((2, 2, 2)),
        1.0,
        None,
        [[1, 2], [3]],
        [["a"]],
        np.ones((2, 2), complex),
        [[1, None]],
    ],
    ids=["1-d", "3-d", "scalar", "None", "ragged", "text", "complex", "object"],
)
def test_not_an_array_of_numbers(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="some set"):
        as_embeddings(wrong, name="some set")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@two_sets
def test_empty_is_an_error(metric: Any, shape: tuple[int, int]) -> None:
    with pytest.raises(TooFewError, match="empty"):
        metric(np.empty(shape), normal())
    with pytest.raises(TooFewError, match="empty"):
        metric(normal(), np.empty(shape))


@one_set
def test_empty_single_set(metric: Any) -> None:
    with pytest.raises(TooFewError, match="empty"):
        metric(np.empty((0, 4)))


@two_sets
def test_widths_must_agree(metric: Any) -> None:
    with pytest.raises(ArgumentError, match="features"):
        metric(normal(width=4), normal(width=5))
    with pytest.raises(ArgumentError, match="features"):
        metric(normal(width=5), normal(width=4))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@two_sets
def test_non_finite_rows_are_listed(metric: Any, bad: float) -> None:
    spoilt = normal()
    spoilt[[3, 17], [0, 2]] = bad
    for values in (spoilt, spoilt.astype(np.float32), spoilt.astype(np.float16)):
        with pytest.raises(NonFiniteError, match=r"2 of 20 rows .*\(rows 3, 17\)"):
            metric(values, normal())
        with pytest.raises(NonFiniteError, match=r"2 of 20 rows .*\(rows 3, 17\)"):
            metric(normal(), values)


@one_set
def test_non_finite_rows_of_a_single_set(metric: Any) -> None:
    spoilt = normal()
    spoilt[5, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"1 of 20 rows .*\(rows 5\)"):
        metric(spoilt)


def test_long_lists_of_rows_are_cut() -> None:
    with pytest.raises(NonFiniteError, match=r"30 of 30 rows .*rows 0, 1, .*, 9 and 20 more\)"):
        as_embeddings(np.full((30, 2), np.nan))


def test_rows_and_groups() -> None:
    require_rows("some set", 3, 3, "anything")
    with pytest.raises(TooFewError, match="some set: have 2 rows, need at least 3 for anything"):
        require_rows("some set", 2, 3, "anything")
    assert group_codes(None, 2, name="set") is None
    assert group_codes(["a", 1], 2, name="set") == ["a", "1"]
    with pytest.raises(ArgumentError, match="1 groups for 2 rows"):
        group_codes(["a"], 2, name="set")
    for missing in (None, float("nan")):
        with pytest.raises(ArgumentError, match="row 1"):
            group_codes(["a", missing], 2, name="set")


# The same numbers in another container or type


def same_numbers(x: np.ndarray) -> dict[str, Any]:
    """The float32 array x in containers that change none of its values."""
    import torch

    wide = np.zeros((2 * len(x), x.shape[1]), np.float32)
    wide[::2] = x
    return {
        "float64": x.astype(np.float64),
        "every other row": wide[::2],
        "Fortran order": np.asfortranarray(x),
        "other byte order": x.astype(">f4"),
        "read-only": np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
        "lists": x.tolist(),
        "torch": torch.from_numpy(x.copy()),
        "torch with gradient": torch.from_numpy(x.copy()).requires_grad_(),
        "torch, not contiguous": torch.from_numpy(np.ascontiguousarray(x.T)).T,
        "embeddings": SimpleNamespace(array=x),
    }


@two_sets
def test_containers_of_two_sets(metric: Any) -> None:
    x, y = normal().astype(np.float32), normal(15, seed=1, shift=0.3).astype(np.float32)
    expected = metric(x, y)
    for name, values in same_numbers(x).items():
        np.testing.assert_allclose(metric(values, y), expected, rtol=1e-12, err_msg=name)
    for name, values in same_numbers(y).items():
        np.testing.assert_allclose(metric(x, values), expected, rtol=1e-12, err_msg=name)


@one_set
def test_containers_of_one_set(metric: Any) -> None:
    x = normal().astype(np.float32)
    for name, values in same_numbers(x).items():
        assert metric(values) == pytest.approx(metric(x), rel=1e-12), name


@two_sets
def test_half_precision_is_its_float32_copy(metric: Any) -> None:
    import torch

    x, y = normal().astype(np.float16), normal(15, seed=1, shift=0.3).astype(np.float16)
    expected = metric(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(metric(x, y), expected, rtol=1e-12)
    np.testing.assert_allclose(metric(torch.from_numpy(x), y), expected, rtol=1e-12)
    brain = torch.from_numpy(normal()).to(torch.bfloat16)
    np.testing.assert_allclose(metric(brain, y), metric(brain.double().numpy(), y), rtol=1e-12)


@two_sets
def test_input_is_left_alone(metric: Any) -> None:
    x, y = normal(), normal(15, seed=1)
    metric(x, y)
    assert (x == normal()).all()
    assert (y == normal(15, seed=1)).all()


# Order and place of the rows


@two_sets
@settings(deadline=None, max_examples=25)
@given(x=tied, y=tied, seed=st.integers(0, 99))
def test_row_order_of_two_sets(metric: Any, x: np.ndarray, y: np.ndarray, seed: int) -> None:
    generator = np.random.default_rng(seed)
    # Thirds are not exact in binary, so that equal distances are computed with different rounding.
    x, y = x / 3, y / 3
    shuffled = metric(x[generator.permutation(len(x))], y[generator.permutation(len(y))])
    np.testing.assert_allclose(shuffled, metric(x, y), rtol=1e-9, atol=1e-9)


@one_set
@settings(deadline=None, max_examples=25)
@given(x=tied, seed=st.integers(0, 99))
def test_row_order_of_one_set(metric: Any, x: np.ndarray, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(x))
    assert metric(x[order] / 3) == pytest.approx(metric(x / 3), rel=1e-9, abs=1e-12)


@two_sets
@settings(deadline=None, max_examples=25)
@given(x=fine, y=fine, offset=st.sampled_from([-64.0, 2.0**20, 1e4]))
def test_translation_of_two_sets(metric: Any, x: np.ndarray, y: np.ndarray, offset: float) -> None:
    # Snapped to a grid on which adding the offset is exact: the moved sets are the same sets.
    x, y = np.round(x * 1024) / 1024, np.round(y * 1024) / 1024
    moved = metric(x + offset, y + offset)
    np.testing.assert_allclose(moved, metric(x, y), rtol=1e-7, atol=1e-9)


@one_set
@settings(deadline=None, max_examples=25)
@given(x=fine, offset=st.sampled_from([-64.0, 2.0**20, 1e4]))
def test_translation_of_one_set(metric: Any, x: np.ndarray, offset: float) -> None:
    x = np.round(x * 1024) / 1024
    assert metric(x + offset) == pytest.approx(metric(x), rel=1e-7, abs=1e-12)


# Distances


@settings(deadline=None, max_examples=40)
@given(
    x=fine,
    y=fine,
    offset=st.sampled_from([0.0, 1e2, 1e4, 1e8]),
    scale=st.sampled_from([1.0, 1e-6, 1e6]),
    copies=st.booleans(),
)
@example(x=np.zeros((4, 3)), y=np.eye(3), offset=1e8, scale=1.0, copies=True)
def test_distances_are_those_of_the_differences(
    x: np.ndarray, y: np.ndarray, offset: float, scale: float, copies: bool
) -> None:
    x, y = x * scale + offset, y * scale + offset
    if copies:
        y = np.concatenate([y, x, np.nextafter(x, np.inf)])
    np.testing.assert_allclose(distances(x, y), direct_distances(x, y), rtol=1e-7, atol=0)
    np.testing.assert_allclose(distances(y), direct_distances(y, y), rtol=1e-7, atol=0)
    within = squared_distances(y)
    assert (within == within.T).all()
    assert (np.diag(within) == 0).all()


def test_one_far_row_does_not_blur_the_others() -> None:
    x = np.concatenate([1e-3 * normal(30), [[1e7, 0, 0, 0]]])
    np.testing.assert_allclose(distances(x), direct_distances(x, x), rtol=1e-7, atol=0)


def test_float32_far_from_the_origin() -> None:
    x = (normal(40, 16) + 1e4).astype(np.float32)
    np.testing.assert_allclose(distances(x), direct_distances(x, x), rtol=1e-7, atol=0)


def test_squares_beyond_float64_are_an_error() -> None:
    x = np.array([[1e150, 0.0], [-1e150, 0.0]])
    assert distances(x)[0, 1] == pytest.approx(2e150)
    for a, b in ((10 * x, None), (10 * x, x), (x, 10 * x)):
        with pytest.raises(ArgumentError, match=r"1e\+151: above 1e\+150 .* divide all sets by one number"):
            squared_distances(a, b)


def test_nearest_distances() -> None:
    x, y = normal(30), normal(50, seed=1)
    np.testing.assert_allclose(nearest_distances(x, y), direct_distances(x, y).min(axis=1), rtol=1e-12)


@settings(deadline=None, max_examples=40)
@given(x=tied, single=st.booleans())
def test_distinct_rows(x: np.ndarray, single: bool) -> None:
    x = x * np.array([1.0, -0.0, 0.1])  # zeros of both signs are one number
    if single:
        x = x.astype(np.float32)
    distinct, place = distinct_rows(x)
    assert len({tuple(row) for row in (x + 0.0).tolist()}) == len(distinct)
    assert (distinct[place] == x).all()
    assert distinct.dtype == x.dtype
    assert (np.sort(np.unique(place, return_index=True)[1]) == np.unique(place, return_index=True)[1]).all()


def test_distinct_rows_of_huge_numbers() -> None:
    x = np.array([[1e308, 1e308], [1e308, -1e308], [1e308, 1e308]])
    assert distinct_rows(x)[1].tolist() == [0, 1, 0]


@settings(deadline=None, max_examples=25)
@given(x=tied, seed=st.integers(0, 99))
def test_canonical_order_knows_the_content_only(x: np.ndarray, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(x))
    shuffled = x[order]
    assert sorted(canonical_order(x)) == list(range(len(x)))
    assert (x[canonical_order(x)] == shuffled[canonical_order(shuffled)]).all()
    assert (canonical_order(-0.0 * x) == canonical_order(0.0 * x)).all()
    groups = [str(row % 3) for row in range(len(x))]
    moved = [groups[row] for row in order]
    first = [(tuple(x[row]), groups[row]) for row in canonical_order(x, groups)]
    assert first == [(tuple(shuffled[row]), moved[row]) for row in canonical_order(shuffled, moved)]
