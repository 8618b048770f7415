"""The data set under release, and what may be used to fill its gaps."""

import pytest

from pytest_semcov import RenderedScenes, SceneTranslator


@pytest.fixture(scope="session")
def semcov_dataset():
    """400 road scenes in every season and weather, recorded almost only by day."""
    return RenderedScenes(
        400, seed=7, mix={"day_night": {"day": 0.95, "night": 0.05}}, name="release 2026.11"
    )


@pytest.fixture(scope="session")
def semcov_translators():
    """Translators by name; this one re-renders a day scene at night."""
    return {
        "day_to_night": SceneTranslator(semantic="day_night", source="day", target="night"),
        "day_to_rain": SceneTranslator(semantic="clear_rain", source="clear", target="rain"),
    }


@pytest.fixture(scope="session")
def earlier_night():
    """Real night images from an earlier campaign, kept out of the release: they judge the synthetic ones."""
    return RenderedScenes(160, seed=8, day_night="night", name="night 2025")


@pytest.fixture(scope="session")
def earlier_day():
    return RenderedScenes(160, seed=9, day_night="day", name="day 2025")


@pytest.fixture(scope="session")
def vendor_night():
    """What a vendor delivered as night: rainy days."""
    return RenderedScenes(160, seed=10, day_night="day", clear_rain="rain", name="vendor's night")
