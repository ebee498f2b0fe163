"""Scales are their formulas and Keras's preprocessing; depth is kept or refused, never cut."""

import keras
import numpy as np
import pandas as pd
import pytest
from cases import each
from PIL import Image as Pillow

import dfgen
from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.pixels.scaling import (
    as_stored,
    check_scaled,
    checked_scale,
    in_depth,
    rescale,
)

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPES = [np.float32, np.float16]


def images(channels=3):
    """Images of many shapes and contrasts, as arrays and as parts of larger ones."""
    rng = np.random.default_rng(channels)
    for number in range(40):
        low, high = np.sort(rng.integers(0, 256, 2))
        shape = (*rng.integers(1, 90 if number % 4 else 40, 2), channels)
        made = rng.integers(low, high + 1, shape).astype(np.uint8)
        yield np.ascontiguousarray(made if number % 2 else made[::-1])


def scaled(pixels, scale, dtype):
    """Return what is made of pixels in the corner of a larger array, the rest of which stays."""
    height, width, channels = pixels.shape
    around = np.full((height + 3, width + 5, channels), 7, dtype)
    rescale(pixels, scale, around[:height, :width])
    assert (around[height:] == 7).all() and (around[:, width:] == 7).all()
    whole = np.empty(pixels.shape, dtype)
    rescale(pixels, scale, whole)
    np.testing.assert_array_equal(whole, around[:height, :width])
    return whole


def near(found, expected, dtype, relative=1e-6):
    within = max(np.abs(expected).max(), 1) * (relative if dtype == np.float32 else 1e-3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=within)


@each("dtype", DTYPES)
@each("channels", [1, 3, 4])
@each(
    ("scale", "factor", "offset"),
    [(None, 1, 0), ("0..1", 1 / 255, 0), ("-1..1", 1 / 127.5, -1), ("tf", 1 / 127.5, -1),
     ((0.5, 0.25), 0.5, 0.25), ((-2.0, 0.0), -2, 0), ((-0.5, 3.0), -0.5, 3)],
)  # fmt: skip
def test_names_and_pairs_are_their_formula(scale, factor, offset, channels, dtype):
    for pixels in images(channels):
        exact = pixels * float(factor) + offset
        near(scaled(pixels, scale, dtype), exact, dtype)
        deep = pixels.astype(np.uint16) * (257 if isinstance(scale, str) else 1)
        near(scaled(deep, scale, dtype), exact, dtype)


@each("dtype", DTYPES)
def test_standardize_is_its_formula(dtype):
    for pixels in images():
        exact = pixels.astype(float)
        exact = (exact - exact.mean()) / max(exact.std(), 1 / np.sqrt(exact.size))
        for kind in (np.uint8, np.uint16, np.float32):
            near(scaled(pixels.astype(kind), "standardize", dtype), exact, dtype, 1e-5)


@each("mode", ["caffe", "tf", "torch"])
def test_modes_are_keras_preprocess_input(mode):
    for pixels in images():
        expected = keras.applications.imagenet_utils.preprocess_input(
            pixels.copy(), data_format="channels_last", mode=mode
        )
        for dtype in DTYPES:
            near(scaled(pixels, mode, dtype), expected, dtype)
            near(scaled(pixels.astype(np.uint16) * 257, mode, dtype), expected, dtype)


@each("channels", [1, 3, 4])
def test_a_mean_and_a_deviation_of_each_channel(channels):
    means, deviations = np.linspace(0, 0.9, channels), np.linspace(1, 0.25, channels)
    scale = checked_scale([means, list(deviations)], "rgb", channels)
    for pixels in images(channels):
        for dtype in DTYPES:
            near(scaled(pixels, scale, dtype), (pixels / 255 - means) / deviations, dtype)


@pytest.mark.parametrize(
    ("scale", "layer"),
    [
        ("0..1", keras.layers.Rescaling(1 / 255)),
        ("-1..1", keras.layers.Rescaling(1 / 127.5, -1)),
        ((-0.5, 3), keras.layers.Rescaling(-0.5, 3)),
        ((MEAN, DEVIATION), keras.layers.Normalization(
            mean=np.multiply(MEAN, 255), variance=np.square(np.multiply(DEVIATION, 255)))),
    ],
)  # fmt: skip
def test_pairs_and_names_are_layers_of_keras(scale, layer):
    pixels = np.random.default_rng(0).integers(0, 256, (1, 8, 9, 3), np.uint8)
    expected = keras.ops.convert_to_numpy(layer(pixels.astype("float32")))[0]
    near(scaled(pixels[0], scale, np.float32), expected, np.float32, 2e-6)


def test_scaling_is_a_stage_of_its_own(tmp_path):
    Pillow.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    frame = pd.DataFrame({"id": [0], "path": [str(tmp_path / "a.png")]})
    for scale in (None, "torch"):
        x = dfgen.Image(size=(8, 8), scale=scale)
        with dfgen.Sequence(frame, x, None, label_mode=None, workers=0) as seq:
            assert seq[0][0].shape == (1, 8, 8, 3)
            assert (seq.metrics.seconds["scale"] > 0) == (scale is not None)


@pytest.mark.parametrize(
    ("scale", "color_mode"),
    [
        ((MEAN, DEVIATION), "grayscale"), (((0.5, 0.5), (0.5, 0.5)), "rgb"), (MEAN, "rgb"),
        (((123.7, 116.8, 103.9), (58.4, 57.1, 57.4)), "rgb"), (((0.5,), (0,)), "grayscale"),
        ("caffe", "grayscale"), ("torch", "rgba"), ((0.5, float("nan")), "rgb"),
        ((MEAN, 0.5), "rgb"), (("0..1", 2), "rgb"), (((None,) * 3, MEAN), "rgb"),
        ("0..255", "rgb"), (1 / 255, "rgb"),
    ],
)  # fmt: skip
def test_what_is_no_scale_is_refused(scale, color_mode):
    with pytest.raises(ArgumentError, match="scale"):
        dfgen.Image(scale=scale, color_mode=color_mode)


def test_lists_and_arrays_are_kept_as_numbers():
    image = dfgen.Image(scale=[np.array(MEAN, "float64"), list(DEVIATION)])
    assert image == dfgen.Image(scale=(MEAN, DEVIATION))


# -- depth ---------------------------------------------------------------------------------------

DEEP = np.array([[[0], [257], [65535]]], np.uint16)
REAL = np.array([[[-0.5], [2.0], [np.nan]]], np.float32)


@pytest.mark.parametrize(
    ("pixels", "dtype", "expected"),
    [
        (DEEP, "uint8", np.array([[[0], [1], [255]]], np.uint8)), (DEEP, "uint16", DEEP),
        (DEEP, "float32", DEEP), (REAL, "float16", REAL), (REAL, None, None),
        (DEEP, None, None), (REAL, "uint8", None), (REAL, "uint16", None),
        (np.array([[[-1]]], np.int16), "uint16", None),
        (np.array([[[5]]], np.int64), "uint16", np.array([[[5]]], np.uint16)),
        (np.array([[[2**24 + 1]]], np.int64), "float32", None),
        (np.array([[[1e39]]]), "float32", None), (np.array([[[1j]]]), "float32", None),
        (DEEP.astype(">u2"), "uint16", DEEP),
    ],
)  # fmt: skip
def test_numbers_are_kept_or_refused(pixels, dtype, expected):
    if expected is None:
        with pytest.raises(DecodeError, match=r"float32|not 8|numbers"):
            in_depth(as_stored(pixels), dtype)
        return
    found = in_depth(as_stored(pixels), dtype)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


@pytest.mark.parametrize(
    ("pixels", "scale", "dtype"),
    [(REAL, "0..1", "float32"), (REAL, (MEAN, DEVIATION), "float32"), (DEEP, None, "float16"),
     (DEEP, (2.0, 0.0), "float16")],
)  # fmt: skip
def test_pixels_unfit_for_scale_or_float16_are_rejected(pixels, scale, dtype):
    with pytest.raises(DecodeError, match="hold"):
        check_scaled(pixels, scale, dtype)
    check_scaled(pixels, (1 / 65535, 0.0), dtype)
    check_scaled(pixels, "standardize", dtype)
