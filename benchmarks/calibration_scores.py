"""How often intervals of scores hold the true score, and how often equal models are told apart.

    python benchmarks/calibration_scores.py [--runs 400] [--only accuracy preference ...]

Prints one line a case: the metric, the data, the number of images, how often the 95 % interval held the score
of the whole population, or what became of a choice between models, with a Wilson interval of the share.
Models and images are simulated, so that the true score is known: classes with given shares, a model with a
given recall of each, images alone or in groups whose images are right or wrong together.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pytest_semcov.gates.choice import preference_verdict
from pytest_semcov.metrics.classification import (
    SCORES,
    calibration_error,
    calibration_gaps,
    count_classes,
)
from pytest_semcov.metrics.detection import (
    Objects,
    average_precision,
    match_objects,
    mean_average_precision,
)
from pytest_semcov.metrics.intervals import wilson
from pytest_semcov.metrics.resampling import Estimate, effective_groups, resample, subsample, with_prior

RESAMPLES = 400
POPULATION = 200_000


@dataclass(frozen=True, slots=True)
class Case:
    """A simulated data set and model.

    Parameters
    ----------
    name
        For the table.
    groups, size
        Number of groups, images in each.
    shares
        Of the classes.
    recall
        Of each class.
    together
        Correlation of right and wrong within a group.
    """

    name: str
    groups: int
    size: int
    shares: tuple[float, ...]
    recall: tuple[float, ...]
    together: float = 0.0

    @property
    def images(self) -> int:
        """Number of images."""
        return self.groups * self.size


CASES = (
    Case("two classes", 50, 1, (0.5, 0.5), (0.9, 0.7)),
    Case("two classes, hardly an error", 30, 1, (0.5, 0.5), (0.95, 0.95)),
    Case("two classes, hardly an error", 200, 1, (0.5, 0.5), (0.995, 0.995)),
    Case("a rare class", 100, 1, (0.9, 0.1), (0.95, 0.6)),
    Case("a rare class, hardly an error", 100, 1, (0.9, 0.1), (0.98, 0.95)),
    Case("groups of 8", 25, 8, (0.5, 0.5), (0.9, 0.7), 0.3),
    Case("few groups of 8", 12, 8, (0.5, 0.5), (0.9, 0.7), 0.3),
    Case("five classes", 200, 1, (0.6, 0.2, 0.1, 0.05, 0.05), (0.9, 0.8, 0.7, 0.6, 0.6)),
    Case("twenty classes", 100, 1, (0.05,) * 20, (0.9,) * 20),
)

EQUAL = ((50, 0.9), (50, 0.97), (200, 0.7), (200, 0.9))
"""Images and accuracy of two equal models."""


def draw(
    case: Case, groups: int, generator: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return true and predicted classes of so many groups."""
    classes, images = len(case.shares), groups * case.size
    truth = generator.choice(classes, images, p=case.shares)
    own = generator.normal(0, np.sqrt(1 - case.together), images)
    common = np.repeat(generator.normal(0, np.sqrt(case.together), groups), case.size)
    right = ndtr(own + common) < np.asarray(case.recall)[truth]
    wrong = (truth + 1 + generator.integers(0, classes - 1, images)) % classes
    return truth, np.where(right, truth, wrong)


def score_coverage(case: Case, runs: int) -> Iterator[tuple[str, int]]:
    """Yield, per score, in how many of the runs its interval held the true one."""
    truth, predicted = draw(case, POPULATION // case.size, np.random.default_rng(1))
    classes = len(case.shares)
    whole = count_classes(truth, predicted, classes)
    true = {name: float(score(whole)[0]) for name, score in SCORES.items()}
    held: Counter[str] = Counter()
    names = np.repeat(np.arange(case.groups), case.size).tolist()
    for run in range(runs):
        truth, predicted = draw(case, case.groups, np.random.default_rng([2, run]))
        draws = resample(case.images, groups=names, repeats=RESAMPLES, seed=run)
        counts = count_classes(truth, predicted, classes)
        plain = count_classes(truth, predicted, classes, weights=draws)
        drawn = with_prior(plain, images_per_group=case.size, seed=run)
        effective = effective_groups(counts, images_per_group=case.size)
        for name, score in SCORES.items():
            found = Estimate(
                float(score(counts)[0]),
                score(drawn),
                case.groups,
                case.images,
                plain=score(plain),
                effective=None if name == "accuracy" else effective,
            )
            low, high = found.interval()
            held[name] += low <= true[name] <= high
    for name in SCORES:
        yield name, held[name]


def calibration_coverage(images: int, sharpness: float, runs: int) -> int:
    """Return in how many runs the interval of the calibration error held the true one.

    With a sharpness of 1 the model is calibrated; above, it is too sure of itself.
    """

    def sample(count: int, generator: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        logits = generator.normal(0, 2, (count, 3))
        known, said = softmax(logits), softmax(sharpness * logits)
        truth = (known.cumsum(axis=1) < generator.random((count, 1))).sum(axis=1).clip(max=2)
        return said.max(axis=1), said.argmax(axis=1) == truth

    true = float(calibration_error(calibration_gaps(*sample(POPULATION, np.random.default_rng(1))))[0])
    held = 0
    for run in range(runs):
        confidence, right = sample(images, np.random.default_rng([3, run]))
        whole = calibration_gaps(confidence, right)
        drawn = calibration_gaps(confidence, right, weights=resample(images, repeats=RESAMPLES, seed=run))
        found = Estimate(
            float(calibration_error(whole)[0]),
            calibration_error(drawn),
            images,
            images,
            calibration_error(drawn - whole),
        )
        low, high = found.interval()
        held += low <= true <= high
    return held


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities, row by row."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities


def detection_coverage(images: int, runs: int) -> int:
    """Return in how many runs the interval of mAP@0.5 held the true one."""

    def sample(count: int, generator: np.random.Generator) -> tuple[list[Objects], list[Objects]]:
        truth, found = [], []
        for _ in range(count):
            number = int(generator.integers(0, 5))
            corner = generator.uniform(0, 200, (number, 2))
            boxes = np.hstack([corner, corner + generator.uniform(10, 60, (number, 2))])
            codes = generator.integers(0, 2, number)
            seen = generator.random(number) < 0.8
            moved = boxes + generator.normal(0, 3, boxes.shape)
            moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2])
            scores = generator.beta(4, 2, number)
            extra = generator.uniform(0, 200, (int(generator.poisson(0.5)), 2))
            truth.append(Objects(boxes, codes))
            found.append(
                Objects(
                    np.vstack([moved[seen], np.hstack([extra, extra + 30])]),
                    np.concatenate([codes[seen], generator.integers(0, 2, len(extra))]),
                    np.concatenate([scores[seen], generator.beta(2, 4, len(extra))]),
                )
            )
        return truth, found

    def values(
        truth: list[Objects], found: list[Objects], draws: NDArray[np.int32] | None
    ) -> NDArray[np.float64]:
        matches = match_objects(truth, found, 2, thresholds=(0.5,))
        return mean_average_precision(average_precision(matches, draws=draws), (0.5,), 0.5)

    large = [values(*sample(20_000, np.random.default_rng([1, part])), None)[0] for part in range(4)]
    true = float(np.mean(large))
    held = 0
    for run in range(runs):
        truth, found = sample(images, np.random.default_rng([4, run]))
        draws = resample(images, repeats=200, seed=run)
        value = float(values(truth, found, None)[0])
        excess = float(values(truth, found, subsample(images, seed=run)).mean()) - value
        drawn = values(truth, found, draws)
        estimate = Estimate(value, drawn, images, images, plain=drawn, excess=excess)
        low, high = estimate.interval()
        held += low <= true <= high
    return held


def preferences(images: int, accuracies: tuple[float, float], runs: int) -> Counter[str]:
    """Return how often the second of two models is preferred, not preferred, or neither."""
    case = Case("", images, 1, (0.5, 0.5), (1.0, 1.0))
    outcomes: Counter[str] = Counter()
    for run in range(runs):
        generator = np.random.default_rng([5, run])
        truth, _ = draw(case, images, generator)
        common = generator.normal(0, np.sqrt(0.5), images)
        draws = resample(images, repeats=RESAMPLES, seed=run)
        scores = {}
        for number, accuracy in enumerate(accuracies):
            right = ndtr(common + generator.normal(0, np.sqrt(0.5), images)) < accuracy
            predicted = np.where(right, truth, 1 - truth)
            plain = count_classes(truth, predicted, 2, weights=draws)
            drawn = with_prior(plain, seed=(run, number))
            score = SCORES["accuracy"]
            value = float(score(count_classes(truth, predicted, 2))[0])
            scores[f"model {number}"] = Estimate(value, score(drawn), images, images, plain=score(plain))
        verdict = preference_verdict("model 1", scores, subject="simulated", metric="accuracy")
        outcomes[verdict.outcome.value] += 1
    return outcomes


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parts: dict[str, Callable[[int], None]] = {
        "scores": print_scores,
        "calibration": print_calibration,
        "detection": print_detection,
        "preference": print_preference,
    }
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    options = parser.parse_args()
    print_line("what", "case", "images", "result", "share", "Wilson interval")
    print_line(*["---"] * 6)
    for part in options.only:
        parts[part](options.runs)


def print_line(*cells: str) -> None:
    """Print one row of a Markdown table."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def print_share(what: str, case: str, images: int, result: str, count: int, runs: int) -> None:
    """Print one share with its interval."""
    low, high = wilson(count, runs)
    print_line(what, case, str(images), result, f"{count / runs:.1%}", f"{low:.1%} to {high:.1%}")


def print_scores(runs: int) -> None:
    """Print how often intervals of scores from counts held."""
    for case in CASES:
        for name, held in score_coverage(case, runs):
            print_share(name, case.name, case.images, "interval holds", held, runs)


def print_calibration(runs: int) -> None:
    """Print how often intervals of the calibration error held."""
    for name, sharpness in (("calibrated", 1.0), ("too sure of itself", 2.0)):
        for images in (100, 400):
            held = calibration_coverage(images, sharpness, runs)
            print_share("calibration_error", name, images, "interval holds", held, runs)


def print_detection(runs: int) -> None:
    """Print how often intervals of mAP@0.5 held."""
    for images in (50, 200):
        held = detection_coverage(images, runs)
        print_share("map@0.5", "two classes", images, "interval holds", held, runs)


def print_preference(runs: int) -> None:
    """Print what became of choices between models."""
    for images, accuracy in EQUAL:
        neither = preferences(images, (accuracy, accuracy), runs)["INCONCLUSIVE"]
        print_share("preference", f"equal models, accuracy {accuracy}", images, "neither", neither, runs)
    for images in (50, 200):
        better = preferences(images, (0.8, 0.95), runs)["PASS"]
        print_share("preference", "accuracy 0.95 against 0.8", images, "the better one", better, runs)


if __name__ == "__main__":
    main()
