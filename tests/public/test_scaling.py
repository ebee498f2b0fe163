"""scale= against keras.applications, Rescaling, Normalization and per-image standardization."""

import keras
import numpy as np
import pandas as pd
import PIL.Image
import pytest

import dfgen
from public.first_batch import x_of

SIZE = (23, 37)
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


def test_standardize_is_per_image_standardization(photos):
    import tensorflow as tf

    with tf.device("CPU"):
        expected = np.asarray(tf.image.per_image_standardization(photos[1].astype("float32")))
    near(scaled(photos, "standardize"), expected, 1e-5)
