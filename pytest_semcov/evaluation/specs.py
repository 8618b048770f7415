"""Models under test from spec strings and objects.

=====================================================  =============================================
``torchvision:NAME@WEIGHTS``, ``timm:NAME@WEIGHTS``    a local file; ``classes=`` names its classes
``torchvision:NAME``, ``timm:NAME``                    pretrained weights with their own classes
``SCHEME:NAME?untrained``                              random weights (seeded), for tests
=====================================================  =============================================

torchvision's detectors are known by their names. A MAITE model, which has ``metadata`` and is called on a
batch of ``(channels, height, width)`` arrays, is taken as it is.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from pytest_semcov.embedding.callables import embedder_from_callable
from pytest_semcov.embedding.specs import ModelSpec, parse_spec
from pytest_semcov.errors import ArgumentError, ModelError
from pytest_semcov.evaluation.making import (
    classifier_from_callable,
    classifier_from_module,
    detector_from_callable,
    detector_from_module,
)
from pytest_semcov.evaluation.models import Classifier, Detector, ModelUnderTest, Task

if TYPE_CHECKING:
    import torch
    from PIL import Image

_FORMS = "'torchvision:NAME@WEIGHTS', 'timm:NAME@WEIGHTS' (each also without '@WEIGHTS')"


def load_model(
    model: object,
    *,
    classes: Sequence[str] | None = None,
    task: Task | None = None,
    device: str = "auto",
    name: str | None = None,
) -> ModelUnderTest:
    """Return a model under test.

    Parameters
    ----------
    model
        A spec string (see the module's table); a torch module that gives logits, or detections as
        torchvision's do; a function from a list of PIL images to logits or detections; a MAITE model; or an
        object that is a :class:`~pytest_semcov.evaluation.models.ModelUnderTest` already. For labels or
        probabilities use :func:`~pytest_semcov.evaluation.making.classifier_from_callable`.
    classes
        Names of the classes, in the order of the model's numbers. Needed unless the model says them: names
        of pretrained weights, MAITE's ``index2label``, the number of a weights file's outputs being that of
        the pretrained ones.
    task
        ``"classification"`` (default) or ``"detection"``, for a module, a function and a MAITE model.
    device
        For spec strings: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    name
        Name in reports, for a module or function.

    Raises
    ------
    ArgumentError
        If it is none of these, or classes are needed.
    ModelError
        If weights cannot be had or do not fit.
    """
    if task is not None and task not in get_args(Task):
        raise ArgumentError(f"task={task!r}; use {' or '.join(map(repr, get_args(Task)))}")
    if isinstance(model, str):
        return _from_spec(parse_spec(model), classes, device)
    if isinstance(model, ModelUnderTest):
        return model
    detects = task == "detection"
    torch = sys.modules.get("torch")  # nobody holds a module without having imported torch
    if torch is not None and isinstance(model, torch.nn.Module):
        names = _needed(classes, name or type(model).__name__)
        make_of_module: Any = detector_from_module if detects else classifier_from_module
        made: ModelUnderTest = make_of_module(model, classes=names, name=name)
        return made
    if callable(model) and isinstance(getattr(model, "metadata", None), Mapping):
        return _from_maite(model, classes, detects=detects)
    if callable(model) and not isinstance(model, type):
        title = name or str(getattr(model, "__qualname__", type(model).__name__))
        make: Any = detector_from_callable if detects else classifier_from_callable
        made = make(model, classes=_needed(classes, title), name=name)
        return made
    raise ArgumentError(
        f"a {type(model).__name__} is no model under test: give a torch module, a function from a list of "
        "PIL images, a MAITE model, an object with name, fingerprint, task, classes, preprocess and predict, "
        f"or one of {_FORMS}"
    )


def _needed(classes: Sequence[str] | None, name: str) -> Sequence[str]:
    if classes is None:
        raise ArgumentError(f"{name} does not say its classes: give load_model(model, classes=[...])")
    return classes


def _from_spec(spec: ModelSpec, classes: Sequence[str] | None, device: str) -> ModelUnderTest:
    from pytest_semcov.embedding.running import resolve_device

    place = resolve_device(device)
    if spec.scheme == "torchvision":
        return _torchvision(spec, classes, place)
    if spec.scheme == "timm":
        return _timm(spec, classes, place)
    raise ArgumentError(f"{spec}: a model under test is one of {_FORMS}")


def _torchvision(spec: ModelSpec, classes: Sequence[str] | None, place: torch.device) -> ModelUnderTest:
    from torchvision import models

    from pytest_semcov.embedding.running import seeded
    from pytest_semcov.embedding.torchvision_model import default_weights, rows_of_torchvision
    from pytest_semcov.embedding.weights import existing_file, load_strictly, read_weights

    detectors = models.list_models(module=models.detection)
    names = [*models.list_models(module=models), *detectors]
    if spec.name not in names:
        close = ", ".join(difflib.get_close_matches(spec.name, names)) or ", ".join(names)
        raise ArgumentError(f"{spec}: torchvision has no such classifier or detector; it has {close}")
    weights = models.get_model_weights(spec.name).DEFAULT
    known = list(weights.meta["categories"])
    names_of_classes = known if classes is None else list(classes)
    if spec.path is None and not spec.untrained and len(names_of_classes) != len(known):
        raise ArgumentError(
            f"{spec}: torchvision's weights have {len(known)} classes, not {len(names_of_classes)}; "
            "give your own weights with @PATH"
        )
    detects = spec.name in detectors
    with seeded():
        backbone = {"weights_backbone": None} if detects else {}
        model = models.get_model(spec.name, weights=None, num_classes=len(names_of_classes), **backbone)
    if not spec.untrained:
        path = (
            default_weights(weights, spec) if spec.path is None else existing_file(spec.path, spec=str(spec))
        )
        # Auxiliary classifiers help training only.
        load_strictly(
            model,
            read_weights(path, spec=str(spec)),
            spec=str(spec),
            path=path,
            head=("AuxLogits", "aux1", "aux2"),
        )
    if detects:
        return detector_from_module(
            model.to(place),
            classes=_unique(names_of_classes),
            name=f"torchvision:{spec.name}",
            trained=not spec.untrained,
        )
    rows = rows_of_torchvision(model, weights.transforms(), spec, place)
    return Classifier(rows, classes=_unique(names_of_classes), output="logits")


def _timm(spec: ModelSpec, classes: Sequence[str] | None, place: torch.device) -> ModelUnderTest:
    import timm

    from pytest_semcov.embedding.running import seeded
    from pytest_semcov.embedding.timm_model import check_name, from_hub, rows_of_timm
    from pytest_semcov.embedding.weights import existing_file, load_strictly, read_weights

    check_name(spec)
    if spec.path is None and not spec.untrained:
        model = from_hub(spec)
    else:
        options: dict[str, Any] = {} if classes is None else {"num_classes": len(classes)}
        with seeded():
            model = timm.create_model(spec.name, pretrained=False, **options)
        if spec.path is not None:
            path = existing_file(spec.path, spec=str(spec))
            load_strictly(model, read_weights(path, spec=str(spec)), spec=str(spec), path=path)
    if classes is None:
        classes = _imagenet_classes(model)
    return Classifier(
        rows_of_timm(model, spec, place), classes=_unique(_needed(classes, str(spec))), output="logits"
    )


def _imagenet_classes(model: Any) -> list[str] | None:
    """Return the names of ImageNet's classes if the model has as many outputs as one of its editions."""
    from importlib import import_module

    data: Any = import_module("timm.data")
    edition = data.infer_imagenet_subset(model)
    return None if edition is None else list(data.ImageNetInfo(edition).label_descriptions())


def _unique(classes: Sequence[str]) -> list[str]:
    """Return names each once: ImageNet and COCO have some twice."""
    seen: dict[str, int] = {}
    names = []
    for name in classes:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def _from_maite(model: Any, classes: Sequence[str] | None, *, detects: bool) -> ModelUnderTest:
    """Return a MAITE model: a call on a batch of ``(channels, height, width)`` arrays of 0 to 255."""
    about = model.metadata
    name = str(about.get("id", type(model).__name__))
    if classes is None:
        labels = about.get("index2label")
        if not isinstance(labels, Mapping) or sorted(labels) != list(range(len(labels))):
            raise ArgumentError(
                f"{name}: its metadata has no index2label with numbers from 0 on; give load_model(model, "
                "classes=[...])"
            )
        classes = [str(labels[number]) for number in range(len(labels))]

    def call(images: list[Image.Image]) -> Sequence[Any]:
        arrays = [np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)) for image in images]
        results: Sequence[Any] = model(arrays)
        return results

    version = getattr(model, "version", None)
    rows = embedder_from_callable(
        _Rows(call, name), name=name, version=version if isinstance(version, str) else None
    )
    if detects:
        return Detector(
            lambda batch: call(list(batch)),
            preprocess=rows.preprocess,
            classes=classes,
            name=name,
            fingerprint=lambda: rows.fingerprint,
            trained=True,
            persistent=rows.persistent,
        )
    return Classifier(rows, classes=classes, output="probabilities")


class _Rows:
    """A MAITE classifier as a function from images to rows."""

    def __init__(self, call: Callable[[list[Image.Image]], Sequence[Any]], name: str) -> None:
        self._call = call
        self._name = name

    def __call__(self, images: list[Image.Image]) -> Any:
        results = [
            np.asarray(result.detach().cpu() if hasattr(result, "detach") else result)
            for result in self._call(images)
        ]
        if len({result.shape for result in results}) > 1:
            raise ModelError(f"{self._name} gives rows of different lengths in one batch")
        return np.stack(results)
