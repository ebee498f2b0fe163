"""FORMATS: which kinds of files are opened, and how. A new one is one entry.

The format of a file is known by its first bytes, never by its name: a PNG called `x.jpg` is a PNG.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import IO, Any, TypeVar

from dfgen.errors import DecodeError, DfgenError, raise_broken, unreadable
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels import headers
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.pillow_readers import ImageReader, avif, frames_of, heif, open_image, tiff
from dfgen.samples.pixels.sounds import sound_header
from dfgen.stores.array_files import array_header
from dfgen.stores.local_files import Files
from dfgen.stores.store import Store
from dfgen.table.file_columns import Content

Read = TypeVar("Read")

DECODERS = 1
"""The version of what the decoders make of files: one more for every change of a pixel."""

FEATURES = {"image": "Image", "array": "Array", "sound": "Audio"}
"""Content of a format -> the feature that reads it."""

_DISK = Files()
_REFUSED = {
    rb"%!PS|\xc5\xd0\xd3\xc6|%PDF|\xd7\xcd\xc6\x9a|(?i:\s*<(svg|!doctype svg))|"
    rb"(\xef\xbb\xbf)?\s*<\?xml": "a drawing (EPS, PDF, WMF, SVG): convert it to PNG",
    rb"(?i)\s*<(!doctype html|html|head)": "a page of HTML: the image was not what was downloaded",
    rb"RIFF....AVI |....ftyp(isom|iso2|mp4.|avc1|qt  |M4V )|\x1aE\xdf\xa3|PK\x03\x04|\x1f\x8b|"
    rb"Rar!|7z\xbc\xaf": "a video or an archive: save its frames as images, or unpack it, first",
}
# type of the image, and its table of colours or none; width, height, not 0 (Truevision TGA 2.0)
_TGA = (
    rb".(\x00[\x02\x03\x0a\x0b]\x00{5}|\x01[\x01\x09]..[\x00-\xff][\x00\x01][\x0f\x10\x18\x20])"
    rb"....(?!\x00\x00)..(?!\x00\x00).."
)


@dataclass(frozen=True)
class Format:
    """How files of one kind are known, and read."""

    suffixes: tuple[str, ...]  # that promise it, in lower case
    begins: bytes  # a regular expression that the first 16 bytes of such a file match
    reader: Any = None  # opens an image by Pillow
    parse: Callable[[bytes], Header] | None = None  # reads its header; None: the reader does
    holds: str = "image"  # or "array", "sound"
    keeps_values: bool = True  # whether pixels are as they were saved, as masks need it


def _pillow(name: str) -> ImageReader:
    """Return a reader of Pillow, which is imported when it is first needed."""
    return lambda file: getattr(import_module(f"PIL.{name}ImagePlugin"), f"{name}ImageFile")(file)


FORMATS: dict[str, Format] = {
    "jpeg": Format(
        (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), rb"\xff\xd8\xff", _pillow("Jpeg"),
        headers.jpeg_header, keeps_values=False,
    ),
    "png": Format((".png", ".apng"), rb"\x89PNG\r\n\x1a\n", _pillow("Png"), headers.png_header),
    "webp": Format((".webp",), rb"RIFF....WEBP", _pillow("WebP"), headers.webp_header),
    "bmp": Format((".bmp", ".dib"), rb"BM", _pillow("Bmp")),
    "gif": Format((".gif",), rb"GIF8[79]a", _pillow("Gif")),
    "tiff": Format((".tif", ".tiff"), rb"II[*+]\x00(?!....CR)|MM\x00[*+]", tiff),
    "pnm": Format((".ppm", ".pgm", ".pbm", ".pnm"), rb"P[1-6]\s", _pillow("Ppm")),
    "avif": Format((".avif", ".avifs"), rb"....ftypavi[fs]", avif, keeps_values=False),
    "heif": Format(
        (".heic", ".heif", ".hif"), rb"....ftyp(he[iv][cmsx]|m[is]f1)", heif, keeps_values=False
    ),
    "jpeg2000": Format(
        (".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"),
        rb"\x00\x00\x00\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51\x00", _pillow("Jpeg2K"),
    ),
    "ico": Format((".ico",), rb"\x00\x00\x01\x00[^\x00]\x00", _pillow("Ico")),
    "psd": Format((".psd",), rb"8BPS\x00\x01", _pillow("Psd")),
    "pcx": Format((".pcx",), rb"\x0a[\x00\x02-\x05][\x00\x01][\x01\x02\x04\x08]", _pillow("Pcx")),
    "sgi": Format(
        (".sgi", ".rgb", ".rgba", ".bw"), rb"\x01\xda[\x00\x01][\x01\x02]\x00[\x01-\x03]",
        _pillow("Sgi"),
    ),
    "dds": Format((".dds",), rb"DDS \x7c\x00\x00\x00", _pillow("Dds")),
    "qoi": Format((".qoi",), rb"qoif", _pillow("Qoi")),
    "npy": Format((".npy",), rb"\x93NUMPY", holds="array"),
    "hdf5": Format((), rb"\x89HDF\r\n\x1a\n", holds="array"),  # many samples: no file of a folder
    "wav": Format((".wav",), rb"(RIFF|RIFX|RF64)....WAVE", holds="sound"),
    "flac": Format((".flac",), rb"fLaC", holds="sound"),
    "ogg": Format((".ogg", ".oga", ".opus"), rb"OggS", holds="sound"),
    "mp3": Format((".mp3",), rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", holds="sound"),
    "aiff": Format((".aif", ".aiff", ".aifc"), rb"FORM....AIF[FC]", holds="sound"),
    # no first bytes of its own, but fields that leave little choice: the last to be tried
    "tga": Format((".tga", ".tpic"), _TGA, _pillow("Tga")),
}  # fmt: skip
"""Name -> how files of the format are known, and read."""

_MATCHES = {name: re.compile(format.begins, re.DOTALL).match for name, format in FORMATS.items()}


def formats_by_suffix() -> dict[str, str]:
    """Return suffix, in lower case -> the name of the format that it promises."""
    return {suffix: name for name, format in FORMATS.items() for suffix in format.suffixes}


def check_holds(name: str, wanted: str) -> None:
    """Refuse a format that holds something else than an image, an array or a sound."""
    holds = FORMATS[name].holds
    if holds != wanted:
        is_wrong = f"this is a .{name} {holds}, not {'an' * (wanted == 'image') or 'a'} {wanted}"
        raise DecodeError(f"{is_wrong}: use dfgen.{FEATURES[holds]} for this column")


@lru_cache  # the first bytes of most files are the same
def sniff(head: bytes) -> str:
    """Return the format that the first 16 bytes of a file announce, or DecodeError."""
    for name, matches in _MATCHES.items():
        if matches(head):
            return name
    for begins, what in _REFUSED.items():
        if re.match(begins, head, re.DOTALL):
            raise DecodeError(f"the file is {what}")
    raise DecodeError(
        f"not an image, array or sound that dfgen opens: the file begins with {head[:8]!r}. "
        f"Formats: {', '.join(FORMATS)}"
    )


def read_header(content: Content, store: Store = _DISK) -> Header:
    """Read what a file says of itself, without decoding it; raises as `read_known`."""
    return read_known(content, store, partial(parse_header, limits=store.limits))


def read_known(content: Content, store: Store, read: Callable[[IO[bytes], str], Read]) -> Read:
    """Return what `read(file, format)` makes of a file; DecodeError for what cannot be read."""
    try:
        head, file = store.begin(content)
        with file:
            if head.problem:
                raise DecodeError(f"the file cannot be read: {head.problem}")
            return read(file, announced_format(file))
    except (DfgenError, MemoryError):
        raise
    except Exception as error:  # of a store, which may be anybody's
        raise unreadable(error) from error


def announced_format(file: IO[bytes]) -> str:
    """Return the format that the begin of an open file announces."""
    head = file.read(16)
    if not head:
        raise DecodeError("the file is empty (0 bytes)")
    return sniff(head)


def header_of(file: IO[bytes], limits: Limits) -> Header:
    """Read the header of an open file of any format."""
    return parse_header(file, announced_format(file), limits)


def parse_header(file: IO[bytes], name: str, limits: Limits = DEFAULT) -> Header:
    """Read the header of an open file, and check that it can be true and within `limits`."""
    format = FORMATS[name]
    file.seek(0)
    try:
        if format.holds == "sound":
            return sound_header(file, name)
        if format.reader is None:
            if name == "npy":
                array_header(file, limits)
            return Header(name)
        if format.parse is None:
            image, header = open_image(name, format.reader, file, limits)
            return header._replace(frames=frames_of(image))
        from_file = partial(headers.from_file, format.parse)
        header = (headers.png_file_header if name == "png" else from_file)(file)
        headers.check_decoded(header, limits, reduced=8 if name == "jpeg" else 1)
        if header.frames is None:
            file.seek(0)
            header = header._replace(frames=frames_of(format.reader(file)))
        return header
    except (struct.error, IndexError, KeyError) as error:
        raise DecodeError(f"broken {name} header: cut short, or not {name} at all") from error
    except Exception as error:
        raise_broken(f"{name} header", error)
