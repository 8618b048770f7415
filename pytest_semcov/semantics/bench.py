"""Which words and which encoder label a semantic best, measured on images whose category is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.embedding.protocols import Embeddings, Encoder
from pytest_semcov.errors import ArgumentError, TooFewError, UnknownSemanticError
from pytest_semcov.metrics.arrays import Doubles
from pytest_semcov.metrics.auc import area_under_roc
from pytest_semcov.metrics.classification import balanced_accuracy, count_classes
from pytest_semcov.metrics.resampling import expanded_interval, independent, resample, with_prior
from pytest_semcov.semantics.bench_table import BenchRow, DescriptorBench
from pytest_semcov.semantics.descriptors import Descriptor
from pytest_semcov.semantics.labelling import label_zero_shot, paraphrase_codes
from pytest_semcov.semantics.labels import UNCERTAIN, Labels
from pytest_semcov.semantics.reliability import wording_agreement
from pytest_semcov.semantics.texts import TextMemory, wordings

_MAX_P = 0.05
_PARTS = ("object", "scene", "additional")


def part_layouts(descriptor: Descriptor) -> dict[str, Descriptor]:
    """Return a descriptor with each of its parts on or off, by name.

    Parameters
    ----------
    descriptor
        Its object, scene and additional part, where it has them, are each left out and put in; the phrases of
        the semantic itself are always there.

    Returns
    -------
    layouts
        ``"semantic"``, ``"object + semantic"``, ...: two to the number of its parts.
    """
    present = [part for part in _PARTS if getattr(descriptor, part)]
    layouts = {}
    for count in range(len(present) + 1):
        for chosen in combinations(present, count):
            parts: dict[str, Any] = {part: getattr(descriptor, part) for part in chosen}
            before = [part for part in chosen if part != "additional"]
            name = " + ".join([*before, "semantic", *(["additional"] if "additional" in chosen else [])])
            layouts[name] = Descriptor(descriptor.name, descriptor.categories, **parts)
    return layouts


def wording_layouts(descriptor: Descriptor) -> dict[str, Descriptor]:
    """Return a descriptor with one phrase of each category at a time, by name.

    Parameters
    ----------
    descriptor
        Its r-th wording has the r-th phrase of every category (beginning again where one has fewer).

    Returns
    -------
    layouts
        ``"wording 1"``, ``"wording 2"``, ...; none if no category has two phrases.
    """
    count = max(len(phrases) for phrases in descriptor.categories.values())
    if count == 1:
        return {}
    parts: dict[str, Any] = {part: getattr(descriptor, part) for part in _PARTS}
    return {
        f"wording {number + 1}": Descriptor(
            descriptor.name,
            {name: (phrases[number % len(phrases)],) for name, phrases in descriptor.categories.items()},
            **parts,
        )
        for number in range(count)
    }


def compare_descriptors(
    encoders: Sequence[tuple[Encoder, Embeddings]],
    layouts: Mapping[str, Descriptor],
    known: Labels,
    *,
    target: str | None = None,
    groups: Sequence[object] | None = None,
    min_certainty: float = 0.6,
    protocol: str = "matched",
    resamples: int = 999,
    confidence: float = 0.95,
    seed: int = 0,
) -> DescriptorBench:
    """Label images with every layout under every encoder, and hold the labels against known ones.

    Parameters
    ----------
    encoders
        Each encoder with its embeddings of the images.
    layouts
        Name → descriptor; all with the categories of the known labels.
    known
        Known labels; images without one are left out.
    target
        The category that precision, recall and AUC are of; default: the rarest one.
    groups
        One group per known label: images of one are drawn together.
    min_certainty, protocol
        See :func:`~pytest_semcov.semantics.labelling.label_zero_shot`.
    resamples, confidence, seed
        Of the bootstrap; all rows are scored on the same resamples.

    Returns
    -------
    bench
        AUC is that of the signed margin: cosine to the target less the highest to another category. An
        encoder that cannot label with a layout has a row that says so.

    Raises
    ------
    ArgumentError
        If there is no encoder or layout, two encoders have one name, categories differ, or there is no such
        target.
    TooFewError
        If fewer than two categories have a known label, or there are fewer than two groups.
    """
    if not encoders or not layouts:
        raise ArgumentError(f"{len(encoders)} encoders and {len(layouts)} layouts: need one each at least")
    names = [encoder.name for encoder, _ in encoders]
    if len(set(names)) < len(names):
        raise ArgumentError(f"two encoders are called {max(names, key=names.count)!r}")
    for name, layout in layouts.items():
        if tuple(layout.categories) != known.categories:
            raise ArgumentError(
                f"layout {name!r} has the categories {', '.join(layout.categories)}, "
                f"the labels {', '.join(known.categories)}"
            )
    usable = set(known.ids).intersection(*(each.ids for _, each in encoders))
    rows = (known.codes != UNCERTAIN) & np.array([each in usable for each in known.ids], dtype=bool)
    truth = known.select(rows)
    counts = {name: count for name, count in truth.counts().items() if count}
    if len(counts) < 2:
        raise TooFewError(
            f"{known.semantic}: known labels of {', '.join(counts) or 'no category'} only: need two"
        )
    goal = min(counts, key=lambda name: counts[name]) if target is None else target
    code = truth.code(goal)
    if goal not in counts:
        raise TooFewError(f"{known.semantic}: no image is known to be {goal}")
    kept = None if groups is None else [group for group, keep in zip(groups, rows, strict=True) if keep]
    draws = resample(len(truth), groups=kept, repeats=resamples, seed=seed)
    rarest = min(
        len({(kept or truth.ids)[row] for row in np.flatnonzero(truth.mask(name)).tolist()})
        for name in counts
    )
    shared = _Sampling(truth, code, draws, independent(len(truth), kept), rarest, seed)
    measured: list[tuple[BenchRow, dict[str, _Score]]] = []
    for encoder, embeddings in encoders:
        memory = encoder if isinstance(encoder, TextMemory) else TextMemory(encoder)
        rows_of = embeddings.select(truth.ids)
        _learn(memory, layouts, protocol)
        for name, layout in layouts.items():
            measured.append(_row(memory, rows_of, name, layout, shared, min_certainty, protocol, confidence))
    balanced = [scores.get("balanced_accuracy") for _, scores in measured]
    best = _highest_lower_bound([row for row, _ in measured])
    return DescriptorBench(
        known.semantic,
        goal,
        tuple(row for row, _ in measured),
        len(truth),
        shared.independent,
        confidence,
        best,
        () if best is None else _as_good(balanced, best),
    )


@dataclass(frozen=True, slots=True)
class _Sampling:
    """Known labels, the target's code, the resamples that all rows share, numbers of groups."""

    truth: Labels
    target: int
    draws: NDArray[np.int32]
    independent: int
    rarest: int
    seed: int


def _learn(memory: TextMemory, layouts: Mapping[str, Descriptor], protocol: str) -> None:
    """Embed the texts of all layouts in one call."""
    if memory.semantics is not None:
        return  # which texts a card allows shows when a layout is used
    ways = (
        wordings(memory, layout, category, protocol=protocol)
        for layout in layouts.values()
        for category in layout.categories
    )
    memory.encode_texts(list(chain.from_iterable(ways)))


def _row(
    encoder: TextMemory,
    embeddings: Embeddings,
    name: str,
    layout: Descriptor,
    sampling: _Sampling,
    min_certainty: float,
    protocol: str,
    confidence: float,
) -> tuple[BenchRow, dict[str, _Score]]:
    prompts = {category: layout.prompts(category, protocol=protocol) for category in layout.categories}
    try:
        labels = label_zero_shot(embeddings, encoder, layout, min_certainty=min_certainty, protocol=protocol)
        codes = paraphrase_codes(embeddings, encoder, layout, protocol=protocol)
    except UnknownSemanticError as error:
        return BenchRow(encoder.name, name, prompts, {}, {}, problem=error.reason), {}
    agreement = wording_agreement(codes, labels.ids)
    scores = _scores(labels, sampling)
    row = BenchRow(
        encoder.name,
        name,
        prompts,
        {key: each.value if math.isfinite(each.value) else None for key, each in scores.items()},
        {key: each.interval(confidence) for key, each in scores.items()},
        labels.uncertain / len(labels),
        None if agreement is None else agreement.kappa,
        1 if agreement is None else agreement.wordings,
    )
    return row, scores


@dataclass(frozen=True, slots=True, eq=False)
class _Score:
    """A score with its values on the resamples, and the groups of the rarest category."""

    value: float
    replicates: Doubles
    groups: int

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """Return the score's interval, as wide as for the rarest category, of which least is known.

        ``None`` where the score is undefined, or that category has one group only.
        """
        if self.groups < 2 or not np.isfinite([self.value, *self.replicates]).all():
            return None
        # Balanced about the score: what a prior adds to a faultless one is no bias of the resamples.
        balanced = np.full(len(self.replicates), self.value)
        return expanded_interval(
            self.replicates, self.value, independent=self.groups, confidence=confidence, plain=balanced
        )


def _scores(labels: Labels, sampling: _Sampling) -> dict[str, _Score]:
    """Return the scores on all images and on every resample."""
    truth, target, images = sampling.truth.codes, sampling.target, len(labels)
    found, classes = labels.top, len(labels.categories)
    whole = count_classes(truth, found, classes)
    per_group = images / sampling.independent
    drawn = with_prior(
        count_classes(truth, found, classes, weights=sampling.draws),
        images_per_group=per_group,
        seed=sampling.seed,
    )
    halves = np.random.default_rng([sampling.seed, 1]).gamma(0.5, size=(2, len(sampling.draws))) * per_group
    margin = signed_margin(labels, target)
    area = area_under_roc(margin, truth == target)
    areas = area_under_roc(margin, truth == target, weights=sampling.draws, prior=(halves[0], halves[1]))
    values: dict[str, tuple[Doubles, Doubles]] = {
        "precision": (
            _share(whole.hits, whole.predicted, target),
            _share(drawn.hits, drawn.predicted, target),
        ),
        "recall": (_share(whole.hits, whole.true, target), _share(drawn.hits, drawn.true, target)),
        "balanced_accuracy": (balanced_accuracy(whole), balanced_accuracy(drawn)),
        # A resample without an image of the target has no AUC, and no say.
        "auc": (area, areas[np.isfinite(areas)]),
    }
    return {
        name: _Score(float(value[0]), replicates, sampling.rarest)
        for name, (value, replicates) in values.items()
    }


def signed_margin(labels: Labels, category: int) -> Doubles:
    """Return ``(n,)`` cosine to a category less the highest to another one, in [-2, 2].

    Raises
    ------
    ArgumentError
        For labels as given, which have no cosines.
    """
    if labels.similarity is None:
        raise ArgumentError(f"labels of {labels.semantic!r} are given, not estimated: they have no margin")
    others = np.delete(labels.similarity, category, axis=1).max(axis=1)
    margin: Doubles = labels.similarity[:, category] - others
    return margin


def _share(hits: Doubles, among: Doubles, category: int) -> Doubles:
    of = among[:, category]
    share: Doubles = np.divide(hits[:, category], of, out=np.full(len(of), np.nan), where=of > 0)
    return share


def _highest_lower_bound(rows: Sequence[BenchRow]) -> int | None:
    bounds = {
        number: (interval[0], interval[1])
        for number, row in enumerate(rows)
        if (interval := row.intervals.get("balanced_accuracy")) is not None
    }
    return max(bounds, key=lambda number: bounds[number]) if bounds else None


def _as_good(balanced: Sequence[_Score | None], best: int) -> tuple[int, ...]:
    """Return which rows' difference to the best has an interval around 0, all pairs compared at once."""
    from scipy import stats

    known = [number for number, each in enumerate(balanced) if each is not None]
    pairs = len(known) * (len(known) - 1) / 2
    first = balanced[best]
    as_good = []
    for number in known:
        other = balanced[number]
        if number == best or first is None or other is None:
            continue
        critical = float(stats.t.isf(_MAX_P / (2 * pairs), max(first.groups - 1, 1)))
        reach = critical * float((first.replicates - other.replicates).std(ddof=1))
        if abs(first.value - other.value) <= reach:
            as_good.append(number)
    return tuple(as_good)
