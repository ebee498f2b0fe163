"""Headers and pixels of files that Pillow reads, at their own depth and not turned upright."""

import io
import sys
from collections.abc import Callable
from typing import IO, Any, cast

import numpy as np
from PIL import _imaging
from PIL.ImageFile import ImageFile
from PIL.TiffImagePlugin import TiffImageFile

from dfgen.errors import DecodeError
from dfgen.limits import Limits, refuse_bytes
from dfgen.samples.pixels.geometry import Pixels, in_color_mode, with_channels
from dfgen.samples.pixels.headers import Header, check_decoded, orientation_of
from dfgen.samples.pixels.scaling import as_stored

ImageReader = Callable[[IO[bytes]], ImageFile]
"""A reader of Pillow; `PIL.Image.open` would try all readers, and reject large images."""

_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}
_STRAIGHT = {"La": "LA", "RGBa": "RGBA"}  # premultiplied alpha -> straight alpha
_SUBFILE_TYPE, _WIDTH, _HEIGHT, _BITS = 254, 256, 257, 258  # tags of TIFF
_ORIENTATION, _SAMPLES, _PLANAR, _TILE, _SAMPLE_FORMAT = 274, 277, 284, (322, 323), 339
_OTHER_ORDER = {"L": "B", "B": "L", "N": "B" if sys.byteorder == "little" else "L"}
_HEAD = 2**16  # bytes searched for the depth if Pillow does not report it
_SIZ = b"\xff\x4f\xff\x51"  # how the codestream of JPEG 2000 begins (ITU-T T.800, A.5.1)


def open_by_pillow(
    name: str, reader: ImageReader, file: IO[bytes], limits: Limits
) -> tuple[Header, ImageFile]:
    """Open an image by its reader; return its header, checked against `limits`, and the image.

    `frames` of the header is 1, because counting takes time.
    """
    refuse_bytes(file.seek(0, io.SEEK_END), limits)
    file.seek(0)
    head = file.read(_HEAD)
    file.seek(0)
    image = reader(file)
    width, height = image.size
    turned = orientation_of(image.info.get("exif") or b"")
    channels = 1 if image.mode.startswith("I") else len(image.getbands())
    if image.mode == "P":
        channels = 4 if "transparency" in image.info else 3
    if name == "tiff":
        width, height, turned = (_tag(image, tag, 1) for tag in (_WIDTH, _HEIGHT, _ORIENTATION))
        channels = 3 if image.mode == "P" else _tag(image, _SAMPLES, 1)
        turned = turned if turned in range(1, 9) else 1
    header = Header(name, width, height, channels, turned, _bits_of(name, image, head), 1)
    tile = [_tag(image, tag, 0) for tag in _TILE]  # decoded as a whole, even if larger
    check_decoded(header._replace(width=max(width, tile[0]), height=max(height, tile[1])), limits)
    return header, image


def frames_of(image: ImageFile) -> int | None:
    """Count the images in a file; None if it is damaged after the first image."""
    if image.format == "PSD":  # Pillow counts its layers
        return 1
    try:
        return int(getattr(image, "n_frames", 1))
    except Exception:  # Pillow raises many types
        return None


def _bits_of(name: str, image: ImageFile, head: bytes) -> int:
    """Return the bits per channel, even if Pillow decodes only 8."""
    if name == "tiff":
        return 8 if image.mode == "P" else _tag(image, _BITS, 1)
    if name == "jpeg2000":
        at = head.find(_SIZ)
        sizes = head[at + 42 :: 3][: int.from_bytes(head[at + 40 : at + 42], "big")]
        return 1 + max((size & 0x7F for size in sizes), default=7)
    if name == "avif":
        flags = head.partition(b"av1C")[2][2:3] or b"\0"  # AV1 in ISOBMFF, section 2.3
        return 8 if not flags[0] & 0x40 else 12 if flags[0] & 0x20 else 10
    if name == "sgi":
        return 8 * head[3]
    if name == "heif":
        return int(image.info.get("bit_depth", 8))
    if name == "pnm" and image.mode != "1":
        most: Any = image.tile[0][3]  # its last item is the largest value, if Pillow scales
        return 16 if image.mode == "I" or (isinstance(most[-1], int) and most[-1] > 255) else 8
    return {"1": 1, "I": 32, "F": 32}.get(image.mode, 16 if image.mode.startswith("I;16") else 8)


def pixels_of(image: ImageFile, color_mode: str) -> Pixels:
    """Return the pixels of an image at its own depth; alpha is dropped without blending."""
    if image.mode in ("RGB", "RGBA") and _tag(image, _BITS, 1) == 16:
        return in_color_mode(_sixteen_bits(image), color_mode)
    image.load()  # which may change the mode
    if image.mode[0] in "IF" or _is_signed(image):  # Pillow would clip them
        return in_color_mode(as_stored(_numbers(image)), color_mode)
    if image.mode in _STRAIGHT:
        image = image.convert(_STRAIGHT[image.mode])  # type: ignore[assignment]
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # type: ignore[assignment]
    return with_channels(np.array(image.convert(_MODES[color_mode])))


def values_of(image: ImageFile) -> Pixels:
    """Return grey levels or palette indices, (height, width)."""
    image.load()
    if image.mode not in ("L", "P", "1", "F") and not image.mode.startswith("I"):
        raise DecodeError(
            f"the mask is in colours ({image.mode}): give palette={{(red, green, blue): class, "
            "...}, or save it in grey levels"
        )
    return np.array(image, np.uint8) if image.mode == "1" else _numbers(image)


def _numbers(image: ImageFile) -> Pixels:
    """Return numbers with the sign of the file: Pillow reads 8 bits unsigned, 32 bits signed."""
    pixels = np.asarray(image)
    if image.mode == "L" and _is_signed(image):
        return pixels.view(np.int8)
    if image.mode == "I" and not isinstance(image, TiffImageFile):  # 16 bits of PNM
        return pixels.astype(np.uint16)
    if image.mode == "I" and not _is_signed(image) and _tag(image, _BITS, 1) == 32:
        return pixels.view(np.uint32)
    return pixels


class StoredTiff(TiffImageFile):
    """A TIFF that Pillow neither turns upright nor rejects for its size."""

    def load_prepare(self) -> None:
        """Allocate the pixels."""
        self.im = _imaging.new(self.mode, getattr(self, "_tile_size", self.size))
        super().load_prepare()

    def load_end(self) -> None:
        """Do not turn the pixels."""
        self._size = self.im.size


def tiff(file: IO[bytes]) -> ImageFile:
    """Open the first image of a TIFF; DecodeError if Pillow would change its pixels."""
    advice = "save it as a .npy file, for dfgen.Array, or read it with Image(decode=)"
    try:
        image = StoredTiff(file)
    except SyntaxError as error:
        raise DecodeError(f"the TIFF cannot be opened ({error}): {advice}") from error
    if _tag(image, _SUBFILE_TYPE, 0) & 1:
        raise DecodeError("the first image of the TIFF is a thumbnail, as in raw files of cameras")
    if _tag(image, _SAMPLES, 1) > len(image.getbands()) + 1 or image.mode == "LAB":
        raise DecodeError(f"the samples of the TIFF are neither gray nor colours: {advice}")
    return image


def _tag(image: ImageFile, tag: int, default: int) -> int:
    """Return an integer tag of a TIFF, the first of several values."""
    value: Any = getattr(image, "tag_v2", {}).get(tag, default)
    value = value[0] if isinstance(value, tuple) and value else value
    return value if isinstance(value, int) else default


def _is_signed(image: ImageFile) -> bool:
    return _tag(image, _SAMPLE_FORMAT, 1) == 2


def _sixteen_bits(image: ImageFile) -> Pixels:
    """Return BGR or BGRA of 16 bits. Pillow unpacks only the upper byte of each sample.

    With the other byte order it unpacks the lower byte. OpenCV would turn some of these files, mix
    up planes, and print a warning for each unknown tag.
    """
    if _tag(image, _PLANAR, 1) != 1 or any("a;" in str(tile[3]) for tile in image.tile):
        raise DecodeError("the TIFF has 16 bits in planes or premultiplied alpha: save it again")
    low = StoredTiff(io.BytesIO(cast(io.BytesIO, image.fp).getvalue()))
    for place, tile in enumerate(low.tile):
        order, *rest = cast(Any, tile[3])
        args = (order[:-1] + _OTHER_ORDER[order[-1]], *rest)
        named = hasattr(tile, "_replace")
        low.tile[place] = tile._replace(args=args) if named else (*tile[:3], args)  # type: ignore
    channels = [2, 1, 0, 3][: len(image.getbands())]
    upper, lower = (np.asarray(each)[..., channels].astype(np.uint16) for each in (image, low))
    return np.ascontiguousarray(upper * 256 + lower)


def heif(file: IO[bytes]) -> ImageFile:
    """Open HEIC, or AVIF of the same first bytes; the decoder turns HEIC upright."""
    size = int.from_bytes(file.read(4), "big")
    brands = file.read(min(size, 2**12) - 4)
    file.seek(0)
    if b"avif" in brands:
        from PIL.AvifImagePlugin import AvifImageFile

        return AvifImageFile(file)
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        needs = 'a HEIC file, which needs pillow-heif: pip install "keras-dfgen[heif]"'
        raise DecodeError(needs) from error
    image: ImageFile = HeifImageFile(file)  # type: ignore[no-untyped-call]
    image.info.pop("exif", None)
    return image
