"""Models under test, made of a torch module, a function or a MAITE model.

Whatever it is made of, a model gives one row of numbers an image, so that predictions are cached and shared
between processes as embeddings are: class probabilities, or detections in a fixed number of places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from pytest_semcov.embedding.fingerprint import hash_description
from pytest_semcov.embedding.protocols import Embedder
from pytest_semcov.errors import ArgumentError, ModelError
from pytest_semcov.evaluation.detections import MOST_DETECTIONS, pack_detections

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

Task = Literal["classification", "detection"]
Output = Literal["logits", "probabilities", "labels"]

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
    """A classifier around something that gives rows. Made by :mod:`pytest_semcov.evaluation.making`.

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

    Made by :mod:`pytest_semcov.evaluation.making`.

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
