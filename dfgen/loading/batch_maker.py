"""BatchMaker: begins to make any batch of any epoch, on a pool of workers."""

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from dfgen.loading.batch_transforms import TriedTransform
from dfgen.loading.buffers import BatchArrays, Buffers
from dfgen.loading.generators import batch_rng
from dfgen.loading.order.epochs import Epochs, Order
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.windows import Windowed
from dfgen.loading.pending_batch import OwnWeights, PendingBatch, Weights
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.workers.chunks import Chunk, ChunkMaker, Expected, making
from dfgen.loading.workers.pool import Pool
from dfgen.loading.workers.threads import Threads, Worker
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray, Spec

_ASKED = 8  # windows that are not asked for again, of all passes that go on at the same time


class NextWindow:
    """Reads the files of a window, and of the next one, when one of its batches begins.

    It runs in a thread, so that no batch waits. If it fails, as without memory, the rows are read
    later.
    """

    def __init__(self, reader: SampleReader, order: Windowed) -> None:
        self._reader, self._order = reader, order
        self._asked: deque[tuple[int, int]] = deque(maxlen=_ASKED)
        self._threads = Threads(1, Worker)

    def __reduce__(self) -> tuple[object, ...]:
        return NextWindow, (self._reader, self._order)

    def begin(self, epoch: int, step: int, plan: Plan) -> None:
        """Note that a batch begins, which may have rows of several windows."""
        start, end = step * plan.batch_size, plan.rows
        window_of = partial(self._order.windows.window, seed=self._order.seed, epoch=epoch)
        last = window_of(end - 1)
        wanted = range(window_of(start), window_of(min(start + plan.batch_size, end) - 1) + 2)
        for asked in ((epoch, at) if at <= last else (epoch + 1, 0) for at in wanted):
            if asked not in self._asked:
                self._asked.append(asked)
                self._threads.submit(partial(self._ask, *asked, plan))

    def close(self) -> None:
        """End the thread."""
        self._threads.close()

    def _ask(self, epoch: int, window: int, plan: Plan, worker: Worker) -> None:
        with contextlib.suppress(Exception):  # the read of a row raises it again
            order = self._order
            rows = order.windows.rows_of(window, plan, seed=order.seed, epoch=epoch)
            for _ in self._reader.ahead(rows):
                if worker.abandoned:
                    return


@dataclass(frozen=True, eq=False)
class BatchMaker:
    """Begins to make batches: settles their rows and arrays, and cuts them into chunks."""

    pool: Pool
    maker: ChunkMaker
    order: Order
    weights: Weights | None  # of all rows
    own: OwnWeights  # of all rows
    transform: TriedTransform | None
    chunk_sizes: tuple[int, int]  # in rows: of a batch wanted at once, and of many under way
    prefetch: Prefetch | None = None  # of remote files

    _epochs: dict[Plan, Epochs] = field(default_factory=dict, init=False, repr=False)

    def epochs(self, plan: Plan) -> Epochs:
        """Return the rows of batches by a plan."""
        if plan not in self._epochs:
            self._epochs[plan] = Epochs(self.order, plan)
        return self._epochs[plan]

    @cached_property
    def _buffers(self) -> Buffers:
        return Buffers(self.maker.reader.specs)

    @cached_property
    def next_window(self) -> NextWindow | None:
        """Reads ahead where rows come in windows."""
        if not isinstance(self.order, Windowed):
            return None
        return NextWindow(self.maker.reader, self.order)

    def reseeded(self, seed: int) -> "BatchMaker":
        """Return a maker of batches by another seed, and end the workers of this one."""
        maker, order = replace(self.maker, seed=seed), self.order.reseeded(seed)
        return replace(self, pool=self.pool.reseeded(maker), maker=maker, order=order)

    def start(
        self,
        epoch: int,
        step: int,
        plan: Plan,
        spread: bool,
        known: Collection[int],
    ) -> PendingBatch:
        """Begin to make a batch, shared by all workers if `spread`, without the `known` rows."""
        _, rows, earlier = self.epochs(plan).batch(epoch, step)
        if self.next_window is not None:
            self.next_window.begin(epoch, step, plan)
        specs = self._specs(epoch, step, plan, rows)
        make = partial(self._buffers.batch, len(rows), specs)
        given = None if self.weights is None else self.weights[rows]
        size = self.chunk_sizes[0 if spread else 1]
        starts = range(0, len(rows), size)
        transform: Callable[[BatchArrays], BatchArrays] | None = None
        if self.transform is not None:
            rng = batch_rng(self.maker.seed, epoch, step, plan.shard[0])
            where = f"batch {step} of epoch {epoch}"
            transform = partial(self._transformed, self.transform, rng=rng, where=where)
        pending = PendingBatch(
            make, rows, (epoch, step), plan, len(starts), given, self.own, transform
        )
        chunks = []
        for start in starts:
            part = slice(start, start + size)
            here = frozenset(known).intersection(rows[part].tolist())
            chunk = Chunk(epoch, rows[part], earlier[part], here)
            if self.prefetch is not None:
                left = (row for row in chunk.rows.tolist() if row not in chunk.known)
                paths = (path for row in left for path in self.maker.reader.remote_paths(row))
                chunk = replace(chunk, ahead=Expected(self.prefetch, paths))
            chunks.append((chunk, part))
        for chunk, part in chunks:
            self.pool.run(partial(pending.run, chunk, part))
        return pending

    def _transformed(
        self, transform: TriedTransform, arrays: BatchArrays, **at: Any
    ) -> BatchArrays:
        with making(self.maker.reader):
            return transform(arrays, **at)

    def _specs(
        self, epoch: int, step: int, plan: Plan, rows: IntArray
    ) -> Mapping[str, Spec] | None:
        """Return what a batch holds, where that depends on its rows: those of all hosts."""
        reader = self.maker.reader
        if not reader.padding.sizes:
            return None
        if plan.shard[1] > 1:
            rows = self.order.at(epoch, replace(plan, shard=(0, 1)).positions(step))[0]
        return reader.padding.specs(rows, reader.specs)
