"""The tables of docs/descriptors.md: wordings, calibrated margins, and how verdicts on embedders end.

    python benchmarks/descriptors.py [--runs 400] [--only wordings calibration agreement]

Wordings and calibration use the built-in encoder on rendered scenes of 24 × 24 pixels, in which it is less
often right than it says. Agreement is simulated: normal figures with a given Kendall's tau between embedders.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter

import numpy as np

from pytest_semcov import Descriptor, RenderedScenes, Workbench
from pytest_semcov.gates.agreement import agreement_verdict
from pytest_semcov.semantics.calibration import reliability_table

SEMANTICS = ("nodamage_damage", "noveg_veg", "lowdense_highdense")
PIXELS = 24


def wordings(bench: Workbench) -> None:
    """Print the bench of one semantic with each wording that the encoder's card has."""
    name = "nodamage_damage"
    card = bench.encoder.semantics
    assert card is not None
    several = Descriptor(name, {category: tuple(phrases[:4]) for category, phrases in card[name].items()})
    scenes = RenderedScenes(300, seed=7, size=PIXELS)
    print(bench.descriptor_bench(scenes, several, labels=name), end="\n\n")


def calibration(bench: Workbench) -> None:
    """Print calibration error and counts on scenes that were not learnt from, before and after."""
    known = RenderedScenes(200, seed=5, size=PIXELS)
    unseen = RenderedScenes(400, seed=6, size=PIXELS)
    print("| semantic | right | error before | after | category | images | counted | weighted |")
    print("|---|---|---|---|---|---|---|---|")
    for name in SEMANTICS:
        found = bench.calibrate(known, name, labels=name)
        labels, descriptor = bench.label(unseen, name), bench.descriptor(name)
        truth = np.array([labels.code(str(category)) for category in unseen.column(name)])
        right = labels.top == truth
        assert labels.probability is not None
        before = _error(labels.probability, right)
        after = _error(found.certainty(labels, descriptor), right)
        category = labels.categories[1]
        weighted = found.expected_counts(labels, descriptor)[category]
        counts = ((truth == 1).sum(), (labels.top == 1).sum(), weighted)
        cells = [f"`{name}`", *(f"{figure:.3f}" for figure in (right.mean(), before, after)), category]
        print(f"| {' | '.join([*cells, *(f'{count:.0f}' for count in counts)])} |")
    print(f"\n{found}\n")


def _error(probability: np.ndarray, right: np.ndarray) -> float:
    """Return the calibration error over ten bins of equally many images."""
    table = reliability_table(probability, right, bins=10)
    return sum(each.images * abs(each.promised - each.correct) for each in table) / len(right)


def agreement(runs: int) -> None:
    """Print what becomes of embedders whose rankings agree by a given tau, with the bar at 0.5."""
    print("| embedders | semantics | true tau | PASS | INCONCLUSIVE | FAIL |")
    print("|---|---|---|---|---|---|")
    for embedders, semantics in ((2, 6), (2, 8), (3, 8)):
        for tau in (0.0, 0.25, 0.5, 0.75, 0.95):
            generator = np.random.default_rng([semantics, embedders, round(100 * tau)])
            found = Counter(
                agreement_verdict(
                    _lifts(embedders, semantics, tau, generator), permutations=99, seed=run
                ).outcome.value
                for run in range(runs)
            )
            shares = " | ".join(f"{found[each] / runs:.1%}" for each in ("PASS", "INCONCLUSIVE", "FAIL"))
            print(f"| {embedders} | {semantics} | {tau:g} | {shares} |", flush=True)


def _lifts(
    embedders: int, semantics: int, tau: float, generator: np.random.Generator
) -> dict[str, dict[tuple[str, str], float | None]]:
    """Draw lifts of two categories a semantic, which depend on each other."""

    def draw(*front: int) -> np.ndarray:
        block = generator.normal(size=(*front, semantics, 1))
        return math.sqrt(0.5) * (block + generator.normal(size=(*front, semantics, 2)))

    share = math.sin(math.pi * tau / 2)
    table = np.exp(math.sqrt(share) * draw() + math.sqrt(1 - share) * draw(embedders))
    return {
        f"embedder {number}": {
            (f"semantic {s}", "ab"[c]): float(each[s, c]) for s in range(semantics) for c in (0, 1)
        }
        for number, each in enumerate(table)
    }


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parts = ("wordings", "calibration", "agreement")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    arguments = parser.parse_args()
    bench = Workbench()
    if "wordings" in arguments.only:
        wordings(bench)
    if "calibration" in arguments.only:
        calibration(bench)
    if "agreement" in arguments.only:
        agreement(arguments.runs)


if __name__ == "__main__":
    main()
