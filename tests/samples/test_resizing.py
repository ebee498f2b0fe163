"""Geometry against Pillow (antialias) and a bilinear sampler of our own (no antialias)."""

import functools
import io

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from public.corpus import exif

from dfgen.samples.pixels.decoders import decode_image
from dfgen.samples.pixels.geometry import place, reduction, resize

RNG = np.random.default_rng(0)
SHAPES = [(37, 53), (5, 5), (1, 1), (1, 300), (300, 1), (64, 8)]
SIZES = [(16, 16), (7, 31), (1, 1), (5, 5), (80, 90)]


def noise(height, width, channels=3):
    return RNG.integers(0, 256, (height, width, channels), dtype=np.uint8)


def resized(pixels, size, how="stretch", antialias=True):
    out = np.full((*size, pixels.shape[2]), 77, np.uint8)
    resize(pixels, place(pixels.shape[:2], size, size, how), out, antialias=antialias)
    return out


def pillow(pixels, size):
    channels = [
        Image.fromarray(pixels[..., c]).resize(size[::-1], Image.Resampling.BILINEAR)
        for c in range(pixels.shape[2])
    ]
    return np.stack([np.asarray(channel) for channel in channels], -1)


def half_pixel(pixels, size):
    """Four neighbours of each centre: what tf.image.resize does without antialias."""

    def axis(old, new):
        at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = np.floor(at).astype(int)
        return low, np.minimum(low + 1, old - 1), at - low

    top, bottom, v = axis(pixels.shape[0], size[0])
    left, right, u = axis(pixels.shape[1], size[1])
    u, v = u[None, :, None], v[:, None, None]
    p = pixels.astype(float)
    return (1 - v) * ((1 - u) * p[top][:, left] + u * p[top][:, right]) + v * (
        (1 - u) * p[bottom][:, left] + u * p[bottom][:, right]
    )


# scales from 1.05 to 19; odd sizes, of which 1/2, 1/4 and 1/8 are no whole number; long ones
PHOTOGRAPHS = [
    ((120, 150), (114, 143)), ((150, 150), (125, 110)), ((150, 200), (96, 96)),
    ((191, 255), (96, 96)), ((375, 500), (224, 224)), ((301, 405), (96, 96)),
    ((417, 293), (96, 64)), ((1001, 757), (96, 96)), ((767, 1535), (96, 96)),
    ((1499, 1003), (64, 64)), ((900, 60), (48, 48)), ((60, 1300), (48, 48)),
]  # fmt: skip


@functools.cache
def photograph(height, width):
    """Detail falls with frequency as in photographs; edges; some of it too dark or too bright."""
    rng = np.random.default_rng(height)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = 1
    planes = [np.fft.rfft2(rng.normal(size=(height, width))) / frequency**1.3 for _ in range(3)]
    image = np.stack([np.fft.irfft2(plane, (height, width)) for plane in planes], -1)
    image = 128 + 45 * image / image.std()
    y, x = np.mgrid[:height, :width]
    for _ in range(6):
        v, u = y - rng.uniform(0, height), x - rng.uniform(0, width)
        image[np.abs(v + u / 3) + np.abs(u - v / 3) < max(height, width) / 6] += rng.normal(
            0, 40, 3
        )
    return np.clip(image, 0, 255).astype(np.uint8)


def loaded(pixels, format, size, how="stretch", antialias=True):
    """Return a file as `Image` reads it, beside Pillow's pixels of the same file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format, quality=92)
    return read(file, size, how, antialias)[0], np.asarray(Image.open(file))


def read(file, size, how, antialias):
    """Return the array, and the pixels as they were decoded."""
    out = np.empty((*size, 3), np.uint8)
    decoded, shown, reduced = decode_image(
        file.getvalue(),
        reduction=lambda shown: reduction(place(shown, size, size, how), antialias=antialias),
    )
    resize(decoded, place(shown, size, size, how), out, antialias=antialias, reduced=reduced)
    return out, decoded


def distance(one, other):
    return np.abs(one.astype(int) - other).mean()


@pytest.mark.slow
@each("format", ["JPEG", "PNG"])
@each(("shape", "size"), PHOTOGRAPHS)
def test_antialias_is_near_to_pillows(shape, size, format):
    """For comparison: four neighbours alone are 1 to 10 away."""
    out, whole = loaded(photograph(*shape), format, size)
    expected = pillow(whole, size)
    assert distance(out, expected) < 1.1
    assert np.abs(out.astype(int) - expected).max() <= 20


@each(("shape", "size"), PHOTOGRAPHS)
def test_jpeg_without_antialias_stays_close_to_pillow(shape, size):
    out, whole = loaded(photograph(*shape), "JPEG", size, antialias=False)
    expected = pillow(whole, size)
    assert distance(out, expected) <= 1.02 * distance(half_pixel(whole, size), expected) + 0.1


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("how", ["crop", "pad"])
def test_crop_and_pad_of_a_jpeg_decoded_smaller(how, antialias):
    """Not even half a pixel off: the same picture one pixel to the side is twice as far."""
    pixels = photograph(613, 1001)
    out, whole = loaded(pixels, "JPEG", (64, 64), how, antialias)
    expected = resized(whole, (64, 64), how)
    assert distance(out, expected) < distance(out, np.roll(expected, 1, axis=1)) / 2
    assert distance(out, expected) < distance(out, np.roll(expected, 1, axis=0)) / 2


@each(
    ("size", "wanted", "how", "antialias", "expected"),
    [
        ((375, 500), (224, 224), "stretch", True, 1),
        ((375, 500), (224, 224), "stretch", False, 2),
        ((2000, 3000), (224, 224), "stretch", True, 4),
        ((2000, 3000), (224, 224), "stretch", False, 8),
        ((2000, 3000), (224, 224), "pad", True, 8),
        ((3000, 300), (224, 224), "stretch", True, 1),
        ((3000, 300), (224, 224), "crop", True, 1),
        ((3000, 300), (224, 224), "pad", True, 8),
        ((9000, 9000), (8, 8), "crop", True, 8),
        ((100, 100), (224, 224), "stretch", False, 1),
    ],
)
def test_reduction_keeps_enough_of_the_used_part(size, wanted, how, antialias, expected):
    assert reduction(place(size, wanted, wanted, how), antialias=antialias) == expected


@pytest.mark.parametrize("antialias", [True, False])
def test_nearest_is_never_decoded_smaller(antialias):
    assert reduction(place((800, 800), (50, 50), (50, 50), "stretch"), "nearest", antialias) == 1


@each("how", ["stretch", "crop", "pad"])
@each("orientation", range(1, 9))
def test_a_turned_jpeg_is_decoded_smaller_too(orientation, how):
    file = io.BytesIO()
    Image.fromarray(photograph(403, 611)).save(file, "JPEG", quality=92, exif=exif(orientation))
    out, decoded = read(file, (60, 40), how, antialias=True)
    assert max(decoded.shape) < 310
    upright = np.asarray(ImageOps.exif_transpose(Image.open(file)))
    assert distance(out, resized(upright, (60, 40), how)) < 4


@each("channels", [1, 3, 4])
@each("size", SIZES)
@each("shape", SHAPES)
def test_channels_do_not_bleed(shape, size, channels):
    pixels = noise(*shape, channels)
    each = [resized(pixels[..., [channel]], size) for channel in range(channels)]
    np.testing.assert_allclose(resized(pixels, size).astype(int), np.concatenate(each, -1), atol=1)


@each("channels", [1, 3, 4])
@each("size", SIZES)
@each("shape", SHAPES)
def test_stretch_without_antialias_samples_four_neighbours(shape, size, channels):
    pixels = noise(*shape, channels)
    difference = resized(pixels, size, antialias=False) - half_pixel(pixels, size)
    assert np.abs(difference).max() <= 1.5


SIDES = st.integers(1, 200)


@settings(max_examples=300)
@given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES))
def test_nearest_is_the_pixel_that_holds_the_centre(shape, size):
    """tf.image.resize, Pillow and torch's nearest-exact take the same."""
    rows, columns = np.mgrid[: shape[0], : shape[1]].astype(np.uint8)
    out = np.full((*size, 2), 255, np.uint8)
    resize(np.stack([rows, columns], -1), place(shape, size, size, "stretch"), out, "nearest")
    for axis in (0, 1):
        centre, rest = np.divmod((2 * np.arange(size[axis]) + 1) * shape[axis], 2 * size[axis])
        found = np.moveaxis(out[..., axis], axis, -1)
        between = (rest == 0) & (found == centre - 1)  # it lies on the edge of two
        assert ((found == centre) | between).all()


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("how", ["stretch", "crop", "pad"])
def test_same_size_is_a_copy(how, antialias):
    pixels = noise(9, 14, 4)
    np.testing.assert_array_equal(resized(pixels, (9, 14), how, antialias), pixels)


@pytest.mark.parametrize(
    ("shape", "size", "middle"),
    [
        ((20, 60), (10, 10), np.s_[:, 20:40]),
        ((60, 20), (10, 10), np.s_[20:40, :]),
        ((30, 61), (5, 10), np.s_[:, 0:60]),
        ((1, 300), (8, 8), np.s_[:, 149:150]),
    ],
)
@pytest.mark.parametrize("antialias", [True, False])
def test_crop_takes_the_largest_centred_part(shape, size, middle, antialias):
    pixels = noise(*shape)
    np.testing.assert_array_equal(
        resized(pixels, size, "crop", antialias),
        resized(pixels[middle], size, "stretch", antialias),
    )


@pytest.mark.parametrize(
    ("shape", "size", "inside"),
    [
        ((20, 40), (16, 16), np.s_[4:12, :]),
        ((40, 20), (16, 16), np.s_[:, 4:12]),
        ((10, 10), (21, 30), np.s_[:, 4:25]),
        ((1, 300), (9, 9), np.s_[4:5, :]),
    ],
)
@pytest.mark.parametrize("antialias", [True, False])
def test_pad_fits_all_in_centred_on_zeros(shape, size, inside, antialias):
    pixels = np.maximum(noise(*shape), 1)
    out = resized(pixels, size, "pad", antialias)
    expected = np.zeros_like(out)
    expected[inside] = resized(pixels, expected[inside].shape[:2], "stretch", antialias)
    np.testing.assert_array_equal(out, expected)


def test_colours_under_transparent_pixels_stay():
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[..., 0] = 200
    assert (resized(pixels, (3, 3))[..., 0] == 200).all()


@pytest.mark.parametrize("how", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("antialias", [True, False])
def test_pixels_of_any_strides(how, antialias):
    pixels = noise(40, 30).transpose(1, 0, 2)[::-1]
    np.testing.assert_array_equal(
        resized(pixels, (16, 12), how, antialias),
        resized(np.ascontiguousarray(pixels), (16, 12), how, antialias),
    )


@settings(max_examples=200)
@given(
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(["stretch", "crop", "pad"]),
    st.booleans(),
)
def test_one_colour_stays_that_colour(shape, size, how, antialias):
    pixels = np.full((*shape, 3), (10, 120, 250), np.uint8)
    out = resized(pixels, size, how, antialias)
    filled = out.any(axis=2)
    assert filled.any() and (filled.all() or how == "pad")
    assert (out[filled] == (10, 120, 250)).all()


@pytest.mark.parametrize("antialias", [True, False])
def test_sides_longer_than_a_short_integer(antialias):
    assert (resized(np.full((2, 70_000, 3), 9, np.uint8), (4, 8), antialias=antialias) == 9).all()
