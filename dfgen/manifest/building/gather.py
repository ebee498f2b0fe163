"""From a recipe to rows: read the source, join the labels, choose the id.

Files and labels are joined by a key that both have, as text, never by position.
"""

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, did_you_mean, first, quote
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.recipe import OF_TABLE, Recipe, split_on
from dfgen.manifest.mismatch import JoinSide, check_partners
from dfgen.manifest.paths import is_address, tidied, tidy
from dfgen.manifest.reading import naming
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    PARTS,
    files_column,
    repeated,
    rows_where,
    validate,
    with_column,
)
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.file_tree import FROM_PATH, Pattern, parse_pattern
from dfgen.manifest.sources.label_table import WHOLE, read_labels
from dfgen.manifest.sources.source import ANNOTATED, Rows
from dfgen.table.arrow_types import TEXT, are_files, paths_of, with_paths


def gather(recipe: Recipe, access: Access) -> Rows:
    """Return the rows of a recipe, with id, absolute paths and the labels that it names."""
    pattern = None if recipe["pattern"] is None else parse_pattern(recipe["pattern"])
    labels = _labels(recipe, access)
    rows = Rows(pa.table({}), recipe.folder)
    if recipe.kind != OF_TABLE:
        rows = _source(recipe, pattern, access)
        _refuse_facts(rows.table, recipe, f"{recipe.kind}={recipe[recipe.kind]}")
    of_source = [name for name in rows.table.column_names if name not in ("path", *ANNOTATED)]
    _check_names([*of_source, *labels.column_names], recipe)
    if recipe["label"]:
        wanted = {*recipe.columns, recipe.key, *PARTS}
        labels = labels.select([name for name in labels.column_names if name in wanted])
    _refuse_facts(labels, recipe, recipe.table)
    table = _files_of(labels, recipe) if recipe.kind == OF_TABLE else rows.table
    if recipe["on"] is not None:
        table = join(table, labels, recipe, pattern)
    if not len(table):
        why = 'no file has labels or annotations. unmatched="error" names them'
        why = f"{recipe.table} is empty" if recipe.kind == OF_TABLE else why
        raise ManifestError(f"there are no rows: {why}")
    if "path" in table.column_names and not is_address(rows.folder):
        table = with_column(table, "path", tidied(table["path"]))
    if "problem" in table.column_names and table["problem"].null_count == len(table):
        table = table.drop_columns(["problem"])
    if pattern is not None:
        for name in pattern.integers:
            table = with_column(table, name, pattern.convert(name, table[name]))
    table = _with_id(table, recipe, pattern)
    validate(table)
    table = _with_absolute_paths(table, rows.folder)
    return Rows(table, rows.folder, rows.labels, rows.relative, rows.listed)


def _labels(recipe: Recipe, access: Access) -> pa.Table:
    """Return the label table; without columns if there is none."""
    if recipe["labels"] is None:
        return pa.table({})
    text = [recipe.key, recipe["id"] or "id", *recipe["category"]]
    with naming(f"labels={recipe.table}"):
        table = read_labels(recipe["labels"], text, access.limits, recipe.format)
    for name in recipe["category"] if isinstance(recipe["labels"], str) else ():
        column = table[name] if name in table.column_names else pa.chunked_array([[""]])
        if column.type in TEXT and pc.all(pc.match_substring_regex(column, WHOLE)).as_py():
            table = with_column(table, name, column.cast(pa.int64()))
    return table


def _source(recipe: Recipe, pattern: Pattern | None, access: Access) -> Rows:
    read = SOURCES[recipe.kind]
    more = {"pattern": pattern, "limits": access.limits, "options": access.options}
    names = [name for name in read.__annotations__ if name != "return"]
    with naming(f"{recipe.kind}={recipe[recipe.kind]}"):
        return read(**{name: more[name] if name in more else recipe[name] for name in names})


def _check_names(known: list[str], recipe: Recipe) -> None:
    """Raise if the recipe names a column that does not exist."""
    asked = [("label", name) for name in recipe["label"]]
    asked += [("category", name) for name in recipe["category"]]
    asked += [("id", recipe["id"]), ("path_column", recipe["path_column"])]
    _check_columns([*asked, *recipe.splitting.named.items()], known)


def _check_columns(asked: list[tuple[str, str | None]], known: list[str]) -> None:
    for argument, name in asked:
        if name is not None and name not in known:
            one = ". Is the table separated by another character? Give sep=" * (len(known) == 1)
            raise ArgumentError(
                f"{argument}={quote(name)} is not a column.{did_you_mean(name, known)} Columns: "
                f"{', '.join(known) or 'none; a pattern or a label table makes some'}{one}"
            )


def _refuse_facts(table: pa.Table, recipe: Recipe, where: str) -> None:
    """Raise if a table has columns that the files fill."""
    filled = [name for name in table.column_names if name in FACTS and name != "problem"]
    if recipe["facts"] != "full":
        filled = [name for name in filled if name not in OF_WHOLE_FILES]
    if filled and recipe["facts"] != "none":
        raise ManifestError(
            f'the column "{filled[0]}" of {where} is a fact that dfgen reads from files. Rename '
            "it, name the columns that you want with label= (--label), or read no facts with "
            'facts="none" (--facts none)'
        )


def _files_of(labels: pa.Table, recipe: Recipe) -> pa.Table:
    """Return the rows of a label table that names its files, or holds them."""
    name = recipe.key
    if are_files(labels[name].type):
        return labels
    paths = key_text(labels[name], name, recipe.table)
    labels = labels.drop_columns([name])
    if "path" in labels.column_names:
        raise ManifestError(
            f"path_column={quote(name)} (--path-column), but {recipe.table} also has a column "
            '"path". Rename that column, or leave it out with label= (--label)'
        )
    return labels.append_column("path", paths)


def _with_id(table: pa.Table, recipe: Recipe, pattern: Pattern | None) -> pa.Table:
    """Put the id first: the column asked for, else `id`, else the path."""
    fields = pattern.fields if pattern else ()
    name = recipe["id"] or ("id" if "id" in table.column_names else "path")
    ids = table[name] if name in table.column_names else _held_paths(table)
    if name != "path" and name in table.column_names:
        table = table.drop_columns([name])
    if "id" in table.column_names:
        raise ManifestError(
            f'id={quote(name)} (--id), but there is a column "id" as well. Rename that column, or '
            "leave id= out"
        )
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    is_id = ids.type in TEXT or pa.types.is_integer(ids.type)  # else `validate` raises
    if is_id and pc.count_distinct(ids).as_py() < len(ids) - ids.null_count:
        twice = repeated(ids.drop_null())[0].as_py()
        raise ManifestError(
            f"{twice['counts']} rows have the {name} {quote(twice['values'])}: name the column of "
            "unique ids with id= (--id), or keep one row for each file. Without id=, {id} in the "
            "pattern and a column id, paths are the ids. Columns: "
            f"{', '.join(dict.fromkeys([*table.column_names, name]))}"
        )
    of_file = isinstance(recipe["labels"], str) and name not in (*fields, "path", recipe.key)
    if of_file and pa.types.is_string(ids.type) and not ids.null_count:
        plain = pc.all(pc.match_substring_regex(ids, WHOLE)).as_py()
        ids = ids.cast(pa.int64()) if plain else ids
    return table.add_column(0, "id", ids)


def _held_paths(table: pa.Table) -> pa.ChunkedArray:
    """Return the paths beside the bytes of files that a table holds, if they are unique."""
    paths = paths_of(table[files_column(table.schema)])
    if paths is None or pc.count_distinct(paths).as_py() < len(paths):
        raise ManifestError(
            "the rows have no ids: there is no column id, and no unique path beside the bytes. "
            f"Name the column that identifies rows, id= (--id). Columns: "
            f"{', '.join(table.column_names)}"
        )
    return paths


def _with_absolute_paths(table: pa.Table, folder: str) -> pa.Table:
    name = files_column(table.schema) or "path"
    files = table[name]
    if name == "path":
        files = tidy(files.cast(pa.string()), folder)
    elif pa.types.is_struct(files.type):  # some may be paths
        paths, data = paths_of(files), pc.struct_field(files, "bytes")
        absolute = tidy(paths.cast(pa.string()), folder).cast(paths.type)
        files = with_paths(files, pc.if_else(pc.is_null(data), absolute, paths))
    return with_column(table, name, files)


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
    _check_columns([("on", column)], labels.column_names)
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
