"""Correction of p-values for the number of tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_semcov.errors import ArgumentError


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values, in the order given.

    A test is significant at level a with the family-wise error held at a exactly if its adjusted p-value
    is at most a (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
    of Statistics 6, 1979).

    Raises
    ------
    ArgumentError
        If a p-value is not a number in [0, 1]; the message gives its position.
    """
    raw = np.asarray(p_values, dtype=np.float64).reshape(-1)
    wrong = np.flatnonzero(~((raw >= 0) & (raw <= 1)))
    if len(wrong):
        raise ArgumentError(f"p-value {raw[wrong[0]]} at position {wrong[0]}: must lie in [0, 1]")
    order = np.argsort(raw, kind="stable")
    scaled = raw[order] * np.arange(len(raw), 0, -1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return tuple(float(value) for value in adjusted)
