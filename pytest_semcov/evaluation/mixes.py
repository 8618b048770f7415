"""Data sets to choose a model on: the original, and the original with synthetic or with real images added."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from pytest_semcov.data.samples import Dataset, Sample, SampleDataset
from pytest_semcov.errors import ArgumentError


class MixedDataset(SampleDataset):
    """A data set with images added. Made by :func:`improved` and :func:`ideal`.

    Parameters
    ----------
    original
        What was completed; all its samples come first, unchanged.
    added
        What was added.
    name
        Shown in reports.
    """

    def __init__(self, original: Dataset, added: Sequence[Sample], *, name: str) -> None:
        samples = [original[index] for index in range(len(original))]
        super().__init__([*samples, *added], name=name, classes=getattr(original, "classes", ()))
        self.original = original
        self.added = SampleDataset(added, name=f"added to {name}")


def improved(
    original: Dataset,
    synthetic: Dataset,
    *,
    ratio: float | None = None,
    count: int | None = None,
    seed: int = 0,
) -> MixedDataset:
    """Return a data set with synthetic images added.

    Parameters
    ----------
    original
        The data set that lacks a condition.
    synthetic
        Synthetic samples of that condition; real ones in it (of an augmented data set) are left out.
    ratio
        How many to add per image of the original, e.g. 0.2; above 0.
    count
        How many to add, in place of ``ratio``. Default of both: all.
    seed
        Draws which; the choice depends on it and on each sample's id, not on the order.

    Raises
    ------
    ArgumentError
        If there are no synthetic samples, or fewer than asked for.
    DatasetError
        If ids collide.
    """
    samples = [sample for sample in _samples(synthetic) if not sample.real]
    chosen = _draw(samples, _wanted(len(original), len(samples), ratio, count, "synthetic"), seed)
    return MixedDataset(original, chosen, name="improved")


def ideal(
    original: Dataset,
    real: Dataset,
    *,
    like: MixedDataset | None = None,
    ratio: float | None = None,
    count: int | None = None,
    seed: int = 0,
) -> MixedDataset:
    """Return a data set with real images of the lacking condition added.

    Parameters
    ----------
    original
        The data set that lacks a condition.
    real
        Real images of that condition, from outside the original.
    like
        An improved data set: as many images are added as there, so that both have the same mix.
    ratio, count, seed
        As in :func:`improved`.

    Raises
    ------
    ArgumentError
        If ``real`` holds synthetic samples, or fewer than asked for.
    DatasetError
        If ids collide: an image of the original cannot be added to it.
    """
    if like is not None:
        if ratio is not None or count is not None:
            raise ArgumentError("give like=, ratio= or count=, not two of them")
        count = len(like.added)
    samples = _samples(real)
    made = [sample.id for sample in samples if not sample.real]
    if made:
        raise ArgumentError(
            f"{made[0]} is synthetic ({len(made)} of {len(samples)}): ideal() adds real images"
        )
    chosen = _draw(samples, _wanted(len(original), len(samples), ratio, count, "real"), seed)
    return MixedDataset(original, chosen, name="ideal")


def _samples(dataset: Dataset) -> list[Sample]:
    return [dataset[index] for index in range(len(dataset))]


def _wanted(original: int, available: int, ratio: float | None, count: int | None, kind: str) -> int:
    if ratio is not None and count is not None:
        raise ArgumentError("give ratio= or count=, not both")
    wanted = available
    if ratio is not None:
        if not 0 < ratio < math.inf:
            raise ArgumentError(f"ratio={ratio!r}: need a number above 0")
        wanted = round(ratio * original)
    if count is not None:
        wanted = count
    if not 1 <= wanted <= available:
        raise ArgumentError(f"{wanted} {kind} images to add, there are {available}: need 1 to {available}")
    return wanted


def _draw(samples: Sequence[Sample], count: int, seed: int) -> list[Sample]:
    """Return a subset in its own order."""

    def rank(index: int) -> bytes:
        key = f"{seed}\0{samples[index].id}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(key).digest()

    chosen = sorted(range(len(samples)), key=rank)[:count]
    return [samples[index] for index in sorted(chosen)]
