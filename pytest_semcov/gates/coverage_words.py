"""What the coverage gates say alike."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_semcov.gates.figures import SemanticEvidence
from pytest_semcov.gates.representation import CoverageBars, Representation
from pytest_semcov.gates.verdict import Criterion, Outcome

SHOWN_NAMES = 3
_SHOWN_CANDIDATES = 5


def category_details(evidence: SemanticEvidence, category: Representation) -> list[str]:
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


def problem_criterion(evidence: SemanticEvidence) -> Criterion:
    """Return the criterion of a semantic that could not be labelled."""
    name = f"{evidence.semantic}[labels]"
    return Criterion(name, None, None, None, Outcome.INCONCLUSIVE, evidence.problem)


def names_by_outcome(criteria: Sequence[Criterion]) -> dict[Outcome, list[str]]:
    """Return outcome → names of the criteria that have it; every outcome is a key."""
    return {
        outcome: [criterion.name for criterion in criteria if criterion.outcome is outcome]
        for outcome in Outcome
    }


def replay(bars: CoverageBars, *evidences: SemanticEvidence) -> dict[str, object]:
    """Return what replays a verdict: the evidences' own, the bars, and where the labels come from."""
    found: dict[str, object] = {}
    for evidence in evidences:
        found.update(evidence.provenance)
    found["bars"] = {name: getattr(bars, name) for name in CoverageBars.__slots__}
    found["labels"] = {evidence.semantic: evidence.label_source for evidence in evidences}
    return found


def some(names: Sequence[str], limit: int) -> str:
    """Return at most ``limit`` names as a text that says how many more there are."""
    text = ", ".join(names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"
