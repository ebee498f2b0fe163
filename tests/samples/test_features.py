"""Image and Array: files to arrays, and the scales."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import each
from messages import message_of
from PIL import Image as Pillow

from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.samples.features.array import Array
from dfgen.samples.features.category import Category
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.scaling import rescale

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


@pytest.fixture
def row(tmp_path):
    Pillow.fromarray(PIXELS).save(tmp_path / "image.png")
    np.save(tmp_path / "array.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
    return {"path": str(tmp_path / "image.png"), "array": str(tmp_path / "array.npy")}


def scaled(image, row):
    value = image(row)
    assert (value.dtype, value.shape) == (image.spec.dtype, image.spec.shape)
    return value


@pytest.mark.parametrize("make", [dict, pd.Series])
def test_image_of_one_row(row, make):
    np.testing.assert_array_equal(scaled(Image(size=(6, 9)), make(row)), PIXELS)


def test_color_modes(row):
    assert scaled(Image(size=(4, 4), color_mode="grayscale"), row).shape == (4, 4, 1)
    assert (scaled(Image(size=(4, 4), color_mode="rgba"), row)[..., 3] == 255).all()


def test_standardize_takes_the_least_deviation_for_one_pixel_that_differs():
    out = np.empty((2, 2, 1), np.float32)
    rescale(np.array([[[7], [8]], [[7], [7]]], np.uint8), "standardize", out)
    assert out.ravel().tolist() == [-0.5, 1.5, -0.5, -0.5]


@pytest.mark.parametrize("level", [0, 7, 255])
def test_standardize_makes_a_constant_image_zero(level):
    image = Image(size=(30, 30), scale="standardize")
    out = np.empty((30, 30, 3), np.float32)
    image.finish(np.full((30, 30, 3), level, np.uint8), out)
    assert (out == 0).all()


@each(
    ("arguments", "message"),
    [
        ({"resize": "strech"},
         "resize must be one of ('stretch', 'crop', 'pad', 'crop_or_pad'), got 'strech'. Did "
         "you mean \"stretch\"?"),
        ({"color_mode": "bgr"},
         "color_mode must be one of ('grayscale', 'rgb', 'rgba'), got 'bgr'"),
        ({"scale": "0-1"},
         "scale must be one of (None, '0..1', '-1..1', 'tf', 'caffe', 'torch', 'standardize'), a "
         "pair of numbers (scale, offset), or the mean and the standard deviation of each "
         "channel, of pixels 0..1, as ((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)), got '0-1'"),
        ({"size": 224}, "size must be (height, width) in pixels, got 224: write size=(224, 224)"),
        ({"size": (224, 0)}, "size must be (height, width) in pixels, got (224, 0)"),
        ({"size": (224.0, 224)},
         "size must be (height, width) in pixels, got (224.0, 224): write size=(224, 224)"),
        ({"size": (224.5, 224)}, "size must be (height, width) in pixels, got (224.5, 224)"),
        ({"size": (True, 224)}, "size must be (height, width) in pixels, got (True, 224)"),
        ({"size": (4, 4, 3)},
         "size must be (height, width) in pixels, got (4, 4, 3): write size=(4, 4). Channels are "
         "color_mode="),
        ({"size": ()}, "size must be (height, width) in pixels, got ()"),
    ],
)  # fmt: skip
def test_bad_arguments_of_image(arguments, message):
    assert message_of(ArgumentError, Image, **arguments) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": 3}, "shape must be a tuple of positive integers, got 3: write shape=(3,)"),
        ({"shape": (3, -1)}, "shape must be a tuple of positive integers, got (3, -1)"),
        ({"shape": (3,), "dtype": "object"},
         "dtype must be a NumPy dtype of numbers as \"float32\", got 'object'"),
        ({"shape": (3,), "dtype": "flaot"},
         "dtype must be a NumPy dtype of numbers as \"float32\", got 'flaot'"),
    ],
)  # fmt: skip
def test_bad_arguments_of_array(arguments, message):
    assert message_of(ArgumentError, Array, "array", **arguments) == message


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16"])
def test_array_of_one_row(row, dtype):
    value = scaled(Array("array", (2, 3), dtype), pd.Series(row))
    np.testing.assert_array_equal(value, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("saved", "dtype", "message"),
    [
        (np.zeros((3, 2)), "float32", "the array has shape (3, 2), expected (2, 3)"),
        (np.zeros((2, 3)), "int32", "the array is float64, which int32 cannot hold"),
        (np.zeros((2, 3), complex), "float32",
         "the array is complex128, which float32 cannot hold"),
        (np.full((2, 3), 2**40), "int32",
         "the array holds 1099511627776 to 1099511627776, more than int32 can hold"),
        (np.full((2, 3), 1e300), "float32",
         "the array holds 1e+300 to 1e+300, more than float32 can hold"),
        (np.array([[np.nan, 1e300, -1]] * 2), "float32",
         "the array holds -1.0 to 1e+300, more than float32 can hold"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(tmp_path, saved, dtype, message):
    path = str(tmp_path / "array.npy")
    np.save(path, saved)
    with pytest.raises(DecodeError) as error:
        Array("array", (2, 3), dtype)({"array": path})
    assert str(error.value) == f"array={path!r}: {message}"


def test_errors_name_the_path(row):
    with pytest.raises(MissingFileError) as error:
        Image("path")({"path": "gone.png"})
    assert str(error.value) == "path='gone.png': the file does not exist"
    assert message_of(DecodeError, Image("array"), row) == (
        f"array={row['array']!r}: this is a .npy array, not an image: "
        "use dfgen.Array for this column"
    )


@pytest.mark.parametrize("made_as", [dict, pd.Series])
def test_a_row_without_the_column_or_with_pixels_in_it_is_told(made_as):
    lacking, pixels = made_as({"image": "a.png"}), made_as({"path": PIXELS})
    told = "Image() needs ['path'], which the row lacks. It has ['image']"
    assert message_of(ArgumentError, Image(), lacking) == told
    told = "'path' of the row is ndarray: expected the path of a file, or its bytes"
    assert message_of(ArgumentError, Image(), pixels) == told
    told = "Image() takes a row, got 'a.png': give a mapping of columns, such as {'path': ...}, or"
    assert message_of(ArgumentError, Image(), "a.png").startswith(told)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (Image, {"crop": 224}, "crop=224 is a size, expected how to crop: write size=(224, 224), "
         'and for crops of a larger load_size= crop="random" or "center"'),
        (Image, {"resize": [8, 9]}, "resize=[8, 9] is a size, expected how to resize: write "
         "load_size=(8, 9) to crop from, or size=(8, 9)"),
        (Image, {"size": (8, 8), "load_size": (8, 7), "crop": "center"},
         "size=(8, 8) is cropped from load_size=(8, 7), which is smaller: load_size must be at "
         "least as high and as wide"),
        (Image, {"crop": "random"}, "crop='random', but resize='stretch' crops nothing: give "
         'load_size=, a size larger than size= to crop from, or resize="crop"'),
        (Image, {"column": 5},
         'Image needs the name of a column, got 5: write dfgen.Image("column", ...)'),
        (Image, {"index": 5}, "index must be the name of a column, got 5"),
        (Category, {"column": "kind", "label_mode": "binary", "class_names": ["a"]},
         "label_mode=\"binary\" needs two classes, column 'kind' has 1: 'a'. Name both, "
         "class_names=[...], if these rows lack one"),
    ],
)  # fmt: skip
def test_arguments_that_exclude_each_other_are_refused_with_what_to_write(make, arguments, message):
    assert message_of(ArgumentError, make, **arguments) == message


def test_a_crop_may_be_as_large_as_what_it_is_cropped_from():
    assert Image(size=(8, 8), load_size=(8, 8), crop="center").load_size == (8, 8)


def test_a_class_of_another_spelling_is_told_so():
    kind = Category("kind", class_names=["cat", "dog"])
    for given, meant in (("Cat ", "cat"), ("DOG", "dog")):
        assert message_of(ManifestError, kind.encode, pa.array([given])) == (
            f"column 'kind' holds {given!r} (1 in all), not among its class names: 'cat', 'dog'. "
            f"{given!r} is {meant!r} but for case or blanks: give both one spelling"
        )


def test_a_feature_takes_a_row_and_nothing_else(row):
    assert message_of(ArgumentError, Image("path", (6, 9)), 5) == (
        "Image(size=(6, 9)) takes a row, got 5: give a mapping of columns, such as "
        "{'path': ...}, or a row of a frame"
    )


def test_specs_are_values():
    image = Image(size=[np.int64(4), 5])
    assert image == Image(size=(4, 5)) and hash(image) == hash(Image(size=(4, 5)))
    assert repr(image) == "Image(size=(4, 5))"
    array = Array("a", [2, 3], np.float16)
    assert repr(array) == "Array(column='a', shape=(2, 3), dtype='float16')"
    for feature in (image, array):
        assert pickle.loads(pickle.dumps(feature)) == feature
        with pytest.raises(AttributeError):
            feature.column = "x"
