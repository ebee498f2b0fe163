"""Files of every format: the pixels of each, or its rejection with the row's id."""

import io
import struct

import numpy as np
import pandas as pd
import PIL.Image
import pytest

import dfgen
from dfgen.errors import DecodeError
from public.corpus import CASES, HEIGHT, REJECTED, RGB, WIDTH, chunk, png
from public.first_batch import x_of

SOUND = png(RGB, 2)


@pytest.fixture
def one(tmp_path):
    """Return a function: a frame of one file."""

    def write(data, name="file.bin"):
        (tmp_path / name).write_bytes(data)
        return pd.DataFrame({"id": ["odd-one"], "path": [str(tmp_path / name)]})

    return write


@pytest.mark.parametrize("name", CASES)
def test_a_file_decodes_to_its_pixels(one, name):
    case, expected = CASES[name], CASES[name].expected()
    image = dfgen.Image(size=None, color_mode=case.color_mode, dtype=case.dtype)
    (found,) = x_of(one(case.data), image)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    mixed = case.color_mode == "grayscale" and case.dtype is None  # each library rounds in its way
    within = 2 if name.startswith("lossy") else int(mixed)
    np.testing.assert_allclose(found.astype(float), expected, rtol=0, atol=within)


@pytest.mark.parametrize("name", REJECTED)
def test_a_damaged_or_foreign_file_is_rejected(one, name):
    with pytest.raises(DecodeError, match="odd-one"):
        x_of(one(REJECTED[name]), dfgen.Image(size=(9, 7)))


@pytest.mark.parametrize("extension", ["jpg", "txt", "tif"])
def test_content_decides_not_the_extension(one, extension):
    found = x_of(one(SOUND, f"a.{extension}"), dfgen.Image(size=(HEIGHT, WIDTH)))
    np.testing.assert_array_equal(found[0], RGB)


def test_header_asking_for_too_much_is_rejected(one):
    head = chunk(b"IHDR", struct.pack(">II5B", 30_000, 30_000, 8, 2, 0, 0, 0))
    bomb = SOUND[:8] + head + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    with pytest.raises(DecodeError, match="decoded_bytes"):
        x_of(one(bomb))
    fits, under = (dfgen.Limits(decoded_bytes=HEIGHT * WIDTH * 3 - less) for less in (0, 1))
    assert x_of(one(SOUND), limits=fits).shape == (1, 256, 256, 3)
    with pytest.raises(DecodeError, match="decoded_bytes"):
        x_of(one(SOUND), limits=under)


def test_a_tiff_of_182_million_pixels_decodes(one):
    file = io.BytesIO()
    PIL.Image.new("L", (14_000, 13_000), 77).save(file, "TIFF", compression="tiff_adobe_deflate")
    image = dfgen.Image(size=(2, 3), color_mode="grayscale", interpolation="nearest")
    assert (x_of(one(file.getvalue()), image) == 77).all()


def test_verify_and_training_agree_on_every_file(tmp_path):
    files = {name: case.data for name, case in CASES.items()} | REJECTED
    paths = [tmp_path / f"{name}.png" for name in files]
    for path, data in zip(paths, files.values(), strict=True):
        path.write_bytes(data)
    broken = dfgen.verify(pd.DataFrame({"id": list(files), "path": map(str, paths)}), decode=True)
    no_image_or_deep = {"gray-16-bits", "floats", "npy"}  # sound files, for other arguments
    assert sorted(broken["id"]) == sorted(REJECTED.keys() - no_image_or_deep)
