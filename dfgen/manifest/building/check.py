"""All faults of a table of labels, its files and their join at once, before anything is built.

The faults are those that a build refuses or warns of, found by the same functions, and those of
columns and files that a build takes as they are, and that spoil a training later.
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Never

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import EXAMPLES, ArgumentError, column_list, count, did_you_mean, quote
from dfgen.explain.findings import Finding
from dfgen.explain.odd_columns import NamedRows, column_findings, key_findings
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.build import plain_arguments
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.gather import Gathering
from dfgen.manifest.building.join import likely_join
from dfgen.manifest.building.pipeline import all_missing, facts_of, with_absolute_paths
from dfgen.manifest.building.recipe import Recipe, make_recipe, split_on
from dfgen.manifest.building.summary import problem_findings, skipped_findings
from dfgen.manifest.io import Path
from dfgen.manifest.not_a_manifest import is_manifest
from dfgen.manifest.schema import FACTS, PARTS, files_column
from dfgen.manifest.sources.label_table import table_name
from dfgen.samples.pixels.formats import FORMATS
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.table.any_table import Table
from dfgen.table.file_columns import are_files

_HUGE = 50_000_000  # pixels
_SHOWN = 3
_OF_DEPTH = (
    'Choose their conversion: dfgen.Image("path", dtype="uint8") divides 16 bits by 257, '
    'dtype="uint16" keeps them; without dtype= a Sequence refuses them'
)
_OF_FRAMES = "The first frame is read: save the one that you mean as a file of its own"
_OF_INKS = "They are read as RGB without their colour profile: convert them if colours matter"
_OF_SIZE = (
    "They take seconds to decode and memory to match: save them smaller, or once in a pack, "
    "dfgen.pack(df, out, image_size=...)"
)


@dataclass(frozen=True)
class Faults:
    """The faults that `check` found, those of the most rows first; printed, it is its report.

    Args:
        table: how messages call the table.
        rows: how many rows the table has.
        files: how many files were looked at.
        on: the join, `FIELD=COLUMN`, or the column of paths.
        findings: the faults.
    """

    table: str
    rows: int
    files: int
    on: str
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        rows, files = (
            f"{number:,} {noun}{'s' * (number != 1)}"
            for number, noun in ((self.rows, "row"), (self.files, "file"))
        )
        heading = f"{rows} of {self.table}, {files}, {self.on}"
        if not self.findings:
            return f"{heading}: no fault found"
        wide = max(len(f"{finding.rows:,}") for finding in self.findings)
        lines = [f"{heading}: {count(len(self.findings), 'fault')}, that of the most rows first"]
        for finding in self.findings:
            stops = " (stops build-manifest)" * finding.stops
            lines += ["", f"{finding.rows:>{wide},}  {finding.kind}{stops}"]
            texts = (finding.told, f"Fix: {finding.fix}")
            lines += [f"{' ' * wide}  {line}" for text in texts for line in text.split("\n")]
        return "\n".join(lines)

    def figures(self) -> dict[str, Any]:
        """Return all of it in plain JSON types."""
        return asdict(self)


def check(
    labels: Path | Table,
    source: Path | None = None,
    *,
    pattern: str | None = None,
    on: str | None = None,
    path_column: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    root: Path | None = None,
    id: str | None = None,
    category: str | Sequence[str] = (),
    label: str | Sequence[str] = (),
    facts: str | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> Faults:
    """Return all faults of a table of labels, its files and their join at once.

    Use it before `build_manifest`, which stops at faults of the table and the join and knows
    nothing of odd columns. Nothing is written. `dfgen check` does the same job.

    Args:
        labels: a label table: a DataFrame, whatever has `__arrow_c_stream__`, or a file of one.
        source: the folder of the files, its URL, or an archive. Leave it out if `path_column`
            names the files.
        pattern: as in `build_manifest`.
        on: `"FIELD=COLUMN"`, as in `build_manifest`. Default: the field and the column that match
            the most files; `path_column` beside a folder says which column.
        path_column: the column of the table that names the files, or holds them.
        sep: what separates the values of the table, as in `build_manifest`.
        decimal: the decimal mark of its numbers.
        encoding: its encoding.
        sheet: the sheet of a workbook.
        root: the folder where relative paths start. Default: the folder of the table.
        id: the column of unique ids.
        category: the columns of whole numbers that are classes, or one.
        label: the columns to look at as labels, or one; default: all.
        facts: `"header"` (the default) reads the header of every file, `"full"` decodes it, which
            finds truncated files, `"none"` opens no file.
        workers: threads that read; None: as many as this process may use CPUs.
        limits: `dfgen.Limits`: what one file may ask for.
        storage_options: what opens URLs, as `{"region": "eu-central-1"}`; see `Sequence`.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        A `Faults`: `findings` are its faults, each with `kind`, `rows`, `told`, `fix`, `examples`
        and `stops`, which says that `build_manifest` refuses it. Printed, it is a report.

    Raises:
        ArgumentError: no column names the files, or arguments do not go together.
        MissingFileError: there is no such table or folder.
        ManifestError: the table cannot be read.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> found = check("labels.csv", "imgs")  # doctest: +SKIP
        >>> [finding.kind for finding in found.findings]  # doctest: +SKIP
        ['rows without a file', 'labels that look misspelt']
    """
    asked = locals()
    refuse_unknown(check, unknown)
    access = Access(workers, limits_given(limits), StorageOptions(storage_options))
    return run_check(plain_arguments(asked), access)


def run_check(given: Mapping[str, Any], access: Access) -> Faults:
    """Do what `check` says with the arguments of a recipe."""
    gathering = _gathering(given, access)
    recipe, found = gathering.recipe, gathering.found()
    rows = with_absolute_paths(found.rows, found.folder)
    findings = [*found.findings, *_of_table(gathering), *_of_fields(gathering, rows)]
    if recipe.facts != "none":
        files = rows[files_column(rows.schema) or "path"]
        facts = facts_of(files, access, recipe.facts == "full")
        findings += _of_files(rows, facts, recipe, found.folder or recipe.folder)
    findings += skipped_findings(_others(found.skipped, recipe))
    findings.sort(key=lambda finding: -finding.rows)
    join = f"joined on {recipe.on}" if recipe.on else f"named by the column {quote(recipe.key)}"
    return Faults(recipe.table, len(gathering.labels), len(rows), join, tuple(findings))


def _gathering(given: Mapping[str, Any], access: Access) -> Gathering:
    """Return the table and its files, with the join that was asked for, or the likely one."""
    table, folder, column = (given.get(name) for name in ("labels", "source", "path_column"))
    _check_places(table, folder, column)
    if folder is None or given.get("on") is not None:
        return Gathering(make_recipe(given), access)
    recipe = make_recipe({**given, "path_column": None, "on": "name"})
    gathering = Gathering(recipe, access)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told when the table is read with its key as text
        labels, files = gathering.labels, gathering.source
    if not len(labels):
        raise ArgumentError(f"{recipe.table} has no rows, expected one for each file: fill it in")
    if column is not None and column not in labels.column_names:
        raise ArgumentError(
            f"path_column={quote(column)} is not a column."
            f"{did_you_mean(column, labels.column_names)} Columns: "
            f"{column_list(labels.column_names)}"
        )
    candidates = labels if column is None else labels.select([column])
    pair = likely_join(files.rows, candidates, gathering.pattern)
    if pair is None:
        example = files.rows["path"][0].as_py()
        raise ArgumentError(
            f"no column of {recipe.table} names a file of {folder}, such as {quote(example)}. "
            f"Columns: {column_list(candidates.column_names)}. Say which names which, "
            'on="FIELD=COLUMN" (--on FIELD=COLUMN), where FIELD is name, stem, relpath or a field '
            "of the pattern"
        )
    return Gathering(replace(recipe, on="=".join(pair)), access, files)


def _check_places(table: Any, folder: Any, column: str | None) -> None:
    if isinstance(table, str) and is_manifest(table):
        raise ArgumentError(
            f"{table} is a manifest, expected a table of labels: dfgen verify {table} compares it "
            "with its files"
        )
    if isinstance(table, str) and os.path.isdir(table):
        other = folder if isinstance(folder, str) and os.path.isfile(folder) else "labels.csv"
        raise ArgumentError(
            f"{table} is a folder, expected a table of labels: it comes first, dfgen check "
            f"{other} {table}"
        )
    if table is None:
        raise ArgumentError("labels=None: expected a table of labels, or a file of one")
    if folder is None and column is None:
        raise ArgumentError(
            f"nothing says where the files of {table_name(table)} are: give their folder, dfgen "
            "check TABLE FOLDER, or the column that names them, path_column= (--path-column)"
        )


def _of_table(gathering: Gathering) -> Iterator[Finding]:
    recipe, labels = gathering.recipe, gathering.labels
    key, named = recipe.key, (*recipe.label, *recipe.category)
    for name in dict.fromkeys((key, recipe.id or "id")):
        if name in labels.column_names:
            yield from key_findings(name, labels[name])
    others = {key, recipe.id or "id", *PARTS, *FACTS}
    columns = [name for name in labels.column_names if name not in others]
    columns = [name for name in columns if name in named] if named else columns
    ids = None if are_files(labels[key].type) else key
    yield from column_findings(NamedRows(labels, ids), columns, bool(recipe.label))


def _of_fields(gathering: Gathering, rows: pa.Table) -> Iterator[Finding]:
    recipe, pattern = gathering.recipe, gathering.pattern
    if pattern is not None:
        others = {recipe.id or "id", *([split_on(recipe.on)[0]] if recipe.on else [])}
        fields = [name for name in pattern.fields if name in rows.column_names]
        names = [name for name in fields if name not in others]
        yield from column_findings(NamedRows(rows, "id"), names, asked=False)


def _of_files(rows: pa.Table, facts: pa.Table, recipe: Recipe, folder: str) -> Iterator[Finding]:
    missing = None
    if "path" in rows.column_names:
        missing = all_missing(rows["path"], facts["problem"], recipe, folder)
    if missing:
        yield missing
        return
    bad = pc.is_valid(facts["problem"])
    broken = {"path": _called(rows, bad), "problem": facts["problem"].filter(bad).to_pylist()}
    yield from problem_findings(pd.DataFrame(broken))
    images = [name for name, format in FORMATS.items() if format.holds == "image"]
    image = pc.is_in(facts["format"], value_set=pa.array(images))
    pixels = pc.multiply(facts["width"].cast(pa.int64()), facts["height"].cast(pa.int64()))
    inks = pc.and_(pc.equal(facts["format"], "jpeg"), pc.equal(facts["channels"], 4))
    for kind, mask, fix in (
        ("16-bit images", pc.and_(image, pc.greater(facts["bits"], 8)), _OF_DEPTH),
        ("images of several frames", pc.and_(image, pc.greater(facts["frames"], 1)), _OF_FRAMES),
        ("CMYK images", inks, _OF_INKS),
        ("huge images", pc.greater(pixels, _HUGE), _OF_SIZE),
    ):
        mask = pc.fill_null(mask, False)
        if number := pc.sum(mask).as_py():
            names = _called(rows, mask)[:EXAMPLES]
            told = f"{count(number, 'file')}, as {', '.join(names[:_SHOWN])}"
            yield Finding(kind, number, told, fix, tuple(names))


def _called(rows: pa.Table, mask: pa.ChunkedArray) -> list[str]:
    """Return what some rows are called: path and id, where the id is more than a part of it."""
    ids = rows["id"].filter(mask).to_pylist()
    if "path" not in rows.column_names:
        return [f"id {id}" for id in ids]
    paths = rows["path"].filter(mask).to_pylist()
    return [
        path if id is None or path.endswith(str(id)) else f"{path} (id {id})"
        for path, id in zip(paths, ids, strict=True)
    ]


def _others(skipped: Mapping[str, list[str]], recipe: Recipe) -> dict[str, list[str]]:
    """Return the paths left out but for hidden ones and the table itself."""
    own, place = "", recipe.own.get("source")
    if isinstance(recipe.labels, str) and place is not None:
        own = os.path.relpath(recipe.labels, place).replace(os.sep, "/")
    kept = {why: [path for path in paths if path != own] for why, paths in skipped.items()}
    return {why: paths for why, paths in kept.items() if paths and why != "hidden"}
