"""Run the sufficiency gate on real day and night photographs, on other real night and on fakes.

Half of 120 night photographs are the uncovered set U, the 120 day photographs the covered set C; the
candidate S is the other half, the day images under a transform, or a fake. For each candidate the table
gives the outcomes over several random halves, the criteria that failed, and the median shares closed.

    python benchmarks/sufficiency_photographs.py --data ../shared/data/day_night --seeds 10
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Outcome

Array = NDArray[np.float64]


def unit_rows(array: Array) -> Array:
    """Scale rows to length one."""
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def load(folder: Path) -> tuple[Array, Array, dict[str, Array]]:
    """Return night, day and darkened day embeddings, L2-normalised."""
    stored = np.load(folder / "embeddings_efficientnet_lite0.npz")
    rows, label = unit_rows(stored["embeddings"].astype(np.float64)), stored["time_of_day"]
    darkened = np.load(folder / "embeddings_darkened.npz")
    return (
        rows[label == "night"],
        rows[label == "day"],
        {name: unit_rows(darkened[name].astype(np.float64)) for name in darkened.files},
    )


def candidates(
    uncovered: Array, other: Array, covered: Array, darkened: dict[str, Array], generator: np.random.Generator
) -> dict[str, Array]:
    """Return the synthetic sets to judge, by name."""

    def jittered(rows: Array, size: float) -> Array:
        return unit_rows(rows + size * generator.normal(size=rows.shape) / np.sqrt(rows.shape[1]))

    three = other[generator.choice(len(other), size=3, replace=False)]
    real = np.concatenate([uncovered, covered])
    mean, spread = real.mean(axis=0), real.std(axis=0)
    return {
        "other real night": other,
        "other real night, 40": other[:40],
        **{f"day, {name}": rows for name, rows in darkened.items()},
        "identity": covered,
        "copies": uncovered,
        "copies, drawn again": uncovered[generator.integers(len(uncovered), size=100)],
        **{f"copies, jitter {size}": jittered(uncovered, size) for size in (0.02, 0.05, 0.1, 0.2)},
        "half copies": np.concatenate([other[:30], jittered(uncovered[:30], 0.05)]),
        "collapse, 3 x 34": np.repeat(three, 34, axis=0),
        **{
            f"collapse, jitter {size}": jittered(np.repeat(three, 34, axis=0), size)
            for size in (0.02, 0.1, 0.2)
        },
        "noise": unit_rows(np.abs(generator.normal(size=(100, real.shape[1])))),
        "noise, matched moments": unit_rows(mean + spread * generator.normal(size=(100, real.shape[1]))),
        "constant": np.repeat(unit_rows(mean[None]), 100, axis=0),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/day_night"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--uncovered", type=int, default=60, help="number of real night images in U")
    options = parser.parse_args()
    night, day, darkened = load(options.data)
    outcomes: dict[str, Counter[Outcome]] = {}
    failures: dict[str, Counter[str]] = {}
    shares: dict[str, list[list[float]]] = {}
    for seed in range(options.seeds):
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(night))
        uncovered, other = night[order[: options.uncovered]], night[order[options.uncovered :]]
        for name, rows in candidates(uncovered, other, day, darkened, generator).items():
            verdict = sufficiency_verdict(rows, uncovered, day, subject=name, seed=seed)
            outcomes.setdefault(name, Counter())[verdict.outcome] += 1
            failures.setdefault(name, Counter()).update(verdict.failed)
            shares.setdefault(name, []).append(
                [
                    np.nan if verdict[key].value is None else verdict[key].value
                    for key in ("drift", "radius", "completeness")
                ]
            )
    print(f"U = {options.uncovered} night, C = {len(day)} day, {options.seeds} random halves")
    print(f"{'candidate':24} pass fail incl   drift radius   gain  failed")
    for name, count in outcomes.items():
        with np.errstate(all="ignore"):
            values = np.array(shares[name])
            middle = [
                "     -" if np.isnan(column).all() else f"{np.nanmedian(column):6.2f}" for column in values.T
            ]
        why = ", ".join(f"{criterion} {times}" for criterion, times in failures[name].most_common())
        print(
            f"{name:24} {count[Outcome.PASS]:4} {count[Outcome.FAIL]:4} {count[Outcome.INCONCLUSIVE]:4}  "
            f"{' '.join(middle)}  {why}"
        )


if __name__ == "__main__":
    main()
