"""STORES: where bytes are, by the scheme of a path's URL. A new one is one class and one line."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import pyarrow.compute as pc

from dfgen.limits import Limits
from dfgen.samples.storage.archive_paths import ARCHIVES
from dfgen.samples.storage.archives import Archives
from dfgen.samples.storage.array_files import ArrayRows
from dfgen.samples.storage.embedded import Embedded, are_files, paths_of
from dfgen.samples.storage.files import Files
from dfgen.samples.storage.known_files import Check
from dfgen.samples.storage.store import Head, Store

STORES: dict[str, Callable[[], Store]] = {"": Files, **dict.fromkeys(ARCHIVES, Archives)}
"""Scheme, as `s3` in `s3://bucket/a.jpg` -> what makes its store; "": all other paths."""


def store_of(columns: Iterable[Any], limits: Limits | None = None) -> Store:
    """Return the one store that all these Arrow arrays of files, paths or bytes, are read from.

    It, and each that it is made of, refuses what `limits` do; None: what they do by default.

    Example:
        >>> import pyarrow as pa
        >>> store_of([pa.array(["a.png", "b.png"])])
        Files()
    """
    stores, files = dict[str, Store](), list(columns)
    for paths in (paths for paths in map(paths_of, files) if paths is not None):
        for scheme in filter(None, STORES.keys() - stores):
            if pc.any(pc.starts_with(paths, f"{scheme}://")).as_py():
                stores[scheme] = STORES[scheme]().within(limits)
        if len(without_store(paths)):
            stores[""] = STORES[""]().within(limits)
    store = Several(stores) if len(stores) > 1 else next(iter(stores.values()), STORES[""]())
    found = Embedded(store) if any(are_files(column.type) for column in files) else store
    return found.within(limits)


def without_store(addresses: Any) -> Any:
    """Return those of some URLs that no store reads.

    Example:
        >>> import pyarrow as pa
        >>> without_store(pa.array(["gopher://a.png"])).to_pylist()
        ['gopher://a.png']
    """
    for scheme in filter(None, STORES):
        addresses = addresses.filter(pc.invert(pc.starts_with(addresses, f"{scheme}://")))
    return addresses


@dataclass(frozen=True)
class Several(Store):
    """Several stores, each for the paths of its scheme."""

    stores: Mapping[str, Store] = field(default_factory=dict)

    def _of(self, path: str) -> Store:
        scheme, mark, _ = path.partition("://")
        return self.stores[scheme if mark and scheme in self.stores else ""]

    def read(self, path: str) -> bytes:
        """Return the bytes of one file."""
        return self._of(path).read(path)

    def read_as(self, path: str, check: Check) -> bytes:
        """Return the bytes of one file, if it is the one that is known."""
        return self._of(path).read_as(path, check)

    def head(self, path: str) -> Head:
        """Return size and time of one file."""
        return self._of(path).head(path)

    def open(self, path: str) -> IO[bytes]:
        """Open a file of which the header alone will be read."""
        return self._of(path).open(path)

    def open_rows(self, path: str, dataset: str | None = None) -> ArrayRows:
        """Open an array file."""
        return self._of(path).open_rows(path, dataset)
