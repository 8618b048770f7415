"""What ``benchmarks/metrics.py`` measures: one row per metric, size and peer."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

import numpy as np
from _measuring import Call
from numpy.typing import NDArray

from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.metrics.completeness import effective_rank
from pytest_semcov.metrics.feature_drift import FeatureDrift, cramer_von_mises, kolmogorov_smirnov
from pytest_semcov.metrics.frechet import frechet_distance
from pytest_semcov.metrics.mmd import mmd_test
from pytest_semcov.metrics.neighbours import NeighbourIndex, kth_neighbour_distances
from pytest_semcov.metrics.prdc import prdc

Rows = NDArray[np.float32]

GIGABYTE = 10**9
_K = 20
_PERMUTATIONS = 100
_CLUSTERS, _LATENT = 50, 64


@dataclass(frozen=True)
class Target:
    """What a row is to reach.

    Parameters
    ----------
    quantity
        ``"speed-up"``: the peer's time over ours, at least ``bound``. ``"floor"``: our time over the
        peer's, at most. ``"seconds"`` and ``"bytes"``: of ours, at most.
    bound
        The bound.
    """

    quantity: Literal["speed-up", "floor", "seconds", "bytes"]
    bound: float

    def __str__(self) -> str:
        return {
            "speed-up": f">= {self.bound:g}x",
            "floor": f"<= {self.bound:g}x floor",
            "seconds": f"<= {self.bound:g} s",
            "bytes": f"< {self.bound / GIGABYTE:g} GB",
        }[self.quantity]

    def met(self, seconds: float, peer_seconds: float | None, peak: float) -> bool:
        """Tell whether measured numbers reach it."""
        if self.quantity == "seconds":
            return seconds <= self.bound
        if self.quantity == "bytes":
            return peak < self.bound
        if peer_seconds is None:
            return False
        if self.quantity == "floor":
            return seconds <= self.bound * peer_seconds
        return peer_seconds >= self.bound * seconds


def the_only(seconds: Mapping[str, float]) -> float:
    """Return the time of a peer that is one call."""
    (value,) = seconds.values()
    return value


def largest_difference(ours: Any, theirs: Any) -> float:
    """Return the largest absolute difference of two results."""
    return float(np.abs(np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)).max())


@dataclass(frozen=True)
class Case:
    """Calls on data that are ready.

    Parameters
    ----------
    ours
        Our call.
    peers
        Calls of the peer; results of the first are compared with ours, and its memory is measured.
    peer_seconds
        Makes the peer's time from the times of its calls.
    difference, tolerance
        How far the results of both may lie apart; ``None`` = they are not comparable.
    """

    ours: Call
    peers: Mapping[str, Call] = field(default_factory=dict)
    peer_seconds: Callable[[Mapping[str, float]], float] = the_only
    difference: Callable[[Any, Any], float] | None = largest_difference
    tolerance: float = 0.0


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Parameters
    ----------
    key, title
        Name on the command line, and in the table.
    build
        Makes the case from sizes.
    sizes
        Rows of each set, then the number of features.
    quick
        Small sizes for a trial.
    peer
        What the peer is called.
    targets
        All are to be met.
    repeats
        Times each call is timed; 1 = one call for both time and memory, never compared with the peer.
    large
        Measured only on request.
    """

    key: str
    title: str
    build: Callable[..., Case]
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    peer: str = ""
    targets: tuple[Target, ...] = ()
    repeats: int = 3
    large: bool = False

    def size(self, *, quick: bool) -> str:
        """Return the sizes as text."""
        *rows, width = self.quick if quick else self.sizes
        return f"{' + '.join(f'{count:,}' for count in rows)} x {width:,}"


def clustered(rows: int, width: int, *, seed: int, shift: float = 0.0) -> Rows:
    """Return ``(rows, width)`` float32 embeddings: 50 clusters in 64 dimensions, mapped to all, with noise.

    All seeds draw from the same clusters, moved by ``shift`` of their spread.
    """
    world = np.random.default_rng(0)
    centres = world.normal(size=(_CLUSTERS, _LATENT))
    to_features = world.normal(size=(_LATENT, width)) / math.sqrt(_LATENT)
    generator = np.random.default_rng([1, seed])
    result = np.empty((rows, width), dtype=np.float32)
    for start in range(0, rows, 5000):
        block = result[start : start + 5000]
        latent = centres[generator.integers(_CLUSTERS, size=len(block))] + shift
        latent += 0.5 * generator.normal(size=latent.shape)
        block[:] = latent @ to_features + 0.1 * generator.normal(size=block.shape)
    return result


def in_unit_interval(array: Rows) -> Rows:
    """Scale by the smallest and largest value, as ``coverage_adaptive`` demands."""
    low, high = array.min(), array.max()
    return (array - low) / (high - low)


def dataeval(part: str) -> Any:
    """Import a part of dataeval: only where it is called, so that ours is measured without it."""
    with warnings.catch_warnings():
        # When it is first imported it compiles a helper with torch.jit.script, which is deprecated.
        warnings.filterwarnings("ignore", message=".*torch.jit.script.*")
        return importlib.import_module(f"dataeval.{part}")


def radius(rows: int, width: int) -> Case:
    """Distances to the 20th other row, against dataeval."""
    x = in_unit_interval(clustered(rows, width, seed=1))
    return Case(
        ours=lambda: kth_neighbour_distances(x, k=_K),
        peers={"": lambda: dataeval("core").coverage_adaptive(x, _K, 0.01)["critical_value_radii"]},
        tolerance=1e-5,
    )


def radius_floor(rows: int, width: int) -> Case:
    """Distances to the 20th other row, against the product of all rows with all rows alone."""
    import torch

    x = in_unit_interval(clustered(rows, width, seed=1))
    buffer = np.empty((min(1024, rows), rows), dtype=np.float32)

    def product(multiply: Callable[[Rows, Rows], object]) -> None:
        for start in range(0, rows, len(buffer)):
            part = x[start : start + len(buffer)]
            multiply(part, buffer[: len(part)])

    def numpy_multiply(part: Rows, out: Rows) -> None:
        np.matmul(part, x.T, out=out)

    def torch_multiply(part: Rows, out: Rows) -> None:
        torch.mm(torch.from_numpy(part), torch.from_numpy(x).T, out=torch.from_numpy(out))

    return Case(
        ours=lambda: kth_neighbour_distances(x, k=_K),
        peers={"numpy": lambda: product(numpy_multiply), "torch": lambda: product(torch_multiply)},
        peer_seconds=lambda seconds: min(seconds.values()),
        difference=None,
    )


def radius_after_addition(rows: int, added: int, width: int, *, all_rows: bool = False) -> Case:
    """Distances to the 20th other row once rows were added, against dataeval, which starts again.

    Of the rows that were there before, or of all.
    """
    x = in_unit_interval(clustered(rows + added, width, seed=1))
    index = NeighbourIndex(x[:rows], k=_K)
    wanted = rows + added if all_rows else rows
    return Case(
        ours=lambda: index.with_added(x[rows:], list_added=all_rows).neighbours.distance[:, -1],
        peers={"": lambda: dataeval("core").coverage_adaptive(x, _K, 0.01)["critical_value_radii"][:wanted]},
        tolerance=1e-5,
    )


def radius_alone(rows: int, width: int) -> Case:
    """Distances to the 20th other row, for their memory."""
    x = clustered(rows, width, seed=1)
    return Case(ours=lambda: kth_neighbour_distances(x, k=_K))


def feature_drift(
    method: str, ours: Callable[[Any, Any], FeatureDrift], tolerance: float, rows: int, width: int
) -> Case:
    """Statistic and p-value of every feature, against dataeval's loop over scipy."""
    x, y = clustered(rows, width, seed=1), clustered(rows, width, seed=2, shift=0.02)

    def our_figures() -> Any:
        found = ours(x, y)
        return found.statistic, found.p_value

    def their_figures() -> Any:
        details = dataeval("shift").DriftUnivariate(method=method).fit(x).predict(y).details
        return details["distances"], details["p_vals"]

    return Case(
        ours=our_figures,
        peers={"": their_figures},
        # p-values are left out: exact there for Kolmogorov-Smirnov, asymptotic here.
        difference=lambda a, b: largest_difference(a[0], b[0]),
        tolerance=tolerance,
    )


def mmd(rows: int, width: int) -> Case:
    """Unbiased MMD² with 100 permutations, against dataeval.

    Dataeval's time grows by the same step with every permutation; it is measured with 1 and with 11.
    """
    x, y, bandwidth = _two_sets_and_bandwidth(rows, width)

    def detector(permutations: int) -> Call:
        return lambda: (
            dataeval("shift")
            .DriftMMD(sigma=np.float32(bandwidth), n_permutations=permutations, device="cpu")
            .fit(x)
            .predict(y)
            .distance
        )

    return Case(
        ours=lambda: mmd_test(x, y, bandwidth=bandwidth, permutations=_PERMUTATIONS, seed=0),
        peers={"one": detector(1), "eleven": detector(11)},
        peer_seconds=lambda seconds: (
            seconds["one"] + (_PERMUTATIONS - 1) * (seconds["eleven"] - seconds["one"]) / 10
        ),
        difference=lambda a, b: abs(a.squared - b),
        tolerance=2e-6,
    )


def mmd_alone(rows: int, width: int) -> Case:
    """Unbiased MMD² with 100 permutations, for its memory."""
    x, y, bandwidth = _two_sets_and_bandwidth(rows, width)
    return Case(ours=lambda: mmd_test(x, y, bandwidth=bandwidth, permutations=_PERMUTATIONS, seed=0))


def _two_sets_and_bandwidth(rows: int, width: int) -> tuple[Rows, Rows, float]:
    x, y = clustered(rows, width, seed=1), clustered(rows, width, seed=2, shift=0.02)
    some = min(rows // 2, 500)
    squared = np.square(x[:some, None] - x[None, some : 2 * some]).sum(axis=-1, dtype=np.float64)
    return x, y, math.sqrt(float(np.median(squared)) / 2)


def rank(rows: int, width: int) -> Case:
    """Effective rank, against dataeval's completeness (which also finds nearest pairs and isotropy)."""
    x = clustered(rows, width, seed=1)
    return Case(
        ours=lambda: effective_rank(x),
        peers={"": lambda: dataeval("core").completeness(x)["completeness"]},
        tolerance=1e-5,  # float32 values tie now and then, and the order of ties is arbitrary there
    )


def frechet(rows: int, width: int) -> Case:
    """Fréchet distance, against the formula with a matrix square root."""
    x, y = clustered(rows, width, seed=1), clustered(rows, width, seed=2, shift=0.02)
    return Case(
        ours=lambda: frechet_distance(x, y),
        peers={"": lambda: frechet_by_square_root(x, y)},
        difference=lambda a, b: abs(a - b) / b,
        tolerance=1e-4,  # the square root of a singular matrix is that inexact
    )


def frechet_by_square_root(x: Rows, y: Rows) -> float:
    """Return the Fréchet distance as pytorch-fid computes it."""
    from scipy import linalg

    means = [part.mean(axis=0, dtype=np.float64) for part in (x, y)]
    first, second = (np.cov(part.astype(np.float64), rowvar=False) for part in (x, y))
    root = linalg.sqrtm(first @ second)
    if not np.isfinite(root).all():
        offset = 1e-6 * np.eye(len(first))
        root = linalg.sqrtm((first + offset) @ (second + offset))
    difference = means[0] - means[1]
    return float(difference @ difference + np.trace(first) + np.trace(second) - 2 * np.trace(root.real))


def precision_recall(rows: int, width: int) -> Case:
    """Precision, recall, density and coverage, against the authors' package."""
    x, y = clustered(rows, width, seed=1), clustered(rows, width, seed=2, shift=0.02)

    def theirs() -> list[float]:
        import prdc as package
        from sklearn.metrics import pairwise_distances

        # The package prints, and insists on 8 jobs.
        in_one_job = mock.patch(
            "sklearn.metrics.pairwise_distances",
            lambda *arrays, n_jobs, **options: pairwise_distances(*arrays, n_jobs=1, **options),
        )
        with contextlib.redirect_stdout(io.StringIO()), in_one_job:
            values = package.compute_prdc(x, y, 5)
        return [values[name] for name in ("precision", "recall", "density", "coverage")]

    def ours() -> list[float]:
        found = prdc(x, y, k=5)
        return [found.precision, found.recall, found.density, found.coverage]

    return Case(ours=ours, peers={"": theirs}, tolerance=1e-3)


def verdict(uncovered: int, synthetic: int, covered: int, width: int) -> Case:
    """Return a whole sufficiency verdict."""
    u = clustered(uncovered, width, seed=1, shift=0.5)
    s = clustered(synthetic, width, seed=2, shift=0.4)
    c = clustered(covered, width, seed=3)
    for rows in (u, s, c):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Case(ours=lambda: sufficiency_verdict(s, u, c, subject="synthetic"))


_KS = functools.partial(feature_drift, "ks", kolmogorov_smirnov, 1e-6)
# Dataeval gives scipy float32 values, and scipy sums in float32.
_CVM = functools.partial(feature_drift, "cvm", cramer_von_mises, 1e-2)
_SMALL = (300, 64)


def speed_up(factor: float) -> tuple[Target]:
    """Return the target of being this many times faster."""
    return (Target("speed-up", factor),)


def memory(gigabytes: float) -> tuple[Target]:
    """Return the target of staying under this much memory."""
    return (Target("bytes", gigabytes * GIGABYTE),)


ROWS = (
    Row("radius-5k", "coverage radius", radius, (5_000, 512), _SMALL, "dataeval", speed_up(1.3), 5),
    Row("radius-20k", "coverage radius", radius, (20_000, 512), _SMALL, "dataeval", speed_up(1.3)),
    *(
        Row(
            f"floor-{rows // 1000}k",
            "coverage radius",
            radius_floor,
            (rows, 512),
            _SMALL,
            "bare product",
            (Target("floor", 1.5),),
            repeats,
        )
        for rows, repeats in ((5_000, 5), (20_000, 3))
    ),
    Row(
        "added-1k",
        "radius, rows added",
        radius_after_addition,
        (5_000, 1_000, 512),
        (200, 50, 64),
        "dataeval",
        speed_up(5),
        5,
    ),
    Row(
        "added-1k-all",
        "radius, of added too",
        functools.partial(radius_after_addition, all_rows=True),
        (5_000, 1_000, 512),
        (200, 50, 64),
        "dataeval",
    ),
    Row("ks-5k", "Kolmogorov-Smirnov", _KS, (5_000, 512), _SMALL, "dataeval", speed_up(8)),
    Row("ks-20k", "Kolmogorov-Smirnov", _KS, (20_000, 512), _SMALL, "dataeval", speed_up(4)),
    Row("cvm-5k", "Cramér-von Mises", _CVM, (5_000, 512), _SMALL, "dataeval", speed_up(3)),
    Row("cvm-20k", "Cramér-von Mises", _CVM, (20_000, 512), _SMALL, "dataeval", speed_up(3)),
    Row("mmd-2.5k", "MMD, 100 permutations", mmd, (2_500, 512), (100, 64), "dataeval *", speed_up(25)),
    Row("mmd-20k", "MMD, 100 permutations", mmd_alone, (20_000, 512), _SMALL, "", memory(1), repeats=1),
    Row("rank-5k", "effective rank", rank, (5_000, 512), _SMALL, "dataeval **", speed_up(2.5)),
    Row(
        "rank-20k",
        "effective rank",
        rank,
        (20_000, 512),
        _SMALL,
        "dataeval **",
        speed_up(2.5),
        repeats=2,
        large=True,
    ),
    Row("frechet-200", "Fréchet distance", frechet, (200, 512), (50, 64), "sqrtm", speed_up(20), 5),
    Row("frechet-300", "Fréchet distance", frechet, (300, 1_280), (50, 96), "sqrtm", speed_up(20)),
    Row("frechet-5k", "Fréchet distance", frechet, (5_000, 512), _SMALL, "sqrtm", speed_up(2), 5),
    Row("prdc-5k", "PRDC", precision_recall, (5_000, 512), _SMALL, "prdc", speed_up(1.5)),
    Row(
        "radius-100k",
        "coverage radius",
        radius_alone,
        (100_000, 512),
        _SMALL,
        "",
        memory(1),
        repeats=1,
        large=True,
    ),
    Row(
        "verdict-1k",
        "sufficiency verdict",
        verdict,
        (100, 1_000, 1_000, 1_280),
        (60, 100, 100, 64),
        "",
        (Target("seconds", 3),),
    ),
    Row(
        "verdict-20k",
        "sufficiency verdict",
        verdict,
        (1_000, 20_000, 20_000, 512),
        (60, 100, 100, 64),
        "",
        memory(2),
        repeats=1,
        large=True,
    ),
)
