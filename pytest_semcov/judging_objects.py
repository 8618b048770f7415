"""From source and synthetic images to the verdict on their annotated objects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import Dataset, SampleDataset
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.embedding.protocols import Embedder, Embeddings
from pytest_semcov.embedding.specs import load_embedder
from pytest_semcov.errors import ArgumentError, ImageError
from pytest_semcov.evaluation.object_crops import ImagePair, KeptImages, pair_images
from pytest_semcov.evaluation.object_sheet import check_folder, object_sheet
from pytest_semcov.evaluation.objects import (
    COCO_SIZES,
    ObjectBox,
    check_sizes,
    measure_objects,
    measure_pixels,
)
from pytest_semcov.gates.objects import ObjectBars, objects_verdict
from pytest_semcov.gates.verdict import Criterion, Outcome, Verdict
from pytest_semcov.judging_coverage import provenance

if TYPE_CHECKING:
    from pytest_semcov.workbench import Workbench

_CROPS = "semcov-objects"


def judge_objects(
    bench: Workbench,
    original: Dataset,
    synthetic: Dataset,
    *,
    sources: Mapping[str, str] | None = None,
    embedder: object = None,
    layer: str | None = None,
    context: float = 0.1,
    sizes: Mapping[str, float] = COCO_SIZES,
    save_crops: str | Path | None = None,
    confidence: float = 0.95,
    **bars: Any,
) -> Verdict:
    """Judge the objects of synthetic images; see :func:`~pytest_semcov.assert_objects_preserved`."""
    asked = _bars(bars)
    for name, each in (("original", original), ("synthetic", synthetic)):
        if not isinstance(each, Dataset):
            raise ArgumentError(f"{name}: need a data set, not {type(each).__name__}")
    check_sizes(sizes)
    pairs = pair_images(original, synthetic, sources=sources)
    folder = _folder(bench, save_crops, pairs)
    images = KeptImages()
    usable, broken = _usable(bench, pairs, images)
    boxes, counts = measure_pixels(
        usable, images=images, context=context, sizes=sizes, seed=bench.settings.seed
    )
    subject = str(getattr(synthetic, "name", "synthetic images"))
    shown = {"images": len(usable), **counts, "judged": len(boxes)}
    if broken:
        shown["unreadable images"] = broken
    if not boxes:
        return _nothing(subject, shown)
    model = _model(bench, embedder, layer)
    figures, embedded = measure_objects(
        boxes,
        lambda crops: _embed(bench, crops, model),
        images=images,
        whole=layer is not None,
        seed=bench.settings.seed,
    )
    for kind, names in (("size", figures.sizes), ("class", figures.classes)):
        shown |= {f"{kind} {name}": names.count(name) for name in sorted(set(names))}
    verdict, worst = objects_verdict(
        figures,
        subject=subject,
        bars=asked,
        sizes=tuple(sizes),
        confidence=confidence,
        seed=bench.settings.seed,
        counts=shown,
        provenance={
            **provenance(bench, embedded[:1]),
            "context": context,
            "sizes": dict(sizes),
            "layer": layer,
            "background": dict(figures.background),
        },
    )
    if folder is None or not worst or verdict.passed:
        return verdict
    chosen = [boxes[row] for row in worst]
    return _with_crops(verdict, chosen, images, folder)


def _bars(given: Mapping[str, Any]) -> ObjectBars:
    known = ObjectBars.__dataclass_fields__
    strange = [name for name in given if name not in known]
    if strange:
        raise ArgumentError(f"no bar {strange[0]!r}; there are {', '.join(known)}")
    return ObjectBars(**{name: value for name, value in given.items() if value is not None})


def _folder(bench: Workbench, given: str | Path | None, pairs: Sequence[ImagePair]) -> Path | None:
    """Return where crops go: as given, else beside the JSON report, else nowhere."""
    sides = [[pair.before for pair in pairs], [pair.after for pair in pairs]]
    if given is not None:
        for samples in sides:
            check_folder(Path(given), samples)
        return Path(given)
    if bench.settings.report is None:
        return None
    folder = bench.settings.report.parent / _CROPS
    try:
        for samples in sides:
            check_folder(folder, samples)
    except ArgumentError:  # nobody asked for crops: a report among the images is no reason to fail
        return None
    return folder


def _usable(bench: Workbench, pairs: Sequence[ImagePair], images: KeptImages) -> tuple[list[ImagePair], int]:
    """Return the pairs that can be read, and how many cannot, which is an error unless they are skipped."""
    usable = []
    for pair in pairs:
        try:
            for sample in (pair.before, pair.after):
                images.load(sample)
        except ImageError:
            if bench.settings.on_bad_image != "skip":
                raise
            continue
        usable.append(pair)
    return usable, len(pairs) - len(usable)


def _model(bench: Workbench, embedder: object, layer: str | None) -> Embedder:
    device = bench.settings.device
    if layer is None:
        return bench.embedder if embedder is None else load_embedder(embedder, device=device)
    from pytest_semcov.evaluation.roi import RoiEmbedder

    module: Any = bench.embedder if embedder is None else embedder
    if isinstance(module, str):
        module = load_embedder(module, device=device)
    module = getattr(module, "module", module)
    if not hasattr(module, "register_forward_hook"):
        raise ArgumentError(f"layer={layer!r} needs a torch module as embedder, not {type(module).__name__}")
    return RoiEmbedder(module, layer)


def _embed(bench: Workbench, crops: SampleDataset, model: Embedder) -> Embeddings:
    settings = bench.settings
    return extract(
        crops,
        model,
        batch_size=settings.batch_size,
        loader_threads=settings.loader_threads,
        cache=bench.cache,
        progress=bench.progress,
    )


def _nothing(subject: str, counts: Mapping[str, int]) -> Verdict:
    note = "no box can be judged: all are outside their image or less than 4 pixels a side"
    return Verdict(
        "objects",
        subject,
        Outcome.INCONCLUSIVE,
        (Criterion("boxes", 0.0, 1.0, None, Outcome.INCONCLUSIVE, note),),
        counts=counts,
        summary=f"{subject}: {note}",
    )


def _with_crops(verdict: Verdict, boxes: Sequence[ObjectBox], images: KeptImages, folder: Path) -> Verdict:
    """Save the worst boxes' crops; their name comes from what they show, so that a rerun overwrites them."""
    named = "\0".join(box.name for box in boxes)
    name = hashlib.sha256(f"{verdict.subject}\0{named}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"objects-{name}.png"
    object_sheet(boxes, images).save(path)
    line = f"crops of the worst boxes, before and after: {path}"
    return replace(
        verdict, details=(*verdict.details, line), provenance={**verdict.provenance, "crops": str(path)}
    )
