"""Options, ini keys and markers: how settings reach pytest, one row of rules each.

Precedence: call argument > marker > command line > ini file > default,
always by ``is None``. Relative paths on the command line are relative to
where pytest was started, those in an ini file to its folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_semcov.errors import ArgumentError
from pytest_semcov.settings import RULES, Rule, Settings, check_names

MARKERS: dict[str, tuple[str, ...]] = {
    "semcov": tuple(name for name, rule in RULES.items() if rule.marker),
    "semcov_augment": ("semantic", "to", "translator", "reference", "labels", "count", "seed"),
}
"""Keyword arguments of each marker."""

_MARKER_HELP = {
    "semcov": "settings of this test, before those of command line and ini file.",
    "semcov_augment": "what the fixture semcov_augmented translates: a semantic, the category to make, the "
    "translator (name or object), reference images (fixture name or data set), labels, how many, the seed; "
    "without arguments every uncovered category that has a translator.",
}


def marker_lines() -> list[str]:
    """Return the markers with signature and help, as pytest registers them."""
    return [
        f"{name}(*, {', '.join(f'{argument}=...' for argument in arguments)}): {_MARKER_HELP[name]}"
        for name, arguments in MARKERS.items()
    ]


def merge_markers(name: str, markers: Iterable[pytest.Mark]) -> dict[str, Any]:
    """Return the keyword arguments of all markers of that name, the first (closest) one winning.

    Raises
    ------
    ArgumentError
        For positional or unknown arguments.
    """
    merged: dict[str, Any] = {}
    for marker in markers:
        where = f"marker {name}"
        if marker.args:
            raise ArgumentError(
                f"{where}: takes keyword arguments only, got {marker.args[0]!r}; "
                f"there are {', '.join(MARKERS[name])}"
            )
        check_names(marker.kwargs, MARKERS[name], where=where)
        for argument, value in marker.kwargs.items():
            merged.setdefault(argument, value)
    return merged


def check_augment(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's ``semcov_augment`` markers.

    Raises
    ------
    ArgumentError
        If they are wrong, or if the test itself is marked but does not use the fixture.
    """
    name = "semcov_augment"
    arguments = merge_markers(name, item.iter_markers(name))
    for argument, rule in _AUGMENT_RULES.items():
        if arguments.get(argument) is not None:
            arguments[argument] = rule.check(arguments[argument], where=f"marker {name}, {argument}")
    given = {argument for argument, value in arguments.items() if value is not None}
    for argument in ("to", "translator", "labels"):
        if argument in given and "semantic" not in given:
            raise ArgumentError(f"marker {name}: {argument}={arguments[argument]!r} needs semantic=...")
    if "semantic" in given and "to" not in given:
        raise ArgumentError(
            f"marker {name}: semantic={arguments['semantic']!r} needs to=..., the category to make"
        )
    marked = any(marker.name == name for marker in item.own_markers)
    if marked and "semcov_augmented" not in getattr(item, "fixturenames", ()):
        raise ArgumentError(f"marker {name}: the test does not ask for the fixture semcov_augmented")
    return arguments


_AUGMENT_RULES = {
    "semantic": Rule("text", "a semantic"),
    "to": Rule("text", "a category"),
    "count": Rule("int", "most images", low=1),
    "seed": RULES["seed"],
}


def add_options(parser: pytest.Parser) -> None:
    """Register command-line options and ini keys, one of each per row of :data:`RULES`."""
    types: dict[str, Any] = {"bool": "bool", "paths": "linelist", "table": "linelist"}
    if pytest.version_tuple >= (8, 4):  # older versions know no numbers: Rule.read makes them
        types |= {"int": "int", "float": "float"}
    group = parser.getgroup("semcov", "semantic coverage of image data sets")
    defaults = Settings().to_dict()
    for name, rule in RULES.items():
        text = rule.help
        if defaults[name] not in (None, [], {}):
            text += f" (default: {str(defaults[name]).lower() if rule.kind == 'bool' else defaults[name]})"
        if rule.command_line:
            group.addoption(
                _option(name),
                dest=f"semcov_{name}",
                default=None,
                metavar=_metavar(rule),
                help=text[0].upper() + text[1:],
            )
        parser.addini(f"semcov_{name}", text, type=types.get(rule.kind, "string"), default=None)


def _option(name: str) -> str:
    return "--semcov-" + name.replace("_", "-")


def _metavar(rule: Rule) -> str:
    return {"choice": "CHOICE", "int": "N", "path": "PATH", "spec": "SPEC"}.get(rule.kind, "NAME")


def given(config: pytest.Config) -> Iterator[tuple[str, object, str, Path]]:
    """Yield ``(name, what was written, where, folder of relative paths)`` of all settings that were given.

    Raises
    ------
    ArgumentError
        If pytest cannot read an ini value as its type.
    """
    ini = config.inipath
    for name, rule in RULES.items():
        if rule.command_line:
            written = config.getoption(f"semcov_{name}", None)
            if written is not None:
                yield name, written, _option(name), config.invocation_params.dir
                continue
        key = f"semcov_{name}"
        where = key if ini is None else f"{key} ({ini.name})"
        try:
            written = config.getini(key)
        except (ValueError, TypeError, pytest.UsageError) as error:
            raise ArgumentError(f"{where}: {error}; allowed: {rule.allowed}") from error
        if written is not None:
            yield name, written, where, config.invocation_params.dir if ini is None else ini.parent


def resolve(config: pytest.Config) -> Settings:
    """Return the settings of this run: command line > ini file > default.

    Raises
    ------
    pytest.UsageError
        If a value is not allowed; names option or key, value and what is allowed.
    """
    try:
        values = {}
        for name, written, where, folder in given(config):
            values[name] = RULES[name].read(written, where=where, folder=folder)
            _check_place(name, values[name], where)
        return replace(Settings(), **values)
    except ArgumentError as error:
        raise pytest.UsageError(str(error)) from error


def _check_place(name: str, path: object, where: str) -> None:
    """Refuse at the start what could not be written at the end."""
    if not isinstance(path, Path):
        return
    if name == "report" and path.is_dir():
        raise ArgumentError(f"{where}: {str(path)!r} is a folder; allowed: a file, e.g. semcov.json")
    folder = path.parent if name == "report" else path
    try:
        blocked = next((part for part in (folder, *folder.parents) if part.is_file()), None)
    except OSError as error:
        raise ArgumentError(f"{where}: {error}; allowed: a path that can be reached") from error
    if blocked is not None:
        raise ArgumentError(f"{where}: {str(blocked)!r} is a file; allowed: a path in a folder")
