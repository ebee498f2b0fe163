"""Which rows of a frame are shown of many, and what its columns hold: files, numbers, classes."""

import os
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import DecodeError, ManifestError, column_list
from dfgen.explain.near_names import not_a_column
from dfgen.explore.plain_words import word
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import PARTS
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix, sniff
from dfgen.spec import IntArray
from dfgen.table.any_table import Table
from dfgen.table.file_columns import content_parts

FILE_KINDS = ("image", "sound", "array", "file")
_LOOKED_AT = 20  # values
_ARRAYS = (".h5", ".hdf5")
_OTHERS = (
    ".csv", ".dcm", ".gz", ".html", ".json", ".las", ".mat", ".md", ".mp4", ".nii", ".npz",
    ".nrrd", ".pdf", ".pkl", ".pt", ".pth", ".tar", ".txt", ".xml", ".zip",
)  # fmt: skip
"""Suffixes of files that dfgen itself does not read."""


def problems(manifest: Path | Table) -> pd.DataFrame:
    """Return the rows whose files cannot be used, and why, as the manifest says.

    No file is looked at: `dfgen.verify` does that.

    Args:
        manifest: a frame with the column `problem`, as `dfgen.build_manifest` makes it.

    Returns:
        `id`, `path`, `split` where there are some, and `problem`; no rows: all can be used.

    Raises:
        ManifestError: the frame has no such column.

    Example:
        >>> frame = pd.DataFrame({"id": [1, 2], "problem": [None, "the file does not exist"]})
        >>> problems(frame)["id"].tolist()
        [2]
    """
    frame = frame_of_manifest(manifest)
    if "problem" not in frame:
        raise ManifestError(
            "the frame does not say which files cannot be used (columns: "
            f"{column_list(map(str, frame.columns))}): dfgen.verify(df) looks at them, and "
            "dfgen.build_manifest adds the column problem"
        )
    names = [name for name in ("id", "path", *PARTS, "problem") if name in frame]
    return frame.loc[frame["problem"].notna(), names]


MOST_VALUES = 12


def check_known(argument: str, name: object, frame: pd.DataFrame) -> None:
    """Refuse what is no column of a frame."""
    if not isinstance(name, str) or name not in frame:
        raise ManifestError(not_a_column(argument, name, list(frame.columns), frame))


def chosen(
    frame: pd.DataFrame, n: int, by: str | None, sort: str | None, seed: int
) -> list[tuple[str, IntArray]]:
    """Return n rows in all: by heading their places; the frame's other rows are not touched.

    `by`: some of each value of this column, of the most frequent where there are many; a row counts
    for each value of its list. `sort`: the lowest of this column first, with `-` before its name
    the highest; None: drawn by `seed`.
    """
    if by is None:
        return [("", _first(frame, sort, n) if sort else _drawn(len(frame), n, seed))]
    check_known("by", by, frame)
    listed = frame[by].reset_index(drop=True).explode()  # a column without lists stays as it is
    try:
        codes, values = pd.factorize(listed)
    except TypeError as error:
        raise ManifestError(
            f"by={by!r}: the column holds no values to tell rows by: {error}"
        ) from None
    if not len(values):
        raise ManifestError(f"by={by!r}: no row has a value")
    told = pd.DataFrame({"row": listed.index, "code": codes})[codes >= 0].drop_duplicates()
    counts = np.bincount(told["code"], minlength=len(values))
    most = np.argsort(-counts, kind="stable")[: min(n, MOST_VALUES)]
    found = []
    for value in sorted(most.tolist(), key=lambda one: _order(frame[by], values[one])):
        places = told["row"].to_numpy()[told["code"] == value]
        each = max(1, n // len(most))
        if sort:
            places = places[_first(frame.iloc[places], sort, each)]
        else:
            places = places[_drawn(len(places), each, seed)]
        found.append((f"{by} = {word(values[value])} ({counts[value]:,} rows)", places))
    return found


def _order(column: "pd.Series[Any]", value: Any) -> Any:
    """Return what sorts values of a column: categories in their own order, numbers before text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.categories.get_loc(value)
    is_number = isinstance(value, int | float | np.number)
    return not is_number, value if is_number else str(value)


def _drawn(rows: int, n: int, seed: int) -> IntArray:
    places = np.random.default_rng(seed).choice(rows, min(n, rows), replace=False, shuffle=False)
    return np.sort(places).astype(np.int64)


def _first(frame: pd.DataFrame, sort: str, n: int) -> IntArray:
    """Return the n lowest rows by a column, or highest; what is missing comes last."""
    down = isinstance(sort, str) and sort.startswith("-") and sort not in frame
    name = sort[1:] if down else sort
    check_known("sort", name, frame)
    column = frame[name].reset_index(drop=True)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.codes.where(column.notna())
    if column.dropna().iloc[:1].map(pd.api.types.is_list_like).any():
        raise ManifestError(f"sort={sort!r}: the column holds lists, which have no order")
    try:
        order = column.sort_values(ascending=not down, kind="stable").index
    except TypeError as error:  # of values that are not alike
        raise ManifestError(f"sort={sort!r}: the column has no order: {error}") from None
    return order[:n].to_numpy(np.int64)


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
