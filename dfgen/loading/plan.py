"""The plan of an epoch: which positions of its order make up each batch."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfgen.loading.order import batch_count, batch_positions, left_out


@dataclass(frozen=True)
class Plan:
    """Which positions of an epoch's order make up each batch.

    Args:
        rows: the number of rows.
        batch_size: rows of a batch.
        tail: what becomes of rows at the end that fill no whole batch: `"short"`, a batch with
            fewer rows; `"drop"`, they are left out.
    """

    rows: int
    batch_size: int
    tail: str = "short"

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return batch_count(self.rows, self.batch_size, self.tail == "drop")

    @property
    def left_out(self) -> int:
        """Rows that an epoch leaves out."""
        return left_out(self.rows, self.batch_size, self.tail == "drop")

    def positions(self, step: int) -> npt.NDArray[np.int64]:
        """Return the positions of one batch."""
        return batch_positions(step, self.rows, self.batch_size)
