"""Combinations of semantics: night × rain, and every other t-way combination."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import SemanticEvidence
from pytest_semcov.semantics.labels import UNCERTAIN, Labels

_JOIN = " × "


def combination_evidence(
    labels: Sequence[Labels],
    *,
    strength: int = 2,
    impossible: Sequence[Mapping[str, str]] = (),
    synthetic: Sequence[bool] | None = None,
    groups: Sequence[object] | None = None,
) -> list[SemanticEvidence]:
    """Count the combinations of every ``strength`` semantics.

    Parameters
    ----------
    labels
        Labels of the same images under two or more semantics, rows in the same order.
    strength
        How many semantics are combined at a time (t of t-way).
    impossible
        Semantic → category, two or more entries each: combinations that contain one of these cannot
        occur. They are not judged; an image labelled so counts as uncertain, since a label must be wrong.
    synthetic
        ``(n,)`` True for synthetic images; default: all are real.
    groups
        ``(n,)`` group per image; ``None`` = not known.

    Returns
    -------
    evidence
        One per set of semantics, named ``"day_night × clear_rain"``, its categories ``"night × rain"``. An
        image with an uncertain label counts for no combination; ``possible`` says for how many each
        combination is compatible with the labels that are certain.

    Raises
    ------
    ArgumentError
        If there are fewer than two semantics, a semantic occurs twice, the images differ, ``strength`` is
        not between 2 and the number of semantics, or ``impossible`` names an unknown semantic or category.
    """
    _check(labels, strength, impossible)
    images = len(labels[0])
    made = np.zeros(images, dtype=bool) if synthetic is None else np.asarray(synthetic, dtype=bool)
    if made.shape != (images,) or (groups is not None and len(groups) != images):
        raise ArgumentError(f"synthetic and groups need one entry per image ({images})")
    return [
        _evidence(chosen, impossible, made, groups) for chosen in itertools.combinations(labels, strength)
    ]


def _evidence(
    labels: Sequence[Labels],
    impossible: Sequence[Mapping[str, str]],
    synthetic: np.ndarray[tuple[int], np.dtype[np.bool_]],
    groups: Sequence[object] | None,
) -> SemanticEvidence:
    real = ~synthetic
    certain = np.all([each.codes != UNCERTAIN for each in labels], axis=0)
    counts: dict[str, int] = {}
    possible: dict[str, int] = {}
    made: dict[str, int] = {}
    group_counts: dict[str, int] = {}
    judged = np.zeros(len(real), dtype=bool)
    compatible_masks = {}
    for combination in itertools.product(*(each.categories for each in labels)):
        named = {each.semantic: category for each, category in zip(labels, combination, strict=True)}
        if any(rule.items() <= named.items() for rule in impossible):
            continue
        name = _JOIN.join(combination)
        compatible = np.all(
            [
                each.mask(category) | (each.codes == UNCERTAIN)
                for each, category in zip(labels, combination, strict=True)
            ],
            axis=0,
        )
        members = compatible & certain
        judged |= members
        compatible_masks[name] = compatible
        counts[name] = int((members & real).sum())
        made[name] = int((members & synthetic).sum())
        if groups is not None:
            group_counts[name] = len({groups[row] for row in np.flatnonzero(members).tolist()})
    contradictory = certain & ~judged
    uncertain = real & ~judged
    for name, compatible in compatible_masks.items():
        possible[name] = int((uncertain & (compatible | contradictory)).sum())
    return SemanticEvidence(
        semantic=_JOIN.join(each.semantic for each in labels),
        counts=counts,
        uncertain=int(uncertain.sum()),
        possible=possible,
        synthetic=made,
        groups=None if groups is None else group_counts,
        label_source="; ".join(dict.fromkeys(each.source for each in labels)),
        estimated=any(each.estimated for each in labels),
    )


def _check(labels: Sequence[Labels], strength: int, impossible: Sequence[Mapping[str, str]]) -> None:
    names = [each.semantic for each in labels]
    if len(names) < 2:
        raise ArgumentError(f"combinations need two or more semantics, got {names}")
    if len(set(names)) < len(names):
        raise ArgumentError(f"combinations: a semantic occurs twice in {names}")
    if not 2 <= strength <= len(names):
        raise ArgumentError(f"strength={strength}: must lie between 2 and {len(names)}, the semantics given")
    for each in labels[1:]:
        if each.ids != labels[0].ids:
            raise ArgumentError(f"labels of {names[0]!r} and {each.semantic!r} are not of the same images")
    by_name = {each.semantic: each for each in labels}
    for rule in impossible:
        if len(rule) < 2:
            raise ArgumentError(f"impossible={dict(rule)!r}: need two or more semantics")
        for semantic, category in rule.items():
            if semantic not in by_name:
                raise ArgumentError(f"impossible: no semantic {semantic!r}; there are {', '.join(names)}")
            by_name[semantic].code(category)
