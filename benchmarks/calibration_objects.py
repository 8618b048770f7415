"""How often assert_objects_preserved passes ideal translations and refuses careless ones.

python benchmarks/calibration_objects.py [--seeds 10] [--first 400] [--only NAME ...]

Rendered scenes of 128 pixels, day to night, 100 a set, half of them out of focus, half in rain; the built-in
embedder. Prints one line a translation: outcomes, and the criteria that failed, with the number of sets.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from object_fakes import (
    Change,
    by_night,
    erased,
    mirrored,
    moved,
    moved_by,
    noisy,
    posterised,
    scenes,
    small_blurred,
    some_erased,
    swapped,
)

from pytest_semcov import Workbench
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.judging_objects import judge_objects

TRANSLATIONS: dict[str, Change | None] = {
    "ideal (the scene rendered by night)": None,
    "small objects blurred, radius 1.5 pixels": small_blurred(),
    "small objects blurred, radius 1 pixel": small_blurred(1.0),
    "objects erased": erased,
    "half of the objects erased": some_erased(0.5),
    "a fifth of the objects erased": some_erased(0.2),
    "all deer erased": some_erased(1.0, "deer"),
    "objects moved by half of their width": moved,
    "objects moved by 30 % of their width": moved_by(0.3),
    "objects mirrored": mirrored,
    "objects of other images in their place": swapped,
    "noise of 60 levels over objects": noisy,
    "four levels of each colour in objects": posterised,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=400)
    parser.add_argument("--only", nargs="+", choices=TRANSLATIONS, default=list(TRANSLATIONS))
    options = parser.parse_args()
    bench = Workbench(cache=EmbeddingCache(None))
    sys.stdout.write("| translation | sets | PASS | INCONCLUSIVE | FAIL | criteria that failed (sets) |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for name in options.only:
        outcomes: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for seed in range(options.first, options.first + options.seeds):
            original = scenes(100, seed=seed, sharp=False)
            night = by_night(original, TRANSLATIONS[name])
            verdict = judge_objects(bench, original, night, scarce="note")
            outcomes[verdict.outcome.value] += 1
            failed.update(criterion for criterion in verdict.failed if "size" in criterion)
        often = ", ".join(f"`{criterion}` ({times})" for criterion, times in failed.most_common(4))
        counts = " | ".join(str(outcomes[each]) for each in ("PASS", "INCONCLUSIVE", "FAIL"))
        sys.stdout.write(f"| {name} | {options.seeds} | {counts} | {often} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
