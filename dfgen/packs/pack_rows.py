"""Places of the rows of a frame in packs: by number of the shard, and the row in it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.packs.pack_shards import NOTHING, PackShards
from dfgen.spec import IntArray, Present
from dfgen.table.file_columns import FILE


@dataclass(frozen=True, eq=False)
class PackRows:
    """The shard of every row, and its place there.

    Args:
        starts: of all rows of one pack in their order: the first row of each shard, and the number
            of rows. Then nothing is stored of a row.
        shards: else the number of the shard of each row, NOTHING where it lies in none.
        places: and the row in it.
        shard_bytes: of a shard, on average.
    """

    starts: IntArray | None = None
    shards: npt.NDArray[np.int32] | None = None
    places: IntArray | None = None
    shard_bytes: int = 1

    def __len__(self) -> int:
        return int(self.starts[-1]) if self.shards is None else len(self.shards)  # type: ignore[index]

    def of(self, rows: IntArray) -> tuple[npt.NDArray[Any], IntArray]:
        """Return shard and place of some rows."""
        if self.shards is not None and self.places is not None:
            return self.shards[rows], self.places[rows]
        shards = np.searchsorted(self.starts, rows, side="right") - 1  # type: ignore[call-overload]
        return shards, rows - self.starts[shards]  # type: ignore[index]

    def of_one(self, row: int) -> tuple[int, int]:
        """Return shard and place of one row."""
        if self.shards is not None and self.places is not None:
            return self.shards.item(row), self.places.item(row)
        shard = int(np.searchsorted(self.starts, row, side="right")) - 1  # type: ignore[call-overload]
        return shard, row - int(self.starts[shard])  # type: ignore[index]

    def holds(self, row: int) -> bool:
        """Whether a row lies in a pack."""
        return self.shards is None or bool(self.shards[row] != NOTHING)

    @cached_property
    def all_packed(self) -> bool:
        """Whether every row lies in a pack."""
        return self.shards is None or bool((self.shards != NOTHING).all())

    @property
    def packed(self) -> Present:
        """Which rows lie in packs."""
        return np.ones(len(self), np.bool_) if self.shards is None else self.shards != NOTHING


class PackedFiles:
    """A column of structs of `bytes` and `path`, read row by row; `bytes` of packed rows alone."""

    null_count = 0
    type = FILE

    def __init__(self, paths: Any, rows: PackRows, shards: PackShards) -> None:
        self._paths, self._rows, self._shards = paths, rows, shards

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> "_PackedFile":
        return _PackedFile(self, row)

    def content(self, row: int) -> dict[str, Any]:
        """Return bytes and path of one row; no bytes where it lies in no pack."""
        path = self._paths[row].as_py()
        shard, place = self._rows.of_one(row)
        data = None if shard == NOTHING else self._shards.of(shard, place).at(place).tobytes()
        return {"bytes": data, "path": path}

    @property
    def far(self) -> bool:
        """Whether some of the shards are remote."""
        return self._shards.far

    def ahead(self, rows: IntArray) -> None:
        """Have the shards read where some rows lie."""
        self._shards.ahead(*self._rows.of(rows))


class _PackedFile:
    """One of them, as a scalar of Arrow."""

    def __init__(self, files: PackedFiles, row: int) -> None:
        self._files, self._row = files, row

    def as_py(self) -> dict[str, Any]:
        return self._files.content(self._row)
