"""From a data set and a workbench to labels, and what is known of their error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_semcov.gates.figures import LabelError

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset, Sample
    from pytest_semcov.embedding.protocols import Embedder, Encoder
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.semantics.labels import Labels


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
