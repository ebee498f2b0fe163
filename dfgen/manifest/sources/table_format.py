"""How the text of a table is written: its separator, decimal mark and encoding."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, quote
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
