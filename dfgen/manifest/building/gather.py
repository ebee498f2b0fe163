"""From a recipe to rows: scan the source, join the labels, settle the id."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, did_you_mean, quote
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.join import join, key_text
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
    repeated,
    validate,
    with_column,
)
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.label_table import read_rows
from dfgen.manifest.sources.path_pattern import Pattern, parse_pattern
from dfgen.manifest.sources.source import ANNOTATED, RowGroup
from dfgen.manifest.sources.table_format import TableFormat
from dfgen.progress_bars import progress
from dfgen.table.file_columns import are_files, paths_of

_PLAIN_INTEGER = r"\A(?:0|-?[1-9][0-9]{0,17})\z"


@dataclass(frozen=True)
class Gathering:
    """A recipe on its way to rows."""

    recipe: Recipe
    access: Access
    listed: RowGroup | None = None  # the rows of the source, where they are known already

    def rows(self) -> RowGroup:
        """Return the rows that the recipe describes, with paths as the source gives them."""
        recipe, pattern, labels = self.recipe, self.pattern, self.labels_used
        if recipe.labels is not None:
            self._check_filled(labels, recipe.table)
        gathered = self._named_files(labels) if recipe.kind == LABEL_TABLE else self.source
        if recipe.on is not None:
            joined = join(
                gathered.rows,
                labels,
                recipe.on,
                pattern=pattern,
                unmatched=recipe.unmatched,
                keep_key=recipe.key in recipe.columns,
                table=recipe.table,
                skipped=gathered.skipped,
            )
            gathered = replace(
                gathered,
                rows=joined.rows,
                notes=gathered.notes + joined.notes,
                dropped=gathered.dropped + joined.dropped,
                warnings=gathered.warnings + joined.warnings,
            )
        table = gathered.rows
        if "path" in table.column_names and not is_address(gathered.folder):
            table = with_column(table, "path", tidied(table["path"]))
        for name in ("problem", "polygons"):  # which a source does not know beforehand
            if name in table.column_names and table[name].null_count == len(table):
                table = table.drop_columns([name])
        if pattern is not None:
            for name in pattern.integers:
                table = with_column(table, name, pattern.convert(name, table[name]))
        table = self._with_id(table)
        validate(table)
        return replace(gathered, rows=table)

    @cached_property
    def pattern(self) -> Pattern | None:
        """The pattern of paths, parsed."""
        return None if self.recipe.pattern is None else parse_pattern(self.recipe.pattern)

    @cached_property
    def labels(self) -> pa.Table:
        """The label table; without columns where there is none."""
        recipe = self.recipe
        if recipe.labels is None:
            return pa.table({})
        text = [recipe.key, recipe.id or "id"]
        limits = self.access.limits
        [group] = self._read(
            LABEL_TABLE, read_rows, recipe.labels, text, limits, written=recipe.written
        )
        return group.rows

    @property
    def labels_used(self) -> pa.Table:
        """The label table with the columns that the recipe names, or all."""
        recipe, labels = self.recipe, self.labels
        if recipe.label:
            wanted = {*recipe.columns, recipe.key, *PARTS}
            labels = labels.select([name for name in labels.column_names if name in wanted])
        return labels

    def _read(self, kind: str, read: Any, *given: Any, **own: Any) -> Iterator[RowGroup]:
        """Yield the groups of a source; whatever it raises is told as a fault of what it reads."""
        try:
            yield from read(*given, **own)
        except TOLD:
            raise
        except Exception as error:  # of a reader, which may be anybody's
            place = self.recipe.table if kind == LABEL_TABLE else self.recipe.own[kind]
            raise fault_of(error, f"{kind}={place}") from error

    def _check_names(self, known: list[str]) -> None:
        recipe = self.recipe
        asked: list[tuple[str, str | None]] = [("label", name) for name in recipe.label]
        asked += [("category", name) for name in recipe.category]
        asked += [("id", recipe.id)]
        asked += [("path_column", recipe.path_column)] * (recipe.kind == LABEL_TABLE)
        asked += recipe.splitting.named.items()
        for argument, name in asked:
            if name is not None and name not in known:
                raise ArgumentError(
                    f"{argument}={quote(name)} is not a column.{did_you_mean(name, known)} "
                    f"Columns: {', '.join(known) or 'none; a pattern or a label table makes some'}"
                )

    def _check_filled(self, table: pa.Table, where: str) -> None:
        """Raise if a table has columns that the files fill."""
        facts = self.recipe.facts
        filled = [name for name in table.column_names if name in FACTS and name != "problem"]
        if facts != "full":
            filled = [name for name in filled if name not in OF_WHOLE_FILES]
        if filled and facts != "none":
            raise ManifestError(
                f'the column "{filled[0]}" of {where} is one that dfgen fills from the files. '
                "Rename it, name the columns that you want with label= (--label), or let dfgen "
                'fill none with facts="none" (--facts none)'
            )

    def _named_files(self, labels: pa.Table) -> RowGroup:
        """Return the rows of a label table that names its files, or holds them."""
        recipe, name = self.recipe, self.recipe.key
        self._check_names(self.labels.column_names)
        if not are_files(labels[name].type):
            paths = key_text(labels[name], name, recipe.table)
            labels = labels.drop_columns([name])
            if "path" in labels.column_names:
                raise ManifestError(
                    f"path_column={quote(name)} (--path-column), but {recipe.table} also has a "
                    'column "path". Rename that one, or leave it out with label= (--label)'
                )
            labels = labels.append_column("path", paths)
        return RowGroup(labels, folder=recipe.folder)

    @cached_property
    def source(self) -> RowGroup:
        """The row groups of the source in one; how far it is read is told."""
        if self.listed is not None:
            return self.listed
        recipe, source = self.recipe, SOURCES[self.recipe.kind]
        parts, notes, dropped = list[pa.Table](), tuple[str, ...](), tuple[str, ...]()
        warnings = tuple[str, ...]()
        skipped, known, folder = defaultdict[str, list[str]](list), dict[str, Label](), ""
        written = recipe.written if recipe.labels is None else TableFormat()
        given = {**vars(recipe), **vars(self.access), "pattern": self.pattern, "written": written}
        more = {name: given[name] for name in source.shared}
        more |= {name: recipe.own[name] for name in source.arguments}
        with progress(None, "Reading rows", " rows") as bar:
            for group in self._read(recipe.kind, source.read, recipe.own[recipe.kind], **more):
                if not parts:  # all have the same columns: wrong names are refused before the work
                    self._check_columns(group)
                parts.append(group.rows)
                for reason, paths in group.skipped.items():
                    skipped[reason] += paths
                notes += group.notes
                dropped += group.dropped
                warnings += group.warnings
                known |= group.labels
                folder = group.folder or folder
                bar.total = group.total
                bar.update(len(group.rows))
        folder, rows = folder or recipe.folder, pa.concat_tables(parts)
        return RowGroup(
            rows, dict(skipped), notes, known, folder, facts=group.facts, dropped=dropped,
            warnings=warnings,
        )  # fmt: skip

    def _check_columns(self, group: RowGroup) -> None:
        """Raise if the source lacks a column that the recipe names, or gives one of the files."""
        rows = group.rows.drop_columns([*group.facts])
        known = [*rows.column_names, *self.labels.column_names]
        self._check_names([name for name in known if name not in ("path", *ANNOTATED)])
        self._check_filled(rows, str(self.recipe.own[self.recipe.kind]))

    def _with_id(self, table: pa.Table) -> pa.Table:
        """Put the id first: the column asked for, else `id`, else the path."""
        fields = self.pattern.fields if self.pattern else ()
        name = self.recipe.id or ("id" if "id" in table.column_names else "path")
        ids = _paths_as_ids(table) if name not in table.column_names else table[name]
        if name != "path" and name in table.column_names:
            table = table.drop_columns([name])
        if "id" in table.column_names:
            raise ManifestError(
                f'id={quote(name)} (--id), but there is a column "id" as well. Rename that one, '
                "or leave id out"
            )
        if pa.types.is_dictionary(ids.type):
            ids = ids.cast(ids.type.value_type)
        if self.pattern is not None and name in fields:
            _check_repeated(ids, name, self.pattern)
        if name not in (*fields, "path", self.recipe.key):
            ids = _whole_if_plain(ids)
        return table.add_column(0, "id", ids)


def _check_repeated(ids: pa.ChunkedArray, name: str, pattern: Pattern) -> None:
    """Raise if a field that is the id is the same in several paths."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    twice = repeated(ids)
    raise ManifestError(
        f"the field {{{name}}} of the pattern {quote(pattern.text)} is the same in several paths, "
        f"as {quote(twice.field('values')[0].as_py())} in {twice.field('counts')[0]}, expected the "
        "id of one row. If names repeat in other folders, rename the field, "
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
