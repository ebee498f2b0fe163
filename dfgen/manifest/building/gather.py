"""From a recipe to rows: read the source, join the labels, choose the id."""

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, did_you_mean, quote
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.join import join, key_text
from dfgen.manifest.building.recipe import OF_TABLE, Recipe
from dfgen.manifest.file_errors import naming
from dfgen.manifest.paths import is_address, tidied, tidy
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    PARTS,
    files_column,
    repeated,
    validate,
    with_column,
)
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.label_table import WHOLE, read_labels
from dfgen.manifest.sources.path_pattern import Pattern, parse_pattern
from dfgen.manifest.sources.source import ANNOTATED, Rows
from dfgen.table.arrow_types import is_text
from dfgen.table.file_columns import are_files, is_file_struct, paths_of, with_paths


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
        if is_text(column.type) and pc.all(pc.match_substring_regex(column, WHOLE)).as_py():
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
    for argument, name in (*asked, *recipe.splitting.named.items()):
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
    is_id = is_text(ids.type) or pa.types.is_integer(ids.type)  # else `validate` raises
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
    elif is_file_struct(files.type):  # some may be paths
        paths, data = paths_of(files), pc.struct_field(files, "bytes")
        absolute = tidy(paths.cast(pa.string()), folder).cast(paths.type)
        files = with_paths(files, pc.if_else(pc.is_null(data), absolute, paths))
    return with_column(table, name, files)
