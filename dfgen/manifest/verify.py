"""Differences between a manifest and the disk."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Never

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError
from dfgen.executors import Made
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import is_undecodable, problems_now, read_facts, refresh_facts
from dfgen.manifest.diff import as_text, differ, in_order, plain
from dfgen.manifest.io import Path, only_writer_of, read_manifest, write_manifest
from dfgen.manifest.not_a_manifest import path_of_manifest
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    files_column,
    has_whole_facts,
    validate,
    with_column,
    without,
)
from dfgen.packs.format import is_pack
from dfgen.packs.pack_check import PackFinding, check_pack
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import PANDAS_TYPES, Table, arrow_table, data_frame
from dfgen.table.file_columns import paths_of

FINDINGS = ("missing", "broken", "changed")


def verify(
    manifest: Path | Table,
    *,
    root: Path | None = None,
    decode: bool = False,
    write: bool = False,
    workers: int | None = None,
    executor: Made | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Compare a manifest with the disk, and list every file that cannot be used.

    Use it before a long training, or after files were copied. It opens only files whose size or
    time differs from the manifest; with `decode`, all files.

    Args:
        manifest: a file, or a frame or another table with absolute paths; or the folder of a pack,
            or its URL, whose files are compared with their checksums.
        root: folder where the stored paths start, instead of the one in the manifest.
        decode: decode every file to its end: finds files that are truncated or damaged behind a
            good header.
        write: write the facts and problems as they are now into the file. Rows are neither dropped
            nor added.
        workers: threads that read and decode; None: one per CPU of this process.
        executor: any `concurrent.futures.Executor` that reads and decodes instead, or a function
            that makes one; see `build_manifest`.
        limits: `dfgen.Limits`: what a file may ask for, as in the Sequence that will read it.
        storage_options: what opens URLs; see `Sequence`.
        **unknown: none: arguments of other libraries are reported with their names here.

    Returns:
        One row per finding: `change`, `id`, `path` and `detail`. `change` is "missing" (there is no
        such file), "broken" (it cannot be used) or "changed". Missing and broken files are listed
        whether the manifest knows them or not. No rows: manifest and disk agree, and every file can
        be used as far as it was read.

    Raises:
        ArgumentError: `write` for a frame, `decode` for sounds without the package that reads
            them, or an argument that packs do not have.
        MissingFileError: there is no such manifest.
        ManifestError: it is not a manifest.
        WriteError: it cannot be written.
        WorkerError: the executor lost its workers.

    Example:
        >>> dfgen.verify("pets.parquet")["change"].value_counts()  # doctest: +SKIP
    """
    refuse_unknown(verify, unknown)
    options = StorageOptions(storage_options)
    access = Access(workers, limits_given(limits), options, executor)
    is_file = isinstance(manifest, str | os.PathLike)
    if is_pack(manifest, options):
        if root or decode or write or executor:
            raise ArgumentError(
                f"{manifest} is a pack, whose bytes are compared with their checksums: leave out "
                "root=, decode=, write= and executor= (--dask)"
            )
        return pd.DataFrame(
            check_pack(manifest, workers, options), columns=PackFinding._fields, dtype=object
        )
    if write and not is_file:
        raise ArgumentError("write=True expects the path of a manifest, got a frame")
    name = path_of_manifest(manifest) if is_file else "the frame"
    with only_writer_of(name) if write and os.path.exists(name) else nullcontext():
        frame = read_manifest(name, root, limits, options) if is_file else data_frame(manifest)
        table = arrow_table(frame, name)
        validate(table, name)
        table, facts = _facts_now(table, access, decode)
        findings, differs = _findings(table, facts)
        if write:
            facts = with_column(facts, "problem", problems_now(table, facts))
            rows = pc.indices_nonzero(differs).to_numpy()
            write_manifest(_as_now(frame, facts, rows), name, root, storage_options)
    return in_order(findings.filter(pc.is_valid(findings["change"])), FINDINGS)


def _facts_now(table: pa.Table, access: Access, decode: bool) -> tuple[pa.Table, pa.Table]:
    """Return a manifest with paths, without a `digest` of the user's own, and its facts now."""
    foreign = set() if has_whole_facts(table.schema) else {*OF_WHOLE_FILES}
    held = files_column(table.schema) or "path"
    table, files = without(table, foreign), table[held]
    if held == "path":
        facts = refresh_facts(files.cast(pa.string()), table, access, decode)
        return table, without(facts, foreign)
    facts, paths = read_facts(files, access, decode), paths_of(files)
    if not decode and {"problem", "bytes"} <= {*table.column_names}:
        # what only decoding finds stays, unless the size changed
        problems = table["problem"].cast(pa.string())
        same = pc.fill_null(pc.equal(facts["bytes"], table["bytes"]), False)
        stays = pc.if_else(pc.and_(same, is_undecodable(problems)), problems, None)
        facts = with_column(facts, "problem", pc.coalesce(facts["problem"], stays))
    table = with_column(table, "path", pa.nulls(len(table)) if paths is None else paths)
    return table, without(facts, foreign)


def _findings(table: pa.Table, now: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Return a finding per row, with null as `change` if there is none, and which rows differ."""
    known = {name: plain(table[name]) for name in FACTS if name in table.column_names}
    facts = {name: plain(now[name]) for name in now.column_names}
    nothing = pa.nulls(len(table), pa.string())
    problem, problem_now = as_text(known.get("problem", nothing)), facts["problem"]
    bad = pc.is_valid(problem_now)
    lost = pc.and_(bad, pc.is_null(facts["bytes"]))
    detail = pa.array([""] * len(table), pa.string())
    for name in known.keys() - {"problem", "phash"}:
        odd = pa.array(differ(known[name], facts[name]))
        if name == "digest":  # which a header does not have
            odd = pc.and_(odd, pc.is_valid(facts[name]))
        if pc.any(odd).as_py():
            one, other = (pc.fill_null(as_text(c), "unknown") for c in (known[name], facts[name]))
            text = pc.binary_join_element_wise(detail, f", {name} ", one, " -> ", other, "")
            detail = pc.if_else(odd, text, detail)
    detail = pc.utf8_slice_codeunits(detail, len(", "))
    mended = pc.and_not(is_undecodable(problem), bad)
    detail = pc.if_else(pc.and_(mended, pc.equal(detail, "")), "it can be decoded", detail)
    changed = pc.and_not(pc.not_equal(detail, ""), bad)
    broken = pc.and_not(bad, lost)
    change = pc.case_when(pc.make_struct(lost, broken, changed), *FINDINGS)
    news = pa.array(differ(problem, problem_now))
    was_lost = pc.and_(pc.is_valid(problem), pc.is_null(known.get("bytes", nothing)))
    news = pc.if_else(lost, pc.invert(was_lost), news)
    detail = pc.coalesce(problem_now, detail)
    ids = table["id"].cast(pa.int64()) if pa.types.is_integer(table["id"].type) else table["id"]
    paths = table["path"].cast(pa.string())
    findings = pa.table({"change": change, "id": ids, "path": paths, "detail": detail})
    return findings, pc.or_(changed, pc.and_(bad, news))


def _as_now(frame: pd.DataFrame, facts: pa.Table, rows: np.ndarray) -> pd.DataFrame:
    """Return a frame whose facts in these rows are as on the disk."""
    now: pd.DataFrame = facts.to_pandas(types_mapper=PANDAS_TYPES.get).set_index(frame.index)
    frame = frame.copy()
    for name in now:
        if name not in frame:
            frame[name] = now[name]
            continue
        column = frame[name].astype(object)
        column.iloc[rows] = now[name].astype(object).iloc[rows]
        frame[name] = column.astype("category" if name == "format" else now[name].dtype)
    return frame
