"""What an embedder and an encoder must offer, and what extraction returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_semcov.data.samples import BadImage
from pytest_semcov.errors import DatasetError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

Progress = Callable[[str, int, int], None]
"""Called as ``progress(what, done, total)`` from the thread that runs the work."""


class ImageModel(Protocol):
    """What all models that give one row of numbers an image have in common."""

    @property
    def name(self) -> str:
        """Short name for reports."""

    @property
    def fingerprint(self) -> str:
        """Hash of all that the rows depend on (hex)."""

    @property
    def trained(self) -> bool:
        """False if the weights are random."""

    @property
    def input_size(self) -> int | None:
        """Shorter side (pixels) that preprocessing needs."""

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the model's input (no batch dimension)."""


@runtime_checkable
class Embedder(Protocol):
    """The downstream model whose embedding space decides what matters. Structural.

    An object may also have ``persistent`` (bool, default True): False if the fingerprint does not cover all
    that embeddings depend on, so that they are kept in memory only.
    """

    @property
    def name(self) -> str:
        """Short name for reports, e.g. ``timm:resnet18``."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing, input size, dtype and library versions (hex)."""

    @property
    def trained(self) -> bool:
        """False if the weights are random: results are then marked."""

    @property
    def input_size(self) -> int | None:
        """Shorter side (pixels) that preprocessing needs; larger JPEGs are decoded at reduced scale."""

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the model's input (array or tensor, no batch dimension)."""

    def embed(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Embed preprocessed images: ``(n, d)`` float32, finite, not normalised."""


@runtime_checkable
class Encoder(Protocol):
    """An image-text model (CLIP family) used for labelling. Structural.

    An object may also have ``persistent`` (see :class:`Embedder`), and ``label_error(semantic, rendered=)``:
    category → ``recall`` and ``specificity`` as (k, n) and ``source``, or ``None`` where it was not measured.
    """

    @property
    def name(self) -> str:
        """Short name for reports."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing, tokenizer and library versions (hex)."""

    @property
    def trained(self) -> bool:
        """False if the weights are random."""

    @property
    def input_size(self) -> int | None:
        """Shorter side (pixels) that preprocessing needs."""

    @property
    def logit_scale(self) -> float:
        """The model's own scale (already exponentiated) of cosines before the softmax."""

    @property
    def semantics(self) -> Mapping[str, Mapping[str, Sequence[str]]] | None:
        """Semantics (name → category → phrases) that the model's card covers; ``None`` = open vocabulary."""

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the model's input (no batch dimension)."""

    def encode_images(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Encode preprocessed images: ``(n, d)`` float32."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts: ``(k, d)`` float32.

        Raises
        ------
        ArgumentError
            If the tokenizer would truncate a text (the message shows it).
        """


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Embeddings of a data set.

    Parameters
    ----------
    array
        ``(n, d)`` float32, finite, rows L2-normalised unless ``normalised`` is False.
    ids
        Sample ids, one a row.
    fingerprint
        The embedder's fingerprint.
    name
        The embedder's name.
    trained
        False if the embedder's weights are random.
    skipped
        Images that could not be used (no row here, never a zero vector).
    normalised
        Whether rows have length one.
    """

    array: NDArray[np.float32]
    ids: tuple[str, ...]
    fingerprint: str = ""
    name: str = ""
    trained: bool = True
    skipped: tuple[BadImage, ...] = ()
    normalised: bool = True

    def __post_init__(self) -> None:
        if self.array.ndim != 2 or len(self.array) != len(self.ids):
            raise DatasetError(
                f"embeddings of shape {tuple(self.array.shape)} for {len(self.ids)} ids: "
                "need (n, d), one row per id"
            )

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the rows of these ids, in their order.

        Raises
        ------
        DatasetError
            If an id has no row; the message names the first.
        """
        where = {sample_id: row for row, sample_id in enumerate(self.ids)}
        missing = [sample_id for sample_id in ids if sample_id not in where]
        if missing:
            raise DatasetError(f"no embedding for {missing[0]!r} ({len(missing)} of {len(ids)} ids missing)")
        return self.array[[where[sample_id] for sample_id in ids]]

    def select(self, ids: Sequence[str]) -> Embeddings:
        """Return the embeddings of these ids only, in their order."""
        return Embeddings(
            self.rows(ids),
            tuple(ids),
            self.fingerprint,
            self.name,
            self.trained,
            self.skipped,
            self.normalised,
        )
