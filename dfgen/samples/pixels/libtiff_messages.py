"""Messages of libtiff on pixels that Pillow has it decode; Pillow itself looks away, and goes on.

libtiff keeps one function for errors and one for warnings, of all threads, by default those that
write to stderr. Here both ask which thread it is. As Pillow takes that for warnings away whenever
it begins to decode a file, what libtiff but warns of is decoded by one thread at a time. Where
libtiff is a part of Pillow that cannot be reached (Windows), it stays as it is.
"""

import ctypes
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from PIL import _imaging

from dfgen.errors import DecodeError

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
if hasattr(os, "register_at_fork"):  # a thread that a forked child lacks may have had its turn
    os.register_at_fork(after_in_child=_TURNS.__init__)  # type: ignore[misc]


def without_complaint(read: Callable[[], Loaded], compression: str) -> Loaded:
    """Return what `read()` does, of a TIFF of a compression as Pillow calls it.

    Raises:
        DecodeError: libtiff has said in this thread that pixels are damaged.
    """
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
