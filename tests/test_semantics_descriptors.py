"""Descriptors, the catalogue and descriptor files."""

from __future__ import annotations

import copy
import pickle

import pytest

from pytest_semcov.errors import ArgumentError
from pytest_semcov.semantics.descriptors import BASE_SEMANTICS, Descriptor, catalogue, load_descriptors


def test_prompts_of_the_catalogue_are_the_phrases_alone() -> None:
    day_night = catalogue()["day_night"]
    for protocol in ("matched", "deduce"):
        assert day_night.prompts("day", protocol=protocol) == ("daytime",)
        assert day_night.prompts("night", protocol=protocol) == ("nighttime",)


def test_matched_prompts_join_four_parts_with_spaces_and_the_published_join_does_not() -> None:
    descriptor = Descriptor(
        "day_night",
        {"day": ("daytime",), "night": ("nighttime",)},
        object=("animal",),
        scene=("trailcam imagery",),
        additional=("clear sky",),
    )
    assert descriptor.prompts("day") == ("animal trailcam imagery daytime clear sky",)
    assert descriptor.prompts("day", protocol="deduce") == ("animaltrailcam imagery daytimeclear sky",)


def test_published_join_has_its_one_space_only_after_a_scene() -> None:
    categories = {"day": ("daytime",), "night": ("nighttime",)}
    assert Descriptor("a", categories, object=("car",)).prompts("day", protocol="deduce") == ("cardaytime",)
    assert Descriptor("a", categories, scene=("road",)).prompts("day", protocol="deduce") == ("road daytime",)
    assert Descriptor("a", categories, object=("car",)).prompts("day") == ("car daytime",)


def test_prompts_are_the_product_of_all_variants() -> None:
    descriptor = Descriptor(
        "weather",
        {"rain": ("rain", "drizzle"), "dry": ("dry",)},
        object=("car", "bus"),
        additional=("at noon", "at dusk", "at dawn"),
    )
    rain = descriptor.prompts("rain")
    assert len(rain) == 2 * 2 * 3 == len(set(rain))
    assert "bus drizzle at dusk" in rain
    assert len(descriptor.prompts("dry")) == 6


def test_catalogue_has_fifteen_semantics_with_correct_names() -> None:
    entries = catalogue()
    assert len(entries) == 15
    assert tuple(entries)[:8] == BASE_SEMANTICS
    assert all(name == descriptor.name for name, descriptor in entries.items())
    assert sum(len(entries[name].categories) for name in BASE_SEMANTICS) == 16
    assert {name: len(entry.categories) for name, entry in entries.items() if len(entry.categories) > 2} == {
        "time_of_day": 6,
        "weather": 6,
        "lighting": 8,
        "object_pose": 6,
    }
    assert entries["sharp_blurry"].categories["blurry"] == ("blurry unfocused soft motion blur hazy",)
    assert tuple(entries["noveg_veg"].categories) == ("no vegetation", "vegetation")


def test_catalogue_cannot_be_changed_through_what_it_returns() -> None:
    entries = catalogue()
    entries.clear()
    assert len(catalogue()) == 15
    with pytest.raises(TypeError):
        catalogue()["day_night"].categories["dusk"] = ("dusk",)  # type: ignore[index]


def test_one_phrase_may_be_given_as_a_text() -> None:
    assert Descriptor("a", {"x": "one", "y": ["two", "three"]}).categories == {  # type: ignore[dict-item]
        "x": ("one",),
        "y": ("two", "three"),
    }


def test_descriptor_is_a_value() -> None:
    descriptor = catalogue()["clear_fog"]
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor == copy.deepcopy(descriptor)
    assert hash(descriptor) == hash(copy.deepcopy(descriptor))


def test_from_labels_uses_each_label_as_its_phrase() -> None:
    descriptor = Descriptor.from_labels("season", ["winter", "summer", "winter"])
    assert descriptor.categories == {"summer": ("summer",), "winter": ("winter",)}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("x", {"only": ("one",)}), "two or more"),
        ((" ", {"a": ("1",), "b": ("2",)}), "white space"),
        (("day night", {"a": ("1",), "b": ("2",)}), "white space"),
        (("x", {"a": (), "b": ("2",)}), "'a'"),
        (("x", {"a": ("",), "b": ("2",)}), "'a'"),
        (("x", {"a": ("1", "1"), "b": ("2",)}), "twice"),
        (("x", {"a": ("same",), "b": ("same",)}), "'same'"),
        (("x", {"a": (7,), "b": ("2",)}), "7"),
        (("x", {"": ("1",), "b": ("2",)}), "category name"),
        (("x", ["a", "b"]), "list"),
    ],
)
def test_wrong_descriptors_are_one_clear_error(arguments: tuple, named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        Descriptor(*arguments)


def test_unknown_category_and_protocol_list_what_there_is() -> None:
    with pytest.raises(ArgumentError, match="'day', 'night'"):
        catalogue()["day_night"].prompts("dusk")
    with pytest.raises(ArgumentError, match="'matched', 'deduce'"):
        catalogue()["day_night"].prompts("day", protocol="published")


def test_descriptor_file_round_trip(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[fog_level]\nscene = ["harbour", "open sea"]\n'
        '[fog_level.categories]\nclear = "clear air"\nfog = ["thick fog", "dense mist"]\n',
        encoding="utf-8",
    )
    found = load_descriptors(file)
    assert list(found) == ["fog_level"]
    assert found["fog_level"].prompts("fog") == (
        "harbour thick fog",
        "harbour dense mist",
        "open sea thick fog",
        "open sea dense mist",
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[a]\nphrases = 1\n", r"mine.toml, table \[a\]: unknown key 'phrases'; valid are 'categories'"),
        ("[a]\nscene = ['x']\n", r"table \[a\]: key 'categories' is missing"),
        ("[a.categories]\nx = 'one'\n", r"table \[a\]: descriptor 'a': need two or more"),
        ("[a.categories]\nx = 1\ny = 'two'\n", r"category 'x'"),
        ("a = 3\n", "'a' is not a table"),
        ("[a\n", "not valid TOML"),
        ("", "no semantic"),
    ],
)
def test_wrong_descriptor_files_name_file_table_and_key(tmp_path, text: str, named: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match=named) as caught:
        load_descriptors(file)
    assert "mine.toml" in str(caught.value)


def test_missing_descriptor_file_is_named(tmp_path) -> None:
    with pytest.raises(ArgumentError, match=r"nowhere\.toml"):
        load_descriptors(tmp_path / "nowhere.toml")
