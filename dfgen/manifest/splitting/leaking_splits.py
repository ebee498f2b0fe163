"""The copies in several splits that a manifest remembers: how many, and a few of them."""

from typing import Any, TypedDict

import pandas as pd

from dfgen.manifest.facts import OF_WHOLE_FILES
from dfgen.manifest.file_copies import leaking_rows
from dfgen.manifest.schema import part_column, quote
from dfgen.manifest.splitting.shared_paths import notes_of_shared_paths

_EXAMPLES = 10


class Leaks(TypedDict):
    """The entry `leaks` of the `dfgen` key.

    Args:
        rows: that have a copy in an earlier split.
        examples: id and split of such a row, and those of its copy.
    """

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
        f"{quote(part)} that of id {quote(other)} of {quote(place)}: what is measured on them was "
        "trained on. Keep copies in one split, group_duplicates=True (--group-duplicates), or "
        "leave them out: df.drop(leaks(df).index), with dfgen.manifest.duplicates.leaks"
    )


def notes_of(leaks: Leaks | None, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return what to say of leaks, else of files in several splits, if there are any."""
    if leaks is None:
        return notes_of_shared_paths(frame)
    return (told(leaks["rows"], *leaks["examples"][0]),)
