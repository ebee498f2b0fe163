"""What else a join may be meant to compare: another column, another part of the path."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.schema import quote
from dfgen.samples.arrow_types import is_text

FILES_TRIED = 1_000
"""Files that are looked for."""

Keys = Mapping[str, pa.ChunkedArray]


def hints(files: Keys, labels: pa.Table, pair: tuple[str, str], table: str) -> list[str]:
    """Return lines on what the key column is, and what would match more files.

    Args:
        files: all keys that files have, by name.
        labels: the label table.
        pair: the names of the field and the column that do not match.
        table: how messages call the label table.
    """
    field, column = pair
    lines = []
    if column == "" or column.startswith("Unnamed: "):
        lines.append(
            f"The column {quote(column)} holds the row numbers that pandas writes: leave them out "
            "with to_csv(index=False)"
        )
    if pc.any(pc.equal(labels[column].cast(pa.string()), column)).as_py():
        lines.append(f"A row of {table} has {quote(column)} as its key: a header among the rows")
    columns = {name: labels[name] for name in labels.column_names}
    known = _found(files[field], columns[column])
    rows = best_pair({field: files[field]}, columns, known)
    parts = best_pair(files, {column: columns[column]}, known)
    for better in {rows, parts} - {""}:
        lines.append(f'on="{better}" would match more files')
    return lines


def best_pair(files: Keys, labels: Keys, more_than: float = 0) -> str:
    """Return `FIELD=COLUMN` of the keys that match the most files, most of them; else nothing."""
    best, most = "", max(more_than, 0.5)
    for column, values in labels.items():
        if not (is_text(values.type) or pa.types.is_integer(values.type)):
            continue
        if pc.count_distinct(values).as_py() < len(values):
            continue
        for field, keys in files.items():
            found = _found(keys, values)
            if found > most:
                best, most = f"{field}={column}", found
    return best


def _found(files: pa.ChunkedArray, labels: pa.ChunkedArray) -> float:
    """Return the share of the files that have a label, of at most a thousand."""
    some = files.take(
        pa.array(range(0, len(files), -(-len(files) // FILES_TRIED) or 1), pa.int64())
    )
    found = pc.sum(pc.is_in(some, value_set=labels.cast(some.type))).as_py() or 0
    return found / max(len(some), 1)
