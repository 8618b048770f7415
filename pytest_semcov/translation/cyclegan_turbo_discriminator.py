"""The discriminator of CycleGAN-Turbo's training: small heads on a frozen network's features.

As in "Ensembling Off-the-shelf Models for GAN Training" (Kumari et al., 2022), which the published training
uses: features of several levels, a head of spectrally normalised layers on each, cross-entropy summed over
levels. Both real and translated images are augmented alike before they are judged (Zhao et al.,
"Differentiable Augmentation for Data-Efficient GAN Training", 2020), so that the discriminator cannot learn
few images by heart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_semcov.errors import ModelError

if TYPE_CHECKING:
    import torch

WIDTH = 256
"""Channels between the two layers of a head."""

SHIFT = 0.125
"""Largest shift of an augmented image, as a share of its sides."""

CUTOUT = 0.5
"""Sides of the square that is cut out of an augmented image, as a share of its sides."""


def new_discriminator(features: Sequence[torch.Tensor], *, seed: int) -> torch.nn.ModuleList:
    """Return untrained heads for features like these; the process' random numbers stay as they are.

    Maps get a 3 x 3 convolution, leaky ReLU, a binomial blur and a 1 x 1 convolution at every second place;
    vectors get two linear layers.

    Parameters
    ----------
    features
        Maps ``(n, channels, height, width)`` or vectors ``(n, channels)``, by level.
    seed
        Of the weights.

    Raises
    ------
    ModelError
        If there is no feature, or one has another shape.
    """
    import torch
    from torch import nn
    from torch.nn.utils.parametrizations import spectral_norm

    if not features or any(level.dim() not in (2, 4) for level in features):
        shapes = ", ".join(str(tuple(level.shape)) for level in features) or "none"
        raise ModelError(f"the discriminator's backbone must give feature maps or vectors; it gives {shapes}")
    heads = nn.ModuleList()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for level in features:
            channels = level.shape[1]
            if level.dim() == 2:
                first: nn.Module = nn.Linear(channels, WIDTH)
                last: nn.Module = nn.Linear(WIDTH, 1)
                between = []
            else:
                first = nn.Conv2d(channels, WIDTH, 3, padding=1)
                last = nn.Conv2d(WIDTH, 1, 1, stride=2)
                between = [_blur()]
            heads.append(
                nn.Sequential(spectral_norm(first), nn.LeakyReLU(0.2), *between, spectral_norm(last))
            )
    return heads.to(features[0].device)


def _blur() -> torch.nn.Module:
    """Return a fixed 3 x 3 binomial filter, so that every second place stands for its neighbours too."""
    import torch

    line = torch.tensor([0.25, 0.5, 0.25])
    blur = torch.nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH, bias=False)
    with torch.no_grad():
        blur.weight.copy_((line[:, None] * line).expand_as(blur.weight))
    return blur.requires_grad_(False)


def adversarial_loss(
    heads: torch.nn.ModuleList, features: Sequence[torch.Tensor], *, real: bool
) -> torch.Tensor:
    """Return the cross-entropy of a discriminator's scores with one answer for all images.

    Parameters
    ----------
    heads
        The discriminator.
    features
        What its backbone sees, by level.
    real
        The answer.

    Returns
    -------
    tensor
        A number: mean over images and places, summed over levels.
    """
    import torch
    from torch.nn import functional

    losses = []
    for head, level in zip(heads, features, strict=True):
        scores = head(level)
        answer = torch.full_like(scores, float(real))
        losses.append(functional.binary_cross_entropy_with_logits(scores, answer))
    return torch.stack(losses).sum()


def augment(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Change colours, shift and cut out squares, each image its own way, with gradients.

    Brightness changes by up to half a range of one, saturation by a factor of 0 to 2, contrast by 0.5 to 1.5;
    images move by up to :data:`SHIFT`, and lose a square of :data:`CUTOUT`;
    what is not there is grey.

    Parameters
    ----------
    images
        ``(n, 3, height, width)`` in [-1, 1].
    random
        A generator on the CPU, so that every device draws the same.
    """
    import torch

    count, _, height, width = images.shape

    def draw() -> torch.Tensor:
        return torch.rand(count, 1, 1, 1, generator=random).to(images)

    def place(least: int, most: int) -> torch.Tensor:
        return torch.randint(least, most + 1, (count, 1), generator=random).to(images.device)

    images = images + draw() - 0.5
    grey = images.mean(dim=1, keepdim=True)
    images = (images - grey) * (2 * draw()) + grey
    level = images.mean(dim=(1, 2, 3), keepdim=True)
    images = (images - level) * (draw() + 0.5) + level

    down, right = int(height * SHIFT + 0.5), int(width * SHIFT + 0.5)
    rows = torch.arange(height, device=images.device) + place(-down, down)
    columns = torch.arange(width, device=images.device) + place(-right, right)
    inside = _within(rows, height)[:, :, None] & _within(columns, width)[:, None, :]
    every = torch.arange(count, device=images.device)[:, None, None]
    moved = images.permute(0, 2, 3, 1)[
        every, rows.clamp(0, height - 1)[:, :, None], columns.clamp(0, width - 1)[:, None, :]
    ].permute(0, 3, 1, 2)

    tall, wide = int(height * CUTOUT + 0.5), int(width * CUTOUT + 0.5)
    top, left = place(-(tall // 2), height - tall // 2), place(-(wide // 2), width - wide // 2)
    cut_rows = _within(torch.arange(height, device=images.device) - top, tall)
    cut_columns = _within(torch.arange(width, device=images.device) - left, wide)
    kept = inside & ~(cut_rows[:, :, None] & cut_columns[:, None, :])
    return moved * kept[:, None].to(images)


def _within(places: torch.Tensor, size: int) -> torch.Tensor:
    return (places >= 0) & (places < size)
