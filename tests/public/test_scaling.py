"""scale= against keras.applications, Rescaling, Normalization and per-image standardization."""

import keras
import numpy as np
import pandas as pd
import PIL.Image
import pytest

import dfgen
from dfgen.errors import ArgumentError
from public.first_batch import x_of

SIZE = (23, 37)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
APPLICATIONS = {
    "densenet": "torch", "efficientnet": None, "efficientnet_v2": None, "convnext": None,
    "inception_resnet_v2": "-1..1", "inception_v3": "-1..1", "mobilenet": "-1..1",
    "mobilenet_v2": "tf", "mobilenet_v3": None, "nasnet": "-1..1", "resnet": "caffe",
    "resnet_v2": "-1..1", "vgg16": "caffe", "vgg19": "caffe", "xception": "tf",
}  # fmt: skip


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Three images of 8 bits: noise, one of little contrast, one of a single colour."""
    folder = tmp_path_factory.mktemp("scaled")
    rng = np.random.default_rng(0)
    pixels = [rng.integers(low, high, (*SIZE, 3), np.uint8) for low, high in [(0, 256), (99, 104)]]
    pixels.append(np.full((*SIZE, 3), 200, np.uint8))
    for row, image in enumerate(pixels):
        PIL.Image.fromarray(image).save(folder / f"{row}.png")
    paths = [f"{folder}/{row}.png" for row in range(3)]
    return pd.DataFrame({"id": range(3), "path": paths}), np.stack(pixels)


def scaled(photos, scale, **options):
    return x_of(photos[0], dfgen.Image(size=SIZE, scale=scale, **options))


def near(found, expected, relative=1e-6):
    assert found.dtype == np.float32
    expected = np.asarray(expected, np.float64)
    np.testing.assert_allclose(found, expected, rtol=0, atol=relative * np.abs(expected).max())


@pytest.mark.parametrize("name", APPLICATIONS)
def test_scales_are_preprocess_input_of_keras_applications(photos, name):
    preprocess = getattr(keras.applications, name).preprocess_input
    expected = preprocess(photos[1].astype("float32"), data_format="channels_last")
    dtype = None if APPLICATIONS[name] else "float32"
    near(scaled(photos, APPLICATIONS[name], dtype=dtype), expected)


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


def test_standardize_is_per_image_standardization(photos):
    import tensorflow as tf

    with tf.device("CPU"):
        expected = np.asarray(tf.image.per_image_standardization(photos[1].astype("float32")))
    near(scaled(photos, "standardize"), expected, 1e-5)


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
