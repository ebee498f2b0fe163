"""Columns: the table of a Sequence as Arrow arrays.

Pandas is imported only to convert a DataFrame, because `load_preprocessing` must work without it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError
from dfgen.explain.labels import check_classes
from dfgen.manifest.paths import whole_paths
from dfgen.spec import IntArray
from dfgen.table.arrow_types import (
    BYTES,
    LISTS,
    OR_IGNORE,
    TEXT,
    MappedColumn,
    are_files,
    are_numbers,
    in_one,
    large_bytes,
    paths_of,
    refuse_missing,
    value_type,
    with_paths,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table as Arrow arrays; each is converted once, when it is first used.

    Args:
        source: a DataFrame that nobody else changes, or an Arrow table.
        attributes: root, labels and pack of a manifest, as in `df.attrs["dfgen"]`.
        root: the folder where relative paths start; None leaves them as they are.
        file: the manifest, if it was opened by its path.
        stored: `id` and `path` of an Arrow file; they stay on the disk, and were checked when it
            was written.
        stored_digest: returns the digest of the stored ids.
        rows: which rows of `source`; None for all.
        checks_classes: whether `class_names` warns about suspicious names.
    """

    source: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)
    root: str | None = None
    file: str | None = None
    stored: Mapping[str, MappedColumn] = field(default_factory=dict)
    stored_digest: Callable[[], str] | None = None
    rows: IntArray | None = None
    checks_classes: bool = False
    _arrays: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    @property
    def names(self) -> list[Any]:
        """The names of the columns, in order."""
        is_arrow = isinstance(self.source, pa.Table)
        return list(self.source.column_names if is_arrow else self.source.columns)

    @property
    def file_column(self) -> str | None:
        """The column whose files the facts describe: `path`, else the first column of bytes."""
        if "path" in self.names:
            return "path"
        return next((name for name in self.names if are_files(self[name].type)), None)

    def __getitem__(self, name: str) -> Any:
        """Return a column: bytes in chunks, all else as one array."""
        if name in self.stored:
            column = self.stored[name]
            return column[:] if self.rows is None else column.take(self.rows)
        if name not in self._arrays:
            array = self.source[name]
            if not isinstance(self.source, pa.Table):
                from dfgen.table.any_table import arrow_column

                array = arrow_column(array)
            if array.type in TEXT:  # may be more than 2 GB
                array = array.cast(pa.large_string())
            # files may be gigabytes; in one array, dictionaries are unified
            self._arrays[name] = large_bytes(array) if are_files(array.type) else in_one(array)
        array = self._arrays[name]
        return array if self.rows is None else array.take(pa.array(self.rows))

    def first(self, name: str) -> Any:
        """Return the first valid value of a column; None if all are missing."""
        if name in self.stored and self.rows is None:
            return self.stored[name][0].as_py()
        values = self[name]
        place = pc.index(pc.is_valid(values), True).as_py() if values.null_count else 0
        return values[place].as_py() if 0 <= place < len(values) else None

    def taking(self, rows: IntArray) -> "Columns":
        """Return some of the rows, in the order of their numbers, which may repeat."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def table(self) -> pa.Table:
        """Return all columns as a table, with absolute paths."""
        from dfgen.table.any_table import arrow_table

        table = arrow_table(self.source)
        table = table if self.rows is None else table.take(pa.array(self.rows))
        if "path" not in self.stored:
            return table
        return table.set_column(table.column_names.index("path"), "path", self["path"])

    def frame(self) -> "pd.DataFrame":
        """Return the rows as a new DataFrame."""
        from dfgen.table.any_table import to_frame

        frame: pd.DataFrame
        if not isinstance(self.source, pa.Table):
            frame = self.source.copy() if self.rows is None else self.source.iloc[self.rows]
            return frame
        frame = to_frame(self.table())
        if self.attributes:
            frame.attrs["dfgen"] = dict(self.attributes)
        return frame

    def check(self, argument: str, name: object) -> str:
        """Return the name of a column; raise a ManifestError if there is none."""
        if isinstance(name, str) and name in self.names:
            return name
        from dfgen.explain.missing import not_a_column

        raise ManifestError(not_a_column(argument, name, self.names, self.source))

    def files(self, name: str) -> Any:
        """Return the files of a column: bytes, or paths; relative ones start at `root`."""
        if name in self.stored:
            return self.stored[name] if self.rows is None else self[name]
        values = self[name]
        if pa.types.is_dictionary(values.type):
            values = values.cast(value_type(values.type))
        kind = values.type
        if isinstance(kind, LISTS):
            raise ArgumentError(
                f"column {name!r} has a list in each row, expected one file: give each file its "
                f"own row, df = df.explode({name!r}); df['id'] = range(len(df)), or its own column"
            )
        if not (kind in TEXT or are_files(kind)):
            numbers = f'df["path"] = df[{name!r}].astype("Int64").astype(str) + ".jpg"'
            raise ManifestError(
                f"column {name!r} has {kind}, expected paths of files"
                + (f". If files are named by it, write {numbers}" if are_numbers(kind) else "")
            )
        what = "path" if kind in TEXT else "bytes" if kind in BYTES else "bytes or path"
        drop = f"drop these rows, df = df[df[{name!r}].notna()], {OR_IGNORE}"
        refuse_missing(name, values, what, drop)
        if self.root is None or kind in BYTES:
            return values
        if pa.types.is_struct(kind):
            return with_paths(values, whole_paths(paths_of(values), self.root))
        return whole_paths(values, self.root)

    def whole_numbers(self, name: str) -> pa.Array:
        """Return a column of indices, none missing."""
        values = self[self.check("index", name)]
        if not pa.types.is_integer(values.type) or values.null_count:
            raise ManifestError(
                f"column {name!r} has {values.type} with {values.null_count:,} missing values, "
                "expected the row of an array file as a whole number in each row"
            )
        return values.cast(pa.int64())

    def class_names(self, name: str, labels: pa.Array) -> tuple[object, ...]:
        """Return the classes in the order of their indices.

        They are those of the manifest for lists of text, the categories of a categorical column,
        else the sorted distinct labels.
        """
        kind = self[name].type
        names = self.attributes.get("labels", {}).get(name, {}).get("class_names")
        if names and isinstance(kind, LISTS) and not are_numbers(kind.value_type):
            return tuple(names)
        is_category = pa.types.is_dictionary(labels.type)
        names = labels if is_category else pc.unique(labels).drop_null()
        if not len(names):
            return ()
        if self.checks_classes:
            check_classes(self, name, names, single=not isinstance(kind, LISTS))
        if pa.types.is_boolean(names.type):
            return False, True
        if is_category:
            return tuple(names.dictionary.drop_null().to_pylist())
        return tuple(names.take(pc.sort_indices(names)).to_pylist())


def whole_column(columns: Columns, name: str) -> IntArray | None:
    """Return a column of whole numbers, -1 if missing; None if there is no such column."""
    if name not in columns.names:
        return None
    values = columns[name]
    if pa.types.is_floating(values.type):  # integers of pandas, if some are missing
        values = pc.if_else(pc.is_finite(values), values, None)
    elif not pa.types.is_integer(values.type):
        return None
    try:
        numbers = values.cast(pa.int64())
    except pa.ArrowInvalid:  # fractions: a column of the user
        return None
    numbers = pc.fill_null(numbers, -1) if numbers.null_count else numbers
    return np.asarray(numbers.to_numpy(zero_copy_only=False))
