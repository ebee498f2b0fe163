"""Values as short texts."""

import datetime
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import legible


def word(value: Any) -> str:
    """Return a number, date, label or list of these as text, "none" if it is missing or empty."""
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
    """Return a text as one line of at most `most` characters; a longer one loses its middle."""
    line = " ".join(legible(str(text)).split())
    end = (most - 1) // 2
    return line if len(line) <= most else f"{line[: most - 1 - end]}…{line[len(line) - end :]}"
