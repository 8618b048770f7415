"""Which model each data set of examples/model_choice chooses, over several seeds.

python benchmarks/model_choice.py [--seeds 10] [--first 10] [--workers 2] [--markdown FILE]

A seed draws all scenes anew, and training starts from it. Model 1 learnt from day alone, model 2 mostly from
night. "1" or "2": the data set prefers that model with 95 % confidence; "-": it cannot tell.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "model_choice"
SETS = ("original", "ideal", "improved, rendered", "improved, trained", "with rain")
WANTED = dict(zip(SETS, "12221", strict=True))


def choices(seed: int) -> list[dict[str, Any]]:
    """Return one row per kind of model: what each data set chooses, scores and seconds."""
    sys.path.insert(0, str(EXAMPLE))
    import torch
    from classifiers import CLASS_OF, train_classifier
    from detectors import train_detector
    from scenes import NIGHT_SHARE, fit_translator, original_scenes, real_night, synthetic, training_scenes

    from pytest_semcov import SceneTranslator, Settings, Workbench, ideal, improved

    torch.set_num_threads(1)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as cache:
        bench = Workbench(Settings(seed=seed, cache_dir=Path(cache)))
        original = original_scenes(seed)
        night = SceneTranslator("day_night", source="day", target="night")
        rain = SceneTranslator("clear_rain", source="clear", target="rain")
        trained = synthetic(bench, original, fit_translator(seed), seed=seed)
        rendered = synthetic(bench, original, night, seed=seed)
        sets = {
            "original": original,
            "ideal": ideal(original, real_night(seed), count=760),
            "improved, rendered": improved(original, rendered.synthetic),
            "improved, trained": improved(original, trained.synthetic),
            "with rain": improved(original, synthetic(bench, original, rain, seed=seed, count=400).synthetic),
        }
        rows = []
        for kind, train, metric in (
            ("classifier", train_classifier, "accuracy"),
            ("detector", train_detector, "map@0.5"),
        ):
            models = {
                name: train(training_scenes(seed, night=share), seed=seed, name=name)
                for name, share in (("1", 0.0), ("2", NIGHT_SHARE[kind]))
            }
            how = {"metric": metric, "class_names": CLASS_OF}
            rows.append({"seed": seed, "kind": kind, "trained": str(trained.verdict.outcome.name)})
            rows[-1] |= {name: chosen(bench, models, each, **how) for name, each in sets.items()}
            table = bench.score(
                models,
                {"ideal": sets["ideal"]},
                metric,
                class_names=CLASS_OF,
                semantic="day_night",
                labels="day_night",
            )
            rows[-1]["scores"] = {
                (name, time): table.find(model=name, subset=f"real {time}").value
                for name in models
                for time in ("day", "night")
            }
    rows[-1]["seconds"] = time.process_time() - started
    return rows


def chosen(bench: Any, models: dict[str, Any], dataset: Any, **how: Any) -> str:
    """Return the name of the model that the data set prefers with confidence, "-" if it cannot tell."""
    from pytest_semcov import VerdictFailed, VerdictInconclusive, assert_model_preferred

    first, second = models
    try:
        assert_model_preferred(
            {first: models[first]}, {second: models[second]}, dataset, workbench=bench, **how
        )
    except VerdictInconclusive:
        return "-"
    except VerdictFailed:
        return second
    return first


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table, with a line of counts per kind."""
    heads = ["seed", "models", "day: 1, 2", "night: 1, 2", *SETS]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        scores = [
            f"{row['scores']['1', time]:.2f}, {row['scores']['2', time]:.2f}" for time in ("day", "night")
        ]
        cells = [str(row["seed"]), row["kind"], *scores, *(row[name] for name in SETS)]
        lines.append("| " + " | ".join(cells) + " |")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        right = [f"{sum(row[name] == WANTED[name] for row in of_kind)} of {len(of_kind)}" for name in SETS]
        lines.append(f"| as wanted | {kind} | | | " + " | ".join(right) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=10, help="first seed; 0 to 9 chose the settings")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        for found in pool.map(choices, range(options.first, options.first + options.seeds)):
            rows += found
            sys.stderr.write(f"seed {found[0]['seed']}: {found[-1]['seconds']:.0f} s of CPU time; ")
            sys.stderr.write(f"trained translator: {found[0]['trained']}\n")
            for row in found:
                sys.stderr.write(f"  {row['kind']}: {', '.join(f'{name} {row[name]}' for name in SETS)}\n")
    sys.stdout.write(markdown(rows))
    if options.markdown:
        options.markdown.write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
