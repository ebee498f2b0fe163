"""A pack on disk: a folder of Arrow files, and `_manifest.json`, which is written last.

    shard-00000.arrow ...  Arrow IPC files of one record batch, uncompressed: all columns of the
                           manifest, and of the packed column
        path_pixels        arrow.fixed_shape_tensor of uint8, (height, width, channels)
        path_bytes         or large_binary: whole files
    manifest.arrow         an Arrow IPC file: all columns of the manifest, without pixels
    _manifest.json         rows, files with checksums and byte offsets, arguments: see `Pack`

Row r of the pack is in the shard s with starts[s] <= r < starts[s + 1], at r - starts[s]. A row
without a usable file is null there, and its `problem` says why.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import DfgenError, ManifestError, MissingFileError, ReadError, reason
from dfgen.spec import IntArray
from dfgen.stores.store import StorageOptions, Store
from dfgen.stores.stores import is_remote, store_at

PACK_FORMAT = 2
INDEX, TABLE = "_manifest.json", "manifest.arrow"
PACK_KEY = b"dfgen"
"""Key in the schema metadata of a shard: JSON of the `id` of the pack and its `plan`."""

_VALIDATED = 1 << 26  # bytes of a table whose offsets and indices are checked
PIECE = 1 << 23
"""Bytes of a request: it takes far longer than a server takes to answer."""


@dataclass(frozen=True)
class PackFile:
    """A file of a pack.

    Args:
        file: its name.
        rows: in it.
        bytes: its length.
        checksum: CRC-32, 8 hexadecimal digits.
        offsets: where the values of the packed column begin: [pixels], or [ends, bytes].
    """

    file: str
    rows: int
    bytes: int
    checksum: str
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pack:
    """A pack as `_manifest.json` describes it.

    Args:
        folder: the absolute path of the pack, or its URL.
        id: random, and in each shard.
        rows: of all shards.
        shards: in the order of their rows.
        packed: the arguments of `dfgen.pack` that decide what the column `path` became; None if
            they do not matter.
        shape: of the pixels of a row; None for whole files.
        table: the file of the manifest's columns.
        ids: digest of the ids, in order.
        dfgen: the `dfgen` key of the manifest; its root is relative to the folder.
        created_by: the version of dfgen.
        plan: tells this pack from another.
    """

    folder: str
    id: str
    rows: int
    shards: tuple[PackFile, ...]
    packed: dict[str, Any]
    shape: tuple[int, int, int] | None
    table: PackFile
    ids: str
    dfgen: dict[str, Any]
    created_by: str
    plan: dict[str, Any]

    @property
    def starts(self) -> IntArray:
        """The first row of each shard, and the number of all rows: shape (shards + 1,)."""
        return np.cumsum([0, *(shard.rows for shard in self.shards)], dtype=np.int64)

    def path(self, file: PackFile) -> str:
        """Return the path of one of its files."""
        return in_pack(self.folder, file.file)

    def to_json(self) -> bytes:
        """Return the bytes of `_manifest.json`."""
        content = {"format": PACK_FORMAT, "kind": "pack", **vars(self)}
        del content["folder"]
        content |= {"shards": [vars(shard) for shard in self.shards], "table": vars(self.table)}
        return _encoded(content)


def _encoded(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    checksum = f"{crc32(text.encode()):08x}"
    return (json.dumps({**content, "checksum": checksum}, ensure_ascii=False, indent=1)).encode()


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
    """Return whether a path is the folder of a pack, also of an unfinished one, or its URL.

    Example:
        >>> is_pack("pets.parquet")
        False
    """
    if not isinstance(path, str | os.PathLike) or os.fspath(path).endswith(".parquet"):
        return False
    folder = folder_of(path)
    if not is_remote(folder):
        names = (INDEX, "shard-00000.arrow")
        return any(os.path.isfile(os.path.join(folder, name)) for name in names)
    try:
        store_at(folder, options=options).head(in_pack(folder, INDEX))
    except ReadError:
        raise
    except (DfgenError, OSError, ValueError):
        return False
    return True


def read_pack(folder: str | os.PathLike[str], options: StorageOptions | None = None) -> Pack:
    """Read `_manifest.json` of a pack.

    Raises:
        MissingFileError: there is none.
        ManifestError: it is damaged, or of another version.
        ReadError: it is remote, and cannot be read.
    """
    place = folder_of(folder)
    path = in_pack(place, INDEX)
    try:
        data = store_at(path, options=options).read(path)
        content = json.loads(data)
        if content.get("format") != PACK_FORMAT or content.pop("kind") != "pack":
            raise ManifestError(
                f"{path} has pack format {content.get('format')!r}, expected {PACK_FORMAT}: pack "
                "again with this version of dfgen"
            )
        del content["checksum"]
        if _encoded({"format": PACK_FORMAT, "kind": "pack", **content}) != data:
            raise ValueError("its checksum differs")
        del content["format"]
        content["shards"] = tuple(_file(shard) for shard in content["shards"])
        content["table"] = _file(content["table"])
        content["shape"] = content["shape"] and tuple(content["shape"])
        return Pack(place, **content)
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except ManifestError:
        raise
    except FileNotFoundError:
        raise MissingFileError(
            f"there is no pack in {os.fspath(folder)}: {INDEX}, which is written last, is missing. "
            "If packing was interrupted, run the same command again"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = reason(error)
        raise ManifestError(f"{path} is damaged: {why}. Copy it again, or pack again") from None


def _file(content: dict[str, Any]) -> PackFile:
    if os.path.basename(content["file"]) != content["file"]:
        raise ValueError("a file of it is not in its folder")
    return PackFile(**{**content, "offsets": tuple(content["offsets"])})


def pack_table(pack: Pack, options: StorageOptions | None = None) -> pa.Table:
    """Return the columns of all rows, mapped into memory, or read if the pack is remote.

    Raises:
        MissingFileError: the file is missing.
        ManifestError: it is damaged, or of another pack.
    """
    path, file = pack.path(pack.table), pack.table
    try:
        if is_remote(path):
            store = store_at(path, options=options)
            table = pa.ipc.open_file(pa.py_buffer(whole_file(store, path, file.bytes))).read_all()
        else:
            size = os.path.getsize(path)
            if size != file.bytes:
                raise ValueError(f"it has {size:,} bytes, expected {file.bytes:,}")
            with pa.memory_map(path) as mapped, pa.ipc.open_file(mapped) as reader:
                table = reader.read_all()
        table.validate(full=file.bytes <= _VALIDATED)
        if len(table) != pack.rows:
            raise ValueError(f"it has {len(table):,} rows, expected {pack.rows:,}")
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except FileNotFoundError:
        raise MissingFileError(f"{path} is missing: copy it again, or pack again") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        why = reason(error)
        raise ManifestError(f"{path} is damaged: {why}. Copy it again, or pack again") from None
    return table.replace_schema_metadata()


def check_id(pack: Pack, file: PackFile, schema: pa.Schema) -> None:
    """Raise a ManifestError if a schema is of another shard or pack."""
    found = json.loads((schema.metadata or {}).get(PACK_KEY, b"{}"))
    if (found.get("id"), found.get("file")) != (pack.id, file.file):
        raise ManifestError(
            f"{pack.path(file)} is {found.get('file')} of another pack: open the pack again, or "
            "copy its files again"
        )


def whole_file(store: Store, path: str, size: int) -> bytes:
    """Return all bytes of a remote file."""
    pieces = (range_of(store, path, at, min(at + PIECE, size)) for at in range(0, size, PIECE))
    return b"".join(pieces)


def range_of(store: Store, path: str, start: int, stop: int) -> bytes:
    """Return a part of a file, or raise a ReadError if fewer bytes arrive."""
    data = store.range(path, start, stop)
    if len(data) != stop - start:
        raise ReadError(f"{path}: {len(data):,} of {stop - start:,} bytes arrived")
    return data


def checksum_of(store: Store, path: str, size: int) -> str:
    """Return the CRC-32 of a file."""
    value = 0
    for at in range(0, size, PIECE):
        value = crc32(range_of(store, path, at, min(at + PIECE, size)), value)
    return f"{value:08x}"
