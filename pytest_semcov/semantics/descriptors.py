"""Descriptors: what a semantic's categories are called and how they are put into words."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_semcov.errors import ArgumentError

PROTOCOLS = ("matched", "deduce")

BASE_SEMANTICS = (
    "day_night",
    "clear_rain",
    "summer_winter",
    "nodamage_damage",
    "sharp_blurry",
    "noveg_veg",
    "noflare_flare",
    "lowdense_highdense",
)
"""The eight two-category semantics that the DEDUCE paper ranks."""

_PARTS = ("object", "scene", "additional")
_KEYS = ("categories", *_PARTS)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A semantic: its categories, the phrases that describe each, and the layout of the prompts.

    Parameters
    ----------
    name
        Name of the semantic, e.g. ``"day_night"``; no white space.
    categories
        Category → its phrases (one string or several); two or more categories.
    object, scene
        Variants of what is shown and where, put before the phrase, e.g. ``("animal",)``,
        ``("trailcam imagery",)``.
    additional
        Variants put after the phrase.

    Raises
    ------
    ArgumentError
        If there are fewer than two categories, a category has no phrase, a name or phrase is empty, a
        phrase occurs twice, or the name contains white space. The message names the semantic and the
        category.
    """

    name: str
    categories: Mapping[str, tuple[str, ...]]
    object: tuple[str, ...] = ()
    scene: tuple[str, ...] = ()
    additional: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or any(letter.isspace() for letter in self.name):
            raise ArgumentError(
                f"descriptor name {self.name!r}: need a word without white space, e.g. 'day_night'"
            )
        if not isinstance(self.categories, Mapping):
            raise ArgumentError(
                f"descriptor {self.name!r}: categories must map each category to its phrases, "
                f"not {type(self.categories).__name__}"
            )
        if len(self.categories) < 2:
            raise ArgumentError(
                f"descriptor {self.name!r}: need two or more categories, got {list(self.categories)}"
            )
        categories: dict[str, tuple[str, ...]] = {}
        owner: dict[str, str] = {}
        for category, phrases in self.categories.items():
            _check_text(category, f"descriptor {self.name!r}: category name")
            where = f"descriptor {self.name!r}, category {category!r}"
            categories[category] = _texts(phrases, f"{where}: phrase")
            if not categories[category]:
                raise ArgumentError(f"{where}: no phrase; give at least one")
            for phrase in categories[category]:
                if phrase in owner:
                    raise ArgumentError(
                        f"{where}: phrase {phrase!r} is already used for {owner[phrase]!r}; "
                        "a phrase can describe one category once"
                    )
                owner[phrase] = category
        object.__setattr__(self, "categories", MappingProxyType(categories))
        for part in _PARTS:
            texts = _texts(getattr(self, part), f"descriptor {self.name!r}: {part}")
            object.__setattr__(self, part, texts)

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.categories.items()), self.object, self.scene, self.additional))

    def __reduce__(self) -> tuple[type[Descriptor], tuple[Any, ...]]:
        return (Descriptor, (self.name, dict(self.categories), self.object, self.scene, self.additional))

    @classmethod
    def from_labels(cls, name: str, labels: Iterable[str]) -> Descriptor:
        """Return a descriptor for known labels: each distinct one is a category and its own phrase.

        Categories come in sorted order.
        """
        return cls(name, {label: (label,) for label in sorted(set(labels))})

    def prompts(self, category: str, *, protocol: str = "matched") -> tuple[str, ...]:
        """Return all prompts of a category: object × scene × phrase × additional.

        Parameters
        ----------
        category
            One of the descriptor's categories.
        protocol
            ``"matched"`` joins the parts with single spaces. ``"deduce"`` is the published join: no space
            after the object, one after the scene, none before the additional part. Where only phrases are
            given both are the phrases themselves.

        Raises
        ------
        ArgumentError
            If the category or the protocol does not exist; the message lists those that do.
        """
        check_protocol(protocol)
        if category not in self.categories:
            raise ArgumentError(
                f"descriptor {self.name!r} has no category {category!r}; it has {_listed(self.categories)}"
            )
        combinations = itertools.product(
            self.object or ("",), self.scene or ("",), self.categories[category], self.additional or ("",)
        )
        if protocol == "deduce":
            return tuple(
                f"{subject}{scene}{' ' if scene else ''}{phrase}{additional}"
                for subject, scene, phrase, additional in combinations
            )
        return tuple(" ".join(part for part in parts if part) for parts in combinations)


def check_protocol(protocol: str) -> str:
    """Return the protocol.

    Raises
    ------
    ArgumentError
        If it is neither ``"matched"`` nor ``"deduce"``.
    """
    if protocol not in PROTOCOLS:
        raise ArgumentError(f"protocol={protocol!r}: must be one of {_listed(PROTOCOLS)}")
    return protocol


def catalogue() -> dict[str, Descriptor]:
    """Return the fifteen semantics that ship with the package, by name.

    Categories and phrases are those of DEDUCE ("Improving Semantic Coverage in AI Test & Evaluation
    through Generative Augmentation", SPIE Defense + Commercial Sensing 2026). The first eight are
    :data:`BASE_SEMANTICS`.
    """
    return dict(_catalogue())


@cache
def _catalogue() -> Mapping[str, Descriptor]:
    file = resources.files("pytest_semcov.semantics") / "catalogue.toml"
    return MappingProxyType(_parse(file.read_text(encoding="utf-8"), "catalogue.toml"))


def load_descriptors(path: str | Path) -> dict[str, Descriptor]:
    """Read descriptors from a TOML file, by name.

    One table per semantic::

        [fog_level]
        scene = ["harbour"]                     # optional, as are object and additional
        [fog_level.categories]
        clear = "clear air"
        fog = ["thick fog", "dense mist"]

    Raises
    ------
    ArgumentError
        If the file is missing, is not TOML, holds no semantic, or a key or value is wrong; the message
        names file, table and key, and what is allowed.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"descriptor file {path}: cannot be read ({error})") from error
    return _parse(text, f"descriptor file {path}")


def _parse(text: str, where: str) -> dict[str, Descriptor]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"{where}: not valid TOML ({error})") from error
    if not tables:
        raise ArgumentError(f"{where}: no semantic; write a table like [day_night.categories]")
    return {name: _descriptor(name, table, where) for name, table in tables.items()}


def _descriptor(name: str, table: object, where: str) -> Descriptor:
    if not isinstance(table, dict):
        raise ArgumentError(
            f"{where}: {name!r} is not a table; a semantic is a table with the keys {_listed(_KEYS)}"
        )
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise ArgumentError(
            f"{where}, table [{name}]: unknown key {unknown[0]!r}; valid are {_listed(_KEYS)}"
        )
    if "categories" not in table:
        raise ArgumentError(f"{where}, table [{name}]: key 'categories' is missing")
    try:
        return Descriptor(name, **table)
    except ArgumentError as error:
        raise ArgumentError(f"{where}, table [{name}]: {error}") from error


def _texts(value: object, what: str) -> tuple[str, ...]:
    """Return one string or a sequence of strings as a tuple of distinct, non-empty strings."""
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Sequence):
        raise ArgumentError(f"{what}: need a text or a list of texts, got {value!r}")
    for text in value:
        _check_text(text, what)
    if len(set(value)) < len(value):
        raise ArgumentError(f"{what}: {list(value)} has the same text twice")
    return tuple(value)


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise ArgumentError(f"{what}: need a text, got {text!r} ({type(text).__name__})")
    if not text or text != text.strip():
        raise ArgumentError(f"{what}: {text!r} is empty or has white space at an end")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
