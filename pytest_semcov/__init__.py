"""Semantic coverage and synthetic-data sufficiency as pytest assertions.

Public names are imported when they are first used, so that importing this
package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "ArgumentError": "errors",
    "AugmentedDataset": "translation.augmentation",
    "BadImagesError": "errors",
    "Box": "data.samples",
    "CocoDataset": "data.coco",
    "ColourTranslator": "translation.colour",
    "Criterion": "gates.verdict",
    "Dataset": "data.samples",
    "DatasetError": "errors",
    "DecodingRule": "data.decoding",
    "Descriptor": "semantics.descriptors",
    "Embedder": "embedding.protocols",
    "Embeddings": "embedding.protocols",
    "Encoder": "embedding.protocols",
    "Failed": "translation.protocol",
    "ImageError": "errors",
    "ImageFolder": "data.folder",
    "ImageList": "data.arrays",
    "Labels": "semantics.labelling",
    "MaiteDataset": "data.maite",
    "ModelError": "errors",
    "Outcome": "gates.verdict",
    "Provenance": "data.samples",
    "RenderedScenes": "data.scenes",
    "Sample": "data.samples",
    "SampleDataset": "data.samples",
    "SceneTranslator": "translation.scenes",
    "SemcovError": "errors",
    "SemcovWarning": "errors",
    "Settings": "settings",
    "Translator": "translation.protocol",
    "UntrainedWeightsWarning": "errors",
    "Verdict": "gates.verdict",
    "VerdictFailed": "errors",
    "VerdictInconclusive": "errors",
    "Workbench": "workbench",
    "assert_combinations_covered": "assertions",
    "assert_labels_reliable": "assertions",
    "assert_no_uncovered_semantics": "assertions",
    "assert_semantic_covered": "assertions",
    "assert_synthetic_sufficient": "assertions",
    "augment": "translation.augmentation",
    "catalogue": "semantics.descriptors",
    "load_embedder": "embedding.specs",
    "load_encoder": "embedding.specs",
    "to_maite": "data.maite",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'pytest_semcov' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"pytest_semcov.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
