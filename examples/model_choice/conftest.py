"""Two models of each kind, and the data sets that they are compared on.

Training takes about three minutes of one core, most of it for the translator and the detectors.
"""

import functools

import pytest
import torch
from classifiers import train_classifier
from detectors import train_detector
from scenes import (
    NIGHT_SHARE,
    fit_translator,
    original_scenes,
    real_night,
    synthetic,
    training_scenes,
)

from pytest_semcov import SceneTranslator, Workbench, ideal, improved

SEED = 0


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The networks are so small that a second thread costs more than it gives."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def bench():
    return Workbench()


@pytest.fixture(params=["classifier", "detector"])
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def models_of():
    """Return a function from kind to models, each kind trained once."""

    @functools.cache
    def models(kind):
        train = {"classifier": train_classifier, "detector": train_detector}[kind]
        return {
            name: train(training_scenes(SEED, night=share), seed=SEED, name=name)
            for name, share in (("model 1", 0.0), ("model 2", NIGHT_SHARE[kind]))
        }

    return models


@pytest.fixture
def models(models_of, kind):
    """Model 1 learnt from day alone, model 2 from day and night: from as many scenes, in as many steps."""
    return models_of(kind)


@pytest.fixture(scope="session")
def original():
    return original_scenes(SEED)


@pytest.fixture(scope="session")
def night():
    return real_night(SEED)


@pytest.fixture(scope="session")
def ideal_set(original, night):
    return ideal(original, night, count=760)


@pytest.fixture(scope="session")
def night_by(bench, original):
    """Return a function from who makes it to synthetic night, each made once."""

    @functools.cache
    def make(who):
        if who == "trained":
            translator = fit_translator(SEED)
        else:
            translator = SceneTranslator("day_night", source="day", target="night")
        return synthetic(bench, original, translator, seed=SEED).synthetic

    return make


@pytest.fixture(params=["trained", "rendered"])
def synthetic_night(request, night_by):
    """Synthetic night, by a small network that was trained on the spot, and by the renderer itself."""
    return night_by(request.param)


@pytest.fixture
def improved_set(original, synthetic_night):
    return improved(original, synthetic_night)


@pytest.fixture(scope="session")
def original_with_rain(bench, original):
    rain = SceneTranslator("clear_rain", source="clear", target="rain")
    return improved(original, synthetic(bench, original, rain, seed=SEED, count=400).synthetic)
