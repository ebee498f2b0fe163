"""Loader: any batch of any epoch, and the next batches ahead of time."""

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dfgen.errors import (
    ArgumentError,
    DecodeError,
    MissingFileError,
    ReadTimeoutError,
    flag,
    warn,
    whole,
)
from dfgen.limits import Limits
from dfgen.loading.batch_transforms import BatchTransform, tried
from dfgen.loading.metrics import Metrics, Stopwatch
from dfgen.loading.order.epochs import Epochs, InOrder, Order, Plan
from dfgen.loading.order.windows import Windowed
from dfgen.loading.pending_batch import (
    Batch,
    Buffers,
    LookAhead,
    PendingBatch,
    Weights,
    batch_weights,
)
from dfgen.loading.prefetch import NextWindow, Prefetch
from dfgen.loading.problems import TIMEOUT, WORKER, Problem, Problems
from dfgen.loading.receipts import ids_at
from dfgen.loading.workers.chunks import Chunk, ChunkMaker, batch_rng, chunk_sizes, row_bytes
from dfgen.loading.workers.workers import Workers
from dfgen.machine import machine_memory, usable_cpus
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources import CACHE_FAILED
from dfgen.spec import IntArray, Present, Spec

_BAD_ROW = (
    'Replace the file, leave the row out, or skip it: on_error="skip". '
    "dfgen.verify(manifest, decode=True) lists all such files"
)


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
        self.reader, self.seed, self.batch_size = reader, seed, batch_size
        self.order: Order = (order or InOrder(len(reader))).reseeded(seed)
        """The order of rows."""
        tail = "drop" if flag("drop_remainder", drop_remainder) else "short"
        self.given = Plan(self.order.places, batch_size, shard, tail)
        """How an epoch is divided into batches, by the arguments."""
        self.plan = self.given if shard[1] == 1 else replace(self.given, tail="drop")
        """The same in training."""
        if self.order.places and not len(self.given):
            raise ArgumentError(
                f"{self.order.places:,} rows make no batch of batch_size={batch_size} with "
                "drop_remainder=True: make the batches smaller, or keep the remainder"
            )
        number = usable_cpus() if workers is None else workers
        advice = "leave it out to use all CPUs, or write workers=4"
        self.workers = whole("workers", number, advice=advice)
        self.limits = limits or Limits()
        if not self.workers and self.limits.read_timeout not in (None, Limits.read_timeout):
            raise ArgumentError("limits.read_timeout needs workers: with workers=0 nobody watches")
        advice = "write max_queue_size=1 for the fewest"
        self.max_queue_size = whole("max_queue_size", max_queue_size, least=1, advice=advice)
        self.use_multiprocessing = flag("use_multiprocessing", use_multiprocessing)
        self.problems = Problems(reader, problems or {}, self.limits.problems)
        self._known = set(self.problems)
        self._skip = on_error == "skip"
        self.weights = weights
        """The weight of each row in the loss; None: all the same."""
        self.own_weights: Mapping[str, Weights] = own_weights or {}
        self._own: dict[str, Any] = {**self.own_weights}
        for name, present in reader.present.items():
            self._own[name] = self._own.get(name, True) * present
        self._trains = True  # whether a batch of bad rows alone is an error
        self._warned_of_cache = False
        self._waited, self._handed_out = 0.0, 0
        self._buffers = Buffers(reader.specs)
        self._epochs: dict[Plan, Epochs] = {}
        largest = reader.padding.specs(slice(None), reader.specs)
        rows = min(self.plan.size, len(reader))
        self.specs, self.batch_transform = reader.specs, None
        """The Specs of a batch, and its checked transform."""
        nbytes = most = row_bytes(largest)
        if batch_transform is not None:
            self.batch_transform = tried(batch_transform, reader, largest, rows)
            self.specs, most = self.batch_transform.specs, nbytes + self.batch_transform.row_bytes
        if most * rows > (memory := machine_memory()):
            name, spec = max(largest.items(), key=lambda item: row_bytes(dict([item])))
            raise ArgumentError(
                f"a batch of {rows} rows takes {most * rows / 1e9:,.1f} GB, but this machine has "
                f"{memory / 1e9:,.1f} GB of memory: a row of {name!r} has the shape {spec.shape} "
                f"and {spec.dtype} numbers. Make batch_size= smaller, or image_size="
            )
        self._batch_bytes = most * self.plan.size
        depth = self.limits.depth(self._batch_bytes, self.max_queue_size)
        self.depth = depth if self.workers else 1
        self._sizes = chunk_sizes(
            self.plan.size, self.depth, self.workers, nbytes, self.use_multiprocessing
        )
        self._make_workers = partial(
            Workers, ChunkMaker(reader, self._skip), self.workers, self.use_multiprocessing,
            largest, self._sizes[1], workers is None and not use_multiprocessing,
        )  # fmt: skip
        self._open()

    def _open(self) -> None:
        """Make what has threads."""
        self._process = os.getpid()
        self._parked: deque[LookAhead] = deque(maxlen=1)
        self._workers, self._prefetch = self._make_workers(), None
        self._next = NextWindow(self.reader) if isinstance(self.order, Windowed) else None
        store = self.reader.store
        if store.far and not self.use_multiprocessing:  # processes prefetch on their own
            self._prefetch = Prefetch(store.another().read)
            store.fetched = self._prefetch.take

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a copy is made, which has workers and measurements of its own."""
        known = {row: self.problems[row].reason for row in self._known}
        options = {**self._options, "order": self.order, "seed": self.seed, "problems": known}
        return partial(Loader, **options), (self.reader,)

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def shuffle(self) -> bool:
        """Whether epochs differ in their order."""
        return not isinstance(self.order, InOrder)

    def epochs(self, plan: Plan | None = None) -> Epochs:
        """Return the rows of each batch, by the plan of training or another."""
        plan = plan or self.plan
        if plan not in self._epochs:
            self._epochs[plan] = Epochs(self.order, plan)
        return self._epochs[plan]

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
        loader, order = object.__new__(Loader), InOrder(len(self.reader))
        own = {"given": plan, "plan": plan, "order": order, "_epochs": {}, "_parked": deque()}
        vars(loader).update(vars(self), **own, _trains=False, _next=None)
        return loader

    def reseed(self, seed: int) -> None:
        """Use the seed of a training that is resumed."""
        self.park(None)
        self.seed, self.order, self._epochs = seed, self.order.reseeded(seed), {}

    @property
    def metrics(self) -> Metrics:
        """The work of the workers since the loader was made, and its times."""
        workers, sums = self._workers, Stopwatch()
        for worker in workers.started:
            sums.add(worker.stopwatch.seconds, worker.stopwatch.counts)
        counts, nbytes = sums.counts, sum(cache.nbytes for cache in self.reader.cached)
        return Metrics(
            {**sums.seconds, "consumer_wait": self._waited}, counts["samples"], self._handed_out,
            counts["bytes"], workers.abandoned, counts["cache_hits"], counts["cache_misses"],
            nbytes, *workers.chooser.used,
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
        self.park(None)
        self._workers.close()
        for threads in (self._next, self._prefetch):
            if threads is not None:
                threads.close()
        self.reader.store.close()

    def start(self, epoch: int, step: int, plan: Plan, spread: bool = True) -> PendingBatch:
        """Begin to make a batch, shared by all workers if `spread`."""
        self._reopen_if_forked()
        here = threading.get_ident()
        if any(worker.thread == here and worker.batch for worker in self._workers.started):
            raise ArgumentError(
                "a function that makes the rows of a Sequence asks that Sequence for a batch, "
                "which would wait for itself: to mix the rows of a batch write batch_transform=, "
                "and take others from a second Sequence, made before"
            )
        pending = self._pending(epoch, step, plan, self._sizes[0 if spread else 1])
        if self._next is not None:
            self._next.begin(self.order, epoch, step, plan)  # type: ignore[arg-type]
        self._workers.start(pending.start)
        return pending

    def _pending(self, epoch: int, step: int, plan: Plan, size: int) -> PendingBatch:
        """Return a batch to be made in chunks of so many rows."""
        reader, transform = self.reader, None
        _, rows, earlier = self.epochs(plan).batch(epoch, step)
        chunks = []
        for part in (slice(at, at + size) for at in range(0, len(rows), size)):
            some = rows[part].tolist()
            bad = self._known.intersection(some)
            far = [row for row in some if row not in bad] if reader.store.far else []
            paths = [path for row in far for path in reader.remote_paths(row)]
            chunks.append((Chunk(self.seed, epoch, rows[part], earlier[part], bad, paths), part))
        if self.batch_transform is not None:
            rng = batch_rng(self.seed, epoch, step, plan.shard[0])
            where = f"batch {step} of epoch {epoch}"
            transform = partial(self.batch_transform, rng=rng, where=where)
        specs: Mapping[str, Spec] | None = None
        if reader.padding.sizes:  # the same on all hosts
            every, whole = rows, replace(plan, shard=(0, 1))
            if plan != whole:
                every = self.order.at(epoch, whole.positions(step))[0]
            specs = reader.padding.specs(every, reader.specs)
        make = partial(self._buffers.batch, len(rows), specs)
        return PendingBatch((epoch, step), plan, rows, chunks, make, transform, self._prefetch)

    def _reopen_if_forked(self) -> None:
        """Have workers of its own in a process that was forked, which has no threads."""
        if self._process != os.getpid():
            self._open()

    def result(self, pending: PendingBatch) -> Batch:
        """Wait for a batch and return it, or raise the error of its first bad row."""
        began, timeout = time.perf_counter(), self.limits.read_timeout
        (epoch, step), plan, rows = pending.position, pending.plan, pending.rows
        while late := pending.pool.wait(pending, timeout):
            for row in filter(late.__contains__, rows.tolist()):
                self._note_late(row, epoch)
            pending = self.start(epoch, step, plan)
        try:
            arrays = pending.result()
        except (DecodeError, MissingFileError) as error:
            error.add_note(_BAD_ROW)
            raise
        if self.reader.cached:
            self._warn_of_cache()
        blanks = pending.blanks
        problems = {int(rows[place]): why for place, why in blanks.items() if why is not None}
        self._known.update(row for row, problem in problems.items() if problem.stage == WORKER)
        self.problems.add(problems, epoch)
        if self._trains:
            self.problems.check_batch(rows, len(blanks))
            if step == len(plan) - 1:
                self.problems.warn()
        own = None if self.weights is None else self.weights[rows]
        batch = Batch(arrays, rows, batch_weights(plan, step, own, blanks), self._own, (*blanks,))
        now = time.perf_counter()
        self._waited += now - began
        self._handed_out += 1
        self._workers.note(len(rows), now - began, now)
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
        self.problems.add({row: Problem(TIMEOUT, late)}, epoch)
