"""The bench of descriptors: its figures against scikit-learn and by hand, its recommendation, its costs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from semantics_helpers import StubEncoder, embeddings_of
from sklearn.metrics import balanced_accuracy_score, precision_score, recall_score, roc_auc_score

from pytest_semcov import Descriptor, ImageList, Labels, Settings, Workbench
from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics.auc import area_under_roc
from pytest_semcov.semantics.bench import compare_descriptors, part_layouts, wording_layouts
from pytest_semcov.semantics.bench_table import DescriptorBench
from pytest_semcov.semantics.reliability import fleiss_kappa
from pytest_semcov.semantics.texts import TextMemory

TIME = Descriptor("time", {"day": "daytime", "night": "nighttime"})


def known_of(codes: Sequence[int], categories: Sequence[str] = ("day", "night")) -> Labels:
    ids = tuple(f"img{row}.jpg" for row in range(len(codes)))
    return Labels("time", tuple(categories), np.asarray(codes, dtype=np.int64), None, None, "given", ids)


def two_texts(angle: float, *, off: float = 0.0) -> dict[str, list[float]]:
    """Directions of day and night, turned away from where the images' difference lies."""
    turned = np.array([np.sin(angle), np.cos(angle), 0.0])
    return {
        "daytime": [1.0, *(-turned[1:] + off), *turned[:1]],
        "nighttime": [1.0, *(turned[1:] + off), *-turned[:1]],
    }


def images(
    count: int, *, seed: int = 0, noise: float = 0.5, share: float = 0.4
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (common, difference, noise, noise) and their categories."""
    random = np.random.default_rng(seed)
    codes = (random.random(count) < 0.4).astype(int)
    rows = np.column_stack(
        [
            np.ones(count),
            (2 * codes - 1) * 0.4 + noise * random.normal(size=count),
            random.normal(size=(count, 2)),
        ]
    )
    return rows, codes


# The figures


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=2, max_size=30).filter(
        lambda rows: len({p for _, p, w in rows if w}) == 2
    )
)
def test_auc_is_that_of_scikit_learn(rows: list[tuple[int, bool, int]]) -> None:
    scores, positive, weights = (np.array(column) for column in zip(*rows, strict=True))
    expected = roc_auc_score(positive, scores, sample_weight=weights)
    assert area_under_roc(scores, positive, weights=weights[None]) == pytest.approx([expected])
    assert area_under_roc(scores, positive) == pytest.approx([roc_auc_score(positive, scores)])


def test_auc_of_one_side_and_bad_arguments() -> None:
    assert np.isnan(area_under_roc([1, 2], [True, False], weights=[[1, 0]]))
    # A pair won and a pair lost beside one faultless pair: (1 + 1) / (1 + 2).
    assert area_under_roc([2, 1], [True, False], prior=(np.ones(1), np.ones(1))) == pytest.approx([2 / 3])
    with pytest.raises(TooFewError, match="2 of 2 images are positive"):
        area_under_roc([1, 2], [True, True])
    with pytest.raises(ArgumentError, match="need one per image"):
        area_under_roc([1, 2], [True])
    with pytest.raises(NonFiniteError, match="NaN"):
        area_under_roc([1, np.nan], [True, False])


def test_fleiss_kappa_by_hand() -> None:
    # Three wordings, four images; votes (3, 0), (2, 1), (0, 3), (1, 2). Pairs that agree: 1, 1/3, 1, 1/3,
    # mean 2/3. Half of all votes are for either category: 1/2 by chance. (2/3 - 1/2) / (1 - 1/2) = 1/3.
    votes = np.array([[3, 0], [2, 1], [0, 3], [1, 2]])
    assert fleiss_kappa(votes) == pytest.approx(1 / 3)


def test_scores_are_those_of_scikit_learn() -> None:
    rows, codes = images(300)
    encoder = StubEncoder(two_texts(0.3))
    table = compare_descriptors(
        [(encoder, embeddings_of(rows))], {"own": TIME}, known_of(codes), resamples=199
    )
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    texts = np.array([encoder.texts[text] for text in ("daytime", "nighttime")])
    cosines = unit @ (texts / np.linalg.norm(texts, axis=1, keepdims=True)).T
    found = cosines.argmax(axis=1)
    row = table.rows[0]
    assert table.target == "night"  # the rarer one
    assert row.scores == pytest.approx(
        {
            "precision": precision_score(codes, found),
            "recall": recall_score(codes, found),
            "balanced_accuracy": balanced_accuracy_score(codes, found),
            "auc": roc_auc_score(codes, cosines[:, 1] - cosines[:, 0]),
        }
    )
    for name, value in row.scores.items():
        low, high = row.intervals[name] or (1.0, 0.0)
        assert low < (value or 0.0) < high
    logits = 100 * (cosines.max(axis=1) - cosines.min(axis=1))
    assert row.uncertain == pytest.approx((1 / (1 + np.exp(-logits)) < 0.6).mean())
    assert row.wordings == 4


def test_intervals_hold_the_true_scores() -> None:
    """Of 150 data sets of 80 images each, the intervals of balanced accuracy and AUC miss few."""
    encoder = StubEncoder(two_texts(0.3))
    everything, truth = images(40_000, seed=99)
    exact = compare_descriptors(
        [(encoder, embeddings_of(everything))], {"own": TIME}, known_of(truth), resamples=2
    ).rows[0]
    held = dict.fromkeys(exact.scores, 0)
    for seed in range(150):
        rows, codes = images(80, seed=seed)
        row = compare_descriptors(
            [(encoder, embeddings_of(rows))], {"own": TIME}, known_of(codes), target="night", resamples=199
        ).rows[0]
        for name, value in exact.scores.items():
            low, high = row.intervals[name] or (0.0, 0.0)
            held[name] += low <= (value or -1.0) <= high
    assert min(held.values()) / 150 >= 0.90, held


def test_a_faultless_row_has_an_interval_too() -> None:
    rows, codes = images(40, noise=0.0)
    row = compare_descriptors(
        [(StubEncoder(two_texts(0.0)), embeddings_of(rows))], {"own": TIME}, known_of(codes), resamples=199
    ).rows[0]
    for name in ("precision", "recall", "balanced_accuracy", "auc"):
        low, high = row.intervals[name] or (0.0, 0.0)
        assert row.scores[name] == 1.0
        assert 0.7 < low < 0.97, name
        assert high >= 0.99


# The recommendation

LAYOUTS = {
    "own": TIME,
    "same again": TIME,
    "useless": Descriptor("time", {"day": "this", "night": "that"}),
}


def bench_of(count: int) -> DescriptorBench:
    rows, codes = images(count, noise=0.3)
    useless = {"this": [1.0, 0, 0, 1], "that": [1.0, 0, 0, -1]}
    encoder = StubEncoder(two_texts(0.1) | useless)
    return compare_descriptors([(encoder, embeddings_of(rows))], LAYOUTS, known_of(codes), resamples=299)


def test_the_best_lower_bound_is_recommended_and_what_is_as_good_named() -> None:
    table = bench_of(300)
    assert table.best is table.rows[0]
    assert table.as_good == (1,)
    assert table.rows[0].intervals == table.rows[1].intervals
    assert "not distinguishable from it: stub, same again" in table.recommendation


def test_few_labels_distinguish_nothing() -> None:
    rows, codes = images(20)
    encoder = StubEncoder(two_texts(0.0) | {"this": [1.0, -1, 0.15, 0], "that": [1.0, 1, -0.15, 0]})
    layouts = {"own": TIME, "worse": LAYOUTS["useless"]}
    measured = [(encoder, embeddings_of(rows))]
    table = compare_descriptors(measured, layouts, known_of(codes), resamples=299)
    assert "with 20 labels nothing is distinguishable" in table.recommendation


def test_equal_layouts_are_seldom_called_different() -> None:
    """Two layouts equally good on the whole, wrong on other images: of 100 data sets few tell them apart."""
    different = 0
    encoder = StubEncoder(
        two_texts(0.0)
        | {
            "this": [1.0, -1, 0.6, 0],
            "that": [1.0, 1, -0.6, 0],
            "one": [1.0, -1, 0, 0.6],
            "other": [1.0, 1, 0, -0.6],
        }
    )
    layouts = {
        "first": Descriptor("time", {"day": "this", "night": "that"}),
        "second": Descriptor("time", {"day": "one", "night": "other"}),
    }
    for seed in range(100):
        rows, codes = images(120, seed=seed)
        table = compare_descriptors([(encoder, embeddings_of(rows))], layouts, known_of(codes), resamples=199)
        different += not table.as_good
    assert different <= 10


def test_the_table_prints_and_converts() -> None:
    table = bench_of(60)
    lines = str(table).splitlines()
    assert len(lines) == 1 + 1 + 3 + 1
    assert "60 images with known label" in lines[0]
    assert json.loads(json.dumps(table.to_dict()))["rows"][2]["layout"] == "useless"
    written = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["layout"] for row in written] == list(LAYOUTS)
    assert float(written[0]["auc_low"]) <= float(written[0]["auc"])


def test_an_encoder_that_does_not_know_the_words_has_a_row_that_says_so() -> None:
    rows, codes = images(40)
    encoder = StubEncoder(two_texts(0.0), semantics={"time": {"day": ["daytime"], "night": ["nighttime"]}})
    layouts = {"own": TIME, "strange": LAYOUTS["useless"]}
    table = compare_descriptors([(encoder, embeddings_of(rows))], layouts, known_of(codes), resamples=99)
    assert "does not know the phrase 'this'" in table.rows[1].problem
    assert table.recommended == 0
    assert "no other row" in table.recommendation
    assert table.rows[0].kappa is None
    nothing = compare_descriptors(
        [(encoder, embeddings_of(rows))], {"strange": LAYOUTS["useless"]}, known_of(codes), resamples=99
    )
    assert nothing.best is None
    assert "nothing can be recommended" in str(nothing)


def test_three_categories() -> None:
    random = np.random.default_rng(0)
    codes = np.arange(90) % 3
    rows = np.eye(3)[codes] + 0.4 * random.normal(size=(90, 3))
    encoder = StubEncoder({"a": [1, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1]})
    layout = Descriptor("time", {"x": "a", "y": "b", "z": "c"})
    table = compare_descriptors(
        [(encoder, embeddings_of(rows))], {"own": layout}, known_of(codes, "xyz"), target="y", resamples=99
    )
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = roc_auc_score(codes == 1, unit[:, 1] - np.maximum(unit[:, 0], unit[:, 2]))
    assert table.rows[0].scores["auc"] == pytest.approx(expected)


def test_groups_widen_the_intervals() -> None:
    rows, codes = images(40)
    many, repeated = np.repeat(rows, 6, axis=0), np.repeat(codes, 6)
    measured = [(StubEncoder(two_texts(0.3)), embeddings_of(many))]

    def width(groups: list[int] | None) -> float:
        table = compare_descriptors(measured, {"own": TIME}, known_of(repeated), groups=groups, resamples=299)
        low, high = table.rows[0].intervals["balanced_accuracy"] or (0.0, 0.0)
        return high - low

    assert width(np.repeat(np.arange(40), 6).tolist()) > 1.8 * width(None)


def test_bad_arguments_are_named() -> None:
    rows, codes = images(40)
    measured = [(StubEncoder(two_texts(0.0)), embeddings_of(rows))]
    known = known_of(codes)
    with pytest.raises(ArgumentError, match="need one each"):
        compare_descriptors(measured, {}, known)
    with pytest.raises(ArgumentError, match="two encoders are called 'stub'"):
        compare_descriptors(measured * 2, {"own": TIME}, known)
    with pytest.raises(ArgumentError, match="layout 'other' has the categories a, b"):
        compare_descriptors(measured, {"other": Descriptor("time", {"a": "a", "b": "b"})}, known)
    with pytest.raises(ArgumentError, match="no category 'dusk'"):
        compare_descriptors(measured, {"own": TIME}, known, target="dusk")
    with pytest.raises(TooFewError, match="known labels of day only"):
        compare_descriptors(measured, {"own": TIME}, known_of([0] * 40))


# Layouts, and each text and image once


def test_parts_are_put_in_and_left_out() -> None:
    whole = Descriptor(
        "time", TIME.categories, object=("a car",), scene=("on a road",), additional=("with rain",)
    )
    layouts = part_layouts(whole)
    assert len(layouts) == 8
    assert layouts["semantic"].prompts("night") == ("nighttime",)
    assert layouts["object + scene + semantic + additional"] == whole
    assert layouts["scene + semantic"].prompts("night") == ("on a road nighttime",)
    assert part_layouts(TIME) == {"semantic": TIME}
    several = Descriptor("time", {"day": ("daytime", "sunlit"), "night": "nighttime"}, scene=("on a road",))
    assert wording_layouts(several)["wording 2"].prompts("day") == ("on a road sunlit",)
    assert wording_layouts(several)["wording 2"].prompts("night") == ("on a road nighttime",)
    assert wording_layouts(TIME) == {}


def test_each_text_is_embedded_once() -> None:
    rows, codes = images(40)
    encoder = StubEncoder(two_texts(0.0))
    whole = Descriptor("time", TIME.categories, object=("a car",), scene=("on a road",))
    memory = TextMemory(encoder)
    compare_descriptors([(memory, embeddings_of(rows))], part_layouts(whole), known_of(codes), resamples=9)
    assert len(encoder.asked) == len(set(encoder.asked)) == 4 * 2 * 4


class PixelEncoder(StubEncoder):
    """Embeds an image by its mean colour; counts."""

    def __init__(self, name: str) -> None:
        super().__init__({"daytime": [1, 1, 1], "nighttime": [-1, -1, 1.2]})
        self.name = self.fingerprint = name
        self.images = 0

    def preprocess(self, image: object) -> object:
        return np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) / 128 - 1

    def encode_images(self, batch: Sequence[object]) -> np.ndarray:
        self.images += len(batch)
        return super().encode_images(batch) + np.float32([0, 0, 1])


def test_from_a_workbench(tmp_path: Path) -> None:
    levels = [200] * 30 + [20] * 20 + [90] * 5
    dataset = ImageList(
        [Image.new("RGB", (8, 8), (level, level + row % 40, level)) for row, level in enumerate(levels)],
        labels=["day"] * 30 + ["night"] * 20 + [None] * 5,
    )
    first, second = PixelEncoder("first"), PixelEncoder("second")
    bench = Workbench(Settings(cache_dir=tmp_path), descriptors=[TIME])
    for _ in range(2):
        table = bench.descriptor_bench(
            dataset, "time", labels="label", encoders=[first, second], resamples=99
        )
        assert [row.encoder for row in table.rows] == ["first", "second"]
        assert (table.images, table.target) == (50, "night")
        assert table.rows[0].scores["balanced_accuracy"] == 1.0
    assert first.images == second.images == 50  # the five without a label are not looked at
    assert len(first.asked) == len(set(first.asked))
    with pytest.raises(ArgumentError, match="one encoder or more"):
        bench.descriptor_bench(dataset, "time", labels="label", encoders=[])
    with pytest.raises(ArgumentError, match="no image has a known category"):
        bench.descriptor_bench(dataset.subset(range(50, 55)), "time", labels="label")
