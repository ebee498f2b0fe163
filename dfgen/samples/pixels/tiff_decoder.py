"""Pixels of TIFF files, by Pillow, as deep as they are."""

import ctypes
import io
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
from PIL import _imaging
from PIL.TiffImagePlugin import TiffImageFile

from dfgen.errors import DecodeError
from dfgen.platform_calls import after_fork
from dfgen.samples.pixels import tiff_tags as tiff
from dfgen.samples.pixels.geometry import Pixels, in_color_mode
from dfgen.samples.pixels.headers import UNWARNED
from dfgen.samples.pixels.pillow_decoders import pixels_of, values_of
from dfgen.samples.pixels.scaling import as_stored

Loaded = TypeVar("Loaded")

_OF_TAGS = re.compile(rb"_?TIFF(Fetch|Read(Dir|Custom)|V?SetField)|OJPEGSubsamplingCorrect")
"""Functions of libtiff that read what stands beside the pixels; unknown tags are no damage."""

_OF_HABITS = re.compile(
    rb"Old-style LZW|Deprecated and troublesome|Auto-corrected former|progressive mode|"
    rb"not terminated with EOI code"
)
"""Its messages on files written in an old or odd way, of which it then decodes every pixel."""

_ERRORS_ONLY = {"tiff_lzw", "tiff_deflate", "tiff_adobe_deflate", "zstd", "webp", "lzma"}
"""Pillow's names of compressions whose damage libtiff calls an error."""

_LONGEST = 200  # bytes of what it says


class _Listening(threading.local):
    heard: list[str] | None = None


_THREAD = _Listening()


class _Turns:
    """Has one thread decode alone, or several together."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._together = 0
        self._alone = False

    @contextmanager
    def take(self, alone: bool) -> Iterator[None]:
        """Wait until it is this thread's turn."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._alone = alone
            self._together += not alone
        try:
            if alone:
                with self._changed:
                    self._changed.wait_for(lambda: not self._together)
            yield
        finally:
            with self._changed:
                self._alone = self._alone and not alone
                self._together -= not alone
                self._changed.notify_all()


_TURNS = _Turns()
after_fork(_TURNS.__init__)  # type: ignore[misc]  # a thread that a child lacks may have had its turn


def without_complaint(read: Callable[[], Loaded], compression: str) -> Loaded:
    """Return what `read()` does; DecodeError if libtiff says meanwhile that pixels are damaged."""
    heard = _THREAD.heard = list[str]()
    try:
        with _TURNS.take(alone=compression not in _ERRORS_ONLY):
            found = read()
    except (OSError, ValueError) as error:  # of Pillow, which has but a number for it
        if not heard:
            raise
        raise DecodeError(f"broken tiff file: {heard[0]}") from error
    finally:
        _THREAD.heard = None
    if heard:
        raise DecodeError(f"broken tiff file: {heard[0]}")
    return found


def _hear(function: bytes | None, form: bytes, values: int) -> None:
    heard = _THREAD.heard
    if heard is None or heard or _OF_TAGS.match(function or b"") or _OF_HABITS.search(form):
        return
    text = ctypes.create_string_buffer(_LONGEST)
    ctypes.CDLL(None).vsnprintf(text, _LONGEST, form, ctypes.c_void_p(values))
    heard.append(text.value.decode("ascii", "replace"))


def _opened(tiff: int) -> None:
    """Listen to warnings too: Pillow turns them off before it opens a file, each time."""
    _LIBTIFF.TIFFSetWarningHandler(_HEAR)
    if _BEFORE:
        _BEFORE(tiff)


_EXTENDER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_OPENED = _EXTENDER(_opened)
_HEAR = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)(_hear)
_BEFORE = None
with suppress(OSError, AttributeError):
    _LIBTIFF = ctypes.CDLL(_imaging.__file__)
    _LIBTIFF.TIFFSetErrorHandler(_HEAR)
    _LIBTIFF.TIFFSetTagExtender.restype = _EXTENDER
    _BEFORE = _LIBTIFF.TIFFSetTagExtender(_OPENED)


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


def _read(data: bytes, read: Callable[[TiffImageFile, tiff.Directory], Pixels]) -> Pixels:
    tags = tiff.tiff_directory(io.BytesIO(data))
    with UNWARNED:
        try:
            return read(StoredTiff(io.BytesIO(data)), tags)
        except (SyntaxError, ValueError) as error:
            if str(error) in _UNKNOWN:
                raise _not_opened(tags) from error
            raise


def _pixels(image: TiffImageFile, tags: tiff.Directory, data: bytes, color_mode: str) -> Pixels:
    if image.mode in ("RGB", "RGBA") and tags.number(tiff.BITS_PER_SAMPLE, 1) == 16:
        return in_color_mode(_sixteen_bits(image, StoredTiff(io.BytesIO(data)), tags), color_mode)
    # of samples in planes that are no colours, Pillow would take the first alone
    if image.mode == "LAB" or tags.number(tiff.SAMPLES_PER_PIXEL, 1) > len(image.getbands()) + 1:
        raise _not_opened(tags)
    if image.mode == "I" or (image.mode == "L" and tags.number(tiff.SAMPLE_FORMAT, 1) == 2):
        image.load()
        return in_color_mode(as_stored(_as_meant(np.asarray(image), tags)), color_mode)
    return pixels_of(image, color_mode)


def _sixteen_bits(high: TiffImageFile, low: TiffImageFile, tags: tiff.Directory) -> Pixels:
    """Return BGR or BGRA of 16 bits. Pillow unpacks one byte of each sample: twice makes both.

    The lower byte comes by the name of the other order of bytes.
    """
    if tags.number(tiff.PLANAR, 1) != 1 or any("a;" in str(tile[3]) for tile in low.tile):
        raise _not_opened(tags)
    low.tile = [_with_other_order(tile) for tile in low.tile]
    order = [2, 1, 0, 3][: len(high.getbands())]
    upper, lower = (np.asarray(image)[..., order].astype(np.uint16) for image in (high, low))
    return np.ascontiguousarray(upper * 256 + lower)


def _with_other_order(tile: Any) -> Any:
    name, *rest = tile[3]
    args = (name[:-1] + _OTHER[name[-1]], *rest)
    return tile._replace(args=args) if hasattr(tile, "_replace") else (*tile[:3], args)


def _as_meant(pixels: Pixels, tags: tiff.Directory) -> Pixels:
    """Return whole numbers as they are meant: Pillow has 32 bits with a sign, 8 without."""
    signed = tags.number(tiff.SAMPLE_FORMAT, 1) == 2
    if pixels.dtype == np.int32 and not signed and tags.number(tiff.BITS_PER_SAMPLE, 1) == 32:
        return pixels.view(np.uint32)
    return pixels.view(np.int8) if pixels.dtype == np.uint8 and signed else pixels


def _not_opened(tags: tiff.Directory) -> DecodeError:
    kind = _KINDS.get(tags.number(tiff.SAMPLE_FORMAT, 1), "of unknown kind ")
    where = "in planes" if tags.number(tiff.PLANAR, 1) == 2 else "a pixel"
    return DecodeError(
        f"the TIFF has {tags.number(tiff.SAMPLES_PER_PIXEL, 1)} samples {where}, "
        f"{kind}{tags.number(tiff.BITS_PER_SAMPLE, 1)}, in a way that is not opened: save it as a "
        ".npy file, for dfgen.Array, or as another kind of TIFF"
    )
