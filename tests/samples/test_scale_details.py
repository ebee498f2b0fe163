"""Scales by pairs of numbers, of other channels, and impossible ones."""

import keras
import numpy as np
import pytest
from public.test_scaling import near as near
from public.test_scaling import photos as photos
from public.test_scaling import scaled as scaled

import dfgen
from dfgen.errors import ArgumentError

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALIZATION = keras.layers.Normalization(
    mean=np.multiply(MEAN, 255), variance=np.square(np.multiply(DEVIATION, 255))
)


@pytest.mark.parametrize(
    ("scale", "layer"),
    [
        ("0..1", keras.layers.Rescaling(1 / 255)),
        ("-1..1", keras.layers.Rescaling(1 / 127.5, -1)),
        ((-0.5, 3), keras.layers.Rescaling(-0.5, 3)),
        ((0.25, 0), keras.layers.Rescaling(0.25)),
        ((MEAN, DEVIATION), NORMALIZATION), ([[*MEAN], np.array(DEVIATION)], NORMALIZATION),
    ],
)  # fmt: skip
def test_pairs_and_names_are_layers_of_keras(photos, scale, layer):
    expected = keras.ops.convert_to_numpy(layer(photos[1].astype("float32")))
    near(scaled(photos, scale), expected, 2e-6)
    half = scaled(photos, scale, dtype="float16")
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("color_mode", ["grayscale", "rgba"])
def test_other_channels_are_scaled_alike(photos, color_mode):
    channels = {"grayscale": 1, "rgba": 4}[color_mode]
    whole = scaled(photos, None, color_mode=color_mode)
    near(scaled(photos, "-1..1", color_mode=color_mode), whole / 127.5 - 1)
    means, deviations = np.linspace(0.1, 0.9, channels), np.linspace(1, 0.3, channels)
    found = scaled(photos, (tuple(means), tuple(deviations)), color_mode=color_mode)
    near(found, (whole / 255 - means) / deviations, 2e-6)


@pytest.mark.parametrize(
    ("scale", "color_mode"),
    [
        ((MEAN, DEVIATION), "grayscale"), ("caffe", "grayscale"), ("torch", "rgba"), (MEAN, "rgb"),
        (((123.7, 116.8, 103.9), (58.4, 57.1, 57.4)), "rgb"), (((0.5,), (0,)), "grayscale"),
        ((0.5, float("nan")), "rgb"), ("0..2", "rgb"), ((MEAN, 0.5), "rgb"),
    ],
)  # fmt: skip
def test_scales_that_do_not_fit_are_errors(scale, color_mode):
    with pytest.raises(ArgumentError, match="scale"):
        dfgen.Image(scale=scale, color_mode=color_mode)
