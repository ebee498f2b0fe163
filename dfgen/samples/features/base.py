"""The protocol of features: how columns of a row become arrays of the batch.

A feature is a frozen dataclass derived from `Feature`, or from `TableFeature` if no files are read.
For files it needs `column`, `kind`, `of_files = True`, the `spec` of the array, and `read`, which
fills the array. Everything else has a default.
"""

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.samples.features.feature_checks import column_names
from dfgen.spec import IntArray, Spec, Values, Watch, unwatched
from dfgen.stores.store import Store
from dfgen.table.arrow_types import are_files, in_one


class ColumnSource(Protocol):
    """The columns of all rows."""

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column."""

    def files(self, name: str) -> pa.Array:
        """Return a column of files without nulls: paths with their root, or bytes."""

    def whole_numbers(self, name: str) -> pa.Array:
        """Return a column of indices without nulls."""


class NamingColumns(ColumnSource, Protocol):
    """The columns by which a feature is resolved."""

    def class_names(self, name: str, labels: pa.Array) -> tuple[object, ...]:
        """Return the classes of a column's labels, in the order of their indices."""


class Reading(NamedTuple):
    """Arguments of `read` that do not depend on the feature."""

    store: Store  # reads files: `reading.store.read(value)`
    watch: Watch = unwatched  # times stages: `reading.watch("decode", bytes_read)`
    drawn: Any = None  # the result of `draw` for the sample; None disables randomness
    geometry: Any = None  # the Geometry of the followed image


class Feature:
    """Turns columns of a row into one or more arrays of the batch.

    With several arrays, `spec` is a tuple, and `read` and `finish` get tuples.
    """

    kind: ClassVar[str]
    """The default name of its array."""

    of_files: ClassVar[bool] = False
    """Whether its first column names files; `read` then gets a path or bytes."""

    missing: str = "raise"
    """With `"ignore"`, a row in which a column is null gets blanks, and weighs 0 in the loss."""

    like: Any = None
    """The followed image: its name, "" for the only image; once bound, the `Image`."""

    class_names: Any = None
    """The classes in the order of their indices, or None."""

    is_random: Any = False
    """Whether `draw` is called for each sample."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, files first; default: `column` and `index`."""
        index = getattr(self, "index", None)
        return (*column_names(self.column), *filter(None, [index]))  # type: ignore[attr-defined]

    @property
    def spec(self) -> Any:
        """The array that the model gets."""
        raise NotImplementedError

    def arrays(self, name: str) -> Any:
        """Return the name of its array, or a dict of several: key in the batch -> name."""
        if not getattr(self, "padding_mask", False):
            return name
        key = "images" if self.kind == "image" else self.kind
        return {key: name, "padding_mask": f"{name}_padding_mask"}

    def resolve(self, columns: NamingColumns) -> Self:
        """Return the feature completed by its columns, for example with class names."""
        return self

    def bind(self, columns: ColumnSource) -> Any:
        """Convert the columns once; returns an Arrow array or `Ragged` with a value per row."""
        if not self.of_files:
            return column_values(self.columns, columns)
        column, *index = self.columns
        paths = columns.files(column)
        if not index:
            return paths
        if are_files(paths.type):
            raise ArgumentError(f"index={index[0]!r} needs paths in column {column!r}, not bytes")
        rows = columns.whole_numbers(index[0])
        return pa.StructArray.from_arrays([paths, rows], ["path", "index"])

    def length(self, value: Any, store: Store) -> int:
        """Return the first length of one row's array, if it is None in the Spec."""
        return len(value)

    def draw(self, rng: np.random.Generator) -> Any:
        """Return the random choices for one sample, the later `reading.drawn`."""
        return None

    def read(self, value: Any, out: Any, reading: Reading) -> Any:
        """Fill the array of one row; an image returns its Geometry.

        Args:
            value: the row's value: path or bytes of a file, for `reading.store.read`; a dict for
                several columns.
            out: the array of a sample. Lengths that are None in its Spec are those of the batch; if
                the dtype is None, it is a LazyArray.
            reading: the store, the timer, the random choices and the geometry.

        Raises:
            DecodeError: the value or the file is broken.
            MissingFileError: a file does not exist.
        """
        raise NotImplementedError

    def finish(self, sample: Any, out: Any) -> None:
        """Fill the array of the batch with the result of `read` and of the transform."""
        pairs = zip(sample, out, strict=True) if isinstance(sample, tuple) else [(sample, out)]
        for made, into in pairs:
            into[...] = made

    def __repr__(self) -> str:
        """Return the call that makes the feature, without defaults."""
        known: Any = fields(self) if is_dataclass(self) else ()
        pairs = {field: getattr(self, field.name) for field in known}
        own = [f"{one.name}={value!r}" for one, value in pairs.items() if value != one.default]
        return f"{type(self).__name__}({', '.join(own)})"


class TableFeature(Feature):
    """A feature without files: `bind` encodes its columns, `gather` fills batches."""

    def gather(self, values: Any, rows: IntArray) -> Values:
        """Return the arrays of some rows; `values` is the result of `bind`."""
        return values[rows]  # type: ignore[no-any-return]


def specs_of(feature: Feature) -> tuple[Spec, ...]:
    """Return the Specs of a feature's arrays."""
    spec = feature.spec
    return spec if isinstance(spec, tuple) else (spec,)


def value_of(values: Any, row: int) -> Any:
    """Return the value of one row; `values` is the result of `bind`."""
    value = values[row]
    return value.as_py() if hasattr(value, "as_py") else value


def column_values(names: tuple[str, ...], columns: Any) -> pa.Array:
    """Return one column, or several as structs."""
    arrays = [columns[name] for name in names]
    if len(arrays) == 1:
        return arrays[0]
    return pa.StructArray.from_arrays([in_one(array) for array in arrays], names)
