"""Translators from spec strings and objects.

===================================  ==============================================================
``colour@PATH``                      a fitted colour translator, as its ``save`` wrote it
``fourier@PATH``                     a fitted Fourier translator, as its ``save`` wrote it
``unpaired@PATH``                    a trained small network, as its ``save`` wrote it
``cyclegan-turbo:BASE@CHECKPOINT``   CycleGAN-Turbo: a checkpoint as ``save`` wrote it, or a published one
                                     under its own name (``day2night.pkl``), on a base model: a folder or
                                     a hub repository, e.g. ``stabilityai/sd-turbo``
``diffusers:BASE?OPTIONS``           an image-to-image or instruction pipeline of diffusers: a folder or a
                                     hub repository; options as in a web address, source and target at
                                     least: ``diffusers:timbrooks/instruct-pix2pix?source=day&target=night``;
                                     see :meth:`~pytest_semcov.DiffusersTranslator.load`
``scene:SEMANTIC:SOURCE>TARGET``     the ideal translator of rendered scenes, e.g.
                                     ``scene:day_night:day>night``
===================================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.protocol import Translator

if TYPE_CHECKING:
    from pytest_semcov.translation.diffusers_pipeline import Describes

_PARTS = ("name", "source", "target", "fingerprint", "translate")
_FORMS = (
    "'colour@PATH', 'fourier@PATH', 'unpaired@PATH', 'cyclegan-turbo:BASE@CHECKPOINT', "
    "'diffusers:BASE?source=SOURCE&target=TARGET', "
    f"'scene:SEMANTIC:SOURCE>TARGET', or an object with {', '.join(_PARTS)}"
)


def load_translator(
    given: object, *, descriptors: Mapping[str, Describes] | None = None, device: str = "auto"
) -> Translator:
    """Return a translator for a spec string; an object that is one is returned as it is.

    Parameters
    ----------
    given
        Spec or translator.
    descriptors
        Semantics by name: where a translator needs a prompt and has none, their phrases are used.
    device
        Where translators that use a GPU run, unless the spec says it: ``"auto"`` (CUDA if there is one),
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.

    Raises
    ------
    ArgumentError
        If the spec has none of the valid forms, or the object lacks something; the message lists them.
    """
    if isinstance(given, str):
        return _from_text(given, descriptors, device)
    missing = [name for name in _PARTS if not hasattr(given, name)]
    if missing:
        raise ArgumentError(
            f"translator {type(given).__name__} has no {', '.join(missing)}; valid forms are {_FORMS}"
        )
    return cast("Translator", given)


def _from_text(spec: str, descriptors: Mapping[str, Describes] | None, device: str) -> Translator:
    kind, at, path = spec.partition("@")
    if kind == "colour" and at and path:
        from pytest_semcov.translation.colour import ColourTranslator

        return ColourTranslator.load(path)
    if kind == "fourier" and at and path:
        from pytest_semcov.translation.fourier import FourierTranslator

        return FourierTranslator.load(path)
    if kind == "unpaired" and at and path:
        from pytest_semcov.translation.unpaired import UnpairedTranslator

        return UnpairedTranslator.load(path)
    kind, _, rest = spec.partition(":")
    if kind == "cyclegan-turbo":
        base, checkpoint = _split_at_file(rest)
        if base and checkpoint:
            from pytest_semcov.translation.cyclegan_turbo import CycleGanTurboTranslator

            return CycleGanTurboTranslator.load(checkpoint, base=base, device=device)
    if kind == "diffusers":
        from pytest_semcov.translation.diffusers_pipeline import DiffusersTranslator

        return DiffusersTranslator.from_spec(rest, descriptors=descriptors, device=device)
    semantic, _, categories = rest.partition(":")
    source, arrow, target = categories.partition(">")
    if kind == "scene" and semantic and arrow:
        from pytest_semcov.translation.scenes import SceneTranslator

        return SceneTranslator(semantic, source=source, target=target)
    raise ArgumentError(f"translator {spec!r} has none of the valid forms: {_FORMS}")


def _split_at_file(text: str) -> tuple[str, str]:
    """Split ``BASE@CHECKPOINT``; either side may hold further ``@``: the first split into a file wins."""
    places = [index for index, character in enumerate(text) if character == "@"]
    if not places:
        return text, ""
    files = [place for place in places if Path(text[place + 1 :]).expanduser().is_file()]
    place = (files or places)[0]
    return text[:place], text[place + 1 :]
