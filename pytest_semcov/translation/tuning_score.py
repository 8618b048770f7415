"""How good translations are for the search of a prompt: gaps closed, structure kept, failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.embedding.cache import EmbeddingCache
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.embedding.protocols import Embedder
from pytest_semcov.errors import TooFewError
from pytest_semcov.gates.sufficiency_matched import FEWEST_UNITS
from pytest_semcov.gates.sufficiency_sets import DistanceTable
from pytest_semcov.gates.verdict import Plain
from pytest_semcov.metrics import gaps
from pytest_semcov.metrics.arrays import Doubles
from pytest_semcov.translation.structure import structure_kept

NEIGHBOUR = 5
"""Which neighbour defines the coverage radius, as in the sufficiency gate."""

FEWEST_REFERENCE = 6 * NEIGHBOUR
"""Real images of the target category that a half needs: the radius is measured among a third of them."""

FEWEST_SOURCES = 4 * NEIGHBOUR
"""Images to translate that a half needs, so that each subsample of them holds enough neighbours."""

_REPEATS = 20


@dataclass(frozen=True, slots=True)
class TuningScore:
    """What one setting achieved on one half of the real images.

    Parameters
    ----------
    objective
        (drift + radius) / 2, each at most 1, minus ``structure_weight`` x (1 - structure), minus the share of
        failures; minus infinity where too few translations were usable.
    drift, radius
        Shares of the two gaps closed, as the sufficiency gate measures them: 0 = no better than the source
        images, 1 = as good as real images. NaN where too few translations were usable.
    structure
        Mean :func:`~pytest_semcov.translation.structure.structure_kept`, -1 to 1; NaN if nothing was usable
        or no source shows an edge.
    failed
        Share of translations that were not usable.
    images
        Number of images translated.
    """

    objective: float
    drift: float
    radius: float
    structure: float
    failed: float
    images: int

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python; what was not measured is ``None``."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """Real images by which settings are scored.

    Parameters
    ----------
    name
        ``"fitting"`` or ``"held-out"``.
    sources, reference
        Images to translate; real images of the target category.
    covered, uncovered
        ``(n, d)`` their embeddings.
    """

    name: str
    sources: SampleDataset
    reference: SampleDataset
    covered: Doubles
    uncovered: Doubles

    @classmethod
    def of(
        cls,
        name: str,
        sources: SampleDataset,
        reference: SampleDataset,
        *,
        embedder: Embedder,
        seed: int,
        cache: EmbeddingCache | None = None,
    ) -> Half:
        """Embed the images and check that there is something to measure.

        Raises
        ------
        TooFewError
            If there are too few images, or too few to tell the two categories from each other.
        """
        for what, dataset, fewest in (
            ("images to translate", sources, FEWEST_SOURCES),
            ("real images of the target category", reference, FEWEST_REFERENCE),
        ):
            groups = len({_unit(what, sample) for sample in dataset.samples})
            if len(dataset) < fewest or groups < FEWEST_UNITS:
                raise TooFewError(
                    f"tune_prompt: the {name} half has {len(dataset)} {what} in {groups} groups: needs "
                    f"{fewest} in {FEWEST_UNITS}; whole groups go to one half, so give {2 * fewest} or more, "
                    "in many groups"
                )
        rows = [
            extract(each, embedder, cache=cache).array.astype(np.float64) for each in (sources, reference)
        ]
        half = cls(name, sources, reference, rows[0], rows[1])
        units = [_unit("source", sample) for sample in sources.samples]
        try:
            drift, radius = _gaps_closed(half, rows[0], units, repeats=_REPEATS, seed=seed)
        except TooFewError as error:
            raise TooFewError(f"tune_prompt: the {name} half: {error}") from error
        if not all(math.isfinite(bound) for gap in (drift, radius) for bound in gap.interval):
            raise TooFewError(
                f"tune_prompt: the {name} half's {len(reference)} real images of the target category cannot "
                f"be told from its {len(sources)} images to translate (interval of the gap without bounds); "
                "give more of both, or an embedder that sees the difference"
            )
        return half


def score_translations(
    half: Half,
    made: SampleDataset,
    failed: Mapping[str, str],
    *,
    embedder: Embedder,
    structure_weight: float,
    seed: int,
    cache: EmbeddingCache | None = None,
) -> TuningScore:
    """Score translations of a half's sources.

    Parameters
    ----------
    half
        The real images.
    made
        The usable translations, with provenance.
    failed
        Source id → why there is no usable translation.
    embedder
        The one that the half was embedded with.
    structure_weight
        How much lost structure counts, from 0.
    seed
        Seed of the subsamples.
    cache
        Where embeddings are kept.
    """
    images = len(made) + len(failed)
    share_failed = len(failed) / images
    source_of = {sample.id: sample for sample in half.sources.samples}
    sources = [source_of[sample.provenance.source_id] for sample in made.samples if sample.provenance]
    pairs = zip(sources, made.samples, strict=True)
    kept = np.array([structure_kept(source.load(), result.load()) for source, result in pairs])
    structure = float(kept[np.isfinite(kept)].mean()) if np.isfinite(kept).any() else math.nan
    score = TuningScore(-math.inf, math.nan, math.nan, structure, share_failed, images)
    if not len(made):
        return score
    rows = extract(made, embedder, cache=cache).array.astype(np.float64)
    try:
        units = [_unit("source", source) for source in sources]
        drift, radius = _gaps_closed(half, rows, units, repeats=gaps.PARTS, seed=seed)
    except TooFewError:
        return score
    closed = (min(drift.share, 1.0) + min(radius.share, 1.0)) / 2
    lost = structure_weight * (1 - structure) if math.isfinite(structure) else 0.0
    objective = closed - lost - share_failed
    return replace(score, objective=objective, drift=drift.share, radius=radius.share)


def _gaps_closed(
    half: Half, synthetic: Doubles, synthetic_units: list[str], *, repeats: int, seed: int
) -> tuple[gaps.GapClosed, gaps.GapClosed]:
    """Return the shares of drift and radius closed, by the sufficiency gate's own measures."""
    table = DistanceTable.build(half.uncovered, half.covered, synthetic)
    units = [
        *(_unit("reference", sample) for sample in half.reference.samples),
        *(_unit("source", sample) for sample in half.sources.samples),
        *synthetic_units,
    ]
    subsamples = gaps.draw_subsamples(table.sets, units, repeats=repeats, seed=seed)
    drift = gaps.drift_gap(table.kernel(), subsamples, bar=0.0)
    radius = gaps.radius_gap(np.sqrt(table.squared), subsamples, k=NEIGHBOUR, bar=0.0)
    return drift, radius.closed


def _unit(what: str, sample: Sample) -> str:
    """Return what is drawn together: a group; a translation goes with its source."""
    return f"{what} {sample.id}" if sample.group is None else f"group {sample.group}"
