"""Pixels of files against Pillow, or against the array that was encoded, and damaged files."""

import io
import os
import struct
import subprocess
import sys
import zlib

import cv2
import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from public.corpus import chunk, exif

from dfgen.errors import DecodeError
from dfgen.limits import Limits
from dfgen.samples.pixels.decoders import decode_image, decode_stored, decode_values, prepare_worker
from dfgen.samples.pixels.formats import parse_header, sniff
from dfgen.samples.pixels.geometry import CHANNELS

Y, X = np.mgrid[0:23, 0:37]
SMOOTH = np.stack([Y * 8 + 20, X * 5 + 20, Y * 3 + X * 3 + 10], -1).astype(np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, (23, 37, 4), dtype=np.uint8)
DEEP = np.random.default_rng(1).integers(0, 65536, (23, 37, 4), dtype=np.uint16)
RGB, GRAY = NOISE[..., :3], NOISE[..., 0]
PALETTE = Image.fromarray(RGB).quantize(32)


def encoded(pixels, format, mode=None, **options):
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, format, **options)
    return file.getvalue()


def by_opencv(pixels, suffix):
    swapped = pixels if pixels.ndim == 2 else pixels[..., [2, 1, 0, 3][: pixels.shape[2]]]
    return cv2.imencode(suffix, swapped)[1].tobytes()


def without_adobe_marker(jpeg):
    at = jpeg.index(b"\xff\xee")
    return jpeg[:at] + jpeg[at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big") :]


def decode(data, color_mode="rgb", **options):
    return decode_image(data, color_mode, **options)[0]


CMYK = encoded(SMOOTH, "JPEG", "CMYK", quality=100)
ALPHAS = bytes(range(0, 256, 8))
FILES = {  # name -> bytes
    "jpeg": encoded(SMOOTH, "JPEG", quality=95),
    "jpeg-progressive": encoded(SMOOTH, "JPEG", quality=95, progressive=True),
    "jpeg-gray": encoded(SMOOTH[..., 0], "JPEG", quality=95),
    "jpeg-cmyk": CMYK, "jpeg-cmyk-unmarked": without_adobe_marker(CMYK),
    "png-1-bit": encoded(GRAY, "PNG", "1"), "png-gray-alpha": encoded(NOISE, "PNG", "LA"),
    "png-gray-clear": encoded(GRAY, "PNG", transparency=5), "png-rgb": encoded(RGB, "PNG"),
    "png-rgb-clear": encoded(RGB, "PNG", transparency=(1, 2, 3)),
    "png-palette": encoded(PALETTE, "PNG"),
    "png-palette-alpha": encoded(PALETTE, "PNG", transparency=ALPHAS),
    "png-rgba": encoded(NOISE, "PNG"), "webp": encoded(SMOOTH, "WEBP", quality=95),
    "webp-lossless": encoded(RGB, "WEBP", lossless=True),
    "webp-alpha": encoded(NOISE, "WEBP", lossless=True, exact=True),
    "bmp-1-bit": encoded(GRAY, "BMP", "1"), "bmp-palette": encoded(PALETTE, "BMP"),
    "tiff-lzw": encoded(RGB, "TIFF", compression="tiff_lzw"),
    "tiff-1-bit": encoded(GRAY, "TIFF", "1"), "tiff-palette": encoded(PALETTE, "TIFF"),
    "tiff-gray-alpha": encoded(NOISE, "TIFF", "LA"),
    "tiff-cmyk": encoded(SMOOTH, "TIFF", "CMYK"), "ppm": encoded(RGB, "PPM"),
    "pbm": encoded(GRAY, "PPM", "1"), "ppm-plain": b"P3\n1 2\n255\n1 2 3\n4 5 6\n",
    "pgm-of-100-levels": b"P5\n# a comment\n3 2\n100\n" + bytes([0, 20, 40, 60, 80, 100]),
    "ppm-of-100-levels": b"P6 2 1 100\n" + bytes([0, 20, 40, 60, 80, 100]),
    "gif-transparent": encoded(PALETTE, "GIF", transparency=3),
    "gif-animated": encoded(PALETTE, "GIF", save_all=True, append_images=[PALETTE.rotate(90)]),
    "ico": encoded(NOISE, "ICO", sizes=[(37, 23)]), "tga": encoded(RGB, "TGA"),
}  # fmt: skip


def reference(data, color_mode="rgb"):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    pixels = np.array(image.convert({"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}[color_mode]))
    return pixels.reshape(*pixels.shape[:2], CHANNELS[color_mode])


@each("color_mode", CHANNELS)
@each("name", FILES)
def test_pixels_are_those_of_pillow(name, color_mode):
    pixels, expected = decode(FILES[name], color_mode), reference(FILES[name], color_mode)
    assert (pixels.dtype, pixels.shape) == (np.uint8, expected.shape)
    # the two round CMYK differently, and gray values halfway
    allowed = 2 if "cmyk" in name else int(color_mode == "grayscale")
    np.testing.assert_allclose(pixels.astype(int), expected, atol=allowed)


DEEP_FILES = {
    "png-gray": (by_opencv(DEEP[..., 0], ".png"), DEEP[..., :1]),
    "png-rgb": (by_opencv(DEEP[..., :3], ".png"), DEEP[..., :3]),
    "png-rgba": (by_opencv(DEEP, ".png"), DEEP),
    "tiff-gray": (by_opencv(DEEP[..., 0], ".tiff"), DEEP[..., :1]),
    "tiff-rgb": (by_opencv(DEEP[..., :3], ".tiff"), DEEP[..., :3]),
    "pgm": (b"P5\n37 23\n65535\n" + DEEP[..., 0].astype(">u2").tobytes(), DEEP[..., :1]),
    "ppm": (b"P6\n37 23\n65535\n" + DEEP[..., :3].astype(">u2").tobytes(), DEEP[..., :3]),
}


@each("name", DEEP_FILES)
def test_16_bits_are_kept_or_divided_by_257(name):
    data, stored = DEEP_FILES[name]
    mode = {1: "grayscale", 3: "rgb", 4: "rgba"}[stored.shape[2]]
    np.testing.assert_array_equal(decode(data, mode, dtype="uint16"), stored)
    expected = np.rint(stored / 257).astype(np.uint8)
    np.testing.assert_array_equal(decode(data, mode), expected)
    np.testing.assert_array_equal(decode(data), np.broadcast_to(expected[..., :3], (23, 37, 3)))
    with pytest.raises(DecodeError, match="16 bits"):
        decode(data, dtype=None)


def test_deep_ppm_with_few_levels_has_8_bits():
    data = b"P6 1 1 1000\n" + np.array([0, 500, 1000], ">u2").tobytes()
    assert decode(data).tolist() == [[[0, 128, 255]]]
    with pytest.raises(DecodeError, match="16 bits"):
        decode(data, dtype="uint16")


@pytest.mark.parametrize("bpc", [1, 2])
def test_bits_that_a_decoder_cuts_off_are_told(bpc):
    data = encoded(RGB, "SGI", bpc=bpc)
    np.testing.assert_array_equal(decode(data), RGB)
    if bpc == 2:
        with pytest.raises(DecodeError, match="16 bits"):
            decode(data, dtype="float32")


@each("orientation", range(1, 9))
@each(
    ("format", "options"),
    [("JPEG", {}), ("PNG", {}), ("WEBP", {"lossless": True}), ("TIFF", {}),
     ("TIFF", {"compression": "tiff_lzw"})],
)  # fmt: skip
@each("mode", ["RGB", "L"])
def test_exif_turns_an_image_and_its_mask(format, options, mode, orientation):
    image = Image.fromarray(SMOOTH).convert(mode)
    data = encoded(image, format, exif=exif(orientation), **options)
    np.testing.assert_array_equal(decode(data), reference(data))
    if mode == "L" and format in ("PNG", "TIFF"):
        np.testing.assert_array_equal(decode_values(data), reference(data, "grayscale"))
    header, stored, _ = decode_stored(data, "rgb")
    assert (header.orientation, stored.shape[:2]) == (orientation, (23, 37))


def test_a_damaged_exif_block_leaves_the_pixels():
    broken = encoded(SMOOTH, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\x00\x12\x01")
    np.testing.assert_array_equal(decode(broken), decode(encoded(SMOOTH, "JPEG")))


@each("reduced", [1, 2, 4, 8])
@each("color_mode", CHANNELS)
@each("name", [name for name in FILES if name.startswith("jpeg")])
def test_a_jpeg_decoded_smaller(name, color_mode, reduced):
    """It shows the same: on a smooth picture, the means over blocks of pixels."""
    data = FILES[name]
    pixels, size, fewer = decode_image(data, color_mode, reduction=lambda size: reduced)
    assert pixels.shape == (-(-23 // reduced), -(-37 // reduced), CHANNELS[color_mode])
    assert (size, fewer) == ((23, 37), reduced)
    rows, columns = 23 // reduced, 37 // reduced
    whole = decode(data, color_mode)[: rows * reduced, : columns * reduced].astype(float)
    means = whole.reshape(rows, reduced, columns, reduced, -1).mean((1, 3))
    np.testing.assert_allclose(pixels[:rows, :columns], means, atol=6)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_decoded_smaller_is_turned(orientation):
    data, sizes = encoded(SMOOTH, "JPEG", exif=exif(orientation)), []
    pixels, size, fewer = decode_image(data, reduction=lambda size: sizes.append(size) or 2)
    whole = decode(data)
    assert sizes == [size] == [whole.shape[:2]] and fewer == 2
    upright = cv2.resize(whole, (pixels.shape[1], pixels.shape[0]))
    np.testing.assert_allclose(pixels.astype(int), upright, atol=12)


def test_only_jpegs_are_decoded_smaller():
    for name in ("png-rgb", "webp", "gif-animated", "tiff-lzw"):
        pixels, size, fewer = decode_image(FILES[name], reduction=lambda size: 8)
        assert (pixels.shape, size, fewer) == ((23, 37, 3), (23, 37), 1)


def test_stray_jpeg_bytes_are_harmless_and_hide_nothing():
    data, frame = FILES["jpeg"], FILES["jpeg"].index(b"\xff\xc0")
    for stray in (
        data[:-2] + b"stray" + data[-2:], data.replace(b"JFIF\0\1\1", b"JFIF\0\7\7", 1),
        data[:frame] + b"\0\0\0" + data[frame:], data[:frame] + b"\xff\xff" + data[frame:],
        data + encoded(255 - SMOOTH, "JPEG") + bytes(100),
    ):  # fmt: skip
        np.testing.assert_array_equal(decode(stray), decode(data))
    stray = data[:frame] + b"\0\0\0" + data[frame:-60]
    with pytest.raises(DecodeError, match=r"truncated|Premature"):
        decode(stray)
    with pytest.raises(DecodeError, match="premature end"):
        decode(data[: len(data) * 3 // 4] + data[-2:])


@each("name", FILES)
def test_a_truncated_file_is_refused(name):
    data = FILES[name]
    ends = {1, 2, 10, len(data) // 4, len(data) // 2, len(data) * 3 // 4, len(data) - 3}
    if name.startswith(("bmp", "tga", "ico")):
        ends -= {len(data) - 3, 1}
    elif not name.startswith(("gif", "ppm")):  # there the pixels end earlier
        ends |= {len(data) - 1}
    for end in sorted(ends):
        if name == "gif-animated" and end > len(FILES["gif-transparent"]) - 10:
            continue  # only the first frame counts
        with pytest.raises(DecodeError):
            decode(data[:end])


@pytest.mark.parametrize("damage", [0, 1])
def test_old_png_with_too_small_window_is_read(damage):
    rows = np.random.default_rng(0).integers(0, 256, (10, 100), dtype=np.uint8)
    gray = np.concatenate([rows, rows])
    stream = bytearray(zlib.compress(np.insert(gray, 0, 0, axis=1).tobytes(), 9))
    stream[:2] = b"\x08\x1d"  # a window of 256 bytes
    stream[-1] ^= damage
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 100, 20, 8, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", bytes(stream)) + chunk(b"IEND", b"")
    for read in (lambda: decode(data, "grayscale"), lambda: decode_values(data)):
        if damage:
            with pytest.raises(DecodeError, match="broken png"):
                read()
        else:
            np.testing.assert_array_equal(read()[..., 0], gray)


@each("bits", [1, 2, 4, 8])
def test_masks_keep_gray_levels_of_few_bits(bits):
    levels = GRAY & (2**bits - 1)
    width = -(-37 * bits // 8) * 8 // bits
    padded = np.pad(levels, ((0, 0), (0, width - 37)))
    packed = np.unpackbits(padded[..., None], axis=-1)[..., 8 - bits :].reshape(23, -1)
    rows = np.insert(np.packbits(packed, axis=1), 0, 0, axis=1)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 37, 23, bits, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b"")
    data = b"\x89PNG\r\n\x1a\n" + head + body
    np.testing.assert_array_equal(decode_values(data)[..., 0], levels)


def test_masks_in_colours_and_lossy_masks_are_refused():
    for name in ("jpeg", "jpeg-gray", "png-rgb", "webp"):
        with pytest.raises(DecodeError, match="mask"):
            decode_values(FILES[name])
    np.testing.assert_array_equal(decode_values(FILES["png-rgb"], in_colours=True), RGB)


def test_a_limit_is_of_the_decoded_pixels():
    for data in FILES.values():
        pixels = decode(data, "rgba")
        decode(data, "rgba", limits=Limits(decoded_bytes=2 * pixels.size))
        with pytest.raises(DecodeError, match="decoded_bytes"):
            decode(data, "rgba", limits=Limits(decoded_bytes=pixels.size - 1))


def test_a_prepared_worker_decodes_in_one_thread():
    threads = cv2.getNumThreads()
    prepare_worker()
    assert cv2.getNumThreads() == 1
    cv2.setNumThreads(threads)


UNTOUCHED = """
import logging, warnings
import pandas, pyarrow, h5py, PIL.Image
filters, extensions = list(warnings.filters), dict(PIL.Image.EXTENSION)
handlers, most = list(logging.getLogger("PIL.TiffImagePlugin").handlers), PIL.Image.MAX_IMAGE_PIXELS
import dfgen.samples.pixels.decoders
assert warnings.filters == filters and PIL.Image.MAX_IMAGE_PIXELS == most
assert logging.getLogger("PIL.TiffImagePlugin").handlers == handlers
"""


def test_import_leaves_warnings_logs_and_pillow_unchanged():
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    subprocess.run([sys.executable, "-c", UNTOUCHED], check=True, env=environment)


REAL = {**FILES, "png-exif": encoded(RGB, "PNG", exif=exif(6)),
        "webp-exif": encoded(RGB, "WEBP", exif=exif(6))}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_is_an_error_or_pixels(data):
    """Never anything else, and never without an end."""
    damaged = bytearray(REAL[data.draw(st.sampled_from([*REAL]))])
    for place in data.draw(st.lists(st.integers(0, min(len(damaged), 400) - 1), min_size=1)):
        damaged[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    damaged = bytes(damaged[: data.draw(st.integers(1, len(damaged)) | st.just(len(damaged)))])
    few = Limits(decoded_bytes=10**6)
    for read in (lambda: parse_header(io.BytesIO(damaged), sniff(damaged[:16]), few),
                 lambda: decode(damaged, limits=few)):  # fmt: skip
        try:
            found = read()
        except DecodeError as error:
            assert str(error)
        else:
            assert isinstance(found, tuple) or (found.dtype == np.uint8 and found.ndim == 3)
