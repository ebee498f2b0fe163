"""Read and write manifests: Parquet files that say what they are."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Never

import pandas as pd
import pyarrow as pa

from dfgen.errors import ArgumentError, DfgenError, ManifestError, reason
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.recipe import absolute_recipe
from dfgen.manifest.metadata_check import (
    REMOVED,
    as_written,
    paths_left_out,
    rows_of_group,
    with_removed,
)
from dfgen.manifest.not_a_manifest import check_out, path_of_manifest
from dfgen.manifest.parts_writer import write_file, write_stream, write_table_in_parts
from dfgen.manifest.paths import tidy
from dfgen.manifest.schema import Label
from dfgen.manifest.table_reading import read_table
from dfgen.packs.pack_index import folder_of, is_in_parts
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, scheme_of
from dfgen.system import is_special, only_writer
from dfgen.table.any_table import Table, arrow_table, data_frame, to_frame
from dfgen.table.parquet import write_parquet

Path = str | os.PathLike[str]


def read_manifest(
    path: Path,
    root: Path | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    where: Any = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Read a manifest as an ordinary DataFrame with absolute paths.

    Filter, sort and join it with pandas, and give it to `dfgen.Sequence`. No file of the data set
    is touched.

    Args:
        path: the Parquet file, or the folder of a manifest in parts, `"pets.manifest"`; either may
            be a URL, as `"s3://bucket/pets.parquet"`. Or the folder of a pack, whose rows also have
            `shard`, the path of the file that holds them, and `row`, their place in it: a Sequence
            reads them from there.
        root: folder where the stored relative paths start, if not the one that the manifest names,
            or the URL of one; absolute ones must lie in it. None: a root far from the manifest is
            told in a warning.
        limits: `dfgen.Limits`: what the file may ask for.
        storage_options: what opens `path` where that is a URL; see `Sequence`.
        columns: names of those to read, in this order; None: all. A Sequence needs `id` and `path`.
        where: which rows to read, before there is a frame: a text such as
            `"split == 'train' and width > 200"`, or a `pyarrow.compute` expression. A text knows
            columns (`with blanks` in backticks), numbers and texts, `==`, `!=`, `<`, `<=`, `>`,
            `>=`, `in [...]`, `is None`, `and`, `or`, `not`; a row without a value is equal to
            nothing. Paths are absolute in it. None: all rows.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        One row a file; columns that hold files stay in Arrow memory. `df.attrs["dfgen"]` holds the
        root, what is known of the labels, and the recipe; filters and `concat` keep it, and
        `write_manifest` uses it.

    Raises:
        ArgumentError: it is no path, or `where` no condition on its columns.
        MissingFileError: there is no such file.
        ManifestError: it is not a manifest, of an unknown version, or its rows are at fault.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = read_manifest("manifests/pets.parquet")  # doctest: +SKIP
        >>> train = df[df.split == "train"]  # doctest: +SKIP
        >>> large = read_manifest("manifests/pets.parquet", where="width > 200")  # doctest: +SKIP
    """
    refuse_unknown(read_manifest, unknown)
    options, limits = StorageOptions(storage_options), limits_given(limits)
    table, metadata = read_table(
        path, root, limits=limits, options=options, columns=columns, where=where
    )
    try:
        frame = to_frame(table)
    except Exception as error:  # of pandas' own key, which may be anything
        raise ManifestError(f"{path} cannot be made a frame: {reason(error)}") from error
    known = (metadata["root"], metadata["labels"], metadata["recipe"])
    more = metadata.get("leaks"), metadata.get("left_out")
    frame.attrs = {"dfgen": attributes(*known, *more)}
    return frame


def frame_of_manifest(manifest: Path | Table) -> pd.DataFrame:
    """Return a frame, another table as one, or the rows of a manifest's file."""
    if isinstance(manifest, str | os.PathLike):
        return read_manifest(manifest)
    return data_frame(manifest)


def write_manifest(
    df: Table,
    path: Path,
    root: Path | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> None:
    """Write a frame as a manifest that any Parquet reader opens.

    The file appears whole or not at all: it is written beside its place, then renamed.

    Args:
        df: one row a file, with the columns `id` and `path`: a DataFrame, or whatever has
            `__arrow_c_stream__`. Without `path` a column holds the files: bytes, or structs of
            `bytes` and `path`. Relative paths start at the root, else at the current folder. The
            index is not kept. Or an iterator of such, as a `pyarrow.RecordBatchReader`, of which
            parts have one in memory at a time; its paths need `root`.
        path: the Parquet file, or its URL; an older manifest is replaced. Rows that it has and `df`
            lacks are left out on purpose: `verify` does not call their files new. A name that ends
            in `.manifest` is that of a folder, which holds the rows in parts of a million each, for
            10^7 rows and more; parts whose rows are those of before keep their files.
        root: folder that holds all the files, or the URL of one. None: the root of the manifest
            that `df` came from if it still holds all, else the deepest common folder, which URLs
            have not. Paths are stored relative to it.
        storage_options: what opens `path` where that is a URL; see `Sequence`.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Raises:
        ArgumentError: `path` is none.
        ManifestError: the frame is not a manifest; the message names the rows.
        WriteError: the file cannot be written, is called by the extension of another kind, or is
            there and no manifest.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "label": ["cat", "dog"]})
        >>> write_manifest(df, "pets.parquet")  # doctest: +SKIP
    """
    refuse_unknown(write_manifest, unknown)
    if isinstance(df, str | os.PathLike) and not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"write_manifest was given the path {os.fspath(df)!r} first, expected the frame and "
            "then the path: dfgen.write_manifest(df, path)"
        )
    path = path_of_manifest(path)
    options = StorageOptions(storage_options)
    check_out(path, options)
    write_frame(df, path, _with_rows_removed(df, path), root, options)


def write_frame(
    df: Table,
    path: str,
    known: Mapping[str, Any],
    root: Path | None = None,
    options: StorageOptions | None = None,
) -> None:
    """Write a frame as `write_manifest` does; `known` is what it says of itself."""
    path = path_of_manifest(path)
    check_out(path, options)
    is_stream = isinstance(df, pa.RecordBatchReader | Iterator)
    if is_in_parts(path):
        write = write_stream if is_stream else write_table_in_parts
        write(df if is_stream else arrow_table(df), folder_of(path), known, root, options)
        return
    table = _in_one_table(df) if is_stream else arrow_table(df)
    table, _ = as_written(table, known, os.path.dirname(path), root)
    rows = rows_of_group(table)
    write_file(path, lambda file: write_parquet(table, file, rows), options)


def _in_one_table(batches: Iterator[Any]) -> pa.Table:
    tables = [arrow_table(batch, "a batch") for batch in batches]
    try:
        return pa.concat_tables(tables).unify_dictionaries()
    except (pa.ArrowException, ValueError) as error:
        raise ManifestError(
            f"the batches are not those of one table: {reason(error)}. Give all the same columns "
            "and types"
        ) from None


def _with_rows_removed(df: Table, path: str) -> Mapping[str, Any]:
    """Return what a frame says of itself, and what it lacks of the manifest that it replaces."""
    known: Mapping[str, Any] = getattr(df, "attrs", {}).get("dfgen", {})
    if not known.get("recipe") or "path" not in df or not os.path.exists(path):
        return known
    try:
        with warnings.catch_warnings(action="ignore"):  # of what is replaced, whatever it is
            table, metadata = read_table(path, reads_files=False, columns=["path"])
    except DfgenError:
        return known
    if metadata["recipe"] != known["recipe"] or "path" not in table.column_names:
        return known
    paths = tidy(arrow_table(df[["path"]])["path"].cast(pa.string()), known["root"] or os.curdir)
    gone = paths_left_out(metadata.get("left_out", {}), metadata["root"], REMOVED)
    before = pa.chunked_array([*table["path"].cast(pa.string()).chunks, *gone.chunks])
    return with_removed(known, paths, before)


def is_plain(path: Path) -> bool:
    """Return whether a manifest is a file of this machine: no URL, no pipe, no descriptor."""
    return not has_store(scheme_of(os.fspath(path))) and not is_special(os.fspath(path))


def only_writer_of(path: Path) -> AbstractContextManager[object]:
    """Refuse other writers of a manifest, from reading it to writing it; far away it cannot."""
    far = has_store(scheme_of(os.fspath(path)))
    return nullcontext() if far else only_writer(os.path.abspath(path))


def attributes(
    root: str | None,
    labels: dict[str, Label],
    recipe: dict[str, Any] | None,
    leaks: Mapping[str, Any] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return `df.attrs["dfgen"]`: plain JSON types alone, because pandas compares attrs."""
    known = {"root": root, "labels": labels, "recipe": absolute_recipe(recipe, os.getcwd())}
    more = {"leaks": leaks, "left_out": left_out}
    return known | {name: value for name, value in more.items() if value is not None}
