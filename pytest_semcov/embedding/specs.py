"""Models from spec strings, fixtures and files.

=============================================  ====================================================
``builtin``                                    the small image-text model of this package
``open_clip:NAME/TAG``                         pretrained weights by open_clip's names
``open_clip:NAME@WEIGHTS``                     one of open_clip's architectures with a local file
``open_clip:CONFIG.json@WEIGHTS``              an own configuration with a local file
``open_clip:hf-hub:ORG/REPOSITORY``            a hub repository in open_clip's layout
``timm:NAME``, ``timm:NAME@WEIGHTS``           pretrained weights by timm's names, or a local file
``torchvision:NAME``, ``...:NAME@WEIGHTS``     torchvision's default weights, or a local file
``SCHEME:NAME?untrained``                      random weights (seeded), for tests
=============================================  ====================================================

Nothing heavy is imported before a model is loaded.
"""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_semcov.embedding.protocols import Embedder, Encoder
from pytest_semcov.errors import ArgumentError, UntrainedWeightsWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

_FORMS = (
    "'builtin', 'open_clip:NAME/TAG', 'open_clip:NAME@WEIGHTS', 'open_clip:CONFIG.json@WEIGHTS', "
    "'open_clip:hf-hub:ORG/REPOSITORY', 'timm:NAME', 'timm:NAME@WEIGHTS', 'torchvision:NAME', "
    "'torchvision:NAME@WEIGHTS', each of the named ones also with '?untrained' instead of weights"
)
_UNTRAINED = "?untrained"

_loaded: dict[tuple[object, ...], Any] = {}
_loading = threading.RLock()


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A spec string taken apart.

    Parameters
    ----------
    scheme
        ``"builtin"``, ``"open_clip"``, ``"timm"`` or ``"torchvision"``.
    name
        Name of the architecture, or path of a configuration file.
    tag
        Name of pretrained weights (open_clip).
    path
        Local weights file.
    untrained
        Whether random weights are asked for.
    """

    scheme: str
    name: str = ""
    tag: str | None = None
    path: str | None = None
    untrained: bool = False

    def __str__(self) -> str:
        if self.scheme == "builtin":
            return "builtin"
        tag = f"/{self.tag}" if self.tag else ""
        path = f"@{self.path}" if self.path else ""
        return f"{self.scheme}:{self.name}{tag}{path}{_UNTRAINED if self.untrained else ''}"


def parse_spec(text: str) -> ModelSpec:
    """Take a spec string apart.

    Raises
    ------
    ArgumentError
        If it has none of the valid forms; the message lists them.
    """
    if text == "builtin":
        return ModelSpec("builtin")
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in ("open_clip", "timm", "torchvision") or not rest:
        raise ArgumentError(f"model {text!r} has none of the valid forms: {_FORMS}")
    untrained = rest.endswith(_UNTRAINED)
    rest = rest.removesuffix(_UNTRAINED)
    name, path = _split_path(rest)
    tag = None
    if scheme == "open_clip" and not name.endswith(".json") and not name.startswith("hf-hub:"):
        name, slash, tag_text = name.partition("/")
        tag = tag_text if slash else None
    if not name or path == "" or tag == "" or sum((untrained, path is not None, tag is not None)) > 1:
        raise ArgumentError(f"model {text!r} has none of the valid forms: {_FORMS}")
    return ModelSpec(scheme, name, tag, path, untrained)


def _split_path(rest: str) -> tuple[str, str | None]:
    """Split ``NAME@PATH``; either side may hold further ``@``: the first split into a file wins."""
    places = [index for index, character in enumerate(rest) if character == "@"]
    if not places:
        return rest, None
    for place in places:
        if Path(rest[place + 1 :]).expanduser().is_file():
            return rest[:place], rest[place + 1 :]
    return rest[: places[0]], rest[places[0] + 1 :]


class ImageTower:
    """The image side of an encoder, used as an embedder. Shares the model and, by its fingerprint, the cache.

    Parameters
    ----------
    encoder
        The encoder.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self.trained = encoder.trained
        self.input_size = encoder.input_size

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint: the embeddings are the same."""
        return self.encoder.fingerprint

    @property
    def persistent(self) -> bool:
        """Whether the encoder's embeddings may be kept on disk."""
        return bool(getattr(self.encoder, "persistent", True))

    def preprocess(self, image: Image.Image) -> Any:
        """Turn one RGB image into the encoder's input."""
        return self.encoder.preprocess(image)

    def embed(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Encode preprocessed images: ``(n, d)`` float32, not normalised."""
        return self.encoder.encode_images(batch)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.encoder!r}>"


def load_embedder(model: object, *, device: str = "auto") -> Embedder:
    """Return an embedder.

    Parameters
    ----------
    model
        A spec string (see the module's table); a torch module
        (:func:`~pytest_semcov.embedding.modules.embedder_from_module` with its defaults, on the device where
        it is); a function from a list of PIL images to ``(n, d)`` numbers
        (:func:`~pytest_semcov.embedding.callables.embedder_from_callable`); an encoder, whose image side is
        used; or an object that is an :class:`~pytest_semcov.embedding.protocols.Embedder` already.
    device
        ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``; for spec strings.

    Raises
    ------
    ArgumentError
        If it is none of these (the message lists the valid forms), or the name is not known.
    ModelError
        If weights cannot be had or do not fit.

    Warns
    -----
    UntrainedWeightsWarning
        If the weights are random.
    """
    embedder = _embedder(model, device)
    _warn_if_untrained(embedder)
    return embedder


def load_encoder(model: object, *, device: str = "auto") -> Encoder:
    """Return an image-text encoder.

    Parameters
    ----------
    model
        ``"builtin"`` or an ``open_clip:`` spec string (see the module's table), or an object that is an
        :class:`~pytest_semcov.embedding.protocols.Encoder` already.
    device
        As in :func:`load_embedder`.

    Raises
    ------
    ArgumentError
        If it is none of these.
    ModelError
        If weights cannot be had or do not fit.

    Warns
    -----
    UntrainedWeightsWarning
        If the weights are random.
    """
    if isinstance(model, str):
        spec = parse_spec(model)
        if spec.scheme not in ("builtin", "open_clip"):
            raise ArgumentError(
                f"{model!r} has no text side: an encoder is 'builtin' or an 'open_clip:' model"
            )
        encoder = cast("Encoder", _load_once(spec, device))
    elif isinstance(model, Encoder):
        encoder = model
    else:
        raise ArgumentError(
            f"a {type(model).__name__} is no encoder: give 'builtin', an 'open_clip:' spec, or an object "
            "with name, fingerprint, trained, input_size, logit_scale, semantics, preprocess, encode_images "
            "and encode_texts"
        )
    _warn_if_untrained(encoder)
    return encoder


def _embedder(model: object, device: str) -> Embedder:
    if isinstance(model, str):
        loaded = _load_once(parse_spec(model), device)
        return ImageTower(loaded) if isinstance(loaded, Encoder) else loaded
    if isinstance(model, Embedder):
        return model
    if isinstance(model, Encoder):
        return ImageTower(model)
    torch = sys.modules.get("torch")  # nobody holds a module without having imported torch
    if torch is not None and isinstance(model, torch.nn.Module):
        from pytest_semcov.embedding.modules import embedder_from_module

        return embedder_from_module(model)
    if callable(model) and not isinstance(model, type):
        from pytest_semcov.embedding.callables import embedder_from_callable

        return embedder_from_callable(model)
    raise ArgumentError(
        f"a {type(model).__name__} is no embedder: give a torch module, a function from a list of PIL images "
        "to (n, d) numbers, an object with name, fingerprint, trained, input_size, preprocess and embed, or "
        f"one of {_FORMS}"
    )


def _load_once(spec: ModelSpec, device: str) -> Embedder | Encoder:
    """Load a model once per process, device and state of its files."""
    from pytest_semcov.embedding.running import resolve_device

    place = resolve_device(device)
    key = (spec, str(place), *(_file_state(text) for text in (spec.name, spec.path)))
    with _loading:
        if key not in _loaded:
            _loaded[key] = _load(spec, place)
        return cast("Embedder | Encoder", _loaded[key])


def _load(spec: ModelSpec, place: Any) -> Embedder | Encoder:
    if spec.scheme == "timm":
        from pytest_semcov.embedding.timm_model import load_timm

        return load_timm(spec, place)
    if spec.scheme == "torchvision":
        from pytest_semcov.embedding.torchvision_model import load_torchvision

        return load_torchvision(spec, place)
    from pytest_semcov.embedding.open_clip_model import load_builtin, load_open_clip

    return load_builtin(place) if spec.scheme == "builtin" else load_open_clip(spec, place)


def _file_state(path: str | None) -> tuple[int, int] | None:
    """Size and time of a file, so that a model whose file has changed is loaded again."""
    try:
        state = Path(path or "").expanduser().stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def _warn_if_untrained(model: Embedder | Encoder) -> None:
    if not model.trained:
        warnings.warn(
            f"{model.name} has untrained (random) weights: its numbers mean nothing about images",
            UntrainedWeightsWarning,
            stacklevel=3,
        )
