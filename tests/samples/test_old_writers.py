"""Files as other programs wrote them long ago: odd, and whole."""

import io
import struct
import zlib

import numpy as np
import pytest
from messages import message_of
from odd_images import chunk
from PIL import Image, ImageOps

from dfgen.errors import DecodeError
from dfgen.samples.pixels.upright import decode, decode_values

HEIGHT, WIDTH = 16, 24
COMPRESSION_LZW, COMPRESSION_OLD_JPEG, COMPRESSION_JPEG, RGB, YCBCR = 5, 6, 7, 2, 6
SUBSAMPLING = struct.pack("<HHIHH", 530, 3, 2, 2, 2)


def halves():
    """Return colours that differ above and below, left and right."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:8], pixels[8:, 16:] = (200, 40, 10), (20, 90, 250)
    return pixels


def tiff(strip, compression, photometric, *more):
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
    return tiff(data, COMPRESSION_OLD_JPEG, YCBCR, place, length, SUBSAMPLING)


TIFFS = {  # and what libtiff says of it
    "Old-style LZW codes": lambda: tiff(old_lzw(halves().tobytes()), COMPRESSION_LZW, RGB),
    "Deprecated and troublesome old-style JPEG compression mode": of_old_jpeg,
    "is encoded with progressive mode": lambda: tiff(
        jpeg(subsampling="4:2:0", progressive=True), COMPRESSION_JPEG, YCBCR, SUBSAMPLING
    ),
    "Auto-corrected former TIFF subsampling values": lambda: tiff(
        jpeg(subsampling="4:4:4"), COMPRESSION_JPEG, YCBCR
    ),
}


@pytest.mark.parametrize("said", TIFFS)
def test_a_tiff_written_in_an_old_way_has_the_pixels_that_pillow_sees(said):
    data = TIFFS[said]()
    seen = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert abs(seen[:, :12].astype(int) - halves()[:, :12]).max() < 100
    np.testing.assert_array_equal(decode(data), seen)


def test_an_old_tiff_that_is_damaged_is_refused_all_the_same():
    data = tiff(old_lzw(halves().tobytes())[:300], COMPRESSION_LZW, RGB)
    with pytest.raises(DecodeError) as caught:
        decode(data)
    assert str(caught.value).startswith("broken tiff file: Not enough data at scanline 0 (short ")


def far_back(damage=0):
    """Return a gray PNG whose pixels refer 1,000 bytes back, but announce 256."""
    rows = np.random.default_rng(0).integers(0, 256, (10, 100), dtype=np.uint8)
    gray = np.concatenate([rows, rows])
    stream = bytearray(zlib.compress(np.insert(gray, 0, 0, axis=1).tobytes(), 9))
    stream[:2] = b"\x08\x1d"  # a window of 256 bytes
    stream[-1] ^= damage
    head = struct.pack(">IIBBBBB", 100, 20, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", bytes(stream)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts), gray


def test_a_png_that_refers_farther_back_than_it_announces_is_read(capfd):
    data, gray = far_back()
    np.testing.assert_array_equal(decode(data, "grayscale")[..., 0], gray)
    np.testing.assert_array_equal(decode(data)[..., 1], gray)
    np.testing.assert_array_equal(decode_values(data)[..., 0], gray)
    assert set(capfd.readouterr().err.splitlines()) == {
        "libpng error: IDAT: invalid distance too far back"
    }


def test_a_png_with_another_checksum_of_its_pixels_is_refused(capfd):
    data, _ = far_back(damage=1)
    for read in (decode, decode_values):
        assert message_of(DecodeError, read, data) == "broken png file: truncated or damaged"
    capfd.readouterr()


@pytest.mark.parametrize("kind", [6, 8, 9])
def test_an_orientation_with_a_sign_turns_as_elsewhere(kind):
    exif = struct.pack("<2sHIHHHII", b"II", 42, 8, 1, 274, kind, 1, 6) + bytes(4)
    data = jpeg(exif=b"Exif\0\0" + exif)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(decode(data), np.asarray(turned))
    assert decode(data).shape == (WIDTH, HEIGHT, 3)


def test_metadata_that_look_like_scans_are_none():
    data = jpeg(progressive=True)
    notes = b"\xff\xec" + struct.pack(">H", 2 + 600) + b"\xff\xda\x00" * 200
    np.testing.assert_array_equal(decode(data[:2] + notes + data[2:]), decode(data))
