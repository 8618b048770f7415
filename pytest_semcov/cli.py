"""The command ``semcov``: answers about data sets outside pytest.

Exit status: 0 answered, 1 the data or a model cannot be used, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pytest_semcov import __version__
from pytest_semcov.errors import ArgumentError, SemcovError, SemcovWarning, printable
from pytest_semcov.settings import RULES, Settings

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.reporting.progress import ProgressLine

_SETTINGS = (
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
    "min_count",
    "min_share",
    "min_groups",
    "min_certainty",
    "max_uncertain",
    "min_lift",
    "max_p",
    "clusters",
    "min_gap_closed",
    "min_completeness_gain",
    "repeats",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        Command line without the program's name; default: that of the process.

    Returns
    -------
    status
        0, 1 or 2; wrong usage leaves by ``SystemExit`` with status 2, as argparse does.
    """
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", SemcovWarning)
        warnings.showwarning = _show_warning
        try:
            text: str = options.run(options)
        except ArgumentError as error:
            return _refuse(options.command, error, 2)
        except (SemcovError, OSError) as error:
            return _refuse(options.command, error, 1)
        except KeyboardInterrupt:
            return _refuse(options.command, "interrupted", 130)
    return _write(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="semcov", description="Semantic coverage of image data sets, outside pytest."
    )
    parser.add_argument("--version", action="version", version=f"semcov {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_power(commands)
    return parser


def _add_power(commands: Any) -> None:
    power = commands.add_parser(
        "power",
        help="how many images of a category are needed",
        description="How many images of a category are needed: for its coverage, for its importance to be "
        "known, and for synthetic images to be judged by them.",
        epilog="Exit status: 0 answered, 1 the data or a model cannot be used, 2 wrong arguments.",
    )
    power.add_argument(
        "dataset", metavar="DATASET", help="folder of images, or a COCO annotation file (.json)"
    )
    power.add_argument("--semantic", required=True, metavar="NAME", help="e.g. day_night")
    power.add_argument("--category", required=True, metavar="NAME", help="e.g. night")
    power.add_argument(
        "--labels",
        metavar="COLUMN",
        help="metadata column that holds the categories, 'label' for class folders (default: the encoder)",
    )
    power.add_argument(
        "--images", metavar="DIR", help="folder of the images of a COCO file (default: its own)"
    )
    power.add_argument(
        "--group",
        metavar="COLUMN",
        help="column that names the video or scene; 'folder' for the folder above",
    )
    power.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="X",
        help="share of the gap that the synthetic images close; 1 = as good as real ones (default: 1)",
    )
    power.add_argument(
        "--lift",
        type=float,
        default=2.0,
        metavar="X",
        help="lift of cluster recall that should be called important (default: 2)",
    )
    power.add_argument("--json", action="store_true", help="print JSON instead of a table")
    settings = power.add_argument_group("settings", "as pytest's semcov_* keys, with the same defaults")
    defaults = Settings().to_dict()
    for name in _SETTINGS:
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
    power.set_defaults(run=_power)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _power(options: argparse.Namespace) -> str:
    """Return the answer of ``semcov power``."""
    settings = _settings(options)
    from pytest_semcov.planning import plan_images
    from pytest_semcov.workbench import Workbench

    progress = _progress(sys.stderr)
    try:
        plan = plan_images(
            Workbench(settings, progress=progress),
            _dataset(options),
            options.semantic,
            options.category,
            labels=options.labels,
            share=options.share,
            lift=options.lift,
        )
    finally:
        if progress is not None:
            progress.clear()
    return json.dumps(plan.to_dict(), indent=2, allow_nan=False) if options.json else str(plan)


def _settings(options: argparse.Namespace) -> Settings:
    """Return the settings given; relative paths are relative to the working folder."""
    given = {name: getattr(options, name) for name in _SETTINGS if getattr(options, name) is not None}
    return Settings(
        **{
            name: RULES[name].read(written, where=_option(name), folder=Path.cwd())
            for name, written in given.items()
        }
    )


def _dataset(options: argparse.Namespace) -> Dataset:
    """Return the images."""
    if Path(options.dataset).suffix.lower() == ".json":
        from pytest_semcov.data.coco import CocoDataset

        folder = Path(options.dataset).parent if options.images is None else Path(options.images)
        return CocoDataset(options.dataset, folder, group=options.group)
    if options.images is not None:
        raise ArgumentError(f"--images: {options.dataset!r} is no annotation file (.json)")
    from pytest_semcov.data.folder import ImageFolder

    return ImageFolder(options.dataset, group=options.group)


class _Stream:
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


def _progress(stream: TextIO) -> ProgressLine | None:
    """Return a progress line for people who watch, ``None`` where the stream is no terminal."""
    if not stream.isatty():
        return None
    from pytest_semcov.reporting.progress import ProgressLine

    return ProgressLine(_Stream(stream))


def _write(text: str) -> int:
    """Print the answer; whoever reads may stop reading, or know fewer characters."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, which must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _refuse(command: str, reason: object, status: int) -> int:
    """Print one line on what is wrong."""
    line = re.sub(r"\s*\n\s*", " ", printable(str(reason)))
    print(f"semcov {command}: {line}", file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"semcov: warning: {printable(str(message))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
