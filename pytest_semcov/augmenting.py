"""Augmentation through a workbench: which gaps, which translator, judged by which real images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import Dataset, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.judging_coverage import coverage_of_counts
from pytest_semcov.judging_synthetic import judge_translated

if TYPE_CHECKING:
    from pytest_semcov.gates.verdict import Verdict
    from pytest_semcov.semantics.labels import Labels
    from pytest_semcov.translation.augmentation import Augmentation
    from pytest_semcov.translation.protocol import Translator
    from pytest_semcov.workbench import Workbench

FITTED_HERE = ("colour", "fourier", "unpaired")
"""Translators that are fitted on the spot, on one half of the uncovered images; the other half judges."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """A category to fill and what fills it."""

    semantic: str
    target: str
    translator: Any
    labels: Labels
    needed: int


def augment_dataset(
    bench: Workbench,
    dataset: Dataset,
    *,
    semantic: str | None = None,
    to: str | None = None,
    translator: object = None,
    reference: Dataset | None = None,
    count: int | None = None,
    seed: int | None = None,
    labels: object = None,
) -> tuple[Augmentation, ...]:
    """Translate covered images into an uncovered category and judge the result.

    Parameters
    ----------
    bench
        The workbench.
    dataset
        The real images.
    semantic, to
        What to make, e.g. ``"day_night"``, ``"night"``. Default: every category that is under-represented
        and for which one of the workbench's translators exists.
    translator
        Name of one of the workbench's translators, a spec, or an object; ``"colour"``, ``"fourier"`` and
        ``"unpaired"`` (minutes) are fitted on the spot. Default: the workbench's first that makes this
        category.
    reference
        Real images of the category ``to`` from outside the data set; they help to judge.
    count
        How many images to translate; default: as many as are needed, and enough to be judged.
    seed
        Root seed; default: the settings'.
    labels
        Known labels of ``semantic`` (see :func:`~pytest_semcov.assert_semantic_covered`).

    Returns
    -------
    tuple of Augmentation
        One per gap, accepted or not: look at each ``verdict``. Empty if there is no gap to fill.

    Raises
    ------
    ArgumentError
        If arguments do not go together, or nothing makes the category asked for.
    """
    from pytest_semcov.translation.augmentation import augment
    from pytest_semcov.translation.selection import plan_augmentation, unseen

    root = bench.settings.seed if seed is None else seed
    done = []
    for gap in _gaps(bench, dataset, semantic, to, translator, labels):
        real = [sample for sample in (dataset[index] for index in range(len(dataset))) if sample.real]
        by_category = _by_category(real, gap.labels)
        target = by_category[gap.target]
        model = _ready(bench, gap, by_category, root)
        plan = plan_augmentation(
            [sample.id for sample in by_category[model.source]],
            semantic=gap.semantic,
            source=model.source,
            target=gap.target,
            needed=gap.needed,
            count=count,
            seed=root,
        )
        uncovered = unseen(target, model)
        covered = unseen(by_category[model.source], model, groups=False)
        if by_category[model.source] and not covered:
            raise ArgumentError(
                f"semcov_augment: all {len(by_category[model.source])} {model.source} images were used "
                f"to fit {model.name}, so none is left to judge by: fit it without them (source_images=[])"
            )
        left_out = {
            f"real {gap.target}": len(target) - len(uncovered),
            f"real {model.source}": len(by_category[model.source]) - len(covered),
        }
        outside = [] if reference is None else unseen([reference[i] for i in range(len(reference))], model)

        def judge(
            synthetic: SampleDataset,
            failed: Mapping[str, str],
            *,
            gap: _Gap = gap,
            judges: tuple[list[Sample], list[Sample], list[Sample]] = (uncovered, outside, covered),
            left_out: Mapping[str, int] = left_out,
        ) -> Verdict:
            verdict = judge_translated(
                bench,
                synthetic,
                [SampleDataset(each) for each in judges[:2] if each],
                SampleDataset(judges[2], name="covered"),
                sources=dataset,
                semantic=gap.semantic,
                uncovered=gap.target,
                failed=failed,
            )
            told = [
                f"left out of the judgement, since the translator learnt from them: {number} {name} images"
                for name, number in left_out.items()
                if number
            ]
            return replace(verdict, details=(*verdict.details, *told))

        column = labels if isinstance(labels, str) else bench.settings.labels.get(gap.semantic)
        columns = [] if column is None else [column]
        done.append(augment(dataset, plan, model, judge=judge, columns=columns, progress=bench.progress))
    return tuple(done)


def _gaps(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | None,
    to: str | None,
    translator: object,
    labels: object,
) -> Iterator[_Gap]:
    """Yield what is to be filled: what was asked for, or every gap that has a translator."""
    if semantic is None:
        if to is not None or translator is not None or labels is not None:
            raise ArgumentError("semcov_augment: to=, translator= and labels= need semantic=")
        filled = set()
        for model in _models(bench).values():
            name = _semantic_of(bench, model)
            if (name, model.target) in filled:
                continue
            found = bench.label(dataset, name)
            verdict = coverage_of_counts(bench, dataset, found)
            if any(verdict[criterion].outcome is Outcome.FAIL for criterion in _about(verdict, model.target)):
                filled.add((name, model.target))
                yield _Gap(name, model.target, model, found, _needed(bench, verdict, model.target))
        return
    if to is None:
        raise ArgumentError(f"semcov_augment: which category of {semantic} is to be made? give to=")
    bench.check(dataset, semantic, labels=labels)
    if semantic in bench.descriptors and to not in bench.descriptors[semantic].categories:
        categories = ", ".join(bench.descriptors[semantic].categories)
        raise ArgumentError(f"semcov_augment: {semantic!r} has no category {to!r}; it has {categories}")
    chosen = _choose(bench, semantic, to, translator)
    found = bench.label(dataset, semantic, labels=labels)
    found.code(to)
    verdict = coverage_of_counts(bench, dataset, found)
    yield _Gap(semantic, to, chosen, found, _needed(bench, verdict, to))


def _about(verdict: Verdict, category: str) -> list[str]:
    names = {criterion.name for criterion in verdict.criteria}
    return [
        name for name in (f"{what}[{category}]" for what in ("count", "share", "groups")) if name in names
    ]


def _needed(bench: Workbench, verdict: Verdict, category: str) -> int:
    """Return how many images the category lacks until its count and its share reach their bars."""
    count, share = verdict[f"count[{category}]"], verdict[f"share[{category}]"]
    if count.value is None or share.value is None or share.bar is None:
        return bench.settings.min_count
    images = count.value / share.value if share.value else sum(verdict.counts.values())
    by_share = (share.bar * images - count.value) / (1 - share.bar) if share.bar < 1 else 0.0
    return max(0, math.ceil(bench.settings.min_count - count.value), math.ceil(by_share - 1e-9))


def _models(bench: Workbench) -> dict[str, Translator]:
    return {name: bench.translator(each) for name, each in bench.translators.items()}


def _choose(bench: Workbench, semantic: str, to: str, translator: object) -> Any:
    """Return the translator asked for, or the workbench's first that makes the category."""
    if isinstance(translator, str) and translator in FITTED_HERE:
        return translator
    if isinstance(translator, str) and translator in bench.translators:
        translator = bench.translators[translator]
    if translator is not None:
        model = bench.translator(translator)
        if model.target != to:
            raise ArgumentError(
                f"semcov_augment: translator {model.name} makes {model.target!r}, not {to!r} of {semantic}"
            )
        return model
    for model in _models(bench).values():
        if model.target == to and _semantic_of(bench, model) == semantic:
            return model
    known = ", ".join(bench.translators) or "none"
    raise ArgumentError(
        f"semcov_augment: no translator makes {to!r} of {semantic} (there are: {known}); give translator= or "
        "define the fixture semcov_translators"
    )


def _semantic_of(bench: Workbench, model: Translator) -> str:
    """Return the semantic that a translator changes: what it says, or the one with both its categories."""
    said = getattr(model, "semantic", None)
    if isinstance(said, str):
        return said
    fitting = [
        name
        for name, descriptor in bench.descriptors.items()
        if {model.source, model.target} <= set(descriptor.categories)
    ]
    if len(fitting) != 1:
        raise ArgumentError(
            f"translator {model.name} ({model.source} to {model.target}) fits "
            f"{', '.join(fitting) or 'no semantic'}: name the semantic in the marker, or give the translator "
            "an attribute `semantic`"
        )
    return fitting[0]


def _ready(bench: Workbench, gap: _Gap, by_category: Mapping[str, Sequence[Sample]], seed: int) -> Translator:
    """Return the translator; one that is fitted on the spot learns from half of the uncovered images."""
    if not isinstance(gap.translator, str):
        model: Translator = gap.translator
        if model.source not in by_category:
            raise ArgumentError(
                f"translator {model.name} takes {model.source!r}; {gap.semantic} has {', '.join(by_category)}"
            )
        return model
    from pytest_semcov.translation.colour import ColourTranslator
    from pytest_semcov.translation.fourier import FourierTranslator
    from pytest_semcov.translation.selection import split_for_fitting

    others = [category for category in by_category if category != gap.target]
    source = max(others, key=lambda category: (len(by_category[category]), category))
    fitting, _ = split_for_fitting(by_category[gap.target], seed=seed)
    if not fitting:
        raise ArgumentError(
            f"semcov_augment: the {gap.translator} translator needs real {gap.target} images to learn from, "
            f"the data set has {len(by_category[gap.target])}"
        )
    if gap.translator == "unpaired":
        from pytest_semcov.translation.unpaired import UnpairedTranslator

        learnt, _ = split_for_fitting(by_category[source], seed=seed)
        samples = (SampleDataset(learnt).fingerprint(), SampleDataset(fitting).fingerprint())
        return bench.shared.once(  # it takes minutes, and several tests may ask for it
            ("unpaired translator", *samples, source, gap.target, seed),
            lambda: UnpairedTranslator.fit(
                learnt, fitting, source=source, target=gap.target, seed=seed, progress=bench.progress
            ),
        )
    # Without covered images: nothing is learned from them, and so all of them may judge.
    kind = FourierTranslator if gap.translator == "fourier" else ColourTranslator
    return kind.fit([], fitting, source=source, target=gap.target, seed=seed)


def _by_category(samples: Sequence[Sample], labels: Labels) -> dict[str, list[Sample]]:
    category_of = labels.by_id()
    found: dict[str, list[Sample]] = {category: [] for category in labels.categories}
    for sample in samples:
        category = category_of.get(sample.id)
        if category is not None:
            found[category].append(sample)
    return found
