"""From data sets, models under test and a workbench to scores and to verdicts on a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import Dataset, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.evaluation.models import ModelUnderTest
from pytest_semcov.evaluation.predicting import Predictions, predict
from pytest_semcov.evaluation.scores import Metric, Scoring, estimate_scores, parse_metric
from pytest_semcov.evaluation.tables import ScoreRow, ScoreTable, finite
from pytest_semcov.gates.choice import (
    condition_gap_verdict,
    likeness_verdict,
    preference_verdict,
    same_choice_verdict,
)
from pytest_semcov.gates.verdict import Verdict
from pytest_semcov.judging_coverage import versions
from pytest_semcov.metrics.detection import BoxFilter
from pytest_semcov.metrics.resampling import Estimate

if TYPE_CHECKING:
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.workbench import Workbench


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How models are scored.

    Parameters
    ----------
    class_names
        Label in the data set → class of the models, where they differ.
    class_weighting
        ``"balanced"``: classes count equally in accuracy and F1, as published for DEDUCE.
    keep
        Which boxes count; default: all.
    resamples
        Number of resamples behind an interval.
    confidence
        Of intervals.
    """

    class_names: Mapping[str, str] | None = None
    class_weighting: Any = "none"
    keep: BoxFilter | None = None
    resamples: int = 999
    confidence: float = 0.95

    def scoring(self, metric: Metric, seed: int) -> Scoring:
        """Return the instructions for one metric."""
        return Scoring(
            metric,
            self.class_names,
            self.class_weighting,
            self.keep or BoxFilter(),
            self.resamples,
            seed,
        )


def named_models(bench: Workbench, models: object) -> dict[str, ModelUnderTest]:
    """Return models by name.

    Parameters
    ----------
    bench
        Loads specs once.
    models
        A mapping name → model (or spec), a sequence of models, or one model; each may be the name of one of
        the workbench's.

    Raises
    ------
    ArgumentError
        If there is none, or two of a sequence have one name.
    """
    if isinstance(models, Mapping):
        found = {str(name): bench.model(model) for name, model in models.items()}
    else:
        given = list(models) if isinstance(models, Sequence) and not isinstance(models, str) else [models]
        found = {}
        for each in given:
            model = bench.model(each)
            name = each if isinstance(each, str) and each in bench.models else model.name
            if name in found:
                raise ArgumentError(f"two models are called {name!r}: give a mapping name → model")
            found[name] = model
    if not found:
        raise ArgumentError("no model to score")
    return found


def score_models(
    bench: Workbench,
    models: object,
    datasets: Dataset | Mapping[str, Dataset],
    metrics: str | Sequence[str] = "accuracy",
    *,
    semantic: str | Descriptor | None = None,
    labels: object = None,
    **options: Any,
) -> ScoreTable:
    """Score models on data sets; see :meth:`Workbench.score`."""
    how = ScoreOptions(**options)
    known = named_models(bench, models)
    named = (
        dict(datasets) if isinstance(datasets, Mapping) else {getattr(datasets, "name", "data set"): datasets}
    )
    wanted = [parse_metric(text) for text in ([metrics] if isinstance(metrics, str) else metrics)]
    rows = []
    for dataset_name, dataset in named.items():
        _check_dataset(dataset)
        subsets = {"all": _samples(dataset)}
        if semantic is not None:
            subsets |= subsets_of(bench, dataset, semantic, labels=labels)
        for metric in wanted:
            scores = _scores(bench, known, subsets, how.scoring(metric, bench.settings.seed))
            rows += [
                _row(model, dataset_name, subset, metric, score, how.confidence)
                for model, by_subset in scores.items()
                for subset, score in by_subset.items()
            ]
    return ScoreTable(tuple(rows), how.confidence)


def subsets_of(
    bench: Workbench, dataset: Dataset, semantic: str | Descriptor, *, labels: object = None
) -> dict[str, list[Sample]]:
    """Return the samples of each category, real and synthetic apart; empty ones are left out."""
    category_of = bench.label(dataset, semantic, labels=labels).by_id()
    found: dict[str, list[Sample]] = {}
    for sample in _samples(dataset):
        category = category_of.get(sample.id)
        if category is not None:
            name = f"{'real' if sample.real else 'synthetic'} {category}"
            found.setdefault(name, []).append(sample)
    return dict(sorted(found.items()))


def judge_preference(
    bench: Workbench,
    new: object,
    old: object,
    dataset: Dataset,
    *,
    metric: str,
    margin: float = 0.0,
    **options: Any,
) -> Verdict:
    """Judge whether a model is better than others; see :func:`~pytest_semcov.assert_model_preferred`."""
    how = ScoreOptions(**options)
    _check_dataset(dataset)
    first, others = named_models(bench, new), named_models(bench, old)
    if len(first) != 1:
        raise ArgumentError(f"new= must be one model, got {', '.join(first)}")
    (name,) = first
    if name in others:
        raise ArgumentError(f"both models are called {name!r}: give mappings {{'name': model}}")
    models, measure = first | others, parse_metric(metric)
    scores = _scores(bench, models, {"all": _samples(dataset)}, how.scoring(measure, bench.settings.seed))
    return preference_verdict(
        name,
        {model: by_set["all"] for model, by_set in scores.items()},
        subject=str(getattr(dataset, "name", "data set")),
        metric=metric,
        higher_is_better=measure.higher_is_better,
        margin=margin,
        confidence=how.confidence,
        counts=_counts({"images": _samples(dataset)}),
        provenance=_provenance(bench, models, how),
    )


def judge_same_choice(
    bench: Workbench,
    models: object,
    first: Dataset,
    second: Dataset,
    *,
    metric: str,
    names: tuple[str, str] = ("improved", "ideal"),
    **options: Any,
) -> Verdict:
    """Judge whether two data sets choose one model; see :func:`~pytest_semcov.assert_same_choice`."""
    how = ScoreOptions(**options)
    known, measure = named_models(bench, models), parse_metric(metric)
    sets = dict(zip(names, (first, second), strict=True))
    scores: dict[str, dict[str, Estimate]] = {}
    for name, dataset in sets.items():
        _check_dataset(dataset)
        found = _scores(bench, known, {"all": _samples(dataset)}, how.scoring(measure, bench.settings.seed))
        scores[name] = {model: by_set["all"] for model, by_set in found.items()}
    return same_choice_verdict(
        scores,
        subject=f"choice of {', '.join(known)}",
        metric=metric,
        higher_is_better=measure.higher_is_better,
        confidence=how.confidence,
        counts=_counts({name: _samples(dataset) for name, dataset in sets.items()}),
        provenance=_provenance(bench, known, how),
    )


def judge_likeness(
    bench: Workbench,
    models: object,
    synthetic: Dataset,
    real_uncovered: Dataset,
    covered: Dataset,
    *,
    metric: str,
    **options: Any,
) -> Verdict:
    """Judge scores on synthetic images; see :func:`~pytest_semcov.assert_synthetic_behaves_like_real`."""
    how = ScoreOptions(**options)
    known, measure = named_models(bench, models), parse_metric(metric)
    sets = {"synthetic": synthetic, "real uncovered": real_uncovered, "covered": covered}
    for dataset in sets.values():
        _check_dataset(dataset)
    samples = {name: _samples(dataset) for name, dataset in sets.items()}
    _check_kinds(samples)
    scores = _scores(bench, known, samples, how.scoring(measure, bench.settings.seed))
    by_set = {name: {model: scores[model][name] for model in known} for name in sets}
    return likeness_verdict(
        by_set["synthetic"],
        by_set["real uncovered"],
        by_set["covered"],
        subject=str(getattr(synthetic, "name", "synthetic images")),
        metric=metric,
        confidence=how.confidence,
        counts=_counts(samples),
        provenance=_provenance(bench, known, how),
    )


def judge_condition_gap(
    bench: Workbench,
    model: object,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    max_gap: float,
    metric: str,
    labels: object = None,
    **options: Any,
) -> Verdict:
    """Judge a model's scores by category; see :func:`~pytest_semcov.assert_condition_gap`."""
    how = ScoreOptions(**options)
    _check_dataset(dataset)
    known, measure = named_models(bench, model), parse_metric(metric)
    if len(known) != 1:
        raise ArgumentError(f"one model is judged, got {', '.join(known)}")
    ((name, _),) = known.items()
    real = SampleDataset([sample for sample in _samples(dataset) if sample.real])
    samples = {
        key.removeprefix("real "): value
        for key, value in subsets_of(bench, real, semantic, labels=labels).items()
    }
    title = semantic if isinstance(semantic, str) else semantic.name
    if len(samples) < 2:
        raise ArgumentError(
            f"{title}: real images of two categories are needed, there are only "
            f"{', '.join(samples) or 'none'}"
        )
    scores = _scores(bench, known, samples, how.scoring(measure, bench.settings.seed))[name]
    return condition_gap_verdict(
        scores,
        subject=f"{name} under {title}",
        metric=metric,
        max_gap=max_gap,
        confidence=how.confidence,
        counts=_counts(samples),
        provenance=_provenance(bench, known, how),
    )


def _scores(
    bench: Workbench,
    models: Mapping[str, ModelUnderTest],
    sets: Mapping[str, Sequence[Sample]],
    scoring: Scoring,
) -> dict[str, dict[str, Estimate]]:
    """Score models on samples that all of them could be run on."""
    wrong = [name for name, model in models.items() if model.task != scoring.metric.task]
    if wrong:
        raise ArgumentError(
            f"{scoring.metric.text} is a score of {scoring.metric.task}, and {wrong[0]} is a model for "
            f"{models[wrong[0]].task}"
        )
    everything = SampleDataset(
        list({sample.id: sample for samples in sets.values() for sample in samples}.values())
    )
    predictions = {name: _predictions(bench, everything, model) for name, model in models.items()}
    usable = set.intersection(*(set(each.ids) for each in predictions.values()))
    kept = {name: [sample for sample in samples if sample.id in usable] for name, samples in sets.items()}
    empty = [name for name, samples in kept.items() if not samples]
    if empty:
        raise TooFewError(f"no usable image to score in {', '.join(empty)}")
    return estimate_scores(kept, predictions, scoring)


def _predictions(bench: Workbench, dataset: Dataset, model: ModelUnderTest) -> Predictions:
    settings = bench.settings
    policy = (settings.on_bad_image, settings.max_bad_images)
    return bench.shared.once(
        ("predict", dataset.fingerprint(), model.fingerprint, policy),
        lambda: predict(
            dataset,
            model,
            batch_size=settings.batch_size,
            loader_threads=settings.loader_threads,
            cache=bench.cache,
            on_bad_image=settings.on_bad_image,
            max_bad_images=settings.max_bad_images,
            progress=bench.progress,
        ),
    )


def _row(
    model: str, dataset: str, subset: str, metric: Metric, score: Estimate, confidence: float
) -> ScoreRow:
    interval = None
    if score.finite and score.independent > 1:
        interval = score.interval(confidence=confidence)
    return ScoreRow(
        model,
        dataset,
        subset,
        metric.text,
        finite(score.value),
        interval,
        score.images,
        score.independent,
    )


def _samples(dataset: Dataset) -> list[Sample]:
    return [dataset[index] for index in range(len(dataset))]


def _check_dataset(dataset: object) -> None:
    if not isinstance(dataset, Dataset):
        hint = f": give ImageFolder({dataset!r})" if isinstance(dataset, str) else ""
        raise ArgumentError(f"need a data set, not {dataset!r}{hint}")
    if not len(dataset):
        raise TooFewError(f"{getattr(dataset, 'name', 'the data set')} has no images to score")


def _check_kinds(samples: Mapping[str, Sequence[Sample]]) -> None:
    """Check that real sets are real and the synthetic one is not, and that none shares an image."""
    for name, members in samples.items():
        wrong = [sample.id for sample in members if sample.real == (name == "synthetic")]
        if wrong:
            kind = "real" if name == "synthetic" else "synthetic"
            raise ArgumentError(f"{name}: {wrong[0]} is {kind} ({len(wrong)} of {len(members)} images)")
    both = {s.id for s in samples["real uncovered"]} & {s.id for s in samples["covered"]}
    if both:
        raise ArgumentError(f"{sorted(both)[0]} is in the real uncovered and in the covered images")


def _counts(samples: Mapping[str, Sequence[Sample]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, members in samples.items():
        synthetic = sum(not sample.real for sample in members)
        if synthetic in (0, len(members)):
            counts[name] = len(members)
        else:
            counts |= {f"{name}, real": len(members) - synthetic, f"{name}, synthetic": synthetic}
    return counts


def _provenance(
    bench: Workbench, models: Mapping[str, ModelUnderTest], how: ScoreOptions
) -> dict[str, object]:
    return {
        "seed": bench.settings.seed,
        "resamples": how.resamples,
        "class_weighting": how.class_weighting,
        "versions": versions(),
        "models": [
            {"name": name, "fingerprint": model.fingerprint, "trained": model.trained}
            for name, model in models.items()
        ],
    }
