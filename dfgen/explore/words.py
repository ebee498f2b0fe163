"""Values as short texts."""

import datetime
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import legible


def word(value: Any) -> str:
    """Return a number, label or prediction as text.

    Example:
        >>> word([0.5, 3]), word(12345.6), word(pd.Timestamp("2026-01-02")), word(None)
        ('0.5, 3', '12,346', '2026-01-02', 'none')
    """
    if pd.api.types.is_list_like(value):
        return ", ".join(map(word, value)) or "none"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if pd.isna(value):
        return "none"
    if isinstance(value, datetime.date):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, float | np.floating):
        return f"{value:,.0f}" if 1e4 <= abs(float(value)) < 1e15 else f"{value:.4g}"
    return str(value)


def one_line(text: object, most: int) -> str:
    """Return a text as one line of at most `most` characters; a longer one loses its middle.

    Example:
        >>> one_line("scan_of_patient_000017_left", 15)
        'scan_of…17_left'
    """
    line = " ".join(legible(str(text)).split())
    end = (most - 1) // 2
    return line if len(line) <= most else f"{line[: most - 1 - end]}…{line[len(line) - end :]}"
