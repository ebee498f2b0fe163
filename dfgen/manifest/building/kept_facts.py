"""Facts that a build has read, kept beside its manifest: one that was killed goes on from them.

They lie in the folder `<manifest>.building`, in files that appear whole or not at all.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import xxhash

from dfgen import __version__
from dfgen.limits import Limits
from dfgen.system import write_whole

KEPT_EVERY = 5.0  # seconds of reading, which a killed build loses at most

_SUFFIX = ".arrow"


@dataclass(frozen=True)
class KeptFacts:
    """A folder of facts, with the paths of their files; made with the first that are kept.

    Args:
        folder: its absolute path.
        kind: tells facts that were read as these are; those of another kind are of no use.
    """

    folder: str
    kind: str

    @classmethod
    def beside(cls, manifest: str, full: bool, limits: Limits) -> "KeptFacts":
        """Return those of a manifest in the making, whose facts are read in one way."""
        kind = xxhash.xxh3_64_hexdigest(repr((__version__, full, limits)).encode())
        return cls(f"{os.path.realpath(manifest)}.building", kind)

    def read(self) -> pa.Table | None:
        """Return what a build before this one has kept, of whole files; None: nothing."""
        tables = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder)):
                if name.startswith(self.kind) and name.endswith(_SUFFIX):
                    with suppress(OSError, pa.ArrowInvalid):
                        tables.append(_read(os.path.join(self.folder, name)))
        return pa.concat_tables(tables) if tables else None

    @contextmanager
    def keeping(self) -> Iterator["Keeper"]:
        """Yield what is given facts, and keeps them now and then, and at an error the last ones."""
        keeper = Keeper(self)
        try:
            yield keeper
        except BaseException:
            with suppress(Exception):
                keeper.write()
            raise

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Keeper:
    """Gathers facts, and writes them as one file when so much time has gone."""

    def __init__(self, kept: KeptFacts) -> None:
        self._kept, self._parts, self._since = kept, list[pa.Table](), time.monotonic()

    def __call__(self, paths: Any, facts: list[pa.RecordBatch]) -> None:
        """Take the facts of some files."""
        table = pa.Table.from_batches(facts)
        self._parts.append(table.add_column(0, "path", [paths.cast(pa.string())]))
        if time.monotonic() - self._since >= KEPT_EVERY:
            self.write()

    def write(self) -> None:
        """Write what was gathered; a WriteError if that cannot be."""
        parts, self._parts = self._parts, []
        if parts:
            table = pa.concat_tables(parts).combine_chunks()
            digest = xxhash.xxh3_64_hexdigest("\0".join(table["path"].to_pylist()).encode())
            os.makedirs(self._kept.folder, exist_ok=True)
            path = os.path.join(self._kept.folder, f"{self._kept.kind}-{digest}{_SUFFIX}")
            write_whole(path, lambda file: _write(table, file))
        self._since = time.monotonic()


def _write(table: pa.Table, file: Any) -> None:
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read(path: str) -> pa.Table:
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()
