"""PNG files (third edition, section 5): which chunks there are, which count; files of pixels."""

import io
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import IO, Any

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DecodeError
from dfgen.limits import DEFAULT, Limits

LAST_HEAD = b"\0\0\0\0IEND"  # length and name of the last chunk
_LAST = LAST_HEAD + b"\xaeB`\x82"
CHUNK = struct.Struct(">I4s")  # the bytes of its body, its name; body and checksum follow
_CHECK = struct.Struct(">I")
_SIZE = struct.Struct(">16xII")
START = 33
"""Bytes up to the end of the header."""

_HEADER = struct.Struct(">12x17sI")  # the header, its checksum
_END = struct.Struct(">I12s")  # the last checksum but one, the last chunk

XMP_KEYWORD = b"XML:com.adobe.xmp"
EXIF_KEYWORD = b"Raw profile type exif"  # in hexadecimal, as ImageMagick wrote it
_INDEXED = 3  # as colour type

_TEXTS = (b"iTXt", b"zTXt", b"tEXt")
_METADATA = {b"eXIf", *_TEXTS}
_TURNING = (
    b"eXIf",
    *(name + word + b"\0" for name in _TEXTS for word in (XMP_KEYWORD, EXIF_KEYWORD)),
)
"""How chunks begin that may tell how to turn an image."""

_LEFT_OUT = _METADATA | {
    b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"sBIT", b"bKGD", b"hIST",
    b"pHYs", b"sPLT", b"tIME", b"acTL", b"fcTL", b"fdAT",
}  # fmt: skip
_SMALL = 2**16  # bytes that are sooner copied than looked at

_STEP = 2**10  # bytes that each of many chunks counts for, as none takes no time
_MOST_CHUNKS = 2**18  # that are looked through
_TAIL = 2**14  # bytes at the end of a file in which the last chunk of pixels is looked for
_LARGEST = 10**6  # pixels in a row or column that libpng takes
_TEXT = 2**24  # bytes of a compressed text that are looked at

# bits, colour type, compression, filter, whether interlaced -> the chunks that make the pixels
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_FIRST = b"\0\0\0\x0dIHDR"
_ORDER = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_ALWAYS = {b"IHDR", b"IDAT", b"IEND"}
_BESIDE = {0: {b"tRNS"}, 2: {b"tRNS"}, 3: {b"PLTE", b"tRNS"}}
_MADE_OF = {
    bytes([bits, color, 0, 0, interlaced]): _ALWAYS | _BESIDE.get(color, set())
    for color, depths in _DEPTHS.items()
    for bits in depths
    for interlaced in (0, 1)
}
_TO_OPENCV = {3: cv2.COLOR_RGB2BGR, 4: cv2.COLOR_RGBA2BGRA}


def chunks(file: IO[bytes], limits: Limits = DEFAULT) -> Iterator[tuple[bytes, int]]:
    """Yield name and length of each chunk but the first, at whose body the file stands.

    Pixels are told once; chunks after them are looked for from the end of the file.
    """
    place, steps = 33, 0
    while True:
        file.seek(place)
        length, name = CHUNK.unpack(file.read(8))
        steps += 1
        if not limits.allows("header_bytes", place + steps * _STEP):
            what = f"the PNG has {place:,} bytes in {steps:,} chunks before its pixels"
            raise DecodeError(limits.refusal("header_bytes", 2 * (place + steps * _STEP), what))
        if name != b"IDAT" and not limits.allows("chunk_bytes", length):
            what = f"a chunk {name!r} of the PNG has {length:,} bytes"
            raise DecodeError(limits.refusal("chunk_bytes", length, what))
        yield name, length
        if name == b"IEND":
            return
        place += 12 + length
        if name == b"IDAT":
            break
    file.seek(place)
    if file.read(8) == LAST_HEAD:
        return
    for name, body, size in _after_pixels(file, place, 12 + length):
        file.seek(body)
        yield name, size


def _after_pixels(file: IO[bytes], place: int, step: int) -> list[tuple[bytes, int, int]]:
    """Return name, place of the body and length of the chunks after the pixels.

    The second chunk of pixels begins at `place`, of `step` bytes, as mostly all but the last.
    """
    size = file.seek(0, io.SEEK_END)
    if size - place <= 12:
        return []
    last = place + (size - 12 - place) // step * step
    file.seek(last)
    if file.read(8)[4:] == b"IDAT" and (found := _walk(file, last, size)) is not None:
        return found
    start = max(place, size - _TAIL)
    file.seek(start)
    at = file.read().find(b"IDAT")
    if at >= 4 and (found := _walk(file, start + at - 4, size)) is not None:
        return found
    return _walk(file, place, size) or []


def _walk(file: IO[bytes], place: int, size: int) -> list[tuple[bytes, int, int]] | None:
    """Return the chunks from there on, but those of pixels; None where they do not end well."""
    found: list[tuple[bytes, int, int]] = []
    while place + 12 <= size and len(found) <= _MOST_CHUNKS:
        file.seek(place)
        length, name = CHUNK.unpack(file.read(8))
        if name == b"IEND":
            return found
        if name != b"IDAT":
            found.append((name, place + 8, length))
        place += 12 + length
    return None


def text_of(name: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return keyword and text of a chunk iTXt, zTXt or tEXt; nothing of one that is broken."""
    keyword, _, text = body.partition(b"\0")
    packed = name == b"zTXt"
    if name == b"iTXt":
        packed = text[:1] == b"\1"
        _, _, text = text[2:].partition(b"\0")[2].partition(b"\0")
    elif packed:
        text = text[1:]
    try:
        return keyword, zlib.decompressobj().decompress(text, _TEXT) if packed else text
    except zlib.error:
        return b"", b""


def is_bare(data: bytes) -> bool:
    """Whether a PNG is its header, its palette, and one chunk of pixels, whole: most are."""
    length, name = CHUNK.unpack_from(data, START)
    place = 37  # of the name of a chunk
    if data[25] == _INDEXED:
        place += 12 + length
        if name != b"PLTE" or not _is_palette(length) or place + 20 > len(data):
            return False
        if zlib.crc32(data[37 : place - 8]) != _CHECK.unpack_from(data, place - 8)[0]:
            return False
        length, name = CHUNK.unpack_from(data, place - 4)
    if name != b"IDAT" or not 0 < length == len(data) - place - 20:
        return False
    check, end = _END.unpack_from(data, place + 4 + length)
    pixels = data[place:-16] if length < _SMALL else memoryview(data)[place:-16]
    return end == _LAST and zlib.crc32(pixels) == check and _is_sound(data[:START])


@lru_cache  # the headers of most files are the same
def _is_sound(start: bytes) -> bool:
    """Whether a PNG begins with a header that libpng takes."""
    header, check = _HEADER.unpack(start)
    return (
        header[12:] in _MADE_OF
        and start[8:16] == _FIRST
        and zlib.crc32(header) == check
        and suits_libpng(start)
    )


def is_upright(data: bytes) -> bool:
    """Whether no chunk could turn the image, which is soon seen."""
    if data[37:41] == b"IDAT" and int.from_bytes(data[START:37], "big") == len(data) - 57:
        return True  # there is no other chunk but the last: most are
    try:
        length, name = CHUNK.unpack_from(data, START)
        place, last = 45 + length, len(data) - 12
        for _ in range(_MOST_CHUNKS):
            if name in _METADATA and data.startswith(_TURNING, place - length - 8):
                return False
            if place >= last:
                return True
            length, name = CHUNK.unpack_from(data, place)
            place += 12 + length
    except struct.error:
        pass
    return False


def essential(data: bytes) -> tuple[bytes, bool]:
    """Return a PNG of the chunks alone that make its pixels, and whether all these are sound.

    libpng writes to stderr what it thinks of others, as of old colour profiles. Of an animation the
    still image is left.
    """
    made_of = _MADE_OF.get(data[24:29])
    if made_of is None or data[8:16] != _FIRST:
        raise ValueError(f"no PNG has bits, colour type and storage {[*data[24:29]]}")
    view, place, name, sound, last = memoryview(data), 8, b"", True, -1
    parts, left_out_to, found = list[memoryview](), 0, set[bytes]()
    try:
        while name != b"IEND":
            length, name = CHUNK.unpack_from(data, place)
            end = place + 12 + length
            if name in made_of and (name != b"tRNS" or _is_clear(length, data[25])):
                (check,) = _CHECK.unpack_from(data, end - 4)
                sound &= zlib.crc32(view[place + 4 : end - 4]) == check
                sound &= _suits(name, view[place + 8 : end - 4], data)
                rank = _ORDER.index(name)
                sound &= rank > last or name == b"IDAT" == _ORDER[last]
                last = rank
                if length:
                    found.add(name)
            elif name in _LEFT_OUT or _is_unknown(data, name, place, end):
                parts.append(view[left_out_to:place])
                left_out_to = end
            else:
                raise ValueError(f"a chunk has the name {name!r}")
            place = end
    except struct.error as error:
        raise ValueError("truncated or damaged") from error
    if b"IDAT" not in found or (data[25] == _INDEXED and b"PLTE" not in found):
        raise ValueError("it has no pixels, or no palette for them")
    if not parts and place == len(data):
        return data, sound
    return b"".join([*parts, view[left_out_to:place]]), sound


def _is_unknown(data: bytes, name: bytes, place: int, end: int) -> bool:
    """Whether a chunk may be left out, being whole; else a bit of its name may be wrong."""
    check = _CHECK.unpack_from(data, end - 4)[0]
    return name[:1].islower() and zlib.crc32(data[place + 4 : end - 4]) == check


def _is_clear(length: int, color: int) -> bool:
    """Whether a chunk that tells what is transparent is as long as its colour type asks."""
    return length == {0: 2, 2: 6}.get(color, length) and length <= 256


def _is_palette(length: int) -> bool:
    return 0 < length <= 768 and length % 3 == 0


def _suits(name: bytes, body: memoryview, data: bytes) -> bool:
    if name == b"PLTE":
        return _is_palette(len(body))
    return _is_in_range(body, data) if name == b"tRNS" else name != b"IEND" or not body


def _is_in_range(clear: memoryview, data: bytes) -> bool:
    """Whether the colour that is clear has no more bits than the image: libpng writes of others."""
    bits, color = data[24], data[25]
    return color == 3 or max(struct.unpack(f">{len(clear) // 2}H", clear)) < 1 << bits


def suits_libpng(data: bytes) -> bool:
    """Whether libpng takes a PNG of this size, rather than complaining of it."""
    width, height = _SIZE.unpack_from(data)
    return bool(0 < width <= _LARGEST and 0 < height <= _LARGEST)


def png_of(pixels: npt.NDArray[Any]) -> bytes:
    """Return the bytes of a PNG file of gray, RGB or RGBA pixels, hardly compressed.

    Example:
        >>> png_of(np.zeros((2, 3, 3), np.uint8))[1:4]
        b'PNG'
    """
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if pixels.ndim not in (2, 3) or channels not in (1, 3, 4) or not pixels.size:
        raise ArgumentError(
            f"an image must be an array (height, width, channels) of 1, 3 or 4 channels, or "
            f"(height, width), got the shape {pixels.shape}"
        )
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ArgumentError(
            f"an image must be an array of uint8 or uint16, as files hold it, got {pixels.dtype}"
        )
    if channels in _TO_OPENCV:
        pixels = cv2.cvtColor(np.ascontiguousarray(pixels), _TO_OPENCV[channels])
    data: bytes = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    return data
