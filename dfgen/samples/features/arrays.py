"""Array, Column, Text and Bytes: numbers, text and bytes as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.samples.features.base import (
    ColumnSource,
    Feature,
    Reading,
    TableFeature,
    can_cast,
    check_column,
    check_padding_mask,
    checked_shape,
    column_names,
    column_values,
    fill,
    fill_by,
    number_dtype,
    number_spec,
    set_fields,
)
from dfgen.samples.pixels.formats import FORMATS, opened
from dfgen.samples.transforms import check_call
from dfgen.spec import IntArray, Spec, Values
from dfgen.stores.array_files import decode_array, whole_array
from dfgen.stores.store import Store
from dfgen.table import arrow_types as arrow
from dfgen.table.arrow_types import Content


@dataclass(frozen=True, repr=False)
class Array(Feature):
    """Numbers of .npy files, of rows of large array files, or of any files.

    Use `index` if one .npy or HDF5 file holds many samples, and `decode` for formats that dfgen
    does not know, such as DICOM, NIfTI or LAS. Nothing is ever unpickled.

    Args:
        column: the column of paths, or of bytes.
        shape: the shape of every file, or of every row. With None as its first length, `(None,
            13)`, every .npy file keeps its length, padded with zeros to the longest in its batch;
            the headers of all files are read once.
        dtype: dtype of the batch, default `"float32"`; other dtypes of the same kind are converted
            (integers to floats too, floats to integers never).
        index: the column with the row in the file, from 0; None: the whole file.
        dataset: the name of the array in HDF5 files with several.
        decode: `decode(data) -> array`, from the bytes of a file; None (default): it is .npy. It
            runs in the workers, and must not be random.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets zeros, and weighs 0.
        padding_mask: with unequal lengths, True: a batch is `{"array", "padding_mask"}`, True on
            the array, bool (batch, length).

    Raises:
        ArgumentError: an invalid shape or dtype, or `decode` with `index`.

    Example:
        >>> dfgen.Array("path", shape=(128, 128), index="index")  # doctest: +SKIP
    """

    column: str
    shape: tuple[int | None, ...]
    dtype: str = "float32"
    index: str | None = None
    dataset: str | None = None
    decode: Callable[[bytes], Any] | None = None
    missing: str = "raise"
    padding_mask: bool = False
    kind: ClassVar[str] = "array"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)
        if self.decode is not None:
            check_call("decode", self.decode, 1, "decode(data)", "it gets the bytes of a file")
        shape, dtype = checked_shape(self.shape), number_dtype(self.dtype)
        set_fields(self, shape=shape, dtype=dtype)
        check_padding_mask(self, "shape=(None, ...)")
        if self.decode is not None and self.index is not None:
            raise ArgumentError("decode= takes whole files, index= rows of them: leave one out")
        if self.spec.own_length and (self.decode or self.index or self.missing != "raise"):
            raise ArgumentError(
                f"shape={self.shape} needs whole .npy files: give the length, or omit decode=, "
                "index= and missing="
            )

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return number_spec(self.shape, self.dtype)

    def length(self, value: Any, store: Store) -> int:
        """Return the first length in the header of a .npy file; checks dtype and shape."""
        with opened(value, store) as (file, name):
            if name != "npy":
                raise DecodeError(f"this is a .{name} {FORMATS[name].holds}, not a .npy file")
            file.seek(0)
            shape, _, dtype = whole_array(file, store.limits)
        if not shape or not self.takes(Spec((None, *shape[1:]), dtype)):
            raise DecodeError(
                f"the array is {dtype} of shape {shape}, expected {self.dtype} of shape "
                f"{self.shape}"
            )
        return shape[0]

    def takes(self, spec: Spec) -> bool:
        """Whether casting alone converts rows of a Spec."""
        return spec.shape == self.shape and can_cast(spec.dtype, np.dtype(self.dtype))

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with the numbers of one file, or of one of its rows."""
        reading.watch("read")
        if self.index is not None:
            rows: Any = reading.store
            array = rows.row(value["path"], value["index"], self.dataset)
            reading.watch("decode", array.nbytes)
        else:
            data = reading.store.read(value)
            reading.watch("decode", len(data))
            if self.decode is not None:
                fill_by(f"Array({self.column!r})", self.decode, [data], out)
                return
            array = decode_array(data, reading.store.limits)
        fill("the array", array, out)


@dataclass(frozen=True)
class Column(Feature):
    """An array that your own function computes from a row's columns.

    The function runs in the workers, once per row and epoch, with plain Python numbers and text,
    and None for missing values; the column `path` has paths below the root. It must not be random.
    Functions that hold the GIL for long need `use_multiprocessing=True`.

    Args:
        names: the column, or the columns in the order of the function's arguments.
        fn: `fn(*values)` -> an array or number.
        shape: shape of the result; () for a number. With None as its first length, `(None,)`, it is
            the length of the list in the first column, as of the tokens of a text, padded with
            zeros to the longest in its batch.
        dtype: dtype of the batch, default `"float32"`; results are converted if only precision is
            lost (integers to floats too, floats to integers never).
        padding_mask: with unequal lengths, True: a batch is `{"column", "padding_mask"}`, True on
            the array, bool (batch, length).

    Raises:
        ArgumentError: an invalid argument.

    Example:
        >>> area = dfgen.Column(["width", "height"], lambda width, height: width * height)
    """

    names: str | tuple[str, ...]
    fn: Callable[..., Any]
    shape: tuple[int | None, ...] = ()
    dtype: str = "float32"
    padding_mask: bool = False
    kind: ClassVar[str] = "column"

    def __post_init__(self) -> None:
        names = column_names(self.names)
        call = f"fn({', '.join(names)})"
        check_call("fn", self.fn, len(names), call, "its arguments are the values of the columns")
        set_fields(
            self,
            names=self.names if isinstance(self.names, str) else names,
            shape=checked_shape(self.shape),
            dtype=number_dtype(self.dtype),
        )
        check_padding_mask(self, "shape=(None, ...)")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return column_names(self.names)

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return number_spec(self.shape, self.dtype)

    def bind(self, columns: ColumnSource) -> Any:
        """Return the columns, paths with their root."""
        arrays = {name: columns[name] for name in self.columns}
        if "path" in arrays and arrow.value_type(arrays["path"].type) in arrow.TEXT:
            paths = columns.files("path")  # structs need them in memory
            arrays["path"] = paths if len(arrays) == 1 else paths.take(np.arange(len(paths)))
        return column_values(self.columns, arrays)

    def length(self, value: Any, store: Store) -> int:
        """Return the length of a row's list in the first column."""
        own = value if len(self.columns) == 1 else next(iter(value.values()))
        return 0 if own is None else len(own)

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with the result of the function."""
        reading.watch("transform")
        values = [value] if len(self.columns) == 1 else [*value.values()]
        fill_by(f"Column({self.names!r})", self.fn, values, out)


@dataclass(frozen=True)
class Text(TableFeature):
    """The strings of a column, for a model that begins with `keras.layers.TextVectorization`.

    A batch is an array of Python strings, of shape (batch,), for `keras.Input((), dtype="string")`
    on TensorFlow. JAX and torch have no strings: convert text to lists of numbers once, before
    training, for `dfgen.Column("tokens", np.array, shape=(None,), dtype="int32")`.

    Args:
        column: a column of text, categorical or not, without nulls.

    Example:
        >>> dfgen.Sequence(df, x=dfgen.Text("caption"))  # doctest: +SKIP
    """

    column: str
    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        check_column(self)

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return Spec((), np.dtype(object), blank="")

    def bind(self, columns: ColumnSource) -> pa.Array:
        """Return the column as Arrow text; raises for nulls and other types."""
        values = columns[self.column]
        if arrow.value_type(values.type) not in arrow.TEXT:
            raise ManifestError(
                f"column {self.column!r} holds {values.type}, Text needs text: "
                f"df[{self.column!r}] = df[{self.column!r}].astype(str)"
            )
        fill = f'df[{self.column!r}] = df[{self.column!r}].fillna("")'
        arrow.refuse_missing(self.column, values, "text", fill)
        return values.cast(pa.large_string())

    def gather(self, values: pa.Array, rows: IntArray) -> Values:
        """Return the strings of some rows."""
        strings = values.take(pa.array(rows))
        return strings.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Bytes(Feature):
    """The bytes of the files named by a column, or of a column of bytes.

    A batch is an array of Python `bytes`, of shape (batch,), not counted by `Limits(memory=...)`.
    Use it for TensorFlow models that decode, and for your own loops.

    Args:
        column: a column of paths, or of bytes, without nulls.

    Example:
        >>> dfgen.Sequence(df, x=dfgen.Bytes("path"))  # doctest: +SKIP
    """

    column: str = "path"
    kind: ClassVar[str] = "bytes"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return Spec((), np.dtype(object), blank=b"")

    def read(self, value: Content, out: Values, reading: Reading) -> None:
        """Fill `out` with the bytes of one file."""
        reading.watch("read")
        out[...] = value if isinstance(value, bytes) else reading.store.read(value)
