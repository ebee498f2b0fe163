"""Files that a table holds itself: columns of bytes, and of structs of `bytes` and `path`.

Hugging Face's `datasets` makes such structs: the bytes of a file and the name that it had, or its
path alone where it was left on the disk.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import without_secrets
from dfgen.table.arrow_types import in_one, is_binary

FILE = pa.struct({"bytes": pa.large_binary(), "path": pa.large_string()})
"""The type that `large_bytes` makes of structs."""


def is_file_struct(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of structs of `bytes` and `path`."""
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}


def are_files(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of files that a table holds: bytes, or such structs."""
    return is_binary(kind) or is_file_struct(kind)


def large_bytes(values: Any) -> Any:
    """Return bytes, or structs of them, in types that hold more than 2 GB; nothing is copied.

    Structs become FILE, null where they have neither.

    Args:
        values: an Arrow array, or one in chunks, which stay as they are.
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
    """Return the paths of files, missing where they are bytes alone; None: all are."""
    if is_file_struct(files.type):
        return pc.struct_field(files, "path")
    return None if is_binary(files.type) else files


def with_large_bytes(table: pa.Table) -> pa.Table:
    """Return a table whose columns of files are of types that hold more than 2 GB."""
    for place, field in enumerate(table.schema):
        if are_files(field.type):
            table = table.set_column(place, field.name, large_bytes(table[place]))
    return table


Content = Any
"""The file of a row: its path, its bytes, or a mapping of `bytes` and `path`."""


def content_parts(content: Any) -> tuple[bytes | None, Any]:
    """Return the bytes and the path of what a row holds, of which one may be missing."""
    if isinstance(content, bytes):
        return content, None
    if not isinstance(content, str) and isinstance(content, Mapping) and "bytes" in content:
        return content["bytes"], content["path"]
    return None, content


def content_shown(content: Any) -> str:
    """Return how messages call what a row holds for a file.

    Example:
        >>> content_shown("a.png"), content_shown({"bytes": b"12", "path": "a.png"})
        ("'a.png'", "'a.png' (2 bytes)")
    """
    if isinstance(content, list):
        more = f", ... {len(content)} files" if len(content) > 1 else ""
        return f"[{', '.join(map(content_shown, content[:1]))}{more}]"
    data, path = content_parts(content)
    path = without_secrets(path) if isinstance(path, str) else path
    if data is None:
        return repr(content if path is None else path)
    return (f"{path!r} " if path else "") + f"({len(data):,} bytes)"
