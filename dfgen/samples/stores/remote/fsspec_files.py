"""Files at any other address that fsspec knows: `hf://`, `sftp://`, `hdfs://`, `memory://`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from shutil import copyfileobj
from typing import IO, Any

from dfgen.errors import (
    AccessError,
    ArgumentError,
    DecodeError,
    DfgenError,
    MissingFileError,
    ReadError,
)
from dfgen.limits import refuse_bytes
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.remote.objects import Looked, RemoteStore
from dfgen.samples.stores.remote.ranges import FIRST
from dfgen.samples.stores.remote.store_options import Clients, StorageOptions
from dfgen.samples.stores.store import Head, Store

_TIMES = ("mtime", "LastModified", "last_modified", "modified", "created")
_TAGS = ("ETag", "etag", "md5Hash", "checksum", "ino")
_COPIED = 1 << 23  # bytes that are written at once
_NOT = ("file", "")  # a path of this machine, which is written without


@cache
def of_fsspec(scheme: str) -> bool:
    """Whether fsspec is there, and knows addresses of a scheme."""
    if scheme in _NOT or find_spec("fsspec") is None:
        return False
    from fsspec import available_protocols  # late: an extra

    return scheme in available_protocols()


@dataclass(frozen=True)
class FsspecFiles(RemoteStore):
    """Files by their address, through fsspec's file system of its scheme."""

    clients: Clients = field(default_factory=lambda: Clients(_opened), repr=False, compare=False)

    def read(self, path: str) -> bytes:
        """Return the bytes of one file."""
        data = self._ask(path, "cat_file")
        if not data:
            raise DecodeError("the file is empty (0 bytes)")
        return bytes(data)

    def read_as(self, path: str, check: Check) -> bytes:
        """Return the bytes of one file, if it is the one that is known."""
        head = self.head(path)
        check(head.size, head.mtime_ns)
        refuse_bytes(head.size, self.limits)
        data = self.read(path)
        check(len(data), head.mtime_ns)
        return data

    def range(self, path: str, start: int, stop: int) -> bytes:
        """Return some of the bytes of one file."""
        return bytes(self._ask(path, "cat_file", start=start, end=stop))

    def head(self, path: str) -> Head:
        """Return size and time of one file, without reading it."""
        return _head(self._ask(path, "info"))

    def look(self, path: str) -> Store:
        """Return a store of this one file, whose head and begin have come."""
        head = self.head(path)
        first = b"" if head.problem or not head.size else self.range(path, 0, min(FIRST, head.size))
        return Looked(self, path, head, first, limits=self.limits)

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield path and head of all files below a folder."""
        prefix = prefix.rstrip("/")
        root = self._system(prefix)._strip_protocol(prefix)
        for name, info in self._ask(prefix, "find", detail=True).items():
            yield f"{prefix}/{name[len(root) :].lstrip('/')}", _head(info)

    def write(self, path: str, data: bytes | IO[bytes]) -> None:
        """Make a file, or replace it."""
        if isinstance(data, bytes):
            self._ask(path, "pipe_file", data)
            return
        with self._ask(path, "open", "wb") as file:
            try:
                copyfileobj(data, file, _COPIED)
            except Exception as error:
                raise _told(error, path) from None

    def _system(self, path: str) -> Any:
        scheme, mark, rest = path.partition("://")
        return self.clients.get(scheme + mark + rest.partition("/")[0], self.options)

    def _ask(self, path: str, method: str, *given: Any, **more: Any) -> Any:
        try:
            system = self._system(path)
            return getattr(system, method)(system._strip_protocol(path), *given, **more)
        except Exception as error:
            raise _told(error, path) from None


def _opened(place: str, options: StorageOptions) -> Any:
    from fsspec.core import url_to_fs  # late: an extra

    scheme, given = place.partition("://")[0], options.values()
    try:
        return url_to_fs(place, **given)[0]
    except ImportError as error:  # fsspec says which package reads them
        raise ArgumentError(f"{scheme}:// needs a package that is not there: {error}") from None
    except Exception as error:
        raise ArgumentError(
            f"storage_options cannot open {scheme}://: {type(error).__name__}. Given: "
            f"{', '.join(given) or 'none'}. They are those of fsspec's file system of that scheme"
        ) from None


def _head(info: dict[str, Any]) -> Head:
    time = next((info[name] for name in _TIMES if info.get(name) is not None), None)
    tag = next((info[name] for name in _TAGS if info.get(name) is not None), None)
    problem = None if info.get("type", "file") == "file" else "not a regular file"
    return Head(int(info.get("size") or 0), _nanoseconds(time), tag, problem)


def _nanoseconds(time: Any) -> int | None:
    """Return a time as a file system gives it: seconds, a datetime or ISO 8601; None: no time."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            return None
    if isinstance(time, datetime):
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return round(time * 10**6) * 1_000 if isinstance(time, int | float) else None


def _told(error: Exception, path: str) -> Exception:
    """Return what to raise; of what a system says nothing is quoted, as it may hold keys."""
    if isinstance(error, DfgenError | MemoryError):
        return error
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFileError("the file does not exist")
    scheme = path.partition("://")[0]
    if isinstance(error, PermissionError):
        return AccessError(
            f"the file cannot be read: {scheme}:// refuses it. Credentials come from "
            "storage_options=, and from where fsspec's file system of that scheme looks for them"
        )
    if isinstance(error, IsADirectoryError):
        return DecodeError("the file cannot be read: it is a folder")
    return ReadError(f"the file cannot be read: fsspec raised {type(error).__name__}")
