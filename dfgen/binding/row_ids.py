"""Ids of rows, and which rows the manifest knows to be bad."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ManifestError
from dfgen.manifest.schema import validate
from dfgen.samples.arrow_types import in_one, is_text
from dfgen.samples.reader import SampleReader
from dfgen.samples.storage.embedded import paths_of

_BLOCK = 65_536  # ids made Python objects at once


def ids_of(columns: Columns, id: str | None, path: str | None, paths: pa.Array | None) -> Any:
    """Return the ids of the rows, NumPy integers or Arrow text, checked beside the paths.

    Without a column named they are those of `id`, else the paths, where rows are read from files.
    """
    if id is None and "id" not in columns.names:
        if path is None or paths is None or pc.count_distinct(paths).as_py() < len(paths):
            raise ManifestError(
                f"the manifest has no column 'id' (columns: {', '.join(columns.names)}). "
                'Name the column that tells the rows apart: id="object_id"'
            )
        name, ids = path, in_one(paths_of(columns[path]))  # as they stand there, without a root
    else:
        name = columns.check("id", "id" if id is None else id)
        ids = columns[name]
    beside = ids.cast(pa.large_string()) if paths is None or paths.null_count else paths
    validate(
        pa.table({"id": ids, "path": beside}),
        "the manifest" if name == "id" else f'the manifest (id="{name}")',
    )
    return ids.to_numpy() if pa.types.is_integer(ids.type) else ids


def plain_ids(ids: Any) -> Iterator[object]:
    """Yield ids, NumPy or Arrow, as plain int or str."""
    for start in range(0, len(ids), _BLOCK):
        block = ids[start : start + _BLOCK]
        yield from block.to_pylist() if isinstance(block, pa.Array) else block.tolist()


def known_problems(columns: Columns) -> dict[int, str]:
    """Return row -> what the manifest's facts say is wrong with its file."""
    if "problem" not in columns.names:
        return {}
    problems = columns["problem"]
    if not is_text(problems.type):
        return {}  # empty, or a column of the user's own
    rows = pc.indices_nonzero(pc.not_equal(problems, "")).to_pylist()
    return {row: problems[row].as_py() for row in rows}


def lines_of_rows(reasons: Mapping[int, str], reader: SampleReader) -> str:
    """Return a line for each of the first ten rows, with its id, its files and the reason."""
    lines = [f"\n  {reader.where(row)}: {why}" for row, why in list(reasons.items())[:10]]
    more = f"\n  ... and {len(reasons) - 10:,} more" if len(reasons) > 10 else ""
    return "".join(lines) + more


def refusal(problems: Mapping[int, str], reader: SampleReader, known: bool) -> str:
    """Return why a Sequence refuses rows whose files are bad by the manifest's facts, or else."""
    source = "the facts of the manifest" if known else "the headers of their files"
    without = 'df = df[df["problem"].isna()], ' if known else ""
    return (
        f"{len(problems):,} of {len(reader):,} rows have a problem, by {source}:"
        f"{lines_of_rows(problems, reader)}\nLeave them out, {without}or train on the others "
        'with on_error="skip"'
    )
