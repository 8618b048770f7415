"""The assertion on annotated objects; it works as those in :mod:`pytest_semcov.assertions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_semcov.assertions import bench_of, conclude, without_internals
from pytest_semcov.gates.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.workbench import Workbench


@without_internals
def assert_objects_preserved(
    original: Dataset,
    synthetic: Dataset,
    *,
    sources: Mapping[str, str] | None = None,
    embedder: object = None,
    layer: str | None = None,
    context: float = 0.1,
    sizes: Mapping[str, float] | None = None,
    save_crops: str | Path | None = None,
    confidence: float = 0.95,
    workbench: Workbench | None = None,
    **bars: Any,
) -> Verdict:
    """Assert that the annotated objects of images are still there in what a translator made of them.

    Each box is compared with itself before the translation, by its pixels and by an embedder, and judged on
    average over every size and every class. Boxes of less than 4 pixels a side and boxes outside their image
    are counted and left out; those that reach over the border are judged by what is inside.

    Parameters
    ----------
    original
        The images that were translated, with boxes.
    synthetic
        What was made of them, with the same boxes in the same order, or none.
    sources
        Synthetic id → source id, for samples without provenance.
    embedder
        What recognises crops: a spec, a module, a callable, an embedder; default: the workbench's.
    layer
        Instead of crops, this layer of the embedder's torch module is pooled over each box by ``roi_align``
        (see :class:`~pytest_semcov.evaluation.roi.RoiEmbedder`).
    context
        Share of a box's width and height that its crop shows around it.
    sizes
        Name of a size → its least area in square pixels; default: COCO's small, medium (32²), large (96²).
    save_crops
        Folder for a picture of the worst boxes before and after, outside the data sets' folders; default:
        ``semcov-objects`` beside the JSON report, if one is written.
    confidence
        Of all intervals together.
    workbench
        Default: the running test's.
    **bars
        Of :class:`~pytest_semcov.gates.objects.ObjectBars`: ``min_identity`` (0.8), ``min_edges`` (0.5),
        ``max_lost`` (0.3), ``min_detail`` (-6 dB), ``max_detail`` (6 dB), ``min_similarity`` (not judged),
        ``scarce`` (``"inconclusive"``).

    Returns
    -------
    Verdict
        Of kind ``"objects"``, outcome PASS.

    Raises
    ------
    VerdictFailed
        If the objects of a size or a class are not preserved; the message names the worst boxes.
    VerdictInconclusive
        If there are too few boxes to tell; the message says how many are needed.
    ArgumentError
        If a source is unknown or missing, there are no boxes, or an argument is out of range.
    DatasetError
        If boxes or sizes of an image and its source differ.
    """
    __tracebackhide__ = True
    from pytest_semcov.evaluation.objects import COCO_SIZES
    from pytest_semcov.judging_objects import judge_objects

    return conclude(
        judge_objects(
            bench_of(workbench),
            original,
            synthetic,
            sources=sources,
            embedder=embedder,
            layer=layer,
            context=context,
            sizes=COCO_SIZES if sizes is None else sizes,
            save_crops=save_crops,
            confidence=confidence,
            **bars,
        )
    )
