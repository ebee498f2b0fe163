"""The table of a pack: all columns of its manifest, and where each row lies."""

import contextlib
import os

import numpy as np
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.manifest.checksum import checksum_of
from dfgen.manifest.dfgen_key import check_metadata
from dfgen.manifest.pack_index import INDEX, PackIndex, is_pack, open_arrow, read_index
from dfgen.manifest.schema import PLACES, Metadata

_SUMMED = 1 << 26  # bytes of a table whose checksum is looked at before training


def looks_like_pack(path: str) -> bool:
    """Whether a path is that of a pack, or of one that was broken off."""
    return is_pack(path) or os.path.isfile(os.path.join(path, "shard-00000.arrow"))


def mapped_table(index: PackIndex, summed: bool = False) -> pa.Table:
    """Return the columns of all rows of a pack, mapped into memory.

    Its checksum is looked at where it is small; of 10^8 rows that takes too long.

    Args:
        index: of the pack.
        summed: look at the checksum in any case.

    Raises:
        MissingFileError: it is not there.
        ManifestError: it is damaged, or that of another pack.
    """
    file, path = index.table, index.path(index.table)
    same, summed = True, summed or file.bytes <= _SUMMED
    with contextlib.suppress(FileNotFoundError):  # `open_arrow` tells
        same = os.path.getsize(path) == file.bytes
        same = same and not (summed and checksum_of(path) != file.checksum)
    if not same:
        raise ManifestError(
            f"{path} is not the one that was written with {os.path.join(index.folder, INDEX)}: it "
            "is damaged, or of another pack. Take another copy of the folder, or pack again"
        )
    with open_arrow(path) as reader:
        table = reader.read_all()
    if len(table) != index.rows:
        raise ManifestError(f"{path} has {len(table):,} rows, expected {index.rows:,}: pack again")
    return table


def read_pack(folder: str) -> tuple[pa.Table, Metadata]:
    """Return the columns of a pack, as they are stored, with `shard` and `row`; and its metadata.

    Raises:
        MissingFileError: it was broken off, or a file is missing.
        ManifestError: it is damaged.
    """
    index = read_index(folder)
    table = mapped_table(index, summed=True).replace_schema_metadata()
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
    path = os.path.join(index.folder, INDEX)
    missing = [name for name in Metadata.__annotations__ if name not in index.dfgen]
    if missing:
        raise ManifestError(f"{path} is damaged: its dfgen lacks {', '.join(missing)}. Pack again")
    check_metadata(index.dfgen, f"{path}, its dfgen")
    return Metadata(**index.dfgen)
