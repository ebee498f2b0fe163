"""Arguments of images that are rare, or impossible."""

import keras
import numpy as np
import pytest
from public.first_batch import equal, x_of
from public.test_images import DEEP as DEEP
from public.test_images import FLOATS as FLOATS
from public.test_images import GRAY as GRAY
from public.test_images import PHOTOS as PHOTOS
from public.test_images import many as many
from public.test_images import numbered as numbered
from public.test_images import photograph as photograph
from public.test_images import pillow as pillow
from public.test_images import write as write

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError


@pytest.mark.parametrize("size", [(4, 5), (2, 10), (24, 20), (8, 4)])
def test_nearest_and_area(write, size):
    frame, pixels = write(numbered(12, 10)), numbered(12, 10)
    rows = ((np.arange(size[0]) + 0.5) * 12 / size[0]).astype(int)
    columns = ((np.arange(size[1]) + 0.5) * 10 / size[1]).astype(int)
    nearest = x_of(frame, dfgen.Image(size=size, interpolation="nearest"))[0]
    np.testing.assert_array_equal(nearest, pixels[rows][:, columns])
    if 12 % size[0] == 10 % size[1] == 0:
        blocks = pixels.reshape(size[0], 12 // size[0], size[1], 10 // size[1], 3).mean((1, 3))
        area = x_of(frame, dfgen.Image(size=size, interpolation="area"))[0]
        assert np.abs(area - blocks).max() <= 0.5


@pytest.mark.parametrize("extension", ["jpg", "png"])
@pytest.mark.parametrize("antialias", [True, False])
def test_a_large_file_becomes_a_small_picture(write, extension, antialias):
    pixels = photograph(501, 702)
    frame = write(pixels, extension=extension, **{"quality": 95} if extension == "jpg" else {})
    found = x_of(frame, dfgen.Image(size=(50, 61), antialias=antialias))[0]
    assert np.abs(found - np.asarray(pillow(pixels, (50, 61)), float)).max() < 6


def test_numbers_that_a_dtype_cannot_hold_are_errors(write):
    for options in ({"dtype": "uint16"}, {"dtype": "uint8"}, {"dtype": "float32", "scale": "0..1"}):
        with pytest.raises(DecodeError, match="r0"):
            x_of(write(FLOATS, extension="tiff"), dfgen.Image(**GRAY, **options))
    with pytest.raises(DecodeError, match="r0"):
        x_of(write(DEEP * 0 + 65_535), dfgen.Image(**GRAY, dtype="float16"))
    with pytest.raises(DecodeError, match="dtype"):
        x_of(write(DEEP), dfgen.Image(scale="0..1", **GRAY))
    with pytest.raises((DecodeError, ManifestError), match="dtype"):
        x_of(write(DEEP).assign(bits=16))


def test_channels_first_follows_keras(write):
    expected = np.moveaxis(x_of(write(*PHOTOS), image_size=(9, 12)), -1, 1)
    keras.config.set_image_data_format("channels_first")
    try:
        equal(x_of(write(*PHOTOS), image_size=(9, 12)), np.ascontiguousarray(expected))
    finally:
        keras.config.set_image_data_format("channels_last")


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("size", {"size": (0, 4)}), ("size", {"size": (4, 4, 3)}), ("resize", {"resize": "fit"}),
        ("color_mode", {"color_mode": "bgr"}), ("interpolation", {"interpolation": "bicubic"}),
        ("dtype", {"dtype": "int8"}), ("flip", {"flip": True}), ("crop", {"crop": "left"}),
        ("scale", {"scale": "0..1", "dtype": "uint8"}), ("load_size", {"crop": "random"}),
        ("load_size", {"size": (9, 9), "load_size": (8, 9)}), ("area", {"area": (0.1, 1)}),
        ("area", {"crop": "random_resized", "area": (0.5, 1.5)}),
        ("resize", {"size": None, "resize": "pad"}), ("crop", {"size": None, "crop": "center"}),
    ],
)  # fmt: skip
def test_impossible_arguments_are_errors(word, options):
    with pytest.raises(ArgumentError, match=word):
        dfgen.Image(**options)


def test_random_resized_takes_areas_and_ratios(write):
    frame = many(write(numbered(90, 120)), 60)
    options = {"size": (90, 120), "crop": "random_resized", "interpolation": "nearest"}
    for found in x_of(frame, dfgen.Image(area=(0.2, 0.5), ratio=(0.5, 2), **options)).astype(int):
        height, width = np.ptp(found[:, 0, 0]) + 1, np.ptp(found[0, :, 1]) + 1
        assert 0.17 < height * width / (90 * 120) < 0.54 and 0.45 < width / height < 2.2
    whole = x_of(frame, dfgen.Image(area=(1, 1), ratio=(4 / 3, 4 / 3), **options))
    np.testing.assert_array_equal(whole[5], numbered(90, 120))
