"""Images that are rows of .npy and HDF5: the same pixels as the same images in files."""

import re

import cv2
import h5py
import numpy as np
import pandas as pd
import pytest
from cases import each

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError
from dfgen.loading.loader import Loader
from dfgen.samples.features.image import Image
from dfgen.samples.features.masks import Mask
from dfgen.serving.preprocessing import preprocessing_of
from dfgen.stores.stores import Stores

N, HEIGHT, WIDTH = 24, 12, 18


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    """The same images as PNG files, rows of .npy and of HDF5, with masks and a box each."""
    folder = tmp_path_factory.mktemp("images")
    pixels = np.random.default_rng(0).integers(0, 256, (N, HEIGHT, WIDTH, 3), np.uint8)
    masks = np.random.default_rng(1).integers(0, 5, (N, HEIGHT, WIDTH), np.uint8)
    np.save(folder / "rgb.npy", pixels)
    np.save(folder / "gray.npy", pixels[..., 0])
    np.save(folder / "masks.npy", masks.astype(np.int64))
    np.save(folder / "deep.npy", pixels.astype(np.uint16) * 257)
    with h5py.File(folder / "all.h5", "w") as file:
        file.create_dataset("x", data=pixels, chunks=(5, HEIGHT, WIDTH, 3), compression="gzip")
        file["masks"] = masks
    for row in range(N):
        cv2.imwrite(f"{folder}/{row}.png", pixels[row, ..., ::-1])
        cv2.imwrite(f"{folder}/gray{row}.png", pixels[row, ..., 0])
        cv2.imwrite(f"{folder}/mask{row}.png", masks[row])
        cv2.imwrite(f"{folder}/deep{row}.png", pixels[row, ..., ::-1].astype(np.uint16) * 257)
    found = pd.DataFrame({"id": range(N), "index": range(N)})
    for name in ("rgb.npy", "gray.npy", "masks.npy", "deep.npy", "all.h5"):
        found[name] = f"{folder}/{name}"
    for name in ("", "gray", "mask", "deep"):
        found[f"{name}png"] = [f"{folder}/{name}{row}.png" for row in range(N)]
    found["path"] = found["rgb.npy"]
    found["boxes"], found["labels"] = [[[1, 2, 9, 8]]] * N, [[1]] * N
    return found


def batches(frame, x, y=None, workers=0, **options):
    found = bind(SequenceArguments(frame, x, y, label_mode="int" if y else None))
    loader = Loader(found.reader, batch_size=10, workers=workers, **options)
    made = [dict(loader.batch(1, step).arrays) for step in range(len(loader))]
    loader.close()
    return {name: np.concatenate([batch[name] for batch in made]) for name in made[0]}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(found[name], expected[name])


@each(
    "options",
    [
        {"size": (HEIGHT, WIDTH)},
        {"size": (6, 9)},
        {"size": (20, 20), "resize": "pad"},
        {"size": (8, 8), "load_size": (14, 14), "crop": "random", "flip": "horizontal"},
        {"size": (8, 8), "crop": "random_resized", "flip": "horizontal_and_vertical"},
        {"size": (6, 9), "color_mode": "grayscale", "scale": "-1..1"},
        {"size": (6, 9), "color_mode": "rgba"},
        {"size": (6, 9), "scale": "standardize", "dtype": "float16"},
        {"size": (HEIGHT, WIDTH), "interpolation": "nearest", "flip": "vertical"},
    ],
)
@each(("rows", "files"), [("rgb.npy", "png"), ("all.h5", "png"), ("gray.npy", "graypng")])
def test_options_treat_rows_and_files_alike(frame, rows, files, options):
    dataset = "x" if rows.endswith(".h5") else None
    found = batches(frame, Image(rows, index="index", dataset=dataset, **options))
    assert_same(found, batches(frame, Image(files, **options)))


def test_time_that_resizing_rows_takes_is_told(frame):
    found = bind(SequenceArguments(frame, Image("rgb.npy", (6, 9), index="index"), label_mode=None))
    loader = Loader(found.reader, workers=0)
    loader.batch(0, 0)
    assert loader.metrics.seconds["resize"] > 0


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_array_rows_keep_16_bits_like_files(frame, dtype):
    options = {"size": (6, 9), "dtype": dtype}
    found = batches(frame, Image("deep.npy", index="index", **options))
    assert_same(found, batches(frame, Image("deeppng", **options)))
    with pytest.raises(DecodeError, match="the image has 16 bits per channel, not 8"):
        batches(frame, Image("deep.npy", size=(6, 9), index="index"))


def test_masks_and_boxes_follow_images_in_arrays(frame):
    options = {"size": (8, 8), "load_size": (14, 14), "crop": "random", "flip": "horizontal"}
    x = {"image": Image("rgb.npy", index="index", **options)}
    y = {"mask": Mask("maskpng"), "boxes": dfgen.Boxes("boxes")}
    expected = batches(frame, {"image": Image("png", **options)}, y, workers=2)
    assert_same(batches(frame, x, y), expected)


def test_second_image_in_an_array_follows_the_first(frame):
    options = {"size": (8, 8), "load_size": (14, 14), "crop": "random"}

    def pair(one, two, **index):
        return {"a": Image(one, **options, **index), "b": Image(two, like="a", **index)}

    found = batches(frame, pair("rgb.npy", "gray.npy", index="index"))
    assert_same(found, batches(frame, pair("png", "graypng")))


def test_a_transform_sees_rows_as_it_sees_files(frame):
    def transform(sample, rng):
        return {**sample, "image": sample["image"] // 2 + np.uint8(rng.integers(9))}

    def made(x):
        found = bind(SequenceArguments(frame, x, label_mode=None, transform=transform))
        return Loader(found.reader, workers=0).batch(0, 0).arrays

    assert_same(made(Image("rgb.npy", (9, 9), index="index")), made(Image("png", (9, 9))))


def test_rows_of_target_size_are_read_in_chunks(frame, monkeypatch):
    monkeypatch.setattr(Stores, "row", None)
    for name, mode in (("rgb.npy", "rgb"), ("gray.npy", "grayscale")):
        found = batches(frame, Image(name, (HEIGHT, WIDTH), color_mode=mode, index="index"))
        expected = np.load(frame[name][0]).reshape(found["image"].shape)
        np.testing.assert_array_equal(found["image"], expected)


def test_serving_takes_images_as_files_and_arrays(frame):
    found = bind(SequenceArguments(frame, Image("rgb.npy", (6, 9), index="index"), label_mode=None))
    preprocessing = preprocessing_of(found, "channels_last", None)
    expected = batches(frame, Image("png", (6, 9)))["image"][3:4]
    pixels = np.load(frame["rgb.npy"][0])[3]
    for given in (frame["png"][3], pixels):
        np.testing.assert_array_equal(preprocessing(given), expected)


def test_rows_of_array_files_need_a_feature(frame):
    with pytest.raises(ArgumentError, match=r'dfgen\.Image\("path", size=\.\.\., index="index"\)'):
        bind(SequenceArguments(frame, label_mode=None))


def test_rows_that_are_no_images_are_refused(tmp_path):
    frame = pd.DataFrame({"id": [0], "path": f"{tmp_path}/x.npy", "index": [0]})
    for shape in ((5,), (5, 5, 2)):
        np.save(tmp_path / "x.npy", np.zeros((1, *shape), np.uint8))
        with pytest.raises(DecodeError, match=rf"id=0.*{re.escape(str(shape))}.*\(height, width\)"):
            batches(frame, Image("path", (5, 5), index="index"))


def test_target_missing_in_every_row_is_blank(frame):
    frame = frame.assign(none=pd.array([None] * N, "string"))
    y = {"numbers": dfgen.Array("none", shape=(4,), index="index", missing="ignore")}
    found = batches(frame, Image("rgb.npy", (6, 9), index="index"), y)
    assert not found["numbers"].any() and found["numbers"].shape == (N, 4)
