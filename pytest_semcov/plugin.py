"""The pytest plugin: hooks only, each a few lines.

Loading it costs next to nothing: models and numeric libraries are imported
when a test first asks for them. State lives in ``config.stash`` and
``item.stash``; verdicts travel on test reports as plain Python, so that
they arrive whether a test ran here or in an xdist worker.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Generator
from typing import Any

import pytest

from pytest_semcov import __version__, options
from pytest_semcov.active import ACTIVE, ActiveTest
from pytest_semcov.errors import ArgumentError, MissingDependencyError, ModelError, VerdictFailed
from pytest_semcov.fixtures import (
    AUGMENT,
    FIXTURES,
    OVERRIDES,
    PROGRESS,
    REFUSED,
    SETTINGS,
    _semcov_request,
    semcov,
    semcov_augmented,
    semcov_dataset,
    semcov_descriptors,
    semcov_embedder,
    semcov_embeddings,
    semcov_encoder,
    semcov_labels,
    semcov_models,
    semcov_translators,
    workbench_of,
)
from pytest_semcov.reporting import json_report, junit, terminal
from pytest_semcov.reporting.collector import Collector
from pytest_semcov.reporting.records import Record, RecordSink

__all__ = [
    "_semcov_request",
    "semcov",
    "semcov_augmented",
    "semcov_dataset",
    "semcov_descriptors",
    "semcov_embedder",
    "semcov_embeddings",
    "semcov_encoder",
    "semcov_labels",
    "semcov_models",
    "semcov_translators",
]

SINK = pytest.StashKey[RecordSink]()
"""Verdicts of a running test (item.stash)."""

CONCERNED = pytest.StashKey[bool]()
"""Set for a test that uses this package (item.stash)."""

PROBLEM = pytest.StashKey[str]()
"""What is wrong with a test's markers (item.stash)."""

_TROUBLE = (ModelError, MissingDependencyError)
"""Trouble with the tool, not with the data."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options and ini keys."""
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register markers, resolve settings, and collect verdicts unless this is a worker."""
    for line in options.marker_lines():
        config.addinivalue_line("markers", line)
    config.stash[SETTINGS] = options.resolve(config)
    if _worker(config) == "":
        config.pluginmanager.register(SessionReport(config), "semcov-session-report")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name models, device, seed and cache if anything was set, or at ``-v``."""
    if config.get_verbosity() < 1 and not any(options.given(config)):
        return []
    settings = config.stash[SETTINGS]
    shown = [f"{name}={getattr(settings, name)}" for name in ("encoder", "embedder", "device", "seed")]
    return [f"semcov {__version__}: {', '.join(shown)}, cache={settings.cache_dir or 'default'}"]


@pytest.hookimpl(tryfirst=True)  # before -m selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use this package, and let its functions see their fixtures.

    Where tests reach the functions through a helper module, any test may use them: all get to see theirs.
    """
    modules: dict[int, bool] = {}
    anywhere = "pytest_semcov.assertions" in sys.modules
    for item in items:
        names = getattr(item, "fixturenames", None)
        module = getattr(item, "module", None)
        if id(module) not in modules:
            modules[id(module)] = _uses_package(module)
        marked = any(item.get_closest_marker(name) for name in options.MARKERS)
        concerned = marked or modules[id(module)] or not FIXTURES.isdisjoint(names or ())
        if concerned:
            item.stash[CONCERNED] = True
        if concerned and item.get_closest_marker("semcov") is None:
            item.add_marker("semcov")
        if (concerned or anywhere) and names is not None and "_semcov_request" not in names:
            names.insert(0, "_semcov_request")  # first, so that other fixtures may use the functions too


def _uses_package(module: object) -> bool:
    """Whether a test module holds the package, or a function or class of it, under any name."""
    for value in vars(module).values() if isinstance(module, types.ModuleType) else ():
        if isinstance(value, types.ModuleType):
            name = value.__name__
        elif isinstance(value, (types.FunctionType, type)):
            name = value.__module__
        else:
            continue
        if isinstance(name, str) and name.partition(".")[0] == "pytest_semcov":
            return True
    return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Make the test the active one, for assertion functions that are called without a workbench."""
    with ACTIVE.running(_activate(item)):
        return (yield)


def _activate(item: pytest.Item) -> ActiveTest:
    settings = item.config.stash[SETTINGS]
    try:
        overrides = options.merge_markers("semcov", item.iter_markers("semcov"))
        item.stash[SETTINGS] = settings = settings.override(overrides, where="marker semcov")
        item.stash[OVERRIDES] = overrides
        item.stash[AUGMENT] = options.check_augment(item)
    except ArgumentError as error:
        item.stash[PROBLEM] = str(error)
    sink = item.stash[SINK] = RecordSink(item.nodeid, _worker(item.config))
    return ActiveTest(lambda: workbench_of(item), sink.add, settings.inconclusive)


@pytest.hookimpl(tryfirst=True)  # before any fixture is set up
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse markers that are wrong."""
    if PROBLEM in item.stash:
        pytest.fail(item.stash[PROBLEM], pytrace=False)


@pytest.hookimpl(tryfirst=True)  # instead of the test's body
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail the test, not its setup, if the synthetic images it asked for are not sufficient."""
    __tracebackhide__ = True
    if REFUSED in item.stash:
        raise item.stash[REFUSED].with_traceback(None)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # properties must be there before the report is made
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the verdicts of this phase on its report."""
    records = item.stash[SINK].drain(call.when) if SINK in item.stash else []
    if PROGRESS in item.config.stash:
        item.config.stash[PROGRESS].clear()
    if records and item.config.stash[SETTINGS].junit:
        junit.add_properties(item.user_properties, records)
    report = yield
    if records:
        item.stash[CONCERNED] = True
    if CONCERNED in item.stash:
        report.semcov = records  # type: ignore[attr-defined]  # reports carry further attributes
    if call.excinfo is not None and report.failed and call.excinfo.errisinstance(_TROUBLE):
        report.semcov_trouble = True  # type: ignore[attr-defined]
    shown = _not_raised(records, call.excinfo)
    if shown:
        report.sections.append(("semcov", terminal.section(shown)))
    return report


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Count a test in which a model or a library is missing as an error: nothing was learnt of the data."""
    return ("error", "E", "ERROR") if getattr(report, "semcov_trouble", False) else None


def _not_raised(records: list[Record], excinfo: pytest.ExceptionInfo[BaseException] | None) -> list[Record]:
    """Leave out the verdict that the test's failure shows anyway."""
    raised = None if excinfo is None else excinfo.value
    if isinstance(raised, VerdictFailed) and records and records[-1].get("subject") == raised.verdict.subject:
        return records[:-1]
    return records


def _worker(config: pytest.Config) -> str:
    """Return the name of the xdist worker that this process is, empty if it is none."""
    return str(getattr(config, "workerinput", {}).get("workerid", ""))


class SessionReport:
    """Hooks of the process that sees all reports: plain pytest, or xdist's controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.collector = Collector()
        self.written = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the verdicts on a report."""
        self.collector.add(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Note a worker that crashed."""
        if error:
            self.collector.worker_lost(node.gateway.id, error)

    @pytest.hookimpl(trylast=True)  # after the last report
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the JSON report."""
        stopped = session.shouldfail or session.shouldstop
        if stopped or exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            self.collector.incomplete.append(f"the run ended early ({stopped or 'interrupted'})")
        settings = self.config.stash[SETTINGS]
        if settings.report is None or self.config.getoption("collectonly", False):
            return
        report = json_report.document(self.collector, settings=settings.to_dict(), exit_status=exitstatus)
        try:
            json_report.write(settings.report, report)
            self.written = f"report: {settings.report}"
        except OSError as error:
            self.written = f"report NOT written: {error}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was found."""
        if self.config.getoption("no_summary", False):
            return
        width = self.config.get_terminal_writer().fullwidth
        verbosity = self.config.get_verbosity()
        lines = terminal.summary(self.collector, verbosity=verbosity, width=width)
        if self.written and (lines or "NOT" in self.written):
            lines.insert(0, terminal.Line(self.written))
        if lines:
            terminalreporter.section("semcov")
        for line in lines:
            terminalreporter.write_line(line.text, **({line.colour: True} if line.colour else {}))
