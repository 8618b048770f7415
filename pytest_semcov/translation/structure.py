"""How much of an image's structure a translation kept: where its edges are and which way they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

WORKING_SIZE = 128
"""Longer side (pixels) above which images are compared at reduced size."""

_BLUR = 1.0
"""Standard deviation (pixels) of the Gaussian whose derivatives are the gradients."""

_FAINTEST = 0.5
"""Gradient (levels of 255 a pixel) below which an edge is not to be seen."""


def structure_kept(source: Image.Image, translated: Image.Image) -> float:
    """Return how well the edges of a translation run as those of its source.

    The directions of the two images' luminance gradients are compared at every pixel, as angles modulo 180
    degrees, so that neither darkening nor light that takes the place of dark counts as a change::

        structure = sum of w * cos(2 * (angle - angle')) / sum of w,   w = length of the source's gradient

    Where the translation shows no edge at all (a gradient of less than half a level of 255 a pixel), the
    cosine counts as 0. Gradients are derivatives of a Gaussian of one pixel, of images reduced to at most
    128 pixels.

    Parameters
    ----------
    source, translated
        RGB or grey images of the same size.

    Returns
    -------
    float
        1: every edge runs as before; 0: no relation, or nothing to be seen; -1: all edges are turned by 90
        degrees. NaN if the source shows no edge.

    Raises
    ------
    ArgumentError
        If the sizes differ.
    """
    if source.size != translated.size:
        raise ArgumentError(
            f"source is {source.width} x {source.height}, translation {translated.width} x "
            f"{translated.height}: structure is compared at the same size"
        )
    before, after = _gradients(source), _gradients(translated)
    weight, seen = np.abs(before), np.abs(after)
    weight = np.where(weight < _FAINTEST, 0, weight)
    if not weight.any():
        return float("nan")
    turned = np.divide(
        before * after.conj(),
        weight * seen,
        out=np.zeros_like(before),
        where=(weight > 0) & (seen >= _FAINTEST),
    )
    return float((weight * (turned**2).real).sum() / weight.sum())


def _gradients(image: Image.Image) -> NDArray[np.complex128]:
    """Return the luminance's gradient per pixel: rightwards real, downwards imaginary, in levels a pixel."""
    from PIL import Image
    from scipy.ndimage import gaussian_filter

    scale = WORKING_SIZE / max(image.size)
    if scale < 1:
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.BOX)
    grey = np.asarray(image.convert("RGB"), dtype=np.float64) @ np.array([0.299, 0.587, 0.114])
    rightwards = gaussian_filter(grey, _BLUR, order=(0, 1), mode="nearest")
    downwards = gaussian_filter(grey, _BLUR, order=(1, 0), mode="nearest")
    gradients: NDArray[np.complex128] = rightwards + 1j * downwards
    return gradients
