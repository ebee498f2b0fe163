"""PackedFiles: a column of files, some or all of which lie in packs with all their bytes."""

from typing import Any

from dfgen.samples.features.spec import Indices
from dfgen.samples.storage.embedded import FILE
from dfgen.samples.storage.mapped_shards.pack_rows import PackRows
from dfgen.samples.storage.mapped_shards.pack_shards import NOTHING, PackShards


class PackedFiles:
    """A column of structs of `bytes` and `path`, read row by row.

    Args:
        paths: of the files when they were packed, and of those that were not.
        rows: where each lies.
        shards: hold the bytes.
    """

    null_count = 0
    type = FILE

    def __init__(self, paths: Any, rows: PackRows, shards: PackShards) -> None:
        self._paths, self._rows, self._shards = paths, rows, shards

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> "_Content":
        return _Content(self, row)

    def content(self, row: int) -> dict[str, Any]:
        """Return bytes and path of one row; no bytes where it lies in no pack."""
        path = self._paths[row].as_py()
        shard, place = self._rows.of_one(row)
        data = None if shard == NOTHING else self._shards.of(shard, place).at(place).tobytes()
        return {"bytes": data, "path": path}

    @property
    def far(self) -> bool:
        """Whether some of the shards are."""
        return self._shards.far

    def ahead(self, rows: Indices) -> None:
        """Have the shards read where some rows lie."""
        self._shards.ahead(*self._rows.of(rows))


class _Content:
    """One of them, as a scalar of Arrow."""

    def __init__(self, files: PackedFiles, row: int) -> None:
        self._files, self._row = files, row

    def as_py(self) -> dict[str, Any]:
        return self._files.content(self._row)
