"""Augmentation: translate the images of a plan, have them judged, join them to the real ones.

Nothing here embeds or labels: the caller brings labels and a function that judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pytest_semcov.data.samples import Dataset, SampleDataset
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Plain, Verdict
from pytest_semcov.translation.protocol import Translator
from pytest_semcov.translation.selection import AugmentationPlan
from pytest_semcov.translation.translating import translate_plan


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


def _short(verdict: Verdict) -> dict[str, object]:
    """Return what a synthetic image carries of the verdict that accepted it."""
    judged = {criterion.name: criterion.outcome.value for criterion in verdict.criteria}
    return {"outcome": verdict.outcome.value, "summary": verdict.summary, "criteria": judged}
