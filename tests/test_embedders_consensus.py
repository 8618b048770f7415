"""Votes of several embedders joined to one outcome, in scans and in verdicts on synthetic images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pytest_semcov import (
    Descriptor,
    Embeddings,
    ImageList,
    Settings,
    VerdictFailed,
    VerdictInconclusive,
    Workbench,
    assert_embedders_agree,
    assert_no_uncovered_semantics,
    assert_synthetic_sufficient,
)
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.consensus import RULES, join, joined_verdict, max_p_per_embedder
from pytest_semcov.gates.figures import CategoryImportance, SemanticEvidence
from pytest_semcov.gates.scan import consensus_scan_verdict, scan_verdict
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict

PASS, FAIL, OPEN, NOTE = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.INFO
votes = st.lists(st.sampled_from([PASS, FAIL, OPEN, NOTE]), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("said", "by_all", "by_majority"),
    [
        ([PASS, PASS, PASS], PASS, PASS),
        ([PASS, PASS, FAIL], FAIL, PASS),
        ([PASS, FAIL, FAIL], FAIL, FAIL),
        ([PASS, PASS, OPEN], OPEN, PASS),
        ([PASS, OPEN, OPEN], OPEN, OPEN),
        ([FAIL, OPEN, OPEN], FAIL, OPEN),
        ([PASS, FAIL, OPEN], FAIL, OPEN),
        ([PASS, FAIL], FAIL, OPEN),
        ([FAIL, FAIL, OPEN, OPEN], FAIL, OPEN),
        ([NOTE, NOTE, FAIL], FAIL, NOTE),
        ([NOTE, PASS, PASS], NOTE, NOTE),
    ],
)
def test_truth_table(said: list[Outcome], by_all: Outcome, by_majority: Outcome) -> None:
    assert join(said, "all") is by_all
    assert join(said, "majority") is by_majority


@given(votes, st.sampled_from(["all", "majority"]))
def test_order_does_not_matter_and_one_voice_is_itself(said: list[Outcome], rule: str) -> None:
    assert join(said, rule) is join(said[::-1], rule)
    assert join(said[:1], rule) is said[0]


@given(votes)
def test_a_majority_decides_nothing_without_more_than_half(said: list[Outcome]) -> None:
    found = join(said, "majority")
    half = len(said) / 2
    assert (found is FAIL) == (said.count(FAIL) > half)
    assert (found in (PASS, NOTE)) == (said.count(PASS) + said.count(NOTE) > half)


def test_the_median_rank_decides() -> None:
    assert join([FAIL, PASS, OPEN], "median-rank", [1, 5, 9]) is PASS
    assert join([FAIL, FAIL, NOTE], "median-rank", [1, 2, 9]) is FAIL
    # Of four, the middle two must agree; ranks that are equal are both in the middle.
    assert join([FAIL, PASS, PASS, FAIL], "median-rank", [1, 2, 3, 4]) is PASS
    assert join([FAIL, PASS, FAIL, FAIL], "median-rank", [1, 2, 3, 4]) is OPEN
    assert join([FAIL, PASS, NOTE], "median-rank", [3, 3, 9]) is OPEN
    # Without ranks only what all say is decided.
    assert join([OPEN, OPEN], "median-rank") is OPEN
    assert join([PASS, PASS], "median-rank") is PASS


@pytest.mark.parametrize("rule", ["all", "majority"])
@pytest.mark.parametrize("dependence", ["independent", "equal", "never two at once"])
def test_the_joined_error_keeps_its_level(rule: str, dependence: str) -> None:
    """Each of three embedders is wrong as often as it is allowed to be; joined they are within 5 %."""
    each = max_p_per_embedder(0.05, 3, rule)
    draws = np.random.default_rng(0).random((20_000, 3))
    if dependence == "equal":
        draws = np.repeat(draws[:, :1], 3, axis=1)
    if dependence == "never two at once":
        draws = (draws[:, :1] + np.arange(3) * each) % 1
    wrong = (draws < each).sum(axis=1)
    assert ((wrong >= (1 if rule == "all" else 2)).mean()) <= 0.05 + 0.005
    assert max_p_per_embedder(0.05, 1, rule) == 0.05


def test_bad_rules_are_named() -> None:
    with pytest.raises(ArgumentError, match="must be one of 'all', 'majority', 'median-rank'"):
        join([PASS], "most")
    with pytest.raises(ArgumentError, match="no outcome"):
        join([], "all")
    with pytest.raises(ArgumentError, match="no verdict"):
        joined_verdict({}, "all")
    with pytest.raises(ArgumentError, match="joins ranks of categories"):
        joined_verdict({"a": verdict_of(PASS)}, "median-rank")


def verdict_of(outcome: Outcome) -> Verdict:
    criterion = Criterion("drift", 0.4, 0.5, (0.3, 0.6), outcome)
    return Verdict("sufficiency", "synthetic night", outcome, (criterion,), summary=f"it is {outcome}")


def test_a_joined_verdict_says_who_said_what() -> None:
    said = {"one": verdict_of(PASS), "two": verdict_of(OPEN), "three": verdict_of(PASS)}
    by_majority, by_all = joined_verdict(said, "majority"), joined_verdict(said, "all")
    assert by_majority.passed
    assert by_all.outcome is OPEN
    assert by_majority.failed == ()
    assert by_majority["consensus"].value == 2
    assert (by_majority["consensus"].bar, by_all["consensus"].bar) == (2, 3)
    assert "PASS under one, three; INCONCLUSIVE under two" in by_majority.summary
    assert by_majority["embedder[two]"].note == "INCONCLUSIVE: it is INCONCLUSIVE"
    assert any(line.startswith("two: INCONCLUSIVE drift 0.4 [0.3, 0.6]") for line in by_all.details)
    assert by_all.to_dict()["provenance"]["verdicts"]["two"]["outcome"] == "INCONCLUSIVE"  # type: ignore[index,call-overload]
    assert joined_verdict({"one": said["one"]}, "all") is said["one"]


def evidence(lift: float, *, count: int = 20, other: float = 1.2) -> list[SemanticEvidence]:
    def figures(semantic: str, category: str, value: float) -> CategoryImportance:
        p = 0.001 if value >= 1.5 else 0.5
        return CategoryImportance(
            semantic,
            category,
            20,
            recall=0.2 * value,
            expected=0.2,
            p_value=p,
            adjusted_p=p,
            separability=0.5,
        )

    return [
        SemanticEvidence(
            "day_night",
            counts={"day": 120, "night": count},
            importance={"night": figures("day_night", "night", lift)},
        ),
        SemanticEvidence(
            "clear_rain",
            counts={"clear": 70, "rain": 70},
            importance={
                "clear": figures("clear_rain", "clear", other),
                "rain": figures("clear_rain", "rain", 1.0),
            },
        ),
    ]


class TestScan:
    said: ClassVar = {"a": evidence(3.0), "b": evidence(1.0), "c": evidence(1.1, other=4.0)}

    def scan(self, rule: str, said: dict[str, list[SemanticEvidence]] | None = None) -> Verdict:
        return consensus_scan_verdict(said or self.said, consensus=rule)

    def test_one_important_of_three(self) -> None:
        assert self.scan("all").failed == ("day_night[night]",)
        by_majority = self.scan("majority")
        assert by_majority.passed
        assert by_majority["day_night[night]"].outcome is NOTE
        note = by_majority["day_night[night]"].note
        assert "important to a (cluster recall 0.60, lift 3" in note
        assert "not important to b (cluster recall 0.20, lift 1" in note
        assert by_majority.provenance["consensus"] == "majority"

    def test_median_rank(self) -> None:
        # night is first of three under a, second under c, and shares the last place (2.5) under b.
        assert self.scan("median-rank")["day_night[night]"].outcome is NOTE
        two = {"a": evidence(3.0), "b": evidence(2.0, other=4.0), "c": evidence(1.0, other=4.0)}
        assert self.scan("median-rank", two).failed == ("day_night[night]",)

    def test_two_that_differ_are_open_by_majority(self) -> None:
        two = {"a": evidence(3.0), "b": evidence(1.0)}
        assert self.scan("majority", two).outcome is OPEN

    @pytest.mark.parametrize("rule", RULES)
    def test_what_all_say_holds_under_every_rule(self, rule: str) -> None:
        same = {name: evidence(3.0) for name in "abc"}
        found = consensus_scan_verdict(same, consensus=rule)
        assert found.criteria == scan_verdict(evidence(3.0)).criteria
        none = {name: evidence(3.0, count=0) for name in "abc"}
        assert consensus_scan_verdict(none, consensus=rule).passed
        assert consensus_scan_verdict(none, consensus=rule, absent="fail").failed == ("day_night[night]",)

    def test_bad_arguments(self) -> None:
        with pytest.raises(ArgumentError, match="consensus='none'"):
            self.scan("none")
        with pytest.raises(ArgumentError, match="one embedder at least"):
            consensus_scan_verdict({}, consensus="all")


# From images to joined verdicts


class Brightness(ColourEmbedder):
    """Sees the mean colour only."""

    def embed(self, batch: list[np.ndarray]) -> np.ndarray:
        return super().embed(batch)[:, :3] + np.float32([0, 0, 0.2])


class Texture(ColourEmbedder):
    """Sees which columns vary, and nothing of the brightness."""

    def embed(self, batch: list[np.ndarray]) -> np.ndarray:
        self.batches.append(len(batch))
        columns = [image.mean(axis=(0, 2))[:8] for image in batch]
        return np.stack([column / column.mean() for column in columns]).astype(np.float32)


def pictures(brightness: Sequence[int], *, start: int = 0, times: Sequence[str]) -> ImageList:
    images = []
    for seed, level in enumerate(brightness, start=start):
        random = np.random.default_rng(seed)
        pattern = np.repeat(random.random((1, 16, 1)), 16, axis=0) * np.ones((1, 1, 3))
        pixels = level * (0.5 + 0.3 * pattern) * random.uniform(0.9, 1.1, size=3)
        images.append(Image.fromarray(pixels.round().astype(np.uint8)))
    return ImageList(
        images,
        ids=[f"{start + number}" for number in range(len(images))],
        metadata=[{"time": time} for time in times],
    )


def spread(low: int, high: int, count: int) -> list[int]:
    return np.linspace(low, high, count).astype(int).tolist()


LEVELS = [*spread(120, 250, 120), *spread(20, 30, 20)]
RELEASE = pictures(LEVELS, times=["day"] * 120 + ["night"] * 20)
TIME = Descriptor.from_labels("time", ["day", "night"])


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(Settings(cache_dir=tmp_path, repeats=60))


def embedders() -> list[ColourEmbedder]:
    return [
        Brightness(name="brightness", fingerprint="b"),
        ColourEmbedder(name="colour", fingerprint="c"),
        Texture(name="texture", fingerprint="t"),
    ]


def scan(bench: Workbench, rule: str, **arguments: object) -> Verdict:
    return assert_no_uncovered_semantics(
        RELEASE,
        [TIME],
        labels={"time": "time"},
        consensus=rule,
        workbench=bench,
        **arguments,  # type: ignore[arg-type]
    )


def test_a_scan_by_several_embedders_computes_each_image_once(bench: Workbench) -> None:
    models = embedders()
    with pytest.raises(VerdictFailed, match=r"time\[night\] is under-represented and important") as found:
        scan(bench, "all", embedders=models)
    note = found.value.verdict["time[night]"].note
    assert "important to brightness" in note
    assert "to texture (cluster recall" in note
    assert {model.computed for model in models} == {len(RELEASE)}
    ranking = bench.rank(RELEASE, [TIME], labels={"time": "time"}, embedders=models[:2])
    assert set(ranking.entries[0].ranks) == {"brightness", "colour"}  # type: ignore[union-attr]
    assert "Kendall W" in str(ranking)
    # The same from embeddings at hand.
    rows = [bench.with_embedder(model).embed(RELEASE) for model in models]
    with pytest.raises(VerdictFailed) as again:
        scan(bench, "all", embeddings=rows)
    assert again.value.verdict.criteria == found.value.verdict.criteria
    # Two that do not see it outvote one that does.
    blind = [models[0], models[2], Texture(name="texture 2", fingerprint="t2")]
    try:
        outcome = scan(bench, "majority", embedders=blind).outcome
    except VerdictInconclusive as error:
        outcome = error.verdict.outcome
    assert outcome in (PASS, OPEN)


def test_embedders_are_not_given_twice_or_with_embeddings(bench: Workbench) -> None:
    model = ColourEmbedder()
    with pytest.raises(ArgumentError, match="'colour' is given twice"):
        scan(bench, "all", embedders=[model, model])
    with pytest.raises(ArgumentError, match="not both"):
        scan(bench, "all", embedders=[model], embeddings=bench.with_embedder(model).embed(RELEASE))
    for wrong in ([], "builtin"):
        with pytest.raises(ArgumentError, match="one embedder or more"):
            scan(bench, "all", embedders=wrong)
    with pytest.raises(ArgumentError, match="agreement needs two"):
        assert_embedders_agree(RELEASE, [model], semantics=[TIME], labels={"time": "time"}, workbench=bench)


def test_agreement_over_too_few_semantics(bench: Workbench) -> None:
    with pytest.raises(VerdictInconclusive, match="too few semantics"):
        assert_embedders_agree(
            RELEASE, embedders(), semantics=[TIME], labels={"time": "time"}, workbench=bench
        )


def test_agreement_of_embeddings_at_hand() -> None:
    """Six semantics shift the images by more and more; two embedders see it alike, a third in reverse."""
    random = np.random.default_rng(0)
    count, semantics = 60, 6
    codes = random.random((count, semantics)) < 0.5
    dataset = ImageList(
        [Image.new("RGB", (8, 8), (number, 0, 0)) for number in range(count)],
        metadata=[{f"s{s}": "ab"[int(code)] for s, code in enumerate(row)} for row in codes],
    )
    sizes = np.linspace(0.2, 3.0, semantics)

    def seen(order: np.ndarray, name: str) -> Embeddings:
        rows = np.hstack([codes * order, 0.3 * random.normal(size=(count, 4))])
        return Embeddings(rows.astype(np.float32), tuple(dataset.ids), name, name, normalised=False)

    names = [f"s{s}" for s in range(semantics)]
    arguments = {
        "semantics": [Descriptor.from_labels(name, ["a", "b"]) for name in names],
        "labels": {name: name for name in names},
        "workbench": Workbench(),
    }
    alike, as_well, reversed_ = (
        seen(order, name) for order, name in ((sizes, "one"), (sizes, "two"), (sizes[::-1], "three"))
    )
    verdict = assert_embedders_agree(dataset, [alike, as_well], min_agreement=0.2, **arguments)  # type: ignore[arg-type]
    assert verdict.counts["semantics"] == 6
    with pytest.raises(VerdictFailed, match="do not rank importance alike"):
        assert_embedders_agree(dataset, [alike, reversed_], **arguments)  # type: ignore[arg-type]


def test_synthetic_images_under_several_embedders(bench: Workbench) -> None:
    night = pictures(spread(15, 35, 90), start=1000, times=["night"] * 90)
    day = pictures(spread(120, 250, 90), start=2000, times=["day"] * 90)
    brighter = pictures(spread(120, 250, 60), start=3000, times=["night"] * 60)
    models = embedders()
    sets = {"real_uncovered": night, "real_covered": day, "workbench": bench}

    with pytest.raises(VerdictFailed, match="consensus") as found:
        assert_synthetic_sufficient(brighter, embedders=models, **sets)  # type: ignore[arg-type]
    verdict = found.value.verdict
    assert verdict.kind == "sufficiency"
    assert "FAIL under brightness, colour" in verdict.summary
    # The texture does not tell night from day: it has no say.
    assert verdict["embedder[texture]"].note.startswith("INCONCLUSIVE")
    assert {model.computed for model in models} == {240}
    with pytest.raises(VerdictFailed):
        assert_synthetic_sufficient(brighter, embedders=models, consensus="majority", **sets)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="synthetic= must be a data set"):
        assert_synthetic_sufficient(np.ones((20, 3)), embedders=models, **sets)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="joins ranks"):
        assert_synthetic_sufficient(brighter, embedders=models, consensus="median-rank", **sets)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="given twice"):
        assert_synthetic_sufficient(brighter, embedders=[models[0], models[0]], **sets)  # type: ignore[arg-type]
