"""Sizes of images, and lengths of arrays, that differ between rows; known before training."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns, whole_column
from dfgen.errors import DecodeError, DfgenError, ManifestError, MissingFileError
from dfgen.limits import DEFAULT, Limits
from dfgen.machine import threads
from dfgen.manifest.building.file_facts import USUAL
from dfgen.packs.rows import PackedFiles, PackedPixels, PackSource
from dfgen.progress_bars import progress
from dfgen.samples.bound_feature import BoundFeature, RowLengths, Sizes
from dfgen.samples.features.base import specs_of, value_of
from dfgen.samples.pixels.decoders import size_of_image
from dfgen.samples.pixels.geometry import shrunk
from dfgen.samples.sources import RowSource
from dfgen.spec import IntArray
from dfgen.stores.stores import Stores
from dfgen.table.arrow_types import is_list, lengths_of

_FACTS = ("height", "width", "orientation")
_TASK = 64  # rows of a task of a thread, 1 for remote files
_FIRST = 16  # rows whose files tell how much larger an image is than the one it follows

Errors = dict[int, DfgenError]
"""Row -> why its size is unknown."""


def row_sizes(
    columns: Columns | None,
    features: Iterable[BoundFeature],
    sources: Mapping[str, RowSource],
    store: Stores,
) -> tuple[dict[str, RowLengths], Errors]:
    """Return name of a feature -> the first lengths of its array in each row, and errors.

    Packs, facts of the manifest and columns of lists tell them; else the headers of files are read,
    once, in threads. Only arrays whose shape differs between rows have lengths.
    """
    sizes, errors = dict[str, RowLengths](), Errors()
    features = [*features]
    for bound in sorted(features, key=lambda one: one.like is not None):
        source = sources.get(bound.name)
        if bound.like is not None and bound.variable_size:
            if bound.like in sizes:
                sizes[bound.name] = _multiples(sizes[bound.like], bound, store)
        elif bound.variable_size or specs_of(bound.feature)[0].own_length:
            sizes[bound.name], unread = sizes_of_rows(columns, bound, source, store)
            errors |= unread
    return {bound.name: sizes[bound.name] for bound in features if bound.name in sizes}, errors


def sizes_of_rows(
    columns: Columns | None, bound: BoundFeature, source: RowSource | None, store: Stores
) -> tuple[RowLengths, Errors]:
    """Return the lengths of one feature, 0 if unknown, and errors, as `row_sizes`."""
    if isinstance(source, PackedPixels):
        shape = np.array(source.spec.shape[:2], np.int32)
        return np.broadcast_to(shape, (len(bound.values), 2)), {}
    sizes = _known(columns, bound, store.limits)
    if isinstance(source, PackedFiles) and source.most and bound.variable_size:
        for row in np.flatnonzero(sizes.all(axis=1)).tolist():
            sizes[row] = shrunk(tuple(sizes[row].tolist()), source.most)
    unknown = np.flatnonzero(~(sizes > 0).all(axis=1))
    if bound.files is None or not unknown.size:
        return sizes, {}
    sizes[unknown], errors = _measured(bound, source, unknown, store)
    return sizes, errors


def _known(columns: Columns | None, bound: BoundFeature, limits: Limits) -> RowLengths:
    """Return the sizes that the table tells, 0 if it does not."""
    values, column = bound.values, bound.feature.columns[0]
    if bound.files is None:
        first = values.field(0) if pa.types.is_struct(values.type) else values
        if not is_list(first.type):
            raise ManifestError(
                f"column {column!r} has {first.type}, but None as first length of shape= needs a "
                f"list in each row: df[{column!r}] = tokens.tolist()"
            )
        return lengths_of(first)[:, None]
    known = None
    if columns is not None and column == columns.file_column:
        if bound.variable_size:
            known = known_sizes(columns, limits)
        elif bound.feature.kind == "audio" and "frames" in columns.names:
            frames = whole_column(columns, "frames")
            known = None if frames is None else frames.clip(min=0).astype(np.int32)[:, None]
    return np.zeros((len(values), 1 + bound.variable_size), np.int32) if known is None else known


def known_sizes(columns: Columns, limits: Limits = DEFAULT) -> Sizes | None:
    """Return (height, width) of the upright image of each row by the facts, 0 if unknown.

    Returns None if the manifest does not have these facts.
    """
    if not all(name in columns.names for name in _FACTS):
        return None
    facts = [columns[name] for name in _FACTS]
    if not all(pa.types.is_integer(fact.type) for fact in facts):
        return None
    height, width, orientation = (
        pc.fill_null(fact, 0).to_numpy(zero_copy_only=False).astype(np.float64) for fact in facts
    )
    sizes = np.where(orientation >= 5, (width, height), (height, width)).T
    known = (orientation >= 1) & (orientation <= 8) & (sizes >= 1).all(axis=1)
    known &= height * width <= limits.most["decoded_bytes"]
    upright: Sizes = np.where(known[:, None], sizes, 0).astype(np.int32)
    return upright


def _multiples(followed: Sizes, bound: BoundFeature, store: Stores) -> Sizes:
    """Return sizes of images that are a whole number of times as large as those they follow.

    The first files tell the number; a file of another size is an error when it is read.
    """
    known = np.asarray(followed.all(axis=1))
    rows = np.flatnonzero(known if bound.present is None else known & bound.present)[:_FIRST]
    own, _ = _measured(bound, None, rows, store)
    times = np.maximum(1, own // followed[rows])
    is_multiple = (own == times * followed[rows]).all(axis=1) & (times[:, 0] == times[:, 1])
    first = times[is_multiple][:1, 0]
    return followed * (first[0] if len(first) else 1)


def _measured(
    bound: BoundFeature, source: RowSource | None, rows: IntArray, store: Stores
) -> tuple[RowLengths, Errors]:
    """Return the sizes of some rows, by the headers of their files."""
    sizes, errors = np.zeros((len(rows), 1 + bound.variable_size), np.int32), Errors()

    def measure(places: range) -> int:
        for place in places:
            row = int(rows[place])
            try:
                sizes[place] = _size(bound, source, row, store)
            except (DecodeError, MissingFileError) as error:
                errors[row] = error
        return len(places)

    task = 1 if store.far else _TASK
    tasks = [range(len(rows))[start : start + task] for start in range(0, len(rows), task)]
    if len(tasks) == 1:  # as when serving: no threads
        measure(tasks[0])
        return sizes, errors
    with (
        threads(USUAL.threads(store)) as pool,
        progress(len(rows), "Reading headers", " files") as bar,
    ):
        for number in pool.map(measure, tasks):
            bar.update(number)
    return sizes, dict(sorted(errors.items()))


def _size(bound: BoundFeature, source: RowSource | None, row: int, store: Stores) -> Any:
    if isinstance(source, PackSource):
        content: Any = source.content(row)
    else:
        content = value_of(bound.files if bound.variable_size else bound.values, row)
    if bound.variable_size:
        return size_of_image(content, store)
    feature: Any = bound.feature
    return feature.length(content, store)
