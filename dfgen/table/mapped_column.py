"""MappedColumn: a memory-mapped column of an Arrow file."""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from dfgen.table.arrow_types import in_one


class _Text(str):
    """Text with the method of an Arrow scalar, at a tenth of its cost."""

    def as_py(self) -> str:
        return str(self)


class MappedColumn:
    """A column that stays on the disk; its pickle is a path and a name.

    Args:
        path: of the file.
        name: of the column.
        ends: the text before and after each path; None if there is none.
    """

    def __init__(self, path: str, name: str, ends: tuple[str, str] | None = None) -> None:
        self._path, self._name, self._ends = path, name, ends

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedColumn, (self._path, self._name, self._ends)

    @cached_property
    def stored(self) -> pa.ChunkedArray:
        """The values without `ends`; only used pages are read."""
        with pa.memory_map(self._path) as mapped, pa.ipc.open_file(mapped) as reader:
            return reader.read_all()[self._name]

    @cached_property
    def _starts(self) -> Any:
        """The first row of each chunk, and the number of rows."""
        return np.cumsum([0, *map(len, self.stored.chunks)])

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""
        return self.stored.type

    @property
    def nbytes(self) -> int:
        """Bytes to copy for another process."""
        return 0

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, key: Any) -> Any:
        """Return a scalar, or the array of a slice."""
        if isinstance(key, slice):
            return self._whole(in_one(self.stored[key]))
        value = self.stored[int(key)]
        return value if self._ends is None else _Text(value.as_py().join(self._ends))

    def take(self, rows: Any) -> Any:
        """Return the values of some rows; Arrow itself would copy all chunks."""
        rows = np.asarray(rows, np.int64)
        if not len(rows):
            return self[:0]
        chunks = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(chunks, kind="stable")
        used, firsts = np.unique(chunks[order], return_index=True)
        parts = [
            self.stored.chunk(int(chunk)).take(pa.array(rows[part] - self._starts[chunk]))
            for chunk, part in zip(used, np.split(order, firsts[1:]), strict=True)
        ]
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return self._whole(pa.concat_arrays(parts).take(pa.array(places)))

    def _whole(self, values: Any) -> Any:
        if self._ends is None:
            return values
        before, after = (pa.scalar(end, values.type) for end in self._ends)
        return pc.binary_join_element_wise(before, values, after, pa.scalar("", values.type))
