"""From a data set and a workbench to labels, and what the encoder's card says of their error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_semcov.errors import ArgumentError, UnknownSemanticError
from pytest_semcov.gates.figures import LabelError
from pytest_semcov.semantics.descriptors import Descriptor
from pytest_semcov.semantics.labelling import label_zero_shot, labels_from
from pytest_semcov.semantics.labels import Labels
from pytest_semcov.semantics.texts import check_known

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset, Sample
    from pytest_semcov.embedding.protocols import Embedder, Encoder
    from pytest_semcov.semantics.calibration import LabelCalibration
    from pytest_semcov.workbench import Workbench


def label(
    bench: Workbench,
    dataset: Dataset,
    semantic: str | Descriptor,
    *,
    labels: object = None,
    calibration: LabelCalibration | None = None,
) -> Labels:
    """Label a data set's images under one semantic; see :meth:`~pytest_semcov.Workbench.label`."""
    if calibration is not None:
        if labels is not None:
            raise ArgumentError("labels= are known: calibration= is for those of the encoder")
        descriptor = bench.descriptor(semantic)
        found = bench.with_settings(labels={}, protocol="matched").label(dataset, descriptor)
        least = bench.settings.min_certainty
        return calibration.abstaining(found, descriptor, min_probability=least)
    name = name_of(semantic)
    if labels is None:
        labels = label_column(bench, name)
    if isinstance(labels, Labels):
        return labels.for_ids(dataset.ids)
    if labels is not None:
        known = bench.descriptors.get(name) if isinstance(semantic, str) else semantic
        classes = getattr(dataset, "classes", ())
        if known is None and labels == "label" and len(classes) > 1:
            known = Descriptor.from_labels(name, classes)  # class folders without images count too
        source: Any = labels
        found = labels_from(dataset, name, source, descriptor=known)
        if len(found) and labels == "label" and found.uncertain == len(found):
            raise ArgumentError(
                f"labels of {name!r}: no image has a label. The names of class folders are labels where "
                "there are two or more: make an empty folder for the category that is missing"
            )
        return found
    descriptor, encoder, settings = bench.descriptor(semantic), bench.encoder, bench.settings
    check_labelled(bench, dataset, descriptor)
    if not len(dataset):
        return labels_from(dataset, name, {}, descriptor=descriptor)
    embeddings = bench.encode(dataset)
    return bench.shared.once(
        (
            "labels",
            dataset.fingerprint(),
            encoder.fingerprint,
            descriptor,
            settings.min_certainty,
            settings.protocol,
            embeddings.ids,
        ),
        lambda: label_zero_shot(
            embeddings,
            encoder,
            descriptor,
            min_certainty=settings.min_certainty,
            protocol=settings.protocol,
        ),
    )


def label_column(bench: Workbench, semantic: str) -> str | None:
    """Return the column that the settings name for a semantic.

    Raises
    ------
    ArgumentError
        If they name none, but one for a semantic of nearly this name that does not exist.
    """
    from difflib import get_close_matches

    columns = bench.settings.labels
    if semantic in columns or not columns:
        return columns.get(semantic)
    strange = [name for name in columns if name not in bench.descriptors]
    meant = get_close_matches(semantic, strange, n=1, cutoff=0.8)
    if meant:
        raise ArgumentError(
            f"semcov_labels names {meant[0]!r}, and there is no such semantic; did you mean {semantic!r}?"
        )
    return None


def check_labelled(bench: Workbench, dataset: Dataset, descriptor: Descriptor) -> None:
    """Raise UnknownSemanticError if the encoder has a card that is silent on this or on such images."""
    encoder = bench.encoder
    check_known(encoder, descriptor, protocol=bench.settings.protocol)
    if encoder.semantics is None:
        return
    rendered = is_rendered(dataset)
    if not card_label_error(encoder, descriptor.name, rendered=rendered):
        images = "rendered scenes" if rendered else "photographs"
        raise UnknownSemanticError(
            descriptor.name, encoder.name, f"its card does not say how often it is right on {images}"
        )


def as_accepted(labels: Labels, dataset: Dataset) -> Labels:
    """Return labels in which synthetic images count as what they were accepted as, whoever labelled them."""
    made = {
        sample.id: sample.provenance.target_category
        for sample in samples_by_id(dataset).values()
        if sample.provenance is not None
        and sample.provenance.semantic == labels.semantic
        and sample.provenance.target_category in labels.categories
    }
    if not made:
        return labels
    codes = labels.codes.copy()
    for row, sample_id in enumerate(labels.ids):
        if sample_id in made:
            codes[row] = labels.code(made[sample_id])
    return replace(labels, codes=codes)


def card_label_error(model: Encoder | Embedder, semantic: str, *, rendered: bool) -> Mapping[str, LabelError]:
    """Return category → errors that the encoder's card states for this kind of image; empty if none."""
    stated: Any = getattr(model, "label_error", None)
    errors = None if stated is None else stated(semantic, rendered=rendered)
    return {
        category: LabelError(
            tuple(counts["recall"]),
            tuple(counts["specificity"]),
            str(counts.get("source", "the model's card")),
        )
        for category, counts in (errors or {}).items()
    }


def is_rendered(dataset: Dataset) -> bool:
    """Whether all real images are rendered scenes, the images that the built-in encoder was made on."""
    from pytest_semcov.data.scenes import SceneSource

    real = [sample for sample in samples_by_id(dataset).values() if sample.real]
    return bool(real) and all(isinstance(sample.source, SceneSource) for sample in real)


def samples_by_id(dataset: Dataset) -> dict[str, Sample]:
    """Return id → sample, in the data set's order."""
    return {sample.id: sample for sample in (dataset[index] for index in range(len(dataset)))}


def name_of(semantic: str | Descriptor) -> str:
    """Return the name of a semantic, named or described."""
    return semantic if isinstance(semantic, str) else semantic.name
