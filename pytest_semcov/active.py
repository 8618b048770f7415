"""The workbench and the record sink of the running test.

Standard library only: the plugin sets it for every test without loading
anything heavy. Outside pytest it is empty and the assertions take an
explicit ``workbench=``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
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


ACTIVE: ContextVar[ActiveTest | None] = ContextVar("pytest_semcov_active", default=None)
