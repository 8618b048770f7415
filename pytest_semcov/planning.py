"""How many images of a category are needed: for coverage, for importance, for judging synthetic ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.gates.figures import SMALLEST_KNOWN, SemanticEvidence
from pytest_semcov.gates.margins import ideal_margins, real_images_needed, usual_real_images
from pytest_semcov.gates.needs import Need, Plan
from pytest_semcov.gates.representation import Representation, judge, percent
from pytest_semcov.judging_coverage import bars, provenance
from pytest_semcov.measuring import measure
from pytest_semcov.metrics.power import PLANNED, images_for_count, images_for_lift, images_for_share

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.embedding.protocols import Embeddings
    from pytest_semcov.measuring import Measured
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.workbench import Workbench


def plan_images(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | Descriptor,
    category: str,
    *,
    labels: object = None,
    embeddings: Embeddings | None = None,
    share: float = 1.0,
    lift: float = 2.0,
) -> Plan:
    """Return how many images of a category are needed.

    Parameters
    ----------
    bench
        Settings (bars) and models.
    dataset
        The images there are. Those of other categories are taken as they are.
    semantic, category
        What images are asked for.
    labels
        Known labels; see :meth:`~pytest_semcov.workbench.Workbench.label`.
    embeddings
        Embeddings of the images; default: by the workbench's embedder.
    share
        True share of the gap that the synthetic images to be judged close; 1 = as good as real ones.
    lift
        True lift of cluster recall that should be called important.

    Raises
    ------
    ArgumentError
        If there is no such category, or a number lies outside its range.
    UnknownSemanticError
        If the encoder cannot label this semantic.
    """
    if not (0 < share <= 2 and 1 <= lift < math.inf):
        raise ArgumentError(f"share={share:g}, lift={lift:g}: need 0 < share ≤ 2 and lift ≥ 1")
    measured = measure(bench, dataset, semantic, labels=labels, embeddings=embeddings)
    found = next(iter(measured.labels.values()))
    if isinstance(found, Exception):
        raise found
    found.code(category)  # refuses an unknown one
    evidence = measured.evidence(semantic)
    judged = next(each for each in judge(evidence, bars(bench)) if each.name == category)
    needs = [
        *_for_coverage(bench, evidence, judged),
        *_for_importance(bench, measured, judged, lift),
        _for_sufficiency(bench, measured, category, share),
    ]
    details = []
    if judged.doubtful:
        details.append(
            f"{evidence.uncertain} of {evidence.real} images have no certain label: while they are more than "
            f"{bench.settings.max_uncertain:.0%}, coverage stays open whatever their number"
        )
    elif evidence.estimated and category not in evidence.label_error:
        details.append(
            f"labels by {evidence.label_source}: their error on this data is not known and not allowed for"
        )
    return Plan(
        semantic=evidence.semantic,
        category=category,
        now=judged.count.value or 0.0,
        interval=judged.count.interval,
        images=judged.images,
        labels=evidence.label_source,
        needs=tuple(needs),
        details=tuple(details),
        provenance=provenance(bench, measured.embedded),
    )


def _for_coverage(bench: Workbench, evidence: SemanticEvidence, judged: Representation) -> list[Need]:
    """Return what the bars of coverage ask for."""
    settings = bench.settings
    now = judged.count.value or 0.0
    others = max(judged.images - round(now), 0)
    share = judged.share.bar or 0.0
    needs = [
        Need("count", math.ceil(judged.count.bar or 0.0), now, f"min_count {settings.min_count}"),
        Need(
            "share",
            images_for_share(share, others),
            now,
            f"{percent(share)} of all images, beside {others} others",
        ),
    ]
    error = evidence.label_error.get(judged.name)
    uncertain = evidence.uncertain / evidence.real if evidence.real else 0.0
    if error is not None:

        def fewest(images: int) -> int:
            return max(math.ceil(judged.count.bar or 0.0), math.ceil(share * images - 1e-9))

        certain = images_for_count(fewest, others, recall=error.recall, specificity=error.specificity)
        note = f"with probability {PLANNED:g}; {error}"
        if certain is None:
            note = f"no number: its errors are too many, or known from too few images; {error}"
        elif evidence.uncertain:
            note += f"; {percent(uncertain)} without a certain label"
        needs.append(
            Need(
                "both, as labelled",
                None if certain is None or uncertain == 1 else math.ceil(certain / (1 - uncertain)),
                now,
                note,
                estimated=True,
            )
        )
    if judged.groups is not None:
        needs.append(
            Need(
                "groups",
                settings.min_groups,
                judged.groups.value or 0.0,
                f"min_groups {settings.min_groups} (videos, scenes)",
                "groups",
            )
        )
    return needs


def _for_importance(bench: Workbench, measured: Measured, judged: Representation, lift: float) -> list[Need]:
    """Return what it takes to know whether the category matters to the embedder."""
    settings = bench.settings
    real = float(judged.real)
    needs = [
        Need("importance known", SMALLEST_KNOWN, real, "real images, for cluster recall and its p-value")
    ]
    embedded = measured.embedded[0]
    ids = measured.real_ids(embedded)
    if len(ids) < settings.clusters:
        return needs
    tests = len(measured.known_labels()[0].categories)
    found = [
        images_for_lift(
            lift,
            (np.bincount(run) / len(run)).tolist(),
            max_p=settings.max_p,
            min_lift=settings.min_lift,
            tests=tests,
            least=SMALLEST_KNOWN,
        )
        for run in measured.clusters(embedded)
    ]
    known = [each for each in found if each is not None]
    if lift <= settings.min_lift:
        note = f"no number: a lift must exceed the bar min_lift {settings.min_lift:g}"
    elif len(known) < len(found):
        note = "no number up to 2,000: one cluster holds most images already"
    else:
        note = (
            f"real images; with probability {PLANNED:g}, p ≤ {settings.max_p:g} over {tests} categories, "
            f"clusters as now"
        )
    needs.append(
        Need(
            f"lift of {lift:g} called important",
            max(known) if known and len(known) == len(found) else None,
            real,
            note,
            estimated=True,
        )
    )
    return needs


def _for_sufficiency(bench: Workbench, measured: Measured, category: str, share: float) -> Need:
    """Return how many real images let a synthetic set that closes such a share of the gap pass."""
    settings = bench.settings
    by_id = measured.known_labels()[0].by_id()
    embedded = measured.embedded[0]
    real = [sample_id for sample_id in measured.real_ids(embedded) if by_id.get(sample_id) is not None]
    uncovered = [sample_id for sample_id in real if by_id[sample_id] == category]
    covered = [sample_id for sample_id in real if by_id[sample_id] != category]
    bars_of_gaps = {
        "min_gap_closed": settings.min_gap_closed,
        "min_completeness_gain": settings.min_completeness_gain,
    }
    purpose = (
        "synthetic set judged sufficient" if share == 1 else f"synthetic set that closes {share:g} judged"
    )
    have = float(len(uncovered))
    if share <= max(bars_of_gaps.values()):
        note = f"no number: a share of {share:g} is not above the bar {max(bars_of_gaps.values()):g}"
        return Need(purpose, None, have, note)
    if bench.progress is not None:
        bench.progress("measuring margins", 0, len(real))
    needed: int | None
    try:
        margins = ideal_margins(
            embedded.rows(uncovered),
            embedded.rows(covered),
            uncovered_groups=_groups(measured, uncovered),
            covered_groups=_groups(measured, covered),
            repeats=settings.repeats,
            seed=settings.seed,
            **bars_of_gaps,
        )
    except TooFewError as error:
        needed = usual_real_images(share, **bars_of_gaps)
        note = f"a general figure, from photographs; not measured here: {error}"
    else:
        needed, note = real_images_needed(margins, share, **bars_of_gaps)
    finally:
        if bench.progress is not None:
            bench.progress("measuring margins", len(real), len(real))
    return Need(purpose, needed, have, note, estimated=True)


def _groups(measured: Measured, ids: Sequence[str]) -> list[str] | None:
    """Return the groups of some images, one without being its own; ``None`` where none is known."""
    groups = [measured.samples[sample_id].group for sample_id in ids]
    if all(group is None for group in groups):
        return None
    return [
        f"image {sample_id}" if group is None else f"group {group}"
        for sample_id, group in zip(ids, groups, strict=True)
    ]
