"""Labelling: estimate the category of each image by an encoder's texts, or take it as given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.embedding.protocols import Embeddings, Encoder
from pytest_semcov.errors import ArgumentError
from pytest_semcov.semantics.descriptors import Descriptor, catalogue, check_protocol
from pytest_semcov.semantics.labels import UNCERTAIN, Labels
from pytest_semcov.semantics.texts import check_known, text_directions, unit_rows, wordings

LabelSource = str | Mapping[str, str | None] | Callable[[Sample], str | None]
"""A column's name, a mapping id → category, or a callable sample → category."""


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
