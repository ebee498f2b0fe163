"""The classes of a frame's rows, by the rules of Keras's `DataFrameIterator`."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dfgen.errors import ArgumentError, listed
from dfgen.manifest.warn import warn
from dfgen.migrate.flow_arguments import WrongTypeError
from dfgen.samples.features.spec import Indices

RowLabel = Any
"""The value of a row in the column of classes: a class, or a list of several."""


class Classes(NamedTuple):
    """The classes of rows.

    Args:
        indices: class -> its number.
        numbers: of each row that has one, a number or a list of them.
        rows: which rows these are.
    """

    indices: dict[Any, int]
    numbers: list[Any]
    rows: Indices


_LISTS = (list, tuple)
_AS_LISTS = (np.ndarray, set, frozenset)


def checked_labels(column: pd.Series, y_col: str, class_mode: str) -> list[RowLabel]:
    """Return the labels of all rows: text, other classes, or lists of them.

    Keras takes text alone, and with `"categorical"` lists of classes. Other classes are taken too,
    where they have an order, and arrays and sets as lists, which is said.

    Raises:
        WrongTypeError: in Keras's words: labels are missing, lists, or have no order.
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
    missing = [row for row, label in enumerate(labels) if _is_missing(label)]
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


def _is_missing(label: RowLabel) -> bool:
    return not isinstance(label, _LISTS) and bool(pd.isna(label))


def _have_lists(labels: Iterable[RowLabel]) -> bool:
    return any(issubclass(kind, _LISTS) for kind in {*map(type, labels)})


def _distinct(labels: Sequence[RowLabel]) -> set[Any]:
    """Return the classes that occur."""
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

    Args:
        labels: of the rows.
        given: the classes in the order of their numbers; none: all that occur, sorted.
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
