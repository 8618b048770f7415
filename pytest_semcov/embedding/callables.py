"""Embedders made of a function from images to numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_semcov.embedding.fingerprint import hash_description
from pytest_semcov.embedding.running import to_array
from pytest_semcov.embedding.users_code import describe_unversioned, own_version

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image


class CallableEmbedder:
    """An embedder around a function from a list of RGB PIL images to ``(n, d)`` numbers.

    Build it with :func:`embedder_from_callable`.
    """

    def __init__(
        self,
        function: Callable[[list[Image.Image]], Any],
        *,
        name: str,
        version: str | None,
        input_size: int | None,
        trained: bool,
    ) -> None:
        self.name = name
        self.trained = trained
        self.input_size = input_size
        self.persistent = version is not None
        self._function = function
        kind = "unversioned" if version is None else "version"
        self.fingerprint = hash_description(
            {"callable": name, kind: version or describe_unversioned(function), "input_size": input_size}
        )

    def preprocess(self, image: Image.Image) -> Image.Image:
        """Return the image: the function does its own preprocessing."""
        return image

    def embed(self, batch: Sequence[Image.Image]) -> NDArray[np.float32]:
        """Embed images: ``(n, d)`` float32."""
        rows = self._function(list(batch))
        if hasattr(rows, "detach"):  # a torch tensor, perhaps on a GPU
            return to_array(rows)
        return np.asarray(rows, dtype=np.float32)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def embedder_from_callable(
    function: Callable[[list[Image.Image]], Any],
    *,
    name: str | None = None,
    version: str | None = None,
    input_size: int | None = None,
    trained: bool = True,
) -> CallableEmbedder:
    """Make an embedder of a function.

    Parameters
    ----------
    function
        Takes a list of RGB PIL images of any sizes, gives ``(n, d)`` numbers (array or tensor). A row must
        depend on its image alone.
    name
        Short name for reports; ``None`` = the function's name.
    version
        Changes whenever the function's results do (code, weights, configuration): it is all that the cache
        can know of a function. Without it (or an attribute ``version``) embeddings are kept in memory only.
    input_size
        Shorter side in pixels that the function needs; ``None`` = images are decoded in full.
    trained
        False if the weights behind it are random.
    """
    if version is None:
        version = own_version(function)
    if name is None:
        name = str(getattr(function, "__qualname__", type(function).__name__))
    return CallableEmbedder(function, name=name, version=version, input_size=input_size, trained=trained)
