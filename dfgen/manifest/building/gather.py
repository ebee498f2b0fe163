"""From a recipe to rows: scan the source, join the labels, settle the id."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from dfgen.errors import ArgumentError, ManifestError, did_you_mean
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.join import join, split_on
from dfgen.manifest.building.label_keys import key_text
from dfgen.manifest.building.recipe import LABEL_TABLE, Recipe
from dfgen.manifest.file_errors import TOLD, fault_of
from dfgen.manifest.path_roots import is_address
from dfgen.manifest.paths import tidied
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    PARTS,
    Label,
    files_column,
    quote,
    repeated,
    with_column,
)
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.label_table import read_rows, table_name
from dfgen.manifest.sources.path_pattern import Pattern, parse_pattern
from dfgen.manifest.sources.source import ANNOTATED, RowGroup
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.table.file_columns import are_files, paths_of

Groups = Iterator[RowGroup]

_PLAIN_INTEGER = r"\A(?:0|-?[1-9][0-9]{0,17})\z"


def gather_rows(
    recipe: Recipe, limits: Limits = DEFAULT, options: StorageOptions | None = None
) -> RowGroup:
    """Return the rows that a recipe describes, with paths as the source gives them."""
    pattern = parse_pattern(recipe.pattern) if recipe.pattern is not None else None
    labels = pa.table({}) if recipe.labels is None else _read_labels(recipe, limits)
    wanted = _wanted(labels, recipe)
    if recipe.labels is not None:
        _refuse_facts(wanted, recipe, _name(recipe))
    if recipe.kind == LABEL_TABLE:
        _check_names(recipe, labels.column_names)
        gathered = RowGroup(_with_paths_of_table(wanted, recipe), folder=recipe.folder)
    else:
        given = {"pattern": pattern, "limits": limits, "options": options}
        gathered = _read_source(recipe, labels.column_names, given)
    if recipe.on is not None:
        joined = join(
            gathered.rows,
            wanted,
            recipe.on,
            pattern=pattern,
            unmatched=recipe.unmatched,
            keep_key=_key(recipe) in _named(recipe),
            table=_name(recipe),
            skipped=gathered.skipped,
        )
        notes = gathered.notes + joined.notes
        gathered = replace(gathered, rows=joined.rows, notes=notes, warnings=joined.warnings)
    table = gathered.rows
    if "path" in table.column_names and not is_address(gathered.folder):
        table = with_column(table, "path", tidied(table["path"]))
    for name in ("problem", "polygons"):  # which a source does not know beforehand
        if name in table.column_names and table[name].null_count == len(table):
            table = table.drop_columns([name])
    if pattern is not None:
        for name in pattern.integers:
            table = with_column(table, name, pattern.convert(name, table[name]))
    return replace(gathered, rows=_with_id(table, recipe, pattern))


def _name(recipe: Recipe) -> str:
    return table_name(recipe.labels)


def _key(recipe: Recipe) -> str:
    """Return the column of the label table that names files."""
    return split_on(recipe.on)[1] if recipe.on is not None else recipe.path_column or ""


def _read_labels(recipe: Recipe, limits: Limits) -> pa.Table:
    text = [_key(recipe), recipe.id or "id"]
    [group] = _named_faults(recipe, LABEL_TABLE, read_rows, recipe.labels, text, limits)
    return group.rows


def _named_faults(recipe: Recipe, kind: str, read: Any, *given: Any, **own: Any) -> Groups:
    """Yield the groups of a source; whatever it raises is told as a fault of what it reads."""
    try:
        yield from read(*given, **own)
    except TOLD:
        raise
    except Exception as error:  # of a reader, which may be anybody's
        place = _name(recipe) if kind == LABEL_TABLE else recipe.own[kind]
        raise fault_of(error, f"{kind}={place}") from error


def _check_names(recipe: Recipe, known: list[str]) -> None:
    """Check that every column that the recipe names exists."""
    asked: list[tuple[str, str | None]] = [("label", name) for name in recipe.label]
    asked += [("category", name) for name in recipe.category]
    asked += [("id", recipe.id)]
    asked += [("path_column", recipe.path_column)] * (recipe.kind == LABEL_TABLE)
    asked += recipe.splitting.named.items()
    for argument, name in asked:
        if name is not None and name not in known:
            raise ArgumentError(
                f"{argument}={quote(name)} is not a column.{did_you_mean(name, known)} Columns: "
                f"{', '.join(known) or 'none; a pattern or a label table makes some'}"
            )


def _wanted(labels: pa.Table, recipe: Recipe) -> pa.Table:
    """Return the columns of the table that the recipe names, or all if it names no labels."""
    if recipe.label:
        wanted = {*_named(recipe), _key(recipe), *PARTS}
        labels = labels.select([name for name in labels.column_names if name in wanted])
    return labels


def _refuse_facts(table: pa.Table, recipe: Recipe, where: str) -> None:
    """Raise if a column is one that the files fill."""
    filled = [name for name in table.column_names if name in FACTS and name != "problem"]
    if recipe.facts != "full":
        filled = [name for name in filled if name not in OF_WHOLE_FILES]
    if filled and recipe.facts != "none":
        raise ManifestError(
            f'the column "{filled[0]}" of {where} is one that dfgen fills from the files. '
            "Rename it, name the columns that you want with label= (--label), or let dfgen fill "
            'none with facts="none" (--facts none)'
        )


def _named(recipe: Recipe) -> set[str | None]:
    """Return the columns that the recipe names for more than a join."""
    named = recipe.splitting.named.values()
    return {recipe.id or "id", *named, *recipe.label, *recipe.category}


def _with_paths_of_table(labels: pa.Table, recipe: Recipe) -> pa.Table:
    """Return a label table that names its files with these in the column `path`.

    One that holds them stays as it is.
    """
    name = recipe.path_column or ""
    if are_files(labels[name].type):
        return labels
    paths = key_text(labels[name], name, _name(recipe))
    labels = labels.drop_columns([name])
    if "path" in labels.column_names:
        raise ManifestError(
            f"path_column={quote(name)} (--path-column), but {_name(recipe)} also has a column "
            '"path". Rename that one, or leave it out with label= (--label)'
        )
    return labels.append_column("path", paths)


def _read_source(recipe: Recipe, labels: list[str], more: dict[str, Any]) -> RowGroup:
    """Gather the row groups of the source, telling how far it is."""
    parts, skipped, notes = list[pa.Table](), defaultdict[str, list[str]](list), tuple[str, ...]()
    known, folder = dict[str, Label](), recipe.folder
    source = SOURCES[recipe.kind]
    given = vars(recipe) | more
    shared = {name: given[name] for name in source.shared}
    own = {name: recipe.own[name] for name in source.arguments}
    with tqdm(desc="Reading rows", unit=" rows", disable=None) as bar:
        place = recipe.own[recipe.kind]
        for group in _named_faults(recipe, recipe.kind, source.read, place, **own, **shared):
            if not parts:  # all have the same columns: wrong names are refused before the work
                _check_columns(group, recipe, labels)
            parts.append(group.rows)
            for reason, paths in group.skipped.items():
                skipped[reason] += paths
            notes += group.notes
            known |= group.labels
            folder = group.folder or folder
            bar.total = group.total
            bar.update(len(group.rows))
    return RowGroup(pa.concat_tables(parts), dict(skipped), notes, known, folder, facts=group.facts)


def _check_columns(group: RowGroup, recipe: Recipe, labels: list[str]) -> None:
    """Raise if the source lacks a column that the recipe names, or gives one that files fill."""
    rows = group.rows.drop_columns([*group.facts])
    known = [*rows.column_names, *labels]
    _check_names(recipe, [name for name in known if name not in ("path", *ANNOTATED)])
    if not SOURCES[recipe.kind].gives_facts:
        _refuse_facts(rows, recipe, str(recipe.own[recipe.kind]))


def _with_id(table: pa.Table, recipe: Recipe, pattern: Pattern | None) -> pa.Table:
    """Put the id first: the column asked for, else `id`, else the path."""
    name = recipe.id or ("id" if "id" in table.column_names else "path")
    ids = _paths_as_ids(table) if name not in table.column_names else table[name]
    if name != "path" and name in table.column_names:
        table = table.drop_columns([name])
    if "id" in table.column_names:
        raise ManifestError(
            f'id={quote(name)} (--id), but there is a column "id" as well. Rename that one, or '
            "leave id out"
        )
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    if pattern is not None and name in pattern.fields:
        _check_own(ids, name, pattern)
    if name not in (*(pattern.fields if pattern else ()), "path", _key(recipe)):
        ids = _whole_if_plain(ids)
    return table.add_column(0, "id", ids)


def _check_own(ids: pa.ChunkedArray, name: str, pattern: Pattern) -> None:
    """Refuse a field of the pattern that is to be the id, and is the same in several paths."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    twice = repeated(ids)
    raise ManifestError(
        f"the field {{{name}}} of the pattern {quote(pattern.text)} is the same in several paths, "
        f"as {quote(twice.field('values')[0].as_py())} in {twice.field('counts')[0]}, expected the "
        "id of one row: where names repeat in other folders call it otherwise, "
        f"{quote(pattern.text.replace('{' + name, '{file'))}, and the paths are the ids"
    )


def _paths_as_ids(table: pa.Table) -> pa.ChunkedArray:
    """Return the paths beside the bytes that a table holds, where each row has another."""
    paths = paths_of(table[files_column(table.schema)])
    if paths is None or pc.count_distinct(paths).as_py() < len(paths):
        raise ManifestError(
            "the rows have no ids: there is no column id, and no path beside the bytes of each "
            f"that is its own. Name the column that tells them apart, id= (--id). Columns: "
            f"{', '.join(table.column_names)}"
        )
    return paths


def _whole_if_plain(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ids that were read as text as int64 if no digit is lost by it."""
    if not pa.types.is_string(ids.type):
        return ids
    plain = pc.all(pc.match_substring_regex(ids, _PLAIN_INTEGER)).as_py()
    return ids.cast(pa.int64()) if plain and not ids.null_count else ids
