"""What the commands share: options for settings and data sets, the progress line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pytest_semcov.errors import ArgumentError
from pytest_semcov.settings import RULES, Settings

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.reporting.progress import ProgressLine

MODELS = (
    "encoder",
    "embedder",
    "device",
    "batch_size",
    "loader_threads",
    "seed",
    "cache_dir",
    "on_bad_image",
    "max_bad_images",
    "descriptors",
    "min_certainty",
)
"""Settings that say how images are read, labelled and embedded."""

SUFFICIENCY = ("min_gap_closed", "min_completeness_gain", "repeats")
"""Settings that judge synthetic images."""


def exit_status(done: str, failed: str = "") -> str:
    """Return the last line of a command's help."""
    return (
        f"Exit status: 0 {done}, 1 the data or a model cannot be used{failed}, 2 wrong arguments, "
        "130 interrupted."
    )


def add_dataset(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the options that describe a data set."""
    parser.add_argument(
        "dataset",
        metavar="DATASET",
        nargs="?" if optional else None,
        help="folder of images, or a COCO annotation file (.json)",
    )
    parser.add_argument(
        "--labels",
        metavar="COLUMN",
        help="metadata column that holds the categories, 'label' for class folders (default: the encoder)",
    )
    parser.add_argument(
        "--images", metavar="DIR", help="folder of the images of a COCO file (default: its own)"
    )
    parser.add_argument(
        "--group",
        metavar="COLUMN",
        help="column that names the video or scene; 'folder' for the folder above",
    )


def add_settings(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add options for these settings."""
    settings = parser.add_argument_group("settings", "as pytest's semcov_* keys, with the same defaults")
    defaults = Settings().to_dict()
    for name in names:
        rule = RULES[name]
        text = rule.help
        if defaults[name] not in (None, []):
            text += f" (default: {defaults[name]})"
        settings.add_argument(
            _option(name),
            action="append" if rule.kind == "paths" else "store",
            metavar={"int": "N", "float": "X", "spec": "SPEC", "path": "DIR", "paths": "FILE"}.get(
                rule.kind, "NAME"
            ),
            help=text.replace("%", "%%"),
        )
    parser.set_defaults(settings=tuple(names))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings given; relative paths are relative to the working folder."""
    given = {name: getattr(options, name) for name in options.settings if getattr(options, name) is not None}
    return Settings(
        **{
            name: RULES[name].read(written, where=_option(name), folder=Path.cwd())
            for name, written in given.items()
        }
    )


def dataset_of(options: argparse.Namespace) -> Dataset:
    """Return the images."""
    if Path(options.dataset).suffix.lower() == ".json":
        from pytest_semcov.data.coco import CocoDataset

        folder = Path(options.dataset).parent if options.images is None else Path(options.images)
        return CocoDataset(options.dataset, folder, group=options.group)
    if options.images is not None:
        raise ArgumentError(f"--images: {options.dataset!r} is no annotation file (.json)")
    from pytest_semcov.data.folder import ImageFolder

    return ImageFolder(options.dataset, group=options.group)


class Stream:
    """A terminal behind a text stream, as the progress line writes to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def ensure_newline(self) -> None:
        """Do nothing: the command has written no unfinished line."""

    def rewrite(self, line: str, **markup: bool) -> None:
        """Replace the present line."""
        self._stream.write("\r\x1b[2K" + line)

    def flush(self) -> None:
        """Bring it to the screen."""
        self._stream.flush()


@contextmanager
def progress_line() -> Iterator[ProgressLine | None]:
    """Give a progress line for people who watch, ``None`` where stderr is no terminal; wipe it at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    from pytest_semcov.reporting.progress import ProgressLine

    line = ProgressLine(Stream(sys.stderr))
    try:
        yield line
    finally:
        line.clear()


def printed_json(content: dict[str, Any]) -> str:
    """Return JSON for people and programs."""
    import json

    return json.dumps(content, indent=2, allow_nan=False)
