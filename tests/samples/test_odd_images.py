"""A thousand odd files: each decodes to what the others see in it, or says what is wrong with it.

The reference is Pillow, turned by `ImageOps.exif_transpose` and converted as `decode` says. Where
it errs, a verdict below names who is right: tifffile, OpenCV, or the array that was encoded.
"""

import io
import pickle
import re
import subprocess
import sys
import threading
import warnings

import cv2
import numpy as np
import pytest
from messages import message_of
from odd_images import (
    CANNOT_TURN,
    DEEP,
    NOISE,
    SMOOTH,
    chunk,
    damaged_files,
    exif,
    files,
    itxt,
    picture,
    pillow_heif,
    png_with,
    raw_profile,
    saved,
    xmp,
)
from PIL import Image, ImageOps

from dfgen.errors import DecodeError
from dfgen.samples.pixels.formats import parse_header, sniff
from dfgen.samples.pixels.geometry import CHANNELS
from dfgen.samples.pixels.headers import UNWARNED, Header
from dfgen.samples.pixels.upright import decode, decode_reduced, decode_values

PILLOW_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}

LARGE = 10**6  # pixels; a header may claim what takes seconds to fill with zeros

REFUSED = {  # beginning of a name -> what is said of the file
    "tiff-LAB": "the TIFF has 3 samples a pixel, uint8, in a way that is not opened",
    "tiff-I-": "the image has 32 bits a channel, not 8",
    "tiff-F-": "the image has 32 bits a channel, not 8",
}


def of_another(name):
    """Return the name of the file whose pixels a file has."""
    if name == "png-bad-clear":  # libpng leaves a wrong tRNS alone, Pillow refuses the file
        return "png-RGB-level-9"
    # older versions of Pillow know of no XMP, newer ones read the first digit of 65535 alone
    if re.match("(jpeg|png|webp|tiff)-(packed-)?xmp-", name):
        return re.sub("(packed-)?xmp", "turned-raw-RGB" if name[0] == "t" else "exif", name)
    return name


def reference(data, color_mode="rgb"):
    """Return what Pillow sees in a file, or None where it refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = opened(data)
            image.load()
            image = ImageOps.exif_transpose(image)
    except Exception:
        return None
    if image.mode[0] in "IF":
        return np.asarray(image).astype(float)[..., None] / 257
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("La", "RGBa"):
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    pixels = np.array(image.convert(PILLOW_MODES[color_mode]))
    return pixels.reshape(*pixels.shape[:2], -1)


def opened(data):
    if data[4:8] == b"ftyp" and b"avif" not in data[8:40]:
        return pytest.importorskip("pillow_heif").open_heif(io.BytesIO(data)).to_pillow()
    return Image.open(io.BytesIO(data))


def tolerance(data, color_mode):
    """Return 1 for rounding: of gray made of colours, and of 16 bits, of which Pillow drops 8.

    OpenCV and Pillow turn CMYK of a JPEG into colours by different roundings: 2.
    """
    header = read(data)
    if header.format == "jpeg" and header.channels == 4:
        return 2
    return int(color_mode == "grayscale" or (header.bits or 8) > 8)


def read(data) -> Header:
    return parse_header(io.BytesIO(data), sniff(data[:16]))


@pytest.fixture(scope="module", autouse=True)
def _corpus():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # writers warn of what they are asked for
        assert len(files()) > 500
        assert sum(map(len, damaged_files().values())) > 400


OWN_REFERENCE = ("tifffile", "heif", "avif-turned", "avif-xmp")  # tests below say which


@pytest.mark.slow
def test_each_file_is_decoded_as_pillow_sees_it():
    for name in files():
        if not name.startswith(OWN_REFERENCE):
            assert_decoded_as_pillow_sees_it(name)


def assert_decoded_as_pillow_sees_it(name):
    data = files()[of_another(name)]
    said = next((said for start, said in REFUSED.items() if name.startswith(start)), None)
    if said is not None:
        with pytest.raises(DecodeError, match=said):
            decode(data)
        return
    for color_mode, channels in CHANNELS.items():
        expected = reference(data, color_mode)
        if expected is None:
            with pytest.raises(DecodeError):
                decode(data, color_mode)
            continue
        pixels = decode(files()[name], color_mode)
        assert (pixels.dtype, pixels.shape) == (np.uint8, (*expected.shape[:2], channels))
        shown = pixels[..., :3] if expected.shape[2] == 1 else pixels
        assert np.abs(shown - expected.astype(float)).max() <= tolerance(data, color_mode)
        assert read(files()[name]).size == pixels.shape[:2]


def test_each_tiff_is_decoded_as_tifffile_sees_it():
    tifffile = pytest.importorskip("tifffile")
    for name in [name for name in files() if name.startswith("tifffile")]:
        assert_decoded_as_tifffile_sees_it(tifffile, name)


def assert_decoded_as_tifffile_sees_it(tifffile, name):
    """Or refused as one that is not opened: several samples that are neither 8 nor 16 bits."""
    data = files()[name]
    try:
        pixels = decode_reduced(data, "rgba", lambda size: 1, "float32")[0]
    except DecodeError as error:
        assert "in a way that is not opened" in str(error)
        assert not name.startswith(("tifffile-u1x1", "tifffile-u1x3", "tifffile-u1x4"))
        assert not name.startswith(("tifffile-u2x1", "tifffile-f4x1", "tifffile-u4x1-contig-<"))
        return
    stored = tifffile.imread(io.BytesIO(data), key=0)
    stored = stored[..., None] if stored.ndim == 2 else stored
    if stored.shape[2] == pixels.shape[1]:  # planes first
        stored = np.moveaxis(stored, 0, -1)
    colours = stored.shape[2] if stored.shape[2] in (3, 4) else 1
    np.testing.assert_array_equal(pixels[..., :colours], stored[..., :colours])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["avif", "heif"])
def test_avif_and_heic_are_turned_once(format, orientation):
    """As they were before they were encoded: `irot` and `imir` and EXIF all tell of it."""
    name = f"{format}-{'turned' if format == 'avif' else 'RGB'}-{orientation}"
    if name not in files():
        pytest.skip(f"nothing here writes {format}")
    if format == "heif" and orientation > 1 and pillow_heif.libheif_version() in CANNOT_TURN:
        with pytest.raises(DecodeError, match="a turned or mirrored HEIC file"):
            decode(files()[name])
        return
    image = picture("RGB", SMOOTH)
    if format == "heif":
        image = image.resize((64, 48))
    image.info["exif"] = exif(orientation)
    upright = np.array(ImageOps.exif_transpose(image))
    assert decode(files()[name]).shape == upright.shape
    assert np.abs(decode(files()[name]) - upright.astype(float)).mean() < 8
    header = read(files()[name])
    assert header.size == upright.shape[:2]


def test_xmp_does_not_turn_an_avif():
    """The format says so, and browsers do as it says; Pillow turns it."""
    if "avif-xmp-6" not in files():
        pytest.skip("nothing here writes avif")
    assert decode(files()["avif-xmp-6"]).shape == (*SMOOTH.shape[:2], 3)


@pytest.mark.parametrize("name", ["png-opencv-3x16", "png-interlaced-3x16", "pnm-deep-rgb"])
def test_16_bits_of_several_channels_are_kept(name):
    pixels = decode_reduced(files()[name], "rgb", lambda size: 1, "uint16")[0]
    np.testing.assert_array_equal(pixels, DEEP[..., :3])


def test_each_damaged_file_is_refused_or_decoded_as_others_do():
    every = [(name, way) for name, ways in damaged_files().items() for way in ways]
    for name, way in every:
        data = damaged_files()[name][way]
        try:
            size = read(data).size
            if np.prod(size) > LARGE:
                continue
            pixels = decode(data)
        except DecodeError as error:
            assert str(error) and "\n" not in str(error)
            continue
        expected = reference(data)
        if expected is None:  # then OpenCV took it
            colours = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
            expected = np.sort(colours[..., :3].reshape(-1, 3))
            pixels = np.sort(pixels.reshape(-1, 3))
            expected, pixels = (np.sort(values, 0) for values in (expected, pixels))
        else:
            assert pixels.shape[:2] == expected.shape[:2], (name, way)
            # libheif believes the coded pixels rather than the header
            assert size == pixels.shape[:2] or name.startswith("heif"), (name, way)
        assert np.abs(pixels - expected.astype(float)).max() <= tolerance(data, "rgb"), (name, way)


@pytest.mark.parametrize("place", [b"\xff\xdb", b"\xff\xd0"], ids=["header", "pixels"])
def test_stray_bytes_do_not_hide_that_a_jpeg_is_cut_short(place):
    whole = saved(picture("RGB", SMOOTH), "JPEG", restart_marker_blocks=2)
    stray = whole.replace(place, b"\0\0\0" + place, 1)
    np.testing.assert_array_equal(decode(stray), decode(whole))
    with pytest.raises(DecodeError, match=r"broken jpeg file: .*(truncated|Premature)"):
        decode(stray[:-60])


def damaged_jpeg_tiff():
    """A TIFF packed as JPEG, whose end marker stands amid its pixels."""
    data = files()["tiff-RGB-jpeg"]
    return data[:400] + b"\xff\xd9" + data[402:]


def test_a_tiff_of_which_libtiff_complains_is_refused_in_its_words():
    with pytest.raises(DecodeError) as caught:
        decode(damaged_jpeg_tiff())
    assert str(caught.value) == "broken tiff file: Corrupt JPEG data: premature end of data segment"


def test_a_tiff_of_which_libtiff_complains_is_refused_in_each_of_many_threads():
    """libtiff has one function for the warnings of all threads, which Pillow takes away."""
    whole = files()["tiff-RGB-tiff_lzw"]
    refused, kept = [], []

    def decode_both():
        for _ in range(50):
            kept.append(decode(whole).tobytes())
            with pytest.raises(DecodeError, match="Corrupt JPEG data"):
                decode(damaged_jpeg_tiff())
            refused.append(True)

    threads = [threading.Thread(target=decode_both) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 200
    assert set(kept) == {decode(whole).tobytes()}


def test_a_tiff_of_planes_that_are_no_colours_is_refused():
    tifffile = pytest.importorskip("tifffile")
    file = io.BytesIO()
    planes = np.stack([NOISE[..., 0]] * 5)
    tifffile.imwrite(file, planes, photometric="minisblack", planarconfig="separate")
    assert message_of(DecodeError, decode, file.getvalue()) == (
        "the TIFF has 5 samples in planes, uint8, in a way that is not opened: save it as a .npy "
        "file, for dfgen.Array, or as another kind of TIFF"
    )


READ_ALL = """
import pickle, sys
from dfgen.errors import DecodeError
from dfgen.samples.pixels.formats import read_header
from dfgen.samples.pixels.upright import decode, decode_values

def tried(read, *args):
    try:
        read(*args)
    except DecodeError:
        pass

files = pickle.load(sys.stdin.buffer)
for data in files.values():
    for color_mode in ("rgb", "rgba", "grayscale"):
        tried(decode, data, color_mode)
    tried(decode_values, data)
    with open(sys.argv[1], "wb") as file:
        file.write(data)
    tried(read_header, sys.argv[1])
print(len(files))
"""


def written_to_stderr(tmp_path, corpus):
    """Return what a fresh Python writes while it decodes files in every way."""
    command = [sys.executable, "-W", "always", "-c", READ_ALL, str(tmp_path / "file")]
    run = subprocess.run(command, input=pickle.dumps(corpus), capture_output=True, check=True)
    assert int(run.stdout) == len(corpus)
    return run.stderr.decode()


def is_large(data):
    try:
        return np.prod(read(data).size) > LARGE
    except DecodeError:
        return False


def damaged():
    return {
        f"{name}-{way}": data
        for name, ways in damaged_files().items()
        for way, data in ways.items()
        if not is_large(data)
    }


@pytest.mark.slow
def test_nothing_reaches_stderr(tmp_path):
    assert written_to_stderr(tmp_path, {**files(), **damaged()}) == ""


def test_warnings_are_kept_from_the_thread_that_decodes_alone():
    heard = []

    def warn_elsewhere():
        with pytest.warns(UserWarning, match="mine"):
            warnings.warn("mine", stacklevel=1)
        heard.append(True)

    with UNWARNED:
        thread = threading.Thread(target=warn_elsewhere)
        thread.start()
        thread.join()
        with UNWARNED:
            warnings.warn("of a decoder", stacklevel=1)
        warnings.warn("of a decoder", stacklevel=1)
    assert heard == [True]
    with pytest.warns(UserWarning, match="after"):
        warnings.warn("after", stacklevel=1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("turn", [chunk(b"eXIf", exif(6)[6:]), itxt(xmp(6)), raw_profile(exif(6))])
def test_a_mask_is_turned_as_its_image(turn, after):
    plain = files()["png-L-level-9"]
    mask = decode_values(png_with(plain, turn, after_pixels=after))
    np.testing.assert_array_equal(mask, np.rot90(decode_values(plain), -1))


REFUSED_BY_NAME = {
    b"%!PS-Adobe-3.0 EPSF-3.0\n": "an EPS or PostScript file, which draws instead of holding "
    "pixels: convert it to PNG",
    b"%PDF-1.7\n": "a PDF file, which draws instead of holding pixels: convert it to PNG",
    b"\xd7\xcd\xc6\x9a\0\0": "a WMF file, which draws instead of holding pixels: convert it to PNG",
    b"\1\0\0\0\x6c\0\0\0": "an EMF file, which draws instead of holding pixels: convert it to PNG",
    b"<svg xmlns=": "an SVG file, which draws instead of holding pixels: convert it to PNG",
    b"<!DOCTYPE html>": "a page of HTML: the image was not what was downloaded",
    b"\xff\x0a\xfa\x7f": "a JPEG XL file, which is not opened: convert it to PNG",
    b"II*\0\x10\0\0\0CR\2\0": "the raw file of a camera: develop it, and save it as PNG or TIFF",
    b"\0\0\0\x18ftypmp42": "a video: save its frames as images",
}


@pytest.mark.parametrize("head", REFUSED_BY_NAME)
def test_what_draws_or_is_no_image_is_refused_by_name(head):
    assert message_of(DecodeError, decode, head + bytes(100)) == REFUSED_BY_NAME[head]


def test_heic_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    assert message_of(DecodeError, decode, b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)) == (
        'a HEIC file, which needs pillow-heif: pip install "keras-dfgen[heif]"'
    )
