"""Oklab: a colour space in which equal distances look about equally different.

Matrices: Björn Ottosson, "A perceptual color space for image processing" (2020); transfer function:
IEC 61966-2-1 (sRGB).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LINEAR_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_CONES_TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
_CONES_TO_LINEAR = np.linalg.inv(_LINEAR_TO_CONES)
_OKLAB_TO_CONES = np.linalg.inv(_CONES_TO_OKLAB)
_STEPS = np.arange(256) / 255
_LINEAR = np.where(_STEPS <= 0.04045, _STEPS / 12.92, ((_STEPS + 0.055) / 1.055) ** 2.4)


def rgb_to_oklab(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert sRGB to Oklab.

    Parameters
    ----------
    rgb
        ``(..., 3)`` uint8.

    Returns
    -------
    array
        ``(..., 3)`` float32: lightness from 0 (black) to 1 (white), green-red and blue-yellow (0 = grey).
    """
    cones = _LINEAR.astype(np.float32)[rgb] @ _LINEAR_TO_CONES.T.astype(np.float32)
    return np.asarray(np.cbrt(cones) @ _CONES_TO_OKLAB.T.astype(np.float32), dtype=np.float32)


def oklab_to_rgb(oklab: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Convert Oklab to sRGB; colours outside sRGB are clipped per channel of linear light.

    Parameters
    ----------
    oklab
        ``(..., 3)``, as from :func:`rgb_to_oklab`.

    Returns
    -------
    array
        ``(..., 3)`` uint8.
    """
    cones = np.asarray(oklab, dtype=np.float32) @ _OKLAB_TO_CONES.T.astype(np.float32)
    linear = np.clip(cones**3 @ _CONES_TO_LINEAR.T.astype(np.float32), 0.0, 1.0)
    srgb = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(srgb * 255), dtype=np.uint8)
