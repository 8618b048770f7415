"""What a diffusers translator is told: prompt, strength, steps and guidance, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any
from urllib.parse import parse_qsl

from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.diffusers_sizes import parse_preparation

DESCRIPTION = "{phrases}"
"""Prompt of a pipeline that paints over an image by a description of the result."""

INSTRUCTION = "make it {phrases}"
"""Prompt of a pipeline that follows instructions."""

_NUMBERS = ("strength", "steps", "guidance_scale", "image_guidance_scale", "true_cfg_scale")
# Ours to the pipelines' own names, where they differ.
_CALL_NAMES = {"steps": "num_inference_steps"}
_TEXTS = (
    *("source", "target", "semantic", "prompt", "negative_prompt", "prep", "lora"),
    *("revision", "variant", "device", "dtype", "cpu_offload"),
)
SPEC_OPTIONS = (*_TEXTS, *_NUMBERS, "lora_weight")
"""Options of a spec ``diffusers:BASE?NAME=VALUE&NAME=VALUE``."""


@dataclass(frozen=True, slots=True)
class EditOptions:
    """How a pipeline is called. ``None`` = the pipeline's own default.

    Parameters
    ----------
    prompt
        What to make.
    negative_prompt
        What to avoid. Pipelines with ``true_cfg_scale`` are guided only if there is one (``" "`` will do).
    strength
        Share of the steps that are taken, more than 0 to 1: how far a result may go from its source.
    steps
        Denoising steps, from 1.
    guidance_scale
        Weight of the prompt, from 0.
    image_guidance_scale
        Weight of the source image, from 0; InstructPix2Pix.
    true_cfg_scale
        Weight of the prompt against the negative one, from 0; Qwen-Image-Edit, Flux.
    prep
        How images are brought to sizes that the pipeline takes: ``pad``, ``fit_SIDE`` or
        ``resize_WIDTHxHEIGHT``.

    Raises
    ------
    ArgumentError
        If a value is out of range.
    """

    prompt: str
    negative_prompt: str | None = None
    strength: float | None = None
    steps: int | None = None
    guidance_scale: float | None = None
    image_guidance_scale: float | None = None
    true_cfg_scale: float | None = None
    prep: str = "pad"

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str) or not self.prompt.strip():
            raise ArgumentError(f"prompt {self.prompt!r}: need a text")
        if self.steps is not None and (type(self.steps) is not int or self.steps < 1):
            raise ArgumentError(f"steps {self.steps!r}: need a whole number from 1")
        if self.strength is not None and not 0 < _number("strength", self.strength) <= 1:
            raise ArgumentError(f"strength {self.strength}: need more than 0, at most 1")
        for name in ("guidance_scale", "image_guidance_scale", "true_cfg_scale"):
            value = getattr(self, name)
            if value is not None and _number(name, value) < 0:
                raise ArgumentError(f"{name} {value}: need 0 or more")
        parse_preparation(self.prep)


def call_arguments(options: EditOptions, defaults: Mapping[str, object], *, spec: str) -> dict[str, Any]:
    """Return the arguments for a pipeline's call, checked against what it takes.

    Parameters
    ----------
    options
        What was asked for.
    defaults
        The pipeline's arguments with their defaults.
    spec
        What is called, for messages.

    Raises
    ------
    ArgumentError
        If the pipeline has no such option, or strength and steps leave no step.
    """
    given = {name: value for name, value in asdict(options).items() if value is not None and name != "prep"}
    arguments = {_CALL_NAMES.get(name, name): value for name, value in given.items()}
    for name in given:
        if _CALL_NAMES.get(name, name) not in defaults:
            names = [*_NUMBERS, "negative_prompt"]
            has = [known for known in names if _CALL_NAMES.get(known, known) in defaults]
            raise ArgumentError(f"{spec}: the pipeline has no {name}; it has {', '.join(has) or 'none'}")
    strength = arguments.get("strength", defaults.get("strength"))
    steps = arguments.get("num_inference_steps", defaults.get("num_inference_steps"))
    if isinstance(strength, int | float) and isinstance(steps, int):
        check_steps(steps, strength, spec=spec)
    return arguments


def steps_taken(steps: int, strength: float) -> int:
    """Return how many of the steps an image-to-image pipeline takes, by diffusers' ``get_timesteps``."""
    return min(int(steps * strength), steps)


def check_steps(steps: int, strength: float, *, spec: str) -> None:
    """Raise ArgumentError if no step is taken: the source would come back, at best."""
    if steps_taken(steps, strength) < 1:
        fewest = next(number for number in count(steps) if steps_taken(number, strength))
        raise ArgumentError(
            f"{spec}: strength {strength:g} x {steps} steps = {strength * steps:.3g}, less than one step: "
            f"the images would come back unchanged; use steps={fewest} or more, or more strength"
        )


def prompt_from_phrases(phrases: Sequence[str], *, instruction: bool) -> str:
    """Return the prompt for phrases that describe a category.

    Parameters
    ----------
    phrases
        One or several, e.g. ``Descriptor.prompts("night")``; several are joined by commas.
    instruction
        Whether the pipeline follows instructions (:data:`INSTRUCTION`) or takes a description of the result
        (:data:`DESCRIPTION`).

    Raises
    ------
    ArgumentError
        If there is no phrase, or an empty one.
    """
    if isinstance(phrases, str) or not phrases or not all(phrase.strip() for phrase in phrases):
        raise ArgumentError(f"phrases {phrases!r}: need a sequence of one or more texts")
    template = INSTRUCTION if instruction else DESCRIPTION
    return template.format(phrases=", ".join(dict.fromkeys(phrases)))


def parse_spec_options(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``BASE?NAME=VALUE&NAME=VALUE``, as in a web address (``%26`` for ``&``, ``+`` for a space).

    Returns
    -------
    base, options
        Folder or hub repository; the options (:data:`SPEC_OPTIONS`) with numbers as numbers.

    Raises
    ------
    ArgumentError
        If an option is unknown, twice or empty, or a number is none.
    """
    base, _, query = text.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise ArgumentError(f"options {query!r}: write NAME=VALUE&NAME=VALUE ({error})") from error
    options: dict[str, Any] = {}
    for name, value in pairs:
        if name not in SPEC_OPTIONS:
            raise ArgumentError(f"unknown option {name!r}; valid are {', '.join(SPEC_OPTIONS)}")
        if name in options or not value:
            raise ArgumentError(f"option {name!r} {'is there twice' if name in options else 'is empty'}")
        options[name] = value if name in _TEXTS else _parsed(name, value)
    return base, options


def check_names(source: str, target: str) -> None:
    """Raise ArgumentError unless source and target are two names."""
    if not source or not target or source == target:
        raise ArgumentError(f"source {source!r}, target {target!r}: need two categories, e.g. day and night")


def _parsed(name: str, value: str) -> float | int:
    kind = int if name == "steps" else float
    try:
        return kind(value)
    except ValueError as error:
        raise ArgumentError(
            f"option {name}={value}: need a {'whole ' if kind is int else ''}number"
        ) from error


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ArgumentError(f"{name} {value!r}: need a finite number")
    return float(value)
