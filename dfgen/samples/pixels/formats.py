"""FORMATS: the supported file formats; to add a format, add an entry.

The first bytes decide the format of a file, not its name: a PNG called `x.jpg` is a PNG.
"""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import IO, Any

from PIL.ImageFile import ImageFile

from dfgen.errors import DecodeError, DfgenError, raise_broken, unreadable
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels import headers
from dfgen.samples.pixels import pillow_readers as pillow
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.sounds import sound_header
from dfgen.stores.array_files import array_header
from dfgen.stores.store import Files, Store
from dfgen.table.arrow_types import Content

DECODERS = 1
"""The version of decoded pixels, part of cache keys: increase it if any pixel changes."""

FEATURES = {"image": "Image", "array": "Array", "sound": "Audio"}
"""Content of a format -> the feature that reads it."""

_DISK = Files()
_REFUSED = {
    rb"%!PS|\xc5\xd0\xd3\xc6|%PDF|\xd7\xcd\xc6\x9a|(?i:\s*<(svg|!doctype svg))|"
    rb"(\xef\xbb\xbf)?\s*<\?xml": "a drawing (EPS, PDF, WMF, SVG): convert it to PNG",
    rb"(?i)\s*<(!doctype html|html|head)": "an HTML page instead of the download",
    rb"RIFF....AVI |....ftyp(isom|iso2|mp4.|avc1|qt  |M4V )|\x1aE\xdf\xa3|PK\x03\x04|\x1f\x8b|"
    rb"Rar!|7z\xbc\xaf": "a video or an archive: save its frames as images, or unpack it, first",
}
# image type, colour map, width and height (Truevision TGA 2.0)
_TGA = (
    rb".(\x00[\x02\x03\x0a\x0b]\x00{5}|\x01[\x01\x09]..[\x00-\xff][\x00\x01][\x0f\x10\x18\x20])"
    rb"....(?!\x00\x00)..(?!\x00\x00).."
)


@dataclass(frozen=True)
class Format:
    """A file format."""

    suffixes: tuple[str, ...]  # in lower case
    begins: bytes  # regular expression for the first 16 bytes
    reader: Any = None  # opens an image by Pillow
    parse: Callable[[bytes], Header] | None = None  # parses the header; None: by the reader
    holds: str = "image"  # or "array", "sound"
    keeps_values: bool = True  # whether it is lossless, as masks need it


def _pillow(name: str) -> pillow.ImageReader:
    """Return a reader of Pillow, imported on first use."""
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
    "tiff": Format((".tif", ".tiff"), rb"II[*+]\x00(?!....CR)|MM\x00[*+]", pillow.tiff),
    "pnm": Format((".ppm", ".pgm", ".pbm", ".pnm"), rb"P[1-6]\s", _pillow("Ppm")),
    "avif": Format((".avif", ".avifs"), rb"....ftypavi[fs]", _pillow("Avif"), keeps_values=False),
    "heif": Format(
        (".heic", ".heif", ".hif"), rb"....ftyp(he[iv][cmsx]|m[is]f1)", pillow.heif,
        keeps_values=False,
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
    "hdf5": Format((), rb"\x89HDF\r\n\x1a\n", holds="array"),  # of many samples, so not in folders
    "wav": Format((".wav",), rb"(RIFF|RIFX|RF64)....WAVE", holds="sound"),
    "flac": Format((".flac",), rb"fLaC", holds="sound"),
    "ogg": Format((".ogg", ".oga", ".opus"), rb"OggS", holds="sound"),
    "mp3": Format((".mp3",), rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", holds="sound"),
    "aiff": Format((".aif", ".aiff", ".aifc"), rb"FORM....AIF[FC]", holds="sound"),
    # without a signature, so it is tried last
    "tga": Format((".tga", ".tpic"), _TGA, _pillow("Tga")),
}  # fmt: skip
"""Name -> format."""

BY_SUFFIX = {suffix: name for name, format in FORMATS.items() for suffix in format.suffixes}
"""Suffix in lower case -> name of the format."""

_MATCHES = {name: re.compile(format.begins, re.DOTALL).match for name, format in FORMATS.items()}


def check_holds(name: str, wanted: str) -> None:
    """Raise DecodeError unless a format holds an image, an array or a sound, as wanted."""
    holds = FORMATS[name].holds
    if holds != wanted:
        is_wrong = f"this is a .{name} {holds}, not {'an' * (wanted == 'image') or 'a'} {wanted}"
        raise DecodeError(f"{is_wrong}: use dfgen.{FEATURES[holds]} for this column")


@lru_cache  # the first bytes of most files are the same
def sniff(head: bytes) -> str:
    """Return the format of a file by its first 16 bytes; DecodeError if it is not supported."""
    if not head:
        raise DecodeError("the file is empty (0 bytes)")
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
    """Read the header of a file."""
    with opened(content, store) as (file, name):
        return parse_header(file, name, store.limits)


@contextmanager
def opened(content: Content, store: Store) -> Iterator[tuple[IO[bytes], str]]:
    """Open a file, as it and its format; DecodeError if it cannot be read."""
    try:
        head, file = store.begin(content)
        with file:
            if head.problem:
                raise DecodeError(f"the file cannot be read: {head.problem}")
            yield file, sniff(file.read(16))
    except (DfgenError, MemoryError):
        raise
    except Exception as error:  # of a foreign store
        raise unreadable(error) from error


def header_of(file: IO[bytes], limits: Limits) -> Header:
    """Read the header of an open file of any format."""
    return parse_header(file, sniff(file.read(16)), limits)


def parse_header(file: IO[bytes], name: str, limits: Limits = DEFAULT) -> Header:
    """Read the header of an open file of a format, and check it against `limits`."""
    file.seek(0)
    if FORMATS[name].holds == "image":
        header, image = open_image(name, file, limits)
        return header if image is None else header._replace(frames=pillow.frames_of(image))
    try:
        if FORMATS[name].holds == "sound":
            return sound_header(file, name)
        if name == "npy":
            array_header(file, limits)
    except Exception as error:
        raise_broken(f"{name} header", error)
    return Header(name)


def open_image(
    name: str, source: bytes | IO[bytes], limits: Limits
) -> tuple[Header, ImageFile | None]:
    """Read the header of an image and check it; also return Pillow's image if Pillow decodes it."""
    check_holds(name, "image")
    format = FORMATS[name]
    try:
        if format.parse is None:
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            return pillow.open_by_pillow(name, format.reader, file, limits)
        if isinstance(source, bytes):
            header = format.parse(source)
        else:
            parse = partial(headers.png_header, file=source) if name == "png" else format.parse
            header = headers.from_file(parse, source, limits)
        headers.check_decoded(header, limits, reduced=8 if name == "jpeg" else 1)
        if header.frames is not None:
            return header, None
        # OpenCV does not draw the first frame of an animation on its canvas
        file = io.BytesIO(source) if isinstance(source, bytes) else source
        file.seek(0)
        return header, format.reader(file)
    except Exception as error:
        raise_broken(f"{name} file", error)
