"""Augmentation: plan which images to translate, translate them, have them judged, join them to the real ones.

Nothing here embeds or labels: the caller brings labels and a function that judges.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.data.samples import Dataset, Provenance, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, ImageError, ModelError
from pytest_semcov.gates.verdict import Plain, Verdict
from pytest_semcov.translation.protocol import Failed, Translator

if TYPE_CHECKING:
    from PIL import Image

    from pytest_semcov.data.samples import ImageSource

FEWEST_TRANSLATED = 100
"""At least so many images are made where there are as many sources: fewer cannot be judged well."""

BATCH = 8
"""Images that a translator is given at once."""

_BLANK_RANGE = 2
"""An image whose channels each span at most so many of 255 levels shows nothing."""


@dataclass(frozen=True, slots=True)
class AugmentationPlan:
    """Which images will be translated, decided before anything is made.

    Parameters
    ----------
    semantic, source, target
        What is changed: ``day_night``, ``day``, ``night``.
    sample_ids
        Sources, in the order in which they are translated.
    seeds
        One per source, from the root seed and the sample's id alone.
    seed
        The root seed.
    """

    semantic: str
    source: str
    target: str
    sample_ids: tuple[str, ...]
    seeds: tuple[int, ...]
    seed: int

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "semantic": self.semantic,
            "source": self.source,
            "target": self.target,
            "sample_ids": list(self.sample_ids),
            "seeds": list(self.seeds),
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Augmentation:
    """What one plan led to.

    Parameters
    ----------
    plan
        What was translated.
    synthetic
        The usable synthetic images, with provenance; accepted only if the verdict is PASS.
    failed
        Source id → why its translation is not usable.
    verdict
        Whether the synthetic images may stand in for the real ones.
    translator, fingerprint
        Name of the translator, hash of its parameters or weights.
    """

    plan: AugmentationPlan
    synthetic: SampleDataset
    failed: Mapping[str, str]
    verdict: Verdict
    translator: str = ""
    fingerprint: str = ""

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "plan": self.plan.to_dict(),
            "synthetic": list(self.synthetic.ids),
            "failed": dict(self.failed),
            "verdict": self.verdict.to_dict(),
            "translator": self.translator,
            "fingerprint": self.fingerprint,
        }

    def __str__(self) -> str:
        tried = len(self.plan.sample_ids)
        parts = [f"{tried} tried by {self.translator}", f"{len(self.synthetic)} made"]
        parts += [f"{times} failed ({why})" for why, times in Counter(self.failed.values()).most_common()]
        parts.append(f"{len(self.synthetic) if self.verdict.passed else 0} accepted")
        plan = self.plan
        return f"{plan.semantic}, {plan.source} to {plan.target}: {', '.join(parts)}\n{self.verdict}"


class AugmentedDataset(SampleDataset):
    """Real images together with accepted synthetic ones.

    Parameters
    ----------
    real
        The data set that was completed.
    augmentations
        Accepted augmentations.

    Raises
    ------
    ArgumentError
        If an augmentation's verdict is not PASS.
    DatasetError
        If ids collide.
    """

    def __init__(self, real: Dataset, augmentations: Sequence[Augmentation]) -> None:
        refused = [each for each in augmentations if not each.verdict.passed]
        if refused:
            raise ArgumentError(
                f"{refused[0].verdict.subject} was not accepted: {refused[0].verdict.outcome}"
            )
        samples = [real[index] for index in range(len(real))]
        made = [sample for each in augmentations for sample in each.synthetic.samples]
        super().__init__(
            [*samples, *made],
            name=f"{getattr(real, 'name', 'data set')} with synthetic images",
            classes=getattr(real, "classes", ()),
        )
        self.augmentations = tuple(augmentations)

    @property
    def real(self) -> SampleDataset:
        """The real images."""
        return self.subset([index for index, sample in enumerate(self.samples) if sample.real])

    @property
    def synthetic(self) -> SampleDataset:
        """The accepted synthetic images."""
        return self.subset([index for index, sample in enumerate(self.samples) if not sample.real])

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts by which the synthetic images were accepted."""
        return tuple(each.verdict for each in self.augmentations)

    @property
    def failed(self) -> dict[str, str]:
        """Source id → why its translation is not usable."""
        return {source: reason for each in self.augmentations for source, reason in each.failed.items()}


def plan_augmentation(
    candidates: Sequence[str],
    *,
    semantic: str,
    source: str,
    target: str,
    needed: int,
    count: int | None = None,
    seed: int = 0,
) -> AugmentationPlan:
    """Choose which images to translate.

    Parameters
    ----------
    candidates
        Ids of the real images of the source category.
    semantic, source, target
        What is changed.
    needed
        How many images the target category lacks.
    count
        How many to translate; default: as many as are needed, and at least
        :data:`FEWEST_TRANSLATED`; never more than there are candidates.
    seed
        Root seed. The choice and the seeds depend on it and on each sample's id, not on the order.

    Raises
    ------
    ArgumentError
        If there is no candidate, or ``count`` is less than one.
    """
    if not candidates:
        raise ArgumentError(f"{semantic}: no real {source} image to translate to {target}")
    if count is not None and count < 1:
        raise ArgumentError(f"count={count}: need at least one image to translate")
    wanted = max(needed, FEWEST_TRANSLATED) if count is None else count
    ranked = sorted(candidates, key=lambda sample_id: (_number(seed, "choice", sample_id), sample_id))
    chosen = tuple(ranked[:wanted])
    seeds = tuple(_number(seed, semantic, target, sample_id) >> 32 for sample_id in chosen)
    return AugmentationPlan(semantic, source, target, chosen, seeds, seed)


def augment(
    dataset: Dataset,
    plan: AugmentationPlan,
    translator: Translator,
    *,
    judge: Callable[[SampleDataset, Mapping[str, str]], Verdict],
    columns: Collection[str] = (),
    progress: Callable[[str, int, int], None] | None = None,
) -> Augmentation:
    """Carry out a plan: translate, set failures apart, judge.

    Parameters
    ----------
    dataset
        Holds the sources.
    plan
        What to translate.
    translator
        Makes the images.
    judge
        Called with the usable synthetic images and the failures (source id → reason); returns the verdict.
    columns
        Columns (``"label"`` or metadata) that hold the semantic's category under another name than the
        semantic's: they get the target category, too.
    progress
        Called as ``progress(what, done, total)``.

    Returns
    -------
    Augmentation
        With its verdict, good or bad: nothing is raised for a bad one.

    Raises
    ------
    ArgumentError
        If the translator makes other categories than planned, a planned sample is missing, or the translator
        returns another number of results than it was given images.
    ModelError
        If the translator raises; names it and the first image of the batch.
    """
    synthetic, failed = translate_plan(dataset, plan, translator, columns=columns, progress=progress)
    verdict = judge(synthetic, failed)
    accepted = [
        sample.with_provenance(replace(sample.provenance, verdict=_short(verdict)))
        for sample in synthetic.samples
        if sample.provenance is not None
    ]
    return Augmentation(
        plan,
        SampleDataset(accepted, name=synthetic.name),
        MappingProxyType(failed),
        verdict,
        translator.name,
        translator.fingerprint,
    )


def translate_plan(
    dataset: Dataset,
    plan: AugmentationPlan,
    translator: Translator,
    *,
    columns: Collection[str] = (),
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[SampleDataset, dict[str, str]]:
    """Translate a plan's images; return the usable ones, and source id → reason for the others.

    Parameters and errors are those of :func:`augment`.
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

    Parameters and errors are those of :func:`augment`; ``batch_size`` is the number of images that the
    translator is given at once, which does not change its results.
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


def fitted_on(translator: object) -> frozenset[str]:
    """Return the content keys of the images that a translator learnt from; empty if it does not say."""
    return frozenset(getattr(translator, "fitted_on", ()))


def unseen(samples: Sequence[Sample], translator: object, *, groups: bool = True) -> list[Sample]:
    """Return the samples that may judge a translator.

    Parameters
    ----------
    samples
        Real samples.
    translator
        None of the images in its ``fitted_on`` is returned.
    groups
        Whether images of the groups in its ``fitted_groups`` (those of the target images it learned from) are
        left out as well: yes for images of the target category, unnecessary for those of another.
    """
    keys = fitted_on(translator)
    close = frozenset(getattr(translator, "fitted_groups", ())) if groups else frozenset()
    return [
        sample
        for sample in samples
        if sample.group not in close and not (keys and sample.content_key() in keys)
    ]


def split_for_fitting(samples: Sequence[Sample], *, seed: int) -> tuple[list[Sample], list[Sample]]:
    """Split real images into halves, one to fit a translator and one to judge it, whole groups together."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.id if sample.group is None else f"group {sample.group}", []).append(sample)
    fitting: list[Sample] = []
    judging: list[Sample] = []
    for name in sorted(groups, key=lambda name: (_number(seed, "split", name), name)):
        (fitting if len(fitting) <= len(judging) else judging).extend(groups[name])
    return fitting, judging


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
        As of :func:`augment`.
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


def _short(verdict: Verdict) -> dict[str, object]:
    """Return what a synthetic image carries of the verdict that accepted it."""
    judged = {criterion.name: criterion.outcome.value for criterion in verdict.criteria}
    return {"outcome": verdict.outcome.value, "summary": verdict.summary, "criteria": judged}


def _number(*key: object) -> int:
    """Return a number below 2⁶⁴ that depends on the key alone."""
    digest = hashlib.sha256("\0".join(str(part) for part in key).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
