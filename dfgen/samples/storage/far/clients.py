"""Clients: what stores far away are opened with."""

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any

from dfgen.samples.storage.far.store_options import StorageOptions

_KEPT = 64  # an address with a query has one of its own, which holds connections and memory


class Clients:
    """The clients of buckets and hosts that were asked for last; each copy makes its own.

    Args:
        make: makes the client of a place by options; a function of a module.
    """

    def __init__(self, make: Callable[[str, StorageOptions], Any]) -> None:
        self._make, self._cached, self._lock = make, lru_cache(_KEPT)(make), Lock()
        self.reached = set[str]()  # buckets and hosts of which a file could be read

    def get(self, place: str, options: StorageOptions) -> Any:
        """Return the client of `scheme://bucket`."""
        with self._lock:  # or all who begin at once make one each
            return self._cached(place, options)

    def clear(self) -> None:
        """Close all."""
        self._cached.cache_clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return Clients, (self._make,)
