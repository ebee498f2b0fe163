"""Source `table`: rows that someone wrote down: CSV, Excel, JSON Lines, Parquet, a DataFrame."""

import json
import os
import zipfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv

from dfgen.errors import (
    ArgumentError,
    ManifestError,
    MissingPackageError,
    did_you_mean,
    quote,
    warn,
)
from dfgen.explain.missing import near_name
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import reading, said
from dfgen.manifest.schema import files_column
from dfgen.manifest.sources.source import RowGroup
from dfgen.manifest.sources.table_format import (
    SEPARATED,
    WORKBOOK,
    TableFormat,
    as_meant,
    text_format,
)
from dfgen.table.any_table import Table, arrow_table, to_table
from dfgen.table.arrow_types import check_names
from dfgen.table.parquet import read_foreign_parquet

_ADVICE = ". Check the file{}; in Python, give a DataFrame that you read yourself"
_WRITTEN = (
    ", or say how it is written, by sep=, decimal= and encoding= (--sep, --decimal, --encoding)"
)
_LONG = 1 << 24  # bytes of a line that are looked at


def read_rows(
    table: str | Table,
    text: Sequence[str] = (),
    limits: Limits = DEFAULT,
    written: TableFormat = TableFormat(),  # noqa: B008 - frozen
) -> Iterator[RowGroup]:
    """Yield the rows of a table, or of a file of one, in one group.

    A named index becomes a column. In CSV, TSV and Excel an empty cell is a missing value, `NA` and
    `null` are text like any other, and columns of `text` are, so that 007 stays 007. `written` says
    how a file is written; else it is looked at.
    """
    if isinstance(table, str):
        rows = _read(table, text, limits, written)
    else:
        table = _with_index(table) if isinstance(table, pd.DataFrame) else table
        rows = arrow_table(table, "the label table")
    check_names(rows.column_names, table_name(table))
    if files_column(rows.schema) in (None, "path"):  # gigabytes stay in pieces
        rows = rows.combine_chunks()
    yield RowGroup(rows.replace_schema_metadata(None))


def table_name(table: str | Table) -> str:
    """Return how messages call a label table."""
    return table if isinstance(table, str) else "the label table"


def _with_index(table: pd.DataFrame) -> pd.DataFrame:
    names = [name for name in table.index.names if name is not None]
    for name in names:
        if name in table.columns:
            raise ManifestError(
                f"the label table has {quote(name)} as a column and as its index. Drop one: "
                "labels.reset_index(drop=True) keeps the column"
            )
    return table.reset_index(names) if names else table


def _read(path: str, text: Sequence[str], limits: Limits, written: TableFormat) -> pa.Table:
    suffix = os.path.splitext(path)[1].lower()
    if os.path.isdir(path) or not path:
        what = f"{path} is a folder" if path else "the path is empty"
        raise ManifestError(f"{what}, expected a table of labels: {', '.join(_READERS)}")
    if suffix not in _READERS:
        reader = "read_excel" if suffix.startswith(".xls") else "read_csv"
        raise ManifestError(
            f"{path} has the extension {quote(suffix)}. Label tables are {', '.join(_READERS)}; "
            f"in Python, any DataFrame: labels=pandas.{reader}({quote(path)})"
        )
    if os.path.isfile(path) and not os.path.getsize(path):
        raise ManifestError(
            f"{path} is empty (0 bytes), expected a first line of the names of columns, and rows "
            "below. Save the table again, or fetch it again"
        )
    try:
        # Parquet is read in part, and tells what it unfolds to
        bound = None if suffix == ".parquet" else "file_bytes"
        advice = _ADVICE.format(_WRITTEN if suffix in SEPARATED else "")
        with reading(path, f" as {suffix}", _no_table(path), advice, limits, bound):
            return _READERS[suffix](path, text, limits, written)
    except ManifestError as error:
        if suffix != ".parquet" and isinstance(error.__cause__, ValueError | pa.ArrowException):
            _check_utf8(path)
        raise


def _no_table(path: str) -> str:
    home = os.path.expanduser(path)
    hint = near_name(path)
    near = f'. "~" is not expanded: give {quote(home)}' if home != path else hint and f".{hint}"
    return f"there is no label table {path}. Looked in {os.getcwd()}{near}"


def _check_utf8(path: str) -> None:
    """Raise if a file that could not be read is text of another encoding."""
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONG), b""), 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                if len(line) == _LONG:  # cut, and perhaps within a character
                    return
                part = line[max(0, error.start - 20) : error.start + 20]
                shown = part.decode("cp1252", errors="replace").strip()
                by = 'encoding="cp1252" (--encoding cp1252)'
                if os.path.splitext(path)[1].lower() not in SEPARATED:
                    by = "labels=pandas.read_json(PATH, lines=True, encoding=...)"
                raise ManifestError(
                    f"{path} is not UTF-8 text: line {number} has {part!r}. Save it as UTF-8, or "
                    f"name its encoding, as with {by}. In cp1252, as Excel saves in the west of "
                    f"Europe, this is {quote(shown)}"
                ) from None


def _read_separated(
    path: str, text: Sequence[str], limits: Limits, written: TableFormat
) -> pa.Table:
    usual = SEPARATED[os.path.splitext(path)[1].lower()]
    encoding, sep, skipped = text_format(path, written, usual)
    parse = pa.csv.ParseOptions(delimiter=sep, newlines_in_values=True)

    def read(as_text: Sequence[str], names: list[str] | None = None, threads: bool = True) -> Any:
        options = pa.csv.ReadOptions(use_threads=threads, encoding=encoding, skip_rows=skipped)
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(as_text, pa.string()),
            include_columns=names,
            null_values=[""],
            strings_can_be_null=True,
            decimal_point=written.decimal or ".",
        )
        return _read_csv(path, options, parse, convert)

    try:
        table = read(text)
    except pa.ArrowInvalid:  # one thread is slower, and names the row
        table = read(text, threads=False)
    columns = zip(table.column_names, table.schema.types, strict=True)  # names may raise too
    if any(pa.types.is_binary(kind) for _, kind in columns):
        raise ValueError("it is not UTF-8 text")
    check_names(_named(table.column_names), path)
    numbers = [
        field.name
        for field in table.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    raw = read(numbers, numbers) if numbers else pa.table({})
    table = as_meant(table, path, raw, text, written.decimal, sep)
    return table.rename_columns(_named(table.column_names))


def _read_workbook(
    path: str, text: Sequence[str], limits: Limits, written: TableFormat
) -> pa.Table:
    """Read a sheet of Excel's, where numbers and dates are what they are; text may be some too."""
    with zipfile.ZipFile(path) as parts:
        nbytes = sum(part.file_size for part in parts.infolist())
    if not limits.allows("decoded_bytes", nbytes):
        what = f"{path} says that it unfolds to {nbytes:,} bytes"
        raise ManifestError(limits.refusal("decoded_bytes", nbytes, what))
    try:
        book = pd.ExcelFile(path, engine="openpyxl")
    except ImportError:
        raise MissingPackageError(
            f"{path} is a workbook of Excel, which needs openpyxl. It is in the extra named excel: "
            'pip install "keras-dfgen[excel]"'
        ) from None
    with book:
        sheets = [str(name) for name in book.sheet_names]
        sheet = written.sheet or sheets[0]
        if sheet not in sheets:
            raise ArgumentError(
                f"sheet={quote(sheet)} is not in {path}.{did_you_mean(sheet, sheets)} "
                f"Sheets: {', '.join(map(quote, sheets))}"
            )
        if written.sheet is None and len(sheets) > 1:
            warn(
                f"{path} has {len(sheets)} sheets, and the first is read, {quote(sheet)}. To read "
                f"another one give its name, as in sheet={quote(sheets[1])} (--sheet)"
            )
        types: dict[str, Any] = defaultdict(lambda: object, dict.fromkeys(text, str))
        frame = pd.read_excel(book, sheet, dtype=types, keep_default_na=False, na_values=[""])
    try:
        table = to_table(frame.infer_objects(), path)
    except ManifestError as error:
        raise ManifestError(
            f"{error}. Or give its cells one type in the workbook, and leave those empty where "
            "nothing is known"
        ) from None
    return as_meant(table, path, pa.table({}), text, written.decimal)


def _read_csv(path: str, *options: Any) -> pa.Table:
    with pa.OSFile(path) as file:  # closed at once, after an error too
        return pa.csv.read_csv(file, *options)


def _named(names: list[str]) -> list[str]:
    """Return the names of columns; one without a name, as of an index, is called as in pandas."""
    named = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
    return [
        name + ".1" * (not given and named.count(name) > 1)
        for name, given in zip(named, names, strict=True)
    ]


def _read_json_lines(
    path: str, text: Sequence[str], limits: Limits, written: TableFormat
) -> pa.Table:
    """Read line by line: pyarrow.json would turn text that looks like a date into a time."""
    with open(path, encoding="utf-8") as file:
        lines = enumerate(_short_lines(file, path, limits), 1)
        rows = [_object(line, number) for number, line in lines if line.strip()]
    if not rows:
        raise ValueError("it is empty")
    try:
        held = pa.array(rows)
    except _UNFIT as error:
        raise ValueError(f"{_place_of_odd(rows, path)}: {said(error)}") from error
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(held)])


def _short_lines(file: IO[str], path: str, limits: Limits) -> Iterator[str]:
    """Yield the lines of a text, none longer than `chunk_bytes`."""
    most, number = int(limits.most["chunk_bytes"]), 0
    while line := file.readline(most + 1):
        number += 1
        if len(line) > most:
            what = f"{path}, line {number} is longer than {most:,} characters"
            raise ManifestError(limits.refusal("chunk_bytes", 2 * most, what))
        yield line


_UNFIT = (pa.ArrowException, ValueError, OverflowError)


def _place_of_odd(rows: list[dict[str, object]], path: str) -> str:
    """Return the line, and the column, of the first row that does not go with those before."""
    row = bisect_left(range(len(rows)), True, key=lambda end: _is_odd(rows[: end + 1]))
    odd = next((name for name, value in rows[row].items() if _is_odd([value])), None)
    with open(path, "rb") as file:
        lines = [number for number, line in enumerate(file, 1) if line.strip()]
    return f"line {lines[row]}" + ("" if odd is None else f", {quote(odd)}")


def _is_odd(values: list[Any]) -> bool:
    """Whether Arrow cannot hold values as they are."""
    try:
        pa.array(values)
    except _UNFIT:
        return True
    return False


def _object(line: str, number: int) -> dict[str, object]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # more digits than Python reads
        raise ValueError(f"line {number}: {said(error)}") from error
    if not isinstance(row, dict):
        raise ValueError(f"line {number} is not a JSON object, and every line must hold one")
    return row


_READERS: dict[str, Callable[[str, Sequence[str], Limits, TableFormat], pa.Table]] = {
    **dict.fromkeys(SEPARATED, _read_separated),
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": lambda path, text, limits, written: read_foreign_parquet(path, limits),
    WORKBOOK: _read_workbook,
}
