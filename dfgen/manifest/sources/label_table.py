"""Label tables: .csv, .tsv and .jsonl (also gzipped), .parquet and .xlsx, or a frame."""

import codecs
import csv
import gzip
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Collection
from typing import IO, Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError, ManifestError, MissingPackageError, brief, quote, warn
from dfgen.explain.missing import near_name
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.reading import encoding_of, reading, said
from dfgen.manifest.schema import files_column, with_column
from dfgen.table.any_table import Table, arrow_table, to_table
from dfgen.table.arrow_types import check_names, read_parquet

_SEPARATED = (".csv", ".tsv")
_SUFFIX = re.compile(r"\.(csv|tsv)(\.gz)?\Z", re.IGNORECASE)
WHOLE = r"\A(?:0|-?[1-9][0-9]{0,17})\z"
_NUMBER = r"\A-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?\z"
_TRUE, _FALSE = pa.array(["True", "true", "TRUE"]), pa.array(["False", "false", "FALSE"])


class TableFormat(NamedTuple):
    """How a .csv or .tsv file is written; None: as usual."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None


def read_labels(
    table: str | Table,
    text: Collection[str] = (),
    limits: Limits = DEFAULT,
    written: TableFormat = TableFormat(),  # noqa: B008 - immutable
) -> pa.Table:
    """Return the rows of a table, or of a file of one.

    A named index becomes a column. In .csv, .tsv and .xlsx files an empty cell is a missing value;
    `NA`, `None` and `007` are text. Columns of `text` are never numbers.
    """
    if any(written) and not (isinstance(table, str) and _SUFFIX.search(table)):
        raise ArgumentError(
            "sep=, decimal= and encoding= say how a .csv or .tsv file of labels= is written, got "
            f"{brief(table)}: leave them out"
        )
    if isinstance(table, str):
        rows = _read(table, text, limits, written)
    else:
        index = table.index.names if isinstance(table, pd.DataFrame) else ()
        if names := [name for name in index if name is not None]:
            table = table.reset_index(names)
        rows = arrow_table(table, "the label table")
    check_names(rows.column_names, table_name(table))
    if files_column(rows.schema) in (None, "path"):  # gigabytes stay in pieces
        rows = rows.combine_chunks()
    return rows.replace_schema_metadata(None)


def table_name(table: str | Table) -> str:
    """Return the name of a label table in messages."""
    return table if isinstance(table, str) else "the label table"


def _read(path: str, text: Collection[str], limits: Limits, written: TableFormat) -> pa.Table:
    stem, suffix = os.path.splitext(path.lower())
    packed = suffix == ".gz"
    suffix = os.path.splitext(stem)[1] if packed else suffix
    if suffix not in (*_READERS, *[".parquet", ".xlsx"] * (not packed)):
        raise ManifestError(
            f"{path} is not a label table: expected {', '.join(_READERS)}, which may be gzipped "
            "(.csv.gz), .parquet or .xlsx. In Python, read it with pandas and give the frame: "
            "labels=df"
        )
    missing = f"there is no label table {path}. Looked in {os.getcwd()}.{near_name(path)}"
    advice = ". Correct the file"
    if suffix in _SEPARATED:
        advice += ", or say how it is written with sep=, decimal= and encoding="
    bound = None if suffix == ".parquet" else "file_bytes"  # its reader checks its size in memory
    with reading(path, f" as {suffix}", missing, advice, limits, bound) as nbytes:
        if not nbytes:
            raise ManifestError(
                f"{path} is empty (0 bytes), expected column names in the first line, and rows"
            )
        if suffix == ".parquet":
            with pq.ParquetFile(path, page_checksum_verification=True) as opened:
                table = read_parquet(opened)
            table.validate(full=True)  # text of other writers may not be UTF-8
            return table
        with _unpacked(path, limits) if packed else open(path, "rb") as file:
            if suffix == ".xlsx":
                return _read_workbook(path, file, text, limits)
            return _READERS[suffix](path, file, text, limits, written)


def _unpacked(path: str, limits: Limits) -> IO[bytes]:
    """Return the content of a gzipped file; raise if it is more than the limits allow."""
    most = int(min(limits.most["decoded_bytes"], 1 << 40))
    with gzip.open(path) as packed:
        data = packed.read(most + 1)
    if len(data) > most:
        what = f"{path} unpacks to more than {most:,} bytes"
        limits.check("decoded_bytes", 2 * len(data), what, ManifestError)
    return io.BytesIO(data)


def _read_separated(
    path: str, file: IO[bytes], text: Collection[str], limits: Limits, written: TableFormat
) -> pa.Table:
    head = file.read(1 << 16)
    encoding = written.encoding or encoding_of(head)
    if encoding == "utf-8-sig" and b"\0" in head:
        raise ManifestError(
            f"{path} holds zero bytes, as UTF-16 does: save it as UTF-8, or name its encoding, as "
            'in encoding="utf-16-le" (--encoding)'
        )
    sep = written.sep or (",", "\t")[_SUFFIX.findall(path)[0][0].lower() == "tsv"]
    parse = pa.csv.ParseOptions(delimiter=sep, newlines_in_values=True)
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    start = io.StringIO(decoder.decode(head).removeprefix("\ufeff"), newline="")
    types = dict.fromkeys(next(csv.reader(start, delimiter=sep), []), pa.string())
    convert = pa.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)

    def read(threads: bool) -> pa.Table:
        how = pa.csv.ReadOptions(use_threads=threads, encoding=encoding.removesuffix("-sig"))
        held = file.getvalue() if isinstance(file, io.BytesIO) else None  # a view cannot be closed
        with pa.OSFile(path) if held is None else pa.BufferReader(held) as again:
            return pa.csv.read_csv(again, how, parse, convert)  # whose threads read ahead

    try:
        table = read(threads=True)
    except pa.ArrowInvalid:  # one thread is slower, but names the row
        table = read(threads=False)
    table = table.rename_columns(
        [name or f"Unnamed: {place}" for place, name in enumerate(table.column_names)]
    )
    check_names(table.column_names, path)
    for name in table.column_names:
        if name not in text:
            what = f"column {quote(name)} of {path}"
            table = with_column(table, name, _as_values(table[name], what, written.decimal))
    return table


def _as_values(column: pa.ChunkedArray, what: str, decimal: str | None) -> pa.ChunkedArray:
    """Return text as numbers or booleans if all values are some, and none changes by it."""
    values = column
    if decimal not in (None, "."):
        values = pc.replace_substring(column, decimal, ".")
    if values.null_count == len(values):
        return column
    if _all(values, WHOLE):
        return values.cast(pa.int64())
    if _all(values, _NUMBER):
        numbers = values.cast(pa.float64())
        odd = values.filter(pc.match_substring_regex(values, r"\.[0-9]*0\z"))
        if len(odd) and pc.count_distinct(numbers).as_py() < pc.count_distinct(values).as_py():
            warn(
                f"{what} is numbers, among which {quote(odd[0].as_py())} equals another spelling. "
                "If they are names, such as versions, list the column in category= (--category)"
            )
        return numbers
    if pc.all(pc.is_in(values, value_set=pa.concat_arrays([_TRUE, _FALSE]))).as_py():
        return pc.if_else(pc.is_null(values), None, pc.is_in(values, value_set=_TRUE))
    commas = pc.match_substring_regex(column, r"\A-?[0-9]+,[0-9]+\z")
    if (pc.mean(commas).as_py() or 0) > 0.5:
        example = quote(column.filter(pc.fill_null(commas, False))[0].as_py())
        warn(f'{what} is text: it holds {example}. For numbers give decimal="," (--decimal)')
    return column


def _all(values: pa.ChunkedArray, regex: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, regex)).as_py())


def _read_json_lines(
    path: str, file: IO[bytes], text: Collection[str], limits: Limits, written: TableFormat
) -> pa.Table:
    """Read line by line: pyarrow.json would turn text that looks like a date into a time."""
    rows, most = list[dict[str, Any]](), int(limits.most["chunk_bytes"])
    encoding = encoding_of(file.read(2))
    file.seek(0)
    with io.TextIOWrapper(file, encoding, newline="\n") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(most + 1), ""), 1):
            if len(line) > most:
                what = f"{path}, line {number} is longer than {most:,} characters"
                limits.check("chunk_bytes", 2 * most, what, ManifestError)
            if not (content := line.strip()):
                continue
            try:
                row = json.loads(content)
            except (ValueError, RecursionError) as error:
                raise ManifestError(f"{path}, line {number} is not JSON: {said(error)}") from None
            if not isinstance(row, dict):
                raise ManifestError(
                    f"{path}, line {number} is {content[:50]}, expected a JSON object"
                )
            rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise ManifestError(
                f"{path}: the values of {quote(name)} have not one type: {error}. Write all as text"
            ) from None
    return pa.table(columns)


def _read_workbook(path: str, file: IO[bytes], text: Collection[str], limits: Limits) -> pa.Table:
    with zipfile.ZipFile(file) as parts:
        nbytes = sum(part.file_size for part in parts.infolist())
    what = f"{path} unpacks to {nbytes:,} bytes"
    limits.check("decoded_bytes", nbytes, what, ManifestError)
    try:
        book = pd.ExcelFile(file, engine="openpyxl")
    except ImportError:
        raise MissingPackageError(
            f'{path} is a workbook, which needs openpyxl: pip install "keras-dfgen[excel]"'
        ) from None
    with book:
        if len(book.sheet_names) > 1:
            others = ", ".join(map(quote, book.sheet_names[1:]))
            warn(
                f"{path}: the first sheet is read, {quote(book.sheet_names[0])}. For {others} give "
                "labels=pandas.read_excel(path, sheet_name=..., dtype=str)"
            )
        frame = pd.read_excel(book, dtype=object, keep_default_na=False, na_values=[""])
    for name in frame.columns.intersection([*text]):
        frame[name] = frame[name].map(str, na_action="ignore")
    return to_table(frame.infer_objects(), path)


_READERS: dict[str, Callable[[str, IO[bytes], Collection[str], Limits, TableFormat], pa.Table]] = {
    **dict.fromkeys(_SEPARATED, _read_separated),
    ".jsonl": _read_json_lines,
}
