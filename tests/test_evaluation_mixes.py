"""Original, improved and ideal data sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from pytest_semcov import ImageList, SampleDataset, ideal, improved
from pytest_semcov.data.samples import Provenance
from pytest_semcov.errors import ArgumentError, DatasetError


def images(prefix: str, count: int) -> ImageList:
    return ImageList([Image.new("RGB", (4, 4))] * count, ids=[f"{prefix}{number}" for number in range(count)])


def synthetic(count: int) -> SampleDataset:
    made = Provenance("day0", "stub", "1", "day_night", "day", "night", 0)
    return SampleDataset(
        [replace(sample, id=f"made/{sample.id}", provenance=made) for sample in images("s", count)]
    )


def test_published_mix() -> None:
    original = images("day", 864) + images("night", 100)

    better = improved(original, synthetic(400), count=198, seed=3)
    best = ideal(original, images("other night", 300), like=better)

    for mixed in (better, best):
        nights = [sample for sample in mixed if not sample.id.startswith("day")]
        assert len(nights) == 298
        assert list(mixed.ids)[:964] == list(original.ids)
    assert (better.name, best.name) == ("improved", "ideal")
    assert len(better.added) == len(best.added) == 198
    assert all(not sample.real for sample in better.added)


def test_choice_depends_on_seed_and_ids_alone() -> None:
    original, made = images("day", 10), synthetic(40)

    first = improved(original, made, ratio=0.5, seed=1)

    assert len(first.added) == 5
    assert set(improved(original, made.subset(range(39, -1, -1)), ratio=0.5, seed=1).added.ids) == set(
        first.added.ids
    )
    assert first.added.ids != improved(original, made, ratio=0.5, seed=2).added.ids
    assert len(improved(original, made).added) == 40


def test_real_images_of_an_augmented_data_set_are_not_added_again() -> None:
    original = images("day", 10)

    assert len(improved(original, original + synthetic(4))) == 14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.5, "count": 3}, "not both"),
        ({"ratio": 0}, "ratio=0: need a number above 0"),
        ({"ratio": float("nan")}, "ratio=nan"),
        ({"ratio": 0.01}, "0 synthetic images to add, there are 4: need 1 to 4"),
        ({"count": 5}, "5 synthetic images to add, there are 4"),
    ],
)
def test_wrong_amounts_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        improved(images("day", 10), synthetic(4), **options)


def test_only_real_images_are_ideal_and_none_twice() -> None:
    original = images("day", 10)

    with pytest.raises(ArgumentError, match=r"made/s0 is synthetic \(4 of 4\)"):
        ideal(original, synthetic(4))
    with pytest.raises(ArgumentError, match="not two of them"):
        ideal(original, images("night", 4), like=improved(original, synthetic(2)), count=2)
    with pytest.raises(DatasetError, match="day"):
        ideal(original, images("day", 4))
