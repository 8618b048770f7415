"""From a data set with known labels and a workbench to the bench of descriptors and to calibrated labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pytest_semcov.errors import ArgumentError
from pytest_semcov.semantics.bench import compare_descriptors, part_layouts, wording_layouts
from pytest_semcov.semantics.bench_table import DescriptorBench
from pytest_semcov.semantics.calibration import LabelCalibration, calibrate_labels
from pytest_semcov.semantics.calibration_curves import Method
from pytest_semcov.semantics.labelling import label_zero_shot, labels_from
from pytest_semcov.semantics.labels import UNCERTAIN, Labels
from pytest_semcov.semantics.texts import TextMemory

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.workbench import Workbench


def bench_descriptors(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    labels: object,
    encoders: Sequence[object] | None = None,
    layouts: Mapping[str, Descriptor] | None = None,
    target: str | None = None,
    resamples: int = 999,
    confidence: float = 0.95,
) -> DescriptorBench:
    """Compare layouts and encoders on known labels; see :meth:`Workbench.descriptor_bench`."""
    descriptor = bench.descriptor(semantic)
    if isinstance(encoders, str) or (encoders is not None and not encoders):
        raise ArgumentError(f"encoders={encoders!r}: need a sequence of one encoder or more")
    labelled, known, groups = _known(dataset, descriptor, labels)
    benches = [bench] if encoders is None else [bench.with_encoder(each) for each in encoders]
    measured = [(_memory(each), each.encode(labelled)) for each in benches]
    return compare_descriptors(
        measured,
        {**part_layouts(descriptor), **wording_layouts(descriptor)} if layouts is None else layouts,
        known,
        target=target,
        groups=groups,
        min_certainty=bench.settings.min_certainty,
        protocol=bench.settings.protocol,
        resamples=resamples,
        confidence=confidence,
        seed=bench.settings.seed,
    )


def calibrate(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    labels: object,
    method: Method | Literal["auto"] = "auto",
) -> LabelCalibration:
    """Learn what margins mean from known labels; see :meth:`Workbench.calibrate`."""
    descriptor = bench.descriptor(semantic)
    labelled, known, groups = _known(dataset, descriptor, labels)
    found = label_zero_shot(bench.encode(labelled), _memory(bench), descriptor)
    return calibrate_labels(found, known, descriptor, method=method, groups=groups, seed=bench.settings.seed)


def _memory(bench: Workbench) -> TextMemory:
    """Return the encoder with the texts that it embedded in this session."""
    encoder = bench.encoder
    return bench.shared.once(("texts", encoder.fingerprint), lambda: TextMemory(encoder))


def _known(
    dataset: Dataset, descriptor: Descriptor, labels: object
) -> tuple[Dataset, Labels, list[str] | None]:
    """Return the images whose category is known, their categories, and their groups where there are any."""
    source: Any = labels
    if isinstance(labels, Labels):
        known = labels.for_ids(dataset.ids)
    else:
        known = labels_from(dataset, descriptor.name, source, descriptor=descriptor)
    rows = [row for row, code in enumerate(known.codes.tolist()) if code != UNCERTAIN]
    if not rows:
        raise ArgumentError(f"labels of {descriptor.name!r}: no image has a known category")
    labelled = dataset.subset(rows)
    samples = [labelled[row] for row in range(len(labelled))]
    groups = None
    if any(sample.group is not None for sample in samples):
        groups = [f"image {s.id}" if s.group is None else f"group {s.group}" for s in samples]
    return labelled, known.select(rows), groups
