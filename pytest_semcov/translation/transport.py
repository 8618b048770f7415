"""Optimal transport between samples of points: exact in one dimension, sliced in several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_TAIL = np.array([0.0, 0.0003, 0.001, 0.002])
LEVELS = np.concatenate([_TAIL, np.linspace(0.005, 0.995, 199), 1 - _TAIL[::-1]])
"""Levels of the quantiles that stand for a distribution; finer at the ends, where light sources are."""


def quantiles(values: Array) -> Array:
    """Return ``(d, levels)`` float32 quantiles of the columns of ``(n, d)`` values, linear in between.

    The same as :func:`numpy.quantile` at all :data:`LEVELS`, for which a full sort is faster.
    """
    ordered = np.sort(values.T, axis=1)
    places = LEVELS * (len(values) - 1)
    below = places.astype(int)
    above = np.minimum(below + 1, len(values) - 1)
    weight = places - below
    return np.asarray(ordered[:, below] * (1 - weight) + ordered[:, above] * weight, dtype=np.float32)


def quantile_map(values: Array, source: Array, target: Array) -> Array:
    """Map values from one distribution to another by the monotone (optimal) map.

    Parameters
    ----------
    values
        Values of any shape.
    source, target
        Quantiles of both distributions at the same levels. Where source quantiles coincide (one value is
        frequent) that value goes to the mean of its target quantiles.

    Returns
    -------
    array
        The mapped values, float32; values outside the source quantiles go to the nearest end.
    """
    knots, first, counts = np.unique(source, return_index=True, return_counts=True)
    images = np.add.reduceat(np.asarray(target, dtype=np.float64), first) / counts
    return np.interp(values, knots, images).astype(np.float32)


def sliced_transport(
    points: Array, sample: Array, target: Array, *, generator: np.random.Generator, iterations: int = 4
) -> Array:
    """Move points by a map that takes the distribution of ``sample`` to that of ``target``.

    In each iteration all points are projected on the axes of a random rotation and moved along each axis by
    the optimal map between the projections (Pitié, Kokaram and Dahyot, "Automated colour grading using colour
    distribution transfer", 2007).

    Parameters
    ----------
    points
        ``(n, d)`` float32: what is moved.
    sample
        ``(m, d)`` float32: points from which the map is estimated, e.g. a part of ``points``.
    target
        ``(k, d)`` float32.
    generator
        Draws the rotations; the first iteration uses the axes as they are.
    iterations
        Number of rotations.

    Returns
    -------
    array
        ``(n, d)`` float32. Equal points stay equal.
    """
    dimensions = points.shape[1]
    rotation = np.eye(dimensions)
    for iteration in range(iterations):
        if iteration:
            rotation = np.linalg.qr(generator.standard_normal((dimensions, dimensions))).Q
        turn = rotation.astype(np.float32)
        moved, known = points @ turn, sample @ turn
        before, after = quantiles(known), quantiles(target @ turn)
        for axis in range(dimensions):
            moved[:, axis] = quantile_map(moved[:, axis], before[axis], after[axis])
            known[:, axis] = quantile_map(known[:, axis], before[axis], after[axis])
        points = np.asarray(moved @ turn.T, dtype=np.float32)
        sample = np.asarray(known @ turn.T, dtype=np.float32)
    return points
