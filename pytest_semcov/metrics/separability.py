"""Linear separability of two sides of a data set."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from pytest_semcov.metrics.arrays import as_embeddings

_FOLDS = 5
_PROBE_IMAGES = 2_000


def separability(
    embeddings: ArrayLike,
    members: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> float | None:
    """Return the cross-validated AUC of a linear classifier of members against others.

    Logistic regression on standardised features, five folds (fewer where a side has fewer images), folds
    by group where groups are given; at most 1,000 images of either side, drawn by ``seed``. ``None`` where
    no fold holds both sides.

    Parameters
    ----------
    embeddings
        ``(n, d)``.
    members
        ``(n,)`` True for the category's images.
    groups
        ``(n,)`` group per image.
    seed
        Of the draw and the folds.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    array = as_embeddings(embeddings)
    truth = np.asarray(members, dtype=bool)
    generator = np.random.default_rng(seed)
    rows = np.sort(
        np.concatenate(
            [
                generator.permutation(np.flatnonzero(truth == side))[: _PROBE_IMAGES // 2]
                for side in (True, False)
            ]
        )
    )
    array, truth = array[rows], truth[rows]
    folds = min(_FOLDS, int(truth.sum()), int((~truth).sum()))
    if folds < 2:
        return None
    if groups is None:
        splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(array, truth)
    else:
        of_rows = np.asarray(groups)[rows]
        folds = min(folds, len(np.unique(of_rows)))
        if folds < 2:
            return None
        splits = StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(array, truth, of_rows)
    scores = []
    for train, test in splits:
        if len(set(truth[train])) < 2 or len(set(truth[test])) < 2:
            continue
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        with warnings.catch_warnings():
            # A probe that has not fully converged still ranks the images.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(array[train], truth[train])
        scores.append(float(roc_auc_score(truth[test], model.decision_function(array[test]))))
    return float(np.mean(scores)) if scores else None
