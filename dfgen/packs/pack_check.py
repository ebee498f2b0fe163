"""The findings of `dfgen.verify` in a pack: files whose bytes changed, and rows without a file."""

import os
from typing import Any, NamedTuple

import pyarrow.compute as pc

from dfgen.errors import ReadError, reason
from dfgen.packs.pack_index import PackFile, PackIndex, checked_table, open_arrow, read_index
from dfgen.packs.ranges import checksum_of
from dfgen.progress_bars import progress
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import store_at
from dfgen.system import threads, usable_cpus


class PackFinding(NamedTuple):
    """One of them: of a file of the pack, `id` is None, and `detail` says which rows it holds."""

    change: str  # "missing" or "broken"
    id: Any
    path: str
    detail: str


def check_pack(
    folder: str | os.PathLike[str],
    workers: int | None = None,
    options: StorageOptions | None = None,
) -> list[PackFinding]:
    """Compare all files of a pack with their checksums, and list rows that have none.

    Raises:
        ManifestError: `_manifest.json` is damaged.
        ReadError: it is remote, and a file of it cannot be read.
    """
    index = read_index(folder, options)
    files = [*index.shards, index.table]
    with (
        threads(workers or usable_cpus()) as pool,
        progress(sum(f.bytes for f in files), "Reading", "B", unit_scale=True) as bar,
    ):
        faults: list[tuple[str, str] | None] = []
        for fault in pool.map(lambda one: _fault(index.path(one), one, options), files):
            bar.update(files[len(faults)].bytes)
            faults.append(fault)
    findings = [_of_file(index, place, *fault) for place, fault in enumerate(faults) if fault]
    return findings if faults[-1] else findings + _bad_rows(index, options)


def _fault(path: str, file: PackFile, options: StorageOptions | None) -> tuple[str, str] | None:
    try:
        store = store_at(path, options=options)
        size = store.head(path).size
        if size != file.bytes:
            return "broken", f"it has {size:,} bytes, and was written with {file.bytes:,}"
        if checksum_of(store, path, size) != file.checksum:
            return "broken", "its bytes are not those that were written, by their checksum"
    except FileNotFoundError:
        return "missing", "the file does not exist"
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except OSError as error:
        return "broken", f"it cannot be read: {reason(error)}"
    return None


def _of_file(index: PackIndex, place: int, change: str, why: str) -> PackFinding:
    file, held = index.table, "the columns of all rows"
    if place < len(index.shards):
        first, stop = index.starts[place : place + 2].tolist()
        file, held = index.shards[place], f"rows {first:,} to {stop - 1:,} of the pack"
    return PackFinding(change, None, index.path(file), f"{why}: {held} are in it")


def _bad_rows(index: PackIndex, options: StorageOptions | None) -> list[PackFinding]:
    with open_arrow(path := index.path(index.table), options) as file:
        columns = checked_table(file, path).select(["id", "path", "problem"])
        bad = columns.filter(pc.is_valid(columns["problem"])).to_pydict()
    rows = zip(bad["id"], bad["path"], bad["problem"], strict=True)
    return [PackFinding("broken", *row) for row in rows]
