"""What translators that learn from images share: the samples they learn from, and their files."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.data.decoding import MemorySource
from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image


def samples_to_learn_from(
    source_images: Dataset | Sequence[Sample | Image.Image],
    target_images: Dataset | Sequence[Sample | Image.Image],
    *,
    source: str,
    target: str,
) -> tuple[list[Sample], list[Sample]]:
    """Return the samples of both categories; PIL images become samples in memory.

    Raises
    ------
    ArgumentError
        If the categories are the same, there is no target image, or an image is in both samples.
    """
    if source == target:
        raise ArgumentError(f"source and target are both {source!r}: a translator needs two categories")
    sources, targets = _as_samples(source_images, source), _as_samples(target_images, target)
    if not targets:
        raise ArgumentError(f"no image of {target!r} to learn from: need at least one")
    keys = {sample.content_key(): sample for sample in sources}
    for sample in targets:
        if sample.content_key() in keys:
            raise ArgumentError(
                f"{sample.id} is given as {target!r} and (as {keys[sample.content_key()].id}) as "
                f"{source!r}: take it out of one of them"
            )
    return sources, targets


def _as_samples(given: Dataset | Sequence[Sample | Image.Image], category: str) -> list[Sample]:
    items = [given[index] for index in range(len(given))]
    return [
        item if isinstance(item, Sample) else Sample(f"{category} image {index}", MemorySource(item))
        for index, item in enumerate(items)
    ]


def draw_some(samples: Sequence[Sample], *, maximum: int, seed: int) -> list[Sample]:
    """Return at most ``maximum`` samples, drawn by the seed.

    Raises
    ------
    ArgumentError
        If ``maximum`` is less than one.
    """
    if maximum < 1:
        raise ArgumentError(f"maximum_images {maximum}: need at least 1")
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(samples))[:maximum]
    return [samples[index] for index in order]


@dataclass(frozen=True, slots=True)
class FileForm:
    """The form of one kind of translator's files: arrays in safetensors, the rest as JSON in its header.

    Parameters
    ----------
    kind
        E.g. ``"colour"``: files are made by ``ColourTranslator`` and carry ``semcov_colour_translator``.
    version
        Version that is written, and the only one that is read.
    texts
        Entries of the header that must be texts, besides ``source`` and ``target``.
    """

    kind: str
    version: int
    texts: tuple[str, ...] = ()

    def write(
        self,
        path: str | os.PathLike[str],
        header: Mapping[str, object],
        arrays: Mapping[str, NDArray[Any]],
    ) -> Path:
        """Write one file, whole or not at all; its folder is made if need be."""
        from safetensors.numpy import save

        file = Path(path)
        text = json.dumps({"version": self.version, **header})
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        content = save(contiguous, {self._entry: text})
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
            Path(temporary).replace(file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return file

    def read(self, file: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return header and arrays; ``fitted_on``, ``fitted_groups`` and ``semantic`` are always there.

        Raises
        ------
        ModelError
            If the file is missing or has another form; names the file and what to do.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(file, framework="numpy") as content:
                text = (content.metadata() or {}).get(self._entry)
                arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
        except (OSError, SafetensorError) as error:
            raise self.unusable(file, str(error)) from error
        return self._checked(file, text), arrays

    def unusable(self, file: Path, reason: str) -> ModelError:
        """Return the error that a file is not usable as this kind of translator."""
        article = "an" if self.kind[0] in "aeiou" else "a"
        return ModelError(
            f"{file}: not {article} {self.kind} translator ({reason}); "
            f"make it with {self.kind.capitalize()}Translator.fit(...).save(path)"
        )

    @property
    def _entry(self) -> str:
        return f"semcov_{self.kind}_translator"

    def _checked(self, file: Path, text: str | None) -> dict[str, Any]:
        if text is None:
            raise self.unusable(file, f"its header has no {self._entry}")
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.unusable(file, f"its header is not JSON: {error}") from error
        names = ("source", "target", *self.texts)
        if not isinstance(header, dict) or not all(isinstance(header.get(name), str) for name in names):
            raise self.unusable(file, f"its header lacks {', '.join(names)}")
        if header.get("version") != self.version:
            raise self.unusable(
                file, f"version {header.get('version')}, this package reads version {self.version}"
            )
        for name in ("fitted_on", "fitted_groups"):
            values = header.setdefault(name, [])
            if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
                raise self.unusable(file, f"{name} in its header is not a list of texts")
        if not isinstance(header.setdefault("semantic", None), str | None):
            raise self.unusable(file, "semantic in its header is not a text")
        return header
