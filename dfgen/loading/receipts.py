"""Receipts: the rows of an epoch that were taken, counted batch by batch."""

from collections import Counter
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
        if (self.epoch, self.left_out) != (other.epoch, other.left_out):
            raise ArgumentError(f"{self} and {other} are not parts of the same epoch")
        names = ("rows", "repeated", "missing", "skipped")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        digest = (int(self.digest, 16) + int(other.digest, 16)) % 2**128
        return replace(self, digest=f"{digest:032x}", **sums)


@dataclass(frozen=True)
class Handed:
    """A batch that was handed out."""

    rows: IntArray
    skipped: Sequence[int] = ()  # places of rows that could not be read


class Ledger:
    """Counts the batches of an epoch, and continues with the next epoch.

    Batches before the place where it begins count as taken once. It keeps rows only of batches that
    are not the expected ones.
    """

    def __init__(self, epochs: Epochs, ids: Ids, place: Place) -> None:
        self._epochs, self._ids, self.place = epochs, ids, place
        self._surplus: list[IntArray] = []  # rows of batches that were not expected
        self._lack: list[IntArray] = []  # the rows that were expected instead

    @property
    def complete(self) -> bool:
        """Whether the epoch has ended; the next batch begins the next one."""
        return self.place.step == len(self._epochs.plan)

    def take(self, handed: Handed) -> Receipt | None:
        """Count a batch; return the receipt of the epoch if it was its last."""
        if self.complete:
            self.place, self._surplus, self._lack = Place(self.place.epoch + 1), [], []
        place, rows, lost = self.place, handed.rows, handed.skipped
        positions, expected, _ = self._epochs.batch(place.epoch, place.step)
        if not np.array_equal(rows, expected):
            self._surplus.append(rows)
            self._lack.append(expected)
            positions = np.resize(positions, len(rows))
        if lost:
            positions, rows = np.delete(positions, lost), np.delete(rows, lost)
        digest = place.digest + receipt(place.epoch, positions, ids_at(self._ids, rows))
        skipped = place.skipped + len(lost)
        self.place = Place(place.epoch, place.step + 1, digest % 2**128, skipped)
        return self.close() if self.complete else None

    def close(self) -> Receipt:
        """Return the receipt of an epoch that has ended."""
        place, plan, counts = self.place, self._epochs.plan, Counter[int]()
        for rows in self._surplus:
            counts.update(rows.tolist())
        for rows in self._lack:
            counts.subtract(rows.tolist())
        repeated = sum(count for count in counts.values() if count > 0)
        missing = repeated - counts.total()
        taken = plan.taken + counts.total() - place.skipped
        digest = f"{place.digest:032x}"
        return Receipt(place.epoch, taken, digest, repeated, missing, place.skipped, plan.left_out)


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
