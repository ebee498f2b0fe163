"""Scales are their formulas, Keras's preprocessing, and a stage of their own."""

import keras
import numpy as np
import pandas as pd
import pytest
from cases import each
from messages import message_of
from PIL import Image as Pillow

import dfgen
from dfgen.errors import ArgumentError
from dfgen.samples.pixels.scaling import rescale

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPES = [np.float32, np.float16]


def images(channels=3):
    """Images of many shapes and contrasts, as arrays and as parts of larger ones."""
    rng = np.random.default_rng(channels)
    for number in range(40):
        low, high = np.sort(rng.integers(0, 256, 2))
        shape = (*rng.integers(1, 40, 2), channels)
        made = rng.integers(low, high + 1, shape).astype(np.uint8)
        yield made if number % 2 else made[::-1]


def scaled(pixels, scale, dtype):
    """Return what is made of pixels in the corner of a larger array, the rest of which stays."""
    height, width, channels = pixels.shape
    around = np.full((height + 3, width + 5, channels), 7, dtype)
    rescale(pixels, scale, around[:height, :width])
    assert (around[height:] == 7).all() and (around[:, width:] == 7).all()
    return around[:height, :width]


@each("dtype", DTYPES)
@each("channels", [1, 3, 4])
@each(
    ("scale", "factor", "offset"),
    [(None, 1, 0), ("0..1", 1 / 255, 0), ("-1..1", 1 / 127.5, -1), ("tf", 1 / 127.5, -1),
     ((0.5, 0.25), 0.5, 0.25), ((-2.0, 0.0), -2, 0), ((-0.5, 3.0), -0.5, 3)],
)  # fmt: skip
def test_names_and_pairs_are_their_formula_in_float32_bit_for_bit(
    scale, factor, offset, channels, dtype
):
    for pixels in images(channels):
        expected = pixels.astype(np.float32) * np.float32(factor) + np.float32(offset)
        np.testing.assert_array_equal(scaled(pixels, scale, dtype), expected.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_standardize_is_its_formula(dtype):
    for pixels in images():
        exact = pixels.astype(float)
        exact = (exact - exact.mean()) / max(exact.std(), 1 / np.sqrt(exact.size))
        allowed = np.abs(exact).max() * (1e-6 if dtype == np.float32 else 1e-3)
        np.testing.assert_allclose(scaled(pixels, "standardize", dtype), exact, 0, allowed)


@pytest.mark.parametrize("mode", ["caffe", "tf", "torch"])
def test_modes_are_keras_preprocess_input(mode):
    for pixels in images():
        expected = keras.applications.imagenet_utils.preprocess_input(
            pixels.copy(), data_format="channels_last", mode=mode
        )
        found = scaled(pixels, mode, np.float32)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
        half = scaled(pixels, mode, np.float16)
        np.testing.assert_allclose(half, expected, rtol=0, atol=6e-4 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_mean_and_a_deviation_of_each_channel(dtype):
    for pixels in images(4):
        means, deviations = (0.1, 0.5, 0.9, 0.0), (0.2, 0.5, 1.0, 0.25)
        exact = (pixels / 255 - means) / deviations
        allowed = np.abs(exact).max() * (1e-6 if dtype == "float32" else 6e-4)
        found = scaled(pixels, (means, deviations), np.dtype(dtype))
        np.testing.assert_allclose(found, exact, rtol=0, atol=allowed)


def test_a_mean_is_that_of_keras_normalization_divided_by_255():
    pixels = np.random.default_rng(0).integers(0, 256, (1, 8, 9, 3), np.uint8)
    variances = np.square(np.multiply(DEVIATION, 255))
    layer = keras.layers.Normalization(mean=np.multiply(MEAN, 255), variance=variances)
    expected = keras.ops.convert_to_numpy(layer(pixels.astype("float32")))[0]
    found = scaled(pixels[0], (MEAN, DEVIATION), np.float32)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("scale", ["torch", "caffe", (MEAN, DEVIATION)])
def test_16_bits_become_what_8_do(scale):
    pixels = next(images())
    deep = pixels.astype(np.uint16) * 257
    np.testing.assert_allclose(
        scaled(deep, scale, np.float32), scaled(pixels, scale, np.float32), atol=2e-5
    )


def test_scaling_is_a_stage_of_its_own(tmp_path):
    Pillow.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    frame = pd.DataFrame({"id": [0], "path": [str(tmp_path / "a.png")]})
    for scale in (None, "torch"):
        x = dfgen.Image(size=(8, 8), scale=scale)
        with dfgen.Sequence(frame, x, None, label_mode=None, workers=0) as seq:
            assert seq[0][0].shape == (1, 8, 8, 3)
            assert list(seq.metrics.seconds)[1:6] == [
                "read", "decode", "resize", "transform", "scale",
            ]  # fmt: skip
            assert (seq.metrics.seconds["scale"] > 0) == (scale is not None)


RANGES = (
    "is not of pixels 0..1, whose means are 0 to 1, and whose standard deviations are above 0 and "
    "at most 1: divide both by 255 if they are of pixels 0..255"
)


@pytest.mark.parametrize(
    ("scale", "color_mode", "message"),
    [
        (((0.5, 0.5), (0.5, 0.5)), "rgb",
         "scale=((0.5, 0.5), (0.5, 0.5)) has 2 means and 2 deviations, but images of "
         "color_mode='rgb' have 3 channels: give one of each for each"),
        (((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), "grayscale",
         "scale=((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)) has 3 means and 3 deviations, but images of "
         "color_mode='grayscale' have 1 channels: give one of each for each"),
        (((123.7, 116.8, 103.9), (58.4, 57.1, 57.4)), "rgb",
         f"scale=((123.7, 116.8, 103.9), (58.4, 57.1, 57.4)) {RANGES}"),
        (((0.5,), (0,)), "grayscale", f"scale=((0.5,), (0,)) {RANGES}"),
        ("caffe", "grayscale",
         "scale='caffe' is for the three channels of color_mode=\"rgb\", as in Keras, got "
         "color_mode='grayscale'"),
    ],
)  # fmt: skip
def test_bad_scales(scale, color_mode, message):
    assert message_of(ArgumentError, dfgen.Image, scale=scale, color_mode=color_mode) == message


@pytest.mark.parametrize(
    "scale", [MEAN, (MEAN, 0.5), (0.5, float("nan")), ("0..1", 2), ((None,) * 3, MEAN), "0..255"]
)
def test_what_is_no_scale(scale):
    assert message_of(ArgumentError, dfgen.Image, scale=scale) == (
        "scale must be one of (None, '0..1', '-1..1', 'tf', 'caffe', 'torch', 'standardize'), a "
        "pair of numbers (scale, offset), or the mean and the standard deviation of each channel, "
        f"of pixels 0..1, as ((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)), got {scale!r}"
    )


def test_lists_and_arrays_are_taken_and_kept_as_numbers():
    image = dfgen.Image(scale=[np.array(MEAN, "float64"), list(DEVIATION)])
    assert image == dfgen.Image(scale=(MEAN, DEVIATION))
    assert repr(image) == f"Image(scale={(MEAN, DEVIATION)})"
