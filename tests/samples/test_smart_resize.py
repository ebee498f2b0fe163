"""`resize="crop"` with `antialias=False` is Keras's `smart_resize`."""

import keras
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image as Pillow
from test_resizing import photograph

from dfgen.samples.features.image import Image
from dfgen.samples.pixels.geometry import place

SIDE = st.integers(1, 3000)


@given(SIDE, SIDE, SIDE, SIDE)
@example(10, 15, 3, 5)  # 15 * 3 / 5 = 9; 10 * 5 / 3 = 16.7
@example(60, 80, 224, 213)
def test_the_crop_is_that_of_keras(height, width, high, wide):
    rows = min(height, int(float(width * high) / wide)) or 1
    columns = min(width, int(float(height * wide) / high)) or 1
    expected = ((height - rows) // 2, (width - columns) // 2, rows, columns)
    assert place((height, width), (high, wide), (high, wide), "crop").source == expected


SHAPES = [
    ((375, 500), (224, 224)), ((333, 500), (224, 224)), ((501, 374), (160, 213)),
    ((97, 211), (61, 37)), ((211, 97), (96, 160)), ((64, 63), (64, 64)), ((31, 45), (97, 96)),
    ((480, 640), (299, 299)), ((1001, 667), (192, 256)), ((7, 300), (20, 31)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "size"), SHAPES)
def test_pixels_are_within_1_of_smart_resize(tmp_path, shape, size):
    pixels = photograph(*shape)
    Pillow.fromarray(pixels).save(tmp_path / "a.png")
    image = Image(size=size, resize="crop", antialias=False)
    expected = keras.preprocessing.image.smart_resize(
        pixels.astype("float32"), size, data_format="channels_last"
    )
    found = image({"path": tmp_path / "a.png"})
    assert np.abs(found - expected).max() <= 1


def test_pixels_are_within_1_of_image_dataset_from_directory(tmp_path):
    for name, shape in enumerate([(60, 101), (99, 64), (375, 500)]):
        Pillow.fromarray(photograph(*shape)).save(tmp_path / f"{name}.png")
    data = keras.utils.image_dataset_from_directory(
        tmp_path, labels=None, batch_size=None, image_size=(48, 71), shuffle=False,
        crop_to_aspect_ratio=True, verbose=False,
    )  # fmt: skip
    image = Image(size=(48, 71), resize="crop", antialias=False)
    for name, expected in enumerate(data):
        found = image({"path": tmp_path / f"{name}.png"})
        assert np.abs(found - np.asarray(expected)).max() <= 1
