"""A pack on disk, and its check: Arrow files, and `_manifest.json`, which is written last.

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
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from xxhash import xxh3_64, xxh3_64_hexdigest

from dfgen.errors import (
    ArgumentError,
    DfgenError,
    ManifestError,
    MissingFileError,
    ReadError,
    reason,
)
from dfgen.machine import threads, usable_cpus
from dfgen.progress_bars import progress
from dfgen.spec import IntArray
from dfgen.stores.store import StorageOptions, Store
from dfgen.stores.stores import is_remote, store_at

PACK_FORMAT = 3
INDEX, TABLE = "_manifest.json", "manifest.arrow"
PATH = "path"
"""The column whose files are packed."""

PACK_KEY = b"dfgen"
"""Key in the schema metadata of a shard: JSON of the `id` of the pack and its `plan`."""

PIECE = 1 << 23
"""Bytes of a request. Their transfer takes much longer than the latency of a server."""

_VALIDATED = 1 << 26  # bytes of a table whose offsets and indices are checked


class PackFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a pack."""

    file: str  # its name
    rows: int
    bytes: int
    checksum: str  # XXH3 with 64 bits, hexadecimal
    offsets: tuple[int, ...] = ()  # where the packed values begin: [pixels], or [ends, bytes]

    def __post_init__(self) -> None:
        if os.path.basename(self.file) != self.file:
            raise ValueError("a file of it is not in its folder")


class Pack(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A pack as `_manifest.json` describes it."""

    format: int
    id: str  # random, and in each shard
    rows: int
    shards: tuple[PackFile, ...]
    packed: dict[str, Any]  # arguments of `dfgen.pack` that decide what the files became, or None
    shape: tuple[int, int, int] | None  # of the pixels of a row; None for whole files
    table: PackFile  # the columns of the manifest
    ids: str  # digest of the ids, in order
    dfgen: dict[str, Any]  # the metadata of the manifest; its root is relative to the folder
    created_by: str
    plan: dict[str, Any]  # equal plans make equal packs
    folder: str = ""  # absolute path or URL; not in the file
    checksum: str = ""  # XXH3 of the other entries

    def __post_init__(self) -> None:
        if not self.rows or self.rows != sum(file.rows for file in self.shards):
            raise ValueError("its shards have other numbers of rows")
        shape, offsets = self.shape or (8,), 1 if self.shape else 2  # 8 bytes of the end of a file
        for file in self.shards:
            is_one = len(file.offsets) == offsets and min(shape) > 0 <= min(file.offsets)
            end = file.offsets[0] + prod(shape) * file.rows if is_one else file.bytes + 1
            if max(end, *file.offsets) > file.bytes:
                raise ValueError(f"the values of {file.file} are outside of it")

    @property
    def starts(self) -> IntArray:
        """The first row of each shard, and the number of all rows: shape (shards + 1,)."""
        return np.cumsum([0, *(shard.rows for shard in self.shards)], dtype=np.int64)

    def path(self, file: PackFile) -> str:
        """Return the path of one of its files."""
        return in_pack(self.folder, file.file)

    def to_json(self) -> bytes:
        """Return the bytes of `_manifest.json`."""
        plain = msgspec.structs.replace(self, folder="", checksum="")
        checksum = xxh3_64_hexdigest(msgspec.json.encode(plain))
        summed = msgspec.structs.replace(plain, checksum=checksum)
        return msgspec.json.format(msgspec.json.encode(summed), indent=1)


class Versioned(msgspec.Struct):
    """The version in the JSON of a pack or manifest."""

    format: int


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


@contextmanager
def pack_errors(path: str, missing: str = "") -> Iterator[None]:
    """Raise errors with the path of a file of a pack and advice.

    Raises:
        MissingFileError: the file does not exist.
        ManifestError: it is damaged.
        ReadError: it cannot be read now.
    """
    try:
        yield
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except FileNotFoundError:
        missing = missing or f"{path} is missing: copy it again, or pack again"
        raise MissingFileError(missing) from None
    except (ManifestError, ArgumentError):
        raise
    except (OSError, ValueError, RecursionError, pa.ArrowException, msgspec.MsgspecError) as error:
        why = reason(error)
        raise ManifestError(f"{path} is damaged: {why}. Copy it again, or pack again") from None


def read_pack(folder: str | os.PathLike[str], options: StorageOptions | None = None) -> Pack:
    """Read `_manifest.json` of a pack.

    Raises:
        MissingFileError: the file does not exist.
        ManifestError: it is damaged, or of another version.
        ReadError: it is remote, and cannot be read.
    """
    place = folder_of(folder)
    path = in_pack(place, INDEX)
    missing = (
        f"there is no pack in {os.fspath(folder)}: {INDEX}, which is written last, is missing. If "
        "packing was interrupted, run the same command again"
    )
    with pack_errors(path, missing):
        data = store_at(path, options=options).read(path)
        version = msgspec.json.decode(data, type=Versioned).format
        if version != PACK_FORMAT:
            raise ManifestError(
                f"{path} has pack format {version}, expected {PACK_FORMAT}: pack again with this "
                "version of dfgen"
            )
        pack = msgspec.json.decode(data, type=Pack)
        if pack.to_json() != data:
            raise ValueError("its checksum differs")
    return msgspec.structs.replace(pack, folder=place)


def pack_table(pack: Pack, options: StorageOptions | None = None) -> pa.Table:
    """Return the columns of all rows, mapped into memory, or read if the pack is remote.

    Raises:
        MissingFileError: the file is missing.
        ManifestError: it is damaged, or of another pack.
        ReadError: it is remote, and cannot be read.
    """
    path, file = pack.path(pack.table), pack.table
    with pack_errors(path):
        store = store_at(path, options=options)
        if is_remote(path):
            data = pa.py_buffer(b"".join(pieces(store, path, file.bytes)))
        else:
            check_length(os.path.getsize(path), file)
            with pa.memory_map(path) as mapped:
                data = mapped.read_buffer()
        if xxh3_64_hexdigest(data) != file.checksum:
            raise ValueError("its checksum differs")
        table = pa.ipc.open_file(data).read_all()
        table.validate(full=file.bytes <= _VALIDATED)
        if len(table) != pack.rows:
            raise ValueError(f"it has {len(table):,} rows, expected {pack.rows:,}")
    return table.replace_schema_metadata()


def check_length(size: int, file: PackFile) -> None:
    """Raise a ValueError if a file has another length."""
    if size != file.bytes:
        raise ValueError(f"it has {size:,} bytes, expected {file.bytes:,}")


def check_id(pack: Pack, file: PackFile, schema: pa.Schema) -> None:
    """Raise a ManifestError if a schema belongs to another shard or pack."""
    key = json.loads((schema.metadata or {}).get(PACK_KEY, b"{}"))
    if (key.get("id"), key.get("file")) != (pack.id, file.file):
        raise ManifestError(
            f"{pack.path(file)} is {key.get('file')} of another pack: open the pack again, or "
            "copy its files again"
        )


def range_of(store: Store, path: str, start: int, stop: int) -> bytes:
    """Return a part of a file, or raise a ReadError if fewer bytes arrive."""
    data = store.range(path, start, stop)
    if len(data) != stop - start:
        raise ReadError(f"{path}: {len(data):,} of {stop - start:,} bytes arrived")
    return data


def pieces(store: Store, path: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a file, `PIECE` at a time."""
    for start in range(0, size, PIECE):
        yield range_of(store, path, start, min(start + PIECE, size))


def checksum_of(store: Store, path: str, size: int) -> str:
    """Return the checksum of a file."""
    digest = xxh3_64()
    for piece in pieces(store, path, size):
        digest.update(piece)
    return digest.hexdigest()


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
