"""Correction of p-values for the number of tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Doubles


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values, in the order given.

    A test is significant at level a with the family-wise error held at a exactly if its adjusted p-value
    is at most a (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
    of Statistics 6, 1979). Holds whatever the dependence between the tests.

    Raises
    ------
    ArgumentError
        If a p-value is not a number in [0, 1]; the message gives its position.
    """
    raw = _checked(p_values)
    order = np.argsort(raw, kind="stable")
    scaled = raw[order] * np.arange(len(raw), 0, -1)
    return _in_order_given(np.maximum.accumulate(scaled), order)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Benjamini and Hochberg's adjusted p-values, in the order given.

    Calling the tests with an adjusted p-value of at most a significant holds the false discovery rate, the
    expected share of wrong ones among them, at a (Y. Benjamini and Y. Hochberg, "Controlling the false
    discovery rate", JRSS B 57, 1995). Holds for independent and positively dependent tests.

    Raises
    ------
    ArgumentError
        If a p-value is not a number in [0, 1]; the message gives its position.
    """
    raw = _checked(p_values)
    order = np.argsort(raw, kind="stable")
    scaled = raw[order] * (len(raw) / np.arange(1, len(raw) + 1))
    return _in_order_given(np.minimum.accumulate(scaled[::-1])[::-1], order)


def _checked(p_values: Sequence[float]) -> Doubles:
    try:
        raw = np.asarray(p_values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"p-values must be numbers in [0, 1]: {error}") from error
    wrong = np.flatnonzero(~((raw >= 0) & (raw <= 1)))
    if len(wrong):
        raise ArgumentError(f"p-value {raw[wrong[0]]} at position {wrong[0]}: must lie in [0, 1]")
    return raw


def _in_order_given(adjusted: Doubles, order: np.ndarray) -> tuple[float, ...]:
    result = np.empty_like(adjusted)
    result[order] = np.minimum(1.0, adjusted)
    return tuple(float(value) for value in result)
