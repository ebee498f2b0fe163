"""Which rows are shown of many: drawn, first by a column, or some of each of its values."""

from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError, column_list
from dfgen.explain.near_names import not_a_column
from dfgen.explore.plain_words import word
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import PARTS
from dfgen.spec import IntArray
from dfgen.table.any_table import Table


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
