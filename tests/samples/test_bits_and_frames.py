"""Two facts: how many bits a channel has, and how many images are in the file."""

import base64
import contextlib
import io
import struct

import cv2
import numpy as np
import PIL.features
import pytest
import tifffile
from cases import each
from messages import message_of
from PIL import Image

import dfgen
from dfgen.errors import DecodeError
from dfgen.manifest.schema import SCHEMA
from dfgen.samples.pixels.formats import parse_header, read_header, sniff
from dfgen.samples.pixels.upright import decode_reduced

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


FILES = [  # name, writer, bits, frames
    ("a.jpg", by_pillow(PICTURE), 8, 1),
    ("rgb.png", by_pillow(PICTURE), 8, 1),
    ("1.png", by_pillow(PICTURE.convert("1")), 1, 1),
    ("palette.png", by_pillow(PICTURE.quantize(4), bits=2), 8, 1),
    ("16.png", by_opencv(RGB.astype(np.uint16)), 16, 1),
    ("animated.png", by_pillow(PICTURE, **SEVERAL), 8, 3),
    ("a.webp", by_pillow(PICTURE), 8, 1),
    ("animated.webp", by_pillow(PICTURE, lossless=True, **SEVERAL), 8, 3),
    ("a.gif", by_pillow(PICTURE), 8, 1),
    ("animated.gif", by_pillow(PICTURE, **SEVERAL), 8, 3),
    ("a.bmp", by_pillow(PICTURE), 8, 1),
    ("1.bmp", by_pillow(PICTURE.convert("1")), 1, 1),
    ("1.tif", by_pillow(PICTURE.convert("1")), 1, 1),
    ("palette.tif", by_pillow(PICTURE.quantize(16)), 8, 1),
    ("rgb.tif", by_pillow(PICTURE), 8, 1),
    ("pages.tif", by_pillow(PICTURE, **SEVERAL), 8, 3),
    ("16.tif", by_tifffile(GRAY.astype(np.uint16)), 16, 1),
    ("big-endian.tif", by_tifffile(GRAY.astype(np.uint16), byteorder=">"), 16, 1),
    ("stack.tif", by_tifffile(np.stack([GRAY] * 5), metadata=None), 8, 5),
    ("32.tif", by_tifffile(GRAY.astype(np.uint32)), 32, 1),
    ("float.tif", by_tifffile(GRAY.astype(np.float32)), 32, 1),
    ("8.pgm", as_bytes(b"P5 8 6 255\n" + bytes(48)), 8, 1),
    ("16.pgm", as_bytes(b"P5 8 6 65535\n" + bytes(96)), 16, 1),
    ("1.pbm", as_bytes(b"P4 8 6\n" + bytes(6)), 1, 1),
]


@each(("name", "write", "bits", "frames"), FILES)
def test_bits_and_frames_of_each_format(tmp_path, name, write, bits, frames):
    path = tmp_path / name
    write(path)
    header = read_header(str(path))
    assert (header.bits, header.frames) == (bits, frames)


def test_the_frames_of_a_long_gif_are_not_known(tmp_path):
    """Nothing but the beginning of a file is read for its facts."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 400, 400), dtype=np.uint8)
    noise = [Image.fromarray(one) for one in pixels]
    path = tmp_path / "long.gif"
    noise[0].save(path, save_all=True, append_images=noise[1:])
    assert path.stat().st_size > 2**16
    assert read_header(str(path)).frames is None


@pytest.mark.parametrize("told", [0, 2**31, 2**32 - 1])
def test_a_png_that_tells_a_number_no_animation_has_is_one_image(told):
    file = io.BytesIO()
    PICTURE.save(file, "PNG", **SEVERAL)
    data = bytearray(file.getvalue())
    at = data.index(b"acTL") + 4
    data[at : at + 4] = told.to_bytes(4, "big")
    assert parse_header(io.BytesIO(data), "png").frames == 1


def test_a_tiff_that_does_not_count_its_samples_has_as_many_as_bits_are_told_of():
    file = io.BytesIO()
    PICTURE.save(file, "TIFF")
    count, another = (struct.pack("<HH", tag, 3) for tag in (277, 276))
    data = file.getvalue().replace(count, another)
    assert parse_header(io.BytesIO(data), "tiff").channels == 3


def test_pages_that_go_in_a_circle_are_not_counted(tmp_path):
    path = tmp_path / "circle.tif"
    PICTURE.save(path, **SEVERAL)
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as file:
        first, last = file.pages[0].offset, file.pages[-1].offset
    end = last + 2 + 12 * int.from_bytes(data[last : last + 2], "little")
    assert data[end : end + 4] == bytes(4)
    data[end : end + 4] = first.to_bytes(4, "little")
    path.write_bytes(data)
    header = read_header(str(path))
    assert (header.width, header.frames) == (8, None)


def test_a_manifest_without_them_is_read_verified_and_updated(tmp_path):
    """An unknown fact of an unchanged file stays unknown."""
    folder = tmp_path / "imgs"
    folder.mkdir()
    for name, write, _, _ in FILES[3:6]:
        write(folder / name)
    path = tmp_path / "m.parquet"
    frame = dfgen.build_manifest(folder, out=path)
    dfgen.write_manifest(frame.drop(columns=["bits", "frames"]), path)
    assert dfgen.verify(path).empty
    cv2.imwrite(str(folder / "new.png"), GRAY.astype(np.uint16))
    updated = dfgen.build_manifest(folder, update=path).set_index("id")
    assert updated["bits"].dropna().to_dict() == {"new.png": 16}
    assert updated["frames"].isna().sum() == 3


# 8 x 8 pixels of 10 bits, by libavif: no encoder that the tests have writes more than 8
AVIF = (
    "AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAA"
    "AAAAAAAAAAAAAAAAAOcGl0bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAETAAAAHwAAAChpaW5mAAAAAAAB"
    "AAAAGmluZmUCAAAAAAEAAGF2MDFDb2xvcgAAAABqaXBycAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAACAAAAAgAAAAQcG"
    "l4aQAAAAADCgoKAAAADGF2MUOBIEAAAAAAE2NvbHJuY2x4AAIAAgAGgAAAABdpcG1hAAAAAAAAAAEAAQQBAoMEAAAA"
    "J21kYXQSAAoIOAi/bwICBpAyERrCYuTgABQAAACQNY48fRrQ"
)


def of_ten_bits(kind):
    if kind == "avif":
        return base64.b64decode(AVIF)
    pillow_heif = pytest.importorskip("pillow_heif")
    file = io.BytesIO()
    pixels = np.full((64, 64, 3), 1000 << 6, np.uint16)
    pillow_heif.from_bytes("RGB;16", (64, 64), pixels.tobytes()).save(file, quality=90)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["avif", "heif", "sgi"])
def test_bits_that_a_decoder_cuts_off_are_said(kind):
    if kind == "avif" and "avif" not in PIL.features.get_supported():
        pytest.skip("this Pillow opens no AVIF")
    if kind == "sgi":
        file = io.BytesIO()
        PICTURE.save(file, "SGI", bpc=2)
        data, bits = file.getvalue(), 16
    else:
        data, bits = of_ten_bits(kind), 10
    header = parse_header(io.BytesIO(data), sniff(data[:16]))
    assert (header.bits, header.frames) == (bits, 1)
    for dtype in (None, "uint16", "float32"):
        assert message_of(DecodeError, decode_reduced, data, "rgb", lambda size: 1, dtype) == (
            f"the image has {bits} bits a channel, and the decoder of {kind} gives the first "
            '8: dfgen.Image(dtype="uint8") takes these'
        )
    assert decode_reduced(data, "rgb", lambda size: 1, "uint8")[0].dtype == np.uint8


@pytest.fixture
def schema():
    @contextlib.contextmanager
    def changed(without):
        known = dict(SCHEMA)
        del SCHEMA[without]
        try:
            yield
        finally:  # in the order that it had
            SCHEMA.clear()
            SCHEMA.update(known)

    return changed
