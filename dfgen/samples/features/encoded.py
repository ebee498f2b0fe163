"""Encoded: a feature of whole columns, of which no row is read by itself."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.one_row import ColumnSource, OneRow, check_present
from dfgen.spec import IntArray, Spec, Values


class Encoded(Feature):
    """A feature that the table alone tells: a column is encoded once, a batch is a `gather`."""

    blank: ClassVar[Any] = 0

    def encode(self, *values: pa.Array) -> Any:
        """Return whole columns in a compact form; ManifestError of what it cannot hold."""
        raise NotImplementedError

    def gather(self, values: Any, rows: IntArray) -> Values:
        """Return the arrays of some rows from the encoded values."""
        found: Values = values[rows]
        return found

    def bind(self, columns: ColumnSource) -> Any:
        """Return the columns encoded."""
        return self.encode(*(columns[name] for name in self.columns))

    def spec_of(self, values: Any) -> Spec:
        """Return what the model gets, which the encoded values tell."""
        example = self.gather(values, np.arange(0))
        return Spec(example.shape[1:], example.dtype, self.blank)

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator | None = None) -> Values:
        """Return the array of one row, a mapping or a pandas Series; chance has no part in it."""
        check_present(self, row)
        if self.label_column is not None and self.class_names is None:
            raise ArgumentError(
                "one row does not tell the classes: write "
                f"{type(self).__name__}({self.column!r}, class_names=...)"
            )
        return self.gather(self.bind(OneRow(row)), np.arange(1))[0, ...]
