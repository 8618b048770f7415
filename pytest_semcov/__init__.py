"""Semantic coverage and synthetic-data sufficiency as pytest assertions.

Public names are imported when they are first used, so that importing this
package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same table for type checkers, which do not run __getattr__
    from pytest_semcov.assertions import assert_combinations_covered as assert_combinations_covered
    from pytest_semcov.assertions import assert_embedders_agree as assert_embedders_agree
    from pytest_semcov.assertions import assert_labels_reliable as assert_labels_reliable
    from pytest_semcov.assertions import assert_no_uncovered_semantics as assert_no_uncovered_semantics
    from pytest_semcov.assertions import assert_semantic_covered as assert_semantic_covered
    from pytest_semcov.assertions_models import assert_condition_gap as assert_condition_gap
    from pytest_semcov.assertions_models import assert_model_preferred as assert_model_preferred
    from pytest_semcov.assertions_models import assert_same_choice as assert_same_choice
    from pytest_semcov.assertions_models import (
        assert_synthetic_behaves_like_real as assert_synthetic_behaves_like_real,
    )
    from pytest_semcov.assertions_objects import assert_objects_preserved as assert_objects_preserved
    from pytest_semcov.assertions_synthetic import assert_synthetic_sufficient as assert_synthetic_sufficient
    from pytest_semcov.data.arrays import ImageList as ImageList
    from pytest_semcov.data.arrays import from_torchvision as from_torchvision
    from pytest_semcov.data.coco import CocoDataset as CocoDataset
    from pytest_semcov.data.decoding import DecodingRule as DecodingRule
    from pytest_semcov.data.exported import read_provenance as read_provenance
    from pytest_semcov.data.folder import ImageFolder as ImageFolder
    from pytest_semcov.data.maite import MaiteDataset as MaiteDataset
    from pytest_semcov.data.maite import to_maite as to_maite
    from pytest_semcov.data.samples import Box as Box
    from pytest_semcov.data.samples import Dataset as Dataset
    from pytest_semcov.data.samples import Provenance as Provenance
    from pytest_semcov.data.samples import Sample as Sample
    from pytest_semcov.data.samples import SampleDataset as SampleDataset
    from pytest_semcov.data.scenes import RenderedScenes as RenderedScenes
    from pytest_semcov.embedding.protocols import Embedder as Embedder
    from pytest_semcov.embedding.protocols import Embeddings as Embeddings
    from pytest_semcov.embedding.protocols import Encoder as Encoder
    from pytest_semcov.embedding.specs import load_embedder as load_embedder
    from pytest_semcov.embedding.specs import load_encoder as load_encoder
    from pytest_semcov.errors import ArgumentError as ArgumentError
    from pytest_semcov.errors import BadImagesError as BadImagesError
    from pytest_semcov.errors import DatasetError as DatasetError
    from pytest_semcov.errors import ImageError as ImageError
    from pytest_semcov.errors import ModelError as ModelError
    from pytest_semcov.errors import SemcovError as SemcovError
    from pytest_semcov.errors import SemcovWarning as SemcovWarning
    from pytest_semcov.errors import UntrainedWeightsWarning as UntrainedWeightsWarning
    from pytest_semcov.errors import VerdictFailed as VerdictFailed
    from pytest_semcov.errors import VerdictInconclusive as VerdictInconclusive
    from pytest_semcov.evaluation.making import classifier_from_callable as classifier_from_callable
    from pytest_semcov.evaluation.making import classifier_from_module as classifier_from_module
    from pytest_semcov.evaluation.making import detector_from_callable as detector_from_callable
    from pytest_semcov.evaluation.making import detector_from_module as detector_from_module
    from pytest_semcov.evaluation.mixes import ideal as ideal
    from pytest_semcov.evaluation.mixes import improved as improved
    from pytest_semcov.evaluation.models import ModelUnderTest as ModelUnderTest
    from pytest_semcov.evaluation.specs import load_model as load_model
    from pytest_semcov.evaluation.tables import ScoreTable as ScoreTable
    from pytest_semcov.gates.verdict import Criterion as Criterion
    from pytest_semcov.gates.verdict import Outcome as Outcome
    from pytest_semcov.gates.verdict import Verdict as Verdict
    from pytest_semcov.semantics.bench_table import DescriptorBench as DescriptorBench
    from pytest_semcov.semantics.calibration import LabelCalibration as LabelCalibration
    from pytest_semcov.semantics.descriptors import Descriptor as Descriptor
    from pytest_semcov.semantics.descriptors import catalogue as catalogue
    from pytest_semcov.semantics.labels import Labels as Labels
    from pytest_semcov.settings import Settings as Settings
    from pytest_semcov.translation.augmentation import AugmentedDataset as AugmentedDataset
    from pytest_semcov.translation.augmentation import augment as augment
    from pytest_semcov.translation.colour import ColourTranslator as ColourTranslator
    from pytest_semcov.translation.cyclegan_turbo import CycleGanTurboTranslator as CycleGanTurboTranslator
    from pytest_semcov.translation.cyclegan_turbo_training import TrainingSettings as TrainingSettings
    from pytest_semcov.translation.cyclegan_turbo_training import train_cyclegan_turbo as train_cyclegan_turbo
    from pytest_semcov.translation.diffusers_pipeline import DiffusersTranslator as DiffusersTranslator
    from pytest_semcov.translation.fourier import FourierTranslator as FourierTranslator
    from pytest_semcov.translation.prompt_tuning import tune_prompt as tune_prompt
    from pytest_semcov.translation.protocol import Failed as Failed
    from pytest_semcov.translation.protocol import Translator as Translator
    from pytest_semcov.translation.scenes import SceneTranslator as SceneTranslator
    from pytest_semcov.translation.unpaired import UnpairedTranslator as UnpairedTranslator
    from pytest_semcov.workbench import Workbench as Workbench

__version__ = "0.1.0"

_PUBLIC = {
    "ArgumentError": "errors",
    "AugmentedDataset": "translation.augmentation",
    "BadImagesError": "errors",
    "Box": "data.samples",
    "CocoDataset": "data.coco",
    "ColourTranslator": "translation.colour",
    "Criterion": "gates.verdict",
    "CycleGanTurboTranslator": "translation.cyclegan_turbo",
    "Dataset": "data.samples",
    "DatasetError": "errors",
    "DecodingRule": "data.decoding",
    "Descriptor": "semantics.descriptors",
    "DescriptorBench": "semantics.bench_table",
    "DiffusersTranslator": "translation.diffusers_pipeline",
    "Embedder": "embedding.protocols",
    "Embeddings": "embedding.protocols",
    "Encoder": "embedding.protocols",
    "Failed": "translation.protocol",
    "FourierTranslator": "translation.fourier",
    "ImageError": "errors",
    "ImageFolder": "data.folder",
    "ImageList": "data.arrays",
    "LabelCalibration": "semantics.calibration",
    "Labels": "semantics.labels",
    "MaiteDataset": "data.maite",
    "ModelError": "errors",
    "ModelUnderTest": "evaluation.models",
    "Outcome": "gates.verdict",
    "Provenance": "data.samples",
    "RenderedScenes": "data.scenes",
    "Sample": "data.samples",
    "SampleDataset": "data.samples",
    "SceneTranslator": "translation.scenes",
    "ScoreTable": "evaluation.tables",
    "SemcovError": "errors",
    "SemcovWarning": "errors",
    "Settings": "settings",
    "TrainingSettings": "translation.cyclegan_turbo_training",
    "Translator": "translation.protocol",
    "UnpairedTranslator": "translation.unpaired",
    "UntrainedWeightsWarning": "errors",
    "Verdict": "gates.verdict",
    "VerdictFailed": "errors",
    "VerdictInconclusive": "errors",
    "Workbench": "workbench",
    "assert_combinations_covered": "assertions",
    "assert_condition_gap": "assertions_models",
    "assert_embedders_agree": "assertions",
    "assert_labels_reliable": "assertions",
    "assert_model_preferred": "assertions_models",
    "assert_no_uncovered_semantics": "assertions",
    "assert_objects_preserved": "assertions_objects",
    "assert_same_choice": "assertions_models",
    "assert_semantic_covered": "assertions",
    "assert_synthetic_behaves_like_real": "assertions_models",
    "assert_synthetic_sufficient": "assertions_synthetic",
    "augment": "translation.augmentation",
    "catalogue": "semantics.descriptors",
    "classifier_from_callable": "evaluation.making",
    "classifier_from_module": "evaluation.making",
    "detector_from_callable": "evaluation.making",
    "detector_from_module": "evaluation.making",
    "from_torchvision": "data.arrays",
    "ideal": "evaluation.mixes",
    "improved": "evaluation.mixes",
    "load_embedder": "embedding.specs",
    "load_encoder": "embedding.specs",
    "load_model": "evaluation.specs",
    "read_provenance": "data.exported",
    "to_maite": "data.maite",
    "train_cyclegan_turbo": "translation.cyclegan_turbo_training",
    "tune_prompt": "translation.prompt_tuning",
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
