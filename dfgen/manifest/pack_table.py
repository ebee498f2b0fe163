"""The table of a pack: all columns of its manifest, and where each row lies."""

import contextlib
import os

import numpy as np
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.manifest.checksum import checksum_of
from dfgen.manifest.metadata_check import check_metadata
from dfgen.manifest.pack_index import (
    INDEX,
    PackFile,
    PackIndex,
    has_file,
    in_pack,
    is_far,
    is_pack,
    open_arrow,
    read_index,
)
from dfgen.manifest.schema import PLACES, Metadata
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_at

_SUMMED = 1 << 26  # bytes of a table whose checksum is looked at before training


def looks_like_pack(path: str, options: StorageOptions | None = None) -> bool:
    """Whether a path is that of a pack, or of one that was broken off."""
    return is_pack(path, options) or has_file(path, "shard-00000.arrow", options)


def mapped_table(
    index: PackIndex, summed: bool = False, options: StorageOptions | None = None
) -> pa.Table:
    """Return the columns of all rows of a pack, mapped into memory; read, where it is far away.

    Its checksum is looked at where it is small; of 10^8 rows that takes too long.

    Args:
        index: of the pack.
        summed: look at the checksum in any case.
        options: open it where it is far away.

    Raises:
        MissingFileError: it is not there.
        ManifestError: it is damaged, or that of another pack.
    """
    file, path = index.table, index.path(index.table)
    with contextlib.suppress(FileNotFoundError):  # `open_arrow` tells
        if not _is_same(path, file, summed or file.bytes <= _SUMMED, options):
            raise ManifestError(
                f"{path} is not the one that was written with {in_pack(index.folder, INDEX)}: it "
                "is damaged, or of another pack. Take another copy of the folder, or pack again"
            )
    with open_arrow(path, options, file.bytes) as reader:
        table = reader.read_all()
    if len(table) != index.rows:
        raise ManifestError(f"{path} has {len(table):,} rows, expected {index.rows:,}: pack again")
    return table


def _is_same(path: str, file: PackFile, summed: bool, options: StorageOptions | None) -> bool:
    """Whether a file has the length that it was written with, and, if `summed`, the checksum."""
    if is_far(path):
        return store_at(path, options=options).head(path).size == file.bytes
    same = os.path.getsize(path) == file.bytes
    return same and not (summed and checksum_of(path) != file.checksum)


def read_pack(folder: str, options: StorageOptions | None = None) -> tuple[pa.Table, Metadata]:
    """Return the columns of a pack, as they are stored, with `shard` and `row`; and its metadata.

    Raises:
        MissingFileError: it was broken off, or a file is missing.
        ManifestError: it is damaged.
    """
    index = read_index(folder, options)
    table = mapped_table(index, summed=True, options=options).replace_schema_metadata()
    taken = [name for name in PLACES if name in table.column_names]
    if taken:
        raise ManifestError(
            f"{folder} was packed of a manifest that has a column {taken[0]!r}, which tells where "
            "a row lies in a pack: rename it in the manifest and pack again, or give the folder "
            "itself to dfgen.Sequence"
        )
    rows = np.diff(index.starts)
    shards = pa.DictionaryArray.from_arrays(
        np.repeat(np.arange(len(rows), dtype=np.int32), rows),
        pa.array([index.path(shard) for shard in index.shards], pa.string()),
    )
    places = np.arange(index.rows) - np.repeat(index.starts[:-1], rows)
    for name, column in zip(PLACES, (shards, pa.array(places)), strict=True):
        table = table.append_column(name, column)
    return table, metadata_of(index)


def metadata_of(index: PackIndex) -> Metadata:
    """Return what the manifest of a pack said of itself, checked."""
    path = in_pack(index.folder, INDEX)
    missing = sorted(Metadata.__required_keys__ - index.dfgen.keys())
    if missing:
        raise ManifestError(f"{path} is damaged: its dfgen lacks {', '.join(missing)}. Pack again")
    check_metadata(index.dfgen, f"{path}, its dfgen")
    return Metadata(**index.dfgen)
