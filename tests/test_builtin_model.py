"""The built-in image-text model: small, honest about itself, and right on scenes that it never saw."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_semcov import Embeddings, RenderedScenes, catalogue, load_encoder
from pytest_semcov.data.scenes import SCENE_SEMANTICS
from pytest_semcov.data.scenes_layout import OBJECT_CLASSES
from pytest_semcov.embedding import builtin
from pytest_semcov.errors import UnknownSemanticError
from pytest_semcov.semantics.labelling import label_zero_shot

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("builtin", device="cpu")


def encode(encoder, samples) -> Embeddings:
    prepared = [encoder.preprocess(sample.load()) for sample in samples]
    rows = [encoder.encode_images(prepared[start : start + 50]) for start in range(0, len(prepared), 50)]
    return Embeddings(
        np.concatenate(rows), tuple(sample.id for sample in samples), encoder.fingerprint, normalised=False
    )


@pytest.fixture(scope="module", params=[96, 64])
def fresh(request, encoder):
    """Scenes of a seed that neither training nor card used, with their embeddings."""
    scenes = RenderedScenes(300, seed=5_000_000 + request.param, size=request.param)
    return scenes, encode(encoder, scenes)


def right(encoder, embeddings, scenes, semantic) -> np.ndarray:
    labels = label_zero_shot(embeddings, encoder, catalogue()[semantic])
    names = np.array([*labels.categories, "uncertain"])
    return names[labels.codes] == np.array(scenes.column(semantic))


def test_files_are_small_and_there():
    assert builtin.weights_path().stat().st_size <= 12_000_000
    assert builtin.card()["size_bytes"] == builtin.weights_path().stat().st_size
    assert builtin.config_path().name == "semcov_builtin.json"
    assert (builtin.card_path().parent / "MODEL_CARD.md").is_file()


def test_helpers_import_nothing_heavy():
    code = (
        "import sys; from pytest_semcov.embedding import builtin; builtin.card();"
        "print([name for name in ('torch', 'numpy', 'open_clip', 'PIL') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_card_covers_the_base_semantics():
    card = builtin.card()
    assert set(card["semantics"]) == set(SCENE_SEMANTICS)
    for semantic in SCENE_SEMANTICS:
        descriptor = catalogue()[semantic]
        assert list(card["semantics"][semantic]) == list(descriptor.categories)
        for category, phrases in descriptor.categories.items():
            assert set(phrases) <= set(card["semantics"][semantic][category])
            error = card["label_error"][semantic][category]
            for hits, total in (error["recall"], error["specificity"]):
                assert 0 <= hits <= total
            assert error["source"]
    assert {"size", "mean", "std", "interpolation", "resize_mode"} <= set(card["preprocess"])
    assert card["licence"] == "Apache-2.0"
    assert all("train_builtin_model.py" in command for command in card["training"]["commands"])


def test_card_claims_what_it_must():
    card = builtin.card()
    for semantic, (correct, total) in card["nearest_category_right"].items():
        assert total >= 1000
        assert correct / total >= 0.95, semantic
        assert card["accuracy"][semantic][0] / total >= 0.94, semantic  # uncertain counts as wrong


@pytest.mark.parametrize("semantic", SCENE_SEMANTICS)
def test_accuracy_on_fresh_scenes(encoder, fresh, semantic):
    scenes, embeddings = fresh
    labels = label_zero_shot(embeddings, encoder, catalogue()[semantic])
    nearest = np.array(labels.categories)[labels.top] == np.array(scenes.column(semantic))

    assert nearest.mean() >= 0.95
    assert right(encoder, embeddings, scenes, semantic).mean() >= 0.93  # uncertain counts as wrong


def test_card_agrees_with_a_recomputation(encoder):
    scenes = RenderedScenes(200, seed=900_001 + 96, size=96)
    embeddings = encode(encoder, scenes)
    for semantic, correct in builtin.card()["held_out"]["first_200_right"].items():
        # Another machine's arithmetic may turn an image that is nearly uncertain.
        assert abs(int(right(encoder, embeddings, scenes, semantic).sum()) - correct) <= 1


@pytest.mark.parametrize("category", ["day", "night"])
def test_card_agrees_on_photographs(encoder, day_night_folder, category):
    from pytest_semcov import ImageList

    paths = sorted((day_night_folder / "train" / category).iterdir())
    labels = label_zero_shot(encode(encoder, ImageList(paths)), encoder, catalogue()["day_night"])
    counted = builtin.card()["photographs"]["day_night"]["confusion"][category]
    assert sum(counted.values()) == len(paths)
    names = np.array([*labels.categories, "uncertain"])[labels.codes]
    for name, count in counted.items():
        assert abs(int((names == name).sum()) - count) <= 2


def test_every_listed_phrase_works_alone(encoder, fresh):
    """A user may take any phrase of the card: night stays night in other words."""
    scenes, embeddings = fresh
    for semantic, categories in builtin.card()["semantics"].items():
        truth = np.array([list(categories).index(name) for name in scenes.column(semantic)])
        images = embeddings.array / np.linalg.norm(embeddings.array, axis=1, keepdims=True)
        texts = {category: encoder.encode_texts(list(phrases)) for category, phrases in categories.items()}
        unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in texts.values()]
        for number in range(max(map(len, unit))):
            pair = np.stack([rows[number % len(rows)] for rows in unit])
            assert ((images @ pair.T).argmax(axis=1) == truth).mean() >= 0.9, (semantic, number)


def test_unknown_semantic_gives_no_labels(encoder, fresh):
    _, embeddings = fresh
    with pytest.raises(UnknownSemanticError, match="clear_fog"):
        label_zero_shot(embeddings, encoder, catalogue()["clear_fog"])


def test_embedding_holds_more_than_the_conditions(encoder):
    """Object class and kind of place can be read from it linearly, and it has many directions."""
    from sklearn.linear_model import LogisticRegression

    scenes = RenderedScenes(600, seed=5_100_000, size=96, sharp_blurry="sharp", noflare_flare="no flare")
    array = encode(encoder, scenes).array
    array = array / np.linalg.norm(array, axis=1, keepdims=True)
    for column in ("label", "layout"):
        truth = np.array(scenes.column(column))
        probe = LogisticRegression(C=100.0, max_iter=2000).fit(array[:400], truth[:400])
        assert probe.score(array[400:], truth[400:]) >= 0.6, column  # four classes: chance is .25
    assert set(scenes.column("label")) == set(OBJECT_CLASSES)
    variances = np.linalg.svd(array - array.mean(axis=0), compute_uv=False) ** 2
    shares = variances / variances.sum()
    assert np.exp(-(shares * np.log(shares)).sum()) > 10


@pytest.mark.slow
def test_training_script_runs_from_end_to_end(tmp_path):
    sizes = {"--steps": 3, "--scenes": 60, "--batch": 8, "--held-out": 20, "--workers": 1}
    places = {"--cache": tmp_path / "scenes.npz", "--output": tmp_path / "model"}
    options = [str(part) for pair in {**sizes, **places}.items() for part in pair]
    command = [sys.executable, str(TOOLS / "train_builtin_model.py"), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {"semcov_builtin.json", "model.safetensors", "card.json", "MODEL_CARD.md"}
    trained = load_encoder(
        f"open_clip:{tmp_path}/model/semcov_builtin.json@{tmp_path}/model/model.safetensors", device="cpu"
    )
    assert np.isfinite(trained.encode_texts(["daytime"])).all()


def test_card_lists_what_the_training_script_teaches():
    spec = importlib.util.spec_from_file_location("builtin_model_words", TOOLS / "builtin_model_words.py")
    words = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(words)
    assert words.known_phrases() == builtin.card()["semantics"]
