"""What a file says of itself: format, size, channels and orientation, read before it is decoded.

The headers of JPEG, PNG and WebP are parsed here, as each decode asks for them; others by Pillow.
"""

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import IO, NamedTuple

from dfgen.errors import DecodeError
from dfgen.limits import Limits, read_file

_BARE = {0x00, 0x01, *range(0xD0, 0xD9)}  # markers of JPEG without a length
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # colour type -> channels; a palette is RGB
_PNG_TAIL = 2**16  # bytes at the end of a PNG that are searched for EXIF
_WEBP_ANIMATED, _WEBP_EXIF, _WEBP_ALPHA = 0x02, 0x08, 0x10
_FIRST_READS = 2**12, 2**16  # bytes of most headers, and of nearly all
_ORIENTATION = 0x0112  # tag of EXIF and TIFF
_NUMBERS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i"}  # types of whole numbers in EXIF


class Header(NamedTuple):
    """The header of a file.

    Width, height and channels are as stored, `orientation` (EXIF) tells how to turn the image.
    `bits` are those of a channel. Sounds have channels, `frames` and `sample_rate`. A `progressive`
    JPEG has several scans. None: unknown.
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
        """(height, width) of the upright image."""
        size = (self.height or 0, self.width or 0)
        return size[::-1] if self.orientation >= 5 else size


def check_decoded(header: Header, limits: Limits, channels: int = 1, reduced: int = 1) -> None:
    """Refuse an image without pixels, or with more than `limits.decoded_bytes`."""
    width, height = header.width or 0, header.height or 0
    if width < 1 or height < 1:
        raise DecodeError(f"the image is {width} x {height}: it has no pixels")
    depth = -(-(header.bits or 8) // 8)
    if header.progressive:  # whose decoder holds two bytes for each value of the whole image
        depth = 2
    elif reduced > 1:
        width, height = -(-width // reduced), -(-height // reduced)
    nbytes = width * height * max(header.channels or 1, channels) * depth
    if nbytes > limits.most["decoded_bytes"]:  # else the text is not made, once for each image
        what = f"the image is {header.width} x {header.height}, {nbytes:,} bytes decoded"
        limits.check("decoded_bytes", nbytes, what)


def from_file(parse: Callable[[bytes], Header], file: IO[bytes], limits: Limits) -> Header:
    """Parse the first bytes of a file, or the whole file if they are too few."""
    for size in _FIRST_READS:
        file.seek(0)
        with suppress(IndexError, struct.error):
            return parse(file.read(size))
    return parse(read_file(file, limits))


def orientation_of(exif: bytes) -> int:
    """Return the orientation, 1 to 8, of a block of EXIF; 1 where the block tells none."""
    exif = exif.removeprefix(b"Exif\0\0")
    order = ">" if exif[:2] == b"MM" else "<"
    with suppress(struct.error):  # damaged EXIF does not make an image unreadable
        (place,) = struct.unpack_from(order + "4xI", exif)
        (count,) = struct.unpack_from(order + "H", exif, place)
        for at in range(place + 2, place + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", exif, at)
            if tag == _ORIENTATION and kind in _NUMBERS:
                (number,) = struct.unpack_from(order + _NUMBERS[kind], exif, at + 8)
                return number if 1 <= number <= 8 else 1
    return 1


def jpeg_header(data: bytes) -> Header:
    """Walk the segments up to the first scan (ITU-T T.81, annex B)."""
    at, exif, frame = 2, b"", None
    while True:
        if data[at] != 0xFF or data[at + 1] == 0xFF:  # stray bytes, or fill
            at = data.find(b"\xff", at + 1)
            if at < 0:
                raise IndexError
            continue
        marker = data[at + 1]
        if marker in _BARE:
            at += 2
            continue
        length = data[at + 2] << 8 | data[at + 3]
        if marker in _FRAMES:
            frame = marker, *struct.unpack_from(">BHHB", data, at + 4)
        elif marker == 0xE1 and not exif and data[at + 4 : at + 10] == b"Exif\0\0":
            exif = data[at + 10 : at + 2 + length]
        elif marker == 0xDA:
            if frame is None:
                raise DecodeError("the JPEG has a scan before its size")
            kind, bits, height, width, channels = frame
            several = kind in _PROGRESSIVE or data[at + 4] != channels
            turned = orientation_of(exif) if exif else 1
            return Header("jpeg", width, height, channels, turned, bits, 1, None, several)
        at += 2 + length


def png_header(data: bytes, file: IO[bytes] | None = None) -> Header:
    """Walk the chunks of a PNG to its pixels. EXIF may follow them, at the end of the file.

    Without a file, `data` is the whole PNG.
    """
    if data[12:16] == b"CgBI":
        raise DecodeError(
            "it is Apple's CgBI, no PNG, as Xcode writes into apps: convert it to PNG"
        )
    header = _png_start(data[16:26])
    at, exif = 33, b""
    while True:
        length, name = struct.unpack_from(">I4s", data, at)
        if name in (b"IDAT", b"IEND"):
            break
        body = data[at + 8 : at + 8 + length]
        if name == b"eXIf":
            exif = body
        elif name == b"acTL":
            header = header._replace(frames=struct.unpack_from(">I", body)[0])
        elif name == b"tRNS" and data[25] == 3:
            header = header._replace(channels=4)
        at += 12 + length
    if not exif and data[at + 16 + length : at + 20 + length] != b"IEND":
        tail = data[-_PNG_TAIL:]
        if file is not None:
            file.seek(max(0, file.seek(0, io.SEEK_END) - _PNG_TAIL))
            tail = file.read()
        exif = _late_exif(tail)
    return header._replace(orientation=orientation_of(exif)) if exif else header


@lru_cache  # most files of a data set have the same
def _png_start(start: bytes) -> Header:
    width, height, bits, color = struct.unpack(">IIBB", start)
    if color not in _PNG_CHANNELS:
        raise DecodeError(f"no PNG has the colour type {color}")
    return Header("png", width, height, _PNG_CHANNELS[color], 1, 8 if color == 3 else bits, 1)


def _late_exif(tail: bytes) -> bytes:
    """Return EXIF that stands after the pixels of a PNG; its checksum tells it from pixels."""
    at = tail.rfind(b"eXIf")
    if at < 4:
        return b""
    end = at + 4 + int.from_bytes(tail[at - 4 : at], "big")
    whole = zlib.crc32(tail[at:end]).to_bytes(4, "big") == tail[end : end + 4]
    return tail[at + 4 : end] if whole else b""


def webp_header(data: bytes) -> Header:
    """Read size and EXIF of a WebP (RFC 9649); `frames` is None of an animation."""
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        turned = orientation_of(_webp_exif(data)) if data[20] & _WEBP_EXIF else 1
        channels = 4 if data[20] & _WEBP_ALPHA else 3
        frames = None if data[20] & _WEBP_ANIMATED else 1
        return Header("webp", width, height, channels, turned, 8, frames)
    if kind == b"VP8L":
        (sizes,) = struct.unpack_from("<I", data, 21)
        width, height, alpha = 1 + (sizes & 0x3FFF), 1 + (sizes >> 14 & 0x3FFF), sizes >> 28 & 1
        return Header("webp", width, height, 3 + alpha, 1, 8, 1)
    width, height = struct.unpack_from("<HH", data, 26)
    return Header("webp", width & 0x3FFF, height & 0x3FFF, 3, 1, 8, 1)


def _webp_exif(data: bytes) -> bytes:
    at, end = 12, 8 + int.from_bytes(data[4:8], "little")
    while at < end:
        name, size = struct.unpack_from("<4sI", data, at)
        if name == b"EXIF":
            return struct.unpack_from(f"{size}s", data, at + 8)[0]  # type: ignore[no-any-return]
        at += 8 + size + size % 2
    if at > end + 1:
        raise DecodeError("the chunks of the WebP do not fit its length")
    return b""
