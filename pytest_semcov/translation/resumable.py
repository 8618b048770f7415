"""Translating a data set into a folder: image by image, so that an interrupted run can go on.

The folder holds the images; ``manifest.jsonl``, one line an image, done or failed; ``metadata.jsonl``, which
makes it an image folder with provenance; and ``instances.json`` if there are boxes. An image appears under
its name when it is whole, and counts as done when the manifest says so: after a run that was killed, the
same call keeps what is done and makes the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.decoding import FileSource
from pytest_semcov.data.exported import IMAGE_FORMATS, encoded, provenance_record
from pytest_semcov.data.samples import Dataset, Sample, SampleDataset, take_provenance
from pytest_semcov.errors import ArgumentError, ImageError
from pytest_semcov.translation.contact_sheet import SHEET
from pytest_semcov.translation.export import (
    METADATA,
    TEMPORARY,
    check_export_folder,
    file_stem,
    folder_row,
    json_line,
    listed_images,
    write_coco,
    write_lines,
)
from pytest_semcov.translation.export_coco import INSTANCES
from pytest_semcov.translation.selection import AugmentationPlan
from pytest_semcov.translation.translating import BATCH, synthetic_sample, translate_in_batches

if TYPE_CHECKING:
    from pytest_semcov.translation.protocol import Translator

MANIFEST = "manifest.jsonl"

_JOB = ("translator_fingerprint", "semantic", "source_category", "target_category", "root_seed", "format")
"""What all images of a folder have in common."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What a folder holds after a run.

    Parameters
    ----------
    folder
        The folder.
    synthetic
        All finished images, in the order of their sources in the data set, with provenance.
    failed
        Source id → why there is no usable translation.
    kept
        How many of both were there before this run.
    """

    folder: Path
    synthetic: SampleDataset
    failed: Mapping[str, str]
    kept: int

    @property
    def reasons(self) -> dict[str, int]:
        """Reason → how many images failed for it, most frequent first."""
        return dict(Counter(self.failed.values()).most_common())


def translate_into(
    folder: Path,
    dataset: Dataset,
    plan: AugmentationPlan,
    translator: Translator,
    *,
    image_format: str = "png",
    batch_size: int = BATCH,
    columns: Collection[str] = (),
    progress: Callable[[str, int, int], None] | None = None,
) -> Translated:
    """Translate a plan's images into a folder, or go on where an earlier run stopped.

    An image that an earlier run finished is kept if its file is as it was written and its source has the same
    content; so is a failure whose source could be read. What an earlier run made of sources that changed or
    are no longer in the data set is removed.

    Parameters
    ----------
    folder
        Empty, missing, or the result of an earlier run with the same translator, seed and format.
    dataset
        Holds the sources.
    plan
        What to translate.
    translator
        Makes the images.
    image_format
        ``"png"`` keeps every pixel, ``"jpeg"`` is smaller and does not.
    batch_size
        Images that the translator is given at once, 1 or more.
    columns
        As of :func:`~pytest_semcov.translation.augmentation.augment`.
    progress
        Called as ``progress(what, done, total)`` for the images that are still to be made.

    Raises
    ------
    ArgumentError
        If the folder lies among the data set's images, holds something else, was made in another way or is
        being written by another process; or an argument is not allowed.
    ModelError
        If the translator raises. What was finished stays.
    OSError
        If a file cannot be written.
    """
    if image_format not in IMAGE_FORMATS:
        raise ArgumentError(f"image format {image_format!r}: need one of {', '.join(IMAGE_FORMATS)}")
    if batch_size < 1:
        raise ArgumentError(f"batch size {batch_size}: need at least 1")
    check_export_folder(folder, dataset)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_writer(folder):
        return _Run(folder, dataset, plan, translator, image_format, frozenset(columns)).go(
            batch_size, progress
        )


class _Run:
    """One run into one folder: what is in its manifest, and the samples behind it."""

    def __init__(
        self,
        folder: Path,
        dataset: Dataset,
        plan: AugmentationPlan,
        translator: Translator,
        image_format: str,
        columns: frozenset[str],
    ) -> None:
        self.folder = folder
        self.dataset = dataset
        self.plan = plan
        self.translator = translator
        self.columns = columns
        self.image_format = image_format
        self.job = {
            "translator": translator.name,
            "translator_fingerprint": translator.fingerprint,
            "semantic": plan.semantic,
            "source_category": plan.source,
            "target_category": plan.target,
            "root_seed": plan.seed,
            "format": image_format,
        }
        self.seeds = dict(zip(plan.sample_ids, plan.seeds, strict=True))
        self.lines: dict[str, dict[str, Any]] = {}
        self.made: dict[str, Sample] = {}

    def go(self, batch_size: int, progress: Callable[[str, int, int], None] | None) -> Translated:
        """Keep what is done, make the rest, and write what describes the whole."""
        self._take_up(_read_manifest(self.folder))
        kept = len(self.lines)
        rest = [sample_id for sample_id in self.plan.sample_ids if sample_id not in self.lines]
        if rest:
            for outdated in (INSTANCES, SHEET):
                (self.folder / outdated).unlink(missing_ok=True)
            self._translate(rest, batch_size, progress)
        order = [sample_id for sample_id in self.dataset.ids if sample_id in self.made]
        synthetic = SampleDataset(
            [self.made[sample_id] for sample_id in order], name=f"synthetic {self.plan.target}"
        )
        files = {
            self.lines[sample_id]["file_name"]: (self.made[sample_id], tuple(self.lines[sample_id]["size"]))
            for sample_id in order
        }
        write_coco(self.folder, files, self.dataset)
        failed = {key: line["reason"] for key, line in self.lines.items() if line["status"] == "failed"}
        return Translated(self.folder, synthetic, MappingProxyType(failed), kept)

    def _take_up(self, earlier: list[dict[str, Any]]) -> None:
        """Keep the lines that still hold, and make the folder agree with them."""
        for line in earlier:
            if line.keys() >= set(_JOB) and any(line[name] != self.job[name] for name in _JOB):
                self._refuse(line)
        where = {sample_id: index for index, sample_id in enumerate(self.dataset.ids)}
        for line in earlier:
            sample_id = line.get("source_id")
            if sample_id in where and self._holds(line, self.dataset[where[sample_id]]):
                self.lines[sample_id] = line
        for sample_id, line in self.lines.items():
            if line["status"] == "done":
                self.made[sample_id] = self._finished(line, self.dataset[where[sample_id]])
        rows = [folder_row(sample, self.image_format) for sample in self.made.values()]
        # In this order, so that a run that is killed here leaves no image without its row, and the next run
        # still knows of all that is to be removed.
        known = listed_images(self.folder, MANIFEST) | listed_images(self.folder, METADATA)
        for name in known - {row["file_name"] for row in rows}:
            (self.folder / name).unlink(missing_ok=True)
        write_lines(self.folder / METADATA, rows)
        write_lines(self.folder / MANIFEST, self.lines.values())
        for path in self.folder.glob(f".*{TEMPORARY}"):
            path.unlink()

    def _finished(self, line: Mapping[str, Any], sample: Sample) -> Sample:
        """Return the synthetic sample behind a line that holds: of its source as it is described now."""
        pixels = FileSource(self.folder / line["file_name"])
        made = synthetic_sample(
            sample, pixels, self.plan, self.translator, line["seed"], columns=self.columns
        )
        provenance = take_provenance(dict(line))  # with the versions that it was made with
        return made if provenance is None else made.with_provenance(provenance)

    def _refuse(self, line: Mapping[str, Any]) -> None:
        raise ArgumentError(
            f"{str(self.folder)!r} was made otherwise ({_job_text(line)}; now asked for: "
            f"{_job_text(self.job)}); give the same translator, seed and format to go on, or choose another "
            "folder, or delete this one"
        )

    def _holds(self, line: Mapping[str, Any], sample: Sample) -> bool:
        """Whether an earlier line is what this run would come to."""
        source = _content_key(sample)
        if source is None or line.get("source_content") != source:
            return False
        if sample.id in self.seeds and line.get("seed") != self.seeds[sample.id]:
            return False
        if line.get("status") == "failed":
            return isinstance(line.get("reason"), str)
        name = file_stem(sample.id) + IMAGE_FORMATS[self.image_format]
        if line.get("file_name") != name or take_provenance(dict(line)) is None or "size" not in line:
            return False
        try:
            content = (self.folder / name).read_bytes()
        except OSError:
            return False
        return hashlib.sha256(content).hexdigest() == line.get("sha256")

    def _translate(
        self, rest: list[str], batch_size: int, progress: Callable[[str, int, int], None] | None
    ) -> None:
        """Make what is missing; each image is whole and listed before the next is."""
        seeds = tuple(self.seeds[sample_id] for sample_id in rest)
        plan = replace(self.plan, sample_ids=tuple(rest), seeds=seeds)
        what, done = f"translating to {self.plan.target}", 0
        if progress is not None:
            progress(what, done, len(rest))
        with (self.folder / MANIFEST).open("ab") as manifest, (self.folder / METADATA).open("ab") as metadata:
            for batch in translate_in_batches(
                self.dataset, plan, self.translator, columns=self.columns, batch_size=batch_size
            ):
                for source, result in batch:
                    line = {
                        "source_id": source.id,
                        "status": "done" if isinstance(result, Sample) else "failed",
                        **self.job,
                        "seed": self.seeds[source.id],
                        "source_content": _content_key(source),
                    }
                    if isinstance(result, Sample):
                        line |= self._write(result, metadata)
                    else:
                        line["reason"] = result
                    manifest.write(json_line(line))
                    manifest.flush()
                    self.lines[source.id] = line
                done += len(batch)
                if progress is not None:
                    progress(what, done, len(rest))

    def _write(self, sample: Sample, metadata: Any) -> dict[str, Any]:
        """Write one image; return what the manifest says of it."""
        provenance = sample.provenance
        assert provenance is not None
        image = sample.load()
        content = encoded(image, provenance, self.image_format)
        row = folder_row(sample, self.image_format)
        path = self.folder / row["file_name"]
        temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
        try:
            temporary.write_bytes(content)
            # First the row: an image without one would be taken for a real one, a row without its image is
            # an error that says so.
            metadata.write(json_line(row))
            metadata.flush()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        self.made[provenance.source_id] = replace(sample, source=FileSource(path))
        return {
            "file_name": path.name,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": list(image.size),
            "provenance": provenance_record(provenance),
        }


def _job_text(job: Mapping[str, Any]) -> str:
    return (
        f"{job['source_category']} to {job['target_category']} of {job['semantic']} by "
        f"{job.get('translator')} {str(job['translator_fingerprint'])[:12]}, seed {job['root_seed']}, "
        f"{job['format']}"
    )


def _content_key(sample: Sample) -> str | None:
    try:
        return sample.content_key()
    except ImageError:
        return None


def _read_manifest(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of an earlier run; a last line that was not finished does not count.

    Raises
    ------
    ArgumentError
        If the folder holds something and no manifest.
    """
    try:
        content = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        strange = sorted(path.name for path in folder.iterdir() if not path.name.endswith(TEMPORARY))
        if strange:
            raise ArgumentError(
                f"{str(folder)!r} holds {strange[0]!r} and no {MANIFEST}: it was not made by translating; "
                "choose an empty folder"
            ) from None
        return []
    lines = []
    for written in content.split(b"\n"):
        try:
            line = json.loads(written)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it when the process ends, however it ends.

    Raises
    ------
    ArgumentError
        If another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no such lock on folders
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArgumentError(
                f"{str(folder)!r} is being written by another process; wait for it or choose another folder"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
