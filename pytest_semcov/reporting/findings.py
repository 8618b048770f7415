"""What a session found: gaps, marks of distrust and images that were left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_semcov.reporting.records import Record, criteria

_FIGURE_OF_CATEGORY = re.compile(r"^(count|share|groups)\[(?P<category>.+)\]$")


def gaps(records: Iterable[Record]) -> list[str]:
    """Return one phrase for each thing that did not pass: subject, then categories or criteria by name.

    The criteria ``count[night]`` and ``share[night]`` both name the category ``night``, once.
    """
    found: dict[str, dict[str, None]] = {}
    order = ("FAIL", "INCONCLUSIVE")
    missed = [record for record in records if record.get("outcome") in order]
    for record in sorted(missed, key=lambda record: order.index(record["outcome"])):
        outcome = record["outcome"]
        names = (str(item.get("name")) for item in criteria(record) if item.get("outcome") == outcome)
        shown = [match["category"] if (match := _FIGURE_OF_CATEGORY.match(name)) else name for name in names]
        phrase = f"{record.get('subject')}{' (inconclusive)' if outcome == 'INCONCLUSIVE' else ''}"
        found.setdefault(phrase, {}).update(dict.fromkeys(shown))
    return [f"{phrase}: {', '.join(names)}" if names else phrase for phrase, names in found.items()]


def untrained(records: Iterable[Record]) -> list[str]:
    """Return the names of models with untrained weights behind any record."""
    names: dict[str, None] = {}
    for record in records:
        for model in _mappings(record.get("provenance")):
            if model.get("trained") is False:
                names[str(model.get("name", "a model"))] = None
    return list(names)


def skipped_images(records: Iterable[Record]) -> dict[str, str]:
    """Return the images that could not be used, and the rule that each violates.

    An image is named by its id where that is a part of its path, else by the path.
    """
    found: dict[str, str] = {}
    for record in records:
        for part in _mappings(record.get("provenance")):
            skipped = part.get("skipped")
            for image in skipped if isinstance(skipped, list) else []:
                if isinstance(image, dict):
                    path, name = str(image.get("path") or ""), str(image.get("sample_id") or "")
                    found[name if name and path.endswith(name) else path or name] = str(image.get("rule", ""))
    return found


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all mappings inside a plain value, outermost first."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _mappings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _mappings(item)
