"""Objects of S3, Google Cloud Storage, Azure and behind HTTP, through obstore (an extra).

obstore is Rust's `object_store`: it signs, keeps connections, tries again what passes, and gives up
the GIL meanwhile. Source: https://developmentseed.org/obstore.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from typing import IO, Any
from urllib.parse import unquote

from dfgen.errors import AccessError, ArgumentError, DecodeError, DfgenError
from dfgen.limits import refuse_bytes
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.remote import object_errors
from dfgen.samples.stores.remote.ranges import FIRST, remote_file
from dfgen.samples.stores.remote.store_options import Clients, StorageOptions
from dfgen.samples.stores.store import Head, Store

CLIENT = {"connect_timeout": "5s", "read_timeout": "10s", "timeout": "10m"}
"""The clock of a request where the user sets no other: `read_timeout` is between two bytes."""

RETRIES = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(seconds=0.1),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}
"""How often obstore tries again; rows are read again by `loading/workers/retries.py` then."""

_OF_CLIENT = frozenset(
    (
        "allow_http", "allow_invalid_certificates", "connect_timeout", "default_headers",
        "http1_only", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url",
        "read_timeout", "root_certificate", "timeout", "user_agent",
    )
)  # fmt: skip
_PREFIXES = {"s3": "AWS_", "g": "GOOGLE_", "a": "AZURE_"}
"""How a scheme begins -> how obstore's options of it are called in the environment."""

_NO_HEAD = re.compile("status code: (403|405|501)")  # 403: an address that is signed for GET
_BASE = re.compile("endpoint|base_url")  # in the names of options that tell where a store is
_USERS = set[int]()  # the process that has used obstore, or a parent that had when it forked
_FORKED = (
    "the file cannot be read: this process was forked from one that had read remote files, and "
    "lacks its threads. Start it anew: multiprocessing.get_context('spawn'), or fork before"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PLAIN = ("identity", "", "aws-chunked")  # the last is left of an upload, and tells nothing
_A_PAGE = 1_000  # names that a listing gives at once


@dataclass(frozen=True)
class RemoteStore(Store):
    """A store that asks servers, by clients that it keeps."""

    clients: Clients
    far = True

    def open(self, path: str) -> IO[bytes]:
        """Open a file of which the header alone will be read."""
        return self.look(path).open(path)

    def close(self) -> None:
        """Close what is open; it is opened again where it is asked for."""
        super().close()
        self.clients.clear()


@dataclass(frozen=True)
class Objects(RemoteStore):
    """Objects by their address, `scheme://bucket/key`, each read by one request.

    Keys are taken as they are; addresses of HTTP are escaped, as everywhere.
    """

    clients: Clients = field(default_factory=lambda: Clients(_client), repr=False, compare=False)

    def __post_init__(self) -> None:
        if find_spec("obstore") is None:
            raise ArgumentError(
                "files in a bucket and behind HTTP need obstore: pip install 'keras-dfgen[stores]'"
            )

    def read(self, path: str) -> bytes:
        """Return the bytes of one object."""
        return self.read_as(path, lambda *known: None)

    def read_as(self, path: str, check: Check) -> bytes:
        """Return the bytes of one object, if it is the one that is known, by the same answer."""
        client, place, key = self._client(path)
        try:
            answer = client.get(key)
            head = _head(answer.meta)
            check(head.size, head.mtime_ns)
            refuse_bytes(answer.range[1], self.limits)
            _refuse_packed(answer)
            data = answer.bytes().to_bytes()
        except Exception as error:
            raise self._told(error, path) from None
        self._reached(place, key)
        if not data:
            raise DecodeError("the file is empty (0 bytes)")
        return bytes(data)

    def range(self, path: str, start: int, stop: int) -> bytes:
        """Return some of the bytes of one object, by one request."""
        client, _, key = self._client(path)
        try:
            return bytes(client.get_range(key, start=start, end=stop).to_bytes())
        except Exception as error:
            if type(error).__name__ == "NotSupportedError":  # a server without ranges
                return self.read(path)[start:stop]
            raise self._told(error, path) from None

    def head(self, path: str) -> Head:
        """Return size and time of one object, without reading it; `version` is its ETag."""
        client, _, key = self._client(path)
        try:
            return _head(client.head(key))
        except Exception as error:
            if not _NO_HEAD.search(str(error)):
                raise self._told(error, path) from None
        try:
            return _head(client.get(key).meta)  # a server without HEAD
        except Exception as error:
            raise self._told(error, path) from None

    def look(self, path: str) -> "Store":
        """Return a store of this one object, of which one request has told head and begin."""
        client, place, key = self._client(path)
        try:
            answer = client.get(key, options={"range": (0, FIRST)})
            _refuse_packed(answer)
            head, first = _head(answer.meta), bytes(answer.bytes().to_bytes())
            self._reached(place, key)
        except Exception as error:
            if "status code: 416" in str(error):  # there is no range in an empty one
                return self._looked(path, self.head(path), b"")
            if type(error).__name__ != "NotSupportedError":
                raise self._told(error, path) from None
            head, first = self.head(path), self.read(path)
        return self._looked(path, head, first)

    def _looked(self, path: str, head: Head, first: bytes) -> "Looked":
        return Looked(self, path, head, first, limits=self.limits)

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield address and head of all objects below a prefix, which stands for a folder."""
        place, key = _parts(prefix)
        if place.startswith("http"):
            raise ArgumentError(
                f"{prefix}: HTTP has no listing of files. Give a table of their addresses, "
                "labels= with path_column= (--labels TABLE --path-column COLUMN)"
            )
        client, *_ = self._client(prefix)
        try:
            for page in client.list(key.strip("/") or None, chunk_size=_A_PAGE):
                for meta in page:
                    yield f"{place}/{meta['path']}", _head(meta)
        except Exception as error:
            raise self._told(error, prefix, "list") from None

    def write(self, path: str, data: bytes | IO[bytes]) -> None:
        """Make an object, or replace it: whole or not at all, in parts where it is large."""
        client, _, key = self._client(path)
        try:
            client.put(key, data)
        except Exception as error:
            raise self._told(error, path, "write") from None

    def _told(self, error: Exception, path: str, asked: str = "read") -> Exception:
        """Return what to raise for what a client has raised; the fault of the file, or not."""
        if isinstance(error, DfgenError | MemoryError):
            return error
        scheme, _, rest = path.partition("://")
        bucket = rest.partition("/")[0]
        if asked == "list":
            return object_errors.error_of_listing(error, scheme, bucket)
        reached = asked == "read" and _parts(path)[0] in self.clients.reached
        return object_errors.error_of_object(error, scheme, bucket, reached)

    def _reached(self, place: str, key: str) -> None:
        if key:  # else the address has a query, which opens this one file, and for a while
            self.clients.reached.add(place)

    def _client(self, path: str) -> tuple[Any, str, str]:
        if _USERS and os.getpid() not in _USERS:  # also a new client would wait for ever
            raise AccessError(_FORKED)
        _USERS.add(os.getpid())
        place, key = _parts(path)
        return self.clients.get(place, self.options), place, key


@dataclass(frozen=True)
class Looked(Store):
    """One remote file, whose head and first bytes have come."""

    store: Store = field(default_factory=Store)
    path: str = ""
    known: Head = field(default_factory=lambda: Head(0, None))
    first: bytes = field(default=b"", repr=False)

    def head(self, path: Any) -> Head:
        """Return what is known."""
        return self.known

    def open(self, path: Any) -> IO[bytes]:
        """Open it at its begin."""
        if len(self.first) >= self.known.size:
            return BytesIO(self.first)
        fetch = partial(self.store.range, self.path)
        return remote_file(self.known.size, fetch, self.first)

    def read(self, path: Any) -> bytes:
        """Return all of its bytes."""
        return self.store.read(self.path)


def _parts(path: str) -> tuple[str, str]:
    """Return `scheme://bucket` and the key; of an address with a query all of it, and none."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if not scheme.startswith("http"):
        return f"{scheme}://{bucket}", key
    if "?" in key or "#" in key:
        return path.partition("#")[0], ""
    return f"{scheme}://{bucket}", unquote(key)


def _client(place: str, options: StorageOptions) -> Any:
    from obstore import store  # late: an extra

    scheme = place.partition("://")[0]
    given, told = options.values(), _environment(scheme)
    client = {name: given.pop(name) for name in _OF_CLIENT & given.keys()}
    # obstore, which reads the environment itself, forgets this part of it beside `client_options`
    of_client = {name: told[name] for name in _OF_CLIENT & told.keys()}
    client = {**CLIENT, **of_client, **client, **given.pop("client_options", {})}
    bases = [str(value) for name, value in {**told, **given}.items() if _BASE.search(name)]
    if scheme == "http" or any(base.startswith("http://") for base in bases):
        client.setdefault("allow_http", True)
    both = {"client_options": client, "retry_config": {**RETRIES, **given.pop("retry_config", {})}}
    try:
        if scheme.startswith("http"):
            if given:
                raise ValueError
            return store.HTTPStore(place, **both)
        return store.from_url(place.replace("gcs://", "gs://"), **given, **both)
    except Exception as error:
        if scheme.startswith("http") and str(error).startswith(("invalid ", "empty host")):
            raise DecodeError(
                "the file cannot be read: its address names no server: expected "
                f"{scheme}://HOST/NAME or {scheme}://HOST:PORT/NAME"
            ) from None
        raise object_errors.error_of_options(error, scheme, [*options.values()]) from None


def _environment(scheme: str) -> dict[str, str]:
    """Return the options of a store that the environment has, by their names in lower case."""
    prefix = next((one for start, one in _PREFIXES.items() if scheme.startswith(start)), None)
    if prefix is None:
        return {}
    return {
        name.removeprefix(prefix).lower(): value
        for name, value in os.environ.items()
        if name.startswith(prefix)
    }


def _refuse_packed(answer: Any) -> None:
    """Refuse what is not the bytes of a file, but those of a compressed one."""
    packed = answer.attributes.get("Content-Encoding", "identity")
    if packed not in _PLAIN:
        raise object_errors.as_sent(f"sends it compressed (Content-Encoding: {packed})")


def _head(meta: Any) -> Head:
    time = (meta["last_modified"] - _EPOCH) // _MICROSECOND * 1_000
    return Head(meta["size"], time or None, meta["e_tag"])  # 1970: the server tells no time
