"""The chunks of a PNG file (PNG, third edition, section 5): which there are, and which count."""

import io
import struct
import zlib
from collections.abc import Iterator
from typing import IO

CHUNK = struct.Struct(">I4s")  # the bytes of its body, its name; body and checksum follow
START = struct.Struct(">16xIIBBBBBII4s")  # IHDR and its checksum; the head of the chunk after it

_FRAME = 57  # bytes of a PNG beside those of its pixels, where these are in one chunk
_TAIL = 2**16
_LARGEST = 10**6  # pixels in a row or column that libpng takes
_PALETTE = 3
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_TEXT = 2**24  # bytes of a compressed text that are looked at


def chunks(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield name and length of each chunk but the first, at whose body the file stands.

    The chunks of pixels are told once. Those after them are looked for from the end of the file:
    there may be thousands of pixels' chunks in between.

    Raises:
        struct.error: the file ends before its pixels begin.
    """
    place = 33
    while True:
        file.seek(place)
        length, name = CHUNK.unpack(file.read(8))
        yield name, length
        if name == b"IEND":
            return
        place += 12 + length
        if name == b"IDAT":
            break
    for name, body, length in _after_pixels(file, place):
        file.seek(body)
        yield name, length


def _after_pixels(file: IO[bytes], place: int) -> list[tuple[bytes, int, int]]:
    """Return name, place of the body and length of the chunks after the pixels."""
    size = file.seek(0, io.SEEK_END)
    if size - place <= 12:
        return []
    start = max(place, size - _TAIL)
    file.seek(start)
    at = file.read().find(b"IDAT")
    if start > place and at >= 4:
        found = _walk(file, start + at - 4, size)
        if found is not None:
            return found
    return _walk(file, place, size) or []


def _walk(file: IO[bytes], place: int, size: int) -> list[tuple[bytes, int, int]] | None:
    """Return the chunks from there on, but those of pixels; None where they do not end well."""
    found: list[tuple[bytes, int, int]] = []
    while place + 12 <= size:
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
    """Whether a PNG is its header and one chunk of pixels, whole: most small ones are."""
    if len(data) <= _FRAME:
        return False
    *_, check, length, name = START.unpack_from(data)
    if name != b"IDAT" or length != len(data) - _FRAME or zlib.crc32(data[12:29]) != check:
        return False
    check = int.from_bytes(data[-16:-12], "big")
    return zlib.crc32(memoryview(data)[37:-16]) == check and data[-8:-4] == b"IEND"


def essential(data: bytes) -> tuple[bytes, bool]:
    """Return a PNG of the chunks alone that make its pixels, and whether all these are sound.

    The others are no concern of a decoder, but libpng writes to stderr what it thinks of them: an
    old colour profile is enough. Of an animation, what is left is the image that all show who do
    not know of animations.

    Raises:
        ValueError: the file is cut short, or says what no PNG can be.
    """
    place, sound = 8, True
    parts: list[bytes | memoryview] = [data[:8]]
    try:
        _, _, bits, color, *ways = struct.unpack_from(">16xIIBBBBB", data)[:7]
        while True:
            length, name = CHUNK.unpack_from(data, place)
            end = place + 12 + length
            if _counts(name, length, bits, color):
                (check,) = struct.unpack_from(">I", data, end - 4)
                body = memoryview(data)[place:end]
                sound = sound and zlib.crc32(body[4:-4]) == check
                parts.append(body)
            place = end
            if name == b"IEND":
                break
    except struct.error as error:
        raise ValueError("truncated or damaged") from error
    if bits not in _DEPTHS.get(color, ()) or ways[:2] != [0, 0] or ways[2] > 1:
        raise ValueError(f"no PNG has {bits} bits of colour type {color}, stored as {ways}")
    size = sum(map(len, parts))
    return (data if size == len(data) else b"".join(parts)), sound


def _counts(name: bytes, length: int, bits: int, color: int) -> bool:
    if name == b"PLTE":
        return color == _PALETTE
    if name == b"tRNS":
        return length == {0: 2, 2: 6}.get(color) or (color == _PALETTE and length <= 2**bits)
    return name in (b"IHDR", b"IDAT", b"IEND")


def suits_libpng(data: bytes) -> bool:
    """Whether libpng takes a PNG of this size, rather than complaining of it."""
    width, height = struct.unpack_from(">16xII", data)
    return bool(0 < width <= _LARGEST and 0 < height <= _LARGEST)
