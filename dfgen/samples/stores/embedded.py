"""The store of files that a table holds itself, as `table.file_columns` knows them."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from dfgen.errors import DecodeError, without_secrets
from dfgen.samples.stores.arrays.array_files import ArrayRows
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.local_files import Files
from dfgen.samples.stores.store import Head, Store

Content = Any
"""The file of a row: its path, its bytes, or a mapping of `bytes` and `path`."""


def content_parts(content: Any) -> tuple[bytes | None, Any]:
    """Return the bytes and the path of what a row holds, of which one may be missing."""
    if isinstance(content, bytes):
        return content, None
    if isinstance(content, Mapping) and "bytes" in content:
        return content["bytes"], content["path"]
    return None, content


def content_shown(content: Any) -> str:
    """Return how messages call what a row holds for a file.

    Example:
        >>> content_shown("a.png"), content_shown({"bytes": b"12", "path": "a.png"})
        ("'a.png'", "'a.png' (2 bytes)")
    """
    if isinstance(content, list):
        more = f", ... {len(content)} files" if len(content) > 1 else ""
        return f"[{', '.join(map(content_shown, content[:1]))}{more}]"
    data, path = content_parts(content)
    path = without_secrets(path) if isinstance(path, str) else path
    if data is None:
        return repr(content if path is None else path)
    return (f"{path!r} " if path else "") + f"({len(data):,} bytes)"


@dataclass(frozen=True)
class Embedded(Store):
    """The bytes that rows hold themselves; where a row holds a path, another store reads it."""

    files: Store = field(default_factory=Files)

    def of(self, path: str) -> Store:
        """Return the store that reads one path."""
        return self.files.of(path)

    def read(self, path: Content) -> bytes:
        """Return the bytes of one file, by what its row holds."""
        data, place = content_parts(path)
        if data is None:
            return self.files.read(place)
        if not data:
            raise DecodeError("the file is empty (0 bytes)")
        return data

    def read_as(self, path: Content, check: Check) -> bytes:
        """Return the bytes of one file; those in a row are what they are."""
        data, place = content_parts(path)
        return self.read(path) if data is not None else self.files.read_as(place, check)

    def head(self, path: Content) -> Head:
        """Return size and time of one file; bytes in a row have no time."""
        data, place = content_parts(path)
        if data is None and place is None:
            raise DecodeError("neither bytes nor a path")
        return self.files.head(place) if data is None else Head(len(data), None)

    @property
    def far(self) -> bool:
        """Whether the store of paths is."""
        return self.files.far

    def look(self, path: Content) -> Store:
        """Return a store that tells head and header of one file; bytes in a row are at hand."""
        data, place = content_parts(path)
        at_hand = data is not None or place is None or not self.files.far
        return self if at_hand else self.files.look(place)

    def open(self, path: Content) -> IO[bytes]:
        """Open a file of which the header alone will be read."""
        data, place = content_parts(path)
        return self.files.open(place) if data is None else io.BytesIO(data)

    def open_rows(self, path: str, dataset: str | None = None) -> ArrayRows:
        """Open an array file."""
        return self.files.open_rows(path, dataset)
