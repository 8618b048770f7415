"""How torch models run here: device, evaluation mode, random numbers, tensors in and arrays out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pytest_semcov.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


def resolve_device(device: str) -> torch.device:
    """Return the torch device for ``"auto"`` (CUDA if there is one, else CPU) or a device name.

    Raises
    ------
    ArgumentError
        If the name means nothing to torch, or there is no such device here.
    """
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise ArgumentError(f"device {device!r}: use 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'") from error
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise ArgumentError(
            f"device {device!r}: torch sees {torch.cuda.device_count()} CUDA devices; use 'auto' or 'cpu'"
        )
    if resolved.type == "mps" and not torch.backends.mps.is_available():
        raise ArgumentError("device 'mps': torch sees no Metal device; use 'auto' or 'cpu'")
    return resolved


@contextmanager
def inference(module: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Run a module for inference: evaluation mode (restored afterwards), no gradients, no TF32.

    TF32 convolutions, a GPU's default, keep ten bits of the mantissa; without them float32 embeddings agree
    with a CPU's to rounding.
    """
    import torch

    training = [part for part in module.modules() if part.training]
    with ExitStack() as context:
        for part in training:
            part.training = False
        context.callback(_set_training, training)
        context.enter_context(torch.no_grad())
        if device.type == "cuda":
            context.enter_context(
                torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
            )
        yield


def _set_training(parts: Sequence[torch.nn.Module]) -> None:
    for part in parts:
        part.training = True


@contextmanager
def seeded() -> Iterator[None]:
    """Make random weights the same every time, and leave the process' random numbers as they were.

    Loading weights draws random numbers too: libraries initialise a model before they load it.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


def stack(batch: Sequence[Any]) -> torch.Tensor:
    """Stack preprocessed images (tensors or arrays of one shape) into a batch tensor."""
    import torch

    return torch.stack([item if isinstance(item, torch.Tensor) else torch.from_numpy(item) for item in batch])


def to_array(rows: torch.Tensor) -> NDArray[np.float32]:
    """Return a tensor as a float32 array in main memory."""
    array: NDArray[np.float32] = rows.detach().float().cpu().numpy()
    return array
