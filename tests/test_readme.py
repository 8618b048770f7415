"""The README's samples, run as they stand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_semcov import Descriptor
from pytest_semcov.semantics.descriptors import load_descriptors

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_first_screen(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, day_night_folder: Path
) -> None:
    """120 day and 20 night photographs, labelled and embedded by the built-in model."""
    conftest, test = blocks("python")[:2]
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_release=test)
    shutil.copytree(day_night_folder / "train" / "day", pytester.path / "release-2026.11" / "day")
    night = pytester.path / "release-2026.11" / "night"
    night.mkdir()
    for path in sorted((day_night_folder / "train" / "night").iterdir())[:20]:
        shutil.copy(path, night)
    monkeypatch.setenv("COLUMNS", "250")

    result = pytester.runpytest_subprocess()

    shown = blocks("text")[0]
    headline = re.search(r"^E +(pytest_semcov\.VerdictFailed: .*)$", shown, re.MULTILINE)[1]
    result.assert_outcomes(failed=1)
    assert headline in result.stdout.str()


@pytest.mark.parametrize("number", range(len(blocks("ini"))))
def test_ini_samples_are_accepted(pytester: pytest.Pytester, number: int) -> None:
    pytester.makefile(".ini", pytest=blocks("ini")[number])
    pytester.makepyfile("def test_nothing(): pass")

    result = pytester.runpytest_subprocess("--strict-config", "-W", "error")

    result.assert_outcomes(passed=1)


def test_toml_sample_defines_a_semantic(tmp_path: Path) -> None:
    (sample,) = blocks("toml")
    (tmp_path / "conditions.toml").write_text(sample, encoding="utf-8")

    loaded = load_descriptors(tmp_path / "conditions.toml")

    assert loaded == {
        "visibility": Descriptor(
            "visibility",
            {"clear": ("clear air",), "fog": ("thick fog", "dense mist")},
            scene=("harbour",),
        )
    }
    assert loaded["visibility"].prompts("clear") == ("harbour clear air",)


def test_commands_name_files_that_exist() -> None:
    root = Path(__file__).resolve().parents[1]
    for command in blocks("sh"):
        for path in re.findall(r"(?:examples|benchmarks|tools)/[\w/.]+", command):
            assert (root / path).exists(), path
    for link in re.findall(r"\]\(((?!http)[^)]+)\)", README):
        assert (root / link).exists(), link
