"""From a recipe to a manifest: source, join, facts, boxes, old rows, split, write."""

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, MissingFileError
from dfgen.explain.missing_paths import Begin, advice, near
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.box_columns import place_boxes
from dfgen.manifest.building.categories import to_categories, to_category
from dfgen.manifest.building.gather import gather_rows
from dfgen.manifest.building.recipe import LABEL_TABLE, Recipe, paths_named, unit_of
from dfgen.manifest.building.scan import NOT_THERE, PANDAS_TYPES, read_facts, refresh_facts
from dfgen.manifest.building.summary import BuildReport, lines_of_skipped
from dfgen.manifest.building.update import Growth, grow
from dfgen.manifest.io import attributes, write_manifest
from dfgen.manifest.not_a_manifest import check_out
from dfgen.manifest.outside_paths import reach_of, say_outside
from dfgen.manifest.paths import is_url, refuse_signatures, stored_paths, tidy
from dfgen.manifest.row_matching import Old, changed_recipe, rebase
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    PARTS,
    describe_labels,
    files_column,
    has_whole_facts,
    label_columns,
    quote,
    validate,
    with_column,
    without,
)
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.source import RowGroup
from dfgen.manifest.splitting.absent_classes import lacking_rows
from dfgen.manifest.splitting.shared_paths import leaks_between_splits, notes_of
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, scheme_of, without_store
from dfgen.system import only_writer
from dfgen.table.file_columns import are_files, is_file_struct, paths_of, with_paths
from dfgen.table.from_pandas import to_frame

ReadFacts = Callable[[pa.ChunkedArray], pa.Table]


def run_recipe(
    recipe: Recipe,
    out: str | None = None,
    workers: int | None = None,
    old: Old | None = None,
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
) -> tuple[pd.DataFrame, BuildReport]:
    """Build the manifest of a recipe; return it with a report of what was left out or is amiss.

    `build_manifest` turns the warnings of the report into Python's, the command prints them. Of the
    manifest that grows, only files that are new or changed since are opened. A second run with the
    same `out` is refused as long as the first lives.
    """
    if out is not None:
        check_out(out, options)
    near = out is not None and not has_store(scheme_of(out))
    with only_writer(os.path.abspath(out or "")) if near else nullcontext():
        return _run(recipe, out, workers, old, limits, options)


def _run(
    recipe: Recipe,
    out: str | None,
    workers: int | None,
    old: Old | None,
    limits: Limits,
    options: StorageOptions | None,
) -> tuple[pd.DataFrame, BuildReport]:
    if old is not None:
        _refuse_order(recipe)
    gathered = _gathered(recipe, limits, options)
    if out is not None:  # before hours of reading
        refuse_signatures(gathered.rows)
    labels = describe_labels(gathered.rows, gathered.labels)
    _, root = stored_paths(gathered.rows, recipe.root, gathered.folder)
    if recipe.root is None:  # else all lie in that
        _say_outside(recipe, gathered.rows)
    warnings = gathered.warnings
    if old is not None:
        old, said = _old_rows(old, recipe, gathered.rows, root)
        warnings += said
    listed = gathered.rows.select(["path", *gathered.facts]) if gathered.facts else None
    reading: dict[str, Any] = {"workers": workers, "limits": limits, "options": options}
    reading |= {"listed": listed, "full": recipe.facts == "full"}
    read = None if recipe.facts == "none" else partial(_read_facts, old=old, **reading)
    grown = Growth(_settle(gathered, read, recipe), labels, {})
    if old is not None:
        grown = grow(grown.table, labels, old, read, {"split", recipe.splitting.column})
        warnings += grown.warnings
    frame = _to_frame(grown.table)
    frame = frame.assign(**_parts(frame, recipe, grown.parts))
    ordered = _order(list(frame.columns), recipe)
    kept = {name: grown.labels[name] for name in label_columns(ordered)}
    how = recipe.splitting
    if how.column in frame:
        warnings += lacking_rows(frame, list(kept), how, ours=recipe.divides)
    frame = frame[ordered]
    if _box_format(kept):
        kept["boxes"] = {**kept["boxes"], "box_format": "xyxy"}
    leaks = leaks_between_splits(frame)
    warnings += notes_of(leaks, frame)
    frame.attrs = {"dfgen": attributes(root, kept, recipe.arguments(), leaks)}
    if out is not None:
        write_manifest(frame, out, recipe.root, options.values() if options else None)
    return frame, BuildReport(gathered.skipped, gathered.notes, warnings)


def _say_outside(recipe: Recipe, rows: pa.Table) -> None:
    """Tell of files that lie elsewhere than what the recipe names; a frame in hand is trusted."""
    name, named = files_column(rows.schema) or "path", paths_named(recipe.arguments())
    files = rows[name]
    if not named or (name != "path" and not is_file_struct(files.type)):
        return
    if name != "path":
        held = pc.is_valid(pc.struct_field(files, "bytes"))
        files = paths_of(files).filter(pc.invert(held))
    who = recipe.labels if recipe.kind == LABEL_TABLE else recipe.own[recipe.kind]
    say_outside(str(who), files.cast(pa.string()), map(reach_of, named), "root={} (--root)")


def _refuse_order(recipe: Recipe) -> None:
    """Refuse to let a manifest grow that is split by time."""
    if recipe.order is not None:
        raise ArgumentError(
            f"order={quote(recipe.order)} splits by time, by which new rows move old ones to "
            "another split, and a manifest that grows keeps those: build it anew, without update= "
            "(--update)"
        )


def _old_rows(
    old: Old, recipe: Recipe, rows: pa.Table, root: str | None
) -> tuple[Old, tuple[str, ...]]:
    """Return the manifest that grows, with its files where they are now, and what to say of it."""
    if files_column(rows.schema) != "path":
        raise ArgumentError(
            "update= (--update) compares files by their paths and times, and the table holds the "
            "files themselves: build the manifest anew"
        )
    old, moved = rebase(old, rows["path"], root)
    return old, changed_recipe(old, recipe) + moved


def _gathered(recipe: Recipe, limits: Limits, options: StorageOptions | None) -> RowGroup:
    """Return the rows of the source with absolute paths and labels as categories."""
    gathered = gather_rows(recipe, limits, options)
    if _box_format(gathered.labels) == "rel_xyxy" and recipe.facts == "none":
        raise ArgumentError(
            "the source's boxes are shares of the image: its size is needed to make pixels of "
            'them. Leave facts="none" (--facts none) out'
        )
    if not len(gathered.rows):
        raise ManifestError(
            "the manifest would have no rows: the source or the label table is empty, or no file "
            "has a row in it. Check labels= and on=, and see with "
            + "\n".join(
                ['unmatched="error" what does not match', *lines_of_skipped(gathered.skipped)]
            )
        )
    table = to_categories(gathered.rows, recipe.category, gathered.labels)
    validate(table, "the manifest")
    name = files_column(table.schema) or "path"
    if name != "path":
        return replace(gathered, rows=_with_whole_paths(table, name, gathered.folder))
    paths = tidy(table["path"].cast(pa.string()), gathered.folder)
    return replace(gathered, rows=with_column(table, "path", paths))


def _with_whole_paths(table: pa.Table, name: str, folder: str) -> pa.Table:
    """Make the paths of files absolute that a table holds no bytes of, in its column of files."""
    files = table[name]
    if not is_file_struct(files.type):
        return table
    paths, data = paths_of(files), pc.struct_field(files, "bytes")
    joined = tidy(paths.cast(pa.string()), folder).cast(paths.type)
    return with_column(table, name, with_paths(files, pc.if_else(pc.is_null(data), joined, paths)))


def _read_facts(
    paths: pa.ChunkedArray, old: Old | None, listed: pa.Table | None, full: bool, **how: Any
) -> pa.Table:
    known, kept = old.table if old else None, full
    if known is not None and has_whole_facts(known.schema):
        kept = True
    elif known is not None:
        known = without(known, OF_WHOLE_FILES)
    if are_files(paths.type):
        return _as_kept(read_facts(paths, decode=full, **how), kept)
    addresses = without_store(paths.filter(is_url(paths)))
    if len(addresses):
        raise ArgumentError(
            f"{addresses[0]} is an address, which dfgen does not open to read headers. Give "
            'facts="none" (--facts none), or with root= (--root) the folder where the files are '
            "mounted"
        )
    return _as_kept(refresh_facts(paths, known, listed=listed, full=full, **how), kept)


def _as_kept(facts: pa.Table, of_whole_files: bool) -> pa.Table:
    facts = with_column(facts, "format", to_category(facts["format"]))
    return facts if of_whole_files else without(facts, OF_WHOLE_FILES)


def _refuse_all_missing(
    paths: pa.ChunkedArray, problems: pa.ChunkedArray, recipe: Recipe, folder: str
) -> None:
    """Raise if no file of these absolute paths exists: they were looked for in a wrong place.

    A few that are missing keep their rows. Relative paths start at `folder`.
    """
    if not len(problems) or not pc.all(pc.fill_null(pc.equal(problems, NOT_THERE), False)).as_py():
        return
    tried = [paths[row].as_py() for row in (0, len(paths) // 2, -1)]
    files, first = pc.count_distinct(paths).as_py(), tried[0]
    none = "the only file does not exist,"
    if files > 1:
        none = f"none of the {files:,} files exists, as"
    none += f" {quote(first)}: "
    of_table = recipe.kind == LABEL_TABLE
    of_images = not of_table and "images" in SOURCES[recipe.kind].arguments
    root = Begin(
        recipe.path_column or "path",
        folder,
        frame="labels" if of_table else "",
        argument="images=" if of_images else "root=",
        option=" (--images)" if of_images else " (--root)",
    )
    if has_store(scheme_of(first)):
        raise MissingFileError(f"{none}give {root.argument}{root.option}")
    names = [path.removeprefix(folder.rstrip("/") + "/") for path in dict.fromkeys(tried)]
    found = near(names[0], root)
    no_file = found is None or os.path.isdir(found.place(names[0]))
    if no_file and not any(os.path.splitext(name)[1] for name in names):
        shown = ", ".join(map(quote, names))
        what = f"is {shown} the path of a file? Name the column of paths, path_column="
    else:
        what = advice(names, root)
    raise MissingFileError(
        f'{none}{what}. For files that are not on this machine give facts="none" (--facts none)'
    )


def _settle(gathered: RowGroup, read: ReadFacts | None, recipe: Recipe) -> pa.Table:
    """Add the facts, place the boxes, and gather what is wrong with each row."""
    table = gathered.rows
    facts = read(table[files_column(table.schema)]) if read else None
    if facts is not None and "path" in table.column_names:
        folder = gathered.folder or recipe.folder
        _refuse_all_missing(table["path"], facts["problem"], recipe, folder)
    problems = [table["problem"]] if "problem" in table.column_names else []
    problems += [facts["problem"]] if facts else []
    if _box_format(gathered.labels):
        table, faults = place_boxes(table, facts, _box_format(gathered.labels) == "rel_xyxy")
        problems.append(pa.chunked_array([faults]))
    if facts is not None:
        for name in facts.column_names:
            table = with_column(table, name, facts[name])
    if facts is not None or any(len(part) > part.null_count for part in problems):
        table = with_column(table, "problem", pc.coalesce(*problems))
    return table


def _box_format(labels: Mapping[str, Any]) -> str | None:
    """Return that of the source; None for a column of the user's that is called boxes too."""
    return labels.get("boxes", {}).get("box_format")  # type: ignore[no-any-return]


def _to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a frame; whole numbers among the facts may be missing and stay whole."""
    facts = [name for name in table.column_names if name in FACTS]
    labels = table.drop_columns(facts).replace_schema_metadata()
    typed = table.select(facts).replace_schema_metadata().to_pandas(types_mapper=PANDAS_TYPES.get)
    frame: pd.DataFrame = pd.concat([to_frame(labels), typed], axis=1)
    return frame


def _parts(
    frame: pd.DataFrame, recipe: Recipe, kept: Mapping[str, pd.Series]
) -> dict[str, pd.Series]:
    """Return the split or fold that the recipe makes; else those of old rows that are not there."""
    how = recipe.splitting
    if not recipe.divides:
        return {name: part for name, part in kept.items() if name not in frame}
    if how.column in frame:
        argument = "split" if how.folds is None else "folds"
        raise ManifestError(
            f'{argument}= (--{argument}) was given, and the rows have a column "{how.column}" '
            f"already. Leave {argument} out to use it, or rename it"
        )
    parts = how.parts(frame, unit_of(recipe.arguments()), kept.get(how.column))
    return {how.column: pd.Series(parts, frame.index)}


def _order(names: list[str], recipe: Recipe) -> list[str]:
    """Return the columns in the order of a manifest: id, path, labels, split, facts."""
    labels = label_columns(names)
    if recipe.label:
        labels = [
            name for name in labels if name in (*recipe.label, *recipe.category, recipe.path_column)
        ]
    return [name for name in ("id", "path", "index", *labels, *PARTS, *FACTS) if name in names]
