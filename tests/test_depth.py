"""Pixels of more than 8 bits: kept, divided or refused, never cut in silence."""

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.image import Image

RNG = np.random.default_rng(0)
SHAPE = (6, 9)
DEEP = RNG.integers(0, 65536, (*SHAPE, 3), dtype=np.uint16)
DEEP[0, 0], DEEP[0, 1] = 65535, 0
SHALLOW = RNG.integers(0, 256, (*SHAPE, 3), dtype=np.uint8)
METRES = RNG.normal(0, 1000, SHAPE).astype(np.float32)


def written(folder, pixels, name):
    """Write pixels, RGB or gray, by the usual writer of such a file; return its row."""
    path = str(folder / name)
    if name.endswith("tiff"):
        tifffile.imwrite(path, pixels)
    elif name.endswith("tif"):
        Pillow.fromarray(pixels).save(path)
    else:
        assert cv2.imwrite(path, pixels if pixels.ndim == 2 else pixels[..., ::-1])
    return {"path": path}


def read(row, **options):
    return Image(**{"size": SHAPE, **options})(row)


@pytest.mark.parametrize("name", ["a.png", "a.tiff"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dtype": "uint8"}, np.rint(DEEP / 257)),
        ({"dtype": "uint16"}, DEEP),
        ({"dtype": "float32"}, DEEP),
        ({"dtype": "float32", "scale": "0..1"}, DEEP / 65535),
        ({"dtype": "float32", "scale": "-1..1"}, DEEP / 32767.5 - 1),
        ({"dtype": "float32", "scale": (0.001, 2)}, DEEP / 1000 + 2),
        ({"dtype": "float32", "scale": "standardize"}, (DEEP - DEEP.mean()) / DEEP.std()),
        ({"dtype": "float16", "scale": "0..1"}, (DEEP / 65535).astype(np.float16)),
    ],
)
def test_16_bits_in_every_dtype(tmp_path, name, options, expected):
    found = read(written(tmp_path, DEEP, name), **options)
    assert found.dtype == options["dtype"]
    tolerance = 1e-3 if options["dtype"] == "float16" else 1e-6
    np.testing.assert_allclose(found.astype(float), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["uint16", "float32", "float16"])
def test_8_bits_keep_their_numbers_in_every_dtype(tmp_path, dtype):
    found = read(written(tmp_path, SHALLOW, "a.png"), dtype=dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, SHALLOW)


@pytest.mark.parametrize(("scale", "ends"), [("0..1", [1, 0]), ("-1..1", [1, -1])])
def test_a_scale_reaches_its_ends_from_16_bits(tmp_path, scale, ends):
    found = read(written(tmp_path, DEEP, "a.png"), scale=scale, dtype="float32")
    assert found[0, :2, 0].tolist() == ends


KEEP = 'dfgen.Image(dtype="float32") keeps the numbers'
WAYS = (
    'give dfgen.Image a dtype: "uint16" or "float32" keep the numbers (of "float32", scale="0..1" '
    'divides them by 65535), "uint8" divides them by 257 and rounds'
)
TINY = np.array([[-0.5, 2.0]], np.float32)


@pytest.mark.parametrize(
    ("pixels", "options", "message"),
    [
        (DEEP, {}, f"the image has 16 bits a channel, not 8: {WAYS}"),
        (DEEP, {"scale": "0..1"}, f"the image has 16 bits a channel, not 8: {WAYS}"),
        (TINY, {}, f"the image has 32 bits a channel, not 8: {KEEP}"),
        (TINY, {"dtype": "uint8"}, f"the image has 32 bits a channel, not 8: {KEEP}"),
        (TINY, {"dtype": "uint16"}, "the pixels are float32, and hold -0.5 to 2, not whole numbers "
         f"from 0 to 65535: {KEEP}"),
        (np.array([[70_000]], np.float32), {"dtype": "uint16"},
         f"the pixels are float32, and hold 70000 to 70000, not whole numbers from 0 to 65535: "
         f"{KEEP}"),
        (TINY, {"dtype": "float32", "scale": "0..1"}, "the pixels are float32, and hold -0.5 to 2, "
         "whose full range scale='0..1' does not know: give a pair scale=(factor, offset), or "
         "scale=None"),
        (DEEP, {"dtype": "float16"}, "the pixels are uint16, and hold 0 to 65535, more than "
         'float16 can hold: give dtype="float32"'),
    ],
)  # fmt: skip
def test_what_a_dtype_does_not_hold_is_refused(tmp_path, pixels, options, message):
    row = written(tmp_path, pixels, "a.tiff")
    with pytest.raises(DecodeError) as error:
        read(row, **options)
    assert str(error.value) == f"path={row['path']!r}: {message}"


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_whole_numbers_hold_no_fractions(dtype):
    with pytest.raises(ArgumentError) as error:
        Image(scale="0..1", dtype=dtype)
    assert str(error.value) == (
        f"scale='0..1' gives fractions, which dtype={dtype!r} cannot hold: leave one of them out, "
        'or give dtype="float32"'
    )


@pytest.mark.parametrize("name", ["a.tif", "a.tiff"])
def test_a_float_tiff_is_as_it_is(tmp_path, name):
    row = written(tmp_path, METRES, name)
    found = read(row, dtype="float32", color_mode="grayscale")
    np.testing.assert_array_equal(found[..., 0], METRES)
    standard = read(row, dtype="float32", color_mode="grayscale", scale="standardize")
    assert abs(standard.mean()) < 1e-5 and abs(standard.std() - 1) < 1e-5
