"""Image-to-image and instruction pipelines of diffusers as translators."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pytest_semcov.embedding.fingerprint import hash_description, library_versions
from pytest_semcov.embedding.running import inference
from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.diffusers_kinds import find_pipeline, quiet
from pytest_semcov.translation.diffusers_loading import LoadedPipeline, load_pipeline
from pytest_semcov.translation.diffusers_options import (
    EditOptions,
    call_arguments,
    check_names,
    check_steps,
    parse_spec_options,
    prompt_from_phrases,
)
from pytest_semcov.translation.diffusers_sizes import parse_preparation
from pytest_semcov.translation.diffusion_base import need_libraries
from pytest_semcov.translation.protocol import Failed, check_seeds
from pytest_semcov.translation.translating import unusable

if TYPE_CHECKING:
    from PIL import Image

VERSION = 1
"""Changes whenever the same weights, options, image and seed give other pixels."""

BLOCKED = "blocked by the pipeline's safety checker"

_LARGEST_SEED = 2**63 - 1
_LIBRARIES = ("torch", "diffusers", "transformers")


class Describes(Protocol):
    """What puts categories into words: a :class:`~pytest_semcov.semantics.descriptors.Descriptor`."""

    def prompts(self, category: str) -> tuple[str, ...]:
        """Return the phrases of a category."""


@dataclass(frozen=True, eq=False)
class DiffusersTranslator:
    """Translates with an image-to-image or instruction pipeline of diffusers. Made by :meth:`load`.

    Images are run one by one, each with a CPU generator of its own seed: a result depends neither on the
    other images nor on their number, not even in rounding, as it does where a batch is computed at once.

    Parameters
    ----------
    loaded
        The pipeline.
    options
        How it is called.
    source, target
        Categories.
    semantic
        What is changed, e.g. ``"day_night"``, if it was said.
    """

    loaded: LoadedPipeline
    options: EditOptions
    source: str
    target: str
    semantic: str | None = None

    def __post_init__(self) -> None:
        check_names(self.source, self.target)
        call_arguments(self.options, self.loaded.kind.defaults, spec=self.loaded.kind.spec)
        self.loaded.check_prompt(self.options.prompt)

    @classmethod
    def load(
        cls,
        base: str | os.PathLike[str],
        *,
        source: str,
        target: str,
        prompt: str | None = None,
        phrases: Sequence[str] = (),
        semantic: str | None = None,
        negative_prompt: str | None = None,
        strength: float | None = None,
        steps: int | None = None,
        guidance_scale: float | None = None,
        image_guidance_scale: float | None = None,
        true_cfg_scale: float | None = None,
        prep: str = "pad",
        lora: str | None = None,
        lora_weight: float = 1.0,
        revision: str | None = None,
        variant: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        cpu_offload: str | None = None,
    ) -> DiffusersTranslator:
        """Load a pipeline.

        Which one it is, its ``model_index.json`` says: pipelines that take an image are used as they are
        (Stable Diffusion's image-to-image, InstructPix2Pix, Qwen-Image-Edit, Flux Kontext); for those that
        make images from text alone diffusers' image-to-image pipeline of the same family is used. Weights are
        read from safetensors only, and no code from model folders is run.

        Parameters
        ----------
        base
            A folder in diffusers' layout, or a hub repository, e.g. ``"timbrooks/instruct-pix2pix"``. The
            hub's cache is looked in first.
        source, target
            Names of the categories, e.g. ``"day"``, ``"night"``.
        prompt
            What to make. Default: built from ``phrases``.
        phrases
            Phrases for the target category, e.g. ``catalogue()["day_night"].prompts("night")``; default: the
            target's name. Joined by commas they are the prompt, with "make it" before them if the pipeline
            follows instructions.
        semantic
            Name of the semantic that source and target belong to.
        negative_prompt, strength, steps, guidance_scale, image_guidance_scale, true_cfg_scale, prep
            See :class:`~pytest_semcov.translation.diffusers_options.EditOptions`. ``prep="pad"``: images keep
            their pixels; right and bottom are padded by reflection to the pipeline's multiple and cut off
            afterwards, so that boxes still match. ``"fit_1024"``: before that, scaled to an area of
            1024 x 1024 pixels, their shape kept, and scaled back afterwards: for models trained at a size.
            ``"resize_512x512"``: resized to this width and height, and back.
        lora, lora_weight
            A LoRA: a safetensors file, a folder or a hub repository with
            ``pytorch_lora_weights.safetensors``, or ``organisation/name/FILE.safetensors``; and its weight.
        revision
            Branch, tag or commit of the hub repository; default ``main``.
        variant
            Of the weight files, e.g. ``"fp16"`` for ``*.fp16.safetensors``.
        device
            ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
        dtype
            ``"auto"``: float32, on CUDA float16, or bfloat16 where the pipeline has a transformer; or
            ``"float32"``, ``"bfloat16"``, ``"float16"`` (not on the CPU).
        cpu_offload
            For models that do not fit on the GPU: ``"model"`` (one part at a time is on it) or
            ``"sequential"`` (one layer at a time, slow).

        Raises
        ------
        ArgumentError
            If an argument is not allowed, the pipeline does not take it, strength and steps leave no step, or
            the prompt would be cut.
        MissingDependencyError
            If diffusers, peft or transformers is not installed, or accelerate for ``cpu_offload``.
        ModelError
            If the model cannot be had or is not fit for this. For a hub repository the message names
            repository, revision and cache folder; offline, no socket is opened.
        """
        check_names(source, target)
        if strength is not None and steps is not None and 0 < strength <= 1 and steps > 0:
            check_steps(steps, strength, spec=f"diffusers:{os.fspath(base)}")
        need_libraries("a diffusers translator")
        kind = find_pipeline(os.fspath(base), spec=f"diffusers:{os.fspath(base)}", revision=revision)
        if prompt is not None and phrases:
            raise ArgumentError("give either prompt= or phrases=, not both")
        options = EditOptions(
            prompt_from_phrases(phrases or [target], instruction=kind.instruction)
            if prompt is None
            else prompt,
            negative_prompt,
            strength,
            steps,
            guidance_scale,
            image_guidance_scale,
            true_cfg_scale,
            prep,
        )
        call_arguments(options, kind.defaults, spec=kind.spec)
        loaded = load_pipeline(
            kind,
            variant=variant,
            lora=lora,
            lora_weight=lora_weight,
            device=device,
            dtype=dtype,
            cpu_offload=cpu_offload,
        )
        return cls(loaded, options, source, target, semantic)

    @classmethod
    def from_spec(
        cls, text: str, *, descriptors: Mapping[str, Describes] | None = None, device: str = "auto"
    ) -> DiffusersTranslator:
        """Load what a spec names: ``BASE?source=day&target=night&strength=0.6&steps=30``.

        Parameters
        ----------
        text
            Folder or repository, then the arguments of :meth:`load` as in a web address (``%26`` for ``&``,
            ``+`` for a space). ``source`` and ``target`` are needed.
        descriptors
            Semantics by name. With ``semantic=`` and without ``prompt=`` in the spec, the phrases are those
            of that semantic's target category.
        device
            Where it runs unless the spec says it.

        Raises
        ------
        ArgumentError
            Like :meth:`load`, and if an option is unknown, twice or empty.
        """
        base, options = parse_spec_options(text)
        lacking = [name for name in ("source", "target") if name not in options]
        if not base or lacking:
            what = " and ".join(lacking) if base else "a folder or repository"
            raise ArgumentError(
                f"diffusers:{text}: need {what}, as in diffusers:organisation/name?source=day&target=night"
            )
        descriptor = (descriptors or {}).get(options.get("semantic", ""))
        if descriptor is not None and "prompt" not in options:
            options["phrases"] = descriptor.prompts(options["target"])
        return cls.load(base, **{"device": device, **options})

    def with_options(self, **changes: Any) -> DiffusersTranslator:
        """Return a translator with other options (those of ``EditOptions``) on the same loaded pipeline.

        ``phrases=`` may stand for ``prompt=``.

        Raises
        ------
        ArgumentError
            If an option is unknown or not allowed.
        """
        phrases = changes.pop("phrases", None)
        if phrases is not None:
            changes["prompt"] = prompt_from_phrases(phrases, instruction=self.loaded.kind.instruction)
        unknown = sorted(set(changes) - set(asdict(self.options)))
        if unknown:
            raise ArgumentError(f"no option {unknown[0]!r}; there are {', '.join(asdict(self.options))}")
        return replace(self, options=replace(self.options, **changes))

    @property
    def name(self) -> str:
        """``diffusers:`` and the name of the folder or repository."""
        kind = self.loaded.kind
        return f"diffusers:{kind.base if kind.folder is None else kind.folder.name}"

    @property
    def prompt(self) -> str:
        """What the pipeline is told."""
        return self.options.prompt

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over all that an output depends on: weights, options, libraries' releases."""
        # The third number of a release is for corrections.
        releases = {
            name: ".".join(version.split(".")[:2]) for name, version in library_versions(*_LIBRARIES).items()
        }
        return hash_description(
            {
                "version": VERSION,
                "pipeline": self.loaded.fingerprint,
                "options": asdict(self.options),
                "categories": [self.source, self.target],
                "releases": releases,
            }
        )

    def translate(self, images: Sequence[Image.Image], *, seeds: Sequence[int]) -> list[Image.Image | Failed]:
        """Translate RGB images; same sizes out as in.

        Parameters
        ----------
        images
            RGB images; any other mode is a :class:`Failed`. So is an output that the safety checker blocked,
            that is blank, or that holds values that are not finite.
        seeds
            One per image, 0 to 2⁶³ - 1.
        """
        import torch

        check_seeds(images, seeds)
        too_large = [seed for seed in seeds if seed > _LARGEST_SEED]
        if too_large:
            raise ArgumentError(f"seed {too_large[0]}: need at most 2**63 - 1")
        pipeline = self.loaded.pipeline
        parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
        with quiet(), inference(torch.nn.ModuleList(parts), self.loaded.device):
            return [self._one(image, seed) for image, seed in zip(images, seeds, strict=True)]

    def _one(self, image: Image.Image, seed: int) -> Image.Image | Failed:
        import torch

        if image.mode != "RGB":
            return Failed(f"mode {image.mode}, need RGB")
        preparation = parse_preparation(self.options.prep)
        prepared = preparation.prepare(image, self.loaded.multiple)
        # Some parts draw without a generator: those draws follow the seed as well, and nothing outside moves.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            output = self.loaded.pipeline(image=prepared, **self._arguments(prepared.size, seed))
        if any(getattr(output, "nsfw_content_detected", None) or ()):
            return Failed(BLOCKED)
        made = np.asarray(output.images[0], dtype=np.float64)
        if not np.isfinite(made).all():
            return Failed("the output holds values that are not finite numbers; try another dtype")
        levels = np.rint(np.clip(made, 0, 1) * 255).astype(np.uint8)
        result = preparation.restore(levels, prepared.size, image.size)
        problem = unusable(result, image)
        return Failed(problem) if problem else result

    def _arguments(self, size: tuple[int, int], seed: int) -> dict[str, Any]:
        """Return the call's arguments, the image apart."""
        import torch

        kind = self.loaded.kind
        width, height = size
        # Pipelines that would work at a size of their own are told this one.
        own_size = {"width": width, "height": height, "max_area": width * height, "_auto_resize": False}
        return {
            **call_arguments(self.options, kind.defaults, spec=kind.spec),
            **{name: value for name, value in own_size.items() if name in kind.defaults},
            "generator": torch.Generator("cpu").manual_seed(seed),
            "output_type": "np",
        }

    def __repr__(self) -> str:
        return f"<DiffusersTranslator {self.name} {self.source} to {self.target}, {self.prompt!r}>"
