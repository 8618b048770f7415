"""The state of a CycleGAN-Turbo training: what is resumed from, and the log.

A state is one safetensors file, written whole or not at all: the weights being trained, both discriminators
and both optimisers' moments, with step, settings and fingerprints as JSON in its header. It holds no state
of random number generators, because every step's random numbers come from the seed and the step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.errors import ArgumentError, ModelError
from pytest_semcov.translation.cyclegan_turbo_files import write_whole

if TYPE_CHECKING:
    import torch

STATE = "training_state.safetensors"
LOG = "log.jsonl"

_ENTRY = "semcov_cyclegan_turbo_training"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training came.

    Parameters
    ----------
    step
        Steps that are done.
    best
        Highest validation score so far, if validation gives one.
    """

    step: int = 0
    best: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Parameters under one optimiser.

    Parameters
    ----------
    parameters
        By name.
    buffers
        What else changes in training (estimates of spectral norms), by name.
    optimizer
        Of the parameters, in their order.
    """

    parameters: Mapping[str, torch.nn.Parameter]
    buffers: Mapping[str, torch.Tensor]
    optimizer: torch.optim.Optimizer

    def tensors(self, prefix: str) -> dict[str, torch.Tensor]:
        """Return all tensors, the optimiser's included."""
        found: dict[str, torch.Tensor] = {
            f"{prefix}.weights.{name}": tensor for name, tensor in self.parameters.items()
        }
        found |= {f"{prefix}.buffers.{name}": tensor for name, tensor in self.buffers.items()}
        moments = self.optimizer.state_dict()["state"]
        for number, name in enumerate(self.parameters):
            for kind, tensor in moments.get(number, {}).items():
                found[f"{prefix}.{kind}.{name}"] = tensor
        return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}

    def restore(self, prefix: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over what :meth:`tensors` gave.

        Raises
        ------
        KeyError
            If a tensor is missing.
        RuntimeError
            If one has another shape.
        """
        import torch

        moments: dict[int, dict[str, torch.Tensor]] = {}
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"{prefix}.weights.{name}"])
            for name, tensor in self.buffers.items():
                tensor.copy_(tensors[f"{prefix}.buffers.{name}"])
        for number, name in enumerate(self.parameters):
            kinds = ("step", "exp_avg", "exp_avg_sq")
            moments[number] = {kind: tensors[f"{prefix}.{kind}.{name}"] for kind in kinds}
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def write_state(
    folder: Path, progress: Progress, identity: Mapping[str, object], parts: Mapping[str, Trained]
) -> Path:
    """Write the state of a training.

    Parameters
    ----------
    folder
        The training's folder.
    progress
        How far it came.
    identity
        Plain Python: all that makes this training the one that it is.
    parts
        What is trained, by a name.
    """
    from safetensors.torch import save_file

    header = {
        "version": _VERSION,
        "step": progress.step,
        "best": progress.best,
        "identity": dict(identity),
    }
    tensors: dict[str, torch.Tensor] = {}
    for name, part in parts.items():
        tensors |= part.tensors(name)
    file = folder / STATE
    write_whole(file, lambda path: save_file(tensors, path, metadata={_ENTRY: json.dumps(header)}))
    return file


def read_state(folder: Path, identity: Mapping[str, object], parts: Mapping[str, Trained]) -> Progress:
    """Take over the state in a training's folder; without one, nothing changes.

    Raises
    ------
    ArgumentError
        If it is the state of another training; names what differs.
    ModelError
        If it cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    file = folder / STATE
    if not file.exists():
        return Progress()
    try:
        with safe_open(file, framework="pt") as content:
            header = json.loads((content.metadata() or {})[_ENTRY])
            if header["version"] != _VERSION:
                raise _unreadable(file, f"version {header['version']}, this package reads {_VERSION}")
            progress = Progress(int(header["step"]), header["best"])
            _check_identity(file, progress, header["identity"], json.loads(json.dumps(dict(identity))))
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - no mapping
        for name, part in parts.items():
            part.restore(name, tensors)
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise _unreadable(file, f"{type(error).__name__}: {error}") from error
    return progress


def _unreadable(file: Path, reason: str) -> ModelError:
    return ModelError(
        f"{file} is no training state that can be resumed ({reason}); give another folder, or delete it and "
        "train from the beginning"
    )


def _check_identity(
    file: Path, progress: Progress, known: Mapping[str, object], given: Mapping[str, object]
) -> None:
    changed = [
        f"{name} {_short(given.get(name))} (was {_short(known.get(name))})"
        for name in sorted({*known, *given})
        if known.get(name) != given.get(name)
    ]
    if changed:
        raise ArgumentError(
            f"{file} is the state of another training, after {progress.step} steps; it differs in "
            f"{', '.join(changed)}. Resume with the same, or give another folder"
        )


def _short(value: object) -> str:
    """Return a value for people, who need but the beginning of a hash."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1...", str(value))


def cut_log(folder: Path, step: int) -> None:
    """Take out of a log what was written after a step, and will be written again; -1 takes out all."""
    file = folder / LOG
    if not file.exists():
        return
    kept = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            entry: Any = json.loads(line)
        except ValueError:  # cut off in the middle when the training was killed
            continue
        if isinstance(entry, dict) and entry.get("step", 0) <= step:
            kept.append(line + "\n")
    write_whole(file, lambda path: Path(path).write_text("".join(kept), encoding="utf-8"))


def write_log(folder: Path, entry: Mapping[str, object]) -> None:
    """Append one line to the log."""
    with (folder / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
