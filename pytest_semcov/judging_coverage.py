"""From a data set and a workbench to the verdicts on coverage, of combinations too, and on labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding.protocols import Embeddings
from pytest_semcov.errors import UnknownSemanticError
from pytest_semcov.gates.coverage import CoverageBars, combinations_verdict, coverage_verdict
from pytest_semcov.labelling import name_of, samples_by_id
from pytest_semcov.measuring import Measured, measure, measure_semantics

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.gates.verdict import Verdict
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.semantics.labels import Labels
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


def coverage_of_counts(bench: Workbench, dataset: Dataset, labels: Labels) -> Verdict:
    """Judge one semantic by its labels alone: no embedding, no importance."""
    measured = Measured(bench, dataset, [], {labels.semantic: labels})
    return coverage_verdict(measured.evidence(labels.semantic), bars(bench), provenance=provenance(bench, []))


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
        bench.check(dataset, each, labels=(labels or {}).get(name_of(each)))
    measured = measure_semantics(bench, dataset, semantics, [], labels or {})
    problems = [unlabelled_evidence(each) for each in measured.labels.values() if isinstance(each, Exception)]
    if problems:
        return combinations_verdict(problems, bars(bench), provenance=provenance(bench, []))
    known = measured.known_labels()
    everywhere = set(known[0].ids).intersection(*(each.ids for each in known[1:]))
    common = [sample_id for sample_id in known[0].ids if sample_id in everywhere]
    known = [each.for_ids(common) for each in known]
    samples = samples_by_id(dataset)
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

    name = name_of(semantic)
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
