"""How often the verdicts on models are wrong, and from which size on they decide.

    python benchmarks/calibration_choice.py [--runs 400] [--only likeness gap choice preference]

Prints one line a case: the gate, what is true, images per set, models, and the shares of PASS, FAIL and
INCONCLUSIVE, with a Wilson interval of the share that would be wrong. Models and images are simulated: a
model is right on an image with a given probability, models err together on hard images, and a synthetic image
is in its source's group and about as hard.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pytest_semcov.gates.choice import (
    condition_gap_verdict,
    likeness_verdict,
    preference_verdict,
    same_choice_verdict,
)
from pytest_semcov.gates.verdict import Verdict
from pytest_semcov.metrics.classification import accuracy, count_classes
from pytest_semcov.metrics.intervals import wilson
from pytest_semcov.metrics.resampling import Estimate, resample, with_prior

RESAMPLES = 400
TOGETHER = 0.5
"""Correlation of two models on one image, and of one model on an image and its translation."""

Scores = dict[str, dict[str, Estimate]]


@dataclass(frozen=True, slots=True)
class Case:
    """What is true, and what must not be said.

    Parameters
    ----------
    truth
        For the table.
    accuracies
        Set → accuracy of each model.
    images
        Images of each set.
    wrong
        Outcomes that would be wrong.
    size
        Images in a group.
    """

    truth: str
    accuracies: Mapping[str, tuple[float, ...]]
    images: int
    wrong: tuple[str, ...]
    size: int = 1

    @property
    def models(self) -> int:
        """Number of models."""
        return len(next(iter(self.accuracies.values())))


def simulate(case: Case, run: int) -> Scores:
    """Return set → model → score; the set "synthetic" shares its groups with the set "covered"."""
    generator = np.random.default_rng([case.images, case.models, run])
    sets = list(case.accuracies)
    hard = {name: _difficulty(case, generator) for name in sets}
    if "synthetic" in hard and "covered" in hard:
        hard["synthetic"] = _mixed(hard["covered"], generator)
    groups = np.arange(case.images) // case.size
    names = {
        name: [f"{'covered' if name == 'synthetic' else name} {group}" for group in groups] for name in sets
    }
    draws = resample(
        case.images * len(sets),
        groups=[group for name in sets for group in names[name]],
        repeats=RESAMPLES,
        seed=run,
    )
    scores: Scores = {}
    for place, name in enumerate(sets):
        drawn = draws[:, place * case.images : (place + 1) * case.images]
        scores[name] = {
            f"model {number}": _estimate(
                _mixed(hard[name], generator) < ndtri(probability), drawn, case, (run, place, number)
            )
            for number, probability in enumerate(case.accuracies[name])
        }
    return scores


def _difficulty(case: Case, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return a standard normal number per image, alike within groups."""
    groups = -(-case.images // case.size)
    common = np.repeat(generator.normal(size=groups), case.size)[: case.images]
    share = 0.0 if case.size == 1 else 0.3
    own = generator.normal(size=case.images)
    mixed: NDArray[np.float64] = np.sqrt(share) * common + np.sqrt(1 - share) * own
    return mixed


def _mixed(known: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """Return standard normal numbers that correlate with the known ones."""
    mixed: NDArray[np.float64] = np.sqrt(TOGETHER) * known
    mixed += np.sqrt(1 - TOGETHER) * generator.normal(size=len(known))
    return mixed


def _estimate(
    right: NDArray[np.bool_], draws: NDArray[np.int32], case: Case, seed: tuple[int, ...]
) -> Estimate:
    truth = np.zeros(len(right), np.intp)
    predicted = np.where(right, 0, 1)
    plain = count_classes(truth, predicted, 2, weights=draws)
    drawn = with_prior(plain, images_per_group=case.size, seed=seed)
    value = float(accuracy(count_classes(truth, predicted, 2))[0])
    groups = -(-case.images // case.size)
    return Estimate(value, accuracy(drawn), groups, case.images, plain=accuracy(plain))


def likeness(scores: Scores) -> Verdict:
    """Judge synthetic images."""
    return likeness_verdict(
        scores["synthetic"], scores["real"], scores["covered"], subject="simulated", metric="accuracy"
    )


def gap(scores: Scores) -> Verdict:
    """Judge one model between two categories, of which one may be worse by 0.1."""
    by_category = {name: models["model 0"] for name, models in scores.items()}
    return condition_gap_verdict(by_category, subject="simulated", metric="accuracy", max_gap=0.1)


def choice(scores: Scores) -> Verdict:
    """Judge whether two data sets choose one model."""
    return same_choice_verdict(scores, subject="simulated", metric="accuracy")


def preference(scores: Scores) -> Verdict:
    """Judge whether the first model is better than all others."""
    return preference_verdict("model 0", scores["all"], subject="simulated", metric="accuracy")


def _likeness_cases() -> list[Case]:
    found = []
    for images in (30, 100, 300):
        for models in (1, 4):
            for truth, synthetic, real, wrong in (
                ("as on real ones", 0.6, 0.6, ("FAIL",)),
                ("as on covered ones", 0.9, 0.6, ("PASS",)),
                ("a quarter of the way to real", 0.825, 0.6, ("PASS",)),
                ("twice as far as real ones", 0.3, 0.6, ("PASS",)),
                ("alike on covered and real ones", 0.9, 0.9, ("FAIL", "PASS")),
            ):
                each = {"synthetic": synthetic, "real": real, "covered": 0.9}
                accuracies = {name: (value,) * models for name, value in each.items()}
                found.append(Case(f"models score {truth}", accuracies, images, wrong))
    groups = {"synthetic": (0.9,), "real": (0.6,), "covered": (0.9,)}
    found.append(Case("models score as on covered ones, groups of 5", groups, 200, ("PASS",), 5))
    groups = groups | {"synthetic": (0.6,)}
    return [*found, Case("models score as on real ones, groups of 5", groups, 200, ("FAIL",), 5)]


def _gap_cases() -> list[Case]:
    return [
        Case(f"gap of {true:g}", {"day": (0.9,), "night": (0.9 - true,)}, images, wrong)
        for images in (30, 100, 300, 1000)
        for true, wrong in (
            (0.0, ("FAIL",)),
            (0.05, ("FAIL",)),
            (0.101, ("PASS",)),
            (0.2, ("PASS",)),
            (0.3, ("PASS",)),
        )
    ]


def _choice_cases() -> list[Case]:
    found = []
    for images in (30, 100, 300):
        for more in (0, 2):
            equal, other = (0.8, 0.8, *([0.8] * more)), [0.6] * more
            best, worse = (0.9, 0.7, *other), (0.7, 0.9, *other)
            found += [
                Case("equal models", {"improved": equal, "ideal": equal}, images, ("FAIL", "PASS")),
                Case("one is better in both", {"improved": best, "ideal": best}, images, ("FAIL",)),
                Case("each set has another best", {"improved": best, "ideal": worse}, images, ("PASS",)),
            ]
    return found


def _preference_cases() -> list[Case]:
    return [
        Case(truth, {"all": accuracies}, images, wrong)
        for images in (50, 200)
        for truth, accuracies, wrong in (
            ("four equal models", (0.85,) * 4, ("FAIL", "PASS")),
            ("one of three others is better", (0.85, 0.95, 0.75, 0.75), ("PASS",)),
            ("best of four", (0.95, 0.8, 0.8, 0.8), ("FAIL",)),
        )
    ]


GATES: dict[str, tuple[Callable[[Scores], Verdict], list[Case]]] = {
    "likeness": (likeness, _likeness_cases()),
    "gap": (gap, _gap_cases()),
    "choice": (choice, _choice_cases()),
    "preference": (preference, _preference_cases()),
}


def outcomes(gate: str, case: Case, runs: int) -> Counter[str]:
    """Return how often each outcome came."""
    judge = GATES[gate][0]
    return Counter(judge(simulate(case, run)).outcome.value for run in range(runs))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", nargs="+", choices=GATES, default=list(GATES))
    options = parser.parse_args()
    heads = ["gate", "truth", "images", "models", "PASS", "FAIL", "INCONCLUSIVE", "wrong", "Wilson interval"]
    _print(*heads)
    _print(*["---"] * len(heads))
    for gate in options.only:
        for case in GATES[gate][1]:
            found = outcomes(gate, case, options.runs)
            wrong = sum(found[outcome] for outcome in case.wrong)
            low, high = wilson(wrong, options.runs)
            shares = [f"{found[name] / options.runs:.1%}" for name in ("PASS", "FAIL", "INCONCLUSIVE")]
            _print(
                gate,
                case.truth,
                str(case.images),
                str(case.models),
                *shares,
                f"{wrong / options.runs:.1%}",
                f"{low:.1%} to {high:.1%}",
            )


def _print(*cells: str) -> None:
    sys.stdout.write("| " + " | ".join(cells) + " |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
