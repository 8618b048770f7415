"""Labels: the category of each image under one semantic, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.errors import ArgumentError
from pytest_semcov.gates.figures import text_table
from pytest_semcov.gates.verdict import Plain, plain

UNCERTAIN = -1
"""Code of an image without a certain label."""

MARGIN_BUCKETS = (0.010, 0.025)
"""Bounds of the margins called low, medium and high; published for raw cosines of EVA02-L."""


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The category of each image under one semantic.

    Parameters
    ----------
    semantic
        The semantic's name.
    categories
        Its K categories; codes index them.
    codes
        ``(n,)`` int64 in -1…K-1; -1 = uncertain (or not labelled).
    similarity
        ``(n, K)`` float64 cosines to the categories' texts; ``None`` for labels as given.
    margin
        ``(n,)`` float64, highest minus second-highest cosine; ``None`` for labels as given.
    source
        Where the labels come from, for people.
    ids
        Sample ids, one a row.
    probability
        ``(n,)`` float64 softmax probability of the nearest category at the encoder's logit scale;
        ``None`` for labels as given.
    encoder, encoder_fingerprint
        The encoder that made the labels; empty for labels as given.
    """

    semantic: str
    categories: tuple[str, ...]
    codes: NDArray[np.int64]
    similarity: NDArray[np.float64] | None
    margin: NDArray[np.float64] | None
    source: str
    ids: tuple[str, ...]
    probability: NDArray[np.float64] | None = None
    encoder: str = ""
    encoder_fingerprint: str = ""

    def __post_init__(self) -> None:
        if len(self.codes) != len(self.ids):
            raise ArgumentError(
                f"labels of {self.semantic!r}: {len(self.codes)} codes for {len(self.ids)} ids"
            )
        if len(self.codes) and not -1 <= int(self.codes.min()) <= int(self.codes.max()) < len(
            self.categories
        ):
            raise ArgumentError(
                f"labels of {self.semantic!r}: codes must lie in -1…{len(self.categories) - 1}, "
                f"got {int(self.codes.min())}…{int(self.codes.max())}"
            )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def estimated(self) -> bool:
        """Whether an encoder made the labels."""
        return self.similarity is not None

    @property
    def top(self) -> NDArray[np.int64]:
        """``(n,)`` code of the nearest category, uncertain or not; the codes for labels as given."""
        if self.similarity is None:
            return self.codes
        return np.asarray(self.similarity.argmax(axis=1), dtype=np.int64)

    @property
    def uncertain(self) -> int:
        """Images without a certain label."""
        return int((self.codes == UNCERTAIN).sum())

    def counts(self) -> dict[str, int]:
        """Return the images per category by certain label; every category is there, with 0 where empty."""
        certain = self.codes[self.codes != UNCERTAIN]
        numbers = np.bincount(certain, minlength=len(self.categories))
        return {category: int(number) for category, number in zip(self.categories, numbers, strict=True)}

    def code(self, category: str) -> int:
        """Return the code of a category.

        Raises
        ------
        ArgumentError
            If there is no such category; the message lists them.
        """
        if category not in self.categories:
            raise ArgumentError(
                f"{self.semantic!r} has no category {category!r}; it has {', '.join(self.categories)}"
            )
        return self.categories.index(category)

    def mask(self, category: str) -> NDArray[np.bool_]:
        """Return ``(n,)`` True where the image is certainly of this category."""
        return np.asarray(self.codes == self.code(category))

    def category_of(self, sample_id: str) -> str | None:
        """Return the category of one image, ``None`` if it is uncertain.

        Raises
        ------
        ArgumentError
            If no image has that id.
        """
        if sample_id not in self.ids:
            raise ArgumentError(f"labels of {self.semantic!r} hold no image {sample_id!r}")
        code = int(self.codes[self.ids.index(sample_id)])
        return None if code == UNCERTAIN else self.categories[code]

    def by_id(self) -> dict[str, str | None]:
        """Return id → category (``None`` where uncertain), in order."""
        return {
            sample_id: None if code == UNCERTAIN else self.categories[code]
            for sample_id, code in zip(self.ids, self.codes.tolist(), strict=True)
        }

    def select(self, rows: NDArray[np.bool_] | Sequence[int]) -> Labels:
        """Return the labels of these rows (boolean mask or indices)."""
        rows = np.asarray(rows)
        index = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        return Labels(
            self.semantic,
            self.categories,
            self.codes[index],
            None if self.similarity is None else self.similarity[index],
            None if self.margin is None else self.margin[index],
            self.source,
            tuple(self.ids[row] for row in index.tolist()),
            None if self.probability is None else self.probability[index],
            self.encoder,
            self.encoder_fingerprint,
        )

    def for_ids(self, ids: Sequence[str]) -> Labels:
        """Return the labels of these images, in their order.

        Raises
        ------
        ArgumentError
            If an image has no row here; the message names the first.
        """
        row = {sample_id: number for number, sample_id in enumerate(self.ids)}
        missing = [sample_id for sample_id in ids if sample_id not in row]
        if missing:
            raise ArgumentError(
                f"labels of {self.semantic!r} hold no image {missing[0]!r} "
                f"({len(missing)} of {len(ids)} missing)"
            )
        return self.select([row[sample_id] for sample_id in ids])

    def margin_buckets(self, bounds: tuple[float, float] = MARGIN_BUCKETS) -> tuple[str, ...]:
        """Return ``"low"``, ``"medium"`` or ``"high"`` per image: margin < first bound, < second, or above.

        Raises
        ------
        ArgumentError
            For labels as given, which have no margin.
        """
        if self.margin is None:
            raise ArgumentError(f"labels of {self.semantic!r} are given, not estimated: they have no margin")
        return tuple(
            ("low", "medium", "high")[number]
            for number in np.searchsorted(np.asarray(bounds), self.margin, side="right").tolist()
        )

    def to_dict(self) -> dict[str, Plain]:
        """Return a summary as plain Python (counts, no per-image values)."""
        return {
            "semantic": self.semantic,
            "counts": plain(self.counts()),
            "uncertain": self.uncertain,
            "images": len(self),
            "source": self.source,
            "encoder": self.encoder,
            "encoder_fingerprint": self.encoder_fingerprint,
        }

    def __str__(self) -> str:
        rows = [
            [f"{self.semantic} ({self.source})", "images", "share", *(["margin"] if self.estimated else [])]
        ]
        for name, chosen in [
            *((category, self.mask(category)) for category in self.categories),
            ("uncertain", self.codes == UNCERTAIN),
        ]:
            number = int(chosen.sum())
            row = [name, str(number), f"{number / len(self):.1%}" if len(self) else "-"]
            if self.margin is not None:
                row.append(f"{self.margin[chosen].mean():.3f}" if number else "-")
            rows.append(row)
        return text_table(rows)
