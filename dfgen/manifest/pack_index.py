"""A pack on disk: a folder of Arrow files, and `_manifest.json`, which is written last.

    shard-00000.arrow ...  Arrow IPC files of one record batch each, uncompressed: all columns of
                           the manifest, and of each packed column what it was packed as
        path_pixels        arrow.fixed_shape_tensor of uint8, (height, width, channels)
        path_pixels        or large_binary, where images keep their own sizes; `path_shape` beside
                           it is their (height, width, channels), int32
        path_bytes         or large_binary: whole files
    manifest.arrow         an Arrow IPC file: all columns of the manifest of all rows, no pixels
    _manifest.json         rows, shards with their checksums, arguments, and the `dfgen` key of the
                           manifest: see PackIndex

Row r of the pack stands in the shard s with starts[s] <= r < starts[s + 1], at r - starts[s]. A row
without a good file has null there, and its `problem` says why.
"""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from tqdm import tqdm

from dfgen.errors import (
    ArgumentError,
    DfgenError,
    ManifestError,
    MissingFileError,
    ReadError,
    brief,
    reason,
)
from dfgen.manifest.checksum import checksum_of
from dfgen.manifest.schema import Metadata
from dfgen.samples.stores.remote.ranges import checksum_far, whole_file
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, scheme_of, store_at
from dfgen.system import usable_cpus

PACK_FORMAT = 1
INDEX, TABLE = "_manifest.json", "manifest.arrow"
_NEEDED: dict[str, Any] = {
    "rows": int, "shards": list, "packed": dict, "table": dict, "ids": str, "dfgen": dict,
    "order": (str, dict), "created_by": str, "plan": dict,
}  # fmt: skip


@dataclass(frozen=True)
class PackFile:
    """One file of a pack.

    Args:
        file: its name in the folder.
        rows: of the table in it.
        bytes: of the file.
        checksum: the CRC-32 of the file, 8 hexadecimal digits.
    """

    file: str
    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class PackIndex:
    """A pack as `_manifest.json` describes it.

    Args:
        folder: the absolute path of the pack, or its URL.
        rows: in all shards together.
        shards: the files, in the order of their rows.
        packed: name of a packed column -> the arguments that it was packed by: `format`
            (`"pixels"`, `"original"` or `"jpeg"`), `image_size` ([height, width], None: sizes of
            their own), `color_mode`, `resize`, `interpolation`, `antialias`, `max_side`,
            `quality`; those that do not matter are None.
        order: `"kept"`, or the `tag`, `seed` and `epoch` of the permutation that rows stand in.
        table: the file of the manifest's columns.
        ids: `dfgen.loading.state.ids_digest` of the ids, in order.
        dfgen: the `dfgen` key of the manifest; its root is relative to the folder.
        created_by: the version of dfgen.
        plan: what tells this pack from another: see `dfgen.packing.pack_plan`.
    """

    folder: str
    rows: int
    shards: tuple[PackFile, ...]
    packed: dict[str, dict[str, Any]]
    order: str | dict[str, Any]
    table: PackFile
    ids: str
    dfgen: Metadata
    created_by: str
    plan: dict[str, Any]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first row of each shard, and the number of all rows: shape (shards + 1,)."""
        return np.cumsum([0, *(shard.rows for shard in self.shards)], dtype=np.int64)

    def path(self, file: PackFile) -> str:
        """Return the absolute path of one of its files."""
        return in_pack(self.folder, file.file)

    def to_json(self) -> bytes:
        """Return the bytes of `_manifest.json`."""
        content = {"format": PACK_FORMAT, "kind": "pack", **vars(self)}
        del content["folder"]
        content |= {"shards": [vars(shard) for shard in self.shards], "table": vars(self.table)}
        return json.dumps(content, ensure_ascii=False, indent=1).encode()


def folder_of(pack: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, or its URL.

    Example:
        >>> folder_of("s3://bucket/packed/")
        's3://bucket/packed'
    """
    folder = os.fspath(pack)
    return folder.rstrip("/") if is_far(folder) else os.path.abspath(folder)


def is_far(path: str) -> bool:
    """Whether a path is the URL of a store."""
    return has_store(scheme_of(path))


def in_pack(folder: str, name: str) -> str:
    """Return the path of a file of a pack."""
    return f"{folder}/{name}" if is_far(folder) else os.path.join(folder, name)


def is_pack(path: object, options: StorageOptions | None = None) -> bool:
    """Whether a path is that of the folder of a whole pack, or its URL.

    Example:
        >>> is_pack("pets.parquet")
        False
    """
    return isinstance(path, str | os.PathLike) and has_file(os.fspath(path), INDEX, options)


def has_file(pack: str, name: str, options: StorageOptions | None) -> bool:
    """Whether a folder, or what is below a URL, has a file; what is named as a file has none."""
    path = in_pack(folder_of(pack), name)
    if not is_far(path):
        return os.path.isfile(path)
    if pack.endswith(".parquet"):  # a manifest: a request less
        return False
    try:
        store_at(path, options=options).head(path)
    except (DfgenError, OSError, ValueError) as error:
        if isinstance(error, ReadError):
            raise
        return False
    return True


def is_shard(path: str) -> bool:
    """Whether a path is named as those of the shards of packs.

    Example:
        >>> is_shard("packed/shard-00000.arrow"), is_shard("train-00000.tar")
        (True, False)
    """
    return re.fullmatch(r"shard-\d{5,}\.arrow", os.path.basename(path)) is not None


def read_index(folder: str | os.PathLike[str], options: StorageOptions | None = None) -> PackIndex:
    """Read what `_manifest.json` of a pack says.

    Args:
        folder: of the pack, or its URL.
        options: open it where it is far away.

    Raises:
        MissingFileError: there is none.
        ManifestError: it is none of a pack, of an unknown version, or incomplete.
        ReadError: it is far away, and cannot be read.
    """
    path = in_pack(folder_of(folder), INDEX)
    try:
        if is_far(path):
            content = json.loads(store_at(path, options=options).read(path))
        else:
            with open(path, "rb") as file:
                content = json.loads(file.read())
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except FileNotFoundError:
        raise MissingFileError(
            f"there is no pack in {os.fspath(folder)}: {INDEX}, which is written last, is missing. "
            "Where packing was broken off, run the same command again"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path} cannot be read: {reason(error)}. Pack again") from None
    if not isinstance(content, dict) or content.get("kind") != "pack":
        raise ManifestError(f'{path} is not that of a pack, which has "kind": "pack"')
    if content.get("format") != PACK_FORMAT:
        raise ManifestError(
            f"{path} has pack format {brief(content.get('format'))}; this dfgen reads format "
            f"{PACK_FORMAT}. Upgrade dfgen, or pack again with this version"
        )
    return _index(os.path.dirname(path), content)


def _index(folder: str, content: dict[str, Any]) -> PackIndex:
    try:
        wrong = [name for name, kind in _NEEDED.items() if not isinstance(content.get(name), kind)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} is missing, or not what it should be")
        shards = tuple(PackFile(**shard) for shard in content["shards"])
        table = PackFile(**content["table"])
        if sum(shard.rows for shard in shards) != content["rows"] or table.rows != content["rows"]:
            raise ValueError("the rows of its shards are not those of the pack")
        if any(os.path.basename(one.file) != one.file for one in (*shards, table)):
            raise ValueError("a file of it is not in its folder")
    except (TypeError, ValueError) as error:
        raise ManifestError(
            f"{os.path.join(folder, INDEX)} is damaged: {reason(error)}. Take another copy of it, "
            "or pack again"
        ) from None
    given = {name: content[name] for name in _NEEDED}
    return PackIndex(folder, **(given | {"shards": shards, "table": table}))


def open_arrow(
    path: str, options: StorageOptions | None = None, nbytes: int | None = None
) -> pa.ipc.RecordBatchFileReader:
    """Open an Arrow file by a memory map: nothing is read that is not asked for.

    One that is far away is read into memory as a whole, by a few large requests.

    Args:
        path: of the file.
        options: open it where it is far away.
        nbytes: that it has; None: that is asked for.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: it is none, or was cut short.
        ReadError: it is far away, and cannot be read.
    """
    try:
        if not is_far(path):
            return pa.ipc.open_file(pa.memory_map(path))
        store = store_at(path, options=options)
        nbytes = store.head(path).size if nbytes is None else nbytes
        return pa.ipc.open_file(pa.py_buffer(whole_file(store, path, nbytes)))
    except FileNotFoundError:
        raise MissingFileError(
            f"{path} is missing: take another copy of it, or pack again"
        ) from None
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except (OSError, ValueError) as error:  # Arrow's own errors are of these
        raise ManifestError(
            f"{path} cannot be read as an Arrow file: {reason(error)}. Take another copy of it, or "
            "pack again"
        ) from None


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
