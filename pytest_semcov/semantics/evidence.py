"""Gathering of what the coverage gates need from labels, groups, embeddings and importance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.figures import LabelError, SemanticEvidence
from pytest_semcov.semantics.candidates import nearest_candidates
from pytest_semcov.semantics.importance import Importance
from pytest_semcov.semantics.labels import Labels


def gather_evidence(
    labels: Labels,
    *,
    synthetic: Sequence[bool] | None = None,
    groups: Sequence[object] | None = None,
    importance: Importance | None = None,
    embeddings: ArrayLike | None = None,
    label_error: Mapping[str, LabelError] | None = None,
    candidates: int = 5,
    provenance: Mapping[str, object] | None = None,
) -> SemanticEvidence:
    """Return what is known of one semantic, as the gates take it.

    Parameters
    ----------
    labels
        Labels of all images, synthetic ones included.
    synthetic
        ``(n,)`` True for synthetic images; default: all are real.
    groups
        ``(n,)`` group per image; ``None``, or ``None`` throughout, = not known. Where some are known, an
        image without one is a group of its own.
    importance
        Importance of the semantic, where measured.
    embeddings
        ``(n, d)``, one row per label: finds the nearest candidates where labels are given.
    label_error
        Category → known errors of the labeller; counts are corrected for them.
    candidates
        How many nearest candidates to list per category.
    provenance
        What replays the figures.

    Raises
    ------
    ArgumentError
        If ``synthetic`` or ``groups`` do not have one entry per image.
    """
    images = len(labels)
    made = np.zeros(images, dtype=bool) if synthetic is None else np.asarray(synthetic, dtype=bool)
    if made.shape != (images,) or (groups is not None and len(groups) != images):
        raise ArgumentError(
            f"labels of {labels.semantic!r}: synthetic and groups need one entry per image ({images})"
        )
    counts, synthetic_counts = labels.select(~made).counts(), labels.select(made).counts()
    group_counts: dict[str, int] | None = None
    group_images: dict[str, tuple[int, ...]] = {}
    if groups is not None and any(group is not None for group in groups):
        names = [("image", row) if group is None else ("group", group) for row, group in enumerate(groups)]
        group_counts = {}
        for category in labels.categories:
            mask = labels.mask(category)
            members = Counter(names[row] for row in np.flatnonzero(mask).tolist())
            with_synthetic = {names[row] for row in np.flatnonzero(mask & made).tolist()}
            group_counts[category] = len(members)
            group_images[category] = tuple(members[name] for name in members.keys() - with_synthetic)
    return SemanticEvidence(
        semantic=labels.semantic,
        counts=counts,
        uncertain=labels.select(~made).uncertain,
        synthetic=synthetic_counts,
        groups=group_counts,
        group_images=group_images,
        label_source=labels.source,
        estimated=labels.estimated,
        label_error=dict(label_error or {}),
        importance={} if importance is None else importance.by_category(),
        candidates={
            category: nearest_candidates(labels, category, embeddings=embeddings, limit=candidates)
            for category in labels.categories
        },
        provenance=dict(provenance or {}),
    )


def unlabelled_evidence(error: UnknownSemanticError) -> SemanticEvidence:
    """Return the evidence of a semantic that the encoder does not know: every gate finds INCONCLUSIVE."""
    return SemanticEvidence(
        semantic=error.semantic, problem=str(error), label_source=f"encoder {error.encoder}", estimated=True
    )
