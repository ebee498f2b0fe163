"""Two images of a row: `like=`, sizes, and which images can be followed."""

import numpy as np
import pandas as pd
import PIL.Image
import pytest
from public.first_batch import batch_of, equal, x_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError

SIZE = (12, 16)
PIXELS = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)


@pytest.fixture
def df(tmp_path):
    """Return 12 rows of one image, the same one as `after`, and twice as large as `large`."""
    large = PIL.Image.fromarray(PIXELS.repeat(2, 0).repeat(2, 1))
    for name, image in (("a", PIL.Image.fromarray(PIXELS)), ("large", large)):
        image.save(tmp_path / f"{name}.png")
    large.crop((0, 0, 5, 5)).save(tmp_path / "small.png")
    row = {name: f"{tmp_path}/{name}.png" for name in ("large", "small")}
    return pd.DataFrame(
        {"id": range(12), "path": f"{tmp_path}/a.png", "after": f"{tmp_path}/a.png", **row}
    )


RANDOM = [
    {"size": (6, 8), "load_size": SIZE, "crop": "random", "flip": "horizontal"},
    {"size": (6, 8), "load_size": (9, 12), "crop": "random"}, {"size": None, "flip": "vertical"},
    {"size": (6, 6), "crop": "random_resized"}, {"size": (9, 9), "resize": "pad"},
]  # fmt: skip


@pytest.mark.parametrize("options", RANDOM)
def test_the_second_image_gets_the_same_geometry(df, options):
    image = dfgen.Image("path", **options)
    found, same = batch_of(df, image, dfgen.Image("after", like="image_0"))
    equal(same, found)


def test_follower_may_have_a_multiple_of_the_size(df):
    image = dfgen.Image("path", size=(6, 8), load_size=SIZE, crop="random", interpolation="nearest")
    follower = dfgen.Image("large", size=(12, 16), like="path", interpolation="nearest")
    small, large = batch_of(df, image, follower)
    equal(large, small.repeat(2, 1).repeat(2, 2))


def test_a_transform_sees_both_before_the_crop(df):
    def crop(sample, rng):
        assert sample["image_0"].shape == (12, 16, 3) and sample["image_1"].shape == (24, 32, 3)
        top = int(rng.integers(6))
        return {"image_0": sample["image_0"][top : top + 6, :8],
                "image_1": sample["image_1"][2 * top : 2 * top + 12, :16]}  # fmt: skip

    image = dfgen.Image("path", size=(6, 8), load_size=SIZE)
    small, large = batch_of(df, image, dfgen.Image("large", (12, 16), like="path"), transform=crop)
    equal(large, small.repeat(2, 1).repeat(2, 2))


def test_files_of_another_size_are_bad_rows(df):
    with pytest.raises(DecodeError, match=r"id=0.*5 x 5"):
        batch_of(df, dfgen.Image("path", size=(6, 8)), dfgen.Image("small", like="path"))


IMAGE = dfgen.Image("path", size=(6, 8))


@pytest.mark.parametrize(
    ("x", "y", "word"),
    [
        ({"a": IMAGE}, dfgen.Mask("after", like="b"), "like="),
        (dfgen.Number("id"), dfgen.Mask("path"), "none"),
        ({"a": IMAGE, "b": dfgen.Image("after")}, dfgen.Mask("path"), "a, b"),
        (IMAGE, {"c": dfgen.Image("after", like="c")}, "like="),
        (
            IMAGE,
            {"c": dfgen.Image("after", like="d"), "d": dfgen.Image("large", like="path")},
            "like=",
        ),
        (IMAGE, dfgen.Image("large", (9, 9), like="path"), "multiple"),
        (IMAGE, dfgen.Image("large", None, like="path"), "size=None"),
    ],
)
def test_what_cannot_be_followed_is_refused(df, x, y, word):
    with pytest.raises(ArgumentError, match=word):
        batch_of(df, x, y)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"size": 224}, "size"),
        ({"size": (0, 4)}, "size"),
        ({"size": (4.5, 4)}, "size"),
        ({"resize": "fit"}, "resize"),
        ({"crop": "random"}, "crop"),
        ({"dtype": "int8"}, "dtype"),
        ({"size": (8, 8), "load_size": (6, 9), "crop": "center"}, "load_size"),
        ({"area": (0.5, 1)}, "area"),
        ({"crop": "random_resized", "ratio": (2, 1)}, "ratio"),
        ({"flip": True}, "flip"),
        ({"crop": "random_resized", "load_size": (300, 300)}, "load_size"),
        ({"color_mode": "bgr"}, "color_mode"),
        ({"color_mode": 13}, "color_mode"),
        ({"size": None, "resize": "pad"}, "resize"),
        ({"size": None, "decode": len}, "decode"),
        ({"decode": lambda: 0}, "decode"),
        ({"decode": len, "index": "n"}, "index"),
        ({"padding_mask": True}, "padding_mask"),
        ({"like": "a", "flip": "horizontal"}, "flip"),
        ({"dtype": "uint8", "scale": "0..1"}, "scale"),
        ({"scale": "tf", "color_mode": "rgba", "dataset": "d"}, "dataset"),
        ({"missing": "drop"}, "missing"),
        ({"size": None, "missing": "ignore"}, "missing"),
        ({"column": ["a"]}, "column"),
        ({"scale": "torch", "color_mode": "grayscale"}, "scale"),
        ({"antialias": "no"}, "antialias"),
    ],
)
def test_arguments_that_contradict_one_another_are_refused(options, word):
    with pytest.raises(ArgumentError, match=word):
        dfgen.Image(**options)


def test_bands_of_satellites_are_resized_each(tmp_path):
    bands = np.random.default_rng(1).integers(0, 1000, (8, 8, 13)).astype(np.uint16)
    (tmp_path / "a.raw").write_bytes(bands.tobytes())

    def decode(data):
        return np.frombuffer(data, np.uint16).reshape(8, 8, -1)

    frame = pd.DataFrame({"id": [0], "path": [f"{tmp_path}/a.raw"]})
    image = dfgen.Image(size=(8, 8), color_mode=13, dtype="uint16", decode=decode)
    equal(x_of(frame, image)[0], bands)
    crop = dfgen.Image(
        size=(4, 4), resize="crop_or_pad", color_mode=13, dtype="uint16", decode=decode
    )
    equal(x_of(frame, crop)[0], bands[2:6, 2:6])
    with pytest.raises(DecodeError, match=r"id=0.*12"):
        x_of(frame, dfgen.Image(size=(8, 8), color_mode=12, dtype="uint16", decode=decode))
