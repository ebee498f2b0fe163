"""Problems of rows that training or predictions have found, as a manifest holds them."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list, listed
from dfgen.limits import Limits
from dfgen.manifest.building.scan import NOT_THERE, UNDECODABLE, is_undecodable
from dfgen.manifest.io import Path
from dfgen.manifest.rows_by_id import rows_by_id
from dfgen.manifest.schema import with_column
from dfgen.manifest.tables import Table
from dfgen.samples.arrow_types import text_where

NO_PREDICTION = "the model gave NaN"
"""The problem of a row of predictions whose file is not at fault."""

_OF_DISK = "read"
"""The stage of a problem that a look at the file finds."""


def with_found_problems(
    facts: pa.Table, given: Path | Table, table: pa.Table, limits: Limits
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the facts of files with the problems that were found, and what was not taken.

    As those that `verify(decode=True)` finds, they begin with `UNDECODABLE`: they stay in the
    manifest until the file is another.

    Args:
        facts: what a look at the files has found.
        given: a table with `id` and `reason`, as `seq.problems`, or `problem`, as predictions; or
            a file of one. Rows without a reason have no problem, nor such as the model alone had.
        table: the rows of the manifest.
        limits: what a file may ask for.

    Raises:
        ManifestError: it has no such columns, or ids that the manifest lacks.
        MissingFileError: there is no such file.
    """
    name = os.fspath(given) if isinstance(given, str | os.PathLike) else "the table of problems"
    rows, places = rows_by_id(given, name, table["id"], ["reason", "problem", "stage"], limits)
    column = next((each for each in ("reason", "problem") if each in rows.column_names), None)
    if column is None:
        raise ManifestError(
            f'{name} has neither a column "reason" nor "problem", which say what is wrong with a '
            f"row. Columns: {column_list(rows.column_names)}. seq.problems has one"
        )
    reasons = rows[column].cast(pa.string()).combine_chunks()
    reasons = text_where(pc.fill_null(pc.not_equal(reasons, NO_PREDICTION), False), reasons)
    known = pa.nulls(len(table), pa.string())
    if "problem" in table.column_names:
        known = table["problem"].cast(pa.string()).combine_chunks()
    of_disk = pc.or_(pc.equal(reasons, NOT_THERE), pc.equal(reasons, known.take(pa.array(places))))
    if "stage" in rows.column_names:
        of_disk = pc.or_(pc.fill_null(of_disk, False), pc.equal(rows["stage"], _OF_DISK))
    of_disk = pc.fill_null(of_disk, False)
    seen = pc.is_valid(facts["problem"].take(pa.array(places)))
    mended = rows["id"].filter(pc.and_not(of_disk, seen))
    note = f"Not taken from {name}, as the file can be read now: id {listed(mended.to_pylist())}"
    reasons = text_where(pc.invert(of_disk), reasons)
    told = pc.binary_join_element_wise(f"{UNDECODABLE}: ", reasons, "")
    reasons = pc.if_else(is_undecodable(reasons), reasons, told)
    problems = np.full(len(table), None, object)
    problems[places] = np.array(reasons.to_pylist(), object)
    added = pc.coalesce(facts["problem"], pa.array(problems, pa.string()))
    return with_column(facts, "problem", added), (note,) * bool(len(mended))
