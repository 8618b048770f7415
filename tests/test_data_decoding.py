"""One decoding rule: every kind of image becomes upright 8-bit RGB, or an error that says why."""

from __future__ import annotations

import copy
import hashlib
import io
import os
import pickle
import struct
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageFile, ImageOps

from pytest_semcov.data.decoding import DEFAULT_RULE, DecodingRule, FileSource, MemorySource
from pytest_semcov.data.exif import parse_orientation
from pytest_semcov.errors import ArgumentError, ImageError, SemcovWarning

RED, BLUE = (255, 0, 0), (0, 0, 255)


def encoded(image: Image.Image, file_format: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, file_format, **options)
    return stream.getvalue()


def loaded(data: bytes, rule: DecodingRule = DEFAULT_RULE, **options: int) -> Image.Image:
    return MemorySource(data, rule).load("sample", **options)


def array_of(data: bytes, rule: DecodingRule = DEFAULT_RULE) -> np.ndarray:
    return np.asarray(loaded(data, rule))


def orientation_block(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    return exif.tobytes()


def half_red(size: tuple[int, int] = (100, 40)) -> Image.Image:
    image = Image.new("RGB", size, BLUE)
    image.paste(RED, (0, 0, size[0] // 2, size[1]))
    return image


def photograph(width: int, height: int) -> Image.Image:
    """Smooth shapes with fine texture: something that a camera could have seen."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:height, 0:width]
    base = 120 + 60 * np.sin(x / width * 9) + 50 * np.cos(y / height * 7)
    texture = rng.normal(0, 6, (height, width, 1))
    channels = np.stack([base, base * 0.8 + 20, 255 - base], axis=2) + texture
    return Image.fromarray(np.clip(channels, 0, 255).astype(np.uint8))


class TestOrientation:
    @pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF"])
    def test_tag_6_turns_the_image_once(self, file_format: str) -> None:
        options: dict[str, object] = {"exif": orientation_block(6)}
        if file_format in ("JPEG", "WEBP"):
            options["quality"] = 95
        image = loaded(encoded(half_red(), file_format, **options))
        assert image.size == (40, 100)
        pixels = np.asarray(image).astype(int)
        expected = np.asarray(half_red().transpose(Image.Transpose.ROTATE_270)).astype(int)
        assert np.abs(pixels - expected)[10:40].max() < 30
        assert np.abs(pixels - expected)[60:90].max() < 30

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_all_orientations_agree_with_pillow(self, orientation: int) -> None:
        pixels = np.random.default_rng(orientation).integers(0, 256, (6, 9, 3), dtype=np.uint8)
        data = encoded(Image.fromarray(pixels), "PNG", exif=orientation_block(orientation))
        with Image.open(io.BytesIO(data)) as image:
            expected = np.asarray(ImageOps.exif_transpose(image))
        np.testing.assert_array_equal(array_of(data), expected)

    def test_nothing_is_left_to_apply_twice(self) -> None:
        image = loaded(encoded(half_red(), "PNG", exif=orientation_block(6)))
        again = MemorySource(image).load("again")
        assert again.size == image.size == (40, 100)
        assert dict(image.getexif()) == {}

    def test_an_open_pillow_image_is_turned_as_well(self, tmp_path: Path) -> None:
        (tmp_path / "a.jpg").write_bytes(encoded(half_red(), "JPEG", exif=orientation_block(8)))
        with Image.open(tmp_path / "a.jpg") as image:
            assert MemorySource(image).load("a").size == (40, 100)

    @pytest.mark.parametrize(
        "block",
        [
            b"Exif\0\0" + np.random.default_rng(0).bytes(20),
            b"Exif\0\0MM\0\x2a\0\0",
            b"Exif\0\0II\x2a\0\x08\0\0\0\xff\xff",
            orientation_block(9),
        ],
        ids=["random", "cut", "entries promised", "orientation 9"],
    )
    def test_malformed_exif_warns_once_with_the_path(self, tmp_path: Path, block: bytes) -> None:
        file = tmp_path / "odd.jpg"
        file.write_bytes(encoded(half_red(), "JPEG", exif=block))
        with pytest.warns(SemcovWarning) as caught:
            image = FileSource(file).load("odd.jpg")
        assert image.size == (100, 40)
        assert len(caught) == 1
        assert str(file) in str(caught[0].message)
        assert "malformed EXIF" in str(caught[0].message)

    def test_damage_behind_the_tag_does_not_matter(self) -> None:
        block = orientation_block(6)[:-4] + b"\xff\xff\xff\xff"  # the next directory lies nowhere
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert loaded(encoded(half_red(), "JPEG", exif=block)).size == (40, 100)

    def test_zero_counts_as_upright_without_a_warning(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert loaded(encoded(half_red(), "JPEG", exif=orientation_block(0))).size == (100, 40)

    @given(st.binary(max_size=80))
    @settings(max_examples=200, deadline=None)
    def test_any_block_gives_an_orientation_or_a_value_error(self, tail: bytes) -> None:
        for head in (b"", b"II\x2a\0\x08\0\0\0", b"MM\0\x2a\0\0\0\x08"):
            try:
                assert parse_orientation(head + tail) in range(1, 9)
            except ValueError:
                continue

    @pytest.mark.parametrize("order", ["<", ">"])
    @pytest.mark.parametrize(("kind", "layout"), [(3, "H"), (4, "I"), (1, "B")])
    def test_byte_orders_and_number_types(self, order: str, kind: int, layout: str) -> None:
        head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8)
        entry = struct.pack(f"{order}HHI", 0x0112, kind, 1) + struct.pack(order + layout, 7).ljust(4, b"\0")
        assert parse_orientation(b"Exif\0\0" + head + struct.pack(f"{order}H", 1) + entry) == 7


class TestModes:
    def test_every_plain_mode_becomes_rgb_as_pillow_converts_it(self) -> None:
        for mode in ("1", "L", "RGB", "CMYK", "YCbCr", "HSV"):
            pixels = Image.effect_noise((8, 8), 60).convert("RGB").convert(mode)
            image = MemorySource(pixels).load(mode)
            assert image.mode == "RGB", mode
            np.testing.assert_array_equal(np.asarray(image), np.asarray(pixels.convert("RGB")), err_msg=mode)

    def test_grey_with_alpha(self) -> None:
        image = Image.new("LA", (8, 8), (100, 0))
        image.paste((100, 255), (0, 0, 4, 8))
        pixels = array_of(encoded(image, "PNG"))
        assert (pixels[:, :4] == 100).all()
        assert (pixels[:, 4:] == 255).all()  # transparent: the background colour

    def test_alpha_is_composited_over_the_background_colour(self) -> None:
        data = encoded(Image.new("RGBA", (4, 4), (200, 100, 0, 128)), "PNG")
        share = 128 / 255
        for background in ((255, 255, 255), (0, 0, 0), (10, 20, 30)):
            expected = [
                share * colour + (1 - share) * back
                for colour, back in zip((200, 100, 0), background, strict=True)
            ]
            pixel = array_of(data, DecodingRule(alpha_background=background))[0, 0]
            np.testing.assert_allclose(pixel, expected, atol=1)

    def test_an_opaque_image_does_not_depend_on_the_background(self) -> None:
        data = encoded(half_red(), "PNG")
        np.testing.assert_array_equal(
            array_of(data, DecodingRule(alpha_background=(0, 0, 0))), array_of(data)
        )

    @pytest.mark.parametrize("transparency", [bytes([0, 255]), bytes([255, 128]), 0])
    def test_palette_with_transparency_gives_no_warning(self, transparency: bytes | int) -> None:
        image = Image.new("P", (2, 1))
        image.putpalette([255, 0, 0, 0, 255, 0])
        image.putpixel((1, 0), 1)
        data = encoded(image, "PNG", transparency=transparency)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pixels = array_of(data)
        alpha = [0, 255] if isinstance(transparency, int) else list(transparency)
        for column, colour in enumerate([(255, 0, 0), (0, 255, 0)]):
            share = alpha[column] / 255
            expected = [share * value + (1 - share) * 255 for value in colour]
            np.testing.assert_allclose(pixels[0, column], expected, atol=1)

    def test_colour_key_of_grey_and_rgb(self) -> None:
        grey = Image.new("L", (2, 1), 7)
        grey.putpixel((1, 0), 9)
        assert array_of(encoded(grey, "PNG", transparency=7)).tolist() == [[[255] * 3, [9] * 3]]
        colour = half_red((2, 1))
        assert array_of(encoded(colour, "PNG", transparency=RED)).tolist() == [[[255] * 3, list(BLUE)]]

    def test_cmyk_jpeg(self) -> None:
        pixel = array_of(encoded(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95))[8, 8]
        np.testing.assert_allclose(pixel, RED, atol=6)

    def test_animation_gives_its_first_frame(self) -> None:
        frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
        for file_format, exact in (("GIF", True), ("PNG", True), ("WEBP", False), ("TIFF", True)):
            data = encoded(frames[0], file_format, save_all=True, append_images=frames[1:])
            np.testing.assert_allclose(array_of(data)[4, 4], RED, atol=0 if exact else 8)

    def test_multi_picture_jpeg_gives_the_primary_picture(self) -> None:
        data = encoded(Image.new("RGB", (32, 32), RED), "MPO", save_all=True, append_images=[half_red()])
        image = loaded(data)
        assert image.size == (32, 32)
        np.testing.assert_allclose(np.asarray(image)[16, 16], RED, atol=6)


class TestDeepImages:
    @pytest.mark.parametrize("file_format", ["PNG", "TIFF"])
    def test_sixteen_bits_by_the_full_range(self, file_format: str) -> None:
        values = np.array([[0, 128, 257, 32768, 65535]], dtype=np.uint16)
        pixels = array_of(encoded(Image.fromarray(values), file_format))
        assert pixels[0, :, 0].tolist() == [round(value / 257) for value in values[0].tolist()]
        assert (pixels[..., 0] == pixels[..., 2]).all()

    def test_sixteen_bits_by_a_sensor_range(self) -> None:
        data = encoded(Image.fromarray(np.array([[0, 2048, 4095]], dtype=np.uint16)), "PNG")
        rule = DecodingRule(sixteen_bit_range=(0, 4095))
        assert array_of(data, rule)[0, :, 0].tolist() == [0, 128, 255]

    def test_values_outside_the_range_are_named(self) -> None:
        data = encoded(Image.fromarray(np.array([[0, 5000]], dtype=np.uint16)), "PNG")
        with pytest.raises(ImageError, match=r"pixels from 0 to 5000, outside 0 to 4095.*sixteen_bit_range"):
            loaded(data, DecodingRule(sixteen_bit_range=(0, 4095)))

    def test_thirty_two_bit_whole_numbers_count_as_sixteen(self) -> None:
        data = encoded(Image.fromarray(np.array([[0, 65535]], dtype=np.int32)), "TIFF")
        assert array_of(data)[0, :, 0].tolist() == [0, 255]
        with pytest.raises(ImageError, match="outside 0 to 65535"):
            loaded(encoded(Image.fromarray(np.array([[0, 70000]], dtype=np.int32)), "TIFF"))

    def test_sixteen_bit_colour_key(self) -> None:
        image = Image.fromarray(np.array([[300, 65535, 0]], dtype=np.uint16))
        image.info["transparency"] = 300
        assert np.asarray(MemorySource(image).load("a"))[0, :, 0].tolist() == [255, 255, 0]

    def test_float_by_its_range(self) -> None:
        data = encoded(Image.fromarray(np.array([[0, 0.5, 1]], dtype=np.float32)), "TIFF")
        assert array_of(data)[0, :, 0].tolist() == [0, 128, 255]

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1.5, -0.2])
    def test_float_outside_its_range_or_not_finite(self, bad: float) -> None:
        with pytest.raises(ImageError, match="float_range"):
            MemorySource(np.array([[0.5, bad]])).load("a")


class TestArrays:
    def test_shapes_and_types(self) -> None:
        rng = np.random.default_rng(1)
        colour = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
        np.testing.assert_array_equal(np.asarray(MemorySource(colour).load("a")), colour)
        for grey in (colour[..., 0], colour[..., :1]):
            image = np.asarray(MemorySource(grey).load("a"))
            np.testing.assert_array_equal(image, np.repeat(colour[..., :1], 3, axis=2))
        np.testing.assert_array_equal(np.asarray(MemorySource(colour / 255).load("a")), colour)
        mask = colour[..., 0] > 100
        np.testing.assert_array_equal(np.asarray(MemorySource(mask).load("a"))[..., 0], mask * 255)
        with_alpha = np.dstack([colour, np.full((5, 7), 255, np.uint8)])
        np.testing.assert_array_equal(np.asarray(MemorySource(with_alpha).load("a")), colour)

    def test_non_contiguous_and_subclassed(self) -> None:
        colour = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)[:, ::-1, :3]
        np.testing.assert_array_equal(np.asarray(MemorySource(colour).load("a")), colour)

    @pytest.mark.parametrize("shape", [(3, 64, 64), (4,), (2, 2, 2, 3), (0, 4, 3), (4, 4, 5)])
    def test_wrong_shapes(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ImageError, match=r"img-7: array of shape .*channels last"):
            MemorySource(np.zeros(shape, np.uint8)).load("img-7")

    @pytest.mark.parametrize("item", [np.zeros((4, 4), np.int64), "text", object(), None, [["a"]]])
    def test_wrong_types(self, item: object) -> None:
        with pytest.raises(ImageError, match=r"^img-7: "):
            MemorySource(item).load("img-7")

    def test_source_is_not_modified(self) -> None:
        colour = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=np.uint8)
        original = colour.copy()
        image = MemorySource(colour).load("a")
        image.paste(0, (0, 0, 5, 5))
        np.testing.assert_array_equal(colour, original)
        pil = half_red()
        MemorySource(pil).load("a").paste(0, (0, 0, 50, 40))
        np.testing.assert_array_equal(np.asarray(pil), np.asarray(half_red()))

    def test_threads_may_share_an_image_that_is_not_read_yet(self, tmp_path: Path) -> None:
        photograph(300, 200).save(tmp_path / "a.png")
        expected = np.asarray(FileSource(tmp_path / "a.png").load("a"))
        for _ in range(5):
            with Image.open(tmp_path / "a.png") as image, ThreadPoolExecutor(8) as threads:
                results = list(threads.map(MemorySource(image).load, ["a"] * 8))
            for result in results:
                np.testing.assert_array_equal(np.asarray(result), expected)

    def test_a_function_is_called_for_every_load_and_its_failure_is_named(self) -> None:
        calls: list[int] = []

        def read() -> Image.Image:
            calls.append(1)
            return half_red()

        source = MemorySource(read)
        assert source.load("a").size == (100, 40)
        source.load("a")
        assert len(calls) == 2

        def fail() -> Image.Image:
            raise KeyError("lost")

        with pytest.raises(ImageError, match=r"b: the wrapped data set raised KeyError: 'lost'"):
            MemorySource(fail).load("b")


class TestBadFiles:
    @pytest.mark.parametrize(
        ("content", "rule"),
        [
            (b"", "empty file"),
            (b"<!DOCTYPE html>", "not an image in a known format (it starts with b'<!DOCTYPE ht')"),
            (b"\xff\xd8\xff\xe0 not really", "not an image in a known format (JPEG"),
            (b"\x89PNG\r\n\x1a\n", "not an image in a known format (PNG"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
            (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n", "not an image in a known format"),
        ],
    )
    def test_no_image(self, tmp_path: Path, content: bytes, rule: str) -> None:
        file = tmp_path / "x.jpg"
        file.write_bytes(content)
        with pytest.raises(ImageError) as caught:
            FileSource(file).load("sub/x.jpg")
        assert rule in str(caught.value)
        assert caught.value.sample_id == "sub/x.jpg"
        assert caught.value.path == str(file)
        assert caught.value.remedy

    @pytest.mark.parametrize("file_format", ["JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF"])
    def test_a_file_cut_at_60_percent(self, tmp_path: Path, file_format: str) -> None:
        data = encoded(photograph(120, 90), file_format)
        file = tmp_path / "cut"
        file.write_bytes(data[: int(len(data) * 0.6)])
        with pytest.raises(ImageError, match=r"cut \(.*cut\): (truncated file|damaged image|not an image)"):
            FileSource(file).load("cut")
        assert ImageFile.LOAD_TRUNCATED_IMAGES is False

    def test_truncated_is_called_truncated(self) -> None:
        data = encoded(photograph(120, 90), "JPEG")
        with pytest.raises(ImageError, match="truncated file"):
            loaded(data[: int(len(data) * 0.6)])

    def test_a_global_switch_that_hides_truncation_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
        with pytest.warns(SemcovWarning, match="LOAD_TRUNCATED_IMAGES"):
            loaded(encoded(half_red(), "PNG"))

    def test_a_huge_image_is_refused_by_our_own_limit(self, tmp_path: Path) -> None:
        file = tmp_path / "huge.png"
        file.write_bytes(encoded(Image.new("1", (20000, 10000)), "PNG", compress_level=1))
        limit = Image.MAX_IMAGE_PIXELS
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(
                ImageError, match=r"too large: 20000 × 10000 = 200,000,000 pixels.*max_pixels"
            ):
                FileSource(file).load("huge.png")
        assert limit == Image.MAX_IMAGE_PIXELS

    def test_the_limit_is_ours_not_pillows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
        assert loaded(encoded(half_red(), "PNG")).size == (100, 40)
        with pytest.raises(ImageError, match="too large"):
            loaded(encoded(half_red(), "PNG"), DecodingRule(max_pixels=3999))
        assert loaded(encoded(half_red(), "PNG"), DecodingRule(max_pixels=4000)).size == (100, 40)
        with pytest.raises(ImageError, match="too large"):
            MemorySource(np.zeros((100, 100), np.uint8), DecodingRule(max_pixels=9999)).load("a")

    @pytest.mark.parametrize("file_format", ["WEBP", "TIFF"])
    def test_readers_that_hold_themselves_to_pillows_limit(
        self, monkeypatch: pytest.MonkeyPatch, file_format: str
    ) -> None:
        data = encoded(half_red(), file_format)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
        with pytest.raises(ImageError, match=r"too large \(Image size \(4000 pixels\).*MAX_IMAGE_PIXELS"):
            loaded(data)

    def test_missing_and_unreadable(self, tmp_path: Path) -> None:
        with pytest.raises(ImageError, match=r"^a \(.*/a\): file cannot be read \(No such file"):
            FileSource(tmp_path / "a").load("a")
        with pytest.raises(ImageError, match="No such file"):
            FileSource(tmp_path / "a").content_key()
        with pytest.raises(ImageError, match="not a file"):
            FileSource(tmp_path).load("a")
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ImageError, match="not a file"):
            FileSource(tmp_path / "pipe").content_key()

    def test_every_damage_of_a_small_file_is_an_image_or_an_image_error(self) -> None:
        rng = np.random.default_rng(3)
        for file_format in ("JPEG", "PNG", "GIF", "BMP", "WEBP", "PPM"):
            whole = encoded(half_red((20, 12)), file_format)
            for _ in range(40):
                data = bytearray(whole)
                for at in rng.integers(0, len(data), 3):
                    data[at] = rng.integers(256)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SemcovWarning)
                    try:
                        image = loaded(bytes(data), DecodingRule(max_pixels=10**6))
                    except ImageError:
                        continue
                    assert image.mode == "RGB"

    @pytest.mark.parametrize(
        "name", ["данные/café 写真/é.jpg", "a#b%20c.jpg", "line\nbreak.jpg", " spaces .jpg", "'\"&<>.jpg"]
    )
    def test_odd_paths(self, tmp_path: Path, name: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(half_red(), "JPEG"))
        assert FileSource(file).load(name).size == (100, 40)

    def test_formats_can_be_narrowed(self) -> None:
        with pytest.raises(ImageError, match="not an image in a known format"):
            loaded(encoded(half_red(), "GIF"), DecodingRule(formats=("JPEG", "PNG")))
        assert loaded(encoded(half_red(), "GIF"), DecodingRule(formats=("NOT-THERE", "GIF"))).mode == "RGB"


class TestReducedScale:
    def test_shorter_side_stays_at_twice_the_size_needed(self) -> None:
        data = encoded(photograph(1600, 900), "JPEG", quality=90)
        for needed, expected in ((224, (800, 450)), (100, (400, 225)), (56, (200, 113)), (300, (1600, 900))):
            image = loaded(data, minimum_size=needed)
            assert image.size == expected
            assert min(image.size) >= min(2 * needed, 900)

    def test_close_to_the_full_decode(self) -> None:
        """Draft mode averages blocks in the DCT domain; after the resize only rounding and the filter's
        tails differ: at most 4 of 255 for camera-like content, 0.5 on average.
        """
        data = encoded(photograph(2000, 1500), "JPEG", quality=92)
        full = loaded(data).resize((224, 168), Image.Resampling.BICUBIC)
        reduced_image = loaded(data, minimum_size=168)
        assert reduced_image.size == (500, 375)
        reduced = reduced_image.resize((224, 168), Image.Resampling.BICUBIC)
        difference = np.abs(np.asarray(full).astype(int) - np.asarray(reduced).astype(int))
        assert difference.max() <= 4
        assert difference.mean() < 0.5

    def test_orientation_and_size_go_together(self) -> None:
        data = encoded(photograph(1600, 900), "JPEG", exif=orientation_block(6))
        assert loaded(data, minimum_size=100).size == (225, 400)

    def test_other_formats_come_at_full_size(self) -> None:
        assert loaded(encoded(photograph(400, 300), "PNG"), minimum_size=10).size == (400, 300)

    def test_size_must_be_positive(self) -> None:
        with pytest.raises(ArgumentError, match="minimum_size 0"):
            loaded(encoded(half_red(), "JPEG"), minimum_size=0)


class TestContentKey:
    def test_is_the_hash_of_rule_and_bytes(self, tmp_path: Path) -> None:
        data = encoded(half_red(), "PNG")
        (tmp_path / "a.png").write_bytes(data)
        rule = DecodingRule()
        expected = hashlib.sha256(rule.fingerprint.encode() + b"\0" + data).hexdigest()
        assert FileSource(tmp_path / "a.png").content_key() == expected
        assert MemorySource(data).content_key() == expected

    def test_depends_on_what_changes_pixels_only(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(encoded(half_red(), "PNG"))

        def key(rule: DecodingRule) -> str:
            return FileSource(tmp_path / "a.png", rule).content_key()

        plain = key(DecodingRule())
        assert key(DecodingRule(alpha_background=(0, 0, 0))) != plain
        assert key(DecodingRule(sixteen_bit_range=(0, 4095))) != plain
        assert key(DecodingRule(float_range=(0, 255))) != plain
        assert key(DecodingRule(max_pixels=10, formats=("PNG",))) == plain
        assert key(DecodingRule(float_range=(0, 1), alpha_background=tuple(np.array([255] * 3)))) == plain

    def test_follows_a_changed_file(self, tmp_path: Path) -> None:
        file = tmp_path / "a.png"
        file.write_bytes(encoded(half_red(), "PNG"))
        source = FileSource(file)
        before = source.content_key()
        assert source.content_key() == before
        file.write_bytes(encoded(half_red((50, 50)), "PNG"))
        assert source.content_key() != before

    def test_a_broken_image_has_a_key(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"no image")
        assert len(FileSource(tmp_path / "a.png").content_key()) == 64

    def test_memory_key_is_about_pixels(self) -> None:
        array = np.asarray(half_red())
        key = MemorySource(array).content_key()
        assert MemorySource(half_red()).content_key() == key
        assert MemorySource(array.copy()).content_key() == key
        changed = array.copy()
        changed[0, 0, 0] ^= 1
        assert MemorySource(changed).content_key() != key
        assert MemorySource(array.reshape(20, 200, 3)).content_key() != key

    def test_sources_survive_pickling(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(encoded(half_red(), "PNG"))
        for source in (FileSource(tmp_path / "a.png"), MemorySource(half_red())):
            twin = pickle.loads(pickle.dumps(source))
            assert twin.content_key() == source.content_key()
            assert copy.copy(source).content_key() == source.content_key()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha_background": (0, 0, 256)}, "alpha_background"),
        ({"alpha_background": (0, 0)}, "alpha_background"),
        ({"sixteen_bit_range": (5, 5)}, "sixteen_bit_range"),
        ({"float_range": (1.0, float("nan"))}, "float_range"),
        ({"max_pixels": 0}, "max_pixels"),
    ],
)
def test_a_rule_that_makes_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        DecodingRule(**options)  # type: ignore[arg-type]
