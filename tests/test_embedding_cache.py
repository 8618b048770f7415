"""The embedding cache: one process, many processes, killed processes, damaged files."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder, folder_dataset, write_images

from pytest_semcov.embedding import cache_database
from pytest_semcov.embedding.cache import EmbeddingCache, default_cache_dir
from pytest_semcov.embedding.cache_database import Database
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.embedding.processes import Holder, host_identity, this_process
from pytest_semcov.errors import ModelError, SemcovWarning

STUBS = Path(__file__).parent / "embedding_stubs.py"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    write_images(tmp_path / "images", 24)
    return tmp_path / "images"


def start(images: Path, tmp_path: Path, name: str, *, batch: int, delay: float, lease: float = 60.0):
    arguments = [images, tmp_path / "cache", tmp_path / "log", tmp_path / f"{name}.json", batch, delay, lease]
    return subprocess.Popen([sys.executable, str(STUBS), *map(str, arguments)])


def computations(tmp_path: Path) -> list[int]:
    """How often each image was computed, by all processes together."""
    return [len(path.read_text().splitlines()) for path in (tmp_path / "log").iterdir()]


def database_file(folder: Path) -> Path:
    (path,) = folder.rglob("*.sqlite")
    return path


def test_second_run_computes_nothing(images, tmp_path):
    dataset = folder_dataset(images)
    first, second = ColourEmbedder(), ColourEmbedder()
    a = extract(dataset, first, cache=EmbeddingCache(tmp_path / "cache"))
    b = extract(dataset, second, cache=EmbeddingCache(tmp_path / "cache"))
    assert (first.computed, second.computed) == (24, 0)
    np.testing.assert_array_equal(a.array, b.array)


def test_another_fingerprint_shares_nothing(images, tmp_path):
    cache = EmbeddingCache(tmp_path / "cache")
    extract(folder_dataset(images), ColourEmbedder(fingerprint="float16"), cache=cache)
    other = ColourEmbedder(fingerprint="float32")
    extract(folder_dataset(images), other, cache=cache)
    assert other.computed == 24


def test_cache_in_memory_serves_a_whole_session(images):
    cache = EmbeddingCache(None)
    model = ColourEmbedder()
    extract(folder_dataset(images), model, cache=cache)
    extract(folder_dataset(images).subset(range(10)), model, cache=cache)
    assert model.computed == 24


def test_no_cache_means_no_memory(images):
    model = ColourEmbedder()
    for _ in range(2):
        extract(folder_dataset(images), model)
    assert model.computed == 48


def test_processes_share_the_work(images, tmp_path):
    processes = [start(images, tmp_path, f"p{i}", batch=3, delay=0.1) for i in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert computations(tmp_path) == [1] * 24
    results = [json.loads((tmp_path / f"p{i}.json").read_text()) for i in range(4)]
    assert all(result == results[0] and len(result) == 24 for result in results)


def test_killed_process_loses_nothing_and_is_taken_over(images, tmp_path):
    victim = start(images, tmp_path, "victim", batch=4, delay=0.5)
    log = tmp_path / "log"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not log.is_dir() or len(list(log.iterdir())) < 12):
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)  # in its third batch: two are written, one and those ahead are claimed
    victim.wait()
    assert not (tmp_path / "victim.json").exists()
    began = time.monotonic()
    assert start(images, tmp_path, "heir", batch=4, delay=0).wait(timeout=60) == 0
    assert time.monotonic() - began < 30  # by the death of the holder, not by its lease of 60 s
    counts = sorted(computations(tmp_path))
    assert counts == [1] * 20 + [2] * 4
    assert len(json.loads((tmp_path / "heir.json").read_text())) == 24


def test_unreadable_image_is_tried_once_by_each_process(images, tmp_path):
    (images / "image0003.png").write_bytes(b"no image")
    processes = [start(images, tmp_path, f"p{i}", batch=4, delay=0.05) for i in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 3
    results = [json.loads((tmp_path / f"p{i}.json").read_text()) for i in range(3)]
    assert all(len(result) == 23 and "image0003.png" not in result for result in results)


def open_database(path: Path, *, lease: float = 60.0) -> Database:
    return Database(path, facts={"model": "test"}, lease=lease)


@pytest.fixture
def two(tmp_path: Path):
    """Two holders of one file."""
    first, second = open_database(tmp_path / "a.sqlite"), open_database(tmp_path / "a.sqlite")
    yield first, second
    first.close()
    second.close()


ROW = np.arange(4, dtype=np.float32)


def test_claims_exclude_each_other_until_written_or_released(two):
    first, second = two
    assert first.claim(["a", "b", "c"]) == ["a", "b", "c"]
    assert second.claim(["c", "d"]) == ["d"]
    first.put({"a": ROW})
    first.release(["b"])
    assert second.claim(["a", "b", "c"]) == ["b"]
    np.testing.assert_array_equal(second.find(["a", "b"])["a"], ROW)
    first.release_all()
    assert second.claim(["c"]) == ["c"]


@pytest.mark.parametrize(
    ("holder", "expires_in", "free"),
    [
        (this_process(), 60, False),
        (this_process(), -1, True),  # alive, but silent for longer than its lease
        (Holder(host_identity(), 2**22 + 1, "1"), 60, True),  # no such process
        (Holder(host_identity(), os.getpid(), "1"), 60, True),  # the number was given to a later process
        (Holder("another host", 2**22 + 1, "1"), 60, False),  # nothing is known of it but its lease
        (Holder("another host", 2**22 + 1, "1"), -1, True),
    ],
)
def test_claims_of_others(tmp_path, holder, expires_in, free):
    database = open_database(tmp_path / "a.sqlite")
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        row = ("a", "token", holder.host, holder.pid, holder.started, time.time() + expires_in)
        connection.execute("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()
    assert database.claim(["a"]) == (["a"] if free else [])
    database.close()


def test_claims_are_renewed_while_computing(images, tmp_path):
    lease = 0.6
    slow = start(images, tmp_path, "slow", batch=24, delay=2.5, lease=lease)
    log = tmp_path / "log"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not log.is_dir() or len(list(log.iterdir())) < 24):
        time.sleep(0.01)
    other = start(images, tmp_path, "other", batch=24, delay=0, lease=lease)
    assert (slow.wait(timeout=60), other.wait(timeout=60)) == (0, 0)
    assert computations(tmp_path) == [1] * 24


@pytest.mark.parametrize("damage", ["truncated", "not a database", "page"])
def test_damaged_file_is_set_aside_and_computed_again(images, tmp_path, damage):
    folder = tmp_path / "cache"
    before = extract(folder_dataset(images), ColourEmbedder(), cache=EmbeddingCache(folder))
    path = database_file(folder)
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "not a database":
        path.write_bytes(b"garbage" * 1000)
    else:
        path.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])
    model = ColourEmbedder()
    with pytest.warns(SemcovWarning, match=r"\.sqlite is damaged; it was moved to .*\.damaged-"):
        after = extract(folder_dataset(images), model, cache=EmbeddingCache(folder))
    assert model.computed == 24
    np.testing.assert_array_equal(before.array, after.array)
    again = ColourEmbedder()
    extract(folder_dataset(images), again, cache=EmbeddingCache(folder))
    assert again.computed == 0


def test_flipped_bit_in_a_stored_embedding_is_noticed(images, tmp_path):
    folder = tmp_path / "cache"
    before = extract(folder_dataset(images), ColourEmbedder(), cache=EmbeddingCache(folder))
    with sqlite3.connect(database_file(folder)) as connection:
        key, vector = connection.execute("SELECT key, vector FROM embeddings LIMIT 1").fetchone()
        flipped = bytes([vector[0] ^ 1]) + vector[1:]
        connection.execute("UPDATE embeddings SET vector = ? WHERE key = ?", (flipped, key))
        connection.execute(
            "UPDATE embeddings SET vector = x'00' WHERE key = (SELECT max(key) FROM embeddings)"
        )
    connection.close()
    model = ColourEmbedder()
    with pytest.warns(SemcovWarning, match="2 damaged entries are computed again") as caught:
        after = extract(folder_dataset(images), model, cache=EmbeddingCache(folder))
    assert len(caught) == 1
    assert model.computed == 2
    np.testing.assert_array_equal(before.array, after.array)


def test_folder_that_cannot_be_written_warns_once_and_works(images, tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = EmbeddingCache(tmp_path / "file" / "cache")
    model = ColourEmbedder()
    with pytest.warns(SemcovWarning, match=r"file/cache cannot be written .*memory for this run") as caught:
        extract(folder_dataset(images), model, cache=cache)
    extract(folder_dataset(images), model, cache=cache)
    assert len(caught) == 1
    assert model.computed == 24


def test_read_only_cache_is_read(images, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    extract(folder_dataset(images).subset(range(20)), ColourEmbedder(), cache=EmbeddingCache(folder))

    def refuse(*_args: object) -> None:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY
        raise error

    monkeypatch.setattr(Database, "_prepare", refuse)  # as root, no folder is read-only
    content = database_file(folder).read_bytes()
    model = ColourEmbedder()
    cache = EmbeddingCache(folder)
    with pytest.warns(SemcovWarning, match="readonly"):
        extract(folder_dataset(images), model, cache=cache)
    assert model.computed == 4
    extract(folder_dataset(images), model, cache=cache)
    assert model.computed == 4
    assert database_file(folder).read_bytes() == content


def test_full_disk_while_writing_keeps_results(images, tmp_path, monkeypatch):
    def refuse(*_args: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(Database, "put", refuse)
    model = ColourEmbedder()
    with pytest.warns(SemcovWarning, match="disk is full"):
        embeddings = extract(
            folder_dataset(images), model, cache=EmbeddingCache(tmp_path / "c"), batch_size=5
        )
    assert len(embeddings) == model.computed == 24


def test_network_folder_uses_the_rollback_journal(tmp_path, monkeypatch):
    for network, journal in ((True, "delete"), (False, "wal")):
        monkeypatch.setattr(cache_database, "_on_network_filesystem", lambda path, answer=network: answer)
        path = tmp_path / f"{journal}.sqlite"
        database = open_database(path)
        database.put({"a": ROW})
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == journal
        connection.close()
        database.close()


def test_length_must_not_change_under_one_fingerprint(tmp_path):
    database = open_database(tmp_path / "a.sqlite")
    database.put({"a": ROW})
    with pytest.raises(ModelError, match=r"length 3, but .*a\.sqlite has some of length 4"):
        database.put({"b": ROW[:3]})
    database.close()


def test_embeddings_are_little_endian_float32_on_disk(tmp_path):
    database = open_database(tmp_path / "a.sqlite")
    database.put({"a": np.array([1.0, -2.5], dtype=">f8")})
    database.close()
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    (vector,) = connection.execute("SELECT vector FROM embeddings").fetchone()
    connection.close()
    assert vector == b"\x00\x00\x80\x3f\x00\x00\x20\xc0"


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("SEMCOV_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_dir() == tmp_path / "xdg" / "pytest-semcov"
    monkeypatch.setenv("SEMCOV_CACHE_DIR", str(tmp_path / "own"))
    assert default_cache_dir() == tmp_path / "own"
    assert not (tmp_path / "own").exists()
