"""Calibration of the gates that count: coverage, combinations and reliability of labels; and of the scan.

Each run builds a data set whose truth is known, gives it labels (exact, or by a simulated labeller that errs
at a known rate), and sends it through the same functions as a test of a user does. ``n`` is the number of
images; for the reliability of labels, the number of reference labels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from calibration_cells import Cell
from calibration_scan import bars_for, scan_cells
from numpy.typing import NDArray

from pytest_semcov.gates.coverage import CoverageBars, combinations_verdict, coverage_verdict
from pytest_semcov.gates.figures import LabelError
from pytest_semcov.gates.labels import label_reliability_verdict
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.semantics.combinations import combination_evidence
from pytest_semcov.semantics.evidence import gather_evidence
from pytest_semcov.semantics.labels import UNCERTAIN, Labels
from pytest_semcov.semantics.reliability import measure_reliability

GATES = ("coverage", "scan", "combinations", "labels")

Codes = NDArray[np.int64]
_NAMES = ("day", "night", "dawn", "morning", "afternoon", "evening")
_IMAGES_A_VIDEO = 5
_KNOWN_IMAGES = 200


def cells(
    sizes: Sequence[int],
    *,
    gates: Sequence[str] = GATES,
    folder: Path | None = None,
    scenes: int = 3_000,
    photographs: Path | None = None,
) -> list[Cell]:
    """Return the cells of the gates that count, and of the scan.

    Parameters
    ----------
    sizes
        Numbers of images, each at least 50.
    gates
        Which of :data:`GATES`.
    folder
        Where embeddings of rendered scenes are kept; default: the package's cache directory.
    scenes
        Scenes rendered for the scan, per kind of data set.
    photographs
        Folder of embeddings of real photographs for the scan, where there are some.
    """
    makers: dict[str, Callable[[int], list[Cell]]] = {
        "coverage": coverage_cells,
        "combinations": combination_cells,
        "labels": label_cells,
    }
    found = [cell for gate in gates if gate in makers for n in sizes for cell in makers[gate](n)]
    if "scan" in gates:
        found += scan_cells(sizes, folder=folder, scenes=scenes, photographs=photographs)
    return found


@dataclass(frozen=True, slots=True)
class Labeller:
    """A labeller that errs at known rates.

    Parameters
    ----------
    name
        For people.
    right
        Chance that an image of each category gets the right label; a wrong one is any other category.
    uncertain
        Chance that a label is uncertain.
    """

    name: str
    right: tuple[float, ...]
    uncertain: float = 0.0

    def label(self, truth: Codes, generator: np.random.Generator) -> Codes:
        """Return the codes that this labeller gives."""
        categories = len(self.right)
        wrong = generator.random(len(truth)) >= np.asarray(self.right)[truth]
        away = generator.integers(1, categories, len(truth))
        codes = np.where(wrong, (truth + away) % categories, truth)
        return np.where(generator.random(len(truth)) < self.uncertain, UNCERTAIN, codes)


_EXACT = Labeller("labels exact", (1.0, 1.0))
_NEARLY = Labeller("1 % of labels wrong", (0.99, 0.99))
_GOOD = Labeller("5 % of labels wrong", (0.95, 0.95), uncertain=0.03)
_FAIR = Labeller("day 5 %, night 15 % wrong", (0.95, 0.85))
_SIX = Labeller("5 % of labels wrong", (0.95,) * 6)


def required(n: int, categories: int = 2) -> int:
    """Return the images of a category that :func:`bars_for` requires."""
    bars = bars_for(n)
    return max(bars.min_count, math.ceil(bars.min_share / categories * n - 1e-9))


def coverage_cells(n: int) -> list[Cell]:
    """Return the cells of ``assert_semantic_covered`` for data sets of n images."""
    bar = required(n)
    counts = {
        "missing": (0, Outcome.FAIL),
        "half of what is required": (bar // 2, Outcome.FAIL),
        "one image short": (bar - 1, Outcome.FAIL),
        "just as required": (bar, Outcome.PASS),
        "half as many again": (3 * bar // 2, Outcome.PASS),
    }
    found = [
        Cell("coverage", f"night {case}, {labeller.name}{known}", expected, n, run)
        for labeller, from_reference, known in (
            (_EXACT, False, ""),
            (_GOOD, False, f", counted on {_KNOWN_IMAGES} images"),
            (_FAIR, False, f", counted on {_KNOWN_IMAGES} images"),
            (_GOOD, True, ", counted on half of the images"),
        )
        for case, (night, expected) in counts.items()
        for run in (_coverage_run(_binary(n, night), labeller, bars_for(n), from_reference=from_reference),)
    ]
    found += [
        Cell("coverage", f"night {case}, {semantic} by the built-in model, card", expected, n, run)
        for semantic in ("day_night", "lowdense_highdense")
        for case, (night, expected) in counts.items()
        for run in (_built_in_run(_binary(n, night), semantic, bars_for(n)),)
    ]
    found += [_six_categories(n, missing) for missing in (0, 1)]
    found += [
        Cell(
            "coverage",
            f"night in {videos} of 5 videos required, {labeller.name}",
            expected,
            n,
            _coverage_run(_binary(n, 3 * bar // 2), labeller, bars_for(n), night_videos=videos),
        )
        for labeller in (_EXACT, _NEARLY, _FAIR)
        for videos, expected in ((4, Outcome.FAIL), (5, Outcome.PASS))
    ]
    return found


def combination_cells(n: int) -> list[Cell]:
    """Return the cells of ``assert_combinations_covered``: day or night × clear or rain."""
    bars = CoverageBars(min_count=min(30, n // 8))
    bar = max(bars.min_count, math.ceil(bars.min_share / 4 * n - 1e-9))
    cases = {
        "full mix": (n // 4, Outcome.PASS),
        "night × rain just as required": (bar, Outcome.PASS),
        "night × rain one image short": (bar - 1, Outcome.FAIL),
        "night × rain missing": (0, Outcome.FAIL),
    }
    far = {case: planted for case, planted in cases.items() if planted[0] in (0, n // 4)}
    unsure = Labeller("3 % of labels uncertain", (1.0, 1.0), uncertain=0.03)
    return [
        Cell("combinations", f"{case}, {labeller.name}", expected, n, run)
        # The gate is not told how often labels are wrong: then counts near the bar are not judged here.
        for labeller, planted in ((_EXACT, cases), (unsure, cases), (_NEARLY, far))
        for case, (few, expected) in planted.items()
        for run in (_combinations_run(n, few, labeller, bars),)
    ]


def label_cells(n: int) -> list[Cell]:
    """Return the cells of ``assert_labels_reliable`` for n reference labels, as many of each category."""
    cases = (
        ("95 % right", (0.95, 0.95), Outcome.PASS),
        ("90 % right", (0.9, 0.9), Outcome.PASS),
        ("80 % right, as required", (0.8, 0.8), Outcome.PASS),
        ("six categories, each 80 % right, as required", (0.8,) * 6, Outcome.PASS),
        ("79 % right", (0.79, 0.79), Outcome.FAIL),
        ("night 79 %, day 99 % right", (0.99, 0.79), Outcome.FAIL),
        ("60 % right", (0.6, 0.6), Outcome.FAIL),
    )
    return [
        Cell("labels", case, expected, n, _labels_run(n, Labeller(case, right)))
        for case, right, expected in cases
    ]


def _six_categories(n: int, missing: int) -> Cell:
    """Return a cell of six categories with as many images as required, or one image less of one."""
    each = n // 6
    truth = np.arange(6 * each) % 6
    if missing:
        truth = np.append(np.delete(truth, 1), 0)
    case = f"six categories, {'one of them one image short' if missing else 'each just as required'}"
    outcome = Outcome.FAIL if missing else Outcome.PASS
    run = _coverage_run(truth, _SIX, CoverageBars(min_count=each, min_share=0.0))
    return Cell("coverage", f"{case}, {_SIX.name}, counted on {_KNOWN_IMAGES} images", outcome, n, run)


def _coverage_run(
    truth: Codes,
    labeller: Labeller,
    bars: CoverageBars,
    *,
    from_reference: bool = False,
    night_videos: int = 0,
) -> Callable[[int], Outcome]:
    categories = _NAMES[: len(labeller.right)]
    groups = _videos(truth, night_videos) if night_videos else None

    def run(seed: int) -> Outcome:
        generator = np.random.default_rng(seed)
        labels = _labels(labeller.label(truth, generator), categories)
        error: dict[str, LabelError] = {}
        if from_reference:
            rows = generator.choice(len(truth), len(truth) // 2, replace=False).tolist()
            known: dict[str, str | None] = {labels.ids[row]: categories[truth[row]] for row in rows}
            error = measure_reliability(labels, known).label_error()
        elif min(labeller.right) < 1:
            error = _known_error(labeller, categories, generator)
        evidence = gather_evidence(labels, groups=groups, label_error=error)
        return coverage_verdict(evidence, bars).outcome

    return run


def _built_in_run(truth: Codes, semantic: str, bars: CoverageBars) -> Callable[[int], Outcome]:
    """Return runs with a labeller that errs as the built-in model may, and the error that its card states.

    The card's counts leave the rates open: in each run they are drawn from their posterior.
    """
    card = json.loads(files("pytest_semcov.embedding.builtin").joinpath("card.json").read_text("utf-8"))
    stated = card["label_error"][semantic].values()
    error = {
        name: LabelError(tuple(counts["recall"]), tuple(counts["specificity"]), counts["source"])
        for name, counts in zip(_NAMES, stated, strict=False)
    }

    def run(seed: int) -> Outcome:
        generator = np.random.default_rng(seed)
        right = [each.recall for each in error.values()]
        rates = tuple(float(generator.beta(hits + 0.5, own - hits + 0.5)) for hits, own in right)
        labels = _labels(Labeller("built-in", rates).label(truth, generator), _NAMES[:2])
        return coverage_verdict(gather_evidence(labels, label_error=error), bars).outcome

    return run


def _combinations_run(n: int, few: int, labeller: Labeller, bars: CoverageBars) -> Callable[[int], Outcome]:
    pairs = np.repeat(np.arange(4), np.diff(np.linspace(0, n - few, 4).astype(int), append=n))

    def run(seed: int) -> Outcome:
        generator = np.random.default_rng(seed)
        labels = [
            _labels(labeller.label(truth, generator), categories, semantic)
            for truth, categories, semantic in (
                (pairs // 2, ("day", "night"), "day_night"),
                (pairs % 2, ("clear", "rain"), "clear_rain"),
            )
        ]
        return combinations_verdict(combination_evidence(labels), bars).outcome

    return run


def _labels_run(n: int, labeller: Labeller) -> Callable[[int], Outcome]:
    categories = _NAMES[: len(labeller.right)]
    truth = np.arange(n) % len(categories)
    known: dict[str, str | None] = {f"{row}": categories[code] for row, code in enumerate(truth.tolist())}

    def run(seed: int) -> Outcome:
        labels = _labels(labeller.label(truth, np.random.default_rng(seed)), categories)
        return label_reliability_verdict(measure_reliability(labels, known)).outcome

    return run


def _known_error(
    labeller: Labeller, categories: Sequence[str], generator: np.random.Generator
) -> dict[str, LabelError]:
    """Count a labeller's errors on further images of known categories, as many of each."""
    truth = np.arange(_KNOWN_IMAGES * len(categories)) % len(categories)
    labels = _labels(labeller.label(truth, generator), categories)
    known: dict[str, str | None] = {
        sample_id: categories[code] for sample_id, code in zip(labels.ids, truth.tolist(), strict=True)
    }
    return measure_reliability(labels, known).label_error()


def _binary(n: int, night: int) -> Codes:
    return (np.arange(n) < night).astype(np.int64)


def _videos(truth: Codes, night_videos: int) -> list[str]:
    """Return a video per image: so many of night, and one per five images of day."""
    return [
        f"night {row % night_videos}" if code else f"day {row // _IMAGES_A_VIDEO}"
        for row, code in enumerate(truth.tolist())
    ]


def _labels(codes: Codes, categories: Sequence[str], semantic: str = "day_night") -> Labels:
    ids = tuple(str(row) for row in range(len(codes)))
    return Labels(semantic, tuple(categories), codes, None, None, "a simulated labeller", ids)
