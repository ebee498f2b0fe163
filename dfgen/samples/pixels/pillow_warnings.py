"""Keeps the warnings of Pillow, of broken metadata and large images, from a thread that decodes.

`warnings.catch_warnings` changes the filters of all threads, and two of them that overlap leave
them changed. Here one filter is added, once, that asks which thread it is.
"""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class _Decoding(threading.local):
    now = False


_THREAD = _Decoding()


class _AskThread(type):
    def __subclasscheck__(cls, category: type) -> bool:
        return _THREAD.now


class WarningOfDecoder(Warning, metaclass=_AskThread):
    """Stands in the filters for any warning of a thread that decodes."""


@contextmanager
def unwarned() -> Iterator[None]:
    """Ignore the warnings of this thread, and of no other."""
    if not warnings.filters or warnings.filters[0][2] is not WarningOfDecoder:
        warnings.simplefilter("ignore", WarningOfDecoder)
    before, _THREAD.now = _THREAD.now, True
    try:
        yield
    finally:
        _THREAD.now = before
