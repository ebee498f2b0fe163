"""Keeps the warnings of Pillow, of broken metadata and large images, from a thread that decodes.

`warnings.catch_warnings` changes the filters of all threads, and two of them that overlap leave
them changed. Here one filter is added, once, that asks which thread it is.
"""

import threading
import warnings


class _Decoding(threading.local):
    depth = 0


_THREAD = _Decoding()


class _AskThread(type):
    def __subclasscheck__(cls, category: type) -> bool:
        return _THREAD.depth > 0


class WarningOfDecoder(Warning, metaclass=_AskThread):
    """Stands in the filters for any warning of a thread that decodes."""


class _Unwarned:
    """A third of the time of a generator, which counts in the header of a small file."""

    def __enter__(self) -> None:
        if not warnings.filters or warnings.filters[0][2] is not WarningOfDecoder:
            warnings.simplefilter("ignore", WarningOfDecoder)
        _THREAD.depth += 1

    def __exit__(self, *raised: object) -> None:
        _THREAD.depth -= 1


UNWARNED = _Unwarned()
"""Ignores the warnings of this thread, and of no other, `with UNWARNED:`."""
