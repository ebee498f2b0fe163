"""A column of labels that were corrected: its values as the manifest's column holds them."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list, did_you_mean
from dfgen.manifest.building.categories import class_names
from dfgen.manifest.diff import plain
from dfgen.manifest.schema import count, describe_labels, first, quote
from dfgen.samples.arrow_types import is_list, is_text

_BOOLEANS = ["False", "True"]


def is_read_as_text(column: pa.ChunkedArray) -> bool:
    """Whether CSV files have such values as they are: spreadsheets write True as TRUE."""
    names = class_names(column) if pa.types.is_dictionary(column.type) else column
    is_boolean = names is not column and names.to_pylist() == _BOOLEANS
    return is_text(names.type) and not is_boolean


def classes_of(column: pa.ChunkedArray) -> list[str | int] | None:
    """Return the classes of a category, or the values of text; None: of others anything goes."""
    is_class = pa.types.is_dictionary(column.type) or is_text(column.type)
    names: list[str | int] | None = class_names(column).to_pylist() if is_class else None
    return names


@dataclass(frozen=True)
class CorrectedColumn:
    """A column of corrections; `where` is how messages call their table."""

    name: str
    where: str
    ids: pa.ChunkedArray
    given: pa.ChunkedArray

    def cast(self, old: pa.ChunkedArray) -> pa.Array:
        """Return the values in the type of the manifest's, those of a category as its names are."""
        given, kind = plain(self.given), old.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            if is_text(kind) and pa.types.is_boolean(given.type):
                given = pc.if_else(given, *reversed(_BOOLEANS))
            elif is_text(kind) and pa.types.is_integer(given.type):
                given = given.cast(kind)
        if given.null_count == len(given):
            return pa.nulls(len(given), kind)
        if _kind_of(given.type) == _kind_of(kind):
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return given.cast(kind)
        odd = (row for row in range(len(given)) if not _casts(given[row : row + 1], kind))
        row = next(odd, int(np.argmax(given.is_valid().to_numpy(False))))
        raise ManifestError(
            f'column "{self.name}" of {self.where} has {quote(given[row].as_py())} '
            f"in {self._at(row)}, expected a value of type {kind}, as the manifest has"
        )

    def refuse_missing(self, old: pa.ChunkedArray, values: pa.Array) -> None:
        """Raise where there is no value, and the manifest has one."""
        lost = pc.indices_nonzero(pc.and_(values.is_null(), old.combine_chunks().is_valid()))
        if len(lost):
            raise ManifestError(
                f'column "{self.name}" of {self.where} is empty in {count(len(lost), "row")} where '
                f"the manifest has a label: {', '.join(map(self._at, first(lost)))}. To keep a "
                "label leave the row out, or by label= (--label) the column; in pandas it can be "
                f'taken away: df.loc[df["id"].isin([...]), "{self.name}"] = None'
            )

    def new_classes(self, values: pa.Array, names: list[Any], allowed: bool) -> list[Any]:
        """Return the values that are no class yet, sorted; raise where they may not be new."""
        rows = np.arange(len(values))
        if is_list(values.type):
            rows, values = pc.list_parent_indices(values).to_numpy(), values.flatten()
        known = pa.array(names, values.type)
        strange = pc.and_not(values.is_valid(), pc.is_in(values, value_set=known))
        new = values.filter(strange)
        if allowed or not len(new):
            return new.unique().sort().to_pylist()  # type: ignore[no-any-return]
        shown = zip(first(new), rows[strange.to_numpy(False)], strict=False)
        raise ManifestError(
            f'column "{self.name}" of {self.where} has {count(len(new), "value")} not among its '
            f"classes: {', '.join(f'{quote(value)} in {self._at(row)}' for value, row in shown)}. "
            f"Classes: {column_list(names)}.{did_you_mean(str(new[0]), map(str, names))} Mend "
            "them, or number new classes after the others: new_classes=True (--new-classes)"
        )

    def _at(self, row: int) -> str:
        return f"row {row} (id {quote(self.ids[int(row)].as_py())})"


def _kind_of(kind: pa.DataType) -> str:
    """Return what the metadata would say of a column of a type."""
    return describe_labels(pa.table({"label": pa.chunked_array([], kind)}))["label"]["kind"]


def _casts(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def with_values(
    column: "pd.Series[Any]", rows: npt.NDArray[np.int64], values: list[Any], new: list[Any]
) -> "pd.Series[Any]":
    """Return a column with other values in some rows, and new classes, if it has some."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        kind = pd.CategoricalDtype([*kind.categories, *new], kind.ordered)
    held = column.to_numpy(object, copy=True)
    for row, value in zip(rows, values, strict=True):  # at once, lists would be an array
        held[row] = value
    return pd.Series(held, column.index, kind)
