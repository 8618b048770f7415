"""Ours beside dataeval's: equal on clean data; different on purpose where dataeval 1.1.4 goes wrong.

Each test of a fault shows both: what we give, and that dataeval still gives what docs/metrics.md says. At the
end torch-fidelity, and the Fréchet distance with a matrix root.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from metrics_references import direct_distances
from packaging.version import Version
from scipy.linalg import sqrtm
from scipy.stats import cramervonmises_2samp

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.metrics import neighbours
from pytest_semcov.metrics.arrays import distances
from pytest_semcov.metrics.completeness import effective_rank
from pytest_semcov.metrics.divergence import divergence_fnn
from pytest_semcov.metrics.feature_drift import cramer_von_mises, kolmogorov_smirnov
from pytest_semcov.metrics.frechet import frechet_distance
from pytest_semcov.metrics.gaps import draw_subsamples, radius_gap
from pytest_semcov.metrics.mmd import mmd_squared, mmd_test
from pytest_semcov.metrics.multiple_testing import benjamini_hochberg, holm
from pytest_semcov.metrics.neighbours import coverage_radius, kth_neighbour_distances
from pytest_semcov.metrics.prdc import prdc

INSTALLED = Version(version("dataeval"))
DESCRIBED = Version("1.1.4")


@pytest.fixture(scope="module")
def dataeval() -> Any:
    """Everything of dataeval that is compared with, by name."""
    with warnings.catch_warnings():
        # On first import dataeval compiles a helper with torch.jit.script, which newer torch deprecates.
        warnings.filterwarnings("ignore", message=".*torch.jit.script.*")
        from dataeval import config
        from dataeval.core import completeness, coverage_adaptive, coverage_naive
        from dataeval.core import divergence_fnn as their_divergence_fnn
        from dataeval.shift import DriftMMD, DriftUnivariate

    def univariate(method: str, reference: Any, tested: Any, **options: Any) -> Any:
        return DriftUnivariate(method=method, **options).fit(reference).predict(tested)

    def mmd(reference: Any, tested: Any, sigma: float, permutations: int = 20) -> Any:
        detector = DriftMMD(sigma=np.float32(sigma), n_permutations=permutations, device="cpu")
        return detector.fit(reference).predict(tested)

    return SimpleNamespace(
        completeness=lambda x: completeness(x)["completeness"],
        nearest_distances=lambda x: completeness(x)["nearest_neighbor_distances"],
        coverage=coverage_adaptive,
        radii=lambda x, k: coverage_adaptive(x, k, 0.01)["critical_value_radii"],
        naive_radius=lambda x, k: coverage_naive(x, k)["coverage_radius"],
        divergence=lambda x, y: their_divergence_fnn(x, y)["divergence"],
        univariate=univariate,
        mmd=mmd,
        mmd_detector=DriftMMD,
        config=config,
    )


@pytest.fixture(autouse=True)
def torch_generator_as_before() -> Iterator[None]:
    """Dataeval's permutations draw from torch's global generator."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def normal(rows: int, width: int = 4, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width)) + shift


def uniform(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, width))


def outcome(call: Callable[[], Any]) -> Any:
    """Return what the call returns or raises; numerical warnings on the way are part of the fault."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:
            return error


def still(shows: Any, fault: str) -> None:
    """Check that dataeval has the fault; a later version that has it no more is no failure of ours."""
    if shows:
        return
    if INSTALLED > DESCRIBED:
        pytest.skip(f"dataeval {INSTALLED} differs from {DESCRIBED}: no longer so that {fault}")
    pytest.fail(f"not so in dataeval {INSTALLED}: {fault}")


# Equal on clean data


@pytest.mark.parametrize(("rows", "width"), [(21, 3), (300, 16), (150, 512)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_radii(dataeval: Any, rows: int, width: int, dtype: type) -> None:
    x = uniform(rows, width).astype(dtype)
    theirs = dataeval.radii(x, 20)
    assert theirs.dtype == np.float32
    np.testing.assert_allclose(kth_neighbour_distances(x, k=20), theirs, rtol=1e-6)
    assert coverage_radius(x, k=20) == pytest.approx(np.median(theirs.astype(np.float64)), rel=1e-6)


def test_equal_nearest_distances(dataeval: Any) -> None:
    x = normal(80, 6)
    pairs = np.unique(kth_neighbour_distances(x, k=1).round(9))
    np.testing.assert_allclose(pairs, np.unique(np.round(dataeval.nearest_distances(x), 9)), rtol=1e-8)


@pytest.mark.parametrize(("rows", "width"), [(2, 3), (400, 30), (40, 200), (60, 1)])
def test_equal_effective_rank(dataeval: Any, rows: int, width: int) -> None:
    x = normal(rows, width) @ np.random.default_rng(1).normal(size=(width, width))
    assert effective_rank(x) == pytest.approx(dataeval.completeness(x), rel=1e-9)


@pytest.mark.parametrize("shift", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("rows", [(60, 60), (25, 90)])
def test_equal_divergence(dataeval: Any, shift: float, rows: tuple[int, int]) -> None:
    x, y = normal(rows[0]), normal(rows[1], seed=1, shift=shift)
    assert divergence_fnn(x, y) == pytest.approx(dataeval.divergence(x, y), abs=1e-12)


@pytest.mark.parametrize("rows", [(200, 200), (150, 60)])
@pytest.mark.parametrize("method", ["ks", "cvm"])
def test_equal_feature_statistics(dataeval: Any, rows: tuple[int, int], method: str) -> None:
    x, y = normal(rows[0]), normal(rows[1], seed=1, shift=0.2)
    ours = {"ks": kolmogorov_smirnov, "cvm": cramer_von_mises}[method](x, y)
    theirs = dataeval.univariate(method, x, y)
    np.testing.assert_allclose(ours.statistic, theirs.details["distances"], rtol=2e-4)
    # Of Kolmogorov-Smirnov dataeval always takes the exact distribution, which ours approaches.
    np.testing.assert_allclose(ours.p_value, theirs.details["p_vals"], atol={"ks": 0.06, "cvm": 1e-3}[method])
    assert ours.mean == pytest.approx(theirs.distance, rel=2e-4)


@pytest.mark.parametrize("shift", [0.0, 0.25, 0.6])
def test_equal_decisions_after_correction(dataeval: Any, shift: float) -> None:
    x, y = normal(100, 20), normal(100, 20, seed=1)
    y[:, :3] += shift
    p_values = cramer_von_mises(x, y).p_value
    fdr = dataeval.univariate("cvm", x, y, correction="fdr").drifted
    bonferroni = dataeval.univariate("cvm", x, y, correction="bonferroni").drifted
    assert (min(benjamini_hochberg(p_values)) < 0.05) == fdr
    # Holm's first step is Bonferroni's.
    assert (min(holm(p_values)) < 0.05) == bonferroni


@pytest.mark.parametrize("rows", [(50, 50), (70, 20)])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_equal_mmd(dataeval: Any, rows: tuple[int, int], shift: float) -> None:
    x, y = normal(rows[0], 16), normal(rows[1], 16, seed=1, shift=shift)
    theirs = dataeval.mmd(x, y, sigma=4.0).distance
    assert mmd_squared(x, y, bandwidth=4.0) == pytest.approx(theirs, abs=1e-6)
    assert mmd_test(x, y, bandwidth=4.0, permutations=9).squared == pytest.approx(theirs, abs=1e-6)


def test_near_p_values_of_mmd(dataeval: Any) -> None:
    x, y = normal(40, 4), normal(40, 4, seed=1, shift=0.2)
    theirs = dataeval.mmd(x, y, sigma=2.0, permutations=1000).details["p_val"]
    assert mmd_test(x, y, bandwidth=2.0, permutations=999).p_value == pytest.approx(theirs, abs=0.06)


# Rows that are no numbers


@pytest.mark.parametrize(("method", "ours"), [("ks", kolmogorov_smirnov), ("cvm", cramer_von_mises)])
@pytest.mark.parametrize("in_reference", [True, False])
def test_nan_hides_the_drift_of_a_feature(
    dataeval: Any, method: str, ours: Callable[..., Any], in_reference: bool
) -> None:
    x, y = normal(60, 1), normal(40, 1, seed=1, shift=100.0)
    assert dataeval.univariate(method, x, y).drifted
    (x if in_reference else y)[7] = np.nan
    with pytest.raises(NonFiniteError, match=r"1 of \d0 rows hold NaN or infinity \(rows 7\)"):
        ours(x, y)
    found = outcome(lambda: dataeval.univariate(method, x, y))
    shows = not isinstance(found, Exception) and math.isnan(found.distance) and not found.drifted
    still(shows, "one NaN makes a far feature not drifted")


def test_nan_makes_mmd_drift(dataeval: Any) -> None:
    x, y = normal(30), normal(30, seed=1)
    assert dataeval.mmd(x, y, sigma=2.0).details["p_val"] > 0
    x[3, 1] = np.nan
    for call in (mmd_squared, mmd_test):
        with pytest.raises(NonFiniteError, match="rows 3"):
            call(x, y, bandwidth=2.0)
    found = outcome(lambda: dataeval.mmd(x, y, sigma=2.0))
    shows = not isinstance(found, Exception) and found.drifted and found.details["p_val"] == 0
    still(shows, "one NaN makes equal distributions drift with p = 0")


def test_nan_is_refused_without_the_row(dataeval: Any) -> None:
    x = uniform(40, 3)
    x[[5, 9]] = np.nan
    for call in (
        effective_rank,
        lambda rows: coverage_radius(rows, k=5),
        lambda rows: divergence_fnn(rows, x),
    ):
        with pytest.raises(NonFiniteError, match=r"2 of 40 rows .* \(rows 5, 9\)"):
            call(x)
    theirs = (
        lambda: dataeval.completeness(x),
        lambda: dataeval.radii(x, 5),
        lambda: dataeval.divergence(x, x),
    )
    for call in theirs:
        found = outcome(call)
        assert isinstance(found, Exception)
        still("rows" not in str(found), "the error does not say which rows hold NaN")
    still(isinstance(outcome(theirs[0]), np.linalg.LinAlgError), "completeness of NaN is a LinAlgError")


# Constant and tied features


def test_cramer_von_mises_calls_a_constant_feature_drifted(dataeval: Any) -> None:
    x, y = np.full((40, 1), 3.25), np.full((25, 1), 3.25)
    for ours in (cramer_von_mises(x, y), kolmogorov_smirnov(x, y)):
        assert (ours.statistic.tolist(), ours.p_value.tolist()) == ([0], [1])
    assert not dataeval.univariate("ks", x, y).drifted
    found = dataeval.univariate("cvm", x, y)
    still(found.drifted and found.details["p_vals"][0] < 1e-3, "two equal constants drift")


def test_completeness_rises_by_a_constant_feature(dataeval: Any) -> None:
    x = normal(200, 63)
    padded = np.hstack([x, np.full((200, 1), 2.0)])
    assert effective_rank(padded) * 64 == pytest.approx(effective_rank(x) * 63, rel=1e-9)
    found = dataeval.completeness(padded)
    still(
        found * 64 > dataeval.completeness(x) * 63 + 0.3, "a constant feature adds to the dimensions in use"
    )


def test_completeness_of_equal_images(dataeval: Any) -> None:
    x = np.full((10, 4), 0.5)
    assert effective_rank(x) == 0
    still(outcome(lambda: dataeval.completeness(x)) == 0.25, "ten equal images use one dimension of four")


def test_completeness_of_tied_values_depends_on_row_order(dataeval: Any) -> None:
    x = np.maximum(normal(200, 64), 0)  # half of all values are 0, as after a ReLU
    shuffled = x[np.random.default_rng(3).permutation(200)]
    assert effective_rank(shuffled) == pytest.approx(effective_rank(x), rel=1e-12)
    difference = abs(dataeval.completeness(shuffled) - dataeval.completeness(x))
    still(difference > 1e-4, "another order of the rows gives another completeness")


def test_divergence_of_tied_distances_is_not_symmetric(dataeval: Any) -> None:
    generator = np.random.default_rng(0)
    pairs = [generator.integers(0, 3, (2, 20, 2)).astype(float) for _ in range(5)]
    for x, y in pairs:
        assert divergence_fnn(x, y) == pytest.approx(divergence_fnn(y, x), abs=1e-12)
    changed = [abs(dataeval.divergence(x, y) - dataeval.divergence(y, x)) > 0.05 for x, y in pairs]
    still(any(changed), "exchanging the two sets gives another divergence")


# Too few rows, and sets that do not fit


def test_one_row(dataeval: Any) -> None:
    x, one = normal(30), normal(1, seed=1)
    for call in (
        lambda: effective_rank(one),
        lambda: cramer_von_mises(x, one),
        lambda: mmd_squared(x, one, bandwidth=2.0),
        lambda: mmd_test(one, x, bandwidth=2.0),
    ):
        with pytest.raises(TooFewError, match="have 1 rows, need at least 2"):
            call()
    still(math.isnan(outcome(lambda: dataeval.completeness(one))), "completeness of one row is NaN")
    found = outcome(lambda: dataeval.univariate("cvm", x, one + 100))
    shows = not isinstance(found, Exception) and math.isnan(found.distance) and not found.drifted
    still(shows, "a single far row has not drifted by Cramér-von Mises")
    for sets in ((x, one), (one, x)):
        found = outcome(lambda sets=sets: dataeval.mmd(*sets, sigma=2.0))
        still(isinstance(found, ZeroDivisionError), "MMD with one row is a ZeroDivisionError")


def test_more_features_are_cut_off(dataeval: Any) -> None:
    x = normal(40, 3)
    wider = np.hstack([normal(40, 3), normal(40, 3, shift=100.0)])
    for ours in (kolmogorov_smirnov, cramer_von_mises):
        for sets in ((x, wider), (wider, x)):
            with pytest.raises(ArgumentError, match=r"have \d features and .* \d"):
                ours(*sets)
    found = outcome(lambda: dataeval.univariate("ks", x, wider))
    shows = not isinstance(found, Exception) and found.distance == 0 and not found.drifted
    still(shows, "features that only the tested set has are left out without a word")
    found = outcome(lambda: dataeval.univariate("ks", wider, x))
    still(isinstance(found, IndexError), "too few features are an IndexError")


# p-values


def test_mmd_p_value_of_exactly_zero(dataeval: Any) -> None:
    x, y = normal(30), normal(30, seed=1, shift=5.0)
    assert mmd_test(x, y, bandwidth=2.0, permutations=100).p_value == 1 / 101
    found = dataeval.mmd(x, y, sigma=2.0, permutations=100).details["p_val"]
    still(found == 0, "a p-value from 100 permutations is 0")


def test_mmd_p_value_does_not_repeat(dataeval: Any) -> None:
    import torch

    x, y = normal(30, 2), normal(30, 2, seed=1)
    before = torch.random.get_rng_state()
    ours = {mmd_test(x, y, bandwidth=1.0, permutations=500, seed=3) for _ in range(3)}
    assert len(ours) == 1
    assert torch.equal(torch.random.get_rng_state(), before)
    theirs = set()
    with dataeval.config.use_seed(3):
        for _ in range(6):
            theirs.add(dataeval.mmd(x, y, sigma=1.0, permutations=500).details["p_val"])
    still(len(theirs) > 1, "the p-value varies under a set seed")
    drawn = not torch.equal(torch.random.get_rng_state(), before)
    still(drawn, "permutations draw from torch's global generator")


def test_p_value_over_features_is_a_mean(dataeval: Any) -> None:
    # One of fifty features drifts, beyond doubt.
    x, y = normal(60, 50), normal(60, 50, seed=1)
    y[:, 7] += 5
    p_values = kolmogorov_smirnov(x, y).p_value
    assert holm(p_values)[7] < 1e-6
    found = dataeval.univariate("ks", x, y)
    assert found.drifted
    details = found.details
    shows = details["p_val"] == pytest.approx(details["p_vals"].mean()) and details["p_val"] > 0.3
    still(shows, "the p-value of the whole is the mean over the features")


def test_drifted_features_are_not_corrected(dataeval: Any) -> None:
    x, y = normal(100, 200), normal(100, 200, seed=1)
    assert min(holm(kolmogorov_smirnov(x, y).p_value)) > 0.05
    found = dataeval.univariate("ks", x, y)
    assert not found.drifted
    still(found.details["feature_drift"].sum() >= 3, "features of one distribution are marked as drifted")


# Digits


def test_cramer_von_mises_in_single_precision(dataeval: Any) -> None:
    # Whole numbers, each once: no digit is lost in float32 and none is tied.
    values = np.random.default_rng(0).permutation(40_000).astype(np.float32)[:, None]
    x, y = values[:20_000], values[20_000:]
    exact = cramervonmises_2samp(x[:, 0].astype(np.float64), y[:, 0].astype(np.float64)).statistic
    assert cramer_von_mises(x, y).statistic[0] == pytest.approx(exact, rel=1e-9)
    found = dataeval.univariate("cvm", x, y).distance
    still(abs(found - exact) > 1e-4 * exact, "float32 values are summed in float32")


def test_mmd_of_data_far_from_the_origin(dataeval: Any) -> None:
    x, y = normal(200, 64), normal(200, 64, seed=1, shift=0.5)
    near = mmd_squared(x, y, bandwidth=8.0)
    assert dataeval.mmd(x, y, sigma=8.0).distance == pytest.approx(near, abs=1e-6)
    for offset, lost in ((1e3, 1e-4), (1e4, 0.04)):
        far = [(rows + offset).astype(np.float32) for rows in (x, y)]
        assert mmd_squared(*far, bandwidth=8.0) == pytest.approx(near, abs=1e-5)
        found = dataeval.mmd(*far, sigma=8.0).distance
        still(abs(found - near) > lost, f"an offset of {offset:g} moves MMD² by more than {lost}")


def test_radii_of_images_close_together(dataeval: Any) -> None:
    x = 0.5 + 1e-7 * uniform(60, 512)
    expected = np.sort(direct_distances(x, x), axis=1)[:, 20]
    np.testing.assert_allclose(kth_neighbour_distances(x, k=20), expected, rtol=1e-6)
    error = np.abs(dataeval.radii(x, 20) / expected - 1).max()
    still(error > 1e-3, "radii of nearly equal images lose their digits")
    copies = np.repeat(uniform(10, 512), 25, axis=0)
    assert (kth_neighbour_distances(copies, k=20) == 0).all()
    still(dataeval.radii(copies, 20).max() > 0, "the radius of 25 copies is not 0")


# What is compared


def test_bandwidth_is_that_of_the_first_set_seen(dataeval: Any) -> None:
    x, y = normal(60), normal(60, seed=1, shift=0.5)
    fresh, used = (dataeval.mmd_detector(device="cpu").fit(x) for _ in range(2))
    used.predict(normal(60, seed=2, shift=50.0))
    # Ours is an argument.
    assert mmd_squared(x, y, bandwidth=2.0) == mmd_squared(x, y, bandwidth=2.0)
    first, later = fresh.predict(y).distance, used.predict(y).distance
    still(later < first / 4, "a detector's distance depends on what it was shown before")


def test_radii_of_sets_scaled_one_by_one(dataeval: Any) -> None:
    x = normal(60, 8)
    tripled = 3 * x + 5
    np.testing.assert_allclose(
        kth_neighbour_distances(tripled, k=20), 3 * kth_neighbour_distances(x, k=20), rtol=1e-6
    )
    found = outcome(lambda: dataeval.radii(x, 20))
    still("unit interval" in str(found), "values outside [0, 1] are refused")
    theirs = [
        dataeval.coverage(rows, 20, 0.01, force_unit_interval=True)["critical_value_radii"]
        for rows in (x, tripled)
    ]
    still(np.allclose(*theirs, rtol=1e-5), "each set is scaled by its own range, so that scale is lost")


def test_naive_radius_overflows(dataeval: Any) -> None:
    # Ours has no such radius: the volume of a ball in a unit cube says nothing in hundreds of dimensions.
    assert not [name for name in dir(neighbours) if "naive" in name]
    still(outcome(lambda: dataeval.naive_radius(uniform(50, 341), 20)) == math.inf, "at 341 it is infinite")
    for width in (512, 1280):
        found = outcome(lambda width=width: dataeval.naive_radius(uniform(50, width), 20))
        still(isinstance(found, OverflowError), f"{width} features are an OverflowError")
    # Where it can be computed, it exceeds the distance of any two vectors of length 1: all are covered.
    still(dataeval.naive_radius(uniform(50, 300), 20) > 2, "at 300 features it covers everything")


def test_a_fixed_share_is_always_uncovered(dataeval: Any) -> None:
    even, equal = uniform(200, 3), np.full((200, 3), 0.5)
    spoilt = even.copy()
    spoilt[:15] += 100 * uniform(15, 3, seed=1)
    spoilt /= spoilt.max()
    counts = {len(dataeval.coverage(rows, 20, 0.05)["uncovered_indices"]) for rows in (even, equal, spoilt)}
    still(counts == {10}, "5 % of any set are uncovered")
    # Ours hands out the distances, which tell the three apart: largest over median.
    largest = [
        kth_neighbour_distances(rows, k=20).max() / max(coverage_radius(rows, k=20), 1e-9)
        for rows in (equal, even, spoilt)
    ]
    assert largest[0] == 0
    assert 1 < largest[1] < 3
    assert largest[2] > 10


def test_completeness_and_radius_follow_the_number_of_images(dataeval: Any) -> None:
    few, many = normal(100, 128), normal(600, 128, seed=1)
    # A property of the figures, ours included: they are shown, never compared at unequal numbers.
    for figure in (dataeval.completeness, effective_rank):
        assert figure(many) > 1.5 * figure(few)
    few, many = uniform(40, 8), uniform(600, 8, seed=1)
    for radius in (lambda x: np.median(dataeval.radii(x, 20)), lambda x: coverage_radius(x, k=20)):
        assert radius(few) > 1.5 * radius(many)


def test_a_good_set_is_not_worse_for_being_small(dataeval: Any) -> None:
    uncovered, covered = normal(60, 8), normal(300, 8, seed=1, shift=0.6)
    good = normal(300, 8, seed=2)

    def published(added: np.ndarray) -> float:
        rows = np.concatenate([uncovered, added])
        scaled = (rows - rows.min()) / (rows.max() - rows.min()) * np.ptp(rows)
        return float(np.median(dataeval.radii(scaled / np.ptp(rows), 20)[:60]) * np.ptp(rows))

    def closed(added: np.ndarray) -> float:
        sets = [0] * 60 + [1] * 300 + [2] * len(added)
        table = distances(np.concatenate([uncovered, covered, added]))
        subsamples = draw_subsamples(sets, range(len(sets)), repeats=20, seed=0)
        return radius_gap(table, subsamples, k=5, bar=0.5).closed.share

    assert closed(good) == pytest.approx(1, abs=0.25)
    assert closed(good[:40]) == pytest.approx(closed(good), abs=0.2)
    assert published(good) < published(covered)
    still(published(good[:40]) > published(covered), "40 good images do worse than 300 of another kind")


def test_documentation_names_every_fault() -> None:
    tests = Path(__file__).parent
    named = set(re.findall(r"`(test_\w+)`", (tests.parent / "docs" / "metrics.md").read_text("utf-8")))
    here = set(re.findall(r"^def (test_\w+)", Path(__file__).read_text("utf-8"), re.MULTILINE))
    everywhere = "".join(path.read_text("utf-8") for path in tests.glob("test_metrics_*.py"))
    assert not [name for name in named if f"def {name}(" not in everywhere]
    assert {name for name in here - named if "_equal_" not in name} == {
        "test_near_p_values_of_mmd",
        "test_documentation_names_every_fault",
    }


# Other libraries


@pytest.mark.slow
@pytest.mark.parametrize("whole_numbers", [False, True])
def test_equal_precision_and_recall_of_torch_fidelity(whole_numbers: bool) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fidelity = pytest.importorskip("torch_fidelity.metric_prc")
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(60, 3)), generator.normal(size=(45, 3)) + 0.8
    if whole_numbers:  # many rows lie on the border of a ball, and many are equal
        x, y = x.round(), y.round()
    precision, recall = fidelity.calculate_precision_recall_full(*map(torch.from_numpy, (y, x)), 3)
    found = prdc(x, y, k=3)
    assert (found.precision, found.recall) == pytest.approx((precision, recall), abs=1e-7)


def test_root_of_a_singular_product_is_inexact() -> None:
    x = normal(40, 120)
    covariance = np.cov(x.T)
    twice = 2 * np.trace(covariance)
    assert frechet_distance(x, x) < 1e-12 * twice
    with_root = twice - 2 * np.trace(np.real(sqrtm(covariance @ covariance)))
    assert 1e-9 * twice < abs(with_root) < 1e-3 * twice
