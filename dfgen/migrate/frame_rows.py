"""Which rows of a frame `flow_from_dataframe` takes, and what is told of the others."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dfgen.errors import (
    ArgumentError,
    ManifestError,
    brief,
    column_list,
    did_you_mean,
    listed,
    warn,
)
from dfgen.migrate.flow_arguments import SUFFIXES, FlowOptions, WrongTypeError
from dfgen.spec import IntArray

RowLabel = Any
"""The value of a row in the column of classes: a class, or a list of several."""


class Classes(NamedTuple):
    """The classes of rows.

    `indices` is class -> its number; `numbers` of each row that has one, a number or a list of
    them; `rows` says which rows these are.
    """

    indices: dict[Any, int]
    numbers: list[Any]
    rows: IntArray


_LISTS = (list, tuple)
_AS_LISTS = (np.ndarray, set, frozenset)


def checked_labels(column: pd.Series, y_col: str, class_mode: str) -> list[RowLabel]:
    """Return the labels of all rows: text, other classes, or lists of them.

    Keras takes text alone, and with `"categorical"` lists of classes. Other classes are taken too,
    where they have an order, and arrays and sets as lists, which is said.
    """
    labels = column.astype(object).tolist()
    several = class_mode == "categorical"
    taken = (str, *_LISTS) if several else (str,)
    kinds = {kind for kind in {*map(type, labels)} if not issubclass(kind, taken)}
    if not kinds:
        return labels
    expected = "type string, list or tuple." if several else "strings."
    refusal = f'If class_mode="{class_mode}", y_col="{y_col}" column values must be {expected}'
    if several and any(issubclass(kind, _AS_LISTS) for kind in kinds):
        labels = [_as_list(label) for label in labels]
    if not several and any(issubclass(kind, (*_LISTS, *_AS_LISTS)) for kind in kinds):
        raise WrongTypeError(
            f'{refusal} Lists of classes are for class_mode="categorical", or '
            f"dfgen.Sequence(df, y=dfgen.MultiLabel({y_col!r}))"
        )
    missing = [
        row for row, label in enumerate(labels) if not isinstance(label, _LISTS) and pd.isna(label)
    ]
    if missing:
        first = column.index[missing[0]]
        raise WrongTypeError(
            f"{refusal} {len(missing):,} of {len(labels):,} have none, the first in row {first!r}: "
            f"leave them out, df = df[df[{y_col!r}].notna()]"
        )
    try:
        names = sorted(_distinct(labels))
    except TypeError as error:
        raise WrongTypeError(f"{refusal} {str(error).capitalize()}: make text of them") from None
    feature = "MultiLabel" if _have_lists(labels) else "Category"
    warn(
        f'y_col="{y_col}" holds {", ".join(sorted(kind.__name__ for kind in kinds))}, which '
        f'Keras\'s own refuses with class_mode="{class_mode}": taken as classes, in their own '
        f'order, {listed(names)}. To have the order of text, in which "10" stands before "2", '
        f"write df[{y_col!r}].astype(str). In dfgen.Sequence: y=dfgen.{feature}({y_col!r})"
    )
    return labels


def _as_list(label: Any) -> RowLabel:
    if isinstance(label, set | frozenset):
        return sorted(label, key=repr)
    return label.tolist() if isinstance(label, np.ndarray) else label


def _have_lists(labels: Iterable[RowLabel]) -> bool:
    return any(issubclass(kind, _LISTS) for kind in {*map(type, labels)})


def _distinct(labels: Sequence[RowLabel]) -> set[Any]:
    if not _have_lists(labels):
        return {*labels}
    return {*chain.from_iterable(one if isinstance(one, _LISTS) else [one] for one in labels)}


def check_binary(labels: Sequence[RowLabel], given: Sequence[Any]) -> None:
    """Refuse more or fewer classes than two."""
    count = len({*(given or labels)})
    if count != 2:
        counted = f"{count} class/es were given." if given else f"Found {count} classes."
        raise ArgumentError(f'If class_mode="binary" there must be 2 classes. {counted}')


def numbered_classes(labels: Sequence[RowLabel], given: Sequence[Any]) -> Classes:
    """Return the classes of rows; those that have none of the given ones are left out.

    `given` are the classes in the order of their numbers; none: all that occur, sorted.
    """
    names = dict.fromkeys(given or sorted(_distinct(labels)))
    indices = {name: number for number, name in enumerate(names)}
    found: list[Any] = (
        [_known(label, indices) for label in labels]
        if _have_lists(labels)
        else [*map(indices.get, labels)]
    )
    if not given:
        return Classes(indices, found, np.arange(len(labels)))
    rows = np.array([row for row, one in enumerate(found) if one not in (None, [])], np.int64)
    return Classes(indices, [found[row] for row in rows.tolist()], rows)


def _known(label: RowLabel, indices: dict[Any, int]) -> Any:
    """Return the number of a label, None where it has none, or those of a list that have one."""
    if not isinstance(label, _LISTS):
        return indices.get(label)
    return [indices[one] for one in label if one in indices]


CLASSED = ("binary", "categorical", "sparse")
CLASS_MODES = (*CLASSED, "input", "multi_output", "raw", None)
_SHOWN = 3  # rows that a warning shows


class NoColumnError(ManifestError, KeyError):
    """A column that the frame does not have."""

    __str__ = Exception.__str__  # of a KeyError it would be quoted


@dataclass(frozen=True, kw_only=True)
class FrameColumns:
    """A frame, and which of its columns are what, as `flow_from_dataframe` explains it."""

    frame: pd.DataFrame
    directory: str | os.PathLike[str] | None
    x_col: str
    y_col: Any
    weight_col: str | None
    classes: Sequence[Any] | None
    class_mode: str | None
    validate_filenames: bool

    def __post_init__(self) -> None:
        if not isinstance(self.frame, pd.DataFrame):
            raise ArgumentError(f"dataframe must be a pandas DataFrame, got {brief(self.frame)}")
        if self.class_mode not in CLASS_MODES:
            modes = ", ".join(map(repr, CLASS_MODES))
            raise ArgumentError(
                f"Invalid class_mode: {self.class_mode}; expected one of: {{{modes}}}"
            )
        if self.class_mode == "multi_output" and not isinstance(self.y_col, list):
            raise WrongTypeError(
                f'If class_mode="multi_output", y_col must be a list. Received '
                f"{type(self.y_col).__name__}."
            )

    def __getitem__(self, argument: str) -> Any:
        """Return the column, or columns, that an argument names."""
        given = getattr(self, argument)
        names = list(self.frame.columns)
        for name in given if isinstance(given, list) else [given]:
            if names.count(name) > 1:
                raise WrongTypeError(
                    f"{argument}={brief(given)}: the frame has {names.count(name)} columns "
                    f"{name!r}, expected one: df = df.loc[:, ~df.columns.duplicated()]"
                )
            if name not in names:
                near = did_you_mean(str(name), map(str, self.frame.columns))
                raise NoColumnError(
                    f"{argument}={brief(given)}: the frame has no column {name!r}. Columns: "
                    f"{column_list(map(str, self.frame.columns))}.{near}"
                )
        return self.frame[given]

    def shown(self, rows: IntArray) -> str:
        """Return the first of some rows, by their index and file, and how many there are more."""
        files = self["x_col"]
        texts = [f"row {self.frame.index[row]!r} ({files.iloc[row]!r})" for row in rows[:_SHOWN]]
        more = f", and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
        return ", ".join(texts) + more


@dataclass(frozen=True)
class FrameRows:
    """The rows that are taken.

    `rows` says which of the frame; `classes` is class -> its number, None where `class_mode` has
    none; `numbers` are of the classes of each row.
    """

    rows: IntArray
    filenames: list[str]
    filepaths: list[str]
    classes: dict[Any, int] | None
    numbers: list[Any]


def frame_rows(given: FrameColumns, options: FlowOptions) -> FrameRows:
    """Choose rows by Keras's rules, in its order: valid files, known classes, the subset."""
    names = _checked_names(given)
    known = list(given.classes) if given.classes is not None else []
    labels = _checked_labels(given, known)
    if given.weight_col:
        dtype = given["weight_col"].dtype
        if not issubclass(dtype.type, np.number):
            raise WrongTypeError(
                f"Column weight_col={given.weight_col} must be numeric. It holds {dtype}"
            )
    paths = _joined_paths(given.directory, names)
    rows = _valid_rows(given, paths) if given.validate_filenames else np.arange(len(names))
    found = Classes({}, [], np.arange(len(rows)))
    if labels is not None:
        found = numbered_classes([labels[row] for row in rows.tolist()], known)
        _tell_left_out(given, labels, rows, found)
    part = options.part(len(found.rows))
    rows = rows[found.rows][part]
    taken = rows.tolist()
    return FrameRows(
        rows,
        [names[row] for row in taken],
        [paths[row] for row in taken],
        None if labels is None else found.indices,
        found.numbers[part],
    )


def _joined_paths(directory: str | os.PathLike[str] | None, names: list[str]) -> list[str]:
    folder = os.fspath(directory or "")
    if os.sep != "/":
        return [os.path.join(folder, name) for name in names]
    beginning = os.path.join(folder, "") if folder else ""  # a tenth of the time
    return [name if name[:1] == "/" else beginning + name for name in names]


def _checked_labels(given: FrameColumns, known: list[Any]) -> list[Any] | None:
    if given.class_mode not in CLASSED:
        if known:
            warn(f'`classes` will be ignored given the class_mode="{given.class_mode}"')
        return None
    if isinstance(given.y_col, list):
        raise WrongTypeError(
            f'If class_mode="{given.class_mode}", y_col must be the name of one column, got '
            f'{brief(given.y_col)}: several are for class_mode="raw" or "multi_output"'
        )
    labels = checked_labels(given["y_col"], given.y_col, given.class_mode)
    if given.class_mode == "binary":
        check_binary(labels, known)
    return labels


def _checked_names(given: FrameColumns) -> list[str]:
    column = given["x_col"]
    names: list[str] = column.astype(object).tolist()
    if not all(issubclass(kind, str) for kind in {*map(type, names)}):
        wrong = next(row for row, name in enumerate(names) if not isinstance(name, str))
        raise WrongTypeError(
            f"All values in column x_col={given.x_col} must be strings. Row "
            f"{given.frame.index[wrong]!r} has {brief(names[wrong])}"
        )
    return names


def _valid_rows(given: FrameColumns, paths: list[str]) -> IntArray:
    valid = np.array(
        [path.lower().endswith(SUFFIXES) and os.path.isfile(path) for path in paths], np.bool_
    )
    others = np.flatnonzero(~valid)
    if len(others):
        warn(
            f'Found {len(others)} invalid image filename(s) in x_col="{given.x_col}". These '
            f"filename(s) will be ignored. They are {given.shown(others)}: no file is there, or "
            f"it is none of {', '.join(SUFFIXES)}. dfgen.Sequence(df, x=dfgen.Image("
            f'{given.x_col!r}), on_error="skip") keeps such rows with weight 0, and lists them in '
            "seq.problems"
        )
    return np.flatnonzero(valid)


def _tell_left_out(given: FrameColumns, labels: list[Any], rows: IntArray, found: Classes) -> None:
    """Tell, as Keras does not, of rows and labels that `classes` leaves out."""
    left = np.delete(rows, found.rows)
    call = f"df[df[{given.y_col!r}].isin(classes)]"
    if len(left):
        warn(
            f"{len(left):,} of {len(rows):,} rows are left out, as in Keras, which does not say "
            f"so: {given.y_col!r} has none of the {len(found.indices)} classes in "
            f"{given.shown(left)}. To leave them out yourself: dfgen.Sequence({call}, ...)"
        )
    kept = rows[found.rows].tolist()
    counts = zip(kept, found.numbers, strict=True)
    cut = [row for row, now in counts if isinstance(now, list) and len(now) < len(labels[row])]
    if cut:
        warn(
            f"{len(cut):,} rows keep some of their labels alone, those in classes=, as in Keras, "
            f"which does not say so: {given.shown(np.array(cut))}. dfgen.Sequence(df, "
            f"y=dfgen.MultiLabel({given.y_col!r}, class_names=...)) refuses other labels by name"
        )
