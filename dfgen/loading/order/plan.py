"""The plan of an epoch: the positions of each batch of this host."""

from dataclasses import dataclass

import numpy as np

from dfgen.errors import ArgumentError, one_of, whole
from dfgen.spec import IntArray


@dataclass(frozen=True)
class Plan:
    """The positions of an epoch's order in each batch of this host.

    Global batch g of G rows has positions g*G to (g+1)*G - 1; host r of R takes the r-th of R equal
    parts. `tail` decides about the last rows if they do not fill a batch: `"short"`, a batch with
    fewer rows; `"drop"`, they are left out; `"pad"`, a full batch with rows from the start of the
    order, of weight 0.

    Example:
        >>> [Plan(10, 4, (host, 2), "drop").positions(1).tolist() for host in (0, 1)]
        [[4, 5], [6, 7]]
    """

    rows: int
    batch_size: int  # rows of a global batch
    shard: tuple[int, int] = (0, 1)  # (index, count) of this host
    tail: str = "short"

    def __post_init__(self) -> None:
        whole("rows", self.rows)
        whole("batch_size", self.batch_size, least=1)
        index, count = self.shard
        count = whole("shard[1]", count, least=1)
        whole("shard[0]", index, most=count - 1)
        if self.batch_size % count:
            raise ArgumentError(
                f"batch_size={self.batch_size} cannot be divided over {count} hosts: expected a "
                f"multiple of {count}"
            )
        one_of("tail", self.tail, ("short", "drop", "pad"))

    def __len__(self) -> int:
        full, rest = divmod(self.rows, self.batch_size)
        return full + (rest > 0 and self.tail != "drop")

    @property
    def size(self) -> int:
        """Rows of a full batch of this host."""
        return self.batch_size // self.shard[1]

    @property
    def left_out(self) -> int:
        """Rows of all hosts that an epoch leaves out."""
        return self.rows - min(self.rows, len(self) * self.batch_size)

    def taken(self, step: int) -> int:
        """Return the number of rows of this host before a batch."""
        return (step - 1) * self.size + self.real(step - 1) if step else 0

    def positions(self, step: int) -> IntArray:
        """Return the positions of a batch, padding included."""
        start = self._start(step)
        if self.tail == "pad":
            return np.arange(start, start + self.size, dtype=np.int64) % self.rows
        return np.arange(start, start + self.real(step), dtype=np.int64)

    def block(self, first: int, steps: int) -> IntArray:
        """Return the positions of several batches, one after another, without padding."""
        starts = np.arange(first, min(first + steps, len(self)), dtype=np.int64) * self.batch_size
        starts += self.shard[0] * self.size
        positions = (starts[:, None] + np.arange(self.size, dtype=np.int64)).ravel()
        return positions[positions < self.rows]

    def real(self, step: int) -> int:
        """Return the number of rows of a batch without padding."""
        return min(self.size, max(0, self.rows - self._start(step)))

    def _start(self, step: int) -> int:
        if not len(self):
            raise ArgumentError(f"step={step!r}, but {self.rows} rows make no batches")
        whole("step", step, most=len(self) - 1)
        return step * self.batch_size + self.shard[0] * self.size
