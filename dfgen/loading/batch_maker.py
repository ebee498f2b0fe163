"""BatchMaker: settles the rows and arrays of a batch, and cuts it into chunks."""

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from dfgen.loading.batch_transforms import TriedTransform
from dfgen.loading.buffers import BatchArrays, Buffers
from dfgen.loading.generators import batch_rng
from dfgen.loading.order.epochs import Epochs, Order
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.windows import Windowed
from dfgen.loading.pending_batch import OwnWeights, PendingBatch, Weights
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.workers.chunks import Chunk
from dfgen.loading.workers.pool import Pool, Worker
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray, Spec

_RECENT = 8  # windows that are not read again, of all passes that run at the same time


class NextWindow:
    """Reads the files of a window and of the next one when one of its batches begins.

    It runs in a thread, so that no batch waits. If it fails, as without memory, the rows are read
    later.
    """

    def __init__(self, reader: SampleReader, order: Windowed) -> None:
        self._reader, self._order = reader, order
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        self._pool = Pool(1, Worker)

    def begin(self, epoch: int, step: int, plan: Plan) -> None:
        """Note that a batch begins, which may have rows of several windows."""
        start, end = step * plan.batch_size, plan.rows
        window_of = partial(self._order.window, epoch)
        last = window_of(end - 1)
        wanted = range(window_of(start), window_of(min(start + plan.batch_size, end) - 1) + 2)
        for window in ((epoch, at) if at <= last else (epoch + 1, 0) for at in wanted):
            if window not in self._recent:
                self._recent.append(window)
                self._pool.submit(partial(self._read, *window, plan))

    def close(self) -> None:
        """End the thread."""
        self._pool.close()

    def _read(self, epoch: int, window: int, plan: Plan, worker: Worker) -> None:
        with contextlib.suppress(Exception):  # the read of a row raises it again
            for _ in self._reader.ahead(self._order.rows_of(epoch, window, plan)):
                if worker.abandoned:
                    return


@dataclass(frozen=True, eq=False)
class BatchMaker:
    """Settles the rows and arrays of batches.

    Args:
        reader: makes samples from rows.
        order: the order of rows.
        seed: of the samples' random generators.
        weights: of all rows.
        own: weights of all rows in the loss of one array.
        transform: of a batch.
        chunk_sizes: rows of a chunk of a batch that is wanted at once, and of one made ahead.
        prefetch: of remote files.
    """

    reader: SampleReader
    order: Order
    seed: int
    weights: Weights | None
    own: OwnWeights
    transform: TriedTransform | None
    chunk_sizes: tuple[int, int]
    prefetch: Prefetch | None = None
    _epochs: dict[Plan, Epochs] = field(default_factory=dict, init=False, repr=False)

    def epochs(self, plan: Plan) -> Epochs:
        """Return the rows of batches by a plan."""
        if plan not in self._epochs:
            self._epochs[plan] = Epochs(self.order, plan)
        return self._epochs[plan]

    @cached_property
    def _buffers(self) -> Buffers:
        return Buffers(self.reader.specs)

    def pending(
        self, epoch: int, step: int, plan: Plan, spread: bool, known: Collection[int]
    ) -> PendingBatch:
        """Return a batch to be made, shared by all workers if `spread`, without `known` rows."""
        reader = self.reader
        _, rows, earlier = self.epochs(plan).batch(epoch, step)
        size, chunks = self.chunk_sizes[0 if spread else 1], []
        for part in (slice(at, at + size) for at in range(0, len(rows), size)):
            some = rows[part].tolist()
            bad = frozenset(known).intersection(some)
            chunk = Chunk(self.seed, epoch, rows[part], earlier[part], bad)
            if reader.store.far:
                left = (row for row in some if row not in bad)
                chunk = replace(chunk, paths=[p for row in left for p in reader.remote_paths(row)])
            chunks.append((chunk, part))
        transform: Callable[[BatchArrays], BatchArrays] | None = None
        if self.transform is not None:
            rng = batch_rng(self.seed, epoch, step, plan.shard[0])
            transform = partial(self.transform, rng=rng, where=f"batch {step} of epoch {epoch}")
        make = partial(self._buffers.batch, len(rows), self._specs(epoch, step, plan, rows))
        weights = None if self.weights is None else self.weights[rows]
        return PendingBatch(
            (epoch, step), plan, rows, chunks, reader, make, transform, weights, self.own,
            self.prefetch,
        )  # fmt: skip

    def _specs(
        self, epoch: int, step: int, plan: Plan, rows: IntArray
    ) -> Mapping[str, Spec] | None:
        """Return the arrays of a batch if they depend on its rows: those of all hosts."""
        padding = self.reader.padding
        if not padding.sizes:
            return None
        if plan.shard[1] > 1:
            rows = self.order.at(epoch, replace(plan, shard=(0, 1)).positions(step))[0]
        return padding.specs(rows, self.reader.specs)
