"""What can be said of users' code: a text that changes whenever its results may."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_LIBRARY_PACKAGES = {"torch", "torchvision", "timm", "open_clip", "transformers"}


def describe_preprocessing(preprocess: Callable[..., Any]) -> str | None:
    """Return a text that changes whenever the preprocessing does, or ``None`` if there is none to be had.

    Known are objects with a text ``version``, and transforms of the known libraries (also in sequence),
    whose printed form shows all parameters. ``Lambda`` shows nothing of its function.
    """
    version = own_version(preprocess)
    if version is not None:
        return version
    steps = [preprocess, *getattr(preprocess, "transforms", ())]
    if all(_from_library(type(step)) and type(step).__name__ != "Lambda" for step in steps):
        printed = repr(preprocess)
        return None if " at 0x" in printed else printed
    return None


def own_version(thing: object) -> str | None:
    """Return an object's attribute ``version`` if it is a text."""
    version = getattr(thing, "version", None)
    return version if isinstance(version, str) else None


def source_code(thing: object) -> str:
    """Return the source text of a function or class, or of an object's class, as far as it can be had."""
    try:
        return inspect.getsource(thing if inspect.isroutine(thing) or inspect.isclass(thing) else type(thing))
    except (OSError, TypeError):
        return "not available"


def module_code(module: torch.nn.Module) -> dict[str, str]:
    """Return the source of a module's classes that no library has: weights do not show what is computed."""
    classes = {type(part) for part in module.modules()}
    return {
        f"{cls.__module__}.{cls.__qualname__}": source_code(cls) for cls in classes if not _from_library(cls)
    }


def _from_library(cls: type) -> bool:
    return cls.__module__.split(".")[0] in _LIBRARY_PACKAGES
