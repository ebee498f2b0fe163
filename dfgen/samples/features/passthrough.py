"""Text and Bytes: strings and contents of files, in arrays of Python objects."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.samples.features.base import ColumnSource, Feature, Reading, TableFeature
from dfgen.samples.features.feature_checks import check_column
from dfgen.spec import IntArray, Spec, Values
from dfgen.table.arrow_types import is_text, refuse_missing, value_type
from dfgen.table.file_columns import Content


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
        if not is_text(value_type(values.type)):
            raise ManifestError(
                f"column {self.column!r} holds {values.type}, Text needs text: "
                f"df[{self.column!r}] = df[{self.column!r}].astype(str)"
            )
        fill = f'df[{self.column!r}] = df[{self.column!r}].fillna("")'
        refuse_missing(self.column, values, "text", fill)
        return values.cast(pa.large_string())

    def gather(self, values: pa.Array, rows: IntArray) -> Values:
        """Return the strings of some rows."""
        strings: Values = values.take(pa.array(rows)).to_numpy(zero_copy_only=False)
        return strings


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
