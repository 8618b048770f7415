"""Settings: one frozen dataclass and one table of rules that checks it.

Knows nothing of pytest: :mod:`pytest_semcov.options` reads the command line,
the ini file and the markers by the table of rules below.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, SupportsFloat, SupportsIndex

from pytest_semcov.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, with its default.

    Every value is checked and brought to its type when the object is made.

    Parameters
    ----------
    encoder
        Spec of the image-text model used for labelling, e.g. ``"builtin"`` or
        ``"open_clip:ViT-B-32/laion2b_s34b_b79k"``.
    embedder
        Spec of the downstream model whose embeddings decide what matters.
    device
        ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    batch_size
        Images per model call.
    loader_threads
        Threads that decode and preprocess while the model runs; ``None`` = by the number of cores.
    seed
        Root of all random numbers.
    cache_dir
        Folder of the embedding cache; ``None`` = the user's cache folder.
    report
        File for the JSON report, or ``None``.
    export
        Folder into which accepted synthetic images are written, or ``None``.
    inconclusive
        How an INCONCLUSIVE verdict shows: ``"fail"``, ``"skip"`` or ``"xfail"``.
    on_bad_image
        ``"fail"`` or ``"skip"``.
    max_bad_images
        With ``"skip"``: how many bad images are tolerated; ``None`` = any number.
    protocol
        ``"matched"`` or ``"deduce"``.
    descriptors
        TOML files with further descriptors.
    labels
        Semantic → metadata column that holds its categories (instead of labelling by the encoder).
    translators
        Name → spec of a translator, e.g. ``{"day_to_night": "colour@models/day_to_night.npz"}``.
    models
        Name → spec of a model under test, e.g. ``{"in use": "torchvision:fasterrcnn_resnet50_fpn_v2"}``.
    min_count, min_share, min_groups
        A category is under-represented below ``min_count`` images, below a share of
        ``min_share`` / number of categories, or (where groups are given) below ``min_groups`` groups.
    min_certainty
        A label is uncertain if the softmax probability of its category is lower.
    max_uncertain
        Largest share of uncertain labels with which coverage is still judged.
    min_lift, max_p
        A semantic's category is important at this lift of cluster recall and Holm-adjusted p-value.
    clusters
        k of k-means for cluster recall.
    min_gap_closed
        Bar for drift gap closed and radius gap closed.
    min_completeness_gain
        Bar for completeness gain.
    repeats
        Subsampling repeats behind each interval.
    junit
        Whether figures are added to JUnit XML as test-case properties.

    Raises
    ------
    ArgumentError
        If a value is not allowed; the message names the setting, the value and what is allowed.
    """

    encoder: str = "builtin"
    embedder: str = "builtin"
    device: str = "auto"
    batch_size: int = 32
    loader_threads: int | None = None
    seed: int = 0
    cache_dir: Path | None = None
    report: Path | None = None
    export: Path | None = None
    inconclusive: str = "fail"
    on_bad_image: str = "fail"
    max_bad_images: int | None = None
    protocol: str = "matched"
    descriptors: tuple[Path, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    translators: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    min_count: int = 30
    min_share: float = 0.25
    min_groups: int = 5
    min_certainty: float = 0.6
    max_uncertain: float = 0.2
    min_lift: float = 1.5
    max_p: float = 0.01
    clusters: int = 6
    min_gap_closed: float = 0.5
    min_completeness_gain: float = 0.5
    repeats: int = 200
    junit: bool = True

    def __post_init__(self) -> None:
        for name, rule in RULES.items():
            value = getattr(self, name)
            object.__setattr__(self, name, rule.check(value, where=f"Settings({name}=...)"))

    def override(self, changes: Mapping[str, object], *, where: str = "settings") -> Settings:
        """Return these settings with some values replaced; a value of ``None`` changes nothing.

        Parameters
        ----------
        changes
            Field name → value.
        where
            Who asks, for the error message.

        Raises
        ------
        ArgumentError
            For an unknown name (the message lists the known ones) or a value that is not allowed.
        """
        check_names(changes, RULES, where=where)
        given = {name: value for name, value in changes.items() if value is not None}
        if not given:
            return self
        checked = {name: RULES[name].check(value, where=f"{where}, {name}") for name, value in given.items()}
        return replace(self, **checked)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain Python (paths as text)."""
        return {name: _plain(getattr(self, name)) for name in RULES}


_LINES = "lines of the form name = value, each name once"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a setting may be, and where it may be given: one row of :data:`RULES`.

    Parameters
    ----------
    kind
        ``text``, ``spec`` (text that may end in ``@path``), ``choice``, ``int``, ``float``, ``bool``,
        ``path``, ``paths``, ``table`` (lines ``name = value``) or ``specs`` (a table of specs).
    help
        One phrase for ``--help``.
    choices
        Allowed values of a ``choice``.
    pattern
        Regular expression that a ``text`` must match wholly.
    low, high
        Inclusive bounds of a number.
    optional
        Whether ``None`` is a value.
    command_line
        Whether there is a command-line option besides the ini key. Bars and thresholds have none: they
        belong under version control (``-o semcov_min_count=10`` tries another one).
    marker
        Whether ``@pytest.mark.semcov(...)`` takes it.
    """

    kind: str
    help: str
    choices: tuple[str, ...] = ()
    pattern: str = ""
    low: float | None = None
    high: float | None = None
    optional: bool = False
    command_line: bool = False
    marker: bool = False

    @property
    def allowed(self) -> str:
        """What may be given, in words."""
        if self.kind in ("int", "float"):
            number = "a whole number" if self.kind == "int" else "a number"
            if self.low is not None and self.high is not None:
                return f"{number} from {self.low:g} to {self.high:g}"
            return number if self.low is None else f"{number} ≥ {self.low:g}"
        if self.kind == "choice":
            return ", ".join(self.choices)
        return {
            "bool": "true, false",
            "table": _LINES,
            "specs": _LINES,
            "path": "a path",
            "paths": "paths, one a line",
        }.get(self.kind, self.help if self.pattern else "text")

    def check(self, value: object, *, where: str) -> Any:
        """Return the value in its type.

        Raises
        ------
        ArgumentError
            If it is not allowed.
        """
        if value is None and self.optional:
            return None
        checked = self._converted(value)
        if checked is None:
            raise ArgumentError(f"{where}: {value!r} is not allowed; allowed: {self.allowed}")
        return checked

    def _converted(self, value: object) -> Any:
        """Return the value in its type, ``None`` if it is not allowed."""
        match self.kind:
            case "choice":
                return value if isinstance(value, str) and value in self.choices else None
            case "bool":
                return value if isinstance(value, bool) else None
            case "int" | "float":
                return self._number(value)
            case "path":
                return Path(value) if isinstance(value, (str, Path)) and str(value) else None
            case "paths":
                if isinstance(value, (str, Path)) or not isinstance(value, Iterable):
                    return None
                return tuple(Path(item) for item in value)
            case "table" | "specs":
                return (
                    dict(value) if isinstance(value, Mapping) and all(map(_is_pair, value.items())) else None
                )
            case _:
                text = value.strip() if isinstance(value, str) else ""
                return text if text and re.fullmatch(self.pattern or ".*", text, re.DOTALL) else None

    def _number(self, value: object) -> int | float | None:
        number: int | float
        if isinstance(value, bool):
            return None
        if self.kind == "int" and isinstance(value, SupportsIndex):
            number = operator.index(value)
        elif self.kind == "float" and isinstance(value, SupportsFloat):
            number = float(value)
        else:
            return None
        inside = (self.low is None or number >= self.low) and (self.high is None or number <= self.high)
        return number if inside and math.isfinite(number) else None

    def read(self, written: object, *, where: str, folder: Path) -> Any:
        """Return the value of what was written on a command line or in an ini file.

        Parameters
        ----------
        written
            Text, or what pytest made of it already (list of lines, number, bool).
        where
            Name of option or key, for the error message.
        folder
            What relative paths are relative to.

        Raises
        ------
        ArgumentError
            If it is not allowed.
        """
        if self.kind in ("paths", "table", "specs"):
            lines = written.splitlines() if isinstance(written, str) else written
            lines = [line.strip() for line in lines if line.strip()] if isinstance(lines, list) else []
            value: object = (
                [folder / Path(line).expanduser() for line in lines]
                if self.kind == "paths"
                else self._table(lines, where=where, folder=folder)
            )
        elif not isinstance(written, str):
            value = written
        else:
            value = self._from_text(written.strip(), folder)
        return self.check(value, where=where)

    def _from_text(self, text: str, folder: Path) -> object:
        try:
            match self.kind:
                case "int":
                    return int(text)
                case "float":
                    return float(text)
                case "path":
                    return folder / Path(text).expanduser() if text else text
                case "spec":
                    return anchored_spec(text, folder)
        except ValueError:
            return text  # not a number: refused by check(), which shows it
        return text

    def _table(self, lines: Sequence[str], *, where: str, folder: Path) -> dict[str, str]:
        table: dict[str, str] = {}
        for line in lines:
            name, _, value = (part.strip() for part in line.partition("="))
            if not name or not value or name in table:
                raise ArgumentError(f"{where}: {line!r} is not allowed; allowed: {self.allowed}")
            table[name] = anchored_spec(value, folder) if self.kind == "specs" else value
        return table


def anchored_spec(spec: str, folder: Path) -> str:
    """Return a spec with its files as seen from a folder: ``SCHEME:CONFIG.json@PATH``, ``NAME@PATH``.

    A name may itself hold ``@``: the first split that leaves an existing file counts, else the first.
    """
    places = [index for index, character in enumerate(spec) if character == "@" and spec[index + 1 :]]
    seen = {place: folder / Path(spec[place + 1 :]).expanduser() for place in places}
    place = next((place for place, path in seen.items() if path.is_file()), places[0] if places else None)
    name = spec if place is None else spec[:place]
    scheme, colon, config = name.partition(":")
    if config.endswith(".json") and (folder / Path(config).expanduser()).is_file():
        name = f"{scheme}{colon}{folder / Path(config).expanduser()}"
    return name if place is None else f"{name}@{seen[place]}"


def _is_pair(item: tuple[object, object]) -> bool:
    return all(isinstance(part, str) and part for part in item)


RULES: dict[str, Rule] = {
    "encoder": Rule(
        "spec",
        "image-text model that labels images, e.g. builtin or open_clip:NAME/TAG",
        command_line=True,
        marker=True,
    ),
    "embedder": Rule(
        "spec",
        "model whose embeddings decide what matters, e.g. builtin or timm:NAME@PATH",
        command_line=True,
        marker=True,
    ),
    "device": Rule(
        "text",
        "device that models run on: auto, cpu, cuda, cuda:N or mps",
        pattern=r"auto|cpu|mps|cuda(:\d+)?",
        command_line=True,
    ),
    "batch_size": Rule("int", "images per model call", low=1, command_line=True),
    "loader_threads": Rule("int", "threads that decode images (default: by cores)", low=1, optional=True),
    "seed": Rule("int", "root of all random numbers", low=0, command_line=True, marker=True),
    "cache_dir": Rule("path", "folder of the embedding cache", optional=True, command_line=True),
    "report": Rule("path", "write a JSON report to this file", optional=True, command_line=True),
    "export": Rule(
        "path", "write accepted synthetic images into this folder", optional=True, command_line=True
    ),
    "inconclusive": Rule(
        "choice",
        "how an inconclusive verdict shows: fail, skip or xfail",
        ("fail", "skip", "xfail"),
        command_line=True,
        marker=True,
    ),
    "on_bad_image": Rule(
        "choice",
        "what an unreadable image does: fail or skip",
        ("fail", "skip"),
        command_line=True,
        marker=True,
    ),
    "max_bad_images": Rule(
        "int",
        "most unreadable images that are skipped (default: any number)",
        low=0,
        optional=True,
        command_line=True,
        marker=True,
    ),
    "protocol": Rule(
        "choice",
        "how sufficiency is judged: matched or deduce",
        ("matched", "deduce"),
        command_line=True,
        marker=True,
    ),
    "descriptors": Rule("paths", "TOML files with further semantics"),
    "labels": Rule("table", "semantic = metadata column that holds its categories", marker=True),
    "translators": Rule("specs", "name = spec of a translator, e.g. day_to_night = colour@PATH"),
    "models": Rule("specs", "name = spec of a model under test, e.g. in use = timm:resnet18@PATH"),
    "min_count": Rule("int", "fewest images of a covered category", low=0, marker=True),
    "min_share": Rule(
        "float",
        "smallest share of a covered category, times number of categories",
        low=0,
        high=1,
        marker=True,
    ),
    "min_groups": Rule("int", "fewest groups (videos, scenes) of a covered category", low=0, marker=True),
    "min_certainty": Rule(
        "float", "probability below which a label is uncertain", low=0, high=1, marker=True
    ),
    "max_uncertain": Rule("float", "largest share of uncertain labels", low=0, high=1, marker=True),
    "min_lift": Rule("float", "lift of cluster recall that makes a category important", low=0, marker=True),
    "max_p": Rule("float", "adjusted p-value that makes a category important", low=0, high=1, marker=True),
    "clusters": Rule("int", "number of k-means clusters", low=2, marker=True),
    "min_gap_closed": Rule("float", "bar of drift gap and radius gap closed", low=0, high=1, marker=True),
    "min_completeness_gain": Rule("float", "bar of completeness gain", low=0, high=1, marker=True),
    "repeats": Rule("int", "subsampling repeats behind each interval", low=20, marker=True),
    "junit": Rule("bool", "add figures to JUnit XML as properties"),
}


def check_names(names: Iterable[str], known: Iterable[str], *, where: str) -> None:
    """Raise :class:`ArgumentError` for the first unknown name, listing the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ArgumentError(f"{where}: unknown argument {name!r}; there are {', '.join(known)}")


def _plain(value: object) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
