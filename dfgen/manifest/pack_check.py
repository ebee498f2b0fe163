"""Whether the files of a pack are those that were written."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from dfgen.errors import ArgumentError, ReadError, reason
from dfgen.manifest.checksum import checksum_of
from dfgen.manifest.pack_index import PackFile, PackIndex, is_far, open_arrow, read_index
from dfgen.samples.storage.far.pieces import checksum_far
from dfgen.samples.storage.far.store_options import StorageOptions
from dfgen.samples.storage.stores import store_at
from dfgen.system import usable_cpus


def check_pack(
    folder: Any,
    given: list[str],
    workers: int | None = None,
    options: StorageOptions | None = None,
) -> pd.DataFrame:
    """Compare all files of a pack with their checksums, and list rows that have none.

    Args:
        folder: of the pack.
        given: names of arguments that are for loose files.
        workers: threads that read; None: as many as this process may use CPUs.
        options: open it where it is far away.

    Returns:
        One row a finding: `change` ("missing" or "broken"), `id`, `path`, `detail`. Of a file of
        the pack, `path` is that, `id` is missing, and `detail` says which rows are in it.

    Raises:
        ArgumentError: an argument was given that is for loose files.
        ManifestError: `_manifest.json` is damaged.
        ReadError: it is far away, and a file of it cannot be read.
    """
    if given:
        raise ArgumentError(
            f"{given[0]}= (--{given[0]}) is for loose files, and {os.fspath(folder)} is a pack, "
            "whose bytes are compared with their checksums: leave it out"
        )
    index = read_index(folder, options)
    files = [*index.shards, index.table]
    with (
        ThreadPoolExecutor(workers or usable_cpus()) as pool,
        tqdm(total=sum(f.bytes for f in files), desc="Reading", unit="B", unit_scale=True,
             disable=None) as bar,
    ):  # fmt: skip
        faults = []
        found_faults = pool.map(lambda f: _fault(index.path(f), f, options), files)
        for file, fault in zip(files, found_faults, strict=True):
            faults.append(fault)
            bar.update(file.bytes)
    found = [_found(index, place, fault) for place, fault in enumerate(faults) if fault]
    rows = pd.DataFrame(found, columns=["change", "id", "path", "detail"], dtype=object)
    return rows if faults[-1] else pd.concat([rows, _bad_rows(index, options)], ignore_index=True)


def _fault(path: str, file: PackFile, options: StorageOptions | None) -> tuple[str, str] | None:
    """Return what is wrong with a file."""
    try:
        store = store_at(path, options=options)
        size = store.head(path).size
        if size != file.bytes:
            return "broken", f"it has {size:,} bytes, and was written with {file.bytes:,}"
        found = checksum_far(store, path, size) if is_far(path) else checksum_of(path)
        if found != file.checksum:
            return "broken", "its bytes are not those that were written, by their checksum"
    except FileNotFoundError:
        return "missing", "the file does not exist"
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except OSError as error:
        return "broken", f"it cannot be read: {reason(error)}"
    return None


def _found(index: PackIndex, place: int, fault: tuple[str, str]) -> tuple[Any, ...]:
    change, why = fault
    if place == len(index.shards):
        return change, None, index.path(index.table), f"{why}: the columns of all rows are in it"
    first, stop = (int(row) for row in index.starts[place : place + 2])
    detail = f"{why}: rows {first:,} to {stop - 1:,} of the pack are in it"
    return change, None, index.path(index.shards[place]), detail


def _bad_rows(index: PackIndex, options: StorageOptions | None) -> pd.DataFrame:
    """Return the rows that had no good file when they were packed."""
    with open_arrow(index.path(index.table), options) as file:
        columns = file.read_all().select(["id", "path", "problem"])
        bad = columns.filter(pc.is_valid(columns["problem"]))
        found = {"change": pa.repeat("broken", len(bad)), "id": bad["id"], "path": bad["path"],
                 "detail": bad["problem"]}  # fmt: skip
        frame: pd.DataFrame = pa.table(found).to_pandas().astype(object)
    return frame
