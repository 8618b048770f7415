"""Models under test made of a torch module or a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.embedding.callables import embedder_from_callable
from pytest_semcov.evaluation.detections import as_array, class_numbers
from pytest_semcov.evaluation.models import Classifier, Detector, Output, checked_classes

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from PIL import Image


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


class _LabelRows:
    """A function that gives labels, as one that gives rows with a single 1."""

    def __init__(
        self, function: Callable[[list[Image.Image]], Any], classes: tuple[str, ...], name: str
    ) -> None:
        self._function = function
        self._classes = classes
        self._name = name

    def __call__(self, images: list[Image.Image]) -> NDArray[np.float32]:
        codes = class_numbers(as_array(self._function(images)), self._classes, name=self._name)
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
