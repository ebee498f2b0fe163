"""The fingerprint of a manifest: the same for the same rows, wherever the files lie.

BLAKE2b-128 over the ids in row order, the paths as stored, the values of the label columns, and the
digests of the files where the manifest has them. Other facts of files and splits have no part in
it, so a copied data set keeps its fingerprint.
manifests/README.md specifies the bytes for other programs.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

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
    return columns_digest(table, hashed(table.column_names))


def hashed(columns: list[str]) -> list[str]:
    """Return which columns of a table have a part in its fingerprint, in order."""
    # which row of the file, and what is in it
    names = label_columns(columns) + [name for name in columns if name in ("index", "digest")]
    return ["id", *(name for name in columns if name == "path"), *sorted(names)]


def columns_digest(table: pa.Table, names: list[str]) -> str:
    """Return the BLAKE2b-128 of some columns, in this order: 32 hexadecimal digits."""
    return pieces_digest(table.schema, names, len(table), lambda name: [table[name]])


def pieces_digest(
    schema: pa.Schema, names: list[str], rows: int, pieces: Callable[[str], Iterable[Any]]
) -> str:
    """Return the digest of columns of which `pieces(name)` gives one piece after the other.

    A piece is a `pa.ChunkedArray` of the type in the schema. Text is asked for twice, so that no
    column must be in memory as a whole.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, part, kind in _plain_columns(schema, names):

        def plain(name: str = name, part: str | None = part) -> Iterator[pa.ChunkedArray]:
            for piece in pieces(name):
                yield _normalise(name, pc.struct_field(piece, part) if part else piece)[1]

        title = f"{name}.{part}" if part else name
        called, empty = _normalise(title, pa.chunked_array([], type=kind))
        header = json.dumps([title, called, rows], ensure_ascii=False, separators=(",", ":"))
        digest.update(header.encode() + b"\n")
        for data in _parts(plain, empty.type):
            digest.update(data)
    return digest.hexdigest()


def _plain_columns(
    schema: pa.Schema, names: list[str]
) -> Iterator[tuple[str, str | None, pa.DataType]]:
    """Yield name, field and type of columns: structs of `bytes` and `path` as two."""
    for name in names:
        kind = schema.field(name).type
        if is_file_struct(kind):
            for part in ("bytes", "path"):
                yield name, part, kind.field(kind.get_field_index(part)).type
        else:
            yield name, None, kind


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


def _parts(
    pieces: Callable[[], Iterable[pa.ChunkedArray]], kind: pa.DataType
) -> Iterator[bytes | memoryview]:
    """Yield the bytes to hash: a validity byte a row, then lengths or values, then contents."""
    is_text, are_lists = pa.types.is_large_string(kind), pa.types.is_large_list(kind)
    has_lengths = is_text or are_lists or pa.types.is_large_binary(kind)
    length = pc.list_value_length if are_lists else pc.binary_length
    later = []
    for chunk in _chunks(pieces):
        yield _bytes(chunk.is_valid().cast(pa.uint8()))
        fixed = length(chunk).cast(pa.int64()) if has_lengths else chunk
        later.append(_bytes(fixed.fill_null(0)))
    yield from later
    if are_lists:
        yield from _parts(lambda: map(_flat, pieces()), kind.value_type)
    elif has_lengths:
        for chunk in _chunks(pieces):
            yield from _contents(chunk.fill_null("" if is_text else b""))


def _chunks(pieces: Callable[[], Iterable[pa.ChunkedArray]]) -> Iterator[pa.Array]:
    return (chunk for piece in pieces() for chunk in piece.chunks)


def _flat(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([one.flatten() for one in lists.chunks], type=lists.type.value_type)


def _contents(filled: pa.Array) -> Iterator[memoryview]:
    _, offsets, data = filled.buffers()
    ends = np.frombuffer(offsets, "<i8", len(filled) + 1, filled.offset * 8)
    if data is not None:
        yield memoryview(data)[int(ends[0]) : int(ends[-1])]


def _bytes(values: pa.Array) -> bytes:
    """Return the values of a fixed-width array without nulls as little-endian bytes."""
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
