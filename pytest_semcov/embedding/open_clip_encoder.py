"""An open_clip model as an encoder: its own preprocessing, tokenizer, logit scale and card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.embedding.fingerprint import hash_description, hash_tensors, library_versions
from pytest_semcov.embedding.running import inference, stack, to_array
from pytest_semcov.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from PIL import Image

_TEXTS_AT_ONCE = 256


class OpenClipEncoder:
    """An open_clip model with its own preprocessing, tokenizer and logit scale.

    Build it with :func:`pytest_semcov.embedding.specs.load_encoder`.

    Parameters
    ----------
    model
        The model, in float32.
    preprocess
        Its transform for evaluation.
    tokenizer
        Its tokenizer.
    description
        Preprocessing and architecture in plain Python, for the fingerprint.
    name
        Short name for reports.
    input_size
        Shorter side in pixels that preprocessing needs.
    device
        Where it runs.
    trained
        False if the weights are random.
    card
        Model card in plain Python; ``semantics``, ``held_out`` and ``photographs`` are read; ``None`` = open
        vocabulary.
    """

    def __init__(
        self,
        model: Any,
        *,
        preprocess: Callable[[Image.Image], Any],
        tokenizer: Any,
        description: Mapping[str, object],
        name: str,
        input_size: int,
        device: torch.device,
        trained: bool = True,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model.to(device).eval()
        self.name = name
        self.trained = trained
        self.input_size = input_size
        self.card = card
        self._preprocess = preprocess
        self._tokenizer = tokenizer
        self._device = device
        self._texts: dict[str, NDArray[np.float32]] = {}
        self.fingerprint = hash_description(
            {
                **description,
                "weights": hash_tensors(model.state_dict()),
                "tokenizer": [type(tokenizer).__name__, self._context_length],
                "dtype": "float32",
                "device": device.type,
                "versions": library_versions("open_clip_torch", "torch", "torchvision", "pillow"),
            }
        )

    @property
    def logit_scale(self) -> float:
        """The model's own scale of cosines, exponentiated."""
        return float(self.model.logit_scale.detach().exp())

    @property
    def semantics(self) -> Mapping[str, Mapping[str, Sequence[str]]] | None:
        """Semantics (name → category → phrases) of the model's card; ``None`` = open vocabulary."""
        if self.card is None:
            return None
        semantics: Mapping[str, Mapping[str, Sequence[str]]] = self.card["semantics"]
        return semantics

    def label_error(self, semantic: str, *, rendered: bool = False) -> Mapping[str, Mapping[str, Any]] | None:
        """Return how often the model labels a semantic correctly, as counted for its card.

        Parameters
        ----------
        semantic
            Name of a semantic, e.g. ``"day_night"``.
        rendered
            Whether the question is about rendered scenes; else about photographs.

        Returns
        -------
        Mapping
            Category → ``recall`` (k, n): of n images of it with a certain label, k got this one;
            ``specificity`` (k, n): of n images of other categories with a certain label, k did not get it;
            ``source``: where it was counted. ``None`` if there is no card or it was not measured.
        """
        card = self.card or {}
        if rendered:
            sizes = card.get("held_out", {}).get("confusion", {})
            tables = [by_semantic.get(semantic) for by_semantic in sizes.values()]
            source = "held-out rendered scenes"
        else:
            measured = card.get("photographs", {}).get(semantic)
            tables = [measured and measured["confusion"]]
            source = str(measured and measured["data"])
        found = [table for table in tables if table]
        return label_errors(found, source) if found else None

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the model's input, ``(3, h, w)`` float32."""
        return self._preprocess(image)

    def encode_images(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Encode preprocessed images: ``(n, d)`` float32, not normalised."""
        with inference(self.model, self._device):
            return to_array(self.model.encode_image(stack(batch).to(self._device)))

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts: ``(k, d)`` float32, not normalised. Each text is encoded once per process.

        Raises
        ------
        ArgumentError
            If the tokenizer would cut a text off; the message shows it with both lengths.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._texts]
        for text in new:
            length = token_count(self._tokenizer, text)
            if length > self._context_length:
                raise ArgumentError(
                    f"{self.name} takes {self._context_length} tokens and would cut off this text of "
                    f"{length}: {text!r}; shorten it"
                )
        for start in range(0, len(new), _TEXTS_AT_ONCE):
            part = new[start : start + _TEXTS_AT_ONCE]
            with inference(self.model, self._device):
                rows = to_array(self.model.encode_text(self._tokenizer(part).to(self._device)))
            if not np.isfinite(rows).all():
                bad = part[int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])]
                raise ModelError(f"{self.name} gives NaN or infinity for the text {bad!r}")
            self._texts.update(zip(part, rows, strict=True))
        return np.stack([self._texts[text] for text in texts]) if texts else np.empty((0, 0), np.float32)

    @property
    def _context_length(self) -> int:
        length: int = self._tokenizer.context_length
        return length

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} on {self._device}>"


def label_errors(
    tables: Sequence[Mapping[str, Mapping[str, int]]], source: str
) -> dict[str, Mapping[str, Any]]:
    """Return recall and specificity per category, images without a certain label left out.

    Parameters
    ----------
    tables
        Confusion tables, added up: true category → label → count; ``"uncertain"`` is a label.
    source
        Where they were counted.
    """
    categories = list(tables[0])
    labels = np.array([[[t[true][label] for label in categories] for true in categories] for t in tables])
    counts = labels.sum(axis=0)
    errors: dict[str, Mapping[str, Any]] = {}
    for index, category in enumerate(categories):
        own, others = counts[index], np.delete(counts, index, axis=0)
        errors[category] = {
            "recall": (int(own[index]), int(own.sum())),
            "specificity": (int(others.sum() - others[:, index].sum()), int(others.sum())),
            "source": source,
        }
    return errors


def token_count(tokenizer: Any, text: str) -> int:
    """Return the number of tokens of a text, special tokens included, before any truncation.

    Parameters
    ----------
    tokenizer
        One of open_clip's tokenizers.
    text
        The text as the user wrote it.
    """
    if hasattr(tokenizer, "encode"):  # CLIP's own byte-pair encoding; plus start and end of text
        return len(tokenizer.encode(text)) + 2
    clean = getattr(tokenizer, "clean_fn", None)
    cleaned = clean(text) if clean is not None else text
    if getattr(tokenizer, "tokenizer_mode", "") == "clips":
        return len(tokenizer.tokenizer(cleaned, add_special_tokens=False).input_ids) + 3
    return len(tokenizer.tokenizer(cleaned, truncation=False).input_ids)
