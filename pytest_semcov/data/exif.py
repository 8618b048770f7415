"""EXIF orientation, read straight from the bytes.

Pillow's EXIF reader warns, without a path, about damage anywhere in the block, and warnings cannot be
silenced from loader threads (``warnings.catch_warnings`` is not thread-safe). One tag of the first
directory is all that is needed here.
"""

from __future__ import annotations

import struct

_ORIENTATION_TAG = 0x0112
_VALUE_LAYOUTS = {1: "B", 3: "H", 4: "I"}  # TIFF types BYTE, SHORT, LONG


def parse_orientation(exif: bytes) -> int:
    """Return the orientation (1..8) in an EXIF block; 1 where it has none or says 0.

    Only the first directory of the TIFF structure is read, and only this tag (TIFF 6.0, section 2;
    EXIF 2.32, section 4.6.4): damage elsewhere in the block does not matter here.

    Raises
    ------
    ValueError
        If the block is malformed up to this tag, or the tag is not one whole number in 0..8.
    """
    block = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        raise ValueError("no byte order")
    try:
        magic, directory = struct.unpack_from(f"{order}HI", block, 2)
        if magic != 42:
            raise ValueError("no TIFF header")
        (entries,) = struct.unpack_from(f"{order}H", block, directory)
        for entry in range(entries):
            at = directory + 2 + 12 * entry
            tag, kind, count = struct.unpack_from(f"{order}HHI", block, at)
            if tag == _ORIENTATION_TAG:
                if kind not in _VALUE_LAYOUTS or count != 1:
                    raise ValueError(f"orientation of type {kind}, {count} values")
                (orientation,) = struct.unpack_from(order + _VALUE_LAYOUTS[kind], block, at + 8)
                if orientation > 8:
                    raise ValueError(f"orientation {orientation}")
                return int(orientation) or 1
    except struct.error as error:
        raise ValueError("it ends too early") from error
    return 1


def split_jpeg(data: bytes) -> tuple[bytes, bytes | None]:
    """Return a JPEG without its EXIF segments, and the first of these (``None`` if there is none)."""
    kept, exif, at = [data[:2]], None, 2
    while data[at : at + 1] == b"\xff" and at + 4 <= len(data):
        marker = data[at + 1]
        if marker in (0x01, 0xDA, 0xFF) or 0xD0 <= marker <= 0xD9:  # the pixels, or no length follows
            break
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xE1 and data[at + 4 : at + 10] == b"Exif\0\0":
            exif = data[at + 4 : end] if exif is None else exif
        else:
            kept.append(data[at:end])
        at = end
    if exif is None:
        return data, None
    return b"".join([*kept, data[at:]]), exif
