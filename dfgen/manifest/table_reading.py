"""Read a manifest, which is a Parquet file, or the rows of a pack.

Large ones are not read, but memory-mapped from one Arrow IPC file in the cache folder. It is made
when the manifest is first opened, and again if the manifest, its root or the conditions change.
Processes that open the manifest together may make it twice; the last one stays.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from dfgen.errors import DfgenError, ManifestError, MissingFileError, brief, reason, warn
from dfgen.files import write_whole
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.metadata import (
    Metadata,
    RunningDigest,
    decode_metadata,
    fingerprint,
    hashed_columns,
    metadata_of,
)
from dfgen.manifest.paths import (
    absolute_paths,
    absolute_place,
    all_absolute,
    check_stored_paths,
    ends_of,
    refuse_outside,
)
from dfgen.manifest.reading import check_file
from dfgen.manifest.schema import (
    check_table,
    label_columns,
    refuse_repeated,
    rows_where,
    validate,
    with_classes,
    with_column,
)
from dfgen.manifest.where import Condition, columns_asked, condition_of
from dfgen.manifest.writing import missing_manifest, path_of_manifest
from dfgen.packs.format import INDEX, folder_of, in_pack, is_pack, pack_table, read_pack
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import has_store, scheme_of, store_at
from dfgen.table.arrow_types import (
    TEXT,
    MappedColumn,
    read_parquet,
    value_type,
    with_large_bytes,
)

Path = str | os.PathLike[str]


def read_table(
    path: Path,
    root: Path | None = None,
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
    columns: Sequence[str] | None = None,
    where: Any = None,
) -> tuple[pa.Table, Metadata]:
    """Return a manifest as an Arrow table with absolute paths, and its metadata.

    The root of the metadata is absolute, or None if paths were stored absolute. The arguments are
    those of `read_manifest`.
    """
    place = path_of_manifest(path)
    if is_pack(place, options):
        return _read_pack(folder_of(place), root, options, columns, where)
    with opened_manifest(path, limits, options) as file:
        names = columns_asked(columns, file.schema)
        condition = condition_of(where, file.empty)
        begin = root_given(root, file.metadata.root, file.path)
        if condition is None:
            table = file.read(names)
        else:
            parts = file.chosen(names, [condition], begin)
            table = pa.concat_tables([file.empty.select(names), *parts])
            table = table.replace_schema_metadata(file.schema.metadata)
        metadata = file.metadata
    if columns is None and where is None:
        validate(table, file.path)
        try:
            is_changed = fingerprint(table) != metadata.fingerprint
        except ManifestError:  # a type that no manifest has
            is_changed = True
        if is_changed:
            warn_of_change(file.path)
    return _with_absolute_paths(table, metadata, begin, root, file.path)


def _read_pack(
    folder: str, root: Path | None, options: StorageOptions | None, columns: Any, where: Any
) -> tuple[pa.Table, Metadata]:
    """Return the rows of a pack."""
    pack = read_pack(folder, options)
    table, path = pack_table(pack, options), in_pack(folder, INDEX)
    metadata = metadata_of(pack.dfgen, f"{path}, its dfgen")
    table = with_known_classes(table, metadata, path)
    names, condition = columns_asked(columns, table.schema), condition_of(where, table[:0])
    begin = root_given(root, metadata.root, path)
    if condition is not None:
        table = table.filter(pa.array(condition.mask(absolute_paths(table, begin))))
    return _with_absolute_paths(table.select(names), metadata, begin, root, path)


def root_given(root: Path | None, stored: str | None, path: str) -> str | None:
    """Return the absolute root of a manifest's paths: the one of the caller, else the stored one.

    Returns None if there is neither.
    """
    if root is not None:
        return absolute_place(os.fspath(root))
    return None if stored is None else absolute_place(stored, os.path.dirname(path))


def _with_absolute_paths(
    table: pa.Table, metadata: Metadata, begin: str | None, root: Path | None, path: str
) -> tuple[pa.Table, Metadata]:
    if root is not None and metadata.root is None and all_absolute(table):
        refuse_outside(table, begin or "", path)
        begin = None
    check_stored_paths(table, begin, path)
    return absolute_paths(table, begin), msgspec.structs.replace(metadata, root=begin)


@dataclass(frozen=True)
class ManifestFile:
    """An open manifest."""

    path: str  # absolute, or a URL
    file: pq.ParquetFile

    def __enter__(self) -> "ManifestFile":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.file.close(force=True)
        if isinstance(error, Exception) and not isinstance(error, DfgenError | MemoryError):
            raise _unreadable(self.path, error) from error

    @cached_property
    def metadata(self) -> Metadata:
        """The key."""
        return decode_metadata(self._key_values, self.path)

    @cached_property
    def _key_values(self) -> dict[bytes, bytes]:
        """The schema metadata. The footer holds it twice: if the copies differ, it is damaged."""
        values: dict[bytes, bytes] = self.file.schema_arrow.metadata or {}
        copies = self.file.metadata.metadata or {}
        if any(copies.get(key, value) != value for key, value in values.items()):
            raise ManifestError(
                f"{self.path} is damaged: its footer holds two metadata that should be the same. "
                "Take another copy of the file, or build it again"
            )
        return values

    @cached_property
    def empty(self) -> pa.Table:
        """A table with the columns, types and class names of the rows, and the key."""
        table = self.file.schema_arrow.empty_table()
        return self._finished(table.replace_schema_metadata(self._key_values))

    @property
    def schema(self) -> pa.Schema:
        """The columns, and the types that the rows are read with."""
        return self.empty.schema

    @cached_property
    def _names(self) -> dict[str, pa.Array]:
        """The class names, in all row groups, of categories that are no labels."""
        schema = self.file.schema_arrow
        labels = {*label_columns(schema.names)}
        classes = {}
        for field in schema:
            if pa.types.is_dictionary(field.type) and field.name not in labels:
                chunks = [
                    chunk.dictionary
                    for group in range(self.file.num_row_groups)
                    for chunk in self.file.read_row_group(group, [field.name])[0].chunks
                ]
                names = pa.chunked_array(chunks, field.type.value_type)
                classes[field.name] = pc.unique(names).drop_null()
        return classes

    def read(self, names: Sequence[str]) -> pa.Table:
        """Return all rows, with stored paths."""
        return self._finished(read_parquet(self.file, names))

    def chosen(
        self, names: Sequence[str], conditions: Sequence[Condition], root: str | None
    ) -> Iterator[pa.Table]:
        """Yield the rows that meet all conditions, row group by row group, with stored paths."""
        asked = list(dict.fromkeys(name for one in conditions for name in one.columns))
        for group in range(self.file.num_row_groups):
            if not conditions:
                yield self._finished(self.file.read_row_group(group, names))
                continue
            table = self._finished(self.file.read_row_group(group, asked))
            table = absolute_paths(table, root)
            mask = np.logical_and.reduce([condition.mask(table) for condition in conditions])
            if mask.any():
                table = self._finished(self.file.read_row_group(group, names))
                yield table.filter(pa.array(mask))

    def _finished(self, table: pa.Table) -> pa.Table:
        table = with_large_bytes(table)
        for name, names in self._names.items():
            if name in table.column_names:
                kind = table[name].type
                table = with_column(table, name, with_classes(table[name], names, kind.ordered))
        return with_known_classes(table, self.metadata, self.path)


def opened_manifest(
    path: Path, limits: Limits = DEFAULT, options: StorageOptions | None = None
) -> ManifestFile:
    """Open the Parquet file of a manifest; a remote one is fetched as a whole."""
    place = path_of_manifest(path)
    try:
        if has_store(scheme_of(place)):
            handle: Any = pa.BufferReader(store_at(place, limits, options).read(place))
        else:
            check_file(place)
            handle = pa.OSFile(place)
        file = pq.ParquetFile(handle, page_checksum_verification=True)
        return ManifestFile(place, file)
    except FileNotFoundError:
        raise MissingFileError(missing_manifest(place)) from None
    except DfgenError:
        raise
    except Exception as error:  # of a file that may be anything
        raise _unreadable(place, error) from error


def _unreadable(path: str, error: Exception) -> ManifestError:
    return ManifestError(
        f"{path} cannot be read as a Parquet file: {reason(error).rstrip('.')}. A manifest is a "
        "Parquet file that dfgen wrote: dfgen.build_manifest and dfgen.write_manifest make one. If "
        "this is one, take another copy of it, or build it again"
    )


def warn_of_change(path: str) -> None:
    """Warn that the rows are not as dfgen wrote them."""
    warn(
        f"{path}: by their fingerprint, its ids, paths or labels are not as dfgen wrote them: "
        "another program changed it, or it is damaged. If the change is intended, write it again: "
        "dfgen.write_manifest(dfgen.read_manifest(path), path)"
    )


def with_known_classes(table: pa.Table, metadata: Metadata, path: str) -> pa.Table:
    """Return a table whose categories have exactly the class names of the metadata."""
    for name, label in metadata.labels.items():
        if label.get("kind") != "category" or name not in table.column_names:
            continue
        column, names = table[name], label.get("class_names", [])
        kind = value_type(column.type)
        try:
            if not (kind in TEXT or pa.types.is_integer(kind)):
                raise TypeError("class names are text or whole numbers")
            wanted = pa.array(names, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ManifestError(
                f"{path}: column {name!r} has type {kind}, which cannot hold its class names "
                f'{brief(names)} of the "dfgen" key: {reason(error)}. Build it again'
            ) from None
        restored = with_classes(column, wanted, label.get("ordered", False))
        if restored.null_count != column.null_count:
            row = rows_where(pc.and_(pc.is_valid(column), pc.is_null(restored)))[0].as_py()
            raise ManifestError(
                f"{path}: row {row} has {name}={column[row].as_py()!r}, which is not among its "
                f"class names {brief(names)}. Build the manifest again"
            )
        table = with_column(table, name, restored)
    return table


LEAST_ROWS = 100_000
"""Manifests with fewer rows are read into memory, which takes no longer than to map them."""
_FORMAT = 1
_KEPT = 8  # files that are never removed
_UNUSED = 7 * 86_400  # seconds after which other files are removed


class MappedRows:
    """The rows of a manifest that meet some conditions, in the Arrow file `path`.

    The root of the metadata is absolute.
    """

    def __init__(self, manifest: str, path: str, metadata: Metadata) -> None:
        self.manifest, self.path, self.metadata = manifest, path, metadata

    @cached_property
    def table(self) -> pa.Table:
        """All columns, with stored paths."""
        with pa.memory_map(self.path) as mapped, pa.ipc.open_file(mapped) as reader:
            return reader.read_all()

    def column(self, name: str) -> MappedColumn:
        """Return a column; paths are absolute."""
        root = self.metadata.root if name == "path" else None
        return MappedColumn(self.path, name, None if root is None else ends_of(root))

    def digest_of_ids(self, make: Callable[[Any], str]) -> str:
        """Return `make(ids)`, which is stored beside the Arrow file."""
        path = f"{self.path}.ids"
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            return file.read()
        digest = make(self.column("id"))
        with contextlib.suppress(OSError):
            write_whole(path, lambda file: file.write(digest.encode()))
        return digest


def mapped_rows(
    manifest: str | os.PathLike[str],
    root: str | os.PathLike[str] | None,
    conditions: Sequence[Any] = (),
    limits: Limits = DEFAULT,
) -> MappedRows | None:
    """Return the rows of a manifest on a disk that meet all conditions.

    Returns None if the manifest is small, or if absolute paths must be compared with a root.
    """
    with opened_manifest(manifest, limits) as file:
        known = file.metadata
        is_absolute = root is not None and known.root is None
        if file.file.metadata.num_rows < LEAST_ROWS or is_absolute:
            return None
        begin = root_given(root, known.root, file.path)
        status = os.stat(file.path)
        state = (status.st_size, status.st_mtime_ns, known.fingerprint, begin)
        key = repr((_FORMAT, file.path, state, [str(where) for where in conditions]))
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.path.join(cache, "dfgen", "rows")
        path = os.path.join(folder, f"{blake2b(key.encode(), digest_size=16).hexdigest()}.arrow")
        if not _is_usable(path):
            with contextlib.suppress(OSError):  # writing says why
                os.makedirs(folder, exist_ok=True)
            write_whole(path, lambda target: _convert(file, begin, conditions, target))
            _remove_unused(folder)
    return MappedRows(file.path, path, msgspec.structs.replace(known, root=begin))


def _is_usable(path: str) -> bool:
    """Whether there is a whole file; note that it was used."""
    try:
        with pa.memory_map(path) as mapped, pa.ipc.open_file(mapped):
            os.utime(path)
            return True
    except (OSError, pa.ArrowException):
        return False


def _convert(file: ManifestFile, root: str | None, conditions: Sequence[Any], target: Any) -> None:
    """Write the rows of a manifest that meet all conditions into an open Arrow file."""
    schema = file.schema.remove_metadata()
    asked = [condition_of(where, file.empty) for where in conditions]
    digest, ids = RunningDigest(schema, hashed_columns(schema.names)), list[pa.Array]()
    with pa.ipc.new_file(target, schema) as writer:
        for table in file.chosen(schema.names, [one for one in asked if one], root):
            check_table(table, file.path)
            check_stored_paths(table, root, file.path)
            ids += table["id"].chunks
            if not conditions:
                digest.update(table)
            writer.write_table(table)
    if not conditions and digest.hexdigest() == file.metadata.fingerprint:
        return  # the ids were unique when dfgen wrote them
    refuse_repeated(pa.chunked_array(ids, schema.field("id").type), file.path)
    if not conditions:
        warn_of_change(file.path)


def _remove_unused(folder: str) -> None:
    """Remove files that were not used for long, except the last ones."""
    files = [(one.stat().st_mtime, one.path) for one in os.scandir(folder)]
    files = sorted((one for one in files if one[1].endswith(".arrow")), reverse=True)
    for used, path in files[_KEPT:]:
        if used < time.time() - _UNUSED:
            for name in (path, f"{path}.ids"):
                with contextlib.suppress(OSError):
                    os.unlink(name)
