"""BatchMaker: begins to make any batch of any epoch, on a pool of workers."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from dfgen.loading.batch_transforms import TriedTransform
from dfgen.loading.buffers import BatchArrays, Buffers
from dfgen.loading.generators import batch_rng
from dfgen.loading.order.permutation import Integers
from dfgen.loading.order.plan import Plan, Weights
from dfgen.loading.order.row_order import BatchRows, RowOrder
from dfgen.loading.pending_batch import PendingBatch
from dfgen.loading.workers.chunks import Chunk, ChunkMaker
from dfgen.loading.workers.pool import Pool
from dfgen.samples.features.base import Spec


@dataclass(frozen=True, eq=False)
class BatchMaker:
    """Begins to make batches: settles their rows and arrays, and cuts them into chunks for workers.

    Args:
        pool: of the workers.
        maker: makes the chunks there.
        order: which row stands where in each epoch.
        plan: of an epoch; others may differ in their tail.
        weights: float32 of shape (rows,), what each row counts in the loss, or None.
        transform: of whole batches, or None.
        chunk_sizes: rows of a chunk where all workers share a batch, and where many are under way.
    """

    pool: Pool
    maker: ChunkMaker
    order: RowOrder
    plan: Plan
    weights: Weights | None
    transform: TriedTransform | None
    chunk_sizes: tuple[int, int]

    @cached_property
    def _batch_rows(self) -> BatchRows:
        return BatchRows(self.order, self.plan)

    @cached_property
    def _buffers(self) -> Buffers:
        return Buffers(self.maker.reader.specs)

    def reseeded(self, seed: int, seed_of_order: int | None) -> "BatchMaker":
        """Return a maker of batches by other seeds, and end the workers of this one."""
        maker, order = replace(self.maker, seed=seed), replace(self.order, seed=seed_of_order)
        return replace(self, pool=self.pool.reseeded(maker), maker=maker, order=order)

    def rows(self, epoch: int, step: int, plan: Plan) -> Integers:
        """Return the rows of one batch."""
        rows: Integers = self._batch_rows.batch(epoch, step, plan)[0]
        return rows

    def start(
        self, epoch: int, step: int, plan: Plan, spread: bool, known: Collection[int]
    ) -> PendingBatch:
        """Begin to make a batch; without workers, make it.

        Args:
            epoch: of the batch.
            step: of the batch.
            plan: of the epoch.
            spread: whether the batch is wanted at once, so that all workers should share it.
            known: rows that are not to be read.
        """
        rows, earlier = self._batch_rows.batch(epoch, step, plan)
        arrays = self._buffers.batch(len(rows), self._specs(epoch, step, plan, rows))
        given = None if self.weights is None else self.weights[rows]
        size = self.chunk_sizes[0 if spread else 1]
        starts = range(0, len(rows), size)
        transform = self._transform_of(epoch, step)
        pending = PendingBatch(arrays, rows, (epoch, step), plan, len(starts), given, transform)
        for start in starts:
            part = slice(start, start + size)
            here = known and set(rows[part].tolist()).intersection(known)
            chunk = Chunk(epoch, rows[part], earlier[part], here)
            self.pool.run(partial(pending.run, chunk, part))
        return pending

    def _transform_of(self, epoch: int, step: int) -> Callable[[BatchArrays], BatchArrays] | None:
        if self.transform is None:
            return None
        rng = batch_rng(self.maker.seed, epoch, step, self.plan.shard[0])
        return partial(self.transform, rng=rng, where=f"batch {step} of epoch {epoch}")

    def _specs(
        self, epoch: int, step: int, plan: Plan, rows: Integers
    ) -> Mapping[str, Spec] | None:
        """Return what a batch holds, where that depends on its rows: those of all hosts."""
        reader = self.maker.reader
        if not reader.padding.sizes:
            return None
        if plan.shard[1] > 1:
            rows = self.order.at(epoch, replace(plan, shard=(0, 1)).positions(step))[0]
        return reader.padding.specs(rows, reader.specs)
