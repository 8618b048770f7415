"""Which images a translator learns from, which it translates, and which may judge it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_semcov.data.samples import Sample
from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.verdict import Plain

FEWEST_TRANSLATED = 100
"""At least so many images are made where there are as many sources: fewer cannot be judged well."""


@dataclass(frozen=True, slots=True)
class AugmentationPlan:
    """Which images will be translated, decided before anything is made.

    Parameters
    ----------
    semantic, source, target
        What is changed: ``day_night``, ``day``, ``night``.
    sample_ids
        Sources, in the order in which they are translated.
    seeds
        One per source, from the root seed and the sample's id alone.
    seed
        The root seed.
    """

    semantic: str
    source: str
    target: str
    sample_ids: tuple[str, ...]
    seeds: tuple[int, ...]
    seed: int

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "semantic": self.semantic,
            "source": self.source,
            "target": self.target,
            "sample_ids": list(self.sample_ids),
            "seeds": list(self.seeds),
            "seed": self.seed,
        }


def plan_augmentation(
    candidates: Sequence[str],
    *,
    semantic: str,
    source: str,
    target: str,
    needed: int,
    count: int | None = None,
    seed: int = 0,
) -> AugmentationPlan:
    """Choose which images to translate.

    Parameters
    ----------
    candidates
        Ids of the real images of the source category.
    semantic, source, target
        What is changed.
    needed
        How many images the target category lacks.
    count
        How many to translate; default: as many as are needed, and at least
        :data:`FEWEST_TRANSLATED`; never more than there are candidates.
    seed
        Root seed. The choice and the seeds depend on it and on each sample's id, not on the order.

    Raises
    ------
    ArgumentError
        If there is no candidate, or ``count`` is less than one.
    """
    if not candidates:
        raise ArgumentError(f"{semantic}: no real {source} image to translate to {target}")
    if count is not None and count < 1:
        raise ArgumentError(f"count={count}: need at least one image to translate")
    wanted = max(needed, FEWEST_TRANSLATED) if count is None else count
    ranked = sorted(candidates, key=lambda sample_id: (_number(seed, "choice", sample_id), sample_id))
    chosen = tuple(ranked[:wanted])
    seeds = tuple(_number(seed, semantic, target, sample_id) >> 32 for sample_id in chosen)
    return AugmentationPlan(semantic, source, target, chosen, seeds, seed)


def fitted_on(translator: object) -> frozenset[str]:
    """Return the content keys of the images that a translator learnt from; empty if it does not say."""
    return frozenset(getattr(translator, "fitted_on", ()))


def unseen(samples: Sequence[Sample], translator: object, *, groups: bool = True) -> list[Sample]:
    """Return the samples that may judge a translator.

    Parameters
    ----------
    samples
        Real samples.
    translator
        None of the images in its ``fitted_on`` is returned.
    groups
        Whether images of the groups in its ``fitted_groups`` (those of the target images it learned from) are
        left out as well: yes for images of the target category, unnecessary for those of another.
    """
    keys = fitted_on(translator)
    close = frozenset(getattr(translator, "fitted_groups", ())) if groups else frozenset()
    return [
        sample
        for sample in samples
        if sample.group not in close and not (keys and sample.content_key() in keys)
    ]


def split_for_fitting(samples: Sequence[Sample], *, seed: int) -> tuple[list[Sample], list[Sample]]:
    """Split real images into halves, one to fit a translator and one to judge it, whole groups together."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.id if sample.group is None else f"group {sample.group}", []).append(sample)
    fitting: list[Sample] = []
    judging: list[Sample] = []
    for name in sorted(groups, key=lambda name: (_number(seed, "split", name), name)):
        (fitting if len(fitting) <= len(judging) else judging).extend(groups[name])
    return fitting, judging


def _number(*key: object) -> int:
    """Return a number below 2⁶⁴ that depends on the key alone."""
    digest = hashlib.sha256("\0".join(str(part) for part in key).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")
