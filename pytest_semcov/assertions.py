"""Assertions on data sets: measure, record, raise.

Each returns its :class:`~pytest_semcov.gates.verdict.Verdict` when it passes.
They work inside and outside pytest: inside, the plugin supplies the active
workbench; outside, pass ``workbench=`` (default: a workbench with default
settings).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pytest_semcov.active import ACTIVE
from pytest_semcov.errors import SemcovError, VerdictFailed, VerdictInconclusive
from pytest_semcov.gates.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.embedding.protocols import Embeddings
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.workbench import Workbench


P = ParamSpec("P")
T = TypeVar("T")


def without_internals(function: Callable[P, T]) -> Callable[P, T]:
    """Let errors of this package end at the user's line: their messages say what is wrong and what to do."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except SemcovError as error:
            raise error.with_traceback(None) from None

    return call


@without_internals
def assert_semantic_covered(
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    labels: object = None,
    embeddings: Embeddings | None = None,
    reference_labels: Mapping[str, str] | None = None,
    min_count: int | None = None,
    min_share: float | None = None,
    min_groups: int | None = None,
    workbench: Workbench | None = None,
) -> Verdict:
    """Assert that no category of a semantic is under-represented in a data set.

    Parameters
    ----------
    dataset
        The images; accepted synthetic samples count towards coverage and are shown apart.
    semantic
        Name of a semantic (``"day_night"``) or a descriptor.
    labels
        Known labels: a metadata column's name, a mapping id → category, a callable on a sample, or
        :class:`Labels`. Default: the setting ``labels`` for this semantic, else the encoder's labels.
    embeddings
        Embeddings of the data set if they are at hand; default: by the workbench's embedder. They serve
        the importance shown beside the verdict.
    reference_labels
        True categories of some images by id; the encoder's error on them corrects its counts.
    min_count, min_share, min_groups
        Bars in place of the settings': images, share of an equal share (0.25 = a quarter of 1/K), groups.
    workbench
        Default: the running test's.

    Returns
    -------
    Verdict
        Of kind ``"coverage"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If a category is under-represented (an empty one is).
    VerdictInconclusive
        If label error, uncertain labels or an encoder that does not know the semantic leave it open.
    """
    __tracebackhide__ = True
    bench = bench_of(workbench).with_settings(min_count=min_count, min_share=min_share, min_groups=min_groups)
    verdict = bench.coverage(
        dataset, semantic, labels=labels, embeddings=embeddings, reference_labels=reference_labels
    )
    return conclude(verdict)


@without_internals
def assert_no_uncovered_semantics(
    dataset: Dataset,
    semantics: Sequence[str | Descriptor] | None = None,
    *,
    labels: Mapping[str, object] | None = None,
    embeddings: Embeddings | Sequence[Embeddings] | None = None,
    embedders: Sequence[object] | None = None,
    consensus: str = "majority",
    absent: str = "note",
    min_count: int | None = None,
    min_share: float | None = None,
    min_lift: float | None = None,
    max_p: float | None = None,
    workbench: Workbench | None = None,
) -> Verdict:
    """Assert that no category of many semantics is both under-represented and important to the model.

    Parameters
    ----------
    dataset
        The images.
    semantics
        Names or descriptors; default: the whole catalogue and the descriptors added to it.
    labels
        Semantic → known labels (see :func:`assert_semantic_covered`).
    embeddings
        Embeddings of the data set if they are at hand, of one embedder or several.
    embedders
        Instead: several embedders (specs, objects), each loaded once.
    consensus
        With several embedders, what they must agree on: ``"all"`` (one FAIL is a FAIL, else one INCONCLUSIVE
        leaves it open), ``"majority"`` (more than half of all, an undecided one counts against a decision)
        or ``"median-rank"`` (the one that gives a category the median of its ranks decides). Each is asked
        for a smaller p-value, so that ``max_p`` holds for the joined judgement.
    absent
        What a category without any image is: ``"note"`` or ``"fail"``.
    min_count, min_share, min_lift, max_p
        Bars in place of the settings'.
    workbench
        Default: the running test's.

    Returns
    -------
    Verdict
        Of kind ``"scan"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If a category is under-represented and important.
    VerdictInconclusive
        If that cannot be told.
    """
    __tracebackhide__ = True
    bench = bench_of(workbench).with_settings(
        min_count=min_count, min_share=min_share, min_lift=min_lift, max_p=max_p
    )
    verdict = bench.scan(
        dataset,
        semantics,
        labels=labels,
        embeddings=embeddings,
        embedders=embedders,
        consensus=consensus,
        absent=absent,
    )
    return conclude(verdict)


@without_internals
def assert_combinations_covered(
    dataset: Dataset,
    semantics: Sequence[str | Descriptor],
    *,
    strength: int = 2,
    labels: Mapping[str, object] | None = None,
    impossible: Sequence[Mapping[str, str]] = (),
    min_count: int | None = None,
    workbench: Workbench | None = None,
) -> Verdict:
    """Assert that every combination of categories (night × rain) has enough images.

    Parameters
    ----------
    dataset
        The images.
    semantics
        Two or more semantics.
    strength
        How many semantics are combined at a time (t-way), 2 to the number of semantics.
    labels
        Semantic → known labels (see :func:`assert_semantic_covered`).
    impossible
        Combinations that cannot occur, e.g. ``[{"clear_rain": "rain", "clear_snow": "snow"}]``: they are
        not judged.
    min_count
        Images per combination, in place of the setting.
    workbench
        Default: the running test's.

    Returns
    -------
    Verdict
        Of kind ``"combinations"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If a combination has too few images.
    VerdictInconclusive
        If uncertain labels leave it open.
    """
    __tracebackhide__ = True
    bench = bench_of(workbench).with_settings(min_count=min_count)
    verdict = bench.combinations(dataset, semantics, strength=strength, labels=labels, impossible=impossible)
    return conclude(verdict)


@without_internals
def assert_labels_reliable(
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    reference: object,
    labels: object = None,
    workbench: Workbench | None = None,
    **bars: Any,
) -> Verdict:
    """Assert that a semantic's labels can be relied on.

    Parameters
    ----------
    dataset
        The images.
    semantic
        Name of a semantic, or a descriptor.
    reference
        True categories: a metadata column's name, or a mapping id → category that may cover a part.
    labels
        The labels to judge; default: the encoder's.
    workbench
        Default: the running test's.
    **bars
        Bars of :func:`~pytest_semcov.gates.labels.label_reliability_verdict`: ``min_precision``,
        ``min_recall``, ``min_agreement``, ``max_uncertain``.

    Returns
    -------
    Verdict
        Of kind ``"labels"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If precision, recall, paraphrase agreement or the share of uncertain labels misses its bar.
    VerdictInconclusive
        If there are too few reference labels to tell.
    """
    __tracebackhide__ = True
    bench = bench_of(workbench)
    return conclude(bench.reliability(dataset, semantic, reference=reference, labels=labels, **bars))


@without_internals
def assert_embedders_agree(
    dataset: Dataset,
    embedders: Sequence[object],
    *,
    semantics: Sequence[str | Descriptor] | None = None,
    labels: Mapping[str, object] | None = None,
    min_agreement: float = 0.5,
    workbench: Workbench | None = None,
) -> Verdict:
    """Assert that embedders rank the categories of many semantics by importance alike.

    Parameters
    ----------
    dataset
        The images.
    embedders
        Two or more: specs, objects, or :class:`Embeddings` of the data set.
    semantics
        Names or descriptors; default: all that can be labelled here.
    labels
        Semantic → known labels (see :func:`assert_semantic_covered`).
    min_agreement
        Bar for the mean over pairs of Kendall's tau-b between the rankings by lift, in [-1, 1].
    workbench
        Default: the running test's.

    Returns
    -------
    Verdict
        Of kind ``"agreement"``, outcome PASS: the interval of the agreement lies above the bar, and shuffled
        rankings seldom agree as much.

    Raises
    ------
    VerdictFailed
        If the interval lies below the bar.
    VerdictInconclusive
        If it contains the bar, or importance is known for fewer than four semantics.
    """
    __tracebackhide__ = True
    bench = bench_of(workbench)
    verdict = bench.agreement(
        dataset, embedders, semantics=semantics, labels=labels, min_agreement=min_agreement
    )
    return conclude(verdict)


def conclude(verdict: Verdict) -> Verdict:
    """Record a verdict with the running test, then return it or raise.

    Raises
    ------
    VerdictFailed
        If the outcome is FAIL.
    VerdictInconclusive
        If it is INCONCLUSIVE and the running test's ``inconclusive`` is ``"fail"``; with ``"skip"`` or
        ``"xfail"`` the test is skipped or marked as expected failure instead.
    """
    __tracebackhide__ = True
    active = ACTIVE.get()
    if active is not None:
        active.record(verdict.to_dict())
    if verdict.outcome is Outcome.PASS:
        return verdict
    if verdict.outcome is Outcome.FAIL:
        raise VerdictFailed(str(verdict), verdict)
    if active is not None and active.inconclusive != "fail":
        import pytest

        show = pytest.skip if active.inconclusive == "skip" else pytest.xfail
        show(verdict.summary or str(verdict))
    raise VerdictInconclusive(str(verdict), verdict)


def bench_of(workbench: Workbench | None) -> Workbench:
    """Return the workbench given, else the running test's, else one with default settings."""
    if workbench is not None:
        return workbench
    active = ACTIVE.get()
    if active is not None:
        return active.workbench()
    from pytest_semcov.workbench import Workbench

    return Workbench()
