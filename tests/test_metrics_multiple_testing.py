"""Adjusted p-values against scipy and published examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.multiple_testing import benjamini_hochberg, holm

both = pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
p_values = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.05, 1.0])), max_size=12)


@given(values=p_values.filter(bool))
def test_benjamini_hochberg_as_scipy(values: list[float]) -> None:
    np.testing.assert_allclose(benjamini_hochberg(values), false_discovery_control(values), rtol=1e-12)


def test_benjamini_hochberg_published() -> None:
    # The fifteen p-values of the example in Benjamini and Hochberg 1995: four are significant at 5 %.
    values = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0),
    ]
    adjusted = benjamini_hochberg(values)
    assert [value <= 0.05 for value in adjusted] == [True] * 4 + [False] * 11
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)
    # Bonferroni's rule, and Holm's with it, keep three.
    assert [value <= 0.05 for value in holm(values)] == [True] * 3 + [False] * 12


def test_holm_known_values() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.5, 0.5, 0.001]) == pytest.approx((1.0, 1.0, 0.003))


@both
@given(values=p_values)
def test_order_and_bounds(adjust: Any, values: list[float]) -> None:
    adjusted = adjust(values)
    assert all(raw <= value <= 1 for raw, value in zip(values, adjusted, strict=True))
    assert adjust(values[::-1]) == adjusted[::-1]
    # More extreme is never less significant.
    ordered = [adjusted[place] for place in np.argsort(values, kind="stable")]
    assert ordered == sorted(ordered)
    assert all(few <= strict for few, strict in zip(benjamini_hochberg(values), holm(values), strict=True))


@both
def test_refuses(adjust: Any) -> None:
    for values, message in (
        ([0.1, float("nan")], "p-value nan at position 1"),
        ([-0.1], "p-value -0.1 at position 0"),
        ([0.5, 1.5], "p-value 1.5 at position 1"),
        (["a"], "must be numbers"),
        ([[0.1], [0.1, 0.2]], "must be numbers"),
        ([object()], "must be numbers"),
    ):
        with pytest.raises(ArgumentError, match=message):
            adjust(values)
    assert adjust([]) == ()
    assert adjust([0.3]) == (0.3,)
