"""What a careful adversary tried: each kind of fault once, with the right answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder
from PIL import Image
from test_sufficiency_photographs import photographs

from pytest_semcov import (
    ArgumentError,
    CocoDataset,
    DatasetError,
    Embeddings,
    ImageFolder,
    ImageList,
    Settings,
    Workbench,
)
from pytest_semcov.errors import ImageError, printable
from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict


def images(levels: list[int], seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(max(level - 20, 0), level + 20, (6, 6, 3), dtype=np.uint8) for level in levels]


def bench(tmp_path: Path) -> Workbench:
    return Workbench(Settings(cache_dir=tmp_path, labels={"day_night": "label"}), embedder=ColourEmbedder())


class TestSharedResults:
    def test_data_sets_with_the_same_ids_do_not_share_clusters(self, tmp_path: Path) -> None:
        """In A night looks like day, in B it does not; ids are the same."""
        labels = ["day"] * 100 + ["night"] * 20
        ids = [f"{number:03d}" for number in range(120)]
        alike = ImageList(images([150] * 120), ids=ids, labels=labels)
        blue = [image * np.array([0, 0, 1], dtype=np.uint8) for image in images([200] * 20, seed=1)]
        apart = ImageList([*images([150] * 100), *blue], ids=ids, labels=labels)
        shared = bench(tmp_path)

        together = [shared.scan(each, ["day_night"]).outcome for each in (alike, apart)]
        alone = [bench(tmp_path).scan(each, ["day_night"]).outcome for each in (alike, apart)]

        assert together == alone
        assert alone[0] is not Outcome.FAIL
        assert alone[1] is Outcome.FAIL


class TestCoverageOfOddDataSets:
    def test_images_without_a_group_are_their_own_groups(self, tmp_path: Path) -> None:
        groups = ["video"] * 40 + [f"image {n}" for n in range(36)] + [None] * 4
        dataset = ImageList(
            images([150] * 40 + [25] * 40), labels=["day"] * 40 + ["night"] * 40, groups=groups
        )

        verdict = bench(tmp_path).coverage(dataset, "day_night")

        assert verdict["groups[day]"].value == 1
        assert verdict["groups[night]"].value == 40

    def test_no_image_at_all_is_a_gap(self, tmp_path: Path) -> None:
        verdict = bench(tmp_path).coverage(ImageList([]), "day_night", labels={"other": "day"})

        assert verdict.outcome is Outcome.FAIL

    def test_an_empty_category_is_a_gap_whatever_the_bars(self, tmp_path: Path) -> None:
        dataset = ImageList(images([150] * 40), labels=["day"] * 40)
        generous = bench(tmp_path).with_settings(min_count=0, min_share=0.0, min_groups=0)

        assert generous.coverage(dataset, "day_night").failed == ("count[night]",)

    def test_a_semantic_named_twice(self, tmp_path: Path) -> None:
        dataset = ImageList(images([150] * 40), labels=["day"] * 40)

        with pytest.raises(ArgumentError, match="'day_night' is named twice"):
            bench(tmp_path).scan(dataset, ["day_night", "day_night"])

    def test_embeddings_must_say_which_image_a_row_is(self, tmp_path: Path) -> None:
        dataset = ImageList(images([150] * 40), labels=["day"] * 40)

        with pytest.raises(ArgumentError, match="must be Embeddings"):
            bench(tmp_path).coverage(dataset, "day_night", embeddings=np.ones((40, 3)))


class TestSufficiency:
    @pytest.mark.parametrize("share", [0.2, 0.3])
    @pytest.mark.parametrize("seed", range(3))
    def test_exact_copies_among_good_images_are_found(
        self, day_night_folder: Path, share: float, seed: int
    ) -> None:
        sets = photographs(day_night_folder)
        order = np.random.default_rng(seed).permutation(120)
        uncovered, other = sets["night"][order[:60]], sets["night"][order[60:]]
        copies = uncovered[: round(60 * share / (1 - share))]

        verdict = sufficiency_verdict(np.r_[copies, other], uncovered, sets["day"], subject="partly copied")

        assert "copies" in verdict.failed

    @pytest.mark.parametrize("count", [10, 12, 15, 20, 30])
    def test_few_real_images_are_never_refused(self, day_night_folder: Path, count: int) -> None:
        sets = photographs(day_night_folder)
        for seed in range(8):
            order = np.random.default_rng(seed).permutation(120)
            verdict = sufficiency_verdict(
                sets["night"][order[count : 2 * count]],
                sets["night"][order[:count]],
                sets["day"],
                subject="few",
                repeats=20,
            )
            assert verdict.outcome is Outcome.INCONCLUSIVE, (seed, str(verdict))

    def test_a_labeller_that_misses_the_real_images_cannot_tell_arrival(self, day_night_folder: Path) -> None:
        sets = photographs(day_night_folder)
        night, day = sets["night"], sets["day"]

        verdict = sufficiency_verdict(
            night[60:], night[:60], day, subject="s", arrival=((50, 60), (1, 60)), repeats=20
        )

        assert verdict["arrival"].outcome is Outcome.INCONCLUSIVE

    @pytest.mark.parametrize("failed", [float("nan"), 1.5, -1])
    def test_failures_are_counted_in_whole_numbers(self, failed: float) -> None:
        rows = np.random.default_rng(0).normal(size=(20, 4))

        with pytest.raises(ArgumentError, match="need a whole number"):
            sufficiency_verdict(rows, rows, rows, subject="s", failed=failed)

    @pytest.mark.parametrize("given", ["images", 3, None])
    def test_what_is_no_set_is_named(self, tmp_path: Path, given: object) -> None:
        rows = np.random.default_rng(0).normal(size=(20, 4))

        with pytest.raises(
            ArgumentError, match=r"synthetic=: need a data set, Embeddings or an \(n, d\) array"
        ):
            bench(tmp_path).sufficiency(given, real_uncovered=rows, real_covered=rows)

    def test_scaled_and_raw_rows_of_one_embedder_are_not_compared(self, tmp_path: Path) -> None:
        rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
        ids = tuple(str(number) for number in range(20))
        scaled = Embeddings(rows, ids, "one", "model")
        raw = Embeddings(rows, ids, "one", "model", normalised=False)

        with pytest.raises(ArgumentError, match="do not come from one embedder"):
            bench(tmp_path).sufficiency(scaled, real_uncovered=scaled, real_covered=raw)


class TestUntrustedFiles:
    def test_absurdly_nested_json_is_malformed_json(self, tmp_path: Path) -> None:
        (tmp_path / "annotations.json").write_text("[" * 200_000)

        with pytest.raises(DatasetError, match=r"annotations\.json: not JSON"):
            len(CocoDataset(tmp_path / "annotations.json", tmp_path))

    def test_a_link_to_itself_does_not_hide_the_other_images(self, tmp_path: Path) -> None:
        for label in ("day", "night"):
            (tmp_path / label).mkdir()
            Image.new("RGB", (4, 4)).save(tmp_path / label / "a.png")
        (tmp_path / "day" / "loop").symlink_to(tmp_path / "day" / "loop")

        assert ImageFolder(tmp_path).ids == ("day/a.png", "night/a.png")


class TestNamesThatSteerTerminals:
    NAME = "\x1b[2Jbad\r\udcff.png"

    def test_control_characters_are_escaped(self) -> None:
        assert printable(self.NAME + "\nsecond line é") == "\\x1b[2Jbad\\r\\udcff.png\nsecond line é"

    def test_in_errors_and_verdicts(self) -> None:
        criterion = Criterion("copies", 1.0, 0.1, None, Outcome.FAIL, f"e.g. {self.NAME}")
        verdict = Verdict("sufficiency", self.NAME, Outcome.FAIL, (criterion,))

        for text in (str(verdict), str(ImageError(self.NAME, "broken", "replace it"))):
            assert "\x1b" not in text
            assert "\r" not in text
            text.encode()
