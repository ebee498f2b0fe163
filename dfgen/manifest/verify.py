"""What differs between a manifest and the disk."""

import os
import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, DfgenError, ManifestError
from dfgen.manifest.building.gather import gather_rows
from dfgen.manifest.building.recipe import A_FRAME, Recipe
from dfgen.manifest.building.recipe_file import resolve
from dfgen.manifest.building.scan import PANDAS_TYPES, problems_now, read_facts, refresh_facts
from dfgen.manifest.building.update.match import match
from dfgen.manifest.diff import as_text, differ, in_order, plain
from dfgen.manifest.facts import FACTS
from dfgen.manifest.io import Path, read_manifest, write_manifest
from dfgen.manifest.paths import is_url, tidy
from dfgen.manifest.schema import files_column, rows_where, validate, with_column
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.splitting.split_arguments import Splitting
from dfgen.manifest.tables import Table, arrow_table, data_frame
from dfgen.samples.storage.embedded import paths_of
from dfgen.samples.storage.stores import without_store

FINDINGS = ("missing", "broken", "changed", "new")


def verify(
    manifest: Path | Table,
    *,
    root: Path | None = None,
    write: bool = False,
    workers: int | None = None,
) -> pd.DataFrame:
    """Compare a manifest with the disk.

    Use it before a long training, or after files were copied. Only files whose size or time of the
    last change is another than the manifest says are opened. What the source of its recipe has and
    the manifest lacks is new; a manifest made by hand has no source to look for it, and one that
    holds the files themselves is only compared with them.

    Args:
        manifest: a file, or a frame or another table with absolute paths.
        root: folder where the stored paths start, if not the one that the manifest names.
        write: also write the facts and problems as they are now into the file. No row is dropped
            or added; `build_manifest(update=...)` adds those that are new.
        workers: threads that read headers; None: as many as this process may use CPUs.

    Returns:
        One row a finding: `change`, `id`, `path`, and `detail` that says what. `change` is
        "missing" (there is no such file), "broken" (it cannot be used), "changed" or "new". What
        the manifest knows already is no finding. No rows: manifest and disk agree.

    Raises:
        ArgumentError: `write` for a frame.
        MissingFileError: there is no such manifest, or its source is gone.
        ManifestError: it is no manifest.
        WriteError: it cannot be written.

    Example:
        >>> dfgen.verify("pets.parquet")["change"].value_counts()  # doctest: +SKIP
    """
    found, notes = check(manifest, root=root, write=write, workers=workers)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return found


def check(
    manifest: Path | Table, *, root: Path | None, write: bool, workers: int | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Do what `verify` says, and return with the findings what could not be looked for."""
    if isinstance(manifest, str | os.PathLike):
        frame, name = read_manifest(manifest, root), os.fspath(manifest)
    elif write:
        raise ArgumentError("write=True needs the path of a manifest; a frame was given")
    else:
        frame, name = data_frame(manifest), "the frame"
    table = arrow_table(frame, name)
    validate(table, name)
    labels = FACTS & frame.attrs.get("dfgen", {}).get("labels", {}).keys()  # of an older dfgen
    table = table.drop_columns([*labels])
    held = files_column(table.schema) or "path"
    if held == "path":
        _refuse_addresses(table["path"], name)
        facts = refresh_facts(table["path"].cast(pa.string()), table, workers)
    else:
        facts, paths = read_facts(table[held], workers), paths_of(table[held])
        table = with_column(table, "path", pa.nulls(len(table)) if paths is None else paths)
    facts = facts.drop_columns([*labels])
    found = _findings(table, facts)
    if write:
        rows = rows_where(pc.is_valid(found["change"])).to_numpy()
        facts = with_column(facts, "problem", problems_now(table, facts))
        write_manifest(_corrected(frame, facts, rows), manifest, root)
    found = found.filter(pc.is_valid(found["change"]))
    notes = tuple[str, ...]()
    try:
        recipe = frame.attrs.get("dfgen", {}).get("recipe")
        if recipe is not None and held == "path":
            found = pa.concat_tables([found, _new(table, _source(recipe, root), name)])
    except DfgenError as error:
        notes = (f"New files were not looked for: {error}",)
    return in_order(found, FINDINGS), notes


def _refuse_addresses(paths: pa.ChunkedArray, name: str) -> None:
    addresses = without_store(paths.filter(is_url(paths)))
    if len(addresses):
        raise ManifestError(
            f"{name} has files that are not on a disk, which dfgen does not look for: "
            f"{addresses[0]}. Mount them, and build the manifest with that folder as root= "
            "(--root)"
        )


def _findings(table: pa.Table, now: pa.Table) -> pa.Table:
    """Return for each row what is amiss beyond what the manifest says; missing where nothing is."""
    table, now = table.combine_chunks(), now.combine_chunks()
    known = {name: plain(table[name]) for name in FACTS if name in table.column_names}
    nothing = pa.nulls(len(table), pa.string())
    problem, problem_now = known.get("problem", nothing), plain(now["problem"])
    bad = pc.is_valid(problem_now)
    lost = pc.and_(bad, pc.is_null(plain(now["bytes"])))
    known_lost = pc.and_(pc.is_valid(problem), pc.is_null(known.get("bytes", nothing)))
    details = [_detail(name, known[name], now[name]) for name in known if name != "problem"]
    detail = pc.fill_null(nothing, "")
    if details:
        detail = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*details, ""), len(", "))
    missing = pc.and_not(lost, known_lost)
    broken = pc.and_(pc.and_not(bad, lost), pa.array(differ(problem, problem_now)))
    changed = pc.and_not(pc.not_equal(detail, ""), bad)
    change = pc.case_when(pc.make_struct(missing, broken, changed), "missing", "broken", "changed")
    return _rows(change, table["id"], table["path"], pc.coalesce(problem_now, detail))


def _detail(name: str, known: pa.ChunkedArray, now: pa.ChunkedArray) -> pa.Array:
    """Return what changed of one fact, as in `, bytes 12 -> 15`; empty where nothing did."""
    one, other = (pc.fill_null(as_text(column), "unknown") for column in (known, now))
    text = pc.binary_join_element_wise(f", {name} ", one, " -> ", other, "")
    return pc.if_else(pa.array(differ(known, now)), text, "")


def _new(table: pa.Table, recipe: Recipe, name: str) -> pa.Table:
    """Return what the source has and the manifest lacks."""
    gathered = gather_rows(recipe)
    fresh = gathered.rows
    if "problem" in fresh.column_names:  # labels without a file
        fresh = fresh.filter(pc.is_null(fresh["problem"]))
    paths = tidy(fresh["path"].cast(pa.string()), gathered.folder)
    table = with_column(table, "path", table["path"].cast(pa.string()))
    keys, places = match(table, pa.table({"id": fresh["id"], "path": paths}), name)
    new = keys.filter(pa.array(places < 0))
    nothing = pa.nulls(len(new), pa.string())
    return _rows(pa.repeat("new", len(new)), new["id"], new["path"], nothing)


def _source(recipe: dict[str, Any], root: Path | None) -> Recipe:
    """Return the recipe that finds the files of a manifest, and opens none."""
    left_out = [field.name for field in fields(Splitting)]
    if recipe.get("labels") == A_FRAME:
        left_out += ["labels", "on", "id", "category", "label", "path_column"]
    recipe = {name: value for name, value in recipe.items() if name not in left_out}
    recipe["facts"] = "none"
    if recipe.get("unmatched", "error") == "error":
        recipe["unmatched"] = "keep"
    if root is not None and "root" not in recipe:
        for name, source in SOURCES.items():
            if name in recipe and source.folder in recipe:
                recipe[source.folder] = os.path.abspath(root)
    return resolve({}, recipe)


def _rows(change: Any, ids: Any, paths: Any, details: Any) -> pa.Table:
    if pa.types.is_integer(ids.type):
        ids = ids.cast(pa.int64())
    columns = {"change": change, "id": ids, "path": paths, "detail": details}
    types = [pa.string(), ids.type, pa.string(), pa.string()]
    return pa.table(columns, schema=pa.schema(zip(columns, types, strict=True)))


def _corrected(frame: pd.DataFrame, facts: pa.Table, rows: npt.NDArray[np.int64]) -> pd.DataFrame:
    """Return a frame whose facts in these rows are those of the disk."""
    now: pd.DataFrame = facts.to_pandas(types_mapper=PANDAS_TYPES.get).set_index(frame.index)
    corrected = frame.copy()
    for name in now:
        if name not in frame:
            corrected[name] = now[name]
            continue
        column = frame[name].astype(object)
        column.iloc[rows] = now[name].astype(object).iloc[rows]
        corrected[name] = column.astype("category" if name == "format" else now[name].dtype)
    return corrected
