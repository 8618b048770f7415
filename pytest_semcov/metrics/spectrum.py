"""What a translation did to a crop, by its pixels: fine detail lost or added, edges kept."""

from __future__ import annotations

import math

import numpy as np
from scipy import fft, ndimage

from pytest_semcov.errors import ArgumentError, NonFiniteError
from pytest_semcov.metrics.arrays import Doubles

SMALLEST_SIDE = 4
"""Pixels; in a smaller crop there is no coarse band to hold the fine one against."""

_COARSE, _FINE = 0.125, 0.25
_ROUNDING = 1 / 12
_FAINTEST = 0.5
_BLUR = 1.0


def detail_change(before: Doubles, after: Doubles) -> float:
    """Return how much fine detail a crop gained, relative to its coarse content, in decibels.

    ::

        detail = P(fine) / P(coarse)
        change = 10 * log10(detail after / detail before)

    with the powers of :func:`band_power`. A factor on the contrast (night) cancels out wherever the contrast
    is above rounding, and a crop without detail has none to lose.

    Parameters
    ----------
    before, after
        ``(height, width)`` luminance in levels of 255, at least :data:`SMALLEST_SIDE` pixels a side.

    Returns
    -------
    float
        0: as before; -6: half the amplitude of the detail is lost; positive: noise or texture came in.

    Raises
    ------
    ArgumentError
        If the crops differ in size or are too small.
    NonFiniteError
        If a pixel is NaN or infinite.
    """
    before, after = _pair(before, after)
    (coarse, fine), (coarse_after, fine_after) = band_power(before), band_power(after)
    return 10 * math.log10((fine_after / coarse_after) / (fine / coarse))


def band_power(crop: Doubles) -> tuple[float, float]:
    """Return the power of a crop's coarse content and of its fine detail.

    Power is the mean squared coefficient of the two-dimensional cosine transform (type II, orthonormal; its
    mirrored continuation brings in no edge at the border) over the spatial frequencies
    ``f = sqrt((u / height)² + (v / width)²) / 2`` in cycles per pixel: coarse 0 < f ≤ 1/8, fine f ≥ 1/4. To
    both is added 1/12, the power of rounding to whole levels.

    Parameters
    ----------
    crop
        ``(height, width)`` luminance in levels of 255, at least :data:`SMALLEST_SIDE` pixels a side.

    Raises
    ------
    ArgumentError
        If the crop is too small.
    """
    height, width = crop.shape
    if min(height, width) < SMALLEST_SIDE:
        raise ArgumentError(f"a crop of {width} x {height} pixels: need {SMALLEST_SIDE} a side at least")
    frequency = np.hypot(np.arange(height)[:, None] / height, np.arange(width)[None] / width) / 2
    power = fft.dctn(crop, type=2, norm="ortho") ** 2
    coarse = power[(frequency > 0) & (frequency <= _COARSE)].mean()
    return float(coarse) + _ROUNDING, float(power[frequency >= _FINE].mean()) + _ROUNDING


def edges_kept(before: Doubles, after: Doubles, *, inner: tuple[slice, slice] | None = None) -> float:
    """Return how well the edges of a crop run as they did before.

    ::

        kept = sum of w * cos(2 * (angle - angle')) / sum of w,   w = length of the gradient before

    over pixels: angles of the luminance's gradients modulo 180 degrees, so that neither darkening nor light
    in the place of dark counts as a change. Gradients are derivatives of a Gaussian of one pixel; those below
    half a level a pixel are no edges: before, they do not count; after, the cosine there is 0.

    Parameters
    ----------
    before, after
        ``(height, width)`` luminance in levels of 255.
    inner
        Rows and columns that count, the others only serve their gradients; default: all.

    Returns
    -------
    float
        1: every edge runs as before; 0: no relation, or nothing to be seen; -1: all turned by 90 degrees.
        NaN if there was no edge before.

    Raises
    ------
    ArgumentError
        If the crops differ in size or are empty.
    NonFiniteError
        If a pixel is NaN or infinite.
    """
    before, after = _pair(before, after)
    first, second = (_gradients(crop)[inner or ...] for crop in (before, after))
    weight, seen = np.abs(first), np.abs(second)
    weight = np.where(weight < _FAINTEST, 0, weight)
    if not weight.any():
        return float("nan")
    there = (weight > 0) & (seen >= _FAINTEST)
    turned = np.divide(first * second.conj(), weight * seen, out=np.zeros_like(first), where=there)
    return float((weight * (turned**2).real).sum() / weight.sum())


def _gradients(crop: Doubles) -> np.ndarray:
    """Return gradients in levels a pixel: rightwards real, downwards imaginary."""
    rightwards = ndimage.gaussian_filter(crop, _BLUR, order=(0, 1), mode="nearest")
    downwards = ndimage.gaussian_filter(crop, _BLUR, order=(1, 0), mode="nearest")
    gradients: np.ndarray = rightwards + 1j * downwards
    return gradients


def _pair(before: Doubles, after: Doubles) -> tuple[Doubles, Doubles]:
    before, after = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if before.ndim != 2 or before.shape != after.shape or not before.size:
        raise ArgumentError(
            f"crops of shape {before.shape} before and {after.shape} after: need one (height, width)"
        )
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise NonFiniteError("a crop holds NaN or infinity")
    return before, after
