"""A format of files is one entry of FORMATS: all else follows from it."""

import struct

import numpy as np
import pytest
from cases import each
from messages import message_of
from PIL import ImageFile

import dfgen
from dfgen.errors import DecodeError
from dfgen.samples.pixels.formats import FORMATS, pillow_format, sniff
from dfgen.samples.pixels.upright import decode

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
CLASSES = np.random.default_rng(1).integers(0, 5, (6, 8), dtype=np.uint8)


class PlainImageFile(ImageFile.ImageFile):
    """A reader as its author would write it for Pillow: sizes, then bytes as they are."""

    format = "PLAIN"

    def _open(self):
        _, width, height, channels = struct.unpack("<5sHHB", self.fp.read(10))
        self._size, self._mode = (width, height), {1: "L", 3: "RGB"}[channels]
        self.tile = [("raw", (0, 0, width, height), 10, (self._mode, 0, 1))]


def save(pixels, path):
    height, width, *channels = pixels.shape
    head = struct.pack("<5sHHB", b"PLAIN", width, height, *(channels or [1]))
    path.write_bytes(head + pixels.tobytes())


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setitem(FORMATS, "plain", pillow_format((".pln",), b"PLAIN", PlainImageFile))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "imgs").mkdir()
    (tmp_path / "masks").mkdir()
    for name in ("a", "b"):
        save(PIXELS, tmp_path / "imgs" / f"{name}.pln")
        save(CLASSES, tmp_path / "masks" / f"{name}.pln")
    return tmp_path


def test_a_format_from_outside_is_one_entry(folder, plain):
    frame = dfgen.build_manifest(folder / "imgs")
    assert frame["path"].tolist() == [f"{folder}/imgs/{name}.pln" for name in ("a", "b")]
    facts = frame[["format", "width", "height", "channels", "orientation"]]
    assert facts.to_numpy().tolist() == [["plain", 8, 6, 3, 1]] * 2
    assert frame["problem"].isna().all()

    masks = [path.replace("imgs", "masks") for path in frame["path"]]
    x, y = dfgen.Image("path", size=(6, 8)), dfgen.Mask("mask")
    with dfgen.Sequence(frame.assign(mask=masks), x, y, batch_size=2) as seq:
        images, classes = (np.asarray(array) for array in seq[0])
    np.testing.assert_array_equal(images, [PIXELS] * 2)
    np.testing.assert_array_equal(classes[..., 0], [CLASSES] * 2)


def test_a_bare_column_of_its_files_is_images(folder, plain):
    frame = dfgen.build_manifest(folder / "imgs", facts="none").drop(columns="id")
    frame = frame.rename(columns={"path": "scan"}).assign(id=[1, 2])
    options = {"image_size": (6, 8), "batch_size": 2, "label_mode": None}
    with dfgen.Sequence(frame, "scan", **options) as seq:
        np.testing.assert_array_equal(np.asarray(seq[0][0]), [PIXELS] * 2)


def test_without_its_entry_no_file_of_it_is_opened(folder):
    assert message_of(DecodeError, decode, (folder / "imgs" / "a.pln").read_bytes()) == (
        "not an image, array or sound that dfgen opens: the file begins with "
        f"b'PLAIN\\x08\\x00\\x06'. Formats: {', '.join(sorted(set(FORMATS) - {'hdf5'}))}"
    )


def test_a_broken_file_of_it_is_told_by_its_name(folder, plain):
    data = (folder / "imgs" / "a.pln").read_bytes()
    assert message_of(DecodeError, decode, data[:100]).startswith("broken plain")


@each("name", FORMATS)
def test_first_bytes_are_those_of_one_format_alone(name):
    begins = {"tiff": b"MM\0*", "gif": b"GIF89a", "pnm": b"P6\n", "webp": b"RIFF\n\n\n\nWEBP"}
    heads = {
        **begins,
        "jpeg": b"\xff\xd8\xff\xe0",
        "png": b"\x89PNG\r\n\x1a\n",
        "bmp": b"BM6",
        "avif": b"\0\0\0\x1cftypavif",
        "heif": b"\0\0\0\x1cftypheic",
        "jpeg2000": b"\0\0\0\x0cjP  \r\n\x87\n",
        "ico": b"\0\0\1\0\1\0\x20\x20\0\0",
        "cur": b"\0\0\2\0\1\0\x20\x20\0\0",
        "icns": b"icns",
        "psd": b"8BPS\0\1",
        "pcx": b"\n\5\1\x08",
        "sgi": b"\1\xda\1\1\0\3",
        "sun": b"\x59\xa6\x6a\x95",
        "dds": b"DDS \x7c\0\0\0",
        "qoi": b"qoif",
        "tga": b"\0\0\2\0\0\0\0\0\0\0\0\0\x08\0\6\0",
        "npy": b"\x93NUMPY\1\0",
        "hdf5": b"\x89HDF\r\n\x1a\n",
        "wav": b"RIFF\n\n\n\nWAVEfmt ",
        "flac": b"fLaC",
        "ogg": b"OggS",
        "mp3": b"\xff\xfb\x90",
        "aiff": b"FORM\n\n\n\nAIFC",
    }
    head = heads[name].ljust(16, b"\1")
    assert [other for other, format in FORMATS.items() if format.matches(head)] == [name]
    assert sniff(head) == name
