"""The commands in docs/commands.md, run as they stand."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from pytest_semcov import ImageFolder, RenderedScenes
from pytest_semcov.cli import main

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "commands.md").read_text(encoding="utf-8")
QUICKER = {"--steps 1500": "--steps 2 --size 32"}


def commands() -> list[str]:
    """Return the command lines in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    assert all(line.startswith("$ semcov ") for line in lines)
    return [line.removeprefix("$ semcov ") for line in lines]


def folders(root: Path) -> None:
    """Write what the commands name: release/, photos/day, photos/night, more-night."""
    (root / "release").mkdir()
    rows = []
    for category, count in (("day", 24), ("night", 24)):
        (root / "photos" / category).mkdir(parents=True)
        scenes = RenderedScenes(count, seed=8, day_night=category)
        for number in range(count):
            name = f"{category}_{number:02}.png"
            scenes[number].load().resize((48, 48)).save(root / "release" / name)
            shutil.copy(root / "release" / name, root / "photos" / category)
            rows.append({"file_name": name, "time_of_day": category, "video": f"{category} {number // 2}"})
    (root / "release" / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (root / "more-night").mkdir()
    more = RenderedScenes(12, seed=9, day_night="night")
    for number in range(12):
        more[number].load().resize((48, 48)).save(root / "more-night" / f"{number:02}.png")


def test_every_command_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders(tmp_path)
    monkeypatch.chdir(tmp_path)
    for written in commands():
        line = written
        for slow, quick in QUICKER.items():
            line = line.replace(slow, quick)
        assert main(shlex.split(line)) == 0, line
        shown = capsys.readouterr()
        assert shown.err == "", line
        assert shown.out, line
    assert json.loads(shown.out)["made"] == 10
    assert len(ImageFolder("synthetic-night", labels="metadata")) == 24
    assert (tmp_path / "synthetic-night" / "contact_sheet.pdf").exists()


def test_every_command_and_method_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    from pytest_semcov.cli.fitters import METHODS

    used = {line.split()[0] for line in commands()}
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = set(re.findall(r"^    ([a-z-]+)\b", capsys.readouterr().out, re.MULTILINE))
    assert used == listed
    for method in METHODS:
        assert f"| `{method}` |" in TEXT
