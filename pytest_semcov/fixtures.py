"""Fixtures. What is heavy is imported inside their bodies, and models load when they are first needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_semcov.errors import VerdictFailed
from pytest_semcov.reporting.progress import ProgressLine
from pytest_semcov.settings import Settings

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.embedding.protocols import Embedder, Embeddings, Encoder
    from pytest_semcov.semantics.labels import Labels
    from pytest_semcov.translation.augmentation import AugmentedDataset
    from pytest_semcov.workbench import SharedState, Workbench

SETTINGS = pytest.StashKey[Settings]()
"""Of the run (config.stash) or, with the marker's values, of a test (item.stash)."""

OVERRIDES = pytest.StashKey[dict[str, Any]]()
"""Values that a test's ``semcov`` markers set (item.stash)."""

AUGMENT = pytest.StashKey[dict[str, Any]]()
"""Arguments of a test's ``semcov_augment`` marker (item.stash)."""

REQUEST = pytest.StashKey[pytest.FixtureRequest]()
"""Gives access to the fixtures that a test sees, while it runs (item.stash)."""

REFUSED = pytest.StashKey[VerdictFailed]()
"""Why ``semcov_augmented`` may not be used: the test fails with it before its body runs (item.stash)."""

SHARED = pytest.StashKey["SharedState"]()
"""Results that all workbenches of the session share (config.stash)."""

PROGRESS = pytest.StashKey[ProgressLine]()
"""The progress line of an interactive terminal (config.stash)."""

NO_DATASET = """semcov_dataset is not defined. Define it in conftest.py, e.g.

@pytest.fixture(scope="session")
def semcov_dataset():
    return pytest_semcov.ImageFolder("path/to/images")
"""


@pytest.fixture
def semcov(request: pytest.FixtureRequest) -> Workbench:
    """Return the workbench of this test: settings (markers included), models and caches bound together.

    It loads nothing by itself. Models come from semcov_encoder and semcov_embedder when they are needed.
    """
    node = request.node
    settings = node.stash.get(SETTINGS, request.config.stash[SETTINGS])
    return make_workbench(request, settings, overrides=node.stash.get(OVERRIDES, {}))


@pytest.fixture
def _semcov_request(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets the assertion functions see the fixtures of the running test, without an argument for it."""
    request.node.stash[REQUEST] = request
    yield
    del request.node.stash[REQUEST]


@pytest.fixture(scope="session")
def semcov_dataset() -> Dataset:
    """Return the data set under release: define this fixture in conftest.py, e.g. as an ImageFolder."""
    pytest.fail(NO_DATASET, pytrace=False)


@pytest.fixture(scope="session")
def semcov_encoder(pytestconfig: pytest.Config) -> str | Encoder:
    """Return the image-text model that labels images: a spec or an object (default: --semcov-encoder)."""
    return pytestconfig.stash[SETTINGS].encoder


@pytest.fixture(scope="session")
def semcov_embedder(pytestconfig: pytest.Config) -> str | Embedder:
    """Return the model whose embeddings decide what matters: spec or object (default: --semcov-embedder)."""
    return pytestconfig.stash[SETTINGS].embedder


@pytest.fixture(scope="session")
def semcov_descriptors() -> Mapping[str, Any]:
    """Return your own semantics by name: a Descriptor or its categories; they join the catalogue."""
    return {}


@pytest.fixture(scope="session")
def semcov_translators(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """Return translators by name: objects, specs or files (default: the ini key semcov_translators)."""
    return dict(pytestconfig.stash[SETTINGS].translators)


@pytest.fixture(scope="session")
def semcov_models(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """Return models under test by name: objects, modules or specs (default: the ini key semcov_models)."""
    return dict(pytestconfig.stash[SETTINGS].models)


@pytest.fixture(scope="session")
def semcov_embeddings(request: pytest.FixtureRequest, semcov_dataset: Dataset) -> Embeddings:
    """Return embeddings of semcov_dataset by semcov_embedder, computed once and kept in the cache."""
    return make_workbench(request, request.config.stash[SETTINGS]).embed(semcov_dataset)


@pytest.fixture(scope="session")
def semcov_labels(request: pytest.FixtureRequest, semcov_dataset: Dataset) -> Mapping[str, Labels]:
    """Return labels of semcov_dataset by semantic (``semcov_labels["day_night"]``), computed on first use."""
    return LabelsBySemantic(make_workbench(request, request.config.stash[SETTINGS]), semcov_dataset)


@pytest.fixture
def semcov_augmented(request: pytest.FixtureRequest, semcov_dataset: Dataset) -> Iterator[AugmentedDataset]:
    """Return semcov_dataset with accepted synthetic images, made as the marker semcov_augment says.

    If the synthetic images are not sufficient, the test fails with the verdict before its body runs.
    """
    from pytest_semcov.assertions import conclude
    from pytest_semcov.translation.augmentation import AugmentedDataset
    from pytest_semcov.translation.export import check_export_folder, export_augmentation

    stash = request.node.stash
    export = request.config.stash[SETTINGS].export
    if export is not None:
        check_export_folder(export, semcov_dataset)
    arguments = dict(stash.get(AUGMENT, {}))
    if isinstance(arguments.get("reference"), str):
        arguments["reference"] = request.getfixturevalue(arguments["reference"])
    augmentations = request.getfixturevalue("semcov").augment(semcov_dataset, **arguments)
    raised: list[BaseException] = []
    for augmentation in augmentations:  # all are recorded before anything is raised
        try:
            conclude(augmentation.verdict)
        except (VerdictFailed, pytest.skip.Exception, pytest.xfail.Exception) as outcome:
            raised.append(outcome)
    refused = [outcome for outcome in raised if isinstance(outcome, VerdictFailed)]
    if refused:
        stash[REFUSED] = refused[0]
    elif raised:
        raise raised[0]
    accepted = [each for each in augmentations if each.verdict.passed]
    if export is not None:
        for augmentation in accepted:
            export_augmentation(augmentation, export, sources=semcov_dataset)
    yield AugmentedDataset(semcov_dataset, accepted)
    if REFUSED in stash:
        del stash[REFUSED]


class LabelsBySemantic(Mapping[str, "Labels"]):
    """Labels of one data set under every known semantic, each computed on first use."""

    def __init__(self, workbench: Workbench, dataset: Dataset) -> None:
        self._workbench = workbench
        self._dataset = dataset

    def __getitem__(self, semantic: str) -> Labels:
        if semantic not in self._workbench.descriptors:
            raise KeyError(f"{semantic!r}; there are {', '.join(self)}")
        return self._workbench.label(self._dataset, semantic)

    def __iter__(self) -> Iterator[str]:
        return iter(self._workbench.descriptors)

    def __len__(self) -> int:
        return len(self._workbench.descriptors)


FIXTURES = frozenset(name for name in globals() if name.startswith("semcov"))


def make_workbench(
    request: pytest.FixtureRequest, settings: Settings, *, overrides: Mapping[str, Any] | None = None
) -> Workbench:
    """Return a workbench that takes its models from the fixtures which ``request`` sees.

    A model that a marker names (``overrides``) wins over the fixture.
    """
    from pytest_semcov.workbench import Workbench

    named = overrides or {}
    return Workbench(
        settings,
        encoder=named.get("encoder") or (lambda: request.getfixturevalue("semcov_encoder")),
        embedder=named.get("embedder") or (lambda: request.getfixturevalue("semcov_embedder")),
        descriptors=lambda: request.getfixturevalue("semcov_descriptors"),
        translators=lambda: request.getfixturevalue("semcov_translators"),
        models=lambda: request.getfixturevalue("semcov_models"),
        progress=progress(request.config),
        shared=shared(request.config),
    )


def workbench_of(item: pytest.Item) -> Workbench:
    """Return the workbench of a running test: its fixture ``semcov``, or one of its settings alone.

    The latter serves items that have no fixtures, and tests that hide their use of this package until
    they run.
    """
    from pytest_semcov.workbench import Workbench

    request = item.stash.get(REQUEST, None)
    if request is not None:
        workbench: Workbench = request.getfixturevalue("semcov")
        return workbench
    settings = item.stash.get(SETTINGS, item.config.stash[SETTINGS])
    return Workbench(
        settings,
        translators=settings.translators,
        models=settings.models,
        progress=progress(item.config),
        shared=shared(item.config),
    )


def shared(config: pytest.Config) -> SharedState:
    """Return what the workbenches of this session share."""
    from pytest_semcov.workbench import SharedState

    return config.stash.setdefault(SHARED, SharedState())


def progress(config: pytest.Config) -> ProgressLine | None:
    """Return the progress line if a person watches: a terminal, not ``-q``, not a worker."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or not terminal.isatty or terminal.verbosity < 0:
        return None
    if PROGRESS not in config.stash:
        capture = config.pluginmanager.get_plugin("capturemanager")
        uncaptured = {} if capture is None else {"uncaptured": capture.global_and_fixture_disabled}
        config.stash[PROGRESS] = ProgressLine(terminal, **uncaptured)
    return config.stash[PROGRESS]
