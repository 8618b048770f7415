"""Image-to-image and instruction pipelines of diffusers, ready to run."""

from __future__ import annotations

import hashlib
import importlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding import hub
from pytest_semcov.embedding.fingerprint import hash_description, hash_tensors
from pytest_semcov.embedding.running import resolve_device, seeded
from pytest_semcov.errors import ArgumentError, ModelError, missing_dependency
from pytest_semcov.translation.diffusers_kinds import PipelineKind, quiet

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float16", "bfloat16")
OFFLOADS = ("model", "sequential")

_SETTINGS_FILES = (".json", ".txt", ".model", ".jinja")
_ADAPTER = "semcov"
_LORA_FILE = "pytorch_lora_weights.safetensors"


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
        From :func:`~pytest_semcov.translation.diffusers_kinds.find_pipeline`.
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
            "settings": _hash_settings(folder, kind),
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


def _hash_settings(folder: Path, kind: PipelineKind) -> dict[str, str]:
    """Return the SHA-256 (hex) of each part's configuration and vocabulary files, by path in the folder."""
    files = [file for name in kind.components for file in (folder / name).rglob("*")]
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.suffix in _SETTINGS_FILES
    }


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
