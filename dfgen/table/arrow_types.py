"""Types of Arrow arrays, and columns of lists, of files and on a disk, without loops over rows.

Files are bytes, or structs of `bytes` and `path` as Hugging Face's `datasets` make. A struct has
the bytes of a file and its name, or only its path if the file is on the disk.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from dfgen.errors import ManifestError, without_secrets
from dfgen.spec import IntArray

OR_IGNORE = 'or, in y, give these rows no weight, by missing="ignore" in the feature'
"""Advice on missing labels, for error messages."""
DROP_EMPTY = "df = df[df[{0!r}].notna() & ~df[{0!r}].isin(['', 'nan'])]"
"""The code that drops rows with an empty key, for error messages."""
_PIECE = 1 << 18  # bytes that fit into the cache of a CPU

TEXT = pa.string(), pa.large_string()
"""The types of text."""
BYTES = pa.binary(), pa.large_binary()
"""The types of bytes."""
LISTS = pa.ListType, pa.LargeListType, pa.FixedSizeListType
"""The classes of types of lists."""
FILE = pa.struct({"bytes": pa.large_binary(), "path": pa.large_string()})
"""The type of structs after `large_bytes`."""
Content = Any
"""The file of a row: a path, bytes, or a mapping of `bytes` and `path`."""


def check_names(names: list[Any], where: str) -> None:
    """Raise a ManifestError if a column name is not text or is not unique."""
    for name, count in Counter(names).items():
        if count > 1 or not isinstance(name, str):
            what = " several times" if count > 1 else ", which is not text"
            raise ManifestError(
                f"{where} has a column named {name!r}{what}: rename it; for a MultiIndex, "
                'df.columns = df.columns.map("_".join)'
            )


def may_hold(texts: pa.Array | pa.ChunkedArray, text: str) -> bool:
    """Whether values of a text column may contain a text, because its buffers do.

    Buffers may have more than the column. To search them is a hundred times as fast as each value.

    Example:
        >>> may_hold(pa.array(["a.png", "s3://b/c.png"]), "://")
        True
    """
    data = text.encode()
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    buffers = [memoryview(one) for chunk in chunks for one in chunk.buffers()[2:] if one]
    pieces = (
        bytes(buffer[at : at + _PIECE + len(data)])
        for buffer in buffers
        for at in range(0, len(buffer), _PIECE)
    )
    search = re.compile(re.escape(data)).search
    return any(data[:1] in piece and search(piece) for piece in pieces)  # one byte is faster


def flattened(values: pa.Array) -> pa.Array:
    """Return the items of all lists; nothing for a column of another type."""
    return pc.list_flatten(values) if isinstance(values.type, LISTS) else values[:0]


def lengths_of(values: pa.Array) -> npt.NDArray[np.int32]:
    """Return the length of the list of each row, 0 for null.

    Example:
        >>> lengths_of(pa.array([["a", "b"], None, []]))
        array([2, 0, 0], dtype=int32)
    """
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    return np.asarray(lengths, np.int32)


def are_numbers(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a number."""
    is_whole = pa.types.is_integer(kind)
    return bool(is_whole or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def are_fractions(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a float or a decimal."""
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def storable(kind: pa.DataType) -> pa.DataType:
    """Return the type to cast a column to, because few functions of Arrow take others.

    Those are views of text, bytes and lists, extension types and unsigned category codes, nested or
    not.

    Example:
        >>> storable(pa.string_view())
        DataType(large_string)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return storable(kind.storage_type)
    if pa.types.is_dictionary(kind):
        index = kind.index_type  # pyarrow 20 makes no frame of unsigned ones
        index = pa.int32() if pa.types.is_unsigned_integer(index) else index
        return pa.dictionary(index, storable(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(storable(field.type)) for field in kind])
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    if is_view or (isinstance(kind, LISTS) and storable(kind.value_type) != kind.value_type):
        return pa.large_list(storable(kind.value_type))
    return kind


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type, or the type of the categories of a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def in_one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one array; several chunks are copied."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    if not values.num_chunks:
        return pa.nulls(0, values.type)
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)


def empty_keys(values: pa.Array | pa.ChunkedArray) -> Any:
    """Return for each key whether it is missing, or text for that: "" or "nan"."""
    kind = value_type(values.type)
    if kind not in TEXT:
        return pc.is_null(values)
    return pc.is_in(values.cast(kind), value_set=pa.array([None, "", "nan"], kind))


def nulls(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are null, or NaN."""
    if pa.types.is_dictionary(values.type) and values.dictionary.null_count:
        values = values.cast(values.type.value_type)
    if pa.types.is_float16(values.type):  # pyarrow 20 finds no NaN in it
        values = values.cast(pa.float32())
    return np.asarray(pc.is_null(values, nan_is_null=True))


def refuse_missing(column: str, values: pa.Array, what: str, advice: str) -> None:
    """Raise a ManifestError if a column has nulls."""
    if values.null_count:
        row = pc.indices_nonzero(pc.is_null(values))[0]
        raise ManifestError(
            f"column {column!r} has no {what} in {values.null_count:,} rows, the first is row "
            f"{row}: {advice}",
            row=row.as_py(),
        )


def refuse_empty_keys(column: str, values: pa.Array, what: str) -> None:
    """Raise a ManifestError if a column of keys has nulls, or text for them."""
    present = pc.if_else(empty_keys(values), None, True)
    refuse_missing(column, present, what, f"drop them, {DROP_EMPTY.format(column)}")


def with_ends(values: pa.Array, ends: IntArray, lacking: npt.NDArray[np.bool_]) -> pa.Array:
    """Return lists of consecutive values, null for the rows in `lacking`.

    Example:
        >>> ends, lacking = np.array([0, 2, 3, 4]), np.array([False, True, False])
        >>> with_ends(pa.array([1, 2, 9, 3]), ends, lacking).to_pylist()
        [[1, 2], None, [3]]
    """
    lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values)
    return pc.if_else(pa.array(lacking), None, lists)  # the values of null rows are removed


def lists_of(values: npt.NDArray[Any], lacking: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the rows of an array (rows, numbers) as lists, null for the rows in `lacking`."""
    rows, length = values.shape
    return with_ends(pa.array(values.reshape(-1)), np.arange(rows + 1) * length, lacking)


def are_files(kind: pa.DataType) -> bool:
    """Whether an Arrow type is bytes, or a struct of `bytes` and `path`."""
    is_struct = pa.types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}
    return kind in BYTES or is_struct


def large_bytes(values: Any) -> Any:
    """Return a column of files in types for more than 2 GB, without a copy.

    Structs become FILE, null if they have neither bytes nor a path. Chunks remain.
    """
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array(map(large_bytes, values.chunks or [pa.array([], values.type)]))
    if values.type in BYTES:
        return values.cast(pa.large_binary())
    data = pc.struct_field(values, "bytes").cast(pa.large_binary())
    return _structs(data, pc.struct_field(values, "path").cast(pa.large_string()))


def with_paths(files: Any, paths: Any) -> Any:
    """Return structs of `bytes` and `path` with other paths."""
    if isinstance(files, pa.Array):
        return _structs(pc.struct_field(files, "bytes"), paths)
    starts = np.cumsum([0, *map(len, files.chunks)]).tolist()
    parts = [
        with_paths(chunk, in_one(paths.slice(start, len(chunk))))
        for start, chunk in zip(starts, files.chunks, strict=False)
    ]
    return pa.chunked_array(parts, files.type)


def _structs(data: pa.Array, paths: pa.Array) -> pa.StructArray:
    neither = pc.and_(pc.is_null(data), pc.is_null(paths))
    return pa.StructArray.from_arrays([data, paths], fields=list(FILE), mask=neither)


def paths_of(files: Any) -> Any:
    """Return the paths of a column of files; None if it is a column of bytes."""
    if pa.types.is_struct(files.type):
        return pc.struct_field(files, "path")
    return None if files.type in BYTES else files


def with_large_bytes(table: pa.Table) -> pa.Table:
    """Return a table with types for more than 2 GB in its columns of files."""
    for place, field in enumerate(table.schema):
        if are_files(field.type):
            table = table.set_column(place, field.name, large_bytes(table[place]))
    return table


def read_parquet(file: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """Read columns of a `pyarrow.parquet.ParquetFile`, or all."""
    if not any(map(are_files, file.schema_arrow.types)):
        return file.read(columns)
    # Arrow reads structs of more than 2 GB only by row groups
    groups = (file.read_row_group(group, columns) for group in range(file.num_row_groups))
    return with_large_bytes(pa.concat_tables(groups))


def content_parts(content: Any) -> tuple[bytes | None, Any]:
    """Return the bytes and the path of a file, one of which may be None."""
    if isinstance(content, bytes):
        return content, None
    if not isinstance(content, str) and isinstance(content, Mapping) and "bytes" in content:
        return content["bytes"], content["path"]
    return None, content


def content_shown(content: Any) -> str:
    """Return a file as messages show it.

    Example:
        >>> content_shown("a.png"), content_shown({"bytes": b"12", "path": "a.png"})
        ("'a.png'", "'a.png' (2 bytes)")
    """
    data, path = content_parts(content)
    path = without_secrets(path) if isinstance(path, str) else path
    if data is None:
        return repr(content if path is None else path)
    return (f"{path!r} " if path else "") + f"({len(data):,} bytes)"


class _Text(str):
    """Text with the method of an Arrow scalar, at a tenth of its cost."""

    def as_py(self) -> str:
        return str(self)


class MappedColumn:
    """A column that stays on the disk; its pickle is a path and a name.

    Args:
        path: of the file.
        name: of the column.
        ends: the text before and after each path; None if there is none.
    """

    def __init__(self, path: str, name: str, ends: tuple[str, str] | None = None) -> None:
        self._path, self._name, self._ends = path, name, ends

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedColumn, (self._path, self._name, self._ends)

    @cached_property
    def stored(self) -> pa.ChunkedArray:
        """The values without `ends`; only used pages are read."""
        with pa.memory_map(self._path) as mapped, pa.ipc.open_file(mapped) as reader:
            return reader.read_all()[self._name]

    @cached_property
    def _starts(self) -> Any:
        """The first row of each chunk, and the number of rows."""
        return np.cumsum([0, *map(len, self.stored.chunks)])

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""
        return self.stored.type

    @property
    def nbytes(self) -> int:
        """Bytes to copy for another process."""
        return 0

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, key: Any) -> Any:
        """Return a scalar, or the array of a slice."""
        if isinstance(key, slice):
            return self._whole(in_one(self.stored[key]))
        value = self.stored[int(key)]
        return value if self._ends is None else _Text(value.as_py().join(self._ends))

    def take(self, rows: Any) -> Any:
        """Return the values of some rows; Arrow itself would copy all chunks."""
        rows = np.asarray(rows, np.int64)
        if not len(rows):
            return self[:0]
        chunks = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(chunks, kind="stable")
        used, firsts = np.unique(chunks[order], return_index=True)
        parts = [
            self.stored.chunk(int(chunk)).take(pa.array(rows[part] - self._starts[chunk]))
            for chunk, part in zip(used, np.split(order, firsts[1:]), strict=True)
        ]
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return self._whole(pa.concat_arrays(parts).take(pa.array(places)))

    def _whole(self, values: Any) -> Any:
        if self._ends is None:
            return values
        before, after = (pa.scalar(end, values.type) for end in self._ends)
        return pc.binary_join_element_wise(before, values, after, pa.scalar("", values.type))
