"""What a name that is no column may be meant for: the index, another spelling, files, a folder."""

import os
from collections.abc import Callable
from typing import Any

import pandas as pd

from dfgen.errors import did_you_mean
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix


def near_column(
    argument: str, name: object, names: list[str], source: Any, first: Callable[[str], Any]
) -> str:
    """Return what to write in place of a name that is no column, behind a blank, or "".

    Args:
        argument: that it was given as.
        name: that is no column.
        names: of the columns.
        source: the frame, or an Arrow table.
        first: returns what the first row has in a column.
    """
    if not isinstance(name, str):
        return ""
    index = source.index if isinstance(source, pd.DataFrame) else None
    if index is not None and name in index.names:
        return f' "{name}" is the index: write df = df.reset_index()'
    if index is not None and argument == "x" and _names_image(index[0]):
        return ' The index names images: write df = df.rename_axis("path").reset_index()'
    if any(other != name and other.strip() == name for other in names):
        return f' With blanks there is "{name}": write df.columns = df.columns.str.strip()'
    if os.path.isdir(name):
        return f' It is a folder: where paths begin there, write root="{name}"'
    images = [other for other in names if _names_image(first(other))] if argument == "x" else []
    if _names_image(name):
        column = images[0] if images else "path"
        return f' It is a path: name the column that holds the paths, such as {argument}="{column}"'
    if images:
        return f' Images are named by {", ".join(images)}: write x="{images[0]}"'
    return did_you_mean(name, names)


def _names_image(value: object) -> bool:
    """Whether a value is the path of an image by its suffix."""
    if not isinstance(value, str | os.PathLike):
        return False
    format = formats_by_suffix().get(os.path.splitext(os.fspath(value))[1].lower())
    return format is not None and FORMATS[format].holds == "image"
