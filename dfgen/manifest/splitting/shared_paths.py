"""Files that lie in several splits, as rows of one file do without `group="path"`."""

from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import count, listed, quote
from dfgen.manifest.file_copies import codes_of, leaking_rows
from dfgen.manifest.schema import OF_WHOLE_FILES, part_column
from dfgen.table.arrow_types import in_one, is_text, value_type

_SHOWN = 3
_EXAMPLES = 10


def notes_of_shared_paths(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return what to say of files in several splits, or folds, of a frame.

    Rows of array files share them by their `index`.
    """
    part = part_column(frame)
    if part is None or "path" not in frame or "index" in frame:
        return ()
    try:
        paths = pa.array(frame["path"], from_pandas=True)
    except (pa.ArrowException, TypeError):  # no text: a Sequence tells
        return ()
    told = shared_paths(paths, codes_of(frame[part])[0])
    return () if told is None else (told,)


def shared_paths(paths: pa.Array, parts: npt.NDArray[np.int64]) -> str | None:
    """Return what to say of paths in several splits (the number of that of each row), or None.

    Missing paths are no file.
    """
    paths = in_one(paths)
    kind = value_type(paths.type)
    if not is_text(kind):
        return None
    paths = paths.cast(kind)
    if len(pc.unique(paths)) == len(paths):  # in half the time of a dictionary
        return None
    named = paths.is_valid().to_numpy(zero_copy_only=False)
    known, parts = paths.drop_null().dictionary_encode(), parts[named]
    codes = known.indices.to_numpy()
    one = np.empty(len(known.dictionary), np.int64)
    one[codes] = parts  # that of one of its rows
    shared = np.unique(codes[parts != one[codes]])
    if not len(shared):
        return None
    shown = listed(known.dictionary.take(pa.array(shared[:_SHOWN])).to_pylist())
    lie = "lies" if len(shared) == 1 else "lie"
    return (
        f"{count(len(shared), 'path')} {lie} in rows of several splits, as {shown}: they "
        'are trained on and measured on. Keep the rows of a file in one split: group="path" '
        "(--group path)"
    )


class Leaks(TypedDict):
    """The entry `leaks` of the key: rows with a copy in an earlier split; id and split of both."""

    rows: int
    examples: list[list[Any]]


def leaks_between_splits(frame: pd.DataFrame) -> Leaks | None:
    """Return what leaks between the splits of a frame, None where nothing does, or is known."""
    part = part_column(frame)
    if part is None or not all(name in frame for name in OF_WHOLE_FILES):
        return None
    if not pd.api.types.is_integer_dtype(frame["phash"]):  # a column of its owner's
        return None
    rows, others, *_ = leaking_rows(frame, part)
    if not len(rows):
        return None
    ids, parts = frame["id"].iloc, frame[part].iloc
    sides = (ids[rows], parts[rows], ids[others], parts[others])
    shown = [side[:_EXAMPLES].tolist() for side in sides]
    examples = [list(one) for one in zip(*shown, strict=True)]
    return {"rows": len({*rows.tolist()}), "examples": examples}


def told(rows: int, row: object, part: object, other: object, place: object) -> str:
    """Return what to say of so many rows that leak, with one and its copy, and what to do."""
    have = "row has a copy of its" if rows == 1 else "rows have a copy of their"
    return (
        f"{rows:,} {have} picture in an earlier split, as id {quote(row)} of "
        f"{quote(part)} that of id {quote(other)} of {quote(place)}: they are trained on and "
        "measured on. Keep copies in one split, group_duplicates=True (--group-duplicates), or "
        "leave them out: df.drop(leaks(df).index), with dfgen.manifest.duplicates.leaks"
    )


def notes_of(leaks: Leaks | None, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return what to say of leaks, else of files in several splits, if there are any."""
    if leaks is None:
        return notes_of_shared_paths(frame)
    return (told(leaks["rows"], *leaks["examples"][0]),)
