"""Differences between two manifests, and between a manifest and the disk."""

import json
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from hashlib import blake2b
from typing import Any, Never

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, without_secrets
from dfgen.executors import Made
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import is_undecodable, problems_now, read_facts, refresh_facts
from dfgen.manifest.io import Path, only_writer_of, read_manifest, write_manifest
from dfgen.manifest.paths import stored_paths
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    PARTS,
    Label,
    class_names,
    files_column,
    has_whole_facts,
    label_columns,
    validate,
    with_column,
    without,
)
from dfgen.manifest.table_reading import read_table
from dfgen.manifest.writing import path_of_manifest
from dfgen.packs.format import PackFinding, check_pack, is_pack
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import PANDAS_TYPES, Table, arrow_table, data_frame
from dfgen.table.arrow_types import (
    LISTS,
    are_files,
    are_numbers,
    content_parts,
    content_shown,
    in_one,
    paths_of,
    value_type,
)

DIFFERENCES = ("columns", "classes", "added", "removed", "changed", "relabelled", "moved")


def diff(a: Path | Table, b: Path | Table) -> pd.DataFrame:
    """List the differences between two manifests; rows are compared by their id.

    Use it to see what an update, a new split or other arguments changed. The order of the rows does
    not matter. Paths are compared below the root of each manifest, so a data set that moved as a
    whole is the same.

    Args:
        a: the older manifest: a file, a frame or another table.
        b: the newer one.

    Returns:
        One row per difference: `change`, `id`, `column`, and the `old` and `new` value as text,
        missing if there is none. `change` is "added" or "removed" (a row), "changed" (a path or a
        fact), "relabelled", "moved" (to another split), "columns" (one manifest lacks the column),
        or "classes" (other class names, or another order). No rows: the manifests agree.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: one of them is not a manifest.

    Example:
        >>> old = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "kind": ["cat", "dog"]})
        >>> diff(old, old.assign(kind="cat"))
               change  id column  old  new
        0  relabelled   2   kind  dog  cat
    """
    (old, old_labels), (new, new_labels) = _stored(a), _stored(b)
    if old["id"].type != new["id"].type:
        old, new = (with_column(table, "id", as_text(table["id"])) for table in (old, new))
    parts, nothing = [], pa.nulls(1, old["id"].type)
    for name in dict.fromkeys([*old.column_names, *new.column_names]):
        kinds = [str(t[name].type) if name in t.column_names else None for t in (old, new)]
        if None in kinds:
            parts.append(_listed("columns", nothing, name, *kinds))
        elif name in label_columns(old.column_names):
            names = [_classes(old, old_labels, name), _classes(new, new_labels, name)]
            if None not in names and names[0] != names[1]:
                parts.append(_listed("classes", nothing, name, *names))
    places = pc.index_in(new["id"], value_set=old["id"])
    gone = pc.invert(pc.is_in(old["id"], value_set=new["id"]))
    parts.append(_listed("added", new["id"].filter(pc.is_null(places))))
    parts.append(_listed("removed", old["id"].filter(gone)))
    new, old = new.filter(pc.is_valid(places)), old.take(places.drop_null())
    for name in old.column_names:
        if name != "id" and name in new.column_names:
            mask = pa.array(differ(old[name], new[name]))
            one, other = (table.filter(mask) for table in (old, new))
            values = as_text(one[name]), as_text(other[name])
            parts.append(_listed(_change(name, one[name].type), one["id"], name, *values))
    return in_order(pa.concat_tables(parts), DIFFERENCES)


def in_order(rows: pa.Table, changes: tuple[str, ...]) -> pd.DataFrame:
    """Return a list of changes as a frame, sorted by kind, without secrets of URLs."""
    for name in rows.column_names:
        if pa.types.is_string(rows[name].type):
            shown = [value and without_secrets(value) for value in rows[name].to_pylist()]
            rows = with_column(rows, name, pa.array(shown, pa.string()))
    frame: pd.DataFrame = rows.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    frame["change"] = pd.Categorical(frame["change"], categories=changes)
    return frame.sort_values("change", kind="stable", ignore_index=True)


def _stored(manifest: Path | Table) -> tuple[pa.Table, Mapping[str, Label]]:
    """Return a manifest with stored paths and int64 or text ids, and its labels."""
    if isinstance(manifest, str | os.PathLike):
        table, metadata = read_table(manifest)
        root, labels = metadata.root, metadata.labels
    else:
        table, known = arrow_table(manifest), getattr(manifest, "attrs", {}).get("dfgen", {})
        validate(table, "the frame")
        root, labels = known.get("root"), known.get("labels", {})
    kind = pa.int64() if pa.types.is_integer(table["id"].type) else pa.string()
    table = with_column(table, "id", table["id"].cast(kind))
    return (stored_paths(table, None, root)[0] if len(table) else table), labels


def _classes(table: pa.Table, labels: Mapping[str, Label], name: str) -> str | None:
    """Return the class names of a category or of lists, as text."""
    names = labels.get(name, Label()).get("class_names")
    if pa.types.is_dictionary(table[name].type):
        names = class_names(table[name]).to_pylist()
    return None if names is None else json.dumps(names, ensure_ascii=False, default=str)


def _listed(change: str, ids: Any, column: str | None = None, *values: Any) -> pa.Table:
    """Return rows of the result; `values` are the old and the new ones."""
    old, new = (
        pa.array([value] * len(ids), pa.string()) if isinstance(value, str | None) else value
        for value in values or (None, None)
    )
    changes, columns = [change] * len(ids), pa.array([column] * len(ids), pa.string())
    return pa.table(
        {"change": pa.array(changes, pa.string()), "id": ids, "column": columns, "old": old,
         "new": new}
    )  # fmt: skip


def _change(name: str, kind: pa.DataType) -> str:
    if are_files(kind) or name in ("path", "index", *FACTS):
        return "changed"
    return "moved" if name in PARTS else "relabelled"


def differ(one: Any, other: Any) -> npt.NDArray[np.bool_]:
    """Return for each row whether two columns differ; missing equals missing alone."""
    one, other = plain(one), plain(other)
    if one.type != other.type:
        numbers = are_numbers(one.type) and are_numbers(other.type)
        whole = pa.types.is_integer(one.type) and pa.types.is_integer(other.type)
        kind = pa.int64() if whole else pa.float64() if numbers else one.type
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            one, other = one.cast(kind, safe=not numbers), other.cast(kind, safe=not numbers)
    if one.type != other.type or pa.types.is_nested(one.type):
        one, other = as_text(one), as_text(other)
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    mask = pc.or_(unequal, pc.xor(pc.is_null(one), pc.is_null(other)))
    return np.asarray(mask.to_numpy(zero_copy_only=False))


def plain(column: Any) -> pa.Array:
    """Return one array without dictionary and NaN; lists are large, and files are text."""
    if are_files(column.type):
        return pa.array(map(_file_shown, column), pa.string())
    kind = value_type(column.type)
    if isinstance(kind, pa.BaseExtensionType):  # periods, intervals
        values = (None if value is None else str(value) for value in column.to_pylist())
        return pa.array(values, pa.string())
    array = in_one(column).cast(pa.string() if pa.types.is_null(kind) else kind)
    if isinstance(kind, LISTS):
        return array.cast(pa.large_list(kind.value_type))
    if pa.types.is_floating(kind):
        array = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(array), None, array)
    return array


def _file_shown(content: pa.Scalar) -> str | None:
    """Return path, size and digest of a file in a table."""
    if not content.is_valid:
        return None
    value = content.as_py()
    data = content_parts(value)[0]
    digest = "" if data is None else f", {blake2b(data, digest_size=8).hexdigest()}"
    return f"{content_shown(value)}{digest}"


def as_text(column: Any) -> pa.Array:
    """Return the values of a column as messages show them."""
    values = plain(column)
    if pa.types.is_nested(values.type):
        lists = (None if v is None else json.dumps(v, default=str) for v in values.to_pylist())
        return pa.array(lists, pa.string())
    return values.cast(pa.string())


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
    problem = as_text(known.get("problem", pa.nulls(len(table), pa.string())))
    problem_now = facts["problem"]
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
    detail = pc.coalesce(problem_now, detail)
    ids = table["id"].cast(pa.int64()) if pa.types.is_integer(table["id"].type) else table["id"]
    paths = table["path"].cast(pa.string())
    findings = pa.table({"change": change, "id": ids, "path": paths, "detail": detail})
    return findings, pc.or_(changed, bad)


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
