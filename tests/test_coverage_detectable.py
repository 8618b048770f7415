"""What verdicts on coverage and labels say they could have seen, held against simulations of the gates."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.coverage import (
    CoverageBars,
    combinations_verdict,
    coverage_verdict,
)
from pytest_semcov.gates.figures import LabelError, LabelMatches, LabelReliability, SemanticEvidence
from pytest_semcov.gates.labels import label_reliability_verdict
from pytest_semcov.gates.scan import scan_verdict
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict
from pytest_semcov.semantics.importance import importance

RUNS = 400
POWER = 0.8


def within_bounds(failures: int, *, runs: int = RUNS, at_least: bool = False) -> bool:
    """Whether so many of the runs agree with a probability of 0.8 (or more), but for one case in 1,000."""
    low, high = binom.ppf([0.0005, 0.9995], runs, POWER)
    return bool(low <= failures and (at_least or failures <= high))


def evidence(night: int, day: int = 120, **more: object) -> SemanticEvidence:
    return SemanticEvidence("day_night", counts={"day": day, "night": night}, **more)  # type: ignore[arg-type]


def test_exact_counts_see_one_image_missing() -> None:
    seen = coverage_verdict(evidence(40)).smallest_detectable
    assert seen == {
        "count[day]": 29,
        "share[day]": 19 / 160,
        "count[night]": 29,
        "share[night]": 19 / 160,
    }
    assert coverage_verdict(evidence(29, 200)).failed == ("count[night]",)
    assert coverage_verdict(evidence(30, 200)).passed
    # 19 of 160 is below an eighth, 20 of 160 is not
    few = CoverageBars(min_count=1)
    assert coverage_verdict(evidence(19, 141), few).failed == ("share[night]",)
    assert coverage_verdict(evidence(20, 140), few).passed


@pytest.mark.parametrize("images", [7, 56, 120, 1003])
@pytest.mark.parametrize("min_share", [0.1, 0.25, 0.7, 1.0])
def test_the_share_seen_is_the_last_that_fails(images: int, min_share: float) -> None:
    bars = CoverageBars(min_count=1, min_share=min_share)
    seen = coverage_verdict(evidence(1, images - 1), bars).smallest_detectable["share[night]"]
    assert seen is not None
    count = round(seen * images)
    last, next_one = (
        coverage_verdict(evidence(night, images - night), bars)["share[night]"]
        for night in (count, count + 1)
    )
    assert last.outcome is Outcome.FAIL
    assert next_one.outcome is Outcome.PASS


def test_criteria_that_cannot_fail_state_nothing() -> None:
    verdict = coverage_verdict(evidence(40), CoverageBars(min_share=0))
    assert [*verdict.smallest_detectable] == ["count[day]", "count[night]"]
    with_synthetic = coverage_verdict(evidence(5, synthetic={"night": 98}))
    assert "count[night]" not in with_synthetic.smallest_detectable
    assert with_synthetic.smallest_detectable["count[day]"] == 29
    assert coverage_verdict(SemanticEvidence("fog", problem="not known")).smallest_detectable == {}


def test_uncertain_labels_leave_room_and_too_many_of_them_everything_open() -> None:
    open_labels = evidence(40, uncertain=9, possible={"day": 9, "night": 4})
    seen = coverage_verdict(open_labels).smallest_detectable
    assert (seen["count[day]"], seen["count[night]"]) == (20, 25)
    assert coverage_verdict(evidence(25, uncertain=4)).failed == ("count[night]",)
    assert coverage_verdict(evidence(26, uncertain=4))["count[night]"].outcome is Outcome.INCONCLUSIVE
    doubtful = coverage_verdict(evidence(40, uncertain=60))
    assert set(doubtful.smallest_detectable.values()) == {None}
    assert "nothing of count[night]" in str(doubtful)
    blind = coverage_verdict(evidence(40, 260, uncertain=35)).smallest_detectable
    assert blind["count[night]"] is None


ERROR = {"recall": (47, 50), "specificity": (95, 100)}


@pytest.mark.parametrize(("criterion", "images"), [("count[night]", 200), ("share[night]", 700)])
def test_counts_by_a_labeller_that_errs_fail_as_often_as_stated(criterion: str, images: int) -> None:
    """At the stated count, the labeller's rates drawn from what its reference labels leave possible."""
    error = {"day": LabelError(**ERROR), "night": LabelError(**ERROR)}
    bars = CoverageBars(min_count=30 if criterion.startswith("count") else 1)
    seen = coverage_verdict(evidence(40, images - 40, label_error=error), bars).smallest_detectable[criterion]
    assert seen is not None
    count = round(seen if criterion.startswith("count") else seen * images)
    generator = np.random.default_rng(5)
    verdicts: dict[int, bool] = {}

    def fails(labelled: int) -> bool:
        if labelled not in verdicts:
            judged = coverage_verdict(evidence(labelled, images - labelled, label_error=error), bars)
            verdicts[labelled] = criterion in judged.failed
        return verdicts[labelled]

    def rate(true: int) -> int:
        recalls, alarms = generator.beta(47.5, 3.5, RUNS), generator.beta(5.5, 95.5, RUNS)
        labelled = generator.binomial(true, recalls) + generator.binomial(images - true, alarms)
        return sum(fails(int(number)) for number in labelled)

    assert within_bounds(rate(count), at_least=True)
    assert within_bounds(rate(count)) or count < 3
    assert rate(count + 6) < rate(count)


def test_groups_fail_at_least_as_often_as_stated() -> None:
    error = {"day": LabelError((500, 500), (500, 500)), "night": LabelError((500, 500), (499, 500))}
    bars = CoverageBars(min_count=1, min_share=0, min_groups=12)
    images, group_size = 400, 5

    def judged(labels: np.ndarray, groups: np.ndarray) -> Verdict:
        members = groups[labels]
        sizes = np.unique(members, return_counts=True)[1]
        return coverage_verdict(
            evidence(
                int(labels.sum()),
                int((~labels).sum()),
                label_error=error,
                groups={"day": images, "night": len(sizes)},
                group_images={"night": tuple(sizes.tolist())},
            ),
            bars,
        )

    groups = np.arange(images) // group_size
    night = groups < 8
    seen = judged(night, groups).smallest_detectable["groups[night]"]
    assert seen is not None
    assert 5 <= seen < 11
    generator = np.random.default_rng(6)
    truth = groups < seen
    failures, runs = 0, 150
    for _ in range(runs):
        recall, alarm = generator.beta(500.5, 0.5), generator.beta(1.5, 499.5)
        labels = np.where(truth, generator.random(images) < recall, generator.random(images) < alarm)
        failures += "groups[night]" in judged(labels, groups).failed
    assert within_bounds(failures, runs=runs, at_least=True)


def test_combinations_state_the_count_up_to_which_they_fail() -> None:
    rows = {"day × clear": 200, "day × rain": 60, "night × clear": 60, "night × rain": 12}
    pairs = SemanticEvidence("day_night × clear_rain", counts=rows, uncertain=3)
    verdict = combinations_verdict([pairs])
    # An eighth of a quarter of 335 images is 20.9: of count and share the count of 30 asks for more.
    assert verdict.smallest_detectable["day_night × clear_rain[night × rain]"] == 30 - 1 - 3
    few = combinations_verdict([pairs], CoverageBars(min_count=5), limit=1)
    assert few.smallest_detectable == {"day_night × clear_rain[night × rain]": 20 - 3}
    at_edge = SemanticEvidence("a × b", counts={**rows, "night × rain": 26}, uncertain=3)
    assert combinations_verdict([at_edge]).failed == ("a × b[night × rain]",)


CLUSTERS = (0.3, 0.2, 0.2, 0.1, 0.1, 0.1)


def scan(generator: np.random.Generator, share: float | None, *, night: int = 20, tests: int = 6) -> Verdict:
    """Judge 380 day images in six clusters, and some night images of which a share lies in the fourth."""
    day = generator.choice(6, size=380, p=CLUSTERS)
    apart = generator.random(night) < (0.0 if share is None else share)
    others = generator.choice([0, 1, 2, 4, 5], size=night, p=np.delete(CLUSTERS, 3) / 0.9)
    clusters = np.concatenate([day, np.where(apart, 3, others)])
    rows = np.eye(6)[clusters] + 0.01 * generator.normal(size=(len(clusters), 6))
    codes = (np.arange(len(clusters)) >= 380).astype(int)
    measured = importance(
        rows,
        codes,
        ["day", "night"],
        semantic="day_night",
        assignments=np.tile(clusters, (2, 1)),
        permutations=1999,
        tests=tests,
        seed=int(generator.integers(2**31)),
    )
    figures = {
        entry.category: type(entry)(
            **{
                name: getattr(entry, name)
                for name in ("semantic", "category", "count", "recall", "expected", "p_value")
            },
            # the other tests of the family are of no importance: Holm's first step
            adjusted_p=None if entry.p_value is None else min(tests * entry.p_value, 1.0),
            critical_recall=entry.critical_recall,
        )
        for entry in measured.categories
    }
    return scan_verdict([evidence(night, 380, importance=figures)])


def test_scan_fails_as_often_as_stated_at_the_smallest_lift(monkeypatch: pytest.MonkeyPatch) -> None:
    # The scan does not judge by it here, and a fit in each of the runs would take long.
    monkeypatch.setattr("pytest_semcov.semantics.importance.separability", lambda *args, **more: None)
    generator = np.random.default_rng(7)
    pilot = scan(generator, 0.5)
    lift = pilot.smallest_detectable["day_night[night] lift"]
    assert lift is not None
    expected = _expected_of(pilot)
    assert 1.5 < lift < 3
    failures = sum(scan(generator, lift * expected).outcome is Outcome.FAIL for _ in range(RUNS))
    assert within_bounds(failures)
    assert f"could have seen: day_night[night] lift ≥ {lift:.3g}" in str(pilot)


def _expected_of(verdict: Verdict) -> float:
    """Return the recall expected by chance, from lift and recall as the note shows them, by simulation."""
    assert "lift" in verdict["day_night[night]"].note
    pool = np.repeat(np.arange(6), (np.array(CLUSTERS) * 400).astype(int))
    generator = np.random.default_rng(8)
    drawn = [np.bincount(generator.choice(pool, 20, replace=False)).max() / 20 for _ in range(4000)]
    return float(np.mean(drawn))


def test_scan_says_where_importance_could_not_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_semcov.semantics.importance.separability", lambda *args, **more: None)
    generator = np.random.default_rng(9)
    assert scan(generator, 0.9, night=7).smallest_detectable == {"day_night[night] lift": None}
    # So many tests that even images that share one cluster would not reach the corrected bar.
    hopeless = scan(generator, 1.0, tests=200)
    assert hopeless.smallest_detectable == {"day_night[night] lift": None}
    assert hopeless.outcome is not Outcome.FAIL
    assert "could have seen: nothing of day_night[night] lift" in str(hopeless)
    # Covered categories: importance decides nothing.
    assert scan(generator, 0.9, night=100).smallest_detectable == {}


def test_critical_recall_is_where_the_p_value_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_semcov.semantics.importance.separability", lambda *args, **more: None)
    clusters = np.concatenate([np.arange(300) % 6, np.repeat(3, 20)])
    codes = (np.arange(320) >= 300).astype(int)
    found = {}
    for inside in range(3, 21):
        moved = clusters.copy()
        moved[300 + inside :] = np.arange(20 - inside) % 3
        entry = importance(
            np.eye(6)[moved], codes, ["a", "b"], assignments=moved[None], max_p=0.05, tests=2, seed=1
        )["b"]
        assert entry.critical_recall is not None
        assert entry.p_value is not None
        assert (entry.p_value <= 0.025) == (entry.recall >= entry.critical_recall - 1e-9)
        found[inside] = entry.p_value <= 0.025
    assert set(found.values()) == {False, True}
    with pytest.raises(ArgumentError, match="tests=1"):
        importance(np.eye(6)[clusters], codes, ["a", "b"], assignments=clusters[None], tests=1)


def reliability(correct: int, labelled: int) -> LabelReliability:
    """Return matches with perfect recall, of which precision alone varies."""
    match = LabelMatches("night", correct, labelled, correct, correct, labelled)
    return LabelReliability("day_night", "a test", images=200, reference=200, matches=(match,))


@pytest.mark.parametrize("labelled", [25, 100])
def test_labels_fail_as_often_as_stated(labelled: int) -> None:
    verdict = label_reliability_verdict(reliability(labelled, labelled))
    share = verdict.smallest_detectable["precision[night]"]
    assert share is not None
    assert 0.3 < share < 0.8
    correct = np.random.default_rng(10).binomial(labelled, share, size=RUNS)
    failures = sum(
        "precision[night]" in label_reliability_verdict(reliability(int(each), labelled)).failed
        for each in correct
    )
    assert within_bounds(failures)
    assert f"precision[night] ≤ {share:.3g}" in str(verdict)


def test_labels_that_few_references_cannot_refute() -> None:
    verdict = label_reliability_verdict(reliability(2, 2))
    assert verdict.smallest_detectable == {"precision[night]": None, "recall[night]": None}
    assert "could have seen: nothing of precision[night], nothing of recall[night]" in str(verdict)
    no_bar = label_reliability_verdict(reliability(50, 50), min_precision=0)
    assert [*no_bar.smallest_detectable] == ["recall[night]"]


def test_verdicts_print_and_record_what_they_could_have_seen() -> None:
    criteria = tuple(
        Criterion(name, 0.5, 0.5, None, Outcome.PASS, at_least=at_least)
        for name, at_least in (("drift", True), ("copies", False))
    )
    seen = {"drift": 0.31, "copies": 0.25, "radius": None}
    verdict = Verdict("sufficiency", "night", Outcome.PASS, criteria, smallest_detectable=seen)
    assert "\n  could have seen: drift ≤ 0.31, copies ≥ 0.25, nothing of radius" in str(verdict)
    assert json.loads(json.dumps(verdict.to_dict()))["smallest_detectable"] == seen
    many = Verdict("scan", "all", Outcome.PASS, (), smallest_detectable={f"c{n}": 1.0 for n in range(30)})
    assert str(many).endswith("c8 ≥ 1 and 21 more")
    assert "could have seen" not in str(Verdict("scan", "all", Outcome.PASS, ()))
