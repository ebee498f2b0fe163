"""Loader: any batch of any epoch, and a bounded look-ahead that guesses which come next."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dfgen.errors import ArgumentError, ReadTimeoutError
from dfgen.loading.batch_transforms import BatchTransform, tried
from dfgen.loading.buffers import BatchArrays, Buffers
from dfgen.loading.generators import batch_rng
from dfgen.loading.limits import Limits
from dfgen.loading.lookahead import LookAhead
from dfgen.loading.metrics import Metrics, total
from dfgen.loading.order.balance import Balance
from dfgen.loading.order.buckets import Buckets
from dfgen.loading.order.permutation import Integers
from dfgen.loading.order.plan import Plan, Weights
from dfgen.loading.order.row_order import BatchRows, RowOrder
from dfgen.loading.pending_batch import Batch, PendingBatch
from dfgen.loading.receipts import DueRows
from dfgen.loading.workers.chunks import Chunk, ChunkMaker, chunk_sizes, row_bytes
from dfgen.loading.workers.pool import Pool
from dfgen.loading.workers.threads import CLOSED
from dfgen.samples.features.base import Spec
from dfgen.samples.reader import SampleReader
from dfgen.system import usable_cpus, whole


class Loader:
    """Makes batches of a reader's rows, in order, ahead of time, on several workers.

    It is `Sequence` without Keras. The order of an epoch is a pure function of (rows, seed,
    epoch), so any batch can be asked for at any time, from any thread.

    Args:
        reader: makes samples from rows.
        batch_size: rows of a batch of all hosts; the last one of an epoch may have fewer.
        shuffle: another order each epoch, by `seed`; False keeps the order of the rows.
        seed: of the order and of the transform's random generators.
        balance: draws each class equally often, or None; needs `shuffle`.
        buckets: gathers rows of similar shapes, or None; needs `shuffle`.
        drop_remainder: leave out a short last batch.
        shard: (index, count) of this host, which makes `batch_size / count` rows of each batch.
            With several, `plan` leaves out a short last batch.
        weights: float32 of shape (rows,), what each row counts in the loss, or None.
        batch_transform: `batch_transform(batch, rng) -> batch` of a dict of arrays, in the thread
            that finishes the batch; tried once, when the loader is made, on blank images.
        on_error: `"raise"`, or `"skip"`: a bad row keeps its place with zeros and weight 0, and
            the real rows of its batch weigh batch / real.
        problems: row -> why it is not to be read at all; needs `on_error="skip"`.
        workers: threads; None = the CPUs this process may use; 0 = in the calling thread.
        use_multiprocessing: a process for each worker instead of a thread.
        max_queue_size: batches ready or in the making.
        limits: bounds on memory and on the time of a read.

    Raises:
        ArgumentError: a size that cannot be.
    """

    def __init__(
        self,
        reader: SampleReader,
        *,
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int = 0,
        balance: Balance | None = None,
        buckets: Buckets | None = None,
        drop_remainder: bool = False,
        shard: tuple[int, int] = (0, 1),
        weights: Weights | None = None,
        batch_transform: BatchTransform | None = None,
        on_error: str = "raise",
        problems: Mapping[int, str] | None = None,
        workers: int | None = None,
        use_multiprocessing: bool = False,
        max_queue_size: int = 10,
        limits: Limits | None = None,
    ) -> None:
        rows = len(reader)
        self.reader = reader
        tail = "drop" if drop_remainder else "short"
        self.given = Plan(rows, whole("batch_size", batch_size, least=1), shard, tail)
        self.plan = self.given if shard[1] == 1 else replace(self.given, tail="drop")
        """How an epoch of training is divided; `given` is how it was asked for."""
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.workers = usable_cpus() if workers is None else whole("workers", workers)
        self.problems: dict[int, str] = dict(problems or {})
        self._known = set(self.problems)
        self._weights = weights
        self._maker = ChunkMaker(reader, seed, on_error == "skip")
        self._limits = limits or Limits()
        if not len(self.given):
            raise ArgumentError(
                f"{rows:,} rows make no batch of batch_size={batch_size} with drop_remainder=True: "
                "make the batches smaller, or keep the remainder"
            )
        self._set_order(RowOrder(rows, seed if shuffle else None, balance, buckets))
        largest = reader.padding.specs(slice(None), reader.specs)
        self._buffers = Buffers(reader.specs)
        self._transform = None
        if batch_transform is not None:
            self._transform = tried(batch_transform, reader, largest, min(self.plan.size, rows))
        self.specs = self._transform.specs if self._transform else reader.specs
        nbytes = row_bytes(largest)
        self.max_queue_size = whole("max_queue_size", max_queue_size, least=1)
        self.depth = self._depth(nbytes, self.max_queue_size)
        self._spread, self._chunk = chunk_sizes(
            self.plan.size, self.depth, self.workers, nbytes, use_multiprocessing
        )
        self.use_multiprocessing = use_multiprocessing
        self._pool = Pool(self._maker, self.workers, use_multiprocessing, largest, self._chunk)
        self._lock = threading.Lock()
        self._parked: LookAhead | None = None
        self._closed = False
        self._waited = 0.0
        self._handed_out = 0

    def _depth(self, row: int, max_queue_size: int) -> int:
        """Return how many batches may be ready or in the making."""
        if self._limits.read_timeout is not None and not self.workers:
            raise ArgumentError("limits.read_timeout needs workers: with workers=0 nobody watches")
        if self._transform is not None:
            row += self._transform.row_bytes  # both are there while it runs
        depth = self._limits.depth(row * self.plan.size, max_queue_size)
        return depth if self.workers else 1

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self.plan)

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: all but what is being made."""
        return {**vars(self), "_lock": None, "_parked": None, "_waited": 0.0, "_handed_out": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def order(self) -> DueRows:
        """The rows of every batch, worked out apart from what makes the batches."""
        return DueRows(self.plan, self.row_order, self.reader.ids)

    def reseed(self, seed: int) -> None:
        """Take the seed of a training that goes on, where none was asked for."""
        self.park(None)
        self._maker = replace(self._maker, seed=seed)
        self._set_order(replace(self.row_order, seed=seed if self.shuffle else None))
        self._pool = self._pool.reseeded(self._maker)

    def _set_order(self, order: RowOrder) -> None:
        self.row_order = order
        """Which row stands where in each epoch."""
        self._batch_rows = BatchRows(order, self.plan)

    @property
    def metrics(self) -> Metrics:
        """What the workers have done since the loader was made, and how long it took them."""
        stopwatches = (worker.stopwatch for worker in self._pool.workers)
        return total(stopwatches, self._waited, self._handed_out)

    def rows(self, epoch: int, step: int, plan: Plan | None = None) -> Integers:
        """Return the rows of one batch on this host: those at its positions of the order."""
        rows: Integers = self._batch_rows.batch(epoch, step, self.plan if plan is None else plan)[0]
        return rows

    def batch(self, epoch: int, step: int) -> Batch:
        """Return one batch, whatever else is under way."""
        return self.result(self.start(epoch, step))

    def batches(self, epoch: int = 0, plan: Plan | None = None) -> Iterator[Batch]:
        """Yield the batches of one epoch with their `rows` and `ids`; training does not notice.

        Args:
            epoch: which.
            plan: of the epoch, None for that of training; `given` leaves out nothing.

        Example:
            >>> for batch in loader.batches():  # doctest: +SKIP
            ...     print(batch.ids, batch.arrays["image"].mean())
        """
        plan, order = self.plan if plan is None else plan, self.order
        ahead = LookAhead(self, (epoch, 0), plan, one_epoch=True)
        try:
            for _ in range(len(plan)):
                batch = next(ahead)
                yield replace(batch, ids=tuple(order.ids_at(batch.rows)))
        finally:
            ahead.close()

    def stream(self, epoch: int, step: int = 0, plan: Plan | None = None) -> LookAhead:
        """Return the batches from (epoch, step) on; what was parked just there is used."""
        plan = self.plan if plan is None else plan
        parked = self._swap_parked(None)
        if parked is not None and (parked.position, parked.plan) == ((epoch, step), plan):
            parked.attach(self)
            return parked
        if parked is not None:
            parked.close()
        return LookAhead(self, (epoch, step), plan)

    def park(self, ahead: LookAhead | None) -> None:
        """Keep what was made ahead for whoever goes on where it is; or nothing."""
        if ahead is not None:
            ahead.detach()
        parked = self._swap_parked(ahead)
        if parked is not None:
            parked.close()

    def _swap_parked(self, ahead: LookAhead | None) -> LookAhead | None:
        with self._lock:
            parked, self._parked = self._parked, ahead
        return parked

    def close(self) -> None:
        """End the workers; no more batches can be made."""
        self._closed = True
        self.park(None)
        self._pool.close()
        self.reader.store.close()

    def start(
        self, epoch: int, step: int, plan: Plan | None = None, spread: bool = True
    ) -> PendingBatch:
        """Begin to make a batch; without workers, make it.

        Args:
            epoch: of the batch.
            step: of the batch.
            plan: of the epoch, None for that of training.
            spread: whether the batch is wanted at once, so that all workers should share it.
        """
        if self._closed:
            raise ArgumentError(CLOSED)
        plan = self.plan if plan is None else plan
        rows, earlier = self._batch_rows.batch(epoch, step, plan)
        arrays = self._buffers.batch(len(rows), self._specs_of(epoch, step, plan, rows))
        given = None if self._weights is None else self._weights[rows]
        size = self._spread if spread else self._chunk
        starts = range(0, len(rows), size)
        transform = self._transform_of(epoch, step)
        pending = PendingBatch(arrays, rows, (epoch, step), plan, len(starts), given, transform)
        for start in starts:
            part = slice(start, start + size)
            known = self._known.intersection(rows[part].tolist()) if self._known else ()
            chunk = Chunk(epoch, rows[part], earlier[part], known)
            self._pool.run(partial(pending.run, chunk, part))
        return pending

    def _transform_of(self, epoch: int, step: int) -> Callable[[BatchArrays], BatchArrays] | None:
        if self._transform is None:
            return None
        rng = batch_rng(self._maker.seed, epoch, step, self.plan.shard[0])
        return partial(self._transform, rng=rng, where=f"batch {step} of epoch {epoch}")

    def _specs_of(
        self, epoch: int, step: int, plan: Plan, rows: Integers
    ) -> Mapping[str, Spec] | None:
        """Return what a batch holds, where that depends on its rows: those of all hosts."""
        if not self.reader.padding.sizes:
            return None
        if plan.shard[1] > 1:
            rows = self.row_order.at(epoch, replace(plan, shard=(0, 1)).positions(step))[0]
        return self.reader.padding.specs(rows, self.reader.specs)

    def result(self, pending: PendingBatch) -> Batch:
        """Wait for a batch that is being made, and return it.

        Raises:
            DfgenError: a row could not be made, or its read took too long.
        """
        began = time.perf_counter()
        timeout = self._limits.read_timeout
        while not pending.wait(None if timeout is None else timeout / 4):
            if timeout is not None and self._gave_up(pending, timeout):
                pending = self.start(*pending.position, pending.plan)
        batch, problems = pending.result()
        self.problems.update(problems)
        self._waited += time.perf_counter() - began
        self._handed_out += 1
        return batch

    def _gave_up(self, pending: PendingBatch, timeout: float) -> bool:
        """Give up a batch if one of its reads takes too long; raise unless rows are skipped."""
        found = self._pool.late(pending, timeout)
        if found is None:
            return False
        worker, row = found
        pending.cancelled = True
        self._pool.replace(worker)
        message = (
            f"{self.reader.where(row)}: the read took longer than "
            f"limits.read_timeout={timeout} seconds"
        )
        if not self._maker.skip:
            raise ReadTimeoutError(message)
        self._known.add(row)
        self.problems[row] = message
        return True
