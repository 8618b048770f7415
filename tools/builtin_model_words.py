"""What the built-in model is taught to read: the catalogue's phrases first, then paraphrases."""

from __future__ import annotations

from pytest_semcov.data.scenes import SCENE_SEMANTICS
from pytest_semcov.data.scenes_layout import LAYOUTS, OBJECT_CLASSES
from pytest_semcov.semantics.descriptors import catalogue

FACTORS: dict[str, tuple[str, ...]] = {**SCENE_SEMANTICS, "object": OBJECT_CLASSES, "layout": LAYOUTS}
"""Everything that captions speak of: the eight semantics, the main object, the kind of place."""

PARAPHRASES: dict[str, tuple[str, ...]] = {
    "day": ("day", "a photo taken during the day", "daylight", "a daytime scene", "in the daytime"),
    "night": ("night", "a photo taken at night", "darkness", "a nighttime scene", "at night", "dark night"),
    "clear": ("clear", "dry weather", "a photo in clear weather", "no rain", "dry road"),
    "rain": ("rain", "rainy weather", "a photo in the rain", "raining", "wet road and puddles", "heavy rain"),
    "summer": ("summer", "a photo taken in summer", "warm season without snow", "no snow"),
    "winter": ("winter", "snow", "a photo taken in winter", "snowy winter", "covered in snow"),
    "no damage": ("no damage", "intact", "undamaged buildings", "a photo of an intact place"),
    "damage": (
        "damage",
        "damaged",
        "ruins and rubble",
        "a photo of damaged buildings",
        "destroyed buildings",
    ),
    "sharp": ("sharp", "a sharp photo", "in focus", "crisp detail"),
    "blurry": ("blurry", "a blurry photo", "out of focus", "motion blur"),
    "no vegetation": ("no vegetation", "no trees", "bare ground", "a photo without plants", "treeless"),
    "vegetation": ("vegetation", "trees", "green plants", "a photo with trees and grass", "trees and bushes"),
    "no flare": ("no flare", "no lens flare", "a photo without lens flare"),
    "flare": ("flare", "lens flare", "a photo with lens flare", "light shining into the lens", "sun glare"),
    "low density": ("low density", "few buildings", "a sparse place", "isolated houses"),
    "high density": ("high density", "many buildings", "a dense city", "crowded with buildings"),
    "car": ("a photo of a car", "a car", "automobile"),
    "truck": ("a photo of a truck", "a truck", "lorry"),
    "person": ("a photo of a person", "a person", "pedestrian", "someone walking"),
    "deer": ("a photo of a deer", "a deer", "animal"),
    "road": ("a road", "a country road", "highway"),
    "street": ("a street", "a wide street with pavements", "city street"),
    "trail": ("a trail", "a narrow path", "trailcam imagery"),
    "overlook": ("seen from above", "a view over the place", "an elevated view", "webcam view"),
}


def phrases_of(factor: str, category: str) -> tuple[str, ...]:
    """Return the phrases of a category, the catalogue's own first."""
    descriptors = catalogue()
    own = descriptors[factor].categories[category] if factor in descriptors else (category,)
    return (*own, *PARAPHRASES[category])


def known_phrases() -> dict[str, dict[str, list[str]]]:
    """Return what the card lists: semantic → category → phrases."""
    return {
        semantic: {category: list(phrases_of(semantic, category)) for category in categories}
        for semantic, categories in SCENE_SEMANTICS.items()
    }
