"""From a recipe to a manifest: source, join, facts, boxes, old rows, split, write."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, MissingFileError, quote
from dfgen.explain.missing import missing_path
from dfgen.manifest.building.box_columns import place_boxes
from dfgen.manifest.building.file_facts import NOT_THERE, USUAL, Access
from dfgen.manifest.building.gather import Gathering
from dfgen.manifest.building.kept_facts import KeptFacts
from dfgen.manifest.building.recipe import LABEL_TABLE, Recipe, absolute_recipe, unit_of
from dfgen.manifest.building.recipe_file import resolve
from dfgen.manifest.building.scan import read_facts, refresh_facts
from dfgen.manifest.building.summary import BuildReport, lines_of_skipped
from dfgen.manifest.building.update import Growth, Old, changed_recipe, grow, read_old, rebase
from dfgen.manifest.duplicates import leaks_between_splits, notes_of
from dfgen.manifest.io import Path, is_plain, only_writer_of, write_frame
from dfgen.manifest.not_a_manifest import check_out
from dfgen.manifest.paths import is_url, stored_paths, tidy
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    PARTS,
    describe_labels,
    files_column,
    has_whole_facts,
    label_columns,
    to_categories,
    to_category,
    with_column,
    without,
)
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.source import RowGroup
from dfgen.manifest.splitting.split_rules import lacking_rows
from dfgen.stores.stores import has_store, scheme_of, without_store
from dfgen.table.any_table import PANDAS_TYPES, to_frame
from dfgen.table.file_columns import are_files, is_file_struct, paths_of, with_paths


@dataclass(frozen=True)
class Build:
    """A build, made at the door: its recipe, the file to write, the manifest that grows."""

    recipe: Recipe
    out: str | None = None
    old: Old | None = None
    access: Access = USUAL

    @cached_property
    def _gathering(self) -> Gathering:
        return Gathering(self.recipe, self.access)

    @property
    def _arguments(self) -> dict[str, Any]:
        """The arguments of the recipe as the manifest keeps them."""
        return self.recipe.arguments()

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any],
        update: Path | None = None,
        out: Path | None = None,
        access: Access = USUAL,
    ) -> "Build":
        """Return the build of arguments, completed by the recipe of the manifest that grows."""
        old = None if update is None else read_old(update, access.limits, access.options)
        known, where = (None, "") if old is None else (old.recipe, old.name)
        recipe = resolve(given, known, where, access.limits)
        return cls(recipe, None if out is None else os.fspath(out), old, access)

    def run(self) -> tuple[pd.DataFrame, BuildReport]:
        """Build the manifest; return it with a report of what was left out or is amiss.

        `build_manifest` turns the warnings of the report into Python's, the command prints them.
        A manifest that grows has a file opened only if it is new or changed since. A second
        run with the same `out` is refused as long as the first lives; after one that was killed it
        goes on, by the facts that are kept beside `out`.
        """
        if self.out is None:
            return self._run()
        check_out(self.out, self.access.options)
        if not is_plain(self.out):
            return self._run()
        kept = KeptFacts.beside(self.out, self.recipe.facts == "full", self.access.limits)
        with only_writer_of(self.out):
            done = replace(self, access=replace(self.access, kept=kept))._run()
            kept.remove()
        return done

    def _run(self) -> tuple[pd.DataFrame, BuildReport]:
        recipe, how = self.recipe, self.recipe.splitting
        if self.old is not None and how.order is not None:
            raise ArgumentError(
                f"order={quote(how.order)} splits by time, by which new rows move old ones to "
                "another split, and a manifest that grows keeps those: build it anew, without "
                "update= (--update)"
            )
        gathered, arguments = self._gathered(), self._arguments
        labels = describe_labels(gathered.rows, gathered.labels)
        _, root = stored_paths(gathered.rows, recipe.root, gathered.folder)
        grown, warnings = self._grown(gathered, Growth(gathered.rows, labels, {}), root)
        frame = _to_frame(grown.table)
        frame = frame.assign(**self._parts(frame, grown.parts))
        ordered = self._order(list(frame.columns))
        kept = {name: grown.labels[name] for name in label_columns(ordered)}
        if how.column in frame:
            warnings += lacking_rows(frame, list(kept), how, ours=how.divides)
        frame = frame[ordered]
        if _box_format(kept):
            kept["boxes"] = {**kept["boxes"], "box_format": "xyxy"}
        warnings += notes_of(leaks_between_splits(frame), frame)
        known = {"root": root, "labels": kept, "recipe": absolute_recipe(arguments, os.getcwd())}
        frame.attrs = {"dfgen": known}
        if self.out is not None:
            options = self.access.options
            write_frame(frame, self.out, frame.attrs["dfgen"], recipe.root, options)
        return frame, BuildReport(gathered.skipped, gathered.notes, warnings)

    def _gathered(self) -> RowGroup:
        """Return the rows of the source with absolute paths and labels as categories."""
        gathered = self._gathering.rows()
        if _box_format(gathered.labels) == "rel_xyxy" and self.recipe.facts == "none":
            raise ArgumentError(
                "the source's boxes are shares of the image: its size is needed to make pixels of "
                'them. Leave facts="none" (--facts none) out'
            )
        if not len(gathered.rows):
            seen = ['unmatched="error" what does not match', *lines_of_skipped(gathered.skipped)]
            raise ManifestError(
                "the manifest would have no rows: the source or the label table is empty, or no "
                "file has a row in it. Check labels= and on=, and see with " + "\n".join(seen)
            )
        known = {**gathered.labels, **(self.old.metadata.labels if self.old else {})}
        known = {n: {"kind": v["kind"]} for n, v in known.items() if n not in gathered.labels}
        always = filter(None, [self.recipe.splitting.stratify])
        table = to_categories(
            gathered.rows, self.recipe.category, {**known, **gathered.labels}, [*always]
        )
        rows = with_absolute_paths(table, gathered.folder)
        return replace(gathered, rows=rows)

    def _grown(
        self, gathered: RowGroup, fresh: Growth, root: str | None
    ) -> tuple[Growth, tuple[str, ...]]:
        """Return the rows with their facts, joined with those of the manifest that grows."""
        old = self.old
        warnings = gathered.warnings
        if old is not None:
            if files_column(gathered.rows.schema) != "path":
                raise ArgumentError(
                    "update= (--update) compares files by their paths and times, and the table "
                    "holds the files themselves: build the manifest anew"
                )
            old, moved = rebase(old, gathered.rows["path"], root)
            warnings += changed_recipe(old, self.recipe, self._arguments) + moved
        listed = gathered.rows.select(["path", *gathered.facts]) if gathered.facts else None

        def read(paths: pa.ChunkedArray) -> pa.Table:
            return self._facts(paths, old, listed)

        reads = self.recipe.facts != "none"
        facts = read(gathered.rows[files_column(gathered.rows.schema)]) if reads else None
        grown = replace(fresh, table=self._settled(gathered, facts))
        if old is None:
            return grown, warnings
        parts = {"split", self.recipe.splitting.column}
        grown = grow(grown.table, fresh.labels, old, read if reads else None, parts)
        return grown, warnings + grown.warnings

    def _facts(self, paths: pa.ChunkedArray, old: Old | None, listed: pa.Table | None) -> pa.Table:
        """Return the facts of files, opening only those that the old manifest does not know."""
        known, full = old.table if old else None, self.recipe.facts == "full"
        whole = full or (known is not None and has_whole_facts(known.schema))
        if known is not None and not has_whole_facts(known.schema):
            known = without(known, OF_WHOLE_FILES)
        facts = facts_of(paths, self.access, full, known, listed)
        facts = with_column(facts, "format", to_category(facts["format"]))
        return facts if whole else without(facts, OF_WHOLE_FILES)

    def _settled(self, gathered: RowGroup, facts: pa.Table | None) -> pa.Table:
        """Add the facts, place the boxes, and gather what is wrong with each row."""
        table = gathered.rows
        if facts is not None and "path" in table.column_names:
            folder = gathered.folder or self.recipe.folder
            _check_any_file(table["path"], facts["problem"], self.recipe, folder)
        problems = [table["problem"]] if "problem" in table.column_names else []
        problems += [facts["problem"]] if facts else []
        if box_format := _box_format(gathered.labels):
            table, faults = place_boxes(table, facts, box_format)
            problems.append(pa.chunked_array([faults]))
        if facts is not None:
            for name in facts.column_names:
                table = with_column(table, name, facts[name])
        if facts is not None or any(len(part) > part.null_count for part in problems):
            table = with_column(table, "problem", pc.coalesce(*problems))
        return table

    def _parts(self, frame: pd.DataFrame, kept: Mapping[str, pd.Series]) -> dict[str, pd.Series]:
        """Return the split or fold that the recipe makes; else those that old rows had."""
        how = self.recipe.splitting
        if not how.divides:
            return {name: part for name, part in kept.items() if name not in frame}
        if how.column in frame:
            argument = "split" if how.folds is None else "folds"
            raise ManifestError(
                f'{argument}= (--{argument}) was given, and the rows have a column "{how.column}" '
                f"already. Leave {argument} out to use it, or rename it"
            )
        parts = how.parts(frame, unit_of(self.recipe.arguments()), kept.get(how.column))
        return {how.column: pd.Series(parts, frame.index)}

    def _order(self, names: list[str]) -> list[str]:
        """Return the columns in the order of a manifest: id, path, labels, split, facts."""
        labels, recipe = label_columns(names), self.recipe
        if recipe.label:
            wanted = (*recipe.label, *recipe.category, recipe.path_column)
            labels = [name for name in labels if name in wanted]
        return [name for name in ("id", "path", "index", *labels, *PARTS, *FACTS) if name in names]


def with_absolute_paths(table: pa.Table, folder: str) -> pa.Table:
    """Return rows whose relative paths start at a folder with absolute ones."""
    name = files_column(table.schema) or "path"
    files = table[name]
    if name == "path":
        files = tidy(files.cast(pa.string()), folder)
    elif is_file_struct(files.type):  # of which some may be paths alone
        paths, data = paths_of(files), pc.struct_field(files, "bytes")
        joined = tidy(paths.cast(pa.string()), folder).cast(paths.type)
        files = with_paths(files, pc.if_else(pc.is_null(data), joined, paths))
    return with_column(table, name, files)


def facts_of(
    files: pa.ChunkedArray,
    access: Access,
    full: bool,
    known: pa.Table | None = None,
    listed: pa.Table | None = None,
) -> pa.Table:
    """Return the facts of a column of files; see `refresh_facts`."""
    if are_files(files.type):
        return read_facts(files, access, full)
    addresses = without_store(files.filter(is_url(files)))
    if len(addresses):
        raise ArgumentError(
            f"{addresses[0]} is an address, which dfgen does not open to read headers. "
            'Give facts="none" (--facts none), or with root= (--root) the folder where '
            "the files are mounted"
        )
    return refresh_facts(files, known, access, listed=listed, full=full)


def _check_any_file(
    paths: pa.ChunkedArray, problems: pa.ChunkedArray, recipe: Recipe, folder: str
) -> None:
    """Raise if none of the files exists: their paths start at a wrong place.

    A few that are missing keep their rows. Relative paths start at `folder`.
    """
    if not len(problems) or not pc.all(pc.fill_null(pc.equal(problems, NOT_THERE), False)).as_py():
        return
    first, files = paths[0].as_py(), pc.count_distinct(paths).as_py()
    of_table = recipe.kind == LABEL_TABLE
    of_images = not of_table and "images" in SOURCES[recipe.kind].arguments
    argument = "images=" if of_images else "root="
    name = first.removeprefix(folder.rstrip("/") + "/")
    if has_store(scheme_of(first)):
        advice = f"give {argument}"
    elif not os.path.splitext(name)[1]:
        advice = f"is {quote(name)} the path of a file? Name the column of paths, path_column="
    else:
        column, frame = recipe.path_column or "path", "labels" if of_table else ""
        advice = missing_path(name, folder, column=column, frame=frame, argument=argument)
    raise MissingFileError(
        f"none of the {files:,} files exists, such as {quote(first)}: {advice}. For files "
        'that are not on this machine give facts="none" (--facts none)'
    )


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
