"""A format of files is one entry of FORMATS: all else follows from it."""

import io

import numpy as np
import PIL.features
import PIL.PcxImagePlugin
import pytest
from PIL import Image

import dfgen
from dfgen.errors import DecodeError
from dfgen.samples.pixels.formats import FORMATS, pillow_format, sniff
from dfgen.samples.pixels.upright import decode

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
CLASSES = np.random.default_rng(1).integers(0, 5, (6, 8), dtype=np.uint8)


def lossless(pixels, path, **options):
    Image.fromarray(pixels).save(path, path.suffix[1:], **options)


@pytest.fixture
def pcx(monkeypatch):
    added = pillow_format((".pcx",), rb"\x0a[\x00-\x05]\x01", PIL.PcxImagePlugin.PcxImageFile)
    monkeypatch.setitem(FORMATS, "pcx", added)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "imgs").mkdir()
    (tmp_path / "masks").mkdir()
    for name in ("a", "b"):
        lossless(PIXELS, tmp_path / "imgs" / f"{name}.pcx")
        lossless(CLASSES, tmp_path / "masks" / f"{name}.pcx")
    return tmp_path


def test_a_format_from_outside_is_one_entry(folder, pcx):
    frame = dfgen.build_manifest(folder / "imgs")
    assert frame["path"].tolist() == [f"{folder}/imgs/{name}.pcx" for name in ("a", "b")]
    facts = frame[["format", "width", "height", "channels", "orientation"]]
    assert facts.to_numpy().tolist() == [["pcx", 8, 6, 3, 1]] * 2
    assert frame["problem"].isna().all()

    masks = [path.replace("imgs", "masks") for path in frame["path"]]
    x, y = dfgen.Image("path", size=(6, 8)), dfgen.Mask("mask")
    with dfgen.Sequence(frame.assign(mask=masks), x, y, batch_size=2) as seq:
        images, classes = (np.asarray(array) for array in seq[0])
    np.testing.assert_array_equal(images, [PIXELS] * 2)
    np.testing.assert_array_equal(classes[..., 0], [CLASSES] * 2)


def test_a_bare_column_of_its_files_is_images(folder, pcx):
    frame = dfgen.build_manifest(folder / "imgs", facts="none").drop(columns="id")
    frame = frame.rename(columns={"path": "scan"}).assign(id=[1, 2])
    options = {"image_size": (6, 8), "batch_size": 2, "label_mode": None}
    with dfgen.Sequence(frame, "scan", **options) as seq:
        np.testing.assert_array_equal(np.asarray(seq[0][0]), [PIXELS] * 2)


def test_without_its_entry_no_file_of_it_is_opened(folder):
    with pytest.raises(DecodeError) as caught:
        decode((folder / "imgs" / "a.pcx").read_bytes())
    assert str(caught.value) == (
        "not an image, array or sound that dfgen opens: the file begins with "
        r"b'\n\x05\x01\x08\x00\x00\x00\x00'. Formats: "
        "aiff, bmp, flac, gif, jpeg, mp3, npy, ogg, png, pnm, tiff, wav, webp"
    )


def test_a_broken_file_of_it_is_told_by_its_name(folder, pcx):
    data = (folder / "imgs" / "a.pcx").read_bytes()
    with pytest.raises(DecodeError) as caught:
        decode(data[:100])
    assert str(caught.value).startswith("broken pcx")


@pytest.mark.skipif("avif" not in PIL.features.get_supported(), reason="this Pillow opens no AVIF")
def test_avif_through_pillow(monkeypatch, tmp_path):
    from PIL.AvifImagePlugin import AvifImageFile

    added = pillow_format((".avif",), rb"....ftypavi[fs]", AvifImageFile)
    monkeypatch.setitem(FORMATS, "avif", added)
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, "AVIF", quality=100, subsampling="4:4:4")
    assert np.abs(decode(file.getvalue()).astype(int) - PIXELS).max() < 8
    (tmp_path / "a.avif").write_bytes(file.getvalue())
    [facts] = dfgen.build_manifest(tmp_path)[["format", "height", "width"]].to_numpy().tolist()
    assert facts == ["avif", 6, 8]


@pytest.mark.parametrize("name", FORMATS)
def test_first_bytes_are_those_of_one_format_alone(name):
    begins = {"tiff": b"MM\0*", "gif": b"GIF89a", "pnm": b"P6\n", "webp": b"RIFF\n\n\n\nWEBP"}
    heads = {
        **begins,
        "jpeg": b"\xff\xd8\xff\xe0",
        "png": b"\x89PNG\r\n\x1a\n",
        "bmp": b"BM6",
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
