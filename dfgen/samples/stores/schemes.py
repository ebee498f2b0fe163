"""STORES: where bytes are, by the scheme of a path's URL. A new one is one class and one line."""

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import DecodeError, has_password
from dfgen.limits import Limits
from dfgen.samples.stores.archives.archive_paths import ARCHIVES
from dfgen.samples.stores.archives.members import Archives
from dfgen.samples.stores.array_files import ArrayRows
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.local_files import Files
from dfgen.samples.stores.remote.fsspec_files import FsspecFiles, of_fsspec
from dfgen.samples.stores.remote.objects import Objects
from dfgen.samples.stores.remote.store_options import StorageOptions, password_refused
from dfgen.samples.stores.store import Head, Store
from dfgen.table.arrow_types import flattened, is_list
from dfgen.table.file_columns import Content, are_files, content_parts, paths_of

STORES: dict[str, Callable[[], Store]] = {
    "": Files,
    **dict.fromkeys(("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "http", "https"), Objects),
    **dict.fromkeys(ARCHIVES, Archives),
}
"""Scheme, as `s3` in `s3://bucket/a.jpg` -> what makes its store; "": all other paths.

A scheme that is not here is one of fsspec, where that knows it."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_NAMED = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
# a password with / in it too, where no port ends before that
_PASSWORD = (
    r"^https?://[^/?#@]*@|"
    r"^(?:KINDS)://[^/?#@:\[]*:(?:[0-9]*[^0-9/?#@][^?#@]*|[^/?#@]*)@"
)
_PIECE = 1 << 18  # bytes of text looked through at once


def store_of(
    columns: Iterable[Any], limits: Limits | None = None, options: StorageOptions | None = None
) -> Store:
    """Return the one store that all these Arrow arrays of files, paths or bytes, are read from.

    `limits` are what it refuses, `options` open those that are remote.

    Example:
        >>> import pyarrow as pa
        >>> store_of([pa.array(["a.png", "b.png"])])
        Files()
    """
    files = list(columns)
    paths = [paths for paths in map(paths_of, files) if paths is not None]
    schemes = set[str]().union(*map(refuse_passwords, paths))
    names = {name if has_store(name) else "" for name in schemes} or {""}
    stores = {name: _store(name).within(limits, options) for name in sorted(names)}
    if len(stores) == 1 and not any(are_files(column.type) for column in files):
        return next(iter(stores.values()))
    return Several(stores).within(limits, options)


def store_at(
    path: str, limits: Limits | None = None, options: StorageOptions | None = None
) -> Store:
    """Return the store of one path or URL."""
    if has_password(path):
        raise password_refused(path)
    scheme = scheme_of(path)
    return _store(scheme if has_store(scheme) else "").within(limits, options)


def scheme_of(path: str) -> str:
    """Return the scheme of a URL, "" of a path.

    Example:
        >>> scheme_of("s3://bucket/a.jpg"), scheme_of("imgs/a.jpg")
        ('s3', '')
    """
    found = _SCHEME.match(path)
    return found[1] if found else ""


def has_store(scheme: str) -> bool:
    """Whether there is a store for a scheme; there is none for "", that of paths."""
    return scheme != "" and (scheme in STORES or of_fsspec(scheme))


def schemes_of(paths: Any) -> set[str]:
    """Return the schemes of all paths, "" of those that are no URLs; of lists, of all in them.

    Example:
        >>> import pyarrow as pa
        >>> sorted(schemes_of(pa.array(["s3://bucket/a.jpg", "b.jpg"])))
        ['', 's3']
    """
    paths = flattened(paths) if is_list(paths.type) else paths
    if not len(paths):
        return set()
    if not any(map(_has_colon, paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths])):
        return {""}
    first = scheme_of(paths[0].as_py() or "")
    if first and pc.all(pc.fill_null(pc.starts_with(paths, f"{first}://"), False)).as_py():
        return {first}
    found = pc.unique(pc.struct_field(pc.extract_regex(paths, _NAMED.pattern), "scheme"))
    return {name or "" for name in found.to_pylist()}


def examples_of_schemes(paths: Any) -> Any:
    """Return the first of some paths of each scheme.

    Example:
        >>> examples_of_schemes(pa.array(["a.png", "b.png", "s3://c/d.png"])).to_pylist()
        ['a.png', 's3://c/d.png']
    """
    schemes = schemes_of(paths)
    if len(schemes) < 2:
        return paths[:1]
    urls = [pc.starts_with(paths, f"{scheme}://") for scheme in schemes - {""}]
    masks = urls + [pc.invert(reduce(pc.or_, urls))] * ("" in schemes)
    return paths.take(pa.array(sorted(pc.index(mask, True).as_py() for mask in masks)))


def refuse_passwords(paths: Any) -> set[str]:
    """Return the schemes of paths; ArgumentError if one has a password or token in it."""
    schemes = schemes_of(paths)
    kinds = "|".join(map(re.escape, schemes - {"", "file", *ARCHIVES}))
    paths = flattened(paths) if kinds and is_list(paths.type) else paths
    if not kinds or not pc.any(pc.match_substring(paths, "@")).as_py():
        return schemes
    found = paths.filter(pc.match_substring_regex(paths, _PASSWORD.replace("KINDS", kinds)))
    if len(found):
        raise password_refused(found[0].as_py())
    return schemes


def _has_colon(paths: Any) -> bool:
    """Whether there may be a URL among some paths: 1 ms for a million, of a pattern 110."""
    data = memoryview(paths.buffers()[-1] or b"")
    return any(b":" in bytes(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE))


def without_store(addresses: Any) -> Any:
    """Return those of some URLs that no store reads.

    Example:
        >>> import pyarrow as pa
        >>> without_store(pa.array(["gopher://a.png"])).to_pylist()
        ['gopher://a.png']
    """
    for scheme in filter(has_store, schemes_of(addresses)):
        addresses = addresses.filter(pc.invert(pc.starts_with(addresses, f"{scheme}://")))
    return addresses


def _store(scheme: str) -> Store:
    return STORES.get(scheme, FsspecFiles)()


@dataclass(frozen=True)
class Several(Store):
    """Several stores, each for the paths of its scheme; bytes that rows hold are at hand."""

    stores: Mapping[str, Store] = field(default_factory=dict)

    @property
    def far(self) -> bool:
        """Whether one of them is."""
        return any(store.far for store in self.stores.values())

    def of(self, path: str) -> Store:
        """Return the store that reads one path."""
        scheme, mark, _ = path.partition("://")
        return self.stores[scheme if mark and scheme in self.stores else ""]

    def read(self, path: Content) -> bytes:
        """Return the bytes of one file, by what its row holds."""
        data, place = content_parts(path)
        if data is None:
            return self.of(place).read(place)
        if not data:
            raise DecodeError("the file is empty (0 bytes)")
        return data

    def read_as(self, path: Content, check: Check) -> bytes:
        """Return the bytes of one file, if it is the one that is known; those in a row are."""
        data, place = content_parts(path)
        return self.read(path) if data is not None else self.of(place).read_as(place, check)

    def head(self, path: Content) -> Head:
        """Return size and time of one file; bytes in a row have no time."""
        data, place = content_parts(path)
        if data is not None:
            return Head(len(data), None)
        if place is None:
            raise DecodeError("neither bytes nor a path")
        return self.of(place).head(place)

    def look(self, path: Content) -> Store:
        """Return a store that tells head and header of one file by one request."""
        data, place = content_parts(path)
        if data is not None or place is None:
            return self
        store = self.of(place)
        return store.look(place) if store.far else self

    def open(self, path: Content) -> IO[bytes]:
        """Open a file of which the header alone will be read."""
        data, place = content_parts(path)
        return self.of(place).open(place) if data is None else io.BytesIO(data)

    def open_rows(self, path: str, dataset: str | None = None) -> ArrayRows:
        """Open an array file."""
        return self.of(path).open_rows(path, dataset)
