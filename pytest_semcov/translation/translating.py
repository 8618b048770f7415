"""Carry out a plan: translate in batches, set failures apart, keep the rest as synthetic samples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.data.samples import Dataset, Provenance, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, ImageError, ModelError
from pytest_semcov.translation.protocol import Failed, Translator
from pytest_semcov.translation.selection import AugmentationPlan

if TYPE_CHECKING:
    from PIL import Image

    from pytest_semcov.data.samples import ImageSource

BATCH = 8
"""Images that a translator is given at once."""

_BLANK_RANGE = 2
"""An image whose channels each span at most so many of 255 levels shows nothing."""


def translate_plan(
    dataset: Dataset,
    plan: AugmentationPlan,
    translator: Translator,
    *,
    columns: Collection[str] = (),
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[SampleDataset, dict[str, str]]:
    """Translate a plan's images; return the usable ones, and source id → reason for the others.

    Parameters and errors are those of :func:`~pytest_semcov.augment`.
    """
    made: list[Sample] = []
    failed: dict[str, str] = {}
    what = f"translating to {plan.target}"
    done = 0
    for batch in translate_in_batches(dataset, plan, translator, columns=columns):
        for source, result in batch:
            if isinstance(result, Sample):
                made.append(result)
            else:
                failed[source.id] = result
        done += len(batch)
        if progress is not None:
            progress(what, done, len(plan.sample_ids))
    return SampleDataset(made, name=f"synthetic {plan.target}"), failed


def translate_in_batches(
    dataset: Dataset,
    plan: AugmentationPlan,
    translator: Translator,
    *,
    columns: Collection[str] = (),
    batch_size: int = BATCH,
) -> Iterator[list[tuple[Sample, Sample | str]]]:
    """Yield a plan's results batch by batch: each source with its synthetic sample or why there is none.

    Parameters and errors are those of :func:`~pytest_semcov.augment`; ``batch_size`` is the number of images
    that the translator is given at once, which does not change its results.
    """
    if (translator.source, translator.target) != (plan.source, plan.target):
        raise ArgumentError(
            f"translator {translator.name} makes {translator.target!r} from {translator.source!r}; "
            f"planned is {plan.target!r} from {plan.source!r}"
        )
    where = {sample_id: index for index, sample_id in enumerate(dataset.ids)}
    missing = [sample_id for sample_id in plan.sample_ids if sample_id not in where]
    if missing:
        raise ArgumentError(f"planned sample {missing[0]!r} is not in the data set ({len(missing)} missing)")
    sources = [dataset[where[sample_id]] for sample_id in plan.sample_ids]
    for start in range(0, len(sources), batch_size):
        part = list(
            zip(sources[start : start + batch_size], plan.seeds[start : start + batch_size], strict=True)
        )
        results: dict[str, Sample | str] = {}
        batch: list[tuple[Sample, int, Image.Image]] = []
        for sample, seed in part:
            try:
                batch.append((sample, seed, sample.load()))
            except ImageError as error:
                results[sample.id] = f"{error.rule}; {error.remedy}"
        for (sample, seed, image), result in zip(batch, _run(translator, batch), strict=True):
            results[sample.id] = unusable(result, image) or synthetic_sample(
                sample, MemorySource(result), plan, translator, seed, columns=columns
            )
        yield [(sample, results[sample.id]) for sample, _ in part]


def _run(translator: Translator, batch: Sequence[tuple[Sample, int, Image.Image]]) -> Sequence[Any]:
    if not batch:
        return ()
    where = f"translator {translator.name}"
    try:
        # Copies: a translator that draws into what it is given must not change a data set's images.
        images = [image.copy() for _, _, image in batch]
        results = list(translator.translate(images, seeds=[seed for _, seed, _ in batch]))
    except Exception as error:  # foreign code: its error does not name the images
        first = batch[0][0].id
        raise ModelError(
            f"{where} raised {type(error).__name__} on the batch of {len(batch)} from {first}: {error}"
        ) from error
    if len(results) != len(batch):
        raise ArgumentError(f"{where} returned {len(results)} results for {len(batch)} images")
    return results


def unusable(result: object, source: Image.Image) -> str:
    """Return why a translation cannot be used, an empty text if it can."""
    from PIL import Image

    if isinstance(result, Failed):
        return result.reason or "the translator gave no reason"
    if not isinstance(result, Image.Image):
        return f"the translation is no image but {type(result).__name__}"
    if result.mode != "RGB":
        return f"the translation is not RGB: its mode is {result.mode}"
    if result.size != source.size:
        return f"the translation has another size: {result.size} for {source.size}"
    pixels = np.asarray(result).reshape(-1, 3)
    if (pixels.max(axis=0).astype(int) - pixels.min(axis=0) <= _BLANK_RANGE).all():
        return "the translation is blank: all its pixels are equal"
    return ""


def synthetic_sample(
    sample: Sample,
    source: ImageSource,
    plan: AugmentationPlan,
    translator: Translator,
    seed: int,
    *,
    columns: Collection[str] = (),
) -> Sample:
    """Return the synthetic sample that a translation of this one is.

    Parameters
    ----------
    sample
        The real image; boxes, group and metadata stay, the category becomes the target.
    source
        The translated image's pixels.
    plan, translator, seed
        How it was made.
    columns
        As of :func:`~pytest_semcov.augment`.
    """
    # A class that is the very category being changed cannot stay, e.g. of class folders day/ and night/.
    renamed = "label" in columns or sample.label == plan.source
    follow = {plan.semantic, *(name for name in columns if name in sample.metadata)}
    return Sample(
        id=f"synthetic/{plan.semantic}/{plan.target}/{sample.id}",
        source=source,
        label=plan.target if renamed else sample.label,
        boxes=sample.boxes,
        metadata=MappingProxyType({**sample.metadata, **dict.fromkeys(follow, plan.target)}),
        group=sample.group,
        provenance=Provenance(
            source_id=sample.id,
            translator=translator.name,
            translator_fingerprint=translator.fingerprint,
            semantic=plan.semantic,
            source_category=plan.source,
            target_category=plan.target,
            seed=seed,
            prompt=getattr(translator, "prompt", None),
            versions=dict(_versions()),
        ),
    )


@functools.cache
def _versions() -> Mapping[str, str]:
    """Return the versions that provenance names; looking them up takes longer than a small translation."""
    return {name: version(name) for name in ("pytest-semcov", "numpy", "pillow")}
