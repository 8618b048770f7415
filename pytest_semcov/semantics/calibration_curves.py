"""Curves from signed margins to probabilities: fitting them, and their errors on images left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.arrays import Doubles

Method = Literal["isotonic", "logistic"]

_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Curve:
    """A rising curve from a signed margin to the probability of a category.

    Parameters
    ----------
    method
        ``"logistic"``: 1 / (1 + exp(-(slope · margin + intercept))). ``"isotonic"``: straight between knots
        and level outside of them.
    values
        ``(slope, intercept)``, or the knots' margins followed by their probabilities.
    """

    method: Method
    values: tuple[float, ...]

    def __call__(self, margin: Doubles) -> Doubles:
        """Return ``(n,)`` probabilities in (0, 1)."""
        if self.method == "logistic":
            slope, intercept = self.values
            found: Doubles = 1.0 / (1.0 + np.exp(np.clip(-(slope * margin + intercept), -700, 700)))
            return found
        knots = len(self.values) // 2
        return np.asarray(np.interp(margin, self.values[:knots], self.values[knots:]))


def probabilities_of(curves: Sequence[Curve], margins: Doubles) -> Doubles:
    """Return ``(n, K)`` probabilities whose rows sum to 1, from ``(n, curves)`` signed margins."""
    found = np.column_stack([curve(margins[:, number]) for number, curve in enumerate(curves)])
    if len(curves) == 1:
        return np.column_stack([1 - found[:, 0], found[:, 0]])
    scaled: Doubles = found / found.sum(axis=1, keepdims=True)
    return scaled


def fit_curves(method: Method, margins: Doubles, codes: NDArray[np.int64]) -> tuple[Curve, ...]:
    """Fit a curve to each column of ``(n, curves)`` signed margins, given the ``(n,)`` true codes."""
    curves = range(margins.shape[1])
    return tuple(
        _fit(method, margins[:, number], codes == (1 if len(curves) == 1 else number)) for number in curves
    )


def _fit(method: Method, margin: Doubles, members: NDArray[np.bool_]) -> Curve:
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    positive, images = int(members.sum()), len(members)
    if method == "isotonic":
        # Within these bounds, as Platt's targets are: n labels do not show a probability of 0 or 1.
        fitted = IsotonicRegression(y_min=1 / (images + 2), y_max=(images + 1) / (images + 2)).fit(
            margin, members
        )
        return Curve(method, (*fitted.X_thresholds_.tolist(), *fitted.y_thresholds_.tolist()))
    high, low = (positive + 1) / (positive + 2), 1 / (images - positive + 2)
    target = np.where(members, high, low)
    scale = float(margin.std()) or 1.0
    # A soft target is the image twice, as either side, weighing its target and the rest.
    column = np.concatenate([margin, margin])[:, None] / scale
    sides = np.repeat([1, 0], images)
    model = LogisticRegression(C=1e4).fit(column, sides, sample_weight=np.concatenate([target, 1 - target]))
    return Curve(method, (max(float(model.coef_[0, 0]), 0.0) / scale, float(model.intercept_[0])))


def grouped_folds(
    codes: NDArray[np.int64], groups: Sequence[object] | None, seed: int
) -> list[tuple[Any, Any]]:
    """Return pairs of row indices, fitted and left out: stratified by category, whole groups together.

    Raises
    ------
    TooFewError
        If a category has known labels of one group only, or is missing where a fold is left out.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is None:
        return list(StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(codes, codes))
    names = np.unique([str(group) for group in groups], return_inverse=True)[1]
    for code in np.unique(codes):
        if len(np.unique(names[codes == code])) < 2:
            raise TooFewError("known labels of a category come from one group: need two groups at least")
    splits = min(_FOLDS, int(names.max()) + 1)
    folds = list(StratifiedGroupKFold(splits, shuffle=True, random_state=seed).split(codes, codes, names))
    present = len(np.unique(codes))
    whole = [fold for fold in folds if len(np.unique(codes[fold[0]])) == present]
    if len(whole) < len(folds):
        raise TooFewError("known labels of a category come from too few groups to be left out in turn")
    return folds


def held_out_probabilities(
    method: Method, margins: Doubles, codes: NDArray[np.int64], folds: Sequence[tuple[Any, Any]]
) -> Doubles:
    """Return ``(n, K)`` probabilities of each image by curves fitted without its fold."""
    count = 2 if margins.shape[1] == 1 else margins.shape[1]
    found = np.empty((len(codes), count))
    for fitted, left_out in folds:
        found[left_out] = probabilities_of(
            fit_curves(method, margins[fitted], codes[fitted]), margins[left_out]
        )
    return found


def log_loss_of(probabilities: Doubles, codes: NDArray[np.int64]) -> float:
    """Return the mean log loss in nats of ``(n, K)`` probabilities, given the ``(n,)`` true codes."""
    return float(-np.log(probabilities[np.arange(len(codes)), codes]).mean())
