"""Options that open a remote store: keys, tokens, addresses. None is shown, nor kept anywhere."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import Any

from dfgen.errors import AccessError, ArgumentError, brief

_TRAVELS: ContextVar[bool] = ContextVar("_TRAVELS", default=False)


class StorageOptions:
    """The `storage_options=` of a user, which no repr shows and no pickle has but `travelling`.

    A copy made by any other pickle, as on a disk, refuses to open anything.
    """

    __slots__ = ("_lost", "_values")

    def __init__(self, values: Mapping[str, Any] | None = None, lost: bool = False) -> None:
        if values is not None and not (
            isinstance(values, Mapping) and all(isinstance(name, str) for name in values)
        ):
            shown = brief(type(values)).removeprefix("the class ")
            raise ArgumentError(
                f"storage_options is of type {shown}, expected a dict of what opens the store, as "
                '{"region": "eu-central-1"}'
            )
        self._values, self._lost = dict(values or {}), lost

    def values(self) -> dict[str, Any]:
        """Return what was given; AccessError if a pickle left it behind."""
        if self._lost:
            raise AccessError(
                "the file cannot be read: a pickle holds no storage_options, so no key is "
                "written to a disk: give them again, or let the store find them, as in the "
                "environment of the process"
            )
        return dict(self._values)

    def __bool__(self) -> bool:
        return bool(self._values) or self._lost

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values)))

    def __repr__(self) -> str:
        return "StorageOptions(...)" if self else "StorageOptions()"

    def __deepcopy__(self, known: object) -> "StorageOptions":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if _TRAVELS.get() or not self._values:
            return StorageOptions, (self._values, self._lost)
        return StorageOptions, (None, True)


def password_refused(address: str) -> ArgumentError:
    """Return what to raise for an address with a password or token in it, which is not shown."""
    scheme = address.partition("://")[0]
    headers = '{"default_headers": {"Authorization": ...}}' if scheme.startswith("http") else ""
    return ArgumentError(
        f"the address {scheme}://... has a password or token in it, which a manifest would keep "
        "and messages would show: leave it out, and give what opens it as storage_options="
        f"{headers}"
    )


@contextmanager
def travelling() -> Iterator[None]:
    """Let pickles made within hold storage options: those that a worker process of this one gets.

    Example:
        >>> with travelling():
        ...     pickle.loads(pickle.dumps(StorageOptions({"token": "x"}))).values()
        {'token': 'x'}
    """
    before = _TRAVELS.set(True)
    try:
        yield
    finally:
        _TRAVELS.reset(before)


_KEPT = 64  # an address with a query has one of its own, which holds connections and memory


class Clients:
    """The clients of buckets and hosts that were asked for last; each copy makes its own.

    `make` makes the client of a place by options; it is a function of a module.
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
