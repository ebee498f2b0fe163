"""The plan of an epoch: which positions of its order make up each batch of this host."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.permutation import (
    batch_count,
    batch_positions,
    checked_shard,
    left_out,
    padded_batch,
)
from dfgen.system import whole


@dataclass(frozen=True)
class Plan:
    """Which positions of an epoch's order make up each batch of this host.

    Args:
        rows: the number of rows.
        batch_size: rows of a global batch.
        shard: (index, count) of this host, which makes `batch_size / count` of them.
        tail: what becomes of rows at the end that fill no whole batch: `"short"`, a batch with
            fewer rows; `"drop"`, they are left out; `"pad"`, a full batch, in which others stand
            beside them with weight 0.

    Raises:
        ArgumentError: a size that cannot be, or hosts that do not divide the batch.

    Example:
        >>> [Plan(10, 4, (host, 2), "drop").positions(1).tolist() for host in (0, 1)]
        [[4, 5], [6, 7]]
    """

    rows: int
    batch_size: int
    shard: tuple[int, int] = (0, 1)
    tail: str = "short"

    def __post_init__(self) -> None:
        whole("batch_size", self.batch_size, least=1)
        checked_shard(self.batch_size, self.shard)

    def __len__(self) -> int:
        """Return the number of batches of an epoch, the same on every host."""
        return batch_count(self.rows, self.batch_size, self.tail == "drop")

    @property
    def size(self) -> int:
        """Rows of a batch of this host."""
        return self.batch_size // self.shard[1]

    @property
    def left_out(self) -> int:
        """Rows of all hosts that an epoch leaves out."""
        return left_out(self.rows, self.batch_size, self.tail == "drop")

    def positions(self, step: int) -> npt.NDArray[np.int64]:
        """Return the positions of one batch; where it is padded, those of the padding too."""
        if self.tail == "pad":
            return padded_batch(step, self.rows, self.batch_size, self.shard)[0]
        return batch_positions(step, self.rows, self.batch_size, self.shard)

    def weights(self, step: int) -> npt.NDArray[np.float32] | None:
        """Return what each place of a batch counts, 0 in the padding, or None without padding."""
        if self.tail != "pad":
            return None
        return padded_batch(step, self.rows, self.batch_size, self.shard)[1]

    def block(self, first: int, steps: int) -> npt.NDArray[np.int64]:
        """Return the positions of several batches after one another, without any padding."""
        index, _ = self.shard
        starts = np.arange(first, first + steps, dtype=np.int64) * self.batch_size
        starts += index * self.size
        positions = (starts[:, None] + np.arange(self.size, dtype=np.int64)).reshape(-1)
        return positions[positions < self.rows]
