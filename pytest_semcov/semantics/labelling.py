"""Labels: which category of a semantic each image shows, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.embedding.protocols import Embeddings, Encoder
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import text_table
from pytest_semcov.gates.verdict import Plain, plain
from pytest_semcov.semantics.descriptors import Descriptor, catalogue, check_protocol
from pytest_semcov.semantics.texts import check_known, text_directions, unit_rows, wordings

__all__ = [
    "MARGIN_BUCKETS",
    "UNCERTAIN",
    "LabelSource",
    "Labels",
    "check_known",
    "label_zero_shot",
    "labels_from",
    "paraphrase_codes",
]

UNCERTAIN = -1
"""Code of an image without a certain label."""

MARGIN_BUCKETS = (0.010, 0.025)
"""Bounds of the margins called low, medium and high; published for raw cosines of EVA02-L."""

LabelSource = str | Mapping[str, str | None] | Callable[[Sample], str | None]
"""A column's name, a mapping id → category, or a callable sample → category."""


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The category of each image under one semantic.

    Parameters
    ----------
    semantic
        The semantic's name.
    categories
        Its K categories; codes index them.
    codes
        ``(n,)`` int64 in -1…K-1; -1 = uncertain (or not labelled).
    similarity
        ``(n, K)`` float64 cosines to the categories' texts; ``None`` for labels as given.
    margin
        ``(n,)`` float64, highest minus second-highest cosine; ``None`` for labels as given.
    source
        Where the labels come from, for people.
    ids
        Sample ids, one a row.
    probability
        ``(n,)`` float64 softmax probability of the nearest category at the encoder's logit scale;
        ``None`` for labels as given.
    encoder, encoder_fingerprint
        The encoder that made the labels; empty for labels as given.
    """

    semantic: str
    categories: tuple[str, ...]
    codes: NDArray[np.int64]
    similarity: NDArray[np.float64] | None
    margin: NDArray[np.float64] | None
    source: str
    ids: tuple[str, ...]
    probability: NDArray[np.float64] | None = None
    encoder: str = ""
    encoder_fingerprint: str = ""

    def __post_init__(self) -> None:
        if len(self.codes) != len(self.ids):
            raise ArgumentError(
                f"labels of {self.semantic!r}: {len(self.codes)} codes for {len(self.ids)} ids"
            )
        if len(self.codes) and not -1 <= int(self.codes.min()) <= int(self.codes.max()) < len(
            self.categories
        ):
            raise ArgumentError(
                f"labels of {self.semantic!r}: codes must lie in -1…{len(self.categories) - 1}, "
                f"got {int(self.codes.min())}…{int(self.codes.max())}"
            )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def estimated(self) -> bool:
        """Whether an encoder made the labels."""
        return self.similarity is not None

    @property
    def top(self) -> NDArray[np.int64]:
        """``(n,)`` code of the nearest category, uncertain or not; the codes for labels as given."""
        if self.similarity is None:
            return self.codes
        return np.asarray(self.similarity.argmax(axis=1), dtype=np.int64)

    @property
    def uncertain(self) -> int:
        """Images without a certain label."""
        return int((self.codes == UNCERTAIN).sum())

    def counts(self) -> dict[str, int]:
        """Return the images per category by certain label; every category is there, with 0 where empty."""
        certain = self.codes[self.codes != UNCERTAIN]
        numbers = np.bincount(certain, minlength=len(self.categories))
        return {category: int(number) for category, number in zip(self.categories, numbers, strict=True)}

    def code(self, category: str) -> int:
        """Return the code of a category.

        Raises
        ------
        ArgumentError
            If there is no such category; the message lists them.
        """
        if category not in self.categories:
            raise ArgumentError(
                f"{self.semantic!r} has no category {category!r}; it has {', '.join(self.categories)}"
            )
        return self.categories.index(category)

    def mask(self, category: str) -> NDArray[np.bool_]:
        """Return ``(n,)`` True where the image is certainly of this category."""
        return np.asarray(self.codes == self.code(category))

    def category_of(self, sample_id: str) -> str | None:
        """Return the category of one image, ``None`` if it is uncertain.

        Raises
        ------
        ArgumentError
            If no image has that id.
        """
        if sample_id not in self.ids:
            raise ArgumentError(f"labels of {self.semantic!r} hold no image {sample_id!r}")
        code = int(self.codes[self.ids.index(sample_id)])
        return None if code == UNCERTAIN else self.categories[code]

    def by_id(self) -> dict[str, str | None]:
        """Return id → category (``None`` where uncertain), in order."""
        return {
            sample_id: None if code == UNCERTAIN else self.categories[code]
            for sample_id, code in zip(self.ids, self.codes.tolist(), strict=True)
        }

    def select(self, rows: NDArray[np.bool_] | Sequence[int]) -> Labels:
        """Return the labels of these rows (boolean mask or indices)."""
        rows = np.asarray(rows)
        index = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        return Labels(
            self.semantic,
            self.categories,
            self.codes[index],
            None if self.similarity is None else self.similarity[index],
            None if self.margin is None else self.margin[index],
            self.source,
            tuple(self.ids[row] for row in index.tolist()),
            None if self.probability is None else self.probability[index],
            self.encoder,
            self.encoder_fingerprint,
        )

    def for_ids(self, ids: Sequence[str]) -> Labels:
        """Return the labels of these images, in their order.

        Raises
        ------
        ArgumentError
            If an image has no row here; the message names the first.
        """
        row = {sample_id: number for number, sample_id in enumerate(self.ids)}
        missing = [sample_id for sample_id in ids if sample_id not in row]
        if missing:
            raise ArgumentError(
                f"labels of {self.semantic!r} hold no image {missing[0]!r} "
                f"({len(missing)} of {len(ids)} missing)"
            )
        return self.select([row[sample_id] for sample_id in ids])

    def margin_buckets(self, bounds: tuple[float, float] = MARGIN_BUCKETS) -> tuple[str, ...]:
        """Return ``"low"``, ``"medium"`` or ``"high"`` per image: margin < first bound, < second, or above.

        Raises
        ------
        ArgumentError
            For labels as given, which have no margin.
        """
        if self.margin is None:
            raise ArgumentError(f"labels of {self.semantic!r} are given, not estimated: they have no margin")
        return tuple(
            ("low", "medium", "high")[number]
            for number in np.searchsorted(np.asarray(bounds), self.margin, side="right").tolist()
        )

    def to_dict(self) -> dict[str, Plain]:
        """Return a summary as plain Python (counts, no per-image values)."""
        return {
            "semantic": self.semantic,
            "counts": plain(self.counts()),
            "uncertain": self.uncertain,
            "images": len(self),
            "source": self.source,
            "encoder": self.encoder,
            "encoder_fingerprint": self.encoder_fingerprint,
        }

    def __str__(self) -> str:
        rows = [
            [f"{self.semantic} ({self.source})", "images", "share", *(["margin"] if self.estimated else [])]
        ]
        for name, chosen in [
            *((category, self.mask(category)) for category in self.categories),
            ("uncertain", self.codes == UNCERTAIN),
        ]:
            number = int(chosen.sum())
            row = [name, str(number), f"{number / len(self):.1%}" if len(self) else "-"]
            if self.margin is not None:
                row.append(f"{self.margin[chosen].mean():.3f}" if number else "-")
            rows.append(row)
        return text_table(rows)


def label_zero_shot(
    embeddings: Embeddings,
    encoder: Encoder,
    descriptor: Descriptor,
    *,
    min_certainty: float = 0.6,
    protocol: str = "matched",
) -> Labels:
    """Label images by the nearest of the categories' texts.

    Parameters
    ----------
    embeddings
        The images, embedded by the same encoder; rows of any length (they are normalised here).
    encoder
        The image-text model.
    descriptor
        The semantic.
    min_certainty
        A label is uncertain if the softmax probability of its category, at the encoder's own logit scale,
        is lower.
    protocol
        ``"deduce"``: prompts joined as published, and no label is uncertain.

    Raises
    ------
    UnknownSemanticError
        If the encoder's card does not cover the semantic, a category or a phrase.
    ArgumentError
        If ``min_certainty`` lies outside [0, 1], or the embeddings come from another encoder.
    NonFiniteError
        If an embedding is not finite or has length zero; the message names ids.
    """
    check_protocol(protocol)
    if not 0 <= min_certainty <= 1:
        raise ArgumentError(f"min_certainty={min_certainty!r}: must lie in [0, 1]")
    if embeddings.fingerprint and embeddings.fingerprint != encoder.fingerprint:
        raise ArgumentError(
            f"embeddings were made by {embeddings.name or embeddings.fingerprint}, not by the encoder "
            f"{encoder.name}; embed the images with the encoder that labels them"
        )
    directions = text_directions(encoder, descriptor, protocol=protocol)
    similarity = unit_rows(embeddings.array, embeddings.ids) @ directions.T
    ordered = np.sort(similarity, axis=1)
    probability = _softmax(similarity * encoder.logit_scale).max(axis=1)
    codes = similarity.argmax(axis=1).astype(np.int64)
    if protocol == "matched":
        codes[probability < min_certainty] = UNCERTAIN
    return Labels(
        semantic=descriptor.name,
        categories=tuple(descriptor.categories),
        codes=codes,
        similarity=similarity,
        margin=ordered[:, -1] - ordered[:, -2],
        source=f"encoder {encoder.name}",
        ids=embeddings.ids,
        probability=probability,
        encoder=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
    )


def paraphrase_codes(
    embeddings: Embeddings, encoder: Encoder, descriptor: Descriptor, *, protocol: str = "matched"
) -> NDArray[np.int64]:
    """Return the nearest category of each image under each wording alone, ``(wordings, n)``.

    The wordings are the descriptor's own prompts and, to have several, for an open vocabulary each of them
    in a few neutral sentences, for an encoder with a card the card's other phrases. Wording number r
    uses the r-th prompt of every category (beginning again where a category has fewer).
    """
    check_known(encoder, descriptor, protocol=protocol)
    texts_of = {
        category: wordings(encoder, descriptor, category, protocol=protocol)
        for category in descriptor.categories
    }
    images = unit_rows(embeddings.array, embeddings.ids)
    unit = {
        category: unit_rows(encoder.encode_texts(list(texts)), texts) for category, texts in texts_of.items()
    }
    rounds = max(len(texts) for texts in texts_of.values())
    codes = [
        (images @ np.stack([vectors[number % len(vectors)] for vectors in unit.values()]).T).argmax(axis=1)
        for number in range(rounds)
    ]
    return np.asarray(codes, dtype=np.int64)


def labels_from(
    dataset: Dataset,
    semantic: str,
    source: LabelSource,
    *,
    descriptor: Descriptor | None = None,
) -> Labels:
    """Take labels that are known instead of estimating them.

    Parameters
    ----------
    dataset
        The images.
    semantic
        Name of the semantic.
    source
        A column (``"label"``, ``"group"`` or a metadata key), a mapping id → category, or a callable that
        takes a :class:`Sample`. ``None``, an empty text or NaN, and ids that a mapping lacks, leave an
        image without label (code -1).
    descriptor
        Its categories are the valid values. Default: the catalogue's entry of that name; without one, the
        values found, in sorted order.

    Raises
    ------
    ArgumentError
        If a value is not among the categories (the message names value, sample and categories), values
        have mixed types, or a mapping has none of the data set's ids.
    """
    ids = tuple(dataset.ids)
    if isinstance(source, str):
        values, where = list(dataset.column(source)), f"column {source!r}"
    elif isinstance(source, Mapping):
        values, where = [source.get(sample_id) for sample_id in ids], "a mapping"
        if ids and source and not any(sample_id in source for sample_id in ids):
            raise ArgumentError(
                f"labels of {semantic!r}: the mapping has none of the data set's ids "
                f"(it has {next(iter(source))!r}, the data set has {ids[0]!r})"
            )
    elif callable(source):
        values = [source(dataset[row]) for row in range(len(dataset))]
        where = f"the callable {getattr(source, '__name__', type(source).__name__)}"
    else:
        raise ArgumentError(
            f"labels of {semantic!r}: need a column name, a mapping or a callable, got {source!r}"
        )
    names = _category_names(values, ids, f"labels of {semantic!r} from {where}")
    if descriptor is None:
        descriptor = catalogue().get(semantic)
    if descriptor is None:
        found = {name for name in names if name is not None}
        if len(found) < 2:
            raise ArgumentError(
                f"labels of {semantic!r} from {where}: found {sorted(found)} and no descriptor says which "
                "other categories there are; give one, e.g. Descriptor.from_labels(name, [...])"
            )
        descriptor = Descriptor.from_labels(semantic, found)
    code = {category: number for number, category in enumerate(descriptor.categories)}
    for name, sample_id in zip(names, ids, strict=True):
        if name is not None and name not in code:
            raise ArgumentError(
                f"labels of {semantic!r} from {where}: sample {sample_id!r} has {name!r}; "
                f"valid categories are {', '.join(code)} (leave it empty for images of none of them)"
            )
    codes = [UNCERTAIN if name is None else code[name] for name in names]
    return Labels(
        semantic=semantic,
        categories=tuple(code),
        codes=np.asarray(codes, dtype=np.int64),
        similarity=None,
        margin=None,
        source=where,
        ids=ids,
    )


def _category_names(values: Sequence[object], ids: Sequence[str], what: str) -> list[str | None]:
    """Return values as texts, ``None`` where there is none; 1 and "1" in one column are an error."""
    plain_values = [value.item() if hasattr(value, "item") else value for value in values]
    names: list[str | None] = []
    first: tuple[type, str] | None = None
    for value, sample_id in zip(plain_values, ids, strict=True):
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            names.append(None)
            continue
        if not isinstance(value, (str, int, bool)):
            raise ArgumentError(
                f"{what}: sample {sample_id!r} has {value!r} ({type(value).__name__}); need a category name"
            )
        if first is None:
            first = (type(value), sample_id)
        elif type(value) is not first[0]:
            raise ArgumentError(
                f"{what}: mixed types, {first[0].__name__} for sample {first[1]!r} and "
                f"{type(value).__name__} for {sample_id!r}; use texts throughout"
            )
        names.append(str(value))
    return names


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
