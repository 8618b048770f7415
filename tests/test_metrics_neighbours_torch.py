"""Products by torch find the same neighbours, to the last bit, whatever precision torch is set to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics import neighbour_torch
from pytest_semcov.metrics.divergence import divergence_fnn
from pytest_semcov.metrics.neighbours import (
    NeighbourIndex,
    coverage_radius,
    kth_neighbour_distances,
    nearest_neighbours,
)
from pytest_semcov.metrics.prdc import prdc

Rows = np.ndarray

sets = arrays(np.float64, st.tuples(st.integers(7, 20), st.just(2)), elements=st.integers(-2, 2).map(float))
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def normal(rows: int, width: int = 64, seed: int = 0, shift: float = 0.0) -> Rows:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


def everything(x: Any, y: Any, device: str | None) -> list[Any]:
    """Return all that the pass feeds."""
    within, across = nearest_neighbours(x, k=5, device=device), nearest_neighbours(x, y, k=5, device=device)
    wider = NeighbourIndex(x, k=5, device=device).with_added(y, list_added=True).neighbours
    return [
        *(part for lists in (within, across, wider) for part in (lists.distance, lists.index)),
        kth_neighbour_distances(y, x, k=3, device=device),
        coverage_radius(x, k=4, device=device),
        prdc(x, y, device=device),
        divergence_fnn(x, y, device=device),
    ]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other, strict=True)
        else:
            assert one == other


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_same_to_the_last_bit(shift: float, device: str) -> None:
    x, y = normal(300, shift=shift), normal(250, seed=1, shift=shift + 0.1)
    assert_same(everything(x, y, device), everything(x, y, None))
    tensors = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    assert_same(everything(*tensors, None), everything(x, y, None))
    single = [tensor.float() for tensor in tensors]
    assert_same(everything(*single, device), everything(x.astype(np.float32), y.astype(np.float32), None))


@settings(deadline=None, max_examples=40)
@given(x=sets, y=sets, block=st.sampled_from([2, 3, 8, 2048]))
def test_same_with_ties_copies_and_small_blocks(x: Rows, y: Rows, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_torch, "_BLOCK_ROWS", block)
        found = everything(x, y, "cpu")
    assert_same(found, everything(x, y, None))


@pytest.fixture
def coarse() -> Iterator[None]:
    """Let torch multiply float32 matrices by bfloat16 or TF32 where it can."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.usefixtures("coarse")
def test_coarse_products_are_not_used(device: str) -> None:
    # Clusters in which bfloat16 could not tell near rows from far ones.
    centres = np.repeat(normal(10), 30, axis=0)
    x, y = centres + 0.05 * normal(300, seed=1), centres + 0.05 * normal(300, seed=2)
    assert_same(everything(x, y, device), everything(x, y, None))
    assert torch.get_float32_matmul_precision() == "medium"
    with torch.autocast(device, dtype=torch.bfloat16):
        assert_same(everything(x, y, device), everything(x, y, None))


def test_gradients_are_left_alone() -> None:
    x = torch.from_numpy(normal(30)).requires_grad_()
    distance = nearest_neighbours(x, k=3, device="cpu").distance
    assert isinstance(distance, np.ndarray)
    assert x.grad is None


@pytest.mark.parametrize(
    "metric", [nearest_neighbours, kth_neighbour_distances, coverage_radius, NeighbourIndex]
)
def test_unknown_devices(metric: Callable[..., Any]) -> None:
    for device in ("abacus", "xpu:17"):
        with pytest.raises(ArgumentError, match=f"device '{device}' cannot be used: .*give a device"):
            metric(normal(9), k=2, device=device)
    with pytest.raises(ArgumentError, match="device 'abacus'"):
        prdc(normal(9), normal(9), device="abacus")
    with pytest.raises(ArgumentError, match="device 'abacus'"):
        divergence_fnn(normal(9), normal(9), device="abacus")


def test_arrays_need_no_torch() -> None:
    code = (
        "import sys, numpy as np\n"
        "from pytest_semcov.metrics.neighbours import NeighbourIndex\n"
        "from pytest_semcov.metrics.prdc import prdc\n"
        "x = np.random.default_rng(0).normal(size=(20, 3))\n"
        "NeighbourIndex(x, k=2).with_added(x), prdc(x, x)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
