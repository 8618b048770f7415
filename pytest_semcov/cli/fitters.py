"""The translators that ``semcov fit-translator`` can fit: one entry each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Sample
    from pytest_semcov.embedding.protocols import Progress


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be fitted.

    Parameters
    ----------
    sources, targets
        The images to learn from.
    names
        Arguments that every translator's ``fit`` takes: source, target, semantic, seed.
    options
        Those of the method's own options that were given.
    device
        Where to train.
    progress
        Called as ``progress(what, done, total)``, or ``None``.
    """

    sources: Sequence[Sample]
    targets: Sequence[Sample]
    names: Mapping[str, Any]
    options: Mapping[str, Any]
    device: str
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class Method:
    """One kind of translator.

    Parameters
    ----------
    help
        One line.
    fit
        Returns the translator, which has ``save(path)`` and ``fingerprint``.
    spec
        How the saved file is named to others, e.g. ``"colour@{file}"``.
    options
        Which of :data:`OPTIONS` it takes.
    learns_from_source
        Whether images of the source category are learned from. If not, all of them may judge.
    """

    help: str
    fit: Callable[[Request], Any]
    spec: str
    options: tuple[str, ...] = ()
    learns_from_source: bool = False


def _colour(request: Request) -> Any:
    from pytest_semcov.translation.colour import ColourTranslator

    options = dict(request.options)
    if "colour_method" in options:
        options["method"] = options.pop("colour_method")
    return ColourTranslator.fit([], request.targets, **request.names, **options)


def _fourier(request: Request) -> Any:
    from pytest_semcov.translation.fourier import FourierTranslator

    return FourierTranslator.fit([], request.targets, **request.names, **request.options)


def _unpaired(request: Request) -> Any:
    from pytest_semcov.translation.unpaired import UnpairedTranslator

    return UnpairedTranslator.fit(
        request.sources,
        request.targets,
        **request.names,
        **request.options,
        device=request.device,
        progress=request.progress,
    )


METHODS: dict[str, Method] = {
    "colour": Method(
        "colours and contrasts of target images, in seconds",
        _colour,
        "colour@{file}",
        options=("colour_method", "maximum_images"),
    ),
    "fourier": Method(
        "low-frequency amplitudes of target images, in seconds",
        _fourier,
        "fourier@{file}",
        options=("maximum_images",),
    ),
    "unpaired": Method(
        "a small network trained on both categories, in minutes",
        _unpaired,
        "unpaired@{file}",
        options=("steps", "size"),
        learns_from_source=True,
    ),
}

OPTIONS: dict[str, dict[str, Any]] = {
    "colour_method": {
        "choices": ("transport", "statistics"),
        "help": "transport of whole distributions, or means and deviations only (default: transport)",
    },
    "maximum_images": {
        "type": int,
        "metavar": "N",
        "help": "most target images to learn from, drawn by the seed",
    },
    "steps": {"type": int, "metavar": "N", "help": "training steps"},
    "size": {"type": int, "metavar": "PIXELS", "help": "side of the small copies that the network sees"},
}
"""Options of single methods, as argparse takes them."""


def spec_of(method: str, file: Path) -> str:
    """Return the spec under which others load a saved translator."""
    return METHODS[method].spec.format(file=file)
