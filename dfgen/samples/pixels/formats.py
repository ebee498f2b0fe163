"""FORMATS: which kinds of files are opened, and how. A new one is one entry.

The format of a file is known by its first bytes, never by its name: a PNG called `x.jpg` is a PNG.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import IO, TypeVar

from PIL.BmpImagePlugin import BmpImageFile
from PIL.CurImagePlugin import CurImageFile
from PIL.DdsImagePlugin import DdsImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.IcnsImagePlugin import IcnsImageFile
from PIL.IcoImagePlugin import IcoImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.PcxImagePlugin import PcxImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.PsdImagePlugin import PsdImageFile
from PIL.QoiImagePlugin import QoiImageFile
from PIL.SunImagePlugin import SunImageFile
from PIL.TgaImagePlugin import TgaImageFile
from PIL.WebPImagePlugin import WebPImageFile

from dfgen.errors import DecodeError, DfgenError, raise_broken, unreadable
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels.fast_decoders import (
    check_scans,
    decode_jpeg,
    decode_png,
    decode_webp,
    png_values,
    webp_glance,
)
from dfgen.samples.pixels.geometry import Pixels
from dfgen.samples.pixels.headers import (
    Header,
    Opener,
    check_decoded,
    check_header,
    gif_header,
    jpeg_header,
    npy_header,
    pillow_header,
    png_glance,
    png_header,
    tiff_header,
)
from dfgen.samples.pixels.pillow_decoders import (
    avif,
    decode_pnm,
    heif,
    jpeg2000_header,
    pillow_values,
    pnm_header,
    sgi,
    with_pillow,
)
from dfgen.samples.pixels.sound_files import sound_header
from dfgen.samples.pixels.tiff_decoder import decode_tiff, tiff_values
from dfgen.samples.stores.local_files import Files
from dfgen.samples.stores.store import Store
from dfgen.table.file_columns import Content

_DRAWN = "which draws instead of holding pixels: convert it to PNG"
_RAW = "the raw file of a camera: develop it, and save it as PNG or TIFF"
_VIDEO = "a video: save its frames as images"

_REFUSED = [
    (rb"%!PS|\xc5\xd0\xd3\xc6", f"an EPS or PostScript file, {_DRAWN}"),
    (rb"%PDF", f"a PDF file, {_DRAWN}"),
    (rb"\xd7\xcd\xc6\x9a|[\x01\x02]\x00\t\x00\x00[\x01\x03]", f"a WMF file, {_DRAWN}"),
    (rb"\x01\x00\x00\x00[\x58-\xff]\x00\x00\x00", f"an EMF file, {_DRAWN}"),
    (rb"(?i)\s*<(svg|!doctype svg)", f"an SVG file, {_DRAWN}"),
    (rb"(\xef\xbb\xbf)?\s*<\?xml", f"an XML file; if it is an SVG, {_DRAWN}"),
    (
        rb"(?i)\s*<(!doctype html|html|head)",
        "a page of HTML: the image was not what was downloaded",
    ),
    (rb"II\*\x00....CR|FUJIFILMCCD-RAW|IIR[OS]|IIU\x00", _RAW),
    (rb"\xff\x0a|\x00\x00\x00\x0cJXL ", "a JPEG XL file, which is not opened: convert it to PNG"),
    (rb"v/1\x01", "an OpenEXR file, which is not opened: save it as a TIFF of floats"),
    (rb"#\?RADIANCE", "a Radiance HDR file, which is not opened: save it as a TIFF of floats"),
    (rb"8BPS\x00\x02", "a PSB file (large Photoshop), which is not opened: save it as PNG"),
    (rb"gimp xcf", "a GIMP file, which is not opened: export it as PNG"),
    (rb"\x8a[MJ]NG", "an MNG or JNG file, which is not opened: convert it to PNG"),
    (rb"P7\n", "a PAM file, which is not opened: convert it to PNG"),
    (rb"RIFF....AVI |....ftyp(isom|iso2|mp4.|avc1|qt  |M4V )|\x1aE\xdf\xa3", _VIDEO),
    (rb"PK\x03\x04|\x1f\x8b|Rar!|7z\xbc\xaf", "an archive: unpack it first"),
]

_REFUSALS = [(re.compile(begins, re.DOTALL).match, text) for begins, text in _REFUSED]


def why_refused(head: bytes) -> str | None:
    """Return why a file that begins like this is not opened, where that is known."""
    return next((text for matches, text in _REFUSALS if matches(head)), None)


Read = TypeVar("Read")

_DISK = Files()

# type of the image, and its table of colours or none; width, height, not 0 (Truevision TGA 2.0)
TGA = (
    rb".(\x00[\x02\x03\x0a\x0b]\x00{5}|\x01[\x01\x09]..[\x00-\xff][\x00\x01][\x0f\x10\x18\x20])"
    rb"....(?!\x00\x00)..(?!\x00\x00).."
)


@dataclass(frozen=True)
class Format:
    """How files of one kind are known, and read. All that a reader raises is told as a broken file.

    Args:
        suffixes: that promise it, in lower case.
        begins: a regular expression that the first 16 bytes of such a file match, and of no other.
        header: `header(file, name, limits)` reads what the file says of itself.
        decode: `decode(data, color_mode)` returns pixels as deep as the file has them: uint8,
            uint16 or float32; None: it is no image.
        values: `values(data)` returns gray levels or indices of colours, for masks; None: the
            format does not keep them.
        glance: `glance(data)` quickly returns the header of most files that nothing turns, or None.
        guard: `guard(data, header, limits)` refuses what the header does not tell, and returns the
            header that then counts.
        reduces: whether `decode(data, color_mode, reduced)` also makes 1/2, 1/4 and 1/8.
        holds: `"image"`, `"array"` or `"sound"`.
    """

    suffixes: tuple[str, ...]
    begins: bytes
    header: Callable[[IO[bytes], str, Limits], Header]
    decode: Callable[..., Pixels] | None = None
    values: Callable[[bytes], Pixels] | None = None
    glance: Callable[[bytes], Header | None] | None = None
    guard: Callable[[bytes, Header, Limits], Header] | None = None
    reduces: bool = False
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


FEATURES = {"image": "Image", "array": "Array", "sound": "Audio"}
"""Content of a format -> the feature that reads it."""

DECODERS = 1
"""The version of what the decoders make of files: one more for every change of a pixel."""

FORMATS: dict[str, Format] = {
    "jpeg": Format(
        (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"),
        rb"\xff\xd8\xff",
        jpeg_header,
        decode_jpeg,
        guard=check_scans,
        reduces=True,
    ),
    "png": Format(
        (".png", ".apng"), rb"\x89PNG\r\n\x1a\n", png_header, decode_png, png_values, png_glance
    ),
    "webp": replace(
        pillow_format((".webp",), rb"RIFF....WEBP", WebPImageFile),
        decode=decode_webp,
        glance=webp_glance,
    ),
    "bmp": pillow_format((".bmp", ".dib"), rb"BM", BmpImageFile),
    "gif": replace(pillow_format((".gif",), rb"GIF8[79]a", GifImageFile), header=gif_header),
    "tiff": Format(
        (".tif", ".tiff"),
        rb"II[*+]\x00(?!....CR)|MM\x00[*+]",
        tiff_header,
        decode_tiff,
        tiff_values,
    ),
    "pnm": replace(
        pillow_format((".ppm", ".pgm", ".pbm", ".pnm"), rb"P[1-6]\s", PpmImageFile),
        header=pnm_header,
        decode=decode_pnm,
    ),
    "avif": replace(pillow_format((".avif", ".avifs"), rb"....ftypavi[fs]", avif), values=None),
    "heif": replace(
        pillow_format((".heic", ".heif", ".hif"), rb"....ftyp(he[iv][cmsx]|m[is]f1)", heif),
        values=None,
    ),
    "jpeg2000": replace(
        pillow_format(
            (".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"),
            rb"\x00\x00\x00\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51\x00",
            Jpeg2KImageFile,
        ),
        header=jpeg2000_header,
    ),
    "ico": pillow_format((".ico",), rb"\x00\x00\x01\x00[^\x00]\x00", IcoImageFile),
    "cur": pillow_format((".cur",), rb"\x00\x00\x02\x00[^\x00]\x00", CurImageFile),
    "icns": pillow_format((".icns",), rb"icns", IcnsImageFile),
    "psd": pillow_format((".psd",), rb"8BPS\x00\x01", PsdImageFile),
    "pcx": pillow_format(
        (".pcx",), rb"\x0a[\x00\x02-\x05][\x00\x01][\x01\x02\x04\x08]", PcxImageFile
    ),
    "sgi": pillow_format(
        (".sgi", ".rgb", ".rgba", ".bw"), rb"\x01\xda[\x00\x01][\x01\x02]\x00[\x01-\x03]", sgi
    ),
    "sun": pillow_format((".ras",), rb"\x59\xa6\x6a\x95", SunImageFile),
    "dds": pillow_format((".dds",), rb"DDS \x7c\x00\x00\x00", DdsImageFile),
    "qoi": pillow_format((".qoi",), rb"qoif", QoiImageFile),
    "npy": Format((".npy",), rb"\x93NUMPY", npy_header, holds="array"),
    # many samples, of which it tells only where it is opened as a whole: no file of a folder
    "hdf5": Format(
        (), rb"\x89HDF\r\n\x1a\n", lambda file, name, limits: Header(name), holds="array"
    ),
    "wav": Format((".wav",), rb"(RIFF|RIFX|RF64)....WAVE", sound_header, holds="sound"),
    "flac": Format((".flac",), rb"fLaC", sound_header, holds="sound"),
    "ogg": Format((".ogg", ".oga", ".opus"), rb"OggS", sound_header, holds="sound"),
    "mp3": Format((".mp3",), rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", sound_header, holds="sound"),
    "aiff": Format((".aif", ".aiff", ".aifc"), rb"FORM....AIF[FC]", sound_header, holds="sound"),
    # no first bytes of its own, but fields that leave little choice: the last to be tried
    "tga": pillow_format((".tga", ".tpic"), TGA, TgaImageFile),
}
"""Name -> how files of the format are known, and read."""


def formats_by_suffix() -> dict[str, str]:
    """Return suffix, in lower case -> the name of the format that it promises."""
    return {suffix: name for name, format in FORMATS.items() for suffix in format.suffixes}


def sniff(head: bytes) -> str:
    """Return the format that the first 16 bytes of a file announce, or DecodeError."""
    name = _announced(head)
    return name if name in FORMATS else _announced.__wrapped__(head)


@lru_cache  # the first bytes of most files are the same
def _announced(head: bytes) -> str:
    for name, format in FORMATS.items():
        if format.matches(head):
            return name
    raise DecodeError(
        why_refused(head)
        or f"not an image, array or sound that dfgen opens: the file begins with {head[:8]!r}. "
        f"Formats: {', '.join(sorted(set(formats_by_suffix().values())))}"
    )


def read_header(path: Content, store: Store = _DISK) -> Header:
    """Read what a file says of itself, without decoding it; raises as `read_known`."""
    return read_known(path, store, partial(parse_header, limits=store.limits))


def read_known(path: Content, store: Store, read: Callable[[IO[bytes], str], Read]) -> Read:
    """Return what `read(file, format)` makes of a file and the name of its format.

    Raises:
        MissingFileError: there is no such file.
        DecodeError: it is empty, of no known format, or cannot be read.
    """
    try:
        with store.open(path) as file:
            head = file.read(16)
            if not head:
                raise DecodeError("the file is empty (0 bytes)")
            return read(file, sniff(head))
    except (DfgenError, MemoryError):
        raise
    except Exception as error:  # of a store, which may be anybody's
        raise unreadable(error) from error


def parse_header(file: IO[bytes], name: str, limits: Limits = DEFAULT) -> Header:
    """Read the header of an open file, and check that it can be true and within `limits`."""
    try:
        header = FORMATS[name].header(file, name, limits)
        check_header(header)
        check_decoded(header, limits, reduced=8 if FORMATS[name].reduces else 1)
    except (struct.error, KeyError) as error:
        raise DecodeError(f"broken {name} header: cut short, or not {name} at all") from error
    except Exception as error:
        raise_broken(f"{name} header", error)
    return header
