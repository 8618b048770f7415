"""Fingerprints: one hash for everything that a model's embeddings depend on.

Two models with the same fingerprint give the same embeddings; a cache is
keyed by it and a baseline refuses to be compared across it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def library_versions(*distributions: str) -> dict[str, str]:
    """Return the installed version of each distribution, ``"missing"`` where there is none.

    Parameters
    ----------
    distributions
        Distribution names, e.g. ``"torch"``, ``"open_clip_torch"``.
    """
    versions = {}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "missing"
    return versions


def hash_description(description: Mapping[str, object]) -> str:
    """Return the SHA-256 (hex) of a description in plain Python, independent of key order."""
    text = json.dumps(description, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_tensors(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 (hex) over names, dtypes, shapes and bytes of all tensors.

    The order of the mapping does not matter; the device does not either.

    Parameters
    ----------
    tensors
        A state dictionary.
    """
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        # Bytes by reinterpretation: NumPy knows no bfloat16.
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
