"""Rows of deep files in a Sequence: told when it is opened, transformed at their own depth."""

import contextlib
import warnings

import cv2
import numpy as np
import pandas as pd
import pytest
import tifffile
from loaders import batches_of

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import DecodeError, ManifestError
from dfgen.loading.loader import Loader

ROWS, SHAPE = 6, (4, 5)


def manifest(folder, **dtypes):
    """Build one of images whose pixels are 1000 times their row, plus 1000; 8 bits: 10 times."""
    folder = folder / "imgs"
    folder.mkdir()
    for row in range(ROWS):
        dtype = np.dtype(dtypes.get(f"row{row}", dtypes.get("others", "uint16")))
        pixels = np.full(SHAPE, (10 if dtype == np.uint8 else 1000) * (row + 1)).astype(dtype)
        if dtype.kind == "f":
            tifffile.imwrite(folder / f"{row}.tif", pixels)
        else:
            cv2.imwrite(f"{folder}/{row}.png", pixels)
    return dfgen.build_manifest(folder)


def image(**options):
    return dfgen.Image(size=SHAPE, color_mode="grayscale", **options)


def bound(frame, x, **options):
    return bind(SequenceArguments(frame, x, label_mode=None, **options))


def batch_of(frame, x, transform=None, on_error="raise", **options):
    found = bound(frame, x, transform=transform, on_error=on_error)
    loader = Loader(
        found.reader, batch_size=ROWS, on_error=on_error, problems=found.problems,
        **options,
    )  # fmt: skip
    with contextlib.closing(loader):
        return next(iter(batches_of(loader))) if options else loader.batch(0, 0), loader.problems


def test_rows_of_too_many_bits_are_refused(tmp_path):
    frame = manifest(tmp_path, row1="uint8", row4="float32", others="uint16").iloc[[0, 1, 4]]
    with pytest.raises(ManifestError, match=r"2 of 3 rows(.|\n)*16 bits(.|\n)*32 bits"):
        bound(frame, image())
    with pytest.raises(ManifestError, match=r"1 of 3 rows(.|\n)*32 bits"):
        bound(frame, image(dtype="uint8"))


def test_first_ten_deep_rows_are_named(tmp_path):
    frame = pd.concat([manifest(tmp_path)] * 3, ignore_index=True).assign(id=range(18))
    with pytest.raises(ManifestError, match=r"18 of 18 rows(.|\n)*\n  \.\.\. and 8 more"):
        bound(frame, image())


def test_deep_rows_are_skipped(tmp_path):
    frame = manifest(tmp_path, row1="uint16", others="uint8")
    batch, problems = batch_of(frame, image(), on_error="skip")
    assert [*problems] == [1] and "16 bits" in problems[1].reason
    assert batch.arrays["image"][:, 0, 0, 0].tolist() == [10, 0, 30, 40, 50, 60]


def test_deep_file_without_facts_is_an_error(tmp_path):
    frame = manifest(tmp_path, row1="uint16", others="uint8")[["id", "path"]]
    with pytest.raises(DecodeError, match=r"1\.png.*16 bits"):
        batch_of(frame, image())


@pytest.mark.parametrize("bits", ["8", 8.5, None])
def test_user_column_named_bits_is_ignored(tmp_path, bits):
    frame = manifest(tmp_path, others="uint8").assign(bits=bits)
    assert not bound(frame, image()).problems
    assert not bound(frame[["id", "path"]].assign(bits=16), image()).problems


def test_facts_are_those_of_the_column_path(tmp_path):
    frame = manifest(tmp_path)
    assert not bound(frame.rename(columns={"path": "depth"}), image(column="depth")).problems


MIXED = {"row1": "uint8", "others": "uint16"}


def test_files_of_64_bits_per_channel_are_problems(tmp_path):
    with pytest.warns(UserWarning, match="1 problem"):
        frame = manifest(tmp_path, row1="float64", others="float32")
    batch, problems = batch_of(frame, image(dtype="float32"), on_error="skip")
    assert [*problems] == [1]
    assert batch.arrays["image"][:, 0, 0, 0].tolist() == [1000, 0, 3000, 4000, 5000, 6000]


def test_a_named_scale_makes_several_depths_one(tmp_path):
    frame = manifest(tmp_path, **MIXED)
    batch, _ = batch_of(frame, image(dtype="float32", scale="0..1"))
    expected = [(row + 1) * (10 / 255 if row == 1 else 1000 / 65535) for row in range(ROWS)]
    np.testing.assert_allclose(batch.arrays["image"][:, 0, 0, 0], expected, rtol=1e-6)
    batch, _ = batch_of(frame, image(dtype="uint8"))
    expected = [20 if row == 1 else round((row + 1) * 1000 / 257) for row in range(ROWS)]
    assert batch.arrays["image"][:, 0, 0, 0].tolist() == expected


def add_five(sample, rng):
    seen = sample["image"]
    assert seen.dtype == np.uint16 and seen.shape == (*SHAPE, 1)
    return {"image": seen + np.uint16(5)}


PROCESS = {"workers": 1, "use_multiprocessing": True}


@pytest.mark.parametrize(
    ("more", "expected", "options"),
    [
        ({"dtype": "uint16"}, lambda x: x, {"workers": 0}),
        ({"dtype": "float32"}, lambda x: x, {"workers": 2}),
        ({"dtype": "float32", "scale": "0..1"}, lambda x: x / 65535, {"workers": 2}),
        ({"dtype": "float32", "scale": "0..1"}, lambda x: x / 65535, PROCESS),
    ],
    ids=["uint16", "float32", "0..1", "process"],
)
def test_a_transform_gets_the_depth_of_the_file(tmp_path, more, expected, options):
    batch, _ = batch_of(manifest(tmp_path), image(**more), add_five, **options)
    found = batch.arrays["image"][:, 0, 0, 0]
    assert found.dtype == more["dtype"]
    np.testing.assert_allclose(found, expected(1000.0 * np.arange(1, ROWS + 1) + 5), rtol=1e-6)


def test_transform_gets_uint8_pixels_of_8_bit_files(tmp_path):
    def check(sample, rng):
        assert sample["image"].dtype == np.uint8
        return sample

    frame = manifest(tmp_path, others="uint8")
    batch, _ = batch_of(frame, image(dtype="float16", scale="0..1"), check)
    assert batch.arrays["image"].dtype == np.float16


def test_a_transform_that_changes_the_depth_is_refused(tmp_path):
    frame = manifest(tmp_path)
    with pytest.raises(dfgen.errors.TransformError, match="expected uint16"):
        batch_of(frame, image(dtype="float32"), lambda s, rng: {"image": s["image"] / 2})


def test_a_transform_crops_deep_pixels_from_load_size(tmp_path):
    x = dfgen.Image(size=(2, 3), load_size=SHAPE, color_mode="grayscale", dtype="float32")
    batch, _ = batch_of(manifest(tmp_path), x, lambda s, rng: {"image": s["image"][:2, :3]})
    assert batch.arrays["image"].shape == (ROWS, 2, 3, 1)
    assert batch.arrays["image"][:, 0, 0, 0].tolist() == [1000 * (r + 1) for r in range(ROWS)]


def test_deep_images_keep_their_sizes(tmp_path):
    x = dfgen.Image(size=None, color_mode="grayscale", dtype="float32")
    batch, _ = batch_of(manifest(tmp_path), x)
    assert batch.arrays["image"].shape == (ROWS, *SHAPE, 1)
    assert batch.arrays["image"][:, 3, 4, 0].tolist() == [1000 * (r + 1) for r in range(ROWS)]


def test_bits_of_many_rows_are_checked_together(tmp_path):
    """One row's Python object each would take a second."""
    frame = pd.DataFrame({"id": np.arange(200_000), "path": "a.png"}).assign(bits=8, format="png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not bound(frame, image()).problems
