"""How often the intervals of the three shares of the sufficiency gate hold the true share.

The numerator and the denominator of a share are unbiased at given sizes, so the true share is the ratio of
their means over all runs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from calibration_pools import Pool
from calibration_sufficiency import BAD, GOOD, draw_sets

from pytest_semcov.gates.sufficiency_sets import DistanceTable
from pytest_semcov.gates.verdict import Plain
from pytest_semcov.metrics import gaps
from pytest_semcov.metrics.intervals import clopper_pearson

CASES = ("other night images", "ideal translation", "7 of 10 untranslated", "painted lamps")
# As the gate's own defaults.
_BAR, _NEIGHBOUR, _REPEATS = 0.5, 5, 200
_FIRST_SEED = 1_000_000


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the intervals of one share came out.

    Parameters
    ----------
    share
        ``"drift"``, ``"radius"`` or ``"completeness"``.
    case, n
        What was judged, at which size.
    truth
        The true share.
    runs, held, above, below
        Runs, and in how many the truth lay inside, above and below the interval.
    width
        Median width.
    """

    share: str
    case: str
    n: int
    truth: float
    runs: int
    held: int
    above: int
    below: int
    width: float

    @property
    def lower(self) -> float:
        """One-sided 95 % Clopper-Pearson lower bound of the coverage."""
        return clopper_pearson(self.held, self.runs, confidence=0.9)[0]

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "share": self.share,
            "case": self.case,
            "n": self.n,
            "truth": self.truth,
            "runs": self.runs,
            "held": self.held,
            "above": self.above,
            "below": self.below,
            "lower": self.lower,
            "width": self.width,
        }


def measure_intervals(pool: Pool, sizes: Sequence[int], runs: int, *, workers: int = 1) -> list[Coverage]:
    """Measure the intervals for every case that the pool has the images for."""
    found = []
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as executor:
        for n in sizes:
            for case in CASES:
                try:
                    shares(pool, case, n, 0)
                except KeyError:  # a translation that this pool does not have
                    continue
                each = partial(shares, pool, case, n)
                seeds = range(_FIRST_SEED, _FIRST_SEED + runs)
                measured = list(executor.map(each, seeds, chunksize=20))
                found.extend(
                    _coverage(name, f"{pool.name}: {case}", n, [run[name] for run in measured])
                    for name in measured[0]
                )
    return found


def shares(pool: Pool, case: str, n: int, seed: int) -> Mapping[str, gaps.GapClosed]:
    """Measure the three shares of one run, without the gate around them."""
    draw = draw_sets(pool, n, seed)
    made = {**GOOD, **BAD}[case](draw)
    table = DistanceTable.build(draw.night, draw.day, made.rows)
    subsamples = gaps.draw_subsamples(table.sets, np.arange(len(table.sets)), repeats=_REPEATS, seed=seed)
    radius = gaps.radius_gap(np.sqrt(table.squared), subsamples, k=_NEIGHBOUR, bar=_BAR)
    return {
        "drift": gaps.drift_gap(table.kernel(), subsamples, bar=_BAR),
        "radius": radius.closed,
        "completeness": gaps.completeness_gain(table.squared, subsamples, seed=seed, bar=_BAR).gain,
    }


def _coverage(name: str, case: str, n: int, measured: Sequence[gaps.GapClosed]) -> Coverage:
    truth = float(
        np.mean([each.numerator for each in measured]) / np.mean([each.denominator for each in measured])
    )
    low, high = np.array([each.interval for each in measured]).T
    above, below = int(np.sum(high < truth)), int(np.sum(low > truth))
    return Coverage(
        share=name,
        case=case,
        n=n,
        truth=truth,
        runs=len(measured),
        held=len(measured) - above - below,
        above=above,
        below=below,
        width=float(np.median(high - low)),
    )


def table(rows: Sequence[Coverage]) -> str:
    """Return a markdown table, one share a line."""
    lines = [
        "| share | case | n | true share | held | truth above | below | lower 95 % bound of held | width |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines.extend(
        f"| {row.share} | {row.case} | {row.n} | {row.truth:.2f} | {row.held} of {row.runs} | {row.above} "
        f"| {row.below} | {row.lower:.1%} | {row.width:.2f} |"
        for row in rows
    )
    return "\n".join(lines)
