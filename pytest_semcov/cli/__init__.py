"""The command ``semcov``: answers about data sets, and synthetic images, outside pytest.

Exit status: 0 done, 1 the data or a model cannot be used (or no image could be made), 2 wrong arguments,
130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from pytest_semcov import __version__
from pytest_semcov.cli.fit import add_fit_translator
from pytest_semcov.cli.power import add_power
from pytest_semcov.cli.translate import add_translate
from pytest_semcov.errors import ArgumentError, SemcovError, SemcovWarning, printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        Command line without the program's name; default: that of the process.

    Returns
    -------
    status
        0, 1, 2 or 130; wrong usage leaves by ``SystemExit`` with status 2, as argparse does.
    """
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", SemcovWarning)
        warnings.showwarning = _show_warning
        try:
            answer: str | tuple[str, int] = options.run(options)
        except ArgumentError as error:
            return _refuse(options.command, error, 2)
        except (SemcovError, OSError) as error:
            return _refuse(options.command, error, 1)
        except KeyboardInterrupt as interrupt:
            return _refuse(options.command, str(interrupt) or "interrupted", 130)
    text, status = (answer, 0) if isinstance(answer, str) else answer
    _write(text)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="semcov", description="Semantic coverage of image data sets, outside pytest."
    )
    parser.add_argument("--version", action="version", version=f"semcov {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_power(commands)
    add_fit_translator(commands)
    add_translate(commands)
    return parser


def _write(text: str) -> None:
    """Print the answer; whoever reads may stop reading, or know fewer characters."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, which must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(command: str, reason: object, status: int) -> int:
    """Print one line on what is wrong."""
    line = re.sub(r"\s*\n\s*", " ", printable(str(reason)))
    print(f"semcov {command}: {line}", file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"semcov: warning: {printable(str(message))}", file=sys.stderr)
