"""From data sets and a workbench to the verdict on synthetic images, and to augmented data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_semcov.data.samples import Dataset
from pytest_semcov.embedding.protocols import Embeddings
from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.judging_coverage import embedded_samples, provenance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_semcov.gates.verdict import Verdict
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
) -> Verdict:
    """Judge synthetic images; see :func:`~pytest_semcov.assert_synthetic_sufficient`."""
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
    s = _as_set(bench, synthetic, "synthetic")
    u = _as_set(bench, real_uncovered, "real_uncovered")
    c = _as_set(bench, real_covered, "real_covered")
    source_rows = _source_rows(bench, s, c, real, sources)
    _check_comparable([each for each in (s, u, c) if len(each.array)])
    name = semantic if isinstance(semantic, str) or semantic is None else semantic.name
    embedded = [each.embedded for each in (s, u, c) if each.embedded is not None]
    grouped = [_groups(each) for each in (s, u, c)]
    settings = bench.settings
    verdict = sufficiency_verdict(
        s.array,
        u.array,
        c.array,
        subject=f"synthetic {uncovered}" if uncovered else s.name,
        semantic=name,
        sources=source_rows,
        synthetic_groups=grouped[0],
        uncovered_groups=grouped[1],
        covered_groups=grouped[2],
        synthetic_ids=s.ids,
        failed=failed,
        arrival=_arrival(bench, s, u, semantic, uncovered),
        protocol=settings.protocol,
        min_gap_closed=settings.min_gap_closed,
        min_completeness_gain=settings.min_completeness_gain,
        repeats=settings.repeats,
        seed=settings.seed,
    )
    return replace(verdict, provenance={**verdict.provenance, **provenance(bench, embedded[:1])})


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
    import numpy as np

    if isinstance(given, Embeddings):
        return _Set(what, given.array, given.ids, embedded=given)
    if isinstance(given, Dataset):
        dataset, embedded = embedded_samples(bench, given, None)
        groups = tuple(None if group is None else str(group) for group in dataset.column("group"))
        return _Set(getattr(given, "name", what), embedded.array, embedded.ids, groups, dataset, embedded)
    if hasattr(given, "detach"):  # a torch tensor
        given = given.detach().cpu()
    array = np.asarray(given)
    if array.dtype == object or array.ndim != 2:
        raise ArgumentError(
            f"{what}=: need a data set, Embeddings or an (n, d) array, not {type(given).__name__}"
            + ("" if array.dtype == object else f" of shape {array.shape}")
        )
    return _Set(what, array)


def _check_comparable(sets: Sequence[_Set]) -> None:
    """Raise unless all rows come from one embedder, or all are plain arrays, which the caller answers for."""
    fingerprints = {each.fingerprint for each in sets}
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


def _source_rows(
    bench: Workbench, s: _Set, c: _Set, real: object, sources: object
) -> NDArray[np.floating] | None:
    """Return the rows of the images that the synthetic ones were made from, or ``None`` if unknown."""
    if sources is not None:
        given = _as_set(bench, sources, "sources")
        if given.fingerprint != s.fingerprint:
            raise ArgumentError("sources= do not come from the embedder of the synthetic images")
        return given.array
    if s.dataset is None:
        return None
    samples = [s.dataset[index] for index in range(len(s.dataset))]
    source_ids = [None if sample.provenance is None else sample.provenance.source_id for sample in samples]
    pool = real if isinstance(real, Dataset) else c.dataset
    if pool is None or None in source_ids or not set(source_ids) <= set(pool.ids):
        return None
    where = {sample_id: index for index, sample_id in enumerate(pool.ids)}
    chosen = pool.subset(sorted({where[str(source_id)] for source_id in source_ids}))
    return bench.embed(chosen).rows([str(source_id) for source_id in source_ids])


def _arrival(
    bench: Workbench, s: _Set, u: _Set, semantic: str | Descriptor | None, uncovered: str | None
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return how many of S and of U the encoder labels as the target, ``None`` if it cannot tell."""
    if semantic is None or uncovered is None or s.dataset is None or u.dataset is None:
        return None
    descriptor = bench.descriptors.get(semantic) if isinstance(semantic, str) else semantic
    if descriptor is None or uncovered not in descriptor.categories:
        return None
    by_encoder = bench.with_settings(labels={})
    try:
        found = [by_encoder.label(each.dataset, descriptor) for each in (s, u) if each.dataset is not None]
    except UnknownSemanticError:
        return None
    counts = [(int(labels.mask(uncovered).sum()), len(labels)) for labels in found]
    return counts[0], counts[1]
