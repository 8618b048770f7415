"""Imports go down only, pytest stays at the edge, and heavy libraries wait until they are needed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "pytest_semcov"

STAGES = frozenset({"semantics", "data", "embedding", "translation", "evaluation", "generation", "failures"})
SHARED_BY_STAGES = frozenset({"errors", "metrics", "gates", "data", "embedding"})
BELOW_WORKBENCH = STAGES | {"errors", "active", "settings", "metrics", "gates"}
BELOW_ASSERTIONS = BELOW_WORKBENCH | {"workbench"}
BELOW_PLUGIN = BELOW_ASSERTIONS | {"assertions", "contract", "cli", "reporting", "options", "fixtures"}

MAY_IMPORT: dict[str, frozenset[str]] = {
    "__init__": frozenset(),  # public names are imported lazily, by name
    "errors": frozenset(),
    "active": frozenset(),
    "settings": frozenset({"errors"}),
    "options": frozenset({"errors", "settings"}),
    "metrics": frozenset({"errors"}),
    "gates": frozenset({"errors", "metrics"}),
    **dict.fromkeys(STAGES, SHARED_BY_STAGES),
    "workbench": BELOW_WORKBENCH,
    "strategies": frozenset({"errors", "data", "translation"}),
    "assertions": BELOW_ASSERTIONS,
    "contract": BELOW_ASSERTIONS | {"assertions"},
    "cli": BELOW_ASSERTIONS | {"assertions", "reporting"},
    "reporting": frozenset({"errors"}),
    "fixtures": BELOW_PLUGIN,
    "plugin": BELOW_PLUGIN,
}
"""What each module or folder may import at run time, besides itself."""

MAY_IMPORT_PYTEST = {"plugin", "options", "fixtures", "assertions", "contract"}

HEAVY = {
    "torch",
    "torchvision",
    "open_clip",
    "timm",
    "diffusers",
    "peft",
    "lpips",
    "accelerate",
    "faster_coco_eval",
    "transformers",
    "dataeval",
    "sklearn",
    "maite",
    "pandas",
    "pyarrow",
    "requests",
    "huggingface_hub",
    "hypothesis",
}
"""Imported inside functions only."""

BANNED = sorted({*HEAVY, "numpy", "scipy", "PIL"})
"""Not loaded by loading the plugin, nor by a run of a project that does not use it."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def area(name: str) -> str:
    """Return the row of the table that a top-level module or folder belongs to."""
    if name.startswith("judging_") or name in ("augmenting", "labelling", "measuring", "planning"):
        return "workbench"
    return "assertions" if name.startswith("assertions_") else name


def area_of(path: Path) -> str:
    """Return the row of the table that a file belongs to."""
    return area(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the full names that are imported at run time, at the top or in functions, with their lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            assert node.module is not None
            if node.module == "pytest_semcov":
                yield from ((f"pytest_semcov.{name.name}", node.lineno) for name in node.names)
            else:
                yield node.module, node.lineno
        else:
            yield from imports(node)


def top_imports(tree: ast.Module) -> set[str]:
    """Return the top-level packages imported when the module is loaded."""
    return {
        name.partition(".")[0]
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name, _ in imports(ast.Module(body=[node], type_ignores=[]))
    }


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path):
    tree = ast.parse(path.read_text("utf-8"))
    here = area_of(path)
    assert here in MAY_IMPORT, f"{here} has no place in the layout"
    for name, line in imports(tree):
        package, _, rest = name.partition(".")
        if package == "pytest_semcov" and rest:
            target = area(rest.partition(".")[0])
            allowed = target in ("__version__", here) or target in MAY_IMPORT[here]
            assert allowed, f"{path.name}:{line}: {here} may not import {target}"
        if package in ("pytest", "_pytest"):
            assert package == "pytest", f"{path.name}:{line}: pytest's private modules"
            assert here in MAY_IMPORT_PYTEST, f"{path.name}:{line}: {here} may not import pytest"
    eager = top_imports(tree)
    assert not eager & HEAVY, f"{path.name} loads {eager & HEAVY} when it is imported"
    if here != "metrics":
        assert "scipy" not in eager
    if here != "data":
        assert "PIL" not in eager


def test_the_table_has_no_circle():
    seen: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " → ".join((*trail, name))
        if name not in seen:
            for below in MAY_IMPORT[name] - {name} - (STAGES if name in STAGES else frozenset()):
                visit(below, (*trail, name))
            seen.append(name)

    for name in MAY_IMPORT:
        visit(name, ())


def test_no_stage_imports_the_inside_of_another_in_a_circle():
    """Stages may share data and embedding; which stage uses which has no circle either."""
    uses: dict[str, set[str]] = {stage: set() for stage in STAGES}
    for path in modules():
        if area_of(path) in STAGES:
            names = [name.split(".") for name, _ in imports(ast.parse(path.read_text("utf-8")))]
            ours = {parts[1] for parts in names if parts[0] == "pytest_semcov" and len(parts) > 1}
            uses[area_of(path)] |= ours & STAGES - {area_of(path)}
    assert uses["data"] == set()
    assert uses["embedding"] <= {"data"}


def loaded_by(code: str, *arguments: str, folder: Path) -> set[str]:
    """Return the names of all modules loaded after running some code in its own process."""
    script = f"import json, sys\n{code}\nprint('MODULES', json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("MODULES "))
    return set(json.loads(line.removeprefix("MODULES ")))


def banned(names: set[str]) -> list[str]:
    return [name for name in BANNED if name in names]


def test_loading_the_plugin_costs_next_to_nothing(tmp_path: Path):
    alone = loaded_by("import pytest", folder=tmp_path)
    package = loaded_by("import pytest, pytest_semcov", folder=tmp_path)
    plugin = loaded_by("import pytest, pytest_semcov.plugin", folder=tmp_path)
    assert banned(package) == []
    assert banned(plugin) == []
    assert len(plugin - alone) <= 25, sorted(plugin - alone)


RUN = """
import pytest
pytest.main(['-p', 'no:cacheprovider', '-p', 'no:hypothesispytest', '-p', 'no:anyio', *sys.argv[1:]])
"""


def test_a_run_of_an_unrelated_project_loads_and_writes_nothing_of_ours(tmp_path: Path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "test_unrelated.py").write_text("import pytest\ndef test_one(tmp_path): pass\n")
    alone = loaded_by(RUN, "-p", "no:semcov", folder=folder)
    ours = loaded_by(RUN, folder=folder)
    assert banned(ours) == []
    assert len(ours - alone) <= 25, sorted(ours - alone)
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["test_unrelated.py"]


RELEASE = {
    "conftest.py": """
import pytest
from pytest_semcov import ImageFolder

@pytest.fixture(scope="session")
def semcov_dataset():
    return ImageFolder("release-that-is-not-there")
""",
    "test_release.py": """
import pytest
from pytest_semcov import assert_semantic_covered, assert_synthetic_sufficient

@pytest.mark.parametrize("semantic", ["day_night", "clear_rain", "summer_winter"])
def test_condition_is_covered(semcov_dataset, semantic):
    assert_semantic_covered(semcov_dataset, semantic)

@pytest.mark.semcov_augment(semantic="day_night", to="night", translator="day_to_night")
def test_release_with_synthetic_night(semcov_augmented):
    assert_semantic_covered(semcov_augmented, "day_night")
""",
}


def test_asking_pytest_about_a_project_that_uses_us_loads_nothing_heavy(tmp_path: Path):
    for name, text in RELEASE.items():
        (tmp_path / name).write_text(text)
    code = """
import pytest
questions = ["--collect-only -q", "--markers", "--fixtures -q", "--help", "--version"]
for question in questions:
    status = pytest.main(["-p", "no:cacheprovider", "-p", "no:hypothesispytest", *question.split()])
    assert status == 0, question
"""
    assert banned(loaded_by(code, folder=tmp_path)) == []
