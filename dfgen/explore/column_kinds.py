"""What a column of a frame holds: images, sounds, arrays, other files, text, numbers, classes."""

import os
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import DecodeError
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix, sniff
from dfgen.table.file_columns import content_parts

FILE_KINDS = ("image", "sound", "array", "file")
_LOOKED_AT = 20  # values
_ARRAYS = (".h5", ".hdf5")
_OTHERS = (
    ".csv", ".dcm", ".gz", ".html", ".json", ".las", ".mat", ".md", ".mp4", ".nii", ".npz",
    ".nrrd", ".pdf", ".pkl", ".pt", ".pth", ".tar", ".txt", ".xml", ".zip",
)  # fmt: skip
"""Suffixes of files that dfgen itself does not read."""


def kind_of(column: "pd.Series[Any]") -> str | None:
    """Return what the first values of a column are, or None if they are classes, or not alike.

    It is "image", "sound", "array" or "file" for bytes, for paths by their suffix, and for lists of
    those; "numbers" for lists and arrays of numbers; "text" for sentences.

    Example:
        >>> kind_of(pd.Series(["a.png", "b.JPG"])), kind_of(pd.Series(["cat", "dog"]))
        ('image', None)
    """
    values = column.iloc[: 5 * _LOOKED_AT].dropna().astype(object).tolist()[:_LOOKED_AT]
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1 and kinds <= {*FILE_KINDS}:  # some of them damaged, or of several kinds
        kinds.discard("file")
        return kinds.pop() if len(kinds) == 1 else "file"
    return kinds.pop() if len(kinds) == 1 else None


def _kind(value: Any) -> str | None:
    if isinstance(value, list | tuple | np.ndarray):
        if len(value) and not isinstance(value[0], list | tuple | np.ndarray | np.number):
            first = _kind(value[0])
            return first if first in FILE_KINDS else "numbers" if _is_number(value[0]) else None
        return "numbers"
    data, path = content_parts(value)
    if data is not None:
        try:
            return FORMATS[sniff(data[:16])].holds
        except DecodeError:
            return "file"
    return _of_text(path) if isinstance(path, str | os.PathLike) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_text(value: Any) -> str | None:
    text = os.fspath(value)
    suffix = os.path.splitext(text.partition("?")[0])[1].lower()
    format = formats_by_suffix().get(suffix)
    if format is not None:
        return FORMATS[format].holds
    if suffix in _ARRAYS:
        return "array"
    if suffix in _OTHERS:
        return "file"
    return "text" if len(text.split()) > 3 else None
