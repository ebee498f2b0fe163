"""Differences between a manifest and the disk."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, Never

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, DfgenError, ManifestError, column_list, listed, warn
from dfgen.executors import Made
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.file_facts import NOT_THERE, UNDECODABLE, USUAL, Access
from dfgen.manifest.building.gather import Gathering
from dfgen.manifest.building.join import rows_by_id
from dfgen.manifest.building.recipe import A_FRAME
from dfgen.manifest.building.recipe_file import resolve
from dfgen.manifest.building.scan import (
    is_undecodable,
    problems_now,
    read_facts,
    refresh_facts,
)
from dfgen.manifest.building.update import match
from dfgen.manifest.diff import as_text, differ, in_order, plain
from dfgen.manifest.io import Path, only_writer_of, read_manifest, write_manifest
from dfgen.manifest.metadata_check import paths_left_out
from dfgen.manifest.not_a_manifest import path_of_manifest
from dfgen.manifest.path_roots import absolute_place
from dfgen.manifest.paths import is_url, tidy
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    files_column,
    has_whole_facts,
    validate,
    with_column,
    without,
)
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.file_tree import check_folder
from dfgen.manifest.splitting.split_rules import Splitting
from dfgen.packs.pack_check import PackFinding, check_pack
from dfgen.packs.pack_index import is_pack
from dfgen.samples.stores.archives.archive_paths import archive_at
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, scheme_of, without_store
from dfgen.table.any_table import PANDAS_TYPES, Table, arrow_table, data_frame
from dfgen.table.arrow_types import text_where
from dfgen.table.file_columns import paths_of

NO_PREDICTION = "the model gave NaN"
"""The problem of a row of predictions whose file is not at fault."""

_OF_DISK = "read"
"""The stage of a problem that a look at the file finds."""

IN_HAND = "the frame"
FINDINGS = ("missing", "broken", "changed", "new")


def verify(
    manifest: Path | Table,
    *,
    root: Path | None = None,
    decode: bool = False,
    write: bool = False,
    add: Path | Table | None = None,
    workers: int | None = None,
    executor: Made | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Compare a manifest with the disk, and name every file that cannot be used.

    Use it before a long training, or after files were copied. Only files whose size or time of the
    last change is another than the manifest says are opened, unless `decode` is asked for. What
    the source of its recipe has and the manifest lacks is new; a manifest made by hand has no
    source to look for it, and one that holds the files themselves is only compared with them.

    Args:
        manifest: a file, or a frame or another table with absolute paths; or the folder of a pack,
            or its URL, whose files are compared with their checksums.
        root: folder where the stored paths start, if not the one that the manifest names.
        decode: also decode every file to its end, once: pixels of its first image, frames of a
            sound, rows of an HDF5 file; of a .npy file its length. That finds what was cut short
            or damaged behind a good header, at the pace of decoding.
        write: also write the facts and problems as they are now into the file. No row is dropped
            or added; `build_manifest(update=...)` adds those that are new.
        add: also write problems that training has found: `seq.problems`, the rows of predictions,
            or another table with `id` and `reason` or `problem`, or a file of one. What `stage`
            calls `read` or the manifest knows is not taken: whether a file is there is seen here.
        workers: threads that read, and decode; None: as many as this process may use CPUs.
        executor: any `concurrent.futures.Executor` that reads and decodes instead, or a function
            that makes one; see `build_manifest`.
        limits: `dfgen.Limits`: what one file may ask for, as of the Sequence that will read them.
        storage_options: what opens URLs, as `{"region": "eu-central-1"}`; see `Sequence`. It is
            kept nowhere.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        One row a finding: `change`, `id`, `path`, and `detail` that says what. `change` is
        "missing" (there is no such file), "broken" (it cannot be used), "changed" or "new". Files
        are missing or broken whether the manifest says so already or not; `detail` tells. No rows:
        manifest and disk agree, and every file can be used, as far as it was read. Files that the
        manifest leaves out on purpose are not new; `attrs["left_out"]` is their number.

    Raises:
        ArgumentError: `write` for a frame, `decode` for sounds without the package that reads
            them, or `executor` for a pack.
        MissingFileError: there is no such manifest, or its source is gone.
        ManifestError: it is no manifest.
        WriteError: it cannot be written.
        WorkerError: the executor lost its workers, or they have another dfgen or no such files.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> dfgen.verify("pets.parquet")["change"].value_counts()  # doctest: +SKIP
    """
    refuse_unknown(verify, unknown)
    options = StorageOptions(storage_options)
    access = Access(workers, limits_given(limits), options, executor)
    found, notes = Verification(manifest, root, decode, write, add, access).run()
    for note in notes:
        warn(note)
    return found


@dataclass(frozen=True)
class Verification:
    """A manifest to compare with the disk, as `verify` is asked to."""

    manifest: Path | Table
    root: Path | None = None
    decode: bool = False
    write: bool = False
    add: Path | Table | None = None
    access: Access = USUAL

    def run(self) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Do what `verify` says, and return with the findings what could not be looked for."""
        if is_pack(self.manifest, self.access.options):
            return self._of_pack(), ()
        writes, path = self.write or self.add is not None, self.manifest
        of_file = isinstance(path, str | os.PathLike)
        if of_file:
            path_of_manifest(path)  # refuses what is none
        if writes and not of_file:
            what = "write=True" if self.add is None else "add="
            raise ArgumentError(f"{what} needs the path of a manifest; a frame was given")
        with only_writer_of(path) if writes and os.path.exists(path) else nullcontext():
            return self._compared(os.fspath(path) if of_file else "", writes)

    def _of_pack(self) -> pd.DataFrame:
        asked = {name: getattr(self, name) for name in ("root", "decode", "write", "add")}
        for name, given in {**asked, "executor": self.access.executor}.items():
            if given is not None and given is not False:
                option = "dask" if name == "executor" else name
                raise ArgumentError(
                    f"{name}= (--{option}) is for loose files, and {os.fspath(self.manifest)} is a "
                    "pack, whose bytes are compared with their checksums: leave it out"
                )
        findings = check_pack(self.manifest, self.access.workers, self.access.options)
        return pd.DataFrame(findings, columns=PackFinding._fields, dtype=object)

    def _compared(self, path: str, writes: bool) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """Compare the manifest at a path, "" for a frame in hand, and write what is found."""
        root = None if self.root is None else os.fspath(self.root)
        if not (root is None or has_store(scheme_of(root)) or archive_at(root)):
            check_folder(root, "Give as root= (--root) the folder of the files")
        options = self.access.options.values() if self.access.options else None
        if path:
            frame = read_manifest(path, self.root, self.access.limits, options)
        else:
            frame = data_frame(self.manifest)
        name, known = path or IN_HAND, frame.attrs.get("dfgen", {})
        table = arrow_table(frame, name)
        validate(table, name)
        held = files_column(table.schema) or "path"
        table, facts = self._facts_now(table, held, known.get("labels", {}), name)
        notes = tuple[str, ...]()
        if self.add is not None:
            facts, notes = with_found_problems(facts, self.add, table, self.access.limits)
        found, differs = _findings(table, facts)
        if writes:
            rows = pc.indices_nonzero(differs).to_numpy()
            facts = with_column(facts, "problem", problems_now(table, facts))
            write_manifest(_corrected(frame, facts, rows), path, self.root, options)
        found, recipe = found.filter(pc.is_valid(found["change"])), known.get("recipe")
        left_out = 0
        try:
            if recipe is not None and held == "path":
                new, left_out = self._new_files(table, known, path)
                found = pa.concat_tables([found, *new])
        except DfgenError as error:
            notes += (f"dfgen did not look for new files: {error}",)
        findings = in_order(found, FINDINGS)
        findings.attrs["left_out"] = left_out
        return findings, notes

    def _facts_now(
        self, table: pa.Table, held: str, labels: Mapping[str, Any], name: str
    ) -> tuple[pa.Table, pa.Table]:
        """Return a manifest with paths and no labels that are called as facts, and facts of now.

        `held` is its column of files.
        """
        foreign = {*(FACTS & labels.keys())}  # of an older dfgen
        foreign |= set() if has_whole_facts(table.schema) else {*OF_WHOLE_FILES}
        table, files = without(table, foreign), table[held]
        if held == "path":
            addresses = without_store(files.filter(is_url(files)))
            if len(addresses):
                raise ManifestError(
                    f"{name} has files that are not on a disk, which dfgen does not look for: "
                    f"{addresses[0]}. Mount them, and build the manifest with that folder as "
                    "root= (--root)"
                )
            facts = refresh_facts(files.cast(pa.string()), table, self.access, self.decode)
        else:
            facts, paths = read_facts(files, self.access, self.decode), paths_of(files)
            facts = facts if self.decode else _with_known_faults(facts, table)
            table = with_column(table, "path", pa.nulls(len(table)) if paths is None else paths)
        return table, without(facts, foreign)

    def _new_files(
        self, table: pa.Table, told: Mapping[str, Any], path: str
    ) -> tuple[tuple[pa.Table, ...], int]:
        """Return findings on what the source has and the manifest lacks; no file is opened.

        Beside them stands how many files the manifest leaves out on purpose.
        """
        recipe: Mapping[str, Any] = told["recipe"]
        not_asked = [field.name for field in fields(Splitting)]
        if recipe.get("labels") == A_FRAME:
            if not any(name in recipe for name in SOURCES):
                return (), 0  # the frame that named the files is gone
            not_asked += ["labels", "on", "id", "category", "label", "path_column"]
        known = {name: value for name, value in recipe.items() if name not in not_asked}
        known["facts"] = "none"
        if known.get("unmatched") != "drop" or "left_out" in told:
            known["unmatched"] = "keep"
        given = {}
        if self.root is not None and "root" not in known:
            for name, source in SOURCES.items():
                if name in known and source.folder in known:
                    given[source.folder] = absolute_place(os.fspath(self.root))
        gathered = Gathering(resolve(given, known, path), self.access).rows()
        fresh = gathered.rows
        if "problem" in fresh.column_names:  # labels without a file
            fresh = fresh.filter(pc.is_null(fresh["problem"]))
        paths = tidy(fresh["path"].cast(pa.string()), gathered.folder)
        table = with_column(table, "path", table["path"].cast(pa.string()))
        keys, places = match(table, pa.table({"id": fresh["id"], "path": paths}), path or IN_HAND)
        new = keys.filter(pa.array(places < 0))
        on_purpose = paths_left_out(told.get("left_out", {}), told["root"])
        known_so = pc.is_in(new["path"], value_set=on_purpose)
        new = new.filter(pc.invert(known_so))
        nothing = pa.nulls(len(new), pa.string())
        rows = _rows(pa.repeat("new", len(new)), new["id"], new["path"], nothing)
        return (rows,), pc.sum(known_so).as_py() or 0


def with_found_problems(
    facts: pa.Table, given: Path | Table, table: pa.Table, limits: Limits
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the facts of files with the problems that were found, and what was not taken.

    As those that `verify(decode=True)` finds, they begin with `UNDECODABLE`: they stay in the
    manifest until the file is another. Rows without a reason have no problem, nor such as the
    model alone had.
    """
    name = os.fspath(given) if isinstance(given, str | os.PathLike) else "the table of problems"
    rows, places = rows_by_id(given, name, table["id"], ["reason", "problem", "stage"], limits)
    column = next((each for each in ("reason", "problem") if each in rows.column_names), None)
    if column is None:
        raise ManifestError(
            f'{name} has neither a column "reason" nor "problem", which say what is wrong with a '
            f"row. Columns: {column_list(rows.column_names)}. seq.problems has one"
        )
    reasons = rows[column].cast(pa.string()).combine_chunks()
    reasons = text_where(pc.fill_null(pc.not_equal(reasons, NO_PREDICTION), False), reasons)
    known = pa.nulls(len(table), pa.string())
    if "problem" in table.column_names:
        known = table["problem"].cast(pa.string()).combine_chunks()
    of_disk = pc.or_(pc.equal(reasons, NOT_THERE), pc.equal(reasons, known.take(pa.array(places))))
    if "stage" in rows.column_names:
        of_disk = pc.or_(pc.fill_null(of_disk, False), pc.equal(rows["stage"], _OF_DISK))
    of_disk = pc.fill_null(of_disk, False)
    seen = pc.is_valid(facts["problem"].take(pa.array(places)))
    mended = rows["id"].filter(pc.and_not(of_disk, seen))
    note = f"Not taken from {name}, as the file can be read now: id {listed(mended.to_pylist())}"
    reasons = text_where(pc.invert(of_disk), reasons)
    told = pc.binary_join_element_wise(f"{UNDECODABLE}: ", reasons, "")
    reasons = pc.if_else(is_undecodable(reasons), reasons, told)
    problems = np.full(len(table), None, object)
    problems[places] = np.array(reasons.to_pylist(), object)
    added = pc.coalesce(facts["problem"], pa.array(problems, pa.string()))
    return with_column(facts, "problem", added), (note,) * bool(len(mended))


def _with_known_faults(facts: pa.Table, table: pa.Table) -> pa.Table:
    """Give rows that hold their files back what only decoding finds, unless the size is another."""
    if not {"problem", "bytes"} <= set(table.column_names):
        return facts
    known = table["problem"].cast(pa.string())
    same = pc.fill_null(pc.equal(facts["bytes"], table["bytes"]), False)
    stays = pc.and_(same, is_undecodable(known))
    problems = pc.coalesce(facts["problem"], text_where(stays, known))
    return with_column(facts, "problem", problems)


def _findings(table: pa.Table, now: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Return for each row what is amiss, `change` missing where nothing is, and whether it is new.

    That is, other than the manifest says.
    """
    table, now = table.combine_chunks(), now.combine_chunks()
    known = {name: plain(table[name]) for name in FACTS if name in table.column_names}
    nothing = pa.nulls(len(table), pa.string())
    problem = as_text(known.get("problem", nothing))
    problem_now = plain(now["problem"]).cast(pa.string())
    bad = pc.is_valid(problem_now)
    lost = pc.and_(bad, pc.is_null(plain(now["bytes"])))
    odd = {name: differ(known[name], now[name]) for name in known}
    for name in odd.keys() & {*OF_WHOLE_FILES}:  # others are not known of a header
        odd[name] &= (name == "digest") & pc.is_valid(plain(now[name])).to_numpy(
            zero_copy_only=False
        )
    details = [
        _detail(name, known[name], now[name], odd[name])
        for name in known
        if name != "problem" and odd[name].any()
    ]
    detail = pc.fill_null(nothing, "")
    if details:
        detail = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*details, ""), len(", "))
    mended = pc.and_not(is_undecodable(problem), bad)
    detail = pc.if_else(pc.and_(mended, pc.equal(detail, "")), "it can be decoded", detail)
    changed = pc.and_not(pc.not_equal(detail, ""), bad)
    broken = pc.and_not(bad, lost)
    change = pc.case_when(pc.make_struct(lost, broken, changed), "missing", "broken", "changed")
    known_lost = pc.and_(pc.is_valid(problem), pc.is_null(known.get("bytes", nothing)))
    news = pc.if_else(lost, pc.invert(known_lost), pa.array(differ(problem, problem_now)))
    detail = pc.coalesce(_said(problem_now, problem), detail)
    found = _rows(change, table["id"], table["path"], detail)
    return found, pc.or_(changed, pc.and_(bad, news))


def _said(now: pa.Array, known: pa.Array) -> pa.Array:
    """Return what is wrong with each file, and what the manifest says of it, null where nothing."""
    same = pc.fill_null(pc.equal(now, known), False)
    other = pc.binary_join_element_wise(now, " (the manifest says: ", known, ")", "")
    as_known = pc.binary_join_element_wise(now, " (as the manifest says)", "")
    return pc.coalesce(pc.if_else(same, as_known, other), now)


def _detail(name: str, known: Any, now: Any, odd: npt.NDArray[np.bool_]) -> pa.Array:
    """Return what changed of one fact, as in `, bytes 12 -> 15`; empty where nothing did."""
    one, other = (pc.fill_null(as_text(column), "unknown") for column in (known, now))
    text = pc.binary_join_element_wise(f", {name} ", one, " -> ", other, "")
    return pc.if_else(pa.array(odd), text, "")


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
