"""Columns of files: bytes, or structs of `bytes` and `path` as Hugging Face's `datasets` make.

A struct has the bytes of a file and its name, or only its path if the file is on the disk.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import without_secrets
from dfgen.table.arrow_types import in_one, is_binary

FILE = pa.struct({"bytes": pa.large_binary(), "path": pa.large_string()})
"""The type of structs after `large_bytes`."""


def is_file_struct(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a struct of `bytes` and `path`."""
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}


def are_files(kind: pa.DataType) -> bool:
    """Whether an Arrow type is bytes, or a struct of `bytes` and `path`."""
    return is_binary(kind) or is_file_struct(kind)


def large_bytes(values: Any) -> Any:
    """Return a column of files in types for more than 2 GB, without a copy.

    Structs become FILE, null if they have neither bytes nor a path. Chunks remain.
    """
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array(map(large_bytes, values.chunks or [pa.array([], values.type)]))
    if is_binary(values.type):
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
    if is_file_struct(files.type):
        return pc.struct_field(files, "path")
    return None if is_binary(files.type) else files


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


Content = Any
"""The file of a row: a path, bytes, or a mapping of `bytes` and `path`."""


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
