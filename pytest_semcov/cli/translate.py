"""``semcov translate``: synthetic images into a folder, resumable, with a sheet to look at."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.cli.common import (
    MODELS,
    SUFFICIENCY,
    add_dataset,
    add_settings,
    dataset_of,
    exit_status,
    printed_json,
    progress_line,
    settings_of,
)
from pytest_semcov.errors import ArgumentError, ImageError

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset, Sample, SampleDataset
    from pytest_semcov.gates.verdict import Verdict
    from pytest_semcov.reporting.progress import ProgressLine
    from pytest_semcov.translation.protocol import Translator
    from pytest_semcov.translation.resumable import Translated
    from pytest_semcov.translation.selection import AugmentationPlan
    from pytest_semcov.workbench import Workbench

_SHOWN = 24
_SMALL = (16, 16)


def add_translate(commands: Any) -> None:
    """Add the command."""
    translate = commands.add_parser(
        "translate",
        help="make synthetic images, with provenance, into a folder",
        description="Translate images of a data set into a folder: the same images as in a test with the "
        "same translator and seed. An interrupted run goes on when it is started again. The folder loads as "
        "an image folder of synthetic images.",
        epilog=exit_status("at least one image made", ", or no image could be made"),
    )
    add_dataset(translate)
    translate.add_argument(
        "--translator", required=True, metavar="SPEC", help="e.g. colour@night.safetensors"
    )
    translate.add_argument("--out", required=True, metavar="FOLDER", help="empty, or of an earlier run")
    translate.add_argument(
        "--semantic", metavar="NAME", help="what is changed (default: what the translator says)"
    )
    translate.add_argument(
        "--source-category",
        metavar="NAME",
        help="translate images of this category only; with --labels the default is the translator's source "
        "category, without both all images are translated",
    )
    translate.add_argument("--ids", metavar="FILE", help="translate these images only: one id a line")
    translate.add_argument(
        "--count", type=int, metavar="N", help="most images to translate, drawn by the seed (default: all)"
    )
    translate.add_argument(
        "--format",
        default="png",
        choices=("png", "jpeg"),
        help="png keeps every pixel, jpeg is smaller and does not (default: png)",
    )
    translate.add_argument(
        "--reference", metavar="DIR", help="real images of the target category, for --judge and the sheet"
    )
    translate.add_argument(
        "--nearest",
        default="embedder",
        choices=("embedder", "pixels"),
        help="how the sheet finds the nearest of the real images (default: embedder)",
    )
    translate.add_argument(
        "--judge", action="store_true", help="print whether the images may stand in for real ones"
    )
    translate.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_settings(translate, (*MODELS, *SUFFICIENCY))
    translate.set_defaults(run=_translate)


class _Counting:
    """Counts what is done, whether anybody watches or not."""

    def __init__(self, line: ProgressLine | None) -> None:
        self.line = line
        self.done = self.total = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self.line is not None:
            self.line(what, done, total)


def _translate(options: argparse.Namespace) -> tuple[str, int]:
    """Translate, and return the summary with the exit status."""
    settings = settings_of(options)
    if options.judge and options.reference is None:
        raise ArgumentError("--judge needs --reference: real images of the target category to judge by")
    out = Path(options.out).expanduser()
    from pytest_semcov.translation.resumable import translate_into
    from pytest_semcov.workbench import Workbench

    begun = time.monotonic()
    with progress_line() as line:
        counting = _Counting(line)
        try:
            work = _Work(options, Workbench(settings, progress=line))
            made = translate_into(
                out,
                work.dataset,
                work.plan,
                work.translator,
                image_format=options.format,
                columns=[] if options.labels is None else [options.labels],
                progress=counting,
                **({} if options.batch_size is None else {"batch_size": settings.batch_size}),
            )
            sheet = work.sheet(made) if len(made.synthetic) else None
            verdict = work.verdict(made) if options.judge else None
        except KeyboardInterrupt:
            so_far = f" after {counting.done} of {counting.total} images" if counting.total else ""
            raise KeyboardInterrupt(
                f"interrupted{so_far}; what is finished is kept in {options.out}: run the same command again "
                "to go on"
            ) from None
    record = {
        "folder": str(out),
        "translator": work.translator.name,
        "fingerprint": work.translator.fingerprint,
        "semantic": work.plan.semantic,
        "source": work.plan.source,
        "target": work.plan.target,
        "seed": work.plan.seed,
        "made": len(made.synthetic),
        "kept": made.kept,
        "failed": made.reasons,
        "seconds": round(time.monotonic() - begun, 1),
        "contact_sheet": None if sheet is None else str(sheet),
        "verdict": None if verdict is None else verdict.to_dict(),
    }
    text = printed_json(record) if options.json else _summary(record, verdict)
    return text, 0 if len(made.synthetic) else 1


class _Work:
    """What is translated by what, and judged by which real images; mistakes are found before it starts."""

    def __init__(self, options: argparse.Namespace, bench: Workbench) -> None:
        from pytest_semcov.data.folder import ImageFolder
        from pytest_semcov.translation.export import check_export_folder
        from pytest_semcov.translation.selection import plan_augmentation, unseen

        self.bench = bench
        self.by_embedder = options.nearest == "embedder"
        self.translator: Translator = bench.translator(options.translator)
        self.dataset: Dataset = dataset_of(options)
        semantic = options.semantic or _semantic_of(bench, self.translator)
        chosen = _choose(options, bench, self.dataset, semantic, self.translator.source)
        self.plan: AugmentationPlan = plan_augmentation(
            [sample.id for sample in chosen],
            semantic=semantic,
            source=self.translator.source,
            target=self.translator.target,
            needed=0,
            count=len(chosen) or None if options.count is None else options.count,
            seed=bench.settings.seed,
        )
        self.reference: Dataset | None = None
        if options.reference is not None:
            self.reference = ImageFolder(options.reference, labels=None, group=options.group)
            check_export_folder(Path(options.out).expanduser(), self.reference)
            if self.by_embedder:
                bench.embed(self.reference)
        if options.judge and self.reference is not None:
            real = [self.reference[index] for index in range(len(self.reference))]
            self.uncovered = unseen([sample for sample in real if sample.real], self.translator)
            self.covered = unseen(chosen, self.translator, groups=False)
            for what, left in (("--reference", self.uncovered), ("translated", self.covered)):
                if not left:
                    raise ArgumentError(
                        f"--judge: the translator has learned from all {what} images, so none is left to "
                        "judge by"
                    )

    def verdict(self, made: Translated) -> Verdict:
        """Judge the synthetic images by real images that the translator has not seen."""
        from pytest_semcov.data.samples import SampleDataset
        from pytest_semcov.judging_synthetic import judge_translated

        return judge_translated(
            self.bench,
            made.synthetic,
            [SampleDataset(self.uncovered, name="reference")],
            SampleDataset(self.covered, name="covered"),
            sources=self.dataset,
            semantic=self.plan.semantic,
            uncovered=self.plan.target,
            failed=made.failed,
        )

    def sheet(self, made: Translated) -> Path:
        """Write the contact sheet: source, translation, and the nearest real image if there are any."""
        from pytest_semcov.translation.contact_sheet import SHEET, contact_pages
        from pytest_semcov.translation.export import replacing

        shown = made.synthetic.subset(range(min(_SHOWN, len(made.synthetic))))
        where = {sample_id: index for index, sample_id in enumerate(self.dataset.ids)}
        sources = [
            self.dataset[where[sample.provenance.source_id]]
            for sample in shown
            if sample.provenance is not None
        ]
        columns: list[Sequence[Sample | None]] = [sources, list(shown)]
        titles = ["source", f"{self.plan.target} by {self.translator.name}"]
        if self.reference is not None:
            columns.append(self._nearest(shown, self.reference))
            how = self.bench.embedder.name if self.by_embedder else "pixels"
            titles.append(f"nearest real, by {how}")
        first, *others = contact_pages(list(zip(*columns, strict=True)), titles)
        path = made.folder / SHEET
        with replacing(path) as temporary:
            first.save(temporary, format="PDF", save_all=True, append_images=others)
        return path

    def _nearest(self, shown: SampleDataset, reference: Dataset) -> list[Sample | None]:
        """Return for each synthetic image the real one that is most like it."""
        import numpy as np

        if self.by_embedder:
            mine, theirs = self.bench.embed(shown), self.bench.embed(reference)
            ids = [theirs.ids[row] for row in np.argmax(mine.array @ theirs.array.T, axis=1)]
            nearest = dict(zip(mine.ids, ids, strict=True))
        else:
            pixels = {sample.id: each for sample in _all(reference) if (each := _pixels(sample)) is not None}
            nearest = {}
            for sample in shown:
                own = _pixels(sample)
                if own is not None and pixels:
                    nearest[sample.id] = min(
                        pixels, key=lambda name: float(((pixels[name] - own) ** 2).sum())
                    )
        by_id = {sample.id: sample for sample in _all(reference)}
        return [by_id.get(nearest.get(sample.id, "")) for sample in shown]


def _all(dataset: Dataset) -> list[Sample]:
    return [dataset[index] for index in range(len(dataset))]


def _pixels(sample: Sample) -> Any:
    """Return an image as few pixels (float array), ``None`` if it cannot be read."""
    import numpy as np

    try:
        return np.asarray(sample.load(minimum_size=_SMALL[0]).resize(_SMALL), dtype=float)
    except ImageError:
        return None


def _semantic_of(bench: Workbench, translator: Translator) -> str:
    """Return the semantic that a translator changes: what it says, or the one with both its categories."""
    said = getattr(translator, "semantic", None)
    if isinstance(said, str):
        return said
    pair = {translator.source, translator.target}
    fitting = [name for name, descriptor in bench.descriptors.items() if pair <= set(descriptor.categories)]
    if len(fitting) != 1:
        raise ArgumentError(
            f"translator {translator.name} ({translator.source} to {translator.target}) fits "
            f"{', '.join(fitting) or 'no semantic'}: give --semantic"
        )
    return fitting[0]


def _choose(
    options: argparse.Namespace, bench: Workbench, dataset: Dataset, semantic: str, source: str
) -> list[Sample]:
    """Return the real images that may be translated."""
    chosen = [sample for sample in _all(dataset) if sample.real]
    if options.ids is not None:
        from pytest_semcov.data.metadata import read_text

        wanted = set(read_text(Path(options.ids)).splitlines()) - {""}
        strange = sorted(wanted - set(dataset.ids))
        if strange:
            raise ArgumentError(f"--ids: {len(strange)} are not in {options.dataset}, first {strange[0]!r}")
        chosen = [sample for sample in chosen if sample.id in wanted]
    if options.source_category is not None or options.labels is not None:
        category = options.source_category or source
        labels = bench.label(dataset, semantic, labels=options.labels)
        labels.code(category)  # refuses an unknown one
        category_of = labels.by_id()
        chosen = [sample for sample in chosen if category_of.get(sample.id) == category]
    return chosen


def _summary(record: dict[str, Any], verdict: Verdict | None) -> str:
    kept = f" ({record['kept']} kept of an earlier run)" if record["kept"] else ""
    lines = [
        f"{record['semantic']}, {record['source']} to {record['target']} by {record['translator']} "
        f"({record['fingerprint'][:12]}), seed {record['seed']}: {record['made']} made{kept}, "
        f"{sum(record['failed'].values())} failed, in {record['seconds']:g} s"
    ]
    lines += [f"  {times} failed: {reason}" for reason, times in record["failed"].items()]
    if record["made"]:
        lines.append(f"  folder: {record['folder']}, to look at: {record['contact_sheet']}")
    if verdict is not None:
        lines.append(str(verdict))
    return "\n".join(lines)
