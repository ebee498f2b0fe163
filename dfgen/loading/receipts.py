"""Receipts: which rows of an epoch were taken, counted batch by batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.row_order import RowOrder
from dfgen.loading.state import Place, receipt
from dfgen.spec import IntArray
from dfgen.table.mapped_column import MappedColumn

_ASKED = 8192  # positions asked of the order at once: one by one they cost ten times as much


@dataclass(frozen=True)
class Receipt:
    """Which rows were taken in one epoch.

    Every row of the manifest is accounted for: `rows + skipped + missing - repeated + left_out` is
    their number. Where rows are drawn (`balance`) it is the number of draws of an epoch: a row that
    was drawn twice should be taken twice, and only a third time is `repeated`. Two runs took the
    same rows at the same places if their digests are equal, whatever the number of workers, hosts
    and interruptions. Receipts of the hosts of a run add up.

    Args:
        epoch: which epoch of the Sequence.
        rows: rows taken; one taken twice counts twice.
        digest: of rows and places, 32 hexadecimal digits: `dfgen.loading.state.receipt`.
        repeated: how many of `rows` were taken more often than they should be.
        missing: rows that should have been taken, and were not.
        skipped: rows that could not be read and stood in their batch with weight 0.
        left_out: rows at the end of the order, which fill no batch, where those are left out.
        draws: where classes are balanced, (times, rows): how many rows the epoch draws so many
            times, those left out at its end included, as in `((0, 700), (1, 200), (2, 50))`.
    """

    epoch: int
    rows: int
    digest: str
    repeated: int = 0
    missing: int = 0
    skipped: int = 0
    left_out: int = 0
    draws: tuple[tuple[int, int], ...] = ()

    def __add__(self, other: "Receipt") -> "Receipt":
        """Return the receipt of both parts of an epoch, as two hosts have taken them."""
        if not isinstance(other, Receipt):
            return NotImplemented
        for name in ("epoch", "left_out", "draws"):
            if getattr(self, name) != getattr(other, name):
                raise ArgumentError(
                    f"receipts with {name}={getattr(self, name)} and {name}={getattr(other, name)} "
                    "are not parts of the same epoch"
                )
        total = (int(self.digest, 16) + int(other.digest, 16)) % 2**128
        return replace(
            self,
            rows=self.rows + other.rows,
            digest=f"{total:032x}",
            repeated=self.repeated + other.repeated,
            missing=self.missing + other.missing,
            skipped=self.skipped + other.skipped,
        )


@dataclass(frozen=True)
class Handed:
    """A batch that was handed out."""

    when: float  # by `time.perf_counter`
    position: tuple[int, int]  # (epoch, step) that it was made for
    rows: IntArray  # the row that each of its samples really is
    skipped: Sequence[int] = ()  # places in the batch of those that could not be read


@dataclass(frozen=True)
class DueRows:
    """The rows that each batch should hold, worked out apart from the loader that made it."""

    plan: Plan  # of an epoch
    order: RowOrder
    ids: npt.NDArray[Any] | pa.Array | MappedColumn  # of every row
    _block: dict[tuple[int, int], tuple[IntArray, IntArray]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def batch(self, epoch: int, step: int) -> tuple[IntArray, IntArray]:
        """Return the positions of a batch, and the rows that stand there."""
        if (epoch, step) not in self._block:
            self._block.clear()
            plan = self.plan.of(epoch)
            end = min(step + max(1, _ASKED // plan.size), len(plan))
            positions = [plan.positions(step) for step in range(step, end)]
            rows, _ = self.order.at(epoch, np.concatenate(positions))
            ends = np.cumsum([len(part) for part in positions])
            pairs = zip(positions, np.split(rows, ends[:-1]), strict=True)
            self._block.update({(epoch, step + at): pair for at, pair in enumerate(pairs)})
        return self._block[epoch, step]

    def digest_before(self, epoch: int, taken: int) -> int:
        """Return the receipt of the first so many positions of an epoch: 1 s for 10**6 rows."""
        digest = 0
        for start in range(0, taken, _ASKED):
            block = np.arange(start, min(start + _ASKED, taken))
            digest += receipt(epoch, block, self.ids_at(self.order.at(epoch, block)[0]))
        return digest % 2**128

    def ids_at(self, rows: IntArray) -> list[object]:
        """Return the ids of rows."""
        if isinstance(self.ids, pa.Array | MappedColumn):
            return list(self.ids.take(pa.array(rows)).to_pylist())
        return list(self.ids[rows].tolist())


class Ledger:
    """Counts the batches of an epoch, and goes on with the next one when all were taken.

    Its cost does not depend on the number of rows or on the place to begin at: a byte of
    memory for each batch from there on, touched when that comes. Batches before `place` count as
    taken, rightly and once.
    """

    def __init__(self, order: DueRows, place: Place) -> None:
        self.order = replace(order, plan=place.plan(order.plan))
        self._begin(place)

    def _begin(self, place: Place) -> None:
        self.place = self._start = place
        self._counts = np.zeros(len(self._plan) - place.step, np.uint8)
        self._rows = 0
        self._surplus: list[IntArray] = []
        self._lack: list[IntArray] = []

    @property
    def _plan(self) -> Plan:
        return self.order.plan.of(self.place.epoch)

    @property
    def complete(self) -> bool:
        """Whether the epoch has ended; the next batch begins the next one."""
        return self.place.step == len(self._plan)

    def take(self, handed: Handed) -> Receipt | None:
        """Count a batch; return the receipt of the epoch if it was its last."""
        if self.complete:
            self._begin(Place(self.place.epoch + 1))
        (epoch, step), rows = handed.position, handed.rows
        place, number = self.place, step - self._start.step
        positions, due = self.order.batch(epoch, step)
        if epoch == place.epoch and number >= 0:
            self._counts[number] = min(255, int(self._counts[number]) + 1)
        else:
            due = due[:0]
        if not np.array_equal(rows, due):
            self._surplus.append(rows)
            self._lack.append(due)
            positions = np.resize(positions, len(rows))
        lost = handed.skipped
        if lost:
            positions, rows = np.delete(positions, lost), np.delete(rows, lost)
        self._rows += len(rows)
        digest = (place.digest + receipt(place.epoch, positions, self.order.ids_at(rows))) % 2**128
        skipped = place.skipped + len(lost)
        self.place = place._replace(step=place.step + 1, digest=digest, skipped=skipped)
        return self.close() if self.complete else None

    def close(self) -> Receipt:
        """End the epoch, whatever of it was taken, and return its receipt."""
        place, start = self.place, self._start
        repeated, missing = self._faults()
        self.place = place._replace(step=len(self._plan), ended=True)
        return Receipt(
            place.epoch,
            self._plan.taken(start.step) - start.skipped + self._rows,
            f"{place.digest:032x}",
            repeated,
            missing,
            place.skipped,
            self._plan.left_out,
            () if self.order.order.balance is None else self.order.order.balance.times,
        )

    def _faults(self) -> tuple[int, int]:
        wrong = np.flatnonzero(self._counts != 1)
        if not wrong.size and not self._surplus:
            return 0, 0
        surplus, lack = list(self._surplus), list(self._lack)
        for number in wrong.tolist():
            _, due = self.order.batch(self.place.epoch, self._start.step + number)
            count = int(self._counts[number])
            surplus.extend([due] * (count - 1))
            lack.extend([due] * (1 - count))
        none = np.empty(0, np.int64)
        taken, due = np.concatenate([none, *surplus]), np.concatenate([none, *lack])
        signs = np.repeat([1, -1], [len(taken), len(due)])
        _, which = np.unique(np.concatenate([taken, due]), return_inverse=True)
        net = np.bincount(which, signs)
        return int(net[net > 0].sum()), int(-net[net < 0].sum())
