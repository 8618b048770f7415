"""From a data set and a workbench to verdicts on many semantics, under one embedder or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_semcov.embedding.protocols import Embeddings
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.consensus import check_rule, max_p_per_embedder
from pytest_semcov.gates.scan import consensus_scan_verdict
from pytest_semcov.judging_coverage import bars, provenance
from pytest_semcov.labelling import name_of
from pytest_semcov.measuring import embedded_by_several, measure_semantics

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.gates.verdict import Verdict
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.semantics.ranking import Ranking, RankingAcrossEmbedders
    from pytest_semcov.workbench import Workbench


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
        bench.check(dataset, each, labels=(labels or {}).get(name_of(each)))
    usable, sets = embedded_by_several(bench, dataset, embeddings, embedders)
    # One embedder's wrong FAIL may be enough for all of them, so that more is asked of each.
    max_p = max_p_per_embedder(bench.settings.max_p, len(sets), consensus)
    bench = bench.with_settings(max_p=max_p)
    measured = measure_semantics(bench, usable, chosen, sets, labels or {})
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
    measured = measure_semantics(bench, usable, chosen, sets, labels or {})
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
    measured = measure_semantics(bench, usable, chosen, sets, labels or {})
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
    return [each for each in chosen if name_of(each) in known or bench.knows(dataset, each)]


def _named(
    bench: Workbench, semantics: Sequence[str | Descriptor] | None, labels: Mapping[str, object]
) -> list[str | Descriptor]:
    """Return the semantics named, or all that there are; known labels must be of one of them."""
    if semantics is not None and not semantics:
        raise ArgumentError("semantics is empty: name at least one, or leave it out to scan the catalogue")
    if isinstance(semantics, str):
        semantics = [semantics]
    chosen: list[str | Descriptor] = [*bench.descriptors] if semantics is None else [*semantics]
    names = [name_of(each) for each in chosen]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ArgumentError(f"semantic {twice[0]!r} is named twice")
    unknown = [name for name in labels if name not in names]
    if unknown:
        raise ArgumentError(
            f"labels= names {unknown[0]!r}, which is not among the semantics: {', '.join(names)}"
        )
    return chosen
