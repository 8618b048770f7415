"""The data sets of this example: rendered road scenes, all drawn from one seed."""

from pytest_semcov import RenderedScenes, UnpairedTranslator

SIZE = 64
STILL = {
    "summer_winter": "summer",
    "noveg_veg": "no vegetation",
    "lowdense_highdense": "low density",
    "sharp_blurry": "sharp",
    "noflare_flare": "no flare",
    "nodamage_damage": "no damage",
}
"""One season, one clean lens: what is learnt in a minute. Time of day and weather vary."""

NIGHT_SHARE = {"classifier": 0.85, "detector": 0.7}
"""Of the scenes that model 2 is trained on; model 1 never saw night."""

MOSTLY_DRY = {"clear_rain": {"clear": 0.75, "rain": 0.25}}
MOSTLY_DAY = {"day_night": {"day": 0.975, "night": 0.025}}


def scenes(count, *, seed, number, name, mix=MOSTLY_DRY, **fixed):
    """Draw a data set; each number gives other scenes of the same kind."""
    mix = {semantic: shares for semantic, shares in mix.items() if semantic not in fixed}
    return RenderedScenes(count, seed=100 * seed + number, size=SIZE, mix=mix, name=name, **STILL, **fixed)


def training_scenes(seed, *, night):
    """Return 800 scenes to train on, of which a share shows night: all models get as many."""
    by_night = round(800 * night)
    by_day = scenes(800 - by_night, seed=seed, number=1, name="training", day_night="day")
    return by_day + scenes(by_night, seed=seed, number=2, name="training", day_night="night")


def original_scenes(seed):
    """Return the release that models are chosen on: 780 scenes by day and 20 by night."""
    return scenes(800, seed=seed, number=3, name="original", mix=MOSTLY_DRY | MOSTLY_DAY)


def real_night(seed):
    """Return what nobody has when it matters: as many real night scenes as are missing."""
    return scenes(760, seed=seed, number=4, name="real night", day_night="night")


def fit_translator(seed):
    """Train a small network to make night of day, on 200 + 200 unpaired scenes of earlier campaigns.

    Half the default size: about a minute instead of three on one core, for a night that is less like real
    night, yet enough to choose a model by.
    """
    by_day = scenes(200, seed=seed, number=5, name="day campaign", day_night="day")
    by_night = scenes(200, seed=seed, number=6, name="night campaign", day_night="night")
    return UnpairedTranslator.fit(by_day, by_night, semantic="day_night", seed=seed, size=32)


def synthetic(bench, original, translator, *, seed, count=760):
    """Translate scenes of the release and judge the result by 200 real scenes of yet other places."""
    reference = scenes(200, seed=seed, number=7, name="reference", **{translator.semantic: translator.target})
    (augmentation,) = bench.augment(
        original,
        semantic=translator.semantic,
        to=translator.target,
        translator=translator,
        count=count,
        labels=translator.semantic,
        reference=reference,
        seed=seed,
    )
    return augmentation
