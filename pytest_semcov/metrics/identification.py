"""Whether translated objects are still recognised as those that they were made from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Doubles, Floats, as_doubles, group_codes, require_same_width

FEWEST_OTHERS = 5
"""A source is told apart from at least so many others, or its rank is unknown."""

MOST_OTHERS = 1_000
"""Others are drawn where there are more."""


def own_source_rank(
    before: Floats,
    after: Floats,
    kinds: Sequence[object],
    groups: Sequence[object],
    *,
    seed: int = 0,
) -> Doubles:
    """Return, for each translated object, the share of other sources that it is less similar to than its own.

    The mean is the area under the curve of telling an object's source from others of its kind.

    Parameters
    ----------
    before, after
        ``(n, d)`` embeddings, row by row of the same object (see :func:`without_common_shift`).
    kinds
        One an object: only sources of the same kind (class and size) are compared.
    groups
        One an object: sources of its own group (image, scene) are not others; they may show the same thing.
    seed
        Chooses among more than :data:`MOST_OTHERS` of a kind. Which ones depends on the order of rows.

    Returns
    -------
    ``(n,)``; 1: its own source is the most similar of all, 0.5: as similar as any, NaN: fewer than
    :data:`FEWEST_OTHERS` others.

    Raises
    ------
    ArgumentError
        If the lengths differ.
    """
    first, second = as_doubles(before, name="before"), as_doubles(after, name="after")
    require_same_width(("before", first), ("after", second))
    if not len(first) == len(second) == len(kinds):
        raise ArgumentError(f"{len(first)} sources, {len(second)} objects and {len(kinds)} kinds")
    codes = np.unique(group_codes(groups, len(first), name="groups") or [], return_inverse=True)[1]
    names = np.unique([repr(kind) for kind in kinds], return_inverse=True)[1]
    ranks = np.full(len(first), np.nan)
    own = np.einsum("nd,nd->n", first, second)
    generator = np.random.default_rng(seed)
    for kind in range(int(names.max()) + 1):
        members = np.flatnonzero(names == kind)
        others = members
        if len(members) > MOST_OTHERS:
            others = np.sort(generator.choice(members, MOST_OTHERS, replace=False))
        similarity = second[members] @ first[others].T
        allowed = codes[members][:, None] != codes[others][None]
        count = allowed.sum(axis=1)
        gap = own[members][:, None] - similarity
        # Equal content gives equal similarity only up to the rounding of two ways to sum.
        wins = np.where(np.abs(gap) <= 1e-9, 0.5, gap > 0)
        enough = count >= FEWEST_OTHERS
        ranks[members[enough]] = (wins * allowed).sum(axis=1)[enough] / count[enough]
    return ranks


def without_common_shift(rows: Floats) -> Doubles:
    """Return embeddings less their mean, scaled to length one.

    What a translation does to every crop alike (night is dark) moves the mean and is gone with it.

    Parameters
    ----------
    rows
        ``(n, d)`` embeddings of one set of images: objects and backgrounds. A row at the mean becomes zero.
    """
    array = as_doubles(rows, name="embeddings")
    centred: Doubles = array - array.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    scaled: Doubles = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 1e-12)
    return scaled
