"""Texts: the prompts of a semantic as directions in an encoder's space."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.embedding.protocols import Encoder
from pytest_semcov.errors import NonFiniteError, UnknownSemanticError
from pytest_semcov.semantics.descriptors import Descriptor

_TEMPLATES = ("{}", "a photo, {}", "an image with {}", "{} in a photograph")


def text_directions(
    encoder: Encoder, descriptor: Descriptor, *, protocol: str = "matched"
) -> NDArray[np.float64]:
    """Return one unit vector per category, ``(K, d)`` float64: normalise, mean over prompts, normalise.

    Raises
    ------
    UnknownSemanticError
        If the encoder's card does not cover the prompts.
    NonFiniteError
        If a text embeds to zero or to something that is not a number, or a category's prompts cancel out.
    """
    check_known(encoder, descriptor, protocol=protocol)
    prompts = {name: descriptor.prompts(name, protocol=protocol) for name in descriptor.categories}
    texts = [text for variants in prompts.values() for text in variants]
    vectors = unit_rows(encoder.encode_texts(texts), texts)
    ends = np.cumsum([len(variants) for variants in prompts.values()])[:-1]
    means = np.stack([block.mean(axis=0) for block in np.split(vectors, ends)])
    return unit_rows(means, [f"the prompts of {category!r} together" for category in prompts])


def check_known(encoder: Encoder, descriptor: Descriptor, *, protocol: str = "matched") -> None:
    """Check that the encoder's card covers every category and prompt of a semantic.

    Raises
    ------
    UnknownSemanticError
        If it does not; the message names what is missing and what to do.
    """
    if encoder.semantics is None:
        return
    card = encoder.semantics.get(descriptor.name)
    if card is None:
        raise UnknownSemanticError(
            descriptor.name, encoder.name, f"it knows {', '.join(sorted(encoder.semantics))} only"
        )
    for category in descriptor.categories:
        if category not in card:
            raise UnknownSemanticError(
                descriptor.name, encoder.name, f"it has no category {category!r}, only {', '.join(card)}"
            )
        known = {_folded(phrase) for phrase in card[category]}
        for prompt in descriptor.prompts(category, protocol=protocol):
            if _folded(prompt) not in known:
                phrases = ", ".join(repr(phrase) for phrase in card[category])
                raise UnknownSemanticError(
                    descriptor.name,
                    encoder.name,
                    f"it does not know the phrase {prompt!r} for {category!r}, only {phrases}",
                )


def wordings(
    encoder: Encoder, descriptor: Descriptor, category: str, *, protocol: str = "matched"
) -> tuple[str, ...]:
    """Return all ways to put a category into words, each to be tried alone.

    The descriptor's own prompts and, to have several, for an open vocabulary each of them in a few neutral
    sentences, for an encoder with a card the card's other phrases.
    """
    prompts = descriptor.prompts(category, protocol=protocol)
    if encoder.semantics is not None:
        return tuple(dict.fromkeys([*prompts, *encoder.semantics[descriptor.name][category]]))
    # The template varies slowest, so that the r-th wording of two categories is the same sentence.
    return tuple(
        dict.fromkeys(chain.from_iterable((t.format(prompt) for prompt in prompts) for t in _TEMPLATES))
    )


class TextMemory:
    """An encoder that embeds each text once, however many layouts use it.

    Parameters
    ----------
    encoder
        The encoder; everything but texts is its own.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self.trained = encoder.trained
        self.input_size = encoder.input_size
        self.logit_scale = encoder.logit_scale
        self.semantics = encoder.semantics
        self.preprocess = encoder.preprocess
        self.encode_images = encoder.encode_images
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return ``(n, d)`` embeddings; texts not seen before go to the encoder in one call."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= dict(zip(new, self.encoder.encode_texts(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


def unit_rows(vectors: NDArray[np.floating[Any]], names: Sequence[str]) -> NDArray[np.float64]:
    """Return rows of length one in float64.

    Raises
    ------
    NonFiniteError
        If a row is zero or not finite; the message gives the names of the first.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        listed = ", ".join(repr(names[row]) for row in bad[:3].tolist())
        raise NonFiniteError(f"{len(bad)} embeddings are zero or not finite: {listed}")
    return np.asarray(rows / lengths[:, None])


def _folded(phrase: str) -> str:
    return " ".join(phrase.casefold().split())
