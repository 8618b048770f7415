"""Calibrated margins: curves against scikit-learn, what they promise on images not seen, what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from pytest_semcov import (
    Descriptor,
    Labels,
    RenderedScenes,
    Settings,
    VerdictInconclusive,
    Workbench,
    assert_semantic_covered,
)
from pytest_semcov.errors import ArgumentError, TooFewError
from pytest_semcov.semantics.calibration import (
    LabelCalibration,
    calibrate_labels,
    descriptor_fingerprint,
    reliability_table,
)
from pytest_semcov.semantics.calibration_curves import Curve

TIME = Descriptor("time", {"day": "daytime", "night": "nighttime"})
SCALE = 100.0


def simulated(
    count: int, *, seed: int = 0, share: float = 0.1, offset: float = 0.02, spread: float = 0.02
) -> tuple[Labels, np.ndarray]:
    """Labels of an encoder that leans towards night and is too sure of itself, and the true codes."""
    random = np.random.default_rng(seed)
    codes = (random.random(count) < share).astype(np.int64)
    margin = (2 * codes - 1) * 0.025 + offset + spread * random.normal(size=count)
    similarity = np.column_stack([0.2 - margin / 2, 0.2 + margin / 2])
    nearest = similarity.argmax(axis=1)
    labels = Labels(
        "time",
        ("day", "night"),
        nearest,
        similarity,
        np.abs(margin),
        "encoder stub",
        tuple(f"img{row}.jpg" for row in range(count)),
        1 / (1 + np.exp(-SCALE * np.abs(margin))),
        "stub",
        "stub",
    )
    return labels, codes


def known_of(labels: Labels, codes: np.ndarray, rows: slice = slice(None)) -> Labels:
    ids = labels.ids[rows]
    return Labels(labels.semantic, labels.categories, codes[rows], None, None, "given", ids)


def calibration_error(probability: np.ndarray, correct: np.ndarray) -> float:
    table = reliability_table(probability, correct, bins=10)
    return sum(each.images * abs(each.promised - each.correct) for each in table) / len(correct)


def calibrated(method: str = "auto", count: int = 2_000) -> tuple[LabelCalibration, Labels, np.ndarray]:
    labels, codes = simulated(count)
    known = known_of(labels, codes)
    return calibrate_labels(labels, known, TIME, method=method), labels, codes  # type: ignore[arg-type]


# The curves


def test_the_logistic_curve_is_platts() -> None:
    found, labels, codes = calibrated("logistic")
    assert labels.similarity is not None
    margin = labels.similarity[:, 1] - labels.similarity[:, 0]
    positive = codes.sum()
    # Minus the log likelihood at Platt's targets, at the curve and around it: the curve is its minimum.
    target = np.where(codes == 1, (positive + 1) / (positive + 2), 1 / (len(codes) - positive + 2))

    def loss(slope: float, intercept: float) -> float:
        p = 1 / (1 + np.exp(-(slope * margin + intercept)))
        return float(-(target * np.log(p) + (1 - target) * np.log(1 - p)).mean())

    slope, intercept = found.curves[0].values
    best = loss(slope, intercept)
    for change in (0.97, 1.03):
        assert loss(slope * change, intercept) > best
        assert loss(slope, intercept * change) > best
    plain = LogisticRegression(C=1e6).fit(margin[:, None] / 0.02, codes)
    assert slope == pytest.approx(plain.coef_[0, 0] / 0.02, rel=0.05)


def test_the_isotonic_curve_is_scikit_learns() -> None:
    found, labels, codes = calibrated("isotonic")
    assert labels.similarity is not None
    margin = labels.similarity[:, 1] - labels.similarity[:, 0]
    n = len(codes)
    model = IsotonicRegression(y_min=1 / (n + 2), y_max=(n + 1) / (n + 2), out_of_bounds="clip")
    grid = np.linspace(-1, 1, 101)
    assert found.curves[0](grid) == pytest.approx(model.fit(margin, codes).predict(grid))


@given(st.sampled_from(["logistic", "isotonic"]), st.lists(st.floats(-2, 2), min_size=2, max_size=20))
def test_curves_rise_and_stay_within_0_and_1(method: str, margins: list[float]) -> None:
    curve = (
        Curve("logistic", (80.0, -1.0)) if method == "logistic" else Curve("isotonic", (-0.1, 0.1, 0.2, 0.9))
    )
    found = curve(np.sort(margins))
    assert (np.diff(found) >= 0).all()
    assert ((found >= 0) & (found <= 1)).all()


def test_extreme_margins_do_not_overflow() -> None:
    assert Curve("logistic", (1e6, 0.0))(np.array([-2.0, 0.0, 2.0])) == pytest.approx([0, 0.5, 1])


# What they promise


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_promises_are_kept_on_images_not_seen(method: str) -> None:
    found, *_ = calibrated(method)
    labels, codes = simulated(4_000, seed=1)
    right = labels.top == codes
    assert labels.probability is not None
    before = calibration_error(labels.probability, right)
    after = calibration_error(found.certainty(labels, TIME), right)
    assert before > 0.15
    assert after < 0.04
    assert found.log_loss[method] < 0.5 * found.log_loss["softmax"]


def test_weighted_counts_are_nearer_to_the_truth() -> None:
    """Night is rare and the encoder leans towards it: counts are far too high until they are weighted."""
    closer = 0
    for seed in range(6):
        labels, codes = simulated(1_200, seed=seed, share=0.06)
        found = calibrate_labels(labels, known_of(labels, codes, slice(400)), TIME)
        truth = int(codes.sum())
        plain, weighted = labels.counts()["night"], found.expected_counts(labels, TIME)["night"]
        assert plain > 3 * truth
        assert abs(weighted - truth) < 0.5 * truth
        assert sum(found.expected_counts(labels, TIME).values()) == pytest.approx(1_200)
        closer += abs(weighted - truth) < abs(plain - truth)
    assert closer == 6


def test_filter_and_abstain_keep_what_is_sure() -> None:
    found, *_ = calibrated()
    labels, codes = simulated(3_000, seed=2)
    sure = found.abstaining(labels, TIME, min_probability=0.95)
    kept = found.filtered(labels, TIME, min_probability=0.95)
    assert len(sure) == len(labels)
    assert kept.ids == tuple(name for name, code in zip(sure.ids, sure.codes, strict=True) if code >= 0)
    assert 0.2 < len(kept) / len(labels) < 0.95
    assert (sure.codes[sure.codes >= 0] == codes[sure.codes >= 0]).mean() >= 0.94
    assert (labels.top == codes).mean() < 0.75
    assert "calibrated" in sure.source
    assert found.abstaining(labels, TIME, min_probability=0.0).uncertain == 0
    with pytest.raises(ArgumentError, match="min_probability=2"):
        found.abstaining(labels, TIME, min_probability=2)


def test_the_reliability_table_counts() -> None:
    table = reliability_table(np.array([0.9, 0.1, 0.8, 0.2]), np.array([True, False, True, True]), bins=2)
    assert [(each.images, each.correct) for each in table] == [(2, 0.5), (2, 1.0)]
    assert [each.promised for each in table] == pytest.approx([0.15, 0.85])
    assert len(reliability_table(np.ones(3), np.ones(3, dtype=bool))) == 3
    found, *_ = calibrated()
    assert sum(each.images for each in found.reliability) == 2_000
    for each in found.reliability:
        low, high = each.interval
        assert low - 0.02 <= each.promised <= high + 0.02
    assert "cross-validated log loss" in str(found)


def test_auto_takes_the_smaller_loss_and_isotonic_with_many_labels_only() -> None:
    found, labels, codes = calibrated()
    assert set(found.log_loss) == {"logistic", "isotonic", "softmax"}
    assert found.log_loss[found.method] == min(found.log_loss["logistic"], found.log_loss["isotonic"])
    few = calibrate_labels(labels, known_of(labels, codes, slice(300)), TIME)
    assert set(few.log_loss) == {"logistic", "softmax"}
    # A step is no logistic curve.
    random = np.random.default_rng(0)
    margin = random.uniform(-0.1, 0.1, size=2_000)
    step = np.where(margin > 0.05, 0.6, 0.2)
    truth = (random.random(2_000) < step).astype(np.int64)
    steps = replace(
        simulated(2_000)[0], similarity=np.column_stack([-margin / 2, margin / 2]), margin=np.abs(margin)
    )
    assert calibrate_labels(steps, known_of(steps, truth), TIME).method == "isotonic"


def test_three_categories_sum_to_one_and_keep_their_promise() -> None:
    def draw(seed: int) -> tuple[Labels, np.ndarray]:
        random = np.random.default_rng(seed)
        codes = random.choice(3, size=1_500, p=[0.6, 0.3, 0.1])
        similarity = 0.05 * np.eye(3)[codes] + 0.03 * random.normal(size=(1_500, 3)) + [0, 0, 0.02]
        ids = tuple(f"{row}" for row in range(1_500))
        top = similarity.argmax(axis=1)
        return Labels("s", ("a", "b", "c"), top, similarity, np.zeros(1_500), "e", ids, None, "e", "e"), codes

    descriptor = Descriptor("s", {"a": "a", "b": "b", "c": "c"})
    labels, codes = draw(0)
    found = calibrate_labels(labels, known_of(labels, codes), descriptor)
    unseen, truth = draw(1)
    probabilities = found.probabilities(unseen, descriptor)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(1_500))
    assert calibration_error(found.certainty(unseen, descriptor), unseen.top == truth) < 0.05
    counts = found.expected_counts(unseen, descriptor)
    assert abs(counts["c"] - (truth == 2).sum()) < abs(unseen.counts()["c"] - (truth == 2).sum())


# What they refuse


def test_too_few_labels_are_an_error() -> None:
    labels, codes = simulated(400, share=0.1)
    rows = np.concatenate([np.flatnonzero(codes == 0)[:50], np.flatnonzero(codes == 1)[:9]])
    known = known_of(labels, codes).select(rows)
    with pytest.raises(TooFewError, match="9 known labels of night, need 10 of each"):
        calibrate_labels(labels, known, TIME)
    with pytest.raises(TooFewError, match="need 50"):
        calibrate_labels(labels, known_of(labels, codes), TIME, method="isotonic")
    one_group = [f"g{row % 7}" if code == 0 else "one" for row, code in enumerate(codes)]
    with pytest.raises(TooFewError, match="from one group"):
        calibrate_labels(labels, known_of(labels, codes), TIME, groups=one_group)


def test_groups_stay_in_one_fold() -> None:
    """Every image ten times: without groups the folds hold the same images, and the loss looks smaller."""
    labels, codes = simulated(60, share=0.5, offset=0)
    rows = np.repeat(np.arange(60), 10)
    many = replace(labels.select(rows), ids=tuple(f"{row}" for row in range(600)))
    truth = known_of(many, codes[rows])
    apart = calibrate_labels(many, truth, TIME, method="isotonic", groups=rows.tolist())
    together = calibrate_labels(many, truth, TIME, method="isotonic")
    assert apart.log_loss["isotonic"] > together.log_loss["isotonic"]


def test_another_encoder_descriptor_or_semantic_is_refused(tmp_path: Path) -> None:
    found, labels, codes = calibrated()
    found.save(tmp_path / "time.json")
    loaded = LabelCalibration.load(tmp_path / "time.json")
    assert loaded == found
    assert loaded.certainty(labels, TIME) == pytest.approx(found.certainty(labels, TIME))
    with pytest.raises(ArgumentError, match="does not hold for labels by other"):
        loaded.certainty(replace(labels, encoder="other", encoder_fingerprint="2"), TIME)
    for changed in (
        Descriptor("time", {"day": "daytime", "night": "at night"}),
        Descriptor("time", TIME.categories, scene=("on a road",)),
    ):
        assert descriptor_fingerprint(changed) != descriptor_fingerprint(TIME)
        with pytest.raises(ArgumentError, match="phrases of 'time' are not those"):
            loaded.abstaining(labels, changed)
    with pytest.raises(ArgumentError, match="does not hold for labels of 'weather'"):
        loaded.certainty(replace(labels, semantic="weather"), TIME)
    with pytest.raises(ArgumentError, match="have no margin"):
        calibrate_labels(known_of(labels, codes), known_of(labels, codes), TIME)
    with pytest.raises(ArgumentError, match="method='beta'"):
        calibrate_labels(labels, known_of(labels, codes), TIME, method="beta")  # type: ignore[arg-type]
    for text in ("", "[]", '{"format": 9}', '{"format": 1}'):
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(ArgumentError, match="is no calibration"):
            LabelCalibration.load(tmp_path / "wrong.json")
    with pytest.raises(ArgumentError, match="is no calibration"):
        LabelCalibration.load(tmp_path / "absent.json")


# From images


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(Settings(cache_dir=tmp_path_factory.mktemp("cache"), device="cpu"))


SMALL = [RenderedScenes(120, seed=seed, size=24) for seed in (5, 6)]
"""Scenes in few pixels: the built-in encoder is less often right than it says."""


def test_rendered_scenes(bench: Workbench) -> None:
    learnt, unseen = SMALL
    for semantic, wrong in (("nodamage_damage", 0.08), ("lowdense_highdense", 0.2)):
        found = bench.calibrate(learnt, semantic, labels=semantic)
        labels = bench.label(unseen, semantic)
        truth = np.array([labels.code(str(category)) for category in unseen.column(semantic)])
        right = labels.top == truth
        assert labels.probability is not None
        before = calibration_error(labels.probability, right)
        assert before > wrong
        assert calibration_error(found.certainty(labels, bench.descriptor(semantic)), right) < 0.7 * before
        category = labels.categories[1]
        plain = int((labels.top == 1).sum())
        weighted = found.expected_counts(labels, bench.descriptor(semantic))[category]
        assert abs(weighted - (truth == 1).sum()) < abs(plain - (truth == 1).sum())


def test_a_workbench_labels_with_a_calibration(bench: Workbench) -> None:
    scenes = SMALL[0]
    found = bench.calibrate(scenes, "lowdense_highdense", labels="lowdense_highdense")
    strict = bench.with_settings(min_certainty=0.9)
    labels = strict.label(scenes, "lowdense_highdense", calibration=found)
    expected = found.certainty(labels, bench.descriptor("lowdense_highdense")) < 0.9
    assert ((labels.codes == -1) == expected).all()
    assert labels.uncertain > 0
    with pytest.raises(VerdictInconclusive, match="have no certain label"):
        assert_semantic_covered(scenes, "lowdense_highdense", labels=labels, workbench=strict)
    with pytest.raises(ArgumentError, match="labels= are known"):
        bench.label(scenes, "lowdense_highdense", labels="lowdense_highdense", calibration=found)
    with pytest.raises(ArgumentError, match="does not hold for labels of 'clear_rain'"):
        bench.label(scenes, "clear_rain", calibration=found)
