"""Files at all other URLs that fsspec knows: `hf://`, `sftp://`, `hdfs://`, `memory://`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from typing import Any

from dfgen.errors import AccessError, ArgumentError, DfgenError, MissingFileError, ReadError
from dfgen.limits import refuse_bytes
from dfgen.stores.store import Head, Store, check_size

_TIMES = ("mtime", "LastModified", "last_modified", "modified", "created")


@cache
def of_fsspec(scheme: str) -> bool:
    """Return whether fsspec is installed and knows a scheme."""
    if scheme in ("file", "") or find_spec("fsspec") is None:
        return False
    from fsspec import available_protocols  # late, because it is an extra

    return scheme in available_protocols()


class FsspecFiles(Store):
    """Files by their URL, through the file system of its scheme."""

    def read(self, path: Any, size: int | None = None) -> bytes:
        """Return the bytes of a file."""
        found = self.head(path).size
        check_size(found, size)
        refuse_bytes(found, self.limits)
        return bytes(self._ask(path, "cat_file"))

    def head(self, path: Any) -> Head:
        """Return size and time of a file."""
        return _head(self._ask(path, "info"))

    def range(self, path: Any, start: int, stop: int) -> bytes:
        """Return a part of a file."""
        return bytes(self._ask(path, "cat_file", start=start, end=stop))

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield URL and head of all files below a folder."""
        root = self._system(prefix)._strip_protocol(prefix.rstrip("/"))
        for name, info in self._ask(prefix, "find", detail=True).items():
            yield f"{prefix.rstrip('/')}/{name[len(root) :].lstrip('/')}", _head(info)

    def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        self._ask(path, "pipe_file", data)

    def _system(self, path: str) -> Any:
        from fsspec.core import url_to_fs  # it keeps file systems

        scheme = path.partition("://")[0]
        try:
            return url_to_fs(path, **self.options)[0]
        except ImportError as error:
            raise ArgumentError(f"{scheme}:// needs another package: {error}") from None
        except Exception as error:
            raise ArgumentError(
                f"storage_options cannot open {scheme}:// ({type(error).__name__}). Given are "
                f"{', '.join(self.options) or 'none'}: expected the options of fsspec's file system"
            ) from None

    def _ask(self, path: str, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            system = self._system(path)
            return getattr(system, method)(system._strip_protocol(path), *arguments, **options)
        except (DfgenError, MemoryError):
            raise
        except (FileNotFoundError, NotADirectoryError):
            raise MissingFileError("the file does not exist") from None
        except Exception as error:  # its text may hold keys
            kind = AccessError if isinstance(error, PermissionError) else ReadError
            raise kind(f"the file cannot be read: fsspec raised {type(error).__name__}") from None


def _head(info: dict[str, Any]) -> Head:
    time = next((info[name] for name in _TIMES if info.get(name) is not None), None)
    if isinstance(time, datetime):
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    nanoseconds = round(time * 10**6) * 1_000 if isinstance(time, int | float) else None
    problem = None if info.get("type", "file") == "file" else "not a regular file"
    return Head(int(info.get("size") or 0), nanoseconds, info.get("ETag"), problem)
