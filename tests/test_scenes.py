"""Rendered scenes: the ground truth that they claim."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_semcov import ArgumentError, RenderedScenes
from pytest_semcov.data import scenes as scenes_module
from pytest_semcov.data.scenes import SCENE_INFO, SCENE_SEMANTICS, SceneSpec, render
from pytest_semcov.semantics.descriptors import catalogue

PLAIN = {semantic: categories[0] for semantic, categories in SCENE_SEMANTICS.items()}
SPECS = st.builds(
    SceneSpec,
    seed=st.integers(0, 2**63 - 1),
    moment=st.integers(0, 2**63 - 1),
    size=st.integers(48, 100),
    **{semantic: st.sampled_from(categories) for semantic, categories in SCENE_SEMANTICS.items()},
)


def grey(spec: SceneSpec) -> np.ndarray:
    return np.asarray(render(spec).convert("L"), dtype=float)


def laplacian_variance(pixels: np.ndarray) -> float:
    inner = pixels[1:-1, 1:-1]
    around = pixels[:-2, 1:-1] + pixels[2:, 1:-1] + pixels[1:-1, :-2] + pixels[1:-1, 2:]
    return float((around - 4 * inner).var())


def test_names_are_those_of_the_catalogue():
    known = catalogue()
    for semantic, categories in SCENE_SEMANTICS.items():
        assert tuple(known[semantic].categories) == categories


@settings(max_examples=40, deadline=None)
@given(SPECS)
def test_any_spec_renders_with_its_boxes_inside(spec: SceneSpec):
    image = render(spec)
    assert image.size == (spec.size, spec.size)
    assert image.mode == "RGB"
    pixels = np.asarray(image)
    assert pixels.std() > 1
    boxes = spec.boxes()
    assert 1 <= len(boxes) <= 4
    for box in boxes:
        assert box.label in ("car", "truck", "person", "deer")
        assert 0 <= box.x0 < box.x1 <= spec.size
        assert 0 <= box.y0 < box.y1 <= spec.size
    areas = [(box.x1 - box.x0) * (box.y1 - box.y0) for box in boxes]
    assert max(areas) == areas[0] >= 0.01 * spec.size**2


@settings(max_examples=25, deadline=None)
@given(SPECS, st.sampled_from(sorted(SCENE_SEMANTICS)), st.booleans())
def test_another_category_keeps_geometry_and_changes_pixels(spec: SceneSpec, semantic: str, second: bool):
    one, other = SCENE_SEMANTICS[semantic][:: 1 if second else -1]
    before, after = spec.with_category(semantic, one), spec.with_category(semantic, other)
    assert before.boxes() == after.boxes() == spec.boxes()
    assert before.layout == after.layout
    assert {key: value for key, value in before.categories.items() if key != semantic} == {
        key: value for key, value in after.categories.items() if key != semantic
    }
    assert before.content_key() != after.content_key()
    assert not np.array_equal(np.asarray(render(before)), np.asarray(render(after)))
    assert after.with_category(semantic, one) == before


@settings(max_examples=25, deadline=None)
@given(SPECS)
def test_spec_travels_in_the_image(spec: SceneSpec):
    image = render(spec)
    assert SceneSpec.from_json(image.info[SCENE_INFO]) == spec
    assert set(json.loads(image.info[SCENE_INFO])) == {"seed", "moment", "size", *SCENE_SEMANTICS}


def test_rendering_depends_on_the_spec_alone():
    spec = SceneSpec(12, 5, 64, day_night="night", clear_rain="rain")
    first = np.asarray(render(spec))
    for sample in RenderedScenes(5, seed=3):
        sample.load()
    np.random.default_rng(0).random()
    assert np.array_equal(first, np.asarray(render(spec)))
    code = (
        "import hashlib, numpy as np; from pytest_semcov.data.scenes import SceneSpec, render;"
        "spec = SceneSpec(12, 5, 64, day_night='night', clear_rain='rain');"
        "print(hashlib.sha256(np.asarray(render(spec)).tobytes()).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == hashlib.sha256(first.tobytes()).hexdigest()


@pytest.mark.parametrize("label", ["car", "truck", "person", "deer"])
@pytest.mark.parametrize("size", [64, 96])
def test_boxes_are_exact(monkeypatch: pytest.MonkeyPatch, label: str, size: int):
    """What changes when the objects are left out fills their boxes and touches every side."""
    from pytest_semcov.data import scenes_layout

    things_of = scenes_layout.things_of
    checked = 0
    for seed in range(400):
        things = things_of(seed, 0)
        if things[0].label != label:
            continue
        monkeypatch.setattr(scenes_layout, "things_of", lambda *_, only=things[0]: (only,))
        spec = SceneSpec(seed, 0, size)
        with_object = np.asarray(render(spec), dtype=int)
        (box,) = spec.boxes()
        monkeypatch.setattr(scenes_layout, "things_of", lambda *_: ())
        changed = np.abs(with_object - np.asarray(render(spec), dtype=int)).max(axis=2) > 0
        monkeypatch.undo()
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        assert columns[0] >= np.floor(box.x0)
        assert columns[-1] < np.ceil(box.x1)
        assert rows[0] >= np.floor(box.y0)
        assert rows[-1] < np.ceil(box.y1)
        # A side's pixels may happen to have the background's colour, but never a broad margin of them.
        assert columns[0] - box.x0 <= 1.5
        assert box.x1 - columns[-1] <= 2.5
        assert rows[0] - box.y0 <= 1.5
        assert box.y1 - rows[-1] <= 2.5
        checked += 1
        if checked == 12:
            return
    pytest.fail(f"only {checked} scenes with a {label} as main object")


def paired(semantic: str, count: int = 40, **fixed: str) -> list[tuple[np.ndarray, np.ndarray]]:
    one, other = SCENE_SEMANTICS[semantic]
    scenes = RenderedScenes(count, seed=21, size=64, **{**PLAIN, **fixed})
    return [
        (
            grey(scenes.spec(index).with_category(semantic, one)),
            grey(scenes.spec(index).with_category(semantic, other)),
        )
        for index in range(count)
    ]


def surface(spec: SceneSpec) -> np.ndarray:
    """What is painted before light, weather and noise; without objects."""
    from pytest_semcov.data.scenes_layout import place_of
    from pytest_semcov.data.scenes_paint import paint

    canvas = paint(spec.size, spec.seed, place_of(spec.seed), spec.categories, (0.8, 0.8, 0.8))
    return np.asarray(canvas.surface, dtype=int)


@pytest.mark.parametrize(
    ("fixed", "semantic"),
    [
        ({"nodamage_damage": "damage"}, "lowdense_highdense"),
        ({"summer_winter": "winter"}, "noveg_veg"),
        ({"summer_winter": "winter"}, "nodamage_damage"),
        ({"noveg_veg": "vegetation"}, "clear_rain"),
    ],
)
def test_what_a_category_does_not_mean_stays(fixed: dict[str, str], semantic: str):
    """The road before the camera looks the same, except where something new stands on it."""
    scenes = RenderedScenes(30, seed=31, size=64, **{**PLAIN, **fixed})
    same = []
    for index in range(30):
        one, other = (
            surface(scenes.spec(index).with_category(semantic, name))[-16:]
            for name in SCENE_SEMANTICS[semantic]
        )
        road = np.abs(one - other).max(axis=2)[:, 44:84]
        same.append((road == 0).mean())
    assert np.median(same) > 0.5


def test_night_is_darker():
    pairs = paired("day_night")
    assert all(night.mean() < 0.8 * day.mean() for day, night in pairs)
    # and varied: some nights are lit nearly as brightly as dull days, some are nearly black
    nights = [night.mean() for _, night in pairs]
    assert min(nights) < 30
    assert max(nights) > 60


def test_blurry_has_less_detail():
    for weather in ("clear", "rain"):
        for light in ("day", "night"):
            pairs = paired("sharp_blurry", 15, clear_rain=weather, day_night=light)
            assert all(
                laplacian_variance(blurry) < 0.6 * laplacian_variance(sharp) for sharp, blurry in pairs
            )


def test_flare_overexposes():
    pairs = paired("noflare_flare")
    gain = [(flare > 250).mean() - (plain > 250).mean() for plain, flare in pairs]
    assert np.mean(gain) > 0.02
    assert np.mean([share > 0 for share in gain]) > 0.95


def test_winter_brightens_the_ground():
    pairs = paired("summer_winter")
    assert np.mean([winter[40:].mean() > summer[40:].mean() + 10 for summer, winter in pairs]) > 0.95


def test_rain_takes_colour_and_contrast():
    scenes = RenderedScenes(40, seed=22, size=64, **PLAIN)

    def colourfulness(spec: SceneSpec) -> float:
        pixels = np.asarray(render(spec), dtype=float)
        return float((pixels.max(axis=2) - pixels.min(axis=2)).mean())

    fewer = [
        colourfulness(scenes.spec(index).with_category("clear_rain", "rain"))
        < colourfulness(scenes.spec(index))
        for index in range(40)
    ]
    assert np.mean(fewer) > 0.95


def test_vegetation_is_green():
    scenes = RenderedScenes(40, seed=23, size=64, **PLAIN)

    def greenness(spec: SceneSpec) -> float:
        red, green, blue = np.asarray(render(spec), dtype=float).mean(axis=(0, 1))
        return float(2 * green - red - blue)

    gains = [
        greenness(scenes.spec(index).with_category("noveg_veg", "vegetation")) - greenness(scenes.spec(index))
        for index in range(40)
    ]
    assert min(gains) > 0
    assert np.mean(gains) > 15


@pytest.mark.parametrize("semantic", ["nodamage_damage", "lowdense_highdense"])
def test_structures_change_a_visible_part(semantic: str):
    for one, other in paired(semantic):
        assert (np.abs(one - other) > 12).mean() > 0.02


def test_a_longer_dataset_begins_with_the_shorter_one():
    mix = {"day_night": {"day": 0.9, "night": 0.1}}
    short, long = RenderedScenes(37, seed=4, mix=mix), RenderedScenes(90, seed=4, mix=mix)
    assert [sample.content_key() for sample in short] == [sample.content_key() for sample in long][:37]
    assert short.ids == long.ids[:37]
    assert short.column("group") == long.column("group")[:37]


def test_other_seeds_give_other_scenes():
    keys = {sample.content_key() for seed in range(3) for sample in RenderedScenes(50, seed=seed)}
    assert len(keys) == 150


def test_mix_is_kept_and_independent():
    mix = {"day_night": {"day": 0.9, "night": 0.1}, "clear_rain": {"clear": 0.7, "rain": 0.3}}
    scenes = RenderedScenes(2000, seed=0, mix=mix, summer_winter="winter")
    columns = {semantic: np.array(scenes.column(semantic)) for semantic in SCENE_SEMANTICS}
    assert (columns["day_night"] == "night").sum() == 200
    assert (columns["clear_rain"] == "rain").sum() == 600
    assert (columns["summer_winter"] == "winter").all()
    assert (columns["noveg_veg"] == "vegetation").sum() == 1000
    first = [(column[:20] == SCENE_SEMANTICS[semantic][1]).sum() for semantic, column in columns.items()]
    assert first == [2, 6, 20, 10, 10, 10, 10, 10]
    free = [column == SCENE_SEMANTICS[name][1] for name, column in columns.items() if name != "summer_winter"]
    correlation = np.corrcoef(np.array(free, dtype=float)) - np.eye(len(free))
    assert np.abs(correlation).max() < 0.1  # 2,000 independent draws: standard error .022


def test_mix_does_not_touch_other_semantics():
    plain, mixed = RenderedScenes(60, seed=9), RenderedScenes(60, seed=9, mix={"clear_rain": {"clear": 1.0}})
    for semantic in SCENE_SEMANTICS:
        if semantic != "clear_rain":
            assert plain.column(semantic) == mixed.column(semantic)
    assert plain.column("label") == mixed.column("label")


def test_samples_say_what_they_show():
    scenes = RenderedScenes(30, seed=2, size=48, scenes_per_group=5)
    for index, sample in enumerate(scenes):
        spec = SceneSpec.from_json(sample.load().info[SCENE_INFO])
        assert spec == scenes.spec(index)
        assert {key: sample.metadata[key] for key in SCENE_SEMANTICS} == spec.categories
        assert sample.label == sample.boxes[0].label
        assert sample.boxes == spec.boxes()
        assert sample.content_key() == spec.content_key()
        assert sample.path is None
    groups = scenes.column("group")
    assert len(set(groups)) == 6
    assert all(len({scenes.spec(i).seed for i in range(30) if groups[i] == group}) == 1 for group in groups)
    assert len({scenes.spec(i).moment for i in range(30)}) == 30
    assert len(set(RenderedScenes(30, seed=2).column("group"))) == 30


def test_two_datasets_of_one_seed_can_be_joined():
    day, night = (
        RenderedScenes(3, seed=1, id_prefix=f"{name}/", day_night=name) for name in ("day", "night")
    )
    assert (day + night).ids[::3] == ("day/scene-1-000000", "night/scene-1-000000")


def test_classes_and_layouts_are_all_there():
    scenes = RenderedScenes(400, seed=6)
    assert RenderedScenes(0).classes == scenes.classes == ("car", "truck", "person", "deer")
    for column, kinds in (("label", 4), ("layout", 4)):
        names, counts = np.unique(np.array(scenes.column(column)), return_counts=True)
        assert len(names) == kinds
        assert counts.min() > 60


def test_small_scenes_are_rendered_once_and_handed_out_as_copies(monkeypatch: pytest.MonkeyPatch):
    rendered = []

    def counted(spec: SceneSpec):
        rendered.append(spec)
        return render(spec)

    monkeypatch.setattr(scenes_module, "render", counted)
    small, large = RenderedScenes(2, seed=991, size=64), RenderedScenes(1, seed=991, size=65)

    first = small[0].load()
    wanted = np.asarray(first).copy()
    first.paste((255, 0, 0), (0, 0, 64, 64))
    first.info.clear()
    again = small[0].load()

    np.testing.assert_array_equal(np.asarray(again), wanted)
    assert SceneSpec.from_json(again.info[SCENE_INFO]) == small.spec(0)
    assert rendered == [small.spec(0)]
    large[0].load(), large[0].load()
    assert rendered[1:] == [large.spec(0)] * 2


def test_nothing_is_rendered_for_keys_and_labels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scenes_module, "render", lambda spec: pytest.fail("rendered"))
    scenes = RenderedScenes(20, seed=1)
    assert scenes.fingerprint() == RenderedScenes(20, seed=1).fingerprint()
    assert scenes.fingerprint() != RenderedScenes(20, seed=1, size=96).fingerprint()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"count": -1}, "count"),
        ({"count": 3, "size": 4}, "size"),
        ({"count": 3, "seed": -2}, "seed"),
        ({"count": 3, "day_night": "dusk"}, "'day' and 'night'"),
        ({"count": 3, "fog": "fog"}, "lowdense_highdense"),
        ({"count": 3, "mix": {"day_night": {"day": 0.9, "night": 0.2}}}, "1.1"),
        ({"count": 3, "mix": {"day_night": {"day": 1.5, "night": -0.5}}}, "0 to 1"),
        ({"count": 3, "mix": {"day_night": {"day": float("nan")}}}, "0 to 1"),
        ({"count": 3, "mix": {"day_night": {"day": 1.0}}, "day_night": "day"}, "both"),
        ({"count": 3, "scenes_per_group": 0}, "scenes_per_group"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict, words: str):
    with pytest.raises(ArgumentError, match=words):
        RenderedScenes(**arguments)


@pytest.mark.parametrize("text", ["", "[]", '{"seed": "x"}', '{"seed": 1, "colour": 2}', '{"seed": true}'])
def test_a_foreign_text_is_no_spec(text: str):
    with pytest.raises(ArgumentError, match="scene"):
        SceneSpec.from_json(text)
