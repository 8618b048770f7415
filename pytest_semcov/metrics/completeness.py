"""How much of the embedding space a set occupies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from pytest_semcov.errors import ArgumentError
from pytest_semcov.metrics.arrays import Doubles, Floats, Indices, as_doubles, as_embeddings, require_rows
from pytest_semcov.metrics.feature_order import feature_blocks, ordered_integers, runs

_COLUMNS_AT_ONCE = 4096
_MOST_BINNED_FEATURES = 10
_MOST_CUTS = 24
# Rows of each set to which directions are fitted.
_FITTED_ROWS = 150
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
    x = as_embeddings(embeddings)
    require_rows("embeddings", len(x), 2, "an effective rank")
    eigenvalues = np.maximum(np.linalg.eigvalsh(_gram_of_ranks(x)), 0.0)
    # Rounding leaves traces where the eigenvalue is zero (at least one is, for centred rows with n <= d).
    eigenvalues = eigenvalues[eigenvalues > len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1]]
    if not len(eigenvalues):
        return 0.0
    shares = eigenvalues / eigenvalues.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))) / x.shape[1])


def _gram_of_ranks(x: Floats) -> Doubles:
    """Inner products of the features' ranks, or of the rows' if they are fewer."""
    n, width = x.shape
    ranks = np.empty((width, n), dtype=np.float32)  # whole numbers: exact up to 16 million rows
    start = 0
    for block in feature_blocks(x):
        ranks[start : start + len(block)] = _doubled_ranks(block)
        start += len(block)
    if width > n:
        ranks = ranks.T
    gram = np.zeros((len(ranks), len(ranks)))
    for start in range(0, ranks.shape[1], _COLUMNS_AT_ONCE):
        part = ranks[:, start : start + _COLUMNS_AT_ONCE].astype(np.float64) / n
        gram += part @ part.T
    return gram


def _doubled_ranks(block: Floats) -> NDArray[np.intp]:
    """Return twice the ranks in each row, from -(n - 1) to n - 1; tied values have their average rank."""
    n = block.shape[1]
    equals_next = np.zeros(block.shape, dtype=bool)
    if block.dtype == np.float32:
        # The place in the lowest bits goes along with the value.
        keys = ordered_integers(block)
        keys <<= 32
        keys |= np.arange(n)
        keys.sort(axis=1)
        order = keys & 0xFFFFFFFF
        keys >>= 32
        np.equal(keys[:, 1:], keys[:, :-1], out=equals_next[:, :-1])
    else:
        order = np.argsort(block, axis=1)
        ordered = np.take_along_axis(block, order, axis=1)
        np.equal(ordered[:, 1:], ordered[:, :-1], out=equals_next[:, :-1])
    ranks = np.tile(np.arange(1 - n, n, 2), len(block))
    tied, lasts, lengths = runs(equals_next)
    average = (ranks[lasts - lengths] + ranks[lasts]) // 2
    ranks[tied], ranks[lasts] = np.repeat(average, lengths), average
    in_place = np.empty_like(ranks).reshape(block.shape)
    np.put_along_axis(in_place, order, ranks.reshape(block.shape), axis=1)
    return in_place


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


def semantic_cells(squared: Doubles, uncovered: Indices, covered: Indices) -> tuple[NDArray[np.int64], int]:
    """Cut the embedding space into cells and say in which cell each row lies.

    Cuts are made along the line through the means of U and C and along the principal components of the
    rest of U ∪ C, each at its median, both sets counting alike. As many cuts are made as keep at most a
    tenth of the cells occupied by U and C, so that there is always room that more images of the same kind
    would fill.

    Parameters
    ----------
    squared
        ``(n, n)`` squared Euclidean distances between all rows: all that is needed of them.
    uncovered, covered
        Rows of U and C that shape the cells; directions are fitted to the first few hundred of each.

    Returns
    -------
    cells
        ``(n,)`` int64, the cell of every row.
    cuts
        Number of cuts; there are 2^cuts cells.
    """
    before = np.concatenate([uncovered, covered])
    u, c = uncovered[:_FITTED_ROWS], covered[:_FITTED_ROWS]
    fitted = np.concatenate([u, c])
    weights = _balanced_weights(len(u), len(c))
    # -d²/2 is an inner product up to terms that centring removes.
    products = -0.5 * squared[:, fitted]
    products -= products @ weights[:, None]
    products -= weights @ products[fitted]
    contrast = 2 * weights * np.repeat([1, -1], [len(u), len(c)])
    between = products @ contrast
    length = float(np.sqrt(max(contrast @ between[fitted], 0.0)))
    columns = []
    if length > 0:
        along = between / length
        columns.append(along[:, None])
        products -= np.outer(along, along[fitted])
    columns.append(_component_scores(products, fitted, weights))
    scores = np.concatenate(columns, axis=1)
    balanced = _balanced_weights(len(uncovered), len(covered))
    codes = np.zeros(len(squared), dtype=np.int64)
    for cut, column in enumerate(scores.T):
        above = column >= _weighted_median(column[before], balanced)
        codes |= above.astype(np.int64) << cut
        if len(np.unique(codes[before])) <= _LARGEST_OCCUPIED_SHARE * 2 ** (cut + 1):
            break
    return codes, cut + 1


def _balanced_weights(first: int, second: int) -> Doubles:
    """Weights of the rows of two sets, each set one half, ``(first + second,)``."""
    return np.concatenate([np.full(first, 0.5 / first), np.full(second, 0.5 / second)])


def _component_scores(products: Doubles, fitted: Indices, weights: Doubles) -> Doubles:
    """Return all rows' scores on the principal components of the fitted rows, ``(n, components)``."""
    root = np.sqrt(weights)
    gram = products[fitted] * root[:, None] * root[None, :]
    first = max(len(gram) - _MOST_CUTS, 0)
    values, vectors = eigh((gram + gram.T) / 2, subset_by_index=(first, len(gram) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    usable = values > max(values[0], 0.0) * len(gram) * np.finfo(np.float64).eps
    if not usable.any():  # nothing is left to cut
        return np.zeros((len(products), 1))
    return np.asarray(products @ (vectors[:, usable] * root[:, None] / np.sqrt(values[usable])))


def _weighted_median(values: Doubles, weights: Doubles) -> float:
    order = np.argsort(values, kind="stable")
    place = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    # Halfway to the next value, so that no row lies on a cut.
    pair = order[min(place, len(values) - 1) : place + 2]
    return float(values[pair].mean())
