"""Lengths of arrays that each have their own, known before any is read."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError, ManifestError, MissingFileError, reason
from dfgen.machine import threads
from dfgen.manifest.building.file_facts import USUAL
from dfgen.samples.bound_feature import BoundFeature, RowLengths
from dfgen.samples.features.base import specs_of, value_of
from dfgen.spec import IntArray
from dfgen.stores.stores import Stores
from dfgen.table.arrow_types import is_list, lengths_of

if TYPE_CHECKING:
    from dfgen.binding.frame_columns import Columns
    from dfgen.packs.rows import PackSource

_TASK = 256  # rows whose files a thread looks into


def row_lengths(
    columns: "Columns | None",
    features: Iterable[BoundFeature],
    store: Stores,
    packs: "Mapping[str, PackSource] | None" = None,
) -> tuple[dict[str, RowLengths], dict[int, str]]:
    """Return name -> the length of every row, shape (rows, 1), and row -> why one has none.

    They are the lengths of a column of lists, or a fact of the manifest, of its column of files.
    If neither tells it, the headers of the files are read, once, in threads.
    """
    lengths, problems = dict[str, RowLengths](), dict[int, str]()
    for bound in features:
        if not specs_of(bound.feature)[0].own_length:
            continue
        found, unread = _told(columns, bound), dict[int, str]()
        unknown = np.flatnonzero(found <= 0) if bound.files is not None else np.empty(0, np.int64)
        if unknown.size:
            packed = (packs or {}).get(bound.name)
            content = partial(value_of, bound.values) if packed is None else packed.content
            found[unknown], unread = _asked(bound, unknown, store, content)
        lengths[bound.name] = found.astype(np.int32)[:, None]
        problems |= unread
    return lengths, problems


def _told(columns: "Columns | None", bound: BoundFeature) -> IntArray:
    """Return the lengths that the table tells, 0 where it tells none."""
    values = bound.values
    if bound.files is None:
        first = values.field(0) if pa.types.is_struct(values.type) else values
        if is_list(first.type):
            return lengths_of(first).astype(np.int64)
        raise ManifestError(
            f"column {bound.feature.columns[0]!r} holds {first.type}, which has no length: the "
            "first length of shape= is that of a list in each row, as "
            f"df[{bound.feature.columns[0]!r}] = tokens.tolist()"
        )
    ours = columns is not None and bound.feature.columns[0] == columns.of_facts
    if columns is not None and ours and bound.feature.kind == "audio" and "frames" in columns.names:
        known = columns["frames"]
        if pa.types.is_integer(known.type):
            found: IntArray = known.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            return found
    return np.zeros(len(values), np.int64)


def _asked(
    bound: BoundFeature, rows: IntArray, store: Stores, content: Any
) -> tuple[IntArray, dict[int, str]]:
    """Return the lengths of some rows, by the headers of their files."""
    tasks = [rows[start : start + _TASK] for start in range(0, len(rows), _TASK)]
    with threads(USUAL.threads(store)) as pool:
        found = [*pool.map(partial(_lengths, bound, store, content), tasks)]
    problems = {row: why for _, some in found for row, why in some.items()}
    return np.concatenate([lengths for lengths, _ in found]), problems


def _lengths(
    bound: BoundFeature, store: Stores, content: Any, rows: IntArray
) -> tuple[list[int], dict[int, str]]:
    feature: Any = bound.feature
    lengths, problems = [0] * len(rows), dict[int, str]()
    for place, row in enumerate(rows.tolist()):
        try:
            lengths[place] = feature.length(content(row), store)
        except (DecodeError, MissingFileError) as error:
            problems[row] = reason(error)
    return lengths, problems
