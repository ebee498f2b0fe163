"""Join files with a table of labels: by a key that both have, never by position."""

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, did_you_mean
from dfgen.manifest.key_mismatch import JoinKeys, Words, explain, what_became
from dfgen.manifest.schema import first, quote, repeated, rows_where
from dfgen.manifest.sources.path_pattern import Pattern
from dfgen.manifest.sources.source import RowGroup

FROM_PATH = {"name": r"(?s)^.*/", "stem": r"(?s)^.*/|\.[^./]*$", "relpath": r"\A\z"}
"""Key made of a path below the folder -> what is cut off from it."""


def split_on(on: str) -> tuple[str, str]:
    """Return field and column of `FIELD[=COLUMN]`.

    Example:
        >>> split_on("id=object_id"), split_on("stem")
        (('id', 'object_id'), ('stem', 'stem'))
    """
    field, _, column = on.partition("=")
    if not field:
        raise ArgumentError(f"on={quote(on)}: expected FIELD or FIELD=COLUMN, as in id=object_id")
    return field, column or field


def join(
    files: pa.Table,
    labels: pa.Table,
    on: str,
    *,
    pattern: Pattern | None = None,
    unmatched: str = "error",
    keep_key: bool = False,
    table: str = "the label table",
) -> RowGroup:
    """Give each file the row of the label table that has the same key.

    Keys are compared as text; `{id:int}` fields as whole numbers, so 7 is 007. Several files may
    share a row of labels; a key stands in one row of the table only.

    Args:
        files: rows with `path` relative to the folder, and the pattern's fields as text.
        labels: the label table.
        on: `FIELD[=COLUMN]`: a field of the pattern, `name` (a.jpg), `stem` (a) or `relpath`
            (cats/a.jpg) of the file, and the column of the table; by default of the same name.
        pattern: the pattern that made the fields.
        unmatched: `"error"`; `"keep"`: files without labels get missing values, labels without a
            file become rows at the end whose `problem` says so; `"drop"`: both are left out.
        keep_key: keep the key as the column that it was in the table.
        table: how messages call the label table.
    """
    field, column = split_on(on)
    whole = pattern is not None and field in pattern.integers
    file_keys = _file_keys(files, field)
    file_keys = _whole(file_keys) if whole else file_keys
    label_keys = _label_keys(labels, column, table, whole)
    labels = labels.drop_columns([column])
    _check_names(files, labels, table)
    if keep_key and column not in files.column_names:
        files = files.append_column(column, file_keys)
    found = pc.index_in(file_keys, value_set=label_keys)
    without_labels = pc.is_null(found)
    without_file = pc.invert(pc.is_in(label_keys, value_set=file_keys))
    counts = (pc.sum(without_labels).as_py() or 0, pc.sum(without_file).as_py() or 0)
    if any(counts) and unmatched == "error":
        words = Words(
            f'files and {table} do not match on {field} = "{column}".',
            f"files have no row in {table}",
            f"rows of {table} have no file",
        )
        sides = JoinKeys(file_keys, without_labels), JoinKeys(label_keys, without_file)
        raise ManifestError(explain(*sides, words))
    if unmatched == "drop":
        files, found = files.filter(pc.is_valid(found)), found.drop_null()
    rows = files
    for name in labels.column_names:
        rows = rows.append_column(name, labels[name].take(found))
    if unmatched == "keep" and counts[1]:
        keys = label_keys.filter(without_file)
        rows = _append_without_file(rows, labels.filter(without_file), keys, (field, column))
    lonely = (counts[0], "file", f"without a row in {table}")
    lost = (counts[1], "row", f"of {table} without a file")
    return RowGroup(rows, notes=what_became(unmatched, lonely, lost))


def _check_names(files: pa.Table, labels: pa.Table, table: str) -> None:
    clash = sorted(set(files.column_names) & set(labels.column_names))
    if clash:
        raise ManifestError(
            f'the column "{clash[0]}" is in {table} and also comes from the files. Rename it in '
            "the table, or name the columns that you want with label= (--label)"
        )


def _file_keys(files: pa.Table, field: str) -> pa.ChunkedArray:
    fields = [name for name in files.column_names if name != "path"]
    if field in fields:
        return key_text(files[field], field, "the source")
    if field in FROM_PATH:
        return pc.replace_substring_regex(files["path"], FROM_PATH[field], "")
    known = [*fields, *FROM_PATH]
    raise ArgumentError(
        f"on={quote(field)} is not a key of a file. Keys: {', '.join(known)}."
        f"{did_you_mean(field, known)} A field of the pattern, such as {{id}}, is one too"
    )


def _label_keys(labels: pa.Table, column: str, table: str, whole: bool) -> pa.ChunkedArray:
    """Return the key column as text, each key once."""
    names = labels.column_names
    if column not in names:
        hint = did_you_mean(column, names)
        if len(names) == 1:
            hint += " It has one column only: are its values separated by something else?"
        raise ManifestError(
            f'{table} has no column "{column}" to join on. Columns: {", ".join(names)}.{hint} '
            "Write on=FIELD=COLUMN (--on FIELD=COLUMN)"
        )
    keys = key_text(labels[column], column, table)
    empty = rows_where(pc.is_null(keys))
    if len(empty):
        raise ManifestError(
            f'{len(empty)} rows of {table} have no "{column}": row '
            f"{', '.join(map(str, first(empty)))}, counted from 0 below the header. "
            "Fill them in, or leave these rows out of the table"
        )
    keys = _whole(keys) if whole else keys
    if pc.count_distinct(keys).as_py() < len(keys):
        twice = repeated(keys)
        examples = ", ".join(
            f"{quote(pair['values'])} ({pair['counts']} times)" for pair in first(twice)
        )
        raise ManifestError(
            f'{len(twice)} keys stand in several rows of {table}, column "{column}": '
            f"{examples}. A file can have the labels of one row only: keep one row a key, or join "
            "on a column that tells them apart"
        )
    return keys


def key_text(column: pa.ChunkedArray, name: str, table: str) -> pa.ChunkedArray:
    """Return a key column as text; whole numbers that pandas made floats lose their `.0`."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        if pa.types.is_floating(column.type):
            column = column.cast(pa.int64())
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ManifestError(
            f'column "{name}" of {table} has type {column.type}: keys are text or whole numbers'
        ) from None


def _whole(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole numbers in one spelling: 007 as 7."""
    return pc.replace_substring_regex(keys, r"^0+([0-9])", r"\1")


def _append_without_file(
    rows: pa.Table, labels: pa.Table, keys: pa.ChunkedArray, key: tuple[str, str]
) -> pa.Table:
    """Add labels without a file. The key stands in for the path that nobody knows."""
    known = {name: labels[name] for name in labels.column_names}
    known |= {name: keys for name in key if name in rows.column_names}
    known |= {
        "path": keys,
        "problem": pc.binary_join_element_wise(
            f"no file for this row of labels: {key[1]} ", keys, ""
        ),
    }
    rows = rows.append_column("problem", pa.nulls(len(rows), pa.string()))
    extra = [known.get(field.name, pa.nulls(len(labels), field.type)) for field in rows.schema]
    return pa.concat_tables([rows, pa.table(extra, schema=rows.schema)])
