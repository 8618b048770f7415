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
    out
        The file that will be written.
    progress
        Called as ``progress(what, done, total)``, or ``None``.
    """

    sources: Sequence[Sample]
    targets: Sequence[Sample]
    names: Mapping[str, Any]
    options: Mapping[str, Any]
    device: str
    out: Path
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
    needs
        Which of its options must be given.
    resumes
        Whether an interrupted training goes on when it is started again.
    """

    help: str
    fit: Callable[[Request], Any]
    spec: str
    options: tuple[str, ...] = ()
    learns_from_source: bool = False
    needs: tuple[str, ...] = ()
    resumes: bool = False


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


def _cyclegan_turbo(request: Request) -> Any:
    from pytest_semcov.translation.cyclegan_turbo_training import TrainingSettings, train_cyclegan_turbo

    options, names = dict(request.options), dict(request.names)
    others = {name: options.pop(name) for name in ("base", "perceptual", "backbone") if name in options}
    captions = tuple(options.pop(f"{end}_caption", names[end]) for end in ("source", "target"))
    return train_cyclegan_turbo(
        request.sources,
        request.targets,
        folder=training_folder(request.out),
        settings=TrainingSettings(seed=names.pop("seed"), **options),
        captions=(captions[0], captions[1]),
        **names,
        **others,
        device=request.device,
        progress=request.progress,
    )


def training_folder(out: Path) -> Path:
    """Return where a training that can be resumed keeps its state, log and pictures."""
    return out.with_name(f"{out.stem}-training")


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
    "cyclegan-turbo": Method(
        "adapters of a diffusion model (--base), in hours on a GPU",
        _cyclegan_turbo,
        "cyclegan-turbo:{base}@{file}",
        options=(
            *("base", "steps", "batch", "preparation", "learning_rate", "unet_rank", "precision"),
            *("checkpoint_every", "source_caption", "target_caption", "perceptual", "backbone"),
        ),
        learns_from_source=True,
        needs=("base",),
        resumes=True,
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
    "base": {"metavar": "MODEL", "help": "folder or hub repository, e.g. stabilityai/sd-turbo"},
    "batch": {"type": int, "metavar": "N", "help": "images of each category a step (default: 1)"},
    "preparation": {
        "metavar": "NAME",
        "help": "how images are brought to one size (default: resize_286_randomcrop_256x256_hflip)",
    },
    "learning_rate": {"type": float, "metavar": "X", "help": "of both optimisers (default: 1e-5)"},
    "unet_rank": {"type": int, "metavar": "N", "help": "rank of the UNet's adapters (default: 128)"},
    "precision": {"choices": ("float32", "bfloat16"), "help": "bfloat16 needs about half the memory"},
    "checkpoint_every": {"type": int, "metavar": "N", "help": "steps between checkpoints (default: 500)"},
    "source_caption": {"metavar": "TEXT", "help": "caption of source images (default: the name)"},
    "target_caption": {"metavar": "TEXT", "help": "caption of target images (default: the name)"},
    "perceptual": {"metavar": "SPEC", "help": "distance between images (default: lpips)"},
    "backbone": {
        "metavar": "SPEC",
        "help": "frozen network of the discriminators (default: open_clip:ViT-B-32/openai)",
    },
}
"""Options of single methods, as argparse takes them."""


def spec_of(method: str, file: Path, options: Mapping[str, Any]) -> str:
    """Return the spec under which others load a saved translator."""
    return METHODS[method].spec.format(file=file, **options)
