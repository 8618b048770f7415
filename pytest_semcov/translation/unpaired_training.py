"""Training of the small unpaired translator's networks.

As in CycleGAN (Zhu et al., "Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial
Networks", 2017) a generator learns to deceive a discriminator that sees real images of the target category;
what it makes must be enough to reconstruct the source (cycle), and it must leave images of the target
category as they are (identity). Two things make this work with hundreds of images and minutes of one core:
maps of colours instead of painted pixels (see :mod:`pytest_semcov.translation.unpaired_network`), and looks.

A look is what one image of the target category is like as a whole: mean and spread of its colours at the
top, in the middle and at the bottom. Each translation is told which look to have: that of a target image
which is for its category what the source is for its own. An image with a low sun, for example, gets the look
of an image with bright lamps. So translations vary as the target images do, and nothing has to be painted
only to reach a look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_semcov.errors import ModelError
from pytest_semcov.translation.unpaired_network import (
    fields,
    judge,
    new_discriminator,
    new_generator,
    recolour,
)

if TYPE_CHECKING:
    import torch

    Parameters = Mapping[str, torch.Tensor]

BANDS = 3
"""Parts of an image, from top to bottom, whose colours are described apart."""

STATISTICS = 2 * 3 * BANDS
"""Numbers that describe an image as a whole: mean and standard deviation per channel and band."""

CODE_SIZE = 6
"""Numbers that a look is reduced to for the generator."""

NEAREST_SHARE = 0.25
"""Share of the looks, the most alike ones, from which an image's look is drawn."""

_LEAST_DEVIATION = 1e-3
"""Standard deviation (white is 1) below which a statistic says nothing."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the training weighs, and its steps.

    Parameters
    ----------
    batch
        Images a step.
    generator_rate, discriminator_rate
        Adam's learning rates; they fall to zero in the second half.
    look, cycle, identity, smooth, range
        Weights beside the adversarial loss: having the look asked for; reconstruction of the source; target
        images unchanged; maps that vary slowly; values within black and white.
    penalty
        Weight of the discriminator's squared gradient at real images (Mescheder et al., 2018).
    penalty_every
        Steps from one such penalty to the next.
    average
        How much of the averaged generator is kept in a step.
    """

    batch: int = 8
    generator_rate: float = 5e-4
    discriminator_rate: float = 8e-4
    look: float = 1.0
    cycle: float = 3.0
    identity: float = 1.0
    smooth: float = 2.5
    range: float = 5.0
    penalty: float = 0.01
    penalty_every: int = 8
    average: float = 0.995


RECIPE = Recipe()


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """The looks of the target images, and how an image finds its own.

    Parameters
    ----------
    statistics
        ``(looks, STATISTICS)``: one row per target image, as from :func:`statistics_of`.
    projection
        ``(STATISTICS, CODE_SIZE)``: the statistics' principal axes, scaled so that codes have unit variance.
    source_mean, source_deviation
        ``(STATISTICS,)``: of the source images' statistics.
    """

    statistics: torch.Tensor
    projection: torch.Tensor
    source_mean: torch.Tensor
    source_deviation: torch.Tensor

    @classmethod
    def learn(cls, sources: torch.Tensor, targets: torch.Tensor) -> Looks:
        """Describe small images, ``(n, 3, size, size)``, of both categories."""
        import torch

        before, after = statistics_of(sources), statistics_of(targets)
        _, lengths, axes = torch.linalg.svd(after - after.mean(dim=0), full_matrices=False)
        deviations = lengths[:CODE_SIZE] / math.sqrt(len(after))
        return cls(
            after,
            axes[:CODE_SIZE].T / deviations.clamp_min(_LEAST_DEVIATION),
            before.mean(dim=0),
            before.std(dim=0, unbiased=False).clamp_min(_LEAST_DEVIATION),
        )

    def codes(self, statistics: torch.Tensor) -> torch.Tensor:
        """Return ``(n, CODE_SIZE)``: what the generator is told of looks with these statistics."""
        return (statistics - self.statistics.mean(dim=0)) @ self.projection

    def choose(self, images: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Return for each image the number of a look that suits it.

        Parameters
        ----------
        images
            ``(n, 3, size, size)``, of the source category.
        draws
            ``(n,)``, 0 to 1 (not included): which of the most alike.
        """
        import torch

        spread = self.statistics.std(dim=0, unbiased=False).clamp_min(_LEAST_DEVIATION)
        own = (statistics_of(images) - self.source_mean) / self.source_deviation
        theirs = (self.statistics - self.statistics.mean(dim=0)) / spread
        candidates = max(1, round(NEAREST_SHARE * len(theirs)))
        nearest = torch.cdist(own, theirs).argsort(dim=1, stable=True)[:, :candidates]
        return nearest.gather(1, (draws * candidates).long()[:, None])[:, 0]


def statistics_of(images: torch.Tensor) -> torch.Tensor:
    """Return ``(n, STATISTICS)``: means, then standard deviations, of each channel in each band."""
    import torch
    from torch.nn import functional

    means = functional.adaptive_avg_pool2d(images, (BANDS, 1)).flatten(1)
    squares = functional.adaptive_avg_pool2d(images.square(), (BANDS, 1)).flatten(1)
    return torch.cat([means, (squares - means.square()).clamp_min(1e-5).sqrt()], dim=1)


def train(
    sources: torch.Tensor,
    targets: torch.Tensor,
    looks: Looks,
    *,
    steps: int,
    seed: int,
    progress: Callable[[str, int, int], None] | None = None,
    recipe: Recipe = RECIPE,
) -> dict[str, torch.Tensor]:
    """Train a generator; nothing global is changed, and all random numbers come from the seed.

    Parameters
    ----------
    sources, targets
        ``(n, 3, size, size)``, 0 to 1, on the device to train on.
    looks
        Of these images.
    steps
        Updates of both networks.
    seed
        Root of all random numbers.
    progress
        Called with what is done, how many steps are done, and how many there are.
    recipe
        Weights and rates.

    Returns
    -------
    dict
        Parameters of the generator, averaged over the last steps.

    Raises
    ------
    ModelError
        If a loss is no longer finite.
    """
    import torch

    device = sources.device
    random = torch.Generator().manual_seed(seed)
    forth = _trainable(new_generator(CODE_SIZE, random), device)
    back = _trainable(new_generator(CODE_SIZE, random), device)
    critic = _trainable(new_discriminator(random), device)
    averaged = {name: tensor.detach().clone() for name, tensor in forth.items()}
    betas = (0.5, 0.99)
    forward = torch.optim.Adam([*forth.values(), *back.values()], recipe.generator_rate, betas)
    against = torch.optim.Adam(critic.values(), recipe.discriminator_rate, betas)
    codes_of_looks = looks.codes(looks.statistics)
    for step in range(steps):
        left = min(1.0, 2 * (1 - step / steps))
        forward.param_groups[0]["lr"] = recipe.generator_rate * left
        against.param_groups[0]["lr"] = recipe.discriminator_rate * left
        source, _ = _draw(sources, recipe.batch, random)
        target, numbers = _draw(targets, recipe.batch, random)
        draws = torch.rand(len(source), generator=random).to(device)
        codes = codes_of_looks[looks.choose(source, draws)]
        maps = fields(forth, source, codes)
        free = recolour(maps, source)
        made = free + (free.clamp(0, 1) - free).detach()  # clipped, with the gradients of what is not

        penalised = step % recipe.penalty_every == 0
        doubt = _critic_loss(critic, _shifted(target, random), _shifted(made.detach(), random))
        if penalised:
            doubt = doubt + recipe.penalty * recipe.penalty_every * _squared_gradient(critic, target)
        against.zero_grad()
        doubt.backward()  # type: ignore[no-untyped-call]
        against.step()

        frozen = {name: tensor.detach() for name, tensor in critic.items()}
        scores = judge(frozen, _shifted(made, random))
        loss = -sum((score.mean() for score in scores), start=torch.zeros((), device=device)) / len(scores)
        loss = loss + recipe.look * _smooth_distance(looks.codes(statistics_of(free)), codes)
        loss = loss + recipe.cycle * (recolour(fields(back, made, codes), made) - source).abs().mean()
        loss = loss + recipe.smooth * _variation(maps) + recipe.range * (free - made.detach()).abs().mean()
        if step % 2 == 0:
            same = recolour(fields(forth, target, codes_of_looks[numbers]), target)
            loss = loss + 2 * recipe.identity * (same - target).abs().mean()
        forward.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        forward.step()
        _check_finite(step, loss, doubt)

        keep = min(recipe.average, (step + 1) / (step + 10))
        with torch.no_grad():
            for name, tensor in forth.items():
                averaged[name].lerp_(tensor, 1 - keep)
        if progress is not None:
            progress("training", step + 1, steps)
    return averaged


def _trainable(parameters: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    return {name: tensor.to(device).requires_grad_(True) for name, tensor in parameters.items()}


def _draw(images: torch.Tensor, count: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return some images, half of them mirrored, and their numbers."""
    import torch

    numbers = torch.randint(len(images), (count,), generator=random).to(images.device)
    mirrored = (torch.rand(count, generator=random) < 0.5).to(images.device)
    chosen = images[numbers]
    return torch.where(mirrored[:, None, None, None], chosen.flip(-1), chosen), numbers


def _shifted(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Move images by up to an eighth sideways and a sixteenth up or down: none is learned by heart."""
    import torch
    from torch.nn import functional

    height, width = images.shape[2:]
    sideways, upright = width // 8, height // 16
    left = int(torch.randint(2 * sideways + 1, (1,), generator=random))
    top = int(torch.randint(2 * upright + 1, (1,), generator=random))
    padded = functional.pad(images, (sideways, sideways, upright, upright), mode="reflect")
    return padded[:, :, top : top + height, left : left + width]


def _critic_loss(critic: Parameters, real: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Return the hinge loss: real images above 1, made ones below -1."""
    from torch.nn import functional

    above = [functional.relu(1 - scores).mean() for scores in judge(critic, real)]
    below = [functional.relu(1 + scores).mean() for scores in judge(critic, made)]
    return (sum(above[1:], above[0]) + sum(below[1:], below[0])) / len(above)


def _squared_gradient(critic: Parameters, real: torch.Tensor) -> torch.Tensor:
    import torch

    real = real.detach().requires_grad_(True)
    scores = [each.flatten(1).mean(dim=1).sum() for each in judge(critic, real)]
    total = sum(scores[1:], scores[0])
    (gradient,) = torch.autograd.grad(total, real, create_graph=True)
    return gradient.square().sum(dim=(1, 2, 3)).mean()


def _smooth_distance(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    from torch.nn import functional

    return functional.smooth_l1_loss(found, wanted)


def _variation(maps: torch.Tensor) -> torch.Tensor:
    upright = (maps[:, :, 1:] - maps[:, :, :-1]).abs().mean()
    return upright + (maps[..., 1:] - maps[..., :-1]).abs().mean()


def _check_finite(step: int, *losses: torch.Tensor) -> None:
    for value in (loss.item() for loss in losses):
        if not math.isfinite(value):
            raise ModelError(
                f"unpaired translator: training diverged in step {step + 1} (its loss is {value}); "
                "fit with another seed"
            )
