"""Augmentation: plan, translate, judge, and a data set in which accepted synthetic images count.

Nothing here embeds or labels: the plan takes ids, the judge is a function that the caller brings.
"""

from __future__ import annotations

import hashlib
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.data.samples import Dataset, Provenance, Sample, SampleDataset
from pytest_semcov.embedding.fingerprint import library_versions
from pytest_semcov.errors import ArgumentError, ImageError, ModelError
from pytest_semcov.gates.verdict import Plain, Verdict
from pytest_semcov.translation.protocol import Failed, Translator

if TYPE_CHECKING:
    from PIL import Image

    from pytest_semcov.embedding.protocols import Progress

JUDGED_WITH_CONFIDENCE = 100
"""So many images are translated by default even where fewer are needed: with less, a verdict is often
inconclusive."""

BATCH = 16
_BLANK_SPAN = 2

Judge = Callable[[SampleDataset, Mapping[str, str]], Verdict]
"""Judges synthetic samples, given the failures (source id → reason)."""


@dataclass(frozen=True, slots=True)
class AugmentationPlan:
    """Which samples are translated, and with which seeds.

    Parameters
    ----------
    semantic, source, target
        What is changed, e.g. ``day_night``, ``day``, ``night``.
    seeds
        Source id → seed, in the order of translation.
    needed
        How many synthetic images the category lacks to be covered.
    seed
        Root seed.
    """

    semantic: str
    source: str
    target: str
    seeds: Mapping[str, int]
    needed: int
    seed: int

    def __len__(self) -> int:
        return len(self.seeds)

    def to_dict(self) -> dict[str, Plain]:
        """Return the plan as plain Python."""
        return {
            "semantic": self.semantic,
            "source": self.source,
            "target": self.target,
            "seeds": dict(self.seeds),
            "needed": self.needed,
            "seed": self.seed,
        }

    def __str__(self) -> str:
        return (
            f"{self.semantic}: translate {len(self)} images from {self.source} to {self.target} "
            f"({self.needed} needed, seed {self.seed})"
        )


def plan_augmentation(
    ids: Sequence[str],
    *,
    semantic: str,
    source: str,
    target: str,
    needed: int,
    count: int | None = None,
    seed: int = 0,
) -> AugmentationPlan:
    """Choose samples and seeds. Pure; the order of ids does not matter.

    Parameters
    ----------
    ids
        Ids of the covered category's samples.
    semantic, source, target
        What is changed, e.g. ``day_night``, ``day``, ``night``.
    needed
        How many images the target category lacks to reach its coverage bars.
    count
        How many to translate at most. Default: those needed, and at least 100, so that a verdict is possible.
        There are never more than there are ids: a sample is translated once.
    seed
        Root seed. A sample's rank in the choice and its own seed depend on it and on the sample's id alone,
        so that a larger plan contains a smaller one.

    Raises
    ------
    ArgumentError
        If there are no ids, an id occurs twice, or a number is out of range.
    """
    if needed < 0:
        raise ArgumentError(f"needed {needed}: need 0 or more")
    if count is not None and count < 1:
        raise ArgumentError(f"count {count}: need at least 1")
    if not ids:
        raise ArgumentError(f"{semantic}: no image of {source!r} to translate to {target!r}")
    twice = [sample_id for sample_id, times in Counter(ids).items() if times > 1]
    if twice:
        raise ArgumentError(f"{semantic}: id {twice[0]!r} is planned twice")
    wanted = max(needed, JUDGED_WITH_CONFIDENCE) if count is None else count
    ranked = sorted(ids, key=lambda sample_id: (_number(seed, "choice", sample_id), sample_id))
    seeds = {sample_id: _number(seed, target, sample_id) for sample_id in ranked[:wanted]}
    return AugmentationPlan(semantic, source, target, MappingProxyType(seeds), needed, seed)


def split_for_fitting(samples: Sequence[Sample], *, seed: int = 0) -> tuple[list[Sample], list[Sample]]:
    """Split samples at random into halves, one to fit a translator and one to judge it.

    Groups stay together. A sample's place depends on seed and ids alone, not on their order.

    Returns
    -------
    fitting, judging
        About equally large; with one group (or image) only, ``fitting`` is empty.
    """
    groups: dict[tuple[bool, str], list[Sample]] = {}
    for sample in samples:
        key = (False, sample.id) if sample.group is None else (True, sample.group)
        groups.setdefault(key, []).append(sample)
    ranked = sorted(groups, key=lambda key: (_number(seed, "split", repr(key)), key))
    halves: tuple[list[Sample], list[Sample]] = ([], [])
    for key in ranked:  # judging first: it must not stay empty
        smaller = 0 if len(halves[0]) < len(halves[1]) else 1
        halves[smaller].extend(groups[key])
    return halves


def fitted_on(translator: object) -> frozenset[str]:
    """Return the content keys of the images that a translator learned from; none if it does not learn."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Augmentation:
    """The outcome of one augmentation, accepted or not.

    Parameters
    ----------
    plan
        What was to be translated.
    translator, fingerprint
        Name of the translator, hash of its parameters.
    synthetic
        The usable synthetic samples; their provenance holds the verdict.
    failed
        Source id → why there is no usable image.
    verdict
        The judgement.
    """

    plan: AugmentationPlan
    translator: str
    fingerprint: str
    synthetic: SampleDataset
    failed: Mapping[str, str]
    verdict: Verdict

    @property
    def accepted(self) -> bool:
        """Whether the synthetic samples may count."""
        return self.verdict.passed

    def to_dict(self) -> dict[str, Plain]:
        """Return the outcome as plain Python."""
        return {
            "plan": self.plan.to_dict(),
            "translator": self.translator,
            "fingerprint": self.fingerprint,
            "synthetic": list(self.synthetic.ids),
            "failed": dict(self.failed),
            "verdict": self.verdict.to_dict(),
        }

    def __str__(self) -> str:
        reasons = Counter(self.failed.values()).most_common()
        blocked = "".join(f", {times} failed ({reason})" for reason, times in reasons)
        kept = len(self.synthetic) if self.accepted else 0
        first = (
            f"{self.plan.semantic}: {len(self.plan)} tried by {self.translator} to {self.plan.target}, "
            f"{kept} accepted{blocked}"
        )
        return f"{first}\n{self.verdict}"


class AugmentedDataset(SampleDataset):
    """A data set in which real samples and accepted synthetic ones are counted apart.

    Parameters
    ----------
    dataset
        The source data set; it is not changed.
    augmentations
        Outcomes whose verdict is PASS.
    name
        Shown in reports.

    Raises
    ------
    ArgumentError
        If an augmentation was not accepted.
    """

    def __init__(
        self, dataset: Dataset, augmentations: Sequence[Augmentation], *, name: str | None = None
    ) -> None:
        for augmentation in augmentations:
            if not augmentation.accepted:
                raise ArgumentError(
                    f"synthetic {augmentation.plan.target} images were not accepted and do not count: "
                    f"{augmentation.verdict.summary or augmentation.verdict.outcome.value}"
                )
        self.augmentations = tuple(augmentations)
        source = [dataset[index] for index in range(len(dataset))]
        synthetic = [sample for augmentation in augmentations for sample in augmentation.synthetic]
        given = getattr(dataset, "name", "data set")
        super().__init__([*source, *synthetic], name=name or f"{given} with synthetic images")

    @property
    def real(self) -> SampleDataset:
        """The real samples."""
        return SampleDataset([sample for sample in self if sample.real], name=self.name)

    @property
    def synthetic(self) -> SampleDataset:
        """The synthetic samples."""
        return SampleDataset([sample for sample in self if not sample.real], name=f"synthetic, {self.name}")

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts that accepted the synthetic samples, one per augmentation."""
        return tuple(augmentation.verdict for augmentation in self.augmentations)

    @property
    def failed(self) -> Mapping[str, str]:
        """Source id → why there is no synthetic image, over all augmentations."""
        return {
            source_id: reason
            for augmentation in self.augmentations
            for source_id, reason in augmentation.failed.items()
        }


def augment(
    dataset: Dataset,
    plan: AugmentationPlan,
    translator: Translator,
    *,
    judge: Judge,
    columns: Collection[str] = (),
    progress: Progress | None = None,
) -> Augmentation:
    """Translate as planned and judge the result. A bad verdict is returned, not raised.

    Parameters
    ----------
    dataset
        Holds the planned samples; it is not changed.
    plan
        From :func:`plan_augmentation`.
    translator
        Makes the plan's target category from its source category.
    judge
        Called once with the usable synthetic samples, even if there are none, and the failures (source id →
        reason). The real images to compare with are the caller's affair: see :func:`unseen`.
    columns
        Columns (``"label"`` or metadata) that hold the semantic's category, beside the one named like the
        semantic: they get the target category.
    progress
        Called as ``progress(what, done, total)`` after each batch.

    Raises
    ------
    ArgumentError
        If translator and plan do not fit, or a planned id is not in the data set.
    ModelError
        If the translator raises or does not return one result per image.
    """
    if (translator.source, translator.target) != (plan.source, plan.target):
        raise ArgumentError(
            f"translator {translator.name} makes {translator.target!r} from {translator.source!r}; "
            f"the plan is {plan.target!r} from {plan.source!r}"
        )
    samples = _planned(dataset, plan)
    ids = _synthetic_ids([sample.id for sample in samples], translator)
    made: list[Sample] = []
    failed: dict[str, str] = {}
    versions = library_versions("pytest-semcov", "numpy", "pillow", "scipy")
    for sample, result in _translate(samples, plan, translator, progress):
        if isinstance(result, Failed):
            failed[sample.id] = result.reason
            continue
        provenance = Provenance(
            source_id=sample.id,
            translator=translator.name,
            translator_fingerprint=translator.fingerprint,
            semantic=plan.semantic,
            source_category=plan.source,
            target_category=plan.target,
            seed=plan.seeds[sample.id],
            prompt=_prompt(translator),
            versions=MappingProxyType(versions),
        )
        made.append(_synthetic_sample(sample, ids[sample.id], result, provenance, columns))
    name = f"synthetic {plan.target}"
    verdict = judge(SampleDataset(made, name=name), MappingProxyType(failed))
    record = MappingProxyType(verdict.to_dict())
    judged = [
        sample.with_provenance(replace(sample.provenance, verdict=record))
        for sample in made
        if sample.provenance is not None
    ]
    return Augmentation(
        plan,
        translator.name,
        translator.fingerprint,
        SampleDataset(judged, name=name),
        MappingProxyType(failed),
        verdict,
    )


def _planned(dataset: Dataset, plan: AugmentationPlan) -> list[Sample]:
    where = {sample_id: index for index, sample_id in enumerate(dataset.ids)}
    missing = [sample_id for sample_id in plan.seeds if sample_id not in where]
    if missing:
        raise ArgumentError(f"planned id {missing[0]!r} is not in the data set ({len(missing)} missing)")
    return [dataset[where[sample_id]] for sample_id in plan.seeds]


def _translate(
    samples: Sequence[Sample], plan: AugmentationPlan, translator: Translator, progress: Progress | None
) -> Iterator[tuple[Sample, Image.Image | Failed]]:
    """Yield each sample with its translation or the reason why there is none."""
    for start in range(0, len(samples), BATCH):
        batch: list[tuple[Sample, Image.Image]] = []
        for sample in samples[start : start + BATCH]:
            try:
                batch.append((sample, sample.load()))
            except ImageError as error:
                yield sample, Failed(f"source image unusable: {error.rule}")
        results = _run(translator, batch, [plan.seeds[sample.id] for sample, _ in batch])
        for (sample, image), result in zip(batch, results, strict=True):
            yield sample, _checked(result, image.size)
        if progress is not None:
            done = min(start + BATCH, len(samples))
            progress(f"translating to {plan.target}", done, len(samples))


def _run(
    translator: Translator, batch: Sequence[tuple[Sample, Image.Image]], seeds: Sequence[int]
) -> Sequence[object]:
    if not batch:
        return []
    # Copies: a translator that draws into what it gets must not change what is compared and kept.
    images = [image.copy() for _, image in batch]
    where = f"translator {translator.name}, batch of {len(batch)} from {batch[0][0].id}"
    try:
        results = list(translator.translate(images, seeds=seeds))
    except Exception as error:  # foreign code: name it and the images
        raise ModelError(f"{where}: {type(error).__name__}: {error}") from error
    if len(results) != len(batch):
        raise ModelError(f"{where}: returned {len(results)} results for {len(batch)} images")
    return results


def _checked(result: object, size: tuple[int, int]) -> Image.Image | Failed:
    """Return the result if it is an RGB image of the right size that shows something."""
    from PIL import Image

    if isinstance(result, Failed):
        return result
    if not isinstance(result, Image.Image):
        return Failed(f"translator returned {type(result).__name__}, not an image")
    if result.mode != "RGB":
        return Failed(f"mode {result.mode}, need RGB")
    if result.size != size:
        wanted, got = (f"{width} × {height}" for width, height in (size, result.size))
        return Failed(f"size {got}, need {wanted} as the source")
    if all(high - low <= _BLANK_SPAN for low, high in _extrema(result)):
        return Failed("blank: all pixels are alike")
    return result


def _extrema(image: Image.Image) -> Sequence[tuple[int, int]]:
    return [image.getchannel(channel).getextrema() for channel in range(3)]  # type: ignore[misc]


def _synthetic_sample(
    source: Sample, sample_id: str, image: Image.Image, provenance: Provenance, columns: Collection[str]
) -> Sample:
    content = io.BytesIO()
    image.save(content, "PNG", compress_level=1)
    category = provenance.target_category
    metadata = {**source.metadata, provenance.semantic: category}
    metadata.update((name, category) for name in columns if name in source.metadata)
    # A class that is the very category being changed cannot stay, e.g. class folders day/ and night/.
    renamed = "label" in columns or source.label == provenance.source_category
    return Sample(
        sample_id,
        MemorySource(content.getvalue()),
        category if renamed else source.label,
        source.boxes,
        MappingProxyType(metadata),
        source.group,
        provenance,
    )


def _synthetic_ids(source_ids: Sequence[str], translator: Translator) -> dict[str, str]:
    """Return source id → synthetic id; ids that differ in case or composition alone get a hash."""
    folded = Counter(_folded(source_id) for source_id in source_ids)
    prefix = "/".join(re.sub(r"[^\w.-]+", "-", part) for part in (translator.name, translator.target))
    return {
        source_id: f"synthetic/{prefix}/{source_id}"
        + (
            ""
            if folded[_folded(source_id)] == 1
            else f"~{hashlib.sha256(source_id.encode()).hexdigest()[:8]}"
        )
        for source_id in source_ids
    }


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _prompt(translator: Translator) -> str | None:
    prompt = getattr(translator, "prompt", None)
    return prompt if isinstance(prompt, str) else None


def _number(seed: int, purpose: str, text: str) -> int:
    """Return a number from 0 to 2⁶³ - 1 that looks random and depends on the arguments alone."""
    digest = hashlib.sha256("\n".join((str(seed), purpose, text)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1
