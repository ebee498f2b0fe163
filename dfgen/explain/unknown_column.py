"""Words for a name that is no column: the index, another spelling, a path, a folder."""

import os
from typing import Any

import pandas as pd

from dfgen.errors import brief, column_list, did_you_mean
from dfgen.samples.features.arguments import series_name
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix


def not_a_column(argument: str, value: Any, names: list[str], source: Any) -> str:
    """Return the message on what is no name of a column of `source`, a frame or an Arrow table."""
    columns = f"Columns: {column_list(names)}."
    if isinstance(value, str):
        hint = _meant(argument, value, names, source)
        return f'{argument}="{value}" is not a column of the manifest. {columns}{hint}'
    new = value[0] if isinstance(value, list | tuple) and len(value) == 1 else series_name(value)
    if isinstance(new, str) and new in names:
        advice = f'write {argument}="{new}"'
    elif isinstance(value, pd.Index):
        advice = f'df = df.reset_index() makes the column "{new or "index"}" of it'
    elif hasattr(value, "__len__"):
        new = series_name(value) or argument
        advice = f'put it into the frame, df["{new}"] = ..., and write {argument}="{new}"'
    else:
        advice = f"give the name of a column, or leave {argument} out"
    return (
        f"{argument}={brief(value)} is not a column of the manifest, expected the name of one: "
        f"{advice}. {columns}"
    )


def _meant(argument: str, name: str, names: list[str], source: Any) -> str:
    """Return what to write in place of a name, behind a blank, or ""."""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= {*names}:
        return f" Write a list for several, {argument}={parts}"
    index = source.index if isinstance(source, pd.DataFrame) else None
    if index is not None and name in index.names:
        return f' "{name}" is the index: write df = df.reset_index()'
    if argument == "x" and index is not None and _names_image(index[0]):
        return ' The index names images: write df = df.rename_axis("path").reset_index()'
    if any(other.strip() == name for other in names):
        return f' With blanks there is "{name}": write df.columns = df.columns.str.strip()'
    if os.path.isdir(name):
        return f' It is a folder: where paths begin there, write root="{name}"'
    firsts = source[:1].to_pandas() if index is None else source.head(1)
    images = [one for one in names if _names_image(firsts[one].iloc[0])] if argument == "x" else []
    if os.path.isabs(name) or os.path.exists(name) or _names_image(name):
        column = images[0] if images else "path"
        return f' It is a path: name the column that holds the paths, such as {argument}="{column}"'
    if images:
        return f' Images are named by {", ".join(images)}: write x="{images[0]}"'
    return did_you_mean(name, names)


def _names_image(value: object) -> bool:
    if not isinstance(value, str | os.PathLike):
        return False
    format = formats_by_suffix().get(os.path.splitext(os.fspath(value))[1].lower())
    return format is not None and FORMATS[format].holds == "image"
