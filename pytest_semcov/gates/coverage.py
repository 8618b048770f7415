"""Coverage verdicts: enough images of every category, of one semantic, of many, or of combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.detectable import (
    Detectable,
    detectable_in_categories,
    detectable_lift,
    detectable_shortfall,
)
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

__all__ = ["CoverageBars", "combinations_verdict", "coverage_verdict", "scan_verdict"]

_SHOWN_NAMES = 3
_SHOWN_CANDIDATES = 5
_SHOWN_COMBINATIONS = 40
_SEVERITY = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2, Outcome.INFO: 3}
_ABSENT = "absent"


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
            criteria=(_problem(evidence),),
            provenance={**_provenance(bars, evidence), **(provenance or {})},
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
        provenance={**_provenance(bars, evidence), **(provenance or {})},
        summary=_coverage_summary(evidence, categories, uncertain, outcome),
        details=tuple(_coverage_details(evidence, categories, outcome)),
    )


def scan_verdict(
    evidences: Sequence[SemanticEvidence],
    bars: CoverageBars | None = None,
    *,
    absent: str = "note",
    notes: Sequence[str] = (),
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge many semantics: FAIL if a category is under-represented *and* important to the embedder.

    Parameters
    ----------
    evidences
        One per semantic; the p-values of their importance must be adjusted over all of them together.
    bars
        Bars; default :class:`CoverageBars`.
    absent
        What a category without any image is: ``"note"`` (shown only) or ``"fail"``.
    notes
        Further lines for people, e.g. which semantics were left out.
    provenance
        What replays the verdict.

    Returns
    -------
    verdict
        Of kind ``"scan"``, one criterion ``semantic[category]`` per category: its count against the count
        that is required. Under-represented and not important is a note (INFO): the images neither gather in
        one cluster nor does a linear classifier tell them apart. INCONCLUSIVE is a category of which only
        the second holds, or with too few images for its importance to be known (one to nine), and a semantic
        that could not be labelled or has too many uncertain labels.

    Raises
    ------
    ArgumentError
        If ``absent`` is something else.
    """
    bars = bars or CoverageBars()
    if absent not in ("note", "fail"):
        raise ArgumentError(f"absent={absent!r}: must be 'note' or 'fail'")
    criteria: list[Criterion] = []
    details: list[str] = []
    seen: Detectable = {}
    for evidence in evidences:
        if evidence.problem:
            criteria.append(_problem(evidence))
            details.append(f"{evidence.semantic}: {evidence.problem}")
            continue
        for category in judge(evidence, bars):
            outcome, note = _scan_outcome(category, bars, absent)
            criteria.append(category.as_criterion(evidence.semantic, outcome, note))
            if category.outcome is not Outcome.PASS:
                seen |= detectable_lift(evidence.semantic, category, bars)
            if outcome is Outcome.FAIL:
                details.extend(_category_details(evidence, category))
    listed = _by_outcome(criteria)
    # Notes judge nothing: a scan that found notes only has found nothing that matters.
    outcome = combine(criteria)
    if criteria and len(listed[Outcome.INFO]) == len(criteria):
        outcome = Outcome.PASS
    without_images = [
        criterion.name
        for criterion in criteria
        if criterion.outcome is Outcome.INFO and criterion.note.startswith(_ABSENT)
    ]
    unimportant = [name for name in listed[Outcome.INFO] if name not in without_images]
    if unimportant:
        details.append(f"under-represented, but not important to the model: {_some(unimportant, 10)}")
    if without_images:
        details.append(
            f"absent, so that nobody can say whether they matter: {_some(without_images, 10)}; "
            'absent="fail" insists on them'
        )
    if outcome is Outcome.PASS:
        summary = f"no uncovered semantics: {len(criteria)} categories of {len(evidences)} semantics judged"
        if without_images:
            summary += f"; absent, not judged: {_some(without_images, _SHOWN_NAMES)}"
    elif outcome is Outcome.FAIL:
        verb = "is" if len(listed[outcome]) == 1 else "are"
        summary = (
            f"{_some(listed[outcome], _SHOWN_NAMES)} {verb} under-represented and important to the model "
            f"({len(criteria)} categories judged)"
        )
    else:
        left_open = _some(listed[outcome], _SHOWN_NAMES) or "nothing was judged"
        summary = f"uncovered semantics cannot be ruled out: {left_open}"
    return Verdict(
        kind="scan",
        subject="semantics",
        outcome=outcome,
        criteria=tuple(criteria),
        counts={"all": max((evidence.images for evidence in evidences), default=0)},
        smallest_detectable=seen,
        provenance={**_provenance(bars, *evidences), "absent": absent, **(provenance or {})},
        summary=summary,
        details=(*details, *notes),
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
            criteria.append(_problem(evidence))
            continue
        for category in judge(evidence, bars):
            criteria.append(category.as_criterion(evidence.semantic, category.outcome, category.note))
            seen |= detectable_shortfall(evidence, category)
        uncertain.append(uncertain_criterion(evidence, bars, name=f"uncertain[{evidence.semantic}]"))
    criteria.sort(key=lambda criterion: (_SEVERITY[criterion.outcome], criterion.value or 0.0))
    outcome = combine([*criteria, *uncertain])
    listed = _by_outcome([*criteria, *uncertain])
    shown = _bounded(criteria, limit)
    details = []
    if outcome is Outcome.PASS:
        summary = f"all {len(criteria)} combinations are covered"
    elif outcome is Outcome.FAIL:
        worst = criteria[0]
        summary = (
            f"{len(listed[outcome])} of {len(criteria)} combinations are under-represented: "
            f"{_some(listed[outcome], _SHOWN_NAMES)}; {worst.name}: {whole(worst.value)} images found, "
            f"{whole(worst.bar)} required"
        )
        details.append(
            "what to do: add images of these combinations, or leave out those that cannot occur "
            "(impossible=[{semantic: category, ...}])"
        )
    else:
        left_open = _some(listed[outcome], _SHOWN_NAMES) or "there are none"
        summary = f"combinations cannot be judged: {left_open}"
    return Verdict(
        kind="combinations",
        subject=", ".join(evidence.semantic for evidence in evidences),
        outcome=outcome,
        criteria=(*shown, *uncertain),
        counts={"all": max((evidence.images for evidence in evidences), default=0)},
        smallest_detectable={each.name: seen[each.name] for each in shown if each.name in seen},
        provenance={**_provenance(bars, *evidences), **(provenance or {})},
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


def _scan_outcome(category: Representation, bars: CoverageBars, absent: str) -> tuple[Outcome, str]:
    """Return the outcome of one category in a scan, and why."""
    if category.outcome is Outcome.PASS or category.doubtful:
        return category.outcome, category.note
    if category.total == 0:
        if category.outcome is Outcome.FAIL:
            return (Outcome.FAIL if absent == "fail" else Outcome.INFO), f"{_ABSENT}; {category.note}"
        return Outcome.INCONCLUSIVE, category.note
    figures = category.importance
    important = None if figures is None else figures.is_important(min_lift=bars.min_lift, max_p=bars.max_p)
    shown = "importance not measured" if figures is None else str(figures)
    if important is None:
        return Outcome.INCONCLUSIVE, f"{category.note}; {shown}"
    if not important:
        return _unimportant(category, figures, shown)
    return category.outcome, f"{category.note}; important: {shown}"


def _unimportant(
    category: Representation, figures: CategoryImportance | None, shown: str
) -> tuple[Outcome, str]:
    """Return a note on images that do not gather in a cluster, if nothing else tells them apart either.

    Clusters follow what varies most. Where much varies beside this semantic, images that a model sees
    perfectly well as different do not gather: that is no evidence that they do not matter.
    """
    told_apart = None if figures is None else figures.told_apart
    if told_apart is False:
        return Outcome.INFO, f"{category.note}; not important: {shown}"
    why = "a linear classifier tells its images apart" if told_apart else "separability not measured"
    return (
        Outcome.INCONCLUSIVE,
        f"{category.note}; may be important, its images do not gather in one cluster, but {why}: {shown}",
    )


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
    others = _some([category.name for category in chosen[1:]], _SHOWN_NAMES)
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
            lines.extend(_category_details(evidence, category))
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


def _category_details(evidence: SemanticEvidence, category: Representation) -> list[str]:
    """Return what to know and to do about one category that is not covered."""
    lines = []
    if category.importance is not None:
        lines.append(f"{category.name}: {category.importance}")
    candidates = [str(each) for each in evidence.candidates.get(category.name, ())][:_SHOWN_CANDIDATES]
    if candidates:
        lines.append(f"nearest candidates not labelled {category.name}: {', '.join(candidates)}")
    if category.outcome is Outcome.FAIL:
        missing = category.missing
        more = f"at least {missing} image{'' if missing == 1 else 's'}" if missing else "further groups"
        check = ", check the candidates above" if candidates else ""
        lines.append(
            f"what to do: add {more} of {category.name}{check}, or fill the gap with synthetic images: "
            f'@pytest.mark.semcov_augment(semantic="{evidence.semantic}", to="{category.name}", '
            "translator=...)"
        )
    return lines


def _problem(evidence: SemanticEvidence) -> Criterion:
    """Return the criterion of a semantic that could not be labelled."""
    name = f"{evidence.semantic}[labels]"
    return Criterion(name, None, None, None, Outcome.INCONCLUSIVE, evidence.problem)


def _by_outcome(criteria: Sequence[Criterion]) -> dict[Outcome, list[str]]:
    return {
        outcome: [criterion.name for criterion in criteria if criterion.outcome is outcome]
        for outcome in Outcome
    }


def _provenance(bars: CoverageBars, *evidences: SemanticEvidence) -> dict[str, object]:
    provenance: dict[str, object] = {}
    for evidence in evidences:
        provenance.update(evidence.provenance)
    provenance["bars"] = {name: getattr(bars, name) for name in CoverageBars.__slots__}
    provenance["labels"] = {evidence.semantic: evidence.label_source for evidence in evidences}
    return provenance


def _some(names: Sequence[str], limit: int) -> str:
    text = ", ".join(names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"
