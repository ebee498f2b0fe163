"""Facts of files in a manifest, compared with the files when they are read."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError

UNKNOWN = -1
"""Stands for a size or a time that is not known."""

_SECOND, _MILLISECOND = 10**9, 10**6  # nanoseconds

Check = Callable[[int, int | None], None]
"""Is told size and time of a file that is read, and raises DecodeError if they are others."""


@dataclass(frozen=True)
class KnownFiles:
    """Sizes and times (nanoseconds since 1970) of all rows' files, as the manifest has them.

    UNKNOWN where it knows none; None: of no row.
    """

    sizes: npt.NDArray[np.int64] | None
    times: npt.NDArray[np.int64] | None

    def of(self, row: int, store: Any) -> Any:
        """Return a store that reads the file of one row, if it is the one that is known."""
        size, time = self.facts(row)
        return store if size == time == UNKNOWN else _StoreOfRow(store, size, time)

    def facts(self, row: int) -> tuple[int, int]:
        """Return size and time of the file of one row."""
        size = UNKNOWN if self.sizes is None else self.sizes.item(row)
        return size, UNKNOWN if self.times is None else self.times.item(row)

    def agrees(self, row: int, size: int, time: int | None) -> bool:
        """Whether the file of one row may be the one that is known."""
        known, changed = self.facts(row)
        return known in (size, UNKNOWN) and is_same_time(time, changed)

    def check(self, rows: npt.NDArray[np.int64], size: int, time: int | None) -> None:
        """Raise DecodeError if one file, of all these rows, is another than is known of one."""
        nothing = np.full(len(rows), UNKNOWN)
        sizes = nothing if self.sizes is None else self.sizes[rows]
        times = nothing if self.times is None else self.times[rows]
        for known in np.unique(np.stack([sizes, times], 1), axis=0).tolist():
            _refuse_other(size, time, *known)


class _StoreOfRow:
    """A store for one row: cheap to make, as each row has its own."""

    __slots__ = ("_size", "_store", "_time", "limits")

    def __init__(self, store: Any, size: int, time: int) -> None:
        self._store, self._size, self._time = store, size, time
        self.limits = store.limits  # asked for at each decode

    def read(self, path: Any) -> bytes:
        data: bytes = self._store.read_as(path, self._check)
        return data

    def row(self, path: str, index: int, dataset: str | None = None) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._store.row(path, index, dataset, self._check)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _check(self, size: int, time: int | None) -> None:
        _refuse_other(size, time, self._size, self._time)


def _refuse_other(size: int, time: int | None, known_size: int, known_time: int) -> None:
    same = size == known_size or known_size == UNKNOWN
    if same and (time == known_time or is_same_time(time, known_time)):
        return
    knows_time = time is not None and known_time != UNKNOWN
    now = _shown(size, time if knows_time else None)
    known = _shown(known_size, known_time if knows_time else None)
    raise DecodeError(
        f"the file has changed since the manifest was made: it was {known}, and is {now}. "
        "build_manifest(update=...) or verify(..., write=True) takes files as they are now; "
        "without the columns bytes and mtime_ns nothing is compared"
    )


def is_same_time(time: int | None, known: int) -> bool:
    """Whether two times of a file may be the same one, in nanoseconds; so may one not known.

    Copies and archives cut times to milliseconds, whole seconds, or 2 of them.
    """
    if time is None or known == UNKNOWN:
        return True
    apart = abs(time - known)
    cut = time % _SECOND == 0 or known % _SECOND == 0
    return apart < _MILLISECOND or (cut and apart <= 2 * _SECOND)


def are_same_times(
    times: npt.NDArray[np.int64], known: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Say for each pair of known times what `is_same_time` says of one."""
    apart = np.abs(times - known)
    cut = (times % _SECOND == 0) | (known % _SECOND == 0)
    same: npt.NDArray[np.bool_] = (apart < _MILLISECOND) | (cut & (apart <= 2 * _SECOND))
    return same


def _shown(size: int, time: int | None) -> str:
    nbytes = f"{size:,} bytes" if size != UNKNOWN else "of another size"
    if time is None:
        return nbytes
    try:
        when = datetime.fromtimestamp(time / _SECOND, UTC).isoformat(" ", "milliseconds")
    except (OverflowError, OSError, ValueError):  # no year has it
        when = f"{time} ns"
    return f"{nbytes} of {when}"
