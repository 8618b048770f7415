"""A text-image model whose geometry a test decides, and samples without pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.embedding.protocols import Embeddings


class StubEncoder:
    """Texts have the vectors that they are given; images are given as embeddings.

    A text without a vector of its own gets a random direction that depends on the text alone.
    """

    input_size = None
    trained = True
    fingerprint = "stub"

    def __init__(
        self,
        texts: Mapping[str, Sequence[float]],
        *,
        logit_scale: float = 100.0,
        semantics: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        width: int = 16,
    ) -> None:
        self.texts = dict(texts)
        self.name = "stub"
        self.logit_scale = logit_scale
        self.semantics = semantics
        self.width = len(next(iter(texts.values()))) if texts else width
        self.asked: list[str] = []

    def preprocess(self, image: object) -> object:
        return image

    def encode_images(self, batch: Sequence[object]) -> np.ndarray:
        return np.asarray(batch, dtype=np.float32)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        self.asked.extend(texts)
        return np.stack(
            [
                np.asarray(self.texts[text], dtype=np.float32)
                if text in self.texts
                else np.random.default_rng(list(text.encode())).normal(size=self.width).astype(np.float32)
                for text in texts
            ]
        )


class NoPixels:
    """An image source that must not be read."""

    path: Path | None = None

    def load(self, sample_id: str, *, minimum_size: int | None = None) -> object:
        raise AssertionError(f"{sample_id} was decoded")

    def content_key(self) -> str:
        return "0"


def embeddings_of(rows: Sequence[Sequence[float]], fingerprint: str = "stub") -> Embeddings:
    array = np.asarray(rows, dtype=np.float32)
    return Embeddings(array, tuple(f"img{row}.jpg" for row in range(len(array))), fingerprint, "stub")


def samples(labels: Sequence[str | None], **columns: Sequence[object]) -> SampleDataset:
    return SampleDataset(
        [
            Sample(
                f"img{row}.jpg",
                NoPixels(),
                label=label,
                metadata={name: values[row] for name, values in columns.items()},
            )
            for row, label in enumerate(labels)
        ]
    )
