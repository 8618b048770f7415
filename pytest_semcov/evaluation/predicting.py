"""Predictions of a model on a data set, each image once, and the truth that they are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.samples import BadImage, Dataset, Sample
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.errors import DatasetError, ModelError
from pytest_semcov.evaluation.detections import DETECTION_WIDTH
from pytest_semcov.evaluation.models import ModelUnderTest
from pytest_semcov.metrics.detection import Objects

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SUM_TOLERANCE = 1e-3
_REMEDY = "give class_names={'label in the data set': 'class of the model'}"


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """What a model says of a data set's images.

    Parameters
    ----------
    ids
        Of the images that could be used, in the order of the data set.
    classes
        Names of the model's classes.
    rows
        ``(n, ...)`` as the model's ``predict`` gave them.
    name, fingerprint
        The model's.
    probabilistic
        Whether a classifier's rows are probabilities.
    skipped
        Images that could not be used.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    rows: NDArray[np.float32]
    name: str
    fingerprint: str
    probabilistic: bool = True
    skipped: tuple[BadImage, ...] = ()

    def select(self, ids: Sequence[str]) -> Predictions:
        """Return the predictions of these images only, in their order.

        Raises
        ------
        DatasetError
            If the model did not see one of them; names the first.
        """
        where = {sample_id: row for row, sample_id in enumerate(self.ids)}
        missing = [sample_id for sample_id in ids if sample_id not in where]
        if missing:
            raise DatasetError(
                f"{self.name} has no prediction for {missing[0]!r} ({len(missing)} of {len(ids)} images)"
            )
        return replace(self, ids=tuple(ids), rows=self.rows[[where[sample_id] for sample_id in ids]])

    def codes(self) -> NDArray[np.intp]:
        """Return the number of each image's most probable class; of equal ones the first."""
        codes: NDArray[np.intp] = self.rows.argmax(axis=1).astype(np.intp)
        return codes

    def confidence(self) -> NDArray[np.float64]:
        """Return the probability of each image's most probable class."""
        best: NDArray[np.float64] = np.minimum(self.rows.max(axis=1).astype(np.float64), 1.0)
        return best

    def detections(self) -> list[Objects]:
        """Return each image's detections, the best first."""
        found = []
        for row in self.rows.reshape(len(self.ids), -1, DETECTION_WIDTH).astype(np.float64):
            there = row[row[:, 4] >= 0]
            found.append(Objects(there[:, :4], there[:, 4].astype(np.intp), there[:, 5]))
        return found


def predict(dataset: Dataset, model: ModelUnderTest, **options: Any) -> Predictions:
    """Run a model on all images of a data set; images with equal content once.

    Parameters
    ----------
    dataset
        The images.
    model
        The model under test.
    options
        ``batch_size``, ``loader_threads``, ``cache``, ``on_bad_image``, ``max_bad_images`` and ``progress``,
        as in :func:`~pytest_semcov.embedding.extraction.extract`.

    Raises
    ------
    BadImagesError
        If images cannot be used.
    NonFiniteError
        If the model gives NaN or infinity for some images: names them.
    ModelError
        If the model gives something of another form.
    """
    rows = extract(dataset, model, kind="predict", normalise=False, **options)
    _check(rows.array, model)
    return Predictions(
        rows.ids,
        tuple(model.classes),
        rows.array,
        model.name,
        rows.fingerprint,
        model.probabilistic,
        rows.skipped,
    )


def true_classes(
    samples: Sequence[Sample],
    classes: Sequence[str],
    *,
    names: Mapping[str, str] | None = None,
    model: str = "the model",
) -> NDArray[np.intp]:
    """Return each sample's class number.

    Parameters
    ----------
    samples
        With labels.
    classes
        The model's classes.
    names
        Label in the data set → class of the model, where they differ.
    model
        The model's name, for messages.

    Raises
    ------
    DatasetError
        If a sample has no label, or one that is no class; names the first and counts the others.
    """
    where = {name: number for number, name in enumerate(classes)}
    unlabelled = [sample.id for sample in samples if sample.label is None]
    if unlabelled:
        raise DatasetError(
            f"{unlabelled[0]} has no label ({len(unlabelled)} of {len(samples)} images have none): scores "
            "need the class of every image; give labels in the metadata, or a subset that has them"
        )
    labels = [_named(str(sample.label), names) for sample in samples]
    unknown = [
        (sample.id, label) for sample, label in zip(samples, labels, strict=True) if label not in where
    ]
    if unknown:
        raise DatasetError(
            f"{unknown[0][0]} has label {unknown[0][1]!r} ({len(unknown)} of {len(samples)} images), "
            f"which is no class of {model} ({_listed(classes)}); {_REMEDY}"
        )
    return np.array([where[label] for label in labels], np.intp)


def true_objects(
    samples: Sequence[Sample],
    classes: Sequence[str],
    *,
    names: Mapping[str, str] | None = None,
    model: str = "the model",
) -> list[Objects]:
    """Return each sample's annotated objects.

    Parameters are those of :func:`true_classes`; a sample without boxes has no objects.

    Raises
    ------
    DatasetError
        If no sample has a box, or a box has a label that is no class.
    """
    where = {name: number for number, name in enumerate(classes)}
    if not any(sample.boxes for sample in samples):
        raise DatasetError(f"none of {len(samples)} images has a box: scores of {model} need annotated boxes")
    found = []
    for sample in samples:
        labels = [_named(box.label, names) for box in sample.boxes]
        unknown = [label for label in labels if label not in where]
        if unknown:
            raise DatasetError(
                f"{sample.id} has a box of {unknown[0]!r}, which is no class of {model} "
                f"({_listed(classes)}); {_REMEDY}"
            )
        corners = [(box.x0, box.y0, box.x1, box.y1) for box in sample.boxes]
        found.append(
            Objects(
                np.array(corners, np.float64).reshape(-1, 4),
                np.array([where[label] for label in labels], np.intp),
            )
        )
    return found


def independent_groups(samples: Sequence[Sample]) -> list[str]:
    """Return each sample's unit of resampling.

    Its group, else its content, so that copies of one image are one unit; of a synthetic sample without
    group, that of its source.
    """
    of_real = {
        sample.id: f"content {sample.content_key()}" if sample.group is None else f"group {sample.group}"
        for sample in samples
        if sample.provenance is None
    }

    def unit(sample: Sample) -> str:
        if sample.provenance is None:
            return of_real[sample.id]
        if sample.group is not None:
            return f"group {sample.group}"
        source = sample.provenance.source_id
        return of_real.get(source, f"image {source}")

    return [unit(sample) for sample in samples]


def _named(label: str, names: Mapping[str, str] | None) -> str:
    return (names or {}).get(label, label)


def _listed(classes: Sequence[str]) -> str:
    return ", ".join(classes[:10]) + (f" and {len(classes) - 10} more" if len(classes) > 10 else "")


def _check(rows: NDArray[np.float32], model: ModelUnderTest) -> None:
    """Check the rows of a model that is not one of ours."""
    if not rows.size:
        return
    if model.task == "detection":
        if rows.shape[1] % DETECTION_WIDTH:
            raise ModelError(
                f"{model.name} gives rows of {rows.shape[1]} numbers; detections have {DETECTION_WIDTH} each"
            )
        codes = rows.reshape(-1, DETECTION_WIDTH)[:, 4]
        if codes.max() >= len(model.classes):
            raise ModelError(
                f"{model.name} gives class {int(codes.max())}; it has {len(model.classes)} classes"
            )
    elif rows.shape[1] != len(model.classes):
        raise ModelError(
            f"{model.name} gives rows of {rows.shape[1]} numbers; it has {len(model.classes)} classes"
        )
    elif (rows < 0).any() or not np.allclose(rows.sum(axis=1), 1, atol=_SUM_TOLERANCE):
        raise ModelError(f"{model.name} gives rows that are not probabilities (0 or more, adding up to 1)")
