"""Headers: sizes, channels, bits, frames and orientation, and headers that ask for too much."""

import base64
import io
import struct
import zlib

import cv2
import numpy as np
import pytest
import tifffile
from cases import each
from PIL import Image, features
from public.corpus import chunk, exif

from dfgen.errors import DecodeError, MissingFileError
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels import formats
from dfgen.samples.pixels.decoders import decode_image, size_of_image
from dfgen.samples.pixels.formats import FORMATS, parse_header, read_header, sniff
from dfgen.samples.pixels.headers import Header, check_decoded

GRAY = np.arange(48, dtype=np.uint8).reshape(6, 8)
RGB = np.dstack([GRAY] * 3)
PICTURE = Image.fromarray(RGB)
OTHERS = [Image.fromarray(RGB + np.uint8(50 * number)) for number in (1, 2)]
SEVERAL = {"save_all": True, "append_images": OTHERS}


def by_pillow(image, **options):
    return lambda path: image.save(path, **options)


def by_opencv(pixels):
    return lambda path: cv2.imwrite(str(path), pixels)


def by_tifffile(pixels, **options):
    return lambda path: tifffile.imwrite(path, pixels, photometric="minisblack", **options)


def as_bytes(data):
    return lambda path: path.write_bytes(data)


def encoded(format, image=PICTURE, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


FILES = [  # name, writer, channels, bits, frames
    ("a.jpg", by_pillow(PICTURE), 3, 8, 1), ("gray.jpg", by_pillow(PICTURE.convert("L")), 1, 8, 1),
    ("cmyk.jpg", by_pillow(PICTURE.convert("CMYK")), 4, 8, 1),
    ("rgb.png", by_pillow(PICTURE), 3, 8, 1), ("1.png", by_pillow(PICTURE.convert("1")), 1, 1, 1),
    ("clear.png", by_pillow(PICTURE, transparency=(1, 2, 3)), 3, 8, 1),
    ("palette.png", by_pillow(PICTURE.quantize(4), bits=2), 3, 8, 1),
    ("alpha.png", by_pillow(PICTURE.quantize(4), transparency=b"\0\1\2\3"), 4, 8, 1),
    ("16.png", by_opencv(RGB.astype(np.uint16)), 3, 16, 1),
    ("animated.png", by_pillow(PICTURE, **SEVERAL), 3, 8, 3),
    ("a.webp", by_pillow(PICTURE), 3, 8, 1),
    ("lossless.webp", by_pillow(PICTURE, lossless=True), 3, 8, 1),
    ("alpha.webp", by_pillow(PICTURE.convert("RGBA").rotate(20), lossless=True), 4, 8, 1),
    ("animated.webp", by_pillow(PICTURE, lossless=True, **SEVERAL), 3, 8, 3),
    ("a.gif", by_pillow(PICTURE), 3, 8, 1),
    ("animated.gif", by_pillow(PICTURE, **SEVERAL), 3, 8, 3),
    ("a.bmp", by_pillow(PICTURE), 3, 8, 1), ("1.bmp", by_pillow(PICTURE.convert("1")), 1, 1, 1),
    ("1.tif", by_pillow(PICTURE.convert("1")), 1, 1, 1),
    ("palette.tif", by_pillow(PICTURE.quantize(16)), 3, 8, 1),
    ("rgb.tif", by_pillow(PICTURE), 3, 8, 1), ("pages.tif", by_pillow(PICTURE, **SEVERAL), 3, 8, 3),
    ("16.tif", by_tifffile(GRAY.astype(np.uint16)), 1, 16, 1),
    ("big-endian.tif", by_tifffile(GRAY.astype(np.uint16), byteorder=">"), 1, 16, 1),
    ("big.tif", by_tifffile(GRAY, bigtiff=True), 1, 8, 1),
    ("32.tif", by_tifffile(GRAY.astype(np.uint32)), 1, 32, 1),
    ("float.tif", by_tifffile(GRAY.astype(np.float32)), 1, 32, 1),
    ("8.pgm", as_bytes(b"P5 8 6 255\n" + bytes(48)), 1, 8, 1),
    ("16.pgm", as_bytes(b"P5 8 6 65535\n" + bytes(96)), 1, 16, 1),
    ("16.ppm", as_bytes(b"P6 8 6 65535\n" + bytes(288)), 3, 16, 1),
    ("1.pbm", as_bytes(b"P4 8 6\n" + bytes(6)), 1, 1, 1),
    ("16.sgi", by_pillow(PICTURE, bpc=2), 3, 16, 1), ("a.jp2", by_pillow(PICTURE), 3, 8, 1),
]  # fmt: skip


@each(("name", "write", "channels", "bits", "frames"), FILES)
def test_channels_bits_and_frames_of_each_format(tmp_path, name, write, channels, bits, frames):
    path = tmp_path / name
    write(path)
    header = read_header(str(path))
    assert (header.width, header.height, header.orientation) == (8, 6, 1)
    assert (header.bits, header.frames) == (bits, frames)
    assert header.channels in (channels, 1) if "gif" in name else header.channels == channels
    assert formats.BY_SUFFIX[path.suffix] == header.format


# 8 x 8 pixels of 10 bits, by libavif: no encoder that the tests have writes more than 8
AVIF = (
    "AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAA"
    "AAAAAAAAAAAAAAAAAOcGl0bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAETAAAAHwAAAChpaW5mAAAAAAAB"
    "AAAAGmluZmUCAAAAAAEAAGF2MDFDb2xvcgAAAABqaXBycAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAACAAAAAgAAAAQcG"
    "l4aQAAAAADCgoKAAAADGF2MUOBIEAAAAAAE2NvbHJuY2x4AAIAAgAGgAAAABdpcG1hAAAAAAAAAAEAAQQBAoMEAAAA"
    "J21kYXQSAAoIOAi/bwICBpAyERrCYuTgABQAAACQNY48fRrQ"
)


def test_ten_bits_of_avif_and_heif_are_told():
    pillow_heif = pytest.importorskip("pillow_heif")
    file = io.BytesIO()
    pixels = np.full((64, 64, 3), 1000 << 6, np.uint16)
    pillow_heif.from_bytes("RGB;16", (64, 64), pixels.tobytes()).save(file, quality=90)
    avif = [base64.b64decode(AVIF)] if "avif" in features.get_supported() else []
    for data in (file.getvalue(), *avif):
        header = parse_header(io.BytesIO(data), sniff(data[:16]))
        assert (header.bits, header.frames) == (10, 1)
        assert decode_image(data)[0].dtype == np.uint8
        with pytest.raises(DecodeError, match="10 bits"):
            decode_image(data, dtype="uint16")


@each("after", [False, True])
@each("pieces", [1, 5])
def test_png_exif_may_stand_before_or_after_pixels(tmp_path, after, pieces):
    data = encoded("PNG", Image.fromarray(np.tile(RGB, (40, 40, 1))))
    at, body = data.index(b"IDAT"), data[data.index(b"IDAT") + 4 : -16]
    cuts = [body[n::pieces] if pieces == 1 else body[n * 9 : (n + 1) * 9 or None] for n in range(4)]
    parts = [body] if pieces == 1 else [*cuts, body[36:]]
    pixels = b"".join(chunk(b"IDAT", part) for part in parts)
    turn, start, end = chunk(b"eXIf", exif(6)[6:]), data[: at - 4], data[-12:]
    path = tmp_path / "a.png"
    path.write_bytes(start + (pixels + turn if after else turn + pixels) + end)
    header = read_header(str(path))
    assert (header.orientation, header.size) == (6, (320, 240))
    assert decode_image(path.read_bytes())[0].shape == (320, 240, 3)


@each("orientation", [0, 9, 255, 65535])
@each("format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_invalid_orientation_leaves_the_image_unchanged(format, orientation):
    data = encoded(format, exif=exif(orientation))
    header = parse_header(io.BytesIO(data), sniff(data[:16]))
    assert (header.width, header.height, header.orientation) == (8, 6, 1)
    np.testing.assert_array_equal(decode_image(data)[0], decode_image(encoded(format))[0])


@pytest.mark.parametrize("kind", [6, 8, 9])
def test_an_orientation_with_a_sign_turns_as_elsewhere(kind):
    block = struct.pack("<2sHIHHHII", b"II", 42, 8, 1, 274, kind, 1, 6) + bytes(4)
    data = encoded("JPEG", exif=b"Exif\0\0" + block)
    assert parse_header(io.BytesIO(data), "jpeg").orientation == 6


def test_exif_is_found_behind_long_metadata(tmp_path):
    data, path = encoded("JPEG", exif=exif(6)), tmp_path / "a.jpg"
    note = b"\xff\xe1\xff\xff" + b"http://ns.adobe.com/xap/1.0/\0".ljust(65533, b"\xff")
    path.write_bytes(data[:2] + note * 20 + data[2:])
    assert (read_header(str(path)).size, decode_image(path.read_bytes())[1]) == ((8, 6), (8, 6))


def test_messages_of_files_that_cannot_be_read(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "cut.jpg").write_bytes(encoded("JPEG")[:30])
    (tmp_path / "page").write_bytes(b"<!DOCTYPE html><html>")
    np.save(tmp_path / "a.npy", np.zeros(3))
    for name, kind, message in [
        ("none.png", MissingFileError, "does not exist"), ("empty", DecodeError, "0 bytes"),
        ("empty/below", MissingFileError, "does not exist"), ("a\0b", DecodeError, "null"),
        ("cut.jpg", DecodeError, "cut short"), (".", DecodeError, "cannot be read"),
        ("page", DecodeError, "HTML"), ("a.npy", DecodeError, "dfgen.Array"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=message):
            size_of_image(f"{tmp_path}/{name}", formats._DISK)


def test_heic_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    with pytest.raises(DecodeError, match="pip install"):
        decode_image(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))


@pytest.mark.parametrize("error", [RuntimeError("boom"), OverflowError(), RecursionError()])
def test_reader_errors_are_blamed_on_the_file(monkeypatch, error):
    def fails(data):
        raise error

    for name in ("webp", "bmp"):
        changed = {"parse": fails} if name == "webp" else {"reader": fails}
        for field, value in changed.items():
            monkeypatch.setitem(
                FORMATS, name, FORMATS[name].__class__(**{**vars(FORMATS[name]), field: value})
            )
        for read in (decode_image, lambda data: parse_header(io.BytesIO(data), sniff(data[:16]))):
            with pytest.raises(DecodeError, match=f"broken {name}"):
                read(encoded(name.upper()))


def png_claiming(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + chunks + chunk(b"IEND", b"")


def jpeg_claiming(side, progressive):
    data = encoded("JPEG", progressive=progressive)
    at = data.index(b"\xff\xc2" if progressive else b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", side, side) + data[at + 4 :]


def tiff_of_a_large_tile():
    file = io.BytesIO()
    tifffile.imwrite(file, GRAY, tile=(16, 16), photometric="minisblack")
    data = bytearray(file.getvalue())
    with tifffile.TiffFile(io.BytesIO(data)) as written:
        for tag in (322, 323):
            at = written.pages[0].tags[tag].valueoffset
            data[at : at + 2] = struct.pack("<H", 40_000)
    return bytes(data)


def webp_claiming(side):
    data = bytearray(encoded("WEBP", **SEVERAL, lossless=True))
    data[24:30] = 2 * (side - 1).to_bytes(3, "little")
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [png_claiming(60_000, 60_000), png_claiming(20_000, 30_000), tiff_of_a_large_tile(),
     jpeg_claiming(65_500, True), webp_claiming(16_383), b"P6 40000 40000 255\n",
     b"GIF89a" + b"\xff\xff" * 2 + encoded("GIF")[10:]],
)  # fmt: skip
def test_memory_filling_image_is_rejected_by_its_header(data):
    for read in (
        lambda: decode_image(data, reduction=lambda size: 8),
        lambda: parse_header(io.BytesIO(data), sniff(data[:16])),
    ):
        with pytest.raises(DecodeError, match=r"decoded_bytes"):
            read()


def test_a_jpeg_counts_as_it_is_decoded():
    data = jpeg_claiming(20_000, progressive=False)
    for reduced, error in ((1, "decoded_bytes"), (8, "broken jpeg")):
        with pytest.raises(DecodeError, match=error):
            decode_image(data, reduction=lambda size, reduced=reduced: reduced)


def test_image_of_exactly_the_allowed_size_is_accepted():
    most = 2**29 // 3
    check_decoded(Header("bmp", 1, most, 3), DEFAULT)
    check_decoded(Header("jpeg", 8, 8 * most, 3), DEFAULT, reduced=8)
    check_decoded(Header("bmp", 1, 2 * most, 3), Limits(decoded_bytes=None))
    for header in (Header("bmp", 1, most + 1, 3), Header("png", 1, 2**28 + 1, 1, bits=16)):
        with pytest.raises(DecodeError, match="decoded_bytes='512MiB'"):
            check_decoded(header, DEFAULT)
    for size in ((0, 5), (5, -1)):
        with pytest.raises(DecodeError, match="no pixels"):
            check_decoded(Header("bmp", *size, 3), DEFAULT)


HEADS = {
    "tiff": b"MM\0*", "gif": b"GIF89a", "pnm": b"P6\n", "webp": b"RIFF\n\n\n\nWEBP", "bmp": b"BM6",
    "jpeg": b"\xff\xd8\xff\xe0", "png": b"\x89PNG\r\n\x1a\n", "avif": b"\0\0\0\x1cftypavif",
    "heif": b"\0\0\0\x1cftypheic", "jpeg2000": b"\0\0\0\x0cjP  \r\n\x87\n",
    "ico": b"\0\0\1\0\1\0\x20\x20\0\0", "psd": b"8BPS\0\1", "pcx": b"\n\5\1\x08",
    "sgi": b"\1\xda\1\1\0\3", "dds": b"DDS \x7c\0\0\0", "qoi": b"qoif",
    "tga": b"\0\0\2\0\0\0\0\0\0\0\0\0\x08\0\6\0", "npy": b"\x93NUMPY\1\0",
    "hdf5": b"\x89HDF\r\n\x1a\n", "wav": b"RIFF\n\n\n\nWAVEfmt ", "flac": b"fLaC",
    "ogg": b"OggS", "mp3": b"\xff\xfb\x90", "aiff": b"FORM\n\n\n\nAIFC",
}  # fmt: skip


@each("name", FORMATS)
def test_first_bytes_are_those_of_one_format_alone(name):
    head = HEADS[name].ljust(16, b"\1")
    assert [other for other, matches in formats._MATCHES.items() if matches(head)] == [name]
    assert sniff(head) == name
