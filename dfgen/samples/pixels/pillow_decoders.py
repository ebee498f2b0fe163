"""Decoders by Pillow, for all that OpenCV does not open, or not as every other program does."""

import io
from typing import IO

import numpy as np
import PIL.Image
from PIL.ImageFile import ImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.SgiImagePlugin import SgiImageFile

from dfgen.errors import DecodeError
from dfgen.limits import Limits
from dfgen.samples.pixels.geometry import Pixels, in_color_mode, with_channels
from dfgen.samples.pixels.headers import UNWARNED, Header, Opener, pillow_header
from dfgen.samples.pixels.scaling import as_stored

_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}
_STRAIGHT = {"La": "LA", "RGBa": "RGBA"}  # colours multiplied by their alpha -> as they were
_CANNOT_TURN = ("1.19.6", "1.19.7", "1.19.8")
"""Versions of libheif that leave two columns of a turned image as the memory was."""
_SIZ = b"\xff\x4f\xff\x51"  # how the codestream of JPEG 2000 begins (ITU-T T.800, A.5.1)


def with_pillow(opener: Opener, data: bytes, color_mode: str) -> Pixels:
    """Decode by one of Pillow's readers."""
    with UNWARNED:
        return pixels_of(opener(io.BytesIO(data)), color_mode)


def pixels_of(image: PIL.Image.Image, color_mode: str) -> Pixels:
    """Return what an image of Pillow holds, at its own depth; alpha is dropped, not blended."""
    image.load()  # which may change the mode
    if image.mode[0] in "IF":  # more than 8 bits, which Pillow would clip
        return _deep(image, color_mode)
    if image.mode in _STRAIGHT:
        image = image.convert(_STRAIGHT[image.mode])
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return with_channels(np.array(image.convert(_MODES[color_mode])))


def _deep(image: PIL.Image.Image, color_mode: str) -> Pixels:
    pixels = np.asarray(image)
    if image.mode == "I" and image.format != "TIFF":  # 16 bits, as Pillow holds those of PNM
        pixels = pixels.astype(np.uint16)
    return in_color_mode(as_stored(pixels), color_mode)


def pillow_values(opener: Opener, data: bytes) -> Pixels:
    """Return gray levels or indices of colours as one of Pillow's readers has them."""
    with UNWARNED:
        return values_of(opener(io.BytesIO(data)))


def values_of(image: PIL.Image.Image) -> Pixels:
    """Return gray levels or indices of colours."""
    image.load()
    if image.mode not in ("L", "P", "1", "F") and not image.mode.startswith("I"):
        raise DecodeError(
            f"the mask is in colours ({image.mode}), whose classes are not known: give palette="
            "{(red, green, blue): class, ...}, or save it in gray levels"
        )
    return np.array(image, np.uint8) if image.mode == "1" else np.asarray(image)


def pnm_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Have Pillow read a header, but for the bits of colours, which it would cut to 8."""
    header = pillow_header(PpmImageFile, file, format, limits)
    file.seek(0)
    with UNWARNED:
        deep = _most(PpmImageFile(file)) > 255
    return header._replace(bits=16) if deep else header


def _most(image: ImageFile) -> int:
    how = image.tile[0][3]
    return int(how[-1]) if isinstance(how, tuple) and isinstance(how[-1], int) else 255


def decode_pnm(data: bytes, color_mode: str) -> Pixels:
    """Pillow would cut colours of 16 bits to 8."""
    if data[:2] != b"P6":
        return with_pillow(PpmImageFile, data, color_mode)
    with UNWARNED:
        image = PpmImageFile(io.BytesIO(data))
        start, most = image.tile[0][2], _most(image)
        if most <= 255:
            return pixels_of(image, color_mode)
    shape = (image.height, image.width, 3)
    pixels = np.frombuffer(data, ">u2", int(np.prod(shape)), start).reshape(shape)
    deep = np.rint(np.minimum(pixels, most) * (65535 / most)).astype(np.uint16)
    return in_color_mode(deep[..., ::-1], color_mode)


def jpeg2000_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Have Pillow read a header, but for the bits, which it keeps to itself (T.800, A.5.1)."""
    header = pillow_header(Jpeg2KImageFile, file, format, limits)
    file.seek(0)
    head = file.read(2**16)
    at = head.find(_SIZ)
    sizes = head[at + 42 :: 3][: int.from_bytes(head[at + 40 : at + 42], "big")]
    return header._replace(bits=1 + max((size & 0x7F for size in sizes), default=7))


def avif(file: IO[bytes]) -> ImageFile:
    """Open AVIF: `irot` and `imir` turn it, which Pillow tells as EXIF, and nothing else does."""
    try:
        from PIL.AvifImagePlugin import SUPPORTED, AvifImageFile
    except ImportError:
        SUPPORTED = False
    if not SUPPORTED:
        raise DecodeError("an AVIF file, which needs Pillow 11.3 or newer: pip install -U pillow")
    file.seek(0)
    configuration = file.read(2**16).partition(b"av1C")[2][:3]  # AV1 in ISOBMFF, section 2.3
    file.seek(0)
    image = AvifImageFile(file)
    image.info.pop("xmp", None)
    if len(configuration) == 3 and configuration[2] & 0x40:
        image.info["bit_depth"] = 12 if configuration[2] & 0x20 else 10
    return image


def sgi(file: IO[bytes]) -> ImageFile:
    """Open SGI, and tell of 16 bits, of which Pillow keeps the upper 8."""
    head = file.read(4)
    file.seek(0)
    image = SgiImageFile(file)
    image.info["bit_depth"] = 8 * head[3]
    return image


def _check_boxes(file: IO[bytes]) -> None:
    """Refuse a file that ends within a box; the decoder would make up what is missing."""
    place, end = 0, file.seek(0, io.SEEK_END)
    while place < end:
        file.seek(place)
        head = file.read(16)
        size = int.from_bytes(head[:4], "big")
        if size == 1:  # a length of 64 bits follows
            size = int.from_bytes(head[8:], "big")
        place = end if size == 0 else place + max(size, 8)
    if place > end:
        raise ValueError("truncated or damaged")
    file.seek(0)


def _check_turned(head: bytes, version: str) -> None:
    """Refuse a file that this version of libheif would turn, or mirror, in part."""
    if version in _CANNOT_TURN and (b"irot" in head or b"imir" in head):
        raise DecodeError(
            f"a turned or mirrored HEIC file, which libheif {version} decodes only in "
            "part: pip install -U pillow-heif"
        )


def heif(file: IO[bytes]) -> ImageFile:
    """Open HEIC and what is kept as it is; the decoder turns it already."""
    size = int.from_bytes(file.read(4), "big")
    brands = file.read(min(size, 2**12) - 4)
    file.seek(0)
    if b"avif" in brands:
        return avif(file)
    _check_boxes(file)
    try:
        from pillow_heif import HeifImageFile, libheif_version
    except ImportError:
        raise DecodeError(
            'a HEIC file, which needs pillow-heif: pip install "keras-dfgen[heif]"'
        ) from None
    _check_turned(file.read(2**16), libheif_version())
    file.seek(0)
    image: ImageFile = HeifImageFile(file)  # type: ignore[no-untyped-call]
    for name in ("exif", "xmp"):
        image.info.pop(name, None)
    image.info["n_frames"] = image.n_frames  # type: ignore[attr-defined]
    return image
