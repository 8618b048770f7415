"""The verdict on many semantics: nothing that matters to the model is under-represented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.consensus import check_rule, join
from pytest_semcov.gates.coverage_words import (
    SHOWN_NAMES,
    category_details,
    names_by_outcome,
    problem_criterion,
    replay,
    some,
)
from pytest_semcov.gates.detectable import Detectable, detectable_lift
from pytest_semcov.gates.figures import CategoryImportance, SemanticEvidence
from pytest_semcov.gates.representation import CoverageBars, Representation, judge
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine
from pytest_semcov.metrics.agreement import descending_ranks

_ABSENT = "absent"
_WORDS = {
    Outcome.FAIL: "important",
    Outcome.INFO: "not important",
    Outcome.INCONCLUSIVE: "importance open",
    Outcome.PASS: "covered",
}


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
    return consensus_scan_verdict(
        {"": evidences}, bars, consensus="all", absent=absent, notes=notes, provenance=provenance
    )


def consensus_scan_verdict(
    evidences: Mapping[str, Sequence[SemanticEvidence]],
    bars: CoverageBars | None = None,
    *,
    consensus: str,
    absent: str = "note",
    notes: Sequence[str] = (),
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge many semantics under several embedders, whose judgements of a category are joined by a rule.

    Parameters
    ----------
    evidences
        Embedder → one evidence per semantic, the same semantics in the same order; they differ in importance
        only. ``bars.max_p`` must be what is asked of each embedder, see
        :func:`~pytest_semcov.gates.consensus.max_p_per_embedder`.
    consensus
        Of :data:`~pytest_semcov.gates.consensus.RULES`. ``"median-rank"`` ranks all categories of known
        importance by lift under each embedder.
    bars, absent, notes, provenance
        As of :func:`scan_verdict`.

    Returns
    -------
    verdict
        As of :func:`scan_verdict`; the notes of its criteria say under which embedder a category is what.

    Raises
    ------
    ArgumentError
        If there is no embedder or no such rule, or ``absent`` is something else.
    """
    bars = bars or CoverageBars()
    check_rule(consensus, ranks=True)
    if absent not in ("note", "fail"):
        raise ArgumentError(f"absent={absent!r}: must be 'note' or 'fail'")
    if not evidences:
        raise ArgumentError("a scan needs the evidence under one embedder at least")
    first, *_ = evidences.values()
    ranks = _ranks(evidences)
    criteria: list[Criterion] = []
    details: list[str] = []
    seen: Detectable = {}
    for number, evidence in enumerate(first):
        if evidence.problem:
            criteria.append(problem_criterion(evidence))
            details.append(f"{evidence.semantic}: {evidence.problem}")
            continue
        opinions = {name: judge(each[number], bars) for name, each in evidences.items()}
        for place, category in enumerate(opinions[next(iter(evidences))]):
            votes = {
                name: _Vote(*_scan_outcome(judged[place], bars, absent), judged[place].importance)
                for name, judged in opinions.items()
            }
            outcome = join(
                [vote.outcome for vote in votes.values()],
                consensus,
                ranks.get((evidence.semantic, category.name)),
            )
            criteria.append(category.as_criterion(evidence.semantic, outcome, _joined_note(category, votes)))
            if len(evidences) == 1 and category.outcome is not Outcome.PASS:
                seen |= detectable_lift(evidence.semantic, category, bars)
            if outcome is Outcome.FAIL:
                details.extend(category_details(evidence, category))
    listed = names_by_outcome(criteria)
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
        details.append(f"under-represented, but not important to the model: {some(unimportant, 10)}")
    if without_images:
        details.append(
            f"absent, so that nobody can say whether they matter: {some(without_images, 10)}; "
            'absent="fail" insists on them'
        )
    replayed: dict[str, object] = {**replay(bars, *first), "absent": absent}
    if len(evidences) > 1:
        replayed["consensus"] = consensus
    return Verdict(
        kind="scan",
        subject="semantics",
        outcome=outcome,
        criteria=tuple(criteria),
        counts={"all": max((evidence.images for evidence in first), default=0)},
        smallest_detectable=seen,
        provenance={**replayed, **(provenance or {})},
        summary=_summary(outcome, listed, without_images, len(first), len(criteria)),
        details=(*details, *notes),
    )


@dataclass(frozen=True, slots=True)
class _Vote:
    """What one embedder says of a category."""

    outcome: Outcome
    note: str
    importance: CategoryImportance | None


def _summary(
    outcome: Outcome,
    listed: Mapping[Outcome, Sequence[str]],
    without_images: Sequence[str],
    semantics: int,
    categories: int,
) -> str:
    if outcome is Outcome.PASS:
        absent = f"; absent, not judged: {some(without_images, SHOWN_NAMES)}" if without_images else ""
        return f"no uncovered semantics: {categories} categories of {semantics} semantics judged{absent}"
    if outcome is Outcome.FAIL:
        verb = "is" if len(listed[outcome]) == 1 else "are"
        return (
            f"{some(listed[outcome], SHOWN_NAMES)} {verb} under-represented and important to the model "
            f"({categories} categories judged)"
        )
    left_open = some(listed[outcome], SHOWN_NAMES) or "nothing was judged"
    return f"uncovered semantics cannot be ruled out: {left_open}"


def _joined_note(category: Representation, votes: Mapping[str, _Vote]) -> str:
    """Return the note of a category; where the embedders' figures differ, what each of them says."""
    first, *_ = votes.values()
    if len({vote.note for vote in votes.values()}) == 1:
        return first.note
    said = "; ".join(
        f"{_WORDS[vote.outcome]} to {name} ({vote.importance or 'not measured'})"
        for name, vote in votes.items()
    )
    return f"{category.note}; {said}"


def _ranks(evidences: Mapping[str, Sequence[SemanticEvidence]]) -> dict[tuple[str, str], list[float]]:
    """Return category → its rank by lift under each embedder, for those that are known under all."""
    lifts = [
        {(each.semantic, name): found.lift for each in listed for name, found in each.importance.items()}
        for listed in evidences.values()
    ]
    known = [key for key in lifts[0] if all(figures.get(key) is not None for figures in lifts)]
    ranks = [descending_ranks([float(figures[key] or 0.0) for key in known]) for figures in lifts]
    return {key: [float(each[row]) for each in ranks] for row, key in enumerate(known)}


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
