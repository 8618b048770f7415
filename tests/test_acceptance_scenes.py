"""The whole gate on rendered scenes, where the right answer is known: built-in embedder, 200 images a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest

from pytest_semcov import RenderedScenes, SampleDataset, SceneTranslator, Settings, Workbench
from pytest_semcov.gates.verdict import Outcome
from pytest_semcov.translation.selection import plan_augmentation
from pytest_semcov.translation.translating import translate_plan

IMAGES = 200


@cache
def bench() -> Workbench:
    return Workbench(Settings())


def rerendered(day: RenderedScenes, semantic: str, source: str, target: str) -> SampleDataset:
    """Render every scene again, as the translator does in an augmentation."""
    plan = plan_augmentation(
        list(day.ids), semantic=semantic, source=source, target=target, needed=IMAGES, count=IMAGES
    )
    made, failed = translate_plan(day, plan, SceneTranslator(semantic, source=source, target=target))
    assert not failed
    return made


def outcomes(seed: int) -> dict[str, tuple[Outcome, Sequence[str]]]:
    """Judge the ideal translator and two fakes; return outcome and failed criteria of each."""
    night = RenderedScenes(IMAGES, seed=1000 + 2 * seed, day_night="night")
    day = RenderedScenes(IMAGES, seed=1001 + 2 * seed, day_night="day", clear_rain="clear")
    candidates = {
        "ideal": rerendered(day, "day_night", "day", "night"),
        "identity": SampleDataset(day.samples, name="identity"),
        "rain for night": rerendered(day, "clear_rain", "clear", "rain"),
    }
    found = {}
    for name, synthetic in candidates.items():
        verdict = (
            bench()
            .with_settings(seed=seed)
            .sufficiency(
                synthetic, real_uncovered=night, real_covered=day, semantic="day_night", uncovered="night"
            )
        )
        found[name] = (verdict.outcome, verdict.failed)
    return found


def check(seeds: range, least: int) -> None:
    results = [outcomes(seed) for seed in seeds]
    counts = {name: Counter(result[name][0] for result in results) for name in results[0]}

    assert counts["ideal"][Outcome.PASS] >= least, (counts, [result["ideal"] for result in results])
    for fake in ("identity", "rain for night"):
        assert counts[fake][Outcome.FAIL] >= least, (counts, [result[fake] for result in results])
    assert all("identity" in result["identity"][1] for result in results)
    assert all("drift" in result["rain for night"][1] for result in results)


def test_ideal_translator_passes_and_fakes_fail() -> None:
    check(range(2), 2)


@pytest.mark.slow
def test_ideal_translator_passes_and_fakes_fail_on_twenty_seeds() -> None:
    check(range(20), 19)
