"""A handful of files is looked for before training: where they are not, and what is near."""

import os
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dfgen.binding.frame_columns import Columns
from dfgen.errors import DfgenError, MissingFileError
from dfgen.samples.reader import SampleReader
from dfgen.samples.storage.near_paths import DISK, Begin, around, near
from dfgen.samples.storage.stores import STORES

_ROWS = 6  # that are looked for, of each column of files
_SECONDS = 1.0  # after which a slow disk is left alone; what it has told by then counts


class _Missing(NamedTuple):
    """A file that is not there: whose it is, and how messages call what stands at its path."""

    row: int
    column: str
    path: str
    is_folder: bool


def look_for_files(
    columns: Columns, reader: SampleReader, known: Mapping[int, str], skips: bool
) -> None:
    """Raise if of a handful of files some are not there: the first, the last, some between.

    Nothing is opened. Files that a store reads by an address are left alone; so are rows that are
    known to be bad. Where bad rows are skipped, it raises only if all are missing, since then
    nothing but zeros would be trained on.

    Args:
        columns: of the manifest.
        reader: of its rows.
        known: row -> what is known to be wrong with it.
        skips: whether bad rows are skipped.

    Raises:
        MissingFileError: it names the first of them, where it was looked for, and what is near.
    """
    wanted = [
        (row, column, path)
        for row in _handful(len(reader))
        if row not in known
        for column, path in _of_handful(reader, row)
        if path.partition("://")[0] not in STORES or "://" not in path
    ]
    looked: list[_Missing | None] = []
    looking = threading.Thread(target=_look, args=(wanted, reader, looked), daemon=True)
    looking.start()
    looking.join(_SECONDS)
    found = [*looked]
    missing = [one for one in found if one is not None]
    if missing and not (skips and len(missing) < len(wanted)):
        there = {name for (_, name, _), one in zip(wanted, found, strict=False) if one is None}
        raise MissingFileError(
            f"{len(missing)} of {len(found)} files that were looked for are not there, of "
            f"{len(reader):,} rows. {_told(columns, reader, missing, missing[0].column in there)}"
            + skips
            * '. on_error="skip" would train on zeros alone'
        )


def _handful(rows: int) -> list[int]:
    """Return the first row, the last, and some between."""
    return sorted({int(row) for row in np.linspace(0, rows - 1, _ROWS)})


def _of_handful(reader: SampleReader, row: int) -> Iterator[tuple[str, str]]:
    """Yield column and path of the files of a row, the first of each list."""
    seen = set()
    for column, path in reader.paths(row):
        if column not in seen:
            yield column, path
        seen.add(column)


def _look(
    wanted: list[tuple[int, str, str]], reader: SampleReader, looked: list[_Missing | None]
) -> None:
    """Note of each file whether it is missing; what else may be wrong, reading it tells."""
    for row, column, path in wanted:
        found = None
        try:
            head = reader.store.head(path)
            if head.problem is not None and os.path.isdir(path):
                found = _Missing(row, column, path, True)
        except MissingFileError:
            found = _Missing(row, column, path, False)
        except (DfgenError, OSError, ValueError):
            pass
        looked.append(found)


def _told(columns: Columns, reader: SampleReader, missing: list[_Missing], alone: bool) -> str:
    """Return where the first of the missing files was looked for, and what is near it."""
    first = missing[0]
    begin, path = _begin(columns, first)
    where = f"at {begin.at(path)!r} by "
    where += f"the root {begin.root!r} of the manifest" if begin.of else f"root={columns.root!r}"
    fault = "a folder is where a file should be" if first.is_folder else "there is no file"
    return (
        f"Row id={reader.id(first.row)!r}, {first.column}={path!r}: {fault} {where} in the "
        f"working folder {begin.cwd!r}. {_advice(columns, begin, path, missing, alone)}"
    )


def _advice(columns: Columns, begin: Begin, path: str, missing: list[_Missing], alone: bool) -> str:
    """Return what is near the first missing file, and how many of all that would find."""
    if missing[0].is_folder:
        names = ", ".join(map(repr, DISK.names(begin.at(path))[:3])) or "nothing"
        return f"It holds {names}: make a frame of it, df = dfgen.build_manifest({path!r})"
    found = near(path, begin, alone=alone)
    if found is None:
        advice = "Leave such rows out" if alone else "Give root=, the folder where the paths begin"
        return f"{around(path, begin)}. {advice}"
    others = [one for one in missing if one.column == begin.column]
    there = sum(DISK.exists(found.place(_begin(columns, one)[1])) for one in others)
    counted = f" ({there} of {len(others)} are found by that)" if there else ""
    if 0 < there < len(others) and "/" not in path:
        top = os.path.relpath(found.place(path), begin.cwd).split("/")[0]
        counted += (
            ". Where they are in several folders, have them found: "
            f'df = dfgen.build_manifest("{top}", labels=df, on="stem={begin.column}")'
        )
    return found.advice + counted


def _begin(columns: Columns, one: _Missing) -> tuple[Begin, str]:
    """Return where a path begins, and the path from there on, as the table has it."""
    cwd = os.getcwd()
    for of, root in (("", columns.root), columns.read_by):
        start = "" if root is None else root.rstrip("/") + "/"
        if start and one.path.startswith(start):
            return Begin(one.column, root, cwd, of), one.path.removeprefix(start)
    return Begin(one.column, columns.root, cwd), one.path
