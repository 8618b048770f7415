"""Reliability of labels: against reference labels, and over wordings of the prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.figures import LabelMatches, LabelReliability, WordingAgreement
from pytest_semcov.semantics.labels import UNCERTAIN, Labels

_LISTED = 10


def measure_reliability(
    labels: Labels,
    reference: Mapping[str, str | None],
    *,
    agreement: WordingAgreement | None = None,
) -> LabelReliability:
    """Compare labels with reference labels.

    Parameters
    ----------
    labels
        The labels to judge.
    reference
        Id → category, for some images or all; ``None`` = not known. Ids without a label (images that could
        not be used, or of other data sets) are left out.
    agreement
        Result of :func:`wording_agreement`, carried along.

    Raises
    ------
    ArgumentError
        If a reference is not among the categories (the message names the image), or none belongs to an
        image of the labels.
    """
    code = {category: number for number, category in enumerate(labels.categories)}
    for sample_id, category in reference.items():
        if category is not None and category not in code:
            raise ArgumentError(
                f"reference labels of {labels.semantic!r}: {sample_id!r} has {category!r}; "
                f"valid categories are {', '.join(labels.categories)}"
            )
    named = [reference.get(sample_id) for sample_id in labels.ids]
    rows = np.array([row for row, category in enumerate(named) if category is not None], dtype=np.int64)
    if not len(rows):
        raise ArgumentError(
            f"reference labels of {labels.semantic!r}: none of the {len(reference)} belongs to an image "
            f"of the data set (ids look like {next(iter(labels.ids), None)!r})"
        )
    truth = np.array([code[category] for category in named if category is not None], dtype=np.int64)
    found = labels.codes[rows]
    certain = found != UNCERTAIN
    wrong = np.flatnonzero(certain & (found != truth))
    return LabelReliability(
        semantic=labels.semantic,
        source=labels.source,
        images=len(labels),
        uncertain=labels.uncertain,
        reference=len(rows),
        matches=tuple(
            LabelMatches(
                category=category,
                correct=int(((found == number) & (truth == number)).sum()),
                labelled=int((found == number).sum()),
                actual=int((truth == number).sum()),
                actual_certain=int((certain & (truth == number)).sum()),
                certain=int(certain.sum()),
            )
            for category, number in code.items()
        ),
        mistakes=tuple(
            (labels.ids[rows[each]], labels.categories[found[each]], labels.categories[truth[each]])
            for each in wrong[:_LISTED].tolist()
        ),
        agreement=agreement,
    )


def unlabelled_reliability(error: UnknownSemanticError) -> LabelReliability:
    """Return the reliability of labels that an encoder cannot give: the gate finds INCONCLUSIVE."""
    return LabelReliability(error.semantic, source=f"encoder {error.encoder}", problem=str(error))


def wording_agreement(codes: ArrayLike, ids: Sequence[str]) -> WordingAgreement | None:
    """Measure how far the labels agree over wordings.

    Parameters
    ----------
    codes
        ``(wordings, n)`` category of each image under each wording alone; see
        :func:`~pytest_semcov.semantics.labelling.paraphrase_codes`.
    ids
        Sample ids, one a column.

    Returns
    -------
    agreement
        ``None`` with fewer than two wordings. The chance-corrected figure is J. L. Fleiss, "Measuring
        nominal scale agreement among many raters", Psychological Bulletin 76, 1971, the wordings being the
        raters.

    Raises
    ------
    ArgumentError
        If there is not one id per column.
    """
    table = np.asarray(codes, dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != len(ids):
        raise ArgumentError(f"codes of shape {table.shape} for {len(ids)} images: need (wordings, images)")
    wordings, images = table.shape
    if wordings < 2 or not images:
        return None
    votes = np.stack([(table == category).sum(axis=0) for category in range(int(table.max()) + 1)], axis=1)
    most = votes.max(axis=1)
    divided = np.flatnonzero(most < wordings)
    divided = divided[np.argsort(most[divided], kind="stable")]
    return WordingAgreement(
        wordings=wordings,
        images=images,
        unanimous=int((most == wordings).sum()),
        kappa=fleiss_kappa(votes),
        split=tuple(ids[row] for row in divided[:_LISTED].tolist()),
    )


def fleiss_kappa(votes: NDArray[np.int64]) -> float | None:
    """Return Fleiss' kappa of ``(n, K)`` votes, the same number (two or more) for every image.

    ``None`` where chance agreement is complete (all votes for one category).
    """
    raters = int(votes[0].sum())
    observed = float(((votes**2).sum(axis=1) - raters).mean() / (raters * (raters - 1)))
    expected = float(((votes.sum(axis=0) / votes.sum()) ** 2).sum())
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)
