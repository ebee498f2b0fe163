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

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import (
    DfgenError,
    ManifestError,
    MissingFileError,
    ReadError,
    brief,
    is_outside,
    reason,
)
from dfgen.packs.ranges import checksum_of, whole_file
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import is_remote, store_at

PACK_FORMAT = 1
INDEX, TABLE = "_manifest.json", "manifest.arrow"
PLACES = ("shard", "row")
"""Columns of rows that lie in packs: the path of a file of a pack, and the row in it."""

_NEEDED: dict[str, Any] = {
    "rows": int, "shards": list, "packed": dict, "table": dict, "ids": str, "dfgen": dict,
    "order": (str, dict), "created_by": str, "plan": dict,
}  # fmt: skip
_SEAL = re.compile(rb',\n "checksum": "([0-9a-f]{8})"\n}\s*\Z')
_SUMMED = 1 << 26  # bytes of a table whose checksum is compared before training


@dataclass(frozen=True)
class PackFile:
    """One file of a pack: its name, the rows in it, and the CRC-32 of it, 8 hexadecimal digits."""

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
        plan: what tells this pack from another: `PackPlan.identity`.
    """

    folder: str
    rows: int
    shards: tuple[PackFile, ...]
    packed: dict[str, dict[str, Any]]
    order: str | dict[str, Any]
    table: PackFile
    ids: str
    dfgen: Mapping[str, Any]
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
        return sealed(content)


FileVersion = tuple[int, int, int]
"""Size, time of the last change and number of a file."""


def version_of(status: os.stat_result) -> FileVersion:
    """Return the version of a file by its status."""
    return status.st_size, status.st_mtime_ns, status.st_ino


def sealed(content: Mapping[str, Any]) -> bytes:
    """Return content as JSON, whose last entry is the CRC-32 of those before it."""
    text = json.dumps(content, ensure_ascii=False, indent=1).encode().removesuffix(b"\n}")
    return text + f',\n "checksum": "{crc32(text):08x}"\n}}\n'.encode()


def seal_of(data: bytes, path: str, mend: str) -> str:
    """Return that checksum, of the bytes of a file; ManifestError where it is of other bytes."""
    seal = _SEAL.search(data)
    if seal is None or f"{crc32(data[: seal.start()]):08x}".encode() != seal[1]:
        raise ManifestError(
            f"{path} was edited or damaged: its checksum is not the one that was written. {mend}"
        )
    return seal[1].decode()


def folder_of(pack: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, or its URL.

    Example:
        >>> folder_of("s3://bucket/packed/")
        's3://bucket/packed'
    """
    folder = os.fspath(pack)
    return folder.rstrip("/") if is_remote(folder) else os.path.abspath(folder)


def in_pack(folder: str, name: str) -> str:
    """Return the path of a file of a pack."""
    return f"{folder}/{name}" if is_remote(folder) else os.path.join(folder, name)


def is_pack(path: object, options: StorageOptions | None = None) -> bool:
    """Whether a path is that of the folder of a whole pack, or its URL.

    Example:
        >>> is_pack("pets.parquet")
        False
    """
    return isinstance(path, str | os.PathLike) and _has_file(os.fspath(path), INDEX, options)


def looks_like_pack(path: str, options: StorageOptions | None = None) -> bool:
    """Whether a path is that of a pack, or of one that was broken off."""
    return is_pack(path, options) or _has_file(path, "shard-00000.arrow", options)


def _has_file(pack: str, name: str, options: StorageOptions | None) -> bool:
    """Whether a folder, or what is below a URL, has a file; what is named as a file has none."""
    path = in_pack(folder_of(pack), name)
    if not is_remote(path):
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
    """Read what `_manifest.json` of a pack says; `options` open a remote one.

    Raises:
        MissingFileError: there is none.
        ManifestError: it is none of a pack, of an unknown version, or incomplete.
        ReadError: it is remote, and cannot be read.
    """
    path = in_pack(folder_of(folder), INDEX)
    try:
        data = store_at(path, options=options).read(path)
        content = json.loads(data)
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except FileNotFoundError:
        here = os.path.dirname(path)
        if not is_remote(path) and not os.path.isdir(here):
            raise MissingFileError(f"there is no folder {here}: expected that of a pack") from None
        begun = not is_remote(path) and any(one.startswith("shard-") for one in os.listdir(here))
        raise MissingFileError(
            f"{os.fspath(folder)} is a pack that was not finished: {INDEX}, which is written last, "
            "is missing. Run the command that packed it again"
            if begun
            else f"there is no pack in {os.fspath(folder)}: {INDEX}, which is written last, is "
            "missing. If packing was interrupted, run the same command again"
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
    index = _index(os.path.dirname(path), content)
    seal_of(data, path, "Take another copy of it, or pack again")
    return index


def refuse_lacking(content: Mapping[str, Any], needed: Mapping[str, Any]) -> None:
    """Raise a ValueError where content lacks an entry of those types that it needs."""
    wrong = [name for name, kind in needed.items() if not isinstance(content.get(name), kind)]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} is missing or invalid")


def _index(folder: str, content: dict[str, Any]) -> PackIndex:
    try:
        refuse_lacking(content, _NEEDED)
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
    fields = {name: content[name] for name in _NEEDED}
    return PackIndex(folder, **(fields | {"shards": shards, "table": table}))


def open_arrow(
    path: str, options: StorageOptions | None = None, nbytes: int | None = None
) -> pa.ipc.RecordBatchFileReader:
    """Open an Arrow file by a memory map; a remote one is read whole, by a few large requests.

    Args:
        path: of the file.
        options: open it where it is remote.
        nbytes: that it has; None: the store is asked.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: it is no Arrow file, or was cut short.
        ReadError: it is remote, and cannot be read.
    """
    try:
        if not is_remote(path):
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
        raise _unreadable(path, error) from None


def checked_table(reader: pa.ipc.RecordBatchFileReader, path: str, full: bool = True) -> pa.Table:
    """Return all of an Arrow file; `full`: whose offsets and indices lie in its buffers.

    Raises:
        ManifestError: they do not, which Arrow would read memory of others by.
    """
    try:
        table = reader.read_all()
        table.validate(full=full)
        return table
    except (OSError, ValueError, pa.ArrowException) as error:
        if is_outside(error):
            raise
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> ManifestError:
    return ManifestError(
        f"{path} cannot be read as an Arrow file: {reason(error)}. Take another copy of it, or "
        "pack again"
    )


def mapped_table(
    index: PackIndex, summed: bool = False, options: StorageOptions | None = None
) -> pa.Table:
    """Return the columns of all rows of a pack, mapped into memory; read, where it is remote.

    A small file is read whole, and its checksum compared, with `summed` any: of 10^8 rows it takes
    long.

    Raises:
        MissingFileError: the file is missing.
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
        table = checked_table(reader, path, summed or file.bytes <= _SUMMED)
    if len(table) != index.rows:
        raise ManifestError(f"{path} has {len(table):,} rows, expected {index.rows:,}: pack again")
    return table


def _is_same(path: str, file: PackFile, summed: bool, options: StorageOptions | None) -> bool:
    """Whether a file has the length that it was written with; `summed`: its bytes too, if local."""
    store = store_at(path, options=options)
    if store.head(path).size != file.bytes:
        return False
    return is_remote(path) or not summed or checksum_of(store, path, file.bytes) == file.checksum


def read_pack(
    folder: str, options: StorageOptions | None = None
) -> tuple[pa.Table, Mapping[str, Any]]:
    """Return the columns of a pack, as stored, with `shard` and `row`, and the key of its manifest.

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
    return table, index.dfgen
