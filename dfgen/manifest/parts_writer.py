"""Write a manifest in parts: see `parts.py` for what it is on the disk."""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, DfgenError, ManifestError, WriteError
from dfgen.manifest.fingerprint import fingerprint
from dfgen.manifest.metadata_check import metadata_of, rows_of_group, with_stored_paths
from dfgen.manifest.parts import (
    Part,
    PartsIndex,
    described_part,
    read_part,
    read_parts_index,
    renamed_category,
)
from dfgen.manifest.path_roots import has_members
from dfgen.manifest.paths import is_url
from dfgen.manifest.schema import Label, Metadata, describe_labels, label_columns
from dfgen.manifest.written_parts import as_read, fingerprint_of_parts, refuse_repeated, unchecked
from dfgen.packs.pack_index import INDEX, PART_FILE, in_pack, is_remote
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_at
from dfgen.system import only_writer, write_whole
from dfgen.table.any_table import arrow_table
from dfgen.table.arrow_types import value_type
from dfgen.table.parquet import Summed, write_parquet

PART_ROWS = 1_000_000
"""Rows of a part."""

_PART_BYTES = 1 << 29  # of a part whose rows hold files
_GROUP_ROWS = 1 << 17  # rows of a row group: as many are read where a filter is for few
_PART = re.compile(rf"{PART_FILE}|\.{PART_FILE}\.[0-9a-f]{{8}}\.tmp")


def write_part(
    table: pa.Table, folder: str, file: str, options: StorageOptions | None = None
) -> Part:
    """Write rows, as they are stored, as one part; it appears whole or not at all.

    Any process may write any part: `finish_parts` makes a manifest of what they return.

    Args:
        table: with `id`, and paths relative to the root of the manifest, or absolute without one.
            Categories are written as their values.
        folder: the absolute path of the manifest, which is there, or its URL.
        file: the name, `part-00000.parquet` or `part-` and what else tells it from others.
        options: open a remote one.

    Raises:
        WriteError: it cannot be written.
    """
    plain, path, told = plain_values(table), in_pack(folder, file), dict[str, Any]()

    def write(target: Any) -> None:
        sink = Summed(target)
        write_parquet(plain, sink, rows_of_group(plain) or _GROUP_ROWS)
        told.update(nbytes=target.tell(), checksum=sink.checksum)

    write_file(path, write, options)
    return described_part(plain, file, **told)


def write_file(
    path: str, write: Callable[[Any], object], options: StorageOptions | None = None
) -> None:
    """Write a file, on a disk or in a store, whole or not at all."""
    if not is_remote(path):
        write_whole(path, write)
        return
    whole = io.BytesIO()
    write(whole)
    store_at(path, options=options).write(path, whole.getvalue())


def plain_values(table: pa.Table) -> pa.Table:
    """Return rows as a part holds them: no categories, and no metadata of any program."""
    columns = [column.cast(value_type(column.type)) for column in table.columns]
    return pa.table(columns, table.column_names)


def finish_parts(
    folder: str,
    parts: Iterable[Part],
    schema: pa.Schema,
    categories: Mapping[str, pa.Array],
    metadata: Metadata,
    options: StorageOptions | None = None,
    is_checked: bool = False,
) -> PartsIndex:
    """Make a manifest of parts that were written: write `_manifest.json`, and remove other parts.

    Args:
        folder: the absolute path of the manifest, or its URL.
        parts: in the order of their rows.
        schema: of the rows, with the types of categories.
        categories: column -> the names of a category; those of labels stand in the metadata too.
        metadata: the `dfgen` key. Its fingerprint is made here, of the parts, unless the rows are
            checked.
        options: open a remote one.
        is_checked: no id is there twice, and the fingerprint is that of the rows.

    Raises:
        ManifestError: an id stands in two parts.
        WriteError: it cannot be written; the manifest that was there stays.
    """
    parts = tuple(parts)
    others = {
        n: names.to_pylist() for n, names in categories.items() if n not in metadata["labels"]
    }
    numbers = [int(found[1]) for part in parts if (found := re.match(r"part-(\d+)", part.file))]
    index = PartsIndex(folder, parts, schema, others, metadata, max(numbers, default=-1) + 1)
    index = replace(index, schema=as_read(index, options))
    if not is_checked:
        refuse_repeated(index, options)
        digest = fingerprint_of_parts(index, schema, options)
        index = replace(index, dfgen={**metadata, "fingerprint": digest})
    with contextlib.suppress(DfgenError):  # what was there may be anything
        old = read_parts_index(folder, options)
        index = replace(index, next=max(index.next, old.next))
    write_file(in_pack(folder, INDEX), lambda file: file.write(index.to_json()), options)
    _remove_others(index)
    return index


def _with_int32(field: pa.Field) -> pa.Field:
    """Return a category with numbers that hold any number of names; other fields as they are."""
    kind = field.type
    if not pa.types.is_dictionary(kind):
        return field
    return field.with_type(pa.dictionary(pa.int32(), kind.value_type, kind.ordered))


def _remove_others(index: PartsIndex) -> None:
    """Remove parts of this machine that no longer belong to a manifest, and half ones."""
    if is_remote(index.folder):
        return
    kept = {part.file for part in index.parts}
    for name in filter(_PART.fullmatch, os.listdir(index.folder)):
        if name not in kept:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(index.folder, name))


@contextlib.contextmanager
def _written_alone(folder: str, options: StorageOptions | None) -> Iterator["_Written"]:
    """Yield what writes the new parts of a folder; they are removed again if that fails."""
    if is_remote(folder):
        yield _Written(folder, options)
        return
    try:
        os.mkdir(folder)
    except FileExistsError:
        pass
    except OSError as error:
        raise WriteError(f"{folder} cannot be made: {error}") from None
    try:
        with only_writer(os.path.join(folder, INDEX)):
            written = _Written(folder, options)
            try:
                yield written
            except BaseException:
                written.remove()
                raise
    finally:
        with contextlib.suppress(OSError):  # as long as there is something in it
            os.rmdir(folder)


class _Written:
    """New parts of a folder, numbered after those that it has had."""

    def __init__(self, folder: str, options: StorageOptions | None) -> None:
        self.old: PartsIndex | None = None
        with contextlib.suppress(DfgenError):
            self.old = read_parts_index(folder, options)
        self.parts: list[Part] = []
        self._folder, self._options = folder, options
        self._first = 0 if self.old is None else self.old.next

    def add(self, rows: pa.Table) -> Iterator[Part]:
        """Write rows as parts of about the same size, and yield each."""
        number = max(1, round(len(rows) / PART_ROWS), -(-_bytes_of_files(rows) // _PART_BYTES))
        ends = [len(rows) * place // number for place in range(number + 1)]
        for start, stop in pairwise(ends):
            file = f"part-{self._first + len(self.parts):05d}.parquet"
            part = write_part(rows.slice(start, stop - start), self._folder, file, self._options)
            self.parts.append(part)
            yield part

    def remove(self) -> None:
        """Remove the new parts, unless the manifest has them already."""
        kept: set[str] = set()
        with contextlib.suppress(DfgenError):
            kept = {part.file for part in read_parts_index(self._folder).parts}
        for part in self.parts:
            if part.file not in kept:
                with contextlib.suppress(OSError):
                    os.unlink(in_pack(self._folder, part.file))


def _bytes_of_files(table: pa.Table) -> int:
    return int(table.nbytes) if rows_of_group(table) else 0


def write_table_in_parts(
    table: pa.Table,
    folder: str,
    known: Mapping[str, Any],
    root: os.PathLike[str] | str | None = None,
    options: StorageOptions | None = None,
) -> None:
    """Write a table as a manifest in parts; files of old parts whose rows are the same stay.

    Args:
        table: as of `write_manifest`.
        folder: the absolute path, or the URL.
        known: its `df.attrs["dfgen"]`, or what a manifest says of itself.
        root: as of `write_manifest`.
        options: open a remote one.
    """
    table, absolute_root = with_stored_paths(table, known, root)
    labels, digest = describe_labels(table, known.get("labels")), fingerprint(table)
    metadata = metadata_of(labels, digest, known, absolute_root, os.path.dirname(folder))
    parts: list[Part] = []
    with _written_alone(folder, options) as written:
        begin = 0
        for part, place in [] if written.old is None else _same_rows(written.old, table, options):
            if place > begin:
                parts += written.add(table.slice(begin, place - begin))
            parts.append(part)
            begin = place + part.rows
        if begin < len(table) or not parts:
            parts += written.add(table.slice(begin))
        categories = {
            field.name: _names(table[field.name])
            for field in table.schema
            if pa.types.is_dictionary(field.type)
        }
        finish_parts(folder, parts, table.schema, categories, metadata, options, is_checked=True)


def _same_rows(
    old: PartsIndex, table: pa.Table, options: StorageOptions | None
) -> Iterator[tuple[Part, int]]:
    """Yield the old parts whose rows stand in a table, one after the other, and where they do."""
    if old.file_schema.names != table.column_names:
        return
    begin = 0
    for part in old.parts:
        with contextlib.suppress(DfgenError, pa.ArrowException, OSError):  # of damaged ones
            with unchecked(old, part, options) as file:
                head = next(file.iter_batches(1, columns=["id"]))["id"]
            ids = table["id"].slice(begin)
            place = pc.index(ids, pa.scalar(head[0].as_py(), ids.type)).as_py() if part.rows else -1
            if place < 0:
                continue
            rows = table.slice(begin + place, part.rows)
            if _equal(plain_values(rows), plain_values(read_part(old, part, options=options))):
                yield part, begin + place
                begin += place + part.rows


def _equal(rows: pa.Table, stored: pa.Table) -> bool:
    return len(rows) == len(stored) and bool(rows.cast(stored.schema).equals(stored))


def _names(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks:
        return column.unify_dictionaries().chunk(0).dictionary
    return pa.array([], column.type.value_type)


def write_stream(
    batches: Iterable[Any],
    folder: str,
    known: Mapping[str, Any],
    root: os.PathLike[str] | str | None = None,
    options: StorageOptions | None = None,
) -> None:
    """Write tables that come one after the other as one manifest; one part is in memory at a time.

    The arguments are those of `write_table_in_parts`. Paths need a root, as the deepest common
    folder is not known before the end; addresses do not. Class names are numbered as they come.
    """
    parts, labels = list[Part](), dict[str, Label]()
    with _written_alone(folder, options) as written:
        classes = _Classes()
        tables = (classes.taken(arrow_table(batch, "a batch")) for batch in batches)
        for table in _gathered(tables):
            root = _root_of_stream(table, root, known)
            stored, absolute_root = with_stored_paths(table, known, root)
            labels = describe_labels(stored, known.get("labels"))
            parts += written.add(stored)
        if not parts:
            raise ManifestError(
                "write_manifest was given no batch: give one at least, without rows if there are "
                "none, which tells the columns"
            )
        for name in label_columns(classes.schema.names):
            if name in classes.names:
                labels[name] = {**labels[name], "class_names": classes.names[name].to_pylist()}
        folder_of_it = os.path.dirname(folder)
        metadata = metadata_of(labels, "0" * 32, known, absolute_root, folder_of_it)
        finish_parts(folder, parts, classes.schema, classes.names, metadata, options)


def _root_of_stream(
    table: pa.Table, root: os.PathLike[str] | str | None, known: Mapping[str, Any]
) -> os.PathLike[str] | str | None:
    root = root if root is not None else known.get("root")
    if root is None and "path" in table.column_names and len(table):
        paths = table["path"].cast(pa.string())
        if has_members(paths) or not pc.all(is_url(paths)).as_py():
            raise ArgumentError(
                "write_manifest was given batches without root=: expected the folder that holds "
                "all the files, as their deepest common folder is not known before the last batch. "
                'Give it: write_manifest(batches, path, root="photos")'
            )
    return root


class _Classes:
    """The schema of the first table of several, and the names of the categories of all."""

    def __init__(self) -> None:
        self.names = dict[str, pa.Array]()
        self.schema = pa.schema([])

    def taken(self, table: pa.Table) -> pa.Table:
        """Return a table with the schema and the class names of those before it, and its own."""
        if not len(self.schema):
            self.schema = pa.schema(map(_with_int32, table.schema), table.schema.metadata)
        if table.column_names != self.schema.names:
            raise ManifestError(
                f"a batch has the columns {table.column_names}, expected those of the first, "
                f"{self.schema.names}: give all batches the same"
            )
        for place, field in enumerate(self.schema):
            table = table.set_column(place, field, self._column(table[place], field))
        return table

    def _column(self, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        try:
            if not pa.types.is_dictionary(field.type):
                return column.cast(field.type)
            plain = column.cast(field.type.value_type)
        except pa.ArrowException as error:
            raise ManifestError(
                f"column {field.name!r} of a batch has type {column.type}, expected that of the "
                f"first batch, {field.type}: {error}"
            ) from None
        given = _names(column).cast(plain.type) if pa.types.is_dictionary(column.type) else plain
        before = self.names.get(field.name, pa.array([], plain.type))
        new = given.filter(pc.invert(pc.is_in(given, value_set=before)))
        new = pc.unique(new.drop_null())
        self.names[field.name] = names = pa.concat_arrays([before, new])
        return renamed_category(column, names, field.type.ordered)


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of many tables as tables of a part each; of none a table without rows."""
    held, rows, is_first = list[pa.Table](), 0, True
    for table in tables:
        while rows + len(table) >= PART_ROWS:
            taken = PART_ROWS - rows
            yield pa.concat_tables([*held, table.slice(0, taken)])
            held, rows, is_first, table = [], 0, False, table.slice(taken)
        held.append(table)
        rows += len(table)
    if rows or (held and is_first):
        yield pa.concat_tables(held)
