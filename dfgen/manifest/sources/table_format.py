"""How the text of a table is written: its separator, decimal mark, encoding, numbers and dates.

Arrow makes numbers of `0.5` and dates of `2024-12-31`. Here are decimal commas, days before months,
and codes such as `007`, which are no numbers. What is not sure is told.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, quote, warn
from dfgen.manifest.schema import with_column
from dfgen.table.arrow_types import is_text

SEPARATED = {".csv": ",", ".tsv": "\t"}
"""Extension of a table of separated values -> its usual separator."""
WORKBOOK = ".xlsx"

_SEPARATORS = (",", ";", "\t", "|")
_TABS = ("\\t", "tab")  # how a shell writes a tab
_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_RUN = "=+-@\t\r"  # first characters of a cell that a spreadsheet may run as a formula
_HEAD = 1 << 18  # characters that are looked at
_ROWS = 1_000
_CODE = r"^0([0-9]+|[xX].*)$"
_WHOLE = r"^[+-]?[0-9]+$"
_LONG = r"[0-9]{16}"  # floats have not all whole numbers of so many digits
_MARKED = r"^[+-]?[0-9]+(?:[.,][0-9]{3})*[.,][0-9]+$"
_DATE = r"^([0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4}|[0-9]{4}[./-][0-9]{1,2}[./-][0-9]{1,2})\b"
_TIMES = {"": "", r"[ T][0-9]{1,2}:[0-9]{2}": " %H:%M", r"[ T][0-9:]{7,8}": " %H:%M:%S"}
_OTHER = {",": ".", ".": ","}


@dataclass(frozen=True)
class TableFormat:
    """The arguments that say how a table is written; None: the file is looked at."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None

    def check(self, suffix: str | None, given: str) -> None:
        """Refuse what cannot be, or does not go with a table of this extension, which was given."""
        for name, kinds in _GO_WITH.items():
            if getattr(self, name) is not None and suffix not in kinds:
                raise ArgumentError(
                    f"{name}= (--{name}) goes with a table of {' or '.join(kinds)}, got {given}: "
                    f"leave {name}= out"
                )
        if self.sep is not None and len(self.sep.encode()) != 1 and self.sep not in _TABS:
            raise ArgumentError(f'sep={quote(self.sep)}: expected one character, as in sep=";"')
        if self.decimal not in (None, ".", ","):
            raise ArgumentError(f'decimal={quote(self.decimal)}: expected "." or ","')
        if self.sep is not None and self.sep == self.decimal:
            raise ArgumentError(f"sep= and decimal= are both {quote(self.sep)}: give another sep=")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ArgumentError(
                f'encoding={quote(self.encoding)} is unknown. Expected one of Python, as "cp1252"'
            ) from None


_GO_WITH = {
    **dict.fromkeys(("sep", "encoding"), tuple(SEPARATED)),
    "decimal": (*SEPARATED, WORKBOOK),
    "sheet": (WORKBOOK,),
}
FORMAT_ARGUMENTS = tuple(field.name for field in fields(TableFormat))
"""The names of its arguments."""


def text_format(path: str, given: TableFormat, usual: str) -> tuple[str, str, int]:
    """Return encoding and separator of a file, and how many of its lines stand before the header.

    Raises:
        ManifestError: several separators make a table of it.
        UnicodeDecodeError: it is of another encoding.
    """
    with open(path, "rb") as file:
        start = file.read(_HEAD)
    encoding = given.encoding or _BYTE_ORDER_MARKS.get(start[:2])
    if encoding is None and b"\0" in start:
        raise ManifestError(
            f"{path} holds zero bytes, as UTF-16 does. Save it as UTF-8, or name its encoding, "
            'as in encoding="utf-16-le" (--encoding utf-16-le)'
        )
    encoding = encoding or "utf-8"
    with open(path, encoding=encoding, newline="") as text:
        head = text.read(_HEAD)
    first = re.match(r"\ufeff?sep=(.)\r?\n", head)  # which Excel reads, and some programs write
    sep = "\t" if given.sep in _TABS else given.sep or (first[1] if first else None)
    return encoding, sep or _separator(head, usual, path), int(first is not None)


def _separator(head: str, usual: str, path: str) -> str:
    """Return the separator by which all rows have as many values as the header; else the usual."""
    widths = {sep: _width(head, sep) for sep in dict.fromkeys((usual, *_SEPARATORS))}
    least = max(2, widths[usual])
    fitting = [sep for sep, width in widths.items() if width >= least]
    if len(fitting) > 1:
        several = " and ".join(f"{widths[sep]} by {quote(sep)}" for sep in fitting)
        raise ManifestError(
            f"{path} has the same number of values in every row, {several}. Say which separates "
            f"them, as in sep={quote(fitting[-1])} (--sep {quote(fitting[-1])}), or save it with "
            f"{quote(usual)} and quotes around values that hold one"
        )
    return fitting[0] if fitting else usual


def _width(head: str, sep: str) -> int:
    """Return how many values each row has by a separator, 0 where they have different numbers."""
    rows = list(islice(_rows(head, sep), _ROWS))
    if len(head) == _HEAD and len(rows) < _ROWS:  # the last one may be cut
        rows = rows[:-1]
    widths = {len(row) for row in rows if row}
    return widths.pop() if len(widths) == 1 else 0


def _rows(head: str, sep: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(head, newline=""), delimiter=sep)
    except csv.Error:  # a value longer than any: by this separator it is no table
        yield from ([], ["", ""], [""])


def as_cell(value: object) -> object:
    """Return a value as a cell of CSV that no spreadsheet runs: text like a formula after `'`.

    The characters are those that OWASP lists under CSV injection.
    """
    runs = isinstance(value, str) and value.lstrip("'").startswith(tuple(_RUN))
    return f"'{value}" if runs and not _is_number(str(value)) else value


def is_for_people(table: object) -> bool:
    """Whether a table is a file that spreadsheets write, in which `as_cell` may have been."""
    return isinstance(table, str) and table.lower().endswith((*SEPARATED, WORKBOOK))


def from_cells(rows: pa.Table, name: str, values: pa.Table) -> pa.Table:
    """Return the rows of a table with text as it was before `as_cell`, in names of columns too.

    Text that is among the `values` of its column both with and without the `'` is refused.
    """
    taken_off = {"pattern": f"^'('*[{re.escape(_RUN)}])", "replacement": r"\1"}
    for place, title in enumerate(rows.column_names):
        if is_text(rows[title].type):
            column = pc.replace_substring_regex(rows[title], **taken_off)
            if title in values.column_names:
                _refuse_ambiguous(rows[title], column, values[title], f'"{title}" of {name}')
            rows = rows.set_column(place, title, column)
    return rows.rename_columns(
        pc.replace_substring_regex(
            pa.array(rows.column_names, pa.string()), **taken_off
        ).to_pylist()
    )


def _refuse_ambiguous(
    raw: pa.ChunkedArray, column: pa.ChunkedArray, held: pa.ChunkedArray, where: str
) -> None:
    if pa.types.is_dictionary(held.type):
        held = held.cast(held.type.value_type)
    if not is_text(held.type):
        return
    known = held.combine_chunks().unique().cast(raw.type)
    both = pc.and_(pc.is_in(raw, value_set=known), pc.is_in(column, value_set=known))
    found = raw.filter(pc.and_(both, pc.not_equal(raw, column)))
    if len(found):
        text = str(found[0])
        raise ManifestError(
            f"column {where} has {quote(text)}, and the manifest has both that and "
            f"{quote(text[1:])}: give the corrections as a DataFrame, which is taken as it is"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_meant(
    typed: pa.Table,
    path: str,
    raw: pa.Table,
    text: Sequence[str] = (),
    decimal: str | None = None,
    sep: str = "",
) -> pa.Table:
    """Return the columns of a table as numbers and dates where all their values are some.

    Args:
        typed: the table as Arrow reads it; text where it is neither number nor ISO date.
        path: its file, for messages.
        raw: those columns of it that are numbers, as text.
        text: columns that stay as they are.
        decimal: the decimal mark that was given; None: the values tell.
        sep: what separates values; a comma leaves those of quoted numbers open.

    Raises:
        ManifestError: numbers may be read in two ways.
    """
    with_commas, open_marks = list[str](), decimal is None and sep != ","
    marks = (decimal,) if decimal else (",",) if open_marks else ()
    for name in typed.column_names:
        column, what = typed[name], f"column {name!r} of {path}"
        if name in raw.column_names:
            typed = with_column(typed, name, _codes(column, raw[name], what))
        if name in text or not is_text(column.type):
            continue
        values = pc.utf8_trim_whitespace(column)
        mark = next((one for one in marks if _are_numbers(values, one)), None)
        if mark is not None:
            if open_marks:
                _refuse_either(values, mark, what)
                with_commas.append(name)
            typed = with_column(typed, name, _as_numbers(values, mark))
        else:
            typed = with_column(typed, name, _as_dates(column, values, what, decimal))
    for name in raw.column_names if open_marks else ():
        _refuse_either(raw[name], ".", f"column {name!r} of {path}", with_commas)
    return typed


def _codes(numbers: Any, raw: Any, what: str) -> Any:
    """Return numbers, as text if one has a leading zero, or more digits than a number holds."""
    why, how = "a leading zero", "without"
    found = raw.filter(pc.match_substring_regex(raw, _CODE))
    if not len(found) and pa.types.is_floating(numbers.type) and _all(raw, _WHOLE):
        why, how = "more digits than a number", "with 15 digits at most"
        found = raw.filter(pc.match_substring_regex(raw, _LONG))
    if not len(found):
        return numbers
    warn(
        f"{what} is text, as {quote(found[0].as_py())} has {why}: it is taken for "
        f"a code. For numbers, write them {how}"
    )
    return raw


def _all(values: Any, regex: str) -> bool:
    """Whether there are values, and all match."""
    matching = pc.match_substring_regex(values, regex)
    return values.null_count < len(values) and bool(pc.all(matching).as_py())


def _thousands(mark: str) -> str:
    return rf"[1-9][0-9]{{0,2}}([{mark}][0-9]{{3}})+"


def _are_numbers(values: Any, decimal: str) -> bool:
    """Whether all are numbers with this decimal mark, and one has it."""
    whole = rf"([0-9]+|{_thousands(_OTHER[decimal])})"
    return _all(values, rf"^-?{whole}([{decimal}][0-9]+)?([eE][+-]?[0-9]+)?$") and bool(
        pc.any(pc.match_substring(values, decimal)).as_py()
    )


def _as_numbers(values: Any, decimal: str) -> Any:
    plain = pc.replace_substring(values, _OTHER[decimal], "")
    return pc.replace_substring(plain, decimal, ".").cast(pa.float64())


def _refuse_either(values: Any, mark: str, what: str, others: list[str] | None = None) -> None:
    """Refuse numbers that have this mark, each of them where thousands would have it."""
    marked = values.filter(pc.match_substring(values, mark))
    if not _all(marked, rf"^[+-]?{_thousands(mark)}$"):
        return
    one = marked[0].as_py()
    beside = f", beside decimal commas in {quote(others[0])}" if others else ""
    raise ManifestError(
        f"{what} holds {quote(one)}{beside}, which is {one.replace(mark, '.')} or "
        f"{one.replace(mark, '')}: name the decimal mark, decimal={quote(mark)} "
        f"(--decimal {quote(mark)}) or decimal={quote(_OTHER[mark])}"
    )


def _as_dates(column: Any, values: Any, what: str, decimal: str | None) -> Any:
    """Return dates with the day or the month first; or the column as it is, and tell why."""
    for point in "./-":
        for time, format in _TIMES.items():
            if _all(values, rf"^[0-9]{{1,2}}[{point}][0-9]{{1,2}}[{point}][0-9]{{4}}{time}$"):
                return _parsed(column, values, point, format, what)
    known = pc.drop_null(values)
    marked = _MARKED.replace(",", "") if decimal == "." else _MARKED
    for regex, kind in ((marked, "numbers"), (_DATE, "dates")):
        odd = known.filter(pc.invert(pc.match_substring_regex(known, regex)))
        if len(known) >= 2 * len(odd) > 0 or (len(known) and not len(odd)):
            return _stays_text(column, known, odd, kind, what)
    return column


def _parsed(column: Any, values: Any, point: str, time: str, what: str) -> Any:
    """Return dates of which each has day and month in the same order, if that is sure."""
    parts = pc.split_pattern(values, point)
    first, second = (pc.list_element(parts, place).cast(pa.int32()) for place in (0, 1))
    late = [bool(pc.any(pc.greater(part, 12)).as_py()) for part in (first, second)]
    if point == "." and not late[1]:
        late = [True, False]  # points stand in dates with the day first
    if late[0] == late[1]:
        either = "some have the day first and some the month" if late[0] else "day or month first"
        return _told(column, values, f"dates such as {_first(values)}, {either}", what)
    form = f"%d{point}%m{point}%Y" if late[0] else f"%m{point}%d{point}%Y"
    try:
        plain = pc.replace_substring(values, "T", " ").to_pandas()
        times = pa.Array.from_pandas(pd.to_datetime(plain, format=form + time))
    except ValueError as error:
        return _told(column, values, f"dates, of which one is none: {error}", what)
    return pa.chunked_array([times.cast(pa.timestamp("s")) if time else times.cast(pa.date32())])


def _stays_text(column: Any, known: Any, odd: Any, kind: str, what: str) -> Any:
    """Return the column as it is, which is text though most of it looks like something else."""
    looks = known.filter(pc.invert(pc.is_in(known, value_set=odd)))
    of = f", but {len(odd):,} of {len(known):,} are others, as {_first(odd)}" if len(odd) else ""
    return _told(column, known, f"{kind} such as {_first(looks)}{of}", what)


def _told(column: Any, values: Any, fault: str, what: str) -> Any:
    warn(
        f"{what} is text: it holds {fault}. Write numbers as 0.5 or give decimal= (--decimal), "
        "dates as 2024-12-31, and leave a cell empty where nothing is known"
    )
    return column


def _first(values: Any) -> str:
    return quote(pc.drop_null(values)[0].as_py())
