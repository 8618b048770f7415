"""Sums of an RBF kernel over pairs of rows, block by block: the kernel matrix is never stored.

Every block is one matrix product, made with the blocks on and above the diagonal only. It is multiplied by a
matrix of 0/1 labels, a column a labelling, so that any number of relabellings costs one more product.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Doubles, Floats, Indices, Mask, row_keys
from pytest_semcov.metrics.neighbour_torch import full_precision

# Up to this many rows of both sets products are computed in float64: rounding plays no part.
FEW_ROWS = 2048
# float32 products keep the kernel's digits where half the squared norms, in bandwidths, lie in this range.
_SMALLEST_MEAN_HALF, _LARGEST_HALF = 0.05, 8.0
_ROWS_AT_ONCE = 4096
_BLOCK_ROWS = 512
# An accelerator needs more work a call.
_DEVICE_BLOCK_ROWS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class PooledRows:
    """The rows of two sets in an order of their own: it depends on their content only.

    Parameters
    ----------
    rows
        ``(n, d)``, centred and in bandwidths.
    marked
        ``(n,)`` rows of the smaller set.
    """

    rows: Floats
    marked: Mask


def pool_rows(first: Floats, second: Floats, bandwidth: float) -> PooledRows:
    """Bring the rows of two sets into an order of their own, centred and divided by the bandwidth.

    Parameters
    ----------
    first, second
        ``(n, d)`` and ``(m, d)``. Which comes first makes no difference if their sizes differ, and swaps the
        marks if not.
    bandwidth
        Positive.

    Raises
    ------
    ArgumentError
        If the bandwidth is so small that squared distances overflow.
    """
    sets = (first, second) if len(first) <= len(second) else (second, first)
    keys = [(key, which) for which, rows in enumerate(sets) for key in row_keys(rows)]
    order = np.asarray(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)
    # Summed in that order: not even the rounding depends on the order in which the rows came.
    total = np.zeros(sets[0].shape[1])
    for start in range(0, len(order), _ROWS_AT_ONCE):
        total += _gather(sets, order[start : start + _ROWS_AT_ONCE]).sum(axis=0)
    centre = total / len(order)
    kinds = (np.float64,) if len(order) <= FEW_ROWS else (np.float32, np.float64)
    for kind in kinds:
        rows, halves = _scaled(sets, order, centre, bandwidth, kind)
        if halves.mean() >= _SMALLEST_MEAN_HALF and halves.max() <= _LARGEST_HALF:
            break
    if not np.isfinite(halves).all():
        raise ArgumentError(f"bandwidth is {bandwidth}: far too small for the distances of these rows")
    return PooledRows(rows, order < len(sets[0]))


def _gather(sets: tuple[Floats, Floats], numbers: Indices) -> Doubles:
    """Return rows of both sets in float64, those of the second set numbered after those of the first."""
    rows = np.empty((len(numbers), sets[0].shape[1]))
    first = numbers < len(sets[0])
    rows[first] = sets[0][numbers[first]]
    rows[~first] = sets[1][numbers[~first] - len(sets[0])]
    return rows


def _scaled(
    sets: tuple[Floats, Floats], order: Indices, centre: Doubles, bandwidth: float, kind: Any
) -> tuple[Floats, Doubles]:
    """Return the rows in this order, centred and in bandwidths, and half their squared norms."""
    rows, halves = np.empty((len(order), len(centre)), dtype=kind), np.empty(len(order))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(order), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            exact = (_gather(sets, order[part]) - centre) / bandwidth
            rows[part] = exact
            halves[part] = np.einsum("ij,ij->i", exact, exact) / 2
    return rows, halves


@dataclass(frozen=True, slots=True, eq=False)
class KernelSums:
    """Sums of kernel - ``baseline`` over pairs of different rows.

    Parameters
    ----------
    baseline
        A typical value of the kernel. Differences of mean kernels do not depend on it, and are the more
        exact the smaller the numbers are that they are differences of.
    to_first, to_all
        ``(n,)`` float64: sums from each row to the rows of the first labelling, and to all rows.
    within, leaving
        ``(labellings,)`` float64: sums over the ordered pairs within the marked rows of each labelling, and
        over those from the marked rows to all rows.
    """

    baseline: float
    to_first: Doubles
    to_all: Doubles
    within: Doubles
    leaving: Doubles


def kernel_sums(rows: Floats, labels: Mask, *, device: str | None = None) -> KernelSums:
    """Sum exp(-d² / 2) over pairs of different rows.

    Parameters
    ----------
    rows
        ``(n, d)`` float32 or float64, centred and divided by the bandwidth. Products are computed in this
        type; everything is summed in float64.
    labels
        ``(n, labellings)`` bool, at least one labelling.
    device
        A device of torch on which to compute; ``None`` = numpy.
    """
    with contextlib.nullcontext() if device is None else full_precision(device):
        return _kernel_sums(rows, labels, device)


def _kernel_sums(rows: Floats, labels: Mask, device: str | None) -> KernelSums:
    halves = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) / 2
    baseline = float(rows.dtype.type(np.exp(-2 * halves.mean())))
    engine: Any = _Numpy() if device is None else _Torch(device)
    step = _BLOCK_ROWS if device is None else _DEVICE_BLOCK_ROWS
    blocks = [slice(start, start + step) for start in range(0, len(rows), step)]
    sums = np.zeros((len(rows), 2))
    within = np.zeros(labels.shape[1])
    marked = np.concatenate([labels[:, :1], np.ones((len(rows), 1), dtype=bool)], axis=1)
    all_rows, all_halves = engine.array(rows), engine.array(halves.astype(rows.dtype))
    for place, left in enumerate(blocks):
        left_labels, left_marked = engine.array(labels[left], rows.dtype), engine.array(marked[left], float)
        for right in blocks[place:]:
            block = engine.block(
                all_rows[left] @ all_rows[right].T, all_halves[left], all_halves[right], baseline
            )
            if left == right:
                engine.clear_diagonal(block)
            product = block @ engine.array(labels[right], rows.dtype)
            product *= left_labels
            within += (1 if left == right else 2) * engine.column_sums(product)
            precise = engine.array(block, float)
            sums[left] += engine.numbers(precise @ engine.array(marked[right], float))
            if left != right:
                sums[right] += engine.numbers(precise.T @ left_marked)
    leaving = sum((sums[block, 1] @ labels[block] for block in blocks), np.zeros(labels.shape[1]))
    return KernelSums(baseline, sums[:, 0], sums[:, 1], within, leaving)


class _Numpy:
    """The few operations that numpy and torch name differently, by numpy."""

    def array(self, values: NDArray[Any], kind: Any = None) -> NDArray[Any]:
        return values if kind is None else values.astype(kind, copy=False)

    def block(self, products: Floats, left_halves: Floats, right_halves: Floats, baseline: float) -> Floats:
        products -= left_halves[:, None]
        products -= right_halves
        np.minimum(products, 0, out=products)
        np.exp(products, out=products)
        products -= products.dtype.type(baseline)
        return products

    def clear_diagonal(self, block: Floats) -> None:
        np.fill_diagonal(block, 0)

    def column_sums(self, values: Floats) -> Doubles:
        return np.asarray(values.sum(axis=0, dtype=np.float64))

    def numbers(self, values: Doubles) -> Doubles:
        return values


class _Torch:
    """The same by torch, on one device."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch = torch
        self.device = device
        self.kinds = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}

    def array(self, values: Any, kind: Any = None) -> Any:
        tensor = self.torch.as_tensor(values, device=self.device)
        return tensor if kind is None else tensor.to(self.kinds[np.dtype(kind)])

    def block(self, products: Any, left_halves: Any, right_halves: Any, baseline: float) -> Any:
        products -= left_halves[:, None]
        products -= right_halves
        return products.clamp_(max=0).exp_().sub_(baseline)

    def clear_diagonal(self, block: Any) -> None:
        block.fill_diagonal_(0)

    def column_sums(self, values: Any) -> Doubles:
        return self.numbers(values.sum(dim=0, dtype=self.torch.float64))

    def numbers(self, values: Any) -> Doubles:
        return np.asarray(values.cpu().numpy())
