"""Settings: defaults, checks, overrides, and how written values are read."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_semcov.errors import ArgumentError
from pytest_semcov.options import MARKERS
from pytest_semcov.settings import RULES, Settings


def test_every_field_has_a_rule_and_a_line_of_documentation():
    names = [item.name for item in fields(Settings)]
    assert list(RULES) == names
    assert [name for name in names if name not in (Settings.__doc__ or "")] == []


def test_settings_are_frozen_and_become_plain_json():
    settings = Settings(cache_dir=Path("cache"), descriptors=(Path("a.toml"),), labels={"day_night": "label"})
    with pytest.raises(FrozenInstanceError):
        settings.seed = 3  # type: ignore[misc]
    read_back = json.loads(json.dumps(settings.to_dict()))
    assert read_back["cache_dir"] == "cache"
    assert read_back["descriptors"] == ["a.toml"]
    assert read_back["labels"] == {"day_night": "label"}
    assert set(read_back) == set(RULES)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("seed", -1, "a whole number ≥ 0"),
        ("seed", 1.5, "a whole number ≥ 0"),
        ("seed", True, "a whole number ≥ 0"),
        ("seed", "3", "a whole number ≥ 0"),
        ("min_share", math.nan, "a number from 0 to 1"),
        ("min_share", 1.01, "a number from 0 to 1"),
        ("min_lift", math.inf, "a number ≥ 0"),
        ("min_lift", "1.5", "a number ≥ 0"),
        ("inconclusive", "ignore", "fail, skip, xfail"),
        ("protocol", None, "matched, deduce"),
        ("device", "gpu", "device that models run on: auto, cpu, cuda, cuda:N or mps"),
        ("encoder", "  ", "text"),
        ("junit", "yes", "true, false"),
        ("labels", {"day_night": ""}, "lines of the form name = value, each name once"),
        ("labels", ["day_night"], "lines of the form name = value, each name once"),
        ("descriptors", "one.toml", "paths, one a line"),
        ("report", "", "a path"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(name, value, allowed):
    with pytest.raises(ArgumentError) as caught:
        Settings(**{name: value})
    assert str(caught.value) == f"Settings({name}=...): {value!r} is not allowed; allowed: {allowed}"


def test_values_are_brought_to_their_types():
    settings = Settings(
        seed=np.int64(7), min_share=np.float32(0.5), cache_dir="there", descriptors=["a.toml"], min_lift=2
    )
    assert type(settings.seed) is int
    assert type(settings.min_share) is float
    assert type(settings.min_lift) is float
    assert settings.cache_dir == Path("there")
    assert settings.descriptors == (Path("a.toml"),)


def test_override_changes_what_is_given_and_nothing_else():
    settings = Settings(seed=4, min_count=20)
    assert settings.override({"min_count": None}) == settings
    changed = settings.override({"min_count": 0, "min_share": 0.0})
    assert (changed.seed, changed.min_count, changed.min_share) == (4, 0, 0.0)
    with pytest.raises(
        ArgumentError, match=r"^marker semcov: unknown argument 'min_counts'; there are encoder, "
    ):
        settings.override({"min_counts": 1}, where="marker semcov")
    with pytest.raises(ArgumentError, match=r"^marker semcov, seed: 'x' is not allowed"):
        settings.override({"seed": "x"}, where="marker semcov")


@given(st.integers(-5, 2000))
def test_numbers_are_read_from_text_within_their_bounds(number):
    rule = RULES["repeats"]
    if number >= 20:
        assert rule.read(f" {number} ", where="x", folder=Path()) == number
    else:
        with pytest.raises(ArgumentError, match="a whole number ≥ 20"):
            rule.read(str(number), where="x", folder=Path())


@given(st.floats(0, 1))
def test_a_share_survives_being_written_down(share):
    assert RULES["min_share"].read(repr(share), where="x", folder=Path()) == share


@pytest.mark.parametrize("text", ["", "nan", "inf", "0,5", "half", "1.5"])
def test_what_is_no_share_is_refused_as_written(text):
    with pytest.raises(ArgumentError, match=f"^semcov_min_share: .*{text}"):
        RULES["min_share"].read(text, where="semcov_min_share", folder=Path())


def test_relative_paths_belong_to_the_folder_of_whoever_wrote_them(tmp_path):
    def read(name, text):
        return RULES[name].read(text, where=name, folder=tmp_path)

    assert read("report", "out/semcov report.json") == tmp_path / "out" / "semcov report.json"
    assert read("report", str(tmp_path / "x.json")) == tmp_path / "x.json"
    assert read("cache_dir", "~/cache") == Path.home() / "cache"
    assert read("descriptors", ["a.toml", "", "b c.toml"]) == (tmp_path / "a.toml", tmp_path / "b c.toml")
    assert read("embedder", "timm:resnet18@weights/r18.bin") == f"timm:resnet18@{tmp_path}/weights/r18.bin"
    assert read("encoder", "open_clip:ViT-B-32/laion2b_s34b_b79k") == "open_clip:ViT-B-32/laion2b_s34b_b79k"
    assert read("encoder", "open_clip:ours.json@w.bin") == f"open_clip:ours.json@{tmp_path}/w.bin"
    (tmp_path / "ours.json").write_text("{}")
    (tmp_path / "w.bin").write_text("")
    assert read("encoder", "open_clip:ours.json@w.bin") == f"open_clip:{tmp_path}/ours.json@{tmp_path}/w.bin"
    assert read("embedder", "timm:a@b@w.bin") == f"timm:a@b@{tmp_path}/w.bin"
    assert read("embedder", "timm:a@") == "timm:a@"
    assert read("translators", ["n = colour@n.npz", "s = scene:day_night:day>night"]) == {
        "n": f"colour@{tmp_path}/n.npz",
        "s": "scene:day_night:day>night",
    }


def test_tables_are_lines_of_names_and_values(tmp_path):
    rule = RULES["labels"]
    lines = ["day_night = label", "clear_rain=weather = now"]
    assert rule.read(lines, where="x", folder=tmp_path) == {
        "day_night": "label",
        "clear_rain": "weather = now",
    }
    for wrong in ("day_night", "= label", "day_night ="):
        with pytest.raises(
            ArgumentError, match=r"^x: .* is not allowed; allowed: lines of the form name = value"
        ):
            rule.read([wrong], where="x", folder=tmp_path)
    with pytest.raises(ArgumentError, match="each name once"):
        rule.read(["a = b", "a = c"], where="x", folder=tmp_path)


def test_markers_take_what_belongs_to_a_test_and_not_what_belongs_to_the_run():
    assert {"min_count", "protocol", "inconclusive", "embedder"} <= set(MARKERS["semcov"])
    assert not {"report", "cache_dir", "device", "junit", "export"} & set(MARKERS["semcov"])
