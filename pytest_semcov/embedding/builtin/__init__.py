"""The image-text model that ships with the package: where its files lie and what its card says.

Trained on rendered scenes alone (``tools/train_builtin_model.py``); see ``MODEL_CARD.md`` beside this file.
Loading it is :mod:`pytest_semcov.embedding.specs`' business; nothing here imports torch or open_clip.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

CONFIG_NAME = "semcov_builtin"
"""Name under which open_clip registers the configuration (its file's stem)."""

_FOLDER = Path(__file__).resolve().parent


def config_path() -> Path:
    """Return the model's configuration in open_clip's JSON form."""
    return _FOLDER / f"{CONFIG_NAME}.json"


def weights_path() -> Path:
    """Return the model's weights, a safetensors file in half precision."""
    return _FOLDER / "model.safetensors"


def card_path() -> Path:
    """Return the model's card as JSON."""
    return _FOLDER / "card.json"


@lru_cache(maxsize=1)
def card() -> dict[str, Any]:
    """Return the model's card.

    Returns
    -------
    dict
        ``semantics`` (semantic → category → phrases that the model was taught), ``preprocess`` (size, mean,
        std, interpolation, resize_mode), ``accuracy`` on held-out scenes (right, all), confusions in
        ``held_out`` and ``photographs``, ``label_error`` (semantic → category → recall and specificity as
        (k, n), with their source), ``training`` and ``licence``. Treat it as read-only.
    """
    content: dict[str, Any] = json.loads(card_path().read_text(encoding="utf-8"))
    return content
