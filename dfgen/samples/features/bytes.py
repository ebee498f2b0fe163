"""Bytes: files as they are, and columns of bytes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Feature
from dfgen.spec import Spec, Values, Watch
from dfgen.stores.store import Store
from dfgen.table.file_columns import Content


@dataclass(frozen=True)
class Bytes(Feature):
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
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return Spec((), np.dtype(object), blank=b"")

    def read(self, value: Content, out: Values, store: Store, watch: Watch, given: None) -> None:
        """Fill `out` with the bytes of one file, or with those given."""
        watch("read")
        out[...] = value if isinstance(value, bytes) else store.read(value)
