"""The published DEDUCE figures, computed by dataeval as its authors' code computes them.

"Improving Semantic Coverage in AI Test & Evaluation through Generative Augmentation", SPIE Defense +
Commercial Sensing, 2026. Each set is scaled by its own minimum and maximum and sets of different size are
compared; the matched protocol does neither. These figures exist to reproduce published results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_semcov.errors import TooFewError
from pytest_semcov.metrics.arrays import Floats, as_embeddings, require_same_width

TRIAL_SEEDS = tuple(range(42, 52))
_TORCH_SEED = 45


@dataclass(frozen=True, slots=True)
class DriftTrials:
    """Drift of one set from U over the published trials.

    Parameters
    ----------
    distance, distance_std
        Mean and population standard deviation of the detector's distance.
    drift_fraction
        Share of trials called drifted; ``drifted`` if more than half.
    num_trials
        10 if the set is larger than U (random subsets of U's size), else 1.
    """

    distance: float
    distance_std: float
    drift_fraction: float
    drifted: bool
    num_trials: int


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """All figures of the published evaluation; U uncovered, C covered, S synthetic.

    Parameters
    ----------
    divergence
        Keys ``U-C``, ``U-S``, ``C-S``: nearest-neighbour divergence.
    radius
        Keys ``U``, ``U+U``, ``U+C``, ``U+S``, ``U+C+S``: median over the rows of U of the distance to the
        k-th other row of the stack.
    completeness
        Same keys: ``dataeval.core.completeness`` of the stack. On tied values it depends on how the
        processor's sort happens to order ties.
    drift
        Detector (``KS``, ``CVM``, ``MMD``) → ``C`` or ``S`` → trials.
    """

    divergence: Mapping[str, float]
    radius: Mapping[str, float]
    completeness: Mapping[str, float]
    drift: Mapping[str, Mapping[str, DriftTrials]]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain Python."""
        return asdict(self)


def scale_by_own_range(embeddings: ArrayLike) -> NDArray[np.float32]:
    """Scale a set to [0, 1] by its own scalar minimum and maximum, in float32."""
    x = np.asarray(as_embeddings(embeddings), dtype=np.float32)
    low, high = x.min(), x.max()
    return (x - low) / (high - low) if high > low else np.zeros_like(x)


def published_figures(
    uncovered: ArrayLike, covered: ArrayLike, synthetic: ArrayLike, *, k: int = 20
) -> PublishedFigures:
    """Compute the published figures.

    Parameters
    ----------
    uncovered, covered, synthetic
        ``(n, d)`` embeddings, unscaled.
    k
        Neighbour that defines the radius.

    Raises
    ------
    TooFewError
        If U has k rows or fewer.
    """
    given = {"U": uncovered, "C": covered, "S": synthetic}
    raw: dict[str, Floats] = {name: as_embeddings(values, name=name) for name, values in given.items()}
    require_same_width(*raw.items())
    if len(raw["U"]) <= k:
        raise TooFewError(f"uncovered: have {len(raw['U'])} rows, need more than k = {k}")
    sets = {name: scale_by_own_range(values) for name, values in raw.items()}
    with warnings.catch_warnings():
        # On first import dataeval compiles a helper with torch.jit.script, which newer torch deprecates.
        warnings.filterwarnings("ignore", message=".*torch.jit.script.*")
        from dataeval.core import completeness, coverage_adaptive, divergence_fnn
        from dataeval.shift import DriftMMD, DriftUnivariate

    count = len(sets["U"])
    stacks = {
        name: np.vstack([sets[part] for part in name.split("+")])
        for name in ("U", "U+U", "U+C", "U+S", "U+C+S")
    }
    radius = {
        name: float(
            np.median(
                coverage_adaptive(stack, num_observations=k, percent=0.01)["critical_value_radii"][:count]
            )
        )
        for name, stack in stacks.items()
    }
    detectors: dict[str, Callable[[], Any]] = {
        "KS": lambda: DriftUnivariate(method="ks"),
        "CVM": lambda: DriftUnivariate(method="cvm"),
        "MMD": lambda: DriftMMD(device="cpu"),
    }
    return PublishedFigures(
        divergence={
            pair: float(divergence_fnn(sets[pair[0]], sets[pair[2]])["divergence"])
            for pair in ("U-C", "U-S", "C-S")
        },
        radius=radius,
        completeness={name: float(completeness(stack)["completeness"]) for name, stack in stacks.items()},
        drift={name: _trials(make(), sets) for name, make in detectors.items()},
    )


def _trials(detector: Any, sets: dict[str, NDArray[np.float32]]) -> dict[str, DriftTrials]:
    import torch

    reference = sets["U"]
    detector.fit(reference)
    result = {}
    # MMD permutations draw from torch's global generator: seed it for this block only.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_TORCH_SEED)
        # C before S: the detector keeps the bandwidth that it infers from the first set it sees.
        for name in ("C", "S"):
            tested = sets[name]
            if len(tested) > len(reference):
                subsets = [
                    np.random.default_rng(seed).choice(len(tested), size=len(reference), replace=False)
                    for seed in TRIAL_SEEDS
                ]
            else:
                subsets = [np.arange(len(tested))]
            outputs = [detector.predict(tested[rows]) for rows in subsets]
            distances = np.array([float(output.distance) for output in outputs])
            fraction = float(np.mean([bool(output.drifted) for output in outputs]))
            result[name] = DriftTrials(
                distance=float(distances.mean()),
                distance_std=float(distances.std()),
                drift_fraction=fraction,
                drifted=fraction > 0.5,
                num_trials=len(subsets),
            )
    return result
