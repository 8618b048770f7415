"""Embedding matrices: validation, canonical row order, exact distances.

Every metric takes its arrays through :func:`as_embeddings` first, so that a
NaN, an empty set or a mismatch of widths is one clear error and never a
number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError

Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
_Number = TypeVar("_Number", bound=np.floating[Any])

_SHOWN_ROWS = 10
# Relative size of a squared distance below which the expansion |a|² + |b|² - 2ab has lost too many digits.
_CANCELLATION = 1e-7
_BLOCK_VALUES = 4_000_000
_LARGEST = 1e150


def as_embeddings(values: ArrayLike, *, name: str = "embeddings") -> Floats:
    """Return embeddings as a finite two-dimensional floating array.

    Parameters
    ----------
    values
        ``(n, d)`` numbers: an array, nested sequences, a torch tensor (any device) or an object
        whose ``array`` attribute is one of these.
    name
        What the set is called in error messages.

    Returns
    -------
    array
        ``(n, d)``; float32 and float64 keep their type, float16 and bfloat16 become float32, integers
        and booleans float64.

    Raises
    ------
    ArgumentError
        If the values are not a two-dimensional array of real numbers.
    TooFewError
        If there are no rows or no columns.
    NonFiniteError
        If a row holds NaN or infinity; the message lists the rows.
    """
    inner = getattr(values, "array", None)
    array = _numpy(values if inner is None or callable(inner) else inner, name)
    if array.ndim != 2:
        raise ArgumentError(f"{name} have shape {array.shape}: need two dimensions, (images, features)")
    if 0 in array.shape:
        raise TooFewError(f"{name} are empty (shape {array.shape}): need at least one row and one column")
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    elif array.dtype.kind in "iub":
        array = array.astype(np.float64)
    elif array.dtype.kind != "f":
        raise ArgumentError(f"{name} hold {array.dtype} values: need real numbers")
    if not np.isfinite(array).all():
        rows = np.flatnonzero(~np.isfinite(array).all(axis=1))
        shown = ", ".join(str(row) for row in rows[:_SHOWN_ROWS])
        more = f" and {len(rows) - _SHOWN_ROWS} more" if len(rows) > _SHOWN_ROWS else ""
        raise NonFiniteError(
            f"{name}: {len(rows)} of {len(array)} rows hold NaN or infinity (rows {shown}{more}); "
            "remove or recompute them"
        )
    return array


def _numpy(values: Any, name: str) -> NDArray[Any]:
    if hasattr(values, "detach"):  # a torch tensor; numpy knows no bfloat16
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
        return np.asarray(values.numpy())
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ArgumentError(f"{name} are no array: {error}") from error


def as_doubles(values: ArrayLike, *, name: str = "embeddings") -> Doubles:
    """Return :func:`as_embeddings` of the values in float64, C-contiguous."""
    return np.ascontiguousarray(as_embeddings(values, name=name), dtype=np.float64)


def require_same_width(*named: tuple[str, Floats]) -> None:
    """Check that all sets have the same number of features.

    Raises
    ------
    ArgumentError
        If two widths differ, whichever is larger.
    """
    (first_name, first), *others = named
    for name, array in others:
        if array.shape[1] != first.shape[1]:
            raise ArgumentError(
                f"{first_name} have {first.shape[1]} features and {name} {array.shape[1]}: "
                "all sets must be embedded by one model"
            )


def require_rows(name: str, have: int, need: int, purpose: str) -> None:
    """Check that a set is large enough.

    Raises
    ------
    TooFewError
        If ``have < need``; the message names both numbers.
    """
    if have < need:
        raise TooFewError(f"{name}: have {have} rows, need at least {need} for {purpose}")


def squared_distances(a: Floats, b: Floats | None = None) -> Doubles:
    """Squared Euclidean distances, exact for equal and nearly equal rows.

    The usual expansion on centred data in float64; pairs so close that the
    expansion cancels are computed again from their differences, so that equal
    rows are at distance exactly 0 wherever the data lie.

    Parameters
    ----------
    a
        ``(n, d)``.
    b
        ``(m, d)``, or ``None`` for the distances within ``a`` (symmetric, zero diagonal).

    Returns
    -------
    squared
        ``(n, m)`` float64.

    Raises
    ------
    ArgumentError
        If values are so large that their squares are beyond float64.
    """
    within = b is None
    left = np.asarray(a, dtype=np.float64)
    right = left if b is None else np.asarray(b, dtype=np.float64)
    largest = max(float(np.abs(left).max()), float(np.abs(right).max()))
    if largest > _LARGEST:
        raise ArgumentError(
            f"embeddings hold values of {largest:.3g}: above {_LARGEST:.0e} squared distances are too large "
            "for a float64; divide all sets by one number"
        )
    # Equal rows are computed once: a set of copies would otherwise need every pair again.
    left, left_rows = distinct_rows(left)
    right, right_rows = (left, left_rows) if within else distinct_rows(right)
    centre = (left.mean(axis=0) + right.mean(axis=0)) / 2
    x = left - centre
    y = x if within else right - centre
    norms = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", y, y)[None, :]
    squared: Doubles = norms - 2 * (x @ y.T)
    close = squared <= _CANCELLATION * norms
    if within:
        close &= ~np.eye(len(x), dtype=bool)
    rows, columns = np.nonzero(close)
    step = max(1, _BLOCK_VALUES // x.shape[1])
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], columns[start : start + step]
        difference = left[i] - right[j]
        squared[i, j] = np.einsum("ij,ij->i", difference, difference)
    if within:
        squared = (squared + squared.T) / 2
        np.fill_diagonal(squared, 0.0)
    np.maximum(squared, 0.0, out=squared)
    if len(left_rows) != len(left) or len(right_rows) != len(right):
        squared = squared[np.ix_(left_rows, right_rows)]
    return squared


def distinct_rows(array: NDArray[_Number]) -> tuple[NDArray[_Number], Indices]:
    """Return the distinct rows, in order of first appearance, and each row's place among them.

    The array itself where no row occurs twice.
    """
    # Equal rows have equal sums; only rows whose sum occurs twice need be compared.
    weights = np.random.default_rng(0).standard_normal((array.shape[1],)).astype(array.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.einsum("ij,j->i", array, weights)
    _, place, counts = np.unique(sums, return_inverse=True, return_counts=True)
    suspects = np.flatnonzero((counts[place] > 1) | ~np.isfinite(sums))
    first = np.arange(len(array))
    seen: dict[bytes, int] = {}
    for row, key in zip(suspects.tolist(), row_keys(array[suspects]), strict=True):
        first[row] = seen.setdefault(key, row)
    distinct = np.flatnonzero(first == np.arange(len(array)))
    if len(distinct) == len(array):
        return array, first
    return array[distinct], np.searchsorted(distinct, first)


def distances(a: Floats, b: Floats | None = None) -> Doubles:
    """Euclidean distances: the root of :func:`squared_distances`."""
    squared = squared_distances(a, b)
    return np.sqrt(squared, out=squared)


def nearest_distances(queries: Floats, reference: Floats) -> Doubles:
    """Euclidean distance from each query to the nearest reference row, in blocks of the reference.

    Parameters
    ----------
    queries, reference
        ``(m, d)`` and ``(n, d)``.

    Returns
    -------
    distance
        ``(m,)`` float64.
    """
    nearest = np.full(len(queries), np.inf)
    step = max(1, _BLOCK_VALUES // len(queries))
    for start in range(0, len(reference), step):
        block = squared_distances(queries, reference[start : start + step])
        np.minimum(nearest, block.min(axis=1), out=nearest)
    return np.asarray(np.sqrt(nearest))


def row_keys(array: Floats) -> list[bytes]:
    """Return one key per row: equal values, equal key (in float64, both zeros alike)."""
    doubles = np.ascontiguousarray(array, dtype=np.float64) + 0.0
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in doubles]


def canonical_order(array: Floats, groups: Sequence[object] | None = None) -> Indices:
    """Return an order of the rows that depends on their content (and group) only.

    Random draws made after sorting by it do not depend on the order in which
    the rows came.
    """
    names = [""] * len(array) if groups is None else [str(group) for group in groups]
    keys = list(zip(row_keys(array), names, strict=True))
    return np.asarray(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def group_codes(groups: Sequence[object] | None, rows: int, *, name: str) -> list[str] | None:
    """Return group names as text, checked against the number of rows.

    Raises
    ------
    ArgumentError
        If there is not one group per row, or one is missing.
    """
    if groups is None:
        return None
    names = list(groups)
    if len(names) != rows:
        raise ArgumentError(f"{name}: {len(names)} groups for {rows} rows, need one per row")
    missing = [row for row, group in enumerate(names) if group is None or group != group]
    if missing:
        raise ArgumentError(f"{name}: {len(missing)} rows have no group (first: row {missing[0]})")
    return [str(group) for group in names]
