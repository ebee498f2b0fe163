"""Pixels of TIFF files, by Pillow, as deep as they are."""

import io
import logging
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL.TiffImagePlugin import TiffImageFile

from dfgen.errors import DecodeError
from dfgen.samples.pixels.color_modes import in_color_mode
from dfgen.samples.pixels.depth import as_stored
from dfgen.samples.pixels.geometry import Pixels
from dfgen.samples.pixels.libtiff_messages import without_complaint
from dfgen.samples.pixels.pillow_decoders import pixels_of, values_of
from dfgen.samples.pixels.pillow_warnings import UNWARNED
from dfgen.samples.pixels.tiff_tags import (
    BITS_PER_SAMPLE,
    PLANAR,
    SAMPLE_FORMAT,
    SAMPLES_PER_PIXEL,
    Directory,
    tiff_directory,
)

# Pillow writes to its log, which Python shows on stderr as long as nothing else handles it
logging.getLogger("PIL.TiffImagePlugin").addHandler(logging.NullHandler())

_KINDS = {1: "uint", 2: "int", 3: "float"}  # sample format -> name
_UNKNOWN = (  # what Pillow says of them
    "unknown pixel mode",
    "unknown data organization",
    "unknown raw mode for given image mode",
    "string index out of range",
    "Invalid value for samples per pixel",
)
_OTHER = {"L": "B", "B": "L", "N": "B" if sys.byteorder == "little" else "L"}


class StoredTiff(TiffImageFile):
    """As it is stored: Pillow would turn it, each version by rules of its own."""

    def load(self) -> Any:
        """Refuse pixels that libtiff complains of: of those it does not decode, none are set."""
        packed = self.tile and self.use_load_libtiff
        return (
            without_complaint(super().load, self.info["compression"]) if packed else super().load()
        )

    def load_end(self) -> None:
        """Leave the pixels, and the rest of the file, alone."""
        self._size = self.im.size


def decode_tiff(data: bytes, color_mode: str) -> Pixels:
    """Decode the first image of a TIFF file."""
    return _read(data, lambda image, tags: _pixels(image, tags, data, color_mode))


def tiff_values(data: bytes) -> Pixels:
    """Return gray levels or indices of colours."""
    return _read(data, lambda image, tags: _as_meant(values_of(image), tags))


def _read(data: bytes, read: Callable[[TiffImageFile, Directory], Pixels]) -> Pixels:
    tags = tiff_directory(io.BytesIO(data))
    with UNWARNED:
        try:
            return read(StoredTiff(io.BytesIO(data)), tags)
        except (SyntaxError, ValueError) as error:
            if str(error) in _UNKNOWN:
                raise _not_opened(tags) from error
            raise


def _pixels(image: TiffImageFile, tags: Directory, data: bytes, color_mode: str) -> Pixels:
    if image.mode in ("RGB", "RGBA") and tags.number(BITS_PER_SAMPLE, 1) == 16:
        return in_color_mode(_sixteen_bits(image, StoredTiff(io.BytesIO(data)), tags), color_mode)
    # of samples in planes that are no colours, Pillow would take the first alone
    if image.mode == "LAB" or tags.number(SAMPLES_PER_PIXEL, 1) > len(image.getbands()) + 1:
        raise _not_opened(tags)
    if image.mode == "I" or (image.mode == "L" and tags.number(SAMPLE_FORMAT, 1) == 2):
        image.load()
        return in_color_mode(as_stored(_as_meant(np.asarray(image), tags)), color_mode)
    return pixels_of(image, color_mode)


def _sixteen_bits(high: TiffImageFile, low: TiffImageFile, tags: Directory) -> Pixels:
    """Return BGR or BGRA of 16 bits. Pillow unpacks one byte of each sample: twice makes both.

    It takes the upper byte by its name of how samples are stored, the lower by that of the other
    order of bytes.
    """
    if tags.number(PLANAR, 1) != 1 or any("a;" in str(tile[3]) for tile in low.tile):
        raise _not_opened(tags)
    low.tile = [_with_other_order(tile) for tile in low.tile]
    order = [2, 1, 0, 3][: len(high.getbands())]
    upper, lower = (np.asarray(image)[..., order].astype(np.uint16) for image in (high, low))
    return np.ascontiguousarray(upper * 256 + lower)


def _with_other_order(tile: Any) -> Any:
    name, *rest = tile[3]
    args = (name[:-1] + _OTHER[name[-1]], *rest)
    return tile._replace(args=args) if hasattr(tile, "_replace") else (*tile[:3], args)


def _as_meant(pixels: Pixels, tags: Directory) -> Pixels:
    """Return whole numbers as they are meant: Pillow has 32 bits with a sign, 8 without."""
    signed = tags.number(SAMPLE_FORMAT, 1) == 2
    if pixels.dtype == np.int32 and not signed and tags.number(BITS_PER_SAMPLE, 1) == 32:
        return pixels.view(np.uint32)
    return pixels.view(np.int8) if pixels.dtype == np.uint8 and signed else pixels


def _not_opened(tags: Directory) -> DecodeError:
    kind = _KINDS.get(tags.number(SAMPLE_FORMAT, 1), "of unknown kind ")
    where = "in planes" if tags.number(PLANAR, 1) == 2 else "a pixel"
    return DecodeError(
        f"the TIFF has {tags.number(SAMPLES_PER_PIXEL, 1)} samples {where}, "
        f"{kind}{tags.number(BITS_PER_SAMPLE, 1)}, in a way that is not opened: save it as a "
        ".npy file, for dfgen.Array, or as another kind of TIFF"
    )
