"""`dfgen.verify` of a pack: files whose bytes changed, and rows without a file."""

import os
from typing import Any, NamedTuple

import pyarrow.compute as pc

from dfgen.errors import ReadError, reason
from dfgen.machine import threads, usable_cpus
from dfgen.packs.format import Pack, PackFile, check_length, checksum_of, pack_table, read_pack
from dfgen.progress_bars import progress
from dfgen.stores.store import StorageOptions, Store
from dfgen.stores.stores import store_at


class PackFinding(NamedTuple):
    """A damaged file of a pack, whose `id` is None, or a row without a file."""

    change: str  # "missing" or "broken"
    id: Any
    path: str
    detail: str


def check_pack(
    folder: str | os.PathLike[str],
    workers: int | None = None,
    options: StorageOptions | None = None,
) -> list[PackFinding]:
    """Compare all files of a pack with their checksums, and list rows that have no file.

    Raises:
        ManifestError: `_manifest.json` is damaged.
        ReadError: it is remote, and a file of it cannot be read.
    """
    pack = read_pack(folder, options)
    files, findings = [*pack.shards, pack.table], []
    store = store_at(pack.folder, options=options)
    with (
        threads(workers or usable_cpus()) as pool,
        progress(sum(f.bytes for f in files), "Reading", "B", unit_scale=True) as bar,
    ):
        faults = pool.map(lambda file: _fault(pack, file, store), files)
        for file, fault in zip(files, faults, strict=True):
            bar.update(file.bytes)
            if fault is not None:
                findings.append(PackFinding(fault[0], None, pack.path(file), fault[1]))
    if any(one.path == pack.path(pack.table) for one in findings):
        return findings
    table = pack_table(pack, options)
    bad = table.filter(pc.is_valid(table["problem"])).select(["id", "path", "problem"])
    return findings + [PackFinding("broken", *row.values()) for row in bad.to_pylist()]


def _fault(pack: Pack, file: PackFile, store: Store) -> tuple[str, str] | None:
    path = pack.path(file)
    try:
        check_length(store.head(path).size, file)
        if checksum_of(store, path, file.bytes) != file.checksum:
            raise ValueError("its checksum is not the one that was written")
    except FileNotFoundError:
        return "missing", "the file does not exist"
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        return "broken", reason(error)
    return None
