"""Decoding: the one rule by which every image becomes 8-bit RGB, and where images come from.

=====================  ==============================================================================
what the image has     what happens
=====================  ==============================================================================
EXIF orientation       applied once, before size and boxes mean anything; 0 counts as 1 (upright);
                       a malformed block warns with the path and counts as 1; XMP is not read
palette                expanded; entries with transparency are composited like alpha
alpha, colour key      composited over ``alpha_background``
grey, grey + alpha     repeated into three channels
16-bit grey            ``sixteen_bit_range`` is mapped to 0..255; values outside it are an error
16-bit colour          high byte (this is how Pillow reads it)
float                  ``float_range`` is mapped to 0..255; values outside it, NaN and infinity are errors
CMYK, YCCK             converted by Pillow without colour management
ICC profile            ignored
animation, pages       first frame; of a multi-picture JPEG the primary picture
truncated, damaged     an error; Pillow's global ``LOAD_TRUNCATED_IMAGES`` is never set
more than max_pixels   an error; Pillow's global ``MAX_IMAGE_PIXELS`` is never changed
anything else          an error that names the image, what is wrong with it and what to do
=====================  ==============================================================================

A JPEG that is much larger than needed may be decoded at 1/2, 1/4 or 1/8 of its size: with
``minimum_size`` the shorter side stays at twice that size or more, so that the resize which follows
still averages over at least four pixels.

Nothing heavy is imported before an image is decoded.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_semcov.errors import ArgumentError, ImageError

if TYPE_CHECKING:
    from PIL import Image

RASTER_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF")
REPLACE = "replace or remove the image, or allow bad images to be skipped (on_bad_image = skip)"


@dataclass(frozen=True, slots=True)
class DecodingRule:
    """How images become 8-bit RGB (see the module's table).

    Parameters
    ----------
    alpha_background
        RGB colour, 0..255, that transparent images are composited over.
    sixteen_bit_range
        Values of 16-bit grey that become 0 and 255, e.g. ``(0, 4095)`` for a 12-bit sensor.
    float_range
        Values of float images that become 0 and 255.
    max_pixels
        Largest width × height that is decoded.
    formats
        Pillow's names of the formats that are read: raster formats that can be told by their first
        bytes (TGA cannot; Pillow starts other programs for EPS). A format that a Pillow plugin adds
        (HEIF) can be named here.

    Raises
    ------
    ArgumentError
        If a value is outside what is described here.
    """

    alpha_background: tuple[int, int, int] = (255, 255, 255)
    sixteen_bit_range: tuple[int, int] = (0, 65535)
    float_range: tuple[float, float] = (0.0, 1.0)
    max_pixels: int = 100_000_000
    formats: tuple[str, ...] = RASTER_FORMATS

    def __post_init__(self) -> None:
        background = self.alpha_background
        if len(background) != 3 or not all(0 <= value <= 255 for value in background):
            raise ArgumentError(f"alpha_background {background}: need three values in 0..255")
        for name in ("sixteen_bit_range", "float_range"):
            low, high = getattr(self, name)
            if not low < high:
                raise ArgumentError(f"{name} ({low}, {high}): the first value must be the smaller one")
        if self.max_pixels < 1:
            raise ArgumentError(f"max_pixels {self.max_pixels}: must be at least 1")

    @property
    def fingerprint(self) -> str:
        """Text of everything in the rule that changes pixels; part of every content key."""
        red, green, blue = (int(value) for value in self.alpha_background)
        first, last = (int(value) for value in self.sixteen_bit_range)
        low, high = (float(value) for value in self.float_range)
        return f"decoding 1; alpha over {red},{green},{blue}; 16 bit {first}..{last}; float {low}..{high}"


DEFAULT_RULE = DecodingRule()


class Unusable(Exception):  # noqa: N818 - becomes an ImageError as soon as the image's name is known
    """What is wrong with an image, and what to do, while its name is not known yet."""

    def __init__(self, rule: str, remedy: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.remedy = remedy


class FileSource:
    """An image file.

    Parameters
    ----------
    file
        Path of the file; nothing is read before :meth:`load` or :meth:`content_key`.
    rule
        The decoding rule.
    """

    __slots__ = ("_key", "_path", "_rule")

    def __init__(self, file: str | os.PathLike[str], rule: DecodingRule = DEFAULT_RULE) -> None:
        self._path = Path(file)
        self._rule = rule
        self._key: tuple[tuple[int, int], str] | None = None  # (size, time of change), key

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def load(self, sample_id: str, *, minimum_size: int | None = None) -> Image.Image:
        """Decode to RGB by the module's rule.

        Parameters
        ----------
        sample_id
            Used in messages.
        minimum_size
            Shorter side (pixels) that the caller needs: a large JPEG may be decoded at reduced scale,
            with the shorter side at twice this or more.

        Raises
        ------
        ImageError
            If the file cannot be read or is no image that the rule allows.
        """
        from pytest_semcov.data import pixels

        with _naming(sample_id, self._path):
            self._version()
            where = f"{sample_id} ({self._path})"
            return pixels.decode(self._read(), self._rule, minimum_size=minimum_size, where=where)

    def content_key(self) -> str:
        """Return SHA-256 over the rule and the file's bytes (hex); nothing is decoded.

        The key is kept until the file's size or time of change differ.

        Raises
        ------
        ImageError
            If the file cannot be read.
        """
        with _naming(str(self._path), None):
            version = self._version()
            if self._key is None or self._key[0] != version:
                self._key = version, _digest(self._rule, self._read())
            return self._key[1]

    def _version(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise _unreadable(error) from error
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
            raise Unusable("not a file", REPLACE)
        return status.st_size, status.st_mtime_ns

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise _unreadable(error) from error


class MemorySource:
    """An image held in memory, or fetched on demand from another library's data set.

    Parameters
    ----------
    item
        PIL image; the bytes of an image file; an array ``(height, width)`` or
        ``(height, width, channels)`` with 1 (grey), 2 (grey + alpha), 3 (RGB) or 4 (RGBA) channels of
        uint8, bool (False, True become 0, 255), uint16 or float, or anything that numpy converts to that;
        or a function without parameters that returns one of these, called for every load.
    rule
        The decoding rule.
    """

    __slots__ = ("_item", "_rule")

    def __init__(self, item: object, rule: DecodingRule = DEFAULT_RULE) -> None:
        self._item = item
        self._rule = rule

    @property
    def path(self) -> None:
        """No file."""
        return

    def load(self, sample_id: str, *, minimum_size: int | None = None) -> Image.Image:
        """Convert to RGB by the module's rule.

        Parameters
        ----------
        sample_id
            Used in messages.
        minimum_size
            As for a file where the item is a file's bytes; otherwise the image has its full size.

        Raises
        ------
        ImageError
            If the image cannot be used, or the function that fetches it fails.
        """
        from pytest_semcov.data import pixels

        with _naming(sample_id, None):
            item = self._fetch()
            if isinstance(item, bytes):
                return pixels.decode(item, self._rule, minimum_size=minimum_size, where=sample_id)
            return pixels.from_memory(item, self._rule, where=sample_id)

    def content_key(self) -> str:
        """Return SHA-256 over the rule and the file's bytes or the decoded pixels (hex).

        Raises
        ------
        ImageError
            If the image cannot be used.
        """
        from pytest_semcov.data import pixels

        with _naming("image in memory", None):
            item = self._fetch()
            if isinstance(item, bytes):
                return _digest(self._rule, item)
            image = pixels.from_memory(item, self._rule, where="image in memory")
            return _digest(self._rule, f"pixels {image.size}\n".encode() + image.tobytes())

    def _fetch(self) -> object:
        if not callable(self._item):
            return self._item
        try:
            return self._item()
        except Exception as error:  # foreign code: its failure is this image's failure
            raise Unusable(f"the wrapped data set raised {type(error).__name__}: {error}", REPLACE) from error


@contextmanager
def _naming(sample_id: str, path: Path | None) -> Iterator[None]:
    """Turn what is wrong with an image into an ImageError that names it."""
    try:
        yield
    except Unusable as problem:
        shown = None if path is None else str(path)
        raise ImageError(sample_id, problem.rule, problem.remedy, path=shown) from problem.__cause__


def _unreadable(error: OSError) -> Unusable:
    return Unusable(f"file cannot be read ({error.strerror or error})", "check the path and its permissions")


def _digest(rule: DecodingRule, content: bytes) -> str:
    digest = hashlib.sha256(rule.fingerprint.encode())
    digest.update(b"\0")
    digest.update(content)
    return digest.hexdigest()
