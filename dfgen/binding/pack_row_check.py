"""Whether the rows of a frame are those of the packs that it names."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.manifest.pack_index import (
    PackIndex,
)
from dfgen.manifest.pack_table import mapped_table
from dfgen.samples.stores.packs.pack_rows import PackRows
from dfgen.samples.stores.packs.pack_shards import (
    ShardFile,
)
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.table.arrow_types import in_one, is_text

READ_AGAIN = "df = dfgen.read_manifest({!r})"
"""Advice for rows that are not those of the pack in a folder."""


def check_same_rows(
    table: Any,
    places: PackRows,
    files: Sequence[ShardFile],
    indexes: Mapping[str, PackIndex],
    options: StorageOptions | None,
) -> None:
    """Refuse rows that are others in the pack: by their ids, where these are new by their paths.

    Args:
        table: what has `names`, and the columns by their names.
        places: where its rows lie.
        files: the shards that they lie in.
        indexes: of the packs, by their folders.
        options: open those that are far away.

    Raises:
        ManifestError: the first row that is another one.
    """
    for folder, index in indexes.items():
        here = [n for n, file in enumerate(files) if os.path.dirname(file.path) == folder]
        starts = np.zeros(len(files) + 1, np.int64)
        starts[here] = [files[number].start for number in here]
        shards = places.shards
        rows = np.flatnonzero(np.isin(shards, here))  # type: ignore[arg-type]
        at = pa.array(starts[shards[rows]] + places.places[rows])  # type: ignore[index]
        stored, same = mapped_table(index, options=options), np.zeros(len(rows), np.bool_)
        for name, alike in (("id", _are_same), ("path", _end_alike)):
            left = np.flatnonzero(~same)
            if len(left) and name in table.names and name in stored.column_names:
                mine = in_one(table[name]).take(pa.array(rows[left]))
                theirs = in_one(stored[name]).take(at.take(pa.array(left)))
                same[left] = alike(mine, theirs)
        if not same.all() and {"id", "path"} & {*table.names}:
            _refuse_row(table, int(rows[same.argmin()]), places, files, folder)


def _are_same(mine: Any, theirs: Any) -> npt.NDArray[np.bool_]:
    if is_text(mine.type) != is_text(theirs.type):
        return np.zeros(len(mine), np.bool_)
    mine = mine.cast(theirs.type, safe=False)
    return np.asarray(pc.fill_null(pc.equal(mine, theirs), False))


def _end_alike(mine: Any, theirs: Any) -> npt.NDArray[np.bool_]:
    if not is_text(mine.type):
        return np.zeros(len(mine), np.bool_)
    pairs = zip(mine.to_pylist(), theirs.to_pylist(), strict=True)
    return np.array([str(one).endswith(str(end)) for one, end in pairs], np.bool_)


def _refuse_row(
    table: Any, row: int, places: PackRows, files: Sequence[ShardFile], folder: str
) -> None:
    shard, place = places.of_one(row)
    named = [f"{name} {table[name][row]}" for name in ("id", "path") if name in table.names]
    raise ManifestError(
        f"row {row} of the frame ({', '.join(named)}) is another one in the pack, row {place} of "
        f"{files[shard].path}: was it packed again since, or were the columns shard and row "
        f"changed? Read it again, {READ_AGAIN.format(folder)}",
        row=row,
    )
