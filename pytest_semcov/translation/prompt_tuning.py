"""Search for the prompt, strength and guidance that close the most of a gap.

A black-box search: coordinate ascent (all phrases, then all strengths, then all guidances, until nothing
improves), restarted from settings not tried yet while the budget lasts; where it suffices all are tried.
The best of many trials looks better than it is, on the images that chose it. Its score on the other half of
the real images is therefore reported beside it; the difference is the optimisation gap.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.samples import Dataset, Sample, SampleDataset
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.embedding.protocols import Embedder, Progress
from pytest_semcov.embedding.specs import load_embedder
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.translation.protocol import Translator
from pytest_semcov.translation.selection import plan_augmentation, split_for_fitting
from pytest_semcov.translation.translating import translate_plan
from pytest_semcov.translation.tuned_prompt import PromptSetting, Trial, TunedPrompt, TunedTranslator
from pytest_semcov.translation.tuning_score import (
    FEWEST_REFERENCE,
    FEWEST_SOURCES,
    Half,
    TuningScore,
    score_translations,
)

if TYPE_CHECKING:
    pass


def tune_prompt(
    make_translator: Callable[[PromptSetting], Translator],
    sources: Dataset,
    reference: Dataset,
    *,
    phrases: Sequence[str],
    strengths: Sequence[float | None] = (None,),
    guidances: Sequence[float | None] = (None,),
    budget: int,
    images: int = 40,
    seed: int = 0,
    embedder: str | Embedder = "builtin",
    structure_weight: float = 0.25,
    cache: EmbeddingCache | None = None,
    progress: Progress | None = None,
) -> TunedPrompt:
    """Find the phrase, strength and guidance whose translations come closest to real images.

    Both samples are split in halves by group. Settings are scored on the fitting half (every setting
    translates the same images with the same seeds); the best one is scored once more on the held-out half,
    other sources and other real images. No image is translated twice with the same setting.

    Parameters
    ----------
    make_translator
        Returns the translator for a setting, cheaply, as it is called once per trial; e.g. ``lambda setting:
        translator.with_options(phrases=[setting.phrase], strength=setting.strength,
        guidance_scale=setting.guidance)`` of a :class:`~pytest_semcov.DiffusersTranslator`.
    sources
        Real images to translate, of the translator's source category; 40 or more.
    reference
        Real images of its target category; 60 or more.
    phrases, strengths, guidances
        What is tried; each value once, at least one of each.
    budget
        Most images to translate, those of the held-out half included.
    images
        Images translated per trial, 20 or more; fewer where the half has fewer.
    seed
        Fixes the split, the choice of images, their seeds and the restarts.
    embedder
        Spec or object; one that sees what the models under test see.
    structure_weight
        How much lost structure counts against gaps closed, from 0; see
        :class:`~pytest_semcov.translation.tuning_score.TuningScore`.
    cache
        Where embeddings are kept.
    progress
        Called as ``progress(what, done, total)`` with numbers of trials.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or the budget does not last for two trials and the held-out half.
    TooFewError
        If a half has too few images to measure gaps with, or to tell the categories from each other; if no
        trial gave enough usable images to be scored.
    """
    settings = list(_settings(phrases, strengths, guidances))
    _check_numbers(images, structure_weight)
    model = load_embedder(embedder)
    halves = _halves(sources, reference, embedder=model, seed=seed, cache=cache)
    fitting, held_out = halves
    numbers = [min(images, len(half.sources)) for half in halves]
    affordable = (budget - numbers[1]) // numbers[0]
    if affordable < min(2, len(settings)):
        fewest = min(2, len(settings)) * numbers[0] + numbers[1]
        raise ArgumentError(
            f"tune_prompt: budget {budget}: trials of {numbers[0]} images and {numbers[1]} of the held-out "
            f"half need {fewest} at least"
        )
    search = _Search(make_translator, fitting, numbers[0], model, structure_weight, seed, cache)
    search.run(settings, most=affordable, progress=progress)
    best = search.best()
    translator = make_translator(best.setting)
    last = replace(search, half=held_out, number=numbers[1])
    seen = [*fitting.sources.samples, *fitting.reference.samples]
    return TunedPrompt(
        TunedTranslator(
            translator,
            best.setting,
            frozenset(sample.content_key() for sample in seen),
            frozenset(sample.group for sample in fitting.reference.samples if sample.group is not None),
        ),
        best.setting,
        best.score,
        last.score(translator),
        tuple(search.trials.values()),
        len(settings),
        len(search.trials) * numbers[0] + numbers[1],
        budget,
        images,
        seed,
        structure_weight,
        model.name,
    )


def _settings(
    phrases: Sequence[str], strengths: Sequence[float | None], guidances: Sequence[float | None]
) -> Iterator[PromptSetting]:
    for name, values in (("phrases", phrases), ("strengths", strengths), ("guidances", guidances)):
        if isinstance(values, str) or not values or len(set(values)) < len(values):
            raise ArgumentError(
                f"tune_prompt: {name}={values!r}: need a sequence of one or more distinct values"
            )
    for phrase, strength, guidance in itertools.product(phrases, strengths, guidances):
        yield PromptSetting(phrase, strength, guidance)


def _check_numbers(images: int, structure_weight: float) -> None:
    if images < FEWEST_SOURCES:
        raise ArgumentError(
            f"tune_prompt: images={images}: need {FEWEST_SOURCES} or more to measure gaps with"
        )
    if not (np.isfinite(structure_weight) and structure_weight >= 0):
        raise ArgumentError(f"tune_prompt: structure_weight={structure_weight}: need 0 or more")


def _halves(
    sources: Dataset, reference: Dataset, *, embedder: Embedder, seed: int, cache: EmbeddingCache | None
) -> tuple[Half, Half]:
    """Return the fitting and the held-out half."""
    for dataset, what, fewest in (
        (sources, "images to translate", FEWEST_SOURCES),
        (reference, "real images of the target category", FEWEST_REFERENCE),
    ):
        if len(dataset) < 2 * fewest:
            raise TooFewError(
                f"tune_prompt: {len(dataset)} {what}: need {2 * fewest}, half of them to search with and "
                "half to report on"
            )
    real = split_for_fitting(_by_id(reference), seed=seed)
    groups = [{sample.group for sample in half if sample.group is not None} for half in real]
    samples = _by_id(sources)
    # A place is in one half, by day as by night.
    halves = split_for_fitting(
        [each for each in samples if each.group not in groups[0] | groups[1]], seed=seed
    )
    for half, own in zip(halves, groups, strict=True):
        half += [sample for sample in samples if sample.group in own]
    made = [
        Half.of(
            name,
            SampleDataset(sorted(halves[number], key=lambda each: each.id), name=f"{name} sources"),
            SampleDataset(sorted(real[number], key=lambda each: each.id), name=f"{name} reference"),
            embedder=embedder,
            seed=seed,
            cache=cache,
        )
        for number, name in enumerate(("fitting", "held-out"))
    ]
    return made[0], made[1]


def _by_id(dataset: Dataset) -> list[Sample]:
    """Return the samples sorted by id: the order in which images are given must not matter."""
    return sorted((dataset[index] for index in range(len(dataset))), key=lambda sample: sample.id)


@dataclass(frozen=True, slots=True)
class _Search:
    """The state of one search: what has been tried."""

    make_translator: Callable[[PromptSetting], Translator]
    half: Half
    number: int
    embedder: Embedder
    structure_weight: float
    seed: int
    cache: EmbeddingCache | None
    trials: dict[PromptSetting, Trial] = field(default_factory=dict)

    def run(self, settings: Sequence[PromptSetting], *, most: int, progress: Progress | None) -> None:
        """Try settings until all or ``most`` are tried."""
        generator = np.random.default_rng(self.seed)
        axes = {
            name: list(dict.fromkeys(getattr(setting, name) for setting in settings))
            for name in ("phrase", "strength", "guidance")
        }
        total = min(most, len(settings))
        middles = {name: values[len(values) // 2] for name, values in axes.items() if name != "phrase"}
        start = PromptSetting(settings[0].phrase, **middles)
        while len(self.trials) < total:
            for setting in self._ascent(start, axes):
                if setting not in self.trials:
                    if len(self.trials) == total:
                        return
                    score = self.score(self.make_translator(setting))
                    self.trials[setting] = Trial(setting, score)
                    if progress is not None:
                        progress("tuning the prompt", len(self.trials), total)
            untried = [setting for setting in settings if setting not in self.trials]
            if untried:
                start = untried[int(generator.integers(len(untried)))]

    def _ascent(self, start: PromptSetting, axes: dict[str, list[Any]]) -> Iterator[PromptSetting]:
        """Yield what is to be tried next; it is looked up in ``trials`` afterwards."""
        yield start
        best = start
        while True:
            before = best
            for name, values in axes.items():
                line = [replace(best, **{name: value}) for value in values]
                yield from line
                best = max([best, *line], key=lambda setting: self.trials[setting].score.objective)
            if best == before:
                return

    def best(self) -> Trial:
        """Return the best trial, the first of equals."""
        best = max(self.trials.values(), key=lambda trial: trial.score.objective)
        if not np.isfinite(best.score.objective):
            raise TooFewError(
                f"tune_prompt: none of {len(self.trials)} settings gave enough usable images of "
                f"{self.number}; look at the reasons of the failures with translate()"
            )
        return best

    def score(self, translator: Translator) -> TuningScore:
        """Translate the half's first images, in an order drawn by the seed, and score the results."""
        plan = plan_augmentation(
            self.half.sources.ids,
            semantic="tuning",
            source=translator.source,
            target=translator.target,
            needed=0,
            count=self.number,
            seed=self.seed,
        )
        made, failed = translate_plan(self.half.sources, plan, translator)
        return score_translations(
            self.half,
            made,
            failed,
            embedder=self.embedder,
            structure_weight=self.structure_weight,
            seed=self.seed,
            cache=self.cache,
        )
