"""How many scenes a second are rendered on one core.

python benchmarks/scenes.py [--count 300] [--sizes 64 96 224]
"""

from __future__ import annotations

import argparse
import sys
import time

from pytest_semcov.data.scenes import RenderedScenes, render


def rate(count: int, size: int) -> tuple[float, float]:
    """Return scenes rendered a second, by the clock and by processor time; every place is a new one."""
    scenes = RenderedScenes(count, seed=size, size=size)
    specs = [scenes.spec(index) for index in range(count)]
    clock, processor = time.perf_counter(), time.process_time()
    for spec in specs:
        render(spec)
    return count / (time.perf_counter() - clock), count / (time.process_time() - processor)


def main() -> None:
    """Measure and print one line a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 96, 224])
    options = parser.parse_args()
    rate(10, 64)
    for size in options.sizes:
        clock, processor = rate(options.count, size)
        sys.stdout.write(
            f"{size:4d} px: {clock:6.0f} scenes/s ({processor:.0f} per second of processor time)\n"
        )


if __name__ == "__main__":
    main()
