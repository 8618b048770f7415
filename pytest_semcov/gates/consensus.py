"""Judgements under several embedders, joined to one by a rule.

An embedder has one vote. What is never done is to average figures of several
embedding spaces: they are not on one scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict

RULES = ("all", "majority", "median-rank")
"""How votes are joined.

``"all"``: one FAIL is a FAIL, else one INCONCLUSIVE leaves it open. ``"majority"``: more than half of all
votes, so that an undecided vote counts against a decision. ``"median-rank"``: the embedder that gives a
category the median of its ranks decides; where several do, they must agree.
"""


def check_rule(consensus: str, *, ranks: bool) -> str:
    """Return the rule.

    Parameters
    ----------
    consensus
        The rule asked for.
    ranks
        Whether there are ranks, which ``"median-rank"`` needs.

    Raises
    ------
    ArgumentError
        If there is no such rule, or it needs ranks and there are none.
    """
    if consensus not in RULES:
        raise ArgumentError(f"consensus={consensus!r}: must be one of {', '.join(map(repr, RULES))}")
    if consensus == "median-rank" and not ranks:
        raise ArgumentError(
            "consensus='median-rank' joins ranks of categories, and this verdict has none: "
            "use 'all' or 'majority'"
        )
    return consensus


def join(outcomes: Sequence[Outcome], consensus: str, ranks: Sequence[float] | None = None) -> Outcome:
    """Return one outcome for the outcomes under several embedders.

    Parameters
    ----------
    outcomes
        One per embedder; INFO (under-represented, but not important) is a decision that does not object.
    consensus
        Of :data:`RULES`.
    ranks
        For ``"median-rank"``: the rank that each embedder gives; ``None`` where there are none, then only
        what all say is decided.

    Raises
    ------
    ArgumentError
        If there are no outcomes, or no such rule.
    """
    check_rule(consensus, ranks=True)
    if not outcomes:
        raise ArgumentError("no outcome to join")
    if consensus == "median-rank":
        deciding = [outcomes[index] for index in _at_median(ranks)] if ranks else list(outcomes)
        return deciding[0] if len(set(deciding)) == 1 else Outcome.INCONCLUSIVE
    content = [outcome for outcome in outcomes if outcome in (Outcome.PASS, Outcome.INFO)]
    agreed = Outcome.INFO if Outcome.INFO in content else Outcome.PASS
    failed = outcomes.count(Outcome.FAIL)
    if consensus == "all":
        if failed:
            return Outcome.FAIL
        return agreed if len(content) == len(outcomes) else Outcome.INCONCLUSIVE
    needed = votes_needed(len(outcomes))
    if failed >= needed:
        return Outcome.FAIL
    return agreed if len(content) >= needed else Outcome.INCONCLUSIVE


def votes_needed(embedders: int) -> int:
    """Return how many votes are more than half."""
    return embedders // 2 + 1


def max_p_per_embedder(max_p: float, embedders: int, consensus: str) -> float:
    """Return the p-value to ask of each embedder so that the joined one keeps ``max_p``.

    Whatever the dependence between the embedders: one of E votes is enough under ``"all"``, and may be the
    one that decides under ``"median-rank"`` (Bonferroni); a majority needs v of them, and the expected number
    of false votes bounds the chance of v (Markov's inequality).
    """
    votes = votes_needed(embedders) if consensus == "majority" else 1
    return max_p * votes / embedders


def joined_verdict(verdicts: Mapping[str, Verdict], consensus: str) -> Verdict:
    """Join one verdict per embedder to one verdict.

    Parameters
    ----------
    verdicts
        Embedder → its verdict, all on one subject; at least one.
    consensus
        ``"all"`` or ``"majority"``.

    Returns
    -------
    verdict
        Of the verdicts' kind. Its one criterion that judges is ``consensus``: how many embedders PASS against
        how many must. Each embedder's outcome is a figure ``embedder[…]``, its own criteria stand in the
        details, and its whole verdict in ``provenance["verdicts"]``. A single verdict is returned as it is.

    Raises
    ------
    ArgumentError
        If there is no verdict, no such rule, or it needs ranks.
    """
    check_rule(consensus, ranks=False)
    if not verdicts:
        raise ArgumentError("no verdict to join")
    first = next(iter(verdicts.values()))
    if len(verdicts) == 1:
        return first
    outcome = join([each.outcome for each in verdicts.values()], consensus)
    passed = sum(each.passed for each in verdicts.values())
    needed = len(verdicts) if consensus == "all" else votes_needed(len(verdicts))
    said = said_by({name: each.outcome for name, each in verdicts.items()})
    criteria = [
        Criterion(
            "consensus",
            float(passed),
            float(needed),
            None,
            outcome,
            f"{consensus} of {len(verdicts)}: {said}",
        ),
        *(
            Criterion(f"embedder[{name}]", None, None, None, Outcome.INFO, f"{each.outcome}: {each.summary}")
            for name, each in verdicts.items()
        ),
    ]
    details = [
        f"{name}: {criterion}"
        for name, each in verdicts.items()
        for criterion in each.criteria
        if criterion.outcome is not Outcome.INFO
    ]
    return Verdict(
        kind=first.kind,
        subject=first.subject,
        outcome=outcome,
        criteria=tuple(criteria),
        counts=first.counts,
        provenance={
            **first.provenance,
            "consensus": consensus,
            "verdicts": {name: each.to_dict() for name, each in verdicts.items()},
        },
        summary=f"{first.subject}: {outcome} by {consensus} of {len(verdicts)} embedders: {said}",
        details=tuple(details),
    )


def said_by(said: Mapping[str, str]) -> str:
    """Return who said what: ``"PASS under a, b; FAIL under c"``, in the order of first saying."""
    groups: dict[str, list[str]] = {}
    for name, word in said.items():
        groups.setdefault(str(word), []).append(name)
    return "; ".join(f"{word} under {', '.join(names)}" for word, names in groups.items())


def _at_median(ranks: Sequence[float]) -> list[int]:
    """Return which hold the median rank: of an even number, those that hold either of the middle two."""
    ordered = sorted(ranks)
    middle = {ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]}
    return [index for index, rank in enumerate(ranks) if rank in middle]
