"""Source `listing`: a list of files that somebody has made already, in place of a folder.

The smallest one that shows it, as a table (CSV, TSV, JSON Lines, Parquet):

    path,size
    cats/a.jpg,48213

or an S3 Inventory, by its manifest.json; the files that it names (CSV or Parquet) are looked for
where S3 put them, or beside it, or in `data` beside it or one folder up.

Format: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory.html.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dfgen.errors import ManifestError, did_you_mean
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.paths import check_stored_paths, is_url
from dfgen.manifest.places import absolute_place
from dfgen.manifest.sources.file_tree import fit, opened_files
from dfgen.manifest.sources.label_table import read_rows
from dfgen.manifest.sources.path_pattern import Pattern
from dfgen.manifest.sources.s3_inventory import read_inventory
from dfgen.manifest.sources.source import TEXT, Argument, RowGroup, Source

PATHS = ("path", "key", "file", "file_name", "filename")
SIZES = ("bytes", "size", "size_bytes")
TIMES = ("mtime_ns", "lastmodifieddate", "last_modified", "last_modified_date")


def read_listing(
    table: str,
    path_column: str | None = None,
    root: str | None = None,
    pattern: Pattern | None = None,
    limits: Limits = DEFAULT,
) -> Iterator[RowGroup]:
    """Yield the files of a listing, one group a table; no folder is read.

    Args:
        table: a label table's kinds of file, or the manifest.json of an S3 Inventory.
        path_column: the column of paths. Default: path, key, file, file_name or filename.
        root: the folder where relative paths start. Default for an inventory `s3://BUCKET`, for a
            table its folder.
        pattern: what paths look like; files that it does not fit are left out and named.
        limits: what one file may ask for.

    Yields:
        Row groups with `path`, the fields of the pattern, and `bytes` and `mtime_ns` where the
        listing has them (size, and Size or LastModifiedDate, in any case); other columns are
        left out.
    """
    if table.endswith(".json"):
        bucket, tables = read_inventory(table, limits)
        folder = absolute_place(root) if root else f"s3://{bucket}"
    else:
        folder = absolute_place(root or os.path.dirname(os.path.abspath(table)))
        tables = (group.rows for group in read_rows(table, [path_column or "path"], limits))
    for rows in tables:
        files, skipped = opened_files(_files(rows, table, path_column))
        yield replace(fit(files, skipped, pattern), folder=folder)


def _files(rows: pa.Table, table: str, path_column: str | None) -> pa.Table:
    """Return path, bytes and mtime_ns as the columns are called here."""
    path = _column(rows, (path_column,) if path_column else PATHS)
    if path is None:
        raise ManifestError(
            f"{table} has no column of paths. Columns: {', '.join(rows.column_names)}."
            f"{did_you_mean(path_column or 'path', rows.column_names)} Name it with path_column= "
            "(--path-column)"
        )
    size, time = _column(rows, SIZES), _column(rows, TIMES)
    try:
        columns = {"path": rows[path].cast(pa.string())}
        if size:
            columns["bytes"] = rows[size].cast(pa.int64())
        if time:
            columns["mtime_ns"] = _nanoseconds(rows[time])
    except pa.ArrowException as error:
        raise ManifestError(f"{table}: paths, sizes or times are something else: {error}") from None
    files = pa.table(columns)
    if files["path"].null_count:
        raise ManifestError(f"{table}: {files['path'].null_count} rows have no {path}")
    numbered = pa.table({"id": pa.array(range(len(files))), "path": files["path"]})
    relative = pc.invert(pc.or_(pc.starts_with(files["path"], "/"), is_url(files["path"])))
    check_stored_paths(numbered.filter(relative), "the root", table)
    return files


def _column(rows: pa.Table, names: Sequence[str]) -> str | None:
    """Return the first column of one of these names, in any case."""
    by_name = {name.lower(): name for name in reversed(rows.column_names)}
    return next((by_name[name.lower()] for name in names if name.lower() in by_name), None)


def _nanoseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole nanoseconds as they are, and points in time as such."""
    if pa.types.is_integer(times.type):
        return times.cast(pa.int64())
    if pa.types.is_string(times.type):
        times = pc.replace_substring_regex(times, "Z$", "").cast(pa.timestamp("ns"))
    return times.cast(pa.timestamp("ns")).cast(pa.int64())


LISTING = Source(
    read_listing,
    Argument(TEXT, "Table of paths and sizes, or an S3 Inventory's manifest.json.", is_path=True),
    shared=("path_column", "root", "pattern", "limits"),
    gives_facts=True,
)
