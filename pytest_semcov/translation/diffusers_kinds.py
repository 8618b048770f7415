"""Which pipeline of diffusers a folder or hub repository holds, known before its weights are read."""

from __future__ import annotations

import contextlib
import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_semcov.embedding import hub
from pytest_semcov.errors import ModelError

# Arguments without which a pipeline cannot run, and which nothing here could fill.
_UNFILLED = ("mask_image", "control_image", "control_mode", "trajectory")


@dataclass(frozen=True, slots=True, eq=False)
class PipelineKind:
    """Which pipeline a model is, known before its weights are read.

    Parameters
    ----------
    base
        Folder or hub repository, as given.
    spec
        What is loaded, for messages.
    revision
        Branch, tag or commit of the repository.
    folder
        The local folder; ``None`` for a repository.
    index
        Content of ``model_index.json``.
    pipeline
        diffusers' class that will run it.
    defaults
        Arguments of its call with their defaults.
    """

    base: str
    spec: str
    revision: str | None
    folder: Path | None
    index: Mapping[str, Any]
    pipeline: Any
    defaults: Mapping[str, object]

    @property
    def instruction(self) -> bool:
        """Whether it follows instructions; if not, it starts from the noised image and takes a strength."""
        return "strength" not in self.defaults

    @property
    def components(self) -> dict[str, tuple[str, str]]:
        """Name → library and class of its parts."""
        return {
            name: (part[0], part[1])
            for name, part in self.index.items()
            if isinstance(part, list) and len(part) == 2 and isinstance(part[0], str)
        }


def find_pipeline(base: str, *, spec: str, revision: str | None = None) -> PipelineKind:
    """Find out what a model is, by its ``model_index.json``.

    Raises
    ------
    ModelError
        If the file cannot be had, names a custom pipeline or custom parts, whose code would have to be
        trusted, or one that does not make an image from an image and a prompt.
    """
    folder: Path | None = Path(base).expanduser()
    if folder is not None and folder.is_dir():
        file = folder / "model_index.json"
        if not file.is_file():
            raise ModelError(
                f"{spec}: the folder {folder} has no model_index.json; give a diffusers pipeline"
            )
    else:
        folder = None
        file = hub.fetch(
            spec,
            base,
            ["model_index.json"],
            revision=revision,
            remedy="give a folder with a diffusers pipeline",
        )
    try:
        index = json.loads(file.read_text(encoding="utf-8"))
        name = index["_class_name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{spec}: {file} names no pipeline class: {error}") from error
    pipeline = _pipeline_class(index, name, spec)
    parameters = inspect.signature(pipeline.__call__).parameters
    defaults = {key: parameter.default for key, parameter in parameters.items() if key != "self"}
    return PipelineKind(base, spec, revision, folder, index, pipeline, MappingProxyType(defaults))


def _pipeline_class(index: Mapping[str, Any], name: object, spec: str) -> Any:
    """Return diffusers' class that makes an image from an image and a prompt with these parts."""
    import diffusers
    from diffusers.pipelines import auto_pipeline

    known = isinstance(name, str) and hasattr(diffusers, name)
    strange = [
        part[0]
        for part in index.values()
        if isinstance(part, list)
        and part
        and part[0] not in (None, "diffusers", "transformers")
        and not hasattr(diffusers.pipelines, str(part[0]))
    ]
    if not known or strange:
        what = f"a part from {strange[0]}" if known else f"the custom pipeline {name}"
        raise ModelError(f"{spec}: {what} is not part of diffusers, and code from model folders is never run")
    pipeline = getattr(diffusers, str(name))
    if not _takes(pipeline, "image", "prompt"):
        with quiet():
            mappings = auto_pipeline.AUTO_TEXT2IMAGE_PIPELINES_MAPPING.items()
            family = next((key for key, each in mappings if each.__name__ == name), "")
            pipeline = auto_pipeline.AUTO_IMAGE2IMAGE_PIPELINES_MAPPING.get(family)
    needs = [] if pipeline is None else [each for each in _UNFILLED if _takes(pipeline, each)]
    if pipeline is None or needs or "controlnet" in index or not _takes(pipeline, "image", "prompt"):
        raise ModelError(
            f"{spec}: {name} does not make an image from an image and a prompt alone"
            f"{f' (it takes {needs[0]})' if needs else ''}; give an image-to-image or instruction pipeline"
        )
    return pipeline


def _takes(pipeline: Any, *names: str) -> bool:
    return set(names) <= set(inspect.signature(pipeline.__call__).parameters)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars, advice and warnings of the libraries, which would end up in test output."""
    from diffusers.utils import logging as of_diffusers
    from transformers.utils import logging as of_transformers

    with contextlib.ExitStack() as undo:
        undo.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for library in (of_diffusers, of_transformers):
            undo.callback(library.set_verbosity, library.get_verbosity())
            library.set_verbosity_error()
            if library.is_progress_bar_enabled():
                undo.callback(library.enable_progress_bar)
                library.disable_progress_bar()
        yield
