"""Coverage and importance on real photographs, against computations of the test's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from semantics_helpers import NoPixels
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.gates.coverage import coverage_verdict
from pytest_semcov.gates.scan import scan_verdict
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.metrics.arrays import canonical_order
from pytest_semcov.semantics.evidence import gather_evidence
from pytest_semcov.semantics.importance import deduce_cluster_recall, importance
from pytest_semcov.semantics.labelling import labels_from
from pytest_semcov.semantics.labels import Labels


class Photographs:
    """Day and night photographs: ids, labels from the folder, EfficientNet-Lite0 embeddings."""

    def __init__(self, folder: Path, rows: np.ndarray) -> None:
        with np.load(folder / "embeddings_efficientnet_lite0.npz") as file:
            self.raw = file["embeddings"][rows]
            paths, times = file["path"][rows], file["time_of_day"][rows]
        self.embeddings = self.raw / np.linalg.norm(self.raw, axis=1, keepdims=True)
        self.dataset = SampleDataset(
            [Sample(str(path), NoPixels(), label=str(time)) for path, time in zip(paths, times, strict=True)]
        )

    @property
    def labels(self) -> Labels:
        return labels_from(self.dataset, "day_night", "label")

    def importance(self):
        return importance(
            self.embeddings, self.labels.codes, ["day", "night"], semantic="day_night", embedder="lite0"
        )


@pytest.fixture(scope="module")
def few_night(day_night_folder: Path) -> Photographs:
    """120 day and the first 20 night photographs in manifest order."""
    return Photographs(day_night_folder, np.arange(140))


@pytest.fixture(scope="module")
def balanced(day_night_folder: Path) -> Photographs:
    return Photographs(day_night_folder, np.arange(240))


def test_night_is_found_under_represented_and_important(few_night: Photographs) -> None:
    evidence = gather_evidence(
        few_night.labels, importance=few_night.importance(), embeddings=few_night.embeddings
    )
    verdict = coverage_verdict(evidence)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.failed == ("count[night]",)
    assert verdict.counts == {"real day": 120, "real night": 20}
    text = str(verdict)
    for part in (
        "20 of 140 images found, 30 required",
        "14.3%",
        "cluster recall 0.95",
        "lift 2.8",
        "p 0.0005",
    ):
        assert part in text
    assert "train/day/" in next(line for line in verdict.details if line.startswith("nearest candidates"))
    scan = scan_verdict([evidence])
    assert scan.failed == ("day_night[night]",)
    assert scan["day_night[day]"].outcome is Outcome.PASS


def test_the_balanced_set_passes(balanced: Photographs) -> None:
    evidence = gather_evidence(
        balanced.labels, importance=balanced.importance(), embeddings=balanced.embeddings
    )
    assert coverage_verdict(evidence).passed
    assert scan_verdict([evidence]).passed


def test_figures_agree_with_an_independent_computation(few_night: Photographs) -> None:
    found = few_night.importance()
    order = canonical_order(few_night.embeddings)
    night = np.arange(140) >= 120
    runs = []
    for seed in range(5):
        clusters = np.empty(140, dtype=int)
        clusters[order] = KMeans(6, random_state=seed, n_init=10).fit_predict(few_night.embeddings[order])
        runs.append(clusters)

    def recall(rows: np.ndarray) -> float:
        return float(np.mean([np.bincount(run[rows]).max() / len(rows) for run in runs]))

    generator = np.random.default_rng(0)
    for category, rows in (("day", np.flatnonzero(~night)), ("night", np.flatnonzero(night))):
        figures = found[category]
        assert figures.recall == pytest.approx(recall(rows))
        null = np.array([recall(generator.choice(140, len(rows), replace=False)) for _ in range(1999)])
        assert figures.expected == pytest.approx(null.mean(), rel=0.01)
        assert figures.lift == pytest.approx(recall(rows) / null.mean(), rel=0.01)
        by_hand = ((null >= recall(rows) - 1e-9).sum() + 1) / 2000
        assert figures.p_value == pytest.approx(by_hand, abs=0.001)
        assert figures.adjusted_p == pytest.approx(2 * figures.p_value)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    scores = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(few_night.embeddings, night):
        probe.fit(few_night.embeddings[train], night[train])
        scores.append(roc_auc_score(night[test], probe.decision_function(few_night.embeddings[test])))
    assert found["night"].separability == pytest.approx(np.mean(scores), abs=1e-9)


def test_night_gathers_in_one_cluster_in_the_order_of_the_files_too(few_night: Photographs) -> None:
    for seed in range(3):
        clusters = KMeans(6, random_state=seed, n_init=10).fit_predict(few_night.embeddings)
        assert np.bincount(clusters[120:]).max() / 20 == 0.95


def test_published_cluster_recall(few_night: Photographs) -> None:
    percent = deduce_cluster_recall(few_night.raw, few_night.labels.codes, ["day", "night"])
    assert percent == {"day": 34.17, "night": 95.0}


def test_random_photographs_as_a_category_are_not_important(balanced: Photographs) -> None:
    generator = np.random.default_rng(5)
    for trial in range(4):
        codes = np.zeros(240, dtype=int)
        codes[generator.choice(240, 25, replace=False)] = 1
        figures = importance(
            balanced.embeddings, codes, ["rest", "random"], semantic=f"random{trial}", repeats=2
        )["random"]
        assert figures.is_important(min_lift=1.5, max_p=0.01) is False
