"""Models under test, made of a torch module, a function or a MAITE model.

Whatever it is made of, a model gives one row of numbers an image, so that predictions are cached and shared
between processes as embeddings are: class probabilities, or detections in a fixed number of places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from pytest_semcov.embedding.callables import embedder_from_callable
from pytest_semcov.embedding.fingerprint import hash_description
from pytest_semcov.embedding.protocols import Embedder
from pytest_semcov.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from PIL import Image

Task = Literal["classification", "detection"]
Output = Literal["logits", "probabilities", "labels"]

MOST_DETECTIONS = 300
"""Most detections that are kept of an image, by score."""

DETECTION_WIDTH = 6
"""Numbers a detection: x0, y0, x1, y1, class, score. Places without a detection hold -1."""

_SUM_TOLERANCE = 1e-3
"""Probabilities of half precision models add up to one this closely."""


@runtime_checkable
class ModelUnderTest(Protocol):
    """A classifier or detector whose scores on data sets are compared. Structural.

    An object may also have ``persistent`` (bool, default True): False if the fingerprint does not cover all
    that predictions depend on, so that they are kept in memory only.
    """

    @property
    def name(self) -> str:
        """Short name for reports."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing, classes and library versions (hex)."""

    @property
    def trained(self) -> bool:
        """False if the weights are random."""

    @property
    def input_size(self) -> int | None:
        """Shorter side (pixels) that preprocessing needs; ``None`` = images are decoded in full."""

    @property
    def task(self) -> Task:
        """``"classification"`` or ``"detection"``."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the model's numbers."""

    @property
    def probabilistic(self) -> bool:
        """Whether a classifier gives probabilities; else its rows hold one 1."""

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the model's input (no batch dimension)."""

    def predict(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return one row an image.

        Classification: ``(n, classes)`` probabilities. Detection: ``(n, 6 x MOST_DETECTIONS)``, for each
        detection x0, y0, x1, y1 (pixels of the image), class and score, best first; then -1.
        """


class Classifier:
    """A classifier around something that gives rows. Made by the functions of this module.

    Parameters
    ----------
    rows
        Gives logits, probabilities or class numbers.
    classes
        Names of the classes.
    output
        What its rows are.
    """

    task: Task = "classification"

    def __init__(self, rows: Embedder, *, classes: Sequence[str], output: Output) -> None:
        if output not in get_args(Output):
            raise ArgumentError(f"{rows.name}: output={output!r}; use {', '.join(get_args(Output))}")
        self.classes = checked_classes(classes, rows.name)
        self.name = rows.name
        self.trained = rows.trained
        self.input_size = rows.input_size
        self.probabilistic = output != "labels"
        self._rows = rows
        self._output = output

    @property
    def persistent(self) -> bool:
        """Whether predictions may be kept on disk."""
        return bool(getattr(self._rows, "persistent", True))

    @property
    def fingerprint(self) -> str:
        """Hash of what gives the rows, of how they are read and of the classes."""
        return hash_description(
            {"rows": self._rows.fingerprint, "output": self._output, "classes": list(self.classes)}
        )

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the model's input."""
        return self._rows.preprocess(image)

    def predict(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return ``(n, classes)`` float32 probabilities."""
        rows = self._rows.embed(batch)
        if rows.ndim != 2 or rows.shape[1] != len(self.classes):
            raise ModelError(
                f"{self.name} gives an array of shape {rows.shape} for {len(batch)} images and has "
                f"{len(self.classes)} classes; needed is ({len(batch)}, {len(self.classes)})"
            )
        if not np.isfinite(rows).all() or self._output == "labels":
            return rows
        sums_to_one = bool((rows >= 0).all() and np.allclose(rows.sum(axis=1), 1, atol=_SUM_TOLERANCE))
        if self._output == "probabilities":
            if not sums_to_one:
                raise ModelError(
                    f"{self.name}: rows are no probabilities (0 or more, adding up to 1); give "
                    "output='logits'"
                )
            return rows
        if sums_to_one and len(self.classes) > 1:
            raise ModelError(
                f"{self.name}: what it gives are probabilities already; give output='probabilities'"
            )
        shifted = np.exp(rows.astype(np.float64) - rows.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float32] = (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)
        return probabilities

    def __repr__(self) -> str:
        return f"<Classifier {self.name!r}, {len(self.classes)} classes>"


class Detector:
    """A detector around a function from preprocessed images to detections.

    Made by the functions of this module.

    Parameters
    ----------
    detect
        Takes a list of preprocessed images; gives, for each, a mapping (or an object with attributes)
        ``boxes`` ``(k, 4)``, ``labels`` ``(k,)`` and ``scores`` ``(k,)``.
    preprocess
        One RGB image to one input.
    classes
        Names of the classes.
    name
        For reports.
    fingerprint
        Returns the hash of all that detections depend on, but the classes.
    trained
        False if the weights are random.
    persistent
        Whether the fingerprint covers all.
    """

    task: Task = "detection"
    input_size: int | None = None
    probabilistic = True

    def __init__(
        self,
        detect: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        preprocess: Callable[[Image.Image], Any],
        classes: Sequence[str],
        name: str,
        fingerprint: Callable[[], str],
        trained: bool,
        persistent: bool,
    ) -> None:
        self.classes = checked_classes(classes, name)
        self.name = name
        self.trained = trained
        self.persistent = persistent
        self._detect = detect
        self._preprocess = preprocess
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """Hash of all that detections depend on."""
        return hash_description(
            {"detections": self._fingerprint(), "classes": list(self.classes), "most": MOST_DETECTIONS}
        )

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the model's input."""
        return self._preprocess(image)

    def predict(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return ``(n, 6 x MOST_DETECTIONS)`` float32: the detections of each image, best first."""
        results = self._detect(batch)
        if len(results) != len(batch):
            raise ModelError(f"{self.name} gives {len(results)} results for {len(batch)} images")
        return np.stack([pack_detections(result, self.classes, name=self.name) for result in results])

    def __repr__(self) -> str:
        return f"<Detector {self.name!r}, {len(self.classes)} classes>"


def classifier_from_module(
    module: torch.nn.Module,
    *,
    classes: Sequence[str],
    output: Output = "logits",
    preprocess: Callable[[Image.Image], Any] | None = None,
    input_size: int = 224,
    name: str | None = None,
    trained: bool = True,
    device: str | None = None,
    version: str | None = None,
) -> Classifier:
    """Make a classifier under test of a torch module.

    Parameters
    ----------
    module
        Takes ``(n, 3, h, w)``, gives ``(n, classes)``.
    classes
        Names of the classes, in the order of the outputs.
    output
        ``"logits"`` or ``"probabilities"``.
    preprocess, input_size, name, trained, device, version
        As in :func:`~pytest_semcov.embedding.modules.embedder_from_module`.

    Raises
    ------
    ArgumentError
        If an argument is not allowed.
    """
    from pytest_semcov.embedding.modules import embedder_from_module

    rows = embedder_from_module(
        module,
        preprocess=preprocess,
        input_size=input_size,
        name=name,
        trained=trained,
        device=device,
        version=version,
    )
    return Classifier(rows, classes=classes, output=output)


def classifier_from_callable(
    function: Callable[[list[Image.Image]], Any],
    *,
    classes: Sequence[str],
    output: Output = "logits",
    name: str | None = None,
    version: str | None = None,
    input_size: int | None = None,
    trained: bool = True,
) -> Classifier:
    """Make a classifier under test of a function.

    Parameters
    ----------
    function
        Takes a list of RGB PIL images of any sizes; gives ``(n, classes)`` numbers, or with
        ``output="labels"`` one class (name or number) an image.
    classes
        Names of the classes.
    output
        ``"logits"``, ``"probabilities"`` or ``"labels"``.
    name, version, input_size, trained
        As in :func:`~pytest_semcov.embedding.callables.embedder_from_callable`.

    Raises
    ------
    ArgumentError
        If an argument is not allowed.
    """
    names = checked_classes(classes, name or "a classifier")
    version = version or _own_version(function)
    title = name or str(getattr(function, "__qualname__", type(function).__name__))
    called: Callable[[list[Image.Image]], Any] = function
    if output == "labels":
        called = _LabelRows(function, names, title)
    rows = embedder_from_callable(called, name=title, version=version, input_size=input_size, trained=trained)
    return Classifier(rows, classes=names, output=output)


def detector_from_callable(
    function: Callable[[list[Image.Image]], Sequence[Any]],
    *,
    classes: Sequence[str],
    name: str | None = None,
    version: str | None = None,
    trained: bool = True,
) -> Detector:
    """Make a detector under test of a function.

    Parameters
    ----------
    function
        Takes a list of RGB PIL images of any sizes; gives, for each, a mapping (or an object with attributes)
        ``boxes`` ``(k, 4)`` as x0, y0, x1, y1 in pixels of the image, ``labels`` ``(k,)`` (names or numbers
        of classes) and ``scores`` ``(k,)`` in [0, 1].
    classes
        Names of the classes.
    name, version, trained
        As in :func:`~pytest_semcov.embedding.callables.embedder_from_callable`.
    """
    title = name or str(getattr(function, "__qualname__", type(function).__name__))
    rows = embedder_from_callable(
        function, name=title, version=version or _own_version(function), trained=trained
    )
    return Detector(
        lambda batch: function(list(batch)),
        preprocess=_same,
        classes=classes,
        name=title,
        fingerprint=lambda: rows.fingerprint,
        trained=trained,
        persistent=rows.persistent,
    )


def detector_from_module(
    module: torch.nn.Module,
    *,
    classes: Sequence[str],
    name: str | None = None,
    trained: bool = True,
    device: str | None = None,
) -> Detector:
    """Make a detector under test of a torch module with torchvision's interface.

    Parameters
    ----------
    module
        In evaluation mode takes a list of ``(3, h, w)`` tensors in [0, 1] of any sizes; gives, for each, a
        mapping of ``boxes`` (x0, y0, x1, y1 in pixels), ``labels`` (class numbers) and ``scores``.
    classes
        Names of the classes; torchvision's own detectors have a background class at number 0.
    name
        Short name for reports; ``None`` = the module's class name.
    trained
        False if the weights are random.
    device
        Device to move the module to; ``None`` = it stays where it is.
    """
    from pytest_semcov.embedding.modules import embedder_from_module
    from pytest_semcov.embedding.running import inference

    # Not used to embed: it knows device and fingerprint.
    known = embedder_from_module(
        module, preprocess=_same, version="pixels in [0, 1]", name=name, trained=trained, device=device
    )
    place = known.device

    def detect(batch: Sequence[Any]) -> Sequence[Any]:
        import torch

        with inference(known.module, place):
            results: Sequence[Any] = known.module([torch.from_numpy(pixels).to(place) for pixels in batch])
        return results

    return Detector(
        detect,
        preprocess=_pixels,
        classes=classes,
        name=known.name,
        fingerprint=lambda: known.fingerprint,
        trained=trained,
        persistent=True,
    )


def pack_detections(result: Any, classes: Sequence[str], *, name: str) -> NDArray[np.float32]:
    """Return one image's detections as a row, the best first.

    Parameters
    ----------
    result
        Mapping or object with ``boxes``, ``labels`` and ``scores``. Scores ``(k, classes)`` count by their
        largest value.
    classes
        Names of the classes, for labels that are names.
    name
        The model, for messages.

    Raises
    ------
    ModelError
        If the result has another form.
    """
    boxes, labels, scores = (_part(result, part, name) for part in ("boxes", "labels", "scores"))
    boxes = boxes.reshape(-1, 4) if boxes.size == 0 else boxes
    if scores.ndim == 2:
        scores = scores.max(axis=1) if len(scores) else np.empty(0)
    codes = class_numbers(labels, classes, name=name)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not len(boxes) == len(codes) == len(scores):
        raise ModelError(
            f"{name}: boxes {boxes.shape}, labels {labels.shape} and scores {scores.shape} of one image; "
            "needed are (k, 4), (k,) and (k,)"
        )
    table = np.column_stack([boxes, codes, scores]).astype(np.float32)
    best = np.argsort(-table[:, 5], kind="stable")[:MOST_DETECTIONS]
    row = np.full((MOST_DETECTIONS, DETECTION_WIDTH), -1, np.float32)
    row[: len(best)] = table[best]
    return row.ravel()


def class_numbers(labels: Any, classes: Sequence[str], *, name: str) -> NDArray[np.intp]:
    """Return class numbers of labels that are names or numbers.

    Raises
    ------
    ModelError
        If a label is no class.
    """
    given = np.asarray(labels)
    if not given.size:
        return np.empty(0, np.intp)
    if given.dtype.kind in "US" or given.dtype == object:
        where = {known: number for number, known in enumerate(classes)}
        unknown = [str(label) for label in given.ravel() if str(label) not in where]
        if unknown:
            raise ModelError(f"{name} gives class {unknown[0]!r}; its classes are {', '.join(classes)}")
        return np.array([where[str(label)] for label in given.ravel()], np.intp)
    numbers = given.ravel()
    if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= len(classes):
        raise ModelError(
            f"{name} gives classes {numbers[:3].tolist()} ... of {len(classes)}; needed are names or numbers "
            f"from 0 to {len(classes) - 1}"
        )
    return numbers.astype(np.intp)


def checked_classes(classes: Sequence[str], name: str) -> tuple[str, ...]:
    """Return class names.

    Raises
    ------
    ArgumentError
        If there are none, or one occurs twice.
    """
    names = tuple(str(each) for each in classes)
    if isinstance(classes, str) or not names or len(set(names)) < len(names):
        raise ArgumentError(f"{name}: classes={classes!r}; need a list of names, each once")
    return names


class _LabelRows:
    """A function that gives labels, as one that gives rows with a single 1."""

    def __init__(
        self, function: Callable[[list[Image.Image]], Any], classes: tuple[str, ...], name: str
    ) -> None:
        self._function = function
        self._classes = classes
        self._name = name

    def __call__(self, images: list[Image.Image]) -> NDArray[np.float32]:
        codes = class_numbers(_array(self._function(images)), self._classes, name=self._name)
        rows = np.zeros((len(codes), len(self._classes)), np.float32)
        rows[np.arange(len(codes)), codes] = 1
        return rows


def _own_version(function: object) -> str | None:
    version = getattr(function, "version", None)
    return version if isinstance(version, str) else None


def _same(image: Image.Image) -> Image.Image:
    return image


def _pixels(image: Image.Image) -> NDArray[np.float32]:
    """Return ``(3, height, width)`` float32 in [0, 1]."""
    return np.ascontiguousarray(np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255)


def _part(result: Any, part: str, name: str) -> NDArray[Any]:
    found = result.get(part) if isinstance(result, Mapping) else getattr(result, part, None)
    if found is None:
        raise ModelError(f"{name}: a result has no {part}; needed are boxes, labels and scores")
    return _array(found)


def _array(values: Any) -> NDArray[Any]:
    """Return an array; torch tensors come to main memory."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
