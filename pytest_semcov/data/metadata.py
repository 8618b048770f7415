"""Annotation files: tables beside images, and what all sources check in the same way."""

from __future__ import annotations

import csv
import io
import json
import math
import numbers
import os
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from pytest_semcov.data.samples import Box, Sample
from pytest_semcov.errors import DatasetError, SemcovWarning, missing_dependency

METADATA_FILES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_SHOWN = 10

GroupRule = str | Callable[[Sample], str | None] | None
"""How samples get their group: ``None``, a metadata column, ``"folder"`` (folders only), or a function."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a metadata file.

    Parameters
    ----------
    where
        File and line (or row), for messages.
    values
        Column → value; text in CSV, JSON or parquet values otherwise.
    """

    where: str
    values: Mapping[str, object]


def read_table(file: Path) -> list[Row]:
    """Read ``metadata.csv``, ``metadata.jsonl`` or ``metadata.parquet``.

    CSV has a header line and commas, and is UTF-8 (with or without a byte order mark) or UTF-16 with
    one; an empty cell is ``None``; other cells stay text.

    Raises
    ------
    DatasetError
        If the file is malformed; names file and line.
    MissingDependencyError
        If it is parquet and pyarrow is not installed.
    """
    if file.suffix == ".parquet":
        return _read_parquet(file)
    text = read_text(file)
    return _read_jsonl(file, text) if file.suffix == ".jsonl" else _read_csv(file, text)


def read_text(file: Path) -> str:
    """Read a text file as UTF-8 (with or without a byte order mark), or as UTF-16 with one.

    Raises
    ------
    DatasetError
        If it cannot be read or decoded; names file and line.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DatasetError(f"{file}: cannot be read ({error.strerror or error})") from error
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"{file}, line {line}: not UTF-8 ({error.reason}); save the file as UTF-8"
        ) from error


def contained(folder: Path, name: object, *, where: str) -> str:
    """Check a file name from an annotation file and return it as a relative POSIX path.

    Annotation files may name files in subfolders of the data set's folder, never outside of it:
    absolute paths, ``..`` and symbolic links that lead out are refused.

    Parameters
    ----------
    folder
        The folder that the name is relative to, resolved (no symbolic link in its own path).
    name
        The name as annotated; backslashes count as slashes where no file has them in its name.
    where
        File and line, for messages.

    Raises
    ------
    DatasetError
        If the name is no text, is empty or leads out of the folder.
    """
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise DatasetError(f"{where}: file name {name!r}; need a path relative to {folder}")
    if "\\" in name and not (folder / name).exists():
        name = name.replace("\\", "/")
    path = PurePosixPath(name)
    if path.is_absolute() or PureWindowsPath(name).drive or ".." in path.parts:
        raise DatasetError(
            f"{where}: file name {name!r} leads out of {folder}; "
            "file names are relative to this folder and stay inside it"
        )
    if not (folder / path).resolve().is_relative_to(folder):
        raise DatasetError(
            f"{where}: {name!r} is a symbolic link that leads out of {folder}; "
            "copy the file into the folder or list it without an annotation file"
        )
    return path.as_posix()


def label_texts(values: Sequence[object], names: Sequence[str], *, what: str = "label") -> list[str | None]:
    """Turn labels (or groups) into text, refusing to mix types: ``"1"`` and ``1`` are not the same.

    Parameters
    ----------
    values
        Text, whole numbers or booleans, all of one kind; ``None`` and empty text mean "none".
    names
        Ids for messages, one a value.
    what
        What the values are, for messages.

    Raises
    ------
    DatasetError
        For mixed kinds (names two samples) and for other kinds such as floats or lists.
    """
    first: dict[str, tuple[str, object]] = {}
    texts: list[str | None] = []
    for name, value in zip(names, values, strict=True):
        if value is None or value == "":
            texts.append(None)
            continue
        kind = _kind(value)
        if kind is None:
            raise DatasetError(
                f"{name}: {what} {value!r} is of type {type(value).__name__}; need text or whole numbers"
            )
        first.setdefault(kind, (name, value))
        texts.append(str(value))
    if len(first) > 1:
        (one, one_value), (other, other_value) = list(first.values())[:2]
        raise DatasetError(
            f"{what}s mix {' and '.join(first)}: {one} has {one_value!r}, {other} has {other_value!r}; "
            "use one type, since '1' and 1 are not the same"
        )
    return texts


def corner_boxes(
    corners: Iterable[Sequence[float]], labels: Iterable[str], size: tuple[float, float] | None = None
) -> tuple[tuple[Box, ...], int]:
    """Build boxes from corners, clipped to the image.

    Parameters
    ----------
    corners
        ``(x0, y0, x1, y1)`` each, in pixels.
    labels
        Class names, one a box.
    size
        Width and height of the image, where known.

    Returns
    -------
    tuple
        The boxes, and how many were left out because they have no area (inside the image) or are not
        finite.
    """
    width, height = (math.inf, math.inf) if size is None else size
    boxes: list[Box] = []
    left_out = 0
    for (x0, y0, x1, y1), label in zip(corners, labels, strict=True):
        box = Box(
            label,
            x0=max(0.0, float(x0)),
            y0=max(0.0, float(y0)),
            x1=min(width, float(x1)),
            y1=min(height, float(y1)),
        )
        finite = all(math.isfinite(value) for value in (x0, y0, x1, y1))
        if finite and box.x0 < box.x1 and box.y0 < box.y1:
            boxes.append(box)
        else:
            left_out += 1
    return tuple(boxes), left_out


def object_boxes(objects: object, *, where: str) -> tuple[tuple[Box, ...], int]:
    """Build boxes from an ``objects`` column in Hugging Face style.

    Parameters
    ----------
    objects
        ``{"bbox": [[x, y, width, height], ...], "categories": [...]}``, also as JSON text; ``None`` = none.
        The second key may be ``category``, ``labels`` or ``label``.
    where
        File and line, for messages.

    Returns
    -------
    tuple
        As for :func:`corner_boxes`.

    Raises
    ------
    DatasetError
        If it has another form.
    """
    if objects is None:
        return (), 0
    if isinstance(objects, str):
        try:
            objects = json.loads(objects)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{where}: objects is not JSON ({error})") from error
    form = 'objects must be {"bbox": [[x, y, width, height], ...], "categories": [...]}'
    if not isinstance(objects, Mapping) or not isinstance(objects.get("bbox"), Sequence):
        raise DatasetError(f"{where}: {form}, not {_short(objects)}")
    boxes = objects["bbox"]
    keys = [key for key in ("categories", "category", "labels", "label") if key in objects]
    categories = objects[keys[0]] if keys else None
    if not isinstance(categories, Sequence) or isinstance(categories, str) or len(categories) != len(boxes):
        raise DatasetError(f"{where}: {form}, one category a box, not {_short(objects)}")
    names = label_texts(categories, [f"{where}, box {i}" for i in range(len(boxes))], what="category")
    corners = [corners_of_box(box, where=f"{where}, box {index}") for index, box in enumerate(boxes)]
    unnamed = [index for index, name in enumerate(names) if name is None]
    if unnamed:
        raise DatasetError(f"{where}, box {unnamed[0]}: no category")
    return corner_boxes(corners, [name for name in names if name is not None])


def corners_of_box(box: object, *, where: str) -> tuple[float, float, float, float]:
    """Turn ``[x, y, width, height]`` into corners.

    Raises
    ------
    DatasetError
        If it is not four numbers.
    """
    if (
        not isinstance(box, Sequence)
        or len(box) != 4
        or not all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in box)
    ):
        raise DatasetError(f"{where}: box {_short(box)}; need four numbers [x, y, width, height]")
    x, y, width, height = (float(value) for value in box)
    return x, y, x + width, y + height


def with_groups(samples: Sequence[Sample], group: GroupRule) -> list[Sample]:
    """Give samples their group by a metadata column or a function; ``None`` leaves them as they are.

    Raises
    ------
    DatasetError
        If no sample has the column, or values mix types.
    """
    if group is None:
        return list(samples)
    if callable(group):
        values: list[object] = [group(sample) for sample in samples]
    else:
        known = sorted({key for sample in samples for key in sample.metadata})
        if samples and group not in known:
            raise DatasetError(
                f"no metadata column {group!r} to group by; there are {', '.join(known) or 'none'}"
            )
        values = [sample.metadata.get(group) for sample in samples]
    texts = label_texts(values, [sample.id for sample in samples], what="group")
    return [replace(sample, group=text) for sample, text in zip(samples, texts, strict=True)]


def shown(names: Sequence[str]) -> str:
    """Return the first ten names for a message, and how many more there are."""
    listed = ", ".join(repr(name) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{listed} and {more} more" if more > 0 else listed


def portable_name(name: str) -> str:
    """Return a file name that is the same on every file system.

    Unicode is composed (NFC; macOS stores it decomposed), bytes that are no UTF-8 become a backslash, an
    x and two hexadecimal digits.
    """
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "backslashreplace"))


def warn_of_boxes(name: str, left_out: Mapping[str, int]) -> None:
    """Warn that boxes were left out: how many, and of which samples (id → number)."""
    if left_out:
        warnings.warn(
            f"{name}: {sum(left_out.values())} boxes without area inside their image were left out, "
            f"of {shown(list(left_out))}",
            SemcovWarning,
            stacklevel=2,
        )


def json_error(file: Path, error: ValueError | RecursionError, *, line: int | None = None) -> DatasetError:
    """Build the message for malformed JSON: file, line, column."""
    if isinstance(error, json.JSONDecodeError):
        place = f"line {line or error.lineno}, column {error.colno}"
        return DatasetError(f"{file}, {place}: not JSON ({error.msg})")
    return DatasetError(f"{file}: not JSON ({error})")


def _kind(value: object) -> str | None:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's boolean is not Python's
        return "booleans"
    return "whole numbers" if isinstance(value, numbers.Integral) else None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _read_csv(file: Path, text: str) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    try:
        header = next(reader, [])
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated:
            raise DatasetError(f"{file}, line 1: column {repeated[0]!r} occurs twice")
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header):
                raise DatasetError(
                    f"{file}, line {reader.line_num}: {len(cells)} cells for {len(header)} columns "
                    f"({', '.join(header)}); columns are separated by commas"
                )
            values = {name: cell or None for name, cell in zip(header, cells, strict=True)}
            rows.append(Row(f"{file}, line {reader.line_num}", values))
    except csv.Error as error:
        raise DatasetError(f"{file}, line {reader.line_num}: not CSV ({error})") from error
    return rows


def _read_jsonl(file: Path, text: str) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise json_error(file, error, line=number) from error
        if not isinstance(values, dict):
            raise DatasetError(f"{file}, line {number}: need one JSON object a line, not {_short(values)}")
        rows.append(Row(f"{file}, line {number}", values))
    return rows


def _read_parquet(file: Path) -> list[Row]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise missing_dependency("pyarrow", extra="parquet", purpose=str(file)) from error
    try:
        table = parquet.read_table(file).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these
        raise DatasetError(f"{file}: not parquet ({error})") from error
    return [Row(f"{file}, row {number}", values) for number, values in enumerate(table, start=1)]
