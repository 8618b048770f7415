"""The workbench and the record sink of the running test.

Standard library only: the plugin sets it for every test without loading
anything heavy. Outside pytest it is empty and the assertions take an
explicit ``workbench=``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_semcov.workbench import Workbench


@dataclass(frozen=True, slots=True)
class ActiveTest:
    """What an assertion needs to know of the test that it runs in.

    Parameters
    ----------
    workbench
        Builds (or returns) the workbench when it is first needed.
    record
        Takes one verdict as plain Python, before anything is raised.
    inconclusive
        How INCONCLUSIVE shows: ``"fail"``, ``"skip"`` or ``"xfail"``.
    """

    workbench: Callable[[], Workbench]
    record: Callable[[dict[str, Any]], None]
    inconclusive: str = "fail"


class Active:
    """The test that runs in this process, seen from all of its threads and tasks.

    A context variable would not do: new threads start without its value, and test runners that keep
    one task for several coroutines would show them the first test for ever. A run inside a test (pytester)
    covers the outer test while it lasts.
    """

    def __init__(self) -> None:
        self._running: list[ActiveTest] = []

    def get(self) -> ActiveTest | None:
        """Return the running test, ``None`` outside of pytest and between tests."""
        return self._running[-1] if self._running else None

    @contextmanager
    def running(self, test: ActiveTest) -> Iterator[None]:
        """Make a test the running one."""
        self._running.append(test)
        try:
            yield
        finally:
            self._running.pop()


ACTIVE = Active()
