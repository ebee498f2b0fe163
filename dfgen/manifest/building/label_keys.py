"""The keys of a label table: which column has them, as text, each of them once."""

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, count, did_you_mean, first, quote
from dfgen.explain.joins import lines_of_nearest
from dfgen.explain.key_causes import JoinKeys, likely_cause
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.schema import repeated, rows_where
from dfgen.manifest.sources.label_table import read_rows
from dfgen.table.any_table import Table, arrow_table

SEPARATORS = (";", "\t", "|", ",")
_READ = "in Python, labels=pandas.read_csv(PATH"


def rows_by_id(
    given: Table | os.PathLike[str],
    name: str,
    ids: pa.ChunkedArray,
    text: Sequence[str] = (),
    limits: Limits = DEFAULT,
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return the rows of a table, or of a file of one, and the row of the manifest of each `id`.

    Ids are compared as text; where those of the manifest are whole numbers, 007 is 7. Columns of
    `text` are read as such, too.
    """
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    elif not isinstance(given, str | pd.DataFrame):
        given = arrow_table(given, name)
    [group] = read_rows(given, ["id", *text], limits)
    whole = pa.types.is_integer(ids.type)
    known = key_text(ids, "id", "the manifest")
    one_row = "One row tells of one id: keep one of them"
    missing = 'Call the column of ids "id"'
    keys = label_keys(group.rows, "id", name, whole, known, missing=missing, several=one_row)
    places = pc.index_in(keys, value_set=known)
    if places.null_count:
        lonely = JoinKeys(keys, pc.is_null(places))
        others = JoinKeys(known, pc.invert(pc.is_in(known, value_set=keys)))
        cure = likely_cause(lonely, others)
        lines = [
            f"{len(lonely.unmatched):,} of {len(keys):,} ids of {name} are not in the manifest:",
            *lines_of_nearest(lonely.unmatched, known, cure),
            *([f"Likely cause: {cure.cause.name}."] if cure else []),
            "Mend these ids, or leave their rows out",
        ]
        raise ManifestError("\n".join(lines))
    return group.rows, places.to_numpy().astype(np.int64)


def label_keys(
    labels: pa.Table,
    column: str,
    table: str,
    whole: bool,
    files: pa.ChunkedArray,
    missing: str = "Write on=FIELD=COLUMN (--on FIELD=COLUMN)",
    several: str = "A file can have the labels of one row only: keep one row a key, or join on a "
    "column that tells them apart",
) -> pa.ChunkedArray:
    """Return the key column of a label table as text; `files` are the keys of the other side.

    `whole` compares whole numbers: 007 as 7. What is `missing` or stands in `several` rows is
    refused with this advice.
    """
    if column not in labels.column_names:
        raise ManifestError(_no_column(labels, column, table, files, missing))
    keys = key_text(labels[column], column, table)
    empty = rows_where(pc.or_(pc.is_null(keys), pc.fill_null(pc.equal(keys, ""), False)))
    if len(empty):
        raise ManifestError(
            f'"{column}" is missing in {count(len(empty), "row")} of {table}: row '
            f"{', '.join(map(str, first(empty)))}, counted from 0 below the header. "
            "Fill them in, or leave these rows out of the table"
        )
    keys = whole_numbers(keys) if whole else keys
    if pc.count_distinct(keys).as_py() < len(keys):
        raise ManifestError(_several_rows(labels, keys, column, table, several))
    return keys


def _no_column(
    labels: pa.Table, column: str, table: str, files: pa.ChunkedArray, write: str
) -> str:
    names = labels.column_names
    near = did_you_mean(column, names)
    used = [each for each in SEPARATORS if len(names) == 1 and each in names[0]]
    if used:
        near = f" It has one column only: its values are separated by {quote(used[0])}."
        write = f"Save it with what its extension says, or {_READ}, sep={quote(used[0])})"
    elif pc.any(pc.is_in(pa.array(names, files.type), value_set=files)).as_py():
        near = " Its first line is a row, not the names of columns."
        write = f"Write a first line with them, or {_READ}, header=None, names=[...])"
    return (
        f'{table} has no column "{column}" to join on. Columns: {", ".join(map(_shown, names))}.'
        f"{near} {write}"
    )


def _shown(name: str) -> str:
    """Return a name in quotes where it has blanks around it, which nobody sees otherwise."""
    return name if name and name == name.strip() else quote(name)


def _several_rows(
    labels: pa.Table, keys: pa.ChunkedArray, column: str, table: str, several: str
) -> str:
    """Return the message on keys that stand more than once: where, and with which labels."""
    twice, rest, shown = repeated(keys).field("values"), labels.drop_columns([column]), []
    for key in first(twice):
        rows = rows_where(pc.equal(keys, key))
        numbers, differing = ", ".join(map(str, first(rows))), _differing(rest.take(rows))
        shown.append(f"{quote(key)} (rows {numbers}: {differing or 'alike'})")
    every = (
        rest.append_column("", keys).filter(pc.is_in(keys, value_set=twice)).to_pandas().astype(str)
    )
    if len(every.drop_duplicates()) == len(twice):  # each key has the same labels in all its rows
        several = several.partition(":")[0]
        several += f": drop the repeated ones: labels.drop_duplicates({quote(column)})"
    return (
        f"{count(len(twice), 'key')} in several rows of {table}, column {quote(column)}: "
        f"{'; '.join(shown)}. Rows are counted from 0 below the header. {several}"
    )


def _differing(rows: pa.Table) -> str:
    """Return the first column whose values are not the same in all rows, with them."""
    for name in rows.column_names:
        values = first(rows[name])
        if any(value != values[0] for value in values):
            return f"{name} {', '.join(map(quote, values))}"
    return ""


def key_text(column: pa.ChunkedArray, name: str, table: str) -> pa.ChunkedArray:
    """Return a key column as text; whole numbers that pandas made floats lose their `.0`."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        if pa.types.is_floating(column.type):
            _refuse_rounded(column, name, table)
            column = column.cast(pa.int64())
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ManifestError(
            f'column "{name}" of {table} has type {column.type}{_fraction(column)}: keys are text '
            "or whole numbers. Name the column of ids, or convert it: "
            f"labels[{quote(name)}].astype(str)"
        ) from None


def _refuse_rounded(column: pa.ChunkedArray, name: str, table: str) -> None:
    """Raise if a number is so large that its floats no longer tell whole numbers apart."""
    digits = {16: 11, 32: 24, 64: 53}[column.type.bit_width]
    sizes = pc.abs(column.cast(pa.float64()))
    odd = rows_where(pc.and_(pc.is_finite(sizes), pc.greater_equal(sizes, 2.0**digits)))
    if len(odd):
        raise ManifestError(
            f'column "{name}" of {table} has type {column.type} and holds '
            f"{column[odd[0].as_py()].as_py():.0f} in row {odd[0]}: from 2**{digits} on, floats no "
            "longer tell whole numbers apart, so that one key may stand for several. Read the "
            f"column as text: {_READ}, dtype={{{quote(name)}: str}})"
        )


def _fraction(column: pa.ChunkedArray) -> str:
    """Return the first number that is not whole, and its row."""
    if not pa.types.is_floating(column.type):
        return ""
    odd = rows_where(pc.not_equal(column, pc.floor(column)))
    return f" and holds {column[odd[0].as_py()]} in row {odd[0]}" if len(odd) else ""


def whole_numbers(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole numbers in one spelling: 007 as 7."""
    return pc.replace_substring_regex(keys, r"^0+([0-9])", r"\1")
