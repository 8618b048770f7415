"""How much of the embedding space a set occupies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Doubles, as_doubles, require_rows, require_same_width

_MOST_BINNED_FEATURES = 10
_MOST_COMPONENTS = 62  # one bit each of an int64 cell code
_LARGEST_OCCUPIED_SHARE = 0.1


def effective_rank(embeddings: ArrayLike) -> float:
    """Entropy effective rank of the columns' ranks, divided by the number of features.

    Each column is replaced by its ranks scaled to (-½, ½); the result is exp(entropy of the normalised
    eigenvalues of their covariance) / d, as ``dataeval.core.completeness`` computes it. Two differences: tied
    values get their average rank (so that row order does not matter and a constant feature adds nothing), and
    zero eigenvalues add nothing to the entropy. Without ties both agree.

    Parameters
    ----------
    embeddings
        ``(n, d)``, at least 2 rows.

    Returns
    -------
    share
        In [0, min(n - 1, d) / d]: sets of different n are not comparable. 0 if all features are constant.

    Raises
    ------
    TooFewError
        If there is only one row.
    """
    x = as_doubles(embeddings)
    require_rows("embeddings", len(x), 2, "an effective rank")
    n, width = x.shape
    ranks = (rankdata(x, axis=0) - 0.5) / n - 0.5
    gram = ranks.T @ ranks if width <= n else ranks @ ranks.T
    eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    # Rounding leaves traces where the eigenvalue is zero (at least one is, for centred rows with n <= d).
    eigenvalues = eigenvalues[eigenvalues > len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1]]
    if not len(eigenvalues):
        return 0.0
    shares = eigenvalues / eigenvalues.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))) / width)


def bins_completeness(embeddings: ArrayLike, *, quantiles: int = 1) -> float:
    """Share of quantile hyper-rectangles that hold at least one row.

    Each feature is cut at its ``quantiles`` inner quantiles (1 = the median; a value on a cut belongs to the
    upper side). After B. Byun and S. Rayadurgam, arXiv 2002.03147. For few features only: there are
    (quantiles + 1)^d boxes.

    Parameters
    ----------
    embeddings
        ``(n, d)``, d at most 10.
    quantiles
        Cuts per feature, at least 1.

    Raises
    ------
    ArgumentError
        If there are more than 10 features or no cuts.
    """
    x = as_doubles(embeddings)
    if x.shape[1] > _MOST_BINNED_FEATURES:
        raise ArgumentError(
            f"{x.shape[1]} features: at most {_MOST_BINNED_FEATURES} can be binned; project them first"
        )
    if quantiles < 1:
        raise ArgumentError(f"quantiles is {quantiles}: need at least 1")
    inner = np.linspace(0, 1, quantiles + 2)[1:-1]
    boxes = np.stack([np.digitize(column, np.quantile(column, inner)) for column in x.T], axis=1)
    return float(len(np.unique(boxes, axis=0)) / (quantiles + 1) ** x.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A partition of the embedding space: principal components, each split at its median.

    Parameters
    ----------
    centre
        ``(d,)``.
    directions
        ``(d, components)``, orthonormal.
    medians
        ``(components,)`` cuts along the directions.
    """

    centre: Doubles
    directions: Doubles
    medians: Doubles

    @property
    def components(self) -> int:
        """Number of components; there are 2^components cells."""
        return len(self.medians)

    def of(self, embeddings: ArrayLike) -> NDArray[np.int64]:
        """Return the cell of each row, ``(n,)`` int64."""
        x = as_doubles(embeddings)
        require_same_width(("the cells' space", self.directions.T), ("embeddings", x))
        above = (x - self.centre) @ self.directions >= self.medians
        codes: NDArray[np.int64] = above.astype(np.int64) @ (np.int64(1) << np.arange(self.components))
        return codes


def fit_cells(uncovered: ArrayLike, covered: ArrayLike, *, rows: int | None = None) -> Cells:
    """Cut the space of real images into cells.

    Directions are principal components of U ∪ C (both sets counting alike), each split at its median.
    As many components are used as keep at most a tenth of the cells occupied by the real images, so that
    there is always room that more real images of the same kind would fill.

    Parameters
    ----------
    uncovered, covered
        ``(n, d)`` and ``(m, d)`` real embeddings.
    rows
        Number of images of each set that will occupy cells at a time; ``None`` = all.

    Returns
    -------
    cells
        At least one component; fewer than needed if the data have no more directions.
    """
    u, c = as_doubles(uncovered, name="uncovered"), as_doubles(covered, name="covered")
    require_same_width(("uncovered", u), ("covered", c))
    weights = np.concatenate([np.full(len(u), 0.5 / len(u)), np.full(len(c), 0.5 / len(c))])
    pooled = np.concatenate([u, c])
    centre = weights @ pooled
    _, values, axes = np.linalg.svd((pooled - centre) * np.sqrt(weights)[:, None], full_matrices=False)
    usable = int(np.sum(values > values[0] * len(values) * np.finfo(np.float64).eps)) if values[0] > 0 else 1
    directions = axes[: min(max(usable, 1), _MOST_COMPONENTS)].T
    scores = (pooled - centre) @ directions
    medians = np.array([_weighted_median(column, weights) for column in scores.T])
    above = scores >= medians
    occupied_by = len(pooled) if rows is None else min(len(pooled), 2 * rows)
    for components in range(1, len(medians) + 1):
        occupied = min(len(np.unique(above[:, :components], axis=0)), occupied_by)
        if occupied <= _LARGEST_OCCUPIED_SHARE * 2**components:
            break
    return Cells(centre, np.ascontiguousarray(directions[:, :components]), medians[:components])


def _weighted_median(values: Doubles, weights: Doubles) -> float:
    order = np.argsort(values, kind="stable")
    place = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    # Halfway to the next value, so that no row of the fit lies on a cut.
    pair = order[min(place, len(values) - 1) : place + 2]
    return float(values[pair].mean())
