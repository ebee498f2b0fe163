"""Geometry against Pillow (antialias) and a bilinear sampler of our own (no antialias)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dfgen.samples.resizing import resize

RNG = np.random.default_rng(0)
SHAPES = [(37, 53), (5, 5), (1, 1), (1, 300), (300, 1), (64, 8)]
SIZES = [(16, 16), (7, 31), (1, 1), (5, 5), (80, 90)]


def noise(height, width, channels=3):
    return RNG.integers(0, 256, (height, width, channels), dtype=np.uint8)


def resized(pixels, size, how="stretch", antialias=True):
    out = np.full((*size, pixels.shape[2]), 77, np.uint8)
    resize(pixels, how, antialias, out)
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


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_stretch_with_antialias_is_pillows_bilinear(shape, size, channels):
    """Exactly where an axis shrinks; enlarging rounds differently by one. No channel bleeds."""
    pixels = noise(*shape, channels)
    shrinks = size[0] < shape[0] or size[1] < shape[1]
    difference = resized(pixels, size).astype(int) - pillow(pixels, size)
    assert np.abs(difference).max() <= (0 if shrinks else 1)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_stretch_without_antialias_samples_four_neighbours(shape, size, channels):
    pixels = noise(*shape, channels)
    difference = resized(pixels, size, antialias=False) - half_pixel(pixels, size)
    assert np.abs(difference).max() <= 1.5


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
def test_any_strides_in_and_out(how, antialias):
    pixels = noise(40, 30)
    out = np.full((2, 16, 24, 6), 77, np.uint8)
    view = out[1, :, ::2, ::2]
    resize(pixels.transpose(1, 0, 2)[::-1], how, antialias, view)
    expected = resized(np.ascontiguousarray(pixels.transpose(1, 0, 2)[::-1]), (16, 12), how,
                       antialias)  # fmt: skip
    np.testing.assert_array_equal(view, expected)
    assert (out[0] == 77).all() and (out[1, :, 1::2] == 77).all()


@settings(derandomize=True, deadline=None, max_examples=200)
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
