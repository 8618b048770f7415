"""Assertions on models under test: which is better, and whether a data set chooses it rightly.

They work as those in :mod:`pytest_semcov.assertions`. All take, besides what is said there, ``class_names``
(label in the data set → class of the models), ``class_weighting`` (``"balanced"`` as published for DEDUCE),
``keep`` (a :class:`~pytest_semcov.metrics.detection.BoxFilter`), ``resamples`` (999) and ``confidence``
(0.95).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_semcov.assertions import bench_of, conclude, without_internals
from pytest_semcov.gates.verdict import Verdict

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.workbench import Workbench


@without_internals
def assert_model_preferred(
    new: object,
    old: object,
    dataset: Dataset,
    *,
    metric: str = "accuracy",
    margin: float = 0.0,
    workbench: Workbench | None = None,
    **options: Any,
) -> Verdict:
    """Assert that a data set supports the choice of a model over others.

    Parameters
    ----------
    new
        The model that should be better: its name among those of the fixture ``semcov_models``, a model under
        test, a spec, or a mapping name → model.
    old
        One model or several (names, a sequence, or a mapping name → model).
    dataset
        The images, with labels or boxes.
    metric
        ``"accuracy"``, ``"balanced_accuracy"``, ``"f1_macro"``, ``"f1[CLASS]"``, ``"calibration_error"``,
        ``"map"``, ``"map@0.5"`` or ``"ap@0.5[CLASS]"``.
    margin
        It must be better by more than this, in units of the score.
    workbench
        Default: the running test's.
    **options
        See the module.

    Returns
    -------
    Verdict
        Of kind ``"preference"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If another model is better.
    VerdictInconclusive
        If the interval of a difference holds the margin: these images do not tell.
    """
    __tracebackhide__ = True
    from pytest_semcov.judging_models import judge_preference

    bench = bench_of(workbench)
    return conclude(judge_preference(bench, new, old, dataset, metric=metric, margin=margin, **options))


@without_internals
def assert_same_choice(
    models: object,
    improved: Dataset,
    ideal: Dataset,
    *,
    metric: str = "accuracy",
    workbench: Workbench | None = None,
    **options: Any,
) -> Verdict:
    """Assert that a data set with synthetic images chooses the model that one with real images chooses.

    Parameters
    ----------
    models
        At least two: names, a sequence, or a mapping name → model.
    improved, ideal
        The data sets, at the same mix (see :func:`pytest_semcov.improved` and :func:`pytest_semcov.ideal`).
    metric, workbench, **options
        As in :func:`assert_model_preferred`.

    Returns
    -------
    Verdict
        Of kind ``"choice"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If each data set chooses another model.
    VerdictInconclusive
        If one of them cannot tell which model is best.
    """
    __tracebackhide__ = True
    from pytest_semcov.judging_models import judge_same_choice

    return conclude(judge_same_choice(bench_of(workbench), models, improved, ideal, metric=metric, **options))


@without_internals
def assert_synthetic_behaves_like_real(
    models: object,
    synthetic: Dataset,
    real_uncovered: Dataset,
    covered: Dataset,
    *,
    metric: str = "accuracy",
    workbench: Workbench | None = None,
    **options: Any,
) -> Verdict:
    """Assert that models score on synthetic images as on the real ones that these stand for.

    Parameters
    ----------
    models
        Names, a mapping name → model, a sequence, or one model.
    synthetic
        Synthetic images of the uncovered category.
    real_uncovered
        Real images of that category.
    covered
        Real images of the category that the synthetic ones were made from.
    metric, workbench, **options
        As in :func:`assert_model_preferred`.

    Returns
    -------
    Verdict
        Of kind ``"likeness"``, outcome PASS: each model's score on synthetic images is nearer to that on real
        uncovered images than to that on covered ones.

    Raises
    ------
    VerdictFailed
        If a model scores otherwise on synthetic images.
    VerdictInconclusive
        If intervals leave it open, or no model scores otherwise on real uncovered than on covered images.
    """
    __tracebackhide__ = True
    from pytest_semcov.judging_models import judge_likeness

    bench = bench_of(workbench)
    return conclude(
        judge_likeness(bench, models, synthetic, real_uncovered, covered, metric=metric, **options)
    )


@without_internals
def assert_condition_gap(
    model: object,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    max_gap: float,
    metric: str = "accuracy",
    labels: object = None,
    workbench: Workbench | None = None,
    **options: Any,
) -> Verdict:
    """Assert that a model's score does not fall by more than allowed between the categories of a semantic.

    Only real images count.

    Parameters
    ----------
    model
        A model under test, its name, or a spec.
    dataset
        The images, with labels or boxes.
    semantic
        Name of a semantic or a descriptor.
    max_gap
        Largest difference allowed, in units of the score, above 0.
    labels
        Known categories of the semantic, as in :func:`~pytest_semcov.assert_semantic_covered`.
    metric, workbench, **options
        As in :func:`assert_model_preferred`.

    Returns
    -------
    Verdict
        Of kind ``"condition gap"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If the scores of two categories differ by more.
    VerdictInconclusive
        If an interval holds the bar.
    """
    __tracebackhide__ = True
    from pytest_semcov.judging_models import judge_condition_gap

    verdict = judge_condition_gap(
        bench_of(workbench),
        model,
        dataset,
        semantic,
        max_gap=max_gap,
        metric=metric,
        labels=labels,
        **options,
    )
    return conclude(verdict)
