"""TIFF files of every kind: against tifffile, against Pillow, and as old writers made them."""

import io
import struct
import subprocess
import sys

import numpy as np
import pytest
import tifffile
from cases import each
from PIL import Image

from dfgen.errors import DecodeError
from dfgen.samples.pixels.decoders import decode_image, decode_values

RNG = np.random.default_rng(0)
HEIGHT, WIDTH = 16, 24
DEEP = RNG.integers(0, 65536, (HEIGHT, WIDTH, 4), dtype=np.uint16)


def written(pixels, **options):
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, metadata=None, **options)
    return file.getvalue()


def decode(data, color_mode="rgb", dtype="uint16"):
    return decode_image(data, color_mode, dtype)[0]


LAYOUTS = [
    {}, {"tile": (16, 16)}, {"rowsperstrip": 3}, {"bigtiff": True}, {"byteorder": ">"},
    {"compression": "zlib"}, {"compression": "zlib", "predictor": True, "byteorder": ">"},
]  # fmt: skip


@each("options", LAYOUTS)
@each("channels", [1, 3, 4])
def test_16_bits_of_every_layout(channels, options):
    pixels = DEEP[..., 0] if channels == 1 else DEEP[..., :channels]
    how = {"photometric": "minisblack"} if channels == 1 else {"photometric": "rgb"}
    if channels == 4:
        how["extrasamples"] = ["unassalpha"]
    mode = {1: "grayscale", 3: "rgb", 4: "rgba"}[channels]
    found = decode(written(pixels, **how, **options), mode)
    np.testing.assert_array_equal(found, pixels.reshape(HEIGHT, WIDTH, channels))


def test_unknown_tags_of_16_bit_tiff_print_nothing(capfd):
    tags = [(33550, 12, 3, (1.0, 2.0, 3.0), True), (65000, "s", 0, "hello", True)]
    data = written(DEEP[..., :3], photometric="rgb", extratags=tags)
    np.testing.assert_array_equal(decode(data), DEEP[..., :3])
    assert capfd.readouterr().err == ""


@each("kind", ["uint8", "int8", "int16", "int32", "uint32", "float32"])
@each("byteorder", ["<", ">"])
def test_gray_numbers_are_as_they_are_meant(kind, byteorder):
    low = -100 if kind[0] in "if" else 0
    pixels = RNG.integers(low, 127 if kind.endswith("8") else 30_000, (HEIGHT, WIDTH)).astype(kind)
    pixels[0, 0] = low
    if kind == "float32":
        pixels += np.float32(0.25)
    data = written(pixels, photometric="minisblack", byteorder=byteorder)
    if kind == "uint32" and byteorder == ">":  # which Pillow does not open
        with pytest.raises(DecodeError, match="npy"):
            decode(data, "grayscale", "float32")
        return
    np.testing.assert_array_equal(decode(data, "grayscale", "float32")[..., 0], pixels)
    np.testing.assert_array_equal(decode_values(data)[..., 0], pixels)
    if low < 0:
        with pytest.raises(DecodeError, match="65535"):
            decode(data, "grayscale", "uint16")


def test_numbers_beyond_float32_are_refused():
    data = written(np.array([[2**24 + 1, 1]], np.uint32), photometric="minisblack")
    with pytest.raises(DecodeError, match="float32"):
        decode(data, "grayscale", "float32")


@each(
    ("shape", "dtype", "options"),
    [
        ((HEIGHT, WIDTH, 3), np.float32, {"photometric": "rgb"}),
        ((HEIGHT, WIDTH, 5), np.uint8, {"photometric": "minisblack", "planarconfig": "contig"}),
        ((5, HEIGHT, WIDTH), np.uint8, {"photometric": "minisblack", "planarconfig": "separate"}),
        ((3, HEIGHT, WIDTH), np.uint16, {"photometric": "rgb", "planarconfig": "separate"}),
        ((HEIGHT, WIDTH, 4), np.uint16, {"photometric": "rgb", "extrasamples": ["assocalpha"]}),
    ],
)
def test_samples_that_are_no_image_are_refused(shape, dtype, options):
    with pytest.raises(DecodeError, match="TIFF"):
        decode(written(np.ones(shape, dtype), **options))


def test_a_thumbnail_is_not_taken_for_the_image():
    with pytest.raises(DecodeError, match="thumbnail"):
        decode(written(DEEP[..., 0], photometric="minisblack", subfiletype=1))


# -- as other programs wrote them long ago -------------------------------------------------------

LZW, OLD_JPEG, JPEG, RGB, YCBCR = 5, 6, 7, 2, 6
SUBSAMPLING = struct.pack("<HHIHH", 530, 3, 2, 2, 2)


def halves():
    """Return colours that differ above and below, left and right."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:8], pixels[8:, 16:] = (200, 40, 10), (20, 90, 250)
    return pixels


def old_tiff(strip, compression, photometric, *more):
    """Return a TIFF of one strip, as libtiff 3 laid them out."""
    numbers = {
        256: WIDTH, 257: HEIGHT, 259: compression, 262: photometric, 273: 8, 277: 3, 278: HEIGHT,
        279: len(strip),
    }  # fmt: skip
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in numbers.items()]
    place = 8 + len(strip)
    bits = place + 2 + 12 * (len(entries) + 1 + len(more)) + 4
    entries += [struct.pack("<HHII", 258, 3, 3, bits), *more]
    entries.sort(key=lambda entry: struct.unpack_from("<H", entry))
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    return struct.pack("<2sHI", b"II", 42, place) + strip + directory + struct.pack("<3H", 8, 8, 8)


def old_lzw(data):
    """Pack bytes as 9 bits each, lowest first, with a code to begin anew before the tables grow."""
    codes = [c for at in range(0, len(data), 200) for c in (256, *data[at : at + 200])]
    bits = sum(code << 9 * at for at, code in enumerate([*codes, 257]))
    return bits.to_bytes((9 * len(codes) + 16) // 8, "little")


def jpeg(**options):
    file = io.BytesIO()
    Image.fromarray(halves()).save(file, "JPEG", quality=95, **options)
    return file.getvalue()


def of_old_jpeg():
    data = jpeg(subsampling="4:2:0")
    place, length = (
        struct.pack("<HHII", tag, 4, 1, value) for tag, value in [(513, 8), (514, len(data))]
    )
    return old_tiff(data, OLD_JPEG, YCBCR, place, length, SUBSAMPLING)


OLD = {
    "LZW": lambda: old_tiff(old_lzw(halves().tobytes()), LZW, RGB),
    "JPEG of TIFF 6.0": of_old_jpeg,
    "progressive JPEG": lambda: old_tiff(
        jpeg(subsampling="4:2:0", progressive=True), JPEG, YCBCR, SUBSAMPLING
    ),
    "no subsampling told": lambda: old_tiff(jpeg(subsampling="4:4:4"), JPEG, YCBCR),
}


@pytest.mark.parametrize("name", OLD)
def test_old_style_tiff_matches_pillow_pixels(name):
    seen = np.asarray(Image.open(io.BytesIO(OLD[name]())).convert("RGB"))
    assert abs(seen[:, :12].astype(int) - halves()[:, :12]).max() < 100
    np.testing.assert_array_equal(decode(OLD[name](), dtype="uint8"), seen)


def test_lzw_that_is_damaged_is_refused():
    with pytest.raises(DecodeError, match="broken tiff"):
        decode(old_tiff(old_lzw(halves().tobytes())[:300], LZW, RGB))


IMPORTS = """
import io, sys, warnings
import numpy, pandas, pyarrow, PIL.Image, PIL.ImageFile, PIL.TiffImagePlugin, cv2
def state():
    return (list(warnings.filters), PIL.Image.MAX_IMAGE_PIXELS, PIL.ImageFile.LOAD_TRUNCATED_IMAGES,
            PIL.TiffImagePlugin.READ_LIBTIFF, dict(vars(PIL.TiffImagePlugin.TiffImageFile)))
before = state()
import dfgen
from dfgen.samples.pixels.decoders import decode_image
dfgen.Image(size=(8, 8))
file = io.BytesIO()
PIL.Image.new("L", (8, 8)).save(file, "TIFF", compression="tiff_lzw")
decode_image(file.getvalue())
assert state() == before, "the process was changed"
"""


def test_importing_and_decoding_change_nothing_in_the_process():
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
