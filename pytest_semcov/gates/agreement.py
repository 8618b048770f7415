"""The verdict on embedders: whether they rank what matters alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine, compare
from pytest_semcov.metrics.agreement import RankAgreement, pair_taus, rank_agreement

FEWEST_SEMANTICS = 4
"""With fewer semantics nothing can be said: even rankings that are equal are so by chance too often."""

_MAX_P = 0.05


def agreement_verdict(
    lifts: Mapping[str, Mapping[tuple[str, str], float | None]],
    *,
    min_agreement: float = 0.5,
    permutations: int = 1_999,
    seed: int = 0,
    counts: Mapping[str, int] | None = None,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge whether embedders rank categories by importance alike.

    Parameters
    ----------
    lifts
        Embedder → (semantic, category) → lift of cluster recall, ``None`` where unknown; two or more
        embedders and the same categories for all.
    min_agreement
        Bar for the mean over pairs of embedders of Kendall's tau-b, in [-1, 1]. Of two categories, equal
        rankings of a fraction (1 + tau) / 2 of the pairs: 0.5 is three of four.
    permutations, seed
        See :func:`~pytest_semcov.metrics.agreement.rank_agreement`.
    counts, provenance
        Shown with the verdict.

    Returns
    -------
    verdict
        Of kind ``"agreement"``. ``agreement``: the interval of tau lies above the bar (FAIL: below it).
        ``chance``: shuffled rankings agree as much with p ≤ 0.05 only, else INCONCLUSIVE. Figures:
        ``kendall_w`` and ``tau[a, b]`` of each pair. INCONCLUSIVE with fewer than four semantics of known
        importance.

    Raises
    ------
    ArgumentError
        If there are fewer than two embedders, they were given different categories, or the bar lies outside
        [-1, 1].
    """
    if not -1 <= min_agreement <= 1:
        raise ArgumentError(f"min_agreement={min_agreement!r}: must lie in [-1, 1]")
    if len(lifts) < 2:
        raise ArgumentError(f"agreement of {len(lifts)} embedder: need two at least")
    first, *others = lifts.values()
    if any(set(each) != set(first) for each in others):
        raise ArgumentError("the embedders were not given the same categories")
    known = [key for key in first if all(each[key] is not None for each in lifts.values())]
    semantics = [semantic for semantic, _ in known]
    unknown = [": ".join(key) for key in first if key not in known]
    subject = f"embedders {', '.join(lifts)}"
    shown = {"categories": len(known), "semantics": len(set(semantics)), **(counts or {})}
    details = [f"unknown importance, left out: {', '.join(unknown)}"] if unknown else []
    replay = {"min_agreement": min_agreement, "permutations": permutations, **(provenance or {})}
    if len(set(semantics)) < FEWEST_SEMANTICS:
        return Verdict(
            kind="agreement",
            subject=subject,
            outcome=Outcome.INCONCLUSIVE,
            criteria=(
                Criterion(
                    "agreement",
                    None,
                    min_agreement,
                    None,
                    Outcome.INCONCLUSIVE,
                    f"importance is known for {len(set(semantics))} semantics, need {FEWEST_SEMANTICS}",
                ),
            ),
            counts=shown,
            provenance=replay,
            summary=f"{subject}: too few semantics of known importance to tell whether they agree",
            details=(
                *details,
                "what to do: rank more semantics, or bring more images (ten of a category at least)",
            ),
        )
    figures = [[float(each[key] or 0.0) for key in known] for each in lifts.values()]
    found = rank_agreement(figures, semantics, permutations=permutations, seed=seed)
    criteria = [_agreement(found, min_agreement), _chance(found)]
    outcome = combine(criteria)
    criteria.append(
        Criterion("kendall_w", _known(found.w), None, None, Outcome.INFO, "concordance of all, 0 to 1")
    )
    criteria += _pairs(list(lifts), figures)
    return Verdict(
        kind="agreement",
        subject=subject,
        outcome=outcome,
        criteria=tuple(criteria),
        counts=shown,
        provenance=replay,
        summary=_summary(subject, found, min_agreement, outcome),
        details=tuple(details),
    )


def _agreement(found: RankAgreement, bar: float) -> Criterion:
    what = f"mean Kendall tau-b over pairs, {found.items} categories of {found.blocks} semantics"
    if found.interval is None:
        return Criterion(
            "agreement", None, bar, None, Outcome.INCONCLUSIVE, "a ranking is all ties: it says nothing"
        )
    return compare("agreement", found.tau, bar=bar, interval=found.interval, note=what)


def _chance(found: RankAgreement) -> Criterion:
    by_chance = found.p_value > _MAX_P
    note = "share of shuffled rankings that agree as much"
    outcome = Outcome.INCONCLUSIVE if by_chance else Outcome.PASS
    return Criterion("chance", found.p_value, _MAX_P, None, outcome, note, at_least=False)


def _pairs(names: Sequence[str], figures: list[list[float]]) -> list[Criterion]:
    return [
        Criterion(f"tau[{a}, {b}]", _known(tau), None, None, Outcome.INFO, "Kendall tau-b")
        for (a, b), tau in zip(combinations(names, 2), pair_taus(figures), strict=True)
    ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _summary(subject: str, found: RankAgreement, bar: float, outcome: Outcome) -> str:
    if found.interval is None:
        return f"{subject}: a ranking is all ties, so that agreement cannot be told"
    low, high = found.interval
    figure = f"tau {found.tau:.2f} [{low:.2f}, {high:.2f}], {bar:g} required"
    if outcome is Outcome.PASS:
        return f"{subject} rank importance alike: {figure}"
    if outcome is Outcome.FAIL:
        return f"{subject} do not rank importance alike: {figure}"
    return f"{subject}: whether they rank importance alike is open: {figure}, p {found.p_value:.2g}"
