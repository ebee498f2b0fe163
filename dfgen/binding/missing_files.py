"""Looks for the files of a few rows before training."""

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dfgen.binding.frame_columns import Columns
from dfgen.errors import DfgenError, MissingFileError
from dfgen.explain.missing_paths import Begin, advice
from dfgen.samples.reader import SampleReader
from dfgen.samples.stores.schemes import has_store, scheme_of
from dfgen.samples.stores.store import Store

_ROWS = 6  # that are looked for, one file of each column


class _File(NamedTuple):
    """A file that is looked for, and what is at its path instead, or ""."""

    row: int
    column: str
    path: str
    fault: str


def look_for_files(
    columns: Columns, reader: SampleReader, known: Mapping[int, str], skips: bool
) -> None:
    """Raise if some of a few files are missing: of the first row, the last, and four between.

    Nothing is opened. Files that a store reads by an address are left alone; so are rows `known`
    to be bad. Where bad rows are skipped, it raises only if all are missing, since then nothing
    but zeros would be trained on.
    """
    rows = {int(row) for row in np.linspace(0, len(reader) - 1, _ROWS)} - known.keys()
    files = [
        _File(row, column, path, _fault(reader.store, path))
        for row in sorted(rows)
        for column, path in dict(reversed([*reader.paths(row)])).items()  # first of each list
        if not has_store(scheme_of(path))
    ]
    missing = [file for file in files if file.fault]
    if missing and not (skips and len(missing) < len(files)):
        alone = any(file.column == missing[0].column and not file.fault for file in files)
        zeros = '. on_error="skip" would train on zeros alone' if skips else ""
        raise MissingFileError(
            f"{len(missing)} of {len(files)} sampled files are missing, of {len(reader):,} rows. "
            f"Row id={reader.id(missing[0].row)!r}, {_told(columns, missing, alone)}{zeros}"
        )


def _fault(store: Store, path: str) -> str:
    """Return why there is no file at a path, or ""; what else may be wrong, reading it tells."""
    try:
        problem = store.head(path).problem
    except MissingFileError:
        return "there is no file"
    except (DfgenError, OSError, ValueError):
        return ""
    return "a folder is where a file should be" if problem and os.path.isdir(path) else ""


def _told(columns: Columns, missing: list[_File], alone: bool) -> str:
    """Return where the first of the missing files was looked for, and what is near it."""
    first = missing[0]
    begin, path = _begin(columns, first)
    by = f"the root {begin.root!r} of the manifest" if begin.of else f"root={columns.root!r}"
    where = (
        f"{first.column}={path!r}: {first.fault} at {begin.at(path)!r} by {by} in the working "
        f"folder {os.getcwd()!r}. "
    )
    if os.path.isdir(first.path):
        return f"{where}Make a frame of what it holds, df = dfgen.build_manifest({path!r})"
    others = [_begin(columns, one)[1] for one in missing if one.column == first.column]
    return where + advice(others, begin, alone)


def _begin(columns: Columns, file: _File) -> tuple[Begin, str]:
    """Return where a path begins, and the path from there on, as the table has it."""
    for of, root in (("", columns.root), columns.read_by):
        start = "" if root is None else root.rstrip("/") + "/"
        if start and file.path.startswith(start):
            return Begin(file.column, root, of), file.path.removeprefix(start)
    return Begin(file.column, columns.root), file.path
