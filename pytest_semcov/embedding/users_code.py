"""What can be said of users' code: a text that changes whenever its results may."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import torch

_LIBRARY_PACKAGES = {"torch", "torchvision", "timm", "open_clip", "transformers"}

_numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
_numbers_given: dict[str, int] = {}


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


def describe_unversioned(thing: object) -> str:
    """Return the source text of a function or of an object's class, with a number.

    Two functions of one source may differ in what surrounds them, so the second, third, ... in this process
    have other numbers. A run that makes one of each gets the same text every time.
    """
    source = _source(thing if inspect.isroutine(thing) else type(thing))
    number = _numbers_given.get(source, 0)
    with suppress(TypeError):  # not hashable, or without weak references: never known again
        number = _numbers.setdefault(thing, number)
    _numbers_given[source] = max(_numbers_given.get(source, 0), number + 1)
    return f"{source}#{number}"


def module_code(module: torch.nn.Module) -> dict[str, str]:
    """Return the source of a module's classes that no library has: weights do not show what is computed."""
    classes = {type(part) for part in module.modules()}
    return {f"{cls.__module__}.{cls.__qualname__}": _source(cls) for cls in classes if not _from_library(cls)}


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return "not available"


def _from_library(cls: type) -> bool:
    return cls.__module__.split(".")[0] in _LIBRARY_PACKAGES
