"""Files that are given as bytes, beside those of other stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dfgen.errors import DecodeError
from dfgen.samples.storage.files import Files
from dfgen.samples.storage.store import Head, Store


@dataclass(frozen=True)
class GivenFiles(Store):
    """Bytes by names that stand for paths; what has no such name is in another store."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    others: Store = field(default_factory=Files)

    def read(self, path: str) -> bytes:
        """Return the bytes of one file."""
        data = self.files.get(path)
        if data is None:
            return self.others.read(path)
        if not data:
            raise DecodeError("the file is empty (0 bytes)")
        return data

    def head(self, path: str) -> Head:
        """Return size and time of one file."""
        data = self.files.get(path)
        return self.others.head(path) if data is None else Head(len(data), 0)
