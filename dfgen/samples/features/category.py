"""Category: the class numbers of a column of classes."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, listed
from dfgen.samples.features.arguments import (
    check_column,
    class_names_in_order,
    not_predicted,
    probabilities,
)
from dfgen.samples.features.base import Encoded
from dfgen.spec import IntArray, Present, Values
from dfgen.system import one_of
from dfgen.table.arrow_types import OR_IGNORE, is_list, value_type

LABEL_MODES = ("int", "categorical", "binary")

MORE_THAN_TWO = 'Use label_mode="int" or "categorical"'


def _numbers_of(values: pa.Array, names: pa.Array) -> pa.Array:
    """Return the place of each value among names, by its category where it has one."""
    if not pa.types.is_dictionary(values.type):
        return pc.index_in(values, value_set=names)
    if values.dictionary.equals(names):
        return values.indices
    return pc.index_in(values.dictionary, value_set=names).take(values.indices)


@dataclass(frozen=True, repr=False)
class Category(Encoded):
    """Class numbers of a column of classes.

    Args:
        column: a categorical, text, boolean or integer column without nulls.
        label_mode: `"int"` (default) gives int32 of shape (); `"categorical"` one-hot float32 of
            shape (classes,); `"binary"` float32 of shape (1,), for two classes.
        class_names: the classes in the order of their numbers. None (default) takes the
            categories of a categorical column, else the sorted distinct values of the frame.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row without a class holds zeros,
            and weighs 0 in the loss of this target.

    Raises:
        ArgumentError: an unknown label_mode, or class names that repeat.

    Example:
        >>> Category("kind", class_names=["cat", "dog"])({"kind": "dog"})
        array(1, dtype=int32)
    """

    column: str
    label_mode: str = "int"
    class_names: tuple[object, ...] | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        check_column(self)
        one_of("label_mode", self.label_mode, LABEL_MODES)
        if self.class_names is None:
            return
        names = class_names_in_order(self.class_names)
        if not all(isinstance(name, Hashable) for name in names):
            raise ArgumentError(_no_classes(self.column, listed(names)))
        if not names or len(set(names)) < len(names):
            raise ArgumentError(f"class_names must be distinct names, got {self.class_names!r}")
        if self.label_mode == "binary" and len(names) != 2:
            both = "Name both, class_names=[...], if these rows lack one"
            raise ArgumentError(
                f'label_mode="binary" needs two classes, column {self.column!r} has '
                f"{len(names)}: {listed(names)}. "
                f"{both if len(names) < 2 else MORE_THAN_TWO}"
            )
        object.__setattr__(self, "class_names", names)

    def unnamed(self, column: pa.Array) -> pa.Array:
        """Return the column; refuse what holds no classes."""
        kind = value_type(column.type)
        if pa.types.is_nested(kind):
            raise ManifestError(_no_classes(self.column, str(kind), is_list(kind)))
        return column

    def encode(self, values: pa.Array) -> Values:
        """Return the class number of every row; refuse nulls, and values that are no class name."""
        kind = value_type(values.type)
        if isinstance(kind, pa.BaseExtensionType) or pa.types.is_nested(kind):
            raise ManifestError(_no_classes(self.column, str(kind), is_list(kind)))
        if not pa.types.is_dictionary(values.type) or values.dictionary.null_count:
            values = values.cast(kind)
        if values.null_count:
            raise ManifestError(
                f"column {self.column!r} has {values.null_count:,} rows without a class; drop "
                f"them: df = df[df[{self.column!r}].notna()], {OR_IGNORE}",
                row=pc.indices_nonzero(pc.is_null(values))[0].as_py(),
            )
        codes = _numbers_of(values, _names(self, kind))
        if codes.null_count:
            stray = pc.unique(values.filter(codes.is_null()).cast(kind)).to_pylist()
            raise ManifestError(
                f"column {self.column!r} holds {listed(stray)} ({codes.null_count:,} in all), not "
                f"among its class names: {listed(self.class_names or ())}"
                f"{_meant(stray, self.class_names or ())}"
            )
        encoded: Values = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return encoded

    def label_numbers(self, values: Values, data: bytes | None = None) -> Values | None:
        """Return the class number of every row, unless batches hold vectors."""
        return None if self.label_mode == "categorical" else values

    def gather(self, values: Values, rows: IntArray) -> Values:
        """Return the arrays of some rows from the encoded values."""
        numbers: Values = values[rows]
        if self.label_mode == "int":
            return numbers
        if self.label_mode == "binary":
            return numbers[:, None].astype(np.float32)
        return np.eye(len(self.class_names or ()), dtype=np.float32)[numbers]

    def truth(self, values: Values, rows: slice, lacking: Present) -> pa.Array:
        """Return the names of some rows."""
        numbers = pa.array(values[rows], mask=lacking)
        return pa.DictionaryArray.from_arrays(numbers, pa.array(self.class_names or ()))

    def meaning(self, predictions: Any) -> list[object]:
        """Return the name of the most likely class of each; of `"binary"`, above 0.5 the second."""
        names, found = self.class_names or (), np.asarray(predictions)
        if self.label_mode == "binary":
            found = probabilities(predictions)
            if found.shape[1:] not in ((), (1,)):
                raise not_predicted(self.column, found, "1 column")
            return [names[number] for number in (found.reshape(-1) > 0.5).astype(int).tolist()]
        if found.ndim != 2 or found.shape[1] != len(names):
            raise not_predicted(self.column, found, f"{len(names)} columns")
        if np.isnan(found).any():
            raise ArgumentError(f"predictions of {self.column!r} hold NaN, which tells no class")
        return [names[number] for number in found.argmax(axis=1).tolist()]


def _no_classes(column: str, held: str, lists: bool = False) -> str:
    mended = f"df[{column!r}] = df[{column!r}].astype(str).astype('category')"
    advice = f"for several labels a row write dfgen.MultiLabel({column!r})" if lists else mended
    return f"column {column!r} holds {held}, Category needs text, numbers or booleans: {advice}"


def _meant(stray: list[object], names: tuple[object, ...]) -> str:
    """Return which name is meant by one that differs by case or blanks, else what can be done."""
    known = {name.strip().lower(): name for name in names if isinstance(name, str)}
    for one in stray:
        name = known.get(one.strip().lower()) if isinstance(one, str) else None
        if name is not None:
            return f". {one!r} is {name!r} but for case or blanks: give both one spelling"
    return ". Mend the values, drop such rows, or add them to class_names="


def _names(feature: Category, type: pa.DataType) -> pa.Array:
    try:
        return pa.array(feature.class_names, type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise ManifestError(
            f"class_names of column {feature.column!r} are {listed(feature.class_names or ())}, "
            f"but the column holds {type}: give names of that type"
        ) from None
