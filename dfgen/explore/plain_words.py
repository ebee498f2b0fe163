"""Values in words: numbers, bytes, dates and labels as people write them."""

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import legible


def number(value: float) -> str:
    """Return a number as people read it: 12,345 or 0.0123.

    Example:
        >>> number(12345.0), number(0.01234)
        ('12,345', '0.0123')
    """
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def nbytes(value: float) -> str:
    """Return bytes as people read them.

    Example:
        >>> nbytes(127), nbytes(2_500_000)
        ('127 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{number(round(value, 1))} {unit}"
        value /= 1000
    return f"{number(round(value, 1))} TB"


def word(value: Any) -> str:
    """Return a label or a prediction as text; a date without a time of day has none.

    Example:
        >>> word([0.5, 3]), word(pd.Timestamp("2026-01-02"))
        ('0.5, 3', '2026-01-02')
    """
    if isinstance(value, list | tuple | set | np.ndarray):
        return ", ".join(map(word, value)) or "none"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime.date) and not pd.isna(value):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, float | np.floating):
        return f"{value:,.0f}" if 1e4 <= abs(float(value)) < 1e15 else f"{value:.4g}"
    return str(value)


def moment(nanoseconds: int) -> str:
    """Return a time that is counted from 1970, in UTC.

    Example:
        >>> moment(1_700_000_000_000_000_000)
        '2023-11-14 22:13'
    """
    return f"{pd.Timestamp(nanoseconds):%Y-%m-%d %H:%M}"


def day(nanoseconds: float) -> str:
    """Return the day of a time that is counted from 1970, in UTC.

    Example:
        >>> day(1.7e18)
        '2023-11-14'
    """
    return f"{pd.Timestamp(int(nanoseconds)):%Y-%m-%d}"


_OF_FACTS = {
    "aspect": number, "bytes": nbytes, "frames": number, "height": number, "mtime_ns": moment,
    "sample_rate": number, "width": number,
}  # fmt: skip


def value_of(name: str, value: Any) -> str:
    """Return what a row has in a column: facts of files as people write them, else its `word`.

    Example:
        >>> value_of("bytes", 2_500_000), value_of("year", 2026), value_of("age", None)
        ('2.5 MB', '2026', 'none')
    """
    if not pd.api.types.is_list_like(value) and pd.isna(value):
        return "none"
    is_number = isinstance(value, int | float | np.number)
    return _OF_FACTS[name](value) if name in _OF_FACTS and is_number else word(value)


def one_line(text: object, most: int) -> str:
    """Return a text as one line of so many characters; a longer one loses its middle.

    Example:
        >>> one_line("scan_of_patient_000017_left", 15)
        'scan_of…17_left'
    """
    line = " ".join(legible(str(text)).split())
    end = (most - 1) // 2
    return line if len(line) <= most else f"{line[: most - 1 - end]}…{line[len(line) - end :]}"
