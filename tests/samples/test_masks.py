"""Mask: every kind of file to classes, palettes, and what is refused."""

import io

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from messages import message_of
from PIL import Image as Pillow
from public.corpus import exif

from dfgen.errors import ArgumentError, DecodeError, MissingFileError
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask

CLASSES = np.random.default_rng(0).integers(0, 4, (6, 9), dtype=np.uint8)
COLOURS = {(0, 0, 0): 0, (128, 0, 0): 1, (0, 128, 0): 2, (255, 255, 255): 3}
IMAGE = Image(size=(6, 9))


@pytest.fixture
def row(tmp_path):
    Pillow.fromarray(np.zeros((6, 9, 3), np.uint8)).save(tmp_path / "image.png")
    return {"path": f"{tmp_path}/image.png", "mask": f"{tmp_path}/mask.png"}


def indexed(classes):
    image = Pillow.fromarray(classes).convert("P")
    image.putdata(classes.ravel().tolist())
    image.putpalette(np.array(list(COLOURS), np.uint8).ravel().tolist())
    return image


def colours(classes):
    return Pillow.fromarray(np.array(list(COLOURS), np.uint8)[classes])


def read(row, image, mask=None, **options):
    image.save(row["mask"], **{"format": "PNG", **options})
    return (mask or Mask("mask", like=IMAGE))(row)


def test_of_some_rows_the_files_are_told_or_that_they_have_none():
    found = Mask("mask").truth(pa.array(["a", "b", "a", "c"]), slice(1, 4), np.array([0, 1, 0]) > 0)
    assert found.to_pylist() == ["b", None, "c"]


def png(bits, classes):
    """Return a gray PNG of fewer than 8 bits, which no encoder here writes."""
    import struct
    import zlib

    width = classes.shape[1]
    rows = b""
    for line in classes:
        text = "".join(f"{value:0{bits}b}" for value in line).ljust(-(-width * bits // 8) * 8, "0")
        rows += b"\0" + int(text, 2).to_bytes(len(text) // 8, "big")
    header = struct.pack(">IIBBBBB", width, len(classes), bits, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


@pytest.mark.parametrize("make", [dict, pd.Series])
def test_gray_levels_are_classes(row, make):
    Pillow.fromarray(CLASSES).save(row["mask"])
    found = Mask("mask", like=IMAGE)(make(row))
    assert (found.shape, found.dtype) == ((6, 9, 1), np.uint8)
    np.testing.assert_array_equal(found[..., 0], CLASSES)


@pytest.mark.parametrize("format", ["PNG", "GIF", "TIFF", "BMP"])
def test_indices_of_colours_are_classes(row, format):
    np.testing.assert_array_equal(read(row, indexed(CLASSES), format=format)[..., 0], CLASSES)


@pytest.mark.parametrize("format", ["TIFF", "BMP", "PPM"])
def test_gray_levels_of_other_formats(row, format):
    found = read(row, Pillow.fromarray(CLASSES), format=format)
    np.testing.assert_array_equal(found[..., 0], CLASSES)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_few_bits_are_classes_too(row, bits):
    classes = CLASSES % 2**bits
    with open(row["mask"], "wb") as file:
        file.write(png(bits, classes))
    np.testing.assert_array_equal(Mask("mask", like=IMAGE)(row)[..., 0], classes)


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_one_bit_is_two_classes(row, format):
    found = read(row, Pillow.fromarray(CLASSES > 1), format=format)
    np.testing.assert_array_equal(found[..., 0], CLASSES > 1)


def test_16_bits_are_classes_and_need_int32(row):
    cv2.imwrite(row["mask"], CLASSES.astype(np.uint16) * 1000)
    found = Mask("mask", like=IMAGE, dtype="int32")(row)
    np.testing.assert_array_equal(found[..., 0], CLASSES.astype(np.int32) * 1000)
    assert message_of(DecodeError, Mask("mask", like=IMAGE), row) == (
        f"mask={row['mask']!r}: the mask holds the classes 0 to 3000, more than uint8 can hold: "
        "write dfgen.Mask('mask', dtype=\"int32\")"
    )
    cv2.imwrite(row["mask"], CLASSES.astype(np.uint16) * 85)
    assert Mask("mask", like=IMAGE)(row).max() == 255


NUMBERS = {
    "8 bits": (CLASSES, "PNG"),
    "16 bits": (CLASSES.astype(np.uint16) * 21_845, "PNG"),
    "16 bits of TIFF": (CLASSES.astype(np.uint16) * 21_845, "TIFF"),
    "floats": (CLASSES.astype(np.float32) / 7 - 1e6, "TIFF"),
    "nothing": (np.where(CLASSES, np.float32(0.1), np.float32(np.nan)), "TIFF"),
}


@pytest.mark.parametrize(("numbers", "format"), NUMBERS.values(), ids=NUMBERS)
def test_float32_keeps_the_numbers_of_a_file_as_they_are(row, numbers, format):
    mask = Mask("mask", like=IMAGE, dtype="float32")
    found = read(row, Pillow.fromarray(numbers), mask, format=format)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[..., 0], numbers)
    flipped = Mask("mask", like=Image(size=(12, 6), resize="pad"), dtype="float32", fill_value=-0.5)
    found = read(row, Pillow.fromarray(numbers), flipped, format=format)[..., 0]
    assert (found[:4] == -0.5).all() and (found[8:] == -0.5).all()
    assert np.isin(found[4:8], numbers).all() or np.isnan(found[4:8]).any()


@pytest.mark.parametrize("palette", [None, {0: 0, 1: 1}])
def test_floats_are_no_classes(row, palette):
    with pytest.raises(DecodeError) as error:
        mask = Mask("mask", like=IMAGE, palette=palette)
        read(row, Pillow.fromarray(CLASSES.astype(np.float32)), mask, format="TIFF")
    assert str(error.value) == (
        f"mask={row['mask']!r}: the mask holds float32 numbers, which are no classes: write "
        "dfgen.Mask('mask', dtype=\"float32\")"
    )


@pytest.mark.parametrize("image", [colours, indexed])
def test_a_palette_of_colours(row, image):
    found = read(row, image(CLASSES), Mask("mask", like=IMAGE, palette=COLOURS))
    np.testing.assert_array_equal(found[..., 0], CLASSES)


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_a_palette_of_gray_levels(row, dtype):
    mask = Mask("mask", like=IMAGE, palette={0: 2, 255: 5}, dtype=dtype)
    found = read(row, Pillow.fromarray(np.uint8(CLASSES > 1) * np.uint8(255)), mask)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found[..., 0], np.where(CLASSES > 1, 5, 2))


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
@pytest.mark.parametrize(
    ("image", "palette"),
    [
        (Pillow.fromarray, None),
        (Pillow.fromarray, {0: 0, 1: 1, 2: 2, 3: 3}),
        (indexed, None),
        (colours, COLOURS),
    ],
    ids=["gray", "gray palette", "indexed", "colours"],
)
def test_a_mask_is_turned_by_the_orientation_of_its_own_file(row, image, palette, format):
    lying = image(CLASSES).transpose(Pillow.Transpose.ROTATE_90)
    found = read(row, lying, Mask("mask", IMAGE, palette=palette), format=format, exif=exif(6))
    np.testing.assert_array_equal(found[..., 0], CLASSES)


@pytest.mark.parametrize("size", [(4, 5), (13, 30)])
def test_every_kind_is_resized_alike(row, size):
    image = Image(size=size, resize="crop", flip="horizontal", crop="random")
    found = [
        read(row, file, mask)
        for file, mask in [
            (Pillow.fromarray(CLASSES), Mask("mask", image)),
            (Pillow.fromarray(CLASSES), Mask("mask", image, dtype="int32")),
            (Pillow.fromarray(CLASSES.astype(np.uint16)), Mask("mask", image, dtype="int32")),
            (colours(CLASSES), Mask("mask", image, palette=COLOURS)),
            (Pillow.fromarray(CLASSES), Mask("mask", image, palette={n: n for n in range(4)})),
        ]
    ]
    for one in found:
        np.testing.assert_array_equal(one, found[0])


def test_what_lies_outside_is_the_fill_value_with_a_palette_too(row):
    image = Image(size=(18, 9), resize="pad")
    found = read(row, colours(CLASSES), Mask("mask", image, palette=COLOURS, fill_value=255))
    assert (found[:6] == 255).all() and (found[12:] == 255).all()
    np.testing.assert_array_equal(found[6:12, :, 0], CLASSES)


def test_an_unlabelled_colour_is_named_with_its_place(row):
    mask = Mask("mask", like=IMAGE, palette=COLOURS)
    image = colours(CLASSES)
    image.putpixel((7, 4), (1, 2, 3))
    assert message_of(DecodeError, read, row, image, mask) == (
        f"mask={row['mask']!r}: the mask has the colour (1, 2, 3) at row 4, column 7 of its "
        "pixels, which is no class. The palette: (0, 0, 0), (128, 0, 0), (0, 128, 0), "
        "(255, 255, 255)"
    )
    with pytest.raises(DecodeError) as error:
        read(row, Pillow.fromarray(CLASSES), Mask("mask", IMAGE, palette={0: 0, 1: 1, 2: 2}))
    y, x = np.argwhere(CLASSES == 3)[0]
    assert str(error.value) == (
        f"mask={row['mask']!r}: the mask has the value 3 at row {y}, column {x} of its "
        "pixels, which is no class. The palette: 0, 1, 2"
    )


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((6, 8), "the mask has 6 x 8 pixels (height x width), its image 6 x 9"),
        ((9, 6), "the mask has 9 x 6 pixels (height x width), its image 6 x 9: it lies as its "
         "image does before EXIF orientation turns that"),
    ],
)  # fmt: skip
def test_a_mask_of_another_size(row, shape, message):
    with pytest.raises(DecodeError) as error:
        read(row, Pillow.fromarray(np.zeros(shape, np.uint8)))
    assert str(error.value) == f"mask={row['mask']!r}: {message}"


def test_files_that_hold_no_classes(row):
    for image, options, message in [
        (colours(CLASSES), {}, "the mask is in colours (RGB), whose classes are not known: give "
         "palette={(red, green, blue): class, ...}, or save it in gray levels"),
        (Pillow.fromarray(CLASSES), {"format": "JPEG"}, "the mask is a JPEG, which does not keep "
         "the values of pixels: save masks as PNG"),
    ]:  # fmt: skip
        with pytest.raises(DecodeError) as error:
            read(row, image, **options)
        assert str(error.value) == f"mask={row['mask']!r}: {message}"
    file = io.BytesIO()
    Pillow.fromarray(np.random.default_rng(0).integers(0, 9, (99, 99), np.uint8)).save(file, "PNG")
    with open(row["mask"], "wb") as broken:
        broken.write(file.getvalue()[:700])
    with pytest.raises(DecodeError, match="cut short"):
        Mask("mask", like=IMAGE)(row)
    for palette in (None, {0: 0}):
        np.save(f"{row['mask']}.npy", CLASSES)
        with pytest.raises(DecodeError, match="npy array, not an image"):
            Mask("mask", like=IMAGE, palette=palette)({**row, "mask": f"{row['mask']}.npy"})
    with pytest.raises(MissingFileError, match="the file does not exist"):
        Mask("mask", like=IMAGE)({**row, "mask": "gone.png"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "int64"}, "dtype must be one of ('uint8', 'int32', 'float32'), got 'int64'. "
         "Did you mean \"uint8\"?"),
        ({"fill_value": 256}, "fill_value must be a class from 0 to 255 (uint8), got 256"),
        ({"fill_value": 0.5}, "fill_value must be a class from 0 to 255 (uint8), got 0.5"),
        ({"dtype": "float32", "fill_value": "0"}, "fill_value must be a number, got '0'"),
        ({"dtype": "float32", "palette": {0: 1}},
         "palette= gives classes, which are whole numbers: leave it out with "
         'dtype="float32", or leave out the dtype'),
        ({"palette": {(0, 0, 0): 300}}, "palette must be a class from 0 to 255 (uint8), got 300"),
        ({"palette": {"red": 1}},
         "palette must be {(red, green, blue): class, ...} with 0 to 255 each, or {gray level: "
         "class, ...}, got {'red': 1}"),
        ({"palette": {0: 0, (0, 0, 0): 1}},
         "palette must be {(red, green, blue): class, ...} with 0 to 255 each, or {gray level: "
         "class, ...}, got {0: 0, (0, 0, 0): 1}"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    assert message_of(ArgumentError, Mask, "mask", **arguments) == message


def test_by_itself_it_does_not_know_its_image(row):
    assert message_of(ArgumentError, Mask("mask"), row) == (
        "Mask('mask') by itself does not know its image: write like=dfgen.Image(...)"
    )


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64"])
def test_rows_of_array_files_hold_whole_numbers_of_any_type_as_far_as_they_are_classes(row, dtype):
    mask = Mask("mask", like=IMAGE, index="number")
    at = {**row, "mask": f"{row['mask']}.npy", "number": 1}
    np.save(at["mask"], np.stack([CLASSES * 0, CLASSES]).astype(dtype))
    np.testing.assert_array_equal(mask(at)[..., 0], CLASSES.astype(dtype))
    if dtype == "int64":
        np.save(at["mask"], np.stack([CLASSES * 0, CLASSES]) + np.int64(2**32))
        with pytest.raises(DecodeError):
            mask(at)
    coloured = Mask("mask", like=IMAGE, index="number", palette=COLOURS)
    assert message_of(DecodeError, coloured, at).endswith(
        "the mask has 1 channels, expected 3, the colours of the palette"
    )


def test_the_brightest_gray_level_of_a_palette_is_a_class(row):
    mask = Mask("mask", like=IMAGE, palette={252 + n: n for n in range(4)})
    found = read(row, Pillow.fromarray(CLASSES + np.uint8(252)), mask)
    np.testing.assert_array_equal(found[..., 0], CLASSES)
