"""Parts of a manifest, read again once all are written: their types, ids, and fingerprint."""

import contextlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dfgen.errors import ManifestError, first, quote
from dfgen.manifest.fingerprint import hashed, pieces_digest
from dfgen.manifest.parts import Part, PartsIndex, as_indexed
from dfgen.manifest.schema import repeated
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_at

_CHECKED = 5_000_000  # ids that are compared at once


def as_read(index: PartsIndex, options: StorageOptions | None) -> pa.Schema:
    """Return the schema with the types that Parquet gives back: it has no seconds, for one."""
    with unchecked(index, index.parts[0], options) as file:
        stored = file.schema_arrow
    fields = []
    for field in index.schema:
        kind = stored.field(field.name).type
        if pa.types.is_dictionary(field.type):
            kind = pa.dictionary(pa.int32(), kind, field.type.ordered)
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields, index.schema.metadata)


@contextlib.contextmanager
def unchecked(
    index: PartsIndex, part: Part, options: StorageOptions | None
) -> Iterator[pq.ParquetFile]:
    """Yield a part that was just written, of which single columns are read."""
    path = index.path(part)
    with store_at(path, options=options).open(path) as handle, pq.ParquetFile(handle) as file:
        yield file


def fingerprint_of_parts(
    index: PartsIndex, schema: pa.Schema, options: StorageOptions | None = None
) -> str:
    """Return the fingerprint that one file of the rows would have, column by column.

    `schema` has the types that the rows had before Parquet, which makes milliseconds of seconds.
    """

    def pieces(name: str) -> Iterator[pa.ChunkedArray]:
        kind = schema.field(name).type
        for part in index.parts:
            with unchecked(index, part, options) as file:
                column = as_indexed(file.read([name]), index)[name]
            yield column.cast(kind) if pa.types.is_temporal(kind) else column

    return pieces_digest(index.schema, hashed(schema.names), index.rows, pieces)


def refuse_repeated(index: PartsIndex, options: StorageOptions | None) -> None:
    """Refuse ids that stand in two parts; some millions are in memory at a time."""
    parts = sorted((p for p in index.parts if p.rows), key=lambda part: part.least)  # type: ignore[arg-type,return-value]
    if all(a.greatest < b.least for a, b in pairwise(parts)):  # type: ignore[operator]
        return

    def ids() -> Iterator[pa.ChunkedArray]:
        for part in index.parts:
            with unchecked(index, part, options) as file:
                yield file.read(["id"])["id"]

    ranges = -(-index.rows // _CHECKED)
    sample = pa.chunked_array([c for one in ids() for c in one.take(_spread(len(one))).chunks])
    sample = sample.take(pc.sort_indices(sample))
    bounds = [sample[len(sample) * place // ranges] for place in range(1, ranges)]
    for low, high in zip([None, *bounds], [*bounds, None], strict=True):
        chosen = [c for one in ids() for c in _between(one, low, high).chunks]
        twice = repeated(pa.chunked_array(chosen, sample.type))
        if len(twice):
            shown = ", ".join(quote(one) for one in first(twice.field("values")))
            raise ManifestError(
                f"the rows for {index.folder} have ids that stand in several batches "
                f"({len(twice):,} or more): {shown}. An id is the name of one row: give each row "
                "its own"
            )


def _spread(rows: int) -> pa.Array:
    return pa.array(np.linspace(0, rows - 1, min(rows, 1000)).astype(np.int64))


def _between(ids: pa.ChunkedArray, low: Any, high: Any) -> pa.ChunkedArray:
    if low is not None:
        ids = ids.filter(pc.greater_equal(ids, low))
    return ids if high is None else ids.filter(pc.less(ids, high))
