"""The verdict on labels: whether a semantic's labels can be relied on."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import LabelReliability
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict, combine, compare
from pytest_semcov.metrics.intervals import clopper_pearson
from pytest_semcov.metrics.power import detectable_share

_SHOWN = 5


def label_reliability_verdict(
    reliability: LabelReliability,
    *,
    min_precision: float = 0.8,
    min_recall: float = 0.8,
    min_agreement: float | None = None,
    max_uncertain: float = 0.2,
    provenance: Mapping[str, object] | None = None,
) -> Verdict:
    """Judge the labels of one semantic against reference labels and against other wordings.

    Parameters
    ----------
    reliability
        What was measured.
    min_precision, min_recall
        Bars for every category; exact (Clopper-Pearson) 95 % intervals must lie above. With few reference
        labels they contain the bar: INCONCLUSIVE. Since one figure below its bar is a FAIL, the upper bounds
        hold for all figures together (Bonferroni). An uncertain label counts as not found.
    min_agreement
        Bar for the share of images that get the same category under all wordings. Default 0.8 where it was
        measured; given explicitly, a missing measurement is INCONCLUSIVE.
    max_uncertain
        Largest share of images without a certain label.
    provenance
        What replays the verdict.

    Returns
    -------
    verdict
        Of kind ``"labels"``, with the criteria ``precision[…]`` and ``recall[…]`` per category,
        ``uncertain``, ``agreement`` and the figure ``kappa``.

    Raises
    ------
    ArgumentError
        If a bar lies outside [0, 1].
    """
    given = {
        "min_precision": min_precision,
        "min_recall": min_recall,
        "min_agreement": min_agreement,
        "max_uncertain": max_uncertain,
    }
    for name, bar in given.items():
        if bar is not None and not 0 <= bar <= 1:
            raise ArgumentError(f"{name}={bar!r}: must lie in [0, 1]")
    semantic = reliability.semantic
    replay = {"bars": given, "labels": reliability.source, **(provenance or {})}
    if reliability.problem:
        return Verdict(
            kind="labels",
            subject=semantic,
            outcome=Outcome.INCONCLUSIVE,
            criteria=(
                Criterion(f"{semantic}[labels]", None, None, None, Outcome.INCONCLUSIVE, reliability.problem),
            ),
            provenance=replay,
            summary=f"{semantic}: labels cannot be judged: {reliability.problem}",
        )
    criteria = []
    seen: dict[str, float | None] = {}
    figures = 2 * len(reliability.matches)
    for match in reliability.matches:
        name, correct = match.category, match.correct
        for figure, images, bar, what in (
            (f"precision[{name}]", match.labelled, min_precision, f"labelled {name}"),
            (f"recall[{name}]", match.actual, min_recall, f"known to be {name}"),
        ):
            criteria.append(_share(figure, correct, images, bar, what, comparisons=figures))
            if bar > 0:
                seen[figure] = detectable_share(images, bar, confidence=1 - 0.05 / figures)
    criteria.append(
        compare(
            "uncertain",
            reliability.uncertain / reliability.images if reliability.images else 0.0,
            bar=max_uncertain,
            at_least=False,
            note=f"{reliability.uncertain} of {reliability.images} images have no certain label",
        )
    )
    criteria.extend(_agreement(reliability, min_agreement))
    outcome = combine(criteria)
    details = []
    if reliability.mistakes:
        listed = (
            f"{name} ({label}, known as {truth})" for name, label, truth in reliability.mistakes[:_SHOWN]
        )
        details.append(f"labelled wrongly: {', '.join(listed)}")
    if reliability.agreement is not None and reliability.agreement.split:
        details.append(f"wordings disagree on: {', '.join(reliability.agreement.split[:_SHOWN])}")
    if outcome is not Outcome.PASS:
        details.append(_remedy(outcome))
    return Verdict(
        kind="labels",
        subject=semantic,
        outcome=outcome,
        criteria=tuple(criteria),
        counts={
            "images": reliability.images,
            "reference": reliability.reference,
            **{f"reference {match.category}": match.actual for match in reliability.matches},
        },
        smallest_detectable=seen,
        provenance=replay,
        summary=_summary(reliability, criteria, outcome),
        details=tuple(details),
    )


def _share(name: str, hits: int, images: int, bar: float, what: str, *, comparisons: int) -> Criterion:
    """Hold a share against its bar: below it surely, if so even with as many comparisons as there are."""
    if not images:
        return Criterion(
            name, None, bar, None, Outcome.INCONCLUSIVE, f"no image with a reference is {what}: not measured"
        )
    low, _ = clopper_pearson(hits, images)
    _, high = clopper_pearson(hits, images, confidence=1 - 0.05 / comparisons)
    return compare(
        name,
        hits / images,
        bar=bar,
        interval=(low, high),
        note=f"{hits} of {images} {what}",
    )


def _agreement(reliability: LabelReliability, bar: float | None) -> list[Criterion]:
    agreement = reliability.agreement
    if agreement is None:
        outcome = Outcome.INFO if bar is None else Outcome.INCONCLUSIVE
        return [Criterion("agreement", None, bar, None, outcome, "not measured: there is one wording only")]
    return [
        compare(
            "agreement",
            agreement.unanimous / agreement.images if agreement.images else 0.0,
            bar=0.8 if bar is None else bar,
            note=f"{agreement.unanimous} of {agreement.images} images get the same category under all "
            f"{agreement.wordings} wordings",
        ),
        Criterion("kappa", agreement.kappa, None, None, Outcome.INFO, "Fleiss, agreement beyond chance"),
    ]


def _summary(reliability: LabelReliability, criteria: list[Criterion], outcome: Outcome) -> str:
    semantic, source = reliability.semantic, reliability.source
    if outcome is Outcome.PASS:
        return (
            f"{semantic}: labels by {source} are reliable (against {reliability.reference} reference labels)"
        )
    chosen = [criterion for criterion in criteria if criterion.outcome is outcome]
    first = chosen[0]
    value = "not measured" if first.value is None else f"{first.value:.2f}"
    if first.interval is not None:
        value += f" [{first.interval[0]:.2f}, {first.interval[1]:.2f}]"
    sign = "≥" if first.at_least else "≤"
    others = f" (and {', '.join(each.name for each in chosen[1:4])})" if chosen[1:] else ""
    verb = "are not reliable" if outcome is Outcome.FAIL else "cannot be judged"
    required = "" if first.bar is None else f", {sign} {first.bar:g} required"
    return f"{semantic}: labels by {source} {verb}: {first.name} {value}{required}{others}"


def _remedy(outcome: Outcome) -> str:
    if outcome is Outcome.INCONCLUSIVE:
        return "what to do: give reference labels for more images of the categories named above"
    return (
        "what to do: use another encoder or other phrases (semcov_encoder, a descriptor file), or take the "
        "labels from metadata"
    )
