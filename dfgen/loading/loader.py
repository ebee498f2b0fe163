"""Loader: any batch of any epoch, and a bounded look-ahead that guesses which come next."""

import copy
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dfgen.checks import flag, whole
from dfgen.errors import (
    ArgumentError,
    DecodeError,
    DfgenError,
    MissingFileError,
    ReadTimeoutError,
    warn,
)
from dfgen.limits import Limits
from dfgen.loading.batch_maker import BatchMaker
from dfgen.loading.batch_transforms import BatchTransform, tried
from dfgen.loading.lookahead import LookAhead, Parked
from dfgen.loading.metrics import Metrics, total
from dfgen.loading.order.epochs import Epochs, InOrder, Order, Shuffled
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, PendingBatch, Weights
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.problems import TIMEOUT, WORKER, Failure, Problems
from dfgen.loading.receipts import ids_at
from dfgen.loading.workers.chunks import ChunkMaker, chunk_sizes, refuse_inside, row_bytes
from dfgen.loading.workers.pool import Pool
from dfgen.loading.workers.threads import CLOSED
from dfgen.machine import machine_memory, usable_cpus
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources.cached_pixels import CACHE_FAILED
from dfgen.spec import IntArray, Present, Spec

_BATCH = "write batch_size=32, rows of a batch"
_WORKERS = "leave it out to use all CPUs, or write workers=4"
_QUEUE = "write max_queue_size=1 for the fewest"
_FORKED = (
    "this batch was begun before the process was forked, by workers that only its parent has: "
    "begin a new pass in the forked process, iter(seq), or have it make a Sequence of its own"
)
_BAD_ROW = (
    'Replace the file, leave the row out, or go on without it: on_error="skip". '
    "dfgen.verify(manifest, decode=True) lists all such files"
)


def _check_memory(specs: Mapping[str, Spec], nbytes: int, rows: int) -> None:
    most = machine_memory()
    if nbytes * rows <= most:
        return
    name, spec = max(specs.items(), key=lambda one: row_bytes(dict([one])))
    raise ArgumentError(
        f"a batch of {rows} rows takes {nbytes * rows / 1e9:,.1f} GB, but this machine has "
        f"{most / 1e9:,.1f} GB of memory: a row of {name!r} has the shape {spec.shape} and "
        f"{spec.dtype} numbers. Make batch_size= smaller, or image_size="
    )


class Loader:
    """Makes batches of a reader's rows, in order, ahead of time, on several workers.

    It is `Sequence` without Keras. The order of an epoch is a pure function of (rows, seed,
    epoch), so any batch can be asked for at any time, from any thread.

    Args:
        reader: makes samples from rows.
        batch_size: rows of a batch of all hosts; the last one of an epoch may have fewer.
        order: the order of rows, seeded here. Default: by `shuffle`.
        shuffle: another order each epoch.
        seed: of the order and of the transform's random generators.
        drop_remainder: leave out a short last batch.
        shard: (index, count) of this host, which makes `batch_size / count` rows of each batch.
            With several, `plan` leaves out a short last batch.
        weights: float32 of shape (rows,), what each row counts in the loss, or None.
        own_weights: name of an array -> by what that is multiplied in the loss of this one.
        batch_transform: `batch_transform(batch, rng) -> batch` of a dict of arrays, in the thread
            that finishes the batch; tried once, when the loader is made, on blank images.
        on_error: `"raise"`, or `"skip"`: a bad row keeps its place with zeros and weight 0, and
            the real rows of its batch weigh batch / real.
        problems: row -> why it is not to be read at all; needs `on_error="skip"`.
        workers: threads; None = the CPUs this process may use, or fewer, or processes, where rows
            are small and that turns out to be faster; 0 = in the calling thread.
        use_multiprocessing: a process for each worker instead of a thread.
        max_queue_size: batches ready or in the making.
        limits: bounds on memory, on the time of a read, and on the rows that may turn out bad.

    Raises:
        ArgumentError: a size that cannot be.
    """

    def __init__(
        self,
        reader: SampleReader,
        *,
        batch_size: int = 32,
        order: Order | None = None,
        shuffle: bool = True,
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
        self.reader = reader
        drop_remainder = flag("drop_remainder", drop_remainder)
        default = Shuffled(len(reader)) if shuffle else InOrder(len(reader))
        order = (order or default).reseeded(seed)
        rows = order.places
        size = whole("batch_size", batch_size, least=1, advice=_BATCH)
        self.given = Plan(rows, size, shard, "drop" if drop_remainder else "short")
        self.plan = self.given if shard[1] == 1 else replace(self.given, tail="drop")
        """How an epoch of training is divided; `given` is how it was asked for."""
        self.batch_size = batch_size
        self.workers = (
            usable_cpus() if workers is None else whole("workers", workers, advice=_WORKERS)
        )
        self._chooses = workers is None and not use_multiprocessing
        self.limits = limits or Limits()
        self.problems = Problems(reader, problems or {}, self.limits.problems)
        self._known = set(self.problems)
        self._skip = on_error == "skip"
        if rows and not len(self.given):
            raise ArgumentError(
                f"{rows:,} rows make no batch of batch_size={batch_size} with drop_remainder=True: "
                "make the batches smaller, or keep the remainder"
            )
        if not self.workers and self.limits.read_timeout not in (None, Limits.read_timeout):
            raise ArgumentError("limits.read_timeout needs workers: with workers=0 nobody watches")
        self.max_queue_size = whole("max_queue_size", max_queue_size, least=1, advice=_QUEUE)
        self.use_multiprocessing = flag("use_multiprocessing", use_multiprocessing)
        self.weights = weights
        """The weight of each row in the loss; None: all the same."""
        self.own_weights: Mapping[str, Weights] = own_weights or {}
        self._maker = self._batch_maker(order, seed, batch_transform)
        self._parked = Parked()
        self._process = os.getpid()
        self._closed = False
        self._trains = True  # whether all rows of a batch may not be bad
        self._waited = 0.0
        self._handed_out = 0
        self._told_of_cache = False

    def _batch_maker(self, order: Order, seed: int, function: BatchTransform | None) -> BatchMaker:
        """Settle what the batches hold and how many are made ahead, and by whom."""
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
        maker = ChunkMaker(reader, seed, self._skip)
        mode = self.use_multiprocessing, largest, sizes[1], self._chooses
        pool = Pool(maker, self.workers, *mode)
        own: dict[str, Any] = {**self.own_weights}
        for name, there in reader.present.items():
            own[name] = own[name] * there if name in own else there
        weights = self.weights, own
        prefetch = None
        if reader.store.far:
            prefetch = Prefetch(reader.store.another().read)
            reader.store.fetched = prefetch.take
        return BatchMaker(pool, maker, order, *weights, transform, sizes, prefetch)

    def __len__(self) -> int:
        return len(self.plan)

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels; the copy measures anew."""
        return {**vars(self), "_waited": 0.0, "_handed_out": 0}

    @property
    def transforms_batches(self) -> bool:
        """Whether a function of the user's changes the arrays of a batch."""
        return self._maker.transform is not None

    @property
    def order(self) -> Order:
        """The order of rows."""
        return self._maker.order

    @property
    def shuffle(self) -> bool:
        """Whether each epoch has another order."""
        return not isinstance(self.order, InOrder)

    def epochs(self, plan: Plan | None = None) -> Epochs:
        """Return the rows of each batch, by the plan of training or another."""
        return self._maker.epochs(plan or self.plan)

    def ids_at(self, rows: IntArray) -> list[object]:
        """Return the ids of rows."""
        return ids_at(self.reader.ids, rows)

    @property
    def counted(self) -> Present:
        """Which rows are drawn, and weigh something in the loss."""
        counted = np.ones(len(self.reader), bool)
        for weights in (self.weights, self.order.weights):
            counted &= weights is None or weights > 0
        return counted

    def weights_of(self, name: str | None) -> Weights:
        """Return what each row of the manifest counts by itself in the loss of one array."""
        shared = np.ones(len(self.reader), np.float32) if self.weights is None else self.weights
        return shared * self.own_weights.get(name or "", np.float32(1))

    def in_order(self, plan: Plan) -> "Loader":
        """Return a loader of each row once, in their own order, made by the same workers.

        Its batches are not trained on: all rows of one may be bad.
        """
        found = copy.copy(self)
        found._maker = replace(self._maker, order=InOrder(len(self.reader)))
        found._parked = Parked()
        found.given = found.plan = plan
        found._trains = False
        return found

    def reseed(self, seed: int) -> None:
        """Use the seed of a training that goes on."""
        self.park(None)
        self._maker = self._maker.reseeded(seed)

    @property
    def metrics(self) -> Metrics:
        """The work of the workers since the loader was made, and how long it took them."""
        stopwatches = (worker.stopwatch for worker in self._maker.pool.workers)
        held = sum(slots.nbytes for slots in self.reader.cached)
        pool = self._maker.pool
        made = total(stopwatches, self._waited, self._handed_out, pool.abandoned, held)
        return replace(made, workers=pool.used, use_multiprocessing=pool.in_processes)

    def batch(self, epoch: int, step: int, plan: Plan | None = None) -> Batch:
        """Return one batch, in any order."""
        return self.result(self.start(epoch, step, plan))

    def batches(self, epoch: int = 0, plan: Plan | None = None) -> Iterator[Batch]:
        """Yield the batches of one epoch; training does not notice."""
        plan = self.plan if plan is None else plan
        ahead = LookAhead(self, (epoch, 0), plan, one_epoch=True)
        try:
            for _ in range(len(plan)):
                batch = next(ahead)
                yield replace(batch, ids=tuple(self.ids_at(batch.rows)))
        finally:
            ahead.close()

    def stream(
        self,
        epoch: int,
        step: int = 0,
        plan: Plan | None = None,
        at_once: int = 1,
    ) -> LookAhead:
        """Return the batches from (epoch, step) on; what was parked just there is used.

        Args:
            epoch: of the first batch.
            step: of the first batch.
            plan: of the epochs, None for that of training.
            at_once: batches that are taken together.
        """
        self._begin_anew_where_forked()
        plan = self.plan if plan is None else plan
        return self._parked.take(self, (epoch, step), plan, at_once)

    def park(self, ahead: LookAhead | None) -> None:
        """Keep what was made ahead for whoever goes on where it is; or nothing."""
        self._parked.keep(ahead)

    def close(self) -> None:
        """End the workers; no more batches can be made."""
        self._closed = True
        self.park(None)
        self._maker.pool.close()
        if self._maker.next_window is not None:
            self._maker.next_window.close()
        if self._maker.prefetch is not None:
            self._maker.prefetch.close()
        self.reader.store.close()

    def start(
        self,
        epoch: int,
        step: int,
        plan: Plan | None = None,
        spread: bool = True,
    ) -> PendingBatch:
        """Begin to make a batch, shared by all workers if `spread`; without workers, make it."""
        if self._closed:
            raise ArgumentError(CLOSED)
        refuse_inside(self.reader)
        self._begin_anew_where_forked()
        plan = self.plan if plan is None else plan
        return self._maker.start(epoch, step, plan, spread, self._known)

    def depth_for(self, at_once: int) -> int:
        """Return how many batches are made ahead where so many are taken at once: twice as many."""
        if at_once == 1 or not self.workers:
            return self.depth
        return max(self.depth, self.limits.depth(self._batch_bytes, 2 * at_once))

    def _begin_anew_where_forked(self) -> None:
        """Start workers in a process that was forked, as torch's DataLoader does: threads stay."""
        if self._process != os.getpid():
            self._maker = replace(self._maker, pool=copy.copy(self._maker.pool))
            self._parked = Parked()
            self._process = os.getpid()

    def result(self, pending: PendingBatch) -> Batch:
        """Return a batch when it is made, or raise what its first bad row raised."""
        if pending.process != os.getpid():
            raise ArgumentError(_FORKED)
        began = time.perf_counter()
        pending = self._made(pending)
        try:
            batch, faults = pending.result()
        except DfgenError as error:
            if isinstance(error, DecodeError | MissingFileError):
                error.add_note(_BAD_ROW)
            raise
        if self.reader.cached:
            self._tell_of_cache()
        self._known.update(row for row, fault in faults.items() if fault.stage == WORKER)
        self.problems.add(faults, pending.position[0])
        if self._trains:
            self.problems.check_batch(batch.rows, len(batch.skipped))
            if pending.position[1] == len(pending.plan) - 1:
                self.problems.tell()
        now = time.perf_counter()
        self._waited += now - began
        self._handed_out += 1
        self._maker.pool.note(len(batch.rows), now - began, now)
        return batch

    def _tell_of_cache(self) -> None:
        counts = [worker.stopwatch.counts for worker in self._maker.pool.workers]
        why = next(
            (name for one in counts for name in [*one] if name.startswith(CACHE_FAILED)), None
        )
        if why is not None and not self._told_of_cache:
            self._told_of_cache = True
            reason = os.strerror(int(why.removeprefix(CACHE_FAILED)))
            warn(
                f"the cache takes no more pixels: {reason}. Training goes on with the pixels in it"
            )

    def _made(self, pending: PendingBatch) -> PendingBatch:
        """Wait until a batch is made; return it, or the one without the rows that were late."""
        while late := self._maker.pool.wait(pending, self.limits.read_timeout):
            for row in filter(late.__contains__, pending.rows.tolist()):
                self._note_late(row, pending.position[0])
            pending = self.start(*pending.position, pending.plan)
        return pending

    def _note_late(self, row: int, epoch: int) -> None:
        late = (
            "to read and decode its file took longer than "
            f"limits.read_timeout={self.limits.read_timeout} seconds"
        )
        if not self._skip:
            advice = "raise the limit if it is to take so long"
            raise ReadTimeoutError(f"{self.reader.where(row)}: {late}: {advice}")
        self._known.add(row)
        self.problems.add({row: Failure(TIMEOUT, late)}, epoch)
