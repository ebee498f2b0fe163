"""The header of a file, known before it is decoded: its size, channels and orientation.

JPEG, PNG and TIFF headers are read here: every decode asks for them, so they must be quick, and a
broken EXIF block must give no warning. Pillow reads the others.
"""

import io
import re
import struct
import threading
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import IO, NamedTuple

import PIL.GifImagePlugin
import PIL.Image
import PIL.ImageFile

from dfgen.errors import DecodeError
from dfgen.limits import Limits, refuse_file
from dfgen.samples.pixels import png_files as png
from dfgen.samples.pixels import tiff_tags as tiff
from dfgen.samples.stores.npy import array_header

_GIF_READ = 2**16  # bytes of a GIF that are looked through


class _Decoding(threading.local):
    depth = 0


_THREAD = _Decoding()


class _AskThread(type):
    def __subclasscheck__(cls, category: type) -> bool:
        return _THREAD.depth > 0


class WarningOfDecoder(Warning, metaclass=_AskThread):
    """Stands in the filters for any warning of a thread that decodes."""


class _Unwarned:
    """A third of the time of a generator, which counts in the header of a small file."""

    def __enter__(self) -> None:
        if not warnings.filters or warnings.filters[0][2] is not WarningOfDecoder:
            warnings.simplefilter("ignore", WarningOfDecoder)
        _THREAD.depth += 1

    def __exit__(self, *raised: object) -> None:
        _THREAD.depth -= 1


UNWARNED = _Unwarned()
"""Ignores the warnings of this thread, and of no other, `with UNWARNED:`.

`warnings.catch_warnings` changes the filters of all threads, and two of them that overlap leave
them changed. Here one filter is added, once, that asks which thread it is.
"""


def gif_frames(file: IO[bytes]) -> int | None:
    """Walk the blocks of a GIF (GIF89a, section 12); None where too much would have to be read."""
    file.seek(0)
    data = file.read(_GIF_READ)
    place = 13 + _table(data[10])
    frames = 0
    while place < len(data):
        kind = data[place]
        if kind == 0x3B:  # the trailer
            return frames
        if kind == 0x2C:
            frames += 1
            place += 11 + _table(data[place + 9]) if place + 9 < len(data) else len(data)
        elif kind == 0x21:
            place += 2
        else:
            break
        while place < len(data) and data[place]:  # blocks of up to 255 bytes, the last is empty
            lengths = data[place::256]  # most have 255: these are passed over at once
            full = len(lengths) - len(lengths.lstrip(b"\xff"))
            place += 256 * full if full else 1 + data[place]
        place += 1
    return None if len(data) == _GIF_READ else max(frames, 1)


def _table(flags: int) -> int:
    """Return the bytes of the table of colours that flags announce."""
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


_WHOLE = {**tiff.NUMBERS, 6: "b", 8: "h", 9: "i"}  # with a sign: no camera, but some editors
_IN_XMP = re.compile(rb"tiff:Orientation\s*(?:=\s*[\"']|>)\s*([0-9]+)").search


def orientation_of(exif: bytes, xmp: bytes) -> int:
    """Return the orientation, 1 to 8, of an EXIF block or an XMP packet (EXIF 2.32, tag 0x0112).

    Neither, a broken block, or another number: 1, the pixels stay as they are.
    """
    if not exif and not xmp:
        return 1
    found = _of_exif(exif) if exif else None
    if found is None:
        told = _IN_XMP(xmp)
        found = int(told[1][:9]) if told else 1
    return known(found)


def known(orientation: int) -> int:
    """Return an orientation, or 1 for a number that is none."""
    return orientation if 1 <= orientation <= 8 else 1


def _of_exif(exif: bytes) -> int | None:
    exif = exif.removeprefix(b"Exif\0\0")
    order = ">" if exif[:2] == b"MM" else "<"
    try:
        (place,) = struct.unpack_from(order + "4xI", exif)
        (count,) = struct.unpack_from(order + "H", exif, place)
        for at in range(place + 2, place + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", exif, at)
            if tag == tiff.ORIENTATION:
                code = _WHOLE.get(kind)
                return None if code is None else struct.unpack_from(order + code, exif, at + 8)[0]
    except struct.error:
        pass  # a broken block, or what is left of one
    return None


Opener = Callable[[IO[bytes]], PIL.ImageFile.ImageFile]
"""A reader of Pillow. `PIL.Image.open` would try all of them, and warns of large images."""

_XMP_IN_JPEG = b"http://ns.adobe.com/xap/1.0/\0"
_PNG_START = struct.Struct(">IIBB3x4xI4s")  # and length and name of the chunk after the first
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # colour type -> channels; a palette is RGB
_JPEG_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_BARE_MARKERS = {b"", b"\0", b"\1", *(bytes([code]) for code in range(0xD0, 0xD9))}
"""Those without a length, and what is none."""
_ANY_PIXEL = 64  # bytes that no pixel of 8 channels of 64 bits exceeds
_PIECE = 64  # bytes that each strip or tile of a TIFF counts for
_STEP = 2**10  # bytes that each of many pieces counts for, as none takes no time
_STRAY = 2**13  # bytes that are looked through at once


class Header(NamedTuple):
    """The header of a file, known before it is decoded.

    Width, height and channels are as stored, `orientation` (EXIF) tells how to turn them; `bits`
    are those of a channel, or of the colours of a palette; `frames` None would have to be looked
    for. Sounds have channels, `frames` and `sample_rate`. `progressive` is a JPEG of many scans.
    """

    format: str
    width: int | None = None
    height: int | None = None
    channels: int | None = None
    orientation: int = 1
    bits: int | None = None
    frames: int | None = None
    sample_rate: int | None = None
    progressive: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image when it is turned upright."""
        size = (self.height or 0, self.width or 0)
        return size[::-1] if self.orientation >= 5 else size


def check_header(header: Header) -> None:
    """Refuse a header that no image has; those of arrays tell no size."""
    width, height = header.width, header.height
    if width is not None and height is not None and (width < 1 or height < 1):
        raise DecodeError(f"the image is {width} x {height}: it has no pixels")
    if not 1 <= header.orientation <= 8:
        raise DecodeError(f"the header has orientation {header.orientation}, expected 1 to 8")


def check_decoded(
    header: Header, limits: Limits, channels: int = 1, reduced: int = 1, what: str = "the image"
) -> None:
    """Refuse an image whose pixels take more than `limits.decoded_bytes`.

    Args:
        header: of the file.
        limits: what one file may ask for.
        channels: that are made of it, at least.
        reduced: by how much fewer rows and columns are decoded; never of progressive JPEG, whose
            decoder holds two bytes for every value of all pixels.
        what: it is, for the message.
    """
    width, height, own = header.width or 0, header.height or 0, header.channels or 1
    bits = header.bits or 8
    if own <= 8 and bits <= 64 and width * height * _ANY_PIXEL <= limits.most["decoded_bytes"]:
        return  # nearly all: of small images this is a twentieth of the time
    channels = max(own, channels)
    depth = 1 if bits <= 8 else (bits + 7) // 8
    if header.progressive:
        depth = 2
    elif reduced > 1:
        width, height = -(-width // reduced), -(-height // reduced)
    nbytes = width * height * channels * depth
    if not limits.allows("decoded_bytes", nbytes):
        what = (
            f"{what} is {header.width} x {header.height}, {nbytes:,} bytes decoded (width x "
            "height x channels x depth)"
        )
        raise DecodeError(limits.refusal("decoded_bytes", nbytes, what))


def jpeg_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Walk the segments up to the frame (ITU-T T.81, annex B)."""
    exif = xmp = b""
    place, steps, most = file.seek(2), 0, limits.most["header_bytes"]
    while byte := file.read(1):
        steps += 1
        if place + steps * _STEP > most:
            what = f"the JPEG begins with {place:,} bytes in {steps:,} pieces before its pixels"
            raise DecodeError(limits.refusal("header_bytes", 2 * (place + steps * _STEP), what))
        if byte != b"\xff":  # libjpeg skips stray bytes too
            place = _past_stray(file)
            continue
        marker = file.read(1)
        if marker == b"\xff":  # a fill byte: the marker is still to come
            place = _to_last_fill(file)
            continue
        if marker in _BARE_MARKERS:
            place += 2
            continue
        length = max(0, int.from_bytes(file.read(2), "big") - 2)
        if marker[0] in _JPEG_FRAMES:
            bits, height, width, channels = struct.unpack(">BHHB", file.read(6))
            turned, progressive = orientation_of(exif, xmp), marker[0] in _PROGRESSIVE
            return Header(format, width, height, channels, turned, bits, 1, None, progressive)
        if marker == b"\xe1":
            block = file.read(length)
            if not exif and block.startswith(b"Exif\0\0"):
                exif = block[6:]
            elif block.startswith(_XMP_IN_JPEG):
                xmp = block
            place += 4 + length
        else:
            place = file.seek(length, io.SEEK_CUR)
    raise ValueError("it ends before the image begins")


def _past_stray(file: IO[bytes]) -> int:
    """Go on to the next byte that may begin a marker, or past some that do not; return where."""
    at = (block := file.read(_STRAY)).find(b"\xff")
    return file.seek(at - len(block) if at >= 0 else 0, io.SEEK_CUR)


def _to_last_fill(file: IO[bytes]) -> int:
    """Go on to the last of several bytes of fill; return where."""
    block = file.read(_STRAY)
    more = len(block) - len(block.lstrip(b"\xff"))
    return file.seek(more - 1 - len(block), io.SEEK_CUR)


def png_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Walk the chunks; what turns the image may stand after its pixels."""
    file.seek(16)
    width, height, bits, color, length, name = _PNG_START.unpack(file.read(25))
    channels, frames = _PNG_CHANNELS.get(color, 0), 1
    bits = 8 if color == 3 else bits
    if name == b"IDAT":
        file.seek(45 + length)
        if file.read(8) == png.LAST_HEAD:  # and nothing else: most are
            return Header(format, width, height, channels, 1, bits, frames)
    exif = xmp = b""
    for kind, length in png.chunks(file, limits):
        if kind == b"eXIf":
            exif = file.read(min(length, tiff.LONGEST))
        elif kind == b"acTL" and length == 8:
            (told,) = struct.unpack(">I4x", file.read(8))
            frames = told if 0 < told < 2**31 else 1  # no other number makes an animation
        elif kind == b"tRNS" and color == 3:
            channels = 4
        elif kind in (b"iTXt", b"zTXt", b"tEXt"):
            keyword, text = png.text_of(kind, file.read(min(length, tiff.LONGEST)))
            if keyword == png.XMP_KEYWORD:
                xmp = text
            elif keyword == png.EXIF_KEYWORD and not exif:
                exif = _from_hexadecimal(text)
    return Header(format, width, height, channels, orientation_of(exif, xmp), bits, frames)


def png_glance(data: bytes) -> Header | None:
    """Return the header of a PNG where no chunk could turn the image, which is soon seen."""
    return _upright_png(data[: png.START]) if png.is_upright(data) else None


@lru_cache  # the headers of most files are the same
def _upright_png(start: bytes) -> Header:
    width, height = struct.unpack_from(">II", start, 16)
    channels = 4 if start[25] == 3 else _PNG_CHANNELS.get(start[25], 0)
    return Header("png", width, height, channels, 1, start[24], None, None, False)


def _from_hexadecimal(text: bytes) -> bytes:
    """Return a profile whose name and length stand in the lines before its digits."""
    try:
        return bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode("ascii"))
    except ValueError:
        return b""


def tiff_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Read the first directory."""
    tags = tiff.tiff_directory(file)
    if tags.number(tiff.SUBFILE_TYPE, 0) & 1:
        raise DecodeError(
            "the first image of this TIFF is a thumbnail, as in the raw files of cameras: develop "
            "it, and save it as PNG or TIFF"
        )
    channels = tags.number(tiff.SAMPLES_PER_PIXEL, tags.values(tiff.BITS_PER_SAMPLE))
    bits = tags.number(tiff.BITS_PER_SAMPLE, 1)
    if tags.number(tiff.PHOTOMETRIC, 0) == tiff.PALETTE:
        channels, bits = 3, 8
    width, height = (tags.number(tag, 0) for tag in (tiff.WIDTH, tiff.HEIGHT))
    if not width or not height:
        raise ValueError("it tells no width and height")
    _check_pieces(Header(format, width, height, channels, bits=bits), tags, limits)
    if tiff.ORIENTATION in tags.entries:
        turned = known(tags.number(tiff.ORIENTATION, 1))
    else:
        turned = orientation_of(b"", tags.data(tiff.XMP))
    return Header(format, width, height, channels, turned, bits, tiff.tiff_pages(file))


def _check_pieces(image: Header, tags: tiff.Directory, limits: Limits) -> None:
    """Refuse tiles that are larger, or strips and tiles that are more, than any image needs."""
    height, width = image.size
    tile = tags.number(tiff.TILE_WIDTH, 0), tags.number(tiff.TILE_HEIGHT, 0)
    if max(tile):  # one is decoded at a time, whole
        largest = image._replace(width=max(width, tile[0]), height=max(height, tile[1]))
        check_decoded(largest, limits, what="a tile of the TIFF")
    pieces = max(tags.values(tiff.STRIPS), tags.values(tiff.TILES))
    if not limits.allows("header_bytes", pieces * _PIECE):
        what = f"the TIFF is in {pieces:,} strips or tiles, and each takes memory"
        raise DecodeError(limits.refusal("header_bytes", pieces * _PIECE, what))


def pillow_header(opener: Opener, file: IO[bytes], format: str, limits: Limits) -> Header:
    """Have Pillow read a header; of some formats it reads all of the file."""
    refuse_file(file, limits)
    file.seek(0)
    with UNWARNED:
        image = opener(file)
    turned = orientation_of(image.info.get("exif", b""), image.info.get("xmp", b""))
    # where it is no property, for which the whole file would be read
    looked_for = None if hasattr(type(image), "n_frames") else 1
    frames = image.info.get("n_frames", vars(image).get("n_frames", looked_for))
    return Header(format, *image.size, _channels(image), turned, _bits(image), frames)


def gif_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Have Pillow read a header, and count the frames."""
    header = pillow_header(PIL.GifImagePlugin.GifImageFile, file, format, limits)
    return header._replace(frames=gif_frames(file))


def npy_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Check that the header of an array can be read."""
    file.seek(0)
    array_header(file, limits)
    return Header(format)


def _bits(image: PIL.Image.Image) -> int:
    if "bit_depth" in image.info:  # of what the decoder may make 8
        return int(image.info["bit_depth"])
    if image.mode == "1":
        return 1
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        return 16
    return 32 if image.mode in ("I", "F") else 8


def _channels(image: PIL.Image.Image) -> int:
    if image.mode == "P":
        return 4 if "transparency" in image.info else 3
    return 1 if image.mode.startswith("I") else len(image.getbands())
