"""Facts of a build in progress, kept beside its manifest so that a killed build continues.

They are in the folder `<manifest>.building`, in files that are written whole or not at all.
"""

import os
import shutil
import time
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import xxhash
from pyarrow.feather import write_feather

from dfgen import __version__
from dfgen.files import write_whole
from dfgen.limits import Limits

KEPT_EVERY = 5.0  # seconds of reading that a killed build can lose


class KeptFacts:
    """A folder of facts with the paths of their files; facts read in another way are not used."""

    def __init__(self, manifest: str, full: bool, limits: Limits) -> None:
        self.folder = f"{os.path.realpath(manifest)}.building"
        self._kind = xxhash.xxh3_64_hexdigest(repr((__version__, full, limits)).encode())
        self._waiting, self._since = list[pa.Table](), time.monotonic()

    def read(self) -> pa.Table | None:
        """Return the facts of an earlier build; None: there are none."""
        tables = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder)):
                if name.startswith(self._kind) and name.endswith(".arrow"):
                    path = os.path.join(self.folder, name)
                    with suppress(OSError, pa.ArrowInvalid), pa.ipc.open_file(path) as reader:
                        tables.append(reader.read_all())
        return pa.concat_tables(tables) if tables else None

    def add(self, paths: Any, facts: list[pa.RecordBatch]) -> None:
        """Keep the facts of some files, and write them from time to time."""
        table = pa.Table.from_batches(facts)
        self._waiting.append(table.add_column(0, "path", [paths.cast(pa.string())]))
        if time.monotonic() - self._since >= KEPT_EVERY:
            self.write()

    def write(self) -> None:
        """Write the facts that are not yet written."""
        parts, self._waiting, self._since = self._waiting, [], time.monotonic()
        if parts:
            table = pa.concat_tables(parts).combine_chunks()
            digest = xxhash.xxh3_64_hexdigest("\0".join(table["path"].to_pylist()).encode())
            os.makedirs(self.folder, exist_ok=True)
            path = os.path.join(self.folder, f"{self._kind}-{digest}.arrow")
            write_whole(path, lambda file: write_feather(table, file, "uncompressed"))

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
