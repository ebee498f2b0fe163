"""Suggests fixes for paths without a file and for names that are no column."""

import os
from typing import Any

import pandas as pd

from dfgen.errors import brief, column_list, did_you_mean, listed

_LISTED = 5_000  # names of a folder that are compared
_SUBFOLDERS = 50
_SHOWN = 3
_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif")


def missing_path(
    path: str, folder: str, *, column: str = "path", frame: str = "df", argument: str = "root="
) -> str:
    """Return the likely cause of a path without a file, and how to fix it.

    Looks at four common mistakes in the text, at the case and extension of files in the same
    folder, and for the same relative path one folder up or down.

    Args:
        path: the value in the table.
        folder: where relative paths start.
        column: the column of the path, for the code that is shown.
        frame: name of the table in that code; "" if it cannot be changed.
        argument: the argument that sets the folder.
    """
    scheme = path.partition("://")[0]
    if scheme != path and scheme != "file":
        return f'dfgen has no store for "{scheme}://": copy the files, or mount it as a folder'
    source = f'{frame}["{column}"]'
    for cause, method, fixed in (
        ('"file://" is no folder', '.str.removeprefix("file://")', path.removeprefix("file://")),
        ('"~" is not expanded', ".map(os.path.expanduser)", os.path.expanduser(path)),
        ("folders are separated by /", r'.str.replace("\\", "/")', path.replace("\\", os.sep)),
        ("there are blanks around it", ".str.strip()", path.strip()),
    ):
        if fixed != path:
            return f"{cause}: write {source} = {source}{method}" if frame else cause
    return (
        _other_name(path, folder, source if frame else "")
        or _other_root(path, folder, argument)
        or _content(path, folder)
    )


def near_name(path: str) -> str:
    """Return " Did you mean ...?" with an entry of the same folder, or ""."""
    folder, name = os.path.split(os.path.abspath(path))
    return did_you_mean(name, _names(folder))


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_LISTED), strict=False)]
    except (OSError, ValueError):
        return []  # advice must not fail
    return sorted(name for name in names if not name.startswith("."))


def _other_name(path: str, folder: str, source: str) -> str:
    where, name = os.path.split(os.path.join(folder, path))
    stem, suffix = os.path.splitext(name)
    for other in _names(where):
        other_stem, other_suffix = os.path.splitext(other)
        if other.casefold() == name.casefold():
            return f"{where!r} has {other!r}, in another case"
        if stem == other_stem and other_suffix.lower() in _IMAGES:
            change = f'.str.replace("{suffix}", "{other_suffix}")' if suffix else ""
            change = change or f'.astype(str) + "{other_suffix}"'
            fix = f": write {source} = {source}{change}" if source else ""
            return f"{where!r} has {other!r}{fix}"
    return ""


def _other_root(path: str, folder: str, argument: str) -> str:
    below = [os.path.join(folder, name) for name in _names(folder)][:_SUBFOLDERS]
    roots = [os.path.dirname(folder), *filter(os.path.isdir, below)]
    roots = [root for root in roots if os.path.exists(os.path.join(root, path))]
    if os.path.isabs(path) or not roots:
        return ""
    if len(roots) > 1:  # such as train and test
        return f'"{path}" is in {listed(roots)}: give the one of this table as {argument}'
    relative = os.path.relpath(roots[0])
    shown = roots[0] if relative.startswith("..") else relative
    return f'"{path}" is in "{roots[0]}": give {argument}"{shown}"'


def _content(path: str, folder: str) -> str:
    where, name = os.path.split(os.path.join(folder, path))
    while where != os.path.dirname(where) and not os.path.isdir(where):
        where, name = os.path.split(where)
    names = _names(where)
    shown = f"holds {listed(names[:_SHOWN])}" if names else "is empty"
    return f"the folder {where!r} has no {name!r}, it {shown}" + ", ..." * (len(names) > _SHOWN)


def not_a_column(argument: str, value: Any, names: list[str], source: Any) -> str:
    """Return the message for an argument that should be the name of a column.

    Args:
        argument: its name.
        value: the value received.
        names: all column names.
        source: the table, a DataFrame or an Arrow table.
    """
    columns = f"Columns: {column_list(names)}."
    if isinstance(value, str):
        hint = _hint(argument, value, names, source)
        return f'{argument}="{value}" is not a column of the manifest. {columns}{hint}'
    only = value[0] if isinstance(value, list | tuple) and len(value) == 1 else None
    name = only or getattr(value, "name", None)
    if isinstance(name, str) and name in names:
        advice = f'write {argument}="{name}"'
    elif hasattr(value, "__len__"):
        name = name if isinstance(name, str) else argument
        advice = f'put it into the frame, df["{name}"] = ..., and write {argument}="{name}"'
    else:
        advice = f"give the name of a column, or leave {argument} out"
    return (
        f"{argument}={brief(value)} is not a column of the manifest, expected the name of one: "
        f"{advice}. {columns}"
    )


def _hint(argument: str, name: str, names: list[str], source: Any) -> str:
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= {*names}:
        return f" Write a list for several, {argument}={parts}"
    if isinstance(source, pd.DataFrame) and name in source.index.names:
        return f' "{name}" is the index: write df = df.reset_index()'
    if any(other.strip() == name for other in names):
        return f' With blanks there is "{name}": write df.columns = df.columns.str.strip()'
    if os.path.isdir(name):
        return f' It is a folder: if relative paths start there, write root="{name}"'
    if os.path.exists(name) or name.lower().endswith(_IMAGES):
        return f' It is a path: give the column of the paths, such as {argument}="path"'
    if argument == "x":
        image = next((one for one in names if _names_image(source, one)), None)
        if image is not None:
            return f' Column "{image}" has names of images: write x="{image}"'
        if name == "path" and not any("path" in one.lower() for one in names):
            join = 'dfgen.build_manifest(FOLDER, labels=df, on="stem=COLUMN")'
            return f" No column has names of files: join the table with them, {join}, or give x="
    return did_you_mean(name, names)


def _names_image(source: Any, column: str) -> bool:
    is_frame = isinstance(source, pd.DataFrame)
    values = source[column].head(1).tolist() if is_frame else source[column][:1].to_pylist()
    return bool(values) and str(values[0]).lower().endswith(_IMAGES)
