"""MappedColumn: a column of an Arrow file that stays on the disk, whatever the number of rows."""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from dfgen.table.arrow_types import in_one


class _Text(str):
    """Text that is asked for as one of Arrow, of which to make one takes over 10 times as long."""

    def as_py(self) -> str:
        return str(self)


class MappedColumn:
    """The rows of an Arrow array; it travels to other processes as a path and a name.

    Args:
        path: of the file.
        name: of the column.
        ends: of paths, what stands before and after each; None: they are as they stand.
    """

    def __init__(self, path: str, name: str, ends: tuple[str, str] | None = None) -> None:
        self._path, self._name, self._ends = path, name, ends

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedColumn, (self._path, self._name, self._ends)

    @cached_property
    def array(self) -> Any:
        """All of it, of which nothing is read that is not asked for."""
        with pa.memory_map(self._path) as mapped, pa.ipc.open_file(mapped) as reader:
            return in_one(reader.read_all()[self._name])

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""
        return self.array.type

    @property
    def nbytes(self) -> int:
        """Bytes that are copied for another process."""
        return 0

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, key: Any) -> Any:
        """Return one value, or several by a slice, as Arrow has them."""
        if isinstance(key, slice):
            return self._whole(self.array[key])
        found = self.array[int(key)]
        return found if self._ends is None else _Text(found.as_py().join(self._ends))

    def take(self, rows: Any) -> Any:
        """Return some values."""
        return self._whole(self.array.take(pa.array(np.asarray(rows))))

    def _whole(self, found: Any) -> Any:
        if self._ends is None:
            return found
        before, after = (pa.scalar(end, found.type) for end in self._ends)
        return pc.binary_join_element_wise(before, found, after, pa.scalar("", found.type))


class HeldColumn(MappedColumn):
    """A column of an Arrow file that is in memory, as one is that is far away; it travels whole.

    Args:
        array: all of it.
        ends: as of MappedColumn.
    """

    def __init__(self, array: Any, ends: tuple[str, str] | None = None) -> None:
        super().__init__("", "", ends)
        self.array = in_one(array)

    @property
    def nbytes(self) -> int:
        """Bytes that are copied for another process."""
        return int(self.array.nbytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return HeldColumn, (self.array, self._ends)
