"""Sufficiency: may a synthetic set stand in for images that are missing.

The gate takes embeddings of the synthetic set S, of real images of the uncovered category U and of the
covered category C, all from one model, and returns one verdict with every criterion. It knows no
images, models or data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from numpy.typing import ArrayLike

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.sufficiency_deduce import deduce_verdict
from pytest_semcov.gates.sufficiency_matched import matched_verdict
from pytest_semcov.gates.sufficiency_sets import MatchedInput, MatchedSettings
from pytest_semcov.gates.verdict import Verdict
from pytest_semcov.metrics.arrays import as_embeddings, group_codes, require_same_width

_FEWEST_REPEATS = 20

ShareCounts = tuple[tuple[int, int], tuple[int, int]]


def sufficiency_verdict(
    synthetic: ArrayLike,
    uncovered: ArrayLike,
    covered: ArrayLike,
    *,
    subject: str,
    semantic: str | None = None,
    sources: ArrayLike | None = None,
    synthetic_groups: Sequence[object] | None = None,
    uncovered_groups: Sequence[object] | None = None,
    covered_groups: Sequence[object] | None = None,
    synthetic_ids: Sequence[str] | None = None,
    failed: int = 0,
    arrival: ShareCounts | None = None,
    protocol: Literal["matched", "deduce"] | str = "matched",
    min_gap_closed: float = 0.5,
    min_completeness_gain: float = 0.5,
    k: int | None = None,
    repeats: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
    figures: bool = True,
) -> Verdict:
    """Judge whether a synthetic set may stand in for an uncovered category.

    Parameters
    ----------
    synthetic, uncovered, covered
        ``(n, d)`` embeddings of S, of real images of the uncovered category U and of the covered category
        C, from one model by one transform, not rescaled per set.
    subject
        What is judged, e.g. ``"synthetic night"``.
    semantic
        Name of the semantic for messages, e.g. ``"day_night"``.
    sources
        ``(n, d)`` embeddings of the images that S was made from, row by row. Without them identity is
        looked for among the covered images.
    synthetic_groups, uncovered_groups, covered_groups
        One group (video, scene, camera) per row, one namespace for all sets: images of one group are never
        compared with each other and are drawn together.
    synthetic_ids
        Names of the rows of S for messages.
    failed
        Number of blank or flagged generations that are not in S.
    arrival
        ``((labelled as target, images), (labelled as target, images))`` of S and of U: how many a labeller
        takes for the target category.
    protocol
        ``"matched"``: every comparison at equal numbers, with intervals. ``"deduce"``: the published
        procedure, plain comparisons.
    min_gap_closed, min_completeness_gain
        Bars (0 = no better than covered images, 1 = as good as real ones). 0 is the published "lower" and
        "higher".
    k
        Neighbour that defines the coverage radius; ``None`` = 5 (20 with ``"deduce"``).
    repeats
        Half-samples behind each interval.
    confidence
        Of the intervals.
    seed
        Seed of all draws. The verdict is a function of seed and rows and does not depend on their order.
    figures
        Whether to measure also the figures of other tools that judge nothing (about a quarter of the time).

    Returns
    -------
    verdict
        Kind ``"sufficiency"``. PASS needs every criterion; too few images, an embedder that does not tell U
        from C, or an interval that spans its bar are INCONCLUSIVE.

    Raises
    ------
    ArgumentError
        If shapes, groups or settings do not fit together.
    NonFiniteError
        If an embedding holds NaN or infinity.
    TooFewError
        If a set is empty.
    """
    s = as_embeddings(synthetic, name="synthetic")
    u = as_embeddings(uncovered, name="uncovered")
    c = as_embeddings(covered, name="covered")
    require_same_width(("uncovered", u), ("covered", c), ("synthetic", s))
    source_rows = None if sources is None else as_embeddings(sources, name="sources")
    if source_rows is not None and source_rows.shape != s.shape:
        raise ArgumentError(
            f"sources have shape {source_rows.shape} and synthetic {s.shape}: "
            "need one source per synthetic row"
        )
    if synthetic_ids is not None and len(synthetic_ids) != len(s):
        raise ArgumentError(
            f"{len(synthetic_ids)} synthetic_ids for {len(s)} synthetic rows: need one per row"
        )
    _check_settings(
        failed=failed,
        k=k,
        repeats=repeats,
        confidence=confidence,
        min_gap_closed=min_gap_closed,
        min_completeness_gain=min_completeness_gain,
    )
    data = MatchedInput(
        synthetic=s,
        uncovered=u,
        covered=c,
        sources=source_rows,
        synthetic_groups=group_codes(synthetic_groups, len(s), name="synthetic_groups"),
        uncovered_groups=group_codes(uncovered_groups, len(u), name="uncovered_groups"),
        covered_groups=group_codes(covered_groups, len(c), name="covered_groups"),
        synthetic_ids=None if synthetic_ids is None else tuple(synthetic_ids),
        failed=failed,
        arrival=arrival,
    )
    if protocol == "matched":
        return matched_verdict(
            data,
            MatchedSettings(
                subject=subject,
                semantic=semantic,
                min_gap_closed=min_gap_closed,
                min_completeness_gain=min_completeness_gain,
                k=5 if k is None else k,
                repeats=repeats,
                confidence=confidence,
                seed=seed,
                figures=figures,
            ),
        )
    if protocol == "deduce":
        return deduce_verdict(s, u, c, subject=subject, k=20 if k is None else k)
    raise ArgumentError(f"protocol is {protocol!r}: use 'matched' or 'deduce'")


def _check_settings(
    *,
    failed: int,
    k: int | None,
    repeats: int,
    confidence: float,
    min_gap_closed: float,
    min_completeness_gain: float,
) -> None:
    if not isinstance(failed, int) or failed < 0:
        raise ArgumentError(f"failed is {failed}: need a whole number, 0 or more")
    if k is not None and k < 1:
        raise ArgumentError(f"k is {k}: need at least 1")
    if repeats < _FEWEST_REPEATS:
        raise ArgumentError(f"repeats is {repeats}: need at least {_FEWEST_REPEATS} for an interval")
    if not 0 < confidence < 1:
        raise ArgumentError(f"confidence is {confidence}: need a number between 0 and 1")
    for name, bar in (("min_gap_closed", min_gap_closed), ("min_completeness_gain", min_completeness_gain)):
        if not math.isfinite(bar):
            raise ArgumentError(f"{name} is {bar}: need a finite number")
