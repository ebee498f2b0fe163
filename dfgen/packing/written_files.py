"""Shards that a run before this one has written: known again, or of another pack."""

import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import ManifestError
from dfgen.manifest.checksum import checksum_of
from dfgen.manifest.pack_index import PackFile, open_arrow
from dfgen.manifest.schema import KEY
from dfgen.samples.storage.far.ranges import far_file
from dfgen.samples.storage.far.store_options import StorageOptions
from dfgen.samples.storage.mapped_shards.pack_shards import exchanged
from dfgen.samples.storage.stores import store_at


class PackedShard(NamedTuple):
    """A shard that is written."""

    file: PackFile
    problems: pa.Array  # of each row, null where there is none


def problems_far(path: str, options: StorageOptions) -> pa.Array:
    """Return what is wrong with each row of a shard that is far away, and read little more."""
    store = store_at(path, options=options)
    source = pa.PythonFile(far_file(store.head(path).size, partial(store.range, path)), "r")
    with pa.ipc.open_file(source) as reader:
        problem = [reader.schema.get_field_index("problem")]
    with pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=problem)) as reader:
        return reader.get_batch(0).column(0)


def read_shard(path: str, identity: Mapping[str, Any], rows: int) -> PackedShard:
    """Return a shard that was written before, of the same pack.

    Raises:
        ManifestError: it is damaged, or of another pack.
    """
    with open_arrow(path) as file:
        found = json.loads((file.schema.metadata or {}).get(KEY, b"{}"))
        check_same(os.path.dirname(path), found, identity)
        batch = file.get_batch(0) if file.num_record_batches == 1 else None
        if batch is None or len(batch) != rows or exchanged(path, file.schema.metadata):
            raise ManifestError(
                f"{path} does not hold the {rows:,} rows that it should: delete it, and pack again"
            )
        column = batch.column(batch.schema.get_field_index("problem"))
        problems = pa.array(column.to_pylist(), pa.string())  # not of the map
    size = os.path.getsize(path)
    return PackedShard(PackFile(os.path.basename(path), rows, size, checksum_of(path)), problems)


def check_same(folder: str, found: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse a folder in which another pack was begun, by what its files carry."""
    differing = [name for name, value in identity.items() if found.get(name) != value]
    if differing:
        said = "; ".join(
            f"{name} was {json.dumps(found.get(name))}, and is {json.dumps(identity[name])}"
            for name in differing
            if name not in ("manifest", "starts")
        )
        said = said or "its manifest has other rows, labels or facts of files"
        raise ManifestError(
            f"{folder} holds another pack, whole or in part: {said}. Pack into another folder, or "
            "delete this one"
        )
