"""Known good and known bad synthetic sets for the sufficiency gate, drawn anew for every run.

Every run draws U and C without replacement from a pool of real (or rendered) night and day images. Good sets
are other night images and ideal translations of covered images; bad ones are untranslated or wrongly
translated images and the fakes that a broken or a dishonest generator hands out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from calibration_cells import Cell
from calibration_pools import Pool, Rows, unit_rows, without_difference
from numpy.typing import NDArray

from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Outcome, Verdict

Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """The sets of one run.

    Parameters
    ----------
    pool
        Where they come from.
    uncovered, covered
        Rows of the pool that are U and C.
    other_uncovered, other_covered
        Its other rows.
    n
        Number of images of U, and of S unless the case says otherwise.
    generator
        Of this run.
    """

    pool: Pool
    uncovered: Numbers
    covered: Numbers
    other_uncovered: Numbers
    other_covered: Numbers
    n: int
    generator: np.random.Generator

    @property
    def night(self) -> Rows:
        """U."""
        return self.pool.uncovered[self.uncovered]

    @property
    def day(self) -> Rows:
        """C."""
        return self.pool.covered[self.covered]

    def jittered(self, rows: Rows, share: float) -> Rows:
        """Return rows moved at random by a share of the usual distance between nearest images of U."""
        products = self.night @ self.night.T
        np.fill_diagonal(products, -1)
        usual = float(np.median(np.sqrt(np.maximum(2 - 2 * products.max(axis=1), 0))))
        return unit_rows(rows + share * usual * unit_rows(self.generator.normal(size=rows.shape)))

    def noise(self) -> Rows:
        """Return n random directions."""
        return unit_rows(self.generator.normal(size=(self.n, self.pool.uncovered.shape[1])))

    def noise_like_real(self) -> Rows:
        """Return n random rows with the means and spreads of the real features."""
        real = np.concatenate([self.night, self.day])
        return unit_rows(
            real.mean(axis=0) + real.std(axis=0) * self.generator.normal(size=(self.n, real.shape[1]))
        )

    def three_images(self) -> Rows:
        """Return three night images, each repeated."""
        chosen = self.generator.choice(self.other_uncovered, size=3, replace=False)
        return np.repeat(self.pool.uncovered[chosen], -(-self.n // 3), axis=0)

    def with_share(self, bad: Rows, share: float) -> Rows:
        """Return n rows, a share of them bad, the others night images."""
        count = round(share * self.n)
        return np.concatenate([self.pool.uncovered[self.other_uncovered[: self.n - count]], bad[:count]])


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A set to judge: rows, the sources of each, the group of each."""

    rows: Rows
    sources: Rows | None = None
    groups: Numbers | None = None


Maker = Callable[[Draw], Made]


def _others(draw: Draw, count: int) -> Made:
    chosen = draw.other_uncovered[:count]
    return Made(draw.pool.uncovered[chosen], groups=chosen // draw.pool.groups)


def _translated(draw: Draw, name: str) -> Made:
    chosen = draw.covered[: draw.n]
    # In the namespace of the covered images' groups.
    groups = -1 - chosen // draw.pool.groups
    return Made(draw.pool.translated[name][chosen], draw.pool.covered[chosen], groups)


GOOD: dict[str, Maker] = {
    "other night images": lambda draw: _others(draw, draw.n),
    "other night images, 40": lambda draw: _others(draw, 40),
    "other night images, 3 n": lambda draw: _others(draw, 3 * draw.n),
    "ideal translation": lambda draw: _translated(draw, "ideal"),
}
BAD: dict[str, Maker] = {
    "identity": lambda draw: Made(draw.day[: draw.n], draw.day[: draw.n]),
    "other day images": lambda draw: Made(draw.pool.covered[draw.other_covered[: draw.n]]),
    "rain for night": lambda draw: _translated(draw, "rain"),
    "a quarter of the way": lambda draw: _translated(draw, "a quarter night"),
    "gamma 1.5": lambda draw: _translated(draw, "gamma1_5_blue"),
    "gamma 2.6": lambda draw: _translated(draw, "gamma2_6_blue"),
    "painted lamps": lambda draw: _translated(draw, "gamma3_blue_lights"),
    "7 of 10 untranslated": lambda draw: Made(draw.with_share(draw.pool.covered[draw.other_covered], 0.7)),
    "copies": lambda draw: Made(draw.night),
    "copies x 8": lambda draw: Made(np.repeat(draw.night, 8, axis=0)),
    "copies moved by .1": lambda draw: Made(draw.jittered(draw.night, 0.1)),
    "copies moved by .3": lambda draw: Made(draw.jittered(draw.night, 0.3)),
    "three images": lambda draw: Made(draw.three_images()),
    "three images moved by .3": lambda draw: Made(draw.jittered(draw.three_images(), 0.3)),
    "black images": lambda draw: Made(np.repeat(draw.pool.fakes["black"], draw.n, axis=0)),
    "one vector": lambda draw: Made(np.repeat(unit_rows(draw.day.mean(axis=0)[None]), draw.n, axis=0)),
    "images of noise": lambda draw: Made(draw.pool.fakes["noise"][: draw.n]),
    "noise": lambda draw: Made(draw.noise()),
    "noise, 10 n": lambda draw: Made(replace(draw, n=10 * draw.n).noise()),
    "noise with moments of real": lambda draw: Made(draw.noise_like_real()),
}
# Needed by the makers of these names, where a pool has them.
_TRANSLATIONS = {
    "ideal translation": "ideal",
    "rain for night": "rain",
    "a quarter of the way": "a quarter night",
    "gamma 1.5": "gamma1_5_blue",
    "gamma 2.6": "gamma2_6_blue",
    "painted lamps": "gamma3_blue_lights",
}
_GROUPED = ("other night images", "ideal translation", "rain for night", "a quarter of the way")
_FAKES = {"black images": "black", "images of noise": "noise"}


def draw_sets(pool: Pool, n: int, seed: int) -> Draw:
    """Draw U of n images and C of 2 n (two thirds of the pool at most), by whole groups."""
    generator = np.random.default_rng(seed)

    def shuffled(rows: int) -> Numbers:
        order = generator.permutation(-(-rows // pool.groups))
        every = (order[:, None] * pool.groups + np.arange(pool.groups)).ravel()
        return np.asarray(every[every < rows])

    night, day = shuffled(len(pool.uncovered)), shuffled(len(pool.covered))
    covered = min(2 * n, len(day) * 2 // 3)
    return Draw(pool, night[:n], day[:covered], night[n:], day[covered:], n, generator)


def judge(pool: Pool, make: Maker, n: int, seed: int) -> Verdict:
    """Draw, make and judge one set."""
    draw = draw_sets(pool, n, seed)
    made = make(draw)
    grouped = pool.groups > 1
    return sufficiency_verdict(
        made.rows,
        draw.night,
        draw.day,
        subject="calibration",
        sources=made.sources,
        synthetic_groups=made.groups if grouped else None,
        uncovered_groups=draw.uncovered // pool.groups if grouped else None,
        covered_groups=-1 - draw.covered // pool.groups if grouped else None,
        seed=seed,
        figures=False,
    )


def cells(pool: Pool, sizes: Sequence[int]) -> list[Cell]:
    """Return all cells that a pool has the images for."""
    known = {**_TRANSLATIONS, **_FAKES}
    offered = {*pool.translated, *pool.fakes}
    found = []
    for n in sizes:
        for expected, makers in ((Outcome.PASS, GOOD), (Outcome.FAIL, BAD)):
            found.extend(
                _cell(pool, case, make, expected, n)
                for case, make in makers.items()
                if known.get(case) in offered | {None}
            )
    return found


def grouped_cells(pool: Pool, sizes: Sequence[int]) -> list[Cell]:
    """Return the cells whose sets consist of groups."""
    makers = {case: make for case, make in {**GOOD, **BAD}.items() if case in _GROUPED}
    return [
        _cell(pool, case, make, Outcome.PASS if case in GOOD else Outcome.FAIL, n)
        for n in sizes
        for case, make in makers.items()
    ]


def cells_without_difference(pool: Pool, sizes: Sequence[int]) -> list[Cell]:
    """Return cells in which U and C are alike, so that nothing can be known of S."""
    alike = without_difference(pool)
    make = GOOD["other night images"]
    return [_cell(alike, "U and C alike", make, Outcome.INCONCLUSIVE, n) for n in sizes]


def _cell(pool: Pool, case: str, make: Maker, expected: Outcome, n: int) -> Cell:
    return Cell("sufficiency", f"{pool.name}: {case}", expected, n, partial(judge, pool, make, n))
