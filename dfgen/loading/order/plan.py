"""The plan of an epoch: which positions make up each batch of this host."""

from dataclasses import dataclass, replace

import numpy as np

from dfgen.errors import ArgumentError
from dfgen.spec import IntArray
from dfgen.system import one_of, whole


@dataclass(frozen=True)
class Plan:
    """Which positions of an epoch's order make up each batch of this host.

    Global batch g of G rows is positions g*G to (g+1)*G - 1; host r of R takes the r-th of R equal
    parts. Hosts need batches of one shape: leave out a short last one, or fill it up. `tail` says
    what becomes of rows at the end that fill no whole batch: `"short"`, a batch with fewer rows;
    `"drop"`, they are left out; `"pad"`, a full batch, in which rows from the start of the order
    stand beside them with weight 0.

    An epoch in which training goes on with another batch size has a plan of its own: see `of`.

    Example:
        >>> [Plan(10, 4, (host, 2), "drop").positions(1).tolist() for host in (0, 1)]
        [[4, 5], [6, 7]]
    """

    rows: int
    batch_size: int  # rows of a global batch
    shard: tuple[int, int] = (0, 1)  # index of this host, and how many there are
    tail: str = "short"
    first: int = 0  # the position at which batch 0 begins: below `batch_size`
    stop: int | None = None  # the position at which an epoch that has ended did; None: the last
    other: "tuple[int, Plan] | None" = None  # an epoch that has another plan, and that

    def __post_init__(self) -> None:
        whole("rows", self.rows)
        whole("batch_size", self.batch_size, least=1)
        index, count = self.shard
        count = whole("shard[1]", count, least=1)
        whole("shard[0]", index, most=count - 1)
        if self.batch_size % count:
            raise ArgumentError(
                f"batch_size={self.batch_size} cannot be split over {count} hosts: expected a "
                f"multiple of {count}"
            )
        one_of("tail", self.tail, ("short", "drop", "pad"))

    def __len__(self) -> int:
        full, rest = divmod(self._stop - self.first, self.batch_size)
        return full + (rest > 0 and self.tail != "drop")

    def of(self, epoch: int) -> "Plan":
        """Return the plan of one epoch."""
        return self if self.other is None or self.other[0] != epoch else self.other[1]

    def going_on(self, epoch: int, first: int, stop: int | None) -> "Plan":
        """Return the plan where the batches of one epoch, which goes on, lie otherwise."""
        plain = replace(self, other=None)
        return replace(plain, other=(epoch, replace(plain, first=first, stop=stop)))

    @property
    def size(self) -> int:
        """Rows of a full batch of this host."""
        return self.batch_size // self.shard[1]

    @property
    def left_out(self) -> int:
        """Rows of all hosts that an epoch leaves out."""
        return self.rows - min(self._stop, self.first + len(self) * self.batch_size)

    @property
    def _stop(self) -> int:
        return self.rows if self.stop is None else self.stop

    def taken(self, step: int) -> int:
        """Return how many rows of this host come before a batch, those before batch 0 included."""
        (host, hosts), before = self.shard, 0
        if step:
            before = (step - 1) * self.size + self.real(step - 1)
        return before + self.first * (host + 1) // hosts - self.first * host // hosts

    def positions(self, step: int) -> IntArray:
        """Return the positions of one batch; where it is padded, those of the padding too."""
        start = self._start(step)
        if self.tail == "pad":
            return np.arange(start, start + self.size, dtype=np.int64) % self.rows
        return np.arange(start, start + self.real(step), dtype=np.int64)

    def block(self, first: int, steps: int) -> IntArray:
        """Return the positions of several batches after one another, without any padding."""
        starts = np.arange(first, first + steps, dtype=np.int64) * self.batch_size
        starts += self.first + self.shard[0] * self.size
        positions = starts[:, None] + np.arange(self.size, dtype=np.int64)
        return positions[positions < self._stop]

    def real(self, step: int) -> int:
        """Return how many rows of a batch are not padding."""
        return min(self.size, max(0, self._stop - self._start(step)))

    def _start(self, step: int) -> int:
        if not len(self):
            raise ArgumentError(f"step={step!r}, but {self.rows} rows make no batches")
        whole("step", step, most=len(self) - 1)
        return self.first + step * self.batch_size + self.shard[0] * self.size
