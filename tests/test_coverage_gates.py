"""The coverage, scan and combination verdicts on figures made by hand."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.coverage import (
    CoverageBars,
    combinations_verdict,
    coverage_verdict,
)
from pytest_semcov.gates.figures import Candidate, CategoryImportance, LabelError, SemanticEvidence
from pytest_semcov.gates.scan import scan_verdict
from pytest_semcov.gates.verdict import Outcome


def evidence(semantic: str = "day_night", **fields: object) -> SemanticEvidence:
    return SemanticEvidence(semantic, **{"counts": {"day": 120, "night": 20}, **fields})  # type: ignore[arg-type]


def figures(
    category: str,
    *,
    lift: float = 3.0,
    p: float = 0.001,
    count: int = 20,
    separability: float | None = None,
) -> CategoryImportance:
    return CategoryImportance(
        "day_night",
        category,
        count,
        recall=0.3 * lift,
        expected=0.3,
        p_value=p / 2,
        adjusted_p=p,
        separability=separability,
    )


def unknown(category: str, count: int) -> CategoryImportance:
    return CategoryImportance("day_night", category, count)


def test_too_few_images_fail_with_a_text_that_is_complete() -> None:
    verdict = coverage_verdict(
        evidence(
            importance={"night": figures("night")},
            candidates={"night": (Candidate("day/7.jpg", 0.1, "distance"),)},
        )
    )
    assert verdict.outcome is Outcome.FAIL
    assert verdict.failed == ("count[night]",)
    first, *rest = str(verdict).splitlines()
    assert first == (
        "day_night: night is under-represented: 20 of 140 images found, 30 required; "
        "share 14.3%, 12.5% required"
    )
    text = "\n".join(rest)
    assert "cluster recall 0.90, lift 3 over random subsets of 20, p 0.0005 (adjusted 0.001)" in text
    assert "nearest candidates not labelled night: day/7.jpg (distance 0.1)" in text
    assert "add at least 10 images of night" in text
    assert 'semcov_augment(semantic="day_night", to="night"' in text
    assert verdict.counts == {"real day": 120, "real night": 20}


def test_balanced_categories_pass_and_show_all_criteria() -> None:
    verdict = coverage_verdict(evidence(counts={"day": 120, "night": 120}))
    assert verdict.passed
    assert [criterion.name for criterion in verdict.criteria] == [
        "count[day]",
        "share[day]",
        "count[night]",
        "share[night]",
        "uncertain",
    ]
    assert verdict.summary == "day_night: all 2 categories are covered (day 120, night 120)"


def test_importance_judges_nothing_in_a_named_semantic() -> None:
    bad = {"day": figures("day", lift=1.0, p=1.0), "night": figures("night", lift=1.0, p=1.0)}
    assert coverage_verdict(evidence(importance=bad)).outcome is Outcome.FAIL
    covered = evidence(counts={"day": 120, "night": 120}, importance={"night": figures("night")})
    assert coverage_verdict(covered).passed
    assert coverage_verdict(covered)["lift[night]"].outcome is Outcome.INFO


@pytest.mark.parametrize(("night", "outcome"), [(29, Outcome.FAIL), (30, Outcome.PASS)])
def test_count_bar_is_met_exactly(night: int, outcome: Outcome) -> None:
    assert coverage_verdict(evidence(counts={"day": 100, "night": night})).outcome is outcome


def test_share_is_a_part_of_an_equal_share() -> None:
    # Four categories: 0.25 / 4 = 6.25 % of 1,000 images.
    counts = {"a": 500, "b": 438, "c": 62, "d": 0}
    verdict = coverage_verdict(evidence(counts={**counts, "b": 375, "d": 63}))
    assert verdict["share[c]"].outcome is Outcome.FAIL
    assert verdict["share[c]"].bar == pytest.approx(0.0625)
    assert verdict["share[d]"].outcome is Outcome.PASS
    # 0.0625 of the new total too: (62 + a) / (1000 + a) ≥ 0.0625 needs a ≥ 0.53.
    assert "add at least 1 image of c" in str(verdict)


def test_an_empty_category_and_an_empty_data_set_fail() -> None:
    verdict = coverage_verdict(evidence(counts={"day": 120, "night": 0}))
    assert verdict.outcome is Outcome.FAIL
    assert "0 of 120 images found" in verdict.summary
    nothing = coverage_verdict(evidence(counts={"day": 0, "night": 0}))
    assert nothing.outcome is Outcome.FAIL
    assert "0 of 0 images found" in nothing.summary
    assert "(also night)" in nothing.summary


def test_groups_are_judged_where_they_are_known() -> None:
    counts = {"day": 120, "night": 60}
    assert coverage_verdict(evidence(counts=counts, groups={"day": 9, "night": 5})).passed
    verdict = coverage_verdict(evidence(counts=counts, groups={"day": 9, "night": 4}))
    assert verdict.failed == ("groups[night]",)
    assert "4 groups, 5 required" in verdict.summary
    assert "add further groups of night" in str(verdict)


def test_synthetic_images_count_and_are_shown_apart() -> None:
    verdict = coverage_verdict(evidence(synthetic={"day": 0, "night": 98}))
    assert verdict.passed
    assert verdict.counts == {"real day": 120, "real night": 20, "synthetic night": 98}
    assert verdict["count[night]"].value == 118
    assert "20 real, 98 synthetic" in verdict["count[night]"].note
    few = coverage_verdict(evidence(synthetic={"night": 5}))
    assert "25 of 145 images found (20 real, 5 synthetic)" in few.summary


def test_uncertain_images_may_fall_either_way() -> None:
    verdict = coverage_verdict(evidence(uncertain=15))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict["count[night]"].interval == (20, 35)
    assert verdict["count[night]"].outcome is Outcome.INCONCLUSIVE
    assert verdict["count[day]"].outcome is Outcome.PASS
    assert "labels leave it open" in verdict.summary
    # Even with all uncertain images it stays below the bar.
    assert coverage_verdict(evidence(uncertain=9)).outcome is Outcome.FAIL
    assert (
        coverage_verdict(evidence(uncertain=9, possible={"day": 9, "night": 0}))["count[night]"].interval
        is None
    )


def test_more_uncertain_labels_than_allowed_judge_nothing() -> None:
    verdict = coverage_verdict(evidence(uncertain=36))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert all(
        criterion.outcome is Outcome.INCONCLUSIVE
        for criterion in verdict.criteria
        if criterion.outcome is not Outcome.INFO
    )
    assert "36 of 176 images (20.5%) have no certain label, more than 20.0%" in verdict.summary
    # Exactly the allowed share still judges.
    assert coverage_verdict(evidence(counts={"day": 200, "night": 200}, uncertain=100)).passed


ERROR = LabelError((57, 60), (170, 180), "240 reference labels")


def test_known_label_error_gives_an_interval_and_a_bar_inside_it_is_inconclusive() -> None:
    verdict = coverage_verdict(
        evidence(counts={"day": 105, "night": 35}, estimated=True, label_error={"night": ERROR})
    )
    criterion = verdict["count[night]"]
    expected = (35 - 140 * 10 / 180) / (57 / 60 + 170 / 180 - 1)
    assert criterion.value == pytest.approx(expected)
    assert criterion.interval[0] < 30 < criterion.interval[1]
    assert criterion.outcome is Outcome.INCONCLUSIVE
    assert "recall 57/60, specificity 170/180, counted on 240 reference labels" in criterion.note
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_a_count_far_from_the_bar_is_judged_in_spite_of_label_error() -> None:
    many = evidence(
        counts={"day": 300, "night": 120}, estimated=True, label_error={"night": ERROR, "day": ERROR}
    )
    assert coverage_verdict(many).passed
    few = evidence(counts={"day": 300, "night": 4}, estimated=True, label_error={"night": ERROR})
    assert coverage_verdict(few).outcome is Outcome.FAIL


def test_label_error_does_not_touch_synthetic_images() -> None:
    verdict = coverage_verdict(
        evidence(
            counts={"day": 300, "night": 4},
            synthetic={"night": 60},
            estimated=True,
            label_error={"night": ERROR},
        )
    )
    low, high = verdict["count[night]"].interval
    assert low == 60
    assert high < 75


def test_groups_may_be_fewer_or_more_where_labels_may_be_wrong() -> None:
    verdict = coverage_verdict(
        evidence(counts={"day": 120, "night": 60}, uncertain=4, groups={"day": 9, "night": 4})
    )
    assert verdict["groups[night]"].interval == (4, 8)
    assert verdict["groups[night]"].outcome is Outcome.INCONCLUSIVE


def test_verdicts_are_plain_python() -> None:
    verdict = coverage_verdict(
        evidence(importance={"night": figures("night"), "day": unknown("day", 3)}, uncertain=3),
        provenance={"seed": 7},
    )
    record = json.loads(json.dumps(verdict.to_dict()))
    assert record["provenance"]["seed"] == 7
    assert record["provenance"]["bars"]["min_count"] == 30
    assert record["criteria"]


def test_gates_need_no_heavy_library() -> None:
    code = (
        "import sys; import pytest_semcov.gates.coverage, pytest_semcov.gates.labels; "
        "print(sorted({'torch', 'sklearn', 'PIL', 'pytest', 'open_clip'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("bars", [{"min_count": -1}, {"min_share": 1.5}, {"max_p": float("nan")}])
def test_impossible_bars_are_refused(bars: dict) -> None:
    with pytest.raises(ArgumentError, match=next(iter(bars))):
        CoverageBars(**bars)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 400), min_size=2),
    st.integers(0, 100),
)
def test_a_pass_means_that_every_category_meets_both_bars(counts: dict[str, int], uncertain: int) -> None:
    verdict = coverage_verdict(evidence(counts=counts, uncertain=uncertain))
    images = sum(counts.values()) + uncertain
    meets = (
        all(count >= 30 and count / images >= 0.25 / len(counts) for count in counts.values())
        if images
        else False
    )
    if verdict.passed:
        assert meets
    if verdict.outcome is Outcome.FAIL:
        assert not meets
    if not uncertain:
        assert verdict.passed is meets


# Scans


def test_under_represented_and_important_fails_the_scan() -> None:
    verdict = scan_verdict(
        [evidence(importance={"night": figures("night"), "day": figures("day", lift=1.1)})]
    )
    assert verdict.outcome is Outcome.FAIL
    assert verdict.failed == ("day_night[night]",)
    assert verdict["day_night[night]"].bar == 30
    assert "important" in verdict["day_night[night]"].note


@pytest.mark.parametrize(("lift", "p"), [(1.4, 0.0001), (3.0, 0.02)])
def test_under_represented_but_not_important_is_a_note(lift: float, p: float) -> None:
    small = figures("night", lift=lift, p=p, separability=0.6)
    verdict = scan_verdict([evidence(importance={"night": small})])
    assert verdict.passed
    assert verdict["day_night[night]"].outcome is Outcome.INFO
    assert "day_night[night]" in verdict.details[-1]


@pytest.mark.parametrize(
    ("separability", "reason"),
    [(0.99, "a linear classifier tells its images apart"), (None, "separability not measured")],
)
def test_images_that_do_not_gather_but_are_told_apart_may_be_important(
    separability: float | None, reason: str
) -> None:
    open_figures = figures("night", lift=1.1, p=0.5, separability=separability)
    verdict = scan_verdict([evidence(importance={"night": open_figures})])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    criterion = verdict["day_night[night]"]
    assert criterion.outcome is Outcome.INCONCLUSIVE
    assert reason in criterion.note


def test_absent_is_a_note_or_a_failure_as_wished() -> None:
    absent = evidence(counts={"day": 120, "night": 0}, importance={"night": unknown("night", 0)})
    assert scan_verdict([absent]).passed
    assert "absent" in scan_verdict([absent])["day_night[night]"].note
    assert scan_verdict([absent], absent="fail").failed == ("day_night[night]",)
    with pytest.raises(ArgumentError, match="absent"):
        scan_verdict([absent], absent="ignore")


def test_too_few_images_to_know_the_importance_is_inconclusive() -> None:
    verdict = scan_verdict(
        [evidence(counts={"day": 120, "night": 4}, importance={"night": unknown("night", 4)})]
    )
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "importance unknown (4 images, need 10)" in verdict["day_night[night]"].note


def test_a_scan_of_absent_categories_only_passes_and_a_scan_of_nothing_does_not() -> None:
    empty = evidence(counts={"day": 0, "night": 0})
    assert scan_verdict([empty]).passed
    assert scan_verdict([]).outcome is Outcome.INCONCLUSIVE


def test_a_semantic_that_cannot_be_labelled_leaves_the_scan_open() -> None:
    fine = evidence(counts={"day": 120, "night": 120})
    verdict = scan_verdict([fine, SemanticEvidence("clear_fog", problem="the encoder does not know it")])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "clear_fog" in verdict.summary
    assert "does not know it" in str(verdict)


def test_doubtful_labels_leave_their_semantic_open() -> None:
    verdict = scan_verdict(
        [evidence(uncertain=60, importance={"night": figures("night", lift=1.0), "day": figures("day")})]
    )
    assert verdict["day_night[night]"].outcome is Outcome.INCONCLUSIVE
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_the_count_required_in_a_scan_is_the_larger_of_count_and_share() -> None:
    verdict = scan_verdict(
        [evidence(counts={"day": 900, "night": 100}, importance={"night": figures("night")})]
    )
    assert verdict["day_night[night]"].bar == 125
    assert verdict.outcome is Outcome.FAIL


# Combinations


def combos(counts: dict[str, int], **fields: object) -> SemanticEvidence:
    return SemanticEvidence("day_night × clear_rain", counts=counts, **fields)  # type: ignore[arg-type]


def test_a_rare_combination_fails_by_name() -> None:
    verdict = combinations_verdict(
        [combos({"day × clear": 200, "day × rain": 60, "night × clear": 60, "night × rain": 3})]
    )
    assert verdict.failed == ("day_night × clear_rain[night × rain]",)
    assert "3 images found, 30 required" in verdict.summary
    assert "1 of 4 combinations are under-represented" in verdict.summary


def test_covered_combinations_pass() -> None:
    assert combinations_verdict([combos({"a × b": 40, "a × c": 40})]).passed


def test_uncertain_images_leave_only_the_combinations_open_that_they_fit() -> None:
    verdict = combinations_verdict(
        [combos({"a × b": 29, "a × c": 100}, uncertain=5, possible={"a × b": 2, "a × c": 0})]
    )
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict["day_night × clear_rain[a × b]"].interval == (29, 31)
    assert verdict["day_night × clear_rain[a × c]"].outcome is Outcome.PASS


def test_too_many_uncertain_images_judge_nothing() -> None:
    verdict = combinations_verdict([combos({"a × b": 50, "a × c": 50}, uncertain=50)])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict["uncertain[day_night × clear_rain]"].outcome is Outcome.INCONCLUSIVE


def test_many_combinations_are_shown_worst_first_and_bounded() -> None:
    counts = {f"c{number}": number for number in range(100)}
    verdict = combinations_verdict([combos(counts)], CoverageBars(min_share=0.0), limit=10)
    assert [criterion.value for criterion in verdict.criteria[:10]] == list(range(10))
    assert verdict["90 further combinations"].outcome is Outcome.FAIL
    assert len(str(verdict).splitlines()) < 20
    assert verdict.summary.startswith("30 of 100 combinations")


def test_no_combination_at_all_is_inconclusive() -> None:
    assert combinations_verdict([]).outcome is Outcome.INCONCLUSIVE
    problem = SemanticEvidence("a × b", problem="not labelled")
    assert combinations_verdict([problem]).outcome is Outcome.INCONCLUSIVE
    with pytest.raises(ArgumentError, match="limit"):
        combinations_verdict([], limit=0)
