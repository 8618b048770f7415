"""The products of :mod:`~pytest_semcov.metrics.neighbour_scan` on a device of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Doubles, Floats, Indices
from pytest_semcov.metrics.neighbour_scan import CentredRows, Hits, rounded_up

if TYPE_CHECKING:
    import torch

# Larger than on the CPU: an accelerator needs more work per call. 2,048² float32 values are 17 MB.
_BLOCK_ROWS = 2048


def device_of(device: str | None, *given: ArrayLike | None) -> str | None:
    """Return where products are computed: the device asked for, or where a tensor lies.

    ``None`` = no torch device; tensors in main memory need none.

    Raises
    ------
    ArgumentError
        If torch has no such device.
    """
    if device is None:
        tensors = [inner for inner in map(_inner, given) if hasattr(inner, "detach")]
        places = [str(tensor.device) for tensor in tensors]
        return next((place for place in places if place != "cpu"), None)
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first_line = str(error).partition("\n")[0]
        raise ArgumentError(
            f"device {device!r} cannot be used: {first_line}; give a device that torch sees, such as 'cpu'"
        ) from error
    return str(device)


def _inner(values: Any) -> Any:
    inner = getattr(values, "array", None)
    return values if inner is None or callable(inner) else inner


def lowest_bounds(
    queries: CentredRows, reference: CentredRows | None, count: int, device: str
) -> tuple[Floats, Indices]:
    """Return the lowest bounds of each query and their reference rows, as on the CPU but without a limit."""
    import torch

    others = queries if reference is None else reference
    bounds = np.empty((len(queries), count), dtype=np.float32)
    index = np.empty((len(queries), count), dtype=np.intp)
    with full_precision(device):
        resident = _Resident(others, device)
        for first in range(0, len(queries), _BLOCK_ROWS):
            left = _Resident(queries.part(first, first + _BLOCK_ROWS), device)
            values: list[torch.Tensor] = []
            places: list[torch.Tensor] = []
            for second in range(0, len(others), _BLOCK_ROWS):
                block = left.bounds(resident.part(second, second + _BLOCK_ROWS))
                if reference is None and first == second:
                    block.fill_diagonal_(torch.inf)
                low, column = block.topk(min(count, block.shape[1]), dim=1, largest=False, sorted=False)
                values.append(low)
                places.append(column + second)
                if len(values) > 1:
                    both = torch.cat(values, dim=1)
                    low, kept = both.topk(min(count, both.shape[1]), dim=1, largest=False, sorted=False)
                    values, places = [low], [torch.cat(places, dim=1).gather(1, kept)]
            bounds[first : first + _BLOCK_ROWS] = values[0].cpu().numpy()
            index[first : first + _BLOCK_ROWS] = places[0].cpu().numpy()
    return bounds, index


def bounds_within(
    queries: CentredRows,
    reference: CentredRows,
    row_limit: Doubles,
    column_limit: Doubles | None,
    device: str,
) -> Iterator[Hits]:
    """Yield the pairs whose bound is within the limit of the query or of the reference row."""
    import torch

    of_rows = torch.from_numpy(rounded_up(row_limit)).to(device)[:, None]
    of_columns = None if column_limit is None else torch.from_numpy(rounded_up(column_limit)).to(device)
    resident = _Resident(reference, device)
    for first in range(0, len(queries), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        left = _Resident(queries.part(first, first + _BLOCK_ROWS), device)
        for second in range(0, len(reference), _BLOCK_ROWS):
            columns = slice(second, second + _BLOCK_ROWS)
            with full_precision(device):
                block = left.bounds(resident.part(second, second + _BLOCK_ROWS))
                within = block <= of_rows[rows]
                if of_columns is not None:
                    within |= block <= of_columns[columns]
                row, column = within.nonzero(as_tuple=True)
                bounds = block[row, column]
            if len(row):
                yield Hits(
                    rows, columns, row.cpu().numpy(), column.cpu().numpy(), np.asarray(bounds.cpu().numpy())
                )


class _Resident:
    """Centred rows on a device."""

    def __init__(self, rows: CentredRows, device: str) -> None:
        import torch

        self.rows = torch.from_numpy(rows.rows).to(device)
        self.floor = torch.from_numpy(rows.floor).to(device)

    def part(self, start: int, stop: int) -> _Resident:
        part = object.__new__(_Resident)
        part.rows, part.floor = self.rows[start:stop], self.floor[start:stop]
        return part

    def bounds(self, reference: _Resident) -> torch.Tensor:
        import torch

        floors = self.floor[:, None] + reference.floor
        return torch.addmm(floors, self.rows, reference.rows.T, alpha=-1)


@contextlib.contextmanager
def full_precision(device: str) -> Iterator[None]:
    """Multiply in float32 itself: bounds and sums would not hold for TF32, bfloat16 or autocasting."""
    import torch

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(torch.device(device).type, enabled=False))
        backends: list[Any] = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
        for backend in backends:
            before = getattr(backend, "fp32_precision", None)
            if before not in (None, "none", "ieee"):
                backend.fp32_precision = "ieee"
                stack.callback(setattr, backend, "fp32_precision", before)
        if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # torch before 2.9
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision("highest")
        yield
