"""Text and Bytes: strings of any length, in arrays of Python objects.

Only Keras on TensorFlow gives models strings. Elsewhere they are for loops and layers of your own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.samples.features.base import Spec, Values, Watch, unwatched
from dfgen.samples.features.by_hand import naming_path
from dfgen.samples.features.category import Rows
from dfgen.samples.storage.files import Files


def is_binary(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def refuse_missing(column: str, values: pa.Array, what: str, advice: str) -> None:
    """Refuse a column with nulls."""
    if values.null_count:
        row = pc.indices_nonzero(pc.is_null(values))[0]
        raise ManifestError(
            f"column {column!r} has no {what} in {values.null_count:,} rows, the first is row "
            f"{row}: {advice}"
        )


@dataclass(frozen=True)
class Text:
    """The strings of a column, for a `keras.layers.TextVectorization` at the front of a model.

    A batch is an array of Python strings, of shape (batch,); `keras.Input((), dtype="string")`
    takes it on TensorFlow. JAX and torch have no strings: there, and where speed matters, turn them
    into numbers once, before training:

        layer = keras.layers.TextVectorization(output_sequence_length=16)
        layer.adapt(df["caption"].tolist())
        df["tokens"] = np.asarray(layer(df["caption"].tolist())).tolist()
        x = dfgen.Column("tokens", np.array, shape=(16,), dtype="int32")

    Args:
        column: a column of text, categorical or not, without nulls.

    Example:
        >>> Text("caption")({"caption": "A cat."}).item()
        'A cat.'
    """

    column: str
    kind: ClassVar[str] = "text"

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the whole column as Arrow text.

        Raises:
            ManifestError: something else than text, or nulls.
        """
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ManifestError(
                f"column {self.column!r} holds {kind}, Text needs text: "
                f"df[{self.column!r}] = df[{self.column!r}].astype(str)"
            )
        refuse_missing(
            self.column, values, "text", f'df[{self.column!r}] = df[{self.column!r}].fillna("")'
        )
        return values.cast(pa.large_string())

    def gather(self, values: pa.Array, rows: Rows) -> Values:
        """Return the strings of some rows."""
        found: Values = values.take(pa.array(rows)).to_numpy(zero_copy_only=False)
        return found

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        values = self.encode(pa.array([row[self.column]], from_pandas=True))
        return self.gather(values, np.arange(1)).reshape(())


@dataclass(frozen=True)
class Bytes:
    """The bytes of the files that a column names, or of a column of bytes, as they are.

    For models that decode by themselves, such as `tf.io.decode_raw` in a layer, and for loops of
    your own: a batch is an array of Python `bytes`, of shape (batch,), which `Limits(memory=...)`
    does not count. Models on JAX and torch cannot take it; there let `dfgen.Column` make numbers.

    Args:
        column: a column of paths, or of bytes, without nulls.

    Example:
        >>> Bytes("path")(df.iloc[0]).item()[:3]  # doctest: +SKIP
        b'ID3'
    """

    column: str = "path"
    kind: ClassVar[str] = "bytes"

    @property
    def spec(self) -> Spec:
        """What the model gets."""
        return Spec((), np.dtype(object), blank=b"")

    sample_spec = made_spec = spec

    def encode(self, values: pa.Array) -> pa.Array:
        """Return a column of bytes, checked.

        Raises:
            ManifestError: nulls.
        """
        refuse_missing(
            self.column, values, "bytes", f"drop them, df = df[df[{self.column!r}].notna()]"
        )
        return values

    def read(
        self, source: str | bytes, out: Values, store: Files, watch: Watch = unwatched
    ) -> None:
        """Fill `out` with the bytes of one file, or with those given."""
        watch("read")
        out[...] = source if isinstance(source, bytes) else store.read(source)

    def finish(self, sample: Values, out: Values) -> None:
        """Copy a sample into `out`."""
        out[...] = sample

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        out = np.empty((), object)
        if isinstance(row[self.column], bytes):
            self.read(row[self.column], out, Files())
            return out
        with naming_path(row, self.column) as path:
            self.read(path, out, Files())
        return out
