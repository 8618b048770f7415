"""Settings: one frozen dataclass, resolved in one place.

Precedence: call argument > marker > command line > ini file > default,
always by ``is None``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, with its default.

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
