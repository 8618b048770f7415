"""Strategies for hypothesis: images of a data set, and edits of them that shrink to the weakest.

    @settings(deadline=None)
    @given(edited(days, "colour@day_to_night.safetensors"))
    def test_still_found(edit):
        assert model(edit.image) == model(edit.sample.load())

A failing test is shrunk to the simplest image that fails and to the weakest edit of it that still does.
hypothesis is not installed with this package: ``pip install 'pytest-semcov[hypothesis]'``.
"""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_semcov.data.samples import Dataset, Sample
from pytest_semcov.errors import ArgumentError, missing_dependency
from pytest_semcov.translation.specs import load_translator
from pytest_semcov.translation.translating import unusable

if TYPE_CHECKING:
    import numpy as np
    from hypothesis.strategies import SearchStrategy
    from numpy.typing import NDArray
    from PIL import Image

    from pytest_semcov.translation.protocol import Translator

STEPS = 1000
"""Strengths are drawn from so many equal steps: whole numbers shrink to the smallest, fractions do not."""

_SMALL = 64
"""Images may be decoded at reduced size, down to this shorter side (pixels), to see how simple they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Edited:
    """A sample, edited by a translator at some strength.

    Parameters
    ----------
    sample
        The source.
    translator
        The translator's name.
    strength
        0 is the source itself, 1 the whole translation.
    image
        The edited image: RGB, size of the source.
    """

    sample: Sample
    translator: str
    strength: float
    image: Image.Image

    def __repr__(self) -> str:
        return f"Edited({self.sample.id!r}, translator={self.translator!r}, strength={self.strength:g})"


def images(dataset: Dataset) -> SearchStrategy[Sample]:
    """Return a strategy that draws samples of a data set and shrinks to the simplest image.

    The less neighbouring pixels differ (mean absolute difference, after decoding at reduced size where that
    is quicker), the simpler an image; samples alike in this are in the order of their ids. All images are
    decoded once for this, when the first example is wanted.

    Parameters
    ----------
    dataset
        At least one sample.

    Raises
    ------
    MissingDependencyError
        If hypothesis is not installed.
    ArgumentError, ImageError
        When the first example is drawn: if the data set is empty, or an image cannot be decoded.
    """
    strategies = _strategies()

    def ordered() -> SearchStrategy[Sample]:
        samples = [dataset[index] for index in range(len(dataset))]
        if not samples:
            raise ArgumentError("the data set has no image to draw: need at least one")
        samples.sort(key=lambda sample: (_unrest(sample), sample.id))
        drawn: SearchStrategy[Sample] = strategies.sampled_from(samples)
        return drawn

    all_drawn: SearchStrategy[Sample] = strategies.deferred(ordered)
    return all_drawn


def edited(
    dataset: Dataset,
    translator: Translator | str,
    strengths: tuple[float, float] = (0.0, 1.0),
    *,
    seed: int = 0,
) -> SearchStrategy[Edited]:
    """Return a strategy that draws edited images and shrinks to the weakest edit of the simplest image.

    An edit is a blend of the source and its translation, each pixel ``source + strength * (translation -
    source)``. If the translator's ``translate`` takes a ``strength``, it is given that instead.
    Strength 0 is always the source itself.

    Each translation is made once and kept as long as the strategy. A sample whose translation cannot be used
    (:class:`~pytest_semcov.Failed`, blank, of another size) is not drawn. Translating takes time: run the
    test with ``settings(deadline=None)``, else hypothesis may find that it draws too slowly.

    Parameters
    ----------
    dataset
        Images of the translator's source category. Drawn as by :func:`images`.
    translator
        A translator or its spec, e.g. ``"colour@day_to_night.safetensors"``.
    strengths
        Weakest and strongest edit, 0 ≤ weakest ≤ strongest ≤ 1. :data:`STEPS` equal steps lie between them.
    seed
        Root seed; a translation depends on it and on the sample's id.

    Raises
    ------
    MissingDependencyError
        If hypothesis is not installed.
    ArgumentError
        If the strengths are out of order or the translator is none; while drawing, if no sample has a usable
        translation.
    """
    strategies = _strategies()
    weakest, strongest = strengths
    if not 0 <= weakest <= strongest <= 1:
        raise ArgumentError(f"strengths {strengths}: need 0 <= weakest <= strongest <= 1")
    edits = _Edits(load_translator(translator), dataset, seed)

    def edit(drawn: tuple[Sample, int]) -> Edited:
        sample, step = drawn
        return edits.edit(sample, weakest + (strongest - weakest) * step / STEPS)

    steps = strategies.integers(0, STEPS if strongest > weakest else 0)
    drawn: SearchStrategy[Edited] = strategies.tuples(images(dataset), steps).map(edit)
    return drawn


class _Edits:
    """Makes edits; remembers translations, and which samples have no usable one."""

    def __init__(self, translator: Translator, dataset: Dataset, seed: int) -> None:
        self._translator = translator
        self._dataset = dataset
        self._seed = seed
        self._takes_strength = "strength" in inspect.signature(translator.translate).parameters
        self._known: dict[tuple[str, float], Image.Image | str] = {}
        self._sources: dict[str, Image.Image] = {}
        self._failed: dict[str, str] = {}

    def edit(self, sample: Sample, strength: float) -> Edited:
        if sample.id not in self._sources:
            self._sources[sample.id] = sample.load()
        source = self._sources[sample.id]
        if strength == 0:
            image = source.copy()
        elif self._takes_strength:
            image = self._translated(sample, source, strength).copy()
        else:
            image = _blend(source, self._translated(sample, source, 1.0), strength)
        return Edited(sample, self._translator.name, strength, image)

    def _translated(self, sample: Sample, source: Image.Image, strength: float) -> Image.Image:
        """Return the translation; give up this example if there is none that can be used."""
        key = (sample.id, strength)
        if key not in self._known:
            self._known[key] = self._translate(sample, source, strength)
        found = self._known[key]
        if not isinstance(found, str):
            return found
        self._failed[sample.id] = found
        if len(self._failed) == len(self._dataset):
            raise ArgumentError(
                f"translator {self._translator.name} makes no usable image of any of "
                f"{len(self._failed)} samples; {sample.id}: {found}"
            )
        from hypothesis import reject

        reject()

    def _translate(self, sample: Sample, source: Image.Image, strength: float) -> Image.Image | str:
        more = {"strength": strength} if self._takes_strength else {}
        model = self._translator
        seed = _number(self._seed, model.source, model.target, sample.id)
        # A copy: a translator that draws into what it is given must not change the source.
        result: Any
        (result,) = model.translate([source.copy()], seeds=[seed], **more)
        return unusable(result, source) or result


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise missing_dependency(
            "hypothesis", extra="hypothesis", purpose="pytest_semcov.strategies"
        ) from error
    return strategies


def _blend(source: Image.Image, translation: Image.Image, strength: float) -> Image.Image:
    import numpy as np
    from PIL import Image

    before, after = (np.asarray(image, dtype=np.float64) for image in (source, translation))
    return Image.fromarray(np.rint(before + strength * (after - before)).astype(np.uint8))


def _unrest(sample: Sample) -> float:
    """Return the mean absolute difference (0 to 255) of pixels beside and below one another."""
    import numpy as np

    pixels: NDArray[np.int16] = np.asarray(sample.load(minimum_size=_SMALL), dtype=np.int16)
    steps = [np.abs(np.diff(pixels, axis=axis)) for axis in (0, 1)]
    return float(sum(step.mean() for step in steps if step.size))


def _number(*key: object) -> int:
    """Return a number below 2³² that depends on the key alone."""
    digest = hashlib.sha256("\0".join(str(part) for part in key).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big")
