"""Scores of models on samples: all models on the same resamples, so that they can be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.data.samples import Sample
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.evaluation.predicting import Predictions, independent_groups, true_classes, true_objects
from pytest_semcov.metrics.arrays import Doubles
from pytest_semcov.metrics.classification import (
    SCORES,
    ClassCounts,
    ClassWeighting,
    calibration_error,
    calibration_gaps,
    count_classes,
    f1_binary,
)
from pytest_semcov.metrics.detection import (
    COCO_THRESHOLDS,
    BoxFilter,
    average_precision,
    match_objects,
    mean_average_precision,
)
from pytest_semcov.metrics.resampling import (
    Draws,
    Estimate,
    effective_groups,
    resample,
    subsample,
    with_prior,
)

_FEWEST_FOR_PARTS = 8
"""Groups of which a quarter can be drawn."""

METRICS = (*SCORES, "f1[CLASS]", "calibration_error", "map", "map@0.5", "ap@0.5[CLASS]")
"""Names of metrics; instead of 0.5 any of COCO's thresholds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric taken apart.

    Parameters
    ----------
    text
        As it was written.
    kind
        ``"accuracy"``, ..., ``"f1"``, ``"calibration_error"``, ``"map"`` or ``"ap"``.
    category
        The class of ``f1[CLASS]`` and ``ap[CLASS]``.
    threshold
        Intersection over union, ``None`` for the mean over COCO's ten.
    """

    text: str
    kind: str
    category: str | None = None
    threshold: float | None = None

    @property
    def task(self) -> str:
        """``"classification"`` or ``"detection"``."""
        return "detection" if self.kind in ("map", "ap") else "classification"

    @property
    def higher_is_better(self) -> bool:
        """False for errors."""
        return self.kind != "calibration_error"


def parse_metric(text: str) -> Metric:
    """Take the name of a metric apart.

    Raises
    ------
    ArgumentError
        If there is no such metric; lists those that there are.
    """
    found = re.fullmatch(r"(\w+)(?:@(\d*\.\d+))?(?:\[(.+)\])?", text)
    kind, threshold, category = found.groups() if found else ("", None, None)
    takes_class = kind in ("f1", "ap")
    known = kind in SCORES or kind in ("f1", "calibration_error", "map", "ap")
    if not known or takes_class != (category is not None) or (threshold and kind not in ("map", "ap")):
        raise ArgumentError(f"metric {text!r}: there are {', '.join(METRICS)}")
    if threshold is not None and float(threshold) not in COCO_THRESHOLDS:
        raise ArgumentError(f"metric {text!r}: thresholds are {', '.join(map(str, COCO_THRESHOLDS))}")
    return Metric(text, kind, category, None if threshold is None else float(threshold))


@dataclass(frozen=True, slots=True)
class Scoring:
    """How models are scored.

    Parameters
    ----------
    metric
        See :data:`METRICS`.
    class_names
        Label in the data set → class of the models, where they differ.
    class_weighting
        ``"balanced"``: classes count equally in accuracy and F1, as published for DEDUCE.
    keep
        Which boxes count.
    resamples
        Number of resamples.
    seed
        Seed of the resamples.
    """

    metric: Metric
    class_names: Mapping[str, str] | None = None
    class_weighting: ClassWeighting = "none"
    keep: BoxFilter = field(default_factory=BoxFilter)
    resamples: int = 999
    seed: int = 0


def estimate_scores(
    sets: Mapping[str, Sequence[Sample]], predictions: Mapping[str, Predictions], scoring: Scoring
) -> dict[str, dict[str, Estimate]]:
    """Score models on sets of samples.

    Groups are drawn once from all sets together: a group with samples in several sets (a synthetic sample and
    its source, a scene by day and by night) is drawn in all of them, so scores are paired between models and
    between sets.

    Parameters
    ----------
    sets
        Name → samples.
    predictions
        Model → predictions on all of them.
    scoring
        How.

    Returns
    -------
    scores
        Model → set → score.

    Raises
    ------
    ArgumentError
        If a model has no class that the metric names, or is of another task.
    DatasetError
        If samples lack what the metric needs, or a model did not see a sample.
    TooFewError
        If a set is empty.
    """
    everything = [sample for samples in sets.values() for sample in samples]
    units = np.array(independent_groups(everything))
    if len(set(units.tolist())) > 1:
        draws = resample(len(everything), groups=units.tolist(), repeats=scoring.resamples, seed=scoring.seed)
    else:  # one unit alone has a score and no spread: no verdict is based on it
        draws = np.ones((scoring.resamples, len(everything)), np.int32)
    ends = np.cumsum([len(samples) for samples in sets.values()])
    places = dict(zip(sets, np.split(np.arange(len(everything)), ends[:-1]), strict=True))
    return {
        model: {
            name: _estimate(
                samples, found, scoring, _of_set(draws, places[name]), units[places[name]], (number, position)
            )
            for position, (name, samples) in enumerate(sets.items())
        }
        for number, (model, found) in enumerate(predictions.items())
    }


def _of_set(draws: Draws, places: NDArray[np.intp]) -> Draws:
    """Return the resamples of one set; where a resample leaves a small set empty, all of it is taken."""
    drawn = draws[:, places]
    drawn[drawn.sum(axis=1) == 0] = 1
    return drawn


def _estimate(
    samples: Sequence[Sample],
    predictions: Predictions,
    scoring: Scoring,
    draws: Draws,
    units: NDArray[np.str_],
    place: tuple[int, int],
) -> Estimate:
    if not samples:
        raise TooFewError(f"{predictions.name}: a set of images to score is empty")
    names = units.tolist()
    groups = len(set(names))
    seen = predictions.select([sample.id for sample in samples])
    if scoring.metric.task == "detection":
        return _detection(samples, seen, scoring, draws, names)
    return _classification(samples, seen, scoring, draws, groups, place)


def _classification(
    samples: Sequence[Sample],
    predictions: Predictions,
    scoring: Scoring,
    draws: Draws,
    groups: int,
    place: tuple[int, int],
) -> Estimate:
    classes, metric, images = predictions.classes, scoring.metric, len(samples)
    truth = true_classes(samples, classes, names=scoring.class_names, model=predictions.name)
    if metric.kind == "calibration_error":
        if not predictions.probabilistic:
            raise ArgumentError(
                f"{predictions.name} gives labels only: no calibration error without probabilities"
            )
        confidence, right = predictions.confidence(), predictions.codes() == truth
        whole = calibration_gaps(confidence, right)
        drawn = calibration_gaps(confidence, right, weights=draws)
        error, noise = float(calibration_error(whole)[0]), calibration_error(drawn - whole)
        return Estimate(error, calibration_error(drawn), groups, images, noise)

    def counts(weights: Draws | None) -> ClassCounts:
        return count_classes(
            truth,
            predictions.codes(),
            len(classes),
            weights=weights,
            class_weighting=scoring.class_weighting,
        )

    positive = _class_number(metric, classes, predictions.name)
    score = SCORES[metric.kind] if positive is None else partial(f1_binary, positive=positive)
    every, drawn_counts = counts(None), counts(draws)
    with_more = with_prior(drawn_counts, images_per_group=images / groups, seed=(scoring.seed, *place))
    averages_classes = metric.kind != "accuracy" or scoring.class_weighting == "balanced"
    return Estimate(
        float(score(every)[0]),
        score(with_more),
        groups,
        images,
        plain=score(drawn_counts),
        effective=effective_groups(every, images_per_group=images / groups) if averages_classes else None,
    )


def _detection(
    samples: Sequence[Sample],
    predictions: Predictions,
    scoring: Scoring,
    draws: Draws,
    groups: Sequence[str],
) -> Estimate:
    classes, metric, keep, images = predictions.classes, scoring.metric, scoring.keep, len(samples)
    needs_sizes = keep.min_area_share > 0 or keep.border > -math.inf
    matches = match_objects(
        true_objects(samples, classes, names=scoring.class_names, model=predictions.name),
        predictions.detections(),
        len(classes),
        sizes=[sample.load().size for sample in samples] if needs_sizes else None,
        keep=keep,
        thresholds=COCO_THRESHOLDS if metric.threshold is None else (metric.threshold,),
    )
    number = _class_number(metric, classes, predictions.name)

    def values(weights: Draws | None) -> Doubles:
        precision = average_precision(matches, draws=weights)
        if number is not None:
            precision = precision[:, :, [number]]
        return mean_average_precision(precision, matches.thresholds, metric.threshold)

    value, count = float(values(None)[0]), len(set(groups))
    parts = np.empty(0)
    if count >= _FEWEST_FOR_PARTS:
        parts = values(subsample(images, groups=groups, seed=scoring.seed))
    known = parts[np.isfinite(parts)]
    excess = float(known.mean()) - value if len(known) else 0.0
    drawn = values(draws)
    return Estimate(value, drawn, count, images, plain=drawn, excess=excess)


def _class_number(metric: Metric, classes: Sequence[str], model: str) -> int | None:
    if metric.category is None:
        return None
    if metric.category not in classes:
        raise ArgumentError(f"metric {metric.text!r}: {model} has classes {', '.join(classes)}")
    return list(classes).index(metric.category)
