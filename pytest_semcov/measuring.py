"""From a data set and a workbench to what verdicts are made from: labels, embeddings, importance."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.embedding.protocols import Embeddings
from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.figures import LabelError, SemanticEvidence
from pytest_semcov.labelling import as_accepted, card_label_error, is_rendered, name_of, samples_by_id

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset, Sample
    from pytest_semcov.metrics.cluster_recall import Assignments
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.semantics.importance import Importance
    from pytest_semcov.semantics.labels import Labels
    from pytest_semcov.semantics.ranking import RankingAcrossEmbedders
    from pytest_semcov.workbench import Workbench


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
    return measure_semantics(bench, usable, [semantic], [embedded], {name_of(semantic): labels})


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
        self.samples = samples_by_id(dataset)
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

        name = name_of(semantic)
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


def measure_semantics(
    bench: Workbench,
    dataset: Dataset,
    semantics: Sequence[str | Descriptor],
    embedded: Sequence[Embeddings],
    labels: Mapping[str, object],
) -> Measured:
    """Label a data set under several semantics and measure their importance under each set of embeddings."""
    found: dict[str, Labels | UnknownSemanticError] = {}
    for semantic in semantics:
        name = name_of(semantic)
        try:
            found[name] = as_accepted(bench.label(dataset, semantic, labels=labels.get(name)), dataset)
        except UnknownSemanticError as error:
            found[name] = error
    return Measured(bench, dataset, embedded, found)


def _groups(samples: Sequence[Sample]) -> list[str] | None:
    """Return one group per sample, one without a group being its own; ``None`` where none is known."""
    if all(sample.group is None for sample in samples):
        return None
    return [f"image {sample.id}" if sample.group is None else f"group {sample.group}" for sample in samples]
