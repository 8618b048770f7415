"""extract: order, duplicates, bad images, NaN, loading ahead, progress."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder, folder_dataset, write_images
from PIL import Image

from pytest_semcov.data.decoding import FileSource
from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.embedding.extraction import default_loader_threads, extract
from pytest_semcov.embedding.specs import load_embedder
from pytest_semcov.errors import ArgumentError, BadImagesError, ModelError, NonFiniteError


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    write_images(folder, 20)
    return folder


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """200 images, one of them truncated."""
    write_images(tmp_path / "images", 200, size=6)
    victim = tmp_path / "images" / "image0123.png"
    victim.write_bytes(victim.read_bytes()[:60])
    return tmp_path / "images"


def test_rows_are_normalised_and_in_the_order_of_the_data_set(images):
    dataset = folder_dataset(images).subset([7, 3, 19, 0])
    embeddings = extract(dataset, ColourEmbedder(), batch_size=3, loader_threads=2)
    assert embeddings.ids == ("image0007.png", "image0003.png", "image0019.png", "image0000.png")
    assert embeddings.array.dtype == np.float32
    for sample_id, row in zip(embeddings.ids, embeddings.array, strict=True):
        pixels = np.asarray(Image.open(images / sample_id), dtype=np.float64) / 255
        expected = np.concatenate([pixels.mean(axis=(0, 1)), pixels.std(axis=(0, 1)) + 0.1])
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), rtol=1e-5)
    assert (embeddings.name, embeddings.fingerprint, embeddings.trained) == ("colour", "colour-1", True)


def test_raw_rows_keep_their_length(images):
    embeddings = extract(folder_dataset(images), ColourEmbedder(), normalise=False)
    assert not embeddings.normalised
    assert not np.allclose(np.linalg.norm(embeddings.array, axis=1), 1)


def test_batches_have_the_size_that_was_asked_for(images):
    model = ColourEmbedder()
    extract(folder_dataset(images), model, batch_size=8)
    assert model.batches == [8, 8, 4]


def test_equal_images_are_computed_once(tmp_path):
    write_images(tmp_path, 3)
    for index in range(5):
        (tmp_path / f"image9{index}.png").write_bytes((tmp_path / "image0001.png").read_bytes())
    model = ColourEmbedder()
    embeddings = extract(folder_dataset(tmp_path), model)
    assert len(embeddings) == 8
    assert model.computed == 3
    np.testing.assert_array_equal(embeddings.rows(["image94.png"]), embeddings.rows(["image0001.png"]))


def test_empty_data_set_has_no_embeddings():
    embeddings = extract(SampleDataset([]), ColourEmbedder())
    assert len(embeddings) == 0
    assert embeddings.array.shape[0] == 0


def test_one_unreadable_image_among_200_is_named_and_nothing_else_is_lost(damaged, tmp_path):
    cache = EmbeddingCache(tmp_path / "cache")
    model = ColourEmbedder()
    with pytest.raises(BadImagesError) as caught:
        extract(folder_dataset(damaged), model, cache=cache)
    message = str(caught.value)
    assert message.startswith("1 of 200 images cannot be used (on_bad_image='skip' goes on without them):")
    assert f"image0123.png ({damaged / 'image0123.png'}): " in message
    assert model.computed == 199  # ... and kept
    again = ColourEmbedder()
    embeddings = extract(folder_dataset(damaged), again, cache=cache, on_bad_image="skip", max_bad_images=1)
    assert again.computed == 0
    assert len(embeddings) == 199
    assert np.isfinite(embeddings.array).all()
    np.testing.assert_allclose(np.linalg.norm(embeddings.array, axis=1), 1, rtol=1e-5)
    (bad,) = embeddings.skipped
    assert (bad.sample_id, bad.path) == ("image0123.png", str(damaged / "image0123.png"))
    assert bad.rule
    assert bad.remedy


def test_more_bad_images_than_allowed(tmp_path):
    write_images(tmp_path, 20)
    for index in range(12):
        (tmp_path / f"image00{index:02d}.png").write_bytes(b"broken %d" % index)
    with pytest.raises(BadImagesError) as caught:
        extract(folder_dataset(tmp_path), ColourEmbedder(), on_bad_image="skip", max_bad_images=11)
    lines = str(caught.value).splitlines()
    assert lines[0] == "12 of 20 images cannot be used, more than max_bad_images=11:"
    assert len(lines) == 12
    assert lines[-1].strip() == "... and 2 more"


def test_every_copy_of_a_bad_image_is_named(tmp_path):
    write_images(tmp_path, 2)
    for name in ("x.png", "y.png"):
        (tmp_path / name).write_bytes(b"broken")
    embeddings = extract(folder_dataset(tmp_path), ColourEmbedder(), on_bad_image="skip")
    assert [(bad.sample_id, bad.path) for bad in embeddings.skipped] == [
        ("x.png", str(tmp_path / "x.png")),
        ("y.png", str(tmp_path / "y.png")),
    ]


def test_missing_file_is_a_bad_image(images):
    lost = Sample("lost.png", FileSource(images / "lost.png"))
    embeddings = extract(
        folder_dataset(images) + SampleDataset([lost]), ColourEmbedder(), on_bad_image="skip"
    )
    assert [bad.sample_id for bad in embeddings.skipped] == ["lost.png"]


def test_nothing_but_bad_images_is_an_error_even_when_skipping(tmp_path):
    (tmp_path / "a.png").write_bytes(b"broken")
    with pytest.raises(BadImagesError, match=r"1 of 1 images cannot be used, so there is nothing to judge"):
        extract(folder_dataset(tmp_path), ColourEmbedder(), on_bad_image="skip")


class Poisoned(ColourEmbedder):
    """Gives a bad value for one image, told by its pixels."""

    def __init__(self, victim: np.ndarray, value: float):
        super().__init__()
        self.victim = victim.astype(np.float32) / 255
        self.value = value

    def embed(self, batch):
        rows = super().embed(batch)
        for row, image in zip(rows, batch, strict=True):
            if np.array_equal(image, self.victim):
                row[:] = 0 if self.value == 0 else row
                row[2] = self.value
        return rows


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
@pytest.mark.parametrize("on_bad_image", ["fail", "skip"])
def test_image_with_nan_is_named_and_never_a_row(images, value, on_bad_image):
    dataset = folder_dataset(images)
    model = Poisoned(np.asarray(Image.open(images / "image0003.png")), value)
    cache = EmbeddingCache(None)
    with pytest.raises(NonFiniteError) as caught:
        extract(dataset, model, cache=cache, on_bad_image=on_bad_image, batch_size=4)
    assert str(caught.value).splitlines() == [
        "colour gives NaN, infinity or a zero vector for 1 of 20 images:",
        f"  image0003.png ({images / 'image0003.png'})",
    ]
    good = ColourEmbedder()
    extract(dataset.subset([i for i in range(20) if i != 3]), good, cache=cache)
    assert good.computed == 0


@pytest.mark.parametrize("rows", [np.ones(3), np.ones((2, 3)), np.ones((4, 3, 1))])
def test_rows_of_the_wrong_shape_are_the_models_fault(images, rows):
    model = ColourEmbedder()
    model.embed = lambda batch: rows
    with pytest.raises(
        ModelError, match=r"colour gives an array of shape .* for 4 images; needed is \(4, d\)"
    ):
        extract(folder_dataset(images), model, batch_size=4)


def test_model_may_hand_out_one_buffer_again_and_again(images):
    buffer = np.empty((4, 6), np.float32)

    class Reusing(ColourEmbedder):
        def embed(self, batch):
            buffer[:] = super().embed(batch)
            return buffer

    expected = extract(folder_dataset(images), ColourEmbedder(), batch_size=4)
    np.testing.assert_array_equal(
        extract(folder_dataset(images), Reusing(), batch_size=4).array, expected.array
    )


def test_loading_goes_on_while_the_model_runs(images):
    """The first call of the model returns only when an image of the next batch has been loaded."""
    loaded = threading.Semaphore(0)

    class Waiting(ColourEmbedder):
        def preprocess(self, image):
            loaded.release()
            return super().preprocess(image)

        def embed(self, batch):
            if not self.batches:
                assert all(loaded.acquire(timeout=20) for _ in range(2 * len(batch) - 1))
            return super().embed(batch)

    extract(folder_dataset(images), Waiting(), batch_size=4, loader_threads=1)


def test_loading_does_not_run_away_from_the_model(images):
    waiting = [0]
    most = [0]
    lock = threading.Lock()

    class Counting(ColourEmbedder):
        def preprocess(self, image):
            with lock:
                waiting[0] += 1
                most[0] = max(most[0], waiting[0])
            return super().preprocess(image)

        def embed(self, batch):
            with lock:
                waiting[0] -= len(batch)
            return super().embed(batch)

    extract(folder_dataset(images), Counting(), batch_size=2, loader_threads=4)
    assert most[0] <= 6


def test_fault_in_preprocessing_names_the_image(images):
    model = ColourEmbedder()

    def preprocess(image):
        raise TypeError("wrong")

    model.preprocess = preprocess
    with pytest.raises(TypeError, match="wrong") as caught:
        extract(folder_dataset(images), model)
    assert caught.value.__notes__ == ["while loading image 'image0000.png'"]


def test_progress_counts_distinct_images_up_to_all_of_them(images):
    calls = []
    cache = EmbeddingCache(None)
    extract(folder_dataset(images).subset(range(5)), ColourEmbedder(), cache=cache)
    extract(
        folder_dataset(images),
        ColourEmbedder(),
        cache=cache,
        batch_size=10,
        progress=lambda *call: calls.append(call),
    )
    assert {what for what, _, _ in calls} == {"embedding with colour"}
    assert {total for _, _, total in calls} == {20}
    done = [count for _, count, _ in calls]
    assert done[0] == 5
    assert done[-1] == 20
    assert done == sorted(done)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "images"},
        {"kind": "encode"},
        {"batch_size": 0},
        {"loader_threads": 0},
        {"on_bad_image": "ignore"},
        {"max_bad_images": -1},
    ],
)
def test_wrong_arguments_are_named(images, wrong):
    (name,) = wrong
    with pytest.raises(ArgumentError, match=name):
        extract(folder_dataset(images), ColourEmbedder(), **wrong)


def test_threads_by_default():
    assert 1 <= default_loader_threads() <= 4


def test_function_without_version_is_kept_in_memory_only(images, tmp_path):
    calls = []

    def brightness(batch):
        calls.extend(batch)
        return [[np.asarray(image).mean(), 1.0] for image in batch]

    cache = EmbeddingCache(tmp_path / "cache")
    model = load_embedder(brightness)
    extract(folder_dataset(images), model, cache=cache)
    extract(folder_dataset(images), model, cache=cache)
    assert len(calls) == 20
    assert not (tmp_path / "cache").exists()


def test_large_jpeg_is_decoded_at_reduced_scale(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    small = Image.fromarray(generator.integers(0, 256, (30, 40, 3), dtype=np.uint8))
    small.resize((2400, 1800), Image.Resampling.BICUBIC).save(tmp_path / "large.jpg", quality=90)
    sizes = []

    class Thumbnail(ColourEmbedder):
        def preprocess(self, image):
            sizes.append(image.size)
            return np.asarray(image.resize((48, 48), Image.Resampling.BICUBIC), np.float32) / 255

        def embed(self, batch):
            return np.stack([image.reshape(-1) for image in batch])

    model = Thumbnail()
    full = extract(folder_dataset(tmp_path), model)
    model.input_size = 48
    reduced = extract(folder_dataset(tmp_path), model)
    assert sizes == [(2400, 1800), (300, 225)]  # an eighth: the shorter side stays above 48 pixels
    assert float(full.array[0] @ reduced.array[0]) > 0.9995
