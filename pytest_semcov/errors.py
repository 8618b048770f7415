"""Errors and warnings.

Every error subclasses the builtin that a caller would have caught anyway.
Verdicts that fail are :class:`VerdictFailed` (an ``AssertionError``): bad
data fails a test; everything else here is trouble with the tool or its input.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_semcov.gates.verdict import Verdict


def printable(text: str) -> str:
    """Return text without control characters and lone surrogates, which become escapes; line breaks stay.

    File names are the user's data: printed raw they could steer a terminal.
    """
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in ("Cc", "Cs")
        else character.encode("unicode_escape").decode()
        for character in text
    )


class SemcovError(Exception):
    """Base of all errors that this package raises.

    Control characters and lone surrogates in a message (odd file names) become backslash escapes: neither
    a terminal nor a message between processes could take them.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(arg) if isinstance(arg, str) else arg for arg in args))


class ArgumentError(SemcovError, ValueError):
    """An argument or a setting is wrong; the message names it, the value and what is allowed."""


class DatasetError(SemcovError, ValueError):
    """A data set cannot be read as described (missing folder, bad annotation file, duplicate id)."""


class ImageError(SemcovError, ValueError):
    """One image cannot be used.

    Parameters
    ----------
    sample_id
        The sample's stable id.
    rule
        What the image violates, e.g. ``"truncated file"``.
    remedy
        What the user can do.
    path
        The file, where there is one.
    """

    def __init__(self, sample_id: str, rule: str, remedy: str, *, path: str | None = None) -> None:
        where = sample_id if path is None else f"{sample_id} ({path})"
        super().__init__(f"{where}: {rule}; {remedy}")
        self.sample_id = sample_id
        self.rule = rule
        self.remedy = remedy
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between loader processes."""
        return (_image_error, (self.sample_id, self.rule, self.remedy, self.path))


def _image_error(sample_id: str, rule: str, remedy: str, path: str | None) -> ImageError:
    return ImageError(sample_id, rule, remedy, path=path)


class BadImagesError(SemcovError, ValueError):
    """Images of a data set cannot be used and the settings do not allow to skip (so many of) them."""


class NonFiniteError(SemcovError, ValueError):
    """Numbers contain NaN or infinity; the message lists the rows or ids."""


class TooFewError(SemcovError, ValueError):
    """A metric needs more rows than there are; the message names both numbers."""


class ModelError(SemcovError, ValueError):
    """A model cannot be loaded or misbehaves; the message names spec, file and remedy."""


class UnknownSemanticError(SemcovError, ValueError):
    """An encoder's card does not cover a semantic, so it must not label it; verdicts become INCONCLUSIVE.

    Parameters
    ----------
    semantic
        The semantic's name.
    encoder
        The encoder's name.
    reason
        What the card lacks.
    remedy
        What the user can do.
    """

    def __init__(
        self,
        semantic: str,
        encoder: str,
        reason: str,
        remedy: str = (
            "choose an encoder with an open vocabulary "
            "(semcov_encoder = open_clip:ViT-B-32/laion2b_s34b_b79k) or give labels from metadata"
        ),
    ) -> None:
        super().__init__(f"the encoder {encoder} cannot label {semantic!r}: {reason}; {remedy}")
        self.semantic = semantic
        self.encoder = encoder
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes."""
        return (type(self), (self.semantic, self.encoder, self.reason, self.remedy))


class MissingDependencyError(SemcovError, ImportError):
    """An optional library is not installed; the message names the pip command."""


class VerdictFailed(SemcovError, AssertionError):  # noqa: N818 - reads as what happened in pytest's summary
    """A verdict is FAIL.

    Parameters
    ----------
    message
        First line short and complete; details below.
    verdict
        The verdict with all its criteria.
    """

    def __init__(self, message: str, verdict: Verdict) -> None:
        super().__init__(message)
        self.verdict = verdict


class VerdictInconclusive(VerdictFailed):
    """A verdict is INCONCLUSIVE: too little data, or an instrument that cannot tell."""


# Shown in pytest's short summary, where every column counts: the name under which users import them.
VerdictFailed.__module__ = VerdictInconclusive.__module__ = "pytest_semcov"


class SemcovWarning(UserWarning):
    """Base of all warnings that this package issues."""


class UntrainedWeightsWarning(SemcovWarning):
    """A model runs with untrained (random) weights: its numbers mean nothing about images."""


def missing_dependency(library: str, *, extra: str, purpose: str) -> MissingDependencyError:
    """Build the one message for a missing optional library.

    Parameters
    ----------
    library
        Import name of the library.
    extra
        The extra of pytest-semcov that brings it.
    purpose
        What it is needed for, e.g. ``"metadata.parquet"``.
    """
    return MissingDependencyError(
        f"{purpose} needs {library}, which is not installed: pip install 'pytest-semcov[{extra}]'"
    )
