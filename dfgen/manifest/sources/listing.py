"""Source `listing`: a list of files that somebody has made already, in place of a folder.

The smallest one that shows it, as a table (CSV, TSV, JSON Lines, Parquet):

    path,size
    cats/a.jpg,48213

or an S3 Inventory, by its manifest.json; the files that it names (CSV or Parquet) are looked for
where S3 put them, or beside it, or in `data` beside it or one folder up.

Format: https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory.html.
"""

import csv
import gzip
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal
from urllib.parse import unquote_plus

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, MissingFileError, did_you_mean
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import read_json, reading
from dfgen.manifest.path_roots import absolute_place
from dfgen.manifest.paths import check_stored_paths, is_url
from dfgen.manifest.sources.file_tree import fit, opened_files
from dfgen.manifest.sources.label_table import read_rows
from dfgen.manifest.sources.path_pattern import Pattern
from dfgen.manifest.sources.source import TEXT, Argument, RowGroup, Source
from dfgen.manifest.sources.table_format import TableFormat
from dfgen.table.parquet import read_foreign_parquet

_KEPT = ("key", "size", "lastmodifieddate", "last_modified_date")


class _Table(msgspec.Struct):
    key: str


class _Inventory(msgspec.Struct):
    sourceBucket: str
    fileFormat: Literal["CSV", "Parquet"]
    fileSchema: str
    files: Annotated[list[_Table], msgspec.Meta(min_length=1)]


def read_inventory(path: str, limits: Limits = DEFAULT) -> tuple[str, Iterator[pa.Table]]:
    """Return the bucket, and its keys that exist with size and time, table by table."""
    expected = (
        "S3 writes the manifest.json of an Inventory, of CSV or Parquet: ask S3 for one of them; a "
        "listing in JSON is called .jsonl"
    )
    content = read_json(path, _Inventory, expected, limits, "header_bytes")
    tables = (_read(_near(path, table.key), content, limits) for table in content.files)
    return content.sourceBucket, tables


def _near(path: str, key: str) -> str:
    """Return where a table of the inventory lies on this disk."""
    folder = os.path.dirname(os.path.abspath(path))
    name = key.rpartition("/")[2]
    for near in (folder, f"{folder}/data", f"{os.path.dirname(folder)}/data"):
        place = os.path.join(near, name)
        if os.path.isfile(place):
            return place
    raise MissingFileError(
        f"{path} names {key}, which is neither beside it nor in data/ beside it or one folder up"
    )


def _read(path: str, content: _Inventory, limits: Limits) -> pa.Table:
    with reading(path, advice=". Fetch it again"):
        if content.fileFormat == "Parquet":
            table = read_foreign_parquet(path, limits)
            table = table.rename_columns([name.lower() for name in table.column_names])
        else:
            table = _read_csv(path, content.fileSchema, limits)
    if "key" not in table.column_names:
        raise ManifestError(f"{path} has no Key. Columns: {', '.join(table.column_names)}")
    for name in table.column_names:
        plain = name.replace("_", "")
        if plain in ("islatest", "isdeletemarker"):
            said = pc.equal(pc.utf8_lower(table[name].cast(pa.string())), "true")
            table = table.filter(said if plain == "islatest" else pc.invert(said))
    return table.select([name for name in table.column_names if name in _KEPT])


class _Unpacked(gzip.GzipFile):
    """A packed table, that is refused once it has unfolded to more than the limits allow."""

    def __init__(self, path: str, limits: Limits) -> None:
        super().__init__(path)
        self._limits, self._unpacked = limits, 0

    def read1(self, size: int = -1) -> bytes:
        data = super().read1(size)
        self._unpacked += len(data)
        if not self._limits.allows("decoded_bytes", self._unpacked):
            what = f"{self.name} unpacks to {self._unpacked:,} bytes and more"
            raise ManifestError(self._limits.refusal("decoded_bytes", 10 * self._unpacked, what))
        return data


def _read_csv(path: str, schema: str, limits: Limits) -> pa.Table:
    names = [name.strip().lower() for name in schema.split(",")]
    with _Unpacked(path, limits) as file:
        rows = list(csv.reader(io.TextIOWrapper(file, "utf-8", newline="")))
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ManifestError(
                f"{path}, row {number} has {len(row)} columns, expected {len(names)}: {schema}"
            )
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    if "key" in columns:  # S3 quotes keys in CSV alone
        columns["key"] = tuple(unquote_plus(key) for key in columns["key"])
    return pa.table({name: pa.array(columns.get(name, ()), pa.string()) for name in names})


PATHS = ("path", "key", "file", "file_name", "filename")
SIZES = ("bytes", "size", "size_bytes")
TIMES = ("mtime_ns", "lastmodifieddate", "last_modified", "last_modified_date")


def read_listing(
    table: str,
    path_column: str | None = None,
    root: str | None = None,
    pattern: Pattern | None = None,
    limits: Limits = DEFAULT,
    written: TableFormat = TableFormat(),  # noqa: B008 - frozen
) -> Iterator[RowGroup]:
    """Yield the files of a listing, one group a table; no folder is read.

    Row groups have `path`, the fields of the pattern, and `bytes` and `mtime_ns` where the listing
    has them (size, and Size or LastModifiedDate, in any case); other columns are left out.
    """
    if table.endswith(".json"):
        bucket, tables = read_inventory(table, limits)
        folder = absolute_place(root) if root else f"s3://{bucket}"
    else:
        folder = absolute_place(root or os.path.dirname(os.path.abspath(table)))
        text = [path_column or "path"]
        tables = (group.rows for group in read_rows(table, text, limits, written))
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
    shared=("path_column", "root", "pattern", "limits", "written"),
    gives_facts=True,
)
