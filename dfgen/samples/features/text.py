"""Text: strings of any length, in arrays of Python objects.

Only Keras on TensorFlow gives models strings. Elsewhere they are for loops and layers of your own.
"""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Encoded
from dfgen.spec import IntArray, Values
from dfgen.table.arrow_types import is_text, refuse_missing, value_type


@dataclass(frozen=True)
class Text(Encoded):
    """The strings of a column, for a `keras.layers.TextVectorization` at the front of a model.

    A batch is an array of Python strings, of shape (batch,); `keras.Input((), dtype="string")`
    takes it on TensorFlow. JAX and torch have no strings: there, and where speed matters, turn them
    into numbers once, before training:

        layer = keras.layers.TextVectorization(output_sequence_length=16)
        layer.adapt(df["caption"].tolist())
        df["tokens"] = np.asarray(layer(df["caption"].tolist())).tolist()
        x = dfgen.Column("tokens", np.array, shape=(16,), dtype="int32")

    Lists of unequal length, as of a tokenizer without `output_sequence_length`, take
    `shape=(None,)`.

    Args:
        column: a column of text, categorical or not, without nulls.

    Example:
        >>> Text("caption")({"caption": "A cat."}).item()
        'A cat.'
    """

    column: str
    kind: ClassVar[str] = "text"
    blank: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_column(self)

    def encode(self, values: pa.Array) -> pa.Array:
        """Return the whole column as Arrow text; refuse nulls, and what is no text."""
        kind = value_type(values.type)
        if not is_text(kind):
            raise ManifestError(
                f"column {self.column!r} holds {kind}, Text needs text: "
                f"df[{self.column!r}] = df[{self.column!r}].astype(str)"
            )
        refuse_missing(
            self.column, values, "text", f'df[{self.column!r}] = df[{self.column!r}].fillna("")'
        )
        return values.cast(pa.large_string())

    def gather(self, values: pa.Array, rows: IntArray) -> Values:
        """Return the strings of some rows."""
        found: Values = values.take(pa.array(rows)).to_numpy(zero_copy_only=False)
        return found
