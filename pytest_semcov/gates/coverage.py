"""Coverage verdicts: enough images of every category of a semantic, or of every combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.coverage_words import (
    SHOWN_NAMES,
    category_details,
    names_by_outcome,
    problem_criterion,
    replay,
    some,
)
from pytest_semcov.gates.detectable import Detectable, detectable_in_categories, detectable_shortfall
from pytest_semcov.gates.figures import CategoryImportance, SemanticEvidence
from pytest_semcov.gates.representation import (
    CoverageBars,
    Representation,
    judge,
    percent,
    uncertain_criterion,
    whole,
)
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine

__all__ = ["CoverageBars", "combinations_verdict", "coverage_verdict"]

_SHOWN_COMBINATIONS = 40
_SEVERITY = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2, Outcome.INFO: 3}


def coverage_verdict(
    evidence: SemanticEvidence,
    bars: CoverageBars | None = None,
    *,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge one semantic: FAIL if a category is under-represented, an empty one included.

    Parameters
    ----------
    evidence
        What is known of the semantic. Importance in it is shown and judges nothing.
    bars
        Bars; default :class:`CoverageBars`.
    provenance
        What replays the verdict, beside the evidence's own.

    Returns
    -------
    verdict
        Of kind ``"coverage"``, with the criteria ``count[…]``, ``share[…]`` and, where groups are known,
        ``groups[…]`` per category, ``uncertain``, and figures of importance. A semantic that could not be
        labelled is INCONCLUSIVE.
    """
    bars = bars or CoverageBars()
    if evidence.problem:
        return Verdict(
            kind="coverage",
            subject=evidence.semantic,
            outcome=Outcome.INCONCLUSIVE,
            criteria=(problem_criterion(evidence),),
            provenance={**replay(bars, evidence), **(provenance or {})},
            summary=f"{evidence.semantic}: coverage cannot be judged: {evidence.problem}",
        )
    categories = judge(evidence, bars)
    uncertain = uncertain_criterion(evidence, bars)
    criteria = [criterion for category in categories for criterion in category.criteria]
    criteria.append(uncertain)
    for category in categories:
        criteria.extend(_importance_criteria(category.importance))
    outcome = combine(criteria)
    counts = {f"real {name}": number for name, number in evidence.counts.items()}
    counts |= {f"synthetic {name}": number for name, number in evidence.synthetic.items() if number}
    if evidence.uncertain:
        counts["uncertain"] = evidence.uncertain
    return Verdict(
        kind="coverage",
        subject=evidence.semantic,
        outcome=outcome,
        criteria=tuple(criteria),
        counts=counts,
        smallest_detectable=detectable_in_categories(evidence, bars, categories),
        provenance={**replay(bars, evidence), **(provenance or {})},
        summary=_coverage_summary(evidence, categories, uncertain, outcome),
        details=tuple(_coverage_details(evidence, categories, outcome)),
    )


def combinations_verdict(
    evidences: Sequence[SemanticEvidence],
    bars: CoverageBars | None = None,
    *,
    limit: int = _SHOWN_COMBINATIONS,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge combinations of categories (night × rain): FAIL if one is under-represented.

    Parameters
    ----------
    evidences
        One per set of combined semantics, its categories being the combinations to judge.
    bars
        Bars; the share is held against ``min_share`` / number of combinations of the set.
    limit
        Combinations shown one by one, the worst first; the others are one criterion together.
    provenance
        What replays the verdict.

    Returns
    -------
    verdict
        Of kind ``"combinations"``, one criterion ``semantics[combination]`` each: its count against the
        count required; and the share of uncertain labels per set.

    Raises
    ------
    ArgumentError
        If ``limit`` is below 1.
    """
    bars = bars or CoverageBars()
    if limit < 1:
        raise ArgumentError(f"limit={limit}: need at least 1")
    criteria: list[Criterion] = []
    uncertain: list[Criterion] = []
    seen: Detectable = {}
    for evidence in evidences:
        if evidence.problem:
            criteria.append(problem_criterion(evidence))
            continue
        for category in judge(evidence, bars):
            criteria.append(category.as_criterion(evidence.semantic, category.outcome, category.note))
            seen |= detectable_shortfall(evidence, category)
        uncertain.append(uncertain_criterion(evidence, bars, name=f"uncertain[{evidence.semantic}]"))
    criteria.sort(key=lambda criterion: (_SEVERITY[criterion.outcome], criterion.value or 0.0))
    outcome = combine([*criteria, *uncertain])
    listed = names_by_outcome([*criteria, *uncertain])
    shown = _bounded(criteria, limit)
    details = []
    if outcome is Outcome.PASS:
        summary = f"all {len(criteria)} combinations are covered"
    elif outcome is Outcome.FAIL:
        worst = criteria[0]
        summary = (
            f"{len(listed[outcome])} of {len(criteria)} combinations are under-represented: "
            f"{some(listed[outcome], SHOWN_NAMES)}; {worst.name}: {whole(worst.value)} images found, "
            f"{whole(worst.bar)} required"
        )
        details.append(
            "what to do: add images of these combinations, or leave out those that cannot occur "
            "(impossible=[{semantic: category, ...}])"
        )
    else:
        left_open = some(listed[outcome], SHOWN_NAMES) or "there are none"
        summary = f"combinations cannot be judged: {left_open}"
    return Verdict(
        kind="combinations",
        subject=", ".join(evidence.semantic for evidence in evidences),
        outcome=outcome,
        criteria=(*shown, *uncertain),
        counts={"all": max((evidence.images for evidence in evidences), default=0)},
        smallest_detectable={each.name: seen[each.name] for each in shown if each.name in seen},
        provenance={**replay(bars, *evidences), **(provenance or {})},
        summary=summary,
        details=tuple(details),
    )


def _bounded(criteria: Sequence[Criterion], limit: int) -> list[Criterion]:
    """Return the first criteria, and one for all the others together."""
    rest = criteria[limit:]
    if len(rest) < 2:
        return list(criteria)
    fewest = min(rest, key=lambda criterion: criterion.value or 0.0)
    together = Criterion(
        f"{len(rest)} further combinations",
        fewest.value,
        fewest.bar,
        fewest.interval,
        combine(rest),
        f"the one with the fewest images is {fewest.name}",
    )
    return [*criteria[:limit], together]


def _importance_criteria(figures: CategoryImportance | None) -> list[Criterion]:
    """Return the figures of importance, which judge nothing."""
    if figures is None:
        return []
    name = figures.category
    if figures.recall is None:
        return [Criterion(f"cluster_recall[{name}]", None, None, None, Outcome.INFO, str(figures))]
    where = f"in {figures.embedder}; " if figures.embedder else ""
    adjusted = figures.adjusted_p is not None
    shown = [
        ("cluster_recall", figures.recall, figures.recall_range, f"{where}range over k-means seeds"),
        ("lift", figures.lift, None, f"over random subsets of {figures.count} images"),
        ("p", figures.adjusted_p if adjusted else figures.p_value, None, "Holm-adjusted" if adjusted else ""),
        ("separability", figures.separability, None, "cross-validated AUC of a linear classifier"),
    ]
    return [
        Criterion(f"{figure}[{name}]", value, None, interval, Outcome.INFO, note)
        for figure, value, interval, note in shown
        if value is not None
    ]


def _coverage_summary(
    evidence: SemanticEvidence, categories: Sequence[Representation], uncertain: Criterion, outcome: Outcome
) -> str:
    semantic = evidence.semantic
    if outcome is Outcome.PASS:
        numbers = ", ".join(f"{category.name} {whole(category.count.value)}" for category in categories)
        return f"{semantic}: all {len(categories)} categories are covered ({numbers})"
    if uncertain.outcome is Outcome.INCONCLUSIVE:
        return (
            f"{semantic}: coverage cannot be judged: {evidence.uncertain} of {evidence.real} images "
            f"({percent(uncertain.value)}) have no certain label, more than {percent(uncertain.bar)}"
        )
    chosen = [category for category in categories if category.outcome is outcome]
    first = chosen[0]
    state = (
        "under-represented"
        if outcome is Outcome.FAIL
        else "covered or under-represented, labels leave it open"
    )
    others = some([category.name for category in chosen[1:]], SHOWN_NAMES)
    interval = first.count.interval
    between = "" if interval is None else f" [{whole(interval[0])}, {whole(interval[1])}]"
    apart = f" ({first.real} real, {first.synthetic} synthetic)" if first.synthetic else ""
    groups = first.groups
    return (
        f"{semantic}: {first.name} is {state}{f' (also {others})' if others else ''}: "
        f"{whole(first.count.value)}{between} of {first.images} images found{apart}, "
        f"{whole(first.count.bar)} required; "
        f"share {percent(first.share.value)}, {percent(first.share.bar)} required"
        + ("" if groups is None else f"; {whole(groups.value)} groups, {whole(groups.bar)} required")
    )


def _coverage_details(
    evidence: SemanticEvidence, categories: Sequence[Representation], outcome: Outcome
) -> list[str]:
    lines = []
    for category in categories:
        if category.outcome is not Outcome.PASS:
            lines.extend(category_details(evidence, category))
    if evidence.estimated and not evidence.label_error:
        lines.append(
            f"labels by {evidence.label_source}: their error on this data is not known; "
            "reference labels for some images would have the counts corrected"
        )
    if outcome is Outcome.INCONCLUSIVE:
        lines.append(
            "what to do: give labels for the images in doubt (a metadata column or a mapping), "
            "or reference labels for more images"
        )
    return lines
