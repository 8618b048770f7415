"""What a search for a prompt found: the setting, its scores on both halves, the translator that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.gates.verdict import Plain
from pytest_semcov.translation.protocol import Failed, Translator
from pytest_semcov.translation.tuning_score import TuningScore

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, slots=True)
class PromptSetting:
    """One point of the search.

    Parameters
    ----------
    phrase
        What to make.
    strength, guidance
        How far to go, how much the phrase weighs; ``None`` = the translator's own.
    """

    phrase: str
    strength: float | None = None
    guidance: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A setting and its score on the fitting half."""

    setting: PromptSetting
    score: TuningScore

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {**asdict(self.setting), "score": self.score.to_dict()}


@dataclass(frozen=True, eq=False)
class TunedTranslator:
    """A translator with the setting that was found; knows which images chose it, so that none judges it.

    Parameters
    ----------
    translator
        Makes the images.
    setting
        What was found.
    fitted_on
        Content keys of the fitting half's images, both categories.
    fitted_groups
        Groups of the fitting half's real images of the target category.
    """

    translator: Translator
    setting: PromptSetting
    fitted_on: frozenset[str]
    fitted_groups: frozenset[str]

    @property
    def name(self) -> str:
        """Name of the translator."""
        return self.translator.name

    @property
    def source(self) -> str:
        """Category it takes."""
        return self.translator.source

    @property
    def target(self) -> str:
        """Category it makes."""
        return self.translator.target

    @property
    def fingerprint(self) -> str:
        """That of the translator: the same images come out."""
        return self.translator.fingerprint

    @property
    def semantic(self) -> str | None:
        """What is changed, if the translator says it."""
        return getattr(self.translator, "semantic", None)

    @property
    def prompt(self) -> str:
        """What the translator is told."""
        return getattr(self.translator, "prompt", None) or self.setting.phrase

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Translate RGB images; see the translator."""
        return self.translator.translate(images, seeds=seeds)


@dataclass(frozen=True, slots=True, eq=False)
class TunedPrompt:
    """What a search found.

    Parameters
    ----------
    translator
        With the best setting; to be judged by images that it was not fitted on.
    setting
        The best setting.
    fitting
        Its score on the fitting half, on which it was chosen.
    held_out
        Its score on the other half.
    trials
        All settings tried, in order.
    settings_in_all
        Number of settings that there are.
    translated
        Number of images translated, those of the held-out half included.
    budget, images, seed, structure_weight, embedder
        As given; the embedder's name.
    """

    translator: TunedTranslator
    setting: PromptSetting
    fitting: TuningScore
    held_out: TuningScore
    trials: tuple[Trial, ...]
    settings_in_all: int
    translated: int
    budget: int
    images: int
    seed: int
    structure_weight: float
    embedder: str

    @property
    def optimisation_gap(self) -> float:
        """Objective on the fitting half minus objective on the held-out half."""
        return self.fitting.objective - self.held_out.objective

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python: the same arguments lead to the same content."""
        gap = self.optimisation_gap
        return {
            "setting": asdict(self.setting),
            "fitting": self.fitting.to_dict(),
            "held_out": self.held_out.to_dict(),
            "optimisation_gap": gap if np.isfinite(gap) else None,
            "trials": [trial.to_dict() for trial in self.trials],
            "settings_in_all": self.settings_in_all,
            "translated": self.translated,
            "budget": self.budget,
            "images": self.images,
            "seed": self.seed,
            "structure_weight": self.structure_weight,
            "embedder": self.embedder,
            "translator": self.translator.name,
            "fingerprint": self.translator.fingerprint,
            "fitted_on": list[Plain](sorted(self.translator.fitted_on)),
        }

    def __str__(self) -> str:
        lines = [
            f"best of {len(self.trials)} settings tried (of {self.settings_in_all}): "
            f"{_described(self.setting)}",
            f"fitting half:  {_line(self.fitting)}",
            f"held-out half: {_line(self.held_out)}",
            f"optimisation gap {self.optimisation_gap:.2f}: by so much the search flatters itself",
        ]
        return "\n".join(lines)


def _described(setting: PromptSetting) -> str:
    parts = [repr(setting.phrase)]
    parts += [
        f"{name} {value:g}"
        for name, value in (("strength", setting.strength), ("guidance", setting.guidance))
        if value is not None
    ]
    return ", ".join(parts)


def _line(score: TuningScore) -> str:
    return (
        f"objective {score.objective:.2f} (drift closed {score.drift:.2f}, radius {score.radius:.2f}, "
        f"structure kept {score.structure:.2f}, failed {score.failed:.0%} of {score.images})"
    )
