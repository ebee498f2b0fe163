"""What a file says of itself before it is decoded: its size, channels and orientation.

JPEG, PNG and TIFF headers are read here: every decode asks for them, so they must be quick, and a
broken EXIF block must give no warning. Pillow reads the others.
"""

import io
import struct
from collections.abc import Callable
from typing import IO, NamedTuple

import PIL.GifImagePlugin
import PIL.Image
import PIL.ImageFile

from dfgen.errors import DecodeError
from dfgen.samples.pixels.frame_counts import gif_frames, tiff_pages
from dfgen.samples.storage.npy import array_header

MAX_PIXELS = 2**28
"""The largest image that is decoded, 16384 x 16384: 0.8 GB as RGB. A tiny file can claim it."""

Opener = Callable[[IO[bytes]], PIL.ImageFile.ImageFile]
"""A reader of Pillow. `PIL.Image.open` would try all of them, and warns of large images."""

BITS_PER_SAMPLE, EXTRA_SAMPLES = 0x0102, 0x0152
_WIDTH, _HEIGHT, _PHOTOMETRIC, _PALETTE = 0x0100, 0x0101, 0x0106, 3
_ORIENTATION, _SAMPLES_PER_PIXEL = 0x0112, 0x0115
_TIFF_NUMBERS = {1: "B", 3: "H", 4: "I"}
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # colour type -> channels; a palette is RGB
_JPEG_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class Header(NamedTuple):
    """What a file says of itself before it is decoded.

    Width, height and channels are as stored; `orientation` (EXIF, 1..8) tells how to turn them.
    `bits` are those of a channel; of indexed colours, those of the colours. `frames` are the images
    in it, None where they would have to be looked for. Arrays have none of these; sounds have
    channels, `frames` and `sample_rate`, frames a second.
    """

    format: str
    width: int | None = None
    height: int | None = None
    channels: int | None = None
    orientation: int = 1
    bits: int | None = None
    frames: int | None = None
    sample_rate: int | None = None

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image when it is turned upright."""
        size = (self.height or 0, self.width or 0)
        return size[::-1] if self.orientation >= 5 else size


def check_header(header: Header) -> None:
    """Refuse a header that no image has; those of arrays tell no size."""
    if header.width is not None and header.height is not None:
        check_size(header.width, header.height)
    if not 1 <= header.orientation <= 8:
        raise DecodeError(f"the header has orientation {header.orientation}, expected 1 to 8")


def check_size(width: int, height: int) -> None:
    """Refuse an image of no pixels, or of more than MAX_PIXELS."""
    if width < 1 or height < 1:
        raise DecodeError(f"the image is {width} x {height}: it has no pixels")
    if width * height > MAX_PIXELS:
        raise DecodeError(
            f"the image is {width} x {height}: more than {MAX_PIXELS:,} pixels are not decoded. "
            "Cut it into tiles first, or drop this row"
        )


def tiff_tags(file: IO[bytes]) -> dict[int, int]:
    """Return the whole numbers, or the first of several, in the first directory of a TIFF file.

    An EXIF block is one. Source: TIFF 6.0, section 2.
    """
    file.seek(0)
    order = ">" if file.read(2) == b"MM" else "<"
    (start,) = struct.unpack(order + "2xI", file.read(6))
    file.seek(start)
    (count,) = struct.unpack(order + "H", file.read(2))
    tags = {}
    for tag, kind, many, value in struct.iter_unpack(order + "HHI4s", file.read(12 * count)):
        if tag == BITS_PER_SAMPLE and many > 2:  # the only one wanted that is kept elsewhere
            file.seek(*struct.unpack(order + "I", value))
            value = file.read(4)
        if kind in _TIFF_NUMBERS:
            tags[tag] = struct.unpack_from(order + _TIFF_NUMBERS[kind], value)[0]
    return tags


def jpeg_header(file: IO[bytes], format: str) -> Header:
    """Walk the segments up to the frame (ITU-T T.81, annex B)."""
    exif = b""
    file.seek(2)
    while byte := file.read(1):
        if byte != b"\xff":
            continue  # libjpeg skips stray bytes too
        marker = file.read(1)
        if marker == b"\xff":  # a fill byte: the marker is still to come
            file.seek(-1, io.SEEK_CUR)
        if marker in (b"", b"\0", b"\xff"):
            continue
        length = max(0, int.from_bytes(file.read(2), "big") - 2)
        if marker[0] in _JPEG_FRAMES:
            bits, height, width, channels = struct.unpack(">BHHB", file.read(6))
            return Header(format, width, height, channels, _orientation(exif), bits, 1)
        if marker == b"\xe1" and not exif:
            block = file.read(length)
            exif = block[6:] if block.startswith(b"Exif\0\0") else b""
        else:
            file.seek(length, io.SEEK_CUR)
    raise ValueError("it ends before the image begins")


def png_header(file: IO[bytes], format: str) -> Header:
    """Walk the chunks up to the pixels (PNG, third edition, section 5)."""
    file.seek(16)
    width, height, bits, color = struct.unpack(">IIBB3x", file.read(13))
    channels, orientation, frames = _PNG_CHANNELS.get(color, 0), 1, 1
    bits = 8 if color == 3 else bits
    while True:
        # after the checksum of the chunk before
        length, kind = struct.unpack(">4xI4s", file.read(12))
        if kind in (b"IDAT", b"IEND"):
            return Header(format, width, height, channels, orientation, bits, frames)
        if kind == b"eXIf":
            orientation = _orientation(file.read(length))
            continue
        if kind == b"acTL" and length == 8:
            (frames,) = struct.unpack(">I4x", file.read(8))
            continue
        if kind == b"tRNS" and color == 3:
            channels = 4
        file.seek(length, io.SEEK_CUR)


def tiff_header(file: IO[bytes], format: str) -> Header:
    """Read the first directory."""
    tags = tiff_tags(file)
    channels, bits = tags.get(_SAMPLES_PER_PIXEL, 1), tags.get(BITS_PER_SAMPLE, 1)
    if tags.get(_PHOTOMETRIC) == _PALETTE:
        channels, bits = 3, 8
    orientation = _known(tags.get(_ORIENTATION, 1))
    frames = tiff_pages(file)
    return Header(format, tags[_WIDTH], tags[_HEIGHT], channels, orientation, bits, frames)


def pillow_header(opener: Opener, file: IO[bytes], format: str) -> Header:
    """Have Pillow read a header."""
    file.seek(0)
    image = opener(file)
    orientation = _orientation(image.info.get("exif", b""))
    # where it is no property, for which the whole file would be read
    frames = vars(image).get("n_frames", None if hasattr(type(image), "n_frames") else 1)
    return Header(format, *image.size, _channels(image), orientation, _bits(image), frames)


def gif_header(file: IO[bytes], format: str) -> Header:
    """Have Pillow read a header, and count the frames."""
    header = pillow_header(PIL.GifImagePlugin.GifImageFile, file, format)
    return header._replace(frames=gif_frames(file))


def npy_header(file: IO[bytes], format: str) -> Header:
    """Check that the header of an array can be read."""
    file.seek(0)
    array_header(file)
    return Header(format)


def _bits(image: PIL.Image.Image) -> int:
    if image.mode == "1":
        return 1
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        return 16
    return 32 if image.mode in ("I", "F") else 8


def _channels(image: PIL.Image.Image) -> int:
    if image.mode == "P":
        return 4 if "transparency" in image.info else 3
    return 1 if image.mode.startswith("I") else len(image.getbands())


def _orientation(exif: bytes) -> int:
    try:
        return _known(tiff_tags(io.BytesIO(exif.removeprefix(b"Exif\0\0"))).get(_ORIENTATION, 1))
    except struct.error:
        return 1  # no EXIF, or a broken block: the pixels stay as they are


def _known(orientation: int) -> int:
    return orientation if 1 <= orientation <= 8 else 1
