"""Loader: any batch of any epoch, and the next batches ahead of time."""

import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dfgen.errors import (
    ArgumentError,
    DecodeError,
    DfgenError,
    MissingFileError,
    ReadTimeoutError,
    flag,
    warn,
    whole,
)
from dfgen.limits import Limits
from dfgen.loading.batch_maker import BatchMaker, NextWindow
from dfgen.loading.batch_transforms import BatchTransform, tried
from dfgen.loading.lookahead import LookAhead
from dfgen.loading.metrics import Metrics, total
from dfgen.loading.order.epochs import Epochs, InOrder, Order
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.windows import Windowed
from dfgen.loading.pending_batch import Batch, PendingBatch, Weights, is_making
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.problems import TIMEOUT, WORKER, Failure, Problems
from dfgen.loading.receipts import ids_at
from dfgen.loading.workers.chunks import ChunkMaker, chunk_sizes, row_bytes
from dfgen.loading.workers.pool import CLOSED
from dfgen.loading.workers.workers import Workers
from dfgen.machine import machine_memory, usable_cpus
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources import CACHE_FAILED
from dfgen.spec import IntArray, Present, Spec

_BATCH = "write batch_size=32, rows of a batch"
_WORKERS = "leave it out to use all CPUs, or write workers=4"
_QUEUE = "write max_queue_size=1 for the fewest"
_BAD_ROW = (
    'Replace the file, leave the row out, or skip it: on_error="skip". '
    "dfgen.verify(manifest, decode=True) lists all such files"
)


def _check_memory(specs: Mapping[str, Spec], nbytes: int, rows: int) -> None:
    most = machine_memory()
    if nbytes * rows > most:
        name, spec = max(specs.items(), key=lambda item: row_bytes(dict([item])))
        raise ArgumentError(
            f"a batch of {rows} rows takes {nbytes * rows / 1e9:,.1f} GB, but this machine has "
            f"{most / 1e9:,.1f} GB of memory: a row of {name!r} has the shape {spec.shape} and "
            f"{spec.dtype} numbers. Make batch_size= smaller, or image_size="
        )


def _loader(reader: SampleReader, options: dict[str, Any]) -> "Loader":
    return Loader(reader, **options)


class Loader:
    """Makes batches of a reader's rows, in order, ahead of time, on several workers.

    It is `Sequence` without Keras. Any batch can be requested at any time, from any thread.

    Other arguments are those of Sequence.

    Args:
        reader: makes samples from rows.
        order: the order of rows, seeded here. Default: the order of the manifest.
        shard: (index, count) of this host. With several, `plan` leaves out a short last batch.
        weights: float32 of shape (rows,), the weight of each row in the loss, or None.
        own_weights: name of an array -> further weights in its loss.
        problems: row -> why it is never read; needs `on_error="skip"`.

    Raises:
        ArgumentError: a size is not possible.
    """

    def __init__(
        self,
        reader: SampleReader,
        *,
        order: Order | None = None,
        batch_size: int = 32,
        seed: int = 0,
        drop_remainder: bool = False,
        shard: tuple[int, int] = (0, 1),
        weights: Weights | None = None,
        own_weights: Mapping[str, Weights] | None = None,
        batch_transform: BatchTransform | None = None,
        on_error: str = "raise",
        problems: Mapping[int, str] | None = None,
        workers: int | None = None,
        use_multiprocessing: bool = False,
        max_queue_size: int = 10,
        limits: Limits | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            name: value for name, value in locals().items() if name not in ("self", "reader")
        }
        self.reader = reader
        drop_remainder = flag("drop_remainder", drop_remainder)
        order = (order or InOrder(len(reader))).reseeded(seed)
        size = whole("batch_size", batch_size, least=1, advice=_BATCH)
        self.given = Plan(order.places, size, shard, "drop" if drop_remainder else "short")
        """How an epoch is divided into batches, by the arguments."""
        self.plan = self.given if shard[1] == 1 else replace(self.given, tail="drop")
        """The same in training."""
        self.batch_size = batch_size
        number = usable_cpus() if workers is None else workers
        self.workers = whole("workers", number, advice=_WORKERS)
        self.limits = limits or Limits()
        self.problems = Problems(reader, problems or {}, self.limits.problems)
        self._known = set(self.problems)
        self._skip = on_error == "skip"
        if order.places and not len(self.given):
            raise ArgumentError(
                f"{order.places:,} rows make no batch of batch_size={batch_size} with "
                "drop_remainder=True: make the batches smaller, or keep the remainder"
            )
        if not self.workers and self.limits.read_timeout not in (None, Limits.read_timeout):
            raise ArgumentError("limits.read_timeout needs workers: with workers=0 nobody watches")
        self.max_queue_size = whole("max_queue_size", max_queue_size, least=1, advice=_QUEUE)
        self.use_multiprocessing = flag("use_multiprocessing", use_multiprocessing)
        self.weights = weights
        """The weight of each row in the loss; None: all the same."""
        self.own_weights: Mapping[str, Weights] = own_weights or {}
        self._trains = True  # whether a batch of bad rows alone is an error
        self._closed = self._warned_of_cache = False
        self._waited, self._handed_out = 0.0, 0
        self._prepare(order, seed, batch_transform, workers is None and not use_multiprocessing)

    def _prepare(
        self, order: Order, seed: int, function: BatchTransform | None, chooses: bool
    ) -> None:
        """Settle the arrays of batches, and how many are made ahead."""
        reader, size, transform = self.reader, self.plan.size, None
        largest = reader.padding.specs(slice(None), reader.specs)
        self.specs, nbytes = reader.specs, row_bytes(largest)
        both = nbytes
        if function is not None:
            transform = tried(function, reader, largest, min(size, len(reader)))
            self.specs, both = transform.specs, nbytes + transform.row_bytes  # while it runs
        self._batch_bytes = both * size
        _check_memory(largest, both, min(size, len(reader)))
        depth = self.limits.depth(self._batch_bytes, self.max_queue_size)
        self.depth = depth if self.workers else 1
        sizes = chunk_sizes(size, self.depth, self.workers, nbytes, self.use_multiprocessing)
        own: dict[str, Any] = {**self.own_weights}
        for name, present in reader.present.items():
            own[name] = own[name] * present if name in own else present
        self._batches = BatchMaker(reader, order, seed, self.weights, own, transform, sizes)
        maker = ChunkMaker(reader, self._skip)
        self._workers_of = maker, self.workers, self.use_multiprocessing, largest, sizes[1], chooses
        self._open()

    def _open(self) -> None:
        """Make what starts threads."""
        store = self.reader.store
        self._workers = Workers(*self._workers_of)
        self._parked: deque[LookAhead] = deque(maxlen=1)
        self._process = os.getpid()
        if store.far and not self.use_multiprocessing:  # processes prefetch on their own
            prefetch = Prefetch(store.another().read)
            store.fetched = prefetch.take
            self._batches = replace(self._batches, prefetch=prefetch)
        order = self.order
        self._next = NextWindow(self.reader, order) if isinstance(order, Windowed) else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a copy is made, which has workers and measurements of its own."""
        known = {row: self.problems[row].reason for row in self._known}
        return _loader, (self.reader, {**self._options, "order": self.order, "problems": known})

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def transforms_batches(self) -> bool:
        """Whether there is a `batch_transform`."""
        return self._batches.transform is not None

    @property
    def order(self) -> Order:
        """The order of rows."""
        return self._batches.order

    @property
    def shuffle(self) -> bool:
        """Whether epochs differ in their order."""
        return not isinstance(self.order, InOrder)

    def epochs(self, plan: Plan | None = None) -> Epochs:
        """Return the rows of each batch, by the plan of training or another."""
        return self._batches.epochs(plan or self.plan)

    def ids_at(self, rows: IntArray) -> list[object]:
        """Return the ids of rows."""
        return ids_at(self.reader.ids, rows)

    @property
    def counted(self) -> Present:
        """Whether each row is drawn and has a weight above 0 in the loss."""
        counted = np.ones(len(self.reader), bool)
        for weights in (self.weights, self.order.weights):
            counted &= weights is None or weights > 0
        return counted

    def weights_of(self, name: str | None) -> Weights:
        """Return the weight of each row of the manifest in the loss of one array."""
        shared = np.ones(len(self.reader), np.float32) if self.weights is None else self.weights
        return shared * self.own_weights.get(name or "", np.float32(1))

    def in_order(self, plan: Plan) -> "Loader":
        """Return a loader of each row once, in the order of the manifest, on the same workers.

        Its batches are not trained on: all rows of one may be bad.
        """
        loader = object.__new__(Loader)
        vars(loader).update(vars(self), given=plan, plan=plan, _parked=deque(maxlen=1))
        loader._batches = replace(self._batches, order=InOrder(len(self.reader)))
        loader._trains, loader._next = False, None
        return loader

    def reseed(self, seed: int) -> None:
        """Use the seed of a training that is resumed."""
        self.park(None)
        self._options["seed"] = seed
        self._batches = replace(self._batches, seed=seed, order=self.order.reseeded(seed))
        if isinstance(self.order, Windowed):
            self._next = NextWindow(self.reader, self.order)

    @property
    def metrics(self) -> Metrics:
        """The work of the workers since the loader was made, and its times."""
        workers = self._workers
        return total(
            (worker.stopwatch for worker in workers.started), self._waited, self._handed_out,
            abandoned=workers.abandoned, cache_bytes=sum(one.nbytes for one in self.reader.cached),
            workers=workers.used[0], use_multiprocessing=workers.used[1],
        )  # fmt: skip

    def batch(self, epoch: int, step: int, plan: Plan | None = None) -> Batch:
        """Return one batch."""
        return self.result(self.start(epoch, step, plan or self.plan))

    def stream(
        self, epoch: int, step: int = 0, plan: Plan | None = None, at_once: int = 1
    ) -> LookAhead:
        """Return the batches from (epoch, step) on; the parked look-ahead if it begins there.

        Args:
            epoch: of the first batch.
            step: of the first batch.
            plan: of the epochs. Default: the plan of training.
            at_once: batches that are taken together; twice as many are made ahead.
        """
        plan, depth = plan or self.plan, self.depth
        if at_once > 1 and self.workers:
            depth = max(depth, self.limits.depth(self._batch_bytes, 2 * at_once))
        self._reopen_if_forked()
        parked = self._parked.pop() if self._parked else None
        if parked is not None:
            if (parked.position, parked.plan, parked.depth) == ((epoch, step), plan, depth):
                parked.loader = self
                return parked
            parked.close()
        return LookAhead(self, (epoch, step), plan, depth)

    def park(self, ahead: LookAhead | None) -> None:
        """Keep a look-ahead for the next `stream`, or close the kept one if None."""
        if self._parked:
            self._parked.pop().close()
        if ahead is not None:
            del ahead.loader  # no reference cycle
            self._parked.append(ahead)

    def close(self) -> None:
        """End the workers; no more batches can be made."""
        self._closed = True
        self.park(None)
        self._workers.close()
        for threads in (self._next, self._batches.prefetch):
            if threads is not None:
                threads.close()
        self.reader.store.close()

    def start(self, epoch: int, step: int, plan: Plan, spread: bool = True) -> PendingBatch:
        """Begin to make a batch, shared by all workers if `spread`."""
        if self._closed:
            raise ArgumentError(CLOSED)
        if is_making(self.reader):
            raise ArgumentError(
                "a function that makes the rows of a Sequence asks that Sequence for a batch, "
                "which would wait for itself: to mix the rows of a batch write batch_transform=, "
                "and take others from a second Sequence, made before"
            )
        self._reopen_if_forked()
        pending = self._batches.pending(epoch, step, plan, spread, self._known)
        if self._next is not None:
            self._next.begin(epoch, step, plan)
        self._workers.start(pending.start)
        return pending

    def _reopen_if_forked(self) -> None:
        """Have workers of its own in a process that was forked, which has no threads."""
        if self._process != os.getpid():
            self._open()

    def result(self, pending: PendingBatch) -> Batch:
        """Wait for a batch and return it, or raise the error of its first bad row."""
        began, timeout = time.perf_counter(), self.limits.read_timeout
        while late := pending.pool.wait(pending, timeout):
            for row in filter(late.__contains__, pending.rows.tolist()):
                self._note_late(row, pending.position[0])
            pending = self.start(*pending.position, pending.plan)
        try:
            batch, faults = pending.result()
        except DfgenError as error:
            if isinstance(error, DecodeError | MissingFileError):
                error.add_note(_BAD_ROW)
            raise
        if self.reader.cached:
            self._warn_of_cache()
        self._known.update(row for row, fault in faults.items() if fault.stage == WORKER)
        self.problems.add(faults, pending.position[0])
        if self._trains:
            self.problems.check_batch(batch.rows, len(batch.skipped))
            if pending.position[1] == len(pending.plan) - 1:
                self.problems.warn()
        now = time.perf_counter()
        self._waited += now - began
        self._handed_out += 1
        self._workers.note(len(batch.rows), now - began, now)
        return batch

    def _warn_of_cache(self) -> None:
        counts = [name for worker in self._workers.started for name in [*worker.stopwatch.counts]]
        failed = next((name for name in counts if name.startswith(CACHE_FAILED)), None)
        if failed is not None and not self._warned_of_cache:
            self._warned_of_cache = True
            reason = os.strerror(int(failed.removeprefix(CACHE_FAILED)))
            warn(f"the cache accepts no more pixels: {reason}. Training uses the pixels in it")

    def _note_late(self, row: int, epoch: int) -> None:
        seconds = self.limits.read_timeout
        late = f"to read and decode its file took longer than limits.read_timeout={seconds} seconds"
        if not self._skip:
            advice = "raise the limit if it is to take so long"
            raise ReadTimeoutError(f"{self.reader.where(row)}: {late}: {advice}")
        self._known.add(row)
        self.problems.add({row: Failure(TIMEOUT, late)}, epoch)
