"""Translators from spec strings.

==============================  =====================================================================
``scene``                       re-renders rendered day scenes at night
``scene:SEMANTIC/TARGET``       re-renders rendered scenes, e.g. ``scene:clear_rain/rain``
``colour@FILE``                 a colour translator as written by ``ColourTranslator.save``
``FILE.safetensors``            the same
==============================  =====================================================================
"""

from __future__ import annotations

from pytest_semcov.errors import ArgumentError
from pytest_semcov.translation.protocol import Translator

_FORMS = (
    "'scene', 'scene:SEMANTIC/TARGET', 'colour@FILE.safetensors', 'FILE.safetensors', or an object with "
    "translate(images, *, seeds)"
)
_MEMBERS = ("name", "source", "target", "fingerprint", "translate")


def load_translator(spec: object) -> Translator:
    """Return the translator that a spec string names; an object is checked and returned.

    Parameters
    ----------
    spec
        One of the forms in the module's table, or an object with ``name``, ``source``, ``target``,
        ``fingerprint`` and ``translate(images, *, seeds)``.

    Raises
    ------
    ArgumentError
        If the spec has none of these forms, or the object lacks something.
    ModelError
        If the file is missing or is not a translator.
    """
    if isinstance(spec, str):
        return _from_text(spec)
    if isinstance(spec, Translator):
        return spec
    missing = [name for name in _MEMBERS if not hasattr(spec, name)]
    raise ArgumentError(f"translator {spec!r} lacks {', '.join(missing)}; a translator is one of {_FORMS}")


def _from_text(text: str) -> Translator:
    if text == "scene" or text.startswith("scene:"):
        return _scene(text)
    if text == "colour":
        raise ArgumentError(
            "translator 'colour' has no file: it is fitted on the spot where a test or marker says "
            "translator=\"colour\"; elsewhere save a fitted one and give 'colour@FILE.safetensors'"
        )
    file = text.removeprefix("colour@")
    if file and (file != text or text.endswith(".safetensors")):
        from pytest_semcov.translation.colour import ColourTranslator

        return ColourTranslator.load(file)
    raise ArgumentError(f"translator {text!r} has none of the valid forms: {_FORMS}")


def _scene(text: str) -> Translator:
    from pytest_semcov.data.scenes import SCENE_SEMANTICS, check_category
    from pytest_semcov.translation.scenes import SceneTranslator

    if text == "scene":
        return SceneTranslator()
    semantic, slash, target = text.removeprefix("scene:").partition("/")
    if not slash:
        raise ArgumentError(f"translator {text!r} has none of the valid forms: {_FORMS}")
    check_category(semantic, target)
    (source,) = set(SCENE_SEMANTICS[semantic]) - {target}
    return SceneTranslator(semantic, source, target)
