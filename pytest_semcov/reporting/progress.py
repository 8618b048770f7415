"""Progress of long work, for people who watch."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

PATIENCE = 1.0
"""Seconds of work before the first line."""

INTERVAL = 0.2
"""Seconds between lines."""


class Terminal(Protocol):
    """What progress needs of pytest's terminal reporter."""

    def ensure_newline(self) -> None:
        """End the line that was begun."""

    def rewrite(self, line: str, **markup: bool) -> None:
        """Replace the present line."""

    def flush(self) -> None:
        """Bring it to the screen."""


class ProgressLine:
    """One line in the terminal that is rewritten while images are worked on, and wiped at the end.

    Parameters
    ----------
    terminal
        pytest's terminal reporter, in a terminal.
    uncaptured
        Context in which output reaches the terminal.
    clock
        Seconds.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        uncaptured: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terminal = terminal
        self._uncaptured = uncaptured
        self._clock = clock
        self._what = ""
        self._began = self._written = 0.0
        self._visible = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done; ``done == total`` ends the line."""
        now = self._clock()
        if what != self._what or done == 0:
            self._what, self._began, self._written = what, now, now - INTERVAL
        if done >= total:
            self.clear()
        elif now - self._began >= PATIENCE and now - self._written >= INTERVAL:
            self._written = now
            self._show(progress_text(what, done, total, now - self._began))

    def clear(self) -> None:
        """Wipe the line, if there is one."""
        self._what = ""
        if self._visible:
            self._show("")
            self._visible = False

    def _show(self, text: str) -> None:
        with self._uncaptured():
            if not self._visible:
                self._terminal.ensure_newline()
                self._visible = True
            self._terminal.rewrite(text, erase=True)
            if not text:
                self._terminal.rewrite("")
            self._terminal.flush()


def progress_text(what: str, done: int, total: int, seconds: float) -> str:
    """Return e.g. ``semcov: embedding with r18: 1,200 of 10,000 images (12 %), 40 s left``."""
    unit = "steps" if what.startswith("training") else "images"
    text = f"semcov: {what}: {done:,} of {total:,} {unit} ({100 * done // total} %)"
    return f"{text}, {seconds / done * (total - done):.0f} s left" if done else text
