"""What is given for the path of a manifest and is none: a folder, a table of text, a frame."""

import os
from typing import Any

from dfgen.errors import ArgumentError, WriteError
from dfgen.system import check_writable

_TEXTS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text: pandas.read_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "JSON: pandas.read_json"),
    **dict.fromkeys((".xlsx", ".xls"), "a workbook: pandas.read_excel"),
    **dict.fromkeys((".pkl", ".pickle"), "a pickle: pandas.read_pickle"),
    **dict.fromkeys((".feather", ".arrow"), "Arrow: pandas.read_feather"),
}
"""Extension of other tables -> what they are, and what reads them."""
_OTHERS = (*_TEXTS, ".toml", ".yaml", ".yml", ".npy", ".npz", ".h5", ".hdf5", ".db", ".html")


def path_of_manifest(path: Any) -> str:
    """Return the absolute path of a manifest; refuse what is no path.

    Example:
        >>> os.path.basename(path_of_manifest("pets.parquet"))
        'pets.parquet'
    """
    if isinstance(path, str | os.PathLike):
        return os.path.abspath(path)
    hint = ": it is in hand already, as dfgen.Sequence takes it" if hasattr(path, "columns") else ""
    raise ArgumentError(
        f"the path of a manifest is text, as in {'pets.parquet'!r}, got a {type(path).__name__}"
        + hint
    )


def what_it_is(path: str) -> str:
    """Return what a path that is no Parquet file is instead, and what to do; or nothing."""
    suffix = os.path.splitext(path)[1].lower()
    if os.path.isdir(path):
        return (
            f"{path} is a folder, and a manifest is a Parquet file. Build one of the files in it: "
            f'dfgen.build_manifest({path!r}, out="pets.parquet") '
            f"(dfgen build-manifest {path} --out pets.parquet)"
        )
    if suffix in _TEXTS:
        kind, _, reader = _TEXTS[suffix].partition(": ")
        return (
            f"{path} is {kind}, and a manifest is a Parquet file. Read it with {reader}, or build "
            f'a manifest of it: dfgen.build_manifest(labels={path!r}, path_column="path") '
            f"(dfgen build-manifest --labels {path} --path-column path --out pets.parquet)"
        )
    if suffix == ".toml":
        return (
            f"{path} is a recipe, and a manifest is a Parquet file. Build it: "
            f"dfgen.build_manifest({path!r}) (dfgen build-manifest {path})"
        )
    return ""


def check_out(path: str) -> None:
    """Raise if a manifest cannot be written to a path, or should not be called so."""
    check_writable(path)
    stem, suffix = os.path.splitext(path)
    if suffix.lower() in _OTHERS:
        as_text = " For text, df.to_csv does it." if suffix.lower() in (".csv", ".tsv") else ""
        raise WriteError(
            f"{path} is called {suffix}, and a manifest is a Parquet file: name it {stem}.parquet."
            + as_text
        )
