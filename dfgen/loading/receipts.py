"""Receipts: the rows of an epoch that were taken, counted batch by batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.loading.order.epochs import Epochs, Order
from dfgen.loading.state import Place, receipt
from dfgen.spec import IntArray
from dfgen.table.mapped_column import MappedColumn

Ids: TypeAlias = npt.NDArray[Any] | pa.Array | MappedColumn
"""The ids of all rows."""

_BLOCK = 8192  # positions at once


@dataclass(frozen=True)
class Receipt:
    """The rows that were taken in one epoch.

    `rows + skipped + missing - repeated + left_out` is the number of rows of the manifest. If rows
    are drawn, it is the number of draws of an epoch: a row that is drawn twice is `repeated` only
    if it is taken three times. Two runs took the same rows at the same positions if their digests
    are equal, for any number of workers, hosts and interruptions. Receipts of hosts add up.

    Args:
        epoch: the epoch of the Sequence.
        rows: rows taken; a row that was taken twice counts twice.
        digest: of rows and positions, 32 hexadecimal digits: `dfgen.loading.state.receipt`.
        repeated: rows that were taken too often.
        missing: rows that were not taken, or too rarely.
        skipped: rows that could not be read and had weight 0 in their batch.
        left_out: rows at the end of the order that fill no batch.
    """

    epoch: int
    rows: int
    digest: str
    repeated: int = 0
    missing: int = 0
    skipped: int = 0
    left_out: int = 0

    def __add__(self, other: "Receipt") -> "Receipt":
        """Return the receipt of two parts of an epoch, as two hosts have taken them."""
        if not isinstance(other, Receipt):
            return NotImplemented
        if (self.epoch, self.left_out) != (other.epoch, other.left_out):
            raise ArgumentError(f"{self} and {other} are not parts of the same epoch")
        names = ("rows", "repeated", "missing", "skipped")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        digest = (int(self.digest, 16) + int(other.digest, 16)) % 2**128
        return replace(self, digest=f"{digest:032x}", **sums)


@dataclass(frozen=True)
class Handed:
    """A batch that was handed out."""

    when: float  # by `time.perf_counter`
    position: tuple[int, int]  # (epoch, step) that it was made for
    rows: IntArray
    skipped: Sequence[int] = ()  # places of rows that could not be read


class Ledger:
    """Counts the batches of an epoch, and continues with the next epoch.

    Its cost does not depend on the number of rows: it needs a byte for each batch after the place
    where it begins. Batches before that place count as taken once.
    """

    def __init__(self, epochs: Epochs, ids: Ids, place: Place) -> None:
        self._epochs, self._ids = epochs, ids
        self._begin(place)

    def _begin(self, place: Place) -> None:
        self.place = self._start = place
        self._counts = np.zeros(len(self._epochs.plan) - place.step, np.uint8)
        self._rows = 0
        self._surplus: list[IntArray] = []  # rows of batches that differ from the order
        self._lack: list[IntArray] = []  # the rows of the order in their place

    @property
    def complete(self) -> bool:
        """Whether the epoch has ended; the next batch begins the next one."""
        return self.place.step == len(self._epochs.plan)

    def take(self, handed: Handed) -> Receipt | None:
        """Count a batch; return the receipt of the epoch if it was its last."""
        if self.complete:
            self._begin(Place(self.place.epoch + 1))
        (epoch, step), rows, place = handed.position, handed.rows, self.place
        number = step - self._start.step
        positions, expected, _ = self._epochs.batch(epoch, step)
        if epoch == place.epoch and number >= 0:
            self._counts[number] = min(255, int(self._counts[number]) + 1)
        else:
            expected = expected[:0]
        if not np.array_equal(rows, expected):
            self._surplus.append(rows)
            self._lack.append(expected)
            positions = np.resize(positions, len(rows))
        lost = handed.skipped
        if lost:
            positions, rows = np.delete(positions, lost), np.delete(rows, lost)
        self._rows += len(rows)
        digest = receipt(place.epoch, positions, ids_at(self._ids, rows))
        self.place = place._replace(
            step=place.step + 1,
            digest=(place.digest + digest) % 2**128,
            skipped=place.skipped + len(lost),
        )
        return self.close() if self.complete else None

    def close(self) -> Receipt:
        """End the epoch and return its receipt."""
        place, start, plan = self.place, self._start, self._epochs.plan
        rows = plan.taken(start.step) - start.skipped + self._rows
        repeated, missing = self._faults()
        self.place = place._replace(step=len(plan))
        digest = f"{place.digest:032x}"
        return Receipt(place.epoch, rows, digest, repeated, missing, place.skipped, plan.left_out)

    def _faults(self) -> tuple[int, int]:
        """Return the numbers of repeated and of missing rows."""
        surplus, lack = [*self._surplus], [*self._lack]
        for number in np.flatnonzero(self._counts != 1).tolist():
            rows = self._epochs.batch(self.place.epoch, self._start.step + number).rows
            count = int(self._counts[number])
            surplus.extend([rows] * (count - 1))
            lack.extend([rows] * (1 - count))
        rows = np.concatenate([np.empty(0, np.int64), *surplus, *lack])
        signs = np.ones(len(rows))
        signs[sum(map(len, surplus)) :] = -1
        net = np.bincount(np.unique(rows, return_inverse=True)[1], signs)
        return int(net[net > 0].sum()), int(-net[net < 0].sum())


def digest_before(order: Order, ids: Ids, epoch: int, taken: int) -> int:
    """Return the receipt of the first positions of an epoch; 10**6 rows take 1 s."""
    digest = 0
    for start in range(0, taken, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, taken))
        digest += receipt(epoch, block, ids_at(ids, order.at(epoch, block)[0]))
    return digest % 2**128


def ids_at(ids: Ids, rows: IntArray) -> list[object]:
    """Return the ids of rows."""
    if isinstance(ids, np.ndarray):
        return list(ids[rows].tolist())
    return [ids[row].as_py() for row in rows.tolist()]  # `take` would wait for the GIL
