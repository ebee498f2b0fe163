"""Join files with a label table by a key that both have, as text, never by position."""

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, column_list, did_you_mean, first, quote
from dfgen.manifest.building.recipe import Recipe, split_on
from dfgen.manifest.mismatch import JoinSide, check_partners
from dfgen.manifest.schema import repeated, rows_where
from dfgen.manifest.sources.path_pattern import FROM_PATH, Pattern


def join(files: pa.Table, labels: pa.Table, recipe: Recipe, pattern: Pattern | None) -> pa.Table:
    """Return each file with the labels of the row that has the same key.

    Keys are compared as text, `{id:int}` fields as whole numbers. Several files may share a row of
    labels, but a key is in one row of the table only. It stays a column if an argument names it.
    """
    on, table, unmatched = recipe["on"], recipe.table, recipe["unmatched"]
    field, column = split_on(on)
    names = [*dict.fromkeys([*(name for name in files.column_names if name != "path"), *FROM_PATH])]
    if field not in names:
        raise ArgumentError(
            f"on={quote(on)}: {quote(field)} is not a key of files. Keys: {', '.join(names)}. "
            f"Write on=FIELD=COLUMN, with such a key and a column of {table}, or name a part of "
            f"the path in the pattern, as {{{field}}}.{did_you_mean(field, names)}"
        )
    if field in files.column_names and field != "path":
        keys = key_text(files[field], field, "the source")
    else:
        keys = pc.replace_substring_regex(files["path"], FROM_PATH[field], "")
    of_labels = _label_keys(labels, column, table)
    if pattern is not None and field in pattern.integers:
        keys, of_labels = (
            pc.replace_substring_regex(each, r"^0+([0-9])", r"\1")  # 007 as 7
            for each in (keys, of_labels)
        )
    _refuse_repeated(of_labels, column, table)
    labels = labels.drop_columns([column])
    if clash := sorted({*files.column_names} & {*labels.column_names}):
        raise ManifestError(
            f'the column "{clash[0]}" is in {table} and also comes from the files. Rename it in '
            "the table, or name the columns that you want with label= (--label)"
        )
    if column in recipe.columns and column not in files.column_names:
        files = files.append_column(column, keys)
    places = pc.index_in(keys, value_set=of_labels, skip_nulls=True)
    alone, lost = pc.is_null(places), pc.invert(pc.is_in(of_labels, value_set=keys))
    sides = (
        JoinSide(keys, alone, f"files have no row in {table}"),
        JoinSide(of_labels, lost, f"rows of {table} have no file"),
    )
    title = f'files and {table} do not match on {field} = "{column}".'
    check_partners(unmatched, title, *sides)
    if unmatched == "drop":
        files, places = files.filter(pc.is_valid(places)), places.drop_null()
    for name in labels.column_names:
        files = files.append_column(name, labels[name].take(places))
    if unmatched == "keep" and pc.any(lost).as_py():
        files = _with_lost(files, labels.filter(lost), of_labels.filter(lost), (field, column))
    return files


def key_text(column: pa.ChunkedArray, name: str, table: str) -> pa.ChunkedArray:
    """Return a key column as text; whole numbers that pandas made floats lose their `.0`."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        if pa.types.is_floating(column.type):
            _refuse_rounded(column, name, table)
            column = column.cast(pa.int64())
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ManifestError(
            f'column "{name}" of {table} has type {column.type}, expected keys that are text or '
            f"whole numbers: name the column of the keys, or convert it with pandas ({error})"
        ) from None


def _refuse_rounded(column: pa.ChunkedArray, name: str, table: str) -> None:
    """Raise if a number is so large that floats do not hold each whole number."""
    most = 2.0 ** {16: 11, 32: 24, 64: 53}[column.type.bit_width]
    sizes = pc.abs(column.cast(pa.float64()))
    odd = rows_where(pc.and_(pc.is_finite(sizes), pc.greater_equal(sizes, most)))
    if len(odd):
        row = odd[0].as_py()
        raise ManifestError(
            f'column "{name}" of {table} has type {column.type} and {column[row].as_py():.0f} in '
            f"row {row}: from {most:.0f} on, floats do not hold each whole number, so one key may "
            f"match several. Read the column as text: dtype={{{quote(name)}: str}} in pandas"
        )


def _label_keys(labels: pa.Table, column: str, table: str) -> pa.ChunkedArray:
    """Return the key column of a label table as text."""
    names = labels.column_names
    if column not in names:
        one = f" Is it separated by another character? Give sep=, as in sep={quote(';')}"
        raise ManifestError(
            f'{table} has no column "{column}". Columns: {column_list(map(quote, names))}.'
            f"{did_you_mean(column, names)}"
            + (one if len(names) == 1 else " Write on=FIELD=COLUMN (--on FIELD=COLUMN)")
        )
    keys = key_text(labels[column], column, table)
    empty = pc.or_kleene(pc.is_null(keys), pc.equal(keys, ""))
    if rows := first(rows_where(empty)):
        raise ManifestError(
            f'"{column}" is missing in {pc.sum(empty).as_py():,} of {len(keys):,} rows of {table}: '
            f"row {', '.join(map(str, rows))}, counted from 0 below the header. Fill them in, or "
            "leave these rows out of the table"
        )
    return keys


def _refuse_repeated(keys: pa.ChunkedArray, column: str, table: str) -> None:
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    twice = repeated(keys).field("values")
    rows = {key: first(rows_where(pc.equal(keys, key))) for key in twice[:3].to_pylist()}
    shown = "; ".join(f"{quote(key)} (rows {', '.join(map(str, rows[key]))})" for key in rows)
    raise ManifestError(
        f"column {quote(column)} of {table} has the same key in several rows: {shown}"
        f"{' and others' * (len(twice) > 3)}. "
        "Rows are counted from 0 below the header. A file has the labels of one row: keep one row "
        f"for each key, labels.drop_duplicates({quote(column)}), or join on a column of unique keys"
    )


def _with_lost(
    rows: pa.Table, labels: pa.Table, keys: pa.ChunkedArray, key: tuple[str, str]
) -> pa.Table:
    """Add labels without a file. The key replaces the unknown path."""
    problem = pc.binary_join_element_wise(f"no file for this row of labels: {key[1]} ", keys, "")
    known = {name: labels[name] for name in labels.column_names}
    known |= {name: keys for name in key if name in rows.column_names}
    known |= {"path": keys, "problem": problem}
    rows = rows.append_column("problem", pa.nulls(len(rows), pa.string()))
    extra = [known.get(field.name, pa.nulls(len(labels), field.type)) for field in rows.schema]
    return pa.concat_tables([rows, pa.table(extra, schema=rows.schema)])
