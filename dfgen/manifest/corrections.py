"""Labels that were corrected, by a person or a model, put into a manifest."""

import os
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Never

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import (
    ArgumentError,
    ManifestError,
    brief,
    column_list,
    count,
    did_you_mean,
    first,
    quote,
    warn,
)
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.manifest.building.join import rows_by_id
from dfgen.manifest.diff import differ, plain
from dfgen.manifest.io import Path, frame_of_manifest, only_writer_of, write_manifest
from dfgen.manifest.not_a_manifest import is_manifest
from dfgen.manifest.schema import (
    class_names,
    describe_labels,
    label_columns,
    numbered_after,
    validate,
)
from dfgen.manifest.sources.table_format import TableFormat
from dfgen.system import flag
from dfgen.table.any_table import Table, arrow_table
from dfgen.table.arrow_types import is_list, is_text

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
    held = column.astype(object).to_numpy(copy=True)  # at once, whole classes would be floats
    for row, value in zip(rows, values, strict=True):  # at once, lists would be an array
        held[row] = value
    return pd.Series(held, column.index, kind)


def update_labels(
    manifest: Path | Table,
    corrections: Path | Table,
    *,
    label: str | Sequence[str] = (),
    new_classes: bool = False,
    out: Path | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Put corrected labels into a manifest, each into the row of its id.

    Use it for what a person or a model found to be wrong. Class names keep their numbers, and
    `build_manifest(update=...)` leaves the labels of a column that was corrected to the rows that
    had one. `dfgen.diff` of the manifest before and after lists what changed.

    Args:
        manifest: a file, which is rewritten, whole or not at all; or a frame or another table,
            which stays as it is.
        corrections: the column `id` and label columns of the manifest, a row for each id to
            correct: a frame or another table, or a .csv, .tsv, .jsonl, .xlsx or .parquet file.
            In .csv, .tsv and .xlsx a `'` before text like a formula (`'=1+1`) is taken off.
        label: the columns to take, or one. Default: all, and each of them must be a label.
        new_classes: take values that are not among the classes, numbered after those; else such a
            value is an error.
        out: write the manifest to this file instead; one in hand, too.
        sep: what separates the values of the corrections, as in `build_manifest`; default: seen.
        decimal: the decimal mark of their numbers.
        encoding: their encoding.
        sheet: the sheet of a workbook.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        The corrected manifest: a new frame, with rows and columns in their order.

    Raises:
        ArgumentError: an argument has a value that it cannot have.
        ManifestError: an id that is missing, unknown or there twice; a column that is no label; a
            value that is missing where there was one, no class, or of another type.
        MissingFileError: there is no such file.
        WriteError: the manifest cannot be written.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "kind": ["cat", "dog"]})
        >>> update_labels(df, pd.DataFrame({"id": [2], "kind": ["cat"]}))["kind"].tolist()
        ['cat', 'cat']
    """
    refuse_unknown(update_labels, unknown)
    new_classes = flag("new_classes", new_classes)
    if not (isinstance(label, str | list | tuple) and all(isinstance(one, str) for one in label)):
        raise ArgumentError(
            f"label={brief(label)}: expected the name of a column, or a list of them"
        )
    written = TableFormat(sep, decimal, encoding, sheet)
    _, frame, notes = correct(manifest, corrections, label, new_classes, out, written)
    for note in notes:
        warn(note)
    return frame


def correct(
    manifest: Path | Table,
    corrections: Path | Table,
    label: str | Sequence[str] = (),
    new_classes: bool = False,
    out: Path | None = None,
    written: TableFormat = TableFormat(),  # noqa: B008 - frozen
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Do what `update_labels` says; return the manifest before, after, and what is to be said."""
    of_file = isinstance(manifest, str | os.PathLike)
    path = os.fspath(corrections) if isinstance(corrections, str | os.PathLike) else None
    if path and of_file and is_manifest(path) and not is_manifest(os.fspath(manifest)):
        raise ArgumentError(
            f"{path} is a manifest, expected corrections: it comes first, dfgen update-labels "
            f"{path} {os.fspath(manifest)}"
        )
    suffix = None if path is None else os.path.splitext(path)[1].lower()
    written.check(suffix, f"a {suffix} file" if suffix else "a table in memory")
    target = os.fspath(manifest if out is None and of_file else out or "")
    with only_writer_of(target) if target else nullcontext():
        before = frame_of_manifest(manifest)
        wanted = (label,) if isinstance(label, str) else tuple(label)
        frame, notes = _corrected(before, corrections, wanted, new_classes, written)
        if target:
            write_manifest(frame, target)
    return before, frame, notes


def _corrected(
    before: pd.DataFrame,
    given: Path | Table,
    wanted: tuple[str, ...],
    new_classes: bool,
    written: TableFormat,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    table = arrow_table(before)
    validate(table, "the manifest")
    where = os.fspath(given) if isinstance(given, str | os.PathLike) else "the table of corrections"
    labels = label_columns(table.column_names)
    as_text = [name for name in labels if is_read_as_text(table[name])]
    rows, places = rows_by_id(given, where, table["id"], as_text, written=written, values=table)
    frame, known, notes = before.copy(), deepcopy(before.attrs.get("dfgen")), tuple[str, ...]()
    for name in _columns(rows.column_names, labels, wanted, where):
        about = (known or {}).get("labels", {}).get(name, {})
        column = CorrectedColumn(name, where, rows["id"], rows[name])
        old = table[name].take(pa.array(places))
        values = column.cast(old)
        column.refuse_missing(old, values)
        names = classes_of(table[name]) or about.get("class_names")
        new = [] if names is None else column.new_classes(values, names, new_classes)
        changed = differ(old, values)
        values = values.filter(pa.array(changed)).to_pylist()
        frame[name] = with_values(frame[name], places[changed], values, new)
        if about and changed.any():
            about["corrected"] = True
        if "class_names" in about:
            about["class_names"] = [*names, *new]
        if names is not None and not is_text(old.type):
            notes += numbered_after(name, len(names), new)
    frame.attrs = {} if known is None else {**frame.attrs, "dfgen": known}
    return frame, notes


def _columns(
    given: list[str], labels: list[str], wanted: tuple[str, ...], where: str
) -> tuple[str, ...]:
    for name in wanted:
        if name not in given:
            raise ManifestError(
                f"label={quote(name)} is not a column of {where}.{did_you_mean(name, given)} "
                f"Columns: {column_list(given)}"
            )
    columns = wanted or tuple(name for name in given if name != "id")
    others = [name for name in columns if name not in labels]
    if not columns:
        raise ManifestError(
            f"{where} has no column but id, expected one of the labels: {column_list(labels)}"
        )
    if others:
        both = [name for name in given if name in labels]
        take = f". Or take those that are: label={both!r} (--label {both[0]})" if both else ""
        raise ManifestError(
            f"column {quote(others[0])} of {where} is not a label of the manifest. Labels: "
            f"{column_list(labels)}.{did_you_mean(others[0], labels)} Rename it{take}"
        )
    return columns
