"""Assertion on synthetic images: measure, record, raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_semcov.assertions import bench_of, conclude, without_internals
from pytest_semcov.gates.verdict import Verdict

if TYPE_CHECKING:
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.workbench import Workbench


@without_internals
def assert_synthetic_sufficient(
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
    protocol: str | None = None,
    min_gap_closed: float | None = None,
    min_completeness_gain: float | None = None,
    workbench: Workbench | None = None,
) -> Verdict:
    """Assert that synthetic images may stand in for the real images of an uncovered category.

    Parameters
    ----------
    synthetic
        The synthetic images: a data set, or embeddings (:class:`Embeddings` or an ``(n, d)`` array, used
        as given).
    real, semantic, uncovered, covered
        A real data set, the semantic, its uncovered category, and the covered one (default: all others).
    real_uncovered, real_covered
        Instead of ``real``: real images of the uncovered and of the covered category, as data sets or
        embeddings.
    sources
        Data set or embeddings of the images that the synthetic ones were made from, row by row; default:
        found by their provenance.
    labels
        Known labels of ``real`` (see :func:`~pytest_semcov.assert_semantic_covered`).
    failed
        How many translations failed before; they are shown and counted.
    embedders
        Judge under each of these embedders (specs, objects) instead of the workbench's; the sets must be
        data sets.
    consensus
        How their verdicts are joined: ``"all"`` or ``"majority"``, see
        :func:`~pytest_semcov.assert_no_uncovered_semantics`.
    protocol, min_gap_closed, min_completeness_gain
        In place of the settings'.
    workbench
        Default: the running test's.

    Returns
    -------
    Verdict
        Of kind ``"sufficiency"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If a criterion fails; the message names it.
    VerdictInconclusive
        If there are too few images, or the embedder does not see the difference between the categories.
    ArgumentError
        If arguments are missing or do not go together.
    """
    __tracebackhide__ = True
    bench = bench_of(workbench).with_settings(
        protocol=protocol, min_gap_closed=min_gap_closed, min_completeness_gain=min_completeness_gain
    )
    verdict = bench.sufficiency(
        synthetic,
        real=real,
        semantic=semantic,
        uncovered=uncovered,
        covered=covered,
        real_uncovered=real_uncovered,
        real_covered=real_covered,
        sources=sources,
        labels=labels,
        failed=failed,
        embedders=embedders,
        consensus=consensus,
    )
    return conclude(verdict)
