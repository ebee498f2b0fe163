"""FORMATS: which kinds of files are opened, and how. A new one is one entry.

The format of a file is known by its first bytes, never by its name: a PNG called `x.jpg` is a PNG.
"""

import io
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import IO

import cv2
import numpy as np
import PIL.BmpImagePlugin
import PIL.GifImagePlugin
import PIL.Image
import PIL.PngImagePlugin
import PIL.PpmImagePlugin
import PIL.TiffImagePlugin
import PIL.WebPImagePlugin

from dfgen.errors import DecodeError, DfgenError, reason, unreadable
from dfgen.samples.pixels.depth import as_stored
from dfgen.samples.pixels.geometry import Pixels, Size
from dfgen.samples.pixels.headers import (
    BITS_PER_SAMPLE,
    EXTRA_SAMPLES,
    Header,
    Opener,
    check_header,
    gif_header,
    jpeg_header,
    npy_header,
    pillow_header,
    png_header,
    tiff_header,
    tiff_tags,
)
from dfgen.samples.sounds import sound_header
from dfgen.samples.storage.files import Files
from dfgen.samples.storage.store import Store

CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
"""color_mode -> channels of the decoded image."""

# (channels as OpenCV decodes them, color_mode) -> conversion. OpenCV's own order is BGR.
_CONVERSIONS = {
    (1, "rgb"): cv2.COLOR_GRAY2RGB, (1, "rgba"): cv2.COLOR_GRAY2RGBA,
    (3, "rgb"): cv2.COLOR_BGR2RGB, (3, "rgba"): cv2.COLOR_BGR2RGBA,
    (3, "grayscale"): cv2.COLOR_BGR2GRAY,
    (4, "rgb"): cv2.COLOR_BGRA2RGB, (4, "rgba"): cv2.COLOR_BGRA2RGBA,
    (4, "grayscale"): cv2.COLOR_BGRA2GRAY,
}  # fmt: skip

_AS_GRAY = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
_AS_RGB = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
_REDUCED = {
    1: 0,  # RGB or gray at 1/n: the names with COLOR in them mean BGR
    2: cv2.IMREAD_REDUCED_GRAYSCALE_2,
    4: cv2.IMREAD_REDUCED_GRAYSCALE_4,
    8: cv2.IMREAD_REDUCED_GRAYSCALE_8,
}

_PNG_START = struct.Struct(">16xII9xI4s")  # width, height; length and name of the second chunk
_PNG_FRAME = 57  # bytes of a PNG beside those of its pixels, where these are in one chunk

_DISK = Files()

_PILLOW_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}


@dataclass(frozen=True)
class Format:
    """How files of one kind are known, and read.

    Whatever a reader raises is told as a broken file, but for MemoryError.

    Args:
        suffixes: that promise it, in lower case.
        begins: a regular expression that the first 16 bytes of such a file match, and of no other.
        header: `header(file, name)` reads what the file says of itself, wherever it was read to.
        decode: `decode(data, color_mode)` returns pixels as deep as the file has them: uint8,
            uint16 or float32; None: it is no image.
        values: `values(data)` returns gray levels or indices of colours, for masks; None: the
            format does not keep them.
        glance: `glance(data)` returns the upright (height, width) of most files quicker than
            `header`, or None; (0, 0) where nothing needs it.
        reduces: whether `decode(data, color_mode, reduced)` also makes 1/2, 1/4 and 1/8.
        turns: whether `decode` and `values` apply the EXIF orientation.
        holds: `"image"`, `"array"` or `"sound"`.
    """

    suffixes: tuple[str, ...]
    begins: bytes
    header: Callable[[IO[bytes], str], Header]
    decode: Callable[..., Pixels] | None = None
    values: Callable[[bytes], Pixels] | None = None
    glance: Callable[[bytes], Size | None] | None = None
    reduces: bool = False
    turns: bool = False
    holds: str = "image"
    matches: Callable[[bytes], object] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matches", re.compile(self.begins, re.DOTALL).match)


def pillow_format(suffixes: tuple[str, ...], begins: bytes, opener: Opener) -> Format:
    """Return a format that keeps every value and that Pillow reads by one of its readers."""
    return Format(
        suffixes,
        begins,
        partial(pillow_header, opener),
        partial(with_pillow, opener),
        partial(pillow_values, opener),
    )


def directly(data: bytes, color_mode: str, reduced: int = 1) -> Pixels:
    """Decode 8 bits a channel: OpenCV itself can make the colours, and a JPEG smaller."""
    flags = (_AS_GRAY if color_mode == "grayscale" else _AS_RGB) | _REDUCED[reduced]
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise ValueError("truncated or damaged")
    if color_mode == "rgba":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2RGBA)
    return _with_channels(pixels, color_mode)


def with_opencv(data: bytes, color_mode: str) -> Pixels:
    """Decode by OpenCV, which is twice as fast as Pillow where both open a format."""
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise ValueError("truncated or damaged")
    pixels = as_stored(pixels)
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if (channels, color_mode) in _CONVERSIONS:
        pixels = cv2.cvtColor(pixels, _CONVERSIONS[channels, color_mode])
    return _with_channels(pixels, color_mode)


def with_pillow(opener: Opener, data: bytes, color_mode: str) -> Pixels:
    """Decode by one of Pillow's readers."""
    image: PIL.Image.Image = opener(io.BytesIO(data))
    if image.mode[0] in "IF":  # more than 8 bits, which Pillow would clip
        return _deep(image, color_mode)
    return _with_channels(np.array(image.convert(_PILLOW_MODES[color_mode])), color_mode)


def _deep(image: PIL.Image.Image, color_mode: str) -> Pixels:
    """Return gray pixels of Pillow that are more than 8 bits."""
    pixels = np.asarray(image)
    if image.mode == "I" and image.format != "TIFF":  # 16 bits, as Pillow holds those of PNM
        pixels = pixels.astype(np.uint16)
    pixels = as_stored(pixels)
    if color_mode != "grayscale":
        pixels = cv2.cvtColor(pixels, _CONVERSIONS[1, color_mode])
    return _with_channels(pixels, color_mode)


def _with_channels(pixels: Pixels, color_mode: str) -> Pixels:
    """Give grayscale its channel."""
    return pixels if pixels.ndim == 3 else pixels.reshape(*pixels.shape, CHANNELS[color_mode])


def pillow_values(opener: Opener, data: bytes) -> Pixels:
    """Return gray levels or indices of colours as one of Pillow's readers has them."""
    image = opener(io.BytesIO(data))
    if image.mode not in ("L", "P", "1", "F") and not image.mode.startswith("I"):
        raise DecodeError(
            f"the mask is in colours ({image.mode}), whose classes are not known: give palette="
            "{(red, green, blue): class, ...}, or save it in gray levels"
        )
    return np.array(image, np.uint8) if image.mode == "1" else np.asarray(image)


def decode_png(data: bytes, color_mode: str) -> Pixels:
    """Bit depth stands at byte 24; OpenCV would cut 16 bits, and rounds gray in its own way."""
    if color_mode == "rgb" and data[24] <= 8:
        return directly(data, color_mode)
    return with_opencv(data, color_mode)


def png_values(data: bytes) -> Pixels:
    """Fewer than 8 bits of gray, OpenCV stretches to 255, which is undone here."""
    bits, kind = data[24], data[25]
    if kind != 0:
        return pillow_values(PIL.PngImagePlugin.PngImageFile, data)
    levels: Pixels | None = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if levels is None:
        raise ValueError("truncated or damaged")
    return levels if bits >= 8 else levels // (255 // (2**bits - 1))


def png_size(data: bytes) -> Size | None:
    """Return the size of a PNG without EXIF: the header is 15 % of the time of a small one."""
    if len(data) <= _PNG_START.size:
        return None
    width, height, length, name = _PNG_START.unpack_from(data)
    alone = name == b"IDAT" and length == len(data) - _PNG_FRAME
    return (height, width) if alone or b"eXIf" not in data else None


def webp_size(data: bytes) -> Size | None:
    """Spare the header, 5 % of the time: no WebP is too large, and few have EXIF."""
    return None if b"EXIF" in data else (0, 0)


def decode_tiff(data: bytes, color_mode: str) -> Pixels:
    """OpenCV would multiply 8-bit colours by their alpha; Pillow would cut 16 bits."""
    tags = tiff_tags(io.BytesIO(data))
    if EXTRA_SAMPLES in tags and tags.get(BITS_PER_SAMPLE) == 8:
        return with_pillow(PIL.TiffImagePlugin.TiffImageFile, data, color_mode)
    return with_opencv(data, color_mode)


FEATURES = {"image": "Image", "array": "Array", "sound": "Audio"}
"""What a format holds -> the feature that reads it."""

FORMATS: dict[str, Format] = {
    "jpeg": Format(
        (".jpg", ".jpeg", ".jpe", ".jfif"), rb"\xff\xd8\xff", jpeg_header, directly, reduces=True
    ),
    "png": Format((".png",), rb"\x89PNG\r\n\x1a\n", png_header, decode_png, png_values, png_size),
    "webp": replace(
        pillow_format((".webp",), rb"RIFF....WEBP", PIL.WebPImagePlugin.WebPImageFile),
        decode=with_opencv,
        glance=webp_size,
    ),
    "bmp": replace(
        pillow_format((".bmp",), rb"BM", PIL.BmpImagePlugin.BmpImageFile), decode=with_opencv
    ),
    # OpenCV opens GIF only in newer versions, and of PNM ignores the maximum that a header gives
    "gif": replace(
        pillow_format((".gif",), rb"GIF8[79]a", PIL.GifImagePlugin.GifImageFile), header=gif_header
    ),
    "tiff": replace(
        pillow_format((".tif", ".tiff"), rb"II\*\0|MM\0\*", PIL.TiffImagePlugin.TiffImageFile),
        header=tiff_header,
        decode=decode_tiff,
        turns=True,
    ),
    "pnm": pillow_format(
        (".ppm", ".pgm", ".pbm", ".pnm"), rb"P[1-6]\s", PIL.PpmImagePlugin.PpmImageFile
    ),
    "npy": Format((".npy",), rb"\x93NUMPY", npy_header, holds="array"),
    # many samples, of which it tells only where it is opened as a whole: no file of a folder
    "hdf5": Format((), rb"\x89HDF\r\n\x1a\n", lambda file, name: Header(name), holds="array"),
    "wav": Format((".wav",), rb"(RIFF|RF64)....WAVE", sound_header, holds="sound"),
    "flac": Format((".flac",), rb"fLaC", sound_header, holds="sound"),
    "ogg": Format((".ogg", ".oga", ".opus"), rb"OggS", sound_header, holds="sound"),
    "mp3": Format((".mp3",), rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", sound_header, holds="sound"),
    "aiff": Format((".aif", ".aiff", ".aifc"), rb"FORM....AIF[FC]", sound_header, holds="sound"),
}
"""Name -> how files of the format are known, and read."""


def formats_by_suffix() -> dict[str, str]:
    """Return suffix, in lower case -> the name of the format that it promises."""
    return {suffix: name for name, format in FORMATS.items() for suffix in format.suffixes}


def sniff(head: bytes) -> str:
    """Return the name of the format that the first 16 bytes of a file announce.

    Raises:
        DecodeError: it is none that is opened.
    """
    name = _announced(head)
    return name if name in FORMATS else _announced.__wrapped__(head)


@lru_cache  # the first bytes of most files are the same
def _announced(head: bytes) -> str:
    for name, format in FORMATS.items():
        if format.matches(head):
            return name
    raise DecodeError(
        f"not an image, array or sound that dfgen opens: the file begins with {head[:8]!r}. "
        f"Formats: {', '.join(sorted(set(formats_by_suffix().values())))}"
    )


def read_header(path: str, store: Store = _DISK) -> Header:
    """Read what a file says of itself, without decoding it.

    Raises:
        MissingFileError: there is no such file.
        DecodeError: it is empty, of no known format, or its header is broken.
    """
    with open_known(path, store) as (file, name):
        return parse_header(file, name)


@contextmanager
def open_known(path: str, store: Store) -> Iterator[tuple[IO[bytes], str]]:
    """Give an open file and the name of its format.

    Raises:
        MissingFileError: there is no such file.
        DecodeError: it is empty, of no known format, or cannot be read.
    """
    try:
        with store.open(path) as file:
            head = file.read(16)
            if not head:
                raise DecodeError("the file is empty (0 bytes)")
            yield file, sniff(head)
    except (DfgenError, MemoryError):
        raise
    except Exception as error:  # of a store, which may be anybody's
        raise unreadable(error) from error


def parse_header(file: IO[bytes], name: str) -> Header:
    """Read the header of an open file of this format, and check that it can be true.

    Raises:
        DecodeError: it cannot, or its reader has raised whatever there is but MemoryError.
    """
    try:
        header = FORMATS[name].header(file, name)
        check_header(header)
    except (DecodeError, MemoryError):
        raise
    except (struct.error, KeyError) as error:
        raise DecodeError(f"broken {name} header: cut short, or not {name} at all") from error
    except Exception as error:
        raise DecodeError(f"broken {name} header: {reason(error)}") from error
    return header
