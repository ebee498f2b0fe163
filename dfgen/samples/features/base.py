"""What features share: the protocol, ragged lists, checks of arguments, and lossless casts.

A feature is a frozen dataclass derived from `Feature`, or from `TableFeature` if no files are read.
For files it needs `column`, `kind`, `of_files = True`, the `spec` of the array, and `read`, which
fills the array. Everything else has a default.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, DecodeError, ManifestError, brief, one_of
from dfgen.samples.transforms import name_of, run
from dfgen.spec import IntArray, Spec, Values, Watch, unwatched
from dfgen.stores.store import Store
from dfgen.table import arrow_types as arrow
from dfgen.table.arrow_types import are_files, in_one

PADDING = -1
"""Coordinates and labels of padding objects, as in KerasHub."""


class Ragged:
    """Arrays of objects: row i has the objects `offsets[i]` to `offsets[i + 1]`."""

    def __init__(self, column: str, offsets: IntArray, *arrays: Any) -> None:
        self.column, self.offsets, self.arrays = column, offsets, arrays

    @classmethod
    def of(cls, column: str, values: pa.Array) -> "Ragged":
        """Flatten a column of lists to one Arrow array of objects."""
        if not isinstance(values.type, arrow.LISTS):
            raise ManifestError(
                f"column {column!r} holds {values.type}, expected a list in each row"
            )
        arrow.refuse_missing(
            column, values, "list", f"write [] where a row has none, {arrow.OR_IGNORE}"
        )
        ends = np.cumsum(arrow.lengths_of(values), dtype=np.int64)
        return cls(column, np.append(0, ends), pc.list_flatten(values))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        """Return the arrays of one row."""
        part = slice(self.offsets[row], self.offsets[row + 1])
        return tuple(array[part] for array in self.arrays)

    def with_arrays(self, *arrays: Any) -> "Ragged":
        """Return the same lists with other arrays."""
        return Ragged(self.column, self.offsets, *arrays)

    def refuse(self, wrong: Any, what: str) -> None:
        """Raise ManifestError if any object is wrong; the message names the first one."""
        if wrong.any():
            place = int(wrong.argmax())
            row = int(np.searchsorted(self.offsets, place, side="right")) - 1
            raise ManifestError(
                f"object {place - self.offsets[row]} of row {row} in column {self.column!r} {what} "
                f"({wrong.sum():,} objects in all)",
                row=row,
            )

    def check_same_lengths(self, other: "Ragged") -> None:
        """Raise ManifestError if a row's list is not as long as in another column."""
        ours, theirs = np.diff(self.offsets), np.diff(other.offsets)
        if (wrong := ours != theirs).any():
            row = int(wrong.argmax())
            raise ManifestError(
                f"row {row} has {ours[row]:,} objects in column {self.column!r}, but "
                f"{theirs[row]:,} in column {other.column!r} ({wrong.sum():,} rows in all)",
                row=row,
            )

    def check_most(self, most: int) -> None:
        """Raise ManifestError if a row has more objects than `max_items`."""
        counts = np.diff(self.offsets)
        if (largest := int(counts.max(initial=0))) > most:
            row = int(counts.argmax())
            raise ManifestError(
                f"row {row} has {largest:,} objects in column {self.column!r}: write "
                f"max_items={largest}",
                row=row,
            )

    def numbers(self, count: int, expected: str) -> Values:
        """Return objects as float32 (objects, count); empty objects become zeros."""
        [objects] = self.arrays
        numbers = np.zeros((len(objects), count), np.float32)
        if not len(objects) or pa.types.is_null(objects.type):
            return numbers
        flat = arrow.flattened(objects)
        are_numbers = arrow.are_numbers(flat.type) or pa.types.is_null(flat.type)
        if not isinstance(objects.type, arrow.LISTS) or not are_numbers:
            raise ManifestError(
                f"column {self.column!r} holds lists of {objects.type}, expected {expected}"
            )
        lengths = arrow.lengths_of(objects)
        odd = (lengths != count) & (lengths != 0)
        self.refuse(odd, f"has {lengths[odd][:1]} numbers, expected {count}: {expected}")
        numbers[lengths > 0] = np.asarray(flat, np.float32).reshape(-1, count)
        return numbers


class ColumnSource(Protocol):
    """The columns of all rows."""

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column."""

    def files(self, name: str) -> pa.Array:
        """Return a column of files without nulls: paths with their root, or bytes."""

    def whole_numbers(self, name: str) -> pa.Array:
        """Return a column of indices without nulls."""

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
        column, index = self.column, getattr(self, "index", None)  # type: ignore[attr-defined]
        names = (column,) if isinstance(column, str) else column_names(column)
        return (*names, *filter(None, [index]))

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

    def resolve(self, columns: ColumnSource) -> Self:
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


def set_fields(feature: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(feature, name, value)


def column_names(columns: object) -> tuple[str, ...]:
    """Return the names of one column or of several different ones."""
    names: Any = (columns,) if isinstance(columns, str) else columns
    is_names = isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)
    if not is_names or not names or len({*names}) < len(names):
        raise ArgumentError(f"expected a column or a list of different ones, got {brief(columns)}")
    return tuple(names)


def check_column(feature: Any) -> None:
    """Check the arguments that features of one column have in common."""
    if not isinstance(feature.column, str):
        kind = type(feature).__name__
        raise ArgumentError(
            f"{kind} needs the name of a column, got {brief(feature.column)}: write "
            f'dfgen.{kind}("column", ...)'
        )
    one_of("missing", feature.missing, ("raise", "ignore"))
    if feature.class_names is not None:
        set_fields(feature, class_names=class_names_in_order(feature.class_names))
    if getattr(feature, "dataset", None) is not None and feature.index is None:
        raise ArgumentError('dataset= is for rows of HDF5 files: give their column, index="index"')


def checked_shape(shape: Any) -> tuple[int | None, ...]:
    """Return a shape as a tuple of int; the first length may be None."""
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (0,)
    rest = sizes[1:] if sizes[:1] == (None,) else sizes
    if not all(isinstance(size, int | np.integer) and size > 0 for size in rest):
        raise ArgumentError(f"shape must be a tuple of positive integers, got {brief(shape)}")
    return (*sizes[: len(sizes) - len(rest)], *map(int, rest))


def check_padding_mask(feature: Any, instead: str) -> None:
    """Raise if arrays with a `padding_mask` all have one length."""
    if feature.padding_mask and not feature.spec.own_length:
        raise ArgumentError(f"padding_mask=True needs arrays of unequal length, {instead}")


def number_dtype(dtype: object) -> str:
    """Return the name of a NumPy dtype of numbers."""
    with suppress(TypeError):
        if np.dtype(dtype).kind in "biuf":  # type: ignore[call-overload]
            return str(np.dtype(dtype).name)  # type: ignore[call-overload]
    raise ArgumentError(f'dtype must be a NumPy dtype of numbers like "float32", got {dtype!r}')


def class_names_in_order(class_names: Any) -> tuple[object, ...]:
    """Return class names as a tuple; raise unless they are ordered, hashable and different."""
    unordered = isinstance(class_names, str | set | frozenset | Mapping)
    names = () if unordered or not isinstance(class_names, Iterable) else tuple(class_names)
    hashable = all(isinstance(name, Hashable) for name in names)
    if not names or not hashable or len({*names}) < len(names):
        raise ArgumentError(
            "class_names must be a list of different names in the order of the class indices, like "
            f'["cat", "dog"], got {brief(class_names)}'
        )
    return names


def number_spec(shape: tuple[int | None, ...], dtype: str) -> Spec:
    """Return the Spec of an array of numbers; integers may be classes, with one loss each."""
    return Spec(shape, np.dtype(dtype), axes=len(shape) if np.dtype(dtype).kind in "iu" else None)


def can_cast(dtype: Any, wanted: Any) -> bool:
    """Whether a dtype may be cast to another: never floats to integers."""
    integers = dtype.kind in "iu" and wanted.kind in "iu"  # `cast` checks the range
    return integers or np.can_cast(dtype, wanted, "same_kind")


def cast(numbers: Values, dtype: np.dtype[Any]) -> Values:
    """Return the numbers as `dtype`, rounded to its precision; OverflowError beyond its range."""
    if np.can_cast(numbers.dtype, dtype):
        return numbers.astype(dtype, copy=False)
    with np.errstate(all="ignore"):  # the user's numpy.seterr may raise
        result: Values = numbers.astype(dtype)
    if result.dtype.kind == "f":
        fits = bool((np.isfinite(result) | ~np.isfinite(numbers)).all())
    else:
        fits = numbers.dtype.kind == "b" or bool((result == numbers).all())
    if not fits:
        low, high = np.nanmin(numbers), np.nanmax(numbers)
        raise OverflowError(f"holds {low} to {high}, more than {dtype} can hold")
    return result


def fill(what: str, array: Values, out: Values) -> None:
    """Fill `out` with an array; DecodeError if the shape or the dtype does not fit."""
    if array.shape != out.shape:
        raise DecodeError(f"{what} has shape {array.shape}, expected {out.shape}")
    if not can_cast(array.dtype, out.dtype):
        raise DecodeError(f"{what} is {array.dtype}, which {out.dtype} cannot hold")
    try:
        out[...] = cast(array, out.dtype)
    except OverflowError as error:
        raise DecodeError(f"{what} {error}") from None


def fill_by(what: str, function: Callable[..., Any], values: Any, out: Values) -> None:
    """Fill `out` with the array that a user's function returns."""
    who = f"{what}: {name_of(function)}"
    array = numbers_of(who, run(who, DecodeError, function, *values))
    if array.size or out.size:  # np.asarray([]) is float64 of shape (0,)
        fill(f"{who} returned an array that", array, out)


def numbers_of(who: str, returned: Any) -> Values:
    """Return the result of a user's function as an array of numbers."""
    array: Values = run(f"{who}, then np.asarray", DecodeError, np.asarray, returned)
    if array.dtype.hasobject:
        raise DecodeError(f"{who} returned {type(returned).__name__}, expected numbers")
    return array
