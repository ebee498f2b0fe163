"""Image: size, resizing, colours and depth, against TensorFlow, Keras and Pillow."""

import itertools
import traceback

import keras
import numpy as np
import pandas as pd
import PIL.Image
import pytest

import dfgen
from dfgen.errors import DecodeError
from public.first_batch import equal, x_of

SHAPES = [(61, 40), (30, 47), (24, 24), (97, 31), (8, 70)]


def photograph(height, width):
    """Return smooth noise, as photographs are."""
    rng = np.random.default_rng([height, width])
    small = PIL.Image.fromarray(rng.integers(0, 256, (7, 6, 3), np.uint8))
    return np.asarray(small.resize((width, height), PIL.Image.Resampling.BICUBIC))


PHOTOS = [photograph(*shape) for shape in SHAPES]


@pytest.fixture
def write(tmp_path):
    """Return a function: a frame of image files of these pixels."""

    def make(*images, extension="png", **options):
        paths = [f"{tmp_path}/{row}.{extension}" for row in range(len(images))]
        for pixels, path in zip(images, paths, strict=True):
            PIL.Image.fromarray(pixels).save(path, **options)
        return pd.DataFrame({"id": [f"r{row}" for row in range(len(images))], "path": paths})

    return make


def numbered(height, width):
    """Return pixels of which each tells its place."""
    down, across = np.mgrid[:height, :width]
    return np.stack([down + 1, across + 1, np.full_like(down, 7)], -1).astype(np.uint8)


def many(frame, rows=200):
    return pd.concat([frame] * rows).assign(id=range(rows))


def tensorflow(name, *arguments):
    import tensorflow as tf

    with tf.device("CPU"):
        return np.asarray(getattr(tf.image, name)(*arguments))


def pillow(pixels, size):
    return PIL.Image.fromarray(pixels).resize(size[::-1], PIL.Image.Resampling.BILINEAR)


def smart(pixels, size):
    given = {"data_format": "channels_last"}
    return keras.preprocessing.image.smart_resize(pixels.astype("float32"), size, **given)


def padded_to(pixels, size):
    scale = min(size[0] / pixels.shape[0], size[1] / pixels.shape[1])
    inside = np.maximum(1, np.round(np.multiply(pixels.shape[:2], scale)).astype(int))
    above, left = (size - inside) // 2
    below, right = size - inside - (above, left)
    return np.pad(tensorflow("resize", pixels, inside), ((above, below), (left, right), (0, 0)))


REFERENCES = {
    "stretch": ({"antialias": False}, lambda pixels, size: tensorflow("resize", pixels, size), 1),
    "antialias": ({}, pillow, 12),
    "crop": ({"resize": "crop", "antialias": False}, smart, 1),
    "pad": ({"resize": "pad", "antialias": False}, padded_to, 1),
    "crop_or_pad": ({"resize": "crop_or_pad"},
                    lambda pixels, size: tensorflow("resize_with_crop_or_pad", pixels, *size), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("size", [(20, 33), (61, 40), (97, 161), (90, 13), (8, 9)])
def test_resizing_is_that_of_tensorflow_keras_and_pillow(write, name, size):
    options, reference, within = REFERENCES[name]
    found = x_of(write(*PHOTOS), dfgen.Image(size=size, **options))
    assert (found.shape, found.dtype) == ((5, *size, 3), np.uint8)
    for image, pixels in zip(found, PHOTOS, strict=True):
        assert np.abs(image - np.asarray(reference(pixels, size), float)).max() <= within


def test_the_centre_is_cropped_from_load_size(write):
    image = dfgen.Image(size=(7, 10), load_size=(24, 24), crop="center")
    np.testing.assert_array_equal(x_of(write(PHOTOS[2]), image)[0], PHOTOS[2][8:15, 7:17])


def test_random_crops_are_windows_of_the_image(write):
    frame, pixels = many(write(numbered(12, 15))), numbered(12, 15)
    image = dfgen.Image(size=(10, 12), load_size=(12, 15), crop="random", flip="vertical")
    first, other = x_of(frame, image, seed=0), x_of(frame, image, seed=1)
    equal(x_of(frame, image, seed=0, workers=2), first)
    assert (first != other).any()
    seen = set()
    for found in first:
        flipped = found[0, 0, 0] > found[-1, 0, 0]
        top, left = found[:, 0, 0].min() - 1, found[0, :, 1].min() - 1
        expected = pixels[top : top + 10, left : left + 12]
        np.testing.assert_array_equal(found, expected[::-1] if flipped else expected)
        seen.add((int(top), int(left), bool(flipped)))
    assert seen == set(itertools.product(range(3), range(4), (False, True)))


@pytest.mark.parametrize("flip", ["horizontal", "vertical", "horizontal_and_vertical"])
def test_flips_are_drawn_for_half_the_rows(write, flip):
    pixels = numbered(5, 4)
    allowed = {"horizontal": (0, 1), "vertical": (0, 2)}.get(flip, range(4))
    ways = [pixels, pixels[:, ::-1], pixels[::-1], pixels[::-1, ::-1]]
    images = x_of(many(write(pixels)), dfgen.Image(size=(5, 4), flip=flip))
    counts = [sum((image == way).all() for image in images) for way in ways]
    assert sum(counts) == 200 and {way for way in range(4) if counts[way]} == {*allowed}
    assert min(counts[way] for way in allowed) > 140 / len(allowed)


def padded(images):
    batch = np.zeros(
        (len(images), *np.max([image.shape for image in images], axis=0)), images[0].dtype
    )
    for into, image in zip(batch, images, strict=True):
        into[: image.shape[0], : image.shape[1]] = image
    return batch


def test_size_none_pads_each_batch_to_its_largest(write):
    df = write(*PHOTOS).assign(n=range(5))
    with dfgen.Sequence(df, "path", "n", image_size=None, batch_size=3, shuffle=False) as seq:
        for step, rows in enumerate((slice(0, 3), slice(3, 5))):
            equal(
                [*map(np.asarray, seq[step])],
                [padded(PHOTOS[rows]), np.arange(5, dtype="i4")[rows]],
            )


def test_padding_mask_tells_pixels_from_padding(write):
    found = x_of(write(*PHOTOS), dfgen.Image(size=None, padding_mask=True))
    masks = padded([np.ones((*shape, 1), bool) for shape in SHAPES])
    equal(found, {"images": padded(PHOTOS), "padding_mask": masks})


DEEP = np.arange(35, dtype=np.uint16).reshape(5, 7) * 1_873
FLOATS = (np.arange(35, dtype=np.float32).reshape(5, 7) - 7) / 3
GRAY = {"size": (5, 7), "color_mode": "grayscale"}


@pytest.mark.parametrize(
    ("pixels", "options", "expected"),
    [
        (DEEP, {"dtype": "uint16"}, DEEP), (DEEP, {"dtype": "uint8"}, np.rint(DEEP / 257)),
        (DEEP, {"dtype": "float32"}, DEEP), (DEEP, {"scale": "0..1"}, DEEP / 65535),
        (DEEP, {"scale": "-1..1"}, DEEP / 32767.5 - 1), (FLOATS, {}, FLOATS),
        (DEEP, {"scale": (0.1, 2)}, DEEP * 0.1 + 2), (FLOATS, {"scale": (3, 7)}, FLOATS * 3 + 7),
        (DEEP, {"scale": "0..1", "dtype": "float16"}, DEEP / 65535),
        (DEEP // 257, {"dtype": "float16"}, DEEP // 257),
    ],
)  # fmt: skip
def test_depth_follows_dtype_and_scale(write, pixels, options, expected):
    options = {"dtype": "float32", **options}
    found = x_of(write(pixels, extension="tiff"), dfgen.Image(**GRAY, **options))
    assert (found.shape, found.dtype) == ((1, 5, 7, 1), options["dtype"])
    within = (1e-3 if found.dtype == np.float16 else 2e-7) * np.abs(expected).max()
    np.testing.assert_allclose(found[0, ..., 0].astype(float), expected, rtol=0, atol=within)


def decode(data):
    return np.frombuffer(data[2:], np.uint8).reshape(*data[:2])


def test_a_function_of_the_user_decodes(tmp_path):
    for row, (height, width, length) in enumerate([(3, 4, 12), (6, 8, 48), (6, 8, 47)]):
        (tmp_path / f"{row}.raw").write_bytes(bytes([height, width]) + b"\x09" * length)
    paths = [f"{tmp_path}/{row}.raw" for row in range(3)]
    frame = pd.DataFrame({"id": ["a", "b", "broken"], "path": paths})
    image = dfgen.Image(size=(3, 4), color_mode="grayscale", decode=decode)
    equal(x_of(frame[:2], image), np.full((2, 3, 4, 1), 9, np.uint8))
    for options in ({"workers": 0}, {"workers": 1, "use_multiprocessing": True}):
        with pytest.raises(DecodeError, match="broken") as caught:
            x_of(frame, image, **options)
        assert "reshape(*data[:2])" in "".join(traceback.format_exception(caught.value))
