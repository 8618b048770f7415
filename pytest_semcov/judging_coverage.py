"""From a data set and a workbench to the verdicts on coverage and on labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.embedding.protocols import Embeddings
from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.consensus import check_rule, max_p_per_embedder
from pytest_semcov.gates.coverage import (
    CoverageBars,
    combinations_verdict,
    coverage_verdict,
)
from pytest_semcov.gates.figures import LabelError, SemanticEvidence
from pytest_semcov.gates.scan import consensus_scan_verdict

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset, Sample
    from pytest_semcov.embedding.protocols import Embedder, Encoder
    from pytest_semcov.gates.verdict import Verdict
    from pytest_semcov.metrics.cluster_recall import Assignments
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.semantics.importance import Importance
    from pytest_semcov.semantics.labels import Labels
    from pytest_semcov.semantics.ranking import Ranking, RankingAcrossEmbedders
    from pytest_semcov.workbench import Workbench


def judge_coverage(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    labels: object = None,
    embeddings: Embeddings | None = None,
    reference_labels: Mapping[str, str] | None = None,
) -> Verdict:
    """Judge one semantic; see :func:`~pytest_semcov.assert_semantic_covered`."""
    measured = measure(bench, dataset, semantic, labels=labels, embeddings=embeddings)
    evidence = measured.evidence(semantic, reference_labels=reference_labels)
    return coverage_verdict(evidence, bars(bench), provenance=provenance(bench, measured.embedded))


def measure(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    labels: object = None,
    embeddings: Embeddings | None = None,
) -> Measured:
    """Label and embed a data set and measure the importance of one semantic."""
    bench.check(dataset, semantic, labels=labels)
    usable, embedded = embedded_samples(bench, dataset, embeddings)
    return _measure(bench, usable, [semantic], [embedded], {_name(semantic): labels})


def coverage_of_counts(bench: Workbench, dataset: Dataset, labels: Labels) -> Verdict:
    """Judge one semantic by its labels alone: no embedding, no importance."""
    measured = Measured(bench, dataset, [], {labels.semantic: labels})
    return coverage_verdict(measured.evidence(labels.semantic), bars(bench), provenance=provenance(bench, []))


def judge_scan(
    bench: Workbench,
    dataset: Dataset,
    semantics: Sequence[str | Descriptor] | None = None,
    *,
    labels: Mapping[str, object] | None = None,
    embeddings: Embeddings | Sequence[Embeddings] | None = None,
    embedders: Sequence[object] | None = None,
    consensus: str = "majority",
    absent: str = "note",
) -> Verdict:
    """Judge many semantics; see :func:`~pytest_semcov.assert_no_uncovered_semantics`."""
    check_rule(consensus, ranks=True)
    chosen = _named(bench, semantics, labels or {})
    for each in chosen:
        bench.check(dataset, each, labels=(labels or {}).get(_name(each)))
    usable, sets = embedded_by_several(bench, dataset, embeddings, embedders)
    # One embedder's wrong FAIL may be enough for all of them, so that more is asked of each.
    max_p = max_p_per_embedder(bench.settings.max_p, len(sets), consensus)
    bench = bench.with_settings(max_p=max_p)
    measured = _measure(bench, usable, chosen, sets, labels or {})
    evidence = {
        name: [measured.evidence(semantic, embedder=number) for semantic in chosen]
        for number, name in enumerate(measured.names)
    }
    return consensus_scan_verdict(
        evidence,
        bars(bench),
        consensus=consensus,
        absent=absent,
        notes=str(measured.across_embedders()).splitlines() if len(sets) > 1 else (),
        provenance=provenance(bench, sets),
    )


def judge_agreement(
    bench: Workbench,
    dataset: Dataset,
    embedders: Sequence[object],
    *,
    semantics: Sequence[str | Descriptor] | None = None,
    labels: Mapping[str, object] | None = None,
    min_agreement: float = 0.5,
) -> Verdict:
    """Judge whether embedders rank alike; see :func:`~pytest_semcov.assert_embedders_agree`."""
    from pytest_semcov.gates.agreement import agreement_verdict

    usable, sets = embedded_by_several(bench, dataset, None, embedders)
    if len(sets) < 2:
        raise ArgumentError(f"embedders= names {len(sets)} embedder: agreement needs two at least")
    chosen = _rankable(bench, usable, semantics, labels or {})
    measured = _measure(bench, usable, chosen, sets, labels or {})
    lifts = {
        name: {(e.semantic, e.category): e.lift for each in found.values() for e in each.categories}
        for name, found in zip(measured.names, measured.importances, strict=True)
    }
    return agreement_verdict(
        lifts,
        min_agreement=min_agreement,
        seed=bench.settings.seed,
        counts={"all": len(usable)},
        provenance=provenance(bench, sets),
    )


def judge_combinations(
    bench: Workbench,
    dataset: Dataset,
    semantics: Sequence[str | Descriptor],
    *,
    strength: int = 2,
    labels: Mapping[str, object] | None = None,
    impossible: Sequence[Mapping[str, str]] = (),
) -> Verdict:
    """Judge combinations of categories; see :func:`~pytest_semcov.assert_combinations_covered`."""
    from pytest_semcov.semantics.combinations import combination_evidence
    from pytest_semcov.semantics.evidence import unlabelled_evidence

    for each in semantics:
        bench.check(dataset, each, labels=(labels or {}).get(_name(each)))
    measured = _measure(bench, dataset, semantics, [], labels or {})
    problems = [unlabelled_evidence(each) for each in measured.labels.values() if isinstance(each, Exception)]
    if problems:
        return combinations_verdict(problems, bars(bench), provenance=provenance(bench, []))
    known = measured.known_labels()
    everywhere = set(known[0].ids).intersection(*(each.ids for each in known[1:]))
    common = [sample_id for sample_id in known[0].ids if sample_id in everywhere]
    known = [each.for_ids(common) for each in known]
    samples = _samples_by_id(dataset)
    evidence = combination_evidence(
        known,
        strength=strength,
        impossible=impossible,
        synthetic=[not samples[sample_id].real for sample_id in common],
    )
    return combinations_verdict(evidence, bars(bench), provenance=provenance(bench, []))


def judge_reliability(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    reference: object,
    labels: object = None,
    **limits: float,
) -> Verdict:
    """Judge labels against reference labels; see :func:`~pytest_semcov.assert_labels_reliable`."""
    from pytest_semcov.gates.labels import label_reliability_verdict
    from pytest_semcov.semantics.labelling import labels_from, paraphrase_codes
    from pytest_semcov.semantics.reliability import (
        measure_reliability,
        unlabelled_reliability,
        wording_agreement,
    )

    name = _name(semantic)
    replay = provenance(bench, [])
    try:
        judged = bench.label(dataset, semantic, labels=labels)
    except UnknownSemanticError as error:
        return label_reliability_verdict(unlabelled_reliability(error), provenance=replay, **limits)
    source: Any = reference
    descriptor = bench.descriptors.get(name) if isinstance(semantic, str) else semantic
    known = labels_from(dataset, name, source, descriptor=descriptor)
    agreement = None
    if judged.estimated:
        codes = paraphrase_codes(bench.encode(dataset), bench.encoder, bench.descriptor(semantic))
        agreement = wording_agreement(codes, judged.ids)
    measured = measure_reliability(judged, known.by_id(), agreement=agreement)
    return label_reliability_verdict(measured, provenance=replay, **limits)


def rank_semantics(
    bench: Workbench,
    dataset: Dataset,
    semantics: Sequence[str | Descriptor] | None = None,
    *,
    labels: Mapping[str, object] | None = None,
    embeddings: Embeddings | Sequence[Embeddings] | None = None,
    embedders: Sequence[object] | None = None,
) -> Ranking | RankingAcrossEmbedders:
    """Rank the categories of many semantics by importance, over several embedders where several are given."""
    from pytest_semcov.semantics.ranking import rank

    usable, sets = embedded_by_several(bench, dataset, embeddings, embedders)
    chosen = _rankable(bench, usable, semantics, labels or {})
    measured = _measure(bench, usable, chosen, sets, labels or {})
    return rank(list(measured.importances[0].values())) if len(sets) == 1 else measured.across_embedders()


def _rankable(
    bench: Workbench,
    dataset: Dataset,
    semantics: Sequence[str | Descriptor] | None,
    labels: Mapping[str, object],
) -> list[str | Descriptor]:
    """Return the semantics named, or all that can be labelled on such images."""
    chosen = _named(bench, semantics, labels)
    if semantics is not None:
        return chosen
    known = {*labels, *bench.settings.labels}
    return [each for each in chosen if _name(each) in known or bench.knows(dataset, each)]


def bars(bench: Workbench) -> CoverageBars:
    """Return the settings' bars for coverage."""
    settings = bench.settings
    return CoverageBars(**{name: getattr(settings, name) for name in CoverageBars.__slots__})


def provenance(bench: Workbench, embedded: Sequence[Embeddings]) -> dict[str, object]:
    """Return what replays a verdict: protocol, seed, versions, models, images that were left out."""
    return {
        "protocol": bench.settings.protocol,
        "seed": bench.settings.seed,
        "versions": versions(),
        "models": [
            {
                "name": each.name or "embeddings as given",
                "fingerprint": each.fingerprint,
                "trained": each.trained,
                "skipped": [
                    {"sample_id": bad.sample_id, "path": bad.path, "rule": bad.rule} for bad in each.skipped
                ],
            }
            for each in embedded
        ],
    }


def versions() -> dict[str, str]:
    """Return the versions of this package and of the libraries behind its numbers."""
    from importlib.metadata import version

    return {name: version(name) for name in ("pytest-semcov", "numpy", "scipy", "scikit-learn")}


def embedded_samples(
    bench: Workbench, dataset: Dataset, embeddings: Embeddings | None
) -> tuple[Dataset, Embeddings]:
    """Return the usable part of a data set and its embeddings, row by row.

    Raises
    ------
    DatasetError
        If embeddings are given and lack an image.
    """
    images = len(dataset)  # a data set that cannot be read is named before a model is loaded
    if embeddings is not None:
        if not isinstance(embeddings, Embeddings):
            raise ArgumentError(
                f"embeddings= must be Embeddings(array, ids), not {type(embeddings).__name__}: "
                "ids say which row belongs to which image"
            )
        return dataset, embeddings.select(list(dataset.ids))
    embedded = bench.embed(dataset)
    if len(embedded) == images:
        return dataset, embedded
    usable = set(embedded.ids)
    kept = [index for index, sample_id in enumerate(dataset.ids) if sample_id in usable]
    return dataset.subset(kept), embedded


def embedded_by_several(
    bench: Workbench,
    dataset: Dataset,
    embeddings: Embeddings | Sequence[Embeddings] | None,
    embedders: Sequence[object] | None,
) -> tuple[Dataset, list[Embeddings]]:
    """Return the part of a data set that all embedders could use, and its embeddings by each.

    Parameters
    ----------
    bench, dataset
        The workbench and the images.
    embeddings
        Embeddings at hand, of one embedder or several.
    embedders
        Instead: embedders (specs, objects, embeddings at hand); default: the workbench's.

    Raises
    ------
    ArgumentError
        If both are given, there is no embedder, or one is given twice: it would have two votes.
    """
    if embeddings is not None and embedders is not None:
        raise ArgumentError("give embeddings= or embedders=, not both")
    if embedders is None and not isinstance(embeddings, Sequence):
        usable, only = embedded_samples(bench, dataset, embeddings)
        return usable, [only]
    given: Sequence[Any] = embeddings if embedders is None else embedders  # type: ignore[assignment]
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ArgumentError(f"embedders={given!r}: need a sequence of one embedder or more")
    sets = []
    for each in given:
        known = each if isinstance(each, Embeddings) or embedders is None else None
        sets.append(embedded_samples(bench if known else bench.with_embedder(each), dataset, known)[1])
    prints = [each.fingerprint for each in sets if each.fingerprint]
    twice = [each.name for each in sets if prints.count(each.fingerprint) > 1]
    if twice:
        raise ArgumentError(f"embedder {twice[0]!r} is given twice: it would have two votes")
    everywhere = set(sets[0].ids).intersection(*(each.ids for each in sets[1:]))
    kept = [index for index, sample_id in enumerate(dataset.ids) if sample_id in everywhere]
    usable = dataset if len(kept) == len(dataset) else dataset.subset(kept)
    return usable, [each.select(list(usable.ids)) for each in sets]


def names_of(sets: Sequence[Embeddings]) -> list[str]:
    """Return a name for each embedder, no two alike."""
    names: list[str] = []
    for number, each in enumerate(sets):
        name = each.name or f"embedder {number}"
        names.append(f"{name} ({number})" if name in names else name)
    return names


class Measured:
    """Labels, and importance under each embedder, of several semantics on one data set."""

    def __init__(
        self,
        bench: Workbench,
        dataset: Dataset,
        embedded: Sequence[Embeddings],
        labels: Mapping[str, Labels | UnknownSemanticError],
    ) -> None:
        self.bench = bench
        self.dataset = dataset
        self.embedded = embedded
        self.names = names_of(embedded)
        self.labels = labels
        self.samples = _samples_by_id(dataset)
        self.importances = [self._importances(each) for each in embedded]

    def known_labels(self) -> list[Labels]:
        """Return the labels of the semantics that could be labelled."""
        return [each for each in self.labels.values() if not isinstance(each, Exception)]

    def real_ids(self, embedded: Embeddings) -> list[str]:
        """Return the ids of the real images, in the order of the embeddings."""
        return [sample_id for sample_id in embedded.ids if self.samples[sample_id].real]

    def clusters(self, embedded: Embeddings) -> Assignments:
        """Return the k-means clusters of the real images under each of several seeds."""
        from pytest_semcov.metrics.cluster_recall import assign_clusters

        settings = self.bench.settings
        rows = embedded.rows(self.real_ids(embedded))
        # By content: data sets may share ids, and rows of one embedder may be scaled or not.
        key = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
        return self.bench.shared.once(
            ("clusters", key, settings.clusters, settings.seed),
            lambda: assign_clusters(rows, clusters=settings.clusters, seed=settings.seed),
        )

    def _importances(self, embedded: Embeddings) -> dict[str, Importance]:
        """Measure all semantics on the real images, with one clustering for all."""
        from pytest_semcov.semantics.importance import (
            adjust_together,
            importance,
            known_categories,
            permutations_for,
        )

        settings = self.bench.settings
        known = self.known_labels()
        real = self.real_ids(embedded)
        if not known or len(real) < settings.clusters:
            return {}
        rows = embedded.rows(real)
        assignments = self.clusters(embedded)
        groups = _groups([self.samples[sample_id] for sample_id in real])
        codes_of = [each.for_ids(real).codes for each in known]
        tests = sum(len(each.categories) for each in known)
        tested = sum(
            known_categories(codes, len(each.categories)) for each, codes in zip(known, codes_of, strict=True)
        )
        measured = []
        for each, codes in zip(known, codes_of, strict=True):
            measured.append(
                importance(
                    rows,
                    codes,
                    each.categories,
                    semantic=each.semantic,
                    clusters=settings.clusters,
                    permutations=permutations_for(tests, max_p=settings.max_p),
                    seed=settings.seed,
                    groups=groups,
                    assignments=assignments,
                    embedder=embedded.name,
                    protocol=settings.protocol,
                    max_p=settings.max_p,
                    tests=tested,
                )
            )
        return {each.semantic: each for each in adjust_together(measured)}

    def across_embedders(self) -> RankingAcrossEmbedders:
        """Return the ranks aggregated over the embedders."""
        from pytest_semcov.semantics.ranking import rank_across_embedders

        return rank_across_embedders(
            {
                name: list(importances.values())
                for name, importances in zip(self.names, self.importances, strict=True)
            }
        )

    def evidence(
        self,
        semantic: str | Descriptor,
        *,
        reference_labels: Mapping[str, str] | None = None,
        embedder: int = 0,
    ) -> SemanticEvidence:
        """Return what the gates need to know of one semantic, with its importance to one embedder."""
        from pytest_semcov.semantics.evidence import gather_evidence, unlabelled_evidence

        name = _name(semantic)
        labels = self.labels[name]
        if isinstance(labels, UnknownSemanticError):
            return unlabelled_evidence(labels)
        return gather_evidence(
            labels,
            synthetic=[not self.samples[sample_id].real for sample_id in labels.ids],
            groups=[self.samples[sample_id].group for sample_id in labels.ids],
            importance=self.importances[embedder].get(name) if self.importances else None,
            embeddings=self.embedded[embedder].rows(labels.ids) if self.embedded else None,
            label_error=self._label_error(labels, reference_labels),
        )

    def _label_error(
        self, labels: Labels, reference_labels: Mapping[str, str] | None
    ) -> Mapping[str, LabelError]:
        """Return the labeller's known error: on the reference labels given, else from its card."""
        from pytest_semcov.semantics.reliability import measure_reliability

        if reference_labels is not None:
            measured = measure_reliability(labels, reference_labels)
            source = f"{measured.reference} reference labels"
            return {match.category: match.error(source) for match in measured.matches}
        if not labels.estimated:
            return {}
        return card_label_error(self.bench.encoder, labels.semantic, rendered=is_rendered(self.dataset))


def _measure(
    bench: Workbench,
    dataset: Dataset,
    semantics: Sequence[str | Descriptor],
    embedded: Sequence[Embeddings],
    labels: Mapping[str, object],
) -> Measured:
    found: dict[str, Labels | UnknownSemanticError] = {}
    for semantic in semantics:
        name = _name(semantic)
        try:
            found[name] = _accepted(bench.label(dataset, semantic, labels=labels.get(name)), dataset)
        except UnknownSemanticError as error:
            found[name] = error
    return Measured(bench, dataset, embedded, found)


def _accepted(labels: Labels, dataset: Dataset) -> Labels:
    """Return labels in which synthetic images count as what they were accepted as, whoever labelled them."""
    made = {
        sample.id: sample.provenance.target_category
        for sample in _samples_by_id(dataset).values()
        if sample.provenance is not None
        and sample.provenance.semantic == labels.semantic
        and sample.provenance.target_category in labels.categories
    }
    if not made:
        return labels
    codes = labels.codes.copy()
    for row, sample_id in enumerate(labels.ids):
        if sample_id in made:
            codes[row] = labels.code(made[sample_id])
    return replace(labels, codes=codes)


def _named(
    bench: Workbench, semantics: Sequence[str | Descriptor] | None, labels: Mapping[str, object]
) -> list[str | Descriptor]:
    """Return the semantics named, or all that there are; known labels must be of one of them."""
    if semantics is not None and not semantics:
        raise ArgumentError("semantics is empty: name at least one, or leave it out to scan the catalogue")
    if isinstance(semantics, str):
        semantics = [semantics]
    chosen: list[str | Descriptor] = [*bench.descriptors] if semantics is None else [*semantics]
    names = [_name(each) for each in chosen]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ArgumentError(f"semantic {twice[0]!r} is named twice")
    unknown = [name for name in labels if name not in names]
    if unknown:
        raise ArgumentError(
            f"labels= names {unknown[0]!r}, which is not among the semantics: {', '.join(names)}"
        )
    return chosen


def card_label_error(model: Encoder | Embedder, semantic: str, *, rendered: bool) -> Mapping[str, LabelError]:
    """Return category → errors that the encoder's card states for this kind of image; empty if none."""
    stated: Any = getattr(model, "label_error", None)
    errors = None if stated is None else stated(semantic, rendered=rendered)
    return {
        category: LabelError(
            tuple(counts["recall"]),
            tuple(counts["specificity"]),
            str(counts.get("source", "the model's card")),
        )
        for category, counts in (errors or {}).items()
    }


def is_rendered(dataset: Dataset) -> bool:
    """Whether all real images are rendered scenes, the images that the built-in encoder was made on."""
    from pytest_semcov.data.scenes import SceneSource

    real = [sample for sample in _samples_by_id(dataset).values() if sample.real]
    return bool(real) and all(isinstance(sample.source, SceneSource) for sample in real)


def _groups(samples: Sequence[Sample]) -> list[str] | None:
    """Return one group per sample, one without a group being its own; ``None`` where none is known."""
    if all(sample.group is None for sample in samples):
        return None
    return [f"image {sample.id}" if sample.group is None else f"group {sample.group}" for sample in samples]


def _samples_by_id(dataset: Dataset) -> dict[str, Sample]:
    return {sample.id: sample for sample in (dataset[index] for index in range(len(dataset)))}


def _name(semantic: str | Descriptor) -> str:
    return semantic if isinstance(semantic, str) else semantic.name
