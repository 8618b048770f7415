"""One step of CycleGAN-Turbo's training: three updates of the generator, two of the discriminators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_semcov.errors import ModelError
from pytest_semcov.translation.cyclegan_turbo_data import Preparation, draw_pairs
from pytest_semcov.translation.cyclegan_turbo_discriminator import (
    adversarial_loss,
    augment,
    new_discriminator,
)
from pytest_semcov.translation.cyclegan_turbo_network import (
    DIRECTIONS,
    CycleGanTurboNetwork,
    generate,
    trainable,
)
from pytest_semcov.translation.cyclegan_turbo_state import Trained

if TYPE_CHECKING:
    import torch

    from pytest_semcov.data.samples import Sample
    from pytest_semcov.translation.cyclegan_turbo_features import FrozenFeatures, PerceptualDistance
    from pytest_semcov.translation.cyclegan_turbo_training import TrainingSettings

BACK = {"a2b": "b2a", "b2a": "a2b"}


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """What a training minimises.

    Parameters
    ----------
    settings
        Weights, rates and precision.
    perceptual
        Distance between images.
    features
        The discriminators' frozen backbone.
    """

    settings: TrainingSettings
    perceptual: PerceptualDistance
    features: FrozenFeatures


class Loop:
    """A network under training with its discriminators and optimisers.

    Parameters
    ----------
    network
        What is trained; of its parameters, those of
        :func:`~pytest_semcov.translation.cyclegan_turbo_network.trainable`.
    captions
        Direction → ``(1, tokens, width)`` of the domain that it leads to.
    losses
        What is minimised.
    device
        Where all of it is.
    """

    def __init__(
        self,
        network: CycleGanTurboNetwork,
        captions: Mapping[str, torch.Tensor],
        losses: Losses,
        device: torch.device,
    ) -> None:
        import torch

        self.network, self.captions, self.losses, self.device = network, captions, losses, device
        settings = losses.settings
        parameters = trainable(network)
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        if settings.gradient_checkpointing:
            unet: Any = network.modules["unet"]
            unet.enable_gradient_checkpointing()
            unet.train()
        size = losses.features.size or 64
        with torch.no_grad():
            levels = losses.features(torch.zeros(1, 3, size, size, device=device))
        # Direction → judge of the domain that it leads to.
        self.judges = torch.nn.ModuleDict(
            {
                way: new_discriminator(levels, seed=settings.seed + number)
                for number, way in enumerate(DIRECTIONS)
            }
        )
        judging = {n: p for n, p in self.judges.named_parameters() if p.requires_grad}
        self.parts = {
            "generator": Trained(parameters, {}, self._optimizer(parameters)),
            "discriminator": Trained(judging, dict(self.judges.named_buffers()), self._optimizer(judging)),
        }

    def step(
        self,
        domain_a: Sequence[Sample],
        domain_b: Sequence[Sample],
        preparation: Preparation,
        number: int,
    ) -> dict[str, float]:
        """Make one step of training.

        Parameters
        ----------
        domain_a, domain_b
            All images of the two domains.
        preparation
            How they are brought to one size.
        number
            Which step it is, from 1; its random numbers follow from it and the seed.

        Returns
        -------
        dict
            The losses before the step, each without its weight, the mean of both directions.

        Raises
        ------
        ImageError
            If an image cannot be decoded.
        ModelError
            If a loss is no longer finite; the weights are those before this update.
        """
        settings = self.losses.settings
        image_a, image_b, random = draw_pairs(
            domain_a, domain_b, preparation, batch=settings.batch, seed=settings.seed, step=number
        )
        # Direction → what goes in, what is real where it leads to.
        given = {"a2b": image_a.to(self.device), "b2a": image_b.to(self.device)}
        real = {"a2b": given["b2a"], "b2a": given["a2b"]}

        self._freeze_judges(True)
        cycle, cycle_perceptual = [], []
        for way, images in given.items():
            again = self._translated(self._translated(images, way), BACK[way])
            cycle.append((again - images).abs().mean())
            cycle_perceptual.append(self.losses.perceptual(again, images))
        found = self._update(
            "generator",
            {
                "cycle": (settings.cycle, cycle),
                "cycle_perceptual": (settings.cycle_perceptual, cycle_perceptual),
            },
            number,
        )

        made = {way: self._translated(images, way) for way, images in given.items()}
        passing = [self._judged(way, augment(made[way], random), real=True) for way in DIRECTIONS]
        found |= self._update("generator", {"adversarial": (settings.adversarial, passing)}, number)
        made = {way: images.detach() for way, images in made.items()}

        same = {way: self._translated(images, way) for way, images in real.items()}
        identity = [(same[way] - real[way]).abs().mean() for way in DIRECTIONS]
        perceptual = [self.losses.perceptual(same[way], real[way]) for way in DIRECTIONS]
        found |= self._update(
            "generator",
            {
                "identity": (settings.identity, identity),
                "identity_perceptual": (settings.identity_perceptual, perceptual),
            },
            number,
        )

        self._freeze_judges(False)
        weight = settings.adversarial / 2
        for name, judged, answer in (
            ("discriminator_made", made, False),
            ("discriminator_real", real, True),
        ):
            doubts = [self._judged(way, augment(judged[way], random), real=answer) for way in DIRECTIONS]
            found |= self._update("discriminator", {name: (weight, doubts)}, number)
        return found

    def _translated(self, images: torch.Tensor, way: str) -> torch.Tensor:
        import torch

        mixed = self.losses.settings.precision == "bfloat16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=mixed):
            return generate(self.network, images, self.captions[way], way).float()

    def _judged(self, way: str, images: torch.Tensor, *, real: bool) -> torch.Tensor:
        heads: Any = self.judges[way]
        return adversarial_loss(heads, self.losses.features(images), real=real)

    def _freeze_judges(self, frozen: bool) -> None:
        """While the generator learns, its judges neither learn nor estimate their norms anew."""
        self.judges.train(not frozen)
        for parameter in self.parts["discriminator"].parameters.values():
            parameter.requires_grad_(not frozen)

    def _update(
        self, part: str, terms: Mapping[str, tuple[float, Sequence[torch.Tensor]]], number: int
    ) -> dict[str, float]:
        """Descend the weighted sum of the terms, and return each one's mean over directions."""
        import torch

        total = torch.zeros((), device=self.device)
        values = {}
        for name, (weight, both) in terms.items():
            summed = torch.stack(list(both)).sum()
            total = total + weight * summed
            values[name] = summed.item() / len(both)
            if not math.isfinite(values[name]):
                raise ModelError(
                    f"CycleGAN-Turbo: training diverged in step {number}: the loss {name} is {values[name]}. "
                    "The last checkpoint is as it was; train again, in another folder, with a lower "
                    "learning_rate or precision='float32'"
                )
        trained = self.parts[part]
        trained.optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(trained.parameters.values(), self.losses.settings.clip_norm)
        trained.optimizer.step()
        trained.optimizer.zero_grad()
        return values

    def _optimizer(self, parameters: Mapping[str, torch.nn.Parameter]) -> torch.optim.Optimizer:
        import torch

        settings = self.losses.settings
        return torch.optim.AdamW(
            parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
