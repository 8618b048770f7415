"""Pairs, windows and crops of objects, and their figures."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_semcov import Box, ImageList, Provenance, SampleDataset
from pytest_semcov.data.samples import Sample
from pytest_semcov.errors import ArgumentError, DatasetError
from pytest_semcov.evaluation.object_crops import (
    CropSource,
    KeptImages,
    background_windows,
    pair_images,
    window_of,
)
from pytest_semcov.evaluation.objects import measure_pixels
from pytest_semcov.evaluation.roi import RoiEmbedder

CAR = Box("car", 10, 10, 20, 18)


def image(seed: int, size: tuple[int, int] = (48, 40)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def original(boxes: list[list[Box]]) -> SampleDataset:
    return ImageList(
        [image(n) for n in range(len(boxes))], ids=[f"{n}" for n in range(len(boxes))], boxes=boxes
    )


def made_of(dataset: SampleDataset, **changes: Any) -> SampleDataset:
    made = [
        replace(
            sample,
            id=f"made/{sample.id}",
            provenance=Provenance(sample.id, "test", "0", "day_night", "day", "night", 0),
            **changes,
        )
        for sample in dataset
    ]
    return SampleDataset(made)


class TestPairs:
    def test_by_provenance_or_by_mapping_in_one_order(self):
        dataset = original([[CAR], [CAR], []])
        made = made_of(dataset)
        pairs = pair_images(dataset, made.subset([2, 0, 1]))
        assert [(pair.before.id, pair.after.id) for pair in pairs] == [
            (f"{n}", f"made/{n}") for n in range(3)
        ]
        plain = SampleDataset([replace(sample, provenance=None, boxes=()) for sample in made])
        sources = {sample.id: sample.id.removeprefix("made/") for sample in plain}
        assert [pair.boxes for pair in pair_images(dataset, plain, sources=sources)] == [(CAR,), (CAR,), ()]

    def test_a_source_that_is_not_known_or_not_there(self):
        dataset = original([[CAR], [CAR]])
        made = made_of(dataset)
        plain = SampleDataset([replace(sample, provenance=None) for sample in made])
        with pytest.raises(ArgumentError, match="made/0: its source image is not known"):
            pair_images(dataset, plain)
        with pytest.raises(ArgumentError, match="made/1: its source '1' is not in the original"):
            pair_images(dataset.subset([0]), made)

    @pytest.mark.parametrize(
        ("boxes", "message"),
        [
            ((CAR, CAR), "made/0 has 2 boxes, its source 0 1"),
            ((replace(CAR, label="deer"),), "box 0 is deer"),
            ((replace(CAR, x0=14, x1=24),), r"\(14, 10, 24, 18\), in its source 0 car at \(10"),
            ((replace(CAR, x0=math.nan),), "box 0 is car at"),
        ],
    )
    def test_boxes_that_differ(self, boxes: tuple[Box, ...], message: str):
        dataset = original([[CAR]])
        with pytest.raises(DatasetError, match=message):
            pair_images(dataset, made_of(dataset, boxes=boxes))

    def test_no_boxes_at_all(self):
        dataset = original([[], []])
        with pytest.raises(ArgumentError, match="none of the 2 source images has an annotated box"):
            pair_images(dataset, made_of(dataset))


class TestWindows:
    def test_whole_pixels_with_context_cut_at_the_border(self):
        assert window_of(Box("a", 10.2, 10, 19.5, 18), (48, 40)) == (10, 10, 20, 18)
        assert window_of(CAR, (48, 40), context=0.1) == (9, 9, 21, 19)
        assert window_of(Box("a", -5, 30, 5, 60), (48, 40)) == (0, 30, 5, 40)
        assert window_of(Box("a", 50, 10, 60, 20), (48, 40)) is None
        assert window_of(Box("a", math.nan, 10, 60, 20), (48, 40)) is None

    def test_backgrounds_hold_no_object_and_depend_on_the_key_alone(self):
        taken = [(10, 10, 20, 18), (30, 0, 40, 40)]
        found = background_windows(taken[0], taken, (48, 40), count=5, key=(0, "a"))
        assert len(found) == 5
        for left, top, right, bottom in found:
            assert (right - left, bottom - top) == (10, 8)
            assert 0 <= left < right <= 48
            assert 0 <= top < bottom <= 40
            assert all(
                right <= box[0] or left >= box[2] or bottom <= box[1] or top >= box[3] for box in taken
            )
        assert found == background_windows(taken[0], taken, (48, 40), count=5, key=(0, "a"))
        assert found != background_windows(taken[0], taken, (48, 40), count=5, key=(1, "a"))

    def test_smaller_backgrounds_beside_a_large_object_and_none_where_there_is_no_place(self):
        large = (0, 0, 48, 30)
        found = background_windows(large, [large], (48, 40), count=3, key=("b",))
        assert found
        assert all(bottom - top < 30 and top >= 30 for _, top, _, bottom in found)
        everything = (0, 0, 48, 40)
        assert background_windows(everything, [everything], (48, 40), count=3, key=("b",)) == []


def test_boxes_that_cannot_be_judged_are_counted():
    boxes = [
        [CAR, Box("car", 5, 5, 8, 20), Box("car", 60, 5, 70, 20)],
        [Box("deer", -6, 10, 10, 30), Box("deer", 44.5, 0, 60, 20)],
    ]
    dataset = original(boxes)
    found, counts = measure_pixels(pair_images(dataset, made_of(dataset)), images=KeptImages())
    assert counts == {"boxes": 5, "too small": 1, "outside": 1, "at the border": 2}
    assert [box.window for box in found] == [(10, 10, 20, 18), (0, 10, 10, 30), (44, 0, 48, 20)]
    assert all(box.edges == pytest.approx(1) and box.detail == 0 for box in found)


def test_sizes_are_the_callers():
    dataset = original([[CAR]])
    pairs = pair_images(dataset, made_of(dataset))
    found, _ = measure_pixels(pairs, images=KeptImages(), sizes={"tiny": 0, "normal": 80})
    assert [box.size for box in found] == ["normal"]
    for sizes in ({}, {"small": 1}, {"small": 0, "large": 0}, {"a": 0, "b": math.nan}):
        with pytest.raises(ArgumentError, match="sizes="):
            measure_pixels(pairs, images=KeptImages(), sizes=sizes)
    with pytest.raises(ArgumentError, match="context"):
        measure_pixels(pairs, images=KeptImages(), context=math.nan)


def test_images_of_another_size_are_named():
    dataset = original([[CAR]])
    other = made_of(ImageList([image(0, (40, 48))], ids=["0"], boxes=[[CAR]]))
    with pytest.raises(DatasetError, match="made/0 is 40 x 48 pixels, its source 0 48 x 40"):
        measure_pixels(pair_images(dataset, other), images=KeptImages())


def test_figures_are_those_of_the_windows_pixels():
    dataset = original([[CAR]])
    changed = np.asarray(image(0)).copy()
    changed[30:, :] = 0  # far from the object
    pairs = pair_images(dataset, made_of(ImageList([changed], ids=["0"], boxes=[[CAR]])))
    (box,), _ = measure_pixels(pairs, images=KeptImages())
    assert box.edges == pytest.approx(1)
    assert box.background is not None


def test_crops_are_cached_by_content_and_window():
    dataset = original([[CAR], [CAR]])
    images = KeptImages()

    def key(number: int, window: tuple[int, int, int, int], whole: bool = False) -> str:
        return CropSource(dataset[number], window, images, whole).content_key()

    again = ImageList([image(0)], ids=["another name"])
    assert key(0, (1, 2, 9, 9)) == CropSource(again[0], (1, 2, 9, 9), KeptImages()).content_key()
    keys = [key(0, (1, 2, 9, 9)), key(1, (1, 2, 9, 9)), key(0, (1, 2, 9, 8)), key(0, (1, 2, 9, 9), True)]
    assert len(set(keys)) == 4
    crop = CropSource(dataset[0], (1, 2, 9, 9), images).load("crop")
    np.testing.assert_array_equal(np.asarray(crop), np.asarray(image(0))[2:9, 1:9])


class TestRegions:
    def embedder(self) -> tuple[Any, RoiEmbedder]:
        import torch

        torch.manual_seed(0)
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 6, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(6, 4, 3, padding=1),
        )
        return module, RoiEmbedder(module, "1")

    def inputs(self, model: RoiEmbedder, windows: list[tuple[int, int, int, int]]) -> list[Any]:
        dataset, images = original([[CAR], [CAR]]), KeptImages()
        samples = [
            Sample(f"{n}", CropSource(dataset[n % 2], window, images, whole=True))
            for n, window in enumerate(windows)
        ]
        return [model.preprocess(sample.load()) for sample in samples]

    def test_equal_torchvisions_roi_align_image_by_image(self):
        import torch
        from torchvision.ops import roi_align

        module, model = self.embedder()
        windows = [(10, 10, 20, 18), (0, 0, 48, 40), (4, 6, 30, 31)]
        inputs = self.inputs(model, windows)
        found = model.embed(inputs)
        assert found.shape == (3, 6)
        for row, (pixels, window, _) in zip(found, inputs, strict=True):
            with torch.no_grad():
                features = module[:2](torch.from_numpy(pixels)[None])
            boxes = torch.tensor([[0.0, *window]])
            expected = roi_align(features, boxes, 3, spatial_scale=0.5, aligned=True).mean(dim=(2, 3))
            np.testing.assert_allclose(row, expected[0].numpy(), rtol=1e-5, atol=1e-6)

    def test_fingerprint_follows_weights_and_layer(self):
        import torch

        module, model = self.embedder()
        first = model.fingerprint
        assert RoiEmbedder(module, "0").fingerprint != first
        with torch.no_grad():
            module[0].weight += 1
        assert model.fingerprint != first
        with pytest.raises(ArgumentError, match="no layer 'body'"):
            RoiEmbedder(module, "body")
