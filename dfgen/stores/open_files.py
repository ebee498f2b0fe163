"""Files that stay open between reads."""

from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Any

MOST_OPEN = 128
"""Each open file takes a descriptor, and a process may have 256 to 1024 of them."""


class OpenFiles:
    """Keeps the most recently used files open. A file that changed is opened again."""

    def __init__(self) -> None:
        self._opened = OrderedDict[object, tuple[object, Any]]()
        self._lock = RLock()  # closing a file may collect garbage that closes others

    def get(self, key: object, version: object, open_file: Callable[[], Any]) -> Any:
        """Return an open file of this version."""
        with self._lock:
            opened = self._opened.get(key)
            if opened is None or opened[0] != version:
                opened = self._opened[key] = version, open_file()
                if len(self._opened) > MOST_OPEN:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(key)
            return opened[1]

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._opened.clear()
