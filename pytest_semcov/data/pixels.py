"""Pixels: encoded bytes, PIL images and arrays become 8-bit RGB by a :class:`DecodingRule`."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, JpegImagePlugin

from pytest_semcov.data.decoding import REPLACE, DecodingRule, Unusable
from pytest_semcov.data.exif import parse_orientation, split_jpeg
from pytest_semcov.errors import ArgumentError, SemcovWarning

_PREINIT_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM")
_HEADER_BYTES = 1 << 18
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# What a decoded image must no longer carry: it has been applied.
_APPLIED = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp", "transparency")
# A PIL image that was opened but not read yet has one file position for all threads.
_LAZY_IMAGE_LOCK = threading.Lock()


def decode(data: bytes, rule: DecodingRule, *, minimum_size: int | None, where: str) -> Image.Image:
    """Decode an image file's bytes.

    Parameters
    ----------
    data
        The whole file.
    rule
        The decoding rule.
    minimum_size
        Shorter side (pixels) that the caller needs; ``None`` = full size.
    where
        Names the image in a warning.

    Raises
    ------
    Unusable
        If it is no image that the rule allows.
    """
    if minimum_size is not None and minimum_size < 1:
        raise ArgumentError(f"minimum_size {minimum_size}: must be at least 1 pixel")
    image, exif = _open(data, rule)
    _check_size(image.size, rule)
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        warnings.warn(
            "something in this process has set PIL.ImageFile.LOAD_TRUNCATED_IMAGES: "
            "truncated images pass as whole ones",
            SemcovWarning,
            stacklevel=2,
        )
    with _decoder_errors():
        if minimum_size is not None:
            image.draft("RGB", (2 * minimum_size, 2 * minimum_size))
        image.load()
    if exif is None:  # not a JPEG; PNG may hold it behind the pixels
        exif = _exif_of(image)
    return _finish(image, _orientation(exif, where), rule)


def from_memory(item: object, rule: DecodingRule, *, where: str) -> Image.Image:
    """Turn a PIL image or an array into a new RGB image.

    Parameters
    ----------
    item
        What :class:`~pytest_semcov.data.decoding.MemorySource` takes, bytes and functions excepted.
    rule
        The decoding rule.
    where
        Names the image in a warning.

    Raises
    ------
    Unusable
        For another shape or type, values outside the rule's range, NaN, or damage in an image that was
        opened but not read yet.
    """
    if not isinstance(item, Image.Image):
        return _finish(_image_of_array(item, rule), 1, rule)
    _check_size(item.size, rule)
    with _decoder_errors(), _LAZY_IMAGE_LOCK:
        item.load()
    return _finish(item, _orientation(_exif_of(item), where), rule)


def stored_size(file: Path, rule: DecodingRule) -> tuple[int, int, int] | None:
    """Read an image file's header: width and height as stored, and the EXIF orientation.

    Reads the first 256 KiB, and all of the file only where that does not suffice. Returns ``None`` if
    the header cannot be read: decoding tells why.
    """
    for limit in (_HEADER_BYTES, -1):
        try:
            with file.open("rb") as stream:
                image, exif = _open(stream.read(limit), rule)
            exif = _exif_of(image) if exif is None else exif
            return *image.size, 1 if exif is None else parse_orientation(exif)
        except (OSError, Unusable, ValueError):
            continue
    return None


def _open(data: bytes, rule: DecodingRule) -> tuple[ImageFile.ImageFile, bytes | None]:
    """Identify the format and read the header; also return a JPEG's EXIF block.

    Not by Pillow's own ``open``, which warns or raises by its global pixel limit, and not by its factory
    for JPEG, which would read EXIF and look for further pictures.
    """
    if not data:
        raise Unusable("empty file", REPLACE)
    if data.startswith(b"version https://git-lfs"):
        raise Unusable("a Git LFS pointer, not the image itself", "fetch the file (git lfs pull)")
    reasons: list[str] = []
    for name in rule.formats:
        if name not in Image.OPEN:
            Image.preinit() if name in _PREINIT_FORMATS else Image.init()
        if name not in Image.OPEN:
            continue  # this build of Pillow lacks it, or its plugin is not there
        factory, accept = Image.OPEN[name]
        accepted = accept is None or accept(data[:16])
        if isinstance(accepted, str):
            reasons.append(accepted)
        elif accepted:
            try:
                if name == "JPEG":
                    rest, exif = split_jpeg(data)
                    return JpegImagePlugin.JpegImageFile(io.BytesIO(rest)), exif
                return factory(io.BytesIO(data), ""), None
            except Image.DecompressionBombError as error:
                raise _too_large_for_pillow(error) from error
            except Exception as error:  # headers are damaged in many ways
                reasons.append(f"{name}: {error or type(error).__name__}")
    detail = "; ".join(reasons) if reasons else f"it starts with {data[:12]!r}"
    raise Unusable(f"not an image in a known format ({detail})", REPLACE)


@contextmanager
def _decoder_errors() -> Iterator[None]:
    """Turn what Pillow's decoders raise on damaged data, of many types, into one."""
    try:
        yield
    except Unusable:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large_for_pillow(error) from error
    except Exception as error:
        text = str(error) or type(error).__name__
        what = "truncated file" if "truncated" in text.lower() else "damaged image"
        raise Unusable(f"{what} ({text})", REPLACE) from error


def _check_size(size: tuple[int, int], rule: DecodingRule) -> None:
    pixels = size[0] * size[1]
    if pixels > rule.max_pixels:
        raise Unusable(
            f"too large: {size[0]} × {size[1]} = {pixels:,} pixels, allowed are {rule.max_pixels:,}",
            "make it smaller, or raise DecodingRule(max_pixels=...)",
        )


def _too_large_for_pillow(error: Exception) -> Unusable:
    """WebP and TIFF readers hold themselves to Pillow's global limit."""
    return Unusable(f"too large ({error})", "make it smaller, or raise PIL.Image.MAX_IMAGE_PIXELS")


def _exif_of(image: Image.Image) -> bytes | None:
    exif = image.info.get("exif")
    return exif if isinstance(exif, bytes) else None


def _orientation(exif: bytes | None, where: str) -> int:
    if exif is None:
        return 1
    try:
        return parse_orientation(exif)
    except ValueError as error:
        warnings.warn(
            f"{where}: malformed EXIF ({error}); the image is taken as upright", SemcovWarning, stacklevel=2
        )
        return 1


def _finish(image: Image.Image, orientation: int, rule: DecodingRule) -> Image.Image:
    """Return a new upright RGB image without anything that would be applied twice."""
    with _decoder_errors():
        rgb = _to_rgb(image, rule)
        if orientation in _UPRIGHT:
            rgb = rgb.transpose(_UPRIGHT[orientation])
    for name in _APPLIED:
        rgb.info.pop(name, None)
    return rgb


def _to_rgb(image: Image.Image, rule: DecodingRule) -> Image.Image:
    if image.mode in ("F", "I") or image.mode.startswith("I;16"):
        image = _deep_to_grey(image, rule)
    elif image.mode in ("La", "RGBa"):
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    if not image.has_transparency_data:
        return image.convert("RGB")
    background = Image.new("RGBA", image.size, (*rule.alpha_background, 255))
    opaque = Image.alpha_composite(background, image.convert("RGBA")).convert("RGB")
    opaque.info = dict(image.info)
    return opaque


def _deep_to_grey(image: Image.Image, rule: DecodingRule) -> Image.Image:
    """Turn 16-bit, 32-bit and float grey into 8-bit grey; a 16-bit colour key becomes alpha.

    Older versions of Pillow read 16-bit PNG as 32-bit whole numbers, so these count as 16-bit.
    """
    values = np.asarray(image)
    if image.mode == "F":
        grey = Image.fromarray(_scale(values, rule.float_range, "float_range"))
    else:
        grey = Image.fromarray(_scale(values, rule.sixteen_bit_range, "sixteen_bit_range"))
    key = image.info.get("transparency")
    if isinstance(key, int):
        grey.putalpha(Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)))
    grey.info = {name: value for name, value in image.info.items() if name != "transparency"}
    return grey


def _image_of_array(array: object, rule: DecodingRule) -> Image.Image:
    try:
        values = np.asarray(array)
    except Exception as error:  # whatever a foreign object raises when asked for its values
        raise Unusable(f"{type(array).__name__} does not convert to an array ({error})", REPLACE) from error
    channels = values.shape[2] if values.ndim == 3 else 1
    if values.ndim not in (2, 3) or channels not in (1, 2, 3, 4) or 0 in values.shape:
        raise Unusable(
            f"array of shape {values.shape}",
            "need (height, width) or (height, width, channels) with 1 to 4 channels, channels last",
        )
    _check_size((values.shape[1], values.shape[0]), rule)
    eight_bit = _eight_bit(values, rule)
    return Image.fromarray(eight_bit[:, :, 0] if values.ndim == 3 and channels == 1 else eight_bit)


def _eight_bit(values: NDArray[np.generic], rule: DecodingRule) -> NDArray[np.uint8]:
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    if values.dtype == np.uint8:
        return values.astype(np.uint8, copy=False)
    if values.dtype == np.uint16:
        return _scale(values, rule.sixteen_bit_range, "sixteen_bit_range")
    if np.issubdtype(values.dtype, np.floating):
        return _scale(values, rule.float_range, "float_range")
    raise Unusable(f"array of type {values.dtype}", "need uint8, bool, uint16 or float")


def _scale(values: NDArray[np.generic], limits: tuple[float, float], name: str) -> NDArray[np.uint8]:
    """Map a range to 0..255 (rounded); a thousandth of the range beyond it is rounding and is clipped."""
    low, high = (float(limit) for limit in limits)
    numbers = values.astype(np.float32)
    smallest, largest = float(numbers.min()), float(numbers.max())
    slack = (high - low) / 1000
    if not (low - slack <= smallest and largest <= high + slack):  # NaN ends here as well
        raise Unusable(
            f"pixels from {smallest:g} to {largest:g}, outside {low:g} to {high:g}",
            f"set DecodingRule({name}=...) to the range of the data",
        )
    scaled: NDArray[np.float32] = np.clip((numbers - low) * (255 / (high - low)), 0, 255)
    return np.rint(scaled).astype(np.uint8)
