"""Average precision of bootstrap resamples: weighed at once, against faster-coco-eval one after another.

python benchmarks/detection_resamples.py [--images 1500] [--resamples 200]

Prints seconds of processor time of both, their ratio and the largest difference between their numbers.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from pytest_semcov.metrics.detection import COCO_THRESHOLDS, Objects, average_precision, match_objects
from pytest_semcov.metrics.resampling import resample


def objects(generator: np.random.Generator, most: int, *, scores: bool) -> Objects:
    """Return up to ``most`` random boxes of two classes."""
    count = int(generator.integers(1, most))
    corner = generator.random((count, 2)) * 40
    boxes = np.hstack([corner, corner + 5 + generator.random((count, 2)) * 15])
    return Objects(boxes, generator.integers(0, 2, count), generator.random(count) if scores else None)


def main() -> None:
    """Measure and print one line per set of thresholds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--resamples", type=int, default=200)
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    truth = [objects(generator, 5, scores=False) for _ in range(options.images)]
    found = [objects(generator, 25, scores=True) for _ in range(options.images)]
    draws = resample(options.images, repeats=options.resamples, seed=0)
    for thresholds in ((0.5,), COCO_THRESHOLDS):
        matches = match_objects(truth, found, 2, thresholds=thresholds)
        start = time.process_time()
        together = average_precision(matches, draws=draws)
        middle = time.process_time()
        # Few resamples at a time go to the library.
        singly = np.concatenate([average_precision(matches, draws=draw[None]) for draw in draws])
        end = time.process_time()
        sys.stdout.write(
            f"{len(thresholds):2d} thresholds, {options.resamples} resamples of {options.images} images: "
            f"{middle - start:.2f} s at once, {end - middle:.2f} s by faster-coco-eval, ratio "
            f"{(end - middle) / (middle - start):.1f}; "
            f"largest difference {np.abs(together - singly).max():.1e}\n"
        )


if __name__ == "__main__":
    main()
