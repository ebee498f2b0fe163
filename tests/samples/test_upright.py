"""Pixels and headers of each format against Pillow, or against the array that was encoded."""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of
from odd_images import chunk, exif
from PIL import Image, ImageOps

from dfgen.errors import DecodeError, MissingFileError
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels.formats import formats_by_suffix, read_header
from dfgen.samples.pixels.geometry import CHANNELS
from dfgen.samples.pixels.headers import Header, check_decoded
from dfgen.samples.pixels.upright import decode, decode_reduced, prepare_worker
from dfgen.samples.stores.npy import array_header, decode_array

Y, X = np.mgrid[0:23, 0:37]
SMOOTH = np.stack([Y * 8 + 20, X * 5 + 20, Y * 3 + X * 3 + 10], -1).astype(np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, (23, 37, 4), dtype=np.uint8)
DEEP = np.random.default_rng(1).integers(0, 65536, (23, 37, 4), dtype=np.uint16)
PILLOW_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}


def encoded(pixels, format, mode=None, **options):
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, format, **options)
    return file.getvalue()


def from_opencv(pixels, suffix):
    """Encode RGB(A) or gray pixels of 16 bits."""
    swapped = pixels if pixels.ndim == 2 else pixels[..., [2, 1, 0, 3][: pixels.shape[2]]]
    return cv2.imencode(suffix, swapped)[1].tobytes()


def png_claiming(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def without_adobe_marker(jpeg):
    at = jpeg.index(b"\xff\xee")
    return jpeg[:at] + jpeg[at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big") :]


RGB, GRAY = NOISE[..., :3], NOISE[..., 0]
PALETTE = Image.fromarray(RGB).quantize(32)
CMYK = encoded(SMOOTH, "JPEG", "CMYK", quality=100)
FILES = {  # name -> (bytes, channels as stored)
    "jpeg": (encoded(SMOOTH, "JPEG", quality=95), 3),
    "jpeg-progressive": (encoded(SMOOTH, "JPEG", quality=95, progressive=True), 3),
    "jpeg-gray": (encoded(SMOOTH[..., 0], "JPEG", quality=95), 1),
    "jpeg-cmyk": (CMYK, 4),
    "jpeg-cmyk-unmarked": (without_adobe_marker(CMYK), 4),
    "png-1-bit": (encoded(GRAY, "PNG", "1"), 1),
    "png-gray": (encoded(GRAY, "PNG"), 1),
    "png-gray-alpha": (encoded(NOISE, "PNG", "LA"), 2),
    "png-rgb": (encoded(RGB, "PNG"), 3),
    "png-rgba": (encoded(NOISE, "PNG"), 4),
    "png-palette": (encoded(PALETTE, "PNG"), 3),
    "png-palette-transparent": (encoded(PALETTE, "PNG", transparency=3), 4),
    "png-palette-alpha": (encoded(PALETTE, "PNG", transparency=bytes(range(0, 256, 8))), 4),
    "webp": (encoded(SMOOTH, "WEBP", quality=95), 3),
    "webp-lossless": (encoded(RGB, "WEBP", lossless=True), 3),
    "webp-alpha": (encoded(NOISE, "WEBP", lossless=True, exact=True), 4),
    "bmp": (encoded(RGB, "BMP"), 3),
    "bmp-1-bit": (encoded(GRAY, "BMP", "1"), 1),
    "bmp-gray": (encoded(GRAY, "BMP"), 1),
    "bmp-palette": (encoded(PALETTE, "BMP"), 3),
    "tiff": (encoded(RGB, "TIFF"), 3),
    "tiff-lzw": (encoded(RGB, "TIFF", compression="tiff_lzw"), 3),
    "tiff-1-bit": (encoded(GRAY, "TIFF", "1"), 1),
    "tiff-gray": (encoded(GRAY, "TIFF"), 1),
    "tiff-palette": (encoded(PALETTE, "TIFF"), 3),
    "tiff-rgba": (encoded(NOISE, "TIFF"), 4),
    "tiff-gray-alpha": (encoded(NOISE, "TIFF", "LA"), 2),
    "tiff-cmyk": (encoded(SMOOTH, "TIFF", "CMYK"), 4),
    "ppm": (encoded(RGB, "PPM"), 3),
    "pgm": (encoded(GRAY, "PPM"), 1),
    "pbm": (encoded(GRAY, "PPM", "1"), 1),
    "pgm-of-100-levels": (b"P5\n# a comment\n3 2\n100\n" + bytes([0, 20, 40, 60, 80, 100]), 1),
    "ppm-plain": (b"P3\n1 2\n255\n1 2 3\n4 5 6\n", 3),
    "gif": (encoded(PALETTE, "GIF"), 3),
    "gif-transparent": (encoded(PALETTE, "GIF", transparency=3), 4),
    "gif-animated": (
        encoded(PALETTE, "GIF", save_all=True, append_images=[PALETTE.rotate(90)]), 3,
    ),
}  # fmt: skip
DEEP_FILES = {
    "png-gray": (from_opencv(DEEP[..., 0], ".png"), DEEP[..., :1]),
    "png-rgb": (from_opencv(DEEP[..., :3], ".png"), DEEP[..., :3]),
    "png-rgba": (from_opencv(DEEP, ".png"), DEEP),
    "tiff-gray": (from_opencv(DEEP[..., 0], ".tiff"), DEEP[..., :1]),
    "tiff-rgb": (from_opencv(DEEP[..., :3], ".tiff"), DEEP[..., :3]),
    "pgm": (b"P5\n37 23\n65535\n" + DEEP[..., 0].astype(">u2").tobytes(), DEEP[..., :1]),
    "ppm": (b"P6\n37 23\n65535\n" + DEEP[..., :3].astype(">u2").tobytes(), DEEP[..., :3]),
}


def reference(data, color_mode="rgb"):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow's own advice
    pixels = np.array(image.convert(PILLOW_MODES[color_mode]))
    return pixels.reshape(*pixels.shape[:2], CHANNELS[color_mode])


@each("color_mode", CHANNELS)
@each("name", FILES)
def test_pixels_are_those_of_pillow(name, color_mode):
    pixels = decode(FILES[name][0], color_mode)
    expected = reference(FILES[name][0], color_mode)
    assert (pixels.dtype, pixels.shape) == (np.uint8, expected.shape)
    # the two round CMYK differently, and gray values halfway
    allowed = 2 if "cmyk" in name else int(color_mode == "grayscale")
    np.testing.assert_allclose(pixels.astype(int), expected, atol=allowed)


@pytest.mark.parametrize("name", DEEP_FILES)
def test_16_bits_are_divided_by_257_and_rounded(name):
    data, stored = DEEP_FILES[name]
    expected = np.rint(stored / 257).astype(np.uint8)
    mode = {1: "grayscale", 3: "rgb", 4: "rgba"}[stored.shape[2]]
    np.testing.assert_array_equal(decode(data, mode), expected)
    np.testing.assert_array_equal(
        decode(data, "rgb"), np.broadcast_to(expected[..., :3], (23, 37, 3))
    )


@each("orientation", range(1, 9))
@each(
    ("format", "options"),
    [
        ("JPEG", {}),
        ("PNG", {}),
        ("WEBP", {"lossless": True}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
    ],
)
@each("mode", ["RGB", "RGBA"])
def test_exif_orientation_is_applied(tmp_path, format, options, mode, orientation):
    if (format, mode) == ("JPEG", "RGBA"):
        mode = "L"
    pixels = np.dstack([SMOOTH, 255 - SMOOTH[..., 0]])
    data = encoded(Image.fromarray(pixels).convert(mode), format, exif=exif(orientation), **options)
    np.testing.assert_array_equal(decode(data), reference(data))
    path = tmp_path / "image"
    path.write_bytes(data)
    header = read_header(str(path))
    assert (header.width, header.height, header.orientation) == (37, 23, orientation)


def test_a_broken_exif_block_leaves_the_pixels_and_gives_no_warning():
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\x00\x12\x01"
    data = encoded(SMOOTH, "JPEG", exif=exif)
    np.testing.assert_array_equal(decode(data), decode(encoded(SMOOTH, "JPEG")))


@pytest.mark.parametrize("first", [True, False])
def test_exif_is_found_beside_another_block_of_its_kind(tmp_path, first):
    data = encoded(SMOOTH, "JPEG", exif=exif(6))
    begin = data.index(b"\xff\xe1")
    end = begin + 2 + int.from_bytes(data[begin + 2 : begin + 4], "big")
    block = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>"
    at = begin if first else end
    both = data[:at] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[at:]
    path = tmp_path / "both.jpg"
    path.write_bytes(both)
    assert read_header(str(path)).orientation == 6
    np.testing.assert_array_equal(decode(both), decode(data))


@pytest.mark.parametrize("count", [1, 2])
def test_bytes_that_fill_up_before_a_marker_are_skipped(tmp_path, count):
    data = FILES["jpeg"][0]
    path = tmp_path / "filled.jpg"
    path.write_bytes(data.replace(b"\xff\xc0", b"\xff" * count + b"\xff\xc0", 1))
    assert read_header(str(path)).size == (23, 37)
    np.testing.assert_array_equal(decode(path.read_bytes()), decode(data))


@each("reduced", [1, 2, 4, 8])
@each("color_mode", CHANNELS)
@each("name", [name for name in FILES if name.startswith("jpeg")])
def test_a_jpeg_decoded_smaller(name, color_mode, reduced):
    """It shows the same: on a smooth picture, the means over blocks of pixels."""
    data = FILES[name][0]
    pixels, size, fewer = decode_reduced(data, color_mode, lambda size: reduced)
    assert pixels.shape == (-(-23 // reduced), -(-37 // reduced), CHANNELS[color_mode])
    assert (size, fewer) == ((23, 37), reduced)
    rows, columns = 23 // reduced, 37 // reduced
    whole = decode(data, color_mode)[: rows * reduced, : columns * reduced].astype(float)
    means = whole.reshape(rows, reduced, columns, reduced, -1).mean((1, 3))
    np.testing.assert_allclose(pixels[:rows, :columns], means, atol=6)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_decoded_smaller_is_turned(orientation):
    data = encoded(SMOOTH, "JPEG", exif=exif(orientation))
    sizes = []
    pixels, size, fewer = decode_reduced(data, "rgb", lambda size: sizes.append(size) or 2)
    height, width, _ = decode(data).shape
    assert sizes == [(height, width)] and (size, fewer) == ((height, width), 2)
    upright = cv2.resize(decode(data), (pixels.shape[1], pixels.shape[0]))
    np.testing.assert_allclose(pixels.astype(int), upright, atol=12)


def test_only_jpegs_are_decoded_smaller():
    for name in ("png-rgb", "webp", "gif", "tiff"):
        pixels, size, fewer = decode_reduced(FILES[name][0], "rgb", lambda size: 8)
        assert (pixels.shape, size, fewer) == ((23, 37, 3), (23, 37), 1)


def test_a_truncated_jpeg_decoded_smaller_is_refused():
    with pytest.raises(DecodeError, match="broken jpeg file: Premature end of JPEG file"):
        decode_reduced(FILES["jpeg"][0][:-1], "rgb", lambda size: 8)


def test_stray_bytes_in_a_jpeg_do_no_harm():
    data = FILES["jpeg"][0]
    for stray in (data[:-2] + b"stray" + data[-2:], data.replace(b"JFIF\0\1\1", b"JFIF\0\7\7", 1)):
        assert stray != data
        np.testing.assert_array_equal(decode(stray), decode(data))


def test_a_jpeg_whose_pixels_end_early_is_refused_though_it_has_its_end():
    data = FILES["jpeg"][0]
    with pytest.raises(DecodeError) as error:
        decode(data[: len(data) * 3 // 4] + data[-2:])
    expected = "broken jpeg file: Corrupt JPEG data: premature end of data segment"
    assert str(error.value) == expected


def test_a_prepared_worker_decodes_in_one_thread(restore_opencv_threads):
    prepare_worker()
    assert cv2.getNumThreads() == 1


@pytest.fixture
def restore_opencv_threads():
    threads = cv2.getNumThreads()
    yield
    cv2.setNumThreads(threads)


def test_bytes_after_the_first_image_are_ignored():
    """As phones and 3-D cameras write: a second JPEG after the first."""
    data = FILES["jpeg"][0]
    both = data + encoded(255 - SMOOTH, "JPEG") + bytes(100)
    np.testing.assert_array_equal(decode(both), decode(data))


def test_the_format_is_known_by_the_bytes_not_the_name(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(FILES["png-rgb"][0])
    assert read_header(str(path)).format == "png"
    np.testing.assert_array_equal(decode(path.read_bytes()), RGB)


@each("name", FILES)
def test_header_tells_what_is_decoded(tmp_path, name):
    data, channels = FILES[name]
    path = tmp_path / "image"
    path.write_bytes(data)
    header = read_header(str(path))
    height, width, _ = decode(data).shape
    assert (header.height, header.width, header.channels) == (height, width, channels)
    format = "pnm" if name[0] == "p" and name[1] != "n" else name.split("-")[0]
    assert (header.format, header.orientation) == (format, 1)
    assert header.format in formats_by_suffix().values()


@pytest.mark.parametrize(("name", "transparent"), [("png-gray", 5), ("png-rgb", (1, 2, 3))])
def test_one_colour_that_is_transparent_is_no_channel(tmp_path, name, transparent):
    image = Image.open(io.BytesIO(FILES[name][0]))
    path = tmp_path / "transparent.png"
    path.write_bytes(encoded(image, "PNG", transparency=transparent))
    assert b"tRNS" in path.read_bytes()
    assert read_header(str(path)).channels == FILES[name][1]


@each("name", FILES)
def test_a_truncated_file_is_refused(name):
    data = FILES[name][0]
    ends = {1, 2, 10, len(data) // 4, len(data) // 2, len(data) * 3 // 4, len(data) - 3}
    if name.startswith("bmp"):
        ends -= {len(data) - 3}
    elif not name.startswith(("gif", "ppm-plain")):  # there the pixels end earlier, as in a BMP
        ends |= {len(data) - 2, len(data) - 1}
    for end in ends:
        if name == "gif-animated" and end > len(FILES["gif"][0]) - 4:
            continue  # only the first frame counts
        with pytest.raises(DecodeError):
            decode(data[:end])


def test_messages_of_files_that_are_no_images(tmp_path):
    npy = io.BytesIO()
    np.save(npy, np.zeros(3))
    real = np.zeros((4, 4), np.float32)
    formats = ", ".join(sorted(set(formats_by_suffix().values())))
    for data, message in [
        (b"", f"not an image, array or sound that dfgen opens: the file begins with b''. "
              f"Formats: {formats}"),
        (b"hello world", "not an image, array or sound that dfgen opens: the file begins with "
                         f"b'hello wo'. Formats: {formats}"),
        (b"P", f"not an image, array or sound that dfgen opens: the file begins with b'P'. "
               f"Formats: {formats}"),
        (npy.getvalue(), "this is a .npy array, not an image: use dfgen.Array for this column"),
        (encoded(real, "TIFF"), "the image has 32 bits a channel, not 8: "
                                'dfgen.Image(dtype="float32") keeps the numbers'),
        (FILES["jpeg"][0][:-1], "broken jpeg file: Premature end of JPEG file"),
        (FILES["png-rgb"][0][:20], "broken png header: cut short, or not png at all"),
    ]:  # fmt: skip
        assert message_of(DecodeError, decode, data) == message


@pytest.mark.parametrize(("width", "height"), [(60_000, 60_000), (20_000, 30_000)])
def test_an_image_that_would_fill_the_memory_is_refused_by_its_header(tmp_path, width, height):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_claiming(width, height))
    nbytes = width * height * 3
    message = (
        f"the image is {width} x {height}, {nbytes:,} bytes decoded (width x height x channels x "
        "depth), more than limits.decoded_bytes='512MiB': if you trust it, give "
        f"limits=dfgen.Limits(decoded_bytes={nbytes})"
    )
    for read in (lambda: decode(path.read_bytes()), lambda: read_header(str(path))):
        assert message_of(DecodeError, read) == message


def test_an_image_of_just_as_many_bytes_as_are_decoded_is_not_refused():
    most = 2**29 // 3
    check_decoded(Header("bmp", 1, most, 3), DEFAULT)
    check_decoded(Header("jpeg", 8, 8 * most, 3), DEFAULT, reduced=8)
    check_decoded(Header("bmp", 1, 2 * most, 3), Limits(decoded_bytes=None))
    with pytest.raises(DecodeError, match=f"the image is 1 x {most + 1}, .*decoded_bytes='512MiB'"):
        check_decoded(Header("bmp", 1, most + 1, 3), DEFAULT)
    with pytest.raises(DecodeError, match="536,870,914 bytes decoded"):
        check_decoded(Header("png", 1, 2**28 + 1, 1, bits=16), DEFAULT)


def test_a_webp_that_pillow_takes_for_a_bomb_is_refused(tmp_path):
    data = bytearray(encoded(np.zeros((8, 8, 4), np.uint8), "WEBP", exif=b"Exif\0\0II*\0"))
    at = data.index(b"VP8X") + 12
    data[at : at + 6] = 2 * (16_000 - 1).to_bytes(3, "little")
    (tmp_path / "bomb").write_bytes(data)
    said = (
        "could not create decoder object|Image size .256000000 pixels. exceeds limit of 178956970"
    )
    for read in (lambda: decode(bytes(data)), lambda: read_header(str(tmp_path / "bomb"))):
        with pytest.raises(DecodeError, match=f"^broken webp header: ({said})"):
            read()


def test_headers_that_cannot_be_read(tmp_path):
    empty = tmp_path / "empty.png"
    empty.touch()
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(FILES["jpeg"][0][:30])
    loop = tmp_path / "loop.png"
    loop.symlink_to(loop)
    for path, kind, message in [
        (tmp_path / "none.png", MissingFileError, "the file does not exist"),
        (empty / "below", MissingFileError, "the file does not exist"),
        (empty, DecodeError, "the file is empty (0 bytes)"),
        (cut, DecodeError, "broken jpeg header: it ends before the image begins"),
        (tmp_path, DecodeError, "the file cannot be read: Is a directory"),
        (loop, DecodeError, "the file cannot be read: Too many levels of symbolic links"),
        ("a\0b", DecodeError, "the file cannot be read: embedded null byte"),
    ]:
        assert message_of(kind, read_header, str(path)) == message


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
        np.array(3.5, ">f4"),
        np.zeros((0, 3), np.int8),
        np.array([True, False]),
    ],
)
def test_arrays_come_back(tmp_path, array):
    decoded = decode_array(saved(array))
    np.testing.assert_array_equal(decoded, array)
    assert (decoded.dtype, decoded.shape) == (array.dtype, array.shape)
    path = tmp_path / "array.npy"
    path.write_bytes(saved(array))
    assert (read_header(str(path)).format, read_header(str(path)).width) == ("npy", None)


def header_of(shape, descr="<f8", padded=117):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    body = text.encode().ljust(padded) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


def test_messages_of_broken_arrays():
    size = 8 * 10**15
    for data, message in [
        (b"PK\3\4",
         r"not a .npy file: it begins with b'PK\x03\x04'. dfgen.Image reads images, a function of "
         "your own other files: dfgen.Array(..., decode=function)"),
        (saved(np.array([{}]), allow_pickle=True),
         "a .npy file of Python objects: dfgen never unpickles; save plain numbers"),
        (saved(np.zeros(3))[:-1],
         "truncated .npy file: float64 of shape (3,) takes 24 bytes after the header, "
         "23 are there"),
        (header_of("(1000000, 1000000, 1000)"),
         "truncated .npy file: float64 of shape (1000000, 1000000, 1000) takes "
         f"{size:,} bytes after the header, 0 are there"),
        (header_of("(-1, 3)") + bytes(24), "broken .npy header: float64 of shape (-1, 3)"),
        (header_of("(2,)", "|S0"), "broken .npy header: |S0 of shape (2,)"),
        (b"\x93NUMPY\2\0\xff\xff\xff\xff" + header_of("(3,)")[10:],
         "the .npy file has a header of 4,294,967,295 bytes, more than the "
         "16,777,216 that dfgen takes: the file is damaged, or made to take memory and time. Save "
         "it again, or leave it out"),
        (header_of("(3,)", padded=20_000) + bytes(24),
         "broken .npy header: Header info length (20001) is large and may not be safe to load "
         "securely."),
        (b"\x89HDF\r\n\x1a\n",
         'an HDF5 file is read by rows: name their column, as in index="index"'),
    ]:  # fmt: skip
        assert message_of(DecodeError, decode_array, data) == message
    broken = (header_of("(3") + bytes(24), header_of("(3,)", "<i3") + bytes(24))
    for data in (saved(np.zeros(3))[:9], saved(np.zeros(3))[:40], *broken):
        with pytest.raises(DecodeError, match=r"^broken \.npy header: "):
            decode_array(data)


@given(
    st.sampled_from(["<f4", ">f8", "|u1", "<i8", "|b1", "<c16", "<M8[ns]", [("a", "<f4")]]),
    st.lists(st.integers(0, 4), max_size=4),
    st.booleans(),
    st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
def test_a_npy_header_is_read_as_numpy_reads_it(dtype, shape, fortran, version):
    array = np.zeros(shape, dtype, order="F" if fortran else "C")
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    start = len(file.getvalue()) - array.nbytes
    file.seek(0)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    assert array_header(file) == (array.shape, fortran, array.dtype)
    assert file.tell() == start


def test_a_npy_header_of_plain_numbers_is_not_compiled(monkeypatch):
    """In CPython 3.11 that fails now and then where several threads do it."""
    file = io.BytesIO()
    np.save(file, np.arange(6, dtype=np.int16).reshape(2, 3))
    monkeypatch.setattr("ast.literal_eval", None)
    assert decode_array(file.getvalue()).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_npy_header_that_a_thread_came_in_between_is_read_again(monkeypatch):
    file = io.BytesIO()
    np.save(file, np.zeros(2, [("a", "<f4")]))
    file.seek(0)
    read, failures = np.lib.format.read_array_header_1_0, iter([True, True, False])

    def often_fails(file):
        file.read(3)
        if next(failures):
            raise SystemError("AST constructor recursion depth mismatch (before=54, after=51)")
        file.seek(-3, io.SEEK_CUR)
        return read(file)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", often_fails)
    assert array_header(file)[0] == (2,)
