"""STORES: the store of each scheme, and Stores, which dispatches. A new store is one line."""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import IO, Any

import pyarrow.compute as pc

from dfgen.errors import USERS, ArgumentError, DecodeError
from dfgen.limits import DEFAULT, Limits
from dfgen.spec import Values
from dfgen.stores.archives import ARCHIVES, Archives
from dfgen.stores.array_files import ArrayFiles
from dfgen.stores.remote_files import OBJECTS, FsspecFiles, Objects, of_fsspec
from dfgen.stores.store import Files, Head, Store, check_size
from dfgen.table.arrow_types import LISTS, Content, content_parts, flattened, may_hold, paths_of

STORES: dict[str, Callable[..., Store]] = {
    "": Files,
    **dict.fromkeys(OBJECTS, Objects),
    **dict.fromkeys(ARCHIVES, Archives),
}
"""Scheme, as `s3` in `s3://bucket/a.jpg` -> its store. fsspec reads schemes that are not here."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(path: str) -> str:
    """Return the scheme of a URL, "" for a path.

    Example:
        >>> scheme_of("s3://bucket/a.jpg"), scheme_of("imgs/a.jpg")
        ('s3', '')
    """
    found = _SCHEME.match(path)
    return found[1] if found else ""


def has_store(scheme: str) -> bool:
    """Return whether URLs of a scheme can be read."""
    return scheme != "" and (scheme in STORES or of_fsspec(scheme))


def is_remote(path: str) -> bool:
    """Return whether a path is a URL that is read over a network."""
    return (scheme := scheme_of(path)) not in ARCHIVES and has_store(scheme)


def without_store(urls: Any) -> Any:
    """Return the URLs with a scheme that cannot be read.

    Example:
        >>> without_store(pa.array(["gopher://a.png"])).to_pylist()
        ['gopher://a.png']
    """
    schemes = pc.struct_field(pc.extract_regex(urls, f"^(?P<s>{_SCHEME.pattern[1:-4]})://"), "s")
    for scheme in pc.unique(schemes).to_pylist():
        if scheme and has_store(scheme):
            urls = urls.filter(pc.invert(pc.starts_with(urls, f"{scheme}://")))
    return urls


def refuse_password(url: str) -> None:
    """Raise an ArgumentError if a URL contains a password: a manifest would keep it."""
    if USERS.match(url):
        raise ArgumentError(
            f"the URL {scheme_of(url)}://... contains a password or token, and a manifest would "
            "keep it: leave it out, and pass it in storage_options="
        )


def store_at(
    path: str, limits: Limits = DEFAULT, options: Mapping[str, Any] | None = None
) -> Store:
    """Return the store of one path or URL."""
    refuse_password(path)
    return Stores(limits, options).of(path)


def store_of(
    columns: Iterable[Any],
    limits: Limits | None = None,
    options: Mapping[str, Any] | None = None,
) -> "Stores":
    """Return the stores of Arrow arrays of files, paths or bytes.

    Example:
        >>> store_of([pa.array(["a.png", "b.png"])]).far
        False
    """
    far, local = False, "^(" + "|".join(ARCHIVES) + ")://"
    for files in columns:
        paths = paths_of(flattened(files) if isinstance(files.type, LISTS) else files)
        if paths is not None and may_hold(paths, "://"):
            urls = paths.filter(pc.match_substring(paths, "://"))
            urls = urls.filter(pc.invert(pc.match_substring_regex(urls, local)))
            far = far or (len(urls) > 0 and is_remote(urls[0].as_py()))
    return Stores(limits or DEFAULT, options, far=far)


class Stores(Store):
    """Reads the file of a row wherever it is: bytes of a table, a path, a URL.

    Args:
        limits, options, folder: as of `Store`; the folder is the working folder of now.
        far: whether some files are read over a network.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT,
        options: Mapping[str, Any] | None = None,
        folder: str | None = None,
        far: bool = False,
    ) -> None:
        if folder is None:
            folder = ""
            with suppress(OSError):  # the working folder was removed
                folder = os.getcwd()
        super().__init__(limits, options, folder)
        self.far = far
        self.fetched: Callable[[str], bytes | None] | None = None
        """Returns a remote file that was read ahead, or None."""
        self._files = STORES[""](limits, options, self.folder)
        self._stores: dict[str, Store] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Stores, (self.limits, self.options, self.folder, self.far)

    @cached_property
    def arrays(self) -> ArrayFiles:
        """Rows of array files."""
        return ArrayFiles(self.another())

    def another(self) -> "Stores":
        """Return equal stores, to be kept without a reference cycle."""
        return Stores(self.limits, self.options, self.folder)

    def of(self, path: str) -> Store:
        """Return the store of one path."""
        if path is None:
            raise DecodeError("neither bytes nor a path")
        scheme, mark, _ = path.partition("://")
        if not mark:
            return self._files
        store = self._stores.get(scheme)
        if store is None:
            make = STORES.get(scheme) or (FsspecFiles if of_fsspec(scheme) else Files)
            store = self._stores[scheme] = make(self.limits, self.options, self.folder)
        return store

    def read(self, path: Content, size: int | None = None) -> bytes:
        """Return the bytes of one file."""
        data, place = content_parts(path)
        if data is None:
            if self.fetched is None or (data := self.fetched(place)) is None:
                return self.of(place).read(place, size)
            check_size(len(data), size)
        elif not data:
            raise DecodeError("the file is empty (0 bytes)")
        return data

    def head(self, path: Content) -> Head:
        """Return size and time of one file; bytes in a table have no time."""
        data, place = content_parts(path)
        return self.of(place).head(place) if data is None else Head(len(data), None)

    def begin(self, path: Content) -> tuple[Head, IO[bytes]]:
        """Return the head of one file and the open file."""
        data, place = content_parts(path)
        if data is None and self.fetched is not None:
            data = self.fetched(place)
        if data is None:
            return self.of(place).begin(place)
        return Head(len(data), None), io.BytesIO(data)

    def range(self, path: str, start: int, stop: int) -> bytes:
        """Return a part of one file."""
        return self.of(path).range(path, start, stop)

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield path and head of all files below a folder."""
        return self.of(prefix).list(prefix)

    def write(self, path: str, data: bytes) -> None:
        """Write one file."""
        self.of(path).write(path, data)

    def row(
        self, path: str, index: int, dataset: str | None = None, size: int | None = None
    ) -> Values:
        """Return one row of an array file."""
        return self.arrays.row(path, index, dataset, size)

    def close(self) -> None:
        """Close everything that is open."""
        for store in self._stores.values():
            store.close()
        if (arrays := vars(self).pop("arrays", None)) is not None:
            arrays.close()


class OfSize(Store):
    """The files of a row with a known size. It is created for each row, so it is small."""

    __slots__ = ("_size", "_stores")

    def __init__(self, stores: Stores, size: int) -> None:
        self._stores, self._size, self.limits = stores, size, stores.limits

    def read(self, path: Content, size: int | None = None) -> bytes:
        """Return the bytes of the file."""
        return self._stores.read(path, self._size)

    def head(self, path: Content) -> Head:
        """Return size and time of the file."""
        return self._stores.head(path)

    def begin(self, path: Content) -> tuple[Head, IO[bytes]]:
        """Return the head of the file and the open file."""
        head, file = self._stores.begin(path)
        try:
            check_size(head.size, self._size)
        except DecodeError:
            file.close()
            raise
        return head, file

    def row(self, path: str, index: int, dataset: str | None = None) -> Values:
        """Return one row of an array file."""
        return self._stores.row(path, index, dataset, self._size)
