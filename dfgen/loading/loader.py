"""Loader: any batch of any epoch, and a bounded look-ahead that guesses which come next."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, ReadTimeoutError
from dfgen.loading.batch_transforms import BatchTransform, batch_rng, tried
from dfgen.loading.buffers import Buffers
from dfgen.loading.limits import Limits
from dfgen.loading.lookahead import Stream
from dfgen.loading.metrics import Metrics, total
from dfgen.loading.order.balance import Balance
from dfgen.loading.order.buckets import Buckets
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.row_order import Blocks, RowOrder
from dfgen.loading.pending_batch import Arrays, Batch, Making
from dfgen.loading.receipts import Order
from dfgen.loading.workers.chunks import Chunk, Maker, chunk_sizes, row_bytes
from dfgen.loading.workers.processes import Process, pickled
from dfgen.loading.workers.threads import CLOSED, Here, Threads
from dfgen.samples.features.base import Spec
from dfgen.samples.reader import SampleReader
from dfgen.system import usable_cpus, whole

Rows = npt.NDArray[np.int64]


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
        weights: npt.NDArray[np.float32] | None = None,
        batch_transform: BatchTransform | None = None,
        on_error: str = "raise",
        problems: Mapping[int, str] | None = None,
        workers: int | None = None,
        use_multiprocessing: bool = False,
        max_queue_size: int = 10,
        limits: Limits | None = None,
    ) -> None:
        rows = len(reader)
        skip = on_error == "skip"
        self.reader = reader
        tail = "drop" if drop_remainder else "short"
        self.given = Plan(rows, whole("batch_size", batch_size, least=1), shard, tail)
        self.plan = self.given if shard[1] == 1 else replace(self.given, tail="drop")
        """How an epoch of training is divided; `given` is how it was asked for."""
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.workers = usable_cpus() if workers is None else whole("workers", workers)
        self._largest = reader.padding.specs(slice(None), reader.specs)
        self.problems: dict[int, str] = dict(problems or {})
        self._known = set(self.problems)
        self._weights = np.ones(rows, np.float32) if weights is None and skip else weights
        self._maker = Maker(reader, seed, skip)
        self._limits = limits or Limits()
        if not len(self.given):
            raise ArgumentError(
                f"{rows:,} rows make no batch of batch_size={batch_size} with drop_remainder=True: "
                "make the batches smaller, or keep the remainder"
            )
        self._set_order(RowOrder(rows, seed if shuffle else None, balance, buckets))
        self._buffers = Buffers(reader.specs)
        self._transform = None
        if batch_transform is not None:
            size = min(self.plan.size, rows)
            self._transform = tried(batch_transform, reader, self._largest, size)
        self.specs = self._transform.specs if self._transform else reader.specs
        self.max_queue_size = whole("max_queue_size", max_queue_size, least=1)
        self.depth = self._depth(self.max_queue_size)
        self._spread, self._chunk = chunk_sizes(
            self.plan.size, self.depth, self.workers, row_bytes(self._largest), use_multiprocessing
        )
        self._threads = self._start_workers(use_multiprocessing)
        self.use_multiprocessing = use_multiprocessing
        self._here = Here(self._maker)
        self._lock = threading.Lock()
        self._parked: Stream | None = None
        self._closed = False
        self._waited = 0.0
        self._handed_out = 0

    def _depth(self, max_queue_size: int) -> int:
        if self._limits.read_timeout is not None and not self.workers:
            raise ArgumentError("limits.read_timeout needs workers: with workers=0 nobody watches")
        size = row_bytes(self._largest)
        if self._transform is not None:
            size += self._transform.row_bytes  # both are there while it runs
        depth = self._limits.depth(size * self.plan.size, max_queue_size)
        return depth if self.workers else 1

    def _start_workers(self, use_multiprocessing: bool) -> Threads | None:
        if use_multiprocessing and not self.workers:
            raise ArgumentError("use_multiprocessing=True needs workers, got workers=0")
        if not self.workers:
            return None
        if not use_multiprocessing:
            return Threads(self.workers, partial(Here, self._maker))
        arguments = (self._maker, pickled(self._maker), self._largest, self._chunk)
        return Threads(self.workers, partial(Process, *arguments))

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self.plan)

    @property
    def order(self) -> Order:
        """The rows of every batch, worked out apart from what makes the batches."""
        return Order(self.plan, self.row_order, self.reader.ids)

    def reseed(self, seed: int) -> None:
        """Take the seed of a training that goes on, where none was asked for."""
        self.park(None)
        if self._threads is not None:
            self._threads.close()
        self._maker = replace(self._maker, seed=seed)
        self._set_order(replace(self.row_order, seed=seed if self.shuffle else None))
        self._here = Here(self._maker)
        self._threads = self._start_workers(self.use_multiprocessing)

    def _set_order(self, order: RowOrder) -> None:
        self.row_order = order
        """Which row stands where in each epoch."""
        self._blocks = Blocks(order, self.plan)

    @property
    def metrics(self) -> Metrics:
        """What the workers have done since the loader was made, and how long it took them."""
        workers = self._threads.workers if self._threads is not None else [self._here]
        watches = [worker.watch for worker in workers]
        return total(watches, self._waited, self._handed_out)

    def rows(self, epoch: int, step: int, plan: Plan | None = None) -> Rows:
        """Return the rows of one batch on this host: those at its positions of the order."""
        rows: Rows = self._blocks.batch(epoch, step, self.plan if plan is None else plan)[0]
        return rows

    def batch(self, epoch: int, step: int) -> Batch:
        """Return one batch, whatever else is under way."""
        return self.result(self.start(epoch, step))

    def stream(self, epoch: int, step: int = 0, plan: Plan | None = None) -> Stream:
        """Return the batches from (epoch, step) on; what was parked just there is used."""
        plan = self.plan if plan is None else plan
        parked = self._swap_parked(None)
        if parked is not None and (parked.position, parked.plan) == ((epoch, step), plan):
            return parked
        if parked is not None:
            parked.close()
        return Stream(self, (epoch, step), plan)

    def park(self, stream: Stream | None) -> None:
        """Keep a stream with what it has made ahead, for whoever goes on where it is; or none."""
        parked = self._swap_parked(stream)
        if parked is not None:
            parked.close()

    def close(self) -> None:
        """End the workers; no more batches can be made."""
        self._closed = True
        self.park(None)
        if self._threads is not None:
            self._threads.close()

    def start(self, epoch: int, step: int, plan: Plan | None = None, spread: bool = True) -> Making:
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
        rows, earlier = self._blocks.batch(epoch, step, plan)
        weights = None if self._weights is None else self._weights[rows]
        padding = 0
        if (share := plan.weights(step)) is not None:
            weights = share if weights is None else weights * share
            padding = int((share == 0).sum())
        specs = self._specs_of(epoch, step, plan, rows)
        batch = Batch(self._buffers.batch(len(rows), specs), weights, rows, padding)
        size = self._spread if spread else self._chunk
        starts = range(0, len(rows), size)
        making = Making(batch, (epoch, step), plan, len(starts), self._transform_of(epoch, step))
        for start in starts:
            part = slice(start, start + size)
            known = self._known.intersection(rows[part].tolist()) if self._known else ()
            task = partial(making.run, Chunk(epoch, rows[part], earlier[part], known), part)
            if self._threads is None:
                task(self._here)
            else:
                self._threads.submit(task)
        return making

    def _transform_of(self, epoch: int, step: int) -> Callable[[Arrays], Arrays] | None:
        if self._transform is None:
            return None
        rng = batch_rng(self._maker.seed, epoch, step, self.plan.shard[0])
        return partial(self._transform, rng=rng, where=f"batch {step} of epoch {epoch}")

    def _specs_of(self, epoch: int, step: int, plan: Plan, rows: Rows) -> Mapping[str, Spec] | None:
        """Return what a batch holds, where that depends on its rows: those of all hosts."""
        if not self.reader.padding.sizes:
            return None
        if plan.shard[1] > 1:
            rows = self.row_order.at(epoch, replace(plan, shard=(0, 1)).positions(step))[0]
        return self.reader.padding.specs(rows, self.reader.specs)

    def result(self, making: Making) -> Batch:
        """Wait for a batch in the making, and return it.

        Raises:
            DfgenError: a row could not be made, or its read took too long.
        """
        began = time.perf_counter()
        timeout = self._limits.read_timeout
        while not making.wait(None if timeout is None else timeout / 4):
            if self._gave_up(making):
                making = self.start(*making.position, making.plan)
        batch, problems = making.result()
        self.problems.update(problems)
        self._waited += time.perf_counter() - began
        self._handed_out += 1
        return batch

    def _gave_up(self, making: Making) -> bool:
        """Give up a batch if one of its reads takes too long; raise unless rows are skipped."""
        threads, timeout = self._threads, self._limits.read_timeout
        if threads is None or timeout is None:
            return False
        for worker in threads.workers:
            row, since = worker.reading() or (-1, 0.0)
            late = row >= 0 and time.perf_counter() - since > timeout
            if late and worker.busy_with is making:
                making.cancelled = True
                threads.replace(worker)
                message = (
                    f"{self.reader.where(row)}: the read took longer than "
                    f"limits.read_timeout={timeout} seconds"
                )
                if not self._maker.skip:
                    raise ReadTimeoutError(message)
                self._known.add(row)
                self.problems[row] = message
                return True
        return False

    def _swap_parked(self, stream: Stream | None) -> Stream | None:
        with self._lock:
            parked, self._parked = self._parked, stream
        return parked
