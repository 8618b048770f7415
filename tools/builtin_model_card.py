"""Measure the built-in image-text model on images that it never saw, and write its card."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from builtin_model_words import known_phrases
from numpy.typing import NDArray
from PIL import Image

from pytest_semcov.data.scenes import SCENE_SEMANTICS, RenderedScenes
from pytest_semcov.embedding import builtin
from pytest_semcov.embedding.protocols import Embeddings, Encoder
from pytest_semcov.embedding.specs import load_encoder
from pytest_semcov.semantics.descriptors import catalogue
from pytest_semcov.semantics.labelling import label_zero_shot

HELD_OUT_SEED = 900_001
"""Training seeds lie elsewhere (seed times 1,000,003 and on)."""

HELD_OUT_SIZES = (96, 64, 224)

INTRODUCTION = """\
# The built-in image-text model

A small CLIP-style model in open_clip's format: a residual network for 96 × 96 pixels, a two-layer text
transformer, {dimensions} common dimensions; {megabytes} MB in half precision. It labels the eight base
semantics and, where no other embedder is set, embeds images. Licence: Apache-2.0, as the package.

**For**: trying the package out, tests and rendered scenes, with nothing to download. **Not for**: photographs
in general. It was trained on rendered road scenes alone. Only day and night were measured on photographs
(below); what the other seven labels are worth on photographs is not known. For real data name a general
model, e.g. `open_clip:ViT-B-32/laion2b_s34b_b79k`.

## Accuracy on held-out rendered scenes

`{data}`: places, moments and mixtures of conditions that
were not trained on. An image whose label is uncertain (softmax probability below 0.6) counts as wrong.
`nearest` is the share of all images whose nearest category is right, uncertain or not (96 px).
"""
Counts = dict[str, int]


def encode(encoder: Encoder, images: Iterable[Image.Image], ids: Sequence[str]) -> Embeddings:
    """Encode images one batch at a time."""
    prepared = [encoder.preprocess(image) for image in images]
    blocks = [encoder.encode_images(prepared[start : start + 64]) for start in range(0, len(prepared), 64)]
    return Embeddings(np.concatenate(blocks), tuple(ids), encoder.fingerprint, encoder.name, normalised=False)


def confusion(codes: NDArray[np.int64], truth: Sequence[str], categories: Sequence[str]) -> dict[str, Counts]:
    """Return true category → label → count; ``"uncertain"`` is a label."""
    names = [*categories, "uncertain"]
    labels = [names[code] for code in codes]
    return {
        category: {
            name: sum(label == name and true == category for label, true in zip(labels, truth, strict=True))
            for name in names
        }
        for category in categories
    }


def label_error(table: dict[str, Counts], source: str) -> dict[str, dict[str, object]]:
    """Return recall and specificity as (k, n) per category, among images with a certain label."""
    found: dict[str, dict[str, object]] = {}
    for category, row in table.items():
        own = sum(row.values()) - row["uncertain"]
        others = [counts for name, counts in table.items() if name != category]
        certain = sum(sum(counts.values()) - counts["uncertain"] for counts in others)
        rejected = certain - sum(counts[category] for counts in others)
        found[category] = {
            "recall": [row[category], own],
            "specificity": [rejected, certain],
            "source": source,
        }
    return found


def measure_scenes(
    encoder: Encoder, count: int, size: int
) -> tuple[dict[str, dict[str, Counts]], dict[str, list[int]]]:
    """Return semantic → confusion, and → images whose nearest category is right and all images.

    Measured on held-out scenes of one size.
    """
    scenes = RenderedScenes(count, seed=HELD_OUT_SEED + size, size=size)
    embeddings = encode(encoder, (sample.load() for sample in scenes), scenes.ids)
    tables, nearest = {}, {}
    for semantic, categories in SCENE_SEMANTICS.items():
        labels = label_zero_shot(embeddings, encoder, catalogue()[semantic])
        truth = [str(item) for item in scenes.column(semantic)]
        tables[semantic] = confusion(labels.codes, truth, categories)
        right = sum(categories[code] == true for code, true in zip(labels.top, truth, strict=True))
        nearest[semantic] = [right, len(truth)]
    return tables, nearest


def measure_photographs(encoder: Encoder, folder: Path) -> dict[str, Counts]:
    """Return the confusion of day and night on photographs in class folders."""
    files = {
        path: category for category in ("day", "night") for path in sorted((folder / category).iterdir())
    }
    images = (Image.open(path).convert("RGB") for path in files)
    embeddings = encode(encoder, images, [path.name + category for path, category in files.items()])
    labels = label_zero_shot(embeddings, encoder, catalogue()["day_night"])
    return confusion(labels.codes, list(files.values()), ("day", "night"))


def accuracy(table: dict[str, Counts]) -> list[int]:
    """Return right labels and all images; an uncertain image is not a right one."""
    return [
        sum(row[category] for category, row in table.items()),
        sum(sum(row.values()) for row in table.values()),
    ]


def write_card(folder: Path, training: dict[str, object], *, held_out: int, photographs: Path | None) -> None:
    """Measure the model in ``folder`` and write card.json and MODEL_CARD.md beside it.

    Parameters
    ----------
    folder
        Where configuration and weights lie.
    training
        What the card says of the training: data and commands, one per stage, and the date.
    held_out
        Number of scenes to measure on, per size.
    photographs
        Folder with ``day`` and ``night``, or ``None``.
    """
    config = folder / builtin.config_path().name
    weights = folder / builtin.weights_path().name
    encoder = load_encoder(f"open_clip:{config}@{weights}", device="cpu")
    measured = {size: measure_scenes(encoder, held_out, size) for size in HELD_OUT_SIZES}
    scenes = {size: tables for size, (tables, _) in measured.items()}
    main = scenes[HELD_OUT_SIZES[0]]
    first, _ = measure_scenes(encoder, min(200, held_out), HELD_OUT_SIZES[0])
    first_right = {semantic: accuracy(table)[0] for semantic, table in first.items()}
    errors = {
        semantic: label_error(table, f"{held_out} held-out rendered scenes")
        for semantic, table in main.items()
    }
    card: dict[str, object] = {
        "name": builtin.CONFIG_NAME,
        "description": "A small image-text model in open_clip's format, trained on rendered scenes alone.",
        "licence": "Apache-2.0",
        "size_bytes": weights.stat().st_size,
        "dimensions": json.loads(config.read_text(encoding="utf-8"))["embed_dim"],
        "preprocess": json.loads(config.read_text(encoding="utf-8"))["preprocess_cfg"],
        "semantics": known_phrases(),
        "accuracy": {semantic: accuracy(table) for semantic, table in main.items()},
        "nearest_category_right": measured[HELD_OUT_SIZES[0]][1],
        "held_out": {
            "data": f"RenderedScenes({held_out}, seed={HELD_OUT_SEED} + size, size=size)",
            "confusion": {str(size): tables for size, tables in scenes.items()},
            "first_200_right": first_right,
        },
        "photographs": {},
        "label_error": errors,
        "training": training,
    }
    if photographs:
        table = measure_photographs(encoder, photographs)
        source = f"{accuracy(table)[1]} webcam photographs"
        card["photographs"] = {"day_night": {"data": source, "confusion": table}}
        errors["day_night"] = label_error(table, source)
    (folder / builtin.card_path().name).write_text(
        json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (folder / "MODEL_CARD.md").write_text(describe(card), encoding="utf-8")


def describe(card: dict) -> str:
    """Return the card for people."""
    held_out = card["held_out"]
    megabytes = f"{card['size_bytes'] / 1e6:.1f}"
    lines = [
        INTRODUCTION.format(megabytes=megabytes, dimensions=card["dimensions"], data=held_out["data"]),
        "| semantic | "
        + " | ".join(f"{size} px" for size in held_out["confusion"])
        + " | uncertain | nearest |",
        "|---|" + "---|" * (len(held_out["confusion"]) + 2),
    ]
    first = next(iter(card["held_out"]["confusion"].values()))
    for semantic, table in first.items():
        shares = []
        for tables in card["held_out"]["confusion"].values():
            right, total = accuracy(tables[semantic])
            shares.append(f"{right / total:.3f} ({right}/{total})")
        uncertain = sum(row["uncertain"] for row in table.values())
        near, total = card["nearest_category_right"][semantic]
        lines.append(f"| {semantic} | {' | '.join(shares)} | {uncertain} | {near / total:.3f} |")
    for semantic, found in card["photographs"].items():
        table = found["confusion"]
        lines += [
            "",
            f"## {semantic} on photographs",
            "",
            f"{found['data']}, never trained on. Their general look guided which nights are rendered",
            "(lit squares, glowing skies, near darkness); nothing was fitted to them.",
            "",
            "| truth | " + " | ".join(next(iter(table.values()))) + " | recall | specificity |",
            "|---|" + "---|" * (len(next(iter(table.values()))) + 2),
        ]
        for category, row in table.items():
            error = card["label_error"][semantic][category]
            (hits, own), (rejected, others) = error["recall"], error["specificity"]
            counts = " | ".join(str(number) for number in row.values())
            lines.append(f"| {category} | {counts} | {hits}/{own} | {rejected}/{others} |")
        lines += ["", "Recall and specificity are counted among images with a certain label."]
    lines += [
        "",
        "## Training",
        "",
        f"On {card['training']['date']}, on scenes alone (no photographs), from random weights:",
        "",
        *(f"- {data}" for data in card["training"]["data"]),
        "",
        *(f"    {command}" for command in card["training"]["commands"]),
        "",
        "## What it knows",
        "",
        "It was taught these phrases; a semantic, category or phrase that is not listed gives no labels.",
        "",
    ]
    for semantic, categories in card["semantics"].items():
        lines.append(f"- **{semantic}**")
        lines += [f"  - {category}: {'; '.join(phrases)}" for category, phrases in categories.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure a trained model again and rewrite its card, keeping what the card says of its training."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, default=builtin.config_path().parent)
    parser.add_argument("--photographs", type=Path)
    parser.add_argument("--held-out", type=int, default=2000)
    options = parser.parse_args()
    card = json.loads((options.folder / builtin.card_path().name).read_text(encoding="utf-8"))
    write_card(options.folder, card["training"], held_out=options.held_out, photographs=options.photographs)


if __name__ == "__main__":
    main()
