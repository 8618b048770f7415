"""Ranking of categories by importance, for one embedder or several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import CategoryImportance, text_table
from pytest_semcov.gates.verdict import Plain, plain
from pytest_semcov.metrics.agreement import descending_ranks, kendall_w, pair_taus
from pytest_semcov.semantics.importance import Importance, importance_table


@dataclass(frozen=True, slots=True)
class Ranking:
    """Categories of one or more semantics, most important first.

    Parameters
    ----------
    entries
        By descending lift; categories of unknown importance last.
    """

    entries: tuple[CategoryImportance, ...]

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {"entries": [entry.to_dict() for entry in self.entries]}

    def __str__(self) -> str:
        return importance_table(self.entries)


@dataclass(frozen=True, slots=True)
class RankedCategory:
    """A category's place over several embedders.

    Parameters
    ----------
    semantic, category
        Which category.
    mean_rank, median_rank
        Mean and median of its ranks (1 = most important; ties share the mean of their places).
    ranks
        Embedder → rank.
    """

    semantic: str
    category: str
    mean_rank: float
    median_rank: float
    ranks: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RankingAcrossEmbedders:
    """Ranks aggregated over embedders, and how far the embedders agree.

    Parameters
    ----------
    entries
        By ascending mean rank.
    kendall_tau
        Pair of embedders ("a, b") → Kendall's tau-b of their rankings in [-1, 1]; ``None`` where undefined
        (all tied).
    unknown
        Categories ("semantic: category") left out because some embedder's figure is unknown.
    kendall_w
        Kendall's W of all rankings together in [0, 1]; ``None`` where undefined.
    """

    entries: tuple[RankedCategory, ...]
    kendall_tau: Mapping[str, float | None]
    unknown: tuple[str, ...] = ()
    kendall_w: float | None = None

    @property
    def lowest_tau(self) -> float | None:
        """Tau of the pair that agrees least."""
        known = [tau for tau in self.kendall_tau.values() if tau is not None]
        return min(known) if known else None

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {
            "entries": [plain(asdict(entry)) for entry in self.entries],
            "kendall_tau": plain(dict(self.kendall_tau)),
            "kendall_w": plain(self.kendall_w),
            "unknown": plain(self.unknown),
        }

    def __str__(self) -> str:
        embedders = list(self.entries[0].ranks) if self.entries else []
        rows = [["semantic: category", "mean rank", "median", *embedders]]
        for entry in self.entries:
            joined = (f"{entry.mean_rank:.3g}", f"{entry.median_rank:g}")
            ranks = (f"{entry.ranks[name]:g}" for name in embedders)
            rows.append([f"{entry.semantic}: {entry.category}", *joined, *ranks])
        lines = [text_table(rows)]
        for pair, tau in self.kendall_tau.items():
            lines.append(f"Kendall tau of {pair}: {'undefined' if tau is None else f'{tau:.2f}'}")
        if self.kendall_w is not None:
            lines.append(f"Kendall W of all: {self.kendall_w:.2f}")
        if self.unknown:
            lines.append(f"unknown importance: {', '.join(self.unknown)}")
        return "\n".join(lines)


def rank(importances: Sequence[Importance]) -> Ranking:
    """Rank all categories of several semantics by lift."""
    entries = [entry for each in importances for entry in each.categories]
    return Ranking(tuple(sorted(entries, key=_descending_lift)))


def rank_across_embedders(importances: Mapping[str, Sequence[Importance]]) -> RankingAcrossEmbedders:
    """Aggregate the rankings of several embedders.

    Ranks are averaged, never raw figures: recall and lift of two embedding spaces are not on one scale.

    Parameters
    ----------
    importances
        Embedder → importances of the same semantics.

    Raises
    ------
    ArgumentError
        If there is no embedder, or two were given different categories.
    """
    if not importances:
        raise ArgumentError("rank_across_embedders needs the importances of at least one embedder")
    lifts = {
        embedder: {(e.semantic, e.category): e.lift for each in listed for e in each.categories}
        for embedder, listed in importances.items()
    }
    first_name, first = next(iter(lifts.items()))
    for embedder, figures in lifts.items():
        differing = set(figures) ^ set(first)
        if differing:
            raise ArgumentError(
                f"embedders {first_name!r} and {embedder!r} were not given the same categories: "
                f"{': '.join(min(differing))} is in one only"
            )
    known = [key for key in first if all(figures[key] is not None for figures in lifts.values())]
    values = {embedder: [float(figures[key] or 0.0) for key in known] for embedder, figures in lifts.items()}
    ranks = {embedder: descending_ranks(each) for embedder, each in values.items()}
    entries = [
        RankedCategory(
            *key,
            float(np.mean([places[row] for places in ranks.values()])),
            float(np.median([places[row] for places in ranks.values()])),
            {embedder: float(places[row]) for embedder, places in ranks.items()},
        )
        for row, key in enumerate(known)
    ]
    several = len(values) > 1 and len(known) > 1
    table = np.array(list(values.values()), dtype=np.float64)
    pairs = list(combinations(values, 2))
    taus = pair_taus(table) if several else [math.nan] * len(pairs)
    w = kendall_w(table) if several else math.nan
    return RankingAcrossEmbedders(
        tuple(sorted(entries, key=lambda entry: entry.mean_rank)),
        {f"{a}, {b}": None if math.isnan(tau) else tau for (a, b), tau in zip(pairs, taus, strict=True)},
        tuple(": ".join(key) for key in first if key not in known),
        None if math.isnan(w) else w,
    )


def _descending_lift(entry: CategoryImportance) -> tuple[bool, float]:
    return entry.lift is None, -(entry.lift or 0.0)
