"""What libtiff says of pixels that Pillow has it decode; Pillow itself looks away, and goes on.

libtiff keeps one function for errors and one for warnings, of all threads, by default those that
write to stderr. Here both ask which thread it is. Where libtiff is a part of Pillow that cannot be
reached (Windows), it stays as it is.
"""

import ctypes
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from PIL import _imaging

from dfgen.errors import DecodeError

Loaded = TypeVar("Loaded")

_OF_TAGS = re.compile(rb"_?TIFF(Fetch|Read(Dir|Custom)|V?SetField)|OJPEGSubsamplingCorrect")
"""Functions of libtiff that read what stands beside the pixels; unknown tags are no damage."""

_OF_HABITS = re.compile(
    rb"Old-style LZW codes|Deprecated and troublesome|Auto-corrected former|progressive mode|"
    rb"not terminated with EOI code"
)
"""What it says of files written in an old or odd way, of which it then decodes every pixel."""

_LONGEST = 200  # bytes of what it says


class _Listening(threading.local):
    heard: list[str] | None = None


_THREAD = _Listening()


def without_complaint(read: Callable[[], Loaded]) -> Loaded:
    """Return what `read()` does.

    Raises:
        DecodeError: libtiff has said in this thread that pixels are damaged.
    """
    heard = _THREAD.heard = list[str]()
    try:
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
