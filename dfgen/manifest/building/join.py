"""Join files with a table of labels: by a key that both have once, as text, never by position."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, count, did_you_mean, first, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.join_messages import (
    FEW_FILES,
    FileKeys,
    LeftOut,
    Lonely,
    NearMiss,
    Words,
    best_pair,
    join_fault,
    lines_of_left_out,
    lines_of_nearest,
    lines_of_other_keys,
    what_became,
)
from dfgen.manifest.building.key_causes import JoinKeys, likely_cause
from dfgen.manifest.building.recipe import split_on
from dfgen.manifest.schema import repeated, rows_where
from dfgen.manifest.sources.file_tree import NO_FIT
from dfgen.manifest.sources.label_table import read_rows
from dfgen.manifest.sources.path_pattern import FROM_PATH, Pattern, parse_pattern
from dfgen.manifest.sources.source import RowGroup
from dfgen.manifest.sources.table_format import TableFormat, as_cell, from_cells, is_for_people
from dfgen.table.any_table import Table, arrow_table

SEPARATORS = (";", "\t", "|", ",")
_READ = "in Python, labels=pandas.read_csv(PATH"


def rows_by_id(
    given: Table | os.PathLike[str],
    name: str,
    ids: pa.ChunkedArray,
    text: Sequence[str] = (),
    limits: Limits = DEFAULT,
    written: TableFormat = TableFormat(),  # noqa: B008 - frozen
    values: pa.Table | None = None,
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return the rows of a table, or of a file of one, and the row of the manifest of each `id`.

    Ids are compared as text; where those of the manifest are whole numbers, 007 is 7. Columns of
    `text` are read as such, too. With the `values` of the manifest it is a table of corrections, of
    whose cells `from_cells` makes them.
    """
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    elif not isinstance(given, str | pd.DataFrame):
        given = arrow_table(given, name)
    [group] = read_rows(given, ["id", *text, *(str(as_cell(one)) for one in text)], limits, written)
    rows = group.rows
    if values is not None and is_for_people(given):
        rows = from_cells(rows, name, values)
    whole = pa.types.is_integer(ids.type)
    known = key_text(ids, "id", "the manifest")
    one_row = "Each id has one row: keep one of them"
    missing = 'Call the column of ids "id"'
    keys = label_keys(rows, "id", name, whole, known, missing=missing, several=one_row)
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
    return rows, places.to_numpy().astype(np.int64)


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
    """Return the key column of a label table as text.

    `files` are the keys of the other side. `whole` compares whole numbers: 007 as 7. A column that
    is `missing` is refused with this advice; `several` is that for keys in several rows. A key that
    a row lacks is null.
    """
    if column not in labels.column_names:
        raise ManifestError(_no_column(labels, column, table, files, missing))
    keys = key_text(labels[column], column, table)
    keys = pc.if_else(pc.equal(keys, ""), None, keys) if len(keys) else keys
    if keys.null_count:
        rows = ", ".join(map(str, first(rows_where(pc.is_null(keys)))))
        raise ManifestError(
            f'"{column}" is missing in {count(keys.null_count, "row")} of {table}: row {rows}, '
            "counted from 0 below the header. Fill them in, or leave these rows out of the table"
        )
    keys = whole_numbers(keys) if whole else keys
    if pc.count_distinct(keys).as_py() < len(keys) - keys.null_count:
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
    """Return the message for keys in several rows: where, and with which labels."""
    rest, shown = labels.drop_columns([column]), []
    twice = repeated(keys.drop_null()).field("values")
    for key in first(twice):
        rows = rows_where(pc.fill_null(pc.equal(keys, key), False))
        numbers, differing = ", ".join(map(str, first(rows))), _differing(rest.take(rows))
        shown.append(f"{quote(key)} (rows {numbers}: {differing or 'alike'})")
    every = rest.append_column("", keys).filter(pc.is_in(keys, value_set=twice)).to_pandas()
    if len(every.astype(str).drop_duplicates()) == len(twice):  # each has the same labels in all
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
            f"{column[odd[0].as_py()].as_py():.0f} in row {odd[0]}: from 2**{digits} on, floats "
            "do not hold every whole number, so one key may match several. Read the column as "
            f"text: {_READ}, dtype={{{quote(name)}: str}})"
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


def join(
    files: pa.Table,
    labels: pa.Table,
    on: str,
    *,
    pattern: Pattern | None = None,
    unmatched: str = "error",
    keep_key: bool = False,
    table: str = "the label table",
    skipped: Mapping[str, list[str]] | None = None,
) -> RowGroup:
    """Give each file the row of the label table that has the same key.

    Keys are compared as text; `{id:int}` fields as whole numbers, so 7 is 007. Several files may
    share a row of labels; a key stands in one row of the table only. The arguments are those of
    `build_manifest`, with the `table` as messages call it, and whether to `keep_key` as a column;
    files that were `skipped` are named by messages.
    """
    field, column = split_on(on)
    every = _file_keys(files, pattern)
    if field not in every.names:
        raise ArgumentError(_no_field(every, field, labels))
    file_keys = every.compared(field, _keys_of(files, field))
    whole = pattern is not None and field in pattern.integers
    keys = label_keys(labels, column, table, whole, file_keys)
    given, labels = labels, labels.drop_columns([column])
    if clash := sorted(set(files.column_names) & set(labels.column_names)):
        raise ManifestError(
            f'the column "{clash[0]}" is in {table} and also comes from the files. Rename it in '
            "the table, or name the columns that you want with label= (--label)"
        )
    if keep_key and column not in files.column_names:
        files = files.append_column(column, file_keys)
    found = pc.index_in(file_keys, value_set=keys, skip_nulls=True)
    without_labels = pc.is_null(found)
    without_file = pc.and_(pc.is_valid(keys), pc.invert(pc.is_in(keys, value_set=file_keys)))
    counts = (pc.sum(without_labels).as_py() or 0, pc.sum(without_file).as_py() or 0)
    if any(counts) and unmatched == "error":
        words = Words(
            f'files and {table} do not match on {field} = "{column}".',
            f"files have no row in {table}",
            f"rows of {table} have no file",
        )
        sides = JoinKeys(file_keys, without_labels), JoinKeys(keys, without_file)
        more = lines_of_left_out(_left_out(skipped or {}, pattern), every, field, sides[1])
        more += lines_of_other_keys(every, given, field, column)
        raise ManifestError(join_fault(*sides, words, more=more))
    dropped = tuple[str, ...]()
    if unmatched == "drop":
        dropped = tuple(files["path"].filter(without_labels).to_pylist())
        files, found = files.filter(pc.is_valid(found)), found.drop_null()
    rows = files
    for name in labels.column_names:
        rows = rows.append_column(name, labels[name].take(found))
    if unmatched == "keep" and counts[1]:
        lost = keys.filter(without_file)
        rows = _append_without_file(rows, labels.filter(without_file), lost, (field, column))
    lonely = Lonely(counts[0], len(file_keys), "file", f"without a row in {table}")
    spare = Lonely(counts[1], len(keys), "row", f"of {table} without a file")
    shared = _shared_rows(every.files["path"], file_keys, keys, on, table)
    notes = what_became(unmatched, lonely, spare)
    return RowGroup(rows, notes=notes, warnings=shared, dropped=dropped)


def _keys_of(files: pa.Table, field: str) -> pa.ChunkedArray:
    if field in files.column_names and field != "path":
        return key_text(files[field], field, "the source")
    return pc.replace_substring_regex(files["path"], FROM_PATH[field], "")


def _file_keys(
    files: pa.Table, pattern: Pattern | None, keys_of: Callable[..., pa.ChunkedArray] = _keys_of
) -> FileKeys:
    """Return the keys that files have: fields, and what is made of their paths."""
    names = dict.fromkeys([*(n for n in files.column_names if n != "path"), *FROM_PATH])

    def compared(name: str, keys: pa.ChunkedArray) -> pa.ChunkedArray:
        return whole_numbers(keys) if pattern and name in pattern.integers else keys

    return FileKeys(files, [*names], keys_of, compared)


def _left_out(skipped: Mapping[str, list[str]], pattern: Pattern | None) -> LeftOut:
    others = {reason: paths for reason, paths in skipped.items() if reason != NO_FIT}
    if pattern is None:
        return LeftOut(others)
    return LeftOut(others, skipped.get(NO_FIT, []), pattern.text, [*_near_misses(pattern)])


def _near_misses(pattern: Pattern) -> Iterator[NearMiss]:
    text, regex = pattern.text, pattern.regex
    own = ' is for these: build with each pattern and unmatched="drop", and pandas.concat, or move '
    widened = re.sub(r"\.[A-Za-z0-9]+$", ".{_}", text)
    if widened != text:
        takes = f"; pattern={quote(widened)} takes any"
        yield NearMiss("with another extension", parse_pattern(widened).regex, takes)
    case = "; write the pattern as they are, or rename them"
    yield NearMiss("in another case", f"(?i){regex}", case)
    if pattern.integers:
        free = regex.replace("[0-9]+", "[^/]+")
        as_text = "; write the field without :int to take them as text"
        yield NearMiss("with more than digits", free, as_text)
    deeper = regex.replace(r"\A", r"\A(?:[^/]+/)+", 1)
    moved = f"; pattern={quote('{_}/' + text)}{own}them"
    yield NearMiss("in folders further below", deeper, moved)
    upper = text.partition("/")[2]
    if re.search(r"{[A-Za-z]", upper):
        moved = f"; pattern={quote(upper)}{own}them"
        yield NearMiss("one folder above", parse_pattern(upper).regex, moved)
    yield NearMiss("unlike it", r"(?s)(?P<_>.*)", "")


def _shared_rows(
    paths: pa.ChunkedArray, file_keys: pa.ChunkedArray, keys: pa.ChunkedArray, on: str, table: str
) -> tuple[str, ...]:
    """Return a warning if few rows of many label all files: the key may tell none apart.

    A table whose rows have many files each, of a patient or a video, is meant so.
    """
    rows = pc.value_counts(file_keys.filter(pc.is_in(file_keys, value_set=keys)))
    most = pc.max(rows.field("counts")).as_py() or 0
    if most <= FEW_FILES or len(rows) >= len(keys) / 2:
        return ()
    key = rows.field("values")[pc.index(rows.field("counts"), most).as_py()]
    some = first(paths.filter(pc.equal(file_keys, key)))[:3]
    labelled = pc.sum(rows.field("counts")).as_py()
    return (
        f"on={quote(on)}: {count(len(rows), 'row')} of the {len(keys):,} of {table} "
        f"{'labels' if len(rows) == 1 else 'label'} {labelled:,} "
        f"files, as {quote(key.as_py())} {most:,} files: {', '.join(map(quote, some))}, ... "
        "If they are not meant to share labels, join on a key that tells files apart. If they are, "
        "leave the rows without a file out of the table",
    )


def _no_field(files: FileKeys, field: str, labels: pa.Table) -> str:
    """Return the message on a key that files do not have."""
    near = did_you_mean(field, files.names)
    advice = f"{near} A field of the pattern, such as {{id}}, is one too"
    if field in labels.column_names:
        pair = best_pair(files, labels.select([field]))
        as_in = f'on="FIELD={field}"'
        if pair:
            as_in = f'as in on="{"=".join(pair[0])}", which matches {pair[1]}'
        advice = f" It is a column of the table: write FIELD=COLUMN, {as_in}"
    return f"on={quote(field)} is not a key of a file. Keys: {', '.join(files.names)}.{advice}"


def _append_without_file(
    rows: pa.Table, labels: pa.Table, keys: pa.ChunkedArray, key: tuple[str, str]
) -> pa.Table:
    """Add labels without a file. The key stands in for the path that nobody knows."""
    problem = pc.binary_join_element_wise(f"no file for this row of labels: {key[1]} ", keys, "")
    known = {name: labels[name] for name in labels.column_names}
    known |= {name: keys for name in key if name in rows.column_names}
    known |= {"path": keys, "problem": problem}
    rows = rows.append_column("problem", pa.nulls(len(rows), pa.string()))
    extra = [known.get(field.name, pa.nulls(len(labels), field.type)) for field in rows.schema]
    return pa.concat_tables([rows, pa.table(extra, schema=rows.schema)])
