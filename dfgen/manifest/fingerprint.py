"""The fingerprint of a manifest: the same for the same rows, wherever the files lie.

BLAKE2b-128 over the ids in row order, the paths as stored, the values of the label columns, and the
digests of the files where the manifest has them. Other facts of files and splits have no part in
it, so a copied data set keeps its fingerprint.
manifests/README.md specifies the bytes for other programs.
"""

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.manifest.schema import label_columns
from dfgen.table.arrow_types import is_binary, is_list
from dfgen.table.file_columns import is_file_struct


def fingerprint(table: pa.Table) -> str:
    """Return the fingerprint of a table with the columns `id`, `path` (as stored) and labels.

    Example:
        >>> fingerprint(pa.table({"id": [1], "path": ["a.png"]}))
        '587670c93357d8f3043a84ed5ea916c1'
    """
    names = label_columns(table.column_names)
    # which row of the file, and what is in it
    names += [name for name in table.column_names if name in ("index", "digest")]
    names = ["id", *(name for name in table.column_names if name == "path"), *sorted(names)]
    return columns_digest(table, names)


def columns_digest(table: pa.Table, names: list[str]) -> str:
    """Return the BLAKE2b-128 of some columns, in this order: 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for name, values in _plain_columns(table, names):
        kind, column = _normalise(name, values)
        header = json.dumps([name, kind, len(column)], ensure_ascii=False, separators=(",", ":"))
        digest.update(header.encode() + b"\n")
        for part in _parts(column):
            digest.update(part)
    return digest.hexdigest()


def _plain_columns(table: pa.Table, names: list[str]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield columns by name: structs of `bytes` and `path` as two."""
    for name in names:
        if is_file_struct(table[name].type):
            yield f"{name}.bytes", pc.struct_field(table[name], "bytes")
            yield f"{name}.path", pc.struct_field(table[name], "path")
        else:
            yield name, table[name]


def _normalise(name: str, column: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray]:
    """Reduce the many Arrow types to five: int64, float64, text, bytes and lists of those."""
    kind = column.type
    if is_binary(kind):
        return "bytes", column.cast(pa.large_binary())
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return "int64", column.cast(pa.int64())
    if pa.types.is_floating(kind):
        column = _float64(column)
        return "float64", pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    try:
        if is_list(kind):
            inner, empty = _normalise(name, pa.chunked_array([], type=kind.value_type))
            return f"list<{inner}>", column.cast(pa.large_list(empty.type))
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        if pa.types.is_boolean(kind):
            column = pc.if_else(column, "True", "False")
        return "text", column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ManifestError(
            f'column "{name}" has type {kind}, which a manifest cannot hold. Labels are text, '
            "categories, booleans, numbers, times, bytes, or lists of those"
        ) from None


def _float64(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_float16(column.type):
        return column.cast(pa.float64())
    values = [chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks]
    parts = [pa.array(value.astype(np.float64), from_pandas=True) for value in values]
    return pa.chunked_array(parts, pa.float64())  # pyarrow 15 cannot cast them


def _parts(column: pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    """Yield the bytes to hash: a validity byte a row, then lengths or values, then contents."""
    chunks = column.chunks
    for chunk in chunks:
        yield _bytes(chunk.is_valid().cast(pa.uint8()))
    is_text = pa.types.is_large_string(column.type)
    if not (
        is_text or pa.types.is_large_binary(column.type) or pa.types.is_large_list(column.type)
    ):
        for chunk in chunks:
            yield _bytes(chunk.fill_null(0))
        return
    is_list_column = pa.types.is_large_list(column.type)
    length = pc.list_value_length if is_list_column else pc.binary_length
    for chunk in chunks:
        yield _bytes(length(chunk).cast(pa.int64()).fill_null(0))
    if is_list_column:
        flat = [chunk.flatten() for chunk in chunks]
        yield from _parts(pa.chunked_array(flat, type=column.type.value_type))
        return
    for chunk in chunks:
        filled = chunk.fill_null("" if is_text else b"")
        _, offsets, data = filled.buffers()
        ends = np.frombuffer(offsets, "<i8", len(filled) + 1, filled.offset * 8)
        if data is not None:
            yield memoryview(data)[int(ends[0]) : int(ends[-1])]


def _bytes(values: pa.Array) -> bytes:
    """Return the values of a fixed-width array without nulls as little-endian bytes."""
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
