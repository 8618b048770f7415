"""What the sufficiency gate says: one complete line, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_semcov.gates.sufficiency_sets import MatchedSettings
from pytest_semcov.gates.verdict import Criterion, Outcome


def summary(
    settings: MatchedSettings, outcome: Outcome, criteria: tuple[Criterion, ...], counts: Mapping[str, int]
) -> str:
    """Return the first line of the verdict: outcome, what decided it, sizes."""
    sizes = (
        f"{counts['synthetic']} synthetic, {counts['real uncovered']} real uncovered, "
        f"{counts['real covered']} real covered images"
    )
    if outcome is Outcome.PASS:
        said = "; ".join(
            f"{criterion.name} {criterion.value:.2f}"
            for criterion in criteria
            if criterion.name in ("drift", "radius", "completeness") and criterion.value is not None
        )
        return f"{settings.subject}: PASS, sufficient: {said} (1 = as good as real images; {sizes})"
    wanted = Outcome.FAIL if outcome is Outcome.FAIL else Outcome.INCONCLUSIVE
    reasons = [criterion for criterion in criteria if criterion.outcome is wanted]
    if outcome is Outcome.INCONCLUSIVE and reasons and reasons[0].name == "embedder":
        return f"{settings.subject}: INCONCLUSIVE: {reasons[0].note} ({sizes})"
    said = ", ".join(_reason(criterion) for criterion in reasons)
    word = "not sufficient" if outcome is Outcome.FAIL else "cannot be decided"
    return f"{settings.subject}: {outcome.value}, {word}: {said} ({sizes})"


def _reason(criterion: Criterion) -> str:
    if criterion.value is None:
        return f"{criterion.name} not measured"
    interval = ""
    if criterion.interval is not None:
        interval = f" [{criterion.interval[0]:.2f}, {criterion.interval[1]:.2f}]"
    bar = (
        ""
        if criterion.bar is None
        else f" (must be {'≥' if criterion.at_least else '≤'} {criterion.bar:.2g})"
    )
    return f"{criterion.name} {criterion.value:.2f}{interval}{bar}"


_ADVICE = {
    "embedder": "use an embedder that sees the semantic: the model under test, or a larger pretrained one",
    "failed": "too many generations are blank or flagged: look at them before anything else",
    "duplicates": "the generator repeats itself: vary seeds or sources",
    "identity": "the translator returns its input: check strength, prompt and weights",
    "copies": "the synthetic images reproduce real ones: fit the translator on other images than judge it",
    "collapse": "the generator produces few distinct images: vary seeds or sources",
    "off_manifold": "the synthetic images look like no real image to this model: look at them",
    "arrival": "the labeller does not take the synthetic images for the target category",
    "drift": "to this model the synthetic images are not close enough to real uncovered ones",
    "radius": "too few synthetic images lie near real uncovered ones",
    "completeness": "the synthetic images bring too little that is new",
}


def advice(outcome: Outcome, criteria: tuple[Criterion, ...]) -> tuple[str, ...]:
    """Return what to do about each criterion that failed."""
    lines = [
        f"{criterion.name}: {_ADVICE[criterion.name]}"
        for criterion in criteria
        if criterion.outcome is Outcome.FAIL
        or (criterion.outcome is Outcome.INCONCLUSIVE and criterion.name == "embedder")
    ]
    if outcome is Outcome.INCONCLUSIVE and not lines:
        lines.append("more images (real uncovered ones most of all) narrow the intervals")
    return tuple(lines)
