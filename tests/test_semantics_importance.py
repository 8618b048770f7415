"""Cluster recall, lift, p-values, separability, rankings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.gates.figures import CategoryImportance
from pytest_semcov.metrics.cluster_recall import assign_clusters, cluster_recall, null_recalls
from pytest_semcov.metrics.multiple_testing import holm
from pytest_semcov.metrics.separability import separability
from pytest_semcov.semantics.importance import (
    Importance,
    adjust_together,
    deduce_cluster_recall,
    importance,
    permutations_for,
)
from pytest_semcov.semantics.ranking import rank, rank_across_embedders


def blobs(seed: int = 0, images: int = 240, width: int = 8, centres: int = 6) -> np.ndarray:
    generator = np.random.default_rng(seed)
    middle = 8 * generator.normal(size=(centres, width))
    return middle[np.arange(images) % centres] + generator.normal(size=(images, width))


def test_recall_by_hand() -> None:
    assert cluster_recall([0, 0, 0, 1, 2], [True] * 5) == 0.6
    assert cluster_recall([0, 0, 0, 1, 2], [False, False, True, True, False]) == 0.5
    assert cluster_recall([0, 1], [True, False]) == 1.0
    assert math.isnan(cluster_recall([0, 1], [False, False]))


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=40),
    st.permutations(range(6)),
    st.integers(0, 2**32 - 1),
)
def test_recall_ignores_cluster_names_and_row_order(clusters: list[int], names: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    members = generator.random(len(clusters)) < 0.6
    members[0] = True
    order = generator.permutation(len(clusters))
    renamed = np.array(names)[np.array(clusters)]
    recall = cluster_recall(clusters, members)
    assert cluster_recall(renamed, members) == recall
    assert cluster_recall(np.array(clusters)[order], members[order]) == recall
    assert 1 / 6 <= recall <= 1


def test_grouping_is_scikit_learns_and_does_not_depend_on_the_order_of_rows() -> None:
    array = blobs()
    found = assign_clusters(array, repeats=3, seed=5)
    for run in range(3):
        reference = KMeans(6, random_state=5 + run, n_init=10).fit_predict(array)
        assert len(set(zip(found[run].tolist(), reference.tolist(), strict=True))) == 6
    order = np.random.default_rng(1).permutation(len(array))
    assert np.array_equal(assign_clusters(array[order], repeats=3, seed=5), found[:, order])


@settings(max_examples=5, deadline=None)
@given(st.floats(1e-2, 1e3), st.floats(-50, 50))
def test_figures_do_not_depend_on_a_global_affine_scaling(factor: float, offset: float) -> None:
    array = blobs(images=120)
    codes = np.arange(120) % 2
    plain_percent = deduce_cluster_recall(array, codes, ["a", "b"])
    scaled_percent = deduce_cluster_recall(factor * array + offset, codes, ["a", "b"])
    assert scaled_percent == plain_percent


def test_a_category_in_a_cluster_of_its_own_is_important_and_the_rest_is_not() -> None:
    array = blobs()
    codes = (np.arange(240) % 6 == 0).astype(int)
    found = importance(array, codes, ["rest", "apart"], semantic="s", embedder="e")
    apart, rest = found["apart"], found["rest"]
    assert apart.recall == 1.0
    assert apart.p_value == pytest.approx(1 / 2000)
    # A random fortieth of six equal clusters: the largest of six hypergeometric counts is about 0.27.
    assert 3.0 < apart.lift < 4.5
    assert apart.separability == 1.0
    assert apart.is_important(min_lift=1.5, max_p=0.01) is True
    assert rest.is_important(min_lift=1.5, max_p=0.01) is False
    assert found.to_dict()["categories"][1]["lift"] == apart.lift
    assert "apart" in str(found)


def test_few_images_are_unknown_though_their_recall_would_be_one() -> None:
    array = blobs()
    codes = np.zeros(240, dtype=int)
    codes[0] = 1
    entry = importance(array, codes, ["a", "b"])["b"]
    assert entry.count == 1
    assert entry.recall is None
    assert entry.lift is None
    assert entry.is_important(min_lift=1.5, max_p=0.01) is None
    assert "unknown" in str(entry)


def test_random_subset_of_thirty_has_the_known_bias_and_no_small_p() -> None:
    generator = np.random.default_rng(3)
    assignments = generator.integers(0, 6, (1, 3000))
    members = np.zeros(3000, dtype=bool)
    members[generator.choice(3000, 30, replace=False)] = True
    null = null_recalls(assignments, members, permutations=1999, generator=generator)
    assert null.mean() == pytest.approx(0.27, abs=0.01)
    recall = cluster_recall(assignments[0], members)
    assert ((null >= recall).sum() + 1) / 2000 > 0.05


@pytest.mark.parametrize(("size", "expected"), [(3, 0.49), (10, 0.35), (100, 0.22), (300, 0.19)])
def test_bias_of_recall_by_size(size: int, expected: float) -> None:
    assignments = (np.arange(6000) % 6)[None]
    members = np.arange(6000) < size
    null = null_recalls(assignments, members, permutations=4000, generator=np.random.default_rng(0))
    assert null.mean() == pytest.approx(expected, abs=0.012)


def brute_force(assignments: np.ndarray, size: int, draws: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    recalls = []
    for _ in range(draws):
        rows = generator.choice(assignments.shape[1], size, replace=False)
        recalls.append(np.mean([np.bincount(run[rows]).max() / size for run in assignments]))
    return np.array(recalls)


def test_null_over_several_runs_matches_brute_force() -> None:
    generator = np.random.default_rng(0)
    first = generator.choice(6, 400, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    second = np.where(generator.random(400) < 0.2, generator.integers(0, 6, 400), first)
    assignments = np.stack([first, second])
    members = np.arange(400) < 25
    fast = null_recalls(assignments, members, permutations=6000, generator=np.random.default_rng(1))
    slow = brute_force(assignments, 25, 6000, 2)
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.004)
    assert np.quantile(fast, [0.05, 0.5, 0.95]) == pytest.approx(
        np.quantile(slow, [0.05, 0.5, 0.95]), abs=0.021
    )


def test_null_by_groups_matches_permuting_the_labels_of_equal_groups() -> None:
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    assignments = np.repeat(generator.integers(0, 6, 40), 10)[None]
    members = groups < 4
    fast = null_recalls(
        assignments, members, permutations=6000, generator=np.random.default_rng(1), groups=groups
    )
    slow = brute_force(assignments[:, ::10], 4, 6000, 2)
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.01)
    assert np.unique(np.round(fast * 4)).tolist() == np.unique(np.round(slow * 4)).tolist()


def test_a_category_spread_over_groups_is_compared_with_subsets_as_spread() -> None:
    groups = np.repeat(np.arange(40), 10)
    assignments = np.repeat(np.random.default_rng(0).integers(0, 6, 40), 10)[None]
    members = (groups < 20) & (np.arange(400) % 10 == 3)
    fast = null_recalls(
        assignments, members, permutations=6000, generator=np.random.default_rng(1), groups=groups
    )
    slow = brute_force(assignments[:, ::10], 20, 6000, 2)
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.005)
    assert fast.max() < 0.6


def test_groups_that_are_one_image_each_change_nothing() -> None:
    assignments = np.random.default_rng(0).integers(0, 6, (2, 200))
    members = np.arange(200) < 20
    one, other = (
        null_recalls(
            assignments, members, permutations=500, generator=np.random.default_rng(1), groups=groups
        )
        for groups in (None, np.arange(200))
    )
    assert np.array_equal(one, other)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 60))
def test_subsets_by_groups_are_always_full(seed: int, group_count: int, size: int) -> None:
    generator = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(group_count), generator.integers(0, group_count, 60)])
    members = np.zeros(len(groups), dtype=bool)
    members[generator.choice(len(groups), min(size, len(groups)), replace=False)] = True
    # With one cluster every full subset has recall exactly one.
    null = null_recalls(
        np.zeros((2, len(groups)), dtype=np.int64),
        members,
        permutations=20,
        generator=generator,
        groups=groups,
    )
    assert np.array_equal(null, np.ones(20))


def test_one_video_is_no_evidence_though_its_frames_are_alike() -> None:
    generator = np.random.default_rng(4)
    centres = 5 * generator.normal(size=(24, 8))
    groups = np.repeat(np.arange(24), 10)
    array = centres[groups] + 0.1 * generator.normal(size=(240, 8))
    codes = (groups == 7).astype(int)
    alone = importance(array, codes, ["a", "b"])["b"]
    by_group = importance(array, codes, ["a", "b"], groups=groups)["b"]
    assert alone.p_value < 0.01
    assert by_group.p_value > 0.5
    assert by_group.is_important(min_lift=1.5, max_p=0.01) is False


def test_random_categories_are_hardly_ever_important() -> None:
    array = blobs(images=200)
    assignments = assign_clusters(array, repeats=3)
    generator = np.random.default_rng(11)
    alarms, small = 0, 0
    for trial in range(150):
        codes = np.zeros(200, dtype=int)
        codes[generator.choice(200, 20, replace=False)] = 1
        members = codes == 1
        recall = np.mean([cluster_recall(run, members) for run in assignments])
        null = null_recalls(assignments, members, permutations=499, generator=np.random.default_rng(trial))
        p_value = ((null >= recall - 1e-9).sum() + 1) / 500
        alarms += bool(recall / null.mean() >= 1.5 and p_value <= 0.01)
        small += p_value <= 0.1
    assert alarms <= 3
    # The p-value is valid (not anti-conservative) but also not degenerate.
    assert 1 <= small <= 25


def test_p_values_are_corrected_within_and_over_semantics() -> None:
    array = blobs()
    codes = (np.arange(240) % 6 == 0).astype(int)
    assignments = assign_clusters(array)
    one, two = (
        importance(array, codes, ["rest", "apart"], semantic=name, assignments=assignments)
        for name in ("one", "two")
    )
    assert one["apart"].adjusted_p == pytest.approx(2 / 2000)
    together = adjust_together([one, two])
    assert together[0]["apart"].adjusted_p == pytest.approx(4 / 2000)
    assert together[1]["apart"].p_value == one["apart"].p_value


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()
    with pytest.raises(ArgumentError, match="position 1"):
        holm([0.1, math.nan])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.5))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values: list[float], level: float) -> None:
    rejected = set()
    for step, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[index] * (len(p_values) - step) > level:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= level} == rejected


def test_many_tests_get_permutations_enough_for_one_to_be_significant() -> None:
    assert permutations_for(2) == 1_999
    needed = permutations_for(56)
    assert 56 / (needed + 1) <= 0.01 / 2


def test_separability_of_apart_mixed_and_turned_sides() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(200, 6))
    members = np.arange(200) < 60
    assert separability(noise, members) == pytest.approx(0.5, abs=0.12)
    apart = noise + 4 * members[:, None]
    assert separability(apart, members) == 1.0
    assert separability(apart, ~members) == 1.0
    assert separability(apart, np.arange(200) < 1) is None
    groups = np.repeat(np.arange(20), 10)
    assert separability(apart, members, groups=groups) == 1.0
    assert separability(apart, members, groups=np.zeros(200)) is None


def test_published_recall_uses_one_run_on_the_matrix_as_given() -> None:
    array = blobs(images=120)
    codes = np.arange(120) % 3
    scaled = (array - array.min()) / (array.max() - array.min())
    clusters = KMeans(6, random_state=42, n_init=10).fit_predict(scaled)
    expected = {
        name: round(100 * np.bincount(clusters[codes == code]).max() / (codes == code).sum(), 2)
        for code, name in enumerate("abc")
    }
    assert deduce_cluster_recall(array, codes, list("abc")) == expected
    entry = importance(array, codes, list("abc"), protocol="deduce")["b"]
    assert entry.recall == pytest.approx(expected["b"] / 100)
    assert entry.p_value is None


def test_bad_arguments_are_named() -> None:
    array = blobs(images=60)
    codes = np.zeros(60, dtype=int)
    with pytest.raises(ArgumentError, match="need one per image"):
        importance(array, codes[:50], ["a", "b"])
    with pytest.raises(ArgumentError, match="codes must lie"):
        importance(array, codes + 2, ["a", "b"])
    with pytest.raises(ArgumentError, match="assignments of shape"):
        importance(array, codes, ["a", "b"], assignments=np.zeros((2, 5), dtype=np.int64))
    with pytest.raises(TooFewError, match="6 clusters"):
        importance(array[:5], codes[:5], ["a", "b"])
    array[3, 0] = math.nan
    with pytest.raises(NonFiniteError, match="rows 3"):
        importance(array, codes, ["a", "b"])


def test_identical_images_have_a_defined_importance() -> None:
    found = importance(np.ones((60, 4)), np.arange(60) % 2, ["a", "b"])
    assert found["a"].recall == 1.0
    assert found["a"].lift == pytest.approx(1.0)
    assert found["a"].p_value == 1.0


def entry(semantic: str, category: str, lift: float | None) -> CategoryImportance:
    if lift is None:
        return CategoryImportance(semantic, category, 4)
    return CategoryImportance(semantic, category, 50, recall=0.2 * lift, expected=0.2, p_value=0.01)


def importances(**lifts: float | None) -> list[Importance]:
    return [Importance("s", tuple(entry("s", category, lift) for category, lift in lifts.items()))]


def test_ranking_is_by_lift_with_unknown_last() -> None:
    ranking = rank(importances(a=1.0, b=None, c=3.0, d=2.0))
    assert [each.category for each in ranking.entries] == ["c", "d", "a", "b"]
    assert "s: c" in str(ranking)
    assert len(ranking.to_dict()["entries"]) == 4


def test_ranks_are_aggregated_over_embedders_not_figures() -> None:
    across = rank_across_embedders(
        {
            "one": importances(a=1.0, b=2.0, c=3.0, d=None),
            "two": importances(a=100.0, b=20.0, c=30.0, d=1.0),
        }
    )
    assert {each.category: each.mean_rank for each in across.entries} == {"c": 1.5, "a": 2.0, "b": 2.5}
    assert [each.category for each in across.entries] == ["c", "a", "b"]
    # Of three pairs, (b, c) is in one order for both; (a, b) and (a, c) are not: tau = (1 - 2) / 3.
    assert across.kendall_tau == {"one, two": pytest.approx(-1 / 3)}
    assert across.lowest_tau == pytest.approx(-1 / 3)
    assert across.unknown == ("s: d",)
    assert "Kendall" in str(across)


def test_one_embedder_and_all_ties_have_no_tau() -> None:
    assert rank_across_embedders({"one": importances(a=1.0, b=2.0)}).lowest_tau is None
    tied = rank_across_embedders({"one": importances(a=1.0, b=1.0), "two": importances(a=1.0, b=2.0)})
    assert tied.kendall_tau == {"one, two": None}
    with pytest.raises(ArgumentError, match="not given the same categories"):
        rank_across_embedders({"one": importances(a=1.0), "two": importances(b=1.0)})
    with pytest.raises(ArgumentError, match="at least one embedder"):
        rank_across_embedders({})
