"""Samples and data sets: the one form in which images travel through this package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pytest_semcov.errors import DatasetError, ImageError

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image


@dataclass(frozen=True, slots=True)
class Box:
    """One annotated object.

    Parameters
    ----------
    label
        Class name.
    x0, y0, x1, y1
        Corners in pixels of the decoded (oriented) image, x to the right, y down, x0 < x1, y0 < y1.
    """

    label: str
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a synthetic sample comes from.

    Parameters
    ----------
    source_id
        Id of the sample it was made from.
    translator, translator_fingerprint
        Name of the translator, and hash of its parameters or weights.
    semantic, source_category, target_category
        What was changed: e.g. ``day_night``, ``day``, ``night``.
    seed
        Seed of this one image.
    prompt
        The prompt, where there was one.
    verdict
        Outcome and criteria of the judgement that accepted it (plain Python), ``None`` before judging.
    versions
        Library versions that matter for replaying.
    """

    source_id: str
    translator: str
    translator_fingerprint: str
    semantic: str
    source_category: str
    target_category: str
    seed: int
    prompt: str | None = None
    verdict: Mapping[str, object] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def take_provenance(columns: dict[str, object]) -> Provenance | None:
    """Take the provenance that an export wrote out of a sample's columns; ``None`` if there is none."""
    value = columns.get("provenance")
    known = {field.name for field in fields(Provenance)}
    required = {
        field.name
        for field in fields(Provenance)
        if field.default is MISSING and field.default_factory is MISSING
    }
    if not isinstance(value, Mapping) or not required <= set(value) <= known:
        return None
    del columns["provenance"]
    return Provenance(**value)


class ImageSource(Protocol):
    """Where a sample's pixels come from."""

    @property
    def path(self) -> Path | None:
        """The file, where there is one."""

    def load(self, sample_id: str, *, minimum_size: int | None = None) -> Image.Image:
        """Decode to RGB by the package's one rule.

        Parameters
        ----------
        sample_id
            Used in error messages only.
        minimum_size
            If given, the source may decode at reduced scale as long as the shorter side stays at or
            above it (in pixels).

        Raises
        ------
        ImageError
            If the image cannot be used; names id, path, rule and remedy.
        """

    def content_key(self) -> str:
        """Return a hash of the content: equal content and decoding rule, equal key (hex)."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """An image with a stable id and what is known about it.

    Parameters
    ----------
    id
        Relative path (POSIX) or the source's own id; never a bare file name when folders are nested.
    source
        Where the pixels come from.
    label
        Class label, where known.
    boxes
        Annotated objects.
    metadata
        Further columns, e.g. ``{"camera": "17"}``; read-only.
    group
        Video, scene or camera that the image belongs to: images of one group are not independent.
    provenance
        ``None`` for a real sample.
    """

    id: str
    source: ImageSource
    label: str | None = None
    boxes: tuple[Box, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    group: str | None = None
    provenance: Provenance | None = None

    @property
    def path(self) -> Path | None:
        """The image file, where there is one."""
        return self.source.path

    @property
    def real(self) -> bool:
        """Whether the sample is a real image, not a synthetic one."""
        return self.provenance is None

    def load(self, *, minimum_size: int | None = None) -> Image.Image:
        """Decode the image to RGB (see :class:`ImageSource`)."""
        return self.source.load(self.id, minimum_size=minimum_size)

    def content_key(self) -> str:
        """Return the hash of the image's content (hex), the key of every cache.

        Raises
        ------
        ImageError
            If the image cannot be read; it names this sample.
        """
        try:
            return self.source.content_key()
        except ImageError as error:  # the source does not know the sample's id
            path = None if self.path is None else str(self.path)
            raise ImageError(self.id, error.rule, error.remedy, path=path) from error

    def with_provenance(self, provenance: Provenance) -> Sample:
        """Return a copy with this provenance."""
        return replace(self, provenance=provenance)


@runtime_checkable
class Dataset(Protocol):
    """An ordered, sized collection of samples that is never modified.

    Structural: any object with these methods is a data set.
    """

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, index: int, /) -> Sample:
        """Return one sample; raise IndexError past the end."""

    @property
    def ids(self) -> Sequence[str]:
        """Ids in order, each once."""

    def column(self, name: str) -> list[object]:
        """Return a column: ``"label"``, ``"group"`` or a metadata key; ``None`` where a sample lacks it."""

    def subset(self, selection: Sequence[int] | np.ndarray) -> Dataset:
        """Return a view by indices (any order) or by boolean mask; shares samples."""

    def __add__(self, other: Dataset) -> Dataset:
        """Return the concatenation; ids must not collide."""

    def fingerprint(self) -> str:
        """Return a hash of ids, contents and labels (hex): equal data, equal fingerprint."""


class SampleDataset:
    """A data set over samples that are already known; the base of all sources and views.

    Parameters
    ----------
    samples
        The samples, ids unique.
    name
        Shown in reports.
    classes
        Class names that the source knows of, with or without images.

    Raises
    ------
    DatasetError
        If an id occurs twice (the message names it).
    """

    _classes: tuple[str, ...] = ()
    _categories: tuple[Mapping[str, object], ...] = ()

    def __init__(
        self, samples: Sequence[Sample], *, name: str = "data set", classes: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._known: tuple[Sample, ...] | None = check_unique(samples)
        self._classes = tuple(classes)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples, in order. Sources that read files do so on first use."""
        if self._known is None:
            self._known = check_unique(self._read())
        return self._known

    def _read(self) -> Sequence[Sample]:
        raise DatasetError(f"{type(self).__name__} gives neither samples nor a way to read them")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int, /) -> Sample:
        return self.samples[index]

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in order."""
        return tuple(sample.id for sample in self.samples)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names of labels and boxes: first those that the source declares, then others, sorted.

        A declared class without any image stays known, also in views: a category with 0 images is a gap
        in coverage, not an error.
        """
        seen: set[str] = set()
        for sample in self.samples:  # sources declare their classes while they read
            seen.update(box.label for box in sample.boxes)
            if sample.label is not None:
                seen.add(sample.label)
        return tuple(dict.fromkeys([*self._classes, *sorted(seen)]))

    @property
    def categories(self) -> tuple[Mapping[str, object], ...]:
        """COCO's category entries (``id``, ``name``) as the annotation file has them, also in views."""
        _ = self.samples  # sources find them while they read
        return self._categories

    def column(self, name: str) -> list[object]:
        """Return ``"label"``, ``"group"`` or a metadata column, ``None`` where a sample lacks it.

        Raises
        ------
        DatasetError
            If no sample has it; the message lists the columns that exist.
        """
        if name == "id":
            return list(self.ids)
        if name in ("label", "group"):
            return [getattr(sample, name) for sample in self.samples]
        if self.samples and not any(name in sample.metadata for sample in self.samples):
            known = sorted({key for sample in self.samples for key in sample.metadata})
            raise DatasetError(
                f"{self.name}: no column {name!r}; there are {', '.join(['id', 'label', 'group', *known])}"
            )
        return [sample.metadata.get(name) for sample in self.samples]

    def subset(self, selection: Sequence[int] | np.ndarray) -> SampleDataset:
        """Return a view by indices or boolean mask.

        Raises
        ------
        DatasetError
            If a mask has another length than the data set or an index lies outside.
        """
        chosen = list(selection)
        if chosen and all(isinstance(item, bool) or type(item).__name__ == "bool" for item in chosen):
            if len(chosen) != len(self):
                raise DatasetError(f"mask of length {len(chosen)} for {len(self)} samples")
            chosen = [index for index, keep in enumerate(chosen) if keep]
        samples = self.samples
        outside = [index for index in chosen if not -len(samples) <= int(index) < len(samples)]
        if outside:
            raise DatasetError(f"index {outside[0]} outside a data set of {len(samples)} samples")
        view = SampleDataset([samples[int(index)] for index in chosen], name=self.name, classes=self._classes)
        view._categories = self._categories
        return view

    def __add__(self, other: Dataset) -> SampleDataset:
        others = [other[index] for index in range(len(other))]
        samples = [*self.samples, *others]
        classes = dict.fromkeys([*self._classes, *getattr(other, "classes", ())])
        return SampleDataset(samples, name=self.name, classes=tuple(classes))

    def fingerprint(self) -> str:
        """Return a hash over ids, contents, labels and groups."""
        digest = hashlib.sha256()
        for sample in self.samples:
            digest.update(
                repr((sample.id, sample.content_key(), sample.label, sample.group, sample.boxes)).encode()
            )
        return digest.hexdigest()

    def __repr__(self) -> str:
        size = "not read yet" if self._known is None else f"{len(self._known)} samples"
        return f"<{type(self).__name__} {self.name!r}: {size}>"


def check_unique(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return the samples as a tuple.

    Raises
    ------
    DatasetError
        If an id occurs twice.
    """
    seen: set[str] = set()
    for sample in samples:
        if sample.id in seen:
            raise DatasetError(
                f"sample id {sample.id!r} occurs twice; ids must be unique "
                "(when joining data sets, give one of them an id prefix)"
            )
        seen.add(sample.id)
    return tuple(samples)


@dataclass(frozen=True, slots=True)
class BadImage:
    """An image that could not be used, as shown in reports."""

    sample_id: str
    path: str | None
    rule: str
    remedy: str
