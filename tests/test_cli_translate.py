"""semcov fit-translator and semcov translate, from the outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import ColourTranslator, ImageFolder, RenderedScenes
from pytest_semcov.cli import main
from pytest_semcov.translation.selection import plan_augmentation
from pytest_semcov.translation.specs import load_translator
from pytest_semcov.translation.translating import translate_plan

COUNT = 24


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered scenes by day and by night, with time of day and video in metadata.jsonl."""
    root = tmp_path_factory.mktemp("release")
    lines = []
    for category in ("day", "night"):
        scenes = RenderedScenes(COUNT, seed=5, day_night=category)
        for number in range(COUNT):
            name = f"{category}_{number:02}.png"
            scenes[number].load().resize((48, 48)).save(root / name)
            lines.append({"file_name": name, "time_of_day": category, "video": f"{category} {number // 2}"})
    (root / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return root


@pytest.fixture(scope="module")
def folders(release: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same images in two folders."""
    root = tmp_path_factory.mktemp("folders")
    for category in ("day", "night"):
        (root / category).mkdir()
        for path in release.glob(f"{category}_*.png"):
            shutil.copy(path, root / category)
    return root / "day", root / "night"


@pytest.fixture(scope="module")
def fitted(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fitted") / "night.safetensors"
    nights = ImageFolder(folders[1], labels=None).subset(range(COUNT // 2))
    ColourTranslator.fit([], nights, method="statistics", semantic="day_night").save(path)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> Any:
    """Return the JSON that a command prints."""
    assert main([*map(str, arguments), "--json"]) == status
    shown = capsys.readouterr()
    assert shown.err == ""
    return json.loads(shown.out, parse_constant=lambda name: pytest.fail(name))


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 2) -> str:
    """Return the one line of a command that cannot do it."""
    assert main([*map(str, arguments)]) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    return shown.err


KNOWN = ("--semantic", "day_night", "--labels", "time_of_day", "--group", "video")


@pytest.mark.parametrize("method", ["colour", "fourier"])
def test_one_half_of_the_target_is_learned_from_whole_groups_together(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    out = tmp_path / "new" / "night.safetensors"
    record = answer(capsys, "fit-translator", release, *KNOWN, "--method", method, "--out", out)
    learned, left = record["learned_from"], record["left_to_judge"]
    assert (len(learned["day"]), len(learned["night"])) == (0, COUNT // 2)
    assert (len(left["day"]), len(left["night"])) == (COUNT, COUNT // 2)
    dataset = ImageFolder(release, group="video")
    by_id = {sample.id: sample for sample in dataset}
    assert not {by_id[each].group for each in learned["night"]} & {
        by_id[each].group for each in left["night"]
    }
    translator = load_translator(record["spec"])
    assert record["spec"] == f"{method}@{out}"
    assert translator.fingerprint == record["fingerprint"]
    assert translator.fitted_on == {by_id[each].content_key() for each in learned["night"]}
    assert translator.fitted_groups == {by_id[each].group for each in learned["night"]}
    assert (translator.source, translator.target, translator.semantic) == ("day", "night", "day_night")
    assert json.loads(out.with_name("night.safetensors.json").read_text()) == record


def test_two_folders_are_learned_from_whole(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "n.safetensors"
    arguments = [
        "fit-translator",
        "--source",
        str(folders[0]),
        "--target",
        str(folders[1]),
        "--out",
        str(out),
    ]
    assert main([*arguments, "--method", "colour", "--colour-method", "statistics", "--seed", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    fingerprint = load_translator(f"colour@{out}").fingerprint
    assert lines[0].startswith(f"colour-statistics, day to night: {out} ({fingerprint[:12]}), fitted in ")
    assert lines[1].startswith(f"  learned from {COUNT} night images, which must not judge it: ")
    assert lines[2] == f"  ids of the images: {out}.json"
    assert lines[3] == f"  use it: semcov translate DATASET --translator colour@{out} --out FOLDER"
    assert len(lines) == 4


def test_a_small_network_learns_from_both_halves(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "n.safetensors"
    options = ("--method", "unpaired", "--steps", "2", "--size", "32", "--device", "cpu")
    record = answer(capsys, "fit-translator", release, *KNOWN, *options, "--out", out)
    for part in ("learned_from", "left_to_judge"):
        assert [len(ids) for ids in record[part].values()] == [COUNT // 2, COUNT // 2]
    assert record["options"] == {"steps": 2, "size": 32}
    made = answer(
        capsys,
        *("translate", release, "--translator", record["spec"], "--labels", "time_of_day"),
        *("--count", "2", "--out", tmp_path / "out"),
    )
    assert (made["made"], made["semantic"]) == (2, "day_night")


def test_training_a_diffusion_model_gets_the_options(
    folders: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from pytest_semcov.translation import cyclegan_turbo_training

    given: dict[str, Any] = {}

    def train(sources: Any, targets: Any, **arguments: Any) -> Any:
        if given:
            raise KeyboardInterrupt
        given.update(arguments, counts=(len(sources), len(targets)))
        return ColourTranslator.fit([], targets, method="statistics", source="clear", target="fog")

    monkeypatch.setattr(cyclegan_turbo_training, "train_cyclegan_turbo", train)
    command = (
        *("fit-translator", "--method", "cyclegan-turbo", "--base", "stabilityai/sd-turbo", "--steps", "7"),
        *("--source", folders[0], "--target", folders[1], "--target-caption", "driving in fog"),
        *(
            "--source-name",
            "clear",
            "--target-name",
            "fog",
            "--semantic",
            "weather",
            "--learning-rate",
            "2e-5",
        ),
        *("--seed", "3", "--device", "cpu", "--backbone", "builtin", "--out", tmp_path / "fog.safetensors"),
    )
    record = answer(capsys, *command)
    settings = given.pop("settings")
    assert (settings.steps, settings.learning_rate, settings.seed, settings.batch) == (7, 2e-5, 3, 1)
    assert given == {
        "counts": (COUNT, COUNT),
        "base": "stabilityai/sd-turbo",
        "folder": tmp_path / "fog-training",
        "source": "clear",
        "target": "fog",
        "semantic": "weather",
        "captions": ("clear", "driving in fog"),
        "backbone": "builtin",
        "device": "cpu",
        "progress": None,
    }
    assert record["spec"] == f"cyclegan-turbo:stabilityai/sd-turbo@{tmp_path / 'fog.safetensors'}"
    line = refused(capsys, *command, status=130)
    assert f"interrupted; {tmp_path / 'fog-training'} keeps the last checkpoint: run the same command" in line


@pytest.mark.slow
def test_a_diffusion_model_is_adapted_and_training_goes_on(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("diffusers")
    from diffusion_pipelines import save_pipeline

    base, out = save_pipeline(tmp_path / "base", shallow=True), tmp_path / "turbo.safetensors"
    capsys.readouterr()
    options = (
        *("--method", "cyclegan-turbo", "--base", base, "--perceptual", "builtin", "--backbone", "builtin"),
        *("--preparation", "resize_16x16", "--unet-rank", "2", "--checkpoint-every", "1", "--device", "cpu"),
        *("--source", folders[0], "--target", folders[1], "--target-caption", "at night"),
    )
    answer(capsys, "fit-translator", *options, "--steps", "1", "--out", out)
    record = answer(capsys, "fit-translator", *options, "--steps", "2", "--out", out)
    log = (tmp_path / "turbo-training" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log if "losses" in line] == [1, 2]
    assert record["spec"] == f"cyclegan-turbo:{base}@{out}"
    translator = load_translator(record["spec"])
    assert translator.fingerprint == record["fingerprint"]
    assert translator.prompt == "at night"
    assert len(translator.fitted_on) == 2 * COUNT
    command = ("translate", folders[0], "--translator", record["spec"], "--semantic", "day_night")
    assert answer(capsys, *command, "--count", "1", "--out", tmp_path / "out")["made"] == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--method", "cyclegan-turbo", "--target", "{night}"), "--method cyclegan-turbo needs --base"),
        (("--method", "colour"), "--method colour needs --target, or DATASET with --semantic"),
        (("--method", "unpaired", "--target", "{night}"), "--method unpaired needs --source and --target"),
        (("{release}", "--method", "colour"), "DATASET needs --semantic"),
        (("{release}", "--method", "colour", "--target", "x"), "give either DATASET"),
        (("{release}", "--method", "colour", "--semantic", "day_night", "--labels", "time_of_day",
          "--target-name", "dusk"), "it has day, night"),
        (("--method", "colour", "--target", "{night}", "--steps", "3"), "--steps is no option of --method"),
        (("--method", "colour", "--target", "{night}", "--source", "{night}"), "take it out of one of them"),
        (("--method", "colour", "--target", "{night}", "--target-name", "day"), "are both 'day'"),
        (("--method", "colour", "--target", "{night}", "--maximum-images", "0"), "maximum_images 0"),
        (("--method", "colour", "--target", "{night}", "--out", "."), "--out: '.' is a folder"),
        (("--method", "colour", "--target", "{night}", "--out", "{release}/day_00.png/n"), "be written"),
    ],
)  # fmt: skip
def test_fitting_names_what_is_wrong(
    release: Path,
    folders: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [each.format(release=release, night=folders[1]) for each in arguments]
    assert named in refused(capsys, "fit-translator", "--out", "n.safetensors", *given)
    assert list(tmp_path.iterdir()) == []


def test_data_that_cannot_be_learned_from_ends_with_status_1(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--method", "unpaired", "--out", tmp_path / "n", "--steps", "1")
    (tmp_path / "few").mkdir()
    shutil.copy(folders[0] / "day_00.png", tmp_path / "few")
    few = ("--source", tmp_path / "few", "--target", folders[1])
    assert "1 images of 'day'" in refused(capsys, "fit-translator", *few, *options, status=1)
    nowhere = ("--source", tmp_path / "nowhere", "--target", folders[1])
    assert "nowhere" in refused(capsys, "fit-translator", *nowhere, *options, status=1)


def translate(release: Path, fitted: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("translate", release, "--translator", f"colour@{fitted}", "--out", out, *more)


def test_the_images_are_those_that_a_test_makes(
    release: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = ("--labels", "time_of_day", "--count", "5", "--seed", "9", "--group", "video")
    record = answer(capsys, *translate(release, fitted, out, *options))
    dataset = ImageFolder(release, group="video")
    days = [sample.id for sample in dataset if sample.metadata["time_of_day"] == "day"]
    plan = plan_augmentation(
        days, semantic="day_night", source="day", target="night", needed=0, count=5, seed=9
    )
    translator = ColourTranslator.load(fitted)
    made, _ = translate_plan(dataset, plan, translator, columns=["time_of_day"])
    assert (record["made"], record["kept"], record["failed"]) == (5, 0, {})
    assert (record["fingerprint"], record["seed"]) == (translator.fingerprint, 9)
    back = {sample.id: sample for sample in ImageFolder(out, labels="metadata")}
    assert sorted(back) == sorted(sample.id for sample in made)
    for sample in made:
        again = back[sample.id]
        assert np.array_equal(np.asarray(again.load()), np.asarray(sample.load()))
        assert again.provenance == sample.provenance
        assert again.group == sample.group
        assert again.metadata["time_of_day"] == again.metadata["day_night"] == "night"
    files = {path.name for path in out.iterdir() if path.suffix != ".png"}
    assert files == {"manifest.jsonl", "metadata.jsonl", "contact_sheet.pdf"}
    assert ImageFolder(out).ignored == ("contact_sheet.pdf", "manifest.jsonl")


def test_which_images_are_translated(
    release: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("day_03.png\nday_01.png\n\n")
    record = answer(capsys, *translate(release, fitted, tmp_path / "1", "--ids", ids))
    assert record["made"] == 2
    sources = {sample.provenance.source_id for sample in ImageFolder(tmp_path / "1")}
    assert sources == {"day_01.png", "day_03.png"}
    known = ("--labels", "time_of_day", "--source-category", "night")
    assert answer(capsys, *translate(release, fitted, tmp_path / "2", *known))["made"] == COUNT
    assert (
        answer(capsys, *translate(release, fitted, tmp_path / "3", "--format", "jpeg"))["made"] == 2 * COUNT
    )
    assert len(list((tmp_path / "3").glob("*.jpg"))) == 2 * COUNT
    ids.write_text("day_03.png\nnowhere.png\n")
    assert "--ids: 1 are not in" in refused(capsys, *translate(release, fitted, tmp_path / "4", "--ids", ids))
    ids.write_bytes(b"\xff\xfe\xff")
    assert "ids.txt" in refused(capsys, *translate(release, fitted, tmp_path / "4", "--ids", ids), status=1)
    none = ("--labels", "time_of_day", "--source-category", "dusk")
    assert "it has day, night" in refused(capsys, *translate(release, fitted, tmp_path / "4", *none))
    assert not (tmp_path / "4").exists()


def test_a_second_run_keeps_what_is_there(
    release: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = ("--labels", "time_of_day")
    answer(capsys, *translate(release, fitted, tmp_path / "out", *known, "--count", "4"))
    assert main([*map(str, translate(release, fitted, tmp_path / "out", *known, "--count", "6"))]) == 0
    shown = capsys.readouterr().out
    fingerprint = ColourTranslator.load(fitted).fingerprint
    start = f"day_night, day to night by colour-statistics ({fingerprint[:12]}), seed 0: 6 made"
    assert shown.startswith(f"{start} (4 kept of an earlier run), 0 failed, in ")
    assert f"  folder: {tmp_path / 'out'}, to look at: {tmp_path / 'out' / 'contact_sheet.pdf'}\n" in shown
    line = refused(capsys, *translate(release, fitted, tmp_path / "out", *known, "--seed", "1"))
    assert "was made otherwise" in line
    assert "choose another folder" in line


def test_references_are_shown_and_judge(
    release: Path,
    folders: tuple[Path, Path],
    fitted: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = ("--labels", "time_of_day", "--reference", folders[1], "--repeats", "20")
    record = answer(capsys, *translate(release, fitted, tmp_path / "out", *known, "--judge"))
    assert record["verdict"]["kind"] == "sufficiency"
    assert record["verdict"]["counts"]["synthetic"] == COUNT
    # the twelve that it was fitted on do not judge
    assert record["verdict"]["counts"]["real uncovered"] == COUNT // 2
    assert all(sample.provenance.verdict is None for sample in ImageFolder(tmp_path / "out"))
    pages = (tmp_path / "out" / "contact_sheet.pdf").read_bytes()
    assert pages.startswith(b"%PDF")
    assert pages.count(b"/Type /Page\n") == 4  # 24 rows, six a page
    assert main([*map(str, translate(release, fitted, tmp_path / "out", *known, "--nearest", "pixels"))]) == 0
    assert "sufficiency" not in capsys.readouterr().out
    none = refused(capsys, *translate(release, fitted, tmp_path / "out", "--judge"))
    assert "--judge needs --reference" in none


def test_images_that_fitted_cannot_be_all_that_judges(
    folders: tuple[Path, Path], release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "all.safetensors"
    ColourTranslator.fit([], ImageFolder(folders[1]), method="statistics", semantic="day_night").save(path)
    options = ("--reference", folders[1], "--judge", "--nearest", "pixels")
    line = refused(capsys, *translate(release, path, tmp_path / "out", *options))
    assert "has learned from all --reference images, so none is left to judge by" in line
    assert not (tmp_path / "out").exists()


def test_failures_are_counted_by_reason(
    tmp_path: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for number in range(3):
        (broken / f"{number}.png").write_bytes(b"no image")
    scene = ("--translator", "scene:day_night:day>night")
    command = ("translate", broken, *scene, "--out", tmp_path / "out")
    record = answer(capsys, *command, status=1)
    assert (record["made"], list(record["failed"].values())) == (0, [3])
    assert record["contact_sheet"] is None
    assert main([*map(str, command)]) == 1
    assert "  3 failed: " in capsys.readouterr().out
    Image.new("RGB", (8, 8), "red").save(broken / "3.png")
    record = answer(capsys, *command, status=1)
    assert sum(record["failed"].values()) == 4
    assert any("not a rendered scene" in reason for reason in record["failed"])


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--translator", "magic@x"), "none of the valid forms"),
        (("--count", "0"), "count=0"),
        (("--batch-size", "0"), "--batch-size"),
        (("--out", "{release}/synthetic"), "lies among the data set's images"),
        (
            ("--reference", "{night}", "--out", "{night}/new", "--nearest", "pixels"),
            "lies among the data set's",
        ),
    ],
)
def test_translating_names_what_is_wrong(
    release: Path,
    folders: tuple[Path, Path],
    fitted: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    named: str,
) -> None:
    given = [each.format(release=release, night=folders[1]) for each in more]
    assert named in refused(capsys, *translate(release, fitted, tmp_path / "out", *given))
    assert not (tmp_path / "out").exists()
    assert not (folders[1] / "new").exists()
    missing = translate(release, tmp_path / "nowhere.safetensors", tmp_path / "out")
    assert "nowhere.safetensors" in refused(capsys, *missing, status=1)


SLOW = """
import sys, time
from pytest_semcov.translation.colour import ColourTranslator
quick = ColourTranslator._one
def slow(self, image, seed):
    time.sleep(0.05)
    return quick(self, image, seed)
ColourTranslator._one = slow
from pytest_semcov.cli import main
sys.exit(main(sys.argv[1:]))
"""


def begun(command: list[str], out: Path, lines: int) -> subprocess.Popen[str]:
    """Start a slow run and return it when its manifest has so many lines."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    end = time.monotonic() + 120
    manifest = out / "manifest.jsonl"
    while not manifest.exists() or manifest.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no image was made"
        time.sleep(0.01)
    return process


def images(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.png")}


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_a_killed_run_goes_on(
    release: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--labels", "time_of_day", "--batch-size", "1")
    answer(capsys, *translate(release, fitted, tmp_path / "whole", *more))
    whole = images(tmp_path / "whole")
    out = tmp_path / "out"
    command = [*map(str, translate(release, fitted, out, *more))]

    process = begun(command, out, 3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    done = images(out)
    assert 3 <= len(done) < COUNT
    assert done.items() <= whole.items()  # every image under its name is whole

    process = begun(command, out, len(done) + 4)
    process.send_signal(signal.SIGINT)
    shown = process.communicate(timeout=60)
    assert process.returncode == 130
    assert shown[0] == ""
    assert shown[1].count("\n") == 1
    assert "semcov translate: interrupted after " in shown[1]
    assert f"what is finished is kept in {out}: run the same command again to go on" in shown[1]
    more_done = images(out)
    assert len(done) + 3 <= len(more_done) < COUNT
    loaded = ImageFolder(out, labels="metadata")
    assert len(loaded) == len(more_done)
    assert not any(sample.real for sample in loaded)

    record = answer(capsys, *command)
    assert (record["made"], record["kept"]) == (COUNT, len(more_done))
    assert images(out) == whole
    assert not list(out.glob(".*"))
    rows = [
        sorted((folder / "metadata.jsonl").read_text().splitlines()) for folder in (out, tmp_path / "whole")
    ]
    assert rows[0] == rows[1]


def test_a_test_asserts_on_the_folder(release: Path, fitted: Path, pytester: pytest.Pytester) -> None:
    known = ("--labels", "time_of_day", "--batch-size", "8")
    assert main([*map(str, translate(release, fitted, pytester.path / "made", *known))]) == 0
    pytester.makepyfile(
        f"""
        import pytest
        from pytest_semcov import ImageFolder, VerdictFailed, assert_synthetic_sufficient

        def test_synthetic_night():
            release = ImageFolder({str(release)!r}, group="video")
            made = ImageFolder("made", labels="metadata")
            assert len(made) == {COUNT} and not any(sample.real for sample in made)
            assert len(release + made) == {3 * COUNT}
            with pytest.raises(VerdictFailed) as caught:
                assert_synthetic_sufficient(
                    made, real=release, semantic="day_night", uncovered="night", labels="time_of_day"
                )
            assert caught.value.verdict.counts["synthetic"] == {COUNT}
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
