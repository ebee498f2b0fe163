"""The classes of a frame's rows, by the rules of Keras's `DataFrameIterator`."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dfgen.errors import ArgumentError, listed
from dfgen.manifest.warn import warn
from dfgen.migrate.flow_arguments import WrongTypeError
from dfgen.samples.features.spec import Indices

RowLabel = Any
"""What a row has in the column of classes: a class, or a list of several."""


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


def checked_labels(column: pd.Series, y_col: str, class_mode: str) -> list[RowLabel]:
    """Return the labels of all rows: text, other classes, or lists of them.

    Keras takes text alone, and with `"categorical"` lists of classes. Other classes are taken too,
    where they have an order, and arrays and sets as lists, which is said.

    Raises:
        WrongTypeError: in Keras's words: labels are missing, lists, or have no order.
    """
    labels = column.astype(object).tolist()
    several = class_mode == "categorical"
    taken = (str, list, tuple) if several else (str,)
    kinds = {kind for kind in map(type, labels) if not issubclass(kind, taken)}
    if not kinds:
        return labels
    refusal = (
        f'If class_mode="{class_mode}", y_col="{y_col}" column values must be '
        f"{'type string, list or tuple.' if several else 'strings.'}"
    )
    lists = (list, tuple, np.ndarray, set, frozenset)
    if several:
        labels = [sorted(label) if isinstance(label, set | frozenset) else
                  label.tolist() if isinstance(label, np.ndarray) else label
                  for label in labels]  # fmt: skip
    missing = [row for row, label in enumerate(labels) if _is_missing(label)]
    if missing:
        first = column.index[missing[0]]
        raise WrongTypeError(
            f"{refusal} {len(missing):,} of {len(labels):,} have none, the first in row {first!r}: "
            f"leave them out, df = df[df[{y_col!r}].notna()]"
        )
    if not several and any(issubclass(kind, lists) for kind in kinds):
        raise WrongTypeError(
            f'{refusal} Lists of classes are for class_mode="categorical", or '
            f"dfgen.Sequence(df, y=dfgen.MultiLabel({y_col!r}))"
        )
    try:
        names = sorted(set(_each(labels)))
    except TypeError as error:
        raise WrongTypeError(f"{refusal} {str(error).capitalize()}: make text of them") from None
    held = ", ".join(sorted(kind.__name__ for kind in kinds))
    warn(
        f'y_col="{y_col}" holds {held}, which Keras\'s own refuses with class_mode="{class_mode}": '
        f"taken as classes, in their own order, {listed(names)}. To have the order of text, in "
        f'which "10" stands before "2", write df[{y_col!r}].astype(str). In dfgen.Sequence: '
        f"y=dfgen.{'MultiLabel' if any(issubclass(k, lists) for k in kinds) else 'Category'}"
        f"({y_col!r})"
    )
    return labels


def _is_missing(label: RowLabel) -> bool:
    return not isinstance(label, list | tuple) and bool(pd.isna(label))


def _each(labels: Iterable[RowLabel]) -> Iterable[Any]:
    """Yield each class of each row."""
    for label in labels:
        if isinstance(label, list | tuple):
            yield from label
        else:
            yield label


def check_binary(labels: Sequence[RowLabel], given: Sequence[Any] | None) -> None:
    """Refuse more or fewer classes than two."""
    count = len(set(given or labels))
    if count != 2:
        counted = f"{count} class/es were given." if given else f"Found {count} classes."
        raise ArgumentError(f'If class_mode="binary" there must be 2 classes. {counted}')


def numbered_classes(labels: Sequence[RowLabel], given: Sequence[Any] | None) -> Classes:
    """Return the classes of rows; those that have none of the given ones are left out.

    Args:
        labels: of the rows.
        given: the classes in the order of their numbers; None: all that occur, sorted.
    """
    names = list(dict.fromkeys(given)) if given else sorted(set(_each(labels)))
    indices = {name: number for number, name in enumerate(names)}
    if not given:
        numbers = [
            [indices[one] for one in label] if isinstance(label, list | tuple) else indices[label]
            for label in labels
        ]
        return Classes(indices, numbers, np.arange(len(labels)))
    found = [_known(label, indices) for label in labels]
    rows = np.array([row for row, one in enumerate(found) if one is not None], np.int64)
    return Classes(indices, [one for one in found if one is not None], rows)


def _known(label: RowLabel, indices: dict[Any, int]) -> Any:
    """Return the number of a label, or those of its known ones; None where none is."""
    if not isinstance(label, list | tuple):
        return indices.get(label)
    return [indices[one] for one in label if one in indices] or None
