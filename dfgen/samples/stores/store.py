"""The answers of a store: the bytes of a file, what is known of it, and rows of array files."""

import copy
import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import IO, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DecodeError, DfgenError, unreadable
from dfgen.limits import DEFAULT, Limits, refuse_bytes
from dfgen.platform_calls import read_ahead
from dfgen.samples.stores.array_files import (
    BROKEN_ROWS,
    ArrayRows,
    OpenArrays,
    UnpackedRows,
    as_bytes,
    extents,
    open_rows,
)
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.remote.store_options import StorageOptions


class Head(NamedTuple):
    """A file as a store knows it without opening it.

    `mtime_ns` is None where it is not known; `version` tells these contents from others, as an ETag
    does; `problem` says why it cannot be read although it is there.
    """

    size: int
    mtime_ns: int | None
    version: object = None
    problem: str | None = None


def _told(read: Callable[..., bytes]) -> Callable[..., bytes]:
    """Return a `read` of a store that tells whatever it raises as a file that cannot be read."""

    @wraps(read)
    def told(self: Any, *arguments: Any) -> bytes:
        try:
            data = read(self, *arguments)
            refuse_bytes(len(data), self.limits)
            return data
        except (DfgenError, MemoryError):
            raise
        except Exception as error:
            raise unreadable(error) from error

    return told


@dataclass(frozen=True)
class Store:
    """A place of bytes. A new one has `read` and `head`, and of the others what it does better.

    It travels to worker processes, but for the files that it has open. `limits` say what one file
    may ask for; whoever decodes asks it for them. `options` open it if it is remote.
    """

    arrays: OpenArrays = field(default_factory=OpenArrays, repr=False, compare=False, kw_only=True)
    limits: Limits = field(default=DEFAULT, repr=False, compare=False, kw_only=True)
    options: StorageOptions = field(default_factory=StorageOptions, repr=False, kw_only=True)

    def __init_subclass__(cls, tells: bool = False) -> None:
        """Have it tell what its `read` raises as errors of dfgen, and keep the limits.

        A class that `tells` does both itself: a call less for each file.
        """
        super().__init_subclass__()
        if "read" in vars(cls) and not tells:
            cls.read = _told(cls.read)  # type: ignore[method-assign]
            own = vars(cls).get("read_as")
            cls.read_as = Store.read_as if own is None else _told(own)  # type: ignore[method-assign]

    def read(self, path: str) -> bytes:
        """Return the bytes of one file.

        Raises:
            MissingFileError: there is no such file.
            DecodeError: the file is empty, or cannot be read, for whatever is raised.
        """
        raise NotImplementedError

    def read_as(self, path: str, check: Check) -> bytes:
        """Return the bytes of one file, if `check` does not refuse its size and time, if known."""
        data = self.read(path)
        check(len(data), None)
        return data

    def head(self, path: str) -> Head:
        """Return size and time of one file, without reading it.

        Raises:
            MissingFileError: there is no such file.
            OSError, ValueError: it cannot be looked at.
        """
        raise NotImplementedError

    @property
    def far(self) -> bool:
        """Whether a read waits for a network most of the time: many at once cost little more."""
        return False

    def open(self, path: str) -> IO[bytes]:
        """Open a file of which the header alone will be read."""
        return io.BytesIO(self.read(path))

    def look(self, path: str) -> "Store":
        """Return a store that tells `head` and header of a file by one request, if remote."""
        return self

    def range(self, path: str, start: int, stop: int) -> bytes:
        """Return the bytes of one file from `start` to before `stop`, fewer where it ends."""
        with self.open(path) as file:
            file.seek(start)
            return file.read(stop - start)

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield path and head of all files below a folder, in any depth, in no promised order."""
        raise ArgumentError(f"{prefix}: nothing can be listed there")

    def write(self, path: str, data: bytes | IO[bytes]) -> None:
        """Make a file of bytes, or of those of an open file; it is there whole or not at all."""
        raise ArgumentError(f"{path}: nothing can be written there")

    def open_rows(self, path: str, dataset: str | None = None) -> ArrayRows:
        """Open an array file; `row` keeps it open."""
        return open_rows(self.read(path), dataset, self.limits)

    def array(self, path: str, dataset: str | None = None, check: Check | None = None) -> ArrayRows:
        """Return all rows of a .npy or HDF5 file, unread, kept open; the arguments are of `row`."""
        head = self.head(path)
        if check is not None:
            check(head.size, head.mtime_ns)
        return self.arrays.get(path, dataset, head, self.open_rows)

    def row(
        self, path: str, index: int, dataset: str | None = None, check: Check | None = None
    ) -> npt.NDArray[Any]:
        """Return one row of a .npy or HDF5 file; one that has changed since is opened anew.

        `dataset` names the array in an HDF5 file of several; `check` is as of `read_as`.

        Raises:
            MissingFileError: there is no such file.
            DecodeError: it is no such file, has no such array, or not so many rows.
        """
        try:
            rows = self.array(path, dataset, check)
            if not 0 <= index < len(rows):
                raise DecodeError(f"the array has {len(rows):,} rows, there is no row {index}")
            row = np.asarray(rows[index])
            if isinstance(rows, np.ndarray):
                self.arrays.took(row.nbytes)
            return row
        except (DfgenError, MemoryError):
            raise
        except Exception as error:
            raise unreadable(error) from error

    def take(
        self,
        path: str,
        indices: npt.NDArray[np.int64],
        out: npt.NDArray[Any],
        dataset: str | None = None,
        check: Check | None = None,
    ) -> bool:
        """Fill `out` with rows of an array file, all at once; return whether it could."""
        try:
            rows = self.array(path, dataset, check)
        except MemoryError:
            raise
        except Exception:
            return False
        inside = indices.min() >= 0 and indices.max() < len(rows)
        if not inside or rows.shape[1:] != out.shape[1:] or rows.dtype != out.dtype:
            return False
        if isinstance(rows, UnpackedRows):
            try:
                rows.take(indices, out)
            except BROKEN_ROWS:
                return False
        elif isinstance(rows, np.ndarray) and rows.flags.c_contiguous and out.flags.c_contiguous:
            # "raise" would make a copy first, of the rows; so do numbers at odd places, of the file
            as_bytes(rows).take(indices, 0, as_bytes(out), "clip")
            self.arrays.took(out.nbytes)
        else:
            return False
        return True

    def ahead(self, path: str, start: int, stop: int, dataset: str | None = None) -> None:
        """Have the system read rows of a local array file into its cache, where it can do so."""
        if "://" in path:
            return
        with suppress(DfgenError, *BROKEN_ROWS):  # reading them tells
            read_ahead(path, extents(self.array(path, dataset), start, stop))

    def holding(self, nbytes: int) -> Self:
        """Return the store with another bound on what it holds in memory of array files."""
        limited = copy.copy(self)
        object.__setattr__(limited, "arrays", OpenArrays(nbytes))
        return limited

    def of(self, path: str) -> "Store":
        """Return the store that reads one path: itself, or one of those that it is made of."""
        return self

    def within(self, limits: Limits | None, options: StorageOptions | None = None) -> Self:
        """Return the store with other limits and options; None, or no options: those it has."""
        wanted = {"limits": limits, "options": options or None}
        given = {name: value for name, value in wanted.items() if value is not None}
        if not given:
            return self
        other = copy.copy(self)
        vars(other).update(given)
        return other

    def close(self) -> None:
        """Close what is open; it is opened again where it is asked for."""
        self.arrays.close()
