"""A table that tells something of rows of a manifest, each by its id."""

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.explain.joins import lines_of_nearest
from dfgen.explain.key_causes import JoinKeys, likely_cause
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.label_keys import KeyAdvice, key_text, label_keys, whole_numbers
from dfgen.manifest.io import Path
from dfgen.manifest.sources.label_table import read_rows
from dfgen.table.any_table import Table, arrow_table

_ADVICE = KeyAdvice('Call the column of ids "id"', "One row tells of one id: keep one of them")


def rows_by_id(
    given: Path | Table,
    name: str,
    ids: pa.ChunkedArray,
    text: Sequence[str] = (),
    limits: Limits = DEFAULT,
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return the rows of a table, and for each the row of the manifest that has its id.

    Ids are compared as text; where those of the manifest are whole numbers, 007 is 7.

    Args:
        given: a frame or another table, or a file, as `read_rows` reads it, with the column `id`.
        name: how messages call it.
        ids: those of the manifest, each once.
        text: columns of a CSV file to read as text, beside `id`.
        limits: what a file may ask for.

    Raises:
        ManifestError: it has no column `id`, or in it an id that is missing, stands twice, or is
            not in the manifest.
        MissingFileError: there is no such file.

    Example:
        >>> frame = pd.DataFrame({"id": ["007"], "kind": ["cat"]})
        >>> rows_by_id(frame, "the frame", pa.chunked_array([[3, 7]]))[1]
        array([1])
    """
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    elif not isinstance(given, str | pd.DataFrame):
        given = arrow_table(given, name)
    [group] = read_rows(given, ["id", *text], limits)
    whole = pa.types.is_integer(ids.type)
    known = key_text(ids, "id", "the manifest")
    keys = label_keys(group.rows, "id", name, whole, known, _ADVICE)
    keys = whole_numbers(keys) if whole else keys
    places = pc.index_in(keys, value_set=known)
    if places.null_count:
        raise ManifestError(_unknown(JoinKeys(keys, pc.is_null(places)), known, name))
    return group.rows, places.to_numpy().astype(np.int64)


def _unknown(keys: JoinKeys, known: pa.ChunkedArray, name: str) -> str:
    """Return the message on ids that the manifest lacks, with the nearest ones and the cause."""
    lonely = pc.invert(pc.is_in(known, value_set=keys.keys))
    cure = likely_cause(keys, JoinKeys(known, lonely))
    lines = [
        f"{len(keys.unmatched):,} of {len(keys.keys):,} ids of {name} are not in the manifest:",
        *lines_of_nearest(keys.unmatched, known, cure),
    ]
    if cure:
        lines.append(f"Likely cause: {cure.cause.name}.")
    lines.append("Mend these ids, or leave their rows out")
    return "\n".join(lines)
