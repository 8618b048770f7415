"""The small unpaired translator's networks, as functions of their parameters.

The generator does not paint an image: it predicts, per pixel of a small copy of the image, an affine map of
colours, as in Gharbi et al., "Deep Bilateral Learning for Real-Time Image Enhancement" (2017). Such maps
vary slowly, so they can be enlarged and applied to the full image, whose edges, text and small objects come
through at full resolution. What its colours do not hold (lamps, lit windows) is the map's offset.

A generator is a U-Net (Ronneberger et al., 2015) at half the small copy's resolution, modulated by a code
that says how the result should look. The discriminator (Isola et al., 2017) judges patches of two sizes and
the image as a whole, and is told the height at which a patch stands. Parameters are plain mappings from
names to tensors: they are saved, averaged and hashed as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    Parameters = Mapping[str, torch.Tensor]

MULTIPLE = 16
"""Sides of the generator's images are multiples of so many pixels."""

FIELD_CHANNELS = 12
"""Affine map of colours: 9 factors, added to those of the identity, and 3 offsets."""

GENERATOR_WIDTHS = (24, 32, 48, 64)
DISCRIMINATOR_WIDTHS = (32, 48, 64, 64)

_SLOPE = 0.2
_GROUPS = 4
_WHOLE = 4
"""Side of the grid from which the discriminator judges the image as a whole."""


def new_generator(code_size: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return parameters of a generator that changes nothing yet.

    Parameters
    ----------
    code_size
        Number of entries of a code.
    generator
        Draws the parameters.
    """
    parameters: dict[str, torch.Tensor] = {}
    widths = GENERATOR_WIDTHS
    blocks = {"in": (4 * 3 + 1, widths[0])}
    for level in range(len(widths) - 1):
        blocks[f"down{level}"] = (widths[level], widths[level + 1])
        blocks[f"up{level}"] = (widths[level + 1] + widths[level], widths[level])
    for name, (wide_in, wide_out) in blocks.items():
        _add_convolution(parameters, f"{name}.first", wide_in, wide_out, 3, generator)
        _add_convolution(parameters, f"{name}.second", wide_out, wide_out, 3, generator)
        _add_zeros(parameters, f"{name}.code", (2 * wide_out, code_size))
    _add_zeros(parameters, "out", (FIELD_CHANNELS, widths[0], 3, 3))
    return parameters


def new_discriminator(generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return parameters of a discriminator, drawn by the generator."""
    parameters: dict[str, torch.Tensor] = {}
    widths = (3 + 1, *DISCRIMINATOR_WIDTHS)
    for level in range(3):
        _add_convolution(parameters, f"down{level}", widths[level], widths[level + 1], 4, generator)
    _add_convolution(parameters, "small", widths[2], 1, 3, generator)
    _add_convolution(parameters, "large", widths[3], 1, 3, generator)
    _add_convolution(parameters, "down3", widths[3] + 1, widths[4], 4, generator)
    _add_convolution(parameters, "whole", widths[4], 1, _WHOLE, generator)
    return parameters


def fields(parameters: Parameters, images: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Return the maps of colours for some images.

    Parameters
    ----------
    parameters
        As from :func:`new_generator`.
    images
        ``(n, 3, height, width)``, 0 = black, 1 = white; sides are multiples of :data:`MULTIPLE`.
    codes
        ``(n, code_size)``.

    Returns
    -------
    torch.Tensor
        ``(n, 12, height, width)``: see :func:`recolour`.
    """
    from torch.nn import functional

    hidden = functional.pixel_unshuffle(images * 2 - 1, 2)
    hidden = _block(parameters, "in", _with_height(hidden), codes)
    levels = len(GENERATOR_WIDTHS) - 1
    skips = []
    for level in range(levels):
        skips.append(hidden)
        hidden = _block(parameters, f"down{level}", hidden, codes, stride=2)
    for level in reversed(range(levels)):
        hidden = _concatenate(functional.interpolate(hidden, scale_factor=2), skips[level])
        hidden = _block(parameters, f"up{level}", hidden, codes)
    return functional.interpolate(_convolve(parameters, "out", hidden), scale_factor=2, mode="bilinear")


def recolour(maps: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Return images under maps of colours, not clipped.

    Parameters
    ----------
    maps
        ``(n, 12, height, width)``: for output channel ``i`` and input channel ``j`` the factor minus
        identity's at channel ``3 * i + j``, and the offset at ``9 + i``.
    images
        ``(n, 3, height, width)``.
    """
    import torch

    rows = [(maps[:, 3 * row : 3 * row + 3] * images).sum(dim=1, keepdim=True) for row in range(3)]
    return images + torch.cat(rows, dim=1) + maps[:, 9:]


def judge(parameters: Parameters, images: torch.Tensor) -> list[torch.Tensor]:
    """Return the discriminator's scores, higher for real: of small patches, large patches, the whole image.

    Parameters
    ----------
    parameters
        As from :func:`new_discriminator`.
    images
        ``(n, 3, height, width)``, 0 to 1. How much they differ from one another is part of the last score.
    """
    from torch.nn import functional

    hidden, scores = _with_height(images * 2 - 1), []
    for level, head in enumerate((None, "small", "large")):
        hidden = functional.leaky_relu(
            _convolve(parameters, f"down{level}", hidden, stride=2, padding=1), _SLOPE
        )
        if head is not None:
            scores.append(_convolve(parameters, head, hidden))
    spread = hidden.std(dim=0, unbiased=False).mean().expand(len(hidden), 1, *hidden.shape[2:])
    hidden = _convolve(parameters, "down3", _concatenate(hidden, spread), stride=2, padding=1)
    hidden = functional.adaptive_avg_pool2d(functional.leaky_relu(hidden, _SLOPE), _WHOLE)
    return [*scores, _convolve(parameters, "whole", hidden, padding=0)]


def _block(
    parameters: Parameters, name: str, hidden: torch.Tensor, codes: torch.Tensor, stride: int = 1
) -> torch.Tensor:
    """Convolve, normalise, modulate by the code, convolve."""
    from torch.nn import functional

    hidden = functional.leaky_relu(_convolve(parameters, f"{name}.first", hidden, stride=stride), _SLOPE)
    modulation = functional.linear(codes, parameters[f"{name}.code.weight"], parameters[f"{name}.code.bias"])
    factor, offset = modulation[:, :, None, None].chunk(2, dim=1)
    hidden = functional.group_norm(hidden, _GROUPS) * (1 + factor) + offset
    return functional.leaky_relu(_convolve(parameters, f"{name}.second", hidden), _SLOPE)


def _convolve(
    parameters: Parameters, name: str, hidden: torch.Tensor, *, stride: int = 1, padding: int = 1
) -> torch.Tensor:
    from torch.nn import functional

    return functional.conv2d(
        hidden, parameters[f"{name}.weight"], parameters[f"{name}.bias"], stride=stride, padding=padding
    )


def _concatenate(*parts: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.cat(parts, dim=1)


def _with_height(images: torch.Tensor) -> torch.Tensor:
    """Add a channel that goes from -1 at the top to 1 at the bottom."""
    import torch

    count, _, height, width = images.shape
    column = torch.linspace(-1, 1, height, dtype=images.dtype, device=images.device)
    return _concatenate(images, column.view(1, 1, height, 1).expand(count, 1, height, width))


def _add_convolution(
    parameters: dict[str, torch.Tensor],
    name: str,
    wide_in: int,
    wide_out: int,
    side: int,
    generator: torch.Generator,
) -> None:
    """Add weights drawn uniformly as PyTorch does for its convolutions, and biases of zero."""
    import torch

    bound = 1 / math.sqrt(wide_in * side * side)
    weight = torch.empty(wide_out, wide_in, side, side).uniform_(-bound, bound, generator=generator)
    parameters[f"{name}.weight"] = weight.contiguous(memory_format=torch.channels_last)
    parameters[f"{name}.bias"] = torch.zeros(wide_out)


def _add_zeros(parameters: dict[str, torch.Tensor], name: str, shape: tuple[int, ...]) -> None:
    import torch

    parameters[f"{name}.weight"] = torch.zeros(shape)
    parameters[f"{name}.bias"] = torch.zeros(shape[0])
