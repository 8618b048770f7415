"""Weight files: reading them safely and loading them without silent gaps."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.errors import ModelError

if TYPE_CHECKING:
    import torch

_WRAPPERS = ("state_dict", "model", "model_state_dict")
_SHOWN = 8


def existing_file(path: str | Path, *, spec: str) -> Path:
    """Return the absolute path of a weights or configuration file.

    Raises
    ------
    ModelError
        If there is no such file.
    """
    full = Path(path).expanduser().absolute()
    if not full.is_file():
        raise ModelError(f"{spec}: no file {full}; give the path of an existing file")
    return full


def read_weights(path: Path, *, spec: str) -> dict[str, torch.Tensor]:
    """Read a state dictionary from ``.safetensors`` or a torch file. No code in the file is executed.

    A dictionary wrapped as ``{"state_dict": ...}`` (also ``model``, ``model_state_dict``) is unwrapped, and
    the prefix ``module.`` of data-parallel training removed.

    Raises
    ------
    ModelError
        If the file cannot be read or holds anything but tensors.
    """
    import torch

    content: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{spec}: {path} is not a plain state dictionary and is not opened, because it could run code; "
            "save the weights alone: torch.save(model.state_dict(), path), or as .safetensors"
        ) from error
    except Exception as error:
        raise ModelError(f"{spec}: cannot read weights from {path}: {_first_line(error)}") from error
    if isinstance(content, Mapping):
        content = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), Mapping)), content)
    if not isinstance(content, Mapping) or not all(isinstance(v, torch.Tensor) for v in content.values()):
        raise ModelError(f"{spec}: {path} holds no state dictionary (name → tensor)")
    state = dict(content)
    if state and all(key.startswith("module.") for key in state):
        state = {key.removeprefix("module."): value for key, value in state.items()}
    return state


def load_strictly(
    module: torch.nn.Module,
    state: Mapping[str, torch.Tensor],
    *,
    spec: str,
    path: Path,
    head: Sequence[str] = (),
    kept: Collection[str] = (),
) -> None:
    """Load weights so that none is left over, missing or of another shape, the classifier head apart.

    Parameters
    ----------
    module
        Receives the weights.
    state
        The state dictionary.
    spec, path
        For the message.
    head
        Names of the classifier head's submodules: their weights may be left over or missing.
    kept
        Names of the module's weights that the file must not hold: they stay as they are.

    Raises
    ------
    ModelError
        Lists the keys that are missing, left over or of another shape.
    """
    expected = {key: value for key, value in module.state_dict().items() if key not in kept}

    def counts(key: str) -> bool:
        in_head = any(key.startswith(f"{name}.") for name in head)
        # Batch counters are bookkeeping of training; older files do not have them.
        return not in_head and not key.endswith("num_batches_tracked")

    problems = []
    missing = [key for key in expected if key not in state and counts(key)]
    surplus = [key for key in state if key not in expected and counts(key)]
    shapes = [
        f"{key} {tuple(state[key].shape)} instead of {tuple(expected[key].shape)}"
        for key in expected
        if key in state and state[key].shape != expected[key].shape
    ]
    for what, keys in (("missing", missing), ("left over", surplus), ("of another shape", shapes)):
        if keys:
            shown = ", ".join(keys[:_SHOWN]) + (f" and {len(keys) - _SHOWN} more" if keys[_SHOWN:] else "")
            problems.append(f"{len(keys)} {what}: {shown}")
    if problems:
        raise ModelError(
            f"{spec}: {path} does not fit the model; {'; '.join(problems)}. "
            "Are these the weights of another architecture?"
        )
    module.load_state_dict({key: value for key, value in state.items() if key in expected}, strict=False)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
