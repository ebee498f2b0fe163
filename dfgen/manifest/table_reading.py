"""Read a manifest, whatever it is on the disk: one file, parts in a folder, or a pack."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dfgen.errors import (
    ArgumentError,
    ManifestError,
    MissingFileError,
    ReadError,
    brief,
    reason,
    warn,
)
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.recipe import absolute_recipe
from dfgen.manifest.column_files import ColumnFiles
from dfgen.manifest.file_errors import check_file
from dfgen.manifest.fingerprint import fingerprint
from dfgen.manifest.metadata_check import decode_metadata, metadata_of_pack
from dfgen.manifest.not_a_manifest import frame_of_file, no_manifest, path_of_manifest
from dfgen.manifest.parts import PartsIndex, read_parts_index, renamed_category, rows_of_parts
from dfgen.manifest.path_roots import absolute_place, file_of
from dfgen.manifest.paths import absolute_paths, all_absolute, reach_of, refuse_outside, say_outside
from dfgen.manifest.row_filter import Selection, selection
from dfgen.manifest.schema import Label, Metadata, as_category, rows_where, validate, with_column
from dfgen.packs.pack_index import (
    INDEX,
    folder_of,
    in_pack,
    is_in_parts,
    is_remote,
    looks_like_pack,
    read_pack,
)
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, scheme_of, store_at
from dfgen.table.arrow_types import value_type
from dfgen.table.file_columns import with_large_bytes
from dfgen.table.parquet import has_checksum, read_parquet


@dataclass(frozen=True)
class _Asked:
    """The arguments of `read_table`, with an absolute path."""

    path: str
    root: str | os.PathLike[str] | None
    limits: Limits
    options: StorageOptions | None
    columns: Sequence[str] | None
    where: Any

    def selection(self, schema: pa.Schema, metadata: Metadata) -> Selection:
        """Return what is chosen of a manifest of this schema."""
        return selection(self.columns, self.where, schema, metadata["labels"])

    def begin(self, stored: str | None) -> str | None:
        """Return where paths begin whose stored root is this, before any of them is looked at."""
        if self.root is not None:
            return absolute_place(os.fspath(self.root))
        return None if stored is None else absolute_place(stored, os.path.dirname(self.path))


def read_table(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    reads_files: bool = True,
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
    columns: Sequence[str] | None = None,
    where: Any = None,
) -> tuple[pa.Table, Metadata]:
    """Read a manifest as an Arrow table with absolute paths, and its metadata.

    `root` and recipe of the metadata are absolute; the root is None where the paths were stored
    absolute. `reads_files=False`: the rows alone are of interest, wherever files lie. `columns` and
    `where` are those of `read_manifest`.
    """
    given = str(path)
    path = path_of_manifest(path)
    asked = _Asked(path, root, limits, options, columns, where)
    if looks_like_pack(path, options):
        asked = replace(asked, path=in_pack(folder_of(path), INDEX))
        return _as_used(asked, *_rows_of_pack(asked), reads_files)
    if is_in_parts(path):
        asked = replace(asked, path=folder_of(path))
        return _as_used(asked, *_rows_in_parts(asked, given), reads_files)
    try:
        table, metadata, is_whole = _rows_in_file(asked)
    except FileNotFoundError:
        raise MissingFileError(no_manifest(given, path)) from None
    except (ArgumentError, ManifestError, ReadError):
        raise
    except Exception as error:  # of a file that may be anything
        advice = frame_of_file(given)
        if advice is not None:
            raise ManifestError(
                f"{path} is no manifest, which is a Parquet file of dfgen: {advice}"
            ) from None
        raise ManifestError(
            f"{path} cannot be read as a Parquet file: {reason(error).rstrip('.')}. Fetch it "
            "again, or build it anew"
        ) from error
    return _as_used(asked, table, metadata, reads_files, is_whole)


def _rows_of_pack(asked: _Asked) -> tuple[pa.Table, Metadata]:
    """Return what is asked for of a pack, with `shard` and `row`."""
    folder = os.path.dirname(asked.path)
    table, content = read_pack(folder, asked.options)
    metadata = metadata_of_pack(content, folder)
    chosen = asked.selection(table.schema, metadata)
    return chosen.of_table(table, asked.begin(metadata["root"])), metadata


def _rows_in_parts(asked: _Asked, given: str) -> tuple[pa.Table, Metadata]:
    """Return what is asked for of a manifest in parts."""
    path, options = asked.path, asked.options
    if not is_remote(path) and not os.path.isdir(path):
        raise MissingFileError(no_manifest(given, path))
    index = read_parts_index(path, options)

    def rows(index: PartsIndex) -> pa.Table:
        chosen = asked.selection(index.schema, index.dfgen)
        return rows_of_parts(index, asked.limits, options, chosen, asked.begin(index.dfgen["root"]))

    try:
        return rows(index), index.dfgen
    except MissingFileError:  # written anew just now, maybe
        now = read_parts_index(path, options)
        if now.checksum == index.checksum:
            raise
        return rows(now), now.dfgen


def column_files(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions,
    where: Any,
) -> tuple[ColumnFiles, Metadata]:
    """Return the columns of a manifest in parts, unread, and its metadata, as of `read_table`."""
    given, path = str(path), folder_of(path_of_manifest(path))
    asked = _Asked(path, root, limits, options, None, where)
    if not is_remote(path) and not os.path.isdir(path):
        raise MissingFileError(no_manifest(given, path))
    index = read_parts_index(path, options)
    metadata, stored = index.dfgen, index.dfgen["root"]
    metadata["root"] = begin = None if stored is None else asked.begin(stored)
    files = ColumnFiles(index, asked.selection(index.schema, metadata), begin, limits, options)
    if root is None and "path" in index.schema.names and len(files):
        _say_outside(path, begin, lambda: files["path"])
    return files, metadata


def _rows_in_file(asked: _Asked) -> tuple[pa.Table, Metadata, bool]:
    """Return what is asked for of one file, and whether its checksum vouches for it."""
    path = asked.path
    with _opened(path, asked.limits, asked.options) as handle:
        is_whole = has_checksum(handle, path)
        with pq.ParquetFile(handle, page_checksum_verification=not is_whole) as file:
            schema = file.schema_arrow
            metadata = decode_metadata(schema.metadata, path)
            chosen = asked.selection(schema, metadata)
            if chosen.where is None:
                table = read_parquet(file, path, asked.limits, handle.size(), chosen.columns)
            else:
                table = _filtered(file, handle, chosen, asked.begin(metadata["root"]))
    if not is_whole:
        table.validate(full=True)
    return table, metadata, is_whole


def _filtered(
    file: pq.ParquetFile, handle: pa.NativeFile, chosen: Selection, root: str | None
) -> pa.Table:
    """Return chosen rows of one file, with the categories that it has."""
    schema = file.schema_arrow
    plain = pa.schema([field.with_type(value_type(field.type)) for field in schema])
    table = chosen.of_file(handle, plain, root)
    for name in table.column_names:
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind) and file.num_row_groups:
            first = file.read_row_group(0, [name])[name]
            names = first.chunk(0).dictionary if first.num_chunks else pa.array([], kind.value_type)
            if pc.all(pc.is_in(table[name].drop_null(), value_set=names)).as_py() is not False:
                table = with_column(table, name, renamed_category(table[name], names, kind.ordered))
    return with_large_bytes(table).replace_schema_metadata(schema.metadata)


def _as_used(
    asked: _Asked, table: pa.Table, metadata: Metadata, reads_files: bool, is_whole: bool = True
) -> tuple[pa.Table, Metadata]:
    """Return the rows that are asked for, and the metadata, with absolute paths."""
    path, root = asked.path, asked.root
    if asked.columns is None:
        validate(table, path)
    metadata["root"] = _root(table, metadata["root"], asked)
    metadata["recipe"] = absolute_recipe(metadata["recipe"], os.path.dirname(path))
    for name, label in metadata["labels"].items():
        if label["kind"] == "category" and name in table.column_names:
            table = _restore_categories(table, name, label, path)
    used = absolute_paths(table, metadata["root"], path)
    if not is_whole and asked.columns is None and asked.where is None:
        _compare_fingerprint(table, metadata["fingerprint"], path)
    if reads_files and root is None and "path" in table.column_names:
        _say_outside(path, metadata["root"], lambda: used["path"])
    return used, metadata


def _say_outside(path: str, root: str | None, paths: Callable[[], pa.ChunkedArray]) -> None:
    """Warn of a manifest that names files far from it: by its root, below which all are."""
    named = paths() if root is None else pa.chunked_array([[f"{file_of(root)}/"]])
    say_outside(path, named, [reach_of(path)], "root={}")


def _opened(path: str, limits: Limits, options: StorageOptions | None) -> pa.NativeFile:
    """Return a manifest opened; one far away is fetched as a whole."""
    if has_store(scheme_of(path)):
        return pa.BufferReader(store_at(path, limits, options).read(path))
    if not os.path.isdir(path):
        check_file(path)
    return pa.OSFile(path)


def _root(table: pa.Table, stored: str | None, asked: _Asked) -> str | None:
    """Return the absolute root of a manifest; None if its paths are absolute as they stand."""
    root = asked.begin(stored)
    if asked.root is not None and stored is None and all_absolute(table):
        refuse_outside(table, root or "", asked.path)
        return None
    return root


def _compare_fingerprint(table: pa.Table, expected: str, path: str) -> None:
    """Warn of rows that are not those written; a file with a checksum needs no look at them."""
    if any("[ms" in str(kind) for kind in table.schema.types):
        return  # Parquet has no seconds: they were hashed as such, and are milliseconds now
    try:
        same = fingerprint(table) == expected
    except ManifestError:  # of a type that no manifest is written with
        same = False
    if not same:
        warn(
            f"{path}: its ids, paths or labels are not those that dfgen wrote, by their "
            "fingerprint: another program changed it, or it is damaged. If the change is intended, "
            "write it again: dfgen.write_manifest(dfgen.read_manifest(path), path)"
        )


def _restore_categories(table: pa.Table, name: str, label: Label, path: str) -> pa.Table:
    """Give a column exactly the class names of the metadata: Parquet keeps them only for text."""
    column = table[name]
    kind = getattr(column.type, "value_type", column.type)
    try:
        names = pa.array(label["class_names"], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ManifestError(
            f"{path}: column {name!r} has type {kind}, which cannot hold its class names "
            f'{brief(label["class_names"])} of the "dfgen" key: {reason(error)}. Build it again'
        ) from None
    if pa.types.is_dictionary(column.type):
        if all(chunk.dictionary.equals(names) for chunk in column.chunks):
            return table
        column = column.cast(names.type)
    indices = pc.index_in(column, names)
    strangers = pc.and_(pc.is_valid(column), pc.is_null(indices))
    if pc.any(strangers).as_py():
        row = rows_where(strangers)[0].as_py()
        raise ManifestError(
            f"{path}: row {row} (id {table['id'][row]}) has {name}={column[row].as_py()!r}, which "
            f"is not among its class names {label['class_names']}. Build the manifest again"
        )
    restored = as_category(indices, names, label.get("ordered", False))
    return with_column(table, name, restored)
