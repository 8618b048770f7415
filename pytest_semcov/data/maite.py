"""MAITE data sets, in and out.

MAITE's protocols are structural, so neither direction needs the library. A MAITE image classification
data set gives ``(image, target, metadata)`` with an image ``(channels, height, width)``, a target
``(classes,)`` of one-hot values or probabilities, and a mapping with ``id``; in object detection the
target has ``boxes`` ``(n, 4)`` as x0, y0, x1, y1, ``labels`` ``(n,)`` and ``scores``. The data set's own
``metadata`` has ``id`` and may have ``index2label``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.arrays import channels_last
from pytest_semcov.data.decoding import DEFAULT_RULE, DecodingRule, MemorySource
from pytest_semcov.data.metadata import GroupRule, corner_boxes, shown, warn_of_boxes, with_groups
from pytest_semcov.data.samples import Box, Dataset, Sample, SampleDataset, take_provenance
from pytest_semcov.errors import ArgumentError, DatasetError
from pytest_semcov.gates.verdict import plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TASKS = ("image_classification", "object_detection")


class MaiteDataset(SampleDataset):
    """A MAITE data set as ours. Targets and metadata are read on first use.

    Where the data set offers ``get_target`` and ``get_metadata`` (MAITE's field-wise protocol), no image is
    fetched for that. Ids are the datums' ids as text. The label of an image is the class of the highest
    value in its target, none where all values are equal. Scores of boxes are not kept. A datum that
    cannot be read is a sample without label, named by its position, whose error shows when it is loaded.

    Parameters
    ----------
    maite_dataset
        The data set.
    kind
        ``"image_classification"``, ``"object_detection"``, or ``"auto"``: by whether targets have boxes.
    group
        ``None``, a key of the datums' metadata, or a function from sample to group.
    rule
        How images are converted; float images outside [0, 1] need ``float_range``.
    name
        Name in reports; by default the ``id`` in the data set's metadata.

    Raises
    ------
    DatasetError
        On first use: a datum without id, an id that occurs twice, a target of another form, an index
        without a name in ``index2label``.
    """

    def __init__(
        self,
        maite_dataset: Any,
        *,
        kind: str = "auto",
        group: GroupRule = None,
        rule: DecodingRule = DEFAULT_RULE,
        name: str | None = None,
    ) -> None:
        if kind not in ("auto", *_TASKS):
            raise ArgumentError(f"kind={kind!r}: need 'auto', {' or '.join(map(repr, _TASKS))}")
        about = getattr(maite_dataset, "metadata", None) or {}
        super().__init__((), name=name or str(about.get("id", type(maite_dataset).__name__)))
        self._known = None
        self._wrapped = maite_dataset
        self._kind = kind
        self._group_rule = group
        self._rule = rule

    def _read(self) -> Sequence[Sample]:
        about = getattr(self._wrapped, "metadata", None) or {}
        names = _names_by_index(about.get("index2label"), self.name)
        self._classes = tuple(names[index] for index in sorted(names)) if names else ()
        samples: list[Sample] = []
        left_out: dict[str, int] = {}
        for index in range(len(self._wrapped)):
            try:
                target, datum = self._annotation(index)
            except Exception as error:  # foreign code: its failure is this image's failure
                failed = partial(_fail, f"{type(error).__name__}: {error}")
                samples.append(Sample(f"{index:06d}", MemorySource(failed, self._rule)))
                continue
            if not isinstance(datum, Mapping) or "id" not in datum:
                raise DatasetError(f"{self.name}, item {index}: MAITE metadata needs an 'id', got {datum!r}")
            sample_id = str(datum["id"])
            columns = {str(key): value for key, value in datum.items() if key != "id"}
            provenance = take_provenance(columns)
            label: str | None
            boxes: tuple[Box, ...] = ()
            if self._kind == "object_detection" or (self._kind == "auto" and hasattr(target, "boxes")):
                boxes, without_area = _boxes_of(target, names, sample_id)
                label = columns.pop("label", None) if isinstance(columns.get("label"), str) else None
                if without_area:
                    left_out[sample_id] = without_area
            else:
                label = _label_of(target, names, sample_id)
            samples.append(
                Sample(
                    sample_id,
                    MemorySource(partial(_image_at, self._wrapped, index), self._rule),
                    label=label,
                    boxes=boxes,
                    metadata=MappingProxyType(columns),
                    provenance=provenance,
                )
            )
        warn_of_boxes(self.name, left_out)
        return with_groups(samples, self._group_rule)

    def _annotation(self, index: int) -> tuple[Any, Any]:
        wrapped = self._wrapped
        if hasattr(wrapped, "get_target") and hasattr(wrapped, "get_metadata"):
            return wrapped.get_target(index), wrapped.get_metadata(index)
        _, target, datum = wrapped[index]
        return target, datum


@dataclass(frozen=True, slots=True, eq=False)
class DetectionTarget:
    """MAITE's object detection target for ground truth.

    Parameters
    ----------
    boxes
        ``(n, 4)`` float64: x0, y0, x1, y1 in pixels.
    labels
        ``(n,)`` int64: indices into ``index2label``.
    scores
        ``(n,)`` float64: all 1.
    """

    boxes: NDArray[np.float64]
    labels: NDArray[np.int64]
    scores: NDArray[np.float64]


class MaiteView(ABC):
    """One of our data sets as MAITE's field-wise data set; made by :func:`to_maite`.

    Parameters
    ----------
    dataset
        The data set.
    classes
        Class names in the order of their index.

    Attributes
    ----------
    metadata : dict
        ``id`` (the data set's name) and ``index2label``.
    """

    def __init__(self, dataset: Dataset, classes: Sequence[str]) -> None:
        self._dataset = dataset
        self._index = {label: index for index, label in enumerate(classes)}
        self.metadata: dict[str, Any] = {
            "id": str(getattr(dataset, "name", type(dataset).__name__)),
            "index2label": dict(enumerate(classes)),
        }

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int, /) -> tuple[NDArray[np.uint8], Any, dict[str, Any]]:
        return self.get_input(index), self.get_target(index), self.get_metadata(index)

    def get_input(self, index: int, /) -> NDArray[np.uint8]:
        """Return the decoded image, ``(3, height, width)`` uint8."""
        import numpy as np

        return np.ascontiguousarray(np.asarray(self._dataset[index].load()).transpose(2, 0, 1))

    @abstractmethod
    def get_target(self, index: int, /) -> Any:
        """Return the target of one image; see the two tasks."""

    def get_metadata(self, index: int, /) -> dict[str, Any]:
        """Return the sample's metadata with ``id``, and ``group`` and ``provenance`` where it has them."""
        sample = self._dataset[index]
        metadata: dict[str, Any] = {**sample.metadata, "id": sample.id}
        if sample.group is not None:
            metadata["group"] = sample.group
        if sample.provenance is not None:
            provenance = sample.provenance
            metadata["provenance"] = {
                field.name: plain(getattr(provenance, field.name)) for field in fields(provenance)
            }
        return metadata


class MaiteClassification(MaiteView):
    """MAITE image classification: the target is one-hot, ``(classes,)`` float32."""

    def get_target(self, index: int, /) -> NDArray[np.float32]:
        """Return the one-hot label."""
        import numpy as np

        target = np.zeros(len(self._index), np.float32)
        target[self._index[str(self._dataset[index].label)]] = 1
        return target


class MaiteDetection(MaiteView):
    """MAITE object detection: the target holds the boxes; an image's label goes to its metadata."""

    def get_target(self, index: int, /) -> DetectionTarget:
        """Return the boxes."""
        import numpy as np

        boxes = self._dataset[index].boxes
        corners = [(box.x0, box.y0, box.x1, box.y1) for box in boxes]
        return DetectionTarget(
            boxes=np.array(corners, np.float64).reshape(-1, 4),
            labels=np.array([self._index[box.label] for box in boxes], np.int64),
            scores=np.ones(len(boxes), np.float64),
        )

    def get_metadata(self, index: int, /) -> dict[str, Any]:
        """Return the sample's metadata, with ``label`` where it has one."""
        label = self._dataset[index].label
        return super().get_metadata(index) | ({} if label is None else {"label": label})


def to_maite(dataset: Dataset, task: str = "image_classification") -> MaiteClassification | MaiteDetection:
    """Give one of our data sets to tools that take MAITE data sets.

    Reading the result back with :class:`MaiteDataset` keeps ids, labels, boxes, metadata and provenance;
    groups with ``group="group"``.

    Parameters
    ----------
    dataset
        The data set. Its images are decoded when an item is fetched.
    task
        ``"image_classification"`` or ``"object_detection"``.

    Raises
    ------
    DatasetError
        In image classification, if a sample has no label.
    """
    if task not in _TASKS:
        raise ArgumentError(f"task={task!r}: need {' or '.join(map(repr, _TASKS))}")
    samples = [dataset[index] for index in range(len(dataset))]
    of_images = {sample.label for sample in samples if sample.label is not None}
    of_boxes = {box.label for sample in samples for box in sample.boxes}
    wanted, others = (of_images, of_boxes) if task == _TASKS[0] else (of_boxes, of_images)
    # Classes that the data set knows without images belong to the task, unless only the other task has them.
    declared = [name for name in getattr(dataset, "classes", ()) if name in wanted or name not in others]
    classes = list(dict.fromkeys([*declared, *sorted(wanted)]))
    if task == "object_detection":
        return MaiteDetection(dataset, classes)
    unlabelled = [sample.id for sample in samples if sample.label is None]
    if unlabelled:
        raise DatasetError(
            f"{len(unlabelled)} of {len(samples)} samples have no label: {shown(unlabelled)}; "
            "MAITE image classification needs one each"
        )
    return MaiteClassification(dataset, classes)


def _fail(reason: str) -> None:
    raise DatasetError(reason)


def _image_at(dataset: Any, index: int) -> Any:
    return channels_last(dataset.get_input(index) if hasattr(dataset, "get_input") else dataset[index][0])


def _names_by_index(index2label: Mapping[Any, Any] | None, dataset: str) -> dict[int, str]:
    names = {int(index): str(label) for index, label in (index2label or {}).items()}
    repeated = sorted({name for name in names.values() if list(names.values()).count(name) > 1})
    if repeated:
        raise DatasetError(f"{dataset}: index2label gives {repeated[0]!r} to several indices")
    return names


def _name_of(index: int, names: Mapping[int, str], sample_id: str) -> str:
    if names and index not in names:
        raise DatasetError(f"{sample_id}: class index {index} has no name in index2label")
    return names.get(index, str(index))


def _values(value: Any) -> NDArray[Any]:
    import numpy as np

    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _label_of(target: Any, names: Mapping[int, str], sample_id: str) -> str | None:
    import numpy as np

    values = _values(target)
    if values.ndim != 1 or not len(values) or not np.issubdtype(values.dtype, np.number):
        raise DatasetError(
            f"{sample_id}: target of shape {values.shape} and type {values.dtype}; MAITE image "
            "classification has one value a class, object detection has boxes, labels and scores"
        )
    if not np.isfinite(values).all():
        raise DatasetError(f"{sample_id}: target with NaN or infinity")
    if len(values) > 1 and values.min() == values.max():
        return None
    return _name_of(int(values.argmax()), names, sample_id)


def _boxes_of(target: Any, names: Mapping[int, str], sample_id: str) -> tuple[tuple[Box, ...], int]:
    corners, labels = _values(target.boxes), _values(target.labels)
    if corners.size == 0 and labels.size == 0:
        return (), 0
    if corners.ndim != 2 or corners.shape[1] != 4 or labels.shape != (len(corners),):
        raise DatasetError(
            f"{sample_id}: boxes of shape {corners.shape} and labels of shape {labels.shape}; "
            "need (n, 4) and (n,)"
        )
    texts = [_name_of(int(label), names, sample_id) for label in labels]
    return corner_boxes(corners.astype(float).tolist(), texts)
