"""Pairs: an image that follows another gets its crop, flip and geometry, to the pixel."""

import pickle
import warnings

import cv2
import keras
import numpy as np
import pandas as pd
import PIL.Image
import pytest
from messages import message_of
from watching import EAGER

import dfgen
from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_arguments import followed_image
from dfgen.samples.features.mask import Mask
from dfgen.samples.pixels.geometry import RESIZE

ROWS = 8
RANDOM = {"size": (12, 16), "resize": "crop_or_pad", "crop": "random", "flip": "horizontal"}


def pixels_of(row, times=1):
    """Each pixel tells its row and where it stands in the smaller image."""
    height, width = 20 + row, 30 - row
    down, across = np.mgrid[:height, :width]
    pixels = np.stack([np.full_like(down, row), 5 * down, 5 * across], -1).astype(np.uint8)
    return pixels.repeat(times, 0).repeat(times, 1)


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    rows = []
    for row in range(ROWS):
        names = {name: f"{folder}/{name}_{row}.png" for name in ("before", "after", "high")}
        for (name, path), times in zip(names.items(), (1, 1, 2), strict=True):
            pixels = 255 - pixels_of(row) if name == "after" else pixels_of(row, times)
            cv2.imwrite(path, pixels[..., ::-1])
        height = f"{folder}/height_{row}.tif"
        PIL.Image.fromarray(pixels_of(row)[..., 1] / np.float32(7)).save(height)
        rows.append({"id": row, **names, "height": height})
    return pd.DataFrame(rows)


def batches(frame, x, y, **options):
    options = {"label_mode": "int", "batch_size": 4, "workers": 2, **options}
    with dfgen.Sequence(frame, x, y, **options) as seq:
        return [seq[step] for step in range(len(seq))]


# The same crop and flip


@pytest.mark.parametrize("processes", [False, True])
def test_both_get_the_same_crop_and_flip(frame, processes):
    found = batches(
        frame,
        Image("before", **RANDOM),
        Image("after", like="before"),
        workers=1,
        use_multiprocessing=processes,
    )
    for before, after in found:
        assert before.shape == (4, 12, 16, 3)
        np.testing.assert_array_equal(before, 255 - after)
    flips = {bool(image[0, 0, 2] > image[0, 1, 2]) for before, _ in found for image in before}
    assert flips == {True, False}


@pytest.mark.parametrize("resize", RESIZE)
def test_every_way_of_resizing_is_followed(frame, resize):
    image = Image("before", size=(10, 14), resize=resize, interpolation="nearest")
    for before, after in batches(
        frame, image, Image("after", like="before", interpolation="nearest")
    ):
        seen = before.any(-1)
        assert seen.any()
        np.testing.assert_array_equal(before[seen], 255 - after[seen])


def test_its_colours_scale_and_dtype_are_its_own(frame):
    x = Image("before", size=(12, 16), scale="-1..1")
    y = Image("before", like="before", color_mode="grayscale", dtype="float16")
    (before, gray), *_ = batches(frame, x, y)
    assert (before.dtype, before.shape) == ("float32", (4, 12, 16, 3))
    assert (gray.dtype, gray.shape) == ("float16", (4, 12, 16, 1))
    assert gray.max() > 2


def test_names_of_arrays_are_known_too(frame):
    x = {"a": Image("before", **RANDOM), "b": Image("after", like="a")}
    (found,), *_ = batches(frame, x, None, label_mode=None)
    np.testing.assert_array_equal(found["a"], 255 - found["b"])


def test_masks_beside_a_pair_follow_the_one_image_that_follows_none(frame):
    y = {"after": Image("after", like="before"), "height": Mask("height", dtype="float32")}
    (before, y), *_ = batches(frame, Image("before", **RANDOM), y)
    np.testing.assert_array_equal(before[..., 1:2] / np.float32(7), y["height"])
    np.testing.assert_array_equal(before, 255 - y["after"])


# A whole number of times as large


def test_super_resolution_shows_the_same_to_the_pixel(frame):
    low = Image("before", **RANDOM)
    high = Image("high", size=(24, 32), like="before")
    for before, after in batches(frame, low, high):
        assert after.shape == (4, 24, 32, 3)
        np.testing.assert_array_equal(before.repeat(2, 1).repeat(2, 2), after)


def test_a_size_of_the_default_is_one_when_it_is_given():
    small = Image("before", size=(128, 128))
    assert Image("after", like=small).size == (128, 128)
    assert Image("after", size=(256, 256), like=small).size == (256, 256)
    assert pickle.loads(pickle.dumps(Image("after", like="before"))) == Image(
        "after", like="before"
    )
    assert repr(Image("after", like="before")) == "Image(column='after', like='before')"


# Images that keep their sizes


@pytest.mark.parametrize(("column", "times"), [("after", 1), ("high", 2)])
def test_images_of_their_own_sizes_are_padded_alike(frame, column, times):
    x = Image("before", size=None, flip="horizontal", extra="sizes")
    y = Image(column, like="before", extra="padding_mask")
    for before, after in batches(frame, x, y):
        images = before["images"].repeat(times, 1).repeat(times, 2)
        inside = after["padding_mask"][..., 0]
        wanted = 255 - images if times == 1 else images
        np.testing.assert_array_equal(after["images"][inside], wanted[inside])
        assert not after["images"][~inside].any()
        np.testing.assert_array_equal(inside.sum((1, 2)), before["sizes"].prod(1) * times**2)


def test_files_that_are_not_all_as_many_times_as_large_are_errors(frame):
    mixed = frame.assign(high=[*frame["high"][:-1], frame["after"].iloc[-1]])
    with pytest.raises(DecodeError) as error:
        batches(mixed, Image("before", size=None), Image("high", like="before"), workers=0)
    assert str(error.value) == (
        f"row id=7, before={mixed['before'][7]!r}, high={mixed['high'][7]!r}: the image has 27 x "
        "23 pixels (height x width), expected 2 times those of the image that it follows, 54 x 46"
    )


# By hand, and through transforms


def test_one_row_by_hand(frame):
    row, before = frame.iloc[3], Image("before", **RANDOM)
    seen = set()
    for seed in range(9):
        one, other, large = (
            feature(row, np.random.default_rng(seed))
            for feature in (
                before,
                Image("after", like=before),
                Image("high", (24, 32), like=before),
            )
        )
        np.testing.assert_array_equal(one, 255 - other)
        np.testing.assert_array_equal(one.repeat(2, 0).repeat(2, 1), large)
        seen.add(one.tobytes())
    assert len(seen) > 4
    own = Image("high", size=None, like=Image("before", size=None))(row)
    np.testing.assert_array_equal(own, pixels_of(3, 2))


def test_a_transform_sees_both(frame):
    def crop(sample, rng):
        top = int(rng.integers(4))
        low, high = sample["image_0"], sample["image_1"]
        assert (low.shape, high.shape) == ((12, 16, 3), (24, 32, 3))
        return {
            "image_0": low[top : top + 8, :8],
            "image_1": high[2 * top : 2 * top + 16, :16],
        }

    x = Image("before", size=(8, 8), load_size=(12, 16), resize="crop_or_pad")
    y = Image("high", size=(16, 16), like="before")
    for before, after in batches(frame, x, y, transform=crop):
        np.testing.assert_array_equal(before.repeat(2, 1).repeat(2, 2), after)


# What is refused


@pytest.mark.parametrize(
    ("given", "value"),
    [("resize", "crop"), ("load_size", (300, 300)), ("crop", "random"), ("flip", "horizontal")],
)
def test_what_the_followed_image_decides_is_refused(given, value):
    assert message_of(ArgumentError, Image, "after", like="before", **{given: value}) == (
        f"Image('after', like=...) has {given}={value!r}, which the image that it follows decides: "
        "leave it out here, and write it there"
    )


SMALL = Image("before", size=(64, 64))


@pytest.mark.parametrize(
    ("size", "followed", "message"),
    [
        ((100, 64), SMALL, "Image('after') has size=(100, 64), which is no whole number of times "
         "(64, 64), the size of the image that it follows: leave it out, or let the smaller of the "
         "two be followed"),
        ((64, 64), Image("before", size=None), "Image('after') has size=(64, 64), the image that "
         "it follows size=None: leave the size out here, so that it is the same"),
        ((64, 64), Image("b", like=SMALL), "Image('after') follows Image('b'), which follows "
         "another one: let both follow that one"),
        ((64, 64), Mask("b"), "Image('after') has like=Mask(column='b'): expected the name of an "
         "image, or the Image itself"),
    ],
)  # fmt: skip
def test_sizes_and_images_that_cannot_be_followed(size, followed, message):
    assert message_of(ArgumentError, Image, "after", size=size, like=followed) == message


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (Image("before"), Image("after", like="befor"),
         "Image('after') has like='befor', which is no image here. Images: image_0. Did you mean "
         '"before"?'),
        (Image("before"), Image("after", like="after"),
         "Image('after') has like='after', which is itself: name another image"),
        ([Image("before"), Image("after", like="before")], Image("high", like="after"),
         "Image('high') has like='after', which itself follows like='before': name the image that "
         "follows no other"),
        (Image("before", like="after"), Image("after", like="before"),
         "Image('before') has like='after', which itself follows like='before': name the image "
         "that follows no other"),
        ({"a": Image("before"), "b": Image("before")}, Image("after", like="before"),
         "Image('after') follows one of several images: name it, like='a'. Images: a, b"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_followed(frame, x, y, message):
    assert message_of(ArgumentError, batches, frame, x, y) == message


def test_a_file_of_another_size_names_its_row(frame, tmp_path):
    sideways = str(tmp_path / "sideways.png")
    cv2.imwrite(sideways, np.zeros((30, 20, 3), np.uint8))
    row = {"id": 0, "before": frame["before"][0], "after": frame["after"][1]}
    for path, size, hint in [
        (frame["after"][1], "21 x 29", ""),
        (sideways, "30 x 20", ": it lies as that one does before EXIF orientation turns it"),
    ]:
        with pytest.raises(DecodeError) as error:
            one = pd.DataFrame([row | {"after": path}])
            batches(one, Image("before"), Image("after", like="before"), workers=0)
        assert str(error.value) == (
            f"row id=0, before={row['before']!r}, after={path!r}: the image has {size} pixels "
            f"(height x width), expected those of the image that it follows, 20 x 30{hint}"
        )


# Two images that may be meant as a pair

DRAWN = Image("before", size=(8, 8), load_size=(12, 16), crop="random")


def test_two_images_that_draw_apart_are_told_once(frame):
    targets = {name: Image(name, **{**RANDOM, "size": (8, 8)}) for name in ("after", "high")}
    with pytest.warns(UserWarning) as caught:
        batches(frame, Image("before", size=(8, 8), flip="horizontal"), targets)
    assert [str(warning.message) for warning in caught] == [
        "the images of 'before' in x and 'after' in y are cropped and flipped by chance, each by "
        "its own. For a pair of the same crop and flip write y=dfgen.Image('after', like='before')"
    ]
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (DRAWN, Image("after", like="before")),
        (DRAWN, Image("after", size=(8, 8))),
        (DRAWN, Image("after", size=(9, 8), load_size=(12, 16), crop="random")),
        ([DRAWN, Image("after", size=(8, 8), load_size=(12, 16), crop="random")], None),
    ],
)
def test_others_are_left_alone(frame, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seq = dfgen.Sequence(frame, x, y, label_mode="int" if y else None, workers=0)
    first, second = seq[0] if y else seq[0][0]
    assert first.shape[1:3] == (8, 8) and second.shape[2:3] == (8,)
    seq.close()


# Keras


@pytest.mark.backend
@pytest.mark.parametrize("size", [(12, 16), None])
def test_a_model_learns_a_pair(frame, size):
    layers = keras.layers
    model = keras.Sequential(
        [layers.Rescaling(1 / 255), layers.Conv2DTranspose(3, 2, strides=2, padding="same")]
    )
    model.compile("adam", "mean_absolute_error", run_eagerly=EAGER)
    x = Image("before", size=size, flip="horizontal")
    y = Image("high", None if size is None else (24, 32), like="before", scale="0..1")
    with dfgen.Sequence(frame, x, y, batch_size=4, workers=2) as seq:
        history = model.fit(seq, epochs=2, verbose=0)
        assert seq.receipt.rows == ROWS
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.backend
def test_weights_of_rows_reach_a_loss_of_pixels(frame):
    weighted = frame.assign(weight=np.arange(ROWS) % 2)
    inputs = keras.Input((12, 16, 3))
    model = keras.Model(inputs, keras.layers.Rescaling(0.0)(inputs))
    model.compile(loss="mean_absolute_error")
    x, y = Image("before", size=(12, 16)), Image("before", like="before", dtype="float32")
    with dfgen.Sequence(
        weighted, x, y, sample_weight="weight", batch_size=ROWS, shuffle=False, workers=0
    ) as seq:
        loss = model.evaluate(seq, verbose=0)
        images, weights = seq[0][1], seq[0][2]
    assert weights.shape == (ROWS, 1, 1)
    assert loss == pytest.approx((images.mean((1, 2, 3)) * weighted["weight"]).mean(), rel=1e-4)


def test_an_image_that_follows_needs_one_that_does_not():
    image = Image("path", like="nothing")
    with pytest.raises(ArgumentError) as error:
        followed_image({"image": image}, "image")
    assert str(error.value) == (
        "Image('path') has like='nothing', which is no image here. Images: none that follows no "
        "other."
    )
