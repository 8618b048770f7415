"""Image-to-image and instruction pipelines of diffusers, by folder or hub repository, ready to run."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding import hub
from pytest_semcov.embedding.fingerprint import hash_description, hash_tensors
from pytest_semcov.embedding.running import resolve_device, seeded
from pytest_semcov.errors import ArgumentError, ModelError, missing_dependency

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float16", "bfloat16")
OFFLOADS = ("model", "sequential")

_ADAPTER = "semcov"
_LORA_FILE = "pytorch_lora_weights.safetensors"
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


@dataclass(frozen=True, slots=True, eq=False)
class LoadedPipeline:
    """A pipeline on its device.

    Parameters
    ----------
    kind
        What it is.
    pipeline
        diffusers' pipeline.
    multiple
        Sides of its images must be multiples of so many pixels.
    fingerprint
        Hash (hex) of the weights and configurations of all parts, the precision and the LoRA.
    device
        Where it computes.
    """

    kind: PipelineKind
    pipeline: Any
    multiple: int
    fingerprint: str
    device: torch.device

    def check_prompt(self, prompt: str) -> None:
        """Raise ArgumentError if all of the pipeline's tokenizers would cut the prompt."""
        readers = [getattr(self.pipeline, name) for name in self.kind.components if "tokenizer" in name]
        limits = [(reader, int(reader.model_max_length)) for reader in readers if reader is not None]
        with quiet():
            used = [(len(reader(prompt).input_ids), limit) for reader, limit in limits]
        if used and all(tokens > limit for tokens, limit in used):
            tokens, limit = max(used, key=lambda pair: pair[1])
            raise ArgumentError(
                f"{self.kind.spec}: prompt {prompt!r} has {tokens} tokens, the pipeline takes {limit}; "
                "make it shorter"
            )


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


def load_pipeline(
    kind: PipelineKind,
    *,
    variant: str | None = None,
    lora: str | None = None,
    lora_weight: float = 1.0,
    device: str = "auto",
    dtype: str = "auto",
    cpu_offload: str | None = None,
) -> LoadedPipeline:
    """Read a pipeline's weights (safetensors only) and put it on its device.

    Parameters
    ----------
    kind
        From :func:`find_pipeline`.
    variant
        Of the weight files, e.g. ``"fp16"``.
    lora, lora_weight
        A LoRA: a safetensors file, a folder or a hub repository with ``pytorch_lora_weights.safetensors``,
        or ``organisation/name/FILE.safetensors``; and its weight.
    device, dtype, cpu_offload
        See :meth:`~pytest_semcov.translation.diffusers_pipeline.DiffusersTranslator.load`.

    Raises
    ------
    ArgumentError
        If device, precision and offload do not go together.
    MissingDependencyError
        If offload needs accelerate and it is not installed.
    ModelError
        If files are missing, cannot be fetched, or do not fit.
    """
    import torch

    place = resolve_device(device)
    precision = _precision(dtype, place, kind)
    _check_offload(cpu_offload, place)
    if not math.isfinite(lora_weight):
        raise ArgumentError(f"lora_weight {lora_weight}: need a finite number")
    lora_file = None if lora is None else _find_lora(lora, kind)
    folder = _fetched(kind, variant)
    number_type = getattr(torch, precision)
    with seeded(), quiet():
        parts = {
            name: part
            for name, (library, class_name) in kind.components.items()
            if (part := _read_model(kind, folder / name, library, class_name, number_type, variant))
            is not None
        }
        try:
            pipeline = kind.pipeline.from_pretrained(
                str(folder), local_files_only=True, use_safetensors=True, torch_dtype=number_type, **parts
            )
        except Exception as error:
            raise ModelError(
                f"{kind.spec}: {folder} cannot be read as {kind.pipeline.__name__}: {_line(error)}"
            ) from error
        described = {
            "weights": {name: hash_tensors(part.state_dict()) for name, part in parts.items()},
            "parts": kind.components,
            "pipeline": kind.pipeline.__name__,
            "scheduler": dict(getattr(getattr(pipeline, "scheduler", None), "config", {})),
            "dtype": precision,
            "lora": None if lora_file is None else _add_lora(pipeline, lora_file, lora_weight, kind),
        }
        pipeline.set_progress_bar_config(disable=True)
        if cpu_offload == "model":
            pipeline.enable_model_cpu_offload(device=place)
        elif cpu_offload == "sequential":
            pipeline.enable_sequential_cpu_offload(device=place)
        else:
            pipeline.to(place)
    return LoadedPipeline(kind, pipeline, _multiple(pipeline), hash_description(described), place)


def _precision(dtype: str, place: torch.device, kind: PipelineKind) -> str:
    if dtype == "auto":
        if place.type != "cuda":
            return "float32"
        # Transformers of this kind are trained in bfloat16 and overflow in float16.
        return "bfloat16" if "transformer" in kind.components else "float16"
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype {dtype!r}: use 'auto', {', '.join(map(repr, DTYPES))}")
    if dtype == "float16" and place.type == "cpu":
        raise ArgumentError(
            f"{kind.spec}: dtype 'float16' on the CPU: half precision is not implemented there for all "
            "operations; use dtype='float32' or 'bfloat16', or a CUDA device"
        )
    return dtype


def _check_offload(cpu_offload: str | None, place: torch.device) -> None:
    if cpu_offload is None:
        return
    if cpu_offload not in OFFLOADS:
        raise ArgumentError(f"cpu_offload {cpu_offload!r}: use {' or '.join(map(repr, OFFLOADS))}, or None")
    if place.type == "cpu":
        raise ArgumentError(
            f"cpu_offload {cpu_offload!r}: the device is the CPU, so there is nothing to move off a GPU; "
            "leave it out or give device='cuda'"
        )
    try:
        importlib.import_module("accelerate")
    except ImportError as error:
        raise missing_dependency("accelerate", extra="diffusion", purpose="cpu_offload") from error


def _fetched(kind: PipelineKind, variant: str | None) -> Path:
    """Return the folder with all of the pipeline's files."""
    patterns = ["model_index.json"]
    for name, (library, class_name) in kind.components.items():
        if _is_model(library, class_name, kind.spec):
            # One file or its parts: model.safetensors, or model-00001-of-00002.safetensors with its index.
            # Of several variants only one, which a plain *.safetensors would not tell apart.
            stem = "*model" if variant is None else f"*model.{variant}"
            patterns += [f"{name}/config.json", f"{name}/{stem}[.-][0s]*tensors*"]
        else:
            patterns.append(f"{name}/*")
    if kind.folder is None:
        return hub.fetch_folder(kind.spec, kind.base, patterns, revision=kind.revision)
    lacking = hub.unmatched(patterns, hub.files_below(kind.folder))
    if lacking:
        raise ModelError(
            f"{kind.spec}: the folder {kind.folder} has no {', '.join(lacking)}; weights must be safetensors"
        )
    return kind.folder


def _class_of(library: str, class_name: str, spec: str) -> Any:
    import diffusers
    import transformers

    libraries = {"diffusers": diffusers, "transformers": transformers}
    module = libraries.get(library) or getattr(diffusers.pipelines, library)
    found = getattr(module, class_name, None)
    if found is None:
        raise ModelError(f"{spec}: the installed {library} has no {class_name}; upgrade it")
    return found


def _is_model(library: str, class_name: str, spec: str) -> bool:
    import diffusers
    import transformers

    found = _class_of(library, class_name, spec)
    models = (diffusers.ModelMixin, transformers.PreTrainedModel)
    return isinstance(found, type) and issubclass(found, models)


def _read_model(
    kind: PipelineKind,
    folder: Path,
    library: str,
    class_name: str,
    number_type: torch.dtype,
    variant: str | None,
) -> Any:
    """Read a part with weights, none of which may be missing; return ``None`` for a part without."""
    if not _is_model(library, class_name, kind.spec):
        return None
    try:
        model, report = _class_of(library, class_name, kind.spec).from_pretrained(
            str(folder),
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            torch_dtype=number_type,
            **({} if variant is None else {"variant": variant}),
        )
    except Exception as error:
        raise ModelError(f"{kind.spec}: {folder} cannot be read as {class_name}: {_line(error)}") from error
    # A library would go on with random numbers in their place.
    gaps = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if gaps:
        raise ModelError(
            f"{kind.spec}: {folder} lacks weights of its {class_name}: {gaps[0]} ({len(gaps)} in all)"
        )
    return model.eval()


def _find_lora(lora: str, kind: PipelineKind) -> Path:
    """Return the file of a LoRA, local or from the hub."""
    if not hasattr(kind.pipeline, "load_lora_weights"):
        raise ArgumentError(f"{kind.spec}: {kind.pipeline.__name__} takes no LoRA; leave lora= out")
    path = Path(lora).expanduser()
    file = path / _LORA_FILE if path.is_dir() else path
    if not path.exists() and not lora.endswith(".safetensors"):
        return hub.fetch(f"{kind.spec} with lora={lora}", lora, [_LORA_FILE])
    if not path.exists() and lora.count("/") == 2:
        organisation, name, filename = lora.split("/")
        return hub.fetch(f"{kind.spec} with lora={lora}", f"{organisation}/{name}", [filename])
    if file.suffix != ".safetensors" or not file.is_file():
        raise ModelError(f"{kind.spec}: lora {file}: need an existing .safetensors file")
    return file


def _add_lora(pipeline: Any, file: Path, weight: float, kind: PipelineKind) -> list[object]:
    """Add a LoRA and return what identifies it."""
    from safetensors.torch import load_file

    try:
        pipeline.load_lora_weights(
            str(file.parent), weight_name=file.name, adapter_name=_ADAPTER, local_files_only=True
        )
        adapted = {part for part, names in pipeline.get_list_adapters().items() if _ADAPTER in names}
        if adapted:
            pipeline.set_adapters([_ADAPTER], [weight])
        tensors = load_file(file)
    except Exception as error:
        raise ModelError(f"{kind.spec}: the LoRA {file} does not fit: {_line(error)}") from error
    if not adapted:
        raise ModelError(f"{kind.spec}: the LoRA {file} fits no part of {kind.pipeline.__name__}")
    return [hash_tensors(tensors), weight]


def _multiple(pipeline: Any) -> int:
    """Return the number that both sides of an image must be multiples of."""
    factor = int(getattr(pipeline, "vae_scale_factor", 8))
    steps = [factor]
    processor = getattr(pipeline, "image_processor", None)
    if processor is not None and "vae_scale_factor" in processor.config:
        steps.append(int(processor.config.vae_scale_factor))
    unet, transformer = getattr(pipeline, "unet", None), getattr(pipeline, "transformer", None)
    if unet is not None:
        steps.append(factor * 2 ** (len(unet.config.down_block_types) - 1))
    if transformer is not None and isinstance(transformer.config.get("patch_size"), int):
        steps.append(factor * transformer.config.patch_size)
    return math.lcm(*steps)


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


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
