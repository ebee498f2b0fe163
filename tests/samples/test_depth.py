"""Pixels of more than 8 bits: kept, divided or refused, never cut in silence."""

import cv2
import numpy as np
import pytest
import tifffile
from cases import each
from messages import message_of
from odd_images import exif
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


@each("name", ["a.png", "a.tiff"])
@each(
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
        (TINY, {}, f"the image has 32 bits a channel, not 8: {KEEP}"),
        (TINY, {"dtype": "uint8"}, f"the image has 32 bits a channel, not 8: {KEEP}"),
        (TINY, {"dtype": "uint16"}, "the pixels are float32, and hold -0.5 to 2, not whole numbers "
         f"from 0 to 65535: {KEEP}"),
        (TINY, {"dtype": "float32", "scale": "0..1"}, "the pixels are float32, and hold -0.5 to 2, "
         "whose full range scale='0..1' does not know: give a pair scale=(factor, offset), or "
         "scale=None"),
        (DEEP, {"dtype": "float16"}, "the pixels are uint16, and hold 0 to 65535, more than "
         'float16 can hold: give dtype="float32"'),
    ],
)  # fmt: skip
def test_what_a_dtype_does_not_hold_is_refused(tmp_path, pixels, options, message):
    row = written(tmp_path, pixels, "a.tiff")
    assert message_of(DecodeError, read, row, **options) == f"path={row['path']!r}: {message}"


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_whole_numbers_hold_no_fractions(dtype):
    assert message_of(ArgumentError, Image, scale="0..1", dtype=dtype) == (
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


# -- colours -------------------------------------------------------------------------------------

ALPHA = np.dstack([DEEP, RNG.integers(0, 65536, SHAPE, dtype=np.uint16)])
GRAY_OF_RGB = DEEP @ [0.299, 0.587, 0.114]


@each("dtype", ["uint16", "float32"])
@each("name", ["a.png", "a.tiff"])
@each(
    ("pixels", "color_mode", "expected"),
    [
        (DEEP, "rgb", DEEP),
        (DEEP, "rgba", np.dstack([DEEP, np.full(SHAPE, 65535)])),
        (DEEP, "grayscale", GRAY_OF_RGB[..., None]),
        (DEEP[..., 0], "grayscale", DEEP[..., :1]),
        (DEEP[..., 0], "rgb", np.dstack([DEEP[..., 0]] * 3)),
        (DEEP[..., 0], "rgba", np.dstack([*[DEEP[..., 0]] * 3, np.full(SHAPE, 65535)])),
        (ALPHA, "rgb", DEEP),
        (ALPHA, "rgba", ALPHA),
        (ALPHA, "grayscale", GRAY_OF_RGB[..., None]),
    ],
)
def test_color_modes_of_16_bits(tmp_path, name, pixels, color_mode, expected, dtype):
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        pixels = pixels if name.endswith("tiff") else pixels[..., [2, 1, 0, 3]]
        path = str(tmp_path / name)
        if name.endswith("tiff"):
            tifffile.imwrite(path, pixels, photometric="rgb", extrasamples=["unassalpha"])
        else:
            cv2.imwrite(path, pixels)
        row = {"path": path}
    else:
        row = written(tmp_path, pixels, name)
    found = read(row, dtype=dtype, color_mode=color_mode)
    np.testing.assert_allclose(found.astype(float), expected, atol=2)


@pytest.mark.parametrize("color_mode", ["rgb", "rgba"])
def test_a_gray_float_file_in_colours(tmp_path, color_mode):
    row = written(tmp_path, METRES, "a.tiff")
    found = read(row, dtype="float32", color_mode=color_mode)
    np.testing.assert_array_equal(found[..., :3], np.dstack([METRES] * 3))


# -- whole numbers of other kinds ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int16", "int32", "uint32"])
def test_other_whole_numbers_are_as_they_are(tmp_path, kind):
    stored = RNG.integers(0, 30_000, SHAPE).astype(kind)
    row = written(tmp_path, stored, "a.tiff")
    for dtype in ("uint16", "float32"):
        found = read(row, dtype=dtype, color_mode="grayscale")
        np.testing.assert_array_equal(found[..., 0], stored)


@pytest.mark.parametrize(
    ("stored", "dtype", "message"),
    [
        (np.array([[-5, 7]], np.int16), "uint16", "the pixels are float32, and hold -5 to 7, not "
         f"whole numbers from 0 to 65535: {KEEP}"),
        (np.array([[2**24 + 1, 1]], np.uint32), "float32", "the pixels are uint32, and hold 1 to "
         "1.67772e+07, more than float32 can hold: save them as float32"),
    ],
)  # fmt: skip
def test_whole_numbers_that_cannot_be_held_are_refused(tmp_path, stored, dtype, message):
    row = written(tmp_path, stored, "a.tiff")
    with pytest.raises(DecodeError) as error:
        Image(size=stored.shape, dtype=dtype, color_mode="grayscale")(row)
    assert str(error.value) == f"path={row['path']!r}: {message}"


def test_what_is_no_number_stays_so(tmp_path):
    """Depth maps mark with NaN what was not measured."""
    pixels = METRES.copy()
    pixels[2, 3], pixels[3, 3] = np.nan, np.inf
    row = written(tmp_path, pixels, "a.tiff")
    for dtype in ("float32", "float16"):
        found = read(row, dtype=dtype, color_mode="grayscale")[..., 0]
        assert np.isnan(found[2, 3]) and np.isinf(found[3, 3])
    with pytest.raises(DecodeError, match="are float32, and hold no finite number, whose full"):
        read(written(tmp_path, pixels * np.nan, "b.tiff"), dtype="float32", scale="0..1")


# -- geometry ------------------------------------------------------------------------------------


@each("interpolation", ["bilinear", "nearest", "area"])
@each("resize", ["stretch", "crop", "pad", "crop_or_pad"])
@each("size", [(3, 4), (11, 17), (6, 9)])
def test_geometry_does_to_deep_pixels_what_it_does_to_others(tmp_path, interpolation, resize, size):
    """The same pixels times 257, or as floats, land at the same places."""
    shallow = written(tmp_path, SHALLOW, "a.png")
    deep = written(tmp_path, SHALLOW.astype(np.uint16) * 257, "b.png")
    real = written(tmp_path, SHALLOW[..., 0].astype(np.float32), "c.tiff")
    options = {"size": size, "resize": resize, "interpolation": interpolation}
    expected = read(shallow, **options).astype(float)
    np.testing.assert_allclose(read(deep, dtype="uint16", **options) / 257, expected, atol=1)
    np.testing.assert_allclose(read(real, dtype="float32", **options)[..., 0], expected[..., 0],
                               atol=1)  # fmt: skip


def test_the_means_of_many_pixels_keep_more_than_8_bits(tmp_path):
    pixels = np.tile(np.array([[1000, 1001], [1002, 1003]], np.uint16), (8, 8))
    row = written(tmp_path, pixels, "a.png")
    found = Image(size=(2, 2), dtype="float32", color_mode="grayscale", interpolation="area")(row)
    assert np.abs(found - 1001.5).max() <= 0.5


def test_a_jpeg_is_decoded_smaller_in_any_dtype(tmp_path):
    y, x = np.mgrid[:300, :400]
    path = tmp_path / "a.jpg"
    cv2.imwrite(str(path), np.dstack([y / 2, x / 2, y / 4]).astype(np.uint8))
    expected = Image(size=(30, 40))({"path": path})
    for dtype in ("uint16", "float32"):
        found = Image(size=(30, 40), dtype=dtype)({"path": path})
        np.testing.assert_allclose(found, expected, atol=1)  # OpenCV rounds 16 bits in its own way


@pytest.mark.parametrize("orientation", range(1, 9))
def test_deep_pixels_are_turned(tmp_path, orientation):
    Pillow.fromarray(DEEP[..., 0]).save(tmp_path / "a.png", exif=exif(orientation))
    Pillow.fromarray((DEEP[..., 0] // 257).astype(np.uint8)).save(
        tmp_path / "b.png", exif=exif(orientation)
    )
    options = {"size": (9, 9), "resize": "crop_or_pad", "color_mode": "grayscale"}
    deep = Image(dtype="uint16", **options)({"path": tmp_path / "a.png"})
    np.testing.assert_array_equal(deep // 257, Image(**options)({"path": tmp_path / "b.png"}))
