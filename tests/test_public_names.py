"""The public names: one lazy table, and the same names for type checkers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_semcov


@pytest.mark.parametrize("name", [name for name in pytest_semcov.__all__ if name != "__version__"])
def test_public_name_resolves_to_its_definition(name: str) -> None:
    value = getattr(pytest_semcov, name)

    assert value.__name__ == name
    assert value.__doc__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(pytest_semcov.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_semcov.")
        for alias in node.names
    }

    assert seen == {name: f"pytest_semcov.{module}" for name, module in pytest_semcov._PUBLIC.items()}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = pytest_semcov.no_such_name
