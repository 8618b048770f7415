"""The command semcov: in this process, and as it is installed."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_semcov import ImageFolder, RenderedScenes, Settings, Workbench, __version__
from pytest_semcov.cli import main
from pytest_semcov.cli.common import Stream
from pytest_semcov.reporting.progress import ProgressLine

DAY, NIGHT, VIDEOS = 45, 24, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered scenes as files: 45 by day and 24 by night, with time of day and video in metadata.csv."""
    root = tmp_path_factory.mktemp("release")
    rows = []
    for category, count in (("day", DAY), ("night", NIGHT)):
        scenes = RenderedScenes(count, seed=11, day_night=category)
        for number in range(count):
            name = f"{category}_{number:03}.png"
            scenes[number].load().resize((64, 64)).save(root / name)
            rows.append(
                {"file_name": name, "time_of_day": category, "video": f"{category} {number % VIDEOS}"}
            )
    with (root / "metadata.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return root


def power(folder: Path, *more: str, category: str = "night", semantic: str = "day_night") -> list[str]:
    arguments = ["--semantic", semantic, "--category", category, "--repeats", "20"]
    return ["power", str(folder), *arguments, *more]


KNOWN = ("--labels", "time_of_day", "--group", "video")


def test_counts_are_exact_and_the_answer_is_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(power(folder, *KNOWN)) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert lines[0].startswith("day_night: night, now 24 of 69 images (")
    assert lines[1] == "what for needed missing"
    assert lines[2] == "count 30 6 min_count 30"
    assert lines[3] == "share 7 0 12.5% of all images, beside 45 others"
    assert lines[4] == "groups 5 groups 0 min_groups 5 (videos, scenes)"
    assert lines[5].startswith("importance known 10 0 ")
    assert lines[6].startswith("lift of 2 called important about ")
    assert lines[7].startswith("synthetic set judged sufficient about ")
    # eight videos only: halves of four are too few
    assert "8 distinct real images or groups of the category: need 20" in lines[7]
    assert len(lines) == 8


def test_json_and_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bars = ("--min-count", "100", "--min-share", "1", "--min-groups", "9")
    assert main(power(folder, *KNOWN, *bars, "--lift", "3", "--share", "0.4", "--json")) == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    needs = {need["purpose"]: need for need in answer["needs"]}
    assert (answer["now"], answer["images"], answer["interval"]) == (24, 69, None)
    assert (needs["count"]["needed"], needs["count"]["missing"]) == (100, 76)
    assert (needs["share"]["needed"], needs["share"]["missing"]) == (45, 21)
    assert (needs["groups"]["needed"], needs["groups"]["have"]) == (9, 8)
    assert needs["synthetic set that closes 0.4 judged"]["needed"] is None
    assert "lift of 3 called important" in needs
    assert answer["provenance"]["models"][0]["trained"] is True


def test_without_labels_the_encoder_labels_as_the_gates_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(power(folder, "--json")) == 0
    answer = json.loads(capsys.readouterr().out)
    verdict = Workbench(Settings()).coverage(ImageFolder(folder), "day_night")
    criterion = verdict["count[night]"]
    assert (answer["now"], tuple(answer["interval"])) == (criterion.value, criterion.interval)
    needs = {need["purpose"]: need for need in answer["needs"]}
    assert needs["both, as labelled"]["needed"] > needs["count"]["needed"]
    assert "specificity" in needs["both, as labelled"]["note"]
    # 24 single images are enough for halves
    assert "real images against 1" in needs["synthetic set judged sufficient"]["note"]


def test_coco_files_are_read_with_their_images(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"day_{number:03}.png" for number in range(12)] + ["night_000.png"]
    images = [
        {"id": number, "file_name": name, "width": 64, "height": 64, "when": name.partition("_")[0]}
        for number, name in enumerate(names)
    ]
    annotations = tmp_path / "release.json"
    annotations.write_text(json.dumps({"images": images, "annotations": [], "categories": []}))
    arguments = power(annotations, "--labels", "when", "--images", str(folder))
    assert main(arguments) == 0
    assert "night, now 1 of 13 images" in capsys.readouterr().out
    assert main(power(annotations, "--labels", "when")) == 1
    assert "day_000.png" in capsys.readouterr().err


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on stderr; nothing else is shown."""
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    return shown.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--min-count", "many"), "--min-count: 'many'"),
        (("--device", "tpu"), "--device: 'tpu'"),
        (("--share", "nan"), "share=nan"),
        (("--lift", "0.5"), "lift=0.5"),
        (("--images", "."), "--images"),
    ],
)
def test_wrong_arguments_end_with_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], named: str
) -> None:
    assert main(power(folder, *arguments)) == 2
    assert named in refused(capsys)


def test_unknown_names_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(power(folder, *KNOWN, category="dusk")) == 2
    assert "it has day, night" in refused(capsys)
    assert main(power(folder, semantic="day_nite")) == 2
    assert "no semantic 'day_nite'; there are day_night" in refused(capsys)


def test_usage_is_argparses(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["power"], ["power", "x", "--semantic", "s", "--category", "c", "--frobnicate"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert "usage: semcov" in capsys.readouterr().err
    for question, answer in (("--version", f"semcov {__version__}\n"), ("--help", "power")):
        with pytest.raises(SystemExit, match="0"):
            main([question])
        assert answer in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["power", "--help"])
    shown = capsys.readouterr().out
    for option in ("DATASET", "--category", "--labels", "--min-count", "--max-uncertain", "--json"):
        assert option in shown


def test_data_that_cannot_be_used_ends_with_status_1(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(power(tmp_path / "nowhere")) == 1
    assert "nowhere" in refused(capsys)
    # a semantic that the encoder's card does not cover
    assert main(power(folder, semantic="object_pose", category="upright")) == 1
    assert "cannot label 'object_pose'" in refused(capsys)
    assert main(power(folder, "--labels", "hour")) == 1
    assert "no column 'hour'; there are id, label, group, time_of_day, video" in refused(capsys)
    assert main(power(folder, "--encoder", "open_clip:ViT-B-32@nowhere.pt")) == 1
    assert "nowhere.pt" in refused(capsys)
    broken = tmp_path / "broken"
    (broken / "night").mkdir(parents=True)
    (broken / "day").mkdir()
    for number in range(7):
        (broken / "day" / f"{number}.png").write_bytes((folder / f"day_00{number}.png").read_bytes())
    (broken / "night" / "torn.png").write_bytes((folder / "night_000.png").read_bytes()[:200])
    assert main(power(broken, "--labels", "label")) == 1
    assert "torn.png" in refused(capsys)
    assert main(power(broken, "--labels", "label", "--on-bad-image", "skip")) == 0
    assert "night, now 0 of 7 images" in capsys.readouterr().out


def installed() -> list[str]:
    """Return the installed command, or what it runs where the package lies on the path only."""
    script = Path(sys.executable).parent / "semcov"
    return [str(script)] if script.exists() else [sys.executable, "-m", "pytest_semcov.cli"]


def test_the_installed_command_answers(folder: Path) -> None:
    done = subprocess.run(
        [*installed(), *power(folder, *KNOWN, "--json")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["needs"][0]["missing"] == 6


def test_loading_the_command_costs_next_to_nothing() -> None:
    code = (
        "import sys, pytest_semcov.cli; print([m for m in ('numpy', 'torch', 'pytest') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_progress_is_one_line_that_is_wiped() -> None:
    stream = io.StringIO()
    now = iter(range(100))
    line = ProgressLine(Stream(stream), clock=lambda: float(next(now)))
    for done in range(4):
        line("embedding with builtin", done, 3)
    shown = stream.getvalue()
    assert "embedding with builtin: 2 of 3 images" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[2K")
