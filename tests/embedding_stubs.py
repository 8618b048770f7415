"""A counting embedder without torch, and a program that embeds a folder with it in another process."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

from pytest_semcov.data.decoding import FileSource
from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.embedding.extraction import extract


class ColourEmbedder:
    """Embeds an image as its mean colour and its spread; notes every image that it computes.

    ``log``: a folder that gets one line per computed image, in a file named after the pixels.
    """

    trained = True
    input_size = None

    def __init__(
        self,
        *,
        name: str = "colour",
        fingerprint: str = "colour-1",
        log: Path | None = None,
        delay: float = 0,
    ):
        self.name = name
        self.fingerprint = fingerprint
        self.log = log
        self.delay = delay
        self.batches: list[int] = []

    def preprocess(self, image: Image.Image) -> np.ndarray:
        return np.asarray(image, dtype=np.float32) / 255

    def embed(self, batch: list[np.ndarray]) -> np.ndarray:
        self.batches.append(len(batch))
        for image in batch:
            if self.log is not None:
                name = hashlib.sha256(image.tobytes()).hexdigest()[:16]
                with (self.log / name).open("a") as file:
                    file.write("computed\n")
        time.sleep(self.delay)
        rows = [np.concatenate([image.mean(axis=(0, 1)), image.std(axis=(0, 1)) + 0.1]) for image in batch]
        return np.asarray(rows, dtype=np.float32)

    @property
    def computed(self) -> int:
        return sum(self.batches)


def folder_dataset(folder: Path) -> SampleDataset:
    """All files of a folder by name, without the package's own folder reading."""
    return SampleDataset([Sample(path.name, FileSource(path)) for path in sorted(folder.iterdir())])


def write_images(folder: Path, count: int, *, size: int = 12, seed: int = 0) -> None:
    """Distinct PNGs of random pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    for index in range(count):
        pixels = generator.integers(0, 256, (size, size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"image{index:04d}.png")


def main() -> None:
    """``images cache log result batch delay lease``: embed a folder and write rows and ids."""
    images, cache, log, result = map(Path, sys.argv[1:5])
    batch, delay, lease = int(sys.argv[5]), float(sys.argv[6]), float(sys.argv[7])
    log.mkdir(exist_ok=True)
    embeddings = extract(
        folder_dataset(images),
        ColourEmbedder(log=log, delay=delay),
        batch_size=batch,
        cache=EmbeddingCache(cache, lease=lease),
        on_bad_image="skip",
    )
    rows = {name: row.tolist() for name, row in zip(embeddings.ids, embeddings.array, strict=True)}
    result.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
