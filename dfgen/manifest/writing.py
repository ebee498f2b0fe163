"""Write the rows of a manifest as one Parquet file, to a path where they replace no other data.

The fingerprint and the class names in the key are known only after the last batch. So the footer
that Parquet writes is replaced at the end by one with the key.
"""

import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError, DfgenError, ManifestError, WriteError, brief
from dfgen.explain.missing import near_name
from dfgen.files import check_writable, refuse_others, write_whole
from dfgen.manifest.metadata import (
    KEY,
    Metadata,
    RunningDigest,
    encode_metadata,
    hashed_columns,
    metadata_of,
)
from dfgen.manifest.paths import (
    check_stored_paths,
    is_utf8,
    portable_root,
    stored_paths,
)
from dfgen.manifest.schema import (
    Label,
    as_category,
    check_table,
    class_names,
    describe_labels,
    known_first,
    refuse_repeated,
    with_classes,
    with_column,
)
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import has_store, scheme_of, store_at
from dfgen.table.arrow_types import are_files

_OTHERS = re.compile(
    r"\.(csv|tsv|txt|xlsx|jsonl?|xml|ya?ml|toml|pkl|feather|arrow|np[yz]|h5|hdf5|keras|db|html)",
    re.IGNORECASE,
)
"""Suffixes of other kinds of files."""

GROUP_ROWS = 1 << 17
"""Rows of a row group."""
_GROUP_BYTES = 1 << 27  # of a row group with the files themselves
_FOOTER_END = 8  # bytes: the length of the footer, and PAR1


def path_of_manifest(path: Any) -> str:
    """Return the absolute path of a manifest, or its URL."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"the path of a manifest is text, such as 'pets.parquet', got {brief(path)}"
        )
    place = os.fsdecode(path)
    place = place if has_store(scheme_of(place)) else os.path.abspath(place)
    if not is_utf8(place):
        raise ArgumentError(
            f"the path {os.fsencode(place)!r} is not UTF-8, which Parquet's readers need: rename "
            "the file or folder"
        )
    return place


def missing_manifest(path: str) -> str:
    """Return the message for a path without a file."""
    near = "" if has_store(scheme_of(path)) else near_name(path)
    return f"there is no manifest {path}.{near}".rstrip(".")


def check_out(path: str, options: StorageOptions | None = None) -> None:
    """Raise a WriteError if a manifest cannot be written to a path, or another file is there."""
    far = has_store(scheme_of(path))
    if not far:
        check_writable(path)
    stem, suffix = os.path.splitext(path)
    if _OTHERS.fullmatch(suffix):
        raise WriteError(
            f"{path} is called {suffix}, and a manifest is a Parquet file: name it {stem}.parquet"
        )
    opened = {"opened": partial(_opened, options)} if far else {}
    refuse_others(path, "manifest of dfgen", _has_key, **opened)


def _opened(options: StorageOptions | None, path: str) -> IO[bytes]:
    """Open a remote file; errors of reading are left to the writer."""
    try:
        return store_at(path, options=options).begin(path)[1]
    except DfgenError as error:
        raise FileNotFoundError from error


def _has_key(file: IO[bytes]) -> bool:
    """Whether a Parquet file is a manifest; a damaged one counts as such."""
    if file.read(4) != b"PAR1":
        return False
    try:
        return KEY in (pq.read_schema(file).metadata or {})
    except (pa.ArrowException, OSError):
        return True


def write_rows(
    tables: Iterable[pa.Table],
    path: str,
    known: Mapping[str, Any],
    root: str | None = None,
    options: StorageOptions | None = None,
    is_stream: bool = False,
) -> None:
    """Write tables with the same columns as one manifest, whole or not at all.

    One row group of their rows is in memory at a time. `known` is their `df.attrs["dfgen"]`. If it
    `is_stream`, more than one table may come, so the root is required.
    """

    def write(file: Any) -> None:
        rows = _Rows(known, root, is_stream)
        checked = map(rows.checked, tables)
        first = next(checked, None)
        if first is None:
            raise ManifestError("there is no batch to write: an empty batch tells the columns")
        parts = list[pq.FileMetaData]()
        with pq.ParquetWriter(
            file, rows.schema, write_page_checksum=True, metadata_collector=parts
        ) as writer:
            for group in _groups(chain([first], checked), _rows_of_group(first)):
                writer.write_table(rows.with_names(group), len(group))
        key = encode_metadata(rows.metadata(os.path.dirname(path)), path)
        _replace_footer(file, parts, rows.schema, key)

    if not has_store(scheme_of(path)):
        write_whole(path, write)
        return
    whole = io.BytesIO()
    write(whole)
    store_at(path, options=options).write(path, whole.getvalue())


def as_written(
    table: pa.Table,
    known: Mapping[str, Any],
    folder: str,
    root: os.PathLike[str] | str | None = None,
) -> tuple[pa.Table, Metadata]:
    """Return a checked table with stored paths, and its metadata in a folder."""
    rows = _Rows(known, None if root is None else os.fspath(root))
    return rows.with_names(rows.checked(table)), rows.metadata(folder)


def _replace_footer(file: Any, parts: list[pq.FileMetaData], schema: pa.Schema, key: bytes) -> None:
    """Replace the footer of a Parquet file by one that has the key in its schema metadata."""
    footer = io.BytesIO()
    with_key = schema.with_metadata({**(schema.metadata or {}), KEY: key})
    pq.write_metadata(with_key, footer, metadata_collector=parts)
    file.seek(file.tell() - _FOOTER_END - parts[0].serialized_size)
    file.truncate()
    file.write(footer.getvalue()[len(b"PAR1") :])


def _groups(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of so many rows; the last may have fewer."""
    held, count = list[pa.Table](), 0
    for table in tables:
        while count + len(table) >= rows:
            yield pa.concat_tables([*held, table[: rows - count]])
            table, held, count = table[rows - count :], [], 0
        held.append(table)
        count += len(table)
    if count:
        yield pa.concat_tables(held)


def _rows_of_group(table: pa.Table) -> int:
    if not any(map(are_files, table.schema.types)) or not len(table):
        return GROUP_ROWS
    return min(GROUP_ROWS, max(1, _GROUP_BYTES * len(table) // max(1, int(table.nbytes))))


class _Rows:
    """Checks tables, and gathers the metadata of all of them."""

    def __init__(self, known: Mapping[str, Any], root: str | None, is_stream: bool = False) -> None:
        self.schema = pa.schema([])
        self._known, self._root, self._is_stream = known, root, is_stream
        self._absolute_root: str | None = None
        self._names = dict[str, pa.Array]()  # class names of categories
        self._labels = dict[str, Label]()
        self._ids = list[pa.Array]()

    def checked(self, table: pa.Table) -> pa.Table:
        """Return a table with stored paths and the types of the first table."""
        check_table(table, "the frame")
        table = self._in_schema(table)
        if self._is_stream and self._root is None and "path" in table.column_names:
            raise ArgumentError(  # the common folder is known only after the last batch
                "write_manifest received batches without root=: expected the folder or URL that "
                'holds all files, as in write_manifest(batches, path, root="photos")'
            )
        table, self._absolute_root = stored_paths(table, self._root, self._known.get("root"))
        check_stored_paths(table, self._absolute_root, "the frame")
        self._labels = describe_labels(table, self._known.get("labels"))
        self._digest.update(table)
        ids = table["id"].combine_chunks()
        is_number = pa.types.is_integer(ids.type)  # and may share memory with other columns
        self._ids.append(pa.array(np.array(ids), ids.type) if is_number else ids)
        return table

    def _in_schema(self, table: pa.Table) -> pa.Table:
        if not len(self.schema):
            self.schema = pa.schema(map(_field, table.schema), table.schema.metadata)
            self._digest = RunningDigest(self.schema, hashed_columns(self.schema.names))
        if table.column_names != self.schema.names:
            raise ManifestError(
                f"a batch has the columns {table.column_names}, expected those of the first batch, "
                f"{self.schema.names}"
            )
        columns = [self._column(table[field.name], field) for field in self.schema]
        return pa.table(columns, self.schema)

    def _column(self, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        try:
            if not pa.types.is_dictionary(field.type):
                return column if column.type == field.type else column.cast(field.type)
            names = _all_names(column).cast(field.type.value_type)
        except pa.ArrowException as error:
            raise ManifestError(
                f"column {field.name!r} of a batch has type {column.type}, expected that of the "
                f"first batch, {field.type}: {error}"
            ) from None
        self._names[field.name] = known_first(names, self._names.get(field.name, names[:0]))
        return with_classes(column, self._names[field.name], field.type.ordered)

    def with_names(self, table: pa.Table) -> pa.Table:
        """Return a table whose categories have the class names of all tables so far."""
        for name, names in self._names.items():
            column = table[name]
            codes = pa.chunked_array([chunk.indices for chunk in column.chunks], pa.int32())
            table = with_column(table, name, as_category(codes, names, column.type.ordered))
        return table.replace_schema_metadata(self.schema.metadata)

    def metadata(self, folder: str) -> Metadata:
        """Return the metadata of all tables in a folder."""
        refuse_repeated(pa.chunked_array(self._ids), "the frame")
        for name, names in self._names.items():
            if name in self._labels:
                self._labels[name]["class_names"] = names.to_pylist()
        content = {
            "root": portable_root(self._absolute_root, folder),
            "labels": self._labels,
            "recipe": self._known.get("recipe"),
            "fingerprint": self._digest.hexdigest(),
        }
        return metadata_of(content, 'df.attrs["dfgen"] of the frame')


def _field(field: pa.Field) -> pa.Field:
    """Return the field of a column as it is written: a category has int32 indices."""
    kind = field.type
    if field.name == "path":
        return field.with_type(pa.string())
    if not pa.types.is_dictionary(kind):
        return field
    if isinstance(kind.value_type, pa.BaseExtensionType):
        raise ManifestError(
            f'column "{field.name}" of the frame has {kind.value_type} as categories, expected '
            f'text or whole numbers: df["{field.name}"] = df["{field.name}"]'
            ".cat.rename_categories(str)"
        )
    return field.with_type(pa.dictionary(pa.int32(), kind.value_type, kind.ordered))


def _all_names(column: pa.ChunkedArray) -> pa.Array:
    """Return the class names of a category, or the distinct values of another column."""
    if not pa.types.is_dictionary(column.type):
        return column.unique().drop_null()
    return class_names(column.unify_dictionaries())
