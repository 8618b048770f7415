"""Figures that the sufficiency gate shows beside its criteria and that judge nothing."""

from __future__ import annotations

import numpy as np

from pytest_semcov.gates.sufficiency_hygiene import PERMUTATIONS
from pytest_semcov.gates.sufficiency_sets import DistanceTable, MatchedSettings
from pytest_semcov.gates.verdict import Criterion, Outcome
from pytest_semcov.metrics.completeness import effective_rank
from pytest_semcov.metrics.feature_drift import cramer_von_mises, kolmogorov_smirnov
from pytest_semcov.metrics.frechet import frechet_distance
from pytest_semcov.metrics.gaps import COVERED, SYNTHETIC, UNCOVERED
from pytest_semcov.metrics.mmd import mmd_permutation_test
from pytest_semcov.metrics.prdc import prdc_from_distances

_MOST_ROWS = 400


def comparison_figures(table: DistanceTable, settings: MatchedSettings) -> tuple[Criterion, ...]:
    """Measure S and C against U at equal numbers by metrics that users of other tools know."""
    sizes = [len(table.of(which)) for which in (UNCOVERED, COVERED, SYNTHETIC)]
    n = min(*sizes, _MOST_ROWS)
    if n <= settings.k:
        return ()
    generator = np.random.default_rng(settings.seed)
    u, c, s = (
        table.rows[generator.choice(table.of(which), size=n, replace=False)]
        for which in (UNCOVERED, COVERED, SYNTHETIC)
    )

    def figure(name: str, value: float, note: str) -> Criterion:
        return Criterion(name, value, None, None, Outcome.INFO, note)

    pairs = [
        ("mean_ks", kolmogorov_smirnov(u, s).mean, kolmogorov_smirnov(u, c).mean),
        ("mean_cvm", cramer_von_mises(u, s).mean, cramer_von_mises(u, c).mean),
        ("frechet", frechet_distance(u, s), frechet_distance(u, c)),
    ]
    figures = [
        figure(name, ours, f"real uncovered to synthetic; to covered {theirs:.3g} ({n} images each)")
        for name, ours, theirs in pairs
    ]
    real_and_made = table.of(UNCOVERED, SYNTHETIC)
    _, p_value = mmd_permutation_test(
        table.kernel()[np.ix_(real_and_made, real_and_made)],
        table.sets[real_and_made] == UNCOVERED,
        permutations=PERMUTATIONS,
        seed=settings.seed,
    )
    figures.append(
        figure("mmd_p", p_value, "permutation p of the MMD between real uncovered and synthetic images")
    )
    if min(sizes) > settings.k:
        four = prdc_from_distances(
            table.block(UNCOVERED, UNCOVERED),
            table.block(SYNTHETIC, SYNTHETIC),
            table.block(UNCOVERED, SYNTHETIC),
            k=settings.k,
        )
        figures.extend(
            figure(name, value, f"against real uncovered images, k = {settings.k}")
            for name, value in four.to_dict().items()
        )
    with_s, with_c = effective_rank(np.concatenate([u, s])), effective_rank(np.concatenate([u, c]))
    figures.append(
        figure(
            "effective_rank",
            with_s,
            f"of real uncovered with synthetic; with covered {with_c:.3g} ({n} images each)",
        )
    )
    return tuple(figures)
