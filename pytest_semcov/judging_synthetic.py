"""From data sets and a workbench to the verdict on synthetic images, and to augmented data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import BadImage, Dataset, SampleDataset
from pytest_semcov.embedding.protocols import Embeddings
from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.consensus import check_rule, joined_verdict
from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict
from pytest_semcov.judging_coverage import provenance
from pytest_semcov.measuring import embedded_samples
from pytest_semcov.metrics.arrays import as_embeddings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.workbench import Workbench


@dataclass(frozen=True, slots=True)
class _Set:
    """One of the compared sets: rows, and what is known of the images behind them."""

    name: str
    array: NDArray[np.floating]
    ids: tuple[str, ...] | None = None
    groups: tuple[str | None, ...] | None = None
    dataset: Dataset | None = None
    embedded: Embeddings | None = None

    @property
    def fingerprint(self) -> str | None:
        """The embedder behind the rows; ``None`` for plain arrays."""
        return None if self.embedded is None else self.embedded.fingerprint


def judge_sufficiency(
    bench: Workbench,
    synthetic: object,
    *,
    real: object = None,
    semantic: str | Descriptor | None = None,
    uncovered: str | None = None,
    covered: str | None = None,
    real_uncovered: object = None,
    real_covered: object = None,
    sources: object = None,
    labels: object = None,
    failed: int = 0,
    embedders: Sequence[object] | None = None,
    consensus: str = "all",
) -> Verdict:
    """Judge synthetic images; see :func:`~pytest_semcov.assert_synthetic_sufficient`."""
    check_rule(consensus, ranks=False)
    if embedders is not None:
        given: dict[str, Any] = {"synthetic": synthetic, "real": real, "real_uncovered": real_uncovered}
        given |= {"real_covered": real_covered, "sources": sources}
        return _judge_by_several(
            bench,
            given,
            embedders,
            consensus,
            semantic=semantic,
            uncovered=uncovered,
            covered=covered,
            labels=labels,
            failed=failed,
        )
    if real is not None:
        if real_uncovered is not None or real_covered is not None:
            raise ArgumentError(
                "give either real= (with semantic= and uncovered=) or real_uncovered= and real_covered="
            )
        if semantic is None or uncovered is None:
            raise ArgumentError("real= needs semantic= and uncovered=: which of its images are compared?")
        if not isinstance(real, Dataset):
            raise ArgumentError(
                f"real= must be a data set, not {type(real).__name__}; "
                "for embeddings give real_uncovered= and real_covered="
            )
        real_uncovered, real_covered = _split(bench, real, semantic, uncovered, covered, labels)
    elif real_uncovered is None or real_covered is None:
        raise ArgumentError(
            "give real= with semantic= and uncovered=, or both real_uncovered= and real_covered="
        )
    sets = _Sets(
        _as_set(bench, synthetic, "synthetic"),
        _as_set(bench, real_uncovered, "real_uncovered"),
        _as_set(bench, real_covered, "real_covered"),
    )
    source_rows = _source_rows(bench, sets, real, sources)
    return _judge(bench, sets, semantic=semantic, uncovered=uncovered, sources=source_rows, failed=failed)


def _judge_by_several(
    bench: Workbench,
    given: Mapping[str, Any],
    embedders: Sequence[object],
    consensus: str,
    **arguments: Any,
) -> Verdict:
    """Judge under each embedder, and join the verdicts."""
    wrong = [name for name, each in given.items() if each is not None and not isinstance(each, Dataset)]
    if wrong:
        raise ArgumentError(f"embedders= embeds images itself: {wrong[0]}= must be a data set")
    if isinstance(embedders, str) or not isinstance(embedders, Sequence) or not embedders:
        raise ArgumentError(f"embedders={embedders!r}: need a sequence of one embedder or more")
    benches = [bench.with_embedder(each) for each in embedders]
    models = [each.embedder for each in benches]
    prints = [each.fingerprint for each in models]
    twice = [each.name for each in models if prints.count(each.fingerprint) > 1]
    if twice:
        raise ArgumentError(f"embedder {twice[0]!r} is given twice: it would have two votes")
    names = [each.name for each in models]
    verdicts = {
        f"{name} ({number})" if names.count(name) > 1 else name: judge_sufficiency(each, **given, **arguments)
        for number, (name, each) in enumerate(zip(names, benches, strict=True))
    }
    return joined_verdict(verdicts, consensus)


@dataclass(frozen=True, slots=True)
class _Sets:
    """Synthetic, real uncovered and real covered images."""

    synthetic: _Set
    uncovered: _Set
    covered: _Set

    def __iter__(self) -> Iterator[_Set]:
        return iter((self.synthetic, self.uncovered, self.covered))


def _judge(
    bench: Workbench,
    sets: _Sets,
    *,
    semantic: str | Descriptor | None,
    uncovered: str | None,
    sources: NDArray[np.floating] | None,
    failed: int,
) -> Verdict:
    """Hand the sets' rows to the gate."""
    _check_comparable(list(sets))
    settings = bench.settings
    groups = [_groups(each) for each in sets]
    verdict = sufficiency_verdict(
        sets.synthetic.array,
        sets.uncovered.array,
        sets.covered.array,
        subject=f"synthetic {uncovered}" if uncovered else sets.synthetic.name,
        semantic=semantic if isinstance(semantic, str) or semantic is None else semantic.name,
        sources=sources,
        synthetic_groups=groups[0],
        uncovered_groups=groups[1],
        covered_groups=groups[2],
        synthetic_ids=sets.synthetic.ids,
        failed=failed,
        arrival=_arrival(bench, sets, semantic, uncovered),
        protocol=settings.protocol,
        min_gap_closed=settings.min_gap_closed,
        min_completeness_gain=settings.min_completeness_gain,
        repeats=settings.repeats,
        seed=settings.seed,
    )
    embedded = [each.embedded for each in sets if each.embedded is not None]
    replay = provenance(bench, [replace(embedded[0], skipped=_skipped(embedded))] if embedded else [])
    return replace(verdict, provenance={**verdict.provenance, **replay})


def _skipped(embedded: Sequence[Embeddings]) -> tuple[BadImage, ...]:
    return tuple(bad for each in embedded for bad in each.skipped)


def _split(
    bench: Workbench,
    real: Dataset,
    semantic: str | Descriptor,
    uncovered: str,
    covered: str | None,
    labels: object,
) -> tuple[Dataset, Dataset]:
    """Return the real images of the uncovered and of the covered category."""
    found = bench.label(real, semantic, labels=labels)
    code = found.code(uncovered)
    by_id = found.by_id()
    rows: tuple[list[int], list[int]] = ([], [])
    for index, sample_id in enumerate(real.ids):
        category = by_id.get(sample_id)
        if category is None or not real[index].real:
            continue
        if found.code(category) == code:
            rows[0].append(index)
        elif covered is None or category == covered:
            rows[1].append(index)
    if covered is not None:
        found.code(covered)
    for what, chosen in zip((uncovered, covered or f"any category but {uncovered}"), rows, strict=True):
        if not chosen:
            raise ArgumentError(
                f"{found.semantic}: no real image of {what} among {len(real)} (labels by {found.source}); "
                "bring real images with real_uncovered= and real_covered="
            )
    return real.subset(rows[0]), real.subset(rows[1])


def _as_set(bench: Workbench, given: object, what: str) -> _Set:
    """Return rows for a data set, embeddings or an array."""
    if isinstance(given, Embeddings):
        return _Set(what, given.array, given.ids, embedded=given)
    if isinstance(given, Dataset):
        dataset, embedded = embedded_samples(bench, given, None)
        groups = tuple(None if group is None else str(group) for group in dataset.column("group"))
        return _Set(getattr(given, "name", what), embedded.array, embedded.ids, groups, dataset, embedded)
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise ArgumentError(
            f"{what}=: need a data set, Embeddings or an (n, d) array, not {type(given).__name__}"
        )
    rows: Any = given
    return _Set(what, as_embeddings(rows, name=what))


def _check_comparable(sets: Sequence[_Set]) -> None:
    """Raise unless all rows come from one embedder, or all are plain arrays, which the caller answers for."""
    fingerprints = {(each.fingerprint, each.embedded and each.embedded.normalised) for each in sets}
    if len(fingerprints) > 1:
        names = ", ".join(
            f"{each.name}: {'a plain array' if each.embedded is None else each.embedded.name or 'no name'}"
            for each in sets
        )
        raise ArgumentError(
            f"the sets do not come from one embedder ({names}); embed all of them with the same one"
        )


def _groups(each: _Set) -> list[str] | None:
    """Return groups, an image without one being its own, or ``None`` where none is known."""
    if each.groups is None or each.ids is None or not any(group is not None for group in each.groups):
        return None
    return [
        f"image {each.name} {sample_id}" if group is None else f"group {group}"
        for sample_id, group in zip(each.ids, each.groups, strict=True)
    ]


def _source_rows(bench: Workbench, sets: _Sets, real: object, sources: object) -> NDArray[np.floating] | None:
    """Return the rows of the images that the synthetic ones were made from, or ``None`` if unknown."""
    s = sets.synthetic
    if sources is not None:
        given = _as_set(bench, sources, "sources")
        if given.fingerprint != s.fingerprint:
            raise ArgumentError("sources= do not come from the embedder of the synthetic images")
        return given.array
    if s.dataset is None:
        return None
    samples = [s.dataset[index] for index in range(len(s.dataset))]
    source_ids = [None if sample.provenance is None else sample.provenance.source_id for sample in samples]
    pool = real if isinstance(real, Dataset) else sets.covered.dataset
    if pool is None or None in source_ids or not set(source_ids) <= set(pool.ids):
        return None
    where = {sample_id: index for index, sample_id in enumerate(pool.ids)}
    chosen = pool.subset(sorted({where[str(source_id)] for source_id in source_ids}))
    return bench.embed(chosen).rows([str(source_id) for source_id in source_ids])


def _arrival(
    bench: Workbench, sets: _Sets, semantic: str | Descriptor | None, uncovered: str | None
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return how many of S and of U the encoder labels as the target, ``None`` if it cannot tell."""
    judged = (sets.synthetic.dataset, sets.uncovered.dataset)
    if semantic is None or uncovered is None or judged[0] is None or judged[1] is None:
        return None
    descriptor = bench.descriptors.get(semantic) if isinstance(semantic, str) else semantic
    if descriptor is None or uncovered not in descriptor.categories:
        return None
    by_encoder = bench.with_settings(labels={})
    try:
        found = [by_encoder.label(each, descriptor) for each in judged if each is not None]
    except UnknownSemanticError:
        return None
    counts = [(int(labels.mask(uncovered).sum()), len(labels)) for labels in found]
    return counts[0], counts[1]


def judge_translated(
    bench: Workbench,
    synthetic: Dataset,
    uncovered_parts: Sequence[Dataset],
    covered_part: Dataset,
    *,
    sources: Dataset,
    semantic: str,
    uncovered: str,
    failed: Mapping[str, str],
) -> Verdict:
    """Judge what a translator made.

    Parameters
    ----------
    bench
        The workbench.
    synthetic
        The usable images, with provenance.
    uncovered_parts
        Real images of the category that was made, from one data set or several.
    covered_part
        Real images of the category that was translated.
    sources
        Holds the images that were translated.
    semantic, uncovered
        What was made.
    failed
        Source id → why its translation is not usable.
    """
    if not len(synthetic):
        return _nothing_made(bench, uncovered, failed)
    parts = [_as_set(bench, each, f"part {number}") for number, each in enumerate(uncovered_parts)]
    made = _as_set(bench, synthetic, "synthetic")
    sets = _Sets(made, _joined(parts, made), _as_set(bench, covered_part, "real_covered"))
    rows = _source_rows(bench, sets, sources, None)
    return _judge(bench, sets, semantic=semantic, uncovered=uncovered, sources=rows, failed=len(failed))


def _joined(parts: Sequence[_Set], like: _Set) -> _Set:
    """Return several sets of real images as one; their ids may collide."""
    import numpy as np

    if not parts:
        return _Set("real_uncovered", np.empty((0, like.array.shape[1]), dtype=like.array.dtype))
    if len(parts) == 1:
        return parts[0]
    samples = [
        replace(each.dataset[index], id=f"{each.name}/{each.dataset[index].id}")
        for each in parts
        if each.dataset is not None
        for index in range(len(each.dataset))
    ]
    return _Set(
        "real_uncovered",
        np.concatenate([each.array for each in parts]),
        tuple(sample.id for sample in samples),
        tuple(group for each in parts for group in each.groups or ()),
        SampleDataset(samples, name="real uncovered"),
        parts[0].embedded,
    )


def _nothing_made(bench: Workbench, uncovered: str, failed: Mapping[str, str]) -> Verdict:
    """Return the verdict on a translator of which no image is usable."""
    reasons = ", ".join(sorted(set(failed.values()))[:3])
    criterion = Criterion(
        "failed", 1.0, None, None, Outcome.FAIL, f"{len(failed)} of {len(failed)}: {reasons}", at_least=False
    )
    return Verdict(
        kind="sufficiency",
        subject=f"synthetic {uncovered}",
        outcome=Outcome.FAIL,
        criteria=(criterion,),
        counts={"synthetic": 0, "failed": len(failed)},
        provenance=provenance(bench, []),
        summary=f"synthetic {uncovered}: FAIL, none of {len(failed)} translations is usable: {reasons}",
    )
