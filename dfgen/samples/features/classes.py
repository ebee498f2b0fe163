"""Number, Category and MultiLabel: numbers and classes of columns."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, listed, one_of
from dfgen.samples.features.base import (
    ColumnSource,
    Ragged,
    TableFeature,
    cast,
    check_column,
    column_names,
    number_dtype,
    set_fields,
)
from dfgen.spec import IntArray, Spec, Values
from dfgen.table import arrow_types as arrow


@dataclass(frozen=True, repr=False)
class Number(TableFeature):
    """Numbers: a scalar from one column, a vector from several.

    Args:
        column: an integer, float, decimal or boolean column without nulls; or a list of those,
            for an array of shape (columns,).
        dtype: default None: float32 if a column holds floats, else int32.
        missing: of targets, `"raise"` (default), or `"ignore"`: a null gives zeros of weight 0.

    Raises:
        ArgumentError: neither a name nor names, or a dtype that holds no numbers.

    Example:
        >>> dfgen.Sequence(df, y=dfgen.Number(["age", "height"]))  # doctest: +SKIP
    """

    column: str | tuple[str, ...]
    dtype: str | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        one_of("missing", self.missing, ("raise", "ignore"))
        if not isinstance(self.column, str):
            set_fields(self, column=column_names(self.column))
        if self.dtype is not None:
            set_fields(self, dtype=number_dtype(self.dtype))

    def resolve(self, columns: ColumnSource) -> "Number":
        """Set the dtype by the columns."""
        floats = any(arrow.are_fractions(columns[name].type) for name in self.columns)
        return replace(self, dtype=self.dtype or ("float32" if floats else "int32"))

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        shape = () if isinstance(self.column, str) else (len(self.column),)
        return Spec(shape, np.dtype(self.dtype or "float32"))

    def bind(self, columns: ColumnSource) -> Values:
        """Return the columns as numbers; raises for nulls, text, and values beyond the dtype."""
        arrays = [_numbers(name, columns[name], self.spec.dtype) for name in self.columns]
        return arrays[0] if isinstance(self.column, str) else np.stack(arrays, axis=1)


def _numbers(column: str, values: pa.Array, dtype: np.dtype[Any]) -> Values:
    kind = values.type
    if not (arrow.are_numbers(kind) or pa.types.is_boolean(kind)):
        raise ManifestError(
            f"column {column!r} holds {kind}, Number needs numbers: write "
            f"df[{column!r}] = pd.to_numeric(df[{column!r}]), or dfgen.Category({column!r}) for "
            "classes"
        )
    if pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    missing = np.flatnonzero(arrow.nulls(values))
    if len(missing):
        raise ManifestError(
            f"column {column!r} has {len(missing):,} missing values, the first in row "
            f"{missing[0]}; drop or fill them: df = df[df[{column!r}].notna()], {arrow.OR_IGNORE}",
            row=int(missing[0]),
        )
    if arrow.are_fractions(kind) and dtype.kind != "f":
        raise ManifestError(f"column {column!r} holds floats, {dtype} cannot hold them")
    try:
        return cast(values.to_numpy(zero_copy_only=False), dtype)
    except OverflowError as error:
        wider = "float64" if dtype.kind == "f" else "int64"
        raise ManifestError(
            f"column {column!r} {error}: write dfgen.Number({column!r}, dtype={wider!r})"
        ) from None


LABEL_MODES = ("int", "categorical", "binary")


@dataclass(frozen=True, repr=False)
class Category(TableFeature):
    """Class indices of a column of classes.

    Args:
        column: a categorical, text, boolean or integer column without nulls.
        label_mode: `"int"` (default) gives int32 of shape (); `"categorical"` one-hot float32 of
            shape (classes,); `"binary"` float32 of shape (1,), for two classes.
        class_names: the classes in the order of their indices. None (default) takes the
            categories of a categorical column, else the sorted distinct values of the frame.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets zeros, and weighs 0.

    Raises:
        ArgumentError: an unknown label_mode, or class names that repeat.

    Example:
        >>> dfgen.Sequence(df, y=dfgen.Category("kind", "categorical"))  # doctest: +SKIP
    """

    column: str
    label_mode: str = "int"
    class_names: tuple[object, ...] | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        check_column(self)
        one_of("label_mode", self.label_mode, LABEL_MODES)
        names = self.class_names
        if self.label_mode == "binary" and names is not None and len(names) != 2:
            raise ArgumentError(
                f'label_mode="binary" needs two classes, column {self.column!r} has {len(names)}: '
                f'{listed(names)}. Name both, class_names=[...], use label_mode="int", or drop '
                f"unused ones, df[{self.column!r}] = "
                f"df[{self.column!r}].cat.remove_unused_categories()"
            )

    def resolve(self, columns: ColumnSource) -> "Category":
        """Set the class names by the column."""
        if self.class_names is not None:
            return self
        values = columns[self.column]
        self._check(values.type)
        names = columns.class_names(self.column, values) or refuse_no_class(self.column)
        return replace(self, class_names=names)

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        if self.label_mode == "int":
            return Spec((), np.dtype(np.int32))
        width = 1 if self.label_mode == "binary" else len(self.class_names or ())
        return Spec((width,), np.dtype(np.float32))

    def bind(self, columns: Any) -> Values:
        """Return the class index of every row; raises for nulls and unknown classes."""
        values = columns[self.column]
        kind = self._check(values.type)
        if not pa.types.is_dictionary(values.type) or values.dictionary.null_count:
            values = values.cast(kind)
        drop = (
            "read the table with keep_default_na=False if they are names such as NA, drop them, "
            f"df = df[df[{self.column!r}].notna()]"
        )
        arrow.refuse_missing(self.column, values, "class", f"{drop}, {arrow.OR_IGNORE}")
        try:
            names = pa.array(self.class_names, kind)
        except (pa.ArrowException, OverflowError):
            raise ManifestError(
                f"column {self.column!r} holds {kind}, but its class_names are "
                f"{listed(self.class_names or ())}: give names of that type"
            ) from None
        if not pa.types.is_dictionary(values.type):
            codes = pc.index_in(values, value_set=names)
        elif values.dictionary.equals(names):
            codes = values.indices
        else:
            codes = pc.index_in(values.dictionary, value_set=names).take(values.indices)
        if codes.null_count:
            stray = pc.unique(values.filter(codes.is_null()).cast(kind)).to_pylist()
            raise ManifestError(
                f"column {self.column!r} holds {listed(stray)} ({codes.null_count:,} in all), not "
                f"among its class names: {listed(self.class_names or ())}. Correct or drop them"
            )
        codes = codes.to_numpy(zero_copy_only=False)
        return codes.astype(np.int32, copy=False)  # type: ignore[no-any-return]

    def _check(self, kind: pa.DataType) -> pa.DataType:
        """Return the type of the values; raises for lists and dates with time zones."""
        held = arrow.value_type(kind)
        if isinstance(held, pa.BaseExtensionType) or pa.types.is_nested(held):
            here = f"df[{self.column!r}]"
            change = "cat.rename_categories(str)"  # keeps the order of intervals
            change = change if pa.types.is_dictionary(kind) else "astype(str)"
            raise ManifestError(
                f"column {self.column!r} holds {held}, Category needs text, numbers or booleans: "
                f"for several labels a row write dfgen.MultiLabel({self.column!r}), else "
                f"{here} = {here}.{change}"
            )
        return held

    def gather(self, values: Values, rows: IntArray) -> Values:
        """Return the arrays of some rows."""
        numbers: Values = values[rows]
        if self.label_mode == "int":
            return numbers
        if self.label_mode == "binary":
            return numbers[:, None].astype(np.float32)
        return np.eye(len(self.class_names or ()), dtype=np.float32)[numbers]


def refuse_no_class(column: str) -> NoReturn:
    """Raise because a column has no class."""
    raise ManifestError(f"column {column!r} has no class in any row: give class_names=")


@dataclass(frozen=True, repr=False)
class MultiLabel(TableFeature):
    """Several classes per row: float32 of shape (classes,), 1 for the classes in the row's list.

    Use it with a sigmoid output and binary cross-entropy if a row may have several labels or none.
    An empty list gives zeros; a repeated label counts once.

    Args:
        column: a column of lists of text, integers or booleans, without nulls; or of text, with
            `sep`.
        class_names: the classes in the order of their indices. None (default): the classes of the
            manifest, else the sorted distinct labels.
        sep: the separator of labels in text such as `"cat, dog"`; blanks around labels are
            stripped, and blank text has no labels. None (default): lists.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets zeros, and weighs 0.

    Raises:
        ArgumentError: repeated class names, or an empty `sep`.

    Example:
        >>> dfgen.Sequence(df, y=dfgen.MultiLabel("tags", sep=","))  # doctest: +SKIP
    """

    column: str
    class_names: tuple[object, ...] | None = None
    sep: str | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        check_column(self)
        if self.sep is not None and not (isinstance(self.sep, str) and self.sep):
            raise ArgumentError(f'sep must be text between labels such as ",", got {self.sep!r}')

    def resolve(self, columns: ColumnSource) -> "MultiLabel":
        """Set the class names by the column."""
        if self.class_names is not None:
            return self
        [labels] = self._lists(columns[self.column].drop_null()).arrays  # `bind` refuses nulls
        names = columns.class_names(self.column, labels) or refuse_no_class(self.column)
        return replace(self, class_names=names)

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return Spec((len(self.class_names or ()),), np.dtype(np.float32))

    def bind(self, columns: ColumnSource) -> Ragged:
        """Return the class indices of every row."""
        lists = self._lists(columns[self.column])
        return lists.with_arrays(class_numbers(lists, self.class_names))

    def _lists(self, values: pa.Array) -> Ragged:
        values = values.cast(arrow.value_type(values.type))
        if self.sep is not None:
            return self._split(values, self.sep)
        if not isinstance(values.type, arrow.LISTS) or pa.types.is_nested(values.type.value_type):
            raise ManifestError(
                f"column {self.column!r} holds {values.type}, expected lists of text, integers or "
                f'booleans; for text write dfgen.MultiLabel({self.column!r}, sep=",")'
            )
        return Ragged.of(self.column, values)

    def _split(self, values: pa.Array, sep: str) -> Ragged:
        if values.type not in arrow.TEXT:
            raise ManifestError(
                f"column {self.column!r} holds {values.type}, which sep={sep!r} cannot split: "
                "leave it out, or give text"
            )
        advice = f'write "" where a row has no labels, {arrow.OR_IGNORE}'
        arrow.refuse_missing(self.column, values, "text", advice)
        values = pc.utf8_trim_whitespace(values)
        parts = pc.split_pattern(values, sep)
        parts = pc.if_else(pc.equal(values, ""), pa.scalar([], parts.type), parts)
        lists = Ragged.of(self.column, parts)
        labels = pc.utf8_trim_whitespace(lists.arrays[0])
        lists.refuse(
            np.asarray(pc.equal(labels, "")), f"is empty, split by {sep!r}: remove a separator"
        )
        return lists.with_arrays(labels)

    def gather(self, values: Ragged, rows: IntArray) -> Values:
        """Return the arrays of some rows."""
        starts = values.offsets[rows]
        counts = values.offsets[rows + 1] - starts
        samples = np.repeat(np.arange(len(rows)), counts)
        first = np.cumsum(counts) - counts  # index of each row's first label
        labels = np.arange(len(samples)) + np.repeat(starts - first, counts)
        vectors = np.zeros((len(rows), len(self.class_names or ())), np.float32)
        vectors[samples, values.arrays[0][labels]] = 1
        return vectors


def class_numbers(lists: Ragged, class_names: tuple[object, ...] | None) -> Values:
    """Return the class index of every label; without `class_names`, labels are indices."""
    [labels] = lists.arrays
    if not len(labels):  # of type null
        return np.empty(0, np.int32)
    lists.refuse(arrow.nulls(labels), "has no label: leave it out of its list")
    if class_names is not None:
        return Category(lists.column, class_names=class_names).bind({lists.column: labels})
    if not pa.types.is_integer(labels.type):
        raise ManifestError(
            f"column {lists.column!r} holds lists of {labels.type}, expected class indices, or "
            "labels with class_names=[...]"
        )
    numbers: Values = labels.to_numpy(zero_copy_only=False)
    lists.refuse((numbers < 0) | (numbers >= 2**31), "is no class index: they start at 0")
    return numbers.astype(np.int32)


def names_of_lists(column: str, columns: ColumnSource) -> tuple[object, ...] | None:
    """Return the classes of lists of labels; None if labels are numbers or all lists are empty."""
    labels = arrow.flattened(columns[column])
    if arrow.are_numbers(labels.type) or isinstance(labels.type, arrow.LISTS):
        return None
    return columns.class_names(column, labels) or None
