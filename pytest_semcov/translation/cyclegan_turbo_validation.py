"""Validation of a translator in training: pictures to look at, and the sufficiency verdict as score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_semcov.data.samples import Dataset, Sample, SampleDataset
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.embedding.protocols import Embedder
from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Plain, Verdict, plain
from pytest_semcov.translation.protocol import Failed, Translator
from pytest_semcov.translation.selection import plan_augmentation
from pytest_semcov.translation.translating import translate_plan

if TYPE_CHECKING:
    from PIL import Image

    Validation = Callable[[Translator, int], Verdict | Mapping[str, object]]

SCORE = "score"
"""Name of the figure that says which step is best; higher is better."""

SCORED = ("drift", "radius")
"""Criteria of the sufficiency verdict, gaps closed, the smaller of which is the score."""

_SIDE = 256


def validate_by_sufficiency(
    source_images: Dataset | Sequence[Sample],
    target_images: Dataset | Sequence[Sample],
    embedder: Embedder,
    *,
    semantic: str | None = None,
    repeats: int = 50,
    seed: int = 0,
) -> Callable[[Translator, int], Verdict]:
    """Return a validation: held-out source images are translated, and judged as a synthetic set is.

    Parameters
    ----------
    source_images, target_images
        Real images of both categories, none of which is trained on.
    embedder
        What the images are judged by.
    semantic
        What is changed, e.g. ``"day_night"``.
    repeats
        Half-samples behind each interval.
    seed
        Of all draws.

    Returns
    -------
    callable
        From a translator and a step to a verdict
        (:func:`pytest_semcov.gates.sufficiency.sufficiency_verdict`).
    """
    sources = _as_dataset(source_images)
    covered = extract(sources, embedder)
    uncovered = extract(_as_dataset(target_images), embedder)
    rows = dict(zip(covered.ids, covered.array, strict=True))

    def validate(translator: Translator, step: int) -> Verdict:
        plan = plan_augmentation(
            list(sources.ids),
            semantic=semantic or translator.target,
            source=translator.source,
            target=translator.target,
            needed=len(sources),
        )
        made, failed = translate_plan(sources, plan, translator)
        synthetic = extract(made, embedder)
        origins = [made[index].provenance for index in range(len(made))]
        return sufficiency_verdict(
            synthetic.array,
            uncovered.array,
            covered.array,
            subject=f"synthetic {translator.target} after {step} steps",
            semantic=semantic,
            sources=[rows[origin.source_id] for origin in origins if origin is not None],
            failed=len(failed),
            repeats=repeats,
            seed=seed,
            figures=False,
        )

    return validate


def _as_dataset(images: Dataset | Sequence[Sample]) -> Dataset:
    if isinstance(images, Dataset):
        return images
    return SampleDataset(tuple(images), name="validation")


def figures_of(result: Verdict | Mapping[str, object]) -> dict[str, Plain]:
    """Return what a validation gave as figures for the log.

    A verdict becomes its outcome, its criteria's values, and :data:`SCORE`: the smaller of its gaps closed. A
    mapping stays as it is.

    Raises
    ------
    TypeError
        If a figure has no plain Python form.
    """
    if not isinstance(result, Verdict):
        return {str(name): plain(value) for name, value in result.items()}
    values = {criterion.name: criterion.value for criterion in result.criteria}
    scored = [value for name in SCORED if (value := values.get(name)) is not None]
    figures: dict[str, object] = {"outcome": result.outcome.value, **values}
    if scored:
        figures[SCORE] = min(scored)
    return {name: plain(value) for name, value in figures.items()}


def comparison_sheet(images: Sequence[Image.Image], forth: Translator, back: Translator) -> Image.Image:
    """Return one picture: a row an image, as it is, translated, and translated back.

    A translation that failed is left white.
    """
    from PIL import Image, ImageOps

    sheet = Image.new("RGB", (3 * _SIDE, max(1, len(images)) * _SIDE), "white")
    for row, image in enumerate(images):
        shown = [image]
        for translator in (forth, back):
            (made,) = translator.translate([shown[-1]], seeds=[0])
            if isinstance(made, Failed):
                break
            shown.append(made)
        for column, each in enumerate(shown):
            sheet.paste(ImageOps.pad(each, (_SIDE, _SIDE), color="white"), (column * _SIDE, row * _SIDE))
    return sheet
