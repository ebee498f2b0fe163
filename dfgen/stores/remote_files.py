"""Remote files: obstore reads object stores and HTTP servers, fsspec the other URLs that it knows.

obstore is Rust's `object_store`: it signs, keeps connections, retries, and releases the GIL. Both
are extras.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from io import BytesIO
from typing import IO, Any
from urllib.parse import unquote

from dfgen.errors import (
    AccessError,
    ArgumentError,
    DecodeError,
    DfgenError,
    MissingFileError,
    ReadError,
)
from dfgen.limits import refuse_bytes
from dfgen.stores.store import FIRST, Head, StorageOptions, Store, check_size, file_of_ranges

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
        return _head_of_info(self._ask(path, "info"))

    def range(self, path: Any, start: int, stop: int) -> bytes:
        """Return a part of a file."""
        return bytes(self._ask(path, "cat_file", start=start, end=stop))

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield URL and head of all files below a folder."""
        root = self._system(prefix)._strip_protocol(prefix.rstrip("/"))
        for name, info in self._ask(prefix, "find", detail=True).items():
            yield f"{prefix.rstrip('/')}/{name[len(root) :].lstrip('/')}", _head_of_info(info)

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


def _head_of_info(info: dict[str, Any]) -> Head:
    time = next((info[name] for name in _TIMES if info.get(name) is not None), None)
    if isinstance(time, datetime):
        time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    nanoseconds = round(time * 10**6) * 1_000 if isinstance(time, int | float) else None
    problem = None if info.get("type", "file") == "file" else "not a regular file"
    return Head(int(info.get("size") or 0), nanoseconds, info.get("ETag"), problem)


OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "http", "https")
"""Schemes that obstore reads."""

_CLIENT = {"connect_timeout": "5s", "read_timeout": "10s", "timeout": "10m"}
_RETRIES = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(seconds=0.1),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}
_CLIENTS = 64  # a URL with a query has a client of its own
_KEYS = {
    "s3": "storage_options, the variables AWS_*, and the machine's role, but not in ~/.aws",
    "g": "storage_options, the variables GOOGLE_*, and gcloud's own file",
    "a": "storage_options, the variables AZURE_*, and the machine's identity",
    "h": 'storage_options={"client_options": {"default_headers": {"Authorization": ...}}}',
}
_STATUS = re.compile(r"status code: (\d{3})")
_NO_KEYS = re.compile(r"169\.254\.|token|credential|Account must be specified", re.IGNORECASE)
_NO_HEAD = ("403", "405", "501")  # 403: a URL that is signed for GET
_USERS = set[int]()  # ids of processes that used obstore, also of parents before a fork
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Objects(Store):
    """Objects by their URL, `scheme://bucket/key`. URLs of HTTP are escaped, keys are not."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if find_spec("obstore") is None:
            raise ArgumentError(
                "files in a bucket and on HTTP servers need obstore: "
                "pip install 'keras-dfgen[stores]'"
            )
        self._clients = lru_cache(_CLIENTS)(partial(_client, options=self.options))

    def read(self, path: Any, size: int | None = None) -> bytes:
        """Return the bytes of an object, with one request."""
        client, key = self._client(path)
        with _errors(path):
            answer = client.get(key)
            check_size(answer.meta["size"], size)
            refuse_bytes(answer.meta["size"], self.limits)
            return bytes(answer.bytes())

    def head(self, path: Any) -> Head:
        """Return size and time of an object; `version` is its ETag."""
        client, key = self._client(path)
        with _errors(path):
            try:
                return _head_of_meta(client.head(key))
            except Exception as error:
                if _status(error) not in _NO_HEAD:
                    raise
            return _head_of_meta(client.get(key).meta)

    def begin(self, path: Any) -> tuple[Head, IO[bytes]]:
        """Return the head of an object and an open file, with one request."""
        client, key = self._client(path)
        try:
            answer = client.get(key, options={"range": (0, FIRST)})
            head, first = _head_of_meta(answer.meta), bytes(answer.bytes())
        except Exception as error:
            if _status(error) != "416" and type(error).__name__ != "NotSupportedError":
                raise _raised(error, path) from None
            head = self.head(path)  # an empty object, or a server without ranges
            return head, BytesIO(self.read(path) if head.size else b"")
        return head, file_of_ranges(head.size, partial(self.range, path), first)

    def range(self, path: Any, start: int, stop: int) -> bytes:
        """Return a part of an object, with one request."""
        client, key = self._client(path)
        try:
            return bytes(client.get_range(key, start=start, end=stop))
        except Exception as error:
            if type(error).__name__ == "NotSupportedError":  # a server without ranges
                return self.read(path)[start:stop]
            raise _raised(error, path) from None

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield URL and head of all objects below a prefix."""
        if prefix.startswith("http"):
            raise ArgumentError(
                f"{prefix}: HTTP servers list no files. Give a table of their URLs with labels= "
                "and path_column="
            )
        client, key = self._client(prefix)
        with _errors(prefix):
            for page in client.list(key.strip("/") or None):
                for meta in page:
                    yield f"{_parts(prefix)[0]}/{meta['path']}", _head_of_meta(meta)

    def write(self, path: str, data: bytes) -> None:
        """Write an object, whole or not at all."""
        client, key = self._client(path)
        with _errors(path):
            client.put(key, data)

    def close(self) -> None:
        """Close all connections."""
        self._clients.cache_clear()

    def _client(self, path: str) -> tuple[Any, str]:
        if _USERS and os.getpid() not in _USERS:  # a new client would wait for ever too
            raise AccessError(
                "this process was forked from one that had read remote files, and lacks its "
                "threads: use multiprocessing.get_context('spawn'), or fork before reading"
            )
        _USERS.add(os.getpid())
        place, key = _parts(path)
        return self._clients(place), key


def _parts(path: str) -> tuple[str, str]:
    """Return `scheme://bucket` and the key; for a URL with a query, all of it and no key."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if not scheme.startswith("http"):
        return f"{scheme}://{bucket}", key
    if "?" in key or "#" in key:
        return path.partition("#")[0], ""
    return f"{scheme}://{bucket}", unquote(key)


def _client(place: str, options: StorageOptions) -> Any:
    from obstore import store  # late, because it is an extra

    given = dict(options)
    client = {"allow_http": place[:7] == "http://", **_CLIENT, **given.pop("client_options", {})}
    retries = {**_RETRIES, **given.pop("retry_config", {})}
    try:
        if place.startswith("http"):
            return store.HTTPStore(place, client_options=client, retry_config=retries, **given)
        url = place.replace("gcs://", "gs://")
        return store.from_url(url, client_options=client, retry_config=retries, **given)
    except BaseException as error:  # obstore panics on unknown options
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        scheme = place.partition("://")[0]
        raise ArgumentError(
            f"storage_options cannot open {scheme}:// ({type(error).__name__}). Given are "
            f"{', '.join(options) or 'none'}, expected the options of obstore's store of "
            f"{scheme}://, with timeouts, headers and allow_http in client_options"
        ) from None


def _status(error: Exception) -> str:
    status = _STATUS.search(str(error))
    return status[1] if status else ""


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _raised(error, path) from None


def _raised(error: Exception, path: str) -> Exception:
    """Return the error to raise. It quotes no answer of a server, which may contain keys."""
    if isinstance(error, DfgenError | MemoryError):
        return error
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
        return MissingFileError("the file does not exist")
    text, status, kind = str(error), _status(error), type(error).__name__
    scheme, _, rest = path.partition("://")
    place = f"{scheme}://{rest.partition('/')[0]}"
    if isinstance(error, FileNotFoundError) or "NoSuchBucket" in text:
        return AccessError(f"there is no bucket {place}")
    if status in ("401", "403") or (not status and _NO_KEYS.search(text)):
        keys = next(text for start, text in _KEYS.items() if scheme.startswith(start))
        return AccessError(
            f"{place} refuses access ({status or kind}). Keys are looked for in {keys}"
        )
    if status in ("301", "307", "308") or "redirect" in text:
        return AccessError(f'{place} is in another region: give storage_options={{"region": ...}}')
    if "BadScheme" in text or "builder error" in text:
        return AccessError(
            f"{place} is not encrypted. To allow that, give "
            'storage_options={"client_options": {"allow_http": True}}'
        )
    if kind in ("ValueError", "InvalidPathError"):
        return DecodeError("the URL has an empty part, . or .., or a control character in its key")
    what = f"answered {status}" if status else f"cannot be reached ({kind})"
    return AccessError(f"the file cannot be read after all retries: {place} {what}")


def _head_of_meta(meta: Any) -> Head:
    time = (meta["last_modified"] - _EPOCH) // timedelta(microseconds=1) * 1_000
    return Head(meta["size"], time or None, meta["e_tag"])  # 1970: the server reports no time
