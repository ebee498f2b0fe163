"""Numbers, dates and codes of a text table, as they were meant; what is not sure is told.

Arrow makes numbers of `0.5` and dates of `2024-12-31`. Here are decimal commas, days before months,
and codes such as `007`, which are no numbers.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, quote, warn
from dfgen.manifest.schema import with_column
from dfgen.table.arrow_types import is_text

_CODE = r"^0[0-9]+$"
_MARKED = r"^[+-]?[0-9]+(?:[.,][0-9]{3})*[.,][0-9]+$"
_DATE = r"^([0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4}|[0-9]{4}[./-][0-9]{1,2}[./-][0-9]{1,2})\b"
_TIMES = {"": "", r"[ T][0-9]{1,2}:[0-9]{2}": " %H:%M", r"[ T][0-9:]{7,8}": " %H:%M:%S"}
_OTHER = {",": ".", ".": ","}


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
    """Return numbers, as text if one has a leading zero."""
    found = raw.filter(pc.match_substring_regex(raw, _CODE))
    if not len(found):
        return numbers
    warn(
        f"{what} is text, as {quote(found[0].as_py())} has a leading zero: it is taken for "
        "a code. For numbers, write them without"
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
